// This file tests the measures: small histories with the numbers that they must have,
// random ones against an obvious count, and doc/VERDICT.md against the table.

package checker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// tale tells a small history step by step, a millisecond each.
type tale struct {
	histories.Memory
	now     int64
	numbers map[string]int64
	ranks   map[string]int64
	logs    map[int32][]histories.Record
}

const millisecond = 1_000_000

func newTale(partitions int32) *tale {
	t := &tale{numbers: make(map[string]int64), ranks: make(map[string]int64), logs: make(map[int32][]histories.Record)}
	t.Head = &histories.Header{Run: "r", Clock: generatedClock, Producer: map[string]string{
		histories.PropertyAcks: "all", histories.PropertyIdempotence: "true", histories.PropertyMaxInFlight: "5",
		histories.PropertyRetries: "2147483647"}, Topics: []histories.Topic{{Name: generatedTopic, Partitions: partitions,
		Properties: map[string]string{}}}}
	for _, name := range []string{"p", "q"} {
		t.Body = append(t.Body, &histories.Producer{Name: name, AttemptsVisible: true})
	}
	return t
}

func (t *tale) say(l histories.Line) { t.Body = append(t.Body, l) }

func (t *tale) wait(milliseconds int64) { t.now += milliseconds * millisecond }

// send hands over an event of a key; its identity is process/key/rank.
func (t *tale) send(process, key string) *histories.Send {
	t.wait(1)
	line := process + "/" + key
	s := &histories.Send{OperationID: histories.OperationID{Process: process, Number: t.numbers[process]}, Time: t.now,
		Event: fmt.Sprintf("%s/%d", line, t.ranks[line]), Topic: generatedTopic, Partition: histories.Unknown, OrderingKey: key,
		Rank: t.ranks[line]}
	t.numbers[process]++
	t.ranks[line]++
	t.say(s)
	return s
}

// again hands over the event of an earlier send, by another process or the same.
func (t *tale) again(process string, s *histories.Send) *histories.Send {
	next := t.send(process, s.OrderingKey)
	next.Event, next.ResendOf = s.Event, &s.OperationID
	return next
}

// write appends events to a log, and gives the first one's offset.
func (t *tale) write(partition int32, sends ...*histories.Send) int64 {
	first := int64(len(t.logs[partition]))
	for _, s := range sends {
		t.logs[partition] = append(t.logs[partition], histories.Record{Offset: int64(len(t.logs[partition])), Event: s.Event})
	}
	return first
}

func (t *tale) back(s *histories.Send) *histories.SendReturn {
	t.wait(1)
	r := &histories.SendReturn{OperationID: s.OperationID, Time: t.now, Partition: histories.Unknown, Offset: histories.Unknown}
	t.say(r)
	return r
}

func (t *tale) acknowledge(s *histories.Send, partition int32, offset int64) {
	r := t.back(s)
	r.Partition, r.Offset = partition, offset
}

// batch is an attempt with the sends, which a broker answered as written at an offset.
func (t *tale) batch(sequence int32, offset int64, sends ...*histories.Send) *histories.Attempt {
	t.wait(1)
	a := &histories.Attempt{Process: sends[0].Process, Time: t.now, End: t.now + millisecond/2, Broker: 1, Topic: generatedTopic,
		ProducerID: 7, Sequence: sequence, Answer: "NONE", Offset: offset, Reached: true, BrokerOffset: histories.Unknown}
	for _, s := range sends {
		a.Sends = append(a.Sends, histories.Range{First: s.Number, Last: s.Number})
	}
	t.say(a)
	return a
}

// refused is an attempt that was answered with an error.
func (t *tale) refused(code string, sequence int32, sends ...*histories.Send) *histories.Attempt {
	a := t.batch(sequence, histories.Unknown, sends...)
	a.Answer = code
	return a
}

// unreached is an attempt that a fault answered in the broker's stead.
func (t *tale) unreached(code string, sequence int32, sends ...*histories.Send) {
	a := t.refused(code, sequence, sends...)
	a.Reached, a.Fault = false, "refuse#1"
}

// lost is an attempt without an answer, which reached the broker.
func (t *tale) lost(sequence int32, sends ...*histories.Send) *histories.Attempt {
	a := t.refused("", sequence, sends...)
	a.Lost = histories.LostConnection
	return a
}

// done is an event that is handed over, written and acknowledged.
func (t *tale) done(process, key string, partition int32) *histories.Send {
	s := t.send(process, key)
	t.acknowledge(s, partition, t.write(partition, s))
	return s
}

func (t *tale) consumer(name, continues string) {
	t.say(&histories.Consumer{Name: name, Time: t.now, Continues: continues})
}

func (t *tale) poll(consumer string, partition int32, offsets ...int64) {
	t.wait(1)
	records := histories.Records{Partition: at(partition)}
	for _, o := range offsets {
		records.Records = append(records.Records, histories.Record{Offset: o, Event: t.logs[partition][o].Event})
	}
	t.say(&histories.PollReturn{OperationID: histories.OperationID{Process: consumer, Number: t.numbers[consumer]}, Time: t.now,
		Records: []histories.Records{records}})
	t.numbers[consumer]++
}

