// This file holds the assumptions that a judgement rests on. They are checked, as
// a part of the verdict of their own; one that fails makes unknown the promises
// that rest on it, and no others.

package checker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// The assumptions, by the names that verdict.json and Source.NotApplicable use.
const (
	AssumeHistoryWhole       = "history-whole"
	AssumeWellFormed         = "history-well-formed"
	AssumeEmptyAtStart       = "log-empty-at-start"
	AssumeRanksGapless       = "ranks-gapless"
	AssumeTimesForward       = "times-do-not-run-backwards"
	AssumeOneClock           = "one-clock"
	AssumeAttemptedInFaults  = "attempted-during-every-fault"
	AssumeAcknowledgedBefore = "acknowledged-before-first-fault"
	AssumeAcknowledgedAfter  = "acknowledged-after-last-fault"
	AssumeFaultsBit          = "faults-bit"
	AssumeLastWrite          = "last-write-to-each-partition-succeeded"
	AssumeFinalRead          = "final-read-complete"
	AssumeReplicasRead       = "replicas-read"
)

// The verdicts of an assumption.
const (
	AssumptionHeld          = "held"
	AssumptionFailed        = "failed"
	AssumptionNotApplicable = "not-applicable"
)

// Assumption is one assumption with what was found.
type Assumption struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	// RestOn names the promises that are unknown when it failed.
	RestOn []Anomaly `json:"rest_on,omitempty"`
	// overrides: the failed assumption could have produced what was found, so
	// even a finding proves nothing.
	overrides bool
}

// Promises by what they rest on.
var (
	onLog = []Anomaly{LostWrite, WrongOffset, Corrupt, Duplicate, OrderViolation, LateGhost, RealtimeOrderViolation,
		Divergence, VanishedRead, EpochRegression, Phantom, ImpossibleWrite, WrongPlace, SkippedPoll, Unseen}
	onFaults = []Anomaly{LostWrite, WrongOffset, Duplicate, OrderViolation, LateGhost, RealtimeOrderViolation,
		Divergence, VanishedRead, NotRecovered}
	onTime = []Anomaly{RealtimeOrderViolation, FutureRead}
)

// assumptions checks them all.
func (s *state) assumptions() []Assumption {
	all := []Assumption{
		s.assumeWhole(), s.assumeWellFormed(), s.assumeEmpty(), s.assumeRanks(), s.assumeTimes(), s.assumeClock(),
	}
	all = append(all, s.assumeAboutFaults()...)
	all = append(all, s.assumeLastWrite(), s.assumeFinalRead(), s.assumeReplicas())
	if s.header.Source == nil {
		return all
	}
	for i := range all {
		if slices.Contains(s.header.Source.NotApplicable, all[i].Name) {
			all[i].Verdict, all[i].Detail = AssumptionNotApplicable, "the format "+s.header.Source.Format+" does not record it"
		}
	}
	return all
}

func held(name, format string, args ...any) Assumption {
	return Assumption{Name: name, Verdict: AssumptionHeld, Detail: fmt.Sprintf(format, args...)}
}

func failed(name string, rest []Anomaly, format string, args ...any) Assumption {
	return Assumption{Name: name, Verdict: AssumptionFailed, Detail: fmt.Sprintf(format, args...), RestOn: rest}
}

// failedOverriding is failed for an assumption that could itself have produced what was
// found: even a finding proves nothing then.
func failedOverriding(name string, rest []Anomaly, format string, args ...any) Assumption {
	a := failed(name, rest, format, args...)
	a.overrides = true
	return a
}

func (s *state) assumeWhole() Assumption {
	onEnd := []Anomaly{LostWrite, Unseen, NotRecovered}
	switch {
	case s.cut != nil:
		return failedOverriding(AssumeHistoryWhole, onEnd, "%s", s.cut.Error())
	case s.end == nil && s.header.Source == nil:
		return failedOverriding(AssumeHistoryWhole, onEnd, "the history has no closing line: whoever recorded it was stopped or killed")
	case s.end != nil && s.end.Reason == histories.EndInterrupted:
		return held(AssumeHistoryWhole, "the run was interrupted, healed and read to the end: %d lines", s.lines)
	}
	return held(AssumeHistoryWhole, "%d lines", s.lines)
}

