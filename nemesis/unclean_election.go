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
			"wrote last is elected: by the controller where unclean.leader.election.enable=true lets it, by command otherwise; " +
			"where the cluster keeps eligible leader replicas (new ones from Kafka 4.1 on), with min.insync.replicas=1 only (KIP-966)",
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
	clean   []string // what happened instead
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
	_, err := e.await(ctx, fmt.Sprintf("until broker %d alone is in sync", leader), []string{e.before.Topic},
		func(leaders []clusters.Leader) bool {
			return int(e.before.Partition) < len(leaders) && aloneInSync(leaders[e.before.Partition], leader)
		})
	if err != nil {
		return err
	}
	if err := sleep(ctx, e.alone); err != nil {
		return err
	}
	eligible, err := e.eligible(ctx)
	if err != nil {
		return err
	}
	if err := e.cluster.KillBroker(ctx, leader); err != nil {
		return err
	}
	leaders, err := e.await(ctx, fmt.Sprintf("until broker %d no longer leads", leader), e.env.Topics,
		func(leaders []clusters.Leader) bool {
			return !slices.ContainsFunc(leaders, func(p clusters.Leader) bool { return p.Broker == leader })
		})
	if err != nil {
		return err
	}
	if err := e.cluster.Mend(ctx, e.cutName()); err != nil {
		return err
	}
	for _, p := range leaders {
		if err := e.elect(ctx, p, eligible); err != nil {
			return err
		}
	}
	return nil
}

func aloneInSync(p clusters.Leader, broker int32) bool {
	return slices.Equal(p.InSync, []int32{broker})
}

// await waits until the partitions of the topics are as they should be, and gives what was
// seen then.
func (e *election) await(ctx context.Context, what string, topics []string,
	are func([]clusters.Leader) bool) ([]clusters.Leader, error) {
	for {
		leaders, err := e.cluster.Leaders(ctx, topics...)
		if err == nil && are(leaders) {
			return leaders, nil
		}
		if ended := sleep(ctx, 100*time.Millisecond); ended != nil {
			return nil, errors.Join(fmt.Errorf("waiting %s: %w", what, ended), err)
		}
	}
}

// eligible gives, of each partition of the run in which the leader alone is in sync, who may
// follow it and lack nothing.
func (e *election) eligible(ctx context.Context) (map[string][]int32, error) {
	leaders, err := e.cluster.Leaders(ctx, e.env.Topics...)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]int32)
	for _, p := range leaders {
		if !aloneInSync(p, e.before.Broker) {
			continue
		}
		if all[p.Name()], err = e.cluster.EligibleLeaders(ctx, p.Topic, p.Partition); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// elect elects a leader of a partition that has none. Where one had a leader alone in sync
// and has another one already, the controller has elected it, for one of two reasons.
func (e *election) elect(ctx context.Context, now clusters.Leader, eligible map[string][]int32) error {
	others, alone := eligible[now.Name()]
	by := "by the controller, as " + histories.PropertyUncleanElection + "=true lets it"
	switch {
	case now.Broker == clusters.NoLeader:
		without := now.Epoch
		var err error
		if now, err = e.cluster.ElectUnclean(ctx, now.Topic, now.Partition); err != nil {
			return err
		}
		by = fmt.Sprintf("by command (epoch %d had no leader)", without)
	case !alone:
		return nil
	case slices.Contains(others, now.Broker):
		e.clean = append(e.clean, fmt.Sprintf("%s got broker %d as its leader by a clean election "+
			"(an eligible leader replica, KIP-966)", now.Name(), now.Broker))
		return nil
	}
	e.elected = append(e.elected, fmt.Sprintf("%s from broker %d, which alone was in sync, to broker %d (epoch %d) %s",
		now.Name(), e.before.Broker, now.Broker, now.Epoch, by))
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
	switch {
	case len(e.elected) > 0:
		return Evidence{Bit: true, Text: fmt.Sprintf("%d unclean elections: %s", len(e.elected), listed(e.elected)),
			Effects: []string{histories.EffectUncleanElection}}
	case len(e.clean) > 0:
		return Evidence{Text: listed(e.clean)}
	}
	return Evidence{Text: "no unclean election took place"}
}