// end reads every partition whole.
func (t *tale) end() {
	for p := range t.Head.Topics[0].Partitions {
		end := int64(len(t.logs[p]))
		t.say(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: histories.Records{Partition: at(p),
			Records: t.logs[p]}})
		t.say(&histories.FinalRead{Partition: at(p), Isolation: histories.ReadUncommitted, Time: t.now, HighWatermark: end, LogEnd: end,
			Position: end, SecondHighWatermark: end, SecondLogEnd: end, SecondAfterMs: 1000})
	}
	t.say(&histories.End{Time: t.now, Reason: histories.EndFinished})
}

func measured(t *testing.T, h histories.History) (*checker.Verdict, checker.Measures) {
	t.Helper()
	v := check(t, h)
	m, err := checker.Measure(t.Context(), h, v)
	if err != nil {
		t.Fatal(err)
	}
	return v, m
}

// measureCase is a history and what some of its measures must be.
type measureCase struct {
	rule string
	tell func(t *tale)
	want map[string]float64
}

func testMeasures(t *testing.T, cases []measureCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(2)
			c.tell(story)
			story.end()
			_, m := measured(t, &story.Memory)
			for name, want := range c.want {
				got, known := m.Value(name)
				if !known || got != want {
					t.Errorf("%s is %v (known %v), want %v\n%s", name, got, known, want, show(&story.Memory))
				}
			}
		})
	}
}

func TestSendsAreMeasured(t *testing.T) {
	testMeasures(t, []measureCase{
		{"each outcome is counted, of the run and of the session", func(t *tale) {
			t.done("p", "k", 0)
			t.batch(0, 0, t.send("q", "k")).Answer = "" // never completed
			t.back(t.send("q", "l")).ClientError = "MaxBuffered"
		}, map[string]float64{"invoked": 3, "acknowledged": 1, "failed": 1, "unknown": 1, "invoked{p}": 1, "acknowledged{p}": 1,
			"failed{p}": 0, "invoked{q}": 2, "acknowledged{q}": 0, "failed{q}": 1, "unknown{q}": 1, "in-log": 1, "in-log{p}": 1, "in-log{q}": 0,
			"absent": 2, "absent{p}": 0, "absent{q}": 2}},
		{"what was acknowledged and is lost is absent", func(t *tale) {
			t.acknowledge(t.send("p", "k"), 0, 0)
			t.done("p", "k", 0)
		}, map[string]float64{"lost-write": 1, "absent": 1, "absent{p}": 1, "in-log{p}": 1}},
		{"a fresh producer is counted by the verdict alone", func(t *tale) {
			t.say(&histories.Producer{Name: "fresh", Fresh: true, AttemptsVisible: true})
			t.batch(0, 0, t.done("fresh", "", 0))
			t.done("p", "k", 1)
		}, map[string]float64{"invoked": 2, "acknowledged": 2, "in-log": 2, "attempts": 0, "answers": 0, "in-partition{orders/0}": 0,
			"in-partition{orders/1}": 1, "largest-partition-share": 1}},
		{"the first completion is the error that counts", func(t *tale) {
			s := t.send("p", "k")
			t.back(s).Error = "REQUEST_TIMED_OUT"
			t.acknowledge(s, 0, t.write(0, s))
			t.back(t.send("p", "k")).ClientError = "RecordTimeout"
			t.back(t.send("q", "k")).Error = "REQUEST_TIMED_OUT"
		}, map[string]float64{"errors": 3, "errors{p}": 2, "errors:REQUEST_TIMED_OUT": 2, "errors:REQUEST_TIMED_OUT{p}": 1,
			"errors:RecordTimeout": 1, "errors:RecordTimeout{q}": 0, "unanswered-sends": 0}},
		{"a send that the recorder closed was never answered", func(t *tale) {
			t.back(t.send("p", "k")).Closed = true
			t.send("q", "k")
			t.done("q", "k", 0)
		}, map[string]float64{"unanswered-sends": 2, "unanswered-sends{p}": 1, "unanswered-sends{q}": 1, "errors": 0}},
		{"an answer that comes after the recorder closed the send is one", func(t *tale) {
			s := t.send("p", "k")
			t.back(s).Closed = true
			t.acknowledge(s, 0, t.write(0, s))
		}, map[string]float64{"unanswered-sends": 0, "acknowledged{p}": 1}},
		{"a success may name no offset", func(t *tale) {
			s := t.send("p", "k")
			t.write(0, s)
			t.back(s).Partition = 0
			t.done("p", "k", 0)
		}, map[string]float64{"acknowledged-without-an-offset": 1, "acknowledged-without-an-offset{p}": 1, "acknowledged": 2}},
		{"a copy that no send explains is the library's or the broker's", func(t *tale) {
			s := t.done("p", "k", 0)
			t.write(0, s, s)
		}, map[string]float64{"duplicate": 1, "copies": 2, "copies{p}": 2, "copies{q}": 0, "in-log": 3}},
		{"a copy that the application sent is its own", func(t *tale) {
			s := t.done("p", "k", 0)
			s2 := t.again("q", s)
			t.acknowledge(s2, 0, t.write(0, s2))
		}, map[string]float64{"duplicate": 0, "copies": 0, "application-duplicates": 1, "resends": 1, "in-log{p}": 2, "in-log{q}": 0}},
		{"of three records of an event that was sent twice one is a copy", func(t *tale) {
			s := t.done("p", "k", 0)
			s2 := t.again("p", s)
			t.acknowledge(s2, 0, t.write(0, s2))
			t.write(0, s)
		}, map[string]float64{"duplicate": 1, "copies": 1, "copies{p}": 1}},
		{"what the verdict counts has its name", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(b, 0, t.write(0, b))
			t.write(0, a)
			t.back(a).ClientError = "RecordTimeout"
			t.lost(0, a)
			c, d, e := t.send("q", "k"), t.send("q", "k"), t.send("q", "k")
			t.acknowledge(e, 1, t.write(1, e))
			t.acknowledge(c, 1, t.write(1, c))
			t.acknowledge(d, 1, t.write(1, d))
		}, map[string]float64{"ghosts": 1, "late-ghost": 1, "order-violation": 1, "events-moved": 1, "holes": 0}},
		{"a refused producer is counted, and is no session", func(t *tale) {
			t.say(&histories.ProducerRefused{Name: "r", ClientError: "ConfigException"})
		}, map[string]float64{"refused-producers": 1}},
		{"keys of a producer that lie in two partitions", func(t *tale) {
			t.done("p", "k", 0)
			t.done("p", "k", 1)
			t.done("p", "l", 0)
			t.done("q", "l", 1)
			t.done("q", "m", 1)
			t.done("q", "m", 1)
		}, map[string]float64{"keys-in-two-partitions": 1, "in-partition{orders/0}": 2, "in-partition{orders/1}": 4,
			"largest-partition-share": 4.0 / 6}},
		{"what has no key lies in two partitions rightly, and what is absent lies in none", func(t *tale) {
			t.done("p", "", 0)
			t.done("p", "", 1)
			t.acknowledge(t.send("p", "k"), 0, 2)
		}, map[string]float64{"keys-in-two-partitions": 0}},
		{"a record that nobody sent is nobody's copy", func(t *tale) {
			s := &histories.Send{Event: "nobody/k/0"}
			t.write(0, s, s)
		}, map[string]float64{"phantom": 1, "copies": 0}},
		{"one event in two partitions puts its key there", func(t *tale) {
			t.write(1, t.done("p", "k", 0))
		}, map[string]float64{"keys-in-two-partitions": 1}},
	})
}

