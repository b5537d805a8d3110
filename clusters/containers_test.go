// This file tests the cluster in containers: what a broker is told to do happens, and
// what is cut is cut, in the direction that is said, and nothing else. It takes a
// container engine; ci/test brings one up. One cluster serves all tests of the file:
// each leaves it whole.

package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters/agent"
)

// testVersion is the version of Kafka that the tests play.
const testVersion = "4.1.0"

// containersLimit bounds every test on containers; the first one may have to build an
// image.
const containersLimit = 4 * time.Minute

var shared struct {
	once    sync.Once
	cluster *Containers
	err     error
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

// containers gives the cluster, whole, and takes away what a test that failed left
// cut.
func containers(t *testing.T) (*Containers, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	t.Cleanup(cancel)
	shared.once.Do(func() {
		shared.cluster, shared.err = StartContainers(ctx, ContainersOptions{Version: testVersion})
	})
	if shared.err != nil {
		t.Fatalf("%v\n(ci/test brings up a container engine)", shared.err)
	}
	t.Cleanup(func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		cuts, err := shared.cluster.Cuts(cleanup)
		ok(t, err)
		for _, names := range cuts {
			for _, name := range names {
				ok(t, shared.cluster.Mend(cleanup, name))
			}
		}
	})
	awaitWhole(ctx, t, shared.cluster)
	return shared.cluster, ctx
}

func awaitWhole(ctx context.Context, t *testing.T, c *Containers) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := poll(limited, 100*time.Millisecond, func() error { return c.Whole(limited) }); err != nil {
		t.Fatal(err)
	}
}

// ok ends the test where something failed.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheClusterSaysWhatItIs(t *testing.T) {
	c, _ := containers(t)
	d := c.Description()
	if d.Provider != "containers" || d.Version != "kafka "+testVersion || len(d.Brokers) != 3 {
		t.Errorf("it is %+v", d)
	}
	if d.Features["transaction.version"] == "" || d.Features["metadata.version"] == "" {
		t.Errorf("its finalised features are %v", d.Features)
	}
	for _, address := range c.Bootstrap() {
		if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
			t.Errorf("a broker is found at %s", address)
		}
	}
}

// What a client is told leads through the wire layer, whoever the client is.
func TestTheAdvertisedAddressesAreTheProxies(t *testing.T) {
	c, ctx := containers(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()[0]))
	ok(t, err)
	defer client.Close()
	ok(t, client.Ping(ctx))
	views := c.admin.views(ctx, nil)
	for _, v := range views {
		ok(t, v.err)
		for _, b := range v.metadata.Brokers {
			if want := c.Bootstrap()[b.NodeID-1]; want != net.JoinHostPort(b.Host, fmt.Sprint(b.Port)) {
				t.Errorf("broker %d says that broker %d is at %s:%d, not at %s", v.index+1, b.NodeID, b.Host, b.Port, want)
			}
		}
	}
}

// all drops everything between broker 1 and the peers in a direction.
func all(direction Direction, peers ...int32) (drops []Drop) {
	for _, peer := range peers {
		drops = append(drops, Drop{Broker: 1, Direction: direction, Peer: peer, Percent: 100})
	}
	return drops
}

func replicationOnly(drops []Drop) []Drop {
	for i := range drops {
		drops[i].ReplicationOnly = true
	}
	return drops
}

// packetsTest is a port where nobody listens; packets to it are counted where they
// arrive.
const packetsTest = 7777

// arrive says whether a packet that one broker sends reaches the other.
func arrive(ctx context.Context, t *testing.T, c *Containers, from, to int32) bool {
	t.Helper()
	a, b := c.nodes[from-1], c.nodes[to-1]
	// Dropped there, and counted: how it got there is all that is asked.
	text := fmt.Sprintf(`{"name":"count","late":true,"rules":[{"name":"seen","direction":"in","peer":%q,"local_port":%d,"percent":100}]}`,
		a.address, packetsTest)
	ok(t, b.execute(ctx, nil, agent.CommandCut, text))
	var probe agent.Probe
	ok(t, a.execute(ctx, &probe, agent.CommandProbe, fmt.Sprintf("%s:%d", b.address, packetsTest), "300ms"))
	dropped, err := c.Dropped(ctx, "count")
	ok(t, err)
	ok(t, b.execute(ctx, nil, agent.CommandMend, "count"))
	return dropped[to] > 0
}

