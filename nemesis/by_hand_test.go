// This file tests faults that are begun and ended by hand, and those that exist for
// that: replays, added partitions, aims at keys and at retries.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters"
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
	s.ended(2) // what was not ended by hand has its end written down
	if evidence, known := player.EvidenceOf(id); !known || !evidence.Bit {
		t.Errorf("afterwards its evidence is %+v, %t", evidence, known)
	}
	if err := player.AwaitBit(s.ctx, id); err != nil {
		t.Errorf("waiting for what took effect and ended gives %v", err)
	}
	if err := player.AwaitBit(s.ctx, again); !errors.Is(err, ErrNotOn) {
		t.Errorf("waiting for what ended without effect gives %v", err)
	}
	if _, known := player.EvidenceOf("lost-response#3"); known {
		t.Error("there is evidence of a fault that never was")
	}
	s.serves()
}

func TestAFaultThatCannotBeInjectedIsUndoneAndSaidSo(t *testing.T) {
	s := setStage(t, false)
	player, injection := s.byHand(t), &planted{inject: func(context.Context) error { return errTest }}
	player.find = func(string) (Fault, error) {
		return Fault{Name: "move-leader", aim: func(context.Context, *Environment, Settings) (Injection, error) { return injection, nil }}, nil
	}
	if _, err := player.Begin(s.ctx, Asked{Name: "move-leader"}); !errors.Is(err, errTest) {
		t.Errorf("beginning it gives %v", err)
	}
	if end := s.ended(1)[0]; !strings.Contains(end.Error, errTest.Error()) || injection.heals != 1 {
		t.Errorf("it was healed %d times and ended so: %+v", injection.heals, end)
	}
}

func TestFaultsByHandAreCountedBehindTheSchedules(t *testing.T) {
	s := setStage(t, false)
	player := s.player("lost-response", time.Millisecond)
	if id := s.begin(t, player, "lost-response"); id != "lost-response#2" {
		t.Errorf("its id is %s", id)
	}
}

func TestLeadersAreWatchedWhileAScriptPlays(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	stop := player.Watch(s.ctx)
	s.until("the leaders were seen once", func() bool {
		s.end(t, player, s.begin(t, player, "move-leader"))
		for _, e := range linesOf[*histories.ClusterEvent](s.record) {
			if e.What == histories.ClusterLeader {
				return true
			}
		}
		return false
	})
	stop()
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
	showWindow(t, setStage(t, false))
}

// showWindow writes ten batches and replays seven: a broker knows five of them again.
func showWindow(t *testing.T, s *stage) {
	t.Helper()
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
	const want = "last: NONE at 9 (first: 9); 2nd-last: NONE at 8 (first: 8); 3rd-last: NONE at 7 (first: 7); " +
		"4th-last: NONE at 6 (first: 6); 5th-last: NONE at 5 (first: 5); " +
		"6th-last: OUT_OF_ORDER_SEQUENCE_NUMBER; 7th-last: OUT_OF_ORDER_SEQUENCE_NUMBER"
	if evidence.Text != want || !evidence.Bit {
		t.Errorf("the broker answered: %s", evidence.Text)
	}
	if again, err := player.Act(s.ctx, id); err != nil || again.Text != want {
		t.Errorf("told to act again: %s, %v", again.Text, err)
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

func TestWhatIsReplayed(t *testing.T) {
	const first = "last: NONE at 0 (first: 0)"
	for name, c := range map[string]struct {
		settings string
		options  []kgo.Opt // of the producer p
		others   func(s *stage)
		refused  string // which fault the batch meets first
		want     string
	}{
		"a batch without sequence numbers is not": {options: []kgo.Opt{kgo.DisableIdempotentWrite()},
			want: "no batch was sent again; 0 are remembered"},
		"a batch that was refused is not, its retry is": {refused: "refuse:error=NOT_LEADER_OR_FOLLOWER,every=1,count=1,late=1ms",
			want: first},
		"what another producer wrote is not": {settings: "producer=p", want: first, others: func(s *stage) {
			s.produce(s.T, s.client("q"), "k", "another's")
		}},
		"what went to another partition is not": {settings: "partition=orders/0", want: first, others: func(s *stage) {
			record := &kgo.Record{Topic: s.topic, Partition: 1, Value: []byte("elsewhere")}
			if err := s.client("p").ProduceSync(s.ctx, record).FirstErr(); err != nil {
				s.Fatal(err)
			}
		}},
		"what is aimed at must have been written": {settings: "producer=nobody", want: "no batch was sent again; 0 are remembered"},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, false)
			player := s.byHand(t)
			id := s.begin(t, player, strings.TrimSuffix("replay:"+c.settings, ":"))
			if c.refused != "" {
				s.begin(t, player, c.refused)
			}
			s.produce(t, s.client("p", append(c.options, kgo.RetryBackoffFn(soon))...), "k", "event")
			if c.others != nil {
				c.others(s)
			}
			if evidence := s.end(t, player, id); evidence.Text != c.want {
				t.Errorf("%s; want %s", evidence.Text, c.want)
			}
		})
	}
}

