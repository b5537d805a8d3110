// This file tests the assumptions and the rules by which promises and assumptions
// make a verdict: each failed assumption makes unknown exactly what rests on it.

package checker_test

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// assumption gives one by its name.
func assumption(t *testing.T, v *checker.Verdict, name string) checker.Assumption {
	t.Helper()
	i := slices.IndexFunc(v.Assumptions, func(a checker.Assumption) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("the verdict has no assumption %s", name)
	}
	return v.Assumptions[i]
}

// healthy is a history that is held, of several partitions, without resends, with
// something polled and a fault in its middle.
func healthy(t *testing.T) *histories.Memory {
	t.Helper()
	var h *histories.Memory
	for seed := int64(0); h == nil; seed++ {
		h = randomHistory(rand.New(rand.NewSource(seed)), true)
		again := slices.ContainsFunc(lines[*histories.Send](h), func(s *histories.Send) bool { return s.ResendOf != nil })
		if again || h.Head.Topics[0].Partitions < 2 || len(lines[*histories.Send](h)) < 12 || onePolled(rand.New(rand.NewSource(0)), h) == nil {
			h = nil
		}
	}
	sends := lines[*histories.Send](h)
	middle := sends[len(sends)/2].Time
	h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, 1,
		&histories.FaultStart{ID: "isolate#1", Name: "isolate", Time: middle},
		&histories.FaultEnd{ID: "isolate#1", Time: middle, Bit: true})
	if v := check(t, h); v.Verdict != checker.Held {
		t.Fatalf("the history to begin with is %s: %s", v.Verdict, v.Summary)
	}
	return h
}

func fault(h *histories.Memory) (*histories.FaultStart, *histories.FaultEnd) {
	return lines[*histories.FaultStart](h)[0], lines[*histories.FaultEnd](h)[0]
}

func TestAFailedAssumptionMakesUnknownWhatRestsOnIt(t *testing.T) {
	for _, c := range []struct {
		rule, name string
		breaks     func(h *histories.Memory)
	}{
		{"a history without its closing line was cut", checker.AssumeHistoryWhole, func(h *histories.Memory) {
			h.Body = h.Body[:len(h.Body)-1]
		}},
		{"a completion without an invocation is malformed", checker.AssumeWellFormed, func(h *histories.Memory) {
			h.Body = append(h.Body, &histories.SendReturn{OperationID: histories.OperationID{Process: "nobody"}})
		}},
		{"a record of the final read at an impossible offset is malformed", checker.AssumeWellFormed, func(h *histories.Memory) {
			records := &lines[*histories.FinalRecords](h)[0].Records
			records.Records = append([]histories.Record{{Offset: -1}}, records.Records...)
		}},
		{"a record of this run below the log's end before the run was there at the start", checker.AssumeEmptyAtStart,
			func(h *histories.Memory) { h.Head.Topics[0].Start = []int64{1000, 1000, 1000} }},
		{"a rank that is missing in the middle is a send that is missing", checker.AssumeRanksGapless, func(h *histories.Memory) {
			for _, s := range lines[*histories.Send](h) {
				s.Rank *= 2
			}
		}},
		{"a first rank other than 0 is a send that is missing", checker.AssumeRanksGapless, func(h *histories.Memory) {
			for _, s := range lines[*histories.Send](h) {
				s.Rank++
			}
		}},
		{"a completion before its invocation is time that runs backwards", checker.AssumeTimesForward, func(h *histories.Memory) {
			lines[*histories.SendReturn](h)[0].Time = -1
		}},
		{"a fault during which nothing was sent shows nothing", checker.AssumeAttemptedInFaults, func(h *histories.Memory) {
			start, end := fault(h)
			start.Time, end.Time = 1000, 1001
		}},
		{"without an acknowledgement before the first fault it is not known that anything worked", checker.AssumeAcknowledgedBefore,
			func(h *histories.Memory) { s, _ := fault(h); s.Time = -1 }},
		{"without an acknowledgement after the last fault it is not known that anything works", checker.AssumeAcknowledgedAfter,
			func(h *histories.Memory) { _, e := fault(h); e.Time = 1000 }},
		{"a kind of fault that never bit counts as not injected", checker.AssumeFaultsBit,
			func(h *histories.Memory) { _, e := fault(h); e.Bit = false }},
		{"a fresh client that was not acknowledged in time leaves open whether the cluster serves", checker.AssumeLastWrite,
			func(h *histories.Memory) {
				for _, r := range lines[*histories.SendReturn](h) {
					if r.Process == "fresh" {
						r.Error, r.Partition, r.Offset = "REQUEST_TIMED_OUT", histories.Unknown, histories.Unknown
					}
				}
			}},
		{"a final read that ended early leaves the log open", checker.AssumeFinalRead, func(h *histories.Memory) {
			lines[*histories.FinalRead](h)[0].Error = "the leader went away"
		}},
		{"a second look that found another end leaves the log open", checker.AssumeFinalRead, func(h *histories.Memory) {
			lines[*histories.FinalRead](h)[0].SecondLogEnd++
			lines[*histories.FinalRead](h)[0].SecondHighWatermark++
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := healthy(t)
			c.breaks(h)
			v := check(t, h)
			a := assumption(t, v, c.name)
			if a.Verdict != checker.AssumptionFailed || len(a.RestOn) == 0 || a.Detail == "" {
				t.Fatalf("%s is %s (%s), and rests on it: %v", c.name, a.Verdict, a.Detail, a.RestOn)
			}
			for _, p := range v.Promises {
				rests := slices.ContainsFunc(v.Assumptions, func(a checker.Assumption) bool {
					return a.Verdict == checker.AssumptionFailed && slices.Contains(a.RestOn, p.Name)
				})
				if rests != (p.Verdict == checker.UnknownWord) {
					t.Errorf("%s is %s (%s); it rests on what failed: %v", p.Name, p.Verdict, p.Reason, rests)
				}
			}
			if v.Verdict != checker.UnknownWord {
				t.Errorf("the whole is %s", v.Verdict)
			}
		})
	}
}

