// This file tests the evidence of examples: what is told of each line, how much, and in
// which order.

package checker_test

import (
	"slices"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// exampleOf gives the one example of an anomaly.
func exampleOf(t *testing.T, v *checker.Verdict, name checker.Anomaly) checker.Example {
	t.Helper()
	if len(v.Anomalies[name].Examples) != 1 {
		t.Fatalf("%d examples of %s", len(v.Anomalies[name].Examples), name)
	}
	return v.Anomalies[name].Examples[0]
}

// corrupted tells a history in which the one event of p lies corrupt in the log.
func corrupted(t *testing.T, tell func(t *tale, s *histories.Send)) *histories.Memory {
	t.Helper()
	story := newTale(2)
	s := story.send("p", "k")
	story.write(0, s)
	story.logs[0][0].Corrupt = "value"
	tell(story, s)
	story.end()
	return &story.Memory
}

func TestWhatEvidenceSays(t *testing.T) {
	for _, c := range []struct {
		rule string
		tell func(t *tale, s *histories.Send)
		want string
	}{
		{"an acknowledgement", func(t *tale, s *histories.Send) { t.acknowledge(s, 0, 0) },
			"p was told of operation 0: acknowledged at partition 0 offset 0"},
		{"one without a partition", func(t *tale, s *histories.Send) { t.acknowledge(s, histories.Unknown, 0) },
			"p was told of operation 0: acknowledged at offset 0"},
		{"one without an offset", func(t *tale, s *histories.Send) { t.acknowledge(s, 0, histories.Unknown) },
			"p was told of operation 0: acknowledged, without an offset"},
		{"one that is stated", func(t *tale, s *histories.Send) {
			r := t.back(s)
			r.Stated, r.Partition, r.Offset = histories.OutcomeOK, 0, 0
		}, "p was told of operation 0: acknowledged at partition 0 offset 0"},
		{"another outcome that is stated", func(t *tale, s *histories.Send) { t.back(s).Stated = histories.OutcomeInfo },
			"p was told of operation 0: info"},
		{"nothing", func(t *tale, s *histories.Send) { t.back(s).Closed = true },
			"p was told of operation 0: nothing; the recorder gave up waiting"},
		{"an error of Kafka's", func(t *tale, s *histories.Send) {
			r := t.back(s)
			r.Error, r.Message = "REQUEST_TIMED_OUT", "too late"
		}, "p was told of operation 0: REQUEST_TIMED_OUT (too late)"},
		{"an error of the client's", func(t *tale, s *histories.Send) { t.back(s).ClientError = "RecordTimeout" },
			"p was told of operation 0: RecordTimeout"},
		{"an attempt that was answered", func(t *tale, s *histories.Send) { t.batch(0, 0, s) },
			"p/k/0 went to broker 1 for orders/0 in a batch of 1: answered NONE, base offset 0"},
		{"one that a fault answered in the broker's stead", func(t *tale, s *histories.Send) { t.unreached("NOT_ENOUGH_REPLICAS", 0, s) },
			"p/k/0 went to broker 1 for orders/0 in a batch of 1: answered NOT_ENOUGH_REPLICAS; it never reached the broker [refuse#1]"},
		{"one whose answer was lost", func(t *tale, s *histories.Send) {
			a := t.lost(0, s)
			a.BrokerAnswer, a.BrokerOffset = "NONE", 0
		}, "p/k/0 went to broker 1 for orders/0 in a batch of 1: no answer (connection-closed); " +
			"the broker had answered NONE, base offset 0"},
		{"one whose answer was lost and had no offset", func(t *tale, s *histories.Send) {
			t.lost(0, s).BrokerAnswer = "REQUEST_TIMED_OUT"
		}, "p/k/0 went to broker 1 for orders/0 in a batch of 1: no answer (connection-closed); " +
			"the broker had answered REQUEST_TIMED_OUT"},
		{"a poll", func(t *tale, _ *histories.Send) { t.poll("c", 0, 0) }, "c was given p/k/0 at orders/0 offset 0 (leader epoch 0)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var texts []string
			for _, e := range exampleOf(t, check(t, corrupted(t, c.tell)), checker.Corrupt).Evidence {
				texts = append(texts, e.Text)
			}
			if !slices.Contains(texts, c.want) {
				t.Errorf("the evidence is %q, want %q in it", texts, c.want)
			}
		})
	}
}

// TestEvidenceIsInTheOrderOfTime: an attempt's line is written when its fate is known, and
// the final read has no time.
func TestEvidenceIsInTheOrderOfTime(t *testing.T) {
	h := corrupted(t, func(t *tale, s *histories.Send) {
		t.acknowledge(s, 0, 0)
		t.batch(0, 0, s).Time = s.Time + 1
	})
	final := histories.Line(lines[*histories.FinalRecords](h)[0])
	remove(h, final)
	h.Body = slices.Insert(h.Body, slices.IndexFunc(h.Body, isSend)+1, final)
	var kinds []string
	for _, e := range exampleOf(t, check(t, h), checker.Corrupt).Evidence {
		kinds = append(kinds, e.What)
	}
	if want := []string{"send", "attempt", "return", "final-read"}; !slices.Equal(kinds, want) {
		t.Errorf("the evidence is %v, want %v", kinds, want)
	}
}

func isSend(l histories.Line) bool {
	_, is := l.(*histories.Send)
	return is
}

func TestTheEvidenceOfAnExampleIsBounded(t *testing.T) {
	h := corrupted(t, func(t *tale, _ *histories.Send) {
		for range 100 {
			t.consumer("c", "")
			t.poll("c", 0, 0)
		}
	})
	if x := exampleOf(t, check(t, h), checker.Corrupt); len(x.Evidence) != 48 {
		t.Errorf("%d lines prove it, want 48", len(x.Evidence))
	}
}

func TestAPollThatProvesAnExampleIsSummedUpForItsPartition(t *testing.T) {
	v := told(t, func(t *tale) {
		for range 4 {
			t.done("p", "k", 0)
		}
		t.done("q", "k", 1)
		t.consumer("c", "")
		t.poll("c", 0, 0)
		t.poll("c", 0, 2, 3)
		poll := t.Body[len(t.Body)-1].(*histories.PollReturn)
		poll.Records = append(poll.Records,
			histories.Records{Partition: at(1), Records: []histories.Record{{Offset: 0, Event: "q/k/0"}}},
			histories.Records{Partition: histories.Partition{Topic: "payments"}, Records: []histories.Record{{Offset: 7}}})
	})
	const want = "operation 1 of c returned 2 records of orders/0, offsets 2 to 3"
	evidence := exampleOf(t, v, checker.SkippedPoll).Evidence
	if !slices.ContainsFunc(evidence, func(e checker.Evidence) bool { return e.Text == want }) {
		t.Errorf("the evidence is %+v, want %q in it", evidence, want)
	}
}
