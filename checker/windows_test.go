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