func TestWhyAFaultNeverTookEffectIsSaid(t *testing.T) {
	for _, c := range []struct {
		rule   string
		breaks func(end *histories.FaultEnd)
		says   string
	}{
		{"by its evidence", func(e *histories.FaultEnd) { e.Evidence = "nobody noticed" }, " (ID: nobody noticed)"},
		{"by its error", func(e *histories.FaultEnd) { e.Evidence, e.Error = "", "no such broker" }, " (ID: no such broker)"},
		{"by both", func(e *histories.FaultEnd) { e.Evidence, e.Error = "nobody noticed", "out of time" },
			" (ID: nobody noticed; out of time)"},
		{"not where nothing is known of it", func(e *histories.FaultEnd) { e.Evidence = "" }, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := healthy(t)
			start, end := fault(h)
			end.Bit = false
			c.breaks(end)
			want := start.Name + " was asked for and never took effect" + strings.ReplaceAll(c.says, "ID", start.ID)
			if a := assumption(t, check(t, h), checker.AssumeFaultsBit); a.Detail != want {
				t.Errorf("it says %q, want %q", a.Detail, want)
			}
		})
	}
}

func TestAnAssumptionThatTheFormatCannotSupportIsNotAskedFor(t *testing.T) {
	h := healthy(t)
	_, end := fault(h)
	end.Bit = false
	h.Head.Source = &histories.Source{Format: "other", NotApplicable: []string{checker.AssumeFaultsBit}}
	v := check(t, h)
	if a := assumption(t, v, checker.AssumeFaultsBit); a.Verdict != checker.AssumptionNotApplicable || v.Verdict != checker.Held {
		t.Errorf("the assumption is %s, the whole %s (%s)", a.Verdict, v.Verdict, v.Summary)
	}
}

// loseOne takes an acknowledged event out of the final log and out of every poll.
func loseOne(t *testing.T, h *histories.Memory) string {
	t.Helper()
	for _, l := range lines[*histories.FinalRecords](h) {
		event := l.Records.Records[0].Event
		polled := slices.ContainsFunc(lines[*histories.PollReturn](h), func(p *histories.PollReturn) bool {
			return slices.ContainsFunc(p.Records, func(rs histories.Records) bool {
				return slices.ContainsFunc(rs.Records, func(r histories.Record) bool { return r.Event == event })
			})
		})
		sends := slices.DeleteFunc(lines[*histories.Send](h), func(s *histories.Send) bool { return s.Event != event })
		if event != "" && !polled && len(sends) == 1 && sends[0].Process != "fresh" {
			remove(h, l)
			return event
		}
	}
	t.Fatal("no event of the history can be lost")
	return ""
}

