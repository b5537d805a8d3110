// This file holds the header of a history: the first line, which says where the
// operations come from and what was configured, under Kafka's own property
// names.

package histories

import "time"

// FormatMajor and FormatMinor are the version of the file format that this
// package writes. A reader refuses a newer major version and tolerates fields
// and line kinds that a newer minor version added.
const (
	FormatMajor = 1
	FormatMinor = 2
)

// Header is the first line of a history. Whatever it leaves empty is unknown,
// and the checker judges only what holds whatever the unknown value is.
type Header struct {
	// Run identifies the run. Records of another run are foreign.
	Run string
	// Tool is the program that recorded the history, with its version.
	Tool string
	// Started is the wall time of time zero on Clock. Zero: unknown.
	Started time.Time
	// Clock is the id of the clock that stamped every line whose session does
	// not name another one. Times of different clocks are never compared.
	Clock string
	// Seed is the seed of the workload and of the fault schedule.
	Seed int64
	// Scenario is the name of what was played, where it has one.
	Scenario string
	// Cluster describes the brokers. Nil: unknown.
	Cluster *Cluster
	// Topics are the topics of the run, with the properties in force.
	Topics []Topic
	// Producer holds the producer properties that are in force for every
	// session whose own line gives none. Nil: unknown.
	Producer map[string]string
	// Source is set by an importer. Nil: recorded by Ackproof or to its format.
	Source *Source
	// Effects are fault effects known beforehand, as EffectUncleanElection;
	// those of injected faults stand in their FaultEnd lines.
	Effects []string
}

// Cluster describes the cluster that a history was recorded against.
type Cluster struct {
	// Provider is how the cluster came to be: embedded, containers, external.
	Provider string
	// Version is the brokers' software and version, as "kafka 4.1.0".
	Version string
	// Brokers are the node ids.
	Brokers []int32
	// Features are the finalised feature levels, as "transaction.version": "2".
	Features map[string]string
	// CannotBreak names anomalies that nothing on this cluster can produce, in
	// kebab case, as "replica-divergence" where there is no replication. Their
	// promises are not-tested unless they are found all the same.
	CannotBreak []string
	// Properties are the brokers' properties that bear on promises.
	Properties map[string]string
}

// Topic is one topic of a run.
type Topic struct {
	Name string
	// Partitions is their number at the start. Zero: unknown.
	Partitions int32
	// ReplicationFactor of the topic. Zero: unknown.
	ReplicationFactor int16
	// Properties are the topic's properties in force (own or inherited), under
	// Kafka's names: min.insync.replicas, unclean.leader.election.enable,
	// cleanup.policy, retention.ms, … Nil: unknown.
	Properties map[string]string
	// Start gives the log end of each partition before the first send, by
	// partition; nil: unknown. A log that was not empty is an assumption broken
	// only if it held records of this run.
	Start []int64
}

// Source says what an imported history was, and what its format cannot say.
type Source struct {
	// Format is the name of the imported format, as "jepsen-edn".
	Format string
	// StatesOutcomes: ok, fail and info come from the recorder of that format
	// and are taken as stated.
	StatesOutcomes bool
	// NotApplicable names assumptions (see package checker) that the format
	// cannot support and that are therefore not asked for.
	NotApplicable []string
	// Notes are counts of what the importer could not use, for the verdict.
	Notes []string
}

// Effects of faults that change what is promised.
const (
	EffectUncleanElection     = "unclean-election"
	EffectUnsyncedWritesLost  = "unsynced-writes-lost"
	EffectDiskLost            = "disk-lost"
	EffectPartitionsAdded     = "partitions-added"
	EffectRecordsDeleted      = "records-deleted"
	EffectTopicRecreated      = "topic-recreated"
	EffectBrokerMisbehaved    = "broker-misbehaved"
	EffectProducerStateShrunk = "producer-state-shrunk"
)

// Kafka's property names that the checker and the clients both speak of.
const (
	PropertyAcks              = "acks"
	PropertyIdempotence       = "enable.idempotence"
	PropertyMaxInFlight       = "max.in.flight.requests.per.connection"
	PropertyRetries           = "retries"
	PropertyDeliveryTimeout   = "delivery.timeout.ms"
	PropertyRequestTimeout    = "request.timeout.ms"
	PropertyRetryBackoff      = "retry.backoff.ms"
	PropertyLinger            = "linger.ms"
	PropertyBatchSize         = "batch.size"
	PropertyBufferMemory      = "buffer.memory"
	PropertyCompression       = "compression.type"
	PropertyPartitioner       = "partitioner.class"
	PropertyTransactionalID   = "transactional.id"
	PropertyIsolation         = "isolation.level"
	PropertyMinInsyncReplicas = "min.insync.replicas"
	PropertyUncleanElection   = "unclean.leader.election.enable"
	PropertyCleanupPolicy     = "cleanup.policy"
	PropertyRetention         = "retention.ms"
	PropertyRetentionBytes    = "retention.bytes"
)

// Isolation levels under Kafka's names.
const (
	ReadUncommitted = "read_uncommitted"
	ReadCommitted   = "read_committed"
)
