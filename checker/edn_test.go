// This file tests that a history gets the same verdict in Jepsen's own notation
// (EDN) as in the neutral one.

package checker_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/histories"
)

// neutralOperation is an operation of the file of cases.
type neutralOperation struct {
	Time    int64             `json:"time"`
	Process int64             `json:"process"`
	Type    string            `json:"type"`
	F       string            `json:"f"`
	Value   []json.RawMessage `json:"value"`
}

// neutralMicroOperation is a part of its value. An offset that is null is not one
// that is absent.
type neutralMicroOperation struct {
	M       string                         `json:"m"`
	Key     string                         `json:"key"`
	Value   json.RawMessage                `json:"value"`
	Offset  json.RawMessage                `json:"offset"`
	Records map[string][][]json.RawMessage `json:"records"`
}

// scalar prints a number or a text, which EDN writes as JSON does.
func scalar(text json.RawMessage) string {
	if string(text) == "null" {
		return "nil"
	}
	return string(text)
}

// ednOperation prints an operation as Jepsen's store does.
func ednOperation(t *testing.T, index int, o neutralOperation) string {
	t.Helper()
	var values []string
	for _, raw := range o.Value {
		if o.F == "assign" || o.F == "subscribe" {
			values = append(values, string(raw))
			continue
		}
		var m neutralMicroOperation
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		values = append(values, ednMicroOperation(m))
	}
	return fmt.Sprintf("{:index %d, :time %d, :type :%s, :process %d, :f :%s, :value [%s]}", index, o.Time, o.Type, o.Process, o.F,
		strings.Join(values, " "))
}

func ednMicroOperation(m neutralMicroOperation) string {
	switch {
	case m.M == "send" && m.Offset == nil:
		return fmt.Sprintf("[:send %q %s]", m.Key, scalar(m.Value))
	case m.M == "send":
		return fmt.Sprintf("[:send %q [%s %s]]", m.Key, scalar(m.Offset), scalar(m.Value))
	case m.Records == nil:
		return "[:poll]"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m.Records)) {
		var records []string
		for _, r := range m.Records[key] {
			records = append(records, fmt.Sprintf("[%s %s]", scalar(r[0]), scalar(r[1])))
		}
		parts = append(parts, fmt.Sprintf("%q [%s]", key, strings.Join(records, " ")))
	}
	return "[:poll {" + strings.Join(parts, ", ") + "}]"
}

func TestJepsenCasesInTheirOwnNotation(t *testing.T) {
	path := casesPath(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Operations []neutralOperation `json:"ops"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	cases, err := histories.OpenNeutralCases(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var edn strings.Builder
			for index, o := range all.Cases[i].Operations {
				edn.WriteString(ednOperation(t, index, o) + "\n")
			}
			file := filepath.Join(t.TempDir(), "history.edn")
			if err := os.WriteFile(file, []byte(edn.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := histories.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if h.Format() != histories.FormatJepsen {
				t.Fatalf("taken for %s:\n%s", h.Format(), edn.String())
			}
			neutral, own := check(t, c.History), check(t, h)
			if !equal(findings(neutral), findings(own)) || neutral.Verdict != own.Verdict || neutral.Counts != own.Counts {
				t.Errorf("neutral: %s %v %+v\nEDN:     %s %v %+v", neutral.Verdict, findings(neutral), neutral.Counts, own.Verdict,
					findings(own), own.Counts)
			}
		})
	}
}
