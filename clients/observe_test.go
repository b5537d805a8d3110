// This file holds the tests of recording through the wire: a real client and
// cluster with proxies between them, and faults on the way.

package clients

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

// proxied is a listener that says that it is where its proxy is.
type proxied struct {
	net.Listener
	proxy net.Addr
}

func (p proxied) Addr() net.Addr { return p.proxy }

// newProxiedRun is newTestRun with every broker behind a proxy that the recorder
// observes.
func newProxiedRun(t *testing.T, partitions int32) (*testRun, *wire.Network) {
	t.Helper()
	network := wire.NewNetwork()
	var brokers atomic.Int32
	listen := func(kind, address string) (net.Listener, error) {
		inner, err := net.Listen(kind, address)
		if err != nil {
			return nil, err
		}
		proxy, err := network.Proxy(context.Background(), brokers.Add(1)-1, "127.0.0.1:0", func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", inner.Addr().String())
		})
		if err != nil {
			return nil, err
		}
		return proxied{inner, proxy.Address()}, nil
	}
	r := newTestRun(t, partitions, kfake.ListenFn(listen))
	t.Cleanup(func() { _ = network.Close() })
	network.Observe(r.recorder.Observe)
	return r, network
}

// checkAttempts: every send was in an attempt whose answer is what the client says,
// for the partition that it says, and no attempt names what was not sent. It gives
// the attempts of each send.
func (r *testRun) checkAttempts(name string, returned map[int64][]*histories.SendReturn) map[int64][]*histories.Attempt {
	r.Helper()
	attempts := make(map[int64][]*histories.Attempt)
	for _, a := range linesOf[*histories.Attempt](r.lines) {
		if a.Process != name || a.Unnamed != 0 || a.Topic != testTopic || a.End < a.Time {
			r.Fatalf("attempt %+v", a)
		}
		position := int64(0)
		for _, sends := range a.Sends {
			for number := sends.First; number <= sends.Last; number++ {
				attempts[number] = append(attempts[number], a)
				last := returned[number][len(returned[number])-1]
				if a.Answer == "NONE" && last.Offset >= 0 && (last.Partition != a.Partition || last.Offset != a.Offset+position) {
					r.Fatalf("operation %d was acknowledged at %s, its attempt says %s", number,
						place(last.Partition, last.Offset), place(a.Partition, a.Offset+position))
				}
				position++
			}
		}
	}
	for number := range returned {
		if len(attempts[number]) == 0 {
			r.Fatalf("no attempt carried operation %d", number)
		}
	}
	return attempts
}

func TestAttemptsNameTheSendsThatTheyCarry(t *testing.T) {
	for _, properties := range []string{
		"", "acks=0", "acks=1", "enable.idempotence=false,max.in.flight.requests.per.connection=5",
		"compression.type=none", "compression.type=gzip", "compression.type=lz4", "compression.type=zstd",
		"linger.ms=0,batch.size=1024",
	} {
		t.Run("properties "+properties, func(t *testing.T) {
			r, _ := newProxiedRun(t, 3)
			// An escaped name: the stamp's process must be compared in the same form.
			p := r.producerWith(ProducerOptions{Name: "p 1", AttemptsVisible: true, Properties: r.properties(properties)})
			r.send(p, 500, "k1", "k2", "", "k3", "k4")
			if unknown := r.closed(p, 20*time.Second); unknown != 0 {
				t.Fatalf("%d sends were closed as unknown", unknown)
			}
			returned := r.checkSends("p 1")
			eventually(t, "the attempts' lines", func() bool { return attemptedRecords(r) >= 500 })
			attempts := r.checkAttempts("p 1", returned)
			idempotent := attempts[0][0].ProducerID >= 0
			if idempotent != (properties == "" || strings.HasPrefix(properties, "compression") || strings.HasPrefix(properties, "linger")) {
				t.Fatalf("the producer id is %d", attempts[0][0].ProducerID)
			}
			// Without a word about it franz-go compresses.
			checkSizes(t, linesOf[*histories.Attempt](r.lines), properties != "compression.type=none")
			if lost := attempts[0][0].Lost; (lost == histories.LostAcksZero) != (properties == "acks=0") {
				t.Fatalf("lost is %q", lost)
			}
		})
	}
}

// checkSizes: every batch has both sizes; they differ just where it was compressed, and
// then a batch of many records became smaller.
func checkSizes(t *testing.T, attempts []*histories.Attempt, compressed bool) {
	t.Helper()
	smaller := false
	for _, a := range attempts {
		if a.Bytes <= 0 || a.Uncompressed <= 0 || (!compressed && a.Bytes != a.Uncompressed) {
			t.Errorf("a batch of %d bytes, %d without compression", a.Bytes, a.Uncompressed)
		}
		smaller = smaller || a.Bytes < a.Uncompressed
	}
	if smaller != compressed {
		t.Errorf("a batch is smaller than without compression: %t", smaller)
	}
}

func attemptedRecords(r *testRun) (count int) {
	for _, a := range linesOf[*histories.Attempt](r.lines) {
		for _, sends := range a.Sends {
			count += int(sends.Last - sends.First + 1)
		}
	}
	return count
}

// everyNth lets a decision hit every n-th Produce request, most times at most.
func everyNth(n, most int64, decide func() wire.Decision) wire.Interceptor {
	var seen atomic.Int64
	return wire.InterceptorFunc(func(x *wire.Exchange) wire.Decision {
		if x.Produce == nil {
			return wire.Pass()
		}
		if count := seen.Add(1); count%n != 0 || count/n > most {
			return wire.Pass()
		}
		return decide()
	})
}

