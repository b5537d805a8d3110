// This file tests the wire between the real client and the real fake: each decision
// as the client, the log and the observer see it.

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

const topic = "t"

// advertised is a listener that says that its address is the proxy's.
type advertised struct {
	net.Listener
	address net.Addr
}

func (a advertised) Addr() net.Addr { return a.address }

// bench is a cluster behind a network, and what the observer saw.
type bench struct {
	network *Network
	seeds   []string
	direct  []string
	proxies []*Proxy

	mu       sync.Mutex
	attempts []Attempt
	names    [][]string
}

func newBench(tb testing.TB, partitions int32) *bench {
	tb.Helper()
	b := &bench{network: NewNetwork()}
	listen := func(string, string) (net.Listener, error) {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address := inner.Addr().String()
		p, err := b.network.Proxy(tb.Context(), int32(len(b.proxies)), "127.0.0.1:0", func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		})
		if err != nil {
			return nil, err
		}
		b.proxies = append(b.proxies, p)
		b.seeds = append(b.seeds, p.Address().String())
		b.direct = append(b.direct, address)
		return advertised{inner, p.Address()}, nil
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(partitions, topic), kfake.ListenFn(listen))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		fake.Close()
		if err := b.network.Close(); err != nil {
			tb.Error(err)
		}
	})
	b.network.Observe(b.observe)
	return b
}

func (b *bench) observe(a *Attempt) {
	var names []string
	err := a.EachHeader("id", func(value []byte) { names = append(names, string(value)) })
	if err != nil {
		names = append(names, err.Error())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts = append(b.attempts, *a)
	b.names = append(b.names, names)
}

// seen gives the attempts, once every request's fate was told.
func (b *bench) seen(tb testing.TB) []Attempt {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	if err := b.network.Settled(ctx); err != nil {
		tb.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.attempts)
}

func (b *bench) client(tb testing.TB, options ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.seeds...), kgo.DefaultProduceTopic(topic), kgo.ClientID("test"),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond })}, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// record is event i.
func record(i int) *kgo.Record {
	id := fmt.Sprint(i)
	return &kgo.Record{Value: []byte("value " + id), Headers: []kgo.RecordHeader{{Key: "other", Value: []byte("x")}, {Key: "id", Value: []byte(id)}}}
}

// produce sends n events one after the other and gives the errors.
func produce(tb testing.TB, client *kgo.Client, n int) []error {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	errs := make([]error, n)
	for i := range n {
		errs[i] = client.ProduceSync(ctx, record(i)).FirstErr()
	}
	return errs
}

// log reads a partition to the given number of records.
func (b *bench) log(tb testing.TB, want int, options ...kgo.Opt) []string {
	tb.Helper()
	client := b.client(tb, append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond))...)
	var values []string
	deadline := time.Now().Add(10 * time.Second)
	for len(values) < want && time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(tb.Context(), 200*time.Millisecond)
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		cancel()
	}
	// One more look: nothing may follow.
	ctx, cancel := context.WithTimeout(tb.Context(), 150*time.Millisecond)
	defer cancel()
	client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	return values
}

// second decides about the second produce request only.
func second(d func() Decision) Interceptor {
	var n atomic.Int64
	return InterceptorFunc(func(x *Exchange) Decision {
		if x.Produce == nil || n.Add(1) != 2 {
			return Pass()
		}
		return d()
	})
}

