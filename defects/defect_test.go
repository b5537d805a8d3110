// This file tests what makes a version red, green or unknown, and what two of them come
// to.

package defects

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/scenarios"
)

// saw gives a verdict on which promises are broken, and of which measures there is too
// much.
func saw(expected string, violated []checker.Anomaly, exceeded ...string) *checker.Verdict {
	v := &checker.Verdict{Verdict: checker.Held, Anomalies: make(map[checker.Anomaly]*checker.AnomalyPart),
		Expected: &checker.Expected{Verdict: expected, Summary: "as the test has it"}}
	for _, a := range checker.Anomalies() {
		p := checker.PromiseVerdict{Name: a.Name, Verdict: checker.Held}
		for _, b := range violated {
			if a.Name == b {
				p.Verdict, v.Verdict = checker.Violated, checker.Violated
				v.Anomalies[b] = &checker.AnomalyPart{Count: 2}
			}
		}
		v.Promises = append(v.Promises, p)
	}
	most, got := 1.0, 7.0
	for _, measure := range exceeded {
		v.Expected.Each = append(v.Expected.Each, checker.ExpectationResult{Verdict: checker.Otherwise, Got: &got,
			Expectation: checker.Expectation{Measure: measure, Most: &most}})
	}
	return v
}

func TestTheColourIsTheCheckersVerdictAndNothingElse(t *testing.T) {
	lost := Red{Violated: []checker.Anomaly{checker.LostWrite}, Maybe: []checker.Anomaly{checker.Duplicate}}
	slow := Red{Exceeded: []string{"unknown"}}
	undecided := saw(checker.AsExpected, nil)
	undecided.Verdict = checker.UnknownWord
	for _, c := range []struct {
		rule string
		red  Red
		v    *checker.Verdict
		want string
	}{
		{"the promise that the defect breaks is broken", lost, saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite}), ColourRed},
		{"and another one that it may break", lost,
			saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite, checker.Duplicate}), ColourRed},
		{"only the one that it may break", lost, saw(checker.Otherwise, []checker.Anomaly{checker.Duplicate}), ColourUnknown},
		{"one that has nothing to do with it", lost,
			saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite, checker.Corrupt}), ColourUnknown},
		{"a measure that is too high where a promise was to be broken", lost, saw(checker.Otherwise, nil, "unknown"), ColourUnknown},
		{"everything held as expected", lost, saw(checker.AsExpected, nil), ColourGreen},
		{"what provokes it did not happen", lost, saw(checker.UnknownWord, nil), ColourUnknown},
		{"the checker does not know", lost, undecided, ColourUnknown},
		{"nothing was played", lost, nil, ColourUnknown},
		{"a measure is too high", slow, saw(checker.Otherwise, nil, "unknown"), ColourRed},
		{"another measure is too high", slow, saw(checker.Otherwise, nil, "failed"), ColourUnknown},
		{"a promise is broken where none was to be", slow,
			saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite}, "unknown"), ColourUnknown},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got, why := c.red.colour(c.v); got != c.want || why == "" {
				t.Errorf("%s (%s), want %s", got, why, c.want)
			}
		})
	}
}

// staged gives a defect that is played without playing.
func staged(affected, fixed func() (*checker.Verdict, error)) Defect {
	return Defect{Name: "staged", Affected: Version{Java, "1.0.0"}, Fixed: Version{Java, "2.0.0"},
		Red: Red{Violated: []checker.Anomaly{checker.LostWrite}},
		Play: func(_ context.Context, on Version, _ Options) (*checker.Verdict, error) {
			if on.Number == "1.0.0" {
				return affected()
			}
			return fixed()
		}}
}

func TestADefectIsReproducedWhereItIsRedAndThenGreen(t *testing.T) {
	red := func() (*checker.Verdict, error) {
		return saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite}), nil
	}
	green := func() (*checker.Verdict, error) { return saw(checker.AsExpected, nil), nil }
	failed := func() (*checker.Verdict, error) { return nil, errors.New("no such version") }
	redAndFailed := func() (*checker.Verdict, error) {
		return saw(checker.Otherwise, []checker.Anomaly{checker.LostWrite}), scenarios.ErrLeftBehind
	}
	noFix := staged(red, green)
	noFix.Fixed = Version{}
	for _, c := range []struct {
		rule string
		d    Defect
		want string
		says string
	}{
		{"red, then green", staged(red, green), checker.AsExpected, "red on java 1.0.0, green on java 2.0.0"},
		{"red without a fixed version", noFix, checker.AsExpected, "no version is known"},
		{"green on the affected one", staged(green, green), checker.Otherwise, "green on java 1.0.0"},
		{"red on the fixed one", staged(red, red), checker.Otherwise, "red on java 2.0.0"},
		{"one that cannot be played is not green", staged(red, failed), checker.UnknownWord, "unknown on java 2.0.0"},
		{"nor red", staged(redAndFailed, green), checker.UnknownWord, "unknown on java 1.0.0"},
		{"a contradiction is not hidden by what is unknown", staged(failed, red), checker.Otherwise, "red on java 2.0.0"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := c.d.Reproduce(t.Context(), t.TempDir(), Options{})
			if r.Verdict != c.want || !strings.Contains(r.Summary, c.says) {
				t.Errorf("%s: %s; want %s, and %q", r.Verdict, r.Summary, c.want, c.says)
			}
		})
	}
}

func TestEveryDefectOfTheTableIsWhole(t *testing.T) {
	names := make(map[string]bool)
	for _, d := range Table() {
		if names[d.Name] {
			t.Errorf("there are two defects named %s", d.Name)
		}
		names[d.Name] = true
		if d.Issue == "" || d.Summary == "" || d.AffectedIn == "" || d.Chance == "" || d.Affected.None() || d.Play == nil ||
			(d.Where != InClient && d.Where != InBroker) || (d.FixedIn == "") != d.Fixed.None() {
			t.Errorf("%s is not told: %+v", d.Name, d)
		}
		if (len(d.Red.Violated) == 0) == (len(d.Red.Exceeded) == 0) {
			t.Errorf("%s: red is either promises that are broken or measures: %+v", d.Name, d.Red)
		}
		named, err := scenarios.Find(d.Scenario)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		for _, measure := range d.Red.Exceeded {
			bounded := false
			for _, e := range named.Expectations(scenarios.Subject{Client: Java, ClientVersion: "4.4.0"}) {
				bounded = bounded || (e.Measure == measure && e.Most != nil)
			}
			if !bounded {
				t.Errorf("%s: its scenario sets %s no limit", d.Name, measure)
			}
		}
	}
	if _, err := Find("idempotence-of-by-default"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a name that is nearly one gives %v", err)
	}
	if d, err := Find("KAFKA-13598"); err != nil || d.Name != "idempotence-off-by-default" {
		t.Errorf("an issue gives %q, %v", d.Name, err)
	}
}
