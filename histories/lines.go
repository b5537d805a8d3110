// This file holds the kinds of lines that a history is made of. Their JSON form
// is in FORMAT.md and codec.go.

package histories

// Line is one line of a history after the header: a pointer to one of the types
// of this file. The set is closed.
//
// All times are nanoseconds on the clock of the session that the line belongs
// to (Producer.Clock, Consumer.Clock, else Header.Clock), counted from the
// start of the run.
type Line interface{ line() }

// Unknown stands in numeric fields (partition, offset, rank, position, epoch)
// whose value is not known or not reported.
const Unknown = -1

// Outcome is a stated outcome: what an imported history claims. Histories of
// our own leave it empty and let package checker decide from the raw result.
type Outcome string

// The outcomes, in Jepsen's words.
const (
	OutcomeOK   Outcome = "ok"   // acknowledged
	OutcomeFail Outcome = "fail" // certainly not written
	OutcomeInfo Outcome = "info" // unknown: written now, later or never
)

// OperationID names an operation: Number counts from 0 in each process, in
// invocation order, without gaps.
type OperationID struct {
	Process string
	Number  int64
}

// Partition names a partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Producer opens a producer session: from the creation of a client to its close
// or crash. The sends of the session carry its name as their process.
type Producer struct {
	Name string
	Time int64
	// Clock that stamps this session's lines; empty: Header.Clock.
	Clock string
	// Client library and its version, as "franz-go" and "v1.22.3".
	Client        string
	ClientVersion string
	// Requested are the properties as the user gave them, secrets removed.
	Requested map[string]string
	// Properties are the ones in force; nil: Header.Producer holds.
	Properties map[string]string
	// Continues names the session that this one is a restart of.
	Continues string
	// AttemptsVisible: every request of this session that carried a batch has an
	// Attempt line. Otherwise an error after the hand-over is always unknown.
	AttemptsVisible bool
	// Fresh: made after the cluster said that it is whole, to see whether it
	// serves again (the anomaly not-recovered).
	Fresh bool
}

// ProducerClose ends a producer session.
type ProducerClose struct {
	Name string
	Time int64
	// Crashed: ended without waiting for what was outstanding.
	Crashed bool
}

// ProducerRefused says that a client library refused to open a producer: no session
// came of it.
type ProducerRefused struct {
	Name          string
	Time          int64
	Client        string
	ClientVersion string
	// Requested are the properties as the user gave them, secrets removed.
	Requested map[string]string
	// ClientError is the library's own error class, Message its text.
	ClientError string
	Message     string
}

// Consumer opens a consumer session; its polls carry its name as their process.
type Consumer struct {
	Name          string
	Time          int64
	Clock         string
	Client        string
	ClientVersion string
	// Properties in force: isolation.level, group.id, auto.offset.reset, …
	Properties map[string]string
	// Continues is the session that this one is a restart of.
	Continues string
}

// ConsumerClose ends a consumer session.
type ConsumerClose struct {
	Name    string
	Time    int64
	Crashed bool
}

// Send is the invocation of a send: one event handed to a client library.
type Send struct {
	OperationID
	Time int64
	// Event is the identity: opaque, equal for the same event only, unique in a
	// history. Ours is "origin/key/number".
	Event string
	Topic string
	// Partition that the application asked for; Unknown: the client chooses.
	Partition int32
	// OrderingKey is what order is promised within, beside producer and
	// partition: the record's key with ours, the partition with Jepsen's.
	OrderingKey string
	// Rank is the place in the send order of this producer and ordering key,
	// from 0; Unknown: order is not judged for it.
	Rank int64
	// ResendOf names the earlier send of the same event, when the application
	// sends an event again. Nil: the event's first send.
	ResendOf *OperationID
}

// SendReturn is the completion of a send. A second one for the same operation
// is an acknowledgement (or an error) that came after the recorder had closed
// the operation as unknown; it counts.
type SendReturn struct {
	OperationID
	Time int64
	// Partition and Offset as acknowledged, or Unknown.
	Partition int32
	Offset    int64
	// Error is the name of the Kafka error that the client reported, as in the
	// table of codes; empty: success.
	Error string
	// ClientError is the client library's own error class, as in the table of
	// client errors ("RecordTimeout"), when it was not a Kafka error.
	ClientError string
	// Message is the raw text of the error.
	Message string
	// Closed: the recorder gave up waiting; the client had not answered.
	Closed bool
	// Stated outcome of an imported history.
	Stated Outcome
}

// Range is an inclusive range of operation numbers of one process.
type Range struct{ First, Last int64 }

// What happened to a request instead of an answer.
const (
	// LostConnection: the connection ended before the answer came.
	LostConnection = "connection-closed"
	// LostSilence: no answer came while the connection stayed open.
	LostSilence = "no-answer"
	// LostAcksZero: acks=0, no answer is ever sent.
	LostAcksZero = "acks-0"
)

