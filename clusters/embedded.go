// This file holds the embedded cluster: franz-go's kfake in this process, each
// broker behind a proxy of the wire layer.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackproof/ackproof/wire"
)

// EmbeddedOptions say how an embedded cluster is made. The zero value is a good
// default.
type EmbeddedOptions struct {
	// Brokers is how many; zero: three.
	Brokers int
	// Properties of the brokers under Kafka's names, which topics inherit; on top
	// of default.replication.factor (three, or the number of brokers) and
	// min.insync.replicas (two, or the number of brokers).
	Properties map[string]string
	// Disk keeps the logs in a temporary directory and not in memory, so that
	// RestartLosingSuffix can be had. It is removed on Close.
	Disk bool
	// Version says which kfake this is, for the description; it may be empty.
	Version string
}

// embeddedCannotBreak are the anomalies that nothing can produce here: all brokers
// of kfake share one log, so there is no replication, and a high watermark is
// always the log's end.
var embeddedCannotBreak = []string{"replica-divergence"}

// Embedded is a cluster in this process. It has no replication, no in-sync set, no
// high watermark apart from the log end, no unclean election, no controller quorum
// and no process of its own: min.insync.replicas is stored and means nothing, acks=1
// is as good as acks=all, a leader is only a pointer, and requests are served one
// after the other. What it is good for is everything between a client library and a
// broker: retries, idempotence, order, leader changes, lost connections.
type Embedded struct {
	description Description
	properties  map[string]string
	network     *wire.Network
	nodes       []*embeddedNode
	admin       *admin
	// disk is where the logs are; nil: in memory.
	disk *disk

	// mu is held for reading by whoever asks kfake something, because a closed
	// kfake answers nothing, not even that; and for writing by who closes it or
	// starts it again.
	mu     sync.RWMutex
	fake   *kfake.Cluster
	closed bool

	// membership is held while a broker leaves or returns, or all restart.
	membership sync.Mutex

	// known guards what is known of the topics.
	known  sync.Mutex
	topics map[string]topicMemory
}

// topicMemory is what kfake does not keep of a topic.
type topicMemory struct {
	partitions int32
	// properties that kfake does not know: it cannot act on them either.
	properties map[string]string
}

var (
	_ Cluster     = (*Embedded)(nil)
	_ LeaderMover = (*Embedded)(nil)
	_ MemberMover = (*Embedded)(nil)
	_ SuffixLoser = (*Embedded)(nil)
)

// StartEmbedded starts an embedded cluster. The context bounds the start only.
func StartEmbedded(ctx context.Context, options EmbeddedOptions) (_ *Embedded, err error) {
	count := options.Brokers
	if count == 0 {
		count = 3
	}
	if count < 1 || count > mostBrokers {
		return nil, fmt.Errorf("starting an embedded cluster of %d brokers: it can have 1 to %d", count, mostBrokers)
	}
	c := &Embedded{network: wire.NewNetwork(), topics: make(map[string]topicMemory)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting the embedded cluster: %w", err), c.Close())
		}
	}()
	c.properties = map[string]string{
		"default.replication.factor": strconv.Itoa(min(count, 3)),
		"min.insync.replicas":        strconv.Itoa(min(count, 2)),
	}
	maps.Copy(c.properties, options.Properties)
	c.describe(count, options.Version)
	if options.Disk {
		if c.disk, err = newDisk(); err != nil {
			return nil, err
		}
	}
	for id := range int32(count) {
		node, err := newEmbeddedNode(ctx, c.network, id)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, node)
	}
	if c.fake, err = c.startFake(ctx); err != nil {
		return nil, err
	}
	if c.admin, err = newAdmin(c.Bootstrap()); err != nil {
		return nil, err
	}
	return c, c.Whole(ctx)
}

// mostBrokers bounds an embedded cluster.
const mostBrokers = 9

func (c *Embedded) describe(brokers int, version string) {
	c.description = Description{
		Provider:    "embedded",
		Version:     "kfake",
		CannotBreak: slices.Clone(embeddedCannotBreak),
		Properties:  maps.Clone(c.properties),
	}
	if version != "" {
		c.description.Version += " " + version
	}
	for id := range int32(brokers) {
		c.description.Brokers = append(c.description.Brokers, id)
	}
}

