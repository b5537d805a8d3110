// This file holds what a scenario expects, in numbers, and what became of it. The verdict
// stays what it is: an expectation stands beside it.

package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Expectation is what is expected of one measure.
type Expectation struct {
	// Measure is its name, or a quotient of two: see Measures.Value.
	Measure string `yaml:"measure" json:"measure"`
	// Least and Most bound it; nil: no bound. Where it is below Least, what was to be
	// shown did not come; where it is above Most, reality differs.
	Least *float64 `yaml:"least,omitempty" json:"least,omitempty"`
	Most  *float64 `yaml:"most,omitempty" json:"most,omitempty"`
	// Why in words: what is shown by it.
	Why string `yaml:"why" json:"why"`
}

// Validate refuses an expectation that nothing can meet, or of a measure that there is
// not.
func (e Expectation) Validate() error {
	if err := validMeasure(e.Measure); err != nil {
		return err
	}
	if e.Least == nil && e.Most == nil {
		return fmt.Errorf("the expectation of %s has no bound: give least, most, or both", e.Measure)
	}
	if e.Least != nil && e.Most != nil && *e.Least > *e.Most {
		return fmt.Errorf("the expectation of %s is at least %v and at most %v", e.Measure, *e.Least, *e.Most)
	}
	return nil
}

// Want gives the bounds in words, as "at least 1" or "none".
func (e Expectation) Want() string {
	switch {
	case e.Least == nil && e.Most == nil:
		return "anything"
	case e.Most == nil:
		return "at least " + number(*e.Least)
	case *e.Most == 0 && (e.Least == nil || *e.Least == 0):
		return "none"
	case e.Least == nil:
		return "at most " + number(*e.Most)
	case *e.Least == *e.Most:
		return "exactly " + number(*e.Least)
	}
	return number(*e.Least) + " to " + number(*e.Most)
}

// number gives a number with four digits behind the point at most, so that what is nearly
// a whole number is not taken for it.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', 4, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// The verdicts on what was expected; the third is UnknownWord: it proved nothing.
const (
	AsExpected = "as-expected"
	Otherwise  = "otherwise"
)

// Expected is what became of what was expected.
type Expected struct {
	// Verdict is AsExpected, Otherwise (reality differs) or UnknownWord (nothing was
	// proven).
	Verdict string `json:"verdict"`
	// Summary is the verdict in a sentence.
	Summary string              `json:"summary"`
	Each    []ExpectationResult `json:"each"`
	// Violates are the broken promises that were expected, because of a known hole.
	Violates []Anomaly `json:"violates,omitempty"`
}

// ExpectationResult is what became of one expectation.
type ExpectationResult struct {
	Expectation
	// Got is the measure's value; nil: there is none, as of a quotient by zero.
	Got *float64 `json:"got"`
	// Verdict is AsExpected, Otherwise or UnknownWord.
	Verdict string `json:"verdict"`
}

// Value gives what was got, in words.
func (r ExpectationResult) Value() string {
	if r.Got == nil {
		return "nothing"
	}
	return number(*r.Got)
}

// Expect holds a verdict and what was measured against what is expected. A promise that
// is broken and not among violates, or a measure above its most, makes the whole
// Otherwise; else a promise of which it is not known, or a measure that is below its least
// or that there is none of, makes it UnknownWord. It is a pure function.
func Expect(v *Verdict, m Measures, expectations []Expectation, violates []Anomaly) *Expected {
	x := &Expected{Violates: violates, Each: []ExpectationResult{}}
	otherwise, unproven := v.unexpected(violates)
	for _, e := range expectations {
		r := e.judge(m)
		x.Each = append(x.Each, r)
		switch said := r.said(); r.Verdict {
		case Otherwise:
			otherwise = append(otherwise, said)
		case UnknownWord:
			unproven = append(unproven, said)
		}
	}
	switch {
	case len(otherwise) > 0:
		x.Verdict, x.Summary = Otherwise, "reality differs: "+strings.Join(otherwise, "; ")
	case len(unproven) > 0:
		x.Verdict, x.Summary = UnknownWord, "it proved nothing: "+strings.Join(unproven, "; ")
	default:
		x.Verdict, x.Summary = AsExpected, "everything is as expected"
		if broken := brokenBy(v, violates); len(broken) > 0 {
			x.Summary += fmt.Sprintf(": %s, by a hole that is known", strings.Join(broken, ", "))
		}
	}
	return x
}

// unexpected gives what a verdict says that no scenario expects, in words: promises that are
// broken though they are not among violates, and those of which it cannot be told.
func (v *Verdict) unexpected(violates []Anomaly) (broken, unknown []string) {
	for _, p := range v.Promises {
		switch {
		case p.Verdict == Violated && !slices.Contains(violates, p.Name):
			broken = append(broken, fmt.Sprintf("the promise against %s is broken", p.Name))
		case p.Verdict == UnknownWord:
			unknown = append(unknown, string(p.Name))
		}
	}
	switch {
	case v.Verdict == UnknownWord:
		unknown = []string{v.Summary}
	case len(unknown) > 0: // behind a violation, which the verdict names first
		unknown = []string{"this history does not suffice to tell: " + strings.Join(unknown, ", ")}
	}
	return broken, unknown
}

// brokenBy gives the broken promises that were expected, in words.
func brokenBy(v *Verdict, violates []Anomaly) []string {
	var broken []string
	for _, p := range v.Promises {
		if p.Verdict == Violated && slices.Contains(violates, p.Name) {
			broken = append(broken, fmt.Sprintf("%d × %s", v.Anomalies[p.Name].Count, p.Name))
		}
	}
	return broken
}

// judge holds one expectation against what was measured.
func (e Expectation) judge(m Measures) ExpectationResult {
	r := ExpectationResult{Expectation: e, Verdict: AsExpected}
	value, is := m.Value(e.Measure)
	if !is {
		r.Verdict = UnknownWord
		return r
	}
	r.Got = &value
	switch {
	case e.Most != nil && value > *e.Most:
		r.Verdict = Otherwise
	case e.Least != nil && value < *e.Least:
		r.Verdict = UnknownWord
	}
	return r
}

// said gives the result in words.
func (r ExpectationResult) said() string {
	text := fmt.Sprintf("%s is %s, and %s is expected", r.Measure, r.Value(), r.Want())
	if r.Why != "" {
		text += " (" + r.Why + ")"
	}
	return text
}