// TestAFreshProducerIsNoSessionOfTheMeasures: it only asks whether the cluster serves again.
func TestAFreshProducerIsNoSessionOfTheMeasures(t *testing.T) {
	story := newTale(1)
	story.say(&histories.Producer{Name: "fresh", Fresh: true, AttemptsVisible: true})
	story.done("fresh", "", 0)
	story.end()
	_, m := measured(t, &story.Memory)
	if got, known := m.Value("invoked{fresh}"); known {
		t.Errorf("invoked{fresh} is %v", got)
	}
}

func TestPacesAreMeasured(t *testing.T) {
	testMeasures(t, []measureCase{
		{"events per second run from the first invocation to the last success", func(t *tale) {
			t.done("p", "k", 0) // at 1 and 2 ms
			t.wait(97)
			t.done("p", "k", 0) // until 101 ms
			t.wait(500)
			t.back(t.send("q", "k")).Error = "REQUEST_TIMED_OUT"
		}, map[string]float64{"events-per-second": 20, "events-per-second{p}": 20, "events-per-second{q}": 0,
			"events-per-second{p}/events-per-second": 1}},
		{"the time without an acknowledgement ends with the last completion", func(t *tale) {
			t.done("p", "k", 0)
			t.wait(9)
			t.done("p", "k", 0) // 11 ms later
			s := t.send("p", "k")
			t.wait(49)
			t.back(s).Error = "REQUEST_TIMED_OUT"
		}, map[string]float64{"longest-time-without-an-acknowledgement-ms{p}": 51, "longest-time-without-an-acknowledgement-ms{q}": 0}},
		{"the time without an acknowledgement begins with the first invocation", func(t *tale) {
			s := t.send("p", "k")
			t.wait(29)
			t.acknowledge(s, 0, t.write(0, s))
			t.done("p", "k", 0)
		}, map[string]float64{"longest-time-without-an-acknowledgement-ms": 30}},
		{"the time without an invocation lies between two sends", func(t *tale) {
			t.wait(100)
			s := t.send("p", "k")
			t.wait(19)
			t.send("q", "k")
			t.wait(4)
			t.send("p", "k")
			t.wait(1000)
			t.acknowledge(s, 0, t.write(0, s))
		}, map[string]float64{"longest-time-without-an-invocation-ms": 20, "longest-time-without-an-invocation-ms{p}": 25,
			"longest-time-without-an-invocation-ms{q}": 0}},
		{"a second send of one number is no invocation", func(t *tale) {
			t.done("p", "k", 0)
			t.wait(100)
			t.send("p", "k").Number = 0
			t.wait(100)
			t.done("p", "k", 0)
		}, map[string]float64{"invoked{p}": 2, "longest-time-without-an-invocation-ms{p}": 203}},
	})
}

