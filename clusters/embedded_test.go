// This file tests the embedded cluster with the real franz-go client through the
// proxies.

package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters"
)

// limit bounds every test.
const limit = 30 * time.Second

// topic is the topic of most tests.
const topic = "orders"

func start(t *testing.T, options clusters.EmbeddedOptions) (*clusters.Embedded, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	c, err := clusters.StartEmbedded(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the cluster: %v", err)
		}
	})
	return c, ctx
}

func create(ctx context.Context, t *testing.T, c clusters.Cluster, partitions int32) {
	t.Helper()
	if err := c.CreateTopic(ctx, clusters.Topic{Name: topic, Partitions: partitions, ReplicationFactor: 3,
		Properties: map[string]string{"min.insync.replicas": "2"}}); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, c clusters.Cluster, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap()...),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce sends records "first" to "last-1" to partition 0 and fails unless every
// one is acknowledged.
func produce(ctx context.Context, t *testing.T, client *kgo.Client, first, last int) {
	t.Helper()
	for i := first; i < last; i++ {
		record := &kgo.Record{Topic: topic, Partition: 0, Value: []byte(fmt.Sprint(i))}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
}

// read reads partition 0 from its start to its end.
func read(ctx context.Context, t *testing.T, c clusters.Cluster) []string {
	t.Helper()
	ends, err := c.LogEnds(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	reader := client(t, c, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	var values []string
	for int64(len(values)) < ends[0] {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(values), ends[0], err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// eventually polls until the condition gives nil.
func eventually(ctx context.Context, t *testing.T, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-ticker.C:
		}
	}
}

func TestClientsSeeOnlyTheProxies(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 3)
	producer := client(t, c)
	produce(ctx, t, producer, 0, 10)
	if got := read(ctx, t, c); len(got) != 10 || got[9] != "9" {
		t.Errorf("the log holds %v", got)
	}
	brokers, err := kadm.NewClient(producer).ListBrokers(ctx)
	if err != nil || len(brokers) != 3 {
		t.Fatalf("the client sees the brokers %v (%v)", brokers, err)
	}
	for _, b := range brokers {
		if address := fmt.Sprintf("%s:%d", b.Host, b.Port); !slices.Contains(c.Bootstrap(), address) {
			t.Errorf("broker %d is advertised at %s, which is none of the proxies %v", b.NodeID, address, c.Bootstrap())
		}
	}
}

func TestTheDescriptionIsHonest(t *testing.T) {
	c, _ := start(t, clusters.EmbeddedOptions{Version: "v1"})
	d := c.Description()
	if d.Provider != "embedded" || d.Version != "kfake v1" || !slices.Equal(d.Brokers, []int32{0, 1, 2}) {
		t.Errorf("the description is %+v", d)
	}
	if !slices.Contains(d.CannotBreak, "replica-divergence") {
		t.Errorf("there is no replication, and yet only %v cannot break", d.CannotBreak)
	}
}

func TestTopicPropertiesAreThoseInForce(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	for _, topic := range []clusters.Topic{
		{Name: "own", Partitions: 1, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "1",
			"retention.ms": "1234567", "unclean.leader.election.enable": "true"}},
		{Name: "inherited", Partitions: 1, ReplicationFactor: 3},
	} {
		if err := c.CreateTopic(ctx, topic); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ topic, property, value string }{
		{"own", "min.insync.replicas", "1"}, {"own", "retention.ms", "1234567"}, {"own", "unclean.leader.election.enable", "true"},
		{"own", "cleanup.policy", "delete"},
		{"inherited", "min.insync.replicas", "2"}, {"inherited", "unclean.leader.election.enable", "false"},
		{"inherited", "retention.ms", "604800000"},
	} {
		properties, err := c.TopicProperties(ctx, want.topic)
		if err != nil {
			t.Fatal(err)
		}
		if got := properties[want.property]; got != want.value {
			t.Errorf("%s of topic %s is %q, want %q", want.property, want.topic, got, want.value)
		}
	}
	if _, err := c.TopicProperties(ctx, "nowhere"); err == nil {
		t.Error("a topic that does not exist has properties")
	}
}

func TestPartitionsAreAddedAndServe(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 2)
	if err := c.AddPartitions(ctx, topic, 4); err != nil {
		t.Fatal(err)
	}
	if ends, err := c.LogEnds(ctx, topic); err != nil || len(ends) != 4 {
		t.Errorf("the logs of %d partitions have an end (%v)", len(ends), err)
	}
	record := &kgo.Record{Topic: topic, Partition: 3, Value: []byte("to a new one")}
	if err := client(t, c).ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Errorf("writing to a new partition: %v", err)
	}
	if err := c.Whole(ctx); err != nil {
		t.Error(err)
	}
	if err := c.AddPartitions(ctx, topic, 4); err != nil {
		t.Errorf("asking again, as a client does that was not answered: %v", err)
	}
	for name, to := range map[string]int32{topic: 3, "payments": 3} {
		if err := c.AddPartitions(ctx, name, to); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("making %s have %d partitions gives %v", name, to, err)
		}
	}
}