func TestTheWhole(t *testing.T) {
	promise := func(v *checker.Verdict, name checker.Anomaly) string {
		for _, p := range v.Promises {
			if p.Name == name {
				return p.Verdict
			}
		}
		return ""
	}
	t.Run("a proven violation stands beside a failed assumption that could not have produced it", func(t *testing.T) {
		h := healthy(t)
		loseOne(t, h)
		_, end := fault(h)
		end.Bit = false
		v := check(t, h)
		if promise(v, checker.LostWrite) != checker.Violated || promise(v, checker.Duplicate) != checker.UnknownWord ||
			v.Verdict != checker.Violated {
			t.Errorf("lost-write is %s, duplicate %s, the whole %s", promise(v, checker.LostWrite), promise(v, checker.Duplicate), v.Verdict)
		}
	})
	t.Run("a loss found in a history that was cut proves nothing", func(t *testing.T) {
		h := healthy(t)
		loseOne(t, h)
		h.Body = h.Body[:len(h.Body)-1]
		if v := check(t, h); promise(v, checker.LostWrite) != checker.UnknownWord || v.Anomalies[checker.LostWrite].Count != 1 {
			t.Errorf("lost-write is %s", promise(v, checker.LostWrite))
		}
	})
	t.Run("what lies in a partition that the final read left out is neither unseen nor lost", func(t *testing.T) {
		h := healthy(t)
		left := lines[*histories.FinalRead](h)[0].Partition
		h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool {
			read, end := l.(*histories.FinalRead)
			records, some := l.(*histories.FinalRecords)
			return (end && read.Partition == left) || (some && records.Partition == left)
		})
		v := check(t, h)
		if v.Verdict != checker.UnknownWord {
			t.Errorf("the whole is %s: %s", v.Verdict, v.Summary)
		}
	})
	t.Run("nothing attempted is unknown", func(t *testing.T) {
		h := &histories.Memory{Head: healthy(t).Head, Body: []histories.Line{&histories.End{Reason: histories.EndFinished}}}
		if v := check(t, h); v.Verdict != checker.UnknownWord {
			t.Errorf("the whole is %s", v.Verdict)
		}
	})
	t.Run("a lie is said above all else", func(t *testing.T) {
		h := healthy(t)
		start, _ := fault(h)
		start.Lie = true
		if v := check(t, h); !v.Planted || v.Verdict != checker.Held {
			t.Errorf("planted %v, the whole %s", v.Planted, v.Verdict)
		}
	})
	t.Run("what nothing on the cluster could break is not tested, and found all the same", func(t *testing.T) {
		h := healthy(t)
		h.Head.Cluster = &histories.Cluster{CannotBreak: []string{string(checker.LostWrite)}}
		if v := check(t, h); promise(v, checker.LostWrite) != checker.NotTested || v.Verdict != checker.Held {
			t.Errorf("lost-write is %s, the whole %s", promise(v, checker.LostWrite), v.Verdict)
		}
		loseOne(t, h)
		if v := check(t, h); promise(v, checker.LostWrite) != checker.Violated {
			t.Errorf("lost-write is %s though one is lost", promise(v, checker.LostWrite))
		}
	})
}

func TestAnExampleCarriesTheLifeOfItsEvent(t *testing.T) {
	h := healthy(t)
	event := loseOne(t, h)
	send := lines[*histories.Send](h)[slices.IndexFunc(lines[*histories.Send](h), func(s *histories.Send) bool { return s.Event == event })]
	at := slices.IndexFunc(h.Body, func(l histories.Line) bool { return l == histories.Line(send) })
	h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, at+1, &histories.Attempt{Process: send.Process, Time: send.Time,
		End: send.Time, Topic: send.Topic, Sends: []histories.Range{{First: send.Number, Last: send.Number}}, Answer: "NONE"})
	v := check(t, h)
	if len(v.Anomalies[checker.LostWrite].Examples) != 1 {
		t.Fatalf("%d examples", len(v.Anomalies[checker.LostWrite].Examples))
	}
	x := v.Anomalies[checker.LostWrite].Examples[0]
	var kinds []string
	last := int64(-1)
	for _, e := range x.Evidence {
		kinds = append(kinds, e.What)
		if e.Time == nil || *e.Time < last || e.Line < 2 || e.Text == "" {
			t.Errorf("out of order or empty: %+v", e)
			continue
		}
		last = *e.Time
	}
	if !slices.Equal(kinds, []string{"send", "attempt", "return"}) {
		t.Errorf("the evidence is %v", kinds)
	}
}