// Between every two brokers, in both directions: what arrives under each cut. Broker 1
// is the one that is cut.
func TestACutIsWhatItSaysAndNothingElse(t *testing.T) {
	both := append(all(Inbound, 2, 3), all(Outbound, 2, 3)...)
	for name, cut := range map[string]struct {
		drops []Drop
		// lost are the ways on which packets are lost, as "1>2".
		lost string
		// unreachable are the ways on which no new connection to the listener for
		// brokers is made.
		unreachable string
		clients     bool // broker 1 is cut from its clients
	}{
		"everything from and to the others": {drops: both, lost: "1>2 1>3 2>1 3>1", unreachable: "1>2 1>3 2>1 3>1"},
		"what comes in":                     {drops: all(Inbound, 2, 3), lost: "2>1 3>1", unreachable: "1>2 1>3 2>1 3>1"},
		"what goes out":                     {drops: all(Outbound, 2, 3), lost: "1>2 1>3", unreachable: "1>2 1>3 2>1 3>1"},
		"one peer of two":                   {drops: append(all(Inbound, 2), all(Outbound, 2)...), lost: "1>2 2>1", unreachable: "1>2 2>1"},
		"the followers from its listener":   {drops: replicationOnly(append(all(Inbound, 2, 3), all(Outbound, 2, 3)...)), unreachable: "2>1 3>1"},
		"the clients":                       {drops: append(all(Inbound, Clients), all(Outbound, Clients)...), clients: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, ctx := containers(t)
			ok(t, c.Cut(ctx, "test", cut.drops))
			for _, way := range []struct{ from, to int32 }{{1, 2}, {2, 1}, {1, 3}, {3, 1}, {2, 3}, {3, 2}} {
				text := fmt.Sprintf("%d>%d", way.from, way.to)
				if lost := !arrive(ctx, t, c, way.from, way.to); lost != strings.Contains(cut.lost, text) {
					t.Errorf("%s: a packet is lost: %v", text, lost)
				}
			}
			for way, reached := range reached(ctx, c, time.Second) {
				if reached == strings.Contains(cut.unreachable, way) {
					t.Errorf("%s: a connection is made: %v", way, reached)
				}
			}
			for _, n := range c.nodes {
				if reached := dials(ctx, n.clients); reached == (cut.clients && n.id == 1) {
					t.Errorf("a client's connection to broker %d is made: %v", n.id, reached)
				}
			}
			ok(t, c.Mend(ctx, "test"))
			nothingIsCut(ctx, t, c)
		})
	}
}

// reached tries every way between two brokers at once, as "1>2".
func reached(ctx context.Context, c *Containers, limit time.Duration) map[string]bool {
	result := make(map[string]bool)
	var mu sync.Mutex
	var trying sync.WaitGroup
	for _, from := range c.nodes {
		for _, to := range c.nodes {
			if from == to {
				continue
			}
			trying.Go(func() {
				made, err := c.Reaches(ctx, from.id, to.id, limit)
				mu.Lock()
				defer mu.Unlock()
				result[fmt.Sprintf("%d>%d", from.id, to.id)] = made && err == nil
			})
		}
	}
	trying.Wait()
	return result
}

func dials(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: 700 * time.Millisecond}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = connection.Close() // that it was made is all
	return true
}

// nothingIsCut: no rule is left anywhere, and everybody reaches everybody.
func nothingIsCut(ctx context.Context, t *testing.T, c *Containers) {
	t.Helper()
	cuts, err := c.Cuts(ctx)
	ok(t, err)
	if len(cuts) > 0 {
		t.Errorf("still cut: %v", cuts)
	}
	for way, made := range reached(ctx, c, 5*time.Second) {
		if !made {
			t.Errorf("%s: no connection is made", way)
		}
	}
	for _, n := range c.nodes {
		if !dials(ctx, n.clients) {
			t.Errorf("a client does not reach broker %d", n.id)
		}
	}
}

func TestLossLosesAShare(t *testing.T) {
	c, ctx := containers(t)
	ok(t, c.Cut(ctx, "loss", []Drop{{Broker: 2, Direction: Inbound, Peer: 1, Percent: 40}}))
	arrived, lost := false, false
	for !arrived || !lost { // each of them likely on every turn; the test's limit ends it
		if ctx.Err() != nil {
			t.Fatalf("a packet came through: %v; one was lost: %v", arrived, lost)
		}
		if arrive(ctx, t, c, 1, 2) {
			arrived = true
		} else {
			lost = true
		}
	}
	ok(t, c.Mend(ctx, "loss"))
	nothingIsCut(ctx, t, c)
}

