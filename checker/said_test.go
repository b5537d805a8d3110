// This file holds the verdicts on all twins to what they said before, word by word: the
// texts and figures that a person reads. After a change that is meant:
//
//	go test ./checker -run WhatVerdictsSay -update
//
// and the difference of testdata/said.txt is read by whoever commits it.

package checker_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

var update = flag.Bool("update", false, "write what verdicts say now to testdata/said.txt")

func TestWhatVerdictsSay(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, path := range paths {
		file, err := histories.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "== %s\n%s", filepath.Base(path), said(t, check(t, file)))
	}
	const golden = "testdata/said.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	now, then := strings.Split(text.String(), "\n"), strings.Split(string(before), "\n")
	about := ""
	for i := range min(len(now), len(then)) {
		if strings.HasPrefix(then[i], "== ") {
			about = then[i]
		}
		if now[i] != then[i] {
			t.Fatalf("%s, line %d of %s:\nbefore %s\nnow    %s", about, i+1, golden, then[i], now[i])
		}
	}
	if len(now) != len(then) {
		t.Errorf("%d lines, before there were %d", len(now), len(then))
	}
}

// said is everything that a verdict says, in lines.
func said(t *testing.T, v *checker.Verdict) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", v.Verdict, v.Summary)
	line := func(what string, value any) {
		document, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %s\n", what, document)
	}
	line("history", v.History)
	line("counts", v.Counts)
	line("second judge", v.SecondJudge)
	for _, f := range v.Faults {
		line("fault", f)
	}
	for _, a := range v.Assumptions {
		line("assumption", a)
	}
	for _, p := range v.Promises {
		if p.Verdict != checker.Held { // the reasons of those that are held are the promise table's
			line("promise", p)
		}
		part := *v.Anomalies[p.Name]
		if part.Count+part.Undecided == 0 {
			continue
		}
		for _, x := range part.Examples {
			line("example", x.Instance)
			for _, e := range x.Evidence {
				line("  evidence", e)
			}
		}
		part.Examples = nil
		line("found", part)
	}
	return text.String()
}