// Attempt is one request that carried one batch of a producer over the wire,
// with its answer or with what happened instead. It is written when its fate is
// known; Time is when the request was seen, End when its fate was.
type Attempt struct {
	Process     string
	Time        int64
	End         int64
	Broker      int32
	Connection  int64
	Correlation int32
	Topic       string
	Partition   int32
	// ProducerID, Epoch and Sequence of the batch; Unknown without idempotence.
	ProducerID int64
	Epoch      int16
	Sequence   int32
	// Sends are the batch's records, as operation numbers of Process, in batch
	// order; Unnamed counts records that could not be read as events.
	Sends   []Range
	Unnamed int64
	// Answer is the name of the code that the client was given ("NONE" is
	// success); empty: it was given none, and Lost says what happened instead.
	Answer string
	Lost   string
	// Offset is the base offset in the answer, or Unknown.
	Offset int64
	// Reached: the whole request was handed to the broker's connection.
	Reached bool
	// BrokerAnswer and BrokerOffset are what the broker answered, where that
	// was seen and is not what the client was given.
	BrokerAnswer string
	BrokerOffset int64
	// Fault is the id of the wire fault that acted on this request.
	Fault string
	// Bytes is the size of the batch as it was sent, Uncompressed the one that it has
	// without compression; zero: not known.
	Bytes        int64
	Uncompressed int64
}

// Record is one record as it was read.
type Record struct {
	Offset int64
	// Event is the identity that was read from it; empty: foreign, a record
	// that is not an event of this run.
	Event string
	// Corrupt says what differs from what was sent ("value", "checksum",
	// "headers", …); empty: nothing.
	Corrupt string
}

// Records are records of one partition, in the order in which they were read,
// from batches of one leader epoch.
type Records struct {
	Partition
	// LeaderEpoch of the batches, or Unknown.
	LeaderEpoch int32
	Records     []Record
}

// Poll is the invocation of a poll.
type Poll struct {
	OperationID
	Time int64
}

// PollReturn is the completion of a poll, with what the consumer was given.
type PollReturn struct {
	OperationID
	Time    int64
	Records []Records
	// Error names what went wrong in a part of the poll, if anything.
	Error string
	// Stated outcome of an imported history (a poll inside an operation that
	// failed or crashed there). Empty is ok.
	Stated Outcome
}

// PartitionPosition is a partition with a consumer's position in it: the offset
// of the next record that it is due, or Unknown.
type PartitionPosition struct {
	Partition
	Position int64
}

// How a consumer's assignment or position changed.
const (
	// ChangeAssign replaces the assignment. A partition that it had before
	// keeps its position unless one is given.
	ChangeAssign = "assign"
	// ChangeSubscribe replaces the assignment by whatever the group gives; any
	// position may be reset.
	ChangeSubscribe = "subscribe"
	// ChangeAdd adds partitions (an incremental rebalance), ChangeRevoke takes
	// the listed ones away.
	ChangeAdd    = "add"
	ChangeRevoke = "revoke"
	// ChangeSeek sets positions on the application's wish, ChangeReset on the
	// client library's (offset out of range, truncation found).
	ChangeSeek  = "seek"
	ChangeReset = "reset"
)

// PositionChange is a change of a consumer's assignment or position of any
// kind: between two records that it was given there was one, or there was none.
type PositionChange struct {
	Process    string
	Time       int64
	How        string
	Partitions []PartitionPosition
	Reason     string
}

// Commit is the invocation of a group's commit by a consumer session.
type Commit struct {
	OperationID
	Time    int64
	Group   string
	Offsets []PartitionPosition
}

// CommitReturn is its completion.
type CommitReturn struct {
	OperationID
	Time int64
	// Error is Kafka's name of the error that the client reported, ClientError the
	// client library's own error class where it is none, Message its text. None of
	// them: it was acknowledged.
	Error       string
	ClientError string
	Message     string
}

// FaultStart says that a fault is about to be injected; it is written before.
type FaultStart struct {
	// ID is unique in the history, as "lost-response#3".
	ID   string
	Name string
	// Target in words: "leader of orders/0: broker 2".
	Target   string
	Settings map[string]string
	Time     int64
	// Lie: no healthy broker behaves so; a planted broker is being judged.
	Lie bool
}

// FaultEnd says that a fault was undone (or could not be).
type FaultEnd struct {
	ID   string
	Time int64
	// Bit: there is evidence that the fault took effect.
	Bit      bool
	Evidence string
	// Effects that change what is promised, as EffectUncleanElection.
	Effects []string
	// Error of injecting or undoing it; empty: none.
	Error string
}

