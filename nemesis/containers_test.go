// This file tests the faults on real brokers in containers: each bites, does what it
// says, and leaves nothing behind. It takes a container engine; ci/test brings one up.
// One cluster serves all of them, with a topic for each.

package nemesis

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

// containersLimit bounds every test on containers; the first one may have to build an
// image.
const containersLimit = 4 * time.Minute

var shared struct {
	once    sync.Once
	cluster *clusters.Containers
	err     error
	topics  int
}

func TestMain(m *testing.M) {
	status := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// setContainers gives a stage on the shared cluster, whole, with a topic of its own.
func setContainers(t *testing.T, properties map[string]string) (*stage, *clusters.Containers) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	t.Cleanup(cancel)
	shared.once.Do(func() {
		shared.cluster, shared.err = clusters.StartContainers(ctx, clusters.ContainersOptions{Version: "4.1.0"})
	})
	if shared.err != nil {
		t.Fatalf("%v\n(ci/test brings up a container engine)", shared.err)
	}
	shared.topics++
	s := &stage{T: t, ctx: ctx, cluster: shared.cluster, topic: fmt.Sprintf("topic-%d", shared.topics), limit: 2 * time.Minute}
	s.until("the cluster is whole", func() bool { return s.cluster.Whole(s.ctx) == nil })
	s.set(properties)
	return s, shared.cluster
}

func TestEveryFaultOfRealBrokersBitesAndLeavesNothing(t *testing.T) {
	const moved = "moved to another leader"
	for _, c := range []struct {
		fault string
		lasts time.Duration
		says  []string // its evidence
		loses bool     // what it promises: acknowledged writes may be lost
		topic map[string]string
	}{
		{fault: "isolate-leader", lasts: 7 * time.Second, says: []string{"packets were dropped", moved}},
		{fault: "majority-minority", lasts: 7 * time.Second, says: []string{"packets were dropped", moved}},
		{fault: "one-way:direction=out", lasts: 7 * time.Second, says: []string{"packets were dropped", moved}},
		{fault: "cut-replication", lasts: 6 * time.Second, says: []string{"packets were dropped"}},
		{fault: "cut-clients", lasts: 2 * time.Second, says: []string{"packets were dropped"}},
		{fault: "loss:percent=30,broker=follower", lasts: 3 * time.Second, says: []string{"packets were dropped"}},
		{fault: "kill-leader", lasts: 5 * time.Second, says: []string{"was gone", moved, "it is back"}},
		{fault: "pause-leader", lasts: 5 * time.Second, says: []string{"was frozen", moved, "it is back"}},
		{fault: "restart-controller", lasts: 100 * time.Millisecond, says: []string{"is another process", "it is back"}},
		{fault: "rolling-restart", lasts: 100 * time.Millisecond, says: []string{"broker 1 is another process",
			"broker 2 is another process", "broker 3 is another process", "it is back"}},
		{fault: "kill-all", lasts: time.Second, says: []string{"the process of broker 1 was gone", "the process of broker 2 was gone",
			"the process of broker 3 was gone", "it is back"}},
		{fault: "move-leader", lasts: 100 * time.Millisecond, says: []string{"1 of 1 leaders moved"}},
		{fault: "broker-leave", lasts: time.Second, says: []string{"it returned"}},
		{fault: "unclean-election", lasts: 100 * time.Millisecond, says: []string{"unclean election", "which alone was in sync", "by command"},
			loses: true, topic: map[string]string{"min.insync.replicas": "1"}},
		{fault: "unclean-election", lasts: 100 * time.Millisecond, says: []string{"unclean election", "by the controller"}, loses: true,
			topic: map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			s, cluster := setContainers(t, c.topic)
			l := s.load()
			player := s.player(c.fault, c.lasts)
			if err := player.Play(s.ctx); err != nil {
				t.Fatal(err)
			}
			if err := player.AwaitWhole(s.ctx); err != nil {
				t.Fatal(err)
			}
			end := s.ended(1)[0]
			if !end.Bit || end.Error != "" {
				t.Errorf("it ended so: %+v", end)
			}
			for _, says := range c.says {
				if !strings.Contains(end.Evidence, says) {
					t.Errorf("the evidence lacks %q: %s", says, end.Evidence)
				}
			}
			if effects := slices.Contains(end.Effects, histories.EffectUncleanElection); effects != c.loses {
				t.Errorf("its effects are %v", end.Effects)
			}
			nothingIsLeft(t, s, cluster)
			l.stop()
			f := l.judge()
			if f.duplicates+f.descents+f.phantoms > 0 && !c.loses {
				t.Errorf("the logs are wrong: %+v", f)
			}
			if (f.lost > 0) != c.loses {
				t.Errorf("%d acknowledged writes were lost", f.lost)
			}
			s.serves()
		})
	}
}

