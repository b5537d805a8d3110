// This file holds the cases: which history, what must be said of it, and which
// combinations there cannot be.

package corpus

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// Case is a history with what must be said of it.
type Case struct {
	// Seed, Kind, Anomaly and Place make the case again (Make). Anomaly is empty for a
	// healthy history.
	Seed    uint64
	Kind    string
	Anomaly checker.Anomaly
	Place   string
	// Name says all of that.
	Name    string
	History histories.History
	// Options to check it with: the configuration of an imported history.
	Options checker.Options
	// Named are the anomalies that there are, with their counts, Some or Perhaps.
	Named map[checker.Anomaly]int64
	// Verdict of the whole and, where an anomaly was planted, of its promise: Violated,
	// or UnknownWord where nobody could tell.
	Verdict string
}

// Combination is a kind, an anomaly and a place.
type Combination struct {
	Kind    Kind
	Anomaly checker.Anomaly
	Place   Place
	// Impossible says why there is no such history; empty: there is.
	Impossible string
	// Verdict that is right: Violated or UnknownWord.
	Verdict string
}

// Combinations gives every kind × anomaly × place, the impossible ones included.
func Combinations() []Combination {
	var all []Combination
	for _, kind := range Kinds() {
		for _, d := range checker.Anomalies() {
			for _, at := range Places() {
				if kind.Imported { // other tools make no final read
					at.withoutFinalRead = true
				}
				c := Combination{Kind: kind, Anomaly: d.Name, Place: at}
				c.Impossible = impossible(kind, d.Name, at)
				c.Verdict = right(d.Name, at)
				all = append(all, c)
			}
		}
	}
	return all
}

// impossible says why an anomaly cannot be at a place in a kind of history.
func impossible(kind Kind, name checker.Anomaly, at Place) string {
	switch why := kind.lacks[name]; {
	case why != "":
		return why
	case kind.Imported && at.ownOnly:
		return "the format does not have that"
	}
	if why := kind.lacksAt[string(name)+" "+at.Name]; why != "" {
		return why
	}
	if why := absurd[name][at.Name]; why != "" || !at.withoutFinalRead {
		return why
	}
	if why := absurd[name]["*without-final-read"]; why != "" {
		return why
	}
	return absurd[name][at.Name+" without-final-read"]
}

// Reasons for what cannot be.
const (
	needsTwo     = "it takes two records"
	needsNext    = "nobody was given anything behind it"
	aboveStart   = "it is judged from the log's start on"
	inFinalRead  = "it is judged in the final read"
	noRecord     = "it is about a partition, not about a record"
	onlyOfItsKey = "it takes two events of one producer and key"
	withOffset   = "a late acknowledgement is not what a ghost has"
	notRead      = "nothing behind it can have been read, so that it is unseen and not lost"
)

// absurd says of each anomaly where it cannot be: at a place, at one without a final read,
// or ("*") at any without one.
var absurd = map[checker.Anomaly]map[string]string{
	checker.LostWrite:              {"last without-final-read": notRead, "only without-final-read": notRead},
	checker.OrderViolation:         {"only": needsTwo, "key-with-one-event": onlyOfItsKey},
	checker.LateGhost:              {"only": needsTwo, "key-with-one-event": onlyOfItsKey, "late-acknowledgement": withOffset},
	checker.RealtimeOrderViolation: {"only": needsTwo},
	checker.VanishedRead:           {"below-log-start": aboveStart, "*without-final-read": inFinalRead},
	checker.EpochRegression:        {"below-log-start": aboveStart, "only": needsTwo, "*without-final-read": inFinalRead},
	checker.SkippedPoll:            {"below-log-start": aboveStart, "only": needsNext, "last": needsNext},
	checker.Unseen:                 {"below-log-start": aboveStart},
	checker.ReplicaDivergence:      {"below-log-start": aboveStart},
	checker.NotRecovered: {"first": noRecord, "last": noRecord, "only": noRecord, "batch-edge": noRecord, "segment-edge": noRecord,
		"below-log-start": noRecord, "page-edge": noRecord, "between-markers": noRecord, "key-with-one-event": noRecord,
		"behind-an-unknown": noRecord, "late-acknowledgement": noRecord,
		"during-a-fault": "nothing is asked of a cluster during a fault"},
}

// always are the anomalies that no configuration allows.
var always = []checker.Anomaly{checker.Corrupt, checker.FutureRead, checker.Phantom, checker.ImpossibleWrite, checker.WrongPlace,
	checker.SkippedPoll, checker.BackwardPoll, checker.Unseen, checker.ReplicaDivergence, checker.NotRecovered}

// right is what must be said of an anomaly at a place, by chapter 4 of the design.
func right(name checker.Anomaly, at Place) string {
	onEnd := []checker.Anomaly{checker.LostWrite, checker.Unseen, checker.NotRecovered}
	switch {
	case at.cut && slices.Contains(onEnd, name): // it may stand in what is missing
		return checker.UnknownWord
	case at.withoutConfiguration && !slices.Contains(always, name):
		return checker.UnknownWord
	case at.withoutFinalRead && name == checker.Unseen: // or not read yet
		return checker.UnknownWord
	case at.below() && name == checker.LostWrite: // retention may have removed it
		return checker.UnknownWord
	}
	return checker.Violated
}