func TestCutsDoNotKnowOfEachOther(t *testing.T) {
	c, ctx := containers(t)
	ok(t, c.Cut(ctx, "one", all(Inbound, 2)))
	ok(t, c.Cut(ctx, "two", all(Inbound, 2, 3)))
	ok(t, c.Mend(ctx, "one"))
	if arrive(ctx, t, c, 2, 1) {
		t.Error("mending one cut mended the other")
	}
	ok(t, c.Mend(ctx, "two"))
	ok(t, c.Mend(ctx, "two")) // gone already
	nothingIsCut(ctx, t, c)
}

// The rules belong to the namespace, which outlives the broker.
func TestACutSurvivesARestartOfItsBroker(t *testing.T) {
	c, ctx := containers(t)
	peer := besideController(ctx, t, c)
	ok(t, c.Cut(ctx, "test", append(all(Inbound, peer), all(Outbound, peer)...)))
	before, err := c.BrokerProcess(ctx, 1)
	ok(t, err)
	ok(t, c.KillBroker(ctx, 1))
	if arrive(ctx, t, c, peer, 1) {
		t.Error("the cut is gone with the process")
	}
	ok(t, c.StartBroker(ctx, 1))
	now, err := c.BrokerProcess(ctx, 1)
	ok(t, err)
	if !now.Running || now.Started == before.Started {
		t.Errorf("the process is %+v after %+v", now, before)
	}
	if arrive(ctx, t, c, peer, 1) || arrive(ctx, t, c, 1, peer) {
		t.Error("the cut is gone after the restart")
	}
	ok(t, c.Mend(ctx, "test"))
	awaitWhole(ctx, t, c)
	nothingIsCut(ctx, t, c)
}

// besideController gives the broker that is neither 1 nor the active controller, which is
// another one than 1 then: a broker that is cut off from the active controller does not come
// up, since it cannot register.
func besideController(ctx context.Context, t *testing.T, c *Containers) int32 {
	t.Helper()
	controller, err := c.Controller(ctx)
	ok(t, err)
	if controller == 1 {
		ok(t, c.KillBroker(ctx, 1))
		ok(t, c.StartBroker(ctx, 1))
		awaitWhole(ctx, t, c)
		controller, err = c.Controller(ctx)
		ok(t, err)
	}
	if controller == 1 {
		t.Fatal("broker 1 is the active controller again, a moment after it was killed")
	}
	const sumOfOthers = 2 + 3
	return sumOfOthers - controller
}

func TestProcesses(t *testing.T) {
	c, ctx := containers(t)
	t.Run("a frozen broker holds its connections and answers nothing until it goes on", func(t *testing.T) {
		ok(t, c.PauseBroker(ctx, 2))
		ok(t, c.PauseBroker(ctx, 2))
		if p, err := c.BrokerProcess(ctx, 2); err != nil || !p.Paused || !p.Running {
			t.Errorf("it is %+v, %v", p, err)
		}
		if !dials(ctx, c.nodes[1].clients) {
			t.Error("its system no longer takes connections")
		}
		if err := c.Whole(ctx); err == nil || !strings.Contains(err.Error(), "broker 2") {
			t.Errorf("the cluster says of itself: %v", err)
		}
		ok(t, c.StartBroker(ctx, 2))
		awaitWhole(ctx, t, c)
	})
	t.Run("a frozen broker can be killed", func(t *testing.T) {
		ok(t, c.PauseBroker(ctx, 3))
		ok(t, c.KillBroker(ctx, 3))
		ok(t, c.StartBroker(ctx, 3))
		awaitWhole(ctx, t, c)
	})
	t.Run("a shutdown that nobody waited for is over before the broker starts again", func(t *testing.T) {
		before, err := c.BrokerProcess(ctx, 2)
		ok(t, err)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := c.StopBroker(short, 2); err == nil {
			t.Fatal("a broker shut down in 50 ms")
		}
		ok(t, c.StartBroker(ctx, 2))
		if now, err := c.BrokerProcess(ctx, 2); err != nil || !now.Running || now.Started == before.Started {
			t.Errorf("it is %+v, %v; before: %+v", now, err, before)
		}
		awaitWhole(ctx, t, c)
	})
	t.Run("what was asked for is no exit, and what was not is one", func(t *testing.T) {
		ok(t, c.StopBroker(ctx, 1))
		if exits, err := c.Exits(ctx); err != nil || len(exits) > 0 {
			t.Errorf("after a stop: %v, %v", exits, err)
		}
		if err := c.Leave(ctx, 1); !errors.Is(err, ErrAway) {
			t.Errorf("leaving twice: %v", err)
		}
		ok(t, c.Return(ctx, 1))
		awaitWhole(ctx, t, c)
		ok(t, c.engine.Kill(ctx, c.nodes[0].broker)) // behind the cluster's back
		ok(t, poll(ctx, 50*time.Millisecond, func() error {
			exits, err := c.Exits(ctx)
			if err == nil && (len(exits) != 1 || exits[0].Broker != 1 || exits[0].ExitCode != 137 || exits[0].LastLines == "") {
				err = fmt.Errorf("the exits are %v", exits)
			}
			return err
		}))
		if err := c.KillBroker(ctx, 1); err == nil || !strings.Contains(err.Error(), "ended by itself") {
			t.Errorf("killing what has ended: %v", err)
		}
		ok(t, c.StartBroker(ctx, 1))
		awaitWhole(ctx, t, c)
	})
}

