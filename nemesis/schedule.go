// This file holds schedules: when each fault is injected and for how long, fixed or
// drawn from a seed.

package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Entry is one injection of a schedule. Times are from the start of the play.
type Entry struct {
	At    time.Duration `yaml:"at"`
	For   time.Duration `yaml:"for"`
	Fault string        `yaml:"fault"`
	// Settings, complete, every default spelled out.
	Settings map[string]string `yaml:"settings,omitempty"`
}

// Schedule is what is injected when, in the order of At. It is plain data: saved
// and read again it is played identically.
type Schedule []Entry

// Options say how a schedule is drawn. The zero value is a good default.
type Options struct {
	// Overlap lets different faults be on at the same time. Without it one ends
	// before the next begins, with a quiet time between.
	Overlap bool
	// Window is how long one fault and the quiet time after it last where there
	// is time enough; zero: as long
	// as the slowest of the faults takes, at least DefaultWindow.
	Window time.Duration
}

// DefaultWindow is how long one fault and the quiet time after it last.
const DefaultWindow = 2500 * time.Millisecond

// mostEntries bounds how many injections are drawn: in a long run the windows grow.
const mostEntries = 400

// shortestSlot is the shortest time for one fault and the quiet after it.
const shortestSlot = 20 * time.Millisecond

// ShortestRun is the shortest duration that Draw draws a schedule for.
const ShortestRun = time.Second

// How a run is divided: quiet at the beginning, so that something is acknowledged
// before the first fault; quiet at the end, so that something is after the last.
const (
	quietFirstShare = 10 // a tenth
	quietLastShare  = 5  // a fifth
	quietFirstMost  = 2 * time.Second
	quietLastMost   = 5 * time.Second
)

// Draw gives a schedule of the faults that were asked for over a run of the given
// duration. Every one of them occurs at least once, however short the run; none is
// on in the first tenth or in the last fifth of the run (at most 2 and 5 seconds).
// The same arguments give the same schedule. Faults that say when they are injected
// (at, for) are taken as they are.
func Draw(asked []Asked, duration time.Duration, seed int64, options Options) (Schedule, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	if err := Check(asked); err != nil {
		return nil, err
	}
	if asked[0].For > 0 {
		return fixed(asked, duration)
	}
	if duration < ShortestRun {
		return nil, fmt.Errorf("drawing a schedule for a run of %s: faults need at least %s", duration, ShortestRun)
	}
	from := min(duration/quietFirstShare, quietFirstMost)
	until := duration - min(duration/quietLastShare, quietLastMost)
	window := options.Window
	if window <= 0 {
		window = windowOf(asked)
	}
	if err := checkSlots(asked, until-from, duration, options.Overlap); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(seed), scheduleStream))
	var schedule Schedule
	if !options.Overlap {
		schedule = drawLane(asked, from, until, window, random)
	} else {
		for _, a := range asked {
			schedule = append(schedule, drawLane([]Asked{a}, from, until, window, random)...)
		}
	}
	return schedule, finish(schedule)
}

// windowOf gives how long one of the faults and the quiet time after it take.
func windowOf(asked []Asked) time.Duration {
	window := DefaultWindow
	for _, a := range asked {
		if fault, err := Find(a.Name); err == nil {
			window = max(window, fault.Window)
		}
	}
	return window
}

// checkSlots refuses a run that leaves too little time for each fault.
func checkSlots(asked []Asked, usable, duration time.Duration, overlap bool) error {
	slot := usable
	if !overlap {
		slot /= time.Duration(len(asked))
	}
	if slot < shortestSlot {
		return fmt.Errorf("drawing a schedule: %d faults in a run of %s leave %s for each; ask for fewer, "+
			"or a longer run", len(asked), duration, slot)
	}
	for _, a := range asked {
		fault, err := Find(a.Name)
		if err != nil {
			return err
		}
		if lasts := slot * leastShare / 100; lasts < fault.Least {
			return fmt.Errorf("drawing a schedule: %d faults in a run of %s leave %s for %s, which must last %s to be "+
				"noticed; ask for fewer, or a longer run", len(asked), duration, lasts.Truncate(100*time.Millisecond), a.Name, fault.Least)
		}
	}
	return nil
}

// leastShare and mostShare say how much of its window a fault lasts, in percent.
const (
	leastShare = 55
	mostShare  = 70
)

// scheduleStream keeps the random numbers of schedules apart from those of
// workloads with the same seed.
const scheduleStream = 0x6e656d65736973