// What the runner learnt about the cluster.
const (
	// ClusterHealed: every fault is undone, every process runs.
	ClusterHealed = "healed"
	// ClusterWhole: the cluster says that it is whole.
	ClusterWhole = "whole"
	// ClusterNotWhole: it did not become whole within the limit.
	ClusterNotWhole = "not-whole"
	// ClusterNotHealed: a fault could not be undone.
	ClusterNotHealed = "not-healed"
	// ClusterLeader: a partition's leader changed.
	ClusterLeader = "leader"
	// ClusterBrokerExited: a broker's process ended though nobody asked for it, and
	// does not run.
	ClusterBrokerExited = "broker-exited"
)

// ClusterEvent is something that the runner learnt about the cluster.
type ClusterEvent struct {
	Time   int64
	What   string
	Detail string
}

// FinalRecords are records of the final read, in offset order per partition and
// isolation level. A partition's final read may spread over many lines.
type FinalRecords struct {
	Isolation string
	Records
}

// FinalRead closes the final read of a partition at one isolation level. An
// offset that is not known is Unknown. See "final read" in the design: it is
// complete when HighWatermark, Position and LogEnd agree and the second look
// found the same end.
type FinalRead struct {
	Partition
	Isolation string
	Time      int64
	LogStart  int64
	// HighWatermark (for read_committed: last stable offset) as ListOffsets
	// gave it.
	HighWatermark int64
	// LogEnd is the leader's log end: OffsetForLeaderEpoch of its epoch.
	LogEnd      int64
	LeaderEpoch int32
	// Position is the offset after the last record or control record read.
	Position int64
	// SecondHighWatermark and SecondLogEnd are the second look.
	SecondHighWatermark int64
	SecondLogEnd        int64
	// SecondAfterMs is how long after the first look the second was taken.
	SecondAfterMs int64
	// Error that ended the read early; empty: none.
	Error string
}

// How one replica's log was read.
const (
	// SourceFetch: plain consumer fetches that this broker itself answered. They
	// show its log up to its own high watermark.
	SourceFetch = "fetch"
	// SourceSegments: the segment files of the replica. They show all of its log.
	SourceSegments = "segments"
)

// ReplicaRecord is one record as it lies in one replica's log.
type ReplicaRecord struct {
	Record
	// Digest stands for the content of a record that its event does not stand for
	// (a foreign, a corrupt, a control record): equal for equal content, different
	// for different. Empty: the event stands for all of it.
	Digest string
}

// ReplicaRecords are records of one replica's log of one partition, control records
// included, in offset order. One read of a replica may spread over many lines.
type ReplicaRecords struct {
	Partition
	// Replica is the broker's node id.
	Replica int32
	// Source: SourceFetch or SourceSegments.
	Source string
	// LeaderEpoch of the batches, or Unknown.
	LeaderEpoch int32
	Records     []ReplicaRecord
}

// ReplicaRead closes the read of one replica of one partition from one source. It
// is taken after the final read. An offset that is not known is Unknown.
type ReplicaRead struct {
	Partition
	Replica int32
	Source  string
	Time    int64
	// LogStart is where this replica's log starts: as its fetch answers say, or the
	// base offset of its first segment file.
	LogStart int64
	// HighWatermark is this replica's own (SourceFetch).
	HighWatermark int64
	// LogEnd is the offset after the last whole batch (SourceSegments), if the read
	// got there.
	LogEnd int64
	// Position is the offset after the last record or batch read.
	Position int64
	// Error that ended the read early; empty: none. What was read before it stands.
	Error string
}

// Note is something worth knowing that no other line can say.
type Note struct {
	Time int64
	Text string
}

// Reasons of an End.
const (
	EndFinished    = "finished"
	EndInterrupted = "interrupted"
)

// End is the last line of a history that was written whole.
type End struct {
	Time int64
	// Reason: EndFinished, or EndInterrupted after ctrl-C.
	Reason string
}

func (*Producer) line()        {}
func (*ProducerClose) line()   {}
func (*ProducerRefused) line() {}
func (*Consumer) line()        {}
func (*ConsumerClose) line()   {}
func (*Send) line()            {}
func (*SendReturn) line()      {}
func (*Attempt) line()         {}
func (*Poll) line()            {}
func (*PollReturn) line()      {}
func (*PositionChange) line()  {}
func (*Commit) line()          {}
func (*CommitReturn) line()    {}
func (*FaultStart) line()      {}
func (*FaultEnd) line()        {}
func (*ClusterEvent) line()    {}
func (*FinalRecords) line()    {}
func (*FinalRead) line()       {}
func (*ReplicaRecords) line()  {}
func (*ReplicaRead) line()     {}
func (*Note) line()            {}
func (*End) line()             {}