func TestDecisions(t *testing.T) {
	const unknownServerError, timedOut, duplicate = -1, 7, 46
	for _, c := range []struct {
		rule       string
		decide     func() Decision
		log        int // records in the log after three sends without idempotence
		idempotent int // and with it
		lost       string
		code       int16 // what the client was told; 0: nothing special
		reached    bool
		brokerSaid bool
	}{
		{rule: "a request passes when nobody asks anything of it", decide: Pass, log: 3, idempotent: 3, reached: true},
		{rule: "a lost response is served, and the connection closed", decide: func() Decision { return LoseResponse("f", false) },
			log: 4, idempotent: 3, lost: LostConnection, reached: true, brokerSaid: true},
		{rule: "a stalled response is served, and the connection goes silent", decide: func() Decision { return LoseResponse("f", true) },
			log: 4, idempotent: 3, lost: LostSilence, reached: true, brokerSaid: true},
		{rule: "a request that is cut before never reaches the broker", decide: func() Decision { return CutBefore("f") },
			log: 3, idempotent: 3, lost: LostConnection},
		{rule: "a refusal is answered without the broker", decide: func() Decision { return Refuse("f", 6, false) },
			log: 3, idempotent: 3, code: 6},
		{rule: "a refusal after the append is answered although the broker served it", decide: func() Decision { return Refuse("f", timedOut, true) },
			log: 4, idempotent: 3, code: timedOut, reached: true, brokerSaid: true},
		{rule: "a duplicate sequence number after the append is taken for success", decide: func() Decision { return Refuse("f", duplicate, true) },
			log: 3, idempotent: 3, code: duplicate, reached: true, brokerSaid: true},
		{rule: "a request that is held back arrives late", decide: func() Decision { return HoldBack("f", SideRequest, 30*time.Millisecond) },
			log: 3, idempotent: 3, reached: true},
		{rule: "an answer that is held back arrives late", decide: func() Decision { return HoldBack("f", SideAnswer, 30*time.Millisecond) },
			log: 3, idempotent: 3, reached: true},
	} {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s (idempotent %v)", c.rule, idempotent), func(t *testing.T) {
				b := newBench(t, 1)
				options, want := []kgo.Opt{kgo.ProduceRequestTimeout(100 * time.Millisecond), kgo.RequestTimeoutOverhead(200 * time.Millisecond)}, c.idempotent
				if !idempotent {
					options, want = append(options, kgo.DisableIdempotentWrite()), c.log
				}
				interceptor := second(c.decide)
				defer b.network.Intercept(interceptor)()
				if err := errors.Join(produce(t, b.client(t, options...), 3)...); err != nil {
					t.Fatalf("the client gave up: %v", err)
				}
				if got := b.log(t, want); len(got) != want {
					t.Errorf("the log holds %d records, want %d: %q", len(got), want, got)
				}
				attempts := b.seen(t)
				if len(attempts) < 3 {
					t.Fatalf("%d attempts were seen", len(attempts))
				}
				a := attempts[1]
				if a.Lost != c.lost || a.Reached != c.reached || (a.BrokerAnswer != nil) != c.brokerSaid {
					t.Errorf("attempt: lost %q reached %v broker's answer %v", a.Lost, a.Reached, a.BrokerAnswer)
				}
				if c.lost == "" && (a.Answer == nil || a.Answer.Code != c.code) {
					t.Errorf("the client was answered %v, want code %d", a.Answer, c.code)
				}
				if wantFault := map[bool]string{true: "f", false: ""}[c.decide().kind != pass]; a.Fault != wantFault {
					t.Errorf("fault %q, want %q", a.Fault, wantFault)
				}
			})
		}
	}
}

func TestEveryBatchHasExactlyOneAttemptThatNamesItsRecords(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			b := newBench(t, 3)
			client := b.client(t, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(2*time.Millisecond))
			const n = 2000
			for i := range n {
				client.Produce(t.Context(), record(i), nil)
			}
			if err := client.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.seen(t)
			named := make(map[string]int)
			for _, names := range b.names {
				for _, name := range names {
					named[name]++
				}
			}
			if len(named) != n {
				t.Fatalf("%d records were named, want %d", len(named), n)
			}
			for name, times := range named {
				if times != 1 {
					t.Fatalf("record %s was named %d times", name, times)
				}
			}
		})
	}
}

func TestEveryProduceVersionIsDecodedAndRefused(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			b := newBench(t, 1)
			versions := kversion.Stable()
			versions.SetMaxKeyVersion(0, version)
			interceptor := second(func() Decision { return Refuse("f", 6, false) })
			defer b.network.Intercept(interceptor)()
			if err := errors.Join(produce(t, b.client(t, kgo.MaxVersions(versions)), 3)...); err != nil {
				t.Fatal(err)
			}
			attempts := b.seen(t)
			if len(attempts) != 4 || attempts[0].Topic != topic || attempts[1].Answer == nil || attempts[1].Answer.Code != 6 ||
				attempts[0].Answer == nil || attempts[0].Answer.BaseOffset != 0 {
				t.Fatalf("attempts: %+v", attempts)
			}
		})
	}
}

