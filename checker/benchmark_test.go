// This file measures the checker on a large history that is held in memory.

package checker_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// largeHistory is a healthy history of a million sends, made while it is read: so
// that what Check keeps is all that is measured.
type largeHistory struct {
	sends int64
	// read is called when all lines but the last one were read.
	read func()
}

const (
	largePartitions = 12
	largeProducers  = 8
	// largeBatch is how many events one attempt carries, and one poll returns.
	largeBatch = 100
)

func (h largeHistory) Header() *histories.Header {
	return &histories.Header{Run: "large", Clock: "runner", Producer: map[string]string{
		histories.PropertyAcks: "all", histories.PropertyIdempotence: "true", histories.PropertyMaxInFlight: "5",
		histories.PropertyRetries: "2147483647"},
		Topics: []histories.Topic{{Name: "orders", Partitions: largePartitions, Properties: map[string]string{}}}}
}

// Lines gives, batch by batch, the sends of one producer to one partition, their
// attempt, their acknowledgements and a poll of them; then the final read.
func (h largeHistory) Lines(context.Context) iter.Seq2[histories.Entry, error] {
	return func(yield func(histories.Entry, error) bool) {
		number := int64(1)
		give := func(l histories.Line) bool {
			number++
			return yield(histories.Entry{Line: l, Number: number}, nil)
		}
		if !h.run(give) || !h.finalRead(give) {
			return
		}
		if h.read != nil {
			h.read()
		}
		give(&histories.End{Time: 2 * h.sends, Reason: histories.EndFinished})
	}
}

// event is the i-th event of all and its place.
func (h largeHistory) event(i int64) (producer, key int64, at histories.Partition, offset int64, event string) {
	batch := i / largeBatch
	producer, key = batch%largeProducers, batch%largePartitions
	offset = batch/largePartitions*largeBatch + i%largeBatch
	return producer, key, histories.Partition{Topic: "orders", Partition: int32(key)}, offset,
		fmt.Sprintf("producer-%d/k%d/%d", producer, key, offset)
}

func (h largeHistory) run(give func(histories.Line) bool) bool {
	numbers := make([]int64, largeProducers)
	ranks := make([][largePartitions]int64, largeProducers)
	for p := range largeProducers {
		if !give(&histories.Producer{Name: fmt.Sprintf("producer-%d", p), AttemptsVisible: true}) {
			return false
		}
	}
	for i := int64(0); i < h.sends; i += largeBatch {
		producer, key, at, offset, _ := h.event(i)
		process := fmt.Sprintf("producer-%d", producer)
		first := numbers[producer]
		polled := histories.Records{Partition: at, LeaderEpoch: 1}
		for j := range int64(largeBatch) {
			_, _, _, o, event := h.event(i + j)
			s := &histories.Send{OperationID: histories.OperationID{Process: process, Number: first + j}, Time: 2 * i, Event: event,
				Topic: "orders", Partition: histories.Unknown, OrderingKey: fmt.Sprintf("k%d", key), Rank: ranks[producer][key] + j}
			polled.Records = append(polled.Records, histories.Record{Offset: o, Event: event})
			if !give(s) {
				return false
			}
		}
		numbers[producer] += largeBatch
		ranks[producer][key] += largeBatch
		if !give(&histories.Attempt{Process: process, Time: 2 * i, End: 2*i + 1, Topic: "orders", Partition: at.Partition,
			Sends: []histories.Range{{First: first, Last: first + largeBatch - 1}}, Answer: "NONE", Offset: offset}) {
			return false
		}
		for j := range int64(largeBatch) {
			if !give(&histories.SendReturn{OperationID: histories.OperationID{Process: process, Number: first + j}, Time: 2*i + 1,
				Partition: at.Partition, Offset: offset + j}) {
				return false
			}
		}
		id := histories.OperationID{Process: "consumer", Number: i / largeBatch}
		if !give(&histories.PollReturn{OperationID: id, Time: 2*i + 1, Records: []histories.Records{polled}}) {
			return false
		}
	}
	return true
}

func (h largeHistory) finalRead(give func(histories.Line) bool) bool {
	ends := make(map[histories.Partition]int64)
	for i := int64(0); i < h.sends; i += largeBatch {
		_, _, at, offset, _ := h.event(i)
		records := histories.Records{Partition: at, LeaderEpoch: 1}
		for j := range int64(largeBatch) {
			_, _, _, o, event := h.event(i + j)
			records.Records = append(records.Records, histories.Record{Offset: o, Event: event})
		}
		ends[at] = offset + largeBatch
		if !give(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: records}) {
			return false
		}
	}
	for at, end := range ends {
		if !give(&histories.FinalRead{Partition: at, Isolation: histories.ReadUncommitted, HighWatermark: end, LogEnd: end,
			Position: end, SecondHighWatermark: end, SecondLogEnd: end, SecondAfterMs: 1000}) {
			return false
		}
	}
	return true
}

// BenchmarkCheck checks 1.2 million sends, without and with the second judge. The
// time includes making the history; the bytes are what is kept of it once it is
// read.
func BenchmarkCheck(b *testing.B) {
	for _, alone := range []bool{true, false} {
		b.Run(fmt.Sprintf("second-judge=%v", !alone), func(b *testing.B) {
			h := largeHistory{sends: 1_200_000}
			for b.Loop() {
				v, err := checker.Check(b.Context(), h, checker.Options{WithoutSecondJudge: alone})
				if err != nil {
					b.Fatal(err)
				}
				if v.Promises[0].Verdict != checker.Held || v.Counts.InLog != h.sends {
					b.Fatalf("%s, %d in the log", v.Summary, v.Counts.InLog)
				}
			}
			b.ReportMetric(float64(h.sends)*float64(b.N)/b.Elapsed().Seconds(), "sends/s")
			b.ReportMetric(bytesKept(b, h), "kept-bytes/send")
		})
	}
}

// bytesKept checks once more and looks at the live heap when everything is read.
func bytesKept(b *testing.B, h largeHistory) float64 {
	b.Helper()
	before, after := liveHeap(), uint64(0)
	h.read = func() { after = liveHeap() }
	if _, err := checker.Check(b.Context(), h, checker.Options{WithoutSecondJudge: true}); err != nil {
		b.Fatal(err)
	}
	return (float64(after) - float64(before)) / float64(h.sends)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMeasure measures 1.2 million sends that were checked, and says how long that
// takes by what the check took.
func BenchmarkMeasure(b *testing.B) {
	h := largeHistory{sends: 1_200_000}
	began := time.Now()
	v, err := checker.Check(b.Context(), h, checker.Options{WithoutSecondJudge: true})
	if err != nil {
		b.Fatal(err)
	}
	checked := time.Since(began)
	for b.Loop() {
		m, err := checker.Measure(b.Context(), h, v)
		if err != nil {
			b.Fatal(err)
		}
		if m["attempts"] != float64(h.sends/largeBatch) || m["polled"] != float64(h.sends) {
			b.Fatalf("%v attempts, %v polled", m["attempts"], m["polled"])
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/checked.Seconds(), "checks")
	b.ReportMetric(float64(h.sends)*float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}