func (s *state) assumeWellFormed() Assumption {
	if len(s.malformed) == 0 {
		return held(AssumeWellFormed, "every completion has its invocation, every operation its own number")
	}
	return failedOverriding(AssumeWellFormed, onLog, "%s", strings.Join(s.malformed, "; "))
}

// assumeEmpty: a log that was not empty is ignored up to its end before the run,
// unless it held records of this run there: an identity was used before, and any
// finding may be the earlier use's.
func (s *state) assumeEmpty() Assumption {
	for index, log := range s.logs {
		for _, r := range log.records {
			if r.offset >= s.startOf(log.name) {
				break
			}
			if r.event != foreign {
				return failedOverriding(AssumeEmptyAtStart, onLog, "%s held a record of this run at offset %d before the run began: %s",
					s.logName(int32(index)), r.offset, s.eventName(r.event))
			}
		}
	}
	used := 0
	for _, t := range s.header.Topics {
		for _, end := range t.Start {
			if end > 0 {
				used++
			}
		}
	}
	if used > 0 {
		return held(AssumeEmptyAtStart, "%d partitions held records before the run; those are foreign and ignored", used)
	}
	return held(AssumeEmptyAtStart, "no partition held a record before the run")
}

// assumeRanks: ranks of a producer and ordering key are 0, 1, 2 … in the history,
// or a send is missing from it.
func (s *state) assumeRanks() Assumption {
	order, resent := s.inSendOrder(), s.resentBy()
	for n, i := range order {
		d, before := &s.sends[i], int64(-1)
		if n > 0 && s.sameOrder(order[n-1], i) {
			before = s.sends[order[n-1]].rank
		}
		if d.rank == before {
			return failed(AssumeRanksGapless, []Anomaly{OrderViolation, LateGhost},
				"%s gave rank %d of key %q twice", s.sessions[d.process].name, d.rank, s.keys.list[d.key])
		}
		if d.rank > before+1 && !resent[d.process] {
			return failed(AssumeRanksGapless, []Anomaly{OrderViolation, LateGhost}, "%s has no send with rank %d of key %q",
				s.sessions[d.process].name, before+1, s.keys.list[d.key])
		}
	}
	return held(AssumeRanksGapless, "the send order of every producer and key is known without a gap")
}

// resentBy gives the processes that sent an event again: ranks that resends took are
// not in the order of first sends.
func (s *state) resentBy() map[uint32]bool {
	processes := make(map[uint32]bool)
	for _, sends := range s.resends {
		for _, i := range sends {
			processes[s.sends[i].process] = true
		}
	}
	return processes
}

func (s *state) assumeTimes() Assumption {
	if len(s.timesBackward) == 0 {
		return held(AssumeTimesForward, "no operation completed before its invocation, no process went back in time")
	}
	return failedOverriding(AssumeTimesForward, onTime, "%s", strings.Join(s.timesBackward, "; "))
}

func (s *state) assumeClock() Assumption {
	used := make(map[uint32]bool)
	for _, x := range s.sessions {
		used[x.clock] = true
	}
	if len(used) > 1 {
		return held(AssumeOneClock, "%d clocks; times are compared only within each", len(used))
	}
	return held(AssumeOneClock, "one clock stamped every operation")
}