func TestAnExampleOfWhatWasReadShowsEveryReading(t *testing.T) {
	h := healthy(t)
	var read *histories.Record
	for _, p := range lines[*histories.PollReturn](h) {
		for _, rs := range p.Records {
			read = &rs.Records[0]
		}
	}
	if read == nil {
		t.Fatal("nothing was polled")
	}
	read.Corrupt = "value"
	v := check(t, h)
	if len(v.Anomalies[checker.Corrupt].Examples) != 1 {
		t.Fatalf("%d examples", len(v.Anomalies[checker.Corrupt].Examples))
	}
	var kinds []string
	for _, e := range v.Anomalies[checker.Corrupt].Examples[0].Evidence {
		kinds = append(kinds, e.What)
	}
	for _, kind := range []string{"send", "return", "poll", "final-read"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("the evidence lacks a %s: %v", kind, kinds)
		}
	}
	if i := slices.Index(kinds, "final-read"); i >= 0 && i != len(kinds)-1 {
		t.Errorf("the final read has no time and comes last: %v", kinds)
	}
}

// TestPartitionsThatWereNeverReadAreCountedAndAFewAreNamed: however many the header says there
// are, and however often it says so.
func TestPartitionsThatWereNeverReadAreCountedAndAFewAreNamed(t *testing.T) {
	for _, c := range []struct {
		rule       string
		partitions int32
		also       []histories.Partition // was read
		want       string
	}{
		{"one", 3, nil, "not read to the end: t/2 (never read)"},
		{"four", 6, nil, "not read to the end: t/2 (never read), t/3 (never read), t/4 (never read), 1 more"},
		{"two billion", math.MaxInt32, nil,
			"not read to the end: t/2 (never read), t/3 (never read), t/4 (never read), 2147483642 more"},
		{"one that the header does not know stands for none", 3, []histories.Partition{{Topic: "t", Partition: 3}},
			"not read to the end: t/2 (never read)"},
		{"nor does one of another topic", 3, []histories.Partition{{Topic: "u", Partition: 2}, {Topic: "u", Partition: 9}},
			"not read to the end: t/2 (never read)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := inTurn(3, false) // of the partitions 0 and 1
			h.Head.Topics = []histories.Topic{{Name: "t", Partitions: c.partitions, Properties: map[string]string{}}}
			for _, p := range c.also {
				h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, len(h.Body)-1,
					&histories.FinalRead{Partition: p, Isolation: histories.ReadUncommitted})
			}
			a := assumption(t, check(t, h), checker.AssumeFinalRead)
			if a.Verdict != checker.AssumptionFailed || a.Detail != c.want {
				t.Errorf("%s: %s; want %s", a.Verdict, a.Detail, c.want)
			}
		})
	}
}

func TestWhyAPartitionWasNotReadToItsEnd(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(f *histories.FinalRead) // of three records
		want   string                       // empty: it was
	}{
		{"it was", func(*histories.FinalRead) {}, ""},
		{"the log's end stays above the high watermark", func(f *histories.FinalRead) { f.LogEnd, f.SecondLogEnd = 5, 5 }, ""},
		{"an error", func(f *histories.FinalRead) { f.Error = "the leader went away" }, "the leader went away"},
		{"the read stopped early", func(f *histories.FinalRead) { f.Position = 2 }, "read up to 2 of 3"},
		{"the second look found another high watermark", func(f *histories.FinalRead) { f.SecondHighWatermark = 4 },
			"the high watermark moved from 3 to 4"},
		{"the second look found another end", func(f *histories.FinalRead) { f.SecondLogEnd = 4 }, "the end moved from 3 to 4"},
		{"the log ends below its high watermark", func(f *histories.FinalRead) { f.LogEnd, f.SecondLogEnd = 2, 2 },
			"high watermark 3, log end 2"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := inTurn(3, false)
			c.change(lines[*histories.FinalRead](h)[1])
			verdict, detail := checker.AssumptionFailed, "not read to the end: t/1 ("+c.want+")"
			if c.want == "" {
				verdict, detail = checker.AssumptionHeld, "2 partitions were read from their start to an end that stayed the same"
			}
			if a := assumption(t, check(t, h), checker.AssumeFinalRead); a.Verdict != verdict || a.Detail != detail {
				t.Errorf("%s: %s; want %s: %s", a.Verdict, a.Detail, verdict, detail)
			}
		})
	}
}

