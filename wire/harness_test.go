// This file holds what the tests of this package share: a real fake cluster behind a
// network, and a real client.

package wire

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
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
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(partitions, topic), kfake.ListenFn(listen),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "16777216"}))
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
