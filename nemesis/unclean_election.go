// This file holds the unclean election: a replica that lacks what was written last
// becomes leader.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func uncleanElection() Fault {
	return Fault{
		Name: "unclean-election",
		Doc: "replication from a leader is cut until it alone is in sync, it is killed, and a replica that lacks what it " +
			"wrote last is elected by command",
		Settings: []Setting{
			partitionFilter(randomOne, "whose leader, or of a drawn one", randomOne),
			duration("alone", "2s", "for how long the leader is alone in sync before it is killed"),
		},
		Window: 2 * noticedWindow, Stalls: true,
		available: func(c clusters.Cluster, _ Settings) error {
			_, cuts := c.(clusters.NetworkCutter)
			_, kills := c.(clusters.ProcessMaster)
			_, elects := c.(clusters.UncleanElector)
			if !cuts || !kills || !elects {
				return errors.New("its brokers share one log: no replica lacks anything")
			}
			return nil
		},
		aim: aimUncleanElection,
	}
}

// uncleanCluster is what the fault needs of a cluster.
type uncleanCluster interface {
	clusters.Cluster
	clusters.NetworkCutter
	clusters.ProcessMaster
	clusters.UncleanElector
}

// election is the injection.
type election struct {
	env     *Environment
	cluster uncleanCluster
	// before is the partition that it is aimed at; alone for how long.
	before clusters.Leader
	alone  time.Duration

	mu      sync.Mutex
	tried   bool
	elected []string
	seen    string // what happened instead
}

func aimUncleanElection(ctx context.Context, env *Environment, s Settings) (Injection, error) {
	cluster, can := env.Cluster.(uncleanCluster)
	if !can {
		return nil, errors.New("the cluster has no replicas that could lack anything")
	}
	chosen, err := choosePartitions(ctx, env, s["partition"])
	if err != nil {
		return nil, err
	}
	return &election{env: env, cluster: cluster, before: chosen[0], alone: s.duration("alone")}, nil
}

func (e *election) Target() string {
	return fmt.Sprintf("leader of %s: broker %d", e.before.Name(), e.before.Broker)
}

func (e *election) cutName() string { return strings.ReplaceAll(e.env.ID, "#", "-") }

func (e *election) Inject(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried = true
	leader := e.before.Broker
	if err := e.cluster.Cut(ctx, e.cutName(), replicationDrops(e.env, leader)); err != nil {
		return err
	}
	err := e.awaitState(ctx, fmt.Sprintf("until broker %d alone is in sync", leader), func(p clusters.Leader) bool {
		return slices.Equal(p.InSync, []int32{leader})
	})
	if err != nil {
		return err
	}
	if err := sleep(ctx, e.alone); err != nil {
		return err
	}
	if err := e.cluster.KillBroker(ctx, leader); err != nil {
		return err
	}
	err = e.awaitState(ctx, fmt.Sprintf("until broker %d no longer leads", leader), func(p clusters.Leader) bool {
		return p.Broker != leader
	})
	if err != nil {
		return err
	}
	if err := e.cluster.Mend(ctx, e.cutName()); err != nil {
		return err
	}
	return e.elect(ctx)
}

// awaitState waits until the partition is in a state.
func (e *election) awaitState(ctx context.Context, what string, is func(clusters.Leader) bool) error {
	for {
		leaders, err := e.cluster.Leaders(ctx, e.before.Topic)
		if err == nil && int(e.before.Partition) < len(leaders) && is(leaders[e.before.Partition]) {
			return nil
		}
		if ended := sleep(ctx, 100*time.Millisecond); ended != nil {
			return errors.Join(fmt.Errorf("waiting %s: %w", what, ended), err)
		}
	}
}

// elect elects a leader of every partition of the run that has none.
func (e *election) elect(ctx context.Context) error {
	leaders, err := e.cluster.Leaders(ctx, e.env.Topics...)
	if err != nil {
		return err
	}
	for _, p := range leaders {
		if p.Broker != clusters.NoLeader {
			if p.Name() == e.before.Name() {
				e.seen = fmt.Sprintf("%s got broker %d as its leader by a clean election (an eligible leader replica, KIP-966)",
					p.Name(), p.Broker)
			}
			continue
		}
		now, err := e.cluster.ElectUnclean(ctx, p.Topic, p.Partition)
		if err != nil {
			return err
		}
		e.elected = append(e.elected, fmt.Sprintf("%s from broker %d, which alone was in sync (epoch %d), to broker %d (epoch %d)",
			p.Name(), e.before.Broker, p.Epoch, now.Broker, now.Epoch))
	}
	return nil
}

// Heal lets the old leader come back, which cuts off what it alone has.
func (e *election) Heal(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.tried {
		return nil
	}
	if err := e.cluster.Mend(ctx, e.cutName()); err != nil {
		return err
	}
	if err := e.cluster.StartBroker(ctx, e.before.Broker); err != nil {
		return err
	}
	e.tried = false
	awaitInSync(ctx, e.env, e.before.Broker)
	return nil
}

func (e *election) Evidence() Evidence {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.elected) == 0 {
		if e.seen == "" {
			return Evidence{Text: "no unclean election took place"}
		}
		return Evidence{Text: e.seen}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("%d unclean elections: %s", len(e.elected), listed(e.elected)),
		Effects: []string{histories.EffectUncleanElection}}
}