func TestPartitionsOfKeysAreMeasured(t *testing.T) {
	// murmur2 puts "21" (-973932308) and "foobar" (-790332482) into partition 0 of two, "abc" (479470107) into 1.
	testMeasures(t, []measureCase{
		{"events lie where murmur2 puts their keys", func(t *tale) {
			t.done("p", "21", 0)
			t.done("p", "foobar", 0)
			t.done("p", "abc", 1)
			t.done("p", "", 1)
		}, map[string]float64{"murmur2-agreements": 1, "murmur2-agreements{p}": 1, "murmur2-agreements{q}": 0}},
		{"a key that lies elsewhere does not agree", func(t *tale) {
			t.done("p", "21", 0)
			t.done("q", "abc", 0)
			t.done("q", "abc", 0)
			t.done("q", "foobar", 0)
		}, map[string]float64{"murmur2-agreements": 0.5, "murmur2-agreements{p}": 1, "murmur2-agreements{q}": 1.0 / 3}},
		{"where the application chose, the key had no say", func(t *tale) {
			t.done("p", "21", 1).Partition = 1
			t.done("p", "abc", 0).Partition = 0
			t.done("p", "21", 0)
		}, map[string]float64{"murmur2-agreements": 1}},
		{"what is sent after partitions were added is not asked", func(t *tale) {
			t.done("p", "21", 0)
			t.say(&histories.FaultStart{ID: "add-partitions#1", Name: "add-partitions", Time: t.now + millisecond})
			t.done("p", "21", 1) // as it begins
			t.say(&histories.FaultEnd{ID: "add-partitions#1", Time: t.now, Bit: true, Effects: []string{histories.EffectPartitionsAdded}})
			t.done("p", "abc", 0)
		}, map[string]float64{"murmur2-agreements": 1, "keys-in-two-partitions": 1}},
		{"of a topic whose partitions are not known nothing is asked", func(t *tale) {
			t.done("p", "21", 0)
			t.send("p", "21").Topic = "payments"
			t.acknowledge(t.Body[len(t.Body)-1].(*histories.Send), 1, 0)
		}, map[string]float64{"acknowledged": 2, "murmur2-agreements": 1}},
	})
}

func TestAttemptsAreMeasured(t *testing.T) {
	testMeasures(t, []measureCase{
		{"attempts and what they were answered", func(t *tale) {
			a, b := t.send("p", "k"), t.send("q", "k")
			t.unreached("NOT_ENOUGH_REPLICAS", 0, a)
			t.lost(0, a)
			t.batch(0, 0, a)
			t.batch(0, 1, b).ProducerID = 8
		}, map[string]float64{"attempts": 4, "attempts{p}": 3, "retried-sends": 1, "retried-sends{p}": 1, "retried-sends{q}": 0,
			"most-attempts-of-a-send": 3, "most-attempts-of-a-send{q}": 1, "unanswered-attempts": 1, "unanswered-attempts{p}": 1,
			"answers": 3, "answers:NONE": 2, "answers:NONE{q}": 1, "answers:NOT_ENOUGH_REPLICAS{p}": 1,
			"broker-answers:NOT_ENOUGH_REPLICAS": 0, "broker-answers:NONE{p}": 1, "broker-answers": 2}},
		{"what the broker answered is not what the client was given", func(t *tale) {
			a := t.lost(0, t.send("p", "k"))
			a.BrokerAnswer, a.BrokerOffset = "NONE", 0
			b := t.refused("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 1, t.send("p", "k"))
			b.BrokerAnswer, b.BrokerOffset = "NONE", 1
		}, map[string]float64{"broker-answers:NONE": 2, "broker-answers": 2, "answers": 1, "answers:NOT_ENOUGH_REPLICAS_AFTER_APPEND": 1,
			"broker-answers:NOT_ENOUGH_REPLICAS_AFTER_APPEND": 0}},
		{"what a replay sends is no attempt of the client", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.batch(0, 0, a)
			t.batch(1, 1, b)
			t.batch(1, 1, b).Fault = "replay#1"
			t.batch(0, 0, a).Fault = "replay#1"
			t.batch(0, 9, a).Fault = "replay#1"
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 0, a).Fault = "replay#1"
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 0, a).Fault = "replay#1"
			t.lost(0, a).Fault = "replay#1"
		}, map[string]float64{"attempts": 2, "retried-sends": 0, "answers": 2, "unanswered-attempts": 0, "replayed-recognised": 2,
			"replayed-refused": 2, "replayed-answers": 5, "replayed-answers:NONE": 3, "replayed-answers:OUT_OF_ORDER_SEQUENCE_NUMBER": 2,
			"recognised-retries": 0, "gap-refused": 0}},
		{"a replay of what was never said to be written recognises nothing", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.lost(0, a)
			t.batch(1, 1, b)
			t.batch(0, 1, a).Fault = "replay#1"
			t.batch(2, 1, a).Fault = "replay#1"
		}, map[string]float64{"replayed-recognised": 0, "replayed-answers": 2}},
		{"a retry that is answered with the first offset was recognised", func(t *tale) {
			s := t.send("p", "k")
			first := t.lost(0, s)
			first.BrokerAnswer, first.BrokerOffset = "NONE", 4
			t.batch(0, 4, s)
			t.batch(0, 4, s)
			t.batch(0, 4, s).Broker = 2
		}, map[string]float64{"recognised-retries": 3, "recognised-retries{p}": 3, "recognised-elsewhere": 1, "recognised-elsewhere{p}": 1}},
		{"the first offset, the first sequence number and the first producer id are 0", func(t *tale) {
			s := t.send("p", "k")
			t.batch(0, 0, s).ProducerID = 0
			t.batch(0, 0, s).ProducerID = 0
		}, map[string]float64{"recognised-retries": 1}},
		{"a retry that is answered with another offset was written again", func(t *tale) {
			s := t.send("p", "k")
			t.batch(0, 4, s)
			t.batch(0, 5, s)
		}, map[string]float64{"recognised-retries": 0}},
		{"a success without an offset recognises nothing", func(t *tale) {
			s := t.send("p", "k")
			t.batch(0, histories.Unknown, s)
			t.batch(0, histories.Unknown, s)
		}, map[string]float64{"recognised-retries": 0}},
		{"the same sequence number of another epoch or partition is another batch", func(t *tale) {
			s := t.send("p", "k")
			t.batch(0, 4, s)
			t.batch(0, 4, s).Epoch = 1
			t.batch(0, 4, t.send("p", "k")).Partition = 1
		}, map[string]float64{"recognised-retries": 0, "sends-under-two-epochs": 1, "sends-to-two-partitions": 0}},
		{"without idempotence there is nothing to recognise", func(t *tale) {
			s := t.send("p", "k")
			for range 2 {
				a := t.batch(histories.Unknown, 4, s)
				a.ProducerID, a.Epoch = histories.Unknown, histories.Unknown
			}
		}, map[string]float64{"recognised-retries": 0, "retried-sends": 1, "sends-under-two-epochs": 0}},
		{"nor where the producer id or the sequence number is not known", func(t *tale) {
			s := t.send("p", "k")
			for range 2 {
				t.batch(histories.Unknown, 4, s)
				t.batch(0, 4, s).ProducerID = histories.Unknown
			}
		}, map[string]float64{"recognised-retries": 0}},
		{"sends under two epochs, or two producer ids", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("q", "k")
			t.lost(0, a, b)
			t.batch(0, 0, a, b).Epoch = 1
			t.lost(0, c)
			t.batch(0, 2, c).ProducerID = 9
		}, map[string]float64{"sends-under-two-epochs": 3, "sends-under-two-epochs{p}": 2, "sends-under-two-epochs{q}": 1}},
		{"a send that stays under its epoch and in its partition, though others were before it", func(t *tale) {
			t.batch(0, 0, t.send("p", "k"))
			s := t.send("q", "k")
			for range 2 {
				a := t.batch(0, 0, s)
				a.ProducerID, a.Partition = 8, 1
			}
		}, map[string]float64{"sends-under-two-epochs": 0, "sends-to-two-partitions": 0, "retried-sends": 1}},
		{"a send that goes to two partitions", func(t *tale) {
			s := t.send("p", "k")
			t.lost(0, s)
			t.batch(0, 0, s).Partition = 1
			t.batch(0, 0, t.send("q", "k")).Partition = 1
		}, map[string]float64{"sends-to-two-partitions": 1, "sends-to-two-partitions{p}": 1, "sends-to-two-partitions{q}": 0}},
	})
}