func TestWithAcksZeroNothingIsAnswered(t *testing.T) {
	b := newBench(t, 1)
	client := b.client(t, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	if err := errors.Join(produce(t, client, 3)...); err != nil {
		t.Fatal(err)
	}
	if got := b.log(t, 3); len(got) != 3 {
		t.Errorf("the log holds %q", got)
	}
	for _, a := range b.seen(t) {
		if a.Lost != LostAcksZero || a.Answer != nil || !a.Reached {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestTheDialerLeadsThroughTheSameWire(t *testing.T) {
	b := newBench(t, 1)
	dial := b.network.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, b.direct[slices.Index(b.seeds, address)])
	}, func(address string) int32 { return int32(slices.Index(b.seeds, address)) })
	interceptor := second(func() Decision { return LoseResponse("f", false) })
	defer b.network.Intercept(interceptor)()
	if err := errors.Join(produce(t, b.client(t, kgo.Dialer(dial), kgo.DisableIdempotentWrite()), 3)...); err != nil {
		t.Fatal(err)
	}
	if got := b.log(t, 4); len(got) != 4 {
		t.Errorf("the log holds %q", got)
	}
}

func TestAProxyThatRefusesIsABrokerThatIsGone(t *testing.T) {
	b := newBench(t, 1)
	for _, p := range b.proxies {
		p.Refuse(true)
	}
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", b.seeds[0])
	if err == nil {
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err = conn.Read(make([]byte, 1)); errors.Is(err, context.DeadlineExceeded) || err == nil {
			t.Fatalf("the connection stays open: %v", err)
		}
	}
	for _, p := range b.proxies {
		p.Refuse(false)
	}
	if err := errors.Join(produce(t, b.client(t), 1)...); err != nil {
		t.Fatal(err)
	}
}

func TestGarbageEndsTheConnectionAndNothingElse(t *testing.T) {
	b := newBench(t, 1)
	for name, garbage := range map[string][]byte{
		"not Kafka at all":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a frame of four gigabytes":    {0xFF, 0xFF, 0xFF, 0xFF, 0, 0},
		"an empty frame":               {0, 0, 0, 0},
		"a client id longer than all":  {0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 1, 0x7F, 0xFF},
		"a produce request of nothing": {0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 1, 0xFF, 0xFF},
	} {
		t.Run(name, func(t *testing.T) {
			var d net.Dialer
			conn, err := d.DialContext(t.Context(), "tcp", b.seeds[0])
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.Write(garbage); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			for err == nil {
				_, err = conn.Read(make([]byte, 64))
			}
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("the connection stays open")
			}
		})
	}
	if err := errors.Join(produce(t, b.client(t), 1)...); err != nil {
		t.Fatalf("others are disturbed: %v", err)
	}
}