// Who left the in-sync set once it was too small for acks=all lacks nothing, and is elected by
// the controller before anybody can command otherwise (KIP-966).
func TestAnEligibleLeaderReplicaIsACleanElection(t *testing.T) {
	s, cluster := setContainers(t, map[string]string{"min.insync.replicas": "2"})
	l := s.load()
	player := s.player("unclean-election", 100*time.Millisecond)
	if err := player.Play(s.ctx); err != nil {
		t.Fatal(err)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	end := s.ended(1)[0]
	if end.Bit || end.Error != "" || len(end.Effects) > 0 || !strings.Contains(end.Evidence, "by a clean election (an eligible leader replica, KIP-966)") {
		t.Errorf("it ended so: %+v", end)
	}
	nothingIsLeft(t, s, cluster)
	l.stop()
	if f := l.judge(); f.lost+f.duplicates+f.descents+f.phantoms > 0 {
		t.Errorf("the logs are wrong: %+v", f)
	}
}

// nothingIsLeft: no rule is in force, every process runs.
func nothingIsLeft(t *testing.T, s *stage, cluster *clusters.Containers) {
	t.Helper()
	cuts, err := cluster.Cuts(s.ctx)
	if err != nil || len(cuts) > 0 {
		t.Errorf("still cut: %v, %v", cuts, err)
	}
	for _, broker := range cluster.Description().Brokers {
		if p, err := cluster.BrokerProcess(s.ctx, broker); err != nil || !p.Running || p.Paused {
			t.Errorf("the process of broker %d is %+v, %v", broker, p, err)
		}
	}
}

// Who is aimed at has the role that was named.
func TestAims(t *testing.T) {
	s, cluster := setContainers(t, nil)
	leaders, err := cluster.Leaders(s.ctx, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := cluster.Controller(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	group, err := cluster.GroupCoordinator(s.ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		settings string
		right    func(broker int32) bool
	}{
		"the leader of a partition": {"broker=leader,partition=" + s.topic + "/1", func(b int32) bool { return b == leaders[1].Broker }},
		"a follower": {"broker=follower,partition=" + s.topic + "/2",
			func(b int32) bool { return b != leaders[2].Broker && slices.Contains(leaders[2].Replicas, b) }},
		"the active controller": {"broker=controller", func(b int32) bool { return b == controller }},
		"a coordinator":         {"broker=group-coordinator,coordinates=g", func(b int32) bool { return b == group }},
		"an id":                 {"broker=3", func(b int32) bool { return b == 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			asked, err := Parse("kill:" + c.settings)
			if err != nil {
				t.Fatal(err)
			}
			fault, err := Find("kill")
			if err != nil {
				t.Fatal(err)
			}
			settings, err := fault.Complete(asked[0].Settings)
			if err != nil {
				t.Fatal(err)
			}
			player := s.player("kill", time.Second)
			env := &Environment{ID: "kill#1", Cluster: cluster, Topics: []string{s.topic}, Random: player.random("kill#1")}
			broker, why, err := chooseBroker(s.ctx, env, settings)
			if err != nil || !c.right(broker) || !strings.Contains(why, fmt.Sprintf("broker %d", broker)) {
				t.Errorf("it is broker %d: %s, %v (leaders %v)", broker, why, err, leaders)
			}
		})
	}
	t.Run("no partition has one replica in sync, and that is said", func(t *testing.T) {
		player := s.player("kill-last-in-sync", 100*time.Millisecond)
		if err := player.Play(s.ctx); err != nil {
			t.Fatal(err)
		}
		if end := s.ended(1)[0]; end.Bit || !strings.Contains(end.Error, "no partition of the run has just one replica in sync") {
			t.Errorf("it ended so: %+v", end)
		}
	})
}

// Real brokers know as many batches again, and a topic that got partitions serves them.
func TestReplaysAndAddedPartitionsOnRealBrokers(t *testing.T) {
	s, cluster := setContainers(t, nil)
	showWindow(t, s)
	player := s.byHand(t)
	evidence := s.end(t, player, s.begin(t, player, "add-partitions:to=5"))
	if leaders, err := cluster.Leaders(s.ctx, s.topic); err != nil || len(leaders) != 5 || !evidence.Bit {
		t.Errorf("%d partitions (%v): %+v", len(leaders), err, evidence)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.serves()
	record := &kgo.Record{Topic: s.topic, Partition: 4, Value: []byte("to a new one")}
	if err := s.client("new").ProduceSync(s.ctx, record).FirstErr(); err != nil {
		t.Errorf("writing to a new partition: %v", err)
	}
}

// The faults on the wire are the same on real brokers, two at once with a partition.
func TestFaultsOverlap(t *testing.T) {
	s, cluster := setContainers(t, nil)
	l := s.load(kgo.ProducerLinger(time.Millisecond))
	asked, err := Parse("lost-response:every=20,cut-replication")
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := Draw(asked, 25*time.Second, 1, Options{Overlap: true, Window: 12 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	player, err := NewPlayer(PlayerOptions{Cluster: cluster, Schedule: schedule, Topics: []string{s.topic}, Recorder: s.record,
		Now: s.now, Seed: 1, Acks: "all", HealLimit: s.limit, WholeLimit: s.limit})
	if err != nil {
		t.Fatal(err)
	}
	played := make(chan error, 1)
	go func() { played <- player.Play(s.ctx) }()
	s.until("both are on", func() bool { return len(player.Running()) == 2 })
	if err := <-played; err != nil {
		t.Fatal(err)
	}
	if err := player.AwaitWhole(s.ctx); err != nil {
		t.Fatal(err)
	}
	for _, end := range s.ended(len(schedule)) {
		if !end.Bit || end.Error != "" {
			t.Errorf("it ended so: %+v", end)
		}
	}
	nothingIsLeft(t, s, cluster)
	l.stop()
	if f := l.judge(); f != (found{}) {
		t.Errorf("the logs are wrong: %+v", f)
	}
}