// drawLane divides [from, until) into windows, one fault in each, none overlapping.
func drawLane(asked []Asked, from, until, window time.Duration, random *rand.Rand) Schedule {
	usable := until - from
	count := int(min(usable/window, mostEntries))
	count = max(count, len(asked))
	slot := usable / time.Duration(count)
	var schedule Schedule
	for i, a := range order(asked, count, random) {
		begin := from + time.Duration(i)*slot
		at := begin + share(slot, random, 0, 12)
		length := share(slot, random, leastShare, mostShare)
		schedule = append(schedule, Entry{At: at.Truncate(time.Millisecond),
			For: max(length.Truncate(time.Millisecond), time.Millisecond), Fault: a.Name, Settings: a.Settings})
	}
	return schedule
}

// share gives a part of d, between least and most percent of it.
func share(d time.Duration, random *rand.Rand, least, most int64) time.Duration {
	percent := least*100 + random.Int64N((most-least)*100)
	return time.Duration(int64(d) / 10_000 * percent)
}

// order gives count faults: rounds of all that were asked for, each shuffled, with
// those after which clients pause at its end, so that all occur equally often, none
// twice in a row where there is another, and each finds traffic in the first round.
func order(asked []Asked, count int, random *rand.Rand) []Asked {
	ordered := make([]Asked, 0, count)
	for len(ordered) < count {
		round := slices.Clone(asked)
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		slices.SortStableFunc(round, func(a, b Asked) int { return cmp.Compare(pauses(a), pauses(b)) })
		if n := len(ordered); n > 0 && len(round) > 1 && ordered[n-1].String() == round[0].String() {
			round[0], round[1] = round[1], round[0]
		}
		ordered = append(ordered, round...)
	}
	return ordered[:count]
}

// pauses gives 1 for a fault after which clients may pause, else 0.
func pauses(a Asked) int {
	if fault, err := Find(a.Name); err == nil && fault.Pauses {
		return 1
	}
	return 0
}

// fixed takes the times that were given.
func fixed(asked []Asked, duration time.Duration) (Schedule, error) {
	var schedule Schedule
	for _, a := range asked {
		if a.At+a.For > duration {
			return nil, fmt.Errorf("%s: it would end after %s, and the run lasts %s", a, a.At+a.For, duration)
		}
		schedule = append(schedule, Entry{At: a.At, For: a.For, Fault: a.Name, Settings: a.Settings})
	}
	return schedule, finish(schedule)
}

// finish sorts the schedule and spells out every setting.
func finish(schedule Schedule) error {
	slices.SortStableFunc(schedule, func(a, b Entry) int { return int(a.At - b.At) })
	return schedule.Validate()
}

// Validate checks a schedule, as one that was read from a file, and spells out
// every setting in place. An error names the entry and what is wrong with it.
func (s Schedule) Validate() error {
	for i := range s {
		e := &s[i]
		fault, err := Find(e.Fault)
		if err == nil {
			e.Settings, err = fault.Complete(e.Settings)
		}
		switch {
		case err != nil:
		case e.At < 0 || e.For <= 0:
			err = fmt.Errorf("%s: at is %s and for is %s; at must not be below zero, for must be above", e.Fault, e.At, e.For)
		case i > 0 && e.At < s[i-1].At:
			err = fmt.Errorf("%s at %s stands after %s at %s; sort them by time", e.Fault, e.At, s[i-1].Fault, s[i-1].At)
		}
		if err != nil {
			return fmt.Errorf("entry %d of the fault schedule: %w", i+1, err)
		}
	}
	return nil
}

// ids gives the id of each entry, as "lost-response#2" for the second of that name.
func (s Schedule) ids() []string {
	ids := make([]string, len(s))
	seen := make(map[string]int)
	for i, e := range s {
		seen[e.Fault]++
		ids[i] = fmt.Sprintf("%s#%d", e.Fault, seen[e.Fault])
	}
	return ids
}

// Asked gives the faults of the schedule as if they had been asked for.
func (s Schedule) Asked() []Asked {
	var asked []Asked
	for _, e := range s {
		asked = append(asked, Asked{Name: e.Fault, Settings: e.Settings, At: e.At, For: e.For})
	}
	return asked
}

// End gives when the last fault ends.
func (s Schedule) End() time.Duration {
	var end time.Duration
	for _, e := range s {
		end = max(end, e.At+e.For)
	}
	return end
}

// NeedsDisk says whether a fault of the schedule needs brokers that keep their logs
// on disk (clusters.EmbeddedOptions.Disk).
func (s Schedule) NeedsDisk() bool {
	for _, e := range s {
		if fault, err := Find(e.Fault); err == nil && fault.NeedsDisk {
			return true
		}
	}
	return false
}

// CheckLies gives an error where an entry is a lie towards producers with these
// acks and lies are not allowed.
func (s Schedule) CheckLies(acks string, allowed bool) error {
	var errs []error
	seen := make(map[string]bool)
	for _, a := range s.Asked() {
		if !seen[a.String()] {
			seen[a.String()] = true
			errs = append(errs, CheckLies([]Asked{a}, acks, allowed))
		}
	}
	return errors.Join(errs...)
}
