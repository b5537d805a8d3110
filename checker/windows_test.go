// This file tests the windows that Check keeps for a picture.

package checker_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// inTurn is a history of n appends to each of two partitions of t, one after the other, the
// last of partition 1 exchanged with the one before it if swapped; and a poll of all.
func inTurn(n int, swapped bool) *histories.Memory {
	h := &histories.Memory{Head: &histories.Header{Run: "r", Clock: "one",
		Producer: map[string]string{histories.PropertyAcks: "all", histories.PropertyIdempotence: "true"}}}
	add := func(lines ...histories.Line) { h.Body = append(h.Body, lines...) }
	add(&histories.Producer{Name: "p", AttemptsVisible: true}, &histories.Consumer{Name: "c"})
	var final []histories.Line
	for partition := range int32(2) {
		at := histories.Partition{Topic: "t", Partition: partition}
		records := histories.Records{Partition: at}
		for i := range n {
			offset := int64(i)
			if swapped && partition == 1 && i >= n-2 {
				offset = int64(2*n - 3 - i)
			}
			id := histories.OperationID{Process: "p", Number: int64(int(partition)*n + i)}
			event := fmt.Sprintf("p/%d/%d", partition, i)
			add(&histories.Send{OperationID: id, Time: id.Number * 10, Event: event, Topic: "t", Partition: partition, Rank: -1},
				&histories.SendReturn{OperationID: id, Time: id.Number*10 + 5, Partition: partition, Offset: offset})
			records.Records = append(records.Records, histories.Record{Offset: offset, Event: event})
		}
		slices.SortFunc(records.Records, func(a, b histories.Record) int { return int(a.Offset - b.Offset) })
		poll := histories.OperationID{Process: "c", Number: int64(partition)}
		end := int64(n)
		add(&histories.Poll{OperationID: poll, Time: int64(20*n) + 1}, &histories.PollReturn{OperationID: poll, Time: int64(20*n) + 2,
			Records: []histories.Records{records}})
		final = append(final, &histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: records},
			&histories.FinalRead{Partition: at, Isolation: histories.ReadUncommitted, HighWatermark: end, LogEnd: end, Position: end,
				SecondHighWatermark: end, SecondLogEnd: end})
	}
	add(&histories.ClusterEvent{Time: 7, What: histories.ClusterLeader, Detail: "1 leads t/1"})
	add(final...)
	add(&histories.End{Reason: histories.EndFinished})
	return h
}

func windowsOf(t *testing.T, h histories.History, options checker.Options) *checker.Verdict {
	t.Helper()
	v, err := checker.Check(t.Context(), h, options)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheFailingWindowOfAPartitionIsKept(t *testing.T) {
	v := windowsOf(t, inTurn(500, true), checker.Options{Windows: checker.WindowsFailing})
	if len(v.Windows) != 1 || v.Windows[0].Partition.Partition != 1 {
		t.Fatalf("windows: %+v", v.Windows)
	}
	w := v.Windows[0]
	first, second := w.Appends[w.Contradiction[0]], w.Appends[w.Contradiction[1]]
	want := []checker.Append{
		{Process: "p", Event: "p/1/499", Offset: 498, Call: 9990, Return: 9995, Acknowledged: true},
		{Process: "p", Event: "p/1/498", Offset: 499, Call: 9980, Return: 9985, Acknowledged: true},
	}
	if !slices.Equal(want, []checker.Append{first, second}) {
		t.Errorf("%+v and %+v contradict each other, want %+v", first, second, want)
	}
	if w.Of != 500 || len(w.Appends) != 80 || w.LeftOut != 0 || w.Clock != "one" || !w.SameClock {
		t.Errorf("%d appends of %d, %d left out, clock %q (%v)", len(w.Appends), w.Of, w.LeftOut, w.Clock, w.SameClock)
	}
	if len(w.Polls) != 1 || w.Polls[0] != (checker.WindowPoll{Process: "c", Call: 10001, Return: 10002, First: w.Appends[0].Offset, Last: 499,
		Number: 80}) {
		t.Errorf("polls: %+v", w.Polls)
	}
	if len(w.Cluster) != 1 || w.Cluster[0].Detail != "1 leads t/1" {
		t.Errorf("cluster: %+v", w.Cluster)
	}
	if want := "the appends of t/1 are not linearizable"; v.SecondJudge.Detail != want {
		t.Errorf("the second judge says %q, want %q", v.SecondJudge.Detail, want)
	}
	if text, err := json.Marshal(v); err != nil || strings.Contains(strings.ToLower(string(text)), `"windows":[`) {
		t.Errorf("the windows are in verdict.json (%v)", err)
	}
}

func TestWhichWindowsAreKept(t *testing.T) {
	for _, c := range []struct {
		rule    string
		swapped bool
		windows string
		want    string
	}{
		{"none unless they are asked for", true, "", ""},
		{"none where nothing fails", false, checker.WindowsFailing, ""},
		{"one of each partition where all are asked for", false, checker.WindowsAll, "0 fine, 1 fine"},
		{"and the failing one of a partition that has one", true, checker.WindowsAll, "0 fine, 1 fails"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var got []string
			for _, w := range windowsOf(t, inTurn(100, c.swapped), checker.Options{Windows: c.windows}).Windows {
				got = append(got, fmt.Sprintf("%d %s", w.Partition.Partition, map[bool]string{true: "fine", false: "fails"}[w.Contradiction == nil]))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("kept: %v, want %s", got, c.want)
			}
		})
	}
}

