// This file holds the fault that adds partitions to a topic: no failure, but a change
// under which a key may go elsewhere than before.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func addPartitions() Fault {
	return Fault{
		Name:     "add-partitions",
		Doc:      "the run's topics get more partitions, which stay: keys may go elsewhere than before",
		Settings: []Setting{number("to", "0", "so many partitions of each topic; 0: twice as many as there are", 0)},
		available: func(c clusters.Cluster, _ Settings) error {
			if _, can := c.(clusters.PartitionAdder); !can {
				return errors.New("it cannot add partitions")
			}
			return nil
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			return &moreParts{env: env, to: int32(s.number("to"))}, nil
		},
	}
}

// moreParts adds partitions once. They cannot be taken away again: Heal does nothing.
type moreParts struct {
	env   *Environment
	to    int32
	added atomic.Int64
}

func (m *moreParts) Target() string { return "the run's topics" }

func (m *moreParts) Inject(ctx context.Context) error {
	adder, can := m.env.Cluster.(clusters.PartitionAdder)
	if !can {
		return errors.New("the cluster cannot add partitions")
	}
	for _, topic := range m.env.Topics {
		leaders, err := m.env.Cluster.Leaders(ctx, topic)
		if err != nil {
			return fmt.Errorf("asking how many partitions %s has: %w", topic, err)
		}
		to := m.to
		if to == 0 {
			to = 2 * int32(len(leaders))
		}
		if err := adder.AddPartitions(ctx, topic, to); err != nil {
			return err
		}
		m.added.Add(int64(to) - int64(len(leaders)))
	}
	return nil
}

func (m *moreParts) Heal(context.Context) error { return nil }

func (m *moreParts) Evidence() Evidence {
	added := m.added.Load()
	if added == 0 {
		return Evidence{Text: "no partition was added"}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("%d partitions were added", added),
		Effects: []string{histories.EffectPartitionsAdded}}
}
