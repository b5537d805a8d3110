// This file tests faults that are begun and ended by hand, and those that exist for
// that: replays, added partitions, aims at keys and at retries.

package nemesis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// byHand gives a player without a schedule.
func (s *stage) byHand(t *testing.T) *Player {
	t.Helper()
	player, err := NewPlayer(PlayerOptions{Cluster: s.cluster, Topics: []string{s.topic}, Recorder: s.record, Now: s.now, Seed: 1,
		Acks: "all", HealLimit: s.limit, WholeLimit: s.limit})
	if err != nil {
		t.Fatal(err)
	}
	return player
}

func (s *stage) begin(t *testing.T, p *Player, text string) string {
	t.Helper()
	asked, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	id, err := p.Begin(s.ctx, asked[0])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *stage) end(t *testing.T, p *Player, id string) Evidence {
	t.Helper()
	evidence, err := p.End(s.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return evidence
}

// produce writes one record, alone in its batch.
func (s *stage) produce(t *testing.T, client *kgo.Client, key, value string) {
	t.Helper()
	record := &kgo.Record{Topic: s.topic, Key: []byte(key), Value: []byte(value)}
	if err := client.ProduceSync(s.ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestAFaultByHandIsOnFromBeginToEnd(t *testing.T) {
	s := setStage(t, false)
	player, client := s.byHand(t), s.client("p")
	s.produce(t, client, "k", "before")
	id := s.begin(t, player, "lost-response:every=1,count=1")
	if len(player.Running()) != 1 || len(linesOf[*histories.FaultStart](s.record)) != 1 {
		t.Fatal("it is not on, or not written down")
	}
	s.produce(t, client, "k", "lost")
	if err := player.AwaitBit(s.ctx, id); err != nil {
		t.Fatal(err)
	}
	if evidence := s.end(t, player, id); !evidence.Bit {
		t.Errorf("its evidence: %+v", evidence)
	}
	again := s.begin(t, player, "lost-response")
	if id != "lost-response#1" || again != "lost-response#2" {
		t.Errorf("the ids are %s and %s", id, again)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	if len(player.Running()) != 0 {
		t.Error("a fault that was not ended is still on after AwaitWhole")
	}
	s.serves()
}

func TestFaultsByHandThatAreRefused(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	for name, asked := range map[string]Asked{
		"unknown":                     {Name: "no-such-fault"},
		"a lie":                       {Name: "write-twice"},
		"not to be had":               {Name: "kill"},
		"a setting that there is not": {Name: "lost-response", Settings: map[string]string{"colour": "red"}},
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := player.Begin(s.ctx, asked); err == nil {
				t.Errorf("it is on as %s", id)
			}
		})
	}
	if n := len(linesOf[*histories.FaultStart](s.record)); n != 0 {
		t.Errorf("%d faults were written down", n)
	}
	if _, err := player.End(s.ctx, "lost-response#1"); !errors.Is(err, ErrNotOn) {
		t.Errorf("ending what is not on gives %v", err)
	}
	waiting, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	defer cancel()
	id := s.begin(t, player, "lost-response")
	if err := player.AwaitBit(waiting, id); err == nil || !strings.Contains(err.Error(), "none of the 0 requests") {
		t.Errorf("waiting for an effect that does not come gives %v", err)
	}
	if _, err := player.Act(s.ctx, id); err == nil {
		t.Error("a fault that acts by itself was told to act")
	}
}

func TestReplayShowsTheWindowOfFiveBatches(t *testing.T) {
	s := setStage(t, false)
	player, client := s.byHand(t), s.client("p")
	id := s.begin(t, player, "replay:batches=7,producer=p")
	for range 10 {
		s.produce(t, client, "k", "event")
	}
	before := s.logs()
	evidence, err := player.Act(s.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	recognised := strings.Count(evidence.Text, "NONE at offset")
	refused := strings.Count(evidence.Text, "OUT_OF_ORDER_SEQUENCE_NUMBER")
	if recognised != 5 || refused != 2 || !evidence.Bit {
		t.Errorf("the broker answered: %s", evidence.Text)
	}
	s.end(t, player, id)
	if after := s.logs(); len(after[0]) != len(before[0]) {
		t.Errorf("the log had %d records and has %d", len(before[0]), len(after[0]))
	}
	if err := s.cluster.Wire().Settled(s.ctx); err != nil {
		t.Fatal(err)
	}
	labelled := s.faulted()
	if len(labelled) != 7 || labelled[0].ClientID != "p" || labelled[0].Fault != id {
		t.Errorf("attempts of the replay: %+v", labelled)
	}
}

func TestReplayLeavesABatchWithoutSequenceNumbersAlone(t *testing.T) {
	s := setStage(t, false)
	player, client := s.byHand(t), s.client("p", kgo.DisableIdempotentWrite())
	id := s.begin(t, player, "replay")
	s.produce(t, client, "k", "event")
	if evidence := s.end(t, player, id); evidence.Bit {
		t.Errorf("it sent again: %s", evidence.Text)
	}
}

func TestPartitionsAreAdded(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	evidence := s.end(t, player, s.begin(t, player, "add-partitions"))
	leaders, err := s.cluster.Leaders(s.ctx, s.topic)
	if err != nil || len(leaders) != 2*testPartitions {
		t.Errorf("%d partitions (%v)", len(leaders), err)
	}
	if len(evidence.Effects) != 1 || evidence.Effects[0] != histories.EffectPartitionsAdded {
		t.Errorf("its effects are %v", evidence.Effects)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAnAimAtAKeyActsOnItsRequestsAlone(t *testing.T) {
	s := setStage(t, false)
	player, client := s.byHand(t), s.client("p", kgo.DisableIdempotentWrite())
	s.begin(t, player, "lost-response:every=1,count=1,key=payment-42")
	for _, key := range []string{"payment-41", "payment-42", "payment-43"} {
		s.produce(t, client, key, key)
	}
	if values := strings.Join(s.logs()[0], " "); strings.Count(values, "payment-42") != 2 || len(s.logs()[0]) != 4 {
		t.Errorf("the log holds %s", values)
	}
	for _, a := range s.faulted() {
		if a.Records != 1 {
			t.Errorf("it acted on %+v", a)
		}
	}
}

func TestAimsAtRetries(t *testing.T) {
	for _, test := range []struct {
		aim   string
		codes []int16 // that the client was given, in order
	}{
		{"never", []int16{19, 0}},
		{"only", []int16{7, 19, 0}},
	} {
		t.Run(test.aim, func(t *testing.T) {
			s := setStage(t, false)
			player := s.byHand(t)
			client := s.client("p", kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
			refusal := s.begin(t, player, "refuse:error=NOT_ENOUGH_REPLICAS,every=1,count=1,retries="+test.aim)
			if test.aim == onlyRetries {
				s.begin(t, player, "refuse:error=REQUEST_TIMED_OUT,after=true,every=1,count=1")
			}
			s.produce(t, client, "k", "event")
			if !s.end(t, player, refusal).Bit {
				t.Error("it did not bite")
			}
			if err := s.cluster.Wire().Settled(s.ctx); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			var codes []int16
			for _, a := range s.attempts {
				codes = append(codes, a.Answer.Code)
			}
			if len(codes) != len(test.codes) {
				t.Fatalf("the client was given %v, want %v", codes, test.codes)
			}
			for i := range codes {
				if codes[i] != test.codes[i] {
					t.Errorf("the client was given %v, want %v", codes, test.codes)
				}
			}
		})
	}
}
