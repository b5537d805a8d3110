// This file holds the second judge: porcupine, which knows nothing of the judges
// in this package, asks of each partition whether its appends are linearizable.

package checker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ackproof/ackproof/histories"
	"github.com/anishathalye/porcupine"
)

// SecondJudge is what porcupine says about the appends of each partition. Polls
// are no linearizable reads and stay out of its model.
type SecondJudge struct {
	// Verdict is Held, Violated or UnknownWord (out of time, or nothing to
	// judge). It must agree with realtime-order-violation.
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	// Operations that were judged, in Windows of bounded size.
	Operations int64 `json:"operations"`
	Windows    int   `json:"windows"`

	notDrawn []string // why a window that fails is not in Verdict.Windows
	cut      bool     // some partition's appends took more than one window
}

// windowSize bounds what porcupine is given at once: a cached state costs n/8
// bytes, so its memory grows with the square of n.
const windowSize = 10_000

// windowOverlap keeps violations between neighbouring windows in sight.
const windowOverlap = 500

// appended is the output of an append: its turn among the appends of its window.
type appended struct{ turn int }

// appendModel is a log: appends take their turns. Offsets themselves have holes
// (transaction markers, retried copies), so the judged appends are counted
// through; then one append at most is legal in any state, and the search never
// guesses, however many were in flight.
var appendModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, _, output any) (bool, any) {
		turn := output.(appended).turn
		return turn == state.(int), turn + 1
	},
}

// secondJudge asks porcupine about every partition, one window at a time.
func (s *state) secondJudge(ctx context.Context, v *Verdict) {
	timeout := s.options.SecondJudgeTimeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	judge := &v.SecondJudge
	judge.Verdict = UnknownWord
	if s.withoutTimes() {
		judge.Detail = "the format " + s.header.Source.Format + " does not say when an event was sent"
		return
	}
	if len(s.timesBackward) > 0 {
		judge.Detail = "times run backwards"
		return
	}
	var illegal, late []string
	for index := range s.logs {
		s.judgePartition(ctx, v, int32(index), timeout, &illegal, &late)
	}
	judge.settle(illegal, late, timeout)
	v.compareJudges()
}

// judgePartition asks about one partition, and notes its name where it is illegal and
// where the time ended first.
func (s *state) judgePartition(ctx context.Context, v *Verdict, index int32, timeout time.Duration, illegal, late *[]string) {
	judge, name := &v.SecondJudge, s.logName(index)
	deadline := time.Now().Add(timeout)
	failed, kept := false, false
	windows := s.windowsOf(index)
	for _, window := range windows {
		left := time.Until(deadline)
		if left <= 0 || ctx.Err() != nil {
			*late = append(*late, name)
			break
		}
		judge.Windows++
		judge.Operations += int64(len(window.operations))
		judge.cut = judge.cut || len(window.operations) < window.of
		result := porcupine.CheckOperationsTimeout(appendModel, window.operations, left)
		if result == porcupine.Unknown {
			*late = append(*late, name)
			break
		}
		if result == porcupine.Ok {
			continue
		}
		failed = true
		if s.options.Windows != "" && !kept {
			kept = true
			judge.undrawn(name, s.keepWindow(v, window, deadline))
		}
	}
	if failed {
		*illegal = append(*illegal, name)
	} else if s.options.Windows == WindowsAll && len(windows) > 0 {
		s.keepFirst(v, windows[0])
	}
}

// undrawn notes why a window that fails is not among those that are kept.
func (j *SecondJudge) undrawn(name string, err error) {
	if err != nil {
		j.notDrawn = append(j.notDrawn, fmt.Sprintf("the failing window of %s was not found: %v", name, err))
	}
}

