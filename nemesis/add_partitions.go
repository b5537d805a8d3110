// This file holds the fault that adds partitions to a topic: no failure, but a change
// under which a key may go elsewhere than before.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func addPartitions() Fault {
	return Fault{
		Name: "add-partitions",
		Doc:  "topics get more partitions, which stay when it ends: keys may go elsewhere than before",
		Settings: []Setting{
			number("to", "0", fmt.Sprintf("so many of each topic; 0: twice as many as there are, up to %d", mostDoubled), 0),
			wordOf("topic", "of this topic of the run; any: of all of them", "a topic|any"),
		},
		available: func(c clusters.Cluster, _ Settings) error {
			if _, can := c.(clusters.PartitionAdder); !can {
				return errors.New("it cannot add partitions")
			}
			return nil
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			topics := env.Topics
			if topic, given := s.filter("topic"); given {
				if topics = []string{topic}; !slices.Contains(env.Topics, topic) {
					return nil, fmt.Errorf("%s is no topic of the run (those are: %s)", topic, strings.Join(env.Topics, ", "))
				}
			}
			to := s.number("to")
			if to > mostPartitions {
				return nil, fmt.Errorf("to=%d: a topic is given %d partitions at most", to, mostPartitions)
			}
			return &moreParts{env: env, topics: topics, to: int32(to)}, nil
		},
	}
}

// mostPartitions bounds what a broker is asked for: each partition costs it files and memory.
const mostPartitions = 10_000

// mostDoubled bounds doubling: a schedule does it every few seconds, and after ten times a
// run would have a thousand partitions for each that it began with, and do nothing but read
// them in the end.
const mostDoubled = 48

// moreParts adds partitions once. They cannot be taken away again.
type moreParts struct {
	env    *Environment
	topics []string
	to     int32

	mu sync.Mutex
	// before is how many there were of each topic that was asked to have more.
	before map[string]int
	// added is how many more there are of each, as far as is known: once the request was
	// answered, and whatever was answered once the fault is undone.
	added map[string]int
	// uncounted says why it is not known how many were added.
	uncounted error
	// full: a topic has as many as doubling gives it.
	full bool
}

func (m *moreParts) Target() string { return strings.Join(m.topics, ", ") }

func (m *moreParts) Inject(ctx context.Context) error {
	adder, can := m.env.Cluster.(clusters.PartitionAdder)
	if !can {
		return errors.New("the cluster cannot add partitions")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.added = make(map[string]int), make(map[string]int)
	for _, topic := range m.topics {
		leaders, err := m.env.Cluster.Leaders(ctx, topic)
		if err != nil {
			return fmt.Errorf("asking how many partitions %s has: %w", topic, err)
		}
		to := m.to
		if to == 0 {
			if to = min(2*int32(len(leaders)), mostDoubled); to <= int32(len(leaders)) {
				m.full = true
				continue
			}
		}
		if to <= int32(len(leaders)) {
			return fmt.Errorf("to=%d: topic %s has %d partitions already", to, topic, len(leaders))
		}
		m.before[topic] = len(leaders)
		if err := adder.AddPartitions(ctx, topic, to); err != nil {
			return err
		}
		m.added[topic] = int(to) - len(leaders)
	}
	return nil
}

// Heal undoes nothing. It counts what was added, whatever was answered: when another fault
// is on, the answer may be lost and the partitions be there.
func (m *moreParts) Heal(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncounted = nil
	for topic, before := range m.before {
		leaders, err := m.env.Cluster.Leaders(ctx, topic)
		if err != nil {
			m.uncounted = err
			continue
		}
		m.added[topic] = len(leaders) - before
	}
	return nil
}

func (m *moreParts) Evidence() Evidence {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.before) == 0 {
		text := "no partition was added"
		if m.full {
			text += fmt.Sprintf(": there are %d of a topic already", mostDoubled)
		}
		return Evidence{Text: text}
	}
	added := 0
	for _, more := range m.added {
		added += more
	}
	text := fmt.Sprintf("%d partitions were added", added)
	if m.uncounted != nil {
		text += fmt.Sprintf(", and how many more is not known: %v", m.uncounted)
	}
	return Evidence{Bit: added > 0, Text: text, Effects: []string{histories.EffectPartitionsAdded}}
}