func TestSequencesAreMeasured(t *testing.T) {
	testMeasures(t, []measureCase{
		{"what skips a sequence number is refused", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("p", "k")
			t.batch(0, 0, a)
			t.unreached("NOT_LEADER_OR_FOLLOWER", 1, b)
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 2, c)
			t.batch(1, 1, b)
			t.batch(2, 2, c)
		}, map[string]float64{"gap-refused": 1, "gap-refused{p}": 1, "gap-accepted": 0}},
		{"what is too old for the broker's memory is no gap", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			first := t.lost(0, a)
			first.BrokerAnswer, first.BrokerOffset = "NONE", 0
			t.batch(1, 1, b)
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 0, a)
		}, map[string]float64{"gap-refused": 0, "gap-accepted": 0}},
		{"what may have been written before is no gap", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.lost(0, a)
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 1, b)
			t.lost(2, t.send("p", "k"))
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 2, b)
		}, map[string]float64{"gap-refused": 0}},
		{"a batch that is written behind a gap was accepted", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.batch(0, 0, a)
			t.batch(2, 1, b)
		}, map[string]float64{"gap-accepted": 1, "gap-accepted{p}": 1}},
		{"a first batch whose sequence is not the first was accepted behind a gap", func(t *tale) {
			t.batch(17, 0, t.send("p", "k"))
		}, map[string]float64{"gap-accepted": 1}},
		{"a batch that is written before the one before it was accepted behind a gap", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.batch(1, 0, b)
			t.batch(0, 1, a)
		}, map[string]float64{"gap-accepted": 1}},
		{"lines of attempts stand in the order of their answers", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.batch(1, 1, b)
			t.batch(0, 0, a).Time = 0 // its answer was held back
		}, map[string]float64{"gap-accepted": 0}},
		{"behind a batch of which nothing is known there may be no gap", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.lost(0, a)
			t.batch(1, 1, b)
		}, map[string]float64{"gap-accepted": 0}},
		{"behind a batch that never reached the broker there is one", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.lost(0, a).Reached = false
			t.batch(1, 0, b)
		}, map[string]float64{"gap-accepted": 1}},
		{"what was refused for another reason, or by a fault, is no refused gap", func(t *tale) {
			a, c := t.send("p", "k"), t.send("p", "k")
			t.batch(0, 0, a)
			t.refused("NOT_LEADER_OR_FOLLOWER", 2, c)
			t.unreached("OUT_OF_ORDER_SEQUENCE_NUMBER", 2, c)
		}, map[string]float64{"gap-refused": 0}},
		{"the first sequence number skips none", func(t *tale) {
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 0, t.send("p", "k"))
		}, map[string]float64{"gap-refused": 0}},
		{"what was written before is no gap, though the answer to a retry came first", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			first := t.now + millisecond
			t.wait(10)
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 1, b)
			t.batch(0, 0, a)              // the retry
			t.batch(0, 0, a).Time = first // its answer was held back
		}, map[string]float64{"gap-refused": 0, "recognised-retries": 1}},
		{"of two at the same time nobody knows which was the first", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("q", "k")
			written := t.batch(0, 0, a)
			t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 1, b).Time = written.Time
			open, behind := t.lost(0, c), t.refused("OUT_OF_ORDER_SEQUENCE_NUMBER", 1, c)
			open.Partition, behind.Partition, behind.Time = 1, 1, open.Time
		}, map[string]float64{"gap-refused": 0}},
		{"behind a batch that was refused there is a gap", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.refused("NOT_ENOUGH_REPLICAS", 0, a)
			t.batch(1, 0, b)
		}, map[string]float64{"gap-accepted": 1}},
		{"behind a batch whose answer leaves open whether it was written there may be none", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.refused("REQUEST_TIMED_OUT", 0, a)
			t.batch(1, 1, b)
		}, map[string]float64{"gap-accepted": 0}},
		{"what may have been written fills its own sequence numbers and no others", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.lost(0, a)
			t.batch(2, 1, b)
			t.lost(5, a).Partition = 1
			t.batch(1, 1, b).Partition = 1
		}, map[string]float64{"gap-accepted": 2}},
		{"whether a batch lies behind the one before it is known by two offsets that differ", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.batch(0, 4, a)
			t.batch(1, histories.Unknown, b)
			t.batch(0, 4, a).Partition = 1
			t.batch(1, 4, b).Partition = 1
		}, map[string]float64{"gap-accepted": 0}},
		{"a batch fills as many sequence numbers as it has records", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("p", "k")
			t.batch(0, 0, a, b)
			t.batch(2, 2, c).Unnamed = 1
			t.batch(4, 4, c)
		}, map[string]float64{"gap-accepted": 0}},
		{"each epoch and each partition has its own sequence", func(t *tale) {
			t.batch(0, 0, t.send("p", "k"))
			t.batch(0, 1, t.send("p", "k")).Epoch = 1
			t.batch(0, 0, t.send("p", "k")).Partition = 1
			t.batch(1, 1, t.send("p", "k")).Partition = 1
		}, map[string]float64{"gap-accepted": 0}},
	})
}