// TestAWindowHasItsPollsWhereNothingIsWrong: nothing but the window asks for a second pass over
// the history then.
func TestAWindowHasItsPollsWhereNothingIsWrong(t *testing.T) {
	v := windowsOf(t, inTurn(10, false), checker.Options{Windows: checker.WindowsAll})
	for name, part := range v.Anomalies {
		if part.Count > 0 {
			t.Errorf("%s: %s", name, part.Instances[0].Text)
		}
	}
	for _, w := range v.Windows {
		if len(w.Polls) != 1 || w.Polls[0].Number != 10 {
			t.Errorf("the polls of partition %d are %+v", w.Partition.Partition, w.Polls)
		}
	}
}

func TestAWindowHasItsPollsInTheOrderInWhichTheyReturned(t *testing.T) {
	h := inTurn(10, false)
	early := *lines[*histories.PollReturn](h)[1]
	early.Process, early.Number, early.Time = "c", 9, 150
	h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, len(h.Body)-1, &early)
	for _, w := range windowsOf(t, h, checker.Options{Windows: checker.WindowsAll}).Windows {
		var returned []int64
		for _, p := range w.Polls {
			returned = append(returned, p.Return)
		}
		if want := [][]int64{{202}, {150, 202}}[w.Partition.Partition]; !slices.Equal(returned, want) {
			t.Errorf("the polls of partition %d returned at %v, want %v", w.Partition.Partition, returned, want)
		}
	}
}

func TestOutOfTimeTheSecondJudgeIsUnknownAndSaysWhere(t *testing.T) {
	h := inTurn(100, true)
	in := windowsOf(t, h, checker.Options{})
	out := windowsOf(t, h, checker.Options{Windows: checker.WindowsFailing, SecondJudgeTimeout: time.Nanosecond})
	if judge := out.SecondJudge; judge.Verdict != checker.UnknownWord || judge.Detail != "out of time (1ns) at t/0, t/1" {
		t.Errorf("the second judge says %s: %s", judge.Verdict, judge.Detail)
	}
	if len(out.Windows) != 0 || in.SecondJudge.Verdict != checker.Violated {
		t.Errorf("%d windows; in time it is %s", len(out.Windows), in.SecondJudge.Verdict)
	}
	if out.Verdict != in.Verdict || out.Summary != in.Summary {
		t.Errorf("out of time: %s; in time: %s", out.Summary, in.Summary)
	}
}

// TestAWindowFailsExactlyWhereTheFirstJudgeSaysSo: a window fails exactly where the first
// judge finds a real-time violation.
func TestAWindowFailsExactlyWhereTheFirstJudgeSaysSo(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	failing := 0
	for _, path := range paths {
		file, err := histories.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		v := windowsOf(t, file, checker.Options{Windows: checker.WindowsFailing})
		found := v.Anomalies[checker.RealtimeOrderViolation].Count > 0
		if judged := v.SecondJudge.Verdict != checker.UnknownWord; judged && found != (len(v.Windows) > 0) {
			t.Errorf("%s: %d windows fail, and the first judge found one: %v", path, len(v.Windows), found)
		}
		failing += len(v.Windows)
	}
	if failing < 2 {
		t.Errorf("%d windows fail in all", failing)
	}
}

// unanswered is the return of an append that nobody answered.
const unanswered = -1

// append1 is an append of a process that was called and returned at some times.
type append1 struct {
	process    string
	call, back int64
}

