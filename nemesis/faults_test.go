// This file tests each fault on a real cluster with a real client: that it bites,
// what it does, and that nothing of it is left.

package nemesis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

func TestEveryFaultBitesByDefaultAndLeavesNothing(t *testing.T) {
	for _, fault := range embeddedFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			s := setStage(t, fault.NeedsDisk)
			l := s.load()
			s.client("watcher", kgo.ConsumeTopics(testTopic))
			consume(s)
			player := s.playUntilBit(fault.Name)
			if err := player.AwaitWhole(s.ctx); err != nil {
				t.Fatal(err)
			}
			end := s.ended(1)[0]
			if !end.Bit || end.Error != "" || end.Evidence == "" {
				t.Errorf("it ended so: %+v", end)
			}
			start := linesOf[*histories.FaultStart](s.record)[0]
			if start.Lie != fault.Planted || start.ID != fault.Name+"#1" || len(start.Settings) != len(fault.Settings) {
				t.Errorf("it began so: %+v", start)
			}
			if len(player.Running()) != 0 {
				t.Errorf("still on: %v", player.Running())
			}
			for _, a := range s.faulted() {
				if a.Fault != start.ID {
					t.Errorf("an attempt names the fault %q", a.Fault)
				}
			}
			l.cancel()
			s.serves()
			whole := linesOf[*histories.ClusterEvent](s.record)
			if n := len(whole); whole[n-2].What != histories.ClusterHealed || whole[n-1].What != histories.ClusterWhole {
				t.Errorf("the last events are %+v, %+v", whole[n-2], whole[n-1])
			}
		})
	}
}

// consume polls in the background until the test ends.
func consume(s *stage) {
	ctx, cancel := context.WithCancel(s.ctx)
	client := s.client("consumer", kgo.ConsumeTopics(testTopic))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.PollFetches(ctx)
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
}

// play plays one fault under load and gives what the log says.
func play(t *testing.T, faults string, options ...kgo.Opt) (*stage, *load, found) {
	t.Helper()
	s := setStage(t, strings.Contains(faults, "restart-losing-suffix"))
	l := s.load(options...)
	player := s.playUntilBit(faults)
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	l.stop()
	end := s.ended(1)[0]
	if !end.Bit || end.Error != "" {
		t.Fatalf("it did not bite: %+v", end)
	}
	return s, l, l.judge()
}

func TestWhatLegalFaultsDo(t *testing.T) {
	plain := []kgo.Opt{kgo.DisableIdempotentWrite()}
	for _, c := range []struct {
		name, faults string
		options      []kgo.Opt
		duplicates   bool
		attempt      func(wire.Attempt) bool
	}{
		{"a lost response makes a producer without idempotence write twice", "lost-response", plain, true, func(a wire.Attempt) bool {
			return a.Reached && a.Answer == nil && a.Lost == wire.LostConnection
		}},
		{"a lost response does nothing to an idempotent producer", "lost-response", nil, false, nil},
		{"silence makes a producer without idempotence write twice", "lost-response:mode=stall,count=2", plain, true, func(a wire.Attempt) bool {
			return a.Answer == nil && a.Lost == wire.LostSilence
		}},
		{"a cut before the broker has the request duplicates nothing", "cut-before", plain, false, func(a wire.Attempt) bool {
			return !a.Reached && a.Answer == nil && a.Lost == wire.LostConnection
		}},
		{"a refusal without the append duplicates nothing", "refuse", plain, false, func(a wire.Attempt) bool {
			return !a.Reached && a.Answer != nil && a.Answer.Code == 6
		}},
		{"a refusal after the append makes a producer without idempotence write twice", "refuse:error=REQUEST_TIMED_OUT,after=true", plain, true,
			func(a wire.Attempt) bool {
				return a.Reached && a.Answer != nil && a.Answer.Code == 7 && a.BrokerAnswer != nil
			}},
		{"a refusal after the append does nothing to an idempotent producer", "refuse:error=REQUEST_TIMED_OUT,after=true", nil, false, nil},
		{"a request that is held back is late", "hold-back:by=80ms", plain, false, func(a wire.Attempt) bool {
			return a.Ended.Sub(a.Sent) >= 80*time.Millisecond
		}},
		{"an answer that is held back is late", "hold-back:by=80ms,side=answer", plain, false, func(a wire.Attempt) bool {
			return a.Ended.Sub(a.Sent) >= 80*time.Millisecond
		}},
		{"a broker that stops reading loses nothing", "stop-reading", nil, false, nil},
		{"one that stops reading from one client loses nothing", "stop-reading:producer=load", nil, false, nil},
		{"leaders that move lose nothing", "move-leader:partition=all", nil, false, nil},
		{"a leader that leaves loses nothing", "broker-leave", nil, false, nil},
		{"a broker that leaves loses nothing", "broker-leave:broker=2", nil, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l, f := play(t, c.faults, c.options...)
			if len(l.errs) > 0 || len(l.acked) != l.sent {
				t.Errorf("%d of %d acknowledged; errors: %v", len(l.acked), l.sent, l.errs)
			}
			if f.lost > 0 || f.phantoms > 0 || (f.duplicates > 0) != c.duplicates {
				t.Errorf("found %+v, want duplicates: %t and nothing else", f, c.duplicates)
			}
			if c.attempt == nil {
				return
			}
			acted := s.faulted()
			if len(acted) == 0 {
				t.Error("no attempt names the fault")
			}
			for _, a := range acted {
				if !c.attempt(a) {
					t.Errorf("an attempt that it acted on: %+v", a)
				}
			}
		})
	}
}