// TestFaultsAreHeldAgainstWhatWasSentAroundThem: q sends at 1 ms, p at 3, 5 and 7 ms, and each is
// acknowledged a millisecond later. The line of q is the last one.
func TestFaultsAreHeldAgainstWhatWasSentAroundThem(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		rule          string
		faults        [][2]int64 // start and end in milliseconds
		attempted     []int64
		before, after int // acknowledged
	}{
		{"what is sent at a bound is sent during the fault", [][2]int64{{3, 5}}, []int64{2}, 1, 2},
		{"what is acknowledged as it begins is acknowledged before it", [][2]int64{{4, 6}}, []int64{1}, 2, 1},
		{"of two the one that began first and the one that ended last count", [][2]int64{{5, 6}, {2, 7}}, []int64{1, 3}, 1, 1},
		{"whichever is told first", [][2]int64{{2, 7}, {5, 6}}, []int64{3, 1}, 1, 1},
		{"one that never ended goes on", [][2]int64{{5, never}}, []int64{2}, 2, 0},
		{"behind one that never ended nothing is sent, though another one ended", [][2]int64{{2, 4}, {3, never}}, []int64{1, 3}, 1, 0},
		{"whichever of these is told first", [][2]int64{{3, never}, {2, 4}}, []int64{3, 1}, 1, 0},
		{"before the first one nothing may have been sent", [][2]int64{{0, 1}}, []int64{1}, 0, 4},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := told(t, func(t *tale) {
				t.wait(2)
				for range 3 {
					t.done("p", "k", 0)
				}
				s := t.send("q", "k")
				s.Time = millisecond
				t.acknowledge(s, 1, t.write(1, s))
				t.Body[len(t.Body)-1].(*histories.SendReturn).Time = 2 * millisecond
				for i, f := range c.faults {
					id := fmt.Sprintf("isolate#%d", i)
					t.say(&histories.FaultStart{ID: id, Name: "isolate", Time: f[0] * millisecond})
					if f[1] != never {
						t.say(&histories.FaultEnd{ID: id, Time: f[1] * millisecond, Bit: true})
					}
				}
			})
			for i, f := range v.Faults {
				if f.Attempted != c.attempted[i] {
					t.Errorf("%d were sent during %s, want %d", f.Attempted, f.ID, c.attempted[i])
				}
			}
			for name, want := range map[string]string{
				checker.AssumeAcknowledgedBefore: fmt.Sprintf("%d events were acknowledged before the first fault began", c.before),
				checker.AssumeAcknowledgedAfter:  fmt.Sprintf("%d events that were sent after the last fault were acknowledged", c.after),
			} {
				a := assumption(t, v, name)
				if held := a.Verdict == checker.AssumptionHeld; held == strings.HasPrefix(want, "0 ") || (held && a.Detail != want) {
					t.Errorf("%s is %s: %s; want: %s", name, a.Verdict, a.Detail, want)
				}
			}
		})
	}
}

func TestPartitionsThatHeldRecordsBeforeTheRunAreCounted(t *testing.T) {
	for _, c := range []struct {
		start []int64
		want  string
	}{
		{nil, "no partition held a record before the run"},
		{[]int64{0, 0}, "no partition held a record before the run"},
		{[]int64{0, 3}, "1 partitions held records before the run; those are foreign and ignored"},
	} {
		v := told(t, func(t *tale) { t.Head.Topics[0].Start = c.start })
		if a := assumption(t, v, checker.AssumeEmptyAtStart); a.Verdict != checker.AssumptionHeld || a.Detail != c.want {
			t.Errorf("it is %s: %s; want %s", a.Verdict, a.Detail, c.want)
		}
	}
}

// TestWhereAFreshClientIsMissed: one of our own runs that came to its final read has asked
// whether the cluster serves again.
func TestWhereAFreshClientIsMissed(t *testing.T) {
	imported := &histories.Source{Format: "other"}
	for _, c := range []struct {
		rule    string
		source  *histories.Source
		read    bool
		verdict string
	}{
		{"in a run that came to its final read", nil, true, checker.AssumptionFailed},
		{"not in one that ended before", nil, false, checker.AssumptionNotApplicable},
		{"not in an imported history", imported, true, checker.AssumptionNotApplicable},
		{"nor in one without a final read", imported, false, checker.AssumptionNotApplicable},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(1)
			story.Head.Source = c.source
			story.done("p", "k", 0)
			if c.read {
				story.end()
			} else {
				story.say(&histories.End{Reason: histories.EndFinished})
			}
			if a := assumption(t, check(t, &story.Memory), checker.AssumeLastWrite); a.Verdict != c.verdict {
				t.Errorf("it is %s (%s), want %s", a.Verdict, a.Detail, c.verdict)
			}
		})
	}
}