func TestBatchesAreMeasured(t *testing.T) {
	testMeasures(t, []measureCase{
		{"sizes are those of the batches whose size is known", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("p", "k")
			first := t.batch(0, 0, a, b)
			first.Bytes, first.Uncompressed, first.End = 100, 300, first.Time+4*millisecond
			second := t.batch(2, 2, c)
			second.Bytes, second.End = 50, second.Time+2*millisecond
			t.batch(3, 3, t.send("q", "k")).End = t.now + 9*millisecond
		}, map[string]float64{"mean-batch-records": 4.0 / 3, "mean-batch-records{p}": 1.5, "mean-batch-bytes{p}": 75, "mean-batch-bytes": 75,
			"bytes-per-record{p}": 50, "compression-ratio{p}": 3, "compression-ratio": 3, "compression-ratio{q}": 0,
			"mean-request-latency-ms{p}": 3, "mean-request-latency-ms": 5}},
		{"what is compressed from how much is asked of batches of which both is known", func(t *tale) {
			both := t.batch(0, 0, t.send("p", "k"))
			both.Bytes, both.Uncompressed = 100, 300
			t.batch(1, 1, t.send("p", "k")).Uncompressed = 900
			t.batch(2, 2, t.send("p", "k")).Bytes = 900
		}, map[string]float64{"compression-ratio": 3}},
		{"a range that ends before it begins holds nothing", func(t *tale) {
			a := t.batch(0, 0, t.send("p", "k"))
			a.Sends = append(a.Sends, histories.Range{First: 5, Last: 2}, histories.Range{First: -5, Last: -3})
		}, map[string]float64{"mean-batch-records": 1}},
		{"what is not answered has no latency", func(t *tale) {
			t.lost(0, t.send("p", "k"))
		}, map[string]float64{"mean-request-latency-ms": 0, "mean-batch-records": 1}},
		{"a batch that is too large and goes on in parts was split", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "k"), t.send("p", "k")
			t.refused("MESSAGE_TOO_LARGE", 0, a, b, c)
			t.batch(0, 0, a)
			t.refused("RECORD_LIST_TOO_LARGE", 1, b, c)
			t.batch(1, 1, b)
			t.batch(2, 2, c)
		}, map[string]float64{"split-batches": 2, "split-batches{p}": 2, "split-batches{q}": 0}},
		{"a batch that is too large and goes on in parts after another try was split", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.refused("MESSAGE_TOO_LARGE", 0, a, b)
			t.lost(0, a, b)
			t.batch(0, 0, a)
		}, map[string]float64{"split-batches": 1}},
		{"a batch that is too large and is sent again as it is was not split", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.refused("MESSAGE_TOO_LARGE", 0, a, b)
			t.refused("MESSAGE_TOO_LARGE", 0, a, b)
			t.batch(0, 0, t.send("p", "k"))
		}, map[string]float64{"split-batches": 0}},
		{"a batch that was refused for another reason and is smaller then was not split", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.refused("NOT_ENOUGH_REPLICAS", 0, a, b)
			t.batch(0, 0, a)
		}, map[string]float64{"split-batches": 0}},
	})
}

