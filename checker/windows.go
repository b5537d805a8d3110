// This file holds the windows of the second judge that are to be looked at: the
// smallest part of a partition's appends that no order explains, with what was around
// it.

package checker

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/ackproof/ackproof/histories"
	"github.com/anishathalye/porcupine"
)

// Which windows Check keeps in Verdict.Windows.
const (
	// WindowsFailing keeps one of each partition whose appends are not linearizable.
	WindowsFailing = "failing"
	// WindowsAll keeps one of every other partition that has appends as well: its
	// first ones.
	WindowsAll = "all"
)

// Window is a part of a partition's appends that is small enough to be looked at, as
// the second judge sees them. Times are nanoseconds since the start of the run, by the
// one clock that stamped all of its appends.
type Window struct {
	Partition histories.Partition
	Clock     string
	// Appends in the order of the log.
	Appends []Append
	// Contradiction, where the window is not linearizable: two of Appends. The first
	// one lies before the second one, and was called only after the second one had been
	// acknowledged. Nil: the window is linearizable.
	Contradiction *[2]int
	// LeftOut is how many appends between the first and the last one of Appends are not
	// among them, so that they can be looked at. It makes nothing else of the others.
	LeftOut int
	// Of is how many appends the second judge was given of the partition and clock.
	Of int
	// Polls that were given records of the window's part of the log, in the order in
	// which they returned; the first WindowPolls of them. They are not modelled.
	Polls []WindowPoll
	// Cluster events of the whole run; none if another clock stamped them.
	Cluster []histories.ClusterEvent
	// SameClock: the times of faults and cluster events may be compared with those of
	// the window.
	SameClock bool
}

// WindowPolls is how many polls a window has at most.
const WindowPolls = 60

// Append is the append of one event to its first place in the log.
type Append struct {
	Process, Event string
	Offset         int64
	// Call is the earliest invocation of its sends.
	Call int64
	// Return is the earliest acknowledgement, as the client reported it. Where
	// Acknowledged is false there was none: then it is when a later append was
	// acknowledged, before which this one had happened, or Unknown.
	Return       int64
	Acknowledged bool
	// Row keeps the appends of a process apart that were under way at the same time: those
	// of one process and row were not. Rows count from 0; those of a contradiction come first.
	Row int
}

// WindowPoll is a poll with what it was given of a window's partition.
type WindowPoll struct {
	Process             string
	Call, Return        int64
	First, Last, Number int64 // offsets, and how many records
}

// The size of a window: what fits on a page.
const (
	windowAppends = 80
	windowRows    = 14
	// windowReach is how far from what a window is about its appends are looked for.
	windowReach = 300
)

// keepWindow narrows a window that is not linearizable, and keeps it.
func (s *state) keepWindow(v *Verdict, judged judgedWindow, deadline time.Time) error {
	operations := s.withTrueReturns(judged.operations, judged.log)
	first, last, err := contradiction(operations, deadline)
	if errors.Is(err, errNoContradiction) {
		// What was acknowledged lies behind the window, and bounds an append in it.
		operations = judged.operations
		first, last, err = contradiction(operations, deadline)
	}
	if err != nil {
		return err
	}
	s.keep(v, judged, operations, first, last)
	return nil
}

// keepFirst keeps the first appends of a window that is linearizable.
func (s *state) keepFirst(v *Verdict, judged judgedWindow) {
	s.keep(v, judged, s.withTrueReturns(judged.operations[:min(len(judged.operations), windowReach)], judged.log))
}

// keep keeps what is around some appends of a window: those that contradict each other, if any.
func (s *state) keep(v *Verdict, judged judgedWindow, operations []porcupine.Operation, about ...int) {
	w := s.newWindow(judged)
	appends := s.appendsOf(operations, judged.log)
	shown := readable(appends, about)
	for _, i := range shown {
		w.Appends = append(w.Appends, appends[i])
	}
	w.LeftOut = shown[len(shown)-1] - shown[0] + 1 - len(shown)
	rows := layOut(w.Appends)
	if len(about) == 2 {
		w.Contradiction = &[2]int{slices.Index(shown, about[0]), slices.Index(shown, about[1])}
		for _, i := range w.Contradiction {
			swapRows(rows, w.Appends, i)
		}
	}
	for i := range w.Appends {
		w.Appends[i].Row = rows[i]
	}
	v.Windows = append(v.Windows, w)
}

