// This file tests the player: what it writes and when, and that it undoes everything
// whatever a fault or the recorder does.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

// planted is an injection that does what a test wants, and remembers what was done.
type planted struct {
	mu     sync.Mutex
	calls  []string
	inject func(context.Context) error
	heal   func(ctx context.Context, time int) error
	heals  int
}

func (p *planted) called(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, what)
}

func (p *planted) done() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.calls...)
}

func (p *planted) Target() string { return "whatever the test wants" }

func (p *planted) Inject(ctx context.Context) error {
	p.called("inject")
	if p.inject != nil {
		return p.inject(ctx)
	}
	return nil
}

func (p *planted) Heal(ctx context.Context) error {
	p.called("heal")
	p.heals++
	if p.heal != nil {
		return p.heal(ctx, p.heals)
	}
	return nil
}

func (p *planted) Evidence() Evidence {
	return Evidence{Bit: true, Text: "seen", Effects: []string{histories.EffectBrokerMisbehaved}}
}

// plant makes a player of one fault "planted" that is the injection.
func plant(s *stage, injection Injection, aimErr error) *Player {
	s.Helper()
	player := s.player("cut-before", 100*time.Millisecond)
	player.options.HealLimit = 200 * time.Millisecond
	player.find = func(string) (Fault, error) {
		return Fault{Name: "planted", aim: func(context.Context, *Environment, Settings) (Injection, error) { return injection, aimErr }}, nil
	}
	return player
}

func TestAFaultIsWrittenDownBeforeItIsInjected(t *testing.T) {
	s := setStage(t, false)
	p := &planted{inject: func(context.Context) error {
		if len(linesOf[*histories.FaultStart](s.record)) != 1 {
			t.Error("it is injected and not written down")
		}
		if len(linesOf[*histories.FaultEnd](s.record)) != 0 {
			t.Error("it is injected and its end is written down")
		}
		return nil
	}, heal: func(context.Context, int) error {
		if len(linesOf[*histories.FaultEnd](s.record)) != 0 {
			t.Error("its end is written down before it is undone")
		}
		return nil
	}}
	if err := plant(s, p, nil).Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	end := s.ended(1)[0]
	if !end.Bit || end.Evidence != "seen" || !reflect.DeepEqual(end.Effects, []string{histories.EffectBrokerMisbehaved}) || end.Error != "" {
		t.Errorf("it ended so: %+v", end)
	}
	if got := p.done(); !reflect.DeepEqual(got, []string{"inject", "heal"}) {
		t.Errorf("what was done: %v", got)
	}
}

func TestAFaultThatCannotBeInjectedIsAnEndWithAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		inject func(context.Context) error
		aim    error
		says   string
	}{
		{"an error of injecting", func(context.Context) error { return errTest }, nil, errTest.Error()},
		{"a panic of injecting", func(context.Context) error { panic("boom") }, nil, "boom"},
		{"an injection that hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil, "deadline"},
		{"a target that cannot be chosen", nil, errTest, "choosing the target"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setStage(t, false)
			p := &planted{inject: c.inject}
			var injection Injection = p
			if c.aim != nil {
				injection = nil
			}
			player := plant(s, injection, c.aim)
			if err := player.Play(s.ctx); err != nil {
				t.Fatalf("it crashes the run: %v", err)
			}
			if end := s.ended(1)[0]; !strings.Contains(end.Error, c.says) {
				t.Errorf("it ended so: %+v", end)
			}
			if done := p.done(); c.aim == nil && done[len(done)-1] != "heal" {
				t.Errorf("it was not undone: %v", done)
			}
			if len(player.Running()) > 0 {
				t.Errorf("still on: %v", player.Running())
			}
		})
	}
}

func TestAFaultThatCannotBeUndoneIsToldAndTriedAgain(t *testing.T) {
	s := setStage(t, false)
	p := &planted{heal: func(_ context.Context, time int) error {
		if time < 3 {
			return errTest
		}
		return nil
	}}
	player := plant(s, p, nil)
	if err := player.Play(s.ctx); !errors.Is(err, errTest) {
		t.Errorf("Play gives %v", err)
	}
	if end := s.ended(1)[0]; !strings.Contains(end.Error, "undoing cut-before#1") {
		t.Errorf("it ended so: %+v", end)
	}
	if running := player.Running(); len(running) != 1 || running[0].ID != "cut-before#1" {
		t.Errorf("on: %v", running)
	}
	if err := player.AwaitWhole(s.ctx); !errors.Is(err, errTest) {
		t.Errorf("AwaitWhole gives %v", err)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Errorf("the third time it can be undone, and AwaitWhole gives %v", err)
	}
	events := linesOf[*histories.ClusterEvent](s.record)
	var what []string
	for _, e := range events {
		what = append(what, e.What)
	}
	if want := []string{histories.ClusterNotHealed, histories.ClusterHealed, histories.ClusterWhole}; !reflect.DeepEqual(what, want) {
		t.Errorf("the events are %v, want %v", what, want)
	}
}

