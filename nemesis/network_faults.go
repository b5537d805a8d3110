// This file holds the faults of the network between the brokers, and between brokers
// and clients: packets are dropped, and no connection is told.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters"
)

// How long a fault that the cluster must notice lasts at least where it is drawn:
// twice the broker session timeout that our clusters have; and with the time to
// recover.
const (
	leastNoticed  = 6 * time.Second
	noticedWindow = 12 * time.Second
)

// networkFault makes a fault whose drops are chosen when it is aimed.
func networkFault(f Fault, choose func(ctx context.Context, env *Environment, s Settings) (plan, error)) Fault {
	f.Window = noticedWindow
	f.Stalls = true
	f.available = func(c clusters.Cluster, _ Settings) error {
		if _, can := c.(clusters.NetworkCutter); !can {
			return errors.New("its brokers share this process, and no network is between them")
		}
		if len(c.Description().Brokers) < 2 {
			return errors.New("it has one broker, and no other to cut it from")
		}
		return nil
	}
	f.aim = func(ctx context.Context, env *Environment, s Settings) (Injection, error) {
		cutter, can := env.Cluster.(clusters.NetworkCutter)
		if !can {
			return nil, errors.New("the cluster has no network that could be cut")
		}
		p, err := choose(ctx, env, s)
		if err != nil {
			return nil, err
		}
		return &networkCut{env: env, cutter: cutter, plan: p, name: strings.ReplaceAll(env.ID, "#", "-"),
			leadership: leadership{env: env, brokers: p.brokers}}, nil
	}
	return f
}

// plan is what a fault of the network drops.
type plan struct {
	target string
	// brokers whose leaderships may move.
	brokers []int32
	drops   []clusters.Drop
}

// both drops what a broker and a peer send each other.
func both(d clusters.Drop) []clusters.Drop {
	in, out := d, d
	in.Direction, out.Direction = clusters.Inbound, clusters.Outbound
	return []clusters.Drop{in, out}
}

// cutOff drops everything between some brokers and all others; with clients, also
// between them and their clients.
func cutOff(env *Environment, brokers []int32, clients bool, percent int) (drops []clusters.Drop) {
	for _, b := range brokers {
		for _, other := range others(env, brokers...) {
			drops = append(drops, both(clusters.Drop{Broker: b, Peer: other, Percent: percent})...)
		}
		if clients {
			drops = append(drops, both(clusters.Drop{Broker: b, Peer: clusters.Clients, Percent: percent})...)
		}
	}
	return drops
}

func clientsSetting() Setting {
	return boolean("clients", "false", "cut from the clients too")
}

func isolate() Fault {
	return networkFault(Fault{
		Name:     "isolate",
		Doc:      "a broker is cut off from all other brokers and controllers, and not from the clients",
		Settings: append([]Setting{clientsSetting()}, brokerSettings()...),
		Least:    leastNoticed,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		return plan{target: why, brokers: []int32{broker}, drops: cutOff(env, []int32{broker}, s.is("clients", "true"), 100)}, err
	})
}

func majorityMinority() Fault {
	return networkFault(Fault{
		Name: "majority-minority",
		Doc:  "the brokers are split into a majority and a minority that hear nothing of each other",
		Settings: []Setting{
			choice("leader", "minority", "the side of a drawn partition's leader", "minority", "majority", randomOne),
			partitionFilter(randomOne, "whose leader", randomOne),
			clientsSetting(),
		},
		Least: leastNoticed,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		minority, err := chooseMinority(ctx, env, s)
		majority := others(env, minority...)
		return plan{target: fmt.Sprintf("%s from %s", names(minority), names(majority)), brokers: minority,
			drops: cutOff(env, minority, s.is("clients", "true"), 100)}, err
	})
}

// chooseMinority draws the largest set of brokers that is no majority, with or without
// a partition's leader.
func chooseMinority(ctx context.Context, env *Environment, s Settings) ([]int32, error) {
	all := env.Cluster.Description().Brokers
	size := (len(all) - 1) / 2
	if size == 0 {
		return nil, fmt.Errorf("%d brokers have no minority", len(all))
	}
	chosen, err := choosePartitions(ctx, env, s["partition"])
	if err != nil {
		return nil, err
	}
	leader := chosen[0].Broker
	var minority []int32
	rest := slices.Clone(all)
	if !s.is("leader", randomOne) {
		rest = others(env, leader)
	}
	if s.is("leader", "minority") {
		minority = append(minority, leader)
	}
	for _, i := range env.Random.Perm(len(rest)) {
		if len(minority) < size {
			minority = append(minority, rest[i])
		}
	}
	slices.Sort(minority)
	return minority, nil
}

