// This file holds the fuzz targets: whatever lines a history has, it gets a verdict, can
// be measured and drawn, and takes no more memory than its lines account for.

package checker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// fuzzNumbers are what every numeric field is chosen from: what is usual, what
// stands for unknown, and what no recorder would write.
var fuzzNumbers = []int64{0, 1, 2, 3, 4, 5, 6, 7, 511, 512, 70_000, -1, -2, 1e12, 1 << 60, 1 << 62, math.MaxInt64, math.MaxInt64 - 1,
	math.MinInt64}

// bytesReader turns bytes into the choices of which a history is made.
type bytesReader struct{ data []byte }

func (b *bytesReader) next() int {
	if len(b.data) == 0 {
		return 0
	}
	first := b.data[0]
	b.data = b.data[1:]
	return int(first)
}

func (b *bytesReader) of(texts ...string) string { return texts[b.next()%len(texts)] }
func (b *bytesReader) number() int64             { return fuzzNumbers[b.next()%len(fuzzNumbers)] }
func (b *bytesReader) flag() bool                { return b.next()%2 == 1 }

// small is a partition, a broker or an epoch.
func (b *bytesReader) small() int32 {
	choice := b.next()
	if choice >= 250 {
		return []int32{math.MaxInt32, math.MaxInt32 - 1, math.MinInt32, -2, 1 << 20, 70_000}[choice-250]
	}
	return int32(choice%5) - 1
}

func (b *bytesReader) event() string {
	return b.of("p/k/0", "p/k/1", "p/k/2", "p/k/01", "q/k/0", "", "p/k/", "p/k/999999999", "nobody")
}

func (b *bytesReader) process() string { return b.of("p", "q", "c", "") }

func (b *bytesReader) operation() histories.OperationID {
	return histories.OperationID{Process: b.process(), Number: b.number()}
}

func (b *bytesReader) partition() histories.Partition {
	return histories.Partition{Topic: b.of("t", "u"), Partition: b.small()}
}

func (b *bytesReader) outcome() histories.Outcome {
	return histories.Outcome(b.of("", "ok", "fail", "info", "anything"))
}

func (b *bytesReader) properties() map[string]string {
	if b.flag() {
		return nil
	}
	return map[string]string{histories.PropertyAcks: b.of("0", "1", "all", "-1"), histories.PropertyIdempotence: b.of("true", "false"),
		histories.PropertyDeliveryTimeout: b.of("1000", "no number", "9223372036854775807"), histories.PropertyRetries: b.of("0", "5"),
		histories.PropertyMaxInFlight: b.of("1", "5", "-9223372036854775808", "")}
}

func (b *bytesReader) records() histories.Records {
	records := histories.Records{Partition: b.partition(), LeaderEpoch: b.small()}
	for range b.next() % 4 {
		records.Records = append(records.Records,
			histories.Record{Offset: b.number(), Event: b.event(), Corrupt: b.of("", "", "", "value")})
	}
	return records
}

// line makes a line of any kind.
func (b *bytesReader) line() histories.Line {
	switch b.next() % 16 {
	case 0:
		return &histories.Producer{Name: b.process(), Time: b.number(), Clock: b.of("", "x"), Client: b.of("", "franz-go"),
			Properties: b.properties(), AttemptsVisible: b.flag(), Fresh: b.flag()}
	case 1:
		return &histories.Consumer{Name: b.process(), Time: b.number(), Clock: b.of("", "x"), Continues: b.of("", "c", "p")}
	case 2:
		return &histories.ConsumerClose{Name: b.process(), Time: b.number()}
	case 3, 4:
		return b.send()
	case 5, 6:
		return &histories.SendReturn{OperationID: b.operation(), Time: b.number(), Partition: b.small(), Offset: b.number(),
			Error: b.of("", "", "REQUEST_TIMED_OUT", "MESSAGE_TOO_LARGE", "NO_SUCH"), ClientError: b.of("", "", "MaxBuffered"),
			Closed: b.flag(), Stated: b.outcome()}
	case 7:
		return b.attempt()
	case 8, 9:
		return b.poll()
	case 10:
		return &histories.PositionChange{Process: b.process(), Time: b.number(),
			How:        b.of("assign", "subscribe", "add", "revoke", "seek", "reset", "anything"),
			Partitions: []histories.PartitionPosition{{Partition: b.partition(), Position: b.number()}}}
	case 11:
		return &histories.FaultStart{ID: b.of("f#1", "f#2"), Name: "f", Time: b.number(), Lie: b.flag()}
	case 12:
		return &histories.FaultEnd{ID: b.of("f#1", "f#2"), Time: b.number(), Bit: b.flag(),
			Effects: []string{b.of(histories.EffectUncleanElection, histories.EffectPartitionsAdded, "anything")}}
	case 13:
		return &histories.FinalRecords{Isolation: b.of(histories.ReadUncommitted, histories.ReadCommitted), Records: b.records()}
	case 14:
		return &histories.FinalRead{Partition: b.partition(), Isolation: b.of(histories.ReadUncommitted, histories.ReadCommitted),
			LogStart: b.number(), HighWatermark: b.number(), LogEnd: b.number(), Position: b.number(),
			SecondHighWatermark: b.number(), SecondLogEnd: b.number(), Error: b.of("", "", "", "gone")}
	}
	return b.rareLine()
}