// startFake starts kfake on the nodes' listeners, on the present disk.
func (c *Embedded) startFake(ctx context.Context) (*kfake.Cluster, error) {
	ctx = context.WithoutCancel(ctx) // a broker that returns listens again, long after the start
	next := 0
	var turn sync.Mutex
	options := []kfake.Opt{
		kfake.NumBrokers(len(c.nodes)),
		kfake.ClusterID("ackproof-embedded"),
		kfake.BrokerConfigs(c.properties),
		kfake.ListenFn(func(string, string) (net.Listener, error) {
			turn.Lock()
			defer turn.Unlock()
			if next < len(c.nodes) { // the brokers of the start, by their ids
				next++
				return c.nodes[next-1].listen(ctx)
			}
			for _, node := range c.nodes { // one that returns
				if node.returning.Load() {
					return node.listen(ctx)
				}
			}
			return nil, errors.New("no broker of this id is expected")
		}),
	}
	if c.disk != nil {
		options = append(options, kfake.DataDir(c.disk.current))
	}
	fake, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, fmt.Errorf("starting kfake: %w", err)
	}
	return fake, nil
}

// Description says what the cluster is.
func (c *Embedded) Description() Description { return c.description }

// Wire is the layer between the clients and the brokers.
func (c *Embedded) Wire() *wire.Network { return c.network }

// Bootstrap gives the addresses of the proxies in front of the brokers.
func (c *Embedded) Bootstrap() []string {
	var addresses []string
	for _, node := range c.nodes {
		addresses = append(addresses, node.proxy.Address().String())
	}
	return addresses
}

// ask calls kfake while it is sure to answer.
func (c *Embedded) ask(ctx context.Context, question func(*kfake.Cluster) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed || c.fake == nil {
		return ErrClosed
	}
	return question(c.fake)
}

// Leaders gives who leads each partition of the topics.
func (c *Embedded) Leaders(ctx context.Context, topics ...string) ([]Leader, error) {
	var leaders []Leader
	err := c.ask(ctx, func(fake *kfake.Cluster) error {
		for _, topic := range topics {
			partitions := fake.PartitionInfos(topic)
			if len(partitions) == 0 {
				return fmt.Errorf("there is no topic %s", topic)
			}
			for _, p := range partitions {
				leaders = append(leaders, Leader{Topic: topic, Partition: p.Partition, Broker: p.Leader, Epoch: p.Epoch})
			}
		}
		return nil
	})
	return leaders, err
}

// Whole gives nil where every broker is a member and answers through its proxy, and
// every partition has a leader and all its replicas.
func (c *Embedded) Whole(ctx context.Context) error {
	if err := c.ask(ctx, func(*kfake.Cluster) error { return nil }); err != nil {
		return err
	}
	return c.admin.whole(ctx, c.description.Brokers)
}

// CreateTopic creates a topic. Once the last broker (the controller) has left, kfake
// has no controller any more, and no topic can be created.
func (c *Embedded) CreateTopic(ctx context.Context, t Topic) error {
	if err := checkEmbeddedTopic(t); err != nil {
		return err
	}
	memory := topicMemory{partitions: t.Partitions, properties: map[string]string{uncleanElection: "false"}}
	t.Properties = maps.Clone(t.Properties)
	if value, given := t.Properties[uncleanElection]; given {
		memory.properties[uncleanElection] = value
		delete(t.Properties, uncleanElection)
	}
	if err := c.admin.createTopic(ctx, t); err != nil {
		return err
	}
	c.known.Lock()
	c.topics[t.Name] = memory
	c.known.Unlock()
	if err := c.spread(ctx, t); err != nil {
		return err
	}
	return awaitLeaders(ctx, c, t.Name, t.Partitions)
}

// AddPartitions makes a topic have so many partitions.
func (c *Embedded) AddPartitions(ctx context.Context, topic string, to int32) error {
	if err := c.admin.addPartitions(ctx, topic, to); err != nil {
		return err
	}
	c.known.Lock()
	memory := c.topics[topic]
	memory.partitions = to
	c.topics[topic] = memory
	c.known.Unlock()
	return awaitLeaders(ctx, c, topic, to)
}

// TopicProperties gives the properties in force of a topic.
func (c *Embedded) TopicProperties(ctx context.Context, topic string) (map[string]string, error) {
	properties, err := c.admin.topicProperties(ctx, topic)
	if err != nil {
		return nil, err
	}
	c.known.Lock()
	defer c.known.Unlock()
	maps.Copy(properties, c.topics[topic].properties)
	return properties, nil
}

// LogEnds gives the end of each partition's log.
func (c *Embedded) LogEnds(ctx context.Context, topic string) ([]int64, error) {
	return c.admin.logEnds(ctx, topic)
}