func TestAPanicOfHealIsAnError(t *testing.T) {
	s := setStage(t, false)
	player := plant(s, &planted{heal: func(context.Context, int) error { panic("boom") }}, nil)
	if err := player.Play(s.ctx); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Play gives %v", err)
	}
}

func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	s := setStage(t, false)
	s.record.fail = errTest
	p := new(planted)
	if err := plant(s, p, nil).Play(s.ctx); !errors.Is(err, errTest) {
		t.Errorf("Play gives %v", err)
	}
	if done := p.done(); len(done) > 0 {
		t.Errorf("nothing could be written down, and yet: %v", done)
	}
}

func TestAFaultThatIsLateDelaysTheNext(t *testing.T) {
	s := setStage(t, false)
	p := &planted{heal: func(context.Context, int) error {
		s.until("the next one would have begun", func() bool { return s.now() > int64(500*time.Millisecond) })
		return nil
	}}
	player := plant(s, p, nil)
	player.options.HealLimit = 10 * time.Second
	player.options.Schedule = Schedule{{At: 0, For: 50 * time.Millisecond, Fault: "planted"},
		{At: 100 * time.Millisecond, For: 50 * time.Millisecond, Fault: "planted"}}
	player.ids = player.options.Schedule.ids()
	if err := player.Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.ended(2)
	if got := p.done(); !reflect.DeepEqual(got, []string{"inject", "heal", "inject", "heal"}) {
		t.Errorf("what was done: %v", got)
	}
}

func TestFaultsThatOverlapAreBothUndone(t *testing.T) {
	s := setStage(t, false)
	s.load()
	asked := []Asked{
		{Name: "broker-leave", At: 50 * time.Millisecond, For: 400 * time.Millisecond},
		{Name: "lost-response", At: 150 * time.Millisecond, For: 200 * time.Millisecond},
	}
	schedule, err := Draw(asked, time.Second, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	player := s.player("cut-before", 100*time.Millisecond)
	player.options.Schedule, player.ids = schedule, schedule.ids()
	played := make(chan error, 1)
	go func() { played <- player.Play(s.ctx) }()
	s.until("both are on", func() bool { return len(player.Running()) == 2 })
	if running := player.Running(); running[0].Name != "broker-leave" || running[1].Name != "lost-response" || running[0].Target == "" {
		t.Errorf("on: %+v", running)
	}
	if err := <-played; err != nil {
		t.Fatal(err)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.ended(2)
	s.serves()
}

func TestLeaderChangesAreWrittenDown(t *testing.T) {
	s := setStage(t, false)
	if err := s.player("move-leader:partition=orders/1", 300*time.Millisecond).Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	events := linesOf[*histories.ClusterEvent](s.record)
	if len(events) != 1 || events[0].What != histories.ClusterLeader || !strings.HasPrefix(events[0].Detail, "orders/1: broker ") {
		t.Errorf("the events are %+v", events)
	}
}

func TestTargetsComeFromTheSeed(t *testing.T) {
	s := setStage(t, false)
	targets := func(seed int64) []string {
		var all []string
		for _, fault := range []Fault{moveLeader(), brokerLeave()} {
			settings, err := fault.Complete(nil)
			if err != nil {
				t.Fatal(err)
			}
			player := s.player("cut-before", time.Second)
			player.options.Seed = seed
			for _, id := range []string{"#1", "#2", "#3", "#4", "#5", "#6"} {
				injection, err := player.aim(s.ctx, fault, fault.Name+id, settings)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, injection.Target())
			}
		}
		return all
	}
	if one, again := targets(1), targets(1); !reflect.DeepEqual(one, again) {
		t.Errorf("the same seed gives the targets %v and %v", one, again)
	}
	if one, two := targets(1), targets(2); reflect.DeepEqual(one, two) {
		t.Errorf("two seeds give the same twelve targets %v", one)
	}
}

// kfake has no controller any more once its own has left, and no topic gets partitions.
func TestADrawnBrokerThatLeavesIsNotKfakesController(t *testing.T) {
	s := setStage(t, false)
	for _, drawn := range []string{leaderBroker, randomOne} {
		settings, err := brokerLeave().Complete(Settings{"broker": drawn})
		if err != nil {
			t.Fatal(err)
		}
		left := make(map[int32]bool)
		for i := range 60 {
			injection, err := s.player("cut-before", time.Second).aim(s.ctx, brokerLeave(), fmt.Sprintf("broker-leave#%d", i), settings)
			if err != nil {
				t.Fatal(err)
			}
			left[injection.(*departure).broker] = true
		}
		if want := map[int32]bool{0: true, 1: true}; !maps.Equal(left, want) {
			t.Errorf("broker=%s lets these leave: %v, want %v", drawn, left, want)
		}
	}
}

func TestPlayersThatAreRefused(t *testing.T) {
	s := setStage(t, false)
	for _, c := range []struct {
		name     string
		schedule Schedule
		lies     bool
		says     string
	}{
		{"a lie that is not allowed", Schedule{{For: 1, Fault: "write-twice"}}, false, "--allow-lies"},
		{"a refusal that is a lie and not allowed",
			Schedule{{For: 1, Fault: "refuse", Settings: map[string]string{"error": "NOT_ENOUGH_REPLICAS", "after": "true"}}}, false, "--allow-lies"},
		{"a fault that this cluster cannot have", Schedule{{For: 1, Fault: "restart-losing-suffix"}}, true, "in memory"},
		{"a fault that does not exist", Schedule{{For: 1, Fault: "gremlins"}}, false, "entry 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlayer(PlayerOptions{Cluster: s.cluster, Schedule: c.schedule, Acks: "all", AllowLies: c.lies})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewPlayer gives %v, want an error that says %q", err, c.says)
			}
		})
	}
}

