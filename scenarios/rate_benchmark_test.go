// This file holds the measure of what recording does to the rate that clients
// reach: bare and recorded in turn, in one run, on one cluster.

package scenarios

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// offered is how many events a second the producers are offered, for how long.
const (
	offered     = 100_000
	offeredFor  = 5 * time.Second
	offeredEach = 3 // rounds of each
)

// BenchmarkOfferedRate offers 100,000 events a second to four producers, with two
// consumers reading, and reports the rate that is acknowledged within the time, bare
// and recorded, and the second as percent of the first. Run it with -benchtime 1x.
func BenchmarkOfferedRate(b *testing.B) {
	for range b.N {
		var bare, recorded float64
		for range offeredEach {
			bare += offerBare(b) / offeredEach
			recorded += offerRecorded(b) / offeredEach
		}
		b.ReportMetric(bare, "bare/s")
		b.ReportMetric(recorded, "recorded/s")
		b.ReportMetric(100*recorded/bare, "percent")
	}
}

func rateStage(b *testing.B) *stage {
	b.Helper()
	scenario := Default()
	scenario.Seed, scenario.Faults.Asked, scenario.Duration = 1, "none", offeredFor
	scenario.Workload.Producers, scenario.Workload.Rate = 4, offered
	runner, err := Prepare(context.Background(), scenario, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := &stage{Runner: runner, cleanup: context.Background()}
	cluster, err := scenario.Cluster.Start(b.Context(), false, s.enter)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.useCluster(b.Context(), cluster); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.cluster.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// offerRecorded plays the workload as a run does.
func offerRecorded(b *testing.B) float64 {
	b.Helper()
	s := rateStage(b)
	directory, err := runs.Create(filepath.Join(b.TempDir(), "run"))
	if err != nil {
		b.Fatal(err)
	}
	header := s.header()
	writer, err := histories.Create(directory.History(), header)
	if err != nil {
		b.Fatal(err)
	}
	s.recorder, err = clients.NewRecorder(writer, clients.RecorderOptions{Run: header.Run, Seed: 1, Started: header.Started})
	if err != nil {
		b.Fatal(err)
	}
	s.cluster.Wire().Observe(s.recorder.Observe)
	var reading sync.WaitGroup
	stop, err := s.openClients(b.Context(), &reading)
	if err != nil {
		b.Fatal(err)
	}
	rate := measure(b, len(s.producers), func(ctx context.Context, i int) { s.produce(ctx, i, s.producers[i]) },
		func() int64 { return s.recorder.Counts().Acknowledged })
	if err := s.closeClients(stop, &reading); err != nil {
		b.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		b.Fatal(err)
	}
	return rate
}

// offerBare does the same with nothing recorded: the same library, events, wire,
// rate and consumers.
func offerBare(b *testing.B) float64 {
	b.Helper()
	s := rateStage(b)
	w := s.scenario.Workload
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var reading sync.WaitGroup
	defer reading.Wait()
	for range w.Consumers {
		consumer, err := kgo.NewClient(kgo.SeedBrokers(s.connection.Seeds...), kgo.ConsumeTopics(s.scenario.topicNames()...),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			b.Fatal(err)
		}
		reading.Go(func() {
			defer consumer.Close()
			for ctx.Err() == nil {
				consumer.PollRecords(ctx, 500)
			}
		})
	}
	var acknowledged atomic.Int64
	var producers []*kgo.Client
	for range w.Producers {
		producer, err := kgo.NewClient(kgo.SeedBrokers(s.connection.Seeds...))
		if err != nil {
			b.Fatal(err)
		}
		defer producer.Close()
		producers = append(producers, producer)
	}
	events, err := clients.NewEvents("run", 1)
	if err != nil {
		b.Fatal(err)
	}
	rate := measure(b, w.Producers, func(ctx context.Context, i int) { produceBare(ctx, s, events, i, producers[i], &acknowledged) },
		acknowledged.Load)
	cancel()
	return rate
}

func produceBare(ctx context.Context, s *stage, events *clients.Events, index int, producer *kgo.Client, acknowledged *atomic.Int64) {
	w := s.scenario.Workload
	name := fmt.Sprintf("p%d", index)
	sequence := newSequence(1, index, s.scenario.topicNames(), w.Keys)
	pace := pace{perSecond: w.Rate / float64(w.Producers), started: time.Now()}
	number := int64(0)
	for {
		n := pace.due(ctx)
		if n == 0 {
			return
		}
		for range n {
			next := sequence.next()
			payload := events.Payload(clients.Event{Origin: name, Key: next.key, Number: number}, name, number, w.ValueSize)
			number++
			record := &kgo.Record{Topic: next.topic, Key: payload.Key, Value: payload.Value}
			for _, h := range payload.Headers {
				record.Headers = append(record.Headers, kgo.RecordHeader(h))
			}
			producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
				if err == nil {
					acknowledged.Add(1)
				}
			})
		}
	}
}

// measure lets producers work for the time and gives what was acknowledged a second.
func measure(b *testing.B, producers int, produce func(ctx context.Context, i int), acknowledged func() int64) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), offeredFor)
	defer cancel()
	started := time.Now()
	var producing sync.WaitGroup
	for i := range producers {
		producing.Go(func() { produce(ctx, i) })
	}
	<-ctx.Done()
	rate := float64(acknowledged()) / time.Since(started).Seconds()
	producing.Wait()
	return rate
}
