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
	"time"

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
	// Replicas and InSync are node ids; nil where there is no replication.
	Replicas, InSync []int32
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
		// MayLeave gives the brokers that leave nothing behind when they leave and
		// return. Another one may be told to leave all the same.
		MayLeave() []int32
	}

	// PartitionAdder can add partitions to a topic.
	PartitionAdder interface {
		// AddPartitions makes the topic have so many partitions, and returns when each
		// has a leader. Fewer than there are is an error.
		AddPartitions(ctx context.Context, topic string, to int32) error
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

	// ProcessMaster has a process for each broker, which can be killed, stopped,
	// frozen and started again with its own log. Every method may be called again.
	ProcessMaster interface {
		// KillBroker sends SIGKILL and returns when the process is gone.
		KillBroker(ctx context.Context, broker int32) error
		// StopBroker lets the broker shut down in good order and returns when the
		// process is gone.
		StopBroker(ctx context.Context, broker int32) error
		// StartBroker starts the process where it does not run, lets it go on where
		// it is frozen, and returns when the broker answers.
		StartBroker(ctx context.Context, broker int32) error
		// PauseBroker freezes the process; its connections stay open.
		PauseBroker(ctx context.Context, broker int32) error
		// BrokerProcess says what the process is like now.
		BrokerProcess(ctx context.Context, broker int32) (Process, error)
		// Exits gives the brokers whose process ended though nobody asked for it.
		Exits(ctx context.Context) ([]Exit, error)
	}

	// NetworkCutter can drop packets between the brokers, and between brokers and
	// clients.
	NetworkCutter interface {
		// Cut drops the packets that any of the drops names, under a name, which is
		// unique among the cuts that are on. After an error, Mend undoes what was
		// done of it.
		Cut(ctx context.Context, name string, drops []Drop) error
		// Mend takes the cut away and returns when it is gone. One that is not
		// there is no error.
		Mend(ctx context.Context, name string) error
		// Dropped gives how many packets the cut has dropped so far, by broker: in
		// whose network namespace.
		Dropped(ctx context.Context, name string) (map[int32]uint64, error)
	}

	// RoleTeller knows which broker has which role.
	RoleTeller interface {
		// Controller gives the active controller of the metadata quorum.
		Controller(ctx context.Context) (int32, error)
		// GroupCoordinator and TransactionCoordinator give who coordinates the group
		// or the transactional id.
		GroupCoordinator(ctx context.Context, group string) (int32, error)
		TransactionCoordinator(ctx context.Context, transactionalID string) (int32, error)
	}

	// UncleanElector can let a replica that is not in sync become leader.
	UncleanElector interface {
		// ElectUnclean elects any living replica as the leader of a partition that has
		// none, and gives who it is.
		ElectUnclean(ctx context.Context, topic string, partition int32) (Leader, error)
		// EligibleLeaders gives the replicas that are not in sync and are elected all the
		// same where no other is left, as they lack nothing that min.insync.replicas
		// promised (eligible leader replicas, KIP-966). None where the cluster has no such.
		EligibleLeaders(ctx context.Context, topic string, partition int32) ([]int32, error)
	}

	// LogEraser can take the logs of a broker away whose process does not run.
	LogEraser interface {
		// EraseLog empties the log that a broker holds of a partition, as if none of it had
		// reached the disk. What it knows of the metadata stays.
		EraseLog(ctx context.Context, broker int32, topic string, partition int32) error
	}

	// Timer knows how long the cluster takes to notice what happens to its brokers.
	Timer interface {
		// SessionTimeout is after which silence the controller gives a broker up;
		// ReplicaLag after which lag a follower leaves the in-sync set.
		SessionTimeout() time.Duration
		ReplicaLag() time.Duration
	}

	// SegmentReader can read the segment files of a replica.
	SegmentReader interface {
		// CopySegments copies the segment files of a replica of a partition (as
		// 00000000000000000000.log) into a folder, which is there.
		CopySegments(ctx context.Context, broker int32, topic string, partition int32, folder string) error
	}

	// Documenter can write down what the brokers were.
	Documenter interface {
		// Document writes each broker's log, configuration and version into the
		// folder, which is there.
		Document(ctx context.Context, folder string) error
	}
)

// Process is what a broker's process is like.
type Process struct {
	Running, Paused bool
	// Started is another one after each start.
	Started string
}

// Exit is the end of a broker's process that nobody asked for.
type Exit struct {
	Broker   int32
	ExitCode int
	// OutOfMemory: the kernel killed it for the memory that it took.
	OutOfMemory bool
	// LastLines of its log.
	LastLines string
}

// String says it in one line, without the log.
func (e Exit) String() string {
	why := fmt.Sprintf("with status %d", e.ExitCode)
	if e.OutOfMemory {
		why = "killed by the kernel for the memory that it took"
	}
	return fmt.Sprintf("broker %d ended by itself, %s", e.Broker, why)
}

// withAdvice says it with what the reader can do, where that is known.
func (e Exit) withAdvice() string {
	if e.OutOfMemory {
		return e.String() + "; give the brokers more (--broker-memory)"
	}
	return e.String()
}

// Direction of packets, seen from a broker.
type Direction string

// The directions.
const (
	Inbound  Direction = "in"
	Outbound Direction = "out"
)

// Clients stands for everybody who is no broker.
const Clients int32 = -1

// Drop says which packets are dropped, in the network namespace of a broker.
type Drop struct {
	Broker    int32
	Direction Direction
	// Peer is the broker on the other side, or Clients.
	Peer int32
	// ReplicationOnly: only what belongs to connections that others made to this
	// broker's listener for brokers, as followers do to fetch.
	ReplicationOnly bool
	// ControllerOnly: only what belongs to connections that others made to this broker's
	// listener for the metadata quorum, as brokers do to ask the active controller, and
	// voters to fetch. Not both.
	ControllerOnly bool
	// Percent of the packets that are dropped; 100: all.
	Percent int
}

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