func oneWay() Fault {
	return networkFault(Fault{
		Name: "one-way",
		Doc:  "a broker hears nothing of the other brokers and controllers (direction=in), or they hear nothing of it (out)",
		Settings: append([]Setting{
			choice("direction", "in", "what is dropped: what comes in at the broker, or what goes out", "in", "out", randomOne),
		}, brokerSettings()...),
		Least: leastNoticed,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		direction := clusters.Direction(s["direction"])
		if s.is("direction", randomOne) {
			direction = []clusters.Direction{clusters.Inbound, clusters.Outbound}[env.Random.IntN(2)]
		}
		p := plan{target: fmt.Sprintf("%s, %sbound", why, direction), brokers: []int32{broker}}
		for _, other := range others(env, broker) {
			p.drops = append(p.drops, clusters.Drop{Broker: broker, Direction: direction, Peer: other, Percent: 100})
		}
		return p, err
	})
}

func cutReplication() Fault {
	return networkFault(Fault{
		Name:     "cut-replication",
		Doc:      "the followers are cut off from one leader's listener for brokers; controllers and clients are not touched",
		Settings: brokerSettings(),
		Least:    leastNoticed,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		return plan{target: why, brokers: []int32{broker}, drops: replicationDrops(env, broker)}, err
	})
}

// replicationDrops cut everybody off from a broker's listener for brokers.
func replicationDrops(env *Environment, broker int32) (drops []clusters.Drop) {
	for _, other := range others(env, broker) {
		drops = append(drops, both(clusters.Drop{Broker: broker, Peer: other, ReplicationOnly: true, Percent: 100})...)
	}
	return drops
}

func cutControllers() Fault {
	return networkFault(Fault{
		Name: "cut-controllers",
		Doc: "a broker can ask no controller but its own: what it says of its replicas, and its heartbeats, do not arrive; " +
			"replication and clients are not touched",
		Settings: brokerSettings(),
		Least:    leastNoticed,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		var drops []clusters.Drop
		for _, other := range others(env, broker) {
			drops = append(drops, both(clusters.Drop{Broker: other, Peer: broker, ControllerOnly: true, Percent: 100})...)
		}
		return plan{target: why, brokers: []int32{broker}, drops: drops}, err
	})
}

func cutClients() Fault {
	return networkFault(Fault{
		Name:     "cut-clients",
		Doc:      "the clients are cut off from one broker; the brokers are not from each other",
		Settings: brokerSettings(),
		Least:    2 * time.Second,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		return plan{target: why, brokers: []int32{broker},
			drops: both(clusters.Drop{Broker: broker, Peer: clusters.Clients, Percent: 100})}, err
	})
}

func loss() Fault {
	return networkFault(Fault{
		Name: "loss",
		Doc:  "a share of the packets between a broker and the other brokers is lost",
		Settings: append([]Setting{
			{Name: "percent", Default: "20", Doc: "the share that is lost, in each direction", Values: "1 to 100", canonical: percentage},
			clientsSetting(),
		}, brokerSettings()...),
		Least: 2 * time.Second,
	}, func(ctx context.Context, env *Environment, s Settings) (plan, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		percent := int(s.number("percent"))
		return plan{target: fmt.Sprintf("%s, %d percent", why, percent), brokers: []int32{broker},
			drops: cutOff(env, []int32{broker}, s.is("clients", "true"), percent)}, err
	})
}

func percentage(value string) (string, error) {
	text, err := number("", "", "", 1).canonical(value)
	if err != nil || len(text) > 3 || (len(text) == 3 && text != "100") {
		return "", fmt.Errorf("%q is not a whole number from 1 to 100", value)
	}
	return text, nil
}

// networkCut is the injection.
type networkCut struct {
	env    *Environment
	cutter clusters.NetworkCutter
	plan   plan
	// name of the cut on the cluster.
	name string

	mu         sync.Mutex
	tried      bool
	dropped    map[int32]uint64
	problem    error // of counting
	leadership leadership
	back       bool
}

func (n *networkCut) Target() string { return n.plan.target }

func (n *networkCut) Inject(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leadership.look(ctx)
	n.tried = true
	return n.cutter.Cut(ctx, n.name, n.plan.drops)
}

// Heal takes the cut away. The cluster verifies that it is gone.
func (n *networkCut) Heal(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.tried {
		return nil
	}
	if dropped, err := n.cutter.Dropped(ctx, n.name); err != nil {
		n.problem = err
	} else if len(dropped) > 0 {
		n.dropped = dropped
	}
	n.leadership.lookAgain(ctx)
	if err := n.cutter.Mend(ctx, n.name); err != nil {
		return err
	}
	n.tried = false
	n.back = awaitInSync(ctx, n.env, n.plan.brokers...)
	return nil
}

func (n *networkCut) Evidence() Evidence {
	n.mu.Lock()
	defer n.mu.Unlock()
	total := uint64(0)
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(n.dropped)) {
		total += n.dropped[id]
		parts = append(parts, fmt.Sprintf("broker %d: %d", id, n.dropped[id]))
	}
	switch {
	case total == 0 && n.problem != nil:
		return Evidence{Text: "whether packets were dropped could not be told: " + n.problem.Error()}
	case total == 0:
		return Evidence{Text: "no packet was dropped"}
	}
	text := fmt.Sprintf("%d packets were dropped (%s); %s", total, strings.Join(parts, ", "), n.leadership.text())
	if !n.back {
		text += "; its replicas were not in sync again " + backLimit.String() + " later"
	}
	return Evidence{Bit: true, Text: text}
}
