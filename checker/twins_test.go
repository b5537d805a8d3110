// This file tests the good and bad twins of testdata: small histories whose file
// name is the verdict. Adding one needs no code.
//
//	ANOMALY.VERDICT[+OTHER…][.what].jsonl
//
// The promise about ANOMALY must have VERDICT (held, violated, not-promised,
// unknown). Where it is violated, it alone is, but for the others named; where it is
// not, nothing is, and the whole is unknown only where VERDICT is.

package checker_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// twin is what a file's name says.
type twin struct {
	anomaly checker.Anomaly
	verdict string
	others  []string
}

func readName(t *testing.T, path string) twin {
	t.Helper()
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".jsonl"), ".")
	if len(parts) < 2 || len(parts) > 3 {
		t.Fatalf("the name does not say ANOMALY.VERDICT[.what].jsonl")
	}
	words := strings.Split(parts[1], "+")
	if !slices.ContainsFunc(checker.Anomalies(), func(d checker.Description) bool { return string(d.Name) == parts[0] }) {
		t.Fatalf("there is no anomaly %q", parts[0])
	}
	if !slices.Contains([]string{checker.Held, checker.Violated, checker.NotPromised, checker.UnknownWord}, words[0]) {
		t.Fatalf("there is no verdict %q", words[0])
	}
	return twin{checker.Anomaly(parts[0]), words[0], words[1:]}
}

func TestTwins(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[checker.Anomaly]map[string]bool)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want := readName(t, path)
			if seen[want.anomaly] == nil {
				seen[want.anomaly] = make(map[string]bool)
			}
			seen[want.anomaly][want.verdict] = true
			file, err := histories.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			judge(t, check(t, file), want)
		})
	}
	for _, d := range checker.Anomalies() {
		if !seen[d.Name][checker.Violated] || !seen[d.Name][checker.Held] {
			t.Errorf("%s has no pair of twins: %v", d.Name, seen[d.Name])
		}
	}
}

// judge compares a verdict with what the name says.
func judge(t *testing.T, v *checker.Verdict, want twin) {
	t.Helper()
	var violated []string
	for _, p := range v.Promises {
		if p.Verdict == checker.Violated {
			violated = append(violated, string(p.Name))
		}
		if p.Name == want.anomaly && p.Verdict != want.verdict {
			t.Errorf("%s is %s (%s), want %s", p.Name, p.Verdict, p.Reason, want.verdict)
		}
	}
	expected := []string{}
	whole := checker.Held
	switch want.verdict {
	case checker.Violated:
		expected, whole = append(expected, append([]string{string(want.anomaly)}, want.others...)...), checker.Violated
	case checker.UnknownWord:
		whole = checker.UnknownWord
	}
	slices.Sort(violated)
	slices.Sort(expected)
	if !slices.Equal(violated, expected) {
		t.Errorf("violated: %v, want %v", violated, expected)
		for _, name := range violated {
			t.Logf("%s: %s", name, v.Anomalies[checker.Anomaly(name)].Instances[0].Text)
		}
	}
	if v.Verdict != whole {
		t.Errorf("the whole is %s (%s), want %s", v.Verdict, v.Summary, whole)
	}
	if want.verdict == checker.Violated && len(v.Anomalies[want.anomaly].Examples) == 0 {
		t.Error("there is no example")
	}
}
