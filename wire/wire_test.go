// This file tests the wire between the real client and the real fake: each decision
// as the client, the log and the observer see it.

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

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
				t.Parallel()
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
				// The observer is told when a fate is known: a retry on a new connection may
				// be told of before what it repeats.
				slices.SortFunc(attempts, func(a, b Attempt) int { return a.Sent.Compare(b.Sent) })
				a := attempts[1]
				if i := slices.IndexFunc(attempts, func(a Attempt) bool { return a.Fault != "" }); i >= 0 {
					a = attempts[i]
				}
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

// witness decides as it is told, and keeps what it is shown.
type witness struct {
	decide Decision
	asked  atomic.Int64
	codes  chan int16
}

func (w *witness) Decide(*Exchange) Decision { return w.decide }

func (w *witness) Asked(x *Exchange) {
	if x.Produce != nil {
		w.asked.Add(1)
	}
}

func (w *witness) Answered(_ *Exchange, answers []*Answer) {
	for _, a := range answers {
		w.codes <- a.Code
	}
}

func TestWhoListensIsShownWhatOthersDecided(t *testing.T) {
	b := newBench(t, 1)
	first := &witness{decide: Refuse("first", 6, false), codes: make(chan int16, 10)}
	second := &witness{decide: Refuse("second", 19, false), codes: make(chan int16, 10)}
	remove := b.network.Intercept(first)
	defer b.network.Intercept(second)()
	client := b.client(t, kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	if err := produce(t, client, 1)[0]; err == nil {
		t.Fatal("the produce was to be refused")
	}
	for name, w := range map[string]*witness{"who decided": first, "who did not": second} {
		select { // it is told before the client is
		case code := <-w.codes:
			if code != 6 || w.asked.Load() != 1 {
				t.Errorf("%s was told of code %d and asked %d times", name, code, w.asked.Load())
			}
		default:
			t.Errorf("%s was not told what the client was answered", name)
		}
	}
	remove()
	_ = produce(t, client, 1)
	if first.asked.Load() != 1 || second.asked.Load() != 2 {
		t.Errorf("%d and %d requests were shown", first.asked.Load(), second.asked.Load())
	}
}

func TestANamedDecisionHoldsBeforeOneWithoutAName(t *testing.T) {
	for _, c := range []struct {
		rule          string
		first, second Decision
		fault         string
		late          bool
	}{
		{"a named one behind it", HoldBack("", SideAnswer, 50*time.Millisecond), Label("replay"), "replay", false},
		{"a named one before it", Label("replay"), HoldBack("", SideAnswer, 50*time.Millisecond), "replay", false},
		{"none that is named", Pass(), HoldBack("", SideAnswer, 50*time.Millisecond), "", true},
		{"the first of two without a name", HoldBack("", SideAnswer, 50*time.Millisecond), HoldBack("", SideAnswer, time.Hour), "", true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := newBench(t, 1)
			defer b.network.Intercept(InterceptorFunc(func(*Exchange) Decision { return c.first }))()
			defer b.network.Intercept(InterceptorFunc(func(*Exchange) Decision { return c.second }))()
			if err := produce(t, b.client(t), 1)[0]; err != nil {
				t.Fatal(err)
			}
			a := b.seen(t)[0]
			if took := a.Ended.Sub(a.Sent); a.Fault != c.fault || c.late && took < 50*time.Millisecond {
				t.Errorf("the fault is %q, want %q; it took %v", a.Fault, c.fault, took)
			}
		})
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
	for name, d := range map[string]Decision{"silent": LoseResponse("f", true), "a request held back": HoldBack("f", SideRequest, time.Hour),
		"an answer held back": HoldBack("f", SideAnswer, time.Hour), "idle": Pass()} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			met := make(chan struct{}, 1000)
			b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
				if x.Produce == nil {
					return Pass()
				}
				met <- struct{}{}
				return d
			}))
			b.client(t).Produce(t.Context(), record(0), nil)
			<-met
			if err := b.network.Close(); err != nil {
				t.Fatal(err)
			}
			wait(t, "no goroutine of the network is left", func() bool {
				all := make([]byte, 1<<20)
				for _, stack := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
					if strings.Contains(stack, "wire.(*connection)") || strings.Contains(stack, "wire.(*Proxy)") {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestLargeRecordsPassBothWays(t *testing.T) {
	b := newBench(t, 1)
	client := b.client(t, kgo.ProducerBatchMaxBytes(16<<20), kgo.BrokerMaxWriteBytes(64<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var sizes []int
	for i, size := range []int{1, maxPooled - 100, maxPooled, 8 << 20} {
		r := record(i)
		r.Value = bytes.Repeat([]byte{byte(i)}, size)
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
	}
	var got []int
	for i, value := range b.log(t, len(sizes), kgo.FetchMaxBytes(64<<20), kgo.FetchMaxPartitionBytes(64<<20)) {
		got = append(got, len(value))
		if strings.Trim(value, string(rune(i))) != "" {
			t.Errorf("record %d is another", i)
		}
	}
	if !slices.Equal(got, sizes) {
		t.Errorf("records of %v bytes, want %v", got, sizes)
	}
}

// Whatever is decided, and wherever the network is closed: every request that was
// decided about has one attempt for each of its batches, and no other one has two.
func TestEveryBatchHasOneFateWhateverHappens(t *testing.T) {
	type name struct {
		connection  int64
		correlation int32
		partition   int32
	}
	for _, p := range append(slices.Clone(producers), struct {
		name    string
		options []kgo.Opt
	}{"with acks=0", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())}}) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 4)
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(5, 6))
			decided, fates := make(map[name]int), make(map[name]int)
			b.network.Observe(func(a *Attempt) {
				mu.Lock()
				defer mu.Unlock()
				fates[name{a.Connection, a.Correlation, a.Partition}]++
				if (a.Answer == nil) != (a.Lost != "") {
					t.Errorf("an attempt is answered or lost, not both: %+v", a)
				}
			})
			b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
				mu.Lock()
				defer mu.Unlock()
				if x.Produce == nil {
					return Pass()
				}
				for _, batch := range x.Produce.Batches {
					decided[name{x.Connection, x.Correlation, batch.Partition}]++
				}
				odd := func(_ string, partition int32) bool { return partition%2 == 1 }
				faults := []Decision{LoseResponse("f", false), LoseResponse("f", true), CutBefore("f"), Refuse("f", 6, false),
					Refuse("f", 7, true), Refuse("f", 6, false).Only(odd), HoldBack("f", SideRequest, time.Millisecond),
					HoldBack("f", SideAnswer, time.Millisecond), WriteTwice("f", nil), SwapBatches("f", nil),
					AcknowledgeUnwritten("f", nil), CorruptByte("f", nil)}
				if i := random.IntN(4 * len(faults)); i < len(faults) {
					return faults[i]
				}
				return Pass()
			}))
			client := b.client(t, append([]kgo.Opt{kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(200),
				kgo.ProduceRequestTimeout(100 * time.Millisecond), kgo.RequestTimeoutOverhead(100 * time.Millisecond)}, p.options...)...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			for i := 0; ctx.Err() == nil; i++ {
				client.Produce(ctx, record(i), nil)
			}
			if err := b.network.Close(); err != nil { // with much on its way
				t.Fatal(err)
			}
			if left := b.network.unsettled.Load(); left != 0 {
				t.Errorf("%d requests have no fate", left)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(fates) < 50 {
				t.Fatalf("%d batches only", len(fates))
			}
			for n := range decided {
				if fates[n] != 1 {
					t.Errorf("%+v has %d fates", n, fates[n])
				}
			}
			for n, times := range fates {
				if times != 1 {
					t.Errorf("%+v has %d fates", n, times)
				}
			}
		})
	}
}