func TestFaultsOnTheWayShowInTheAttemptsAndNotInTheLog(t *testing.T) {
	for _, c := range []struct {
		rule   string
		decide func() wire.Decision
		lost   string
		answer string
	}{
		{"a lost response", func() wire.Decision { return wire.LoseResponse("f#1", false) }, histories.LostConnection, ""},
		{"a connection that is cut before the broker has the request", func() wire.Decision { return wire.CutBefore("f#1") },
			histories.LostConnection, ""},
		{"a refusal without the append", func() wire.Decision { return wire.Refuse("f#1", 6, false) }, "", "NOT_LEADER_OR_FOLLOWER"},
		{"a refusal after the append", func() wire.Decision { return wire.Refuse("f#1", 7, true) }, "", "REQUEST_TIMED_OUT"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r, network := newProxiedRun(t, 2)
			// Twice: after a refusal, and after a connection that ended with its first answer, franz-go waits for
			// metadata, which it asks for every five seconds at most.
			remove := network.Intercept(everyNth(3, 2, c.decide))
			defer remove()
			p := r.producerWith(ProducerOptions{Name: "p1", AttemptsVisible: true,
				Properties: r.properties("linger.ms=0,batch.size=1024,retry.backoff.ms=5,request.timeout.ms=2000")})
			const count = 100
			for range count / 10 {
				r.send(p, 10, "k1", "k2")
				eventually(t, "a batch to leave", func() bool { return r.recorder.Counts().Attempts > 0 })
			}
			if unknown := r.closed(p, 25*time.Second); unknown != 0 {
				t.Fatalf("%d sends were closed as unknown", unknown)
			}
			returned := r.checkSends("p1")
			r.finalRead(FinalReadOptions{})
			r.checkPlaces(returned, false)
			attempts := r.checkAttempts("p1", returned)
			hit := 0
			for _, of := range attempts {
				for _, a := range of {
					if a.Fault != "f#1" {
						continue
					}
					hit++
					if a.Lost != c.lost || a.Answer != c.answer {
						t.Fatalf("the attempt that was hit says lost %q, answer %q", a.Lost, a.Answer)
					}
				}
			}
			if hit == 0 {
				t.Fatal("no attempt was hit")
			}
		})
	}
}

func TestRequestsOfOthersAreNotRecorded(t *testing.T) {
	r, _ := newProxiedRun(t, 1)
	other, err := kgo.NewClient(kgo.SeedBrokers(r.connection.Seeds...), kgo.ClientID("somebody"))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.ProduceSync(r.context(), &kgo.Record{Topic: testTopic, Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	p := r.producer("")
	r.send(p, 1, "k1")
	r.closed(p, 10*time.Second)
	eventually(t, "our own attempt", func() bool { return r.recorder.Counts().Attempts == 1 })
	if a := linesOf[*histories.Attempt](r.lines); len(a) != 1 || a[0].Process != "p1" {
		t.Fatalf("attempts are %+v", a)
	}
}

func TestRecordsThatAreNoSendsOfTheClientAreCountedAsUnnamed(t *testing.T) {
	r, _ := newProxiedRun(t, 1)
	r.closed(r.producer(""), 0)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.connection.Seeds...), kgo.ClientID("p1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	others := r.recorder.Events().Payload(Event{"p2", "", 0}, "p2", 0, 10)
	err = client.ProduceSync(r.context(), &kgo.Record{Topic: testTopic, Value: []byte("hello")},
		&kgo.Record{Topic: testTopic, Value: others.Value, Headers: []kgo.RecordHeader{kgo.RecordHeader(others.Headers[0])}}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the attempt", func() bool { return r.recorder.Counts().Attempts == 1 })
	if a := linesOf[*histories.Attempt](r.lines)[0]; a.Process != "p1" || a.Unnamed != 2 || len(a.Sends) != 0 {
		t.Fatalf("the attempt is %+v", a)
	}
}

// Several producers at once, with faults: what is recorded must still be whole.
func TestManyProducersThroughAFaultyNetwork(t *testing.T) {
	r, network := newProxiedRun(t, 6)
	defer network.Intercept(everyNth(5, 6, func() wire.Decision { return wire.LoseResponse("lost-response#1", false) }))()
	var names []string
	var all sync.WaitGroup
	for i, properties := range []string{"", "enable.idempotence=false", "acks=1", "compression.type=zstd"} {
		name := fmt.Sprintf("p%d", i)
		names = append(names, name)
		p := r.producerWith(ProducerOptions{Name: name, AttemptsVisible: true,
			Properties: r.properties(strings.Trim(properties+",retry.backoff.ms=5,linger.ms=1,batch.size=4096", ","))})
		all.Go(func() {
			for n := range 1000 {
				if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: fmt.Sprint("k", n%8), ValueSize: 50}); err != nil {
					t.Error(err)
				}
			}
			if _, err := p.Close(r.context(), 25*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, name := range names {
		r.checkSends(name)
	}
	summary := r.finalRead(FinalReadOptions{})
	events := r.events()
	if summary.Complete != 6 || len(events) != 4000 {
		t.Fatalf("%d events are in the log; the final read is %+v", len(events), summary)
	}
	lost := slices.ContainsFunc(linesOf[*histories.Attempt](r.lines), func(a *histories.Attempt) bool { return a.Lost != "" })
	if !lost {
		t.Fatal("no answer was lost")
	}
}
