// This file tests verify check --porcupine.

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aCopy puts a history of the checker's twins into a folder of its own.
func aCopy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "checker", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPorcupineDrawsWhatFails(t *testing.T) {
	const violated, held = "realtime-order-violation.violated.jsonl", "lost-write.violated.jsonl"
	for _, c := range []struct {
		rule, history string
		args          []string
		status        int
		page          string // beside the history; empty: none
		says          string
	}{
		{"the failing window, beside the file", violated, []string{"--porcupine"}, exitViolated,
			"history.jsonl.porcupine/t-0.html", "t/0 is NOT linearizable: "},
		{"nothing where nothing fails, and says so", held, []string{"--porcupine"}, exitViolated, "", "nothing fails"},
		{"a window of each partition where all are asked for", held, []string{"--porcupine=all"}, exitViolated,
			"history.jsonl.porcupine/t-0.html", "t/0 is linearizable: "},
		{"nothing out of time, and says where and how long", violated, []string{"--porcupine", "--porcupine-timeout=1ns"}, exitViolated, "",
			"porcupine  unknown: out of time (1ns) at t/0"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			path := aCopy(t, c.history)
			r := invoke(t, append(append([]string{"check"}, c.args...), path)...)
			if r.status != c.status || !strings.Contains(r.stdout, c.says) {
				t.Errorf("status %d, want %d and %q:\n%s%s", r.status, c.status, c.says, r.stdout, r.progress)
			}
			page := filepath.Join(filepath.Dir(path), c.page)
			if c.page == "" {
				page = path + ".porcupine"
			}
			text, err := os.ReadFile(page)
			if drawn := err == nil && strings.Contains(string(text), "The appends of t/0"); drawn != (c.page != "") {
				t.Errorf("drawn: %v (%v)", drawn, err)
			}
		})
	}
}

func TestPorcupineLeavesStandardOutputToTheVerdict(t *testing.T) {
	out := filepath.Join(t.TempDir(), "pages", "here")
	r := invoke(t, "check", "--json", "--porcupine", "--porcupine-out", out, aCopy(t, "realtime-order-violation.violated.jsonl"))
	var document map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &document); err != nil || r.status != exitViolated {
		t.Errorf("status %d, %v:\n%s", r.status, err, r.stdout)
	}
	if _, err := os.Stat(filepath.Join(out, "t-0.html")); err != nil || !strings.Contains(r.progress, "NOT linearizable") {
		t.Errorf("%v; it says %s", err, r.progress)
	}
}

func TestWrongUseOfPorcupineIsRefused(t *testing.T) {
	path := aCopy(t, "realtime-order-violation.violated.jsonl")
	for says, args := range map[string][]string{
		"--porcupine=some":      {"--porcupine=some", path},
		"--porcupine draws":     {"--porcupine-out=x", path},
		"must not be negative":  {"--porcupine-timeout=-1s", path},
		"pages of one history":  {"--porcupine", "--porcupine-out=x", path, path},
		"choose a place":        {"--porcupine", "--porcupine-out=" + path, path},
		"invalid argument \"no": {"--porcupine-timeout=no", path},
	} {
		if r := invoke(t, append([]string{"check"}, args...)...); r.status != exitUsage || !strings.Contains(r.progress, says) {
			t.Errorf("%v: status %d, %s; want %q", args, r.status, r.progress, says)
		}
	}
}