func TestTopicsThatAreRefused(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 1)
	for _, bad := range []struct {
		name  string
		topic clusters.Topic
		says  string
	}{
		{"one that exists", clusters.Topic{Name: "orders", Partitions: 1, ReplicationFactor: 3}, "orders"},
		{"a replication factor above the number of brokers", clusters.Topic{Name: "wide", Partitions: 1, ReplicationFactor: 4}, "wide"},
		{"a property that does not exist", clusters.Topic{Name: "odd", Partitions: 1, ReplicationFactor: 3,
			Properties: map[string]string{"min.insync.replicsa": "2"}}, "min.insync.replicsa"},
		{"a value that is none of the property's", clusters.Topic{Name: "odd", Partitions: 1, ReplicationFactor: 3,
			Properties: map[string]string{"min.insync.replicas": "two"}}, "whole number from 1"},
		{"more in-sync replicas than replicas, which Kafka answers with refusals and kfake does not",
			clusters.Topic{Name: "odd", Partitions: 1, ReplicationFactor: 2, Properties: map[string]string{"min.insync.replicas": "3"}},
			"NOT_ENOUGH_REPLICAS"},
		{"an unclean election that is neither true nor false", clusters.Topic{Name: "odd", Partitions: 1, ReplicationFactor: 3,
			Properties: map[string]string{"unclean.leader.election.enable": "maybe"}}, "one of true, false"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			if err := c.CreateTopic(ctx, bad.topic); err == nil || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("CreateTopic gives %v, want an error that says %q", err, bad.says)
			}
		})
	}
}

func TestAMovedLeaderIsFollowed(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 1)
	producer := client(t, c)
	produce(ctx, t, producer, 0, 5)
	before, err := clusters.LeaderOf(ctx, c, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	to := (before.Broker + 1) % 3
	if err := c.MoveLeader(ctx, "orders", 0, to); err != nil {
		t.Fatal(err)
	}
	after, err := clusters.LeaderOf(ctx, c, "orders", 0)
	if err != nil || after.Broker != to || after.Epoch <= before.Epoch {
		t.Errorf("the leader is %+v after %+v (%v)", after, before, err)
	}
	produce(ctx, t, producer, 5, 10)
	if got := read(ctx, t, c); len(got) != 10 {
		t.Errorf("the log holds %v", got)
	}
}

