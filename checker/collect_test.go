// This file tests how the lines of a history are taken in.

package checker_test

import (
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// told tells a history of two partitions and gives the verdict on it.
func told(t *testing.T, tell func(t *tale)) *checker.Verdict {
	t.Helper()
	story := newTale(2)
	tell(story)
	story.end()
	return check(t, &story.Memory)
}

func TestAConsumerThatIsClosedAndOpenedAgainStartsAnew(t *testing.T) {
	for _, c := range []struct {
		rule  string
		close bool
		want  int64
	}{
		{"it is given again what it was given before it closed", true, 0},
		{"one that was not closed steps back", false, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := told(t, func(t *tale) {
				t.done("p", "k", 0)
				t.done("p", "k", 0)
				t.consumer("c", "")
				t.poll("c", 0, 0, 1)
				if c.close {
					t.say(&histories.ConsumerClose{Name: "c", Time: t.now})
				}
				t.consumer("c", "")
				t.poll("c", 0, 0, 1)
			})
			if got := v.Anomalies[checker.BackwardPoll].Count; got != c.want {
				t.Errorf("%d steps back, want %d", got, c.want)
			}
		})
	}
}

// unheardOf is a line of a kind that no history has.
type unheardOf struct{ histories.Line }

func TestALineOfAnUnknownKindIsNotPassedOver(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "a kind of line that is not judged: checker_test.unheardOf") {
			t.Errorf("the panic says %q", text)
		}
	}()
	check(t, &histories.Memory{Head: &histories.Header{}, Body: []histories.Line{unheardOf{}}})
}

func TestOfWhatIsWrongWithAHistoryTheFirstEightAreNamed(t *testing.T) {
	for _, c := range []struct {
		rule, assumption, first string
		tell                    func(t *tale, i int64)
	}{
		{"invocations that go back in time", checker.AssumeTimesForward, "c invoked an operation at 999 ns after one at 1000 ns",
			func(t *tale, i int64) {
				t.say(&histories.Poll{OperationID: histories.OperationID{Process: "c", Number: i}, Time: 1000 - i})
			}},
		{"completions before their invocations", checker.AssumeTimesForward, "operation 0 of p completed at 5 ns before its invocation at 1000000 ns",
			func(t *tale, _ int64) { t.back(t.send("p", "k")).Time = 5 }},
		{"completions without an invocation", checker.AssumeWellFormed, "operation 70 of p completed and was never invoked",
			func(t *tale, i int64) {
				t.say(&histories.SendReturn{OperationID: histories.OperationID{Process: "p", Number: 70 + i}})
			}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := told(t, func(t *tale) {
				for i := range int64(20) {
					c.tell(t, i)
				}
			})
			named := strings.Split(assumption(t, v, c.assumption).Detail, "; ")
			if len(named) != 8 || named[0] != c.first {
				t.Errorf("%d are named, the first is %q, want 8 and %q", len(named), named[0], c.first)
			}
		})
	}
}

// TestAnAcknowledgementWithoutAPartitionIsOfTheOneThatWasAskedFor: a client that was told where
// to write need not say where it wrote.
func TestAnAcknowledgementWithoutAPartitionIsOfTheOneThatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		rule         string
		offset, want int64
	}{
		{"it lies at the offset", 0, 0},
		{"another event lies at the offset", 1, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := told(t, func(t *tale) {
				s, other := t.send("p", "k"), t.send("q", "k")
				s.Partition = 1
				t.acknowledge(s, histories.Unknown, c.offset)
				t.write(1, s)
				t.acknowledge(other, 1, t.write(1, other))
			})
			if got := v.Anomalies[checker.WrongOffset].Count; got != c.want {
				t.Errorf("%d wrong offsets, want %d", got, c.want)
			}
		})
	}
}
