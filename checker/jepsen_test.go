// This file tests the checker on small histories of which it is known what Jepsen's
// Kafka workload answers. The file of cases lies outside the project and is read
// where it lies.

package checker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// jepsenCases is where the cases lie, unless ACKPROOF_CASES points elsewhere.
const jepsenCases = "../../shared/data/jepsen-cases.json"

// jepsenNames maps upstream's names of error types to ours.
var jepsenNames = map[string]checker.Anomaly{
	"inconsistent-offsets":  checker.Divergence,
	"G1a":                   checker.ImpossibleWrite,
	"lost-write":            checker.LostWrite,
	"duplicate":             checker.Duplicate,
	"poll-skip":             checker.SkippedPoll,
	"int-poll-skip":         checker.SkippedPoll,
	"nonmonotonic-poll":     checker.BackwardPoll,
	"int-nonmonotonic-poll": checker.BackwardPoll,
	"nonmonotonic-send":     checker.OrderViolation,
	"int-nonmonotonic-send": checker.OrderViolation,
	"unseen":                checker.Unseen,
}

// found is what is found of each anomaly, as texts that say which one: the event (or
// the two), the offset for a divergence and a backward poll.
type found map[checker.Anomaly][]string

// jepsenDifferences is every case in which our answer is another one than upstream's,
// with the reason. A case that is marked "follow" and stands here disagrees with its
// mark because the definitions say otherwise; what is taken out of its expectation
// stands in less. One that is marked "differ" has our whole answer in ours.
var jepsenDifferences = map[string]struct {
	reason string
	less   []string
	ours   found
}{
	"poll-skip/resubscribe-with-key": {
		reason: "a subscribe may reset the position, as in nonmonotonic-poll/subscribe-same-key: only the assign keeps it",
		less:   []string{"x/c"},
	},
	"int-nonmonotonic-send/basic": {
		reason: "both sends of the second pair are unknown: an order violation needs two acknowledged ones, a late ghost one",
		less:   []string{"y/d y/b"},
	},
	"poll-skip/abort-does-not-rewind": {reason: "the consumer was given 0, 1, 2 … one after the other", ours: found{}},
	"poll-skip/info-poll-skips": {
		reason: "the consumer was given 0, 1, 2 … one after the other; value 5 was acknowledged and never polled",
		ours:   found{checker.Unseen: {"x/5"}},
	},
	"nonmonotonic-poll/subscribe-same-key": {reason: "a subscribe may reset the position", ours: found{}},
	"nonmonotonic-send/subscribe-other-key": {
		reason: "a change of the consumer's assignment does not excuse a producer", ours: disorderedSends(),
	},
	"nonmonotonic-send/assign-other-key-info": {
		reason: "a change of the consumer's assignment does not excuse a producer", ours: disorderedSends(),
	},
	"duplicate/basic": {
		reason: "acknowledged at 1 and read at 3 is a wrong offset, no duplicate; b, sent later, lies before it",
		ours:   found{checker.WrongOffset: {"x/a"}, checker.RealtimeOrderViolation: {"x/a x/b"}},
	},
	"duplicate/hash-insensitive": {
		reason: "two acknowledgements, and two polls, name different events at one offset; none lies where it was acknowledged",
		ours: found{checker.Divergence: {"x@0", "x@1"}, checker.WrongOffset: {"x/0", "x/1", "x/2", "x/3", "x/4", "x/5", "x/6", "x/7",
			"x/8", "x/9"}, checker.BackwardPoll: slices.Repeat([]string{"x@1"}, 9)},
	},
	"duplicate/aborted-poll": {
		reason: "any poll proves that a record was there, a failed one too",
		ours:   found{checker.WrongOffset: {"x/0"}, checker.ImpossibleWrite: {"x/1"}},
	},
	"empty-history/assign-only": {reason: "nothing was attempted: no anomaly, and the whole is unknown", ours: found{}},
	"probe/read-only-by-fail-poll": {
		reason: "a record that any poll returned was there: not lost, not unseen", ours: found{},
	},
	"probe/failed-send-read-only-by-failed-poll": {
		reason: "any poll that returned it proves that it was there", ours: found{checker.ImpossibleWrite: {"x/1"}},
	},
	"probe/acked-offset-differs-from-polled-offset": {
		reason: "a wrong offset, no duplicate", ours: found{checker.WrongOffset: {"x/1"}},
	},
	"probe/producer-retry-duplicate": {
		reason: "the offsets 0, 1, 2 do not go back", ours: found{checker.Duplicate: {"x/1"}},
	},
	"probe/realtime-reordered-acked-sends": {
		reason: "upstream allows it", ours: found{checker.RealtimeOrderViolation: {"x/1 x/2"}},
	},
	"probe/read-from-the-future":                         {reason: "one clock stamped both", ours: found{checker.FutureRead: {"x/1"}}},
	"probe/upstream-quirk-unseen-false-positive":         {reason: "it was seen", ours: found{}},
	"probe/upstream-quirk-unseen-false-positive-cleared": {reason: "it was seen", ours: found{}},
}

