// This file tests the corpus by what the checker makes of it, and that it can tell a
// checker that errs.

package corpus_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/corpus"
	"github.com/ackproof/ackproof/histories"
)

func TestEveryDefectIsFoundAndNothingElse(t *testing.T) {
	figures, err := corpus.Measure(t.Context(), 1200, 1, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures.Failures {
		t.Errorf("%s: %s", f.Case, f.What)
	}
	if !figures.Right() {
		t.Errorf("%+v", figures)
	}
	for _, c := range corpus.Combinations() {
		if c.Impossible == "" && figures.Anomalies[c.Anomaly][c.Place.Name] == nil {
			t.Errorf("%s %s was not made", c.Anomaly, c.Place.Name)
		}
	}
}

func TestEveryAnomalyHasAPlaceInSomeKind(t *testing.T) {
	made := make(map[checker.Anomaly]int)
	for _, c := range corpus.Combinations() {
		if c.Impossible == "" {
			made[c.Anomaly]++
		}
	}
	for _, d := range checker.Anomalies() {
		if made[d.Name] < 8 {
			t.Errorf("%s is planted at %d places only", d.Name, made[d.Name])
		}
	}
}

func lines(t *testing.T, h histories.History) []histories.Line {
	t.Helper()
	var all []histories.Line
	for entry, err := range h.Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry.Line)
	}
	return all
}

func TestASeedMakesTheSameHistories(t *testing.T) {
	for i := range 40 {
		a, errA := corpus.One(t.Context(), i, 7)
		b, errB := corpus.One(t.Context(), i, 7)
		other, errC := corpus.One(t.Context(), i, 8)
		if errA != nil || errB != nil || errC != nil {
			t.Fatal(errA, errB, errC)
		}
		if strings.Contains(a.Name, " cut,") {
			continue
		}
		if !reflect.DeepEqual(lines(t, a.History), lines(t, b.History)) {
			t.Errorf("%s: two histories of one seed differ", a.Name)
		}
		if reflect.DeepEqual(lines(t, a.History), lines(t, other.History)) {
			t.Errorf("%s: the history of another seed is the same", a.Name)
		}
	}
}

// combination gives one of them.
func combination(t *testing.T, kind string, name checker.Anomaly, place string) corpus.Combination {
	t.Helper()
	for _, c := range corpus.Combinations() {
		if c.Kind.Name == kind && c.Anomaly == name && c.Place.Name == place {
			return c
		}
	}
	t.Fatalf("there is no combination %s %s %s", kind, name, place)
	return corpus.Combination{}
}

func made(t *testing.T, seed uint64, c corpus.Combination) *corpus.Case {
	t.Helper()
	m, err := corpus.Make(t.Context(), seed, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Judged against another truth than its own, each history must be marked wrong: so would
// be a checker that errs about it.
func TestWhoErrsIsMarked(t *testing.T) {
	loss := func() *corpus.Case {
		return made(t, 1, combination(t, "memory", checker.LostWrite, "anywhere"))
	}
	cases := []struct {
		name string
		make func() *corpus.Case
		bad  func(*corpus.Judgement) bool
	}{
		{"what is there and was not to be found is another one", func() *corpus.Case {
			c := loss()
			c.Anomaly, c.Named, c.Verdict = "", nil, checker.Held
			return c
		}, func(j *corpus.Judgement) bool { return len(j.Others) == 1 && !j.Whole }},
		{"what is not there is not found", func() *corpus.Case {
			c := loss()
			c.Anomaly, c.Named = checker.Duplicate, map[checker.Anomaly]int64{checker.Duplicate: 1, checker.LostWrite: 1}
			return c
		}, func(j *corpus.Judgement) bool { return !j.Found && len(j.Others) == 0 }},
		{"called by another name", func() *corpus.Case {
			c := loss()
			c.Anomaly, c.Named = checker.Phantom, map[checker.Anomaly]int64{checker.Phantom: 1}
			return c
		}, func(j *corpus.Judgement) bool { return !j.Found && len(j.Others) == 1 }},
		{"another count", func() *corpus.Case {
			c := loss()
			c.Named = map[checker.Anomaly]int64{checker.LostWrite: 2}
			return c
		}, func(j *corpus.Judgement) bool { return !j.Found }},
		{"proven, and nobody was to tell", func() *corpus.Case {
			c := loss()
			c.Verdict = checker.UnknownWord
			return c
		}, func(j *corpus.Judgement) bool { return !j.Found && !j.Whole }},
		{"rightly", loss, func(j *corpus.Judgement) bool { return j.Found && len(j.Others) == 0 && j.Whole && j.Agree }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j, err := corpus.Judge(t.Context(), c.make())
			if err != nil {
				t.Fatal(err)
			}
			if !c.bad(j) {
				t.Errorf("%+v", j)
			}
		})
	}
}

func TestWhatCannotBeSaysWhy(t *testing.T) {
	_, err := corpus.Make(t.Context(), 1, combination(t, histories.FormatJepsen, checker.ReplicaDivergence, "anywhere"))
	if err == nil || !strings.Contains(err.Error(), "no replicas") {
		t.Errorf("%v", err)
	}
}
