// This file tests that the verdict on a terminal says what a tired person must know.

package report

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// history is a small run: two acknowledged events of one key; the log is what the
// caller says.
func history(log ...string) *histories.Memory {
	id := func(n int64) histories.OperationID { return histories.OperationID{Process: "p0", Number: n} }
	fresh := histories.OperationID{Process: "fresh", Number: 0}
	partition := histories.Partition{Topic: "t"}
	records := histories.Records{Partition: partition}
	for i, event := range log {
		records.Records = append(records.Records, histories.Record{Offset: int64(i), Event: event})
	}
	end := int64(len(log))
	return &histories.Memory{
		Head: &histories.Header{Run: "r", Topics: []histories.Topic{{Name: "t", Partitions: 1, Properties: map[string]string{}}},
			Producer: map[string]string{"acks": "all", "enable.idempotence": "true", "retries": "5",
				"max.in.flight.requests.per.connection": "5"}},
		Body: []histories.Line{
			&histories.Producer{Name: "p0", AttemptsVisible: true}, &histories.Producer{Name: "fresh", Fresh: true, AttemptsVisible: true},
			&histories.Send{OperationID: id(0), Time: 10, Event: "p0/k/0", Topic: "t", Partition: -1, OrderingKey: "k"},
			&histories.SendReturn{OperationID: id(0), Time: 20, Offset: 0},
			&histories.FaultStart{ID: "lost-response#1", Name: "lost-response", Target: "everything", Time: 25},
			&histories.Send{OperationID: id(1), Time: 30, Event: "p0/k/1", Topic: "t", Partition: -1, OrderingKey: "k", Rank: 1},
			&histories.SendReturn{OperationID: id(1), Time: 40, Offset: 1},
			&histories.FaultEnd{ID: "lost-response#1", Time: 45, Bit: true, Evidence: "it bit"},
			&histories.Send{OperationID: fresh, Time: 50, Event: "f/0", Topic: "t"},
			&histories.SendReturn{OperationID: fresh, Time: 60, Offset: 2},
			&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: records},
			&histories.FinalRead{Partition: partition, Isolation: histories.ReadUncommitted, HighWatermark: end, LogEnd: end,
				Position: end, SecondHighWatermark: end, SecondLogEnd: end},
			&histories.End{Time: 70, Reason: histories.EndFinished},
		},
	}
}

func text(t *testing.T, h *histories.Memory, options Text) string {
	t.Helper()
	v, err := checker.Check(context.Background(), h, checker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := options.Write(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheTextSaysWhatMustBeKnown(t *testing.T) {
	healthy := history("p0/k/0", "p0/k/1", "f/0")
	lossy := history("p0/k/0", "p0/k/0", "f/0")
	cut := history("p0/k/0", "p0/k/1", "f/0")
	cut.Body = cut.Body[:len(cut.Body)-1]
	planted := history("p0/k/0", "p0/k/1", "f/0")
	planted.Body[4].(*histories.FaultStart).Lie = true
	allowed := history("p0/k/0", "p0/k/1", "f/0", "p0/k/0")
	allowed.Head.Producer["enable.idempotence"] = "false"
	for _, c := range []struct {
		rule    string
		history *histories.Memory
		options Text
		first   string
		says    []string
		never   []string
	}{
		{"held is said in the first line, and where to look again", healthy, Text{Directory: "DIR"}, "HELD",
			[]string{"verify check DIR", "3 sent", "lost-response 1"}, []string{"VIOLATED", "\x1b[", "example"}},
		{"violated names the promise, its reason, the event's life and the faults that were on", lossy, Text{Directory: "DIR"}, "VIOLATED",
			[]string{"lost-write  1 time", "promised", "because", "p0/k/1 was acknowledged at t/0 offset 1", "p0 handed over p0/k/1",
				"meanwhile  lost-response#1", "verify check --json DIR", "verify run DIR/scenario.yaml"}, nil},
		{"unknown names the assumption that failed and is not called a pass", cut, Text{}, "UNKNOWN",
			[]string{"assumption failed: history-whole", "not a pass"}, []string{"HELD"}},
		{"a planted broker is said above all else", planted, Text{}, "A PLANTED BROKER WAS JUDGED, NOT KAFKA", []string{"HELD"}, nil},
		{"what is allowed is shown with an example and its reason", allowed, Text{}, "HELD",
			[]string{"duplicate  1 time, which this configuration does not promise", "retries without idempotence"}, []string{"VIOLATED"}},
		{"verbose lists every promise and assumption", healthy, Text{Verbose: true}, "HELD",
			[]string{"epoch-regression", "assumed    final-read-complete: held", "it bit"}, nil},
		{"a terminal gets colours", healthy, Text{Colour: true}, "\x1b[32;1mHELD", nil, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := text(t, c.history, c.options)
			if !strings.HasPrefix(got, c.first) {
				t.Errorf("it begins with %.60q", got)
			}
			for _, says := range c.says {
				if !strings.Contains(got, says) {
					t.Errorf("it does not say %q:\n%s", says, got)
				}
			}
			for _, never := range c.never {
				if strings.Contains(got, never) {
					t.Errorf("it says %q:\n%s", never, got)
				}
			}
		})
	}
}

func TestLongTextIsWrapped(t *testing.T) {
	for _, line := range strings.Split(text(t, history("p0/k/0", "p0/k/1", "f/0"), Text{}), "\n") {
		if len(line) > 100 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAnErrorOfWritingIsGiven(t *testing.T) {
	v, err := checker.Check(context.Background(), history("p0/k/0", "p0/k/1", "f/0"), checker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (Text{}).Write(broken{}, v); err == nil {
		t.Error("the error was swallowed")
	}
}
