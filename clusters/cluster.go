// Package clusters holds the clusters that runs are played against: one small
// interface and its providers. What a broker advertises always leads through the
// wire layer, so every client in any language passes through it.
package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/wire"
)

// Cluster is a cluster that runs. All methods may be called concurrently; after
// Close they fail with ErrClosed.
type Cluster interface {
	// Description says what the cluster is. It does not change.
	Description() Description
	// Bootstrap gives the addresses that clients are to be given, as host:port.
	// They lead through Wire.
	Bootstrap() []string
	// Wire is the layer between the clients and the brokers. The cluster closes
	// it with itself.
	Wire() *wire.Network
	// Leaders gives who leads each partition of the topics, in the order of the
	// topics and their partitions.
	Leaders(ctx context.Context, topics ...string) ([]Leader, error)
	// Whole gives nil where every broker is there, every partition has a leader
	// and every replica is in sync, and otherwise what is missing.
	Whole(ctx context.Context) error
	// CreateTopic creates a topic through the admin protocol and returns when
	// every partition of it has a leader.
	CreateTopic(ctx context.Context, topic Topic) error
	// TopicProperties gives the properties in force of a topic under Kafka's
	// names: its own, or inherited.
	TopicProperties(ctx context.Context, topic string) (map[string]string, error)
	// LogEnds gives the end of each partition's log, by partition.
	LogEnds(ctx context.Context, topic string) ([]int64, error)
	// Close stops the brokers and the wire, removes what was made for them, and
	// returns when all goroutines have ended. A second call does nothing.
	Close() error
}

// Description says what a cluster is, for the header of a history.
type Description struct {
	// Provider is how the cluster came to be: embedded, containers, external.
	Provider string
	// Version is the brokers' software and version, as "kafka 4.1.0".
	Version string
	// Brokers are the node ids.
	Brokers []int32
	// Features are the finalised feature levels.
	Features map[string]string
	// CannotBreak names anomalies, in kebab case, that nothing that can be done to
	// this cluster can produce.
	CannotBreak []string
	// Properties are the brokers' properties that bear on promises.
	Properties map[string]string
}

// Topic says which topic is to be created.
type Topic struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	// Properties of the topic under Kafka's names; what is absent is inherited.
	Properties map[string]string
}

// Leader is who leads a partition.
type Leader struct {
	Topic     string
	Partition int32
	// Broker is the leader's node id; NoLeader: there is none.
	Broker int32
	// Epoch is the leader epoch, or -1 where it is not known.
	Epoch int32
}

// NoLeader stands for the node id of a leader that does not exist.
const NoLeader = -1

// Name gives "topic/partition".
func (l Leader) Name() string { return fmt.Sprintf("%s/%d", l.Topic, l.Partition) }

// ErrClosed says that the cluster is closed.
var ErrClosed = errors.New("the cluster is closed")

// ErrAway says that the broker has left already.
var ErrAway = errors.New("the broker is away")

// LeaderOf gives the leader of one partition; an error where the partition does
// not exist or has no leader.
func LeaderOf(ctx context.Context, c Cluster, topic string, partition int32) (Leader, error) {
	leaders, err := c.Leaders(ctx, topic)
	if err != nil {
		return Leader{}, err
	}
	for _, l := range leaders {
		if l.Topic == topic && l.Partition == partition {
			if l.Broker == NoLeader {
				return l, fmt.Errorf("partition %s has no leader", l.Name())
			}
			return l, nil
		}
	}
	return Leader{}, fmt.Errorf("there is no partition %s/%d", topic, partition)
}

// The capabilities that a provider may have beside Cluster. Who needs one asks for
// it by a type assertion.
type (
	// LeaderMover can move the leadership of a partition to a broker.
	LeaderMover interface {
		// MoveLeader makes the broker the leader of the partition and returns when
		// it is.
		MoveLeader(ctx context.Context, topic string, partition, broker int32) error
	}

	// MemberMover can let a broker leave the cluster and return under its id.
	MemberMover interface {
		// Leave closes the broker's listener and its connections; its leaderships
		// move to the others. ErrAway where it has left already.
		Leave(ctx context.Context, broker int32) error
		// Return brings it back under its id and its address. A broker that is
		// there is left alone.
		Return(ctx context.Context, broker int32) error
	}

	// SuffixLoser can restart every broker without what was appended last, which no
	// healthy broker does: a planted fault.
	SuffixLoser interface {
		// CanLoseSuffix gives nil, or why this cluster cannot.
		CanLoseSuffix() error
		// MarkLogs remembers the logs as they are.
		MarkLogs(ctx context.Context) error
		// RestartLosingSuffix restarts every broker on its address with the logs
		// as MarkLogs remembered them, and gives what each partition lost; those
		// that lost nothing are left out.
		RestartLosingSuffix(ctx context.Context) ([]LostSuffix, error)
	}
)

// LostSuffix is what a partition lost: the offsets from From, inclusive, to To,
// exclusive.
type LostSuffix struct {
	Topic     string
	Partition int32
	From, To  int64
}

// missing gathers what Whole found missing, as one error; nil: nothing.
func missing(what []string) error {
	if len(what) == 0 {
		return nil
	}
	slices.Sort(what)
	const most = 8
	if len(what) > most {
		what = append(what[:most], fmt.Sprintf("%d more", len(what)-most))
	}
	return errors.New("the cluster is not whole: " + strings.Join(what, "; "))
}