// disorderedSends is our answer where c and d were acknowledged at 3 and 4, and then
// a and b at 1 and 2, and nobody polled.
func disorderedSends() found {
	return found{
		checker.OrderViolation:         {"x/d x/a"},
		checker.RealtimeOrderViolation: {"x/c x/a", "x/d x/a"},
		checker.Unseen:                 {"x/a", "x/b", "x/c", "x/d"},
	}
}

// casesPath gives where the file of cases lies. Where it is absent the test says so
// and is skipped: the only reason for a skip in this project.
func casesPath(t *testing.T) string {
	t.Helper()
	path := jepsenCases
	if elsewhere := os.Getenv("ACKPROOF_CASES"); elsewhere != "" {
		path = elsewhere
	}
	path = filepath.FromSlash(path)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the file of cases is not here (%s); ACKPROOF_CASES can point to it", path)
	}
	return path
}

func TestJepsenCases(t *testing.T) {
	cases, err := histories.OpenNeutralCases(casesPath(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			v, err := checker.Check(context.Background(), c.History, checker.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := findings(v)
			switch difference, differs := jepsenDifferences[c.Name]; c.Ours {
			case "follow":
				follows(t, c, got, difference.less)
			case "differ":
				if !differs {
					t.Fatalf("our answer to a case that differs (%s) stands in no table; it is %v", c.OursWhy, got)
				}
				if !equal(got, difference.ours) {
					t.Errorf("found %v\nwant  %v\nbecause %s (%s)", got, difference.ours, difference.reason, c.OursWhy)
				}
			case "later":
				t.Logf("covered later: %s", c.OursWhy)
			default:
				t.Fatalf("an unknown mark: %q", c.Ours)
			}
			if c.Name == "empty-history/assign-only" && v.Verdict != checker.UnknownWord {
				t.Errorf("nothing was attempted, and the verdict is %s", v.Verdict)
			}
		})
	}
}

// findings gives what a verdict found, in a form that can be compared.
func findings(v *checker.Verdict) found {
	got := make(found)
	for name, part := range v.Anomalies {
		for _, x := range part.Instances {
			text := strings.Join(x.Events, " ")
			if name == checker.Divergence || name == checker.BackwardPoll {
				text = fmt.Sprintf("%s@%d", x.Topic, x.Offset)
			}
			got[name] = append(got[name], text)
		}
		slices.Sort(got[name])
	}
	return got
}

func equal(a, b found) bool {
	return maps.EqualFunc(drop(a), drop(b), func(x, y []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y)))
	})
}

// drop leaves out what is empty.
func drop(f found) found {
	f = maps.Clone(f)
	maps.DeleteFunc(f, func(_ checker.Anomaly, texts []string) bool { return len(texts) == 0 })
	return f
}