func TestABrokerLeavesAndReturns(t *testing.T) {
	for broker := range int32(3) {
		t.Run(fmt.Sprintf("broker %d", broker), func(t *testing.T) {
			c, ctx := start(t, clusters.EmbeddedOptions{})
			create(ctx, t, c, 3)
			producer := client(t, c)
			produce(ctx, t, producer, 0, 5)
			if err := c.Leave(ctx, broker); err != nil {
				t.Fatal(err)
			}
			if err := c.Leave(ctx, broker); !errors.Is(err, clusters.ErrAway) {
				t.Errorf("leaving twice gives %v", err)
			}
			if err := c.Whole(ctx); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("broker %d is away", broker)) {
				t.Errorf("with broker %d away, Whole gives %v", broker, err)
			}
			leaders, err := c.Leaders(ctx, "orders")
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range leaders {
				if l.Broker == broker {
					t.Errorf("%s is led by broker %d, which is away", l.Name(), broker)
				}
				if before := int32(i); before != broker && l.Broker != before {
					t.Errorf("%s moved from broker %d to broker %d, and broker %d left", l.Name(), before, l.Broker, broker)
				}
			}
			produce(ctx, t, producer, 5, 10)
			if err := c.Return(ctx, broker); err != nil {
				t.Fatal(err)
			}
			if err := c.Return(ctx, broker); err != nil {
				t.Errorf("returning twice gives %v", err)
			}
			eventually(ctx, t, func() error { return c.Whole(ctx) })
			if err := c.MoveLeader(ctx, "orders", 0, broker); err != nil {
				t.Fatal(err)
			}
			produce(ctx, t, producer, 10, 15)
			if got := read(ctx, t, c); len(got) != 15 {
				t.Errorf("the log holds %v", got)
			}
		})
	}
}

func TestTheLastBrokerCannotLeave(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{Brokers: 2})
	if err := c.Leave(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Leave(ctx, 1); err == nil {
		t.Error("the last broker left")
	}
	if err := c.Leave(ctx, 7); err == nil || !strings.Contains(err.Error(), "no broker 7") {
		t.Errorf("a broker that does not exist: %v", err)
	}
}