// logOf is a history of appends in the order of the log of partition 0 of t, each the first
// send of an event.
func logOf(appends ...append1) *histories.Memory {
	h := &histories.Memory{Head: &histories.Header{Run: "r", Clock: "one",
		Producer: map[string]string{histories.PropertyAcks: "all", histories.PropertyIdempotence: "true"}}}
	at := histories.Partition{Topic: "t"}
	records := histories.Records{Partition: at}
	numbers := make(map[string]int64)
	byCall := make([]int, len(appends))
	for i := range appends {
		byCall[i] = i
		records.Records = append(records.Records, histories.Record{Offset: int64(i), Event: fmt.Sprint("e/", i)})
	}
	slices.SortStableFunc(byCall, func(a, b int) int { return int(appends[a].call - appends[b].call) })
	for _, i := range byCall {
		a := appends[i]
		id := histories.OperationID{Process: a.process, Number: numbers[a.process]}
		numbers[a.process]++
		h.Body = append(h.Body, &histories.Send{OperationID: id, Time: a.call, Event: fmt.Sprint("e/", i), Topic: "t", Rank: -1})
		if a.back != unanswered {
			h.Body = append(h.Body, &histories.SendReturn{OperationID: id, Time: a.back, Offset: int64(i)})
		}
	}
	end := int64(len(appends))
	h.Body = append(h.Body, &histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: records},
		&histories.FinalRead{Partition: at, Isolation: histories.ReadUncommitted, HighWatermark: end, LogEnd: end, Position: end,
			SecondHighWatermark: end, SecondLogEnd: end},
		&histories.End{Reason: histories.EndFinished})
	return h
}

// onlyWindow gives the one window that is kept.
func onlyWindow(t *testing.T, h histories.History, which string) *checker.Window {
	t.Helper()
	v := windowsOf(t, h, checker.Options{Windows: which, SecondJudgeTimeout: time.Hour})
	if len(v.Windows) != 1 {
		t.Fatalf("%d windows are kept, want one; the second judge says %s: %s", len(v.Windows),
			v.SecondJudge.Verdict, v.SecondJudge.Detail)
	}
	return v.Windows[0]
}

func TestWhatContradictsEachOtherWasAcknowledged(t *testing.T) {
	// What lies between the two was never answered, and happened before the last one returned.
	w := onlyWindow(t, logOf(append1{"p", 100, 110}, append1{"q", 1, unanswered}, append1{"r", 2, 50}), checker.WindowsFailing)
	want := []checker.Append{{Process: "p", Event: "e/0", Offset: 0, Call: 100, Return: 110, Acknowledged: true},
		{Process: "q", Event: "e/1", Offset: 1, Call: 1, Return: histories.Unknown},
		{Process: "r", Event: "e/2", Offset: 2, Call: 2, Return: 50, Acknowledged: true}}
	if !slices.Equal(w.Appends, want) || *w.Contradiction != [2]int{0, 2} {
		t.Errorf("%+v, contradiction %v; want %+v, contradiction 0 and 2", w.Appends, *w.Contradiction, want)
	}
}

func TestAContradictionIsInTheFirstRowsOfItsProcesses(t *testing.T) {
	w := onlyWindow(t, logOf(append1{"p", 1, 3000}, append1{"p", 2000, 2001}, append1{"q", 0, 50}), checker.WindowsFailing)
	var rows []int
	for _, a := range w.Appends {
		rows = append(rows, a.Row)
	}
	if !slices.Equal(rows, []int{1, 0, 0}) || *w.Contradiction != [2]int{1, 2} {
		t.Errorf("rows %v, contradiction %v; want 1, 0, 0 and 1 and 2", rows, *w.Contradiction)
	}
}

func TestAWindowHasFourteenRowsAndCountsWhatIsLeftOut(t *testing.T) {
	offsets := func(w *checker.Window) (all []int64) {
		for _, a := range w.Appends {
			all = append(all, a.Offset)
		}
		return all
	}
	var appends []append1
	for i := range int64(20) { // at the same time, each by a process of its own
		appends = append(appends, append1{fmt.Sprint("p", i), 10 + i, 9000})
	}
	w := onlyWindow(t, logOf(appends...), checker.WindowsAll)
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	if !slices.Equal(offsets(w), want) || w.LeftOut != 0 || w.Of != 20 {
		t.Errorf("it shows %v of %d and leaves %d out, want the first fourteen", offsets(w), w.Of, w.LeftOut)
	}
	appends[0], appends[19] = append1{"p0", 5000, 5001}, append1{"p19", 0, 50}
	w = onlyWindow(t, logOf(appends...), checker.WindowsFailing)
	want = []int64{0, 1, 2, 3, 4, 5, 6, 13, 14, 15, 16, 17, 18, 19}
	if !slices.Equal(offsets(w), want) || w.LeftOut != 6 {
		t.Errorf("it shows %v and leaves %d out, want the nearest ones to either end", offsets(w), w.LeftOut)
	}
}

func TestOneWindowOfAPartitionIsKeptHoweverManyFail(t *testing.T) {
	h := logOf(append1{"p", 100, 110}, append1{"p", 1, 50}, append1{"q", 100, 110}, append1{"q", 1, 50})
	h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, 0, &histories.Producer{Name: "q", Clock: "two"})
	w := onlyWindow(t, h, checker.WindowsFailing)
	if w.Clock != "one" || !w.SameClock {
		t.Errorf("the window is by the clock %q", w.Clock)
	}
}

