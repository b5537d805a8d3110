// This file tests what a scenario is and that a run of it is what the scenario
// says.

package scenarios

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

func TestAScenarioIsReadBackAsItWasSaved(t *testing.T) {
	s := Default()
	s.Seed = 42
	s.Producer = map[string]string{"acks": "1"}
	r, err := Prepare(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Scenario().YAML()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, r.Scenario()) {
		t.Errorf("read back\n%+v\nwant\n%+v", back, r.Scenario())
	}
	if len(back.Faults.Schedule) == 0 || back.Limits.Serve == 0 {
		t.Error("not every default is spelled out")
	}
}

func TestTheSeedAloneDecidesScheduleAndWorkload(t *testing.T) {
	draw := func(seed int64) (Scenario, []pick) {
		s := Default()
		s.Seed = seed
		r, err := Prepare(context.Background(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		sequence := newSequence(seed, 1, []string{"a", "b"}, 10)
		var picks []pick
		for range 1000 {
			picks = append(picks, sequence.next())
		}
		return r.Scenario(), picks
	}
	one, onePicks := draw(1)
	again, againPicks := draw(1)
	other, otherPicks := draw(2)
	if !reflect.DeepEqual(one, again) || !reflect.DeepEqual(onePicks, againPicks) {
		t.Error("the same seed gave another run")
	}
	if reflect.DeepEqual(one.Faults.Schedule, other.Faults.Schedule) || reflect.DeepEqual(onePicks, otherPicks) {
		t.Error("another seed gave the same run")
	}
	topicOf := make(map[string]string)
	for _, p := range onePicks {
		if known, seen := topicOf[p.key]; seen && known != p.topic {
			t.Fatalf("key %s goes to %s and to %s", p.key, known, p.topic)
		}
		topicOf[p.key] = p.topic
	}
}

func TestWhatCannotBePlayedIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(*Scenario)
		says   string
	}{
		{"a run too short for anything", func(s *Scenario) { s.Duration = time.Millisecond }, "duration"},
		{"more replicas than brokers", func(s *Scenario) { s.Topics.ReplicationFactor = 4 }, "replication.factor"},
		{"no producer", func(s *Scenario) { s.Workload.Producers = 0 }, "producers"},
		{"a value beyond max.message.bytes", func(s *Scenario) { s.Workload.ValueSize = 2_000_000 }, "value.size"},
		{"an unknown provider", func(s *Scenario) { s.Cluster.Provider = "moon" }, "moon"},
		{"an unknown client", func(s *Scenario) { s.Workload.Client = "pigeon" }, "pigeon"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := Default()
			c.change(&s)
			err := s.Validate()
			var input *InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an input error about %s", err, c.says)
			}
		})
	}
	if err := Default().Validate(); err != nil {
		t.Errorf("the default itself is refused: %v", err)
	}
}

func TestThePaceKeepsTheRateAndForgivesALongStall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	p := pace{perSecond: 10_000, started: time.Now().Add(-time.Hour)}
	sent := 0
	for n := p.due(ctx); n > 0; n = p.due(ctx) {
		sent += n
	}
	// An hour was missed; at most catchUp of it is made up for.
	if most := 10_000 * (0.6 + catchUp.Seconds()); sent < 2000 || float64(sent) > most {
		t.Errorf("%d events in 0.4 s at 10,000 a second", sent)
	}
}

func TestARunOfTwoTopicsIsRecordedWhole(t *testing.T) {
	s := Default()
	s.Seed, s.Duration = 8, 3*time.Second
	s.Topics.Count, s.Topics.Partitions = 2, 2
	s.Faults.Asked = "lost-response"
	r, err := Prepare(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := runs.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.Run(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	if v.Verdict != checker.Held || v.Counts.Invoked == 0 {
		t.Fatalf("verdict %s: %s", v.Verdict, v.Summary)
	}
	file, err := histories.Open(directory.History())
	if err != nil {
		t.Fatal(err)
	}
	h := file.Header()
	if len(h.Topics) != 2 || h.Producer[histories.PropertyAcks] != "all" || h.Seed != 8 || h.Cluster == nil {
		t.Errorf("header %+v", h)
	}
	attempts := 0
	for entry, err := range file.Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, isAttempt := entry.Line.(*histories.Attempt); isAttempt {
			attempts++
		}
	}
	if attempts == 0 {
		t.Error("no attempt was recorded")
	}
	if status := r.Status(); status.Phase != phaseChecking || status.Sent == 0 {
		t.Errorf("status %+v", status)
	}
}