// follows checks that what upstream expects was found, what must be absent was not,
// and nothing else where nothing else may be.
func follows(t *testing.T, c histories.NeutralCase, got found, less []string) {
	t.Helper()
	want := expected(t, c)
	for name := range want {
		want[name] = slices.DeleteFunc(want[name], func(text string) bool { return slices.Contains(less, text) })
		if !slices.Equal(slices.Sorted(slices.Values(want[name])), got[name]) {
			t.Errorf("%s: found %v, want %v", name, got[name], want[name])
		}
	}
	var absent []string
	if text := c.Members["expected_absent"]; text != nil {
		if err := json.Unmarshal(text, &absent); err != nil {
			t.Fatal(err)
		}
	}
	for _, upstream := range absent {
		if name := nameOf(t, upstream); len(got[name]) > 0 {
			t.Errorf("%s must be absent, and %v was found", name, got[name])
		}
	}
	if string(c.Members["expected_nothing_else"]) != "true" {
		return
	}
	for name, texts := range got {
		if _, expects := want[name]; !expects && len(texts) > 0 {
			t.Errorf("nothing else must be found, and %s was: %v", name, texts)
		}
	}
}

func nameOf(t *testing.T, upstream string) checker.Anomaly {
	t.Helper()
	name, known := jepsenNames[upstream]
	if !known {
		t.Fatalf("upstream's %q stands in no table", upstream)
	}
	return name
}

// expectation is one error as upstream reports it.
type expectation struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Values  []any  `json:"values"`
	Skipped []any  `json:"skipped"`
	Offset  int64  `json:"offset"`
	Delta   int64  `json:"delta"`
}

// expected gives what upstream expects, in our names. It counts a lost value as
// unseen too, and a value that was seen; ours does neither.
func expected(t *testing.T, c histories.NeutralCase) found {
	t.Helper()
	var byType map[string]json.RawMessage
	if err := json.Unmarshal(c.Expected, &byType); err != nil {
		t.Fatal(err)
	}
	want := make(found)
	for upstream, text := range byType {
		if upstream == "unseen" {
			continue
		}
		var errs []expectation
		if err := json.Unmarshal(text, &errs); err != nil {
			t.Fatalf("%s: %v", upstream, err)
		}
		name := nameOf(t, upstream)
		for _, e := range errs {
			want[name] = append(want[name], textOf(name, e, c.History))
		}
	}
	if text, ok := byType["unseen"]; ok {
		want[checker.Unseen] = unseen(t, c, text, want[checker.LostWrite])
	}
	return want
}

func textOf(name checker.Anomaly, e expectation, h *histories.Memory) string {
	switch name {
	case checker.Divergence:
		return fmt.Sprintf("%s@%d", e.Key, e.Offset)
	case checker.SkippedPoll:
		return fmt.Sprintf("%s/%v", e.Key, e.Skipped[0])
	case checker.BackwardPoll:
		return fmt.Sprintf("%s@%d", e.Key, offsetOf(h, fmt.Sprintf("%s/%v", e.Key, e.Values[1])))
	case checker.OrderViolation:
		return fmt.Sprintf("%s/%v %s/%v", e.Key, e.Values[0], e.Key, e.Values[1])
	default:
		return fmt.Sprintf("%s/%v", e.Key, e.Value)
	}
}

// offsetOf gives where a poll found an event.
func offsetOf(h *histories.Memory, event string) int64 {
	for _, line := range h.Body {
		poll, ok := line.(*histories.PollReturn)
		if !ok {
			continue
		}
		for _, records := range poll.Records {
			for _, r := range records.Records {
				if r.Event == event {
					return r.Offset
				}
			}
		}
	}
	return histories.Unknown
}

func unseen(t *testing.T, c histories.NeutralCase, text json.RawMessage, lost []string) []string {
	t.Helper()
	var reported struct {
		Values map[string][]any `json:"values"`
	}
	if err := json.Unmarshal(text, &reported); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string][]any)
	if text := c.Members["observed_unseen_false_positives"]; text != nil {
		if err := json.Unmarshal(text, &seen); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{}
	for key, values := range reported.Values {
		for _, value := range values {
			event := fmt.Sprintf("%s/%v", key, value)
			if !slices.Contains(lost, event) && !slices.ContainsFunc(seen[key], func(s any) bool { return s == value }) {
				want = append(want, event)
			}
		}
	}
	return want
}
