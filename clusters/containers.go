// This file holds the cluster of real Kafka brokers in containers: how it is started
// and what it is. What is done to its brokers, its network and its partitions stands
// in the files beside it.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/wire"
)

// ErrCannotStart says that what was asked for cannot be started here, whatever is
// tried again: no engine, no such image, a port that is taken, not enough memory.
var ErrCannotStart = errors.New("the cluster cannot be started here")

// ErrNotUp says that the brokers were started and did not come up.
var ErrNotUp = errors.New("the brokers did not come up")

// ContainersOptions say how a cluster in containers is made. The zero value but for
// Version or Image is a good default.
type ContainersOptions struct {
	// Version of Kafka, as 4.1.0.
	Version string
	// Image is used instead of one that is chosen by the version. It keeps Kafka's
	// jars in images.Libraries and has a Java.
	Image string
	// Brokers is how many, each a controller too; zero: three.
	Brokers int
	// Properties of the brokers under Kafka's names, over those that every cluster of
	// ours has.
	Properties map[string]string
	// Listen is where the first broker's address for clients is taken, as
	// 127.0.0.1:19091; the others take the ports after it. Port 0: free ones. Empty:
	// 127.0.0.1:0.
	Listen string
	// Memory that each broker may take, in bytes; zero: DefaultMemory. Half of it is
	// the heap.
	Memory int64
	// Disk is the size of each broker's data volume in bytes, kept in memory then;
	// zero: as large as the engine's disk.
	Disk int64
	// UpLimit is how long the brokers may take to come up; zero: DefaultUpLimit.
	UpLimit time.Duration
	// Progress is told what takes long. Nil: nobody is.
	Progress func(what string)
}

// The defaults of ContainersOptions.
const (
	DefaultMemory  = 768 << 20
	DefaultUpLimit = 90 * time.Second
)

// leastMemory of a broker, and what the engine's machine needs beside the brokers.
const (
	leastMemory = 32 << 20
	spareMemory = 512 << 20
)

// Containers is a cluster of real brokers in containers. Each broker's network
// namespace, its address and the rules in it belong to a small container that
// outlives the broker's; so does its data volume. Clients reach a broker through its
// proxy in this process.
type Containers struct {
	options     ContainersOptions
	description Description
	engine      *engine.Engine
	owner       *engine.Owner
	network     *wire.Network
	image       string
	nodes       []*containerNode
	admin       *admin

	mu     sync.Mutex
	closed bool
}

var (
	_ Cluster        = (*Containers)(nil)
	_ LeaderMover    = (*Containers)(nil)
	_ MemberMover    = (*Containers)(nil)
	_ ProcessMaster  = (*Containers)(nil)
	_ NetworkCutter  = (*Containers)(nil)
	_ RoleTeller     = (*Containers)(nil)
	_ UncleanElector = (*Containers)(nil)
	_ SegmentReader  = (*Containers)(nil)
	_ Documenter     = (*Containers)(nil)
	_ Timer          = (*Containers)(nil)
)

// StartContainers starts a cluster in containers and returns when it is whole. The
// context bounds the start only. An error is ErrCannotStart, ErrNotUp with the
// brokers' last lines, or of our own; nothing of the cluster is left then.
func StartContainers(ctx context.Context, options ContainersOptions) (_ *Containers, err error) {
	c := &Containers{options: options, network: wire.NewNetwork()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting the cluster in containers: %w", err), c.Close())
		}
	}()
	c.complete()
	if c.engine, err = engine.Open(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotStart, err)
	}
	if err := c.checkMemory(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotStart, err)
	}
	if c.owner, err = engine.NewOwner(); err != nil { // first: who removes images asks who lives
		return nil, err
	}
	wanted := images.Wanted{Version: c.options.Version, Image: c.options.Image, Progress: c.options.Progress}
	if c.image, err = images.Find(ctx, c.engine, wanted); errors.Is(err, images.ErrNoImage) {
		return nil, fmt.Errorf("%w: %w", ErrCannotStart, err)
	} else if err != nil {
		return nil, err
	}
	if err := c.makePlaces(ctx); err != nil {
		return nil, err
	}
	if err := c.startBrokers(ctx); err != nil {
		return nil, err
	}
	return c, c.describe(ctx)
}