func (b *bytesReader) attempt() *histories.Attempt {
	return &histories.Attempt{Process: b.process(), Time: b.number(), End: b.number(), Topic: b.of("t", "u"), Partition: b.small(),
		Sends:  []histories.Range{{First: b.number(), Last: b.number()}},
		Answer: b.of("", "NONE", "NOT_ENOUGH_REPLICAS", "NO_SUCH", "OUT_OF_ORDER_SEQUENCE_NUMBER", "MESSAGE_TOO_LARGE"),
		Offset: b.number(), Unnamed: b.number(), Broker: b.small(), ProducerID: b.number(), Epoch: int16(b.small()),
		Sequence: int32(b.number()), Reached: b.flag(), BrokerAnswer: b.of("", "", "NONE"), BrokerOffset: b.number(),
		Fault: b.of("", "", "replay#1", "refuse#1"), Bytes: b.number(), Uncompressed: b.number()}
}

// rareLine makes a line of a kind of which a history has few.
func (b *bytesReader) rareLine() histories.Line {
	switch b.next() % 9 {
	case 7:
		return &histories.ReplicaRecords{Partition: b.partition(), Replica: b.small(), Source: b.of("fetch", "segments"),
			LeaderEpoch: b.small(), Records: []histories.ReplicaRecord{
				{Record: histories.Record{Offset: b.number(), Event: b.event(), Corrupt: b.of("", "", "value")}, Digest: b.of("", "d")},
				{Record: histories.Record{Offset: b.number(), Event: b.event()}}}}
	case 8:
		return &histories.ReplicaRead{Partition: b.partition(), Replica: b.small(), Source: b.of("fetch", "segments"),
			LogStart: b.number(), HighWatermark: b.number(), LogEnd: b.number(), Position: b.number(), Error: b.of("", "", "gone")}
	case 4:
		return &histories.ProducerRefused{Name: b.process(), Time: b.number()}
	case 5:
		return &histories.Commit{OperationID: b.operation(), Time: b.number(),
			Offsets: []histories.PartitionPosition{{Partition: b.partition(), Position: b.number()}}}
	case 6:
		return &histories.CommitReturn{OperationID: b.operation(), Time: b.number(), Error: b.of("", "NOT_COORDINATOR")}
	case 0:
		return &histories.ClusterEvent{Time: b.number(), What: b.of(histories.ClusterWhole, histories.ClusterNotWhole, "anything")}
	case 1:
		return &histories.ProducerClose{Name: b.process(), Time: b.number(), Crashed: b.flag()}
	case 2:
		return &histories.Note{Time: b.number(), Text: "a note"}
	}
	return &histories.End{Time: b.number(), Reason: b.of(histories.EndFinished, histories.EndInterrupted, "")}
}

func (b *bytesReader) send() *histories.Send {
	s := &histories.Send{OperationID: b.operation(), Time: b.number(), Event: b.event(), Topic: b.of("t", "u"), Partition: b.small(),
		OrderingKey: b.of("k", ""), Rank: b.number()}
	if b.flag() {
		id := b.operation()
		s.ResendOf = &id
	}
	return s
}

func (b *bytesReader) poll() histories.Line {
	if b.flag() {
		return &histories.Poll{OperationID: b.operation(), Time: b.number()}
	}
	back := &histories.PollReturn{OperationID: b.operation(), Time: b.number(), Stated: b.outcome()}
	for range b.next() % 3 {
		back.Records = append(back.Records, b.records())
	}
	return back
}

func (b *bytesReader) history() *histories.Memory {
	h := &histories.Memory{Head: &histories.Header{Run: "fuzz", Clock: b.of("", "x"), Producer: b.properties()}}
	if b.flag() {
		h.Head.Source = &histories.Source{Format: "fuzz", StatesOutcomes: true, NotApplicable: []string{b.of("one-clock", "anything")}}
	}
	if b.flag() {
		h.Head.Topics = []histories.Topic{{Name: "t", Partitions: b.small(), Start: []int64{b.number()}}}
	}
	if b.flag() {
		h.Head.Cluster = &histories.Cluster{CannotBreak: []string{string(checker.LostWrite), "anything"}}
	}
	for len(b.data) > 0 && len(h.Body) < 200 {
		h.Body = append(h.Body, b.line())
	}
	return h
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("every letter of this sentence is a choice, and so is every sign; there are enough of them for some lines"))
	f.Add([]byte{1, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 15, 14, 1, 1, 1})
	f.Add([]byte{1, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 16, 14, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		h := (&bytesReader{data}).history()
		bounded(t, len(h.Body), func() { judgedAnyhow(t, h) })
	})
}