func TestPartitionsOnRealBrokers(t *testing.T) {
	c, ctx := containers(t)
	topic := Topic{Name: "moves", Partitions: 2, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "1"}}
	ok(t, c.CreateTopic(ctx, topic))
	properties, err := c.TopicProperties(ctx, topic.Name)
	ok(t, err)
	if properties["min.insync.replicas"] != "1" || properties["cleanup.policy"] != "delete" {
		t.Errorf("its properties are %v", properties)
	}
	leader, err := LeaderOf(ctx, c, topic.Name, 1)
	ok(t, err)
	to := leader.Broker%3 + 1
	ok(t, c.MoveLeader(ctx, topic.Name, 1, to))
	now, err := LeaderOf(ctx, c, topic.Name, 1)
	ok(t, err)
	if now.Broker != to || now.Epoch <= leader.Epoch || len(now.InSync) != 3 {
		t.Errorf("after the move it is %+v, and was %+v", now, leader)
	}
	controller, err := c.Controller(ctx)
	ok(t, err)
	group, err := c.GroupCoordinator(ctx, "some-group")
	ok(t, err)
	transaction, err := c.TransactionCoordinator(ctx, "some-id")
	ok(t, err)
	for role, broker := range map[string]int32{"controller": controller, "group coordinator": group, "transaction coordinator": transaction} {
		if broker < 1 || broker > 3 {
			t.Errorf("the %s is broker %d", role, broker)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.DefaultProduceTopic(topic.Name))
	ok(t, err)
	defer client.Close()
	ok(t, client.ProduceSync(ctx, &kgo.Record{Value: []byte("found in a segment file")}).FirstErr())
	ends, err := c.LogEnds(ctx, topic.Name)
	ok(t, err)
	if ends[0]+ends[1] != 1 {
		t.Errorf("the logs end at %v", ends)
	}
	written := 0
	if ends[1] == 1 {
		written = 1
	}
	for _, broker := range c.Description().Brokers {
		folder := t.TempDir()
		ok(t, c.CopySegments(ctx, broker, topic.Name, int32(written), folder))
		content, err := os.ReadFile(filepath.Join(folder, "00000000000000000000.log"))
		ok(t, err)
		if len(content) == 0 {
			t.Errorf("the segment file of broker %d is empty", broker)
		}
	}
}

func TestWhatTheBrokersWereIsWrittenDown(t *testing.T) {
	c, ctx := containers(t)
	folder := t.TempDir()
	ok(t, c.Document(ctx, folder))
	for file, holds := range map[string]string{
		"cluster.json": `"version": "kafka 4.1.0"`, "1/server.log": "Kafka Server started", "2/server.properties": "node.id=2",
		"3/properties-in-force.json": `"min.insync.replicas": "2"`,
	} {
		content, err := os.ReadFile(filepath.Join(folder, file))
		ok(t, err)
		if !bytes.Contains(content, []byte(holds)) {
			t.Errorf("%s lacks %q (%d bytes)", file, holds, len(content))
		}
	}
}