func (s *state) newWindow(judged judgedWindow) *Window {
	w := &Window{Partition: s.logs[judged.log].name, Clock: s.clocks.list[judged.clock], Of: judged.of}
	w.SameClock = w.Clock == s.header.Clock
	if w.SameClock {
		for _, c := range s.cluster {
			w.Cluster = append(w.Cluster, *c)
		}
	}
	return w
}

func (s *state) appendsOf(operations []porcupine.Operation, index int32) []Append {
	var appends []Append
	for _, o := range operations {
		e := uint32(o.ClientId)
		a := Append{
			Process: s.sessions[s.sends[s.events[e].first-1].process].name, Event: s.eventName(e),
			Offset: s.events[e].placeOffset, Call: o.Call, Return: o.Return,
		}
		t, _ := s.span(index, place{offset: a.Offset, event: e})
		a.Acknowledged = t.back != math.MaxInt64
		if o.Return == math.MaxInt64 {
			a.Return = histories.Unknown
		}
		appends = append(appends, a)
	}
	return appends
}

// readable chooses the appends that fit on a page: those that it is about, and the
// nearest of the others as long as there are rows for them. With nothing to be about,
// the first ones.
func readable(appends []Append, about []int) []int {
	if len(about) == 0 {
		about = []int{0}
	}
	distance := func(i int) int {
		nearest := math.MaxInt
		for _, a := range about {
			nearest = min(nearest, max(i-a, a-i))
		}
		return nearest
	}
	candidates := make([]int, 0, windowReach)
	for i := range appends {
		if distance(i) <= windowReach {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
	var shown []int
	for _, i := range candidates {
		if len(shown) == windowAppends {
			break
		}
		with := append(slices.Clone(shown), i)
		slices.Sort(with)
		if slices.Contains(about, i) || countRows(appends, with) <= windowRows {
			shown = with
		}
	}
	return shown
}

// countRows says how many rows some appends take, those of all processes together.
func countRows(appends []Append, chosen []int) int {
	some := make([]Append, 0, len(chosen))
	for _, i := range chosen {
		some = append(some, appends[i])
	}
	type row struct {
		process string
		row     int
	}
	rows := make(map[row]bool)
	for i, r := range layOut(some) {
		rows[row{some[i].Process, r}] = true
	}
	return len(rows)
}

// layOut gives each append the first row of its process that is free when it is called.
func layOut(appends []Append) []int {
	byCall := make([]int, len(appends))
	for i := range byCall {
		byCall[i] = i
	}
	slices.SortStableFunc(byCall, func(a, b int) int { return cmp.Compare(appends[a].Call, appends[b].Call) })
	rows := make([]int, len(appends))
	busy := make(map[string][]int64) // until when the rows of a process are
	for _, i := range byCall {
		a := &appends[i]
		row := slices.IndexFunc(busy[a.Process], func(until int64) bool { return until < a.Call })
		if row < 0 {
			row = len(busy[a.Process])
			busy[a.Process] = append(busy[a.Process], 0)
		}
		rows[i] = row
		busy[a.Process][row] = a.Return
		if a.Return == histories.Unknown {
			busy[a.Process][row] = math.MaxInt64
		}
	}
	return rows
}

// swapRows makes the row of an append the first one of its process.
func swapRows(rows []int, appends []Append, about int) {
	old := rows[about]
	for i := range rows {
		if appends[i].Process != appends[about].Process {
			continue
		}
		switch rows[i] {
		case old:
			rows[i] = 0
		case 0:
			rows[i] = old
		}
	}
}

// withTrueReturns undoes boundReturns, so that a contradiction is between what clients
// were told and not what follows from it.
func (s *state) withTrueReturns(operations []porcupine.Operation, index int32) []porcupine.Operation {
	result := slices.Clone(operations)
	for i := range result {
		e := uint32(result[i].ClientId)
		if t, timed := s.span(index, place{offset: s.events[e].placeOffset, event: e}); timed {
			result[i].Return = max(t.call, t.back)
		}
	}
	return result
}

var (
	// errWindowOutOfTime: a window that is not linearizable could not be narrowed in time.
	errWindowOutOfTime = errors.New("out of time")
	errNoContradiction = errors.New("no two of its appends contradict each other")
)

// contradiction finds the shortest prefix of a window that is not linearizable, and of
// that the shortest suffix: its two ends contradict each other. Every further append
// keeps an illegal window illegal, so that both can be halved for.
func contradiction(operations []porcupine.Operation, deadline time.Time) (first, last int, err error) {
	illegal := func(part []porcupine.Operation) bool {
		left := time.Until(deadline)
		if left <= 0 || err != nil {
			err = errWindowOutOfTime
			return true
		}
		takeTurns(part) // which each search counts anew
		result := porcupine.CheckOperationsTimeout(appendModel, part, left)
		if result == porcupine.Unknown {
			err = errWindowOutOfTime
		}
		return result != porcupine.Ok
	}
	last = sort.Search(len(operations)-1, func(i int) bool { return illegal(operations[:i+1]) })
	first = sort.Search(last, func(i int) bool { return !illegal(operations[i : last+1]) }) - 1
	if err == nil && first < 0 {
		err = errNoContradiction
	}
	return first, last, err
}

// takeTurns gives the appends of a window their turns.
func takeTurns(window []porcupine.Operation) {
	for turn := range window {
		window[turn].Output = appended{turn}
	}
}

// windowPolls gathers the polls of the windows in the second pass over a history.
type windowPolls struct {
	windows map[histories.Partition][]*Window
	called  map[string]int64 // of the poll that each process has outstanding
	clocks  map[string]string
}

func (s *state) windowPolls(windows []*Window) *windowPolls {
	p := &windowPolls{
		windows: make(map[histories.Partition][]*Window), called: make(map[string]int64), clocks: make(map[string]string),
	}
	for _, w := range windows {
		p.windows[w.Partition] = append(p.windows[w.Partition], w)
	}
	for _, x := range s.sessions {
		p.clocks[x.name] = s.clocks.list[x.clock]
	}
	return p
}

func (p *windowPolls) take(line histories.Line) {
	switch l := line.(type) {
	case *histories.Poll:
		p.called[l.Process] = l.Time
	case *histories.PollReturn:
		call, found := p.called[l.Process]
		if !found {
			call = l.Time
		}
		for i := range l.Records {
			for _, w := range p.windows[l.Records[i].Partition] {
				if p.clocks[l.Process] == w.Clock {
					w.takePoll(WindowPoll{Process: l.Process, Call: call, Return: l.Time}, l.Records[i].Records)
				}
			}
		}
	}
}

// takePoll keeps a poll that was given records of the window's part of the log.
func (w *Window) takePoll(poll WindowPoll, records []histories.Record) {
	low, high := w.Appends[0].Offset, w.Appends[len(w.Appends)-1].Offset
	for _, r := range records {
		if r.Offset < low || r.Offset > high {
			continue
		}
		if poll.Number == 0 {
			poll.First = r.Offset
		}
		poll.Last = r.Offset
		poll.Number++
	}
	if poll.Number > 0 && len(w.Polls) < WindowPolls {
		w.Polls = append(w.Polls, poll)
	}
}

// finish puts the polls of each window in the order in which they returned.
func (p *windowPolls) finish() {
	for _, windows := range p.windows {
		for _, w := range windows {
			slices.SortStableFunc(w.Polls, func(a, b WindowPoll) int { return cmp.Compare(a.Return, b.Return) })
		}
	}
}