// Make makes the case of a seed. It fails only where the combination is impossible.
func Make(ctx context.Context, seed uint64, c Combination) (*Case, error) {
	if c.Impossible != "" {
		return nil, fmt.Errorf("making a history with %s %s (%s): %s", c.Anomaly, c.Place.Name, c.Kind.Name, c.Impossible)
	}
	const tries = 4000
	for try := range uint64(tries) {
		r := rand.New(rand.NewPCG(seed, try))
		w := play(r, c.shape(r))
		w.withoutFinalRead, w.withoutReplicas = c.Place.withoutFinalRead, w.chance(2)
		found := plants[c.Anomaly](w, c.Place)
		if found == nil {
			continue
		}
		if c.Place.withoutFinalRead || w.chance(2) {
			w.readAll("reader")
		}
		return c.finish(ctx, seed, w, found)
	}
	return nil, fmt.Errorf("making a history with %s %s (%s): no world had a place for it in %d tries: a defect of the corpus",
		c.Anomaly, c.Place.Name, c.Kind.Name, tries)
}

func (c Combination) finish(ctx context.Context, seed uint64, w *world, found named) (*Case, error) {
	h, err := c.Kind.write(ctx, w, c.Place)
	if err != nil {
		return nil, fmt.Errorf("writing a history of the corpus (%s, seed %d): %w", c.Kind.Name, seed, err)
	}
	made := &Case{Seed: seed, Kind: c.Kind.Name, Anomaly: c.Anomaly, Place: c.Place.Name, History: h, Named: found,
		Verdict: c.Verdict,
		Name:    fmt.Sprintf("%s %s, %s, seed %d", c.Anomaly, c.Place.Name, c.Kind.Name, seed)}
	if c.Kind.Imported && !c.Place.withoutConfiguration {
		made.Options.Producer, made.Options.Topic = w.head.Producer, map[string]string{histories.PropertyMinInsyncReplicas: "2"}
	}
	return made, nil
}

// shape draws what a world is like, as the place and the kind want it.
func (c Combination) shape(r *rand.Rand) shape {
	s := drawShape(r)
	if c.Place.shape != nil {
		c.Place.shape(&s)
	}
	c.Kind.bend(&s)
	switch c.Anomaly { //nolint:exhaustive // the others take any
	case checker.WrongPlace:
		s.partitions = max(s.partitions, 2)
	case checker.NotRecovered:
		s.unserved = r.IntN(2) == 0
	case checker.LateGhost:
		s.unsure = true
	case checker.OrderViolation:
		s.largest = max(s.largest, 2)
	case checker.Unseen:
		s.retention = c.Place.Name == "segment-edge"
	}
	return s
}

func drawShape(r *rand.Rand) shape {
	return shape{
		partitions: 1 + r.Int32N(3), producers: 1 + r.IntN(3), keys: 1 + r.IntN(4), largest: 1 + r.IntN(4), steps: 10 + r.IntN(20),
		base: []int64{0, 0, 1, 40}[r.IntN(4)], faults: r.IntN(3), unsure: r.IntN(4) == 0, restarts: r.IntN(4) == 0,
		notEmpty: r.IntN(6) == 0, retention: r.IntN(6) == 0, asked: r.IntN(3) == 0,
	}
}

// Healthy makes a history in which nothing is wrong.
func Healthy(ctx context.Context, seed uint64, kind Kind) (*Case, error) {
	r := rand.New(rand.NewPCG(seed, 1<<32))
	s := drawShape(r)
	s.tight = r.IntN(6) == 0
	s.compacted = r.IntN(8) == 0
	at := Places()[0]
	if r.IntN(8) == 0 || kind.Imported {
		at.withoutFinalRead = true
	}
	at.withoutConfiguration = r.IntN(10) == 0 && !s.compacted // then nobody could tell it from a loss
	kind.bend(&s)
	w := play(r, s)
	w.withoutFinalRead, w.withoutReplicas = at.withoutFinalRead, w.chance(2)
	if s.compacted && w.chance(2) || at.withoutFinalRead {
		w.readAll("reader")
	}
	if s.compacted {
		w.compact()
	}
	if w.chance(2) {
		w.readAll("second-reader")
	}
	c := Combination{Kind: kind, Place: at, Verdict: checker.Held}
	if at.withoutFinalRead && !kind.Imported { // whoever should have made one did not
		c.Verdict = checker.UnknownWord
	}
	made, err := c.finish(ctx, seed, w, named{})
	if err == nil {
		made.Name = fmt.Sprintf("healthy, %s, seed %d", kind.Name, seed)
	}
	return made, err
}

// Cases gives so many cases: healthy ones and planted ones in turn, the planted ones by
// going round all combinations.
func Cases(ctx context.Context, n int, seed uint64) iter.Seq2[*Case, error] {
	return func(yield func(*Case, error) bool) {
		for i := range n {
			if !yield(One(ctx, i, seed)) {
				return
			}
		}
	}
}

// One gives the i-th of the cases of a seed.
func One(ctx context.Context, i int, seed uint64) (*Case, error) {
	own := seed<<24 + uint64(i)
	if i%2 == 0 {
		kinds := Kinds()
		return Healthy(ctx, own, kinds[(i/2)%len(kinds)])
	}
	return Make(ctx, own, possible[(i/2)%len(possible)])
}

// possible are the combinations that there are.
var possible = slices.DeleteFunc(Combinations(), func(c Combination) bool { return c.Impossible != "" })