func TestAClusterThatDoesNotBecomeWholeIsWrittenDown(t *testing.T) {
	s := setStage(t, false)
	player := s.player("cut-before", 100*time.Millisecond)
	player.options.WholeLimit = 300 * time.Millisecond
	if err := s.cluster.(clusters.MemberMover).Leave(s.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := player.AwaitWhole(s.ctx); err == nil || !strings.Contains(err.Error(), "broker 1 is away") {
		t.Errorf("AwaitWhole gives %v", err)
	}
	events := linesOf[*histories.ClusterEvent](s.record)
	if last := events[len(events)-1]; last.What != histories.ClusterNotWhole || !strings.Contains(last.Detail, "broker 1 is away") {
		t.Errorf("the last event is %+v", last)
	}
}

func TestAOneBrokerClusterHasNoLeaderToMove(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	cluster, err := clusters.StartEmbedded(ctx, clusters.EmbeddedOptions{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"move-leader", "broker-leave"} {
		schedule := Schedule{{For: 1, Fault: name}}
		if err := schedule.Available(cluster); err == nil || !strings.Contains(err.Error(), "one broker") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Undoing one takes all the time that is left: the next one is not begun, and is no
// fault that did not bite.
func TestWhatFindsNoTimeIsNotBegun(t *testing.T) {
	s := setStage(t, false)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	player := s.player("cut-before,cut-before", 50*time.Millisecond)
	fault, err := Find("cut-before")
	if err != nil {
		t.Fatal(err)
	}
	fault.aim = func(context.Context, *Environment, Settings) (Injection, error) {
		return &planted{heal: func(context.Context, int) error {
			<-time.After(time.Second) // long after the next one was to begin
			cancel()                  // the run's time is over
			return nil
		}}, nil
	}
	player.find = func(string) (Fault, error) { return fault, nil }
	if err := player.Play(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Play gives %v", err)
	}
	s.ended(1)
}

// The time is over while a fault is being injected: it is injected to its end, and undone at once.
func TestWhatIsBeingInjectedIsLetFinish(t *testing.T) {
	for _, c := range []struct {
		name  string
		stops bool // everything, as ctrl-C does, and not only the time
		says  string
	}{
		{"the time is over", false, ""},
		{"everything is over", true, "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setStage(t, false)
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			p := &planted{inject: func(ctx context.Context) error {
				if c.stops {
					cancel()
				}
				return sleep(ctx, time.Second)
			}}
			player := plant(s, p, nil)
			player.options.HealLimit, player.options.Lasts = 10*time.Second, 300*time.Millisecond
			player.options.Schedule[0].For = 10 * time.Minute
			if err := player.Play(ctx); (err != nil) != c.stops {
				t.Errorf("Play gives %v", err)
			}
			if end := s.ended(1)[0]; !strings.Contains(end.Error, c.says) || (end.Error == "") == c.stops {
				t.Errorf("it ended so: %+v", end)
			}
			if got := p.done(); !reflect.DeepEqual(got, []string{"inject", "heal"}) {
				t.Errorf("what was done: %v", got)
			}
		})
	}
}
