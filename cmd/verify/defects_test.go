// This file tests verify defects as its users meet it.

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/defects"
)

func TestTheTrackRecordIsListed(t *testing.T) {
	t.Parallel()
	text := invoke(t, "defects")
	for _, d := range defects.Table() {
		for _, part := range []string{d.Name, d.Issue, d.Affected.String()} {
			if !strings.Contains(text.stdout, part) {
				t.Errorf("%s: the list does not say %q", d.Name, part)
			}
		}
	}
	var listed []listed
	if r := invoke(t, "defects", "--json"); r.status != exitHeld || json.Unmarshal([]byte(r.stdout), &listed) != nil ||
		len(listed) != len(defects.Table()) {
		t.Errorf("exit status %d, %d defects as JSON", r.status, len(listed))
	}
}

func TestADefectIsPlayedByItsNameAndItsIssue(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "track-record")
	r := invoke(t, "defects", "failed-in-flight", "--json", "--out", out)
	var results []defects.Result
	if err := json.Unmarshal([]byte(r.stdout), &results); err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v\n%s", len(results), err, r.progress)
	}
	if r.status != exitHeld || results[0].Verdict != checker.AsExpected || results[0].Seen[0].Colour != defects.ColourRed {
		t.Errorf("exit status %d, %+v", r.status, results[0])
	}
	// What it left is a run directory like any other.
	invoke(t, "check", "--json", results[0].Seen[0].Directory).want(t, checker.Violated)

	again := invoke(t, "defects", "KAFKA-14034", "--out", out)
	if again.status != exitUnknown || !strings.Contains(again.stdout, "UNKNOWN: it could not be played") ||
		!strings.Contains(again.stdout, "is not empty") {
		t.Errorf("into a directory that is taken: exit status %d\n%s", again.status, again.stdout)
	}
}

func TestADefectThatThereIsNotIsWrongUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"defects", "failed-in-flght"}, `did you mean "failed-in-flight"?`},
		{[]string{"defects", "--all", "failed-in-flight"}, "--all plays every defect"},
	} {
		if r := invoke(t, c.args...); r.status != exitUsage || !strings.Contains(r.progress, c.says) {
			t.Errorf("%v: exit status %d, %q", c.args, r.status, r.progress)
		}
	}
}
