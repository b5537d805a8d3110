// This file holds the fault that moves the leadership of partitions.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ackproof/ackproof/clusters"
)

// The words that stand for a target that is drawn, and for all of them.
const (
	randomOne = "random"
	everyOne  = "all"
)

func moveLeader() Fault {
	return Fault{
		Name: "move-leader",
		Doc:  "the leadership of a partition moves to another broker; both go on serving",
		Settings: []Setting{
			partitionFilter(randomOne, "the partition, a drawn one, or all of the run's", randomOne, everyOne),
			nodeOr("to", randomOne, "the new leader, or a drawn one of the other brokers", randomOne),
		},
		available: func(c clusters.Cluster, _ Settings) error {
			if _, can := c.(clusters.LeaderMover); !can {
				return errors.New("it cannot be told to move a leadership")
			}
			if len(c.Description().Brokers) < 2 {
				return errors.New("it has one broker, and no other to move to")
			}
			return nil
		},
		aim: aimLeaders,
	}
}

// nodeOr is a setting that takes a node id or one of some words.
func nodeOr(name, byDefault, doc string, words ...string) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: "a node id|" + strings.Join(words, "|"),
		canonical: func(value string) (string, error) {
			if slices.Contains(words, value) {
				return value, nil
			}
			id, err := strconv.ParseInt(value, 10, 32)
			if err != nil || id < 0 {
				return "", fmt.Errorf("%q is neither a node id nor one of %s", value, strings.Join(words, ", "))
			}
			return strconv.FormatInt(id, 10), nil
		}}
}

// choosePartitions gives the partitions that the value names: one, a drawn one, or
// all of the run's.
func choosePartitions(ctx context.Context, env *Environment, value string) ([]clusters.Leader, error) {
	if value != randomOne && value != everyOne {
		p, err := parsePartition(value)
		if err != nil {
			return nil, err
		}
		leader, err := clusters.LeaderOf(ctx, env.Cluster, p.Topic, p.Partition)
		return []clusters.Leader{leader}, err
	}
	leaders, err := env.Cluster.Leaders(ctx, env.Topics...)
	if err != nil {
		return nil, err
	}
	leaders = slices.DeleteFunc(leaders, func(l clusters.Leader) bool { return l.Broker == clusters.NoLeader })
	if len(leaders) == 0 {
		return nil, errors.New("no partition of the run has a leader")
	}
	if value == everyOne {
		return leaders, nil
	}
	return []clusters.Leader{leaders[env.Random.IntN(len(leaders))]}, nil
}

// leaderMove is a move of one partition's leadership.
type leaderMove struct {
	before clusters.Leader
	// to are the brokers to try, in order: one that has left cannot lead.
	to    []int32
	after clusters.Leader
	moved bool
}

// leaderMoves is the injection.
type leaderMoves struct {
	mover   clusters.LeaderMover
	cluster clusters.Cluster

	mu    sync.Mutex
	moves []*leaderMove
}

func aimLeaders(ctx context.Context, env *Environment, s Settings) (Injection, error) {
	mover, can := env.Cluster.(clusters.LeaderMover)
	if !can {
		return nil, errors.New("the cluster cannot be told to move a leadership")
	}
	chosen, err := choosePartitions(ctx, env, s["partition"])
	if err != nil {
		return nil, err
	}
	moves := &leaderMoves{mover: mover, cluster: env.Cluster}
	for _, leader := range chosen {
		move := &leaderMove{before: leader}
		if id, drawn := s.filterID("to", randomOne); !drawn {
			move.to = []int32{id}
		} else {
			for _, i := range env.Random.Perm(len(env.Cluster.Description().Brokers)) {
				if id := env.Cluster.Description().Brokers[i]; id != leader.Broker {
					move.to = append(move.to, id)
				}
			}
		}
		if len(move.to) == 0 {
			return nil, fmt.Errorf("there is no broker that the leadership of %s could move to", leader.Name())
		}
		moves.moves = append(moves.moves, move)
	}
	return moves, nil
}

// filterID reads a setting that takes a node id or a word.
func (s Settings) filterID(name, word string) (id int32, isWord bool) {
	if s[name] == word {
		return 0, true
	}
	n, err := strconv.ParseInt(s[name], 10, 32)
	return int32(broken(n, err, name)), false
}

func (m *leaderMoves) Target() string {
	if len(m.moves) > 1 {
		return fmt.Sprintf("the leaders of %d partitions", len(m.moves))
	}
	move := m.moves[0]
	return fmt.Sprintf("leader of %s: broker %d, to broker %d", move.before.Name(), move.before.Broker, move.to[0])
}

func (m *leaderMoves) Inject(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, move := range m.moves {
		errs = append(errs, m.inject(ctx, move))
	}
	return errors.Join(errs...)
}

// inject moves one leadership to the first broker that takes it.
func (m *leaderMoves) inject(ctx context.Context, move *leaderMove) error {
	var errs []error
	for _, broker := range move.to {
		if err := m.mover.MoveLeader(ctx, move.before.Topic, move.before.Partition, broker); err != nil {
			errs = append(errs, err)
			continue
		}
		after, err := clusters.LeaderOf(ctx, m.cluster, move.before.Topic, move.before.Partition)
		move.after, move.moved = after, err == nil
		return err
	}
	return errors.Join(errs...)
}

// Heal has nothing to undo: every replica that is in sync may lead.
func (m *leaderMoves) Heal(context.Context) error { return nil }

func (m *leaderMoves) Evidence() Evidence {
	m.mu.Lock()
	defer m.mu.Unlock()
	var seen []string
	moved := 0
	for _, move := range m.moves {
		if move.moved && move.after.Broker != move.before.Broker {
			moved++
			seen = append(seen, fmt.Sprintf("%s from broker %d (epoch %d) to broker %d (epoch %d)", move.before.Name(),
				move.before.Broker, move.before.Epoch, move.after.Broker, move.after.Epoch))
		}
	}
	if moved == 0 {
		return Evidence{Text: "no leader changed"}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("%d of %d leaders moved: %s", moved, len(m.moves), listed(seen))}
}

// listed joins the first few parts of a text.
func listed(parts []string) string {
	const most = 6
	if len(parts) > most {
		return strings.Join(parts[:most], "; ") + fmt.Sprintf("; %d more", len(parts)-most)
	}
	return strings.Join(parts, "; ")
}