// assumeAboutFaults: something was tried in every fault, acknowledged before the
// first and after the last, and every family that was asked for bit.
func (s *state) assumeAboutFaults() []Assumption {
	if len(s.faults) == 0 {
		return []Assumption{
			held(AssumeAttemptedInFaults, "no fault was injected"), held(AssumeAcknowledgedBefore, "no fault was injected"),
			held(AssumeAcknowledgedAfter, "no fault was injected"), held(AssumeFaultsBit, "no fault was asked for"),
		}
	}
	first, last := int64(math.MaxInt64), never
	for _, f := range s.faults {
		first, last = min(first, f.Start), max(last, f.ended())
	}
	s.countDuringFaults()
	before, after := s.acknowledgedAround(first, last)
	return []Assumption{s.assumeAttempted(), s.assumeBefore(before), s.assumeAfter(after), s.assumeBit()}
}

// ended is when the fault was over. One that never was lasts for ever.
func (f *Fault) ended() int64 {
	if f.End == never {
		return math.MaxInt64
	}
	return f.End
}

func (s *state) assumeAttempted() Assumption {
	for _, f := range s.faults {
		if f.Attempted == 0 && f.Error == "" {
			return failed(AssumeAttemptedInFaults, onFaults, "nothing was sent while %s was on", f.ID)
		}
	}
	return held(AssumeAttemptedInFaults, "events were sent during each of the %d faults", len(s.faults))
}

func (s *state) assumeBefore(count int64) Assumption {
	if count == 0 {
		return failed(AssumeAcknowledgedBefore, onFaults, "no event was acknowledged before the first fault began")
	}
	return held(AssumeAcknowledgedBefore, "%d events were acknowledged before the first fault began", count)
}

func (s *state) assumeAfter(count int64) Assumption {
	if count == 0 {
		return failed(AssumeAcknowledgedAfter, onFaults, "no event that was sent after the last fault was acknowledged")
	}
	return held(AssumeAcknowledgedAfter, "%d events that were sent after the last fault were acknowledged", count)
}

// assumeBit gives, of every kind of fault that never took effect, what hindered the last one of it.
func (s *state) assumeBit() Assumption {
	bit, last := make(map[string]bool), make(map[string]*Fault)
	for _, f := range s.faults {
		bit[f.Name] = bit[f.Name] || f.Bit
		last[f.Name] = f
	}
	var never []string
	for _, name := range slices.Sorted(maps.Keys(bit)) {
		if !bit[name] {
			never = append(never, fmt.Sprintf("%s was asked for and never took effect%s", name, last[name].hindered()))
		}
	}
	if len(never) > 0 {
		return failed(AssumeFaultsBit, onFaults, "%s", strings.Join(never, "; "))
	}
	return held(AssumeFaultsBit, "every kind of fault that was asked for took effect")
}

// hindered says, in parentheses, what is known of why the fault did not take effect.
func (f *Fault) hindered() string {
	why := slices.DeleteFunc([]string{f.Evidence, f.Error}, func(s string) bool { return s == "" })
	if len(why) == 0 {
		return ""
	}
	return " (" + f.ID + ": " + strings.Join(why, "; ") + ")"
}

// countDuringFaults counts the sends that were invoked during each fault.
func (s *state) countDuringFaults() {
	invoked := make([]int64, 0, len(s.sends))
	for i := range s.sends {
		invoked = append(invoked, s.sends[i].invoked)
	}
	slices.Sort(invoked)
	for _, f := range s.faults {
		low, _ := slices.BinarySearch(invoked, f.Start)
		high := sort.Search(len(invoked), func(i int) bool { return invoked[i] > f.ended() })
		f.Attempted = int64(max(high-low, 0))
	}
}

func (s *state) acknowledgedAround(first, last int64) (before, after int64) {
	for i := range s.sends {
		d := &s.sends[i]
		if !s.confirmed(d) {
			continue
		}
		if at := d.reportedAt(); at != never && at <= first {
			before++
		}
		if d.invoked >= last {
			after++
		}
	}
	return before, after
}