func TestConsumersAreMeasured(t *testing.T) {
	write := func(t *tale) {
		for range 3 {
			t.done("p", "k", 0)
		}
	}
	testMeasures(t, []measureCase{
		{"what a session is given that the one before it was given", func(t *tale) {
			write(t)
			t.consumer("c1", "")
			t.poll("c1", 0, 0, 1)
			t.consumer("c2", "c1")
			t.poll("c2", 0, 1, 2)
			t.consumer("c3", "c2")
			t.poll("c3", 0, 0, 2)
		}, map[string]float64{"polled": 6, "polled{c1}": 2, "redelivered": 3, "redelivered{c1}": 0, "redelivered{c2}": 1, "redelivered{c3}": 2}},
		{"what another consumer was given is not given again", func(t *tale) {
			write(t)
			t.consumer("c1", "")
			t.poll("c1", 0, 0, 1, 2)
			t.consumer("c2", "")
			t.poll("c2", 0, 0, 1, 2)
		}, map[string]float64{"redelivered": 0, "polled{c2}": 3}},
		{"nor while other sessions continue each other", func(t *tale) {
			write(t)
			t.consumer("c1", "")
			t.poll("c1", 0, 0, 1, 2)
			t.consumer("c2", "c1")
			t.poll("c3", 0, 0, 1, 2)
		}, map[string]float64{"redelivered": 0}},
		{"a session that continues one of which nothing is known", func(t *tale) {
			write(t)
			t.consumer("c2", "c1")
			t.poll("c2", 0, 0)
		}, map[string]float64{"redelivered": 0, "polled{c2}": 1}},
		{"what a process polled is known, whether it said that it is a consumer or not", func(t *tale) {
			t.say(&histories.Poll{OperationID: histories.OperationID{Process: "c0"}})
			t.consumer("c1", "")
			t.poll("c2", 0)
			t.say(&histories.CommitReturn{OperationID: histories.OperationID{Process: "c3"}})
		}, map[string]float64{"polled{c1}": 0, "polled{c2}": 0, "polled{c3}": 0, "commits{c3}": 1}},
		{"the same offset of another partition is another record", func(t *tale) {
			write(t)
			t.done("p", "l", 1)
			t.consumer("c1", "")
			t.poll("c1", 0, 0)
			t.consumer("c2", "c1")
			t.poll("c2", 1, 0)
		}, map[string]float64{"redelivered": 0}},
		{"sessions that continue each other in a ring end", func(t *tale) {
			write(t)
			t.consumer("c1", "c2")
			t.consumer("c2", "c1")
			t.poll("c1", 0, 0)
			t.poll("c2", 0, 0)
		}, map[string]float64{"redelivered{c2}": 1}},
		{"a commit counts when it was acknowledged", func(t *tale) {
			t.consumer("c1", "")
			for number, failed := range []string{"", "NOT_COORDINATOR", ""} {
				id := histories.OperationID{Process: "c1", Number: int64(number)}
				t.say(&histories.Commit{OperationID: id, Group: "g"})
				t.say(&histories.CommitReturn{OperationID: id, Error: failed})
			}
		}, map[string]float64{"commits": 2, "commits{c1}": 2, "polled{c1}": 0}},
	})
}

func TestAMeasureIsKnownByItsName(t *testing.T) {
	m := checker.Measures{"invoked": 4, "invoked{p}": 4, "polled{c}": 6, "attempts": 2, "answers:NONE{p}": 1, "in-partition{t/0}": 3}
	for _, c := range []struct {
		rule, expression string
		want             float64
		known            bool
	}{
		{"one that is there", "invoked", 4, true},
		{"one that is absent is zero", "retried-sends", 0, true},
		{"an anomaly's name", "duplicate", 0, true},
		{"of a session", "invoked{p}", 4, true},
		{"of a session's that is absent", "errors{p}", 0, true},
		{"about an error", "answers:NONE{p}", 1, true},
		{"about an error that nobody was given", "answers:NOT_ENOUGH_REPLICAS", 0, true},
		{"of a partition", "in-partition{t/0}", 3, true},
		{"a quotient", "invoked{p}/attempts", 2, true},
		{"a quotient of a partition", "in-partition{t/0}/polled{c}", 0.5, true},
		{"a quotient by zero", "invoked/errors", 0, false},
		{"no measure", "invocations", 0, false},
		{"a session that there is not", "invoked{q}", 0, false},
		{"a quotient with a session that there is not", "errors{q}/invoked", 0, false},
		{"a quotient with no measure", "invoked/invocations", 0, false},
		{"two quotients", "invoked/attempts/attempts", 0, false},
		{"the whole run's of one session", "holes{p}", 0, false},
		{"an anomaly of one session", "duplicate{p}", 0, false},
		{"what is not about an error", "attempts:NONE", 0, false},
		{"an error without a name", "answers:", 0, false},
		{"the error behind the session", "answers{p}:NONE", 0, false},
		{"a session without its end", "invoked{p", 0, false},
		{"a session without a name", "invoked{}", 0, false},
		{"a partition's without one", "in-partition", 0, false},
		{"nothing", "", 0, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got, known := m.Value(c.expression); got != c.want || known != c.known {
				t.Errorf("%q is %v (known %v), want %v (%v)", c.expression, got, known, c.want, c.known)
			}
		})
	}
}

