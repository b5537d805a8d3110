// This file tests what becomes of what a scenario expects.

package checker_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
)

func bound(v float64) *float64 { return &v }

// verdictOf gives a verdict in which some promises are not held.
func verdictOf(promises map[checker.Anomaly]string) *checker.Verdict {
	v := &checker.Verdict{Verdict: checker.Held, Summary: "all is well", Anomalies: make(map[checker.Anomaly]*checker.AnomalyPart)}
	for _, d := range checker.Anomalies() {
		p := checker.PromiseVerdict{Name: d.Name, Verdict: checker.Held}
		part := &checker.AnomalyPart{}
		switch promises[d.Name] {
		case checker.Violated:
			p.Verdict, v.Verdict, part.Count = checker.Violated, checker.Violated, 2
		case checker.NotPromised:
			p.Verdict, part.Count = checker.NotPromised, 2
		case checker.UnknownWord:
			p.Verdict = checker.UnknownWord
			if len(promises) == 1 {
				v.Verdict, v.Summary = checker.UnknownWord, "this history does not suffice to tell: "+string(d.Name)
			}
		}
		v.Promises = append(v.Promises, p)
		v.Anomalies[d.Name] = part
	}
	return v
}

func TestExpect(t *testing.T) {
	broken := func(a checker.Anomaly) map[checker.Anomaly]string {
		return map[checker.Anomaly]string{a: checker.Violated}
	}
	measures := checker.Measures{"invoked": 8, "invoked{p}": 8, "attempts": 10, "duplicate": 2}
	for _, c := range []struct {
		rule     string
		promises map[checker.Anomaly]string
		violates []checker.Anomaly
		expected []checker.Expectation
		want     string
		said     string
	}{
		{"nothing is expected and nothing is broken", nil, nil, nil, checker.AsExpected, "everything is as expected"},
		{"within its bounds", nil, nil, []checker.Expectation{{Measure: "attempts", Least: bound(10), Most: bound(10)}}, checker.AsExpected, ""},
		{"above its most reality differs", nil, nil, []checker.Expectation{{Measure: "attempts", Most: bound(9), Why: "one each"}},
			checker.Otherwise, "attempts is 10, and at most 9 is expected (one each)"},
		{"below its least it proved nothing", nil, nil, []checker.Expectation{{Measure: "retried-sends", Least: bound(1), Why: "a retry"}},
			checker.UnknownWord, "retried-sends is 0, and at least 1 is expected (a retry)"},
		{"below what is exactly expected it proved nothing", nil, nil,
			[]checker.Expectation{{Measure: "attempts", Least: bound(11), Most: bound(11)}}, checker.UnknownWord, "exactly 11 is expected"},
		{"a quotient", nil, nil, []checker.Expectation{{Measure: "invoked{p}/attempts", Least: bound(0.75), Most: bound(0.9)}},
			checker.AsExpected, ""},
		{"a quotient by zero proved nothing", nil, nil, []checker.Expectation{{Measure: "invoked/errors", Most: bound(1)}},
			checker.UnknownWord, "invoked/errors is nothing"},
		{"that there is none of a session that the run did not have proves nothing", nil, nil,
			[]checker.Expectation{{Measure: "errors{q}", Most: bound(0)}}, checker.UnknownWord, "errors{q} is nothing"},
		{"that there is none of a session of the run is as expected", nil, nil,
			[]checker.Expectation{{Measure: "errors{p}", Most: bound(0)}}, checker.AsExpected, ""},
		{"a broken promise is not expected", broken(checker.Duplicate), nil, nil, checker.Otherwise, "the promise against duplicate is broken"},
		{"a broken promise that is expected", broken(checker.Duplicate), []checker.Anomaly{checker.Duplicate}, nil, checker.AsExpected,
			"everything is as expected: 2 × duplicate, by a hole that is known"},
		{"of what is expected to be broken only what is broken is said", broken(checker.Duplicate),
			[]checker.Anomaly{checker.LostWrite, checker.Duplicate}, nil, checker.AsExpected,
			"everything is as expected: 2 × duplicate, by a hole that is known"},
		{"another broken promise than the expected one", broken(checker.LostWrite), []checker.Anomaly{checker.Duplicate}, nil,
			checker.Otherwise, "lost-write"},
		{"an expected violation that did not come is for an expectation to notice", nil, []checker.Anomaly{checker.Duplicate}, nil,
			checker.AsExpected, "everything is as expected"},
		{"what is not promised breaks no promise", map[checker.Anomaly]string{checker.Duplicate: checker.NotPromised}, nil,
			[]checker.Expectation{{Measure: "duplicate", Least: bound(2)}}, checker.AsExpected, ""},
		{"an unknown promise proved nothing", map[checker.Anomaly]string{checker.LostWrite: checker.UnknownWord}, nil, nil,
			checker.UnknownWord, "does not suffice to tell: lost-write"},
		{"an unknown promise beside an expected violation proved nothing",
			map[checker.Anomaly]string{checker.Duplicate: checker.Violated, checker.LostWrite: checker.UnknownWord},
			[]checker.Anomaly{checker.Duplicate}, nil, checker.UnknownWord, "does not suffice to tell: lost-write"},
		{"reality that differs beats what proved nothing", map[checker.Anomaly]string{checker.Unseen: checker.UnknownWord}, nil,
			[]checker.Expectation{{Measure: "retried-sends", Least: bound(1)}, {Measure: "attempts", Most: bound(0)}}, checker.Otherwise,
			"reality differs: attempts is 10, and none is expected"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := checker.Expect(verdictOf(c.promises), measures, c.expected, c.violates)
			if x.Verdict != c.want || !strings.Contains(x.Summary, c.said) {
				t.Errorf("the verdict is %s (%s), want %s (%s)", x.Verdict, x.Summary, c.want, c.said)
			}
			if c.want == checker.AsExpected && c.said != "" && x.Summary != c.said {
				t.Errorf("it says %q, want %q", x.Summary, c.said)
			}
			if len(x.Each) != len(c.expected) || !slices.Equal(x.Violates, c.violates) {
				t.Errorf("%d results of %d expectations, violates %v", len(x.Each), len(c.expected), x.Violates)
			}
			if _, err := json.Marshal(x); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAHistoryInWhichNothingWasAttemptedProvesNothing(t *testing.T) {
	story := newTale(1)
	story.end()
	v, m := measured(t, &story.Memory)
	if x := checker.Expect(v, m, nil, nil); x.Verdict != checker.UnknownWord || !strings.Contains(x.Summary, "nothing was attempted") {
		t.Errorf("the verdict is %s (%s)", x.Verdict, x.Summary)
	}
}

func TestAnExpectationThatNothingCanMeetIsRefused(t *testing.T) {
	for _, c := range []struct {
		rule string
		e    checker.Expectation
		want string // in the error; empty: none
	}{
		{"a least", checker.Expectation{Measure: "copies{p}", Least: bound(1)}, ""},
		{"a most, of an anomaly", checker.Expectation{Measure: "duplicate", Most: bound(0)}, ""},
		{"both, of a quotient", checker.Expectation{Measure: "answers:NONE{a}/in-partition{t/0}", Least: bound(1), Most: bound(1)}, ""},
		{"no bound", checker.Expectation{Measure: "copies"}, "has no bound"},
		{"the least above the most", checker.Expectation{Measure: "copies", Least: bound(2), Most: bound(1)}, "at least 2 and at most 1"},
		{"no measure", checker.Expectation{Measure: "copied", Most: bound(1)}, `"copied": there is no such measure`},
		{"no measure below", checker.Expectation{Measure: "copies/copied", Most: bound(1)}, `"copied": there is no such measure`},
		{"a quotient of quotients", checker.Expectation{Measure: "copies/copies/copies", Most: bound(1)}, `"copies/copies"`},
		{"the whole run's of a session", checker.Expectation{Measure: "holes{p}", Most: bound(1)}, "about the whole run"},
		{"a partition's without one", checker.Expectation{Measure: "in-partition", Most: bound(1)}, "in-partition{TOPIC/PARTITION}"},
		{"an error where there is none", checker.Expectation{Measure: "copies:NONE", Most: bound(1)}, "not about the name of an error"},
		{"braces that do not end", checker.Expectation{Measure: "copies{p", Most: bound(1)}, "NAME{SESSION}"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			err := c.e.Validate()
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestBoundsInWords(t *testing.T) {
	for _, c := range []struct {
		least, most *float64
		want        string
	}{
		{nil, nil, "anything"},
		{bound(1), nil, "at least 1"},
		{nil, bound(2.5), "at most 2.5"},
		{nil, bound(0), "none"},
		{bound(0), bound(0), "none"},
		{bound(3), bound(3), "exactly 3"},
		{bound(0.25), bound(100), "0.25 to 100"},
	} {
		if got := (checker.Expectation{Least: c.least, Most: c.most}).Want(); got != c.want {
			t.Errorf("the bounds are %q, want %q", got, c.want)
		}
	}
	if got := (checker.ExpectationResult{Got: bound(0.9967)}).Value(); got != "0.9967" {
		t.Errorf("what is nearly 1 is %q", got)
	}
}