func (j *SecondJudge) settle(illegal, late []string, timeout time.Duration) {
	outOfTime := ""
	if len(late) > 0 {
		outOfTime = fmt.Sprintf("out of time (%s) at %s", timeout, few(late))
	}
	switch {
	case len(illegal) > 0:
		j.Verdict, j.Detail = Violated, "the appends of "+few(illegal)+" are not linearizable"
		if outOfTime != "" {
			j.Detail += "; " + outOfTime
		}
	case outOfTime != "":
		j.Detail = outOfTime
	case j.Operations == 0:
		j.Detail = "no append has a place and a time on one clock"
	default:
		j.Verdict, j.Detail = Held, "the appends of every partition are linearizable"
	}
	for _, reason := range j.notDrawn {
		j.Detail += "; " + reason
	}
}

// compareJudges: where the judges disagree, one of them is wrong, and the promise
// is not called held.
func (v *Verdict) compareJudges() {
	found := v.Anomalies[RealtimeOrderViolation].Count > 0
	if v.SecondJudge.Verdict == UnknownWord || found == (v.SecondJudge.Verdict == Violated) {
		return
	}
	if found && v.SecondJudge.cut {
		v.SecondJudge.Detail += "; the violation found spans more than one window"
		return
	}
	for i := range v.Promises {
		p := &v.Promises[i]
		if p.Name == RealtimeOrderViolation && p.Verdict != NotPromised {
			p.Verdict = UnknownWord
			p.Reason = "the two judges disagree, which is a defect of ours: please report it with the history"
		}
	}
}

// judgedWindow is a window of a partition's appends.
type judgedWindow struct {
	log        int32
	clock      uint32
	of         int // how many appends the partition has by that clock
	operations []porcupine.Operation
}

// windowsOf gives the windows of a partition's appends, those of each clock apart:
// their times are not comparable.
func (s *state) windowsOf(index int32) []judgedWindow {
	var all []judgedWindow
	for clock := range s.clocks.list {
		appends := s.appends(index, uint32(clock))
		for _, operations := range windows(appends) {
			all = append(all, judgedWindow{index, uint32(clock), len(appends), operations})
		}
	}
	return all
}

// appends gives the settled appends of a partition that a clock stamped, by offset:
// what is acknowledged or present.
func (s *state) appends(index int32, clock uint32) []porcupine.Operation {
	var operations []porcupine.Operation
	tie, at := 0, int64(histories.Unknown) // where the operations of the last offset begin
	for _, r := range s.logs[index].records {
		t, timed := s.span(index, r)
		if !timed || t.clock != clock {
			continue
		}
		if r.offset != at {
			tie, at = len(operations), r.offset
		}
		// porcupine passes ClientId on and does not look at it: it says which event it is.
		operations = append(operations, porcupine.Operation{ClientId: int(r.event), Call: t.call, Return: max(t.call, t.back)})
		// Two events at one offset lie neither before nor behind each other: they
		// take their turns as they were called.
		for n := len(operations) - 1; n > tie && operations[n].Call < operations[n-1].Call; n-- {
			operations[n], operations[n-1] = operations[n-1], operations[n]
		}
	}
	boundReturns(operations)
	return operations
}

// boundReturns walks a log backwards: an append happened before any later one was
// acknowledged. It changes no answer and saves the search from guessing.
func boundReturns(operations []porcupine.Operation) {
	bound := int64(math.MaxInt64)
	for i := len(operations) - 1; i >= 0; i-- {
		if operations[i].Return == math.MaxInt64 && bound > operations[i].Call {
			operations[i].Return = bound
		}
		bound = min(bound, operations[i].Return)
	}
}

// windows cuts appends into overlapping windows by offset and numbers the turns
// of each.
func windows(all []porcupine.Operation) [][]porcupine.Operation {
	var result [][]porcupine.Operation
	for len(all) > 0 {
		window := slices.Clone(all[:min(windowSize, len(all))])
		takeTurns(window)
		result = append(result, window)
		if len(all) <= windowSize {
			return result
		}
		all = all[windowSize-windowOverlap:]
	}
	return result
}