// assumeLastWrite: the last send to each partition, in invocation order, was
// acknowledged, or was answered at least.
func (s *state) assumeLastWrite() Assumption {
	fresh := s.freshByLog()
	if len(fresh) == 0 {
		if s.header.Source == nil && s.hasFinalRead {
			return failed(AssumeLastWrite, []Anomaly{NotRecovered}, "no fresh client wrote to the partitions after the faults")
		}
		return Assumption{Name: AssumeLastWrite, Verdict: AssumptionNotApplicable, Detail: "no fresh client wrote at the end"}
	}
	var silent []string
	for _, log := range slices.Sorted(maps.Keys(fresh)) {
		if !fresh[log].acknowledged {
			silent = append(silent, s.logName(log))
		}
	}
	if len(silent) > 0 {
		return failed(AssumeLastWrite, []Anomaly{NotRecovered}, "the last write to %s was not acknowledged", few(silent))
	}
	return held(AssumeLastWrite, "a fresh client's write to each of %d partitions was acknowledged", len(fresh))
}

func (s *state) assumeFinalRead() Assumption {
	if !s.hasFinalRead {
		return failed(AssumeFinalRead, onLog, "there is no final read: only what a poll or an acknowledgement proves is known")
	}
	var incomplete []string
	complete := 0
	for index, log := range s.logs {
		switch {
		case log.complete(), log.frozen():
			complete++
		default:
			incomplete = append(incomplete, s.logName(int32(index))+" ("+log.whyIncomplete()+")")
		}
	}
	missing, count := s.neverRead()
	if count += len(incomplete); count > 0 {
		return failed(AssumeFinalRead, onLog, "not read to the end: %s", fewOf(append(incomplete, missing...), count))
	}
	return held(AssumeFinalRead, "%d partitions were read from their start to an end that stayed the same", complete)
}

// mostNamed is how many of many things are named.
const mostNamed = 3

// few lists the first few of many, each on one line and not too long: the history has
// the rest.
func few(parts []string) string { return fewOf(parts, len(parts)) }

// fewOf lists the first few of so many, of which parts has the first few at least.
func fewOf(parts []string, count int) string {
	const longest = 240
	shown := make([]string, 0, mostNamed+1)
	for _, part := range parts[:min(len(parts), mostNamed)] {
		part = strings.Join(strings.Fields(part), " ")
		if runes := []rune(part); len(runes) > longest {
			part = string(runes[:longest]) + "…"
		}
		shown = append(shown, part)
	}
	if more := count - mostNamed; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// neverRead names the first few partitions of the header that no line mentions, and counts
// all: a header may say that there are two billion.
func (s *state) neverRead() (first []string, count int) {
	mentioned := make(map[string]int)
	for _, log := range s.logs {
		for _, t := range s.header.Topics {
			if t.Name == log.name.Topic && log.name.Partition >= 0 && log.name.Partition < t.Partitions {
				mentioned[t.Name]++
				break
			}
		}
	}
	for _, t := range s.header.Topics {
		missing := int(t.Partitions) - mentioned[t.Name]
		count += max(missing, 0)
		for p := int32(0); p < t.Partitions && len(first) < mostNamed; p++ {
			if _, known := s.logByName[histories.Partition{Topic: t.Name, Partition: p}]; !known {
				first = append(first, fmt.Sprintf("%s/%d (never read)", t.Name, p))
			}
		}
	}
	return first, count
}

func (l *partitionLog) whyIncomplete() string {
	f := l.final
	switch {
	case f == nil:
		return "no final read"
	case f.Error != "":
		return f.Error
	case f.Position != f.HighWatermark:
		return fmt.Sprintf("read up to %d of %d", f.Position, f.HighWatermark)
	case f.SecondHighWatermark != f.HighWatermark:
		return fmt.Sprintf("the high watermark moved from %d to %d", f.HighWatermark, f.SecondHighWatermark)
	case f.SecondLogEnd != f.LogEnd:
		return fmt.Sprintf("the end moved from %d to %d", f.LogEnd, f.SecondLogEnd)
	}
	return fmt.Sprintf("high watermark %d, log end %d", f.HighWatermark, f.LogEnd)
}