// MoveLeader makes the broker the leader of the partition.
func (c *Embedded) MoveLeader(ctx context.Context, topic string, partition, broker int32) error {
	return c.ask(ctx, func(fake *kfake.Cluster) error {
		if err := fake.MoveTopicPartition(topic, partition, broker); err != nil {
			return fmt.Errorf("moving the leadership of %s/%d to broker %d: %w", topic, partition, broker, err)
		}
		return nil
	})
}

// spread gives each partition of a new topic its leader, one broker after the other:
// kfake's leaders come from a random source that no seed reaches.
func (c *Embedded) spread(ctx context.Context, t Topic) error {
	c.membership.Lock()
	defer c.membership.Unlock()
	var wanted []partitionEnd
	for partition := range t.Partitions {
		wanted = append(wanted, partitionEnd{Leader: Leader{Topic: t.Name, Partition: partition, Broker: NoLeader}})
	}
	return c.lead(ctx, wanted)
}

// lead gives each partition the leader that is wanted; where that one is away, or
// none is wanted, one of those that are there. kfake elects leaders of all partitions
// anew, by chance, when a broker leaves or returns, where Kafka moves only those
// of a broker that leaves. The caller holds membership.
func (c *Embedded) lead(ctx context.Context, wanted []partitionEnd) error {
	var there []int32
	for _, node := range c.nodes {
		if !node.away {
			there = append(there, node.id)
		}
	}
	return c.ask(ctx, func(fake *kfake.Cluster) error {
		for _, w := range wanted {
			leader := w.Broker
			if !slices.Contains(there, leader) {
				leader = there[int(w.Partition)%len(there)]
			}
			if fake.LeaderFor(w.Topic, w.Partition) == leader {
				continue
			}
			if err := fake.MoveTopicPartition(w.Topic, w.Partition, leader); err != nil {
				return fmt.Errorf("electing broker %d leader of %s: %w", leader, w.Name(), err)
			}
		}
		return nil
	})
}

func (c *Embedded) node(broker int32) (*embeddedNode, error) {
	if broker < 0 || int(broker) >= len(c.nodes) {
		return nil, fmt.Errorf("there is no broker %d (there is: %v)", broker, c.description.Brokers)
	}
	return c.nodes[broker], nil
}

// Leave lets the broker leave: its listener and its connections are closed, its
// leaderships move. The last broker that is there cannot leave.
func (c *Embedded) Leave(ctx context.Context, broker int32) error {
	c.membership.Lock()
	defer c.membership.Unlock()
	node, err := c.node(broker)
	if err != nil {
		return err
	}
	if node.away {
		return fmt.Errorf("letting broker %d leave: %w", broker, ErrAway)
	}
	before, err := c.partitions(ctx)
	if err != nil {
		return fmt.Errorf("letting broker %d leave: %w", broker, err)
	}
	err = c.ask(ctx, func(fake *kfake.Cluster) error { return fake.RemoveNode(broker) })
	if err != nil {
		return fmt.Errorf("letting broker %d leave: %w", broker, err)
	}
	node.away = true
	node.proxy.Refuse(true)
	node.reset()
	return c.lead(ctx, before)
}

// MayLeave gives every broker but the last: that is kfake's controller, which has no
// successor. Once it has left, no topic is created and none gets partitions.
func (c *Embedded) MayLeave() []int32 {
	return c.description.Brokers[:len(c.description.Brokers)-1]
}

// Return brings the broker back under its id and its address.
func (c *Embedded) Return(ctx context.Context, broker int32) error {
	c.membership.Lock()
	defer c.membership.Unlock()
	node, err := c.node(broker)
	if err != nil || !node.away {
		return err
	}
	before, err := c.partitions(ctx)
	if err != nil {
		return fmt.Errorf("letting broker %d return: %w", broker, err)
	}
	node.returning.Store(true)
	defer node.returning.Store(false)
	err = c.ask(ctx, func(fake *kfake.Cluster) error {
		_, _, err := fake.AddNode(broker, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("letting broker %d return: %w", broker, err)
	}
	node.proxy.Refuse(false)
	node.away = false
	return c.lead(ctx, before)
}

// Close stops the brokers and the proxies, and removes the logs.
func (c *Embedded) Close() error {
	c.membership.Lock()
	defer c.membership.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	if c.fake != nil {
		c.fake.Close()
	}
	c.mu.Unlock()
	if c.admin != nil {
		c.admin.close()
	}
	errs := []error{c.network.Close()}
	for _, node := range c.nodes {
		node.reset()
	}
	if c.disk != nil {
		errs = append(errs, c.disk.remove())
	}
	return errors.Join(errs...)
}