// FuzzLines has lines as they are written: any text behind a header.
func FuzzLines(f *testing.F) {
	twins, err := filepath.Glob("testdata/*.violated.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, twin := range twins {
		text, err := os.ReadFile(twin)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// A reader has its buffers, whatever it reads.
		bounded(t, 1024+bytes.Count(text, []byte("\n")), func() {
			file, err := histories.OpenBytes("history.jsonl", text)
			if err != nil {
				return
			}
			for _, err := range file.Lines(t.Context()) {
				if cut := (*histories.CutError)(nil); err != nil && !errors.As(err, &cut) {
					return // a clear error: of what the reader says is tested there
				}
			}
			judgedAnyhow(t, file)
		})
	})
}

// judgedAnyhow judges a history by its own configuration and by one that is given, and
// holds the verdicts to what is true of every one.
func judgedAnyhow(t *testing.T, h histories.History) {
	t.Helper()
	given := checker.Options{Windows: checker.WindowsAll, SecondJudgeTimeout: time.Minute,
		Producer: map[string]string{histories.PropertyAcks: "all", histories.PropertyIdempotence: "true",
			histories.PropertyDeliveryTimeout: "120000"}, Topic: map[string]string{"min.insync.replicas": "2"}}
	for _, options := range []checker.Options{{}, given} {
		v, err := checker.Check(t.Context(), h, options)
		if wrong := (*checker.ConfigurationError)(nil); errors.As(err, &wrong) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, v)
		windowsFit(t, v)
		m, err := checker.Measure(t.Context(), h, v)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range m {
			if got, known := m.Value(name); !known || got != value || math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("%s is %v, and %v (known %v) by its name", name, value, got, known)
			}
		}
	}
}

// Memory that judging may take: the tables that it begins with, and a page of offsets and
// what is told of it for each record. One number in a line buys nothing more, however
// large it is.
const (
	memoryAtRest  = 8 << 20
	memoryPerLine = 256 << 10
	timeLimit     = 20 * time.Second
)

// bounded does something, and fails if it took more memory or time than so many lines may.
func bounded(t *testing.T, lines int, do func()) {
	t.Helper()
	// A panic here, not a failure, since nothing else ends what does not return.
	watchdog := time.AfterFunc(timeLimit, func() { panic(fmt.Sprintf("%d lines took more than %s", lines, timeLimit)) })
	defer watchdog.Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(memoryAtRest+lines*memoryPerLine); took > most {
		t.Errorf("%d lines took %d bytes, want %d at most", lines, took, most)
	}
}

// windowsFit: a window that is drawn has something in it.
func windowsFit(t *testing.T, v *checker.Verdict) {
	t.Helper()
	for _, w := range v.Windows {
		if len(w.Appends) == 0 || w.Of < len(w.Appends) || w.LeftOut < 0 {
			t.Errorf("a window of %v has %d appends of %d, %d left out", w.Partition, len(w.Appends), w.Of, w.LeftOut)
		}
		if c := w.Contradiction; c != nil && w.Appends[c[1]].Return >= w.Appends[c[0]].Call {
			t.Errorf("%+v and %+v do not contradict each other", w.Appends[c[0]], w.Appends[c[1]])
		}
	}
}

// wellFormed holds what is true of every verdict.
func wellFormed(t *testing.T, v *checker.Verdict) {
	t.Helper()
	if !slices.Contains([]string{checker.Held, checker.Violated, checker.UnknownWord}, v.Verdict) || v.Summary == "" {
		t.Errorf("the whole is %q (%q)", v.Verdict, v.Summary)
	}
	if len(v.Promises) != len(checker.Anomalies()) || len(v.Anomalies) != len(checker.Anomalies()) {
		t.Errorf("%d promises and %d anomalies of %d", len(v.Promises), len(v.Anomalies), len(checker.Anomalies()))
	}
	for _, p := range v.Promises {
		part := v.Anomalies[p.Name]
		if p.Reason == "" || part.Count != int64(len(part.Instances)) {
			t.Errorf("%s: reason %q, count %d of %d", p.Name, p.Reason, part.Count, len(part.Instances))
		}
		if p.Verdict == checker.Held && part.Count > 0 {
			t.Errorf("%s is held, and %d were found", p.Name, part.Count)
		}
		if p.Verdict == checker.Violated && v.Verdict != checker.Violated {
			t.Errorf("%s is violated, and the whole is %s", p.Name, v.Verdict)
		}
		if part.Count > 0 && len(part.Examples) == 0 {
			t.Errorf("%s has no example", p.Name)
		}
	}
	if v.Counts.Invoked != v.Counts.Acknowledged+v.Counts.Failed+v.Counts.Unknown {
		t.Errorf("the counts do not add up: %+v", v.Counts)
	}
	if _, err := json.Marshal(v); err != nil {
		t.Errorf("the verdict has no JSON form: %v", err)
	}
}