func TestPollsOfAWindowAreThoseThatWereGivenSomethingOfIt(t *testing.T) {
	h := inTurn(100, false) // of which the first 80 are shown
	h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool {
		_, is := l.(*histories.PollReturn)
		return is
	})
	record := func(offset int64) []histories.Records {
		return []histories.Records{{Partition: histories.Partition{Topic: "t"},
			Records: []histories.Record{{Offset: offset, Event: fmt.Sprint("p/0/", offset)}}}}
	}
	poll := func(number, time, offset int64) {
		h.Body = append(h.Body, &histories.PollReturn{OperationID: histories.OperationID{Process: "d", Number: number}, Time: time,
			Records: record(offset)})
	}
	poll(0, 5000, 90)
	for i := range int64(checker.WindowPolls + 1) {
		poll(1+i, 4000-i, 70)
	}
	w := windowsOf(t, h, checker.Options{Windows: checker.WindowsAll}).Windows[0]
	if len(w.Polls) != checker.WindowPolls {
		t.Fatalf("%d polls are kept, want %d", len(w.Polls), checker.WindowPolls)
	}
	first, last := int64(4000-checker.WindowPolls+1), int64(4000)
	for i, want := range map[int]int64{0: first, checker.WindowPolls - 1: last} { // without a line of its call
		if got := (checker.WindowPoll{Process: "d", Call: want, Return: want, First: 70, Last: 70, Number: 1}); w.Polls[i] != got {
			t.Errorf("poll %d is %+v, want %+v", i, w.Polls[i], got)
		}
	}
}

// long is a log that is longer than what porcupine is given at once: appends one after the
// other, from the offset 9400 on all at the same time. The one there was called after one
// behind the next window's start had been acknowledged.
func long() []append1 {
	appends := make([]append1, 10_020)
	for i := range appends {
		at := int64(10 * i)
		appends[i] = append1{"p", at, at + 5}
		if i >= 9400 {
			appends[i] = append1{"p", 94_000, 300_000}
		}
	}
	appends[9400], appends[10_010] = append1{"x", 200_000, 200_001}, append1{"z", 94_000, 150_000}
	return appends
}

func TestAViolationThatSpansWindowsIsNoDisagreementOfTheJudges(t *testing.T) {
	v := windowsOf(t, logOf(long()...), checker.Options{SecondJudgeTimeout: time.Hour})
	want := "the appends of every partition are linearizable; the violation found spans more than one window"
	if v.SecondJudge.Detail != want {
		t.Errorf("the second judge says %q, want %q", v.SecondJudge.Detail, want)
	}
	if found := v.Anomalies[checker.RealtimeOrderViolation].Count; found != 1 || v.Verdict != checker.Violated {
		t.Errorf("%d found, the whole is %s", found, v.Verdict)
	}
}

// TestAnAppendIsBoundedByOneBehindItsWindow: what nobody answered happened before what lies
// behind it was acknowledged, and that is in the next window.
func TestAnAppendIsBoundedByOneBehindItsWindow(t *testing.T) {
	appends := long()
	appends[9450] = append1{"y", 94_000, unanswered}
	w := onlyWindow(t, logOf(appends...), checker.WindowsFailing)
	x, y := w.Appends[w.Contradiction[0]], w.Appends[w.Contradiction[1]]
	if x != (checker.Append{Process: "x", Event: "e/9400", Offset: 9400, Call: 200_000, Return: 200_001, Acknowledged: true}) ||
		y != (checker.Append{Process: "y", Event: "e/9450", Offset: 9450, Call: 94_000, Return: 150_000}) {
		t.Errorf("%+v and %+v contradict each other", x, y)
	}
}

// TestEventsAtOneOffsetAreJudgedInTheOrderOfTheirCalls: neither lies behind the other, however
// they were found.
func TestEventsAtOneOffsetAreJudgedInTheOrderOfTheirCalls(t *testing.T) {
	h := logOf(append1{"p", 100, 110}, append1{"q", 1, 50})
	h.Body = h.Body[:4]
	for i := range int64(2) {
		h.Body[1+3*i].(*histories.SendReturn).Offset = 0
		h.Body = slices.Insert[[]histories.Line, histories.Line](h.Body, int(i), &histories.PollReturn{
			OperationID: histories.OperationID{Process: fmt.Sprint("c", i)}, Time: 200, Records: []histories.Records{{
				Partition: histories.Partition{Topic: "t"}, Records: []histories.Record{{Event: fmt.Sprint("e/", i)}}}}})
	}
	if v := check(t, h); v.SecondJudge.Verdict != checker.Held || v.Anomalies[checker.RealtimeOrderViolation].Count != 0 {
		t.Errorf("the second judge says %s: %s", v.SecondJudge.Verdict, v.SecondJudge.Detail)
	}
}
