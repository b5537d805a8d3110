// This file tests `verify corpus` through the built binary.

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheCorpusInFigures(t *testing.T) {
	r := invoke(t, "corpus", "--json", "--histories", "300", "--seed", "3")
	var figures struct {
		Histories, Planted, Found, Healthy, Undecidable int64
		NamedWrong                                      int64 `json:"named_wrong"`
		FalseAlarms                                     int64 `json:"false_alarms"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &figures); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	if r.status != exitHeld || figures.Histories != 300 || figures.Found != figures.Planted || figures.NamedWrong+figures.FalseAlarms != 0 ||
		figures.Healthy+figures.Planted+figures.Undecidable != 300 {
		t.Errorf("status %d: %+v", r.status, figures)
	}
}

func TestTheCorpusAsText(t *testing.T) {
	r := invoke(t, "corpus", "--histories", "60", "--verbose")
	if r.status != exitHeld || !strings.Contains(r.stdout, "false alarms             0") || !strings.Contains(r.stdout, "replica-divergence") {
		t.Errorf("status %d\n%s", r.status, r.stdout)
	}
}

func TestNoCorpusIsRefused(t *testing.T) {
	if r := invoke(t, "corpus", "--histories", "0"); r.status != exitUsage || !strings.Contains(r.progress, "--histories 0") {
		t.Errorf("status %d: %s", r.status, r.progress)
	}
}
