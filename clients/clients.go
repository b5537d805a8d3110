// This file holds the interfaces that a client library is put behind. An adapter
// implements them; whoever plays a workload knows nothing else of a library.

package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// Library is a Kafka client library that can be put to the test. It may be used
// concurrently.
type Library interface {
	// Name and Version as they stand in histories, as "franz-go" and "v1.22.3".
	Name() string
	Version() string
	// Effective gives the properties that are in force when these are asked for,
	// with the library's own defaults, under Kafka's names; None is a limit that
	// there is not. It fails with a *RefusedError where Kafka refuses a combination
	// that depends on defaults, and with a *NotApplicableError for what the library
	// cannot honour.
	Effective(ctx context.Context, properties Properties) (map[string]string, error)
	// NewProducer opens a recording producer. It need not reach the cluster, and
	// fails as Effective does.
	NewProducer(ctx context.Context, options ProducerOptions) (Producer, error)
	// NewConsumer opens a recording consumer. It need not reach the cluster.
	NewConsumer(ctx context.Context, options ConsumerOptions) (Consumer, error)
}

// Connection says how a client reaches the cluster.
type Connection struct {
	// Seeds are bootstrap addresses, "host:port".
	Seeds []string
	// Dial opens connections; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ProducerOptions opens a producer session.
type ProducerOptions struct {
	Recorder   *Recorder
	Connection Connection
	// Name of the session, unique in the run: the process in the history, and the
	// client's id on the wire.
	Name string
	// Continues names the session that this one is a restart of.
	Continues string
	// Fresh: opened after the cluster said that it is whole, to see whether it
	// serves again.
	Fresh      bool
	Properties Properties
	// ChoosePartition: every send names its partition; otherwise none does, and the
	// client's partitioner chooses.
	ChoosePartition bool
	// LargestValue is the size in bytes of the largest value that will be sent, so
	// that a property which forbids it is refused before anything is sent.
	LargestValue int
	// AttemptsVisible: the wire is observed by the same recorder, so that every
	// request of this producer has its line.
	AttemptsVisible bool
}

// ErrClosed is returned by Send and Poll of a client that is closed or closing.
var ErrClosed = errors.New("the client is closed")

// Producer is a recording producer session. Its methods may be called
// concurrently.
type Producer interface {
	// Send hands one event to the library and returns; the completion is recorded
	// when the library gives it. It waits for buffer space as the library does, at
	// most until ctx ends; the completion of what was handed over does not depend
	// on ctx. An error says that nothing was handed over: ctx ended before that, the
	// producer is closed, or the history can no longer be written.
	Send(ctx context.Context, request SendRequest) error
	// Close waits for outstanding sends, at most for drain or until ctx ends, records
	// what is then still outstanding as unknown, closes the library's client and
	// waits for everything of it to end. What the library says meanwhile is recorded
	// as a second completion. It returns the number of sends that were recorded as
	// unknown. A second Close does nothing.
	Close(ctx context.Context, drain time.Duration) (unknown int, err error)
	// Crash ends the session at once, as a kill of its process does: its connections are
	// closed, nothing is flushed, and what has no completion gets none. A Close after it
	// does nothing.
	Crash(ctx context.Context) error
}

// SendRequest is one send.
type SendRequest struct {
	Topic string
	// Partition is used only with ProducerOptions.ChoosePartition.
	Partition int32
	// Key of the record, and the ordering key. Empty: a record without a key.
	Key string
	// ValueSize of the record in bytes.
	ValueSize int
	// Again sends an event again that was sent before; nil: a new event of this
	// producer, numbered by it. Topic and Key must be those of the first time.
	Again *Resend
	// Done, if given, is called once, when the send has its first completion: from a
	// goroutine of the library, so it must be fast and must not call the producer.
	Done func(SendResult)
}

// Resend names an event that is sent again by the application.
type Resend struct {
	Event Event
	Of    histories.OperationID
}

// SendResult is the completion of a send as the library gave it.
type SendResult struct {
	Event     string
	Operation histories.OperationID
	// Partition and Offset as acknowledged, or histories.Unknown.
	Partition int32
	Offset    int64
	// Err is nil for success.
	Err error
	// Closed: the library had given no result when the recorder gave up waiting.
	Closed bool
}

// ConsumerOptions opens a consumer session.
type ConsumerOptions struct {
	Recorder   *Recorder
	Connection Connection
	// Name of the session, unique in the run.
	Name string
	// Assignment is read from the given positions; every position must be known.
	Assignment []histories.PartitionPosition
	// Isolation level; empty: histories.ReadUncommitted.
	Isolation string
	// MaxPollRecords bounds what one poll returns; zero: 500, as Kafka's default.
	MaxPollRecords int
	// Group, if given, is the group whose offsets are committed; the assignment stays
	// fixed. Polling begins at the group's committed offsets, and at the assignment's
	// positions where it has none.
	Group string
	// Continues names the session that this one is a restart of.
	Continues string
}

// Consumer is a recording consumer session with a fixed assignment. One goroutine
// at a time may call Poll.
type Consumer interface {
	// Poll waits for records or until ctx ends, and records what it was given. What
	// goes wrong with single partitions is recorded, and no error; a position that
	// fell out of the log is reset to the nearest that the log has, which is recorded
	// too. The error says that polling is over: the client is closed, or the history
	// can no longer be written.
	Poll(ctx context.Context) (records int, err error)
	// Commit commits the positions behind everything that was delivered, for the group,
	// and records how that ended; a commit that is refused is no error. The error says
	// that there is no group, that the client is closed, or that the history can no longer
	// be written.
	Commit(ctx context.Context) error
	// Close ends the session and everything that it runs. A second Close does
	// nothing.
	Close() error
	// Crash ends the session at once, as a kill of its process does: nothing is committed.
	Crash(ctx context.Context) error
}

// refused records that a library refused to open a producer, and gives the error.
func (o ProducerOptions) refused(library Library, err error) error {
	var refused *RefusedError
	var notApplicable *NotApplicableError
	if o.Recorder != nil && (errors.As(err, &refused) || errors.As(err, &notApplicable)) {
		class := "ConfigException"
		if refused == nil {
			class = "not applicable"
		}
		_ = o.Recorder.Write(&histories.ProducerRefused{Name: o.Name, Time: o.Recorder.Now(), Client: library.Name(),
			ClientVersion: library.Version(), Requested: o.Properties.Given(), ClientError: class, Message: err.Error(),
		}) // the recorder keeps the error, and the run stops by it
	}
	return fmt.Errorf("opening the producer %s: %w", o.Name, err)
}