// soon is how long a client waits before it tries again.
func soon(int) time.Duration { return time.Millisecond }

func TestAReplayGoesToWhoLeadsNow(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	id := s.begin(t, player, "replay")
	s.produce(t, s.client("p"), "k", "event")
	s.end(t, player, s.begin(t, player, "move-leader:partition="+s.topic+"/0"))
	leader, err := clusters.LeaderOf(s.ctx, s.cluster, s.topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.end(t, player, id)
	if err := s.cluster.Wire().Settled(s.ctx); err != nil {
		t.Fatal(err)
	}
	if sent := s.faulted(); len(sent) != 1 || sent[0].Broker != leader.Broker {
		t.Errorf("broker %d leads; sent was %+v", leader.Broker, sent)
	}
}

func TestPartitionsAreAdded(t *testing.T) {
	for _, c := range []struct {
		rule, settings string
		want           int
		refused        string // why there is an error; "": there is none
	}{
		{"twice as many, where no number is given", "", 2 * testPartitions, ""},
		{"as many as are asked for, of one topic", "to=5,topic=" + testTopic, 5, ""},
		{"never as many as there are", "to=3", testPartitions, "has 3 partitions already"},
		{"of no topic but the run's", "topic=payments", testPartitions, "payments is no topic of the run"},
		{"not more than a broker can bear", "to=1000000", testPartitions, "10000 partitions at most"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := setStage(t, false)
			player := s.byHand(t)
			asked, err := Parse(strings.TrimSuffix("add-partitions:"+c.settings, ":"))
			if err != nil {
				t.Fatal(err)
			}
			id, err := player.Begin(s.ctx, asked[0])
			if (err == nil) != (c.refused == "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
				t.Fatalf("it ended with %v, want %q", err, c.refused)
			}
			if err == nil {
				s.end(t, player, id)
			}
			leaders, err := s.cluster.Leaders(s.ctx, s.topic)
			if err != nil || len(leaders) != c.want {
				t.Errorf("%d partitions (%v)", len(leaders), err)
			}
			end := s.ended(1)[0]
			if added := c.refused == ""; slices.Contains(end.Effects, histories.EffectPartitionsAdded) != added || end.Bit != added ||
				(end.Error == "") != added {
				t.Errorf("it ended so: %+v", end)
			}
			if err := player.AwaitWhole(s.ctx); err != nil {
				t.Fatal(err)
			}
			s.serves()
		})
	}
}

func TestDoublingPartitionsEnds(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	for _, c := range []struct {
		fault     string
		want, bit int
	}{{"add-partitions:to=40", 40, 1}, {"add-partitions", mostDoubled, 1}, {"add-partitions", mostDoubled, 0}} {
		evidence := s.end(t, player, s.begin(t, player, c.fault))
		leaders, err := s.cluster.Leaders(s.ctx, s.topic)
		if err != nil || len(leaders) != c.want || evidence.Bit != (c.bit == 1) {
			t.Errorf("%s: %d partitions (%v), %+v", c.fault, len(leaders), err, evidence)
		}
	}
	s.serves()
}

// unanswered is a cluster that does what it is asked, and whose answer is lost.
type unanswered struct {
	*clusters.Embedded
}

func (u unanswered) AddPartitions(ctx context.Context, topic string, to int32) error {
	return errors.Join(errTest, u.Embedded.AddPartitions(ctx, topic, to))
}

func TestPartitionsThatAreThereWereAddedWhateverWasAnswered(t *testing.T) {
	s := setStage(t, false)
	injection, err := addPartitions().aim(s.ctx, &Environment{Cluster: unanswered{s.cluster.(*clusters.Embedded)},
		Topics: []string{s.topic}}, Settings{"to": "10"})
	if err != nil {
		t.Fatal(err)
	}
	if err := injection.Inject(s.ctx); !errors.Is(err, errTest) {
		t.Errorf("injecting gives %v", err)
	}
	if err := injection.Heal(s.ctx); err != nil {
		t.Fatal(err)
	}
	if e := injection.Evidence(); !e.Bit || e.Text != fmt.Sprintf("%d partitions were added", 10-testPartitions) {
		t.Errorf("the evidence is %+v", e)
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
			client := s.client("p", kgo.RetryBackoffFn(soon))
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
