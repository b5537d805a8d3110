// This file tests how a window that is to be looked at is chosen, against plain searches.

package checker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// someAppends draws appends in the order of a log, times from a small range so that they touch.
func someAppends(t *rapid.T) []Append {
	appends := make([]Append, rapid.IntRange(1, 40).Draw(t, "n"))
	for i := range appends {
		call := rapid.Int64Range(0, 30).Draw(t, "call")
		appends[i] = Append{Process: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "process"), Offset: int64(i), Call: call,
			Return: call + rapid.Int64Range(0, 20).Draw(t, "took"), Acknowledged: true}
		if rapid.IntRange(0, 9).Draw(t, "unanswered") == 0 {
			appends[i].Acknowledged, appends[i].Return = false, -1
		}
	}
	return appends
}

func asOperations(appends []Append) (operations []porcupine.Operation) {
	for i, a := range appends {
		back := a.Return
		if !a.Acknowledged {
			back = math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: i, Call: a.Call, Return: back})
	}
	return operations
}

func TestHowManyWindowsAPartitionHas(t *testing.T) {
	for _, c := range []struct{ appends, want int }{
		{0, 0}, {1, 1}, {windowSize, 1}, {windowSize + 1, 2}, {2*windowSize - windowOverlap, 2}, {2*windowSize - windowOverlap + 1, 3},
	} {
		if got := len(windows(make([]porcupine.Operation, c.appends))); got != c.want {
			t.Errorf("%d appends are %d windows, want %d", c.appends, got, c.want)
		}
	}
}

func TestTheContradictionIsTheFirstAndTheClosestOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		operations := asOperations(someAppends(t))
		wantFirst, wantLast := -1, -1
		for j := range operations {
			for i := range j {
				if operations[j].Return < operations[i].Call {
					wantFirst, wantLast = i, j
				}
			}
			if wantLast >= 0 {
				break
			}
		}
		first, last, err := contradiction(operations, time.Now().Add(time.Hour))
		if wantLast < 0 {
			if !errors.Is(err, errNoContradiction) {
				t.Fatalf("%d and %d contradict each other, %v; nothing does", first, last, err)
			}
			return
		}
		if err != nil || first != wantFirst || last != wantLast {
			t.Fatalf("%d and %d contradict each other, %v; want %d and %d", first, last, err, wantFirst, wantLast)
		}
	})
}

func TestAContradictionThatIsLookedForTooLongIsOutOfTime(t *testing.T) {
	operations := []porcupine.Operation{{Call: 5, Return: 6}, {Call: 1, Return: 2}}
	if _, _, err := contradiction(operations, time.Now()); !errors.Is(err, errWindowOutOfTime) {
		t.Errorf("want out of time, got %v", err)
	}
}

func TestWhatIsShownFitsOnAPageAndHasWhatItIsAbout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var appends []Append
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			appends = append(appends, someAppends(t)...)
		}
		var about []int
		if rapid.Bool().Draw(t, "about") {
			about = []int{rapid.IntRange(0, len(appends)-1).Draw(t, "first"), rapid.IntRange(0, len(appends)-1).Draw(t, "second")}
		}
		shown := readable(appends, about)
		if !slices.IsSorted(shown) || len(slices.Compact(slices.Clone(shown))) != len(shown) || len(shown) == 0 {
			t.Fatalf("shown: %v", shown)
		}
		if rows := countRows(appends, shown); len(shown) > windowAppends || rows > windowRows+len(about) {
			t.Fatalf("%d appends in %d rows", len(shown), rows)
		}
		for _, i := range about {
			if !slices.Contains(shown, i) {
				t.Fatalf("%d is not among %v", i, shown)
			}
		}
	})
}

func TestAppendsOfOneRowDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		appends := someAppends(t)
		rows := layOut(appends)
		about := rapid.IntRange(0, len(appends)-1).Draw(t, "about")
		swapRows(rows, appends, about)
		if rows[about] != 0 {
			t.Fatalf("what it is about is in row %d", rows[about])
		}
		until := func(a Append) int64 {
			if a.Acknowledged {
				return a.Return
			}
			return math.MaxInt64
		}
		for i, a := range appends {
			for j, b := range appends[:i] {
				if a.Process == b.Process && rows[i] == rows[j] && a.Call <= until(b) && b.Call <= until(a) {
					t.Fatalf("%+v and %+v are both in row %d", a, b, rows[i])
				}
			}
		}
	})
}