func TestCloseEndsEveryGoroutineEvenSilentAndHeldOnes(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("open connections of every kind", func(t *testing.T) {
		for _, d := range []Decision{LoseResponse("f", true), HoldBack("f", SideRequest, time.Hour), HoldBack("f", SideAnswer, time.Hour)} {
			b := newBench(t, 1)
			b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
				if x.Produce == nil {
					return Pass()
				}
				return d
			}))
			client := b.client(t)
			client.Produce(t.Context(), record(0), nil)
			wait(t, "the request is on its way", func() bool {
				b.network.mu.Lock()
				defer b.network.mu.Unlock()
				return len(b.network.live) > 0
			})
		}
	})
	wait(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// wait polls for a condition with a deadline.
func wait(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			tb.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestLies(t *testing.T) {
	always := func(d Decision) Interceptor {
		return InterceptorFunc(func(x *Exchange) Decision {
			if x.Produce == nil {
				return Pass()
			}
			return d
		})
	}
	var took atomic.Int64
	count := func() { took.Add(1) }
	t.Run("acknowledged and never written", func(t *testing.T) {
		b := newBench(t, 1)
		defer b.network.Intercept(always(AcknowledgeUnwritten("lie", count)))()
		if err := errors.Join(produce(t, b.client(t), 3)...); err != nil {
			t.Fatal(err)
		}
		if got := b.log(t, 0); len(got) != 0 {
			t.Errorf("the log holds %q", got)
		}
		for i, a := range b.seen(t) {
			if a.Answer == nil || a.Answer.Code != 0 || a.Answer.BaseOffset != int64(i) || a.Reached {
				t.Errorf("attempt %d: %+v", i, a.Answer)
			}
		}
	})
	t.Run("written twice, with idempotence", func(t *testing.T) {
		b := newBench(t, 1)
		defer b.network.Intercept(always(WriteTwice("lie", count)))()
		if err := errors.Join(produce(t, b.client(t), 3)...); err != nil {
			t.Fatal(err)
		}
		if got := b.log(t, 6); len(got) != 6 {
			t.Errorf("the log holds %q", got)
		}
	})
	t.Run("one byte of a value is changed, in every compression", func(t *testing.T) {
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression(), kgo.ZstdCompression()} {
			b := newBench(t, 1)
			remove := b.network.Intercept(always(CorruptByte("lie", count)))
			if err := errors.Join(produce(t, b.client(t, kgo.ProducerBatchCompression(codec)), 1)...); err != nil {
				t.Fatal(err)
			}
			remove()
			if got := b.log(t, 1); len(got) != 1 || got[0] == "value 0" || !strings.HasPrefix(got[0], "value ") {
				t.Errorf("the log holds %q", got)
			}
		}
	})
	t.Run("two batches change places", func(t *testing.T) {
		b := newBench(t, 1)
		var armed atomic.Bool
		defer b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
			if x.Produce == nil || !armed.CompareAndSwap(true, false) {
				return Pass()
			}
			return SwapBatches("lie", count)
		}))()
		client := b.client(t, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerBatchMaxBytes(512), kgo.ProducerBatchCompression(kgo.NoCompression()))
		// The client sends one request alone before it pipelines.
		if err := errors.Join(produce(t, client, 1)...); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		for i := range 4 {
			r := record(i + 1)
			r.Value = append(r.Value, bytes.Repeat([]byte("."), 350)...) // it fills a batch
			client.Produce(t.Context(), r, nil)
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, value := range b.log(t, 5) {
			got = append(got, strings.TrimRight(value, "."))
		}
		if want := []string{"value 0", "value 2", "value 1", "value 3", "value 4"}; !slices.Equal(got, want) {
			t.Errorf("the log holds %q, want %q", got, want)
		}
	})
	t.Run("one client reads two records exchanged, another one does not", func(t *testing.T) {
		b := newBench(t, 1)
		client := b.client(t, kgo.ProducerLinger(20*time.Millisecond))
		client.Produce(t.Context(), record(0), nil)
		client.Produce(t.Context(), record(1), nil)
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
			if x.Key != 1 || x.ClientID != "deceived" {
				return Pass()
			}
			return DivergeReads("lie", count)
		}))()
		if got := b.log(t, 2, kgo.ClientID("deceived")); !slices.Equal(got, []string{"value 1", "value 0"}) {
			t.Errorf("the deceived client read %q", got)
		}
		if got := b.log(t, 2); !slices.Equal(got, []string{"value 0", "value 1"}) {
			t.Errorf("the other client read %q", got)
		}
	})
	if took.Load() < 3+3+3+1+1 {
		t.Errorf("the lies took effect %d times only", took.Load())
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 'c', 0, 0, 0})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &connection{network: NewNetwork()}
		x, err := c.exchange(body)
		if err != nil {
			return
		}
		if x.head > len(body) {
			t.Fatalf("the header is longer than the frame: %d of %d", x.head, len(body))
		}
		if x.Produce == nil {
			return
		}
		for i := range x.Produce.Batches {
			_ = x.Produce.Batches[i].EachHeader("id", func([]byte) {})
		}
		_ = rewritten(x, func(_ int, raw []byte) ([]byte, bool) { return anonymous(raw), true })
		_, _ = corruption(&flight{exchange: x, decision: CorruptByte("lie", nil)})
		_, _ = refusal(x, 6)
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(make([]byte, batchRecords), "id")
	f.Fuzz(func(_ *testing.T, raw []byte, name string) {
		_ = eachRecord(raw, func(r *Record) { r.Header(name) })
		_ = swapInBatches(raw)
	})
}

// BenchmarkProxy compares producing through the wire with producing past it.
func BenchmarkProxy(b *testing.B) {
	for _, way := range []string{"direct", "through the wire, observed"} {
		b.Run(way, func(b *testing.B) {
			bench := newBench(b, 6)
			var options []kgo.Opt
			if way == "direct" {
				options = append(options, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					var d net.Dialer
					if i := slices.Index(bench.seeds, address); i >= 0 {
						address = bench.direct[i]
					}
					return d.DialContext(ctx, network, address)
				}))
			}
			bench.network.Observe(func(a *Attempt) { _ = a.EachHeader("id", func([]byte) {}) })
			client := bench.client(b, append(options, kgo.ProducerLinger(5*time.Millisecond))...)
			b.ResetTimer()
			for i := range b.N {
				client.Produce(b.Context(), record(i), nil)
			}
			if err := client.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
