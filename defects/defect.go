// Package defects holds the track record: defects that users of Kafka's clients and
// brokers really met, each played on a version that has it and on one that has not.
package defects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/scenarios"
)

// Where a defect is.
const (
	InClient = "client"
	InBroker = "broker"
)

// What has versions: a client library, or the brokers.
const (
	Java    = histories.ClientJava
	FranzGo = histories.ClientFranzGo
	Kafka   = "kafka"
)

// Version is what a defect is played on; everything else is the same in both plays.
type Version struct {
	// Of is Java, FranzGo or Kafka.
	Of string `json:"of"`
	// Number of the version, as "4.1.1". Empty: there is none.
	Number string `json:"number"`
}

func (v Version) String() string { return v.Of + " " + v.Number }

// None says that there is no such version.
func (v Version) None() bool { return v.Number == "" }

// Red is what is seen where the defect is: never less, and no other broken promise.
type Red struct {
	// Violated are the promises that are broken, all of them.
	Violated []checker.Anomaly `json:"violated,omitempty"`
	// Maybe are promises that may be broken as well, as the defect strikes.
	Maybe []checker.Anomaly `json:"maybe,omitempty"`
	// Exceeded are the measures that are above what the scenario expects: where the defect
	// breaks no promise.
	Exceeded []string `json:"exceeded,omitempty"`
}

// Play plays a defect on a version and gives the verdict, with what became of the
// expectations. The error says why it could not be played.
type Play func(ctx context.Context, on Version, o Options) (*checker.Verdict, error)

// Options say how a defect is played.
type Options struct {
	// Directory is the run directory, created; it must be empty or not be there.
	Directory string
	// Progress, if given, is told what takes time.
	Progress func(string)
	// Began, if given, is told of the run as it begins.
	Began func(*scenarios.Runner)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Defect is one row of the track record. It is plain data and does not change.
type Defect struct {
	Name string
	// Issue is where it was reported, as "KAFKA-19012".
	Issue string
	// Summary says in a sentence what goes wrong.
	Summary string
	// Where it is: InClient or InBroker.
	Where string
	// AffectedIn and FixedIn are the versions that have it and those that do not any more,
	// in words; Affected and Fixed are those that it is played on. No Fixed: no version is
	// known to be without it.
	AffectedIn, FixedIn string
	Affected, Fixed     Version
	Red                 Red
	// Chance is how often it strikes where it is, in words.
	Chance string
	// Scenario is the scenario that is played, which has the defect's name; Play plays it.
	Scenario string
	Play     Play
}

// Table gives every defect, in the order in which they are told.
func Table() []Defect {
	all := slices.Concat(clientDefects(), brokerDefects())
	for i := range all {
		all[i].Scenario, all[i].Play = all[i].Name, playScenario(all[i].Name)
	}
	return all
}

// Find gives the defect of a name. An error names the nearest one.
func Find(name string) (Defect, error) {
	nearest, least := "", len(name)/2+1
	for _, d := range Table() {
		if d.Name == name || d.Issue == name {
			return d, nil
		}
		if distance := levenshtein.ComputeDistance(name, d.Name); distance < least {
			nearest, least = d.Name, distance
		}
	}
	hint := ""
	if nearest != "" {
		hint = fmt.Sprintf("; did you mean %q?", nearest)
	}
	return Defect{}, &scenarios.InputError{Err: fmt.Errorf("there is no defect named %q%s (verify defects lists them)", name, hint)}
}

// The colours of a version.
const (
	ColourRed     = "red"     // the defect was seen
	ColourGreen   = "green"   // what provokes it happened, and everything was as it should be
	ColourUnknown = "unknown" // neither can be told
)

// findings are what a verdict shows of a defect, in words.
type findings struct {
	seen    []string // what the defect does
	missing []string // what it does, and was not seen
	others  []string // what it does not do
}

// look gathers the findings of a verdict.
func (r Red) look(v *checker.Verdict) (f findings) {
	for _, p := range v.Promises {
		wanted := slices.Contains(r.Violated, p.Name)
		switch {
		case p.Verdict != checker.Violated && wanted:
			f.missing = append(f.missing, string(p.Name))
		case p.Verdict != checker.Violated:
		case wanted || slices.Contains(r.Maybe, p.Name):
			f.seen = append(f.seen, fmt.Sprintf("%d × %s", v.Anomalies[p.Name].Count, p.Name))
		default:
			f.others = append(f.others, string(p.Name))
		}
	}
	for _, e := range v.Expected.Each {
		switch wanted := slices.Contains(r.Exceeded, e.Measure); {
		case wanted && e.Verdict == checker.Otherwise:
			f.seen = append(f.seen, fmt.Sprintf("%s is %s, and %s is expected", e.Measure, e.Value(), e.Want()))
		case wanted:
			f.missing = append(f.missing, e.Measure)
		}
	}
	return f
}

// colour says what a verdict shows of the defect, and why in a sentence.
func (r Red) colour(v *checker.Verdict) (colour, why string) {
	if v == nil || v.Expected == nil {
		return ColourUnknown, "the scenario expects nothing, so nothing can be told"
	}
	f := r.look(v)
	switch {
	case len(f.others) > 0:
		return ColourUnknown, "promises are broken that this defect does not break: " + strings.Join(f.others, ", ")
	case len(f.missing) == 0 && len(f.seen) > 0:
		return ColourRed, strings.Join(f.seen, ", ")
	case len(f.seen) > 0:
		return ColourUnknown, fmt.Sprintf("%s, but not %s", strings.Join(f.seen, ", "), strings.Join(f.missing, ", "))
	case v.Verdict == checker.Held && v.Expected.Verdict == checker.AsExpected:
		return ColourGreen, "every promise held, and everything was as expected"
	}
	return ColourUnknown, v.Expected.Summary
}