// TestAWindowWhoseBoundLiesBehindItIsFound: the append that makes an earlier, unanswered
// one too late is not in the window.
func TestAWindowWhoseBoundLiesBehindItIsFound(t *testing.T) {
	// At offset 0 is what was called at 100; at offset 1 what nobody answered, and which an
	// acknowledgement at 50 of something farther behind bounds.
	bounded := []porcupine.Operation{{Call: 100, Return: 110}, {Call: 1, Return: 50}}
	unbounded := []porcupine.Operation{{Call: 100, Return: 110}, {Call: 1, Return: math.MaxInt64}}
	deadline := time.Now().Add(time.Hour)
	if _, _, err := contradiction(unbounded, deadline); !errors.Is(err, errNoContradiction) {
		t.Errorf("without the bound: %v", err)
	}
	if first, last, err := contradiction(bounded, deadline); err != nil || fmt.Sprint(first, last) != "0 1" {
		t.Errorf("with the bound: %d, %d, %v", first, last, err)
	}
}

func TestTheSecondJudgeTellsAllThatItFound(t *testing.T) {
	for _, c := range []struct {
		rule          string
		operations    int64
		illegal, late []string
		undrawn       error
		verdict, want string
	}{
		{"nothing to judge", 0, nil, nil, nil, UnknownWord, "no append has a place and a time on one clock"},
		{"all is well", 9, nil, nil, nil, Held, "the appends of every partition are linearizable"},
		{"out of time", 9, nil, []string{"t/0"}, nil, UnknownWord, "out of time (1s) at t/0"},
		{"some fail", 9, []string{"t/0", "t/1"}, nil, nil, Violated, "the appends of t/0, t/1 are not linearizable"},
		{"one fails, another one is late", 9, []string{"t/0"}, []string{"t/1"}, nil, Violated,
			"the appends of t/0 are not linearizable; out of time (1s) at t/1"},
		{"one fails and is not drawn", 9, []string{"t/0"}, nil, errWindowOutOfTime, Violated,
			"the appends of t/0 are not linearizable; the failing window of t/0 was not found: out of time"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			j := SecondJudge{Verdict: UnknownWord, Operations: c.operations}
			j.undrawn("t/0", c.undrawn)
			j.settle(c.illegal, c.late, time.Second)
			if j.Verdict != c.verdict || j.Detail != c.want {
				t.Errorf("%s: %q, want %s: %q", j.Verdict, j.Detail, c.verdict, c.want)
			}
		})
	}
}

// TestWhereTheJudgesDisagreeNothingIsHeld: no history is known on which they do.
func TestWhereTheJudgesDisagreeNothingIsHeld(t *testing.T) {
	for _, c := range []struct {
		rule          string
		found         int64
		second        string
		cut           bool
		promise, want string
	}{
		{"both find it", 1, Violated, false, Violated, Violated},
		{"neither does", 0, Held, false, Held, Held},
		{"the second one does not know", 1, UnknownWord, false, Violated, Violated},
		{"the first one alone finds it", 1, Held, false, Violated, UnknownWord},
		{"the first one alone finds it, and the second one never saw both ends", 1, Held, true, Violated, Violated},
		{"the second one alone finds it", 0, Violated, false, Held, UnknownWord},
		{"the second one alone finds it, in many windows", 0, Violated, true, Held, UnknownWord},
		{"it is not promised", 1, Held, false, NotPromised, NotPromised},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := &Verdict{Anomalies: map[Anomaly]*AnomalyPart{RealtimeOrderViolation: {Count: c.found}},
				SecondJudge: SecondJudge{Verdict: c.second, cut: c.cut},
				Promises: []PromiseVerdict{{Name: LostWrite, Verdict: Held, Reason: "r"}, {Name: RealtimeOrderViolation, Verdict: c.promise,
					Reason: "r"}}}
			v.compareJudges()
			reason := "r"
			if c.want == UnknownWord {
				reason = "the two judges disagree, which is a defect of ours: please report it with the history"
			}
			if p := v.Promises[1]; p.Verdict != c.want || p.Reason != reason || v.Promises[0].Verdict != Held {
				t.Errorf("%+v, want %s", v.Promises, c.want)
			}
		})
	}
}