func TestRestartLosingSuffix(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{Disk: true})
	create(ctx, t, c, 2)
	producer := client(t, c)
	for round := range 2 { // a second time on what the first one left
		base := round * 100
		produce(ctx, t, producer, base, base+5)
		before, err := clusters.LeaderOf(ctx, c, "orders", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.MarkLogs(ctx); err != nil {
			t.Fatal(err)
		}
		produce(ctx, t, producer, base+5, base+8)
		addresses := c.Bootstrap()
		lost, err := c.RestartLosingSuffix(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(lost) != 1 || lost[0].Topic != "orders" || lost[0].Partition != 0 || lost[0].To-lost[0].From != 3 {
			t.Errorf("round %d: lost is %+v, want the last three offsets of orders/0", round, lost)
		}
		if !slices.Equal(addresses, c.Bootstrap()) {
			t.Errorf("the addresses changed from %v to %v", addresses, c.Bootstrap())
		}
		after, err := clusters.LeaderOf(ctx, c, "orders", 0)
		if err != nil || after.Epoch <= before.Epoch || after.Broker != before.Broker {
			t.Errorf("the leader is %+v after %+v (%v)", after, before, err)
		}
		eventually(ctx, t, func() error { return c.Whole(ctx) })
		produce(ctx, t, producer, base+8, base+10)
	}
	want := "0 1 2 3 4 8 9 100 101 102 103 104 108 109"
	if got := strings.Join(read(ctx, t, c), " "); got != want {
		t.Errorf("the log holds %s, want %s", got, want)
	}
}

func TestLosingASuffixNeedsADisk(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	if err := c.CanLoseSuffix(); err == nil {
		t.Error("logs in memory can be lost in part")
	}
	if err := c.MarkLogs(ctx); err == nil {
		t.Error("logs in memory were marked")
	}
}

func TestCloseUndoesEverything(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := clusters.StartEmbedded(ctx, clusters.EmbeddedOptions{Disk: true})
	if err != nil {
		t.Fatal(err)
	}
	create(ctx, t, c, 1)
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) != 1 {
		t.Fatalf("while it runs there is %v (%v)", left, err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("after Close there is %v (%v)", left, err)
	}
	for name, call := range map[string]func() error{
		"Whole":  func() error { return c.Whole(ctx) },
		"Leave":  func() error { return c.Leave(ctx, 0) },
		"Return": func() error { return c.MoveLeader(ctx, "orders", 0, 1) },
		"Leaders": func() error {
			_, err := c.Leaders(ctx, "orders")
			return err
		},
	} {
		if err := call(); !errors.Is(err, clusters.ErrClosed) {
			t.Errorf("%s after Close gives %v", name, err)
		}
	}
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clusters.StartEmbedded(ctx, clusters.EmbeddedOptions{Disk: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("starting with an ended context gives %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("there is %v left (%v)", left, err)
	}
}

func TestEveryPropertyThatIsTakenIsInForce(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	want := map[string]string{
		"cleanup.policy": "compact", "compression.type": "zstd", "delete.retention.ms": "1000", "max.message.bytes": "2000",
		"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1", "retention.bytes": "3000", "retention.ms": "4000",
		"segment.bytes": "5000", "segment.ms": "6000", "unclean.leader.election.enable": "true",
	}
	if err := c.CreateTopic(ctx, clusters.Topic{Name: topic, Partitions: 1, ReplicationFactor: 3, Properties: want}); err != nil {
		t.Fatal(err)
	}
	got, err := c.TopicProperties(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func TestLogEndsAreThoseOfEachPartition(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 3)
	produce(ctx, t, client(t, c), 0, 7)
	ends, err := c.LogEnds(ctx, topic)
	if err != nil || !slices.Equal(ends, []int64{7, 0, 0}) {
		t.Errorf("the log ends are %v (%v)", ends, err)
	}
	if _, err := c.LogEnds(ctx, "nowhere"); err == nil {
		t.Error("a topic that does not exist has log ends")
	}
}

func TestEverythingMayBeCalledAtOnce(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{Disk: true})
	create(ctx, t, c, 3)
	var calling sync.WaitGroup
	for worker := range int32(3) {
		calling.Go(func() {
			for range 10 {
				// Each may be refused because of what the others do.
				_ = c.Leave(ctx, worker)
				_ = c.MoveLeader(ctx, topic, worker, (worker+1)%3)
				_ = c.MarkLogs(ctx)
				if _, err := c.Leaders(ctx, topic); err != nil {
					t.Error(err)
				}
				if err := c.Return(ctx, worker); err != nil {
					t.Errorf("broker %d did not return: %v", worker, err)
				}
				_, _ = c.RestartLosingSuffix(ctx)
			}
		})
	}
	calling.Wait()
	eventually(ctx, t, func() error { return c.Whole(ctx) })
	produce(ctx, t, client(t, c), 0, 3)
}

func TestClosingWhileEverythingIsCalledEnds(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 3)
	var calling sync.WaitGroup
	for worker := range int32(3) {
		calling.Go(func() {
			for {
				if _, err := c.Leaders(ctx, topic); errors.Is(err, clusters.ErrClosed) {
					return
				}
				_ = c.Leave(ctx, worker)  // refused for the last one
				_ = c.Return(ctx, worker) // refused once it is closed
			}
		})
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	calling.Wait()
}

// alone says to a process of this test's own that it is one.
const alone = "ACKPROOF_TEST_ALONE"

// In a process of its own: the cluster in containers that other tests share has
// goroutines of the same packages.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	if os.Getenv(alone) == "" {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), alone+"=yes")
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 3)
	producer := client(t, c)
	produce(ctx, t, producer, 0, 3)
	producer.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() error {
		all := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
			for _, of := range []string{"pkg/kfake.", "ackproof/wire.", "pkg/kgo."} {
				if strings.Contains(stack, of) {
					return fmt.Errorf("a goroutine of %s is left:\n%s", of, stack)
				}
			}
		}
		return nil
	})
}

func TestLeadersAreSpreadInOrder(t *testing.T) {
	c, ctx := start(t, clusters.EmbeddedOptions{})
	create(ctx, t, c, 6)
	leaders, err := c.Leaders(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leaders {
		if l.Partition != int32(i) || l.Broker != int32(i)%3 {
			t.Errorf("partition %d is %+v, want it led by broker %d", i, l, i%3)
		}
	}
}