func TestWhatLiesDo(t *testing.T) {
	plain := []kgo.Opt{kgo.DisableIdempotentWrite()}
	many := []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(4)}
	for _, c := range []struct {
		name, faults string
		options      []kgo.Opt
		is           func(found) bool
	}{
		{"an unwritten acknowledgement is a lost write", "acknowledge-unwritten", plain, func(f found) bool { return f.lost > 0 && f.duplicates == 0 }},
		{"a second write is a duplicate under an idempotent producer", "write-twice", nil, func(f found) bool { return f.duplicates > 0 && f.lost == 0 }},
		{"swapped batches are out of order", "swap-batches:every=5", many, func(f found) bool { return f.descents > 0 && f.lost == 0 }},
		{"a corrupt byte is another value", "corrupt-byte", plain, func(f found) bool { return f.phantoms > 0 || f.lost > 0 }},
		{"a lost suffix is lost writes", "restart-losing-suffix", plain, func(f found) bool { return f.lost > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, f := play(t, c.faults, c.options...); !c.is(f) {
				t.Errorf("found %+v", f)
			}
		})
	}
}

func TestFiltersAimTheFault(t *testing.T) {
	for _, c := range []struct {
		name, settings string
		within         func(wire.Attempt) bool
	}{
		{"a broker", "broker=1", func(a wire.Attempt) bool { return a.Broker == 1 }},
		{"a producer", "producer=other", func(a wire.Attempt) bool { return a.ClientID == "other" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setStage(t, false)
			for p := range int32(testPartitions) {
				if err := s.cluster.(clusters.LeaderMover).MoveLeader(s.ctx, testTopic, p, p); err != nil {
					t.Fatal(err)
				}
			}
			s.load()
			other := s.client("other")
			go func() {
				for s.ctx.Err() == nil && other.ProduceSync(s.ctx, &kgo.Record{Topic: testTopic, Value: []byte("event 000000")}).FirstErr() == nil {
				}
			}()
			s.playUntilBit("cut-before:every=2," + c.settings)
			acted := s.faulted()
			if len(acted) == 0 {
				t.Fatal("it acted on nothing")
			}
			for _, a := range acted {
				if !c.within(a) {
					t.Errorf("it acted on %+v", a)
				}
			}
		})
	}
}

func TestTheFilterForAPartitionActsOnRequestsThatCarryIt(t *testing.T) {
	s := setStage(t, false)
	for p := range int32(testPartitions) { // a request to a broker then carries one partition
		if err := s.cluster.(clusters.LeaderMover).MoveLeader(s.ctx, testTopic, p, p); err != nil {
			t.Fatal(err)
		}
	}
	s.load()
	s.playUntilBit("cut-before:every=2,partition=orders/2")
	acted := s.faulted()
	if len(acted) == 0 {
		t.Fatal("it acted on nothing")
	}
	for _, a := range acted {
		if a.Partition != 2 {
			t.Errorf("it acted on %+v", a)
		}
	}
}

func TestEveryAndCountAreExact(t *testing.T) {
	s := setStage(t, false)
	player := s.player("refuse:every=3,count=4", 2*time.Second)
	done := make(chan error, 1)
	go func() { done <- player.Play(s.ctx) }()
	s.until("the fault is on", func() bool { return len(player.Running()) == 1 })
	client := s.client("one")
	for i := range 20 { // one request after the other, each counted once
		if err := client.ProduceSync(s.ctx, &kgo.Record{Topic: testTopic, Value: []byte{byte(i)}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	var acted []int
	slices.SortFunc(s.attempts, func(a, b wire.Attempt) int { return a.Sent.Compare(b.Sent) }) // observed as their fates were known
	for i, a := range s.attempts {
		if a.Fault != "" {
			acted = append(acted, i)
		}
	}
	s.mu.Unlock()
	if !slices.Equal(acted, []int{2, 5, 8, 11}) {
		t.Errorf("it acted on the attempts %v, want every third, four times", acted)
	}
	if end := s.ended(1)[0]; !strings.Contains(end.Evidence, "on 4 of the 24 requests") {
		t.Errorf("the evidence is %q", end.Evidence)
	}
}

func TestRecordsOfOtherTopicsAreNotHarmed(t *testing.T) {
	s := setStage(t, false)
	player := s.player("cut-before:every=1", 300*time.Millisecond)
	player.options.Topics = []string{"another"}
	s.load()
	if err := player.Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	if end := s.ended(1)[0]; end.Bit || len(s.faulted()) > 0 {
		t.Errorf("it acted on a topic of someone else: %+v", end)
	}
}

// embeddedFaults are those that a cluster in this process can have; the others are
// tested where brokers have processes and a network of their own.
func embeddedFaults() []Fault {
	return slices.DeleteFunc(Catalogue(), func(f Fault) bool { return f.Stalls })
}

func TestCtrlCInTheMiddleOfAFaultUndoesIt(t *testing.T) {
	for _, fault := range embeddedFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			s := setStage(t, fault.NeedsDisk)
			l := s.load()
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			player := s.player(fault.Name, 30*time.Second)
			played := make(chan error, 1)
			go func() { played <- player.Play(ctx) }()
			s.until("the fault is on", func() bool { return len(player.Running()) == 1 })
			cancel()
			select {
			case err := <-played:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Play gives %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Play did not return")
			}
			if err := player.AwaitWhole(ctx); err != nil { // its own limits hold, not the ended context
				t.Fatal(err)
			}
			s.ended(1)
			l.cancel()
			s.serves()
		})
	}
}

