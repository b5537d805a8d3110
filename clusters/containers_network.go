// This file holds what is done to the network between the brokers: cuts, by the agent
// in each broker's namespace.

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
)

// Cut drops the packets that any of the drops names.
func (c *Containers) Cut(ctx context.Context, name string, drops []Drop) error {
	cuts := make(map[int32]*agent.Cut)
	for i, d := range drops {
		n, err := c.node(d.Broker)
		if err != nil {
			return err
		}
		if cuts[d.Broker] == nil {
			cuts[d.Broker] = &agent.Cut{Name: name}
		}
		rule, err := c.rule(n, d)
		if err != nil {
			return err
		}
		rule.Name = fmt.Sprintf("%s-%d-%s", d.Direction, d.Peer, fmt.Sprint(i))
		cuts[d.Broker].Rules = append(cuts[d.Broker].Rules, rule)
	}
	return c.each(func(n *containerNode) error {
		if cuts[n.id] == nil {
			return nil
		}
		text, err := json.Marshal(cuts[n.id])
		if err != nil {
			return fmt.Errorf("encoding the cut %s: %w", name, err)
		}
		return n.execute(ctx, nil, agent.CommandCut, string(text))
	})
}

// rule gives a drop in the agent's words.
func (c *Containers) rule(n *containerNode, d Drop) (agent.Rule, error) {
	rule := agent.Rule{Direction: string(d.Direction), Percent: d.Percent}
	if d.ReplicationOnly {
		rule.LocalPort = replicationPort
	}
	if d.ControllerOnly {
		rule.LocalPort = controllerPort
	}
	if d.Peer == Clients {
		rule.LocalPort = clientPort
		return rule, nil
	}
	peer, err := c.node(d.Peer)
	if err != nil {
		return rule, err
	}
	if peer == n {
		return rule, fmt.Errorf("broker %d cannot be cut from itself", d.Broker)
	}
	rule.Peer = peer.address.String()
	return rule, nil
}

// Mend takes the cut away in every namespace and returns when it is gone.
func (c *Containers) Mend(ctx context.Context, name string) error {
	return c.each(func(n *containerNode) error {
		if err := n.execute(ctx, nil, agent.CommandMend, name); err != nil {
			return err
		}
		inForce, err := n.cuts(ctx)
		if err != nil {
			return err
		}
		for _, cut := range inForce {
			if cut.Name == name {
				return fmt.Errorf("the cut %s is still in force at broker %d", name, n.id)
			}
		}
		return nil
	})
}

// Dropped gives how many packets the cut has dropped so far, by broker.
func (c *Containers) Dropped(ctx context.Context, name string) (map[int32]uint64, error) {
	dropped := make(map[int32]uint64)
	for _, n := range c.nodes {
		inForce, err := n.cuts(ctx)
		if err != nil {
			return nil, err
		}
		for _, cut := range inForce {
			if cut.Name != name {
				continue
			}
			for _, packets := range cut.Dropped {
				dropped[n.id] += packets
			}
		}
	}
	return dropped, nil
}

func (n *containerNode) cuts(ctx context.Context) (inForce []agent.InForce, err error) {
	err = n.execute(ctx, &inForce, agent.CommandCuts)
	return inForce, err
}

// Cuts gives the names of the cuts that are in force anywhere, with the broker in
// whose namespace they are.
func (c *Containers) Cuts(ctx context.Context) (map[int32][]string, error) {
	names := make(map[int32][]string)
	for _, n := range c.nodes {
		inForce, err := n.cuts(ctx)
		if err != nil {
			return nil, err
		}
		for _, cut := range inForce {
			names[n.id] = append(names[n.id], cut.Name)
		}
	}
	return names, nil
}

// Reaches says whether a new TCP connection from a broker's namespace to another
// broker's listener for brokers is made within the limit.
func (c *Containers) Reaches(ctx context.Context, from, to int32, limit time.Duration) (bool, error) {
	a, err := c.node(from)
	b, errTo := c.node(to)
	if err := errors.Join(err, errTo); err != nil {
		return false, err
	}
	var probe agent.Probe
	err = a.execute(ctx, &probe, agent.CommandProbe, fmt.Sprintf("%s:%d", b.address, replicationPort), limit.String())
	return probe.Result == agent.Connected || probe.Result == agent.Refused, err
}
