// This file measures what the wire costs: the same load past it and through it, in
// records a second and in processor time for a record, as the two ends share the
// machine with it.

package wire

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// past leads a client to the brokers themselves.
func (b *bench) past() kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		if i := slices.Index(b.seeds, address); i >= 0 {
			address = b.direct[i]
		}
		return d.DialContext(ctx, network, address)
	})
}

// BenchmarkProxy compares producing and consuming through the wire, every batch
// observed and its records' headers read, with the same past it.
func BenchmarkProxy(b *testing.B) {
	for _, way := range []string{"past the wire", "through the wire"} {
		for _, load := range []string{"produced", "produced and consumed"} {
			b.Run(load+" "+way, func(b *testing.B) {
				bench := newBench(b, 6)
				bench.network.Observe(func(a *Attempt) { _ = a.EachHeader("id", func([]byte) {}) })
				var options []kgo.Opt
				if way == "past the wire" {
					options = append(options, bench.past())
				}
				var consumed atomic.Int64
				if load != "produced" {
					stop := bench.consume(b, &consumed, options...)
					defer stop()
				}
				client := bench.client(b, append(options, kgo.ProducerLinger(5*time.Millisecond))...)
				b.ResetTimer()
				begun := processorTime(b)
				for i := range b.N {
					client.Produce(b.Context(), record(i), nil)
				}
				if err := client.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				if load != "produced" {
					wait(b, "all is consumed", func() bool { return consumed.Load() >= int64(b.N) })
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(processorTime(b)-begun)/float64(b.N), "cpu-ns/record")
			})
		}
	}
}

// consume counts records until it is stopped.
func (b *bench) consume(tb testing.TB, count *atomic.Int64, options ...kgo.Opt) (stop func()) {
	tb.Helper()
	client := b.client(tb, append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			count.Add(int64(client.PollFetches(ctx).NumRecords()))
		}
	}()
	return func() { cancel(); <-done }
}

// processorTime is what this process has taken so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