func TestHealInTheMiddleOfAFaultUndoesIt(t *testing.T) {
	s := setStage(t, false)
	s.load()
	player := s.player("broker-leave", 2*time.Second)
	played := make(chan error, 1)
	go func() { played <- player.Play(s.ctx) }()
	s.until("a broker is away", func() bool { return s.cluster.Whole(s.ctx) != nil })
	for range 2 {
		if err := player.Heal(s.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.cluster.Whole(s.ctx); err != nil {
		t.Errorf("after Heal: %v", err)
	}
	if err := <-played; err != nil {
		t.Fatal(err)
	}
	s.ended(1)
}

// A schedule that was drawn for a short run, and a client as the library makes it:
// nothing that one fault leaves behind keeps every fault of another kind from finding
// traffic. (One may find none: on a busy machine such a client may wait for metadata for
// five seconds.)
func TestADrawnScheduleBitesWholly(t *testing.T) {
	s := setStage(t, false)
	var asked []Asked
	for _, fault := range embeddedFaults() {
		if !fault.Planted {
			asked = append(asked, Asked{Name: fault.Name})
		}
	}
	schedule, err := Draw(asked, 24*time.Second, 7, Options{Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	player, err := NewPlayer(PlayerOptions{Cluster: s.cluster, Schedule: schedule, Topics: []string{testTopic},
		Recorder: s.record, Now: s.now, Seed: 7, Acks: "all"})
	if err != nil {
		t.Fatal(err)
	}
	l := s.load(kgo.MetadataMinAge(5*time.Second), kgo.ProducerLinger(10*time.Millisecond)) // the library's own
	if err := player.Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	l.stop()
	bit := make(map[string]bool)
	for _, end := range s.ended(len(schedule)) {
		if end.Error != "" {
			t.Errorf("it ended so: %+v", end)
		}
		name, _, _ := strings.Cut(end.ID, "#")
		bit[name] = bit[name] || end.Bit
	}
	for _, a := range asked {
		if !bit[a.Name] {
			t.Errorf("%s never bit", a.Name)
		}
	}
	if f := l.judge(); f != (found{}) || len(l.errs) > 0 {
		t.Errorf("found %+v with an idempotent producer; errors: %v", f, l.errs)
	}
}

func TestFaultsOnFetchesHarmNoReader(t *testing.T) {
	for _, faults := range []string{"lost-response:api=fetch,every=2", "cut-before:api=fetch,every=2", "hold-back:api=fetch,every=2,by=20ms",
		"lost-response:api=fetch,mode=stall,count=1"} {
		t.Run(faults, func(t *testing.T) {
			s := setStage(t, false)
			l := s.load()
			consume(s)
			s.playUntilBit(faults)
			l.stop()
			if end := s.ended(1)[0]; !end.Bit || end.Error != "" {
				t.Errorf("it ended so: %+v", end)
			}
			if len(s.faulted()) > 0 {
				t.Error("it acted on produce requests")
			}
			if f := l.judge(); f != (found{}) {
				t.Errorf("found %+v", f)
			}
		})
	}
}

func TestAcksZeroIsClosedInsteadOfRefused(t *testing.T) {
	for _, faults := range []string{"refuse", "refuse:error=REQUEST_TIMED_OUT,after=true", "lost-response"} {
		t.Run(faults, func(t *testing.T) {
			s := setStage(t, false)
			s.load(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))
			s.playUntilBit(faults)
			if end := s.ended(1)[0]; !end.Bit || end.Error != "" {
				t.Errorf("it ended so: %+v", end)
			}
			for _, a := range s.faulted() {
				if a.Answer != nil || a.Lost != wire.LostAcksZero {
					t.Errorf("an attempt that it acted on: %+v", a)
				}
			}
		})
	}
}
