// This file holds how a defect is played: its scenario on one version and then on the
// other.

package defects

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/runs"
	"github.com/ackproof/ackproof/scenarios"
)

// Seen is what was seen of a defect on one version.
type Seen struct {
	Version Version `json:"version"`
	// Colour is ColourRed, ColourGreen or ColourUnknown, and Why says it in a sentence.
	Colour string `json:"colour"`
	Why    string `json:"why"`
	// Verdict is the checker's, and Expected what became of the expectations; empty where
	// it could not be played.
	Verdict  string `json:"verdict,omitempty"`
	Expected string `json:"expected,omitempty"`
	// Anomalies counts what was found, whether it was promised or not.
	Anomalies map[checker.Anomaly]int64 `json:"anomalies,omitempty"`
	Directory string                    `json:"directory"`
	Took      float64                   `json:"took_s"`
}

// Result is what became of a defect.
type Result struct {
	Name  string `json:"name"`
	Issue string `json:"issue"`
	// Verdict is checker.AsExpected (red on the affected version, green on the fixed one),
	// checker.Otherwise, or checker.UnknownWord.
	Verdict string `json:"verdict"`
	// Summary says it in a sentence.
	Summary string `json:"summary"`
	Seen    []Seen `json:"seen"`
}

// Reproduce plays a defect on the affected version and, where there is one, on the fixed
// one, into directories below the given one. When the context ends, what is not known by
// then is unknown. A version that could not be played is unknown, and never green.
func (d Defect) Reproduce(ctx context.Context, directory string, o Options) Result {
	r := Result{Name: d.Name, Issue: d.Issue}
	for _, on := range []Version{d.Affected, d.Fixed} {
		if !on.None() {
			o.Directory = filepath.Join(directory, d.Name, strings.ReplaceAll(on.String(), " ", "-"))
			r.Seen = append(r.Seen, d.see(ctx, on, o))
		}
	}
	r.conclude(d)
	return r
}

// see plays the defect on one version.
func (d Defect) see(ctx context.Context, on Version, o Options) Seen {
	began := time.Now()
	o.progress("%s on %s", d.Name, on)
	s := Seen{Version: on, Directory: o.Directory}
	verdict, err := d.Play(ctx, on, o)
	s.Took = time.Since(began).Seconds()
	if verdict != nil {
		s.Verdict, s.Anomalies = verdict.Verdict, make(map[checker.Anomaly]int64)
		for name, part := range verdict.Anomalies {
			if part.Count > 0 {
				s.Anomalies[name] = part.Count
			}
		}
		if verdict.Expected != nil {
			s.Expected = verdict.Expected.Verdict
		}
	}
	s.Colour, s.Why = d.Red.colour(verdict)
	if err != nil { // whatever there is of it
		s.Colour, s.Why = ColourUnknown, fmt.Sprintf("it could not be played: %v", err)
	}
	return s
}

// conclude says what the plays come to.
func (r *Result) conclude(d Defect) {
	var said []string
	r.Verdict = checker.AsExpected
	for i, s := range r.Seen {
		said = append(said, fmt.Sprintf("%s on %s", s.Colour, s.Version))
		wanted := ColourRed
		if i > 0 {
			wanted = ColourGreen
		}
		switch s.Colour {
		case wanted:
		case ColourUnknown:
			if r.Verdict != checker.Otherwise {
				r.Verdict = checker.UnknownWord
			}
		default:
			r.Verdict = checker.Otherwise
		}
	}
	if d.Fixed.None() {
		said = append(said, "no version is known to be without it")
	}
	r.Summary = strings.Join(said, ", ")
}

// playScenario gives the play of a scenario that Find finds, with the version put where
// it belongs: brokers of a version run in containers, and a client library of a version
// works on the embedded cluster.
func playScenario(name string) Play {
	return func(ctx context.Context, on Version, o Options) (*checker.Verdict, error) {
		scenario, err := scenarioOn(ctx, name, on, o)
		if err != nil {
			return nil, err
		}
		return playOn(ctx, scenario, o)
	}
}

// scenarioOn gives the scenario of a name for a version.
func scenarioOn(ctx context.Context, name string, on Version, o Options) (scenarios.Scenario, error) {
	named, err := scenarios.Find(name)
	if err != nil {
		return scenarios.Scenario{}, err
	}
	provider := scenarios.ProviderEmbedded
	if on.Of == Kafka {
		provider = scenarios.ProviderContainers
	}
	s := named.Scenario(provider)
	s.Seed = 1
	switch on.Of {
	case Kafka:
		s.Cluster.Kafka = on.Number
	case Java:
		s.Workload.Client = Java + ":" + on.Number
	case FranzGo:
		adapter, err := buildFranzGo(ctx, on.Number, o.progress)
		if err != nil {
			return s, err
		}
		s.Workload.Client, s.Workload.Exec = "exec", []string{adapter}
	default:
		return s, fmt.Errorf("there are no versions of %q to play on", on.Of)
	}
	return s, nil
}

// playOn plays a scenario into a run directory and gives the verdict.
func playOn(ctx context.Context, s scenarios.Scenario, o Options) (*checker.Verdict, error) {
	runner, err := scenarios.Prepare(ctx, s, o.Progress)
	if err != nil {
		return nil, err
	}
	directory, err := runs.Create(o.Directory)
	if err != nil {
		return nil, &scenarios.InputError{Err: err}
	}
	if o.Began != nil {
		o.Began(runner)
	}
	verdict, err := runner.Run(ctx, directory)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, clusters.ErrNotUp) {
		err = fmt.Errorf("the brokers did not come up: %w", err)
	}
	return verdict, err
}