func TestMeasuresAgreeWithAnObviousCount(t *testing.T) {
	for seed := range randomCases(t, 500) {
		r := rand.New(rand.NewSource(int64(seed)))
		h := randomHistory(r, r.Intn(4) == 0)
		damage(r, h, r.Intn(4))
		v, m := measured(t, h)
		want := countObviously(h)
		for name, count := range want {
			if got, known := m.Value(name); got != count || (!known && count != 0) {
				t.Fatalf("seed %d: %s is %v (known %v), want %v\n%s", seed, name, got, known, count, show(h))
			}
		}
		for name, count := range map[string]int64{"invoked": v.Counts.Invoked, "acknowledged": v.Counts.Acknowledged,
			"failed": v.Counts.Failed, "unknown": v.Counts.Unknown} {
			sum := 0.0
			for measure, n := range m {
				if strings.HasPrefix(measure, name+"{") {
					sum += n
				}
			}
			for _, l := range lines[*histories.Send](h) {
				if l.Process == "fresh" {
					sum += map[string]float64{"invoked": 1, "acknowledged": 1}[name]
				}
			}
			if m[name] != float64(count) || (sum != float64(count) && name == "invoked") {
				t.Fatalf("seed %d: %s is %v, of all sessions %v, and the verdict counts %d\n%s", seed, name, m[name], sum, count, show(h))
			}
		}
		for measure := range m {
			if _, known := m.Value(measure); !known {
				t.Fatalf("seed %d: %q is there and is no measure", seed, measure)
			}
		}
	}
}

// countObviously counts what can be counted without thinking.
func countObviously(h *histories.Memory) map[string]float64 {
	counts := make(map[string]float64)
	count := func(process string, names ...string) {
		for _, name := range names {
			counts[name]++
			counts[name+"{"+process+"}"]++
		}
	}
	fresh := make(map[string]bool)
	for _, p := range lines[*histories.Producer](h) {
		fresh[p.Name] = p.Fresh
	}
	for _, s := range lines[*histories.Send](h) {
		if fresh[s.Process] {
			continue
		}
		first := (*histories.SendReturn)(nil)
		for _, back := range lines[*histories.SendReturn](h) {
			if first == nil && back.OperationID == s.OperationID && !back.Closed {
				first = back
			}
		}
		switch {
		case first == nil:
			count(s.Process, "unanswered-sends")
		case first.Error != "":
			count(s.Process, "errors", "errors:"+first.Error)
		case first.ClientError != "":
			count(s.Process, "errors", "errors:"+first.ClientError)
		case first.Offset < 0:
			count(s.Process, "acknowledged-without-an-offset")
		}
		carried := 0
		for _, a := range lines[*histories.Attempt](h) {
			if a.Process == s.Process && a.Sends[0].First <= s.Number && s.Number <= a.Sends[0].Last {
				carried++
			}
		}
		if carried > 1 {
			count(s.Process, "retried-sends")
		}
	}
	for _, a := range lines[*histories.Attempt](h) {
		if !fresh[a.Process] {
			count(a.Process, "attempts")
			if a.Answer == "" {
				count(a.Process, "unanswered-attempts")
			} else {
				count(a.Process, "answers", "answers:"+a.Answer)
			}
		}
	}
	for _, p := range lines[*histories.PollReturn](h) {
		for _, records := range p.Records {
			for range records.Records {
				count(p.Process, "polled")
			}
		}
	}
	return counts
}

// failing is a history that cannot be read to its end.
type failing struct {
	*histories.Memory
	err error
}

func (f failing) Lines(ctx context.Context) iter.Seq2[histories.Entry, error] {
	return func(yield func(histories.Entry, error) bool) {
		for entry, err := range f.Memory.Lines(ctx) {
			if !yield(entry, err) {
				return
			}
		}
		yield(histories.Entry{}, f.err)
	}
}

func TestACutHistoryIsMeasuredAsFarAsItGoes(t *testing.T) {
	story := newTale(1)
	story.batch(0, 0, story.done("p", "k", 0))
	_, m := measured(t, failing{&story.Memory, &histories.CutError{Name: "history", Reason: "the disk was full"}})
	if m["attempts"] != 1 || m["invoked{p}"] != 1 {
		t.Errorf("measured %v", m)
	}
}

func TestAHistoryThatCannotBeReadIsNotMeasured(t *testing.T) {
	story := newTale(1)
	story.end()
	v := check(t, &story.Memory)
	broken := errors.New("the disk is gone")
	if _, err := checker.Measure(t.Context(), failing{&story.Memory, broken}, v); !errors.Is(err, broken) {
		t.Errorf("the error is %v, want %v", err, broken)
	}
}

// documentedMeasures reads the table of doc/VERDICT.md.
func documentedMeasures(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../doc/VERDICT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Measures\n")
	if !found {
		t.Fatal("doc/VERDICT.md has no section on measures")
	}
	var rows []string
	for row := range strings.Lines(section) {
		if strings.HasPrefix(row, "| `") {
			rows = append(rows, strings.TrimSpace(row))
		}
	}
	return rows
}

func TestTheDocumentHasTheTableOfMeasures(t *testing.T) {
	var want []string
	for _, m := range checker.MeasureNames() {
		name := "`" + m.Name + "`"
		if m.Coded {
			name += ", `" + m.Name + ":ERROR`"
		}
		of := "run"
		switch {
		case m.Sessions:
			of = "run, session"
		case m.Placed:
			name, of = "`"+m.Name+"{TOPIC/PARTITION}`", "partition"
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", name, of, m.Unit, m.Meaning))
	}
	got := documentedMeasures(t)
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("doc/VERDICT.md lacks the row\n%s", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("doc/VERDICT.md has a row that the table of the code has not\n%s", row)
		}
	}
}