// complete spells out the defaults.
func (c *Containers) complete() {
	o := &c.options
	if o.Brokers == 0 {
		o.Brokers = 3
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.UpLimit == 0 {
		o.UpLimit = DefaultUpLimit
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	c.description = Description{Provider: "containers", Version: "kafka " + o.Version}
	if o.Version == "" {
		c.description.Version = "image " + o.Image
	}
	for id := range int32(o.Brokers) {
		c.description.Brokers = append(c.description.Brokers, id+1)
	}
}

func (c *Containers) checkMemory() error {
	if c.options.Memory < leastMemory {
		return fmt.Errorf("a broker is given %d MiB of memory; it needs at least %d MiB", c.options.Memory>>20, leastMemory>>20)
	}
	d := c.engine.Description()
	if needed := neededMemory(c.options.Brokers, c.options.Memory); d.Memory < needed {
		return fmt.Errorf("%d brokers of %d MiB need %d MiB of memory, and the container engine's machine has %d MiB; "+
			"give it more, or each broker less", c.options.Brokers, c.options.Memory>>20, needed>>20, d.Memory>>20)
	}
	return nil
}

// neededMemory is what the engine's machine must have for so many brokers.
func neededMemory(brokers int, each int64) int64 { return int64(brokers)*each + spareMemory }

// makePlaces makes what outlives the brokers: the network, and each broker's volume,
// namespace and proxy.
func (c *Containers) makePlaces(ctx context.Context) error {
	agentImage, err := images.Agent(ctx, c.engine)
	if err != nil {
		return err
	}
	for _, id := range c.description.Brokers {
		node, err := newContainerNode(ctx, c, id)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	if err := c.engine.CreateNetwork(ctx, c.owner, c.owner.Name("network")); err != nil {
		return err
	}
	return c.each(func(n *containerNode) error { return n.makePlace(ctx, agentImage) })
}

// startBrokers starts the processes and waits until the cluster is whole.
func (c *Containers) startBrokers(ctx context.Context) error {
	err := c.each(func(n *containerNode) error { return n.create(ctx) })
	if err != nil {
		return err
	}
	if c.admin, err = newAdmin(c.Bootstrap()); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.options.UpLimit,
		fmt.Errorf("they have had %s", c.options.UpLimit))
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		notWhole := c.Whole(limited)
		if notWhole == nil {
			return nil
		}
		exits, err := c.Exits(limited)
		if err == nil && len(exits) > 0 {
			return fmt.Errorf("%w: %s; its last lines:\n%s", ErrNotUp, exits[0].withAdvice(), exits[0].LastLines)
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %w: %w; the last lines of broker %d:\n%s", ErrNotUp, context.Cause(limited), notWhole,
				c.nodes[0].id, c.nodes[0].lastLines(ctx))
		case <-ticker.C:
		}
	}
}

// each does something with every broker at once.
func (c *Containers) each(do func(*containerNode) error) error {
	errs := make([]error, len(c.nodes))
	var doing sync.WaitGroup
	for i, node := range c.nodes {
		doing.Go(func() { errs[i] = do(node) })
	}
	doing.Wait()
	return errors.Join(errs...)
}

// describe asks the cluster what it is.
func (c *Containers) describe(ctx context.Context) error {
	features, err := c.admin.features(ctx)
	if err != nil {
		return fmt.Errorf("starting the cluster in containers: %w", err)
	}
	c.description.Features = features
	c.description.Properties = maps.Clone(c.brokerProperties())
	return nil
}

// Description says what the cluster is.
func (c *Containers) Description() Description { return c.description }

// Image gives the reference of the brokers' image.
func (c *Containers) Image() string { return c.image }

// Wire is the layer between the clients and the brokers.
func (c *Containers) Wire() *wire.Network { return c.network }

// Bootstrap gives the addresses of the proxies in front of the brokers.
func (c *Containers) Bootstrap() []string {
	var addresses []string
	for _, node := range c.nodes {
		addresses = append(addresses, node.proxy.Address().String())
	}
	return addresses
}

// listenAddress gives the address of the index-th broker's proxy.
func (c *Containers) listenAddress(index int) (string, error) {
	host, text, err := net.SplitHostPort(c.options.Listen)
	if err != nil {
		return "", fmt.Errorf("%w: the address for clients %q: %w", ErrCannotStart, c.options.Listen, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%w: the address for clients %q: %q is not a port", ErrCannotStart, c.options.Listen, text)
	}
	if port > 0 {
		port += uint64(index)
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}

// node gives the broker of an id.
func (c *Containers) node(broker int32) (*containerNode, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if broker < 1 || int(broker) > len(c.nodes) {
		return nil, fmt.Errorf("there is no broker %d (there is: %v)", broker, c.description.Brokers)
	}
	return c.nodes[broker-1], nil
}

// closeLimit bounds the removal of everything.
const closeLimit = time.Minute

// Close removes the containers, the network and the volumes, ends the proxies, and
// returns when all goroutines have ended.
func (c *Containers) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	if c.admin != nil {
		c.admin.close()
	}
	errs := []error{c.network.Close()}
	if c.owner != nil {
		errs = append(errs, c.remove(), c.owner.Release())
	}
	if c.engine != nil {
		errs = append(errs, c.engine.Close())
	}
	return errors.Join(errs...)
}

// remove removes what was made on the engine.
func (c *Containers) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := c.engine.Ping(ctx); err != nil {
		return fmt.Errorf("removing the cluster's containers: %w; they are left there: start it again, then verify clean removes them",
			err)
	}
	err := c.each(func(n *containerNode) error { return n.remove(ctx) })
	err = errors.Join(err, c.engine.RemoveNetwork(ctx, c.owner.Name("network")))
	if err != nil {
		return fmt.Errorf("removing the cluster's containers (verify clean removes what is left): %w", err)
	}
	return nil
}

// properties gives the brokers' properties that are the same for all.
func (c *Containers) brokerProperties() map[string]string {
	properties := maps.Clone(baseProperties(len(c.description.Brokers)))
	maps.Copy(properties, c.options.Properties)
	return properties
}

// SessionTimeout is after which silence the controller gives a broker up.
func (c *Containers) SessionTimeout() time.Duration {
	return c.milliseconds("broker.session.timeout.ms")
}

// ReplicaLag is after which lag a follower leaves the in-sync set.
func (c *Containers) ReplicaLag() time.Duration { return c.milliseconds("replica.lag.time.max.ms") }

func (c *Containers) milliseconds(property string) time.Duration {
	n, err := strconv.ParseInt(strings.TrimSpace(c.brokerProperties()[property]), 10, 64)
	if err != nil {
		return 0 // the broker has refused it: it is not up
	}
	return time.Duration(n) * time.Millisecond
}
