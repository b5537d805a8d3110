// This file tests the catalogue through the built binary: what is listed, explained,
// played, refused, and with which exit status.

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/scenarios"
)

func TestScenariosAreListedAndExplained(t *testing.T) {
	list := invoke(t, "scenarios")
	for _, n := range scenarios.Catalogue() {
		if !strings.Contains(list.stdout, n.Name) {
			t.Errorf("%s is not listed", n.Name)
		}
	}
	told := invoke(t, "scenarios", "lost-ack")
	for _, part := range []string{"payment #42", "charges the customer twice", "duplicate: exactly 1", "verify run lost-ack --faults none",
		"enable.idempotence=false", "KIP-98"} {
		if !strings.Contains(strings.Join(strings.Fields(told.stdout), " "), part) {
			t.Errorf("the explanation of lost-ack lacks %q:\n%s", part, told.stdout)
		}
	}
	for _, r := range []result{list, told} {
		for line := range strings.SplitSeq(r.stdout, "\n") {
			if len([]rune(line)) > 110 {
				t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
			}
		}
	}
	differs := invoke(t, "scenarios", "too-large")
	if !strings.Contains(differs.stdout, "Expected of franz-go") || !strings.Contains(differs.stdout, "Expected of java") {
		t.Errorf("where clients differ, each is told:\n%s", differs.stdout)
	}
	var all []map[string]any
	if r := invoke(t, "scenarios", "--json"); json.Unmarshal([]byte(r.stdout), &all) != nil || len(all) != len(scenarios.Catalogue()) {
		t.Errorf("--json lists %d", len(all))
	}
}

func TestANamedScenarioIsPlayedAndSaysWhatItShowed(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		status    int
		says      string
	}{
		"as expected is 0":                   {[]string{"lost-ack"}, exitHeld, "AS-EXPECTED"},
		"nothing shown is 2":                 {[]string{"lost-ack", "--faults", "none"}, exitUnknown, "it proved nothing: duplicate is 0, and exactly 1 is expected"},
		"a known hole that shows is 0":       {[]string{"new-producer-id-mid-retry"}, exitHeld, "1 × duplicate, by a hole that is known"},
		"with its essence changed it is 2":   {[]string{"lost-ack", "--producer", "enable.idempotence=true"}, exitUnknown, "UNKNOWN"},
		"reality that differs is 1":          {[]string{"crash-loses-buffer", "--producer", "linger.ms=0"}, exitViolated, "reality differs"},
		"other brokers are asked for":        {[]string{"acks-one"}, exitUsage, "does not show on the embedded cluster"},
		"its own faults cannot be changed":   {[]string{"lost-ack", "--faults", "refuse"}, exitUsage, "has its own faults"},
		"its rate cannot be changed":         {[]string{"lost-ack", "--rate", "5"}, exitUsage, "which decides it itself"},
		"an unknown name gives a near one":   {[]string{"lost-akc"}, exitUsage, `did you mean "lost-ack"?`},
		"an unknown client names those":      {[]string{"lost-ack", "--client", "sarama"}, exitUsage, "there is no client"},
		"franz-go has no other version":      {[]string{"lost-ack", "--client", "franz-go:1.0"}, exitUsage, "only java has a version"},
		"a client that cannot be run":        {[]string{"lost-ack", "--client-exec", "/no/such/program"}, exitUsage, "/no/such/program"},
		"a client that is none":              {[]string{"lost-ack", "--client-exec", "true"}, exitUsage, "it ended by itself"},
		"--all and a name":                   {[]string{"--all", "lost-ack"}, exitUsage, "--all plays every scenario"},
		"a directory without a campaign":     {[]string{"--resume", "/no/such/directory"}, exitUsage, "name the directory of a campaign"},
		"what the library cannot do is said": {[]string{"lost-ack", "--producer", "max.block.ms=5"}, exitUsage, "n/a (client)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := append([]string{"run", "--seed", "1", "--out", filepath.Join(t.TempDir(), "run")}, c.arguments...)
			r := invoke(t, arguments...)
			if text := strings.Join(strings.Fields(r.stdout+r.progress), " "); r.status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("status %d, want %d, and %q:\n%s%s", r.status, c.status, c.says, r.stdout, r.progress)
			}
		})
	}
}

func TestACampaignEndsWithOneTableAndGoesOn(t *testing.T) {
	out := filepath.Join(t.TempDir(), "campaign")
	r := invoke(t, "run", "lost-ack", "more-than-five", "--seed", "1", "--out", out)
	if r.status != exitHeld || !strings.Contains(r.stdout, "2 as expected, 0 otherwise, 0 unknown, 0 not applicable") {
		t.Fatalf("status %d:\n%s%s", r.status, r.stdout, r.progress)
	}
	for _, file := range []string{"campaign.yaml", "results.txt", "results.md", "results.json",
		"lost-ack/franz-go/verdict.json", "more-than-five/franz-go/scenario.yaml"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
	again := invoke(t, "run", "--resume", out, "--json")
	var cells []scenarios.Cell
	if err := json.Unmarshal([]byte(again.stdout), &cells); err != nil || len(cells) != 2 || !cells[0].Before || !cells[1].Before {
		t.Errorf("it was played again: %v %+v", err, cells)
	}
	checked := invoke(t, "check", "--json", filepath.Join(out, "lost-ack", "franz-go"))
	var v checker.Verdict
	if err := json.Unmarshal([]byte(checked.stdout), &v); err != nil || v.Anomalies[checker.Duplicate].Count != 1 {
		t.Errorf("its run is not judged again: %v", err)
	}
	replayed := invoke(t, "run", filepath.Join(out, "lost-ack", "franz-go", "scenario.yaml"), "--out", filepath.Join(t.TempDir(), "again"))
	if replayed.status != exitHeld || !strings.Contains(replayed.stdout, "AS-EXPECTED") {
		t.Errorf("played again from its file: status %d:\n%s%s", replayed.status, replayed.stdout, replayed.progress)
	}
}
