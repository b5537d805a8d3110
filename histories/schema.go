// This file holds the format's tables: the name of every kind of line, and its
// fields in the order in which they are written. FORMAT.md says the same in
// words, and its examples are tested against these tables.

package histories

import (
	"time"

	"github.com/go-faster/jx"
)

// The names of the kinds of lines.
const (
	lineHeader          = "header"
	lineProducer        = "producer"
	lineProducerClose   = "producer-close"
	lineProducerRefused = "producer-refused"
	lineConsumer        = "consumer"
	lineConsumerClose   = "consumer-close"
	lineSend            = "send"
	lineSendReturn      = "send-return"
	lineAttempt         = "attempt"
	linePoll            = "poll"
	linePollReturn      = "poll-return"
	linePositionChange  = "position-change"
	lineCommit          = "commit"
	lineCommitReturn    = "commit-return"
	lineFaultStart      = "fault-start"
	lineFaultEnd        = "fault-end"
	lineCluster         = "cluster"
	lineFinalRecords    = "final-records"
	lineFinalRead       = "final-read"
	lineReplicaRecords  = "replica-records"
	lineReplicaRead     = "replica-read"
	lineNote            = "note"
	lineEnd             = "end"
)

// formatName is the value of the header's format field.
const formatName = "ackproof-history"

// headerFields are the header's, after line, format and version.
var headerFields = []field[Header]{
	newField("run", func(h *Header) *string { return &h.Run }, text),
	newField("tool", func(h *Header) *string { return &h.Tool }, text),
	newField("started", func(h *Header) *time.Time { return &h.Started }, wallTime),
	newField("clock", func(h *Header) *string { return &h.Clock }, text),
	newField("seed", func(h *Header) *int64 { return &h.Seed }, count64),
	newField("scenario", func(h *Header) *string { return &h.Scenario }, text),
	newField("cluster", func(h *Header) **Cluster { return &h.Cluster }, optional(object(clusterFields, Cluster{}))),
	newField("topics", func(h *Header) *[]Topic { return &h.Topics }, list(object(topicFields, Topic{}))),
	newField("producer", func(h *Header) *map[string]string { return &h.Producer }, textMap),
	newField("source", func(h *Header) **Source { return &h.Source }, optional(object(sourceFields, Source{}))),
	newField("effects", func(h *Header) *[]string { return &h.Effects }, textList),
}

var clusterFields = []field[Cluster]{
	newField("provider", func(c *Cluster) *string { return &c.Provider }, text),
	newField("version", func(c *Cluster) *string { return &c.Version }, text),
	newField("brokers", func(c *Cluster) *[]int32 { return &c.Brokers }, list(number32)),
	newField("features", func(c *Cluster) *map[string]string { return &c.Features }, textMap),
	newField("cannot_break", func(c *Cluster) *[]string { return &c.CannotBreak }, textList),
	newField("properties", func(c *Cluster) *map[string]string { return &c.Properties }, textMap),
}

var topicFields = []field[Topic]{
	must("name", func(t *Topic) *string { return &t.Name }, text),
	newField("partitions", func(t *Topic) *int32 { return &t.Partitions }, count32),
	newField("replication_factor", func(t *Topic) *int16 { return &t.ReplicationFactor }, count16),
	newField("properties", func(t *Topic) *map[string]string { return &t.Properties }, textMap),
	newField("start", func(t *Topic) *[]int64 { return &t.Start }, list(number64)),
}

var sourceFields = []field[Source]{
	newField("format", func(s *Source) *string { return &s.Format }, text),
	newField("states_outcomes", func(s *Source) *bool { return &s.StatesOutcomes }, truth),
	newField("not_applicable", func(s *Source) *[]string { return &s.NotApplicable }, textList),
	newField("notes", func(s *Source) *[]string { return &s.Notes }, textList),
}

var producerFields = []field[Producer]{
	must("name", func(p *Producer) *string { return &p.Name }, nameText),
	must("time", func(p *Producer) *int64 { return &p.Time }, number64),
	newField("clock", func(p *Producer) *string { return &p.Clock }, nameText),
	newField("client", func(p *Producer) *string { return &p.Client }, nameText),
	newField("client_version", func(p *Producer) *string { return &p.ClientVersion }, nameText),
	newField("requested", func(p *Producer) *map[string]string { return &p.Requested }, textMap),
	newField("properties", func(p *Producer) *map[string]string { return &p.Properties }, textMap),
	newField("continues", func(p *Producer) *string { return &p.Continues }, nameText),
	newField("attempts_visible", func(p *Producer) *bool { return &p.AttemptsVisible }, truth),
	newField("fresh", func(p *Producer) *bool { return &p.Fresh }, truth),
}

var producerCloseFields = []field[ProducerClose]{
	must("name", func(p *ProducerClose) *string { return &p.Name }, nameText),
	must("time", func(p *ProducerClose) *int64 { return &p.Time }, number64),
	newField("crashed", func(p *ProducerClose) *bool { return &p.Crashed }, truth),
}

var producerRefusedFields = []field[ProducerRefused]{
	must("name", func(p *ProducerRefused) *string { return &p.Name }, nameText),
	must("time", func(p *ProducerRefused) *int64 { return &p.Time }, number64),
	newField("client", func(p *ProducerRefused) *string { return &p.Client }, nameText),
	newField("client_version", func(p *ProducerRefused) *string { return &p.ClientVersion }, nameText),
	newField("requested", func(p *ProducerRefused) *map[string]string { return &p.Requested }, textMap),
	newField("client_error", func(p *ProducerRefused) *string { return &p.ClientError }, nameText),
	newField("message", func(p *ProducerRefused) *string { return &p.Message }, text),
}

var commitFields = []field[Commit]{
	must("process", func(c *Commit) *string { return &c.Process }, nameText),
	must("number", func(c *Commit) *int64 { return &c.Number }, number64),
	must("time", func(c *Commit) *int64 { return &c.Time }, number64),
	newField("group", func(c *Commit) *string { return &c.Group }, nameText),
	newField("offsets", func(c *Commit) *[]PartitionPosition { return &c.Offsets },
		list(object(positionFields, PartitionPosition{Partition{Partition: Unknown}, Unknown}))),
}

var commitReturnFields = []field[CommitReturn]{
	must("process", func(c *CommitReturn) *string { return &c.Process }, nameText),
	must("number", func(c *CommitReturn) *int64 { return &c.Number }, number64),
	must("time", func(c *CommitReturn) *int64 { return &c.Time }, number64),
	newField("error", func(c *CommitReturn) *string { return &c.Error }, nameText),
	newField("client_error", func(c *CommitReturn) *string { return &c.ClientError }, nameText),
	newField("message", func(c *CommitReturn) *string { return &c.Message }, text),
}

var consumerFields = []field[Consumer]{
	must("name", func(c *Consumer) *string { return &c.Name }, nameText),
	must("time", func(c *Consumer) *int64 { return &c.Time }, number64),
	newField("clock", func(c *Consumer) *string { return &c.Clock }, nameText),
	newField("client", func(c *Consumer) *string { return &c.Client }, nameText),
	newField("client_version", func(c *Consumer) *string { return &c.ClientVersion }, nameText),
	newField("properties", func(c *Consumer) *map[string]string { return &c.Properties }, textMap),
	newField("continues", func(c *Consumer) *string { return &c.Continues }, nameText),
}

var consumerCloseFields = []field[ConsumerClose]{
	must("name", func(c *ConsumerClose) *string { return &c.Name }, nameText),
	must("time", func(c *ConsumerClose) *int64 { return &c.Time }, number64),
	newField("crashed", func(c *ConsumerClose) *bool { return &c.Crashed }, truth),
}

var sendFields = []field[Send]{
	must("process", func(s *Send) *string { return &s.Process }, nameText),
	must("number", func(s *Send) *int64 { return &s.Number }, number64),
	must("time", func(s *Send) *int64 { return &s.Time }, number64),
	must("event", func(s *Send) *string { return &s.Event }, text),
	newField("topic", func(s *Send) *string { return &s.Topic }, nameText),
	newField("partition", func(s *Send) *int32 { return &s.Partition }, number32),
	newField("ordering_key", func(s *Send) *string { return &s.OrderingKey }, nameText),
	newField("rank", func(s *Send) *int64 { return &s.Rank }, number64),
	newField("resend_of", func(s *Send) **OperationID { return &s.ResendOf },
		optional(object(operationFields, OperationID{}))),
}

var operationFields = []field[OperationID]{
	must("process", func(o *OperationID) *string { return &o.Process }, nameText),
	must("number", func(o *OperationID) *int64 { return &o.Number }, number64),
}

var sendReturnFields = []field[SendReturn]{
	must("process", func(s *SendReturn) *string { return &s.Process }, nameText),
	must("number", func(s *SendReturn) *int64 { return &s.Number }, number64),
	must("time", func(s *SendReturn) *int64 { return &s.Time }, number64),
	newField("partition", func(s *SendReturn) *int32 { return &s.Partition }, number32),
	newField("offset", func(s *SendReturn) *int64 { return &s.Offset }, number64),
	newField("error", func(s *SendReturn) *string { return &s.Error }, nameText),
	newField("client_error", func(s *SendReturn) *string { return &s.ClientError }, nameText),
	newField("message", func(s *SendReturn) *string { return &s.Message }, nameText),
	newField("closed", func(s *SendReturn) *bool { return &s.Closed }, truth),
	newField("stated", func(s *SendReturn) *Outcome { return &s.Stated }, outcome),
}

var attemptFields = []field[Attempt]{
	must("process", func(a *Attempt) *string { return &a.Process }, nameText),
	must("time", func(a *Attempt) *int64 { return &a.Time }, number64),
	must("end", func(a *Attempt) *int64 { return &a.End }, number64),
	newField("broker", func(a *Attempt) *int32 { return &a.Broker }, number32),
	newField("connection", func(a *Attempt) *int64 { return &a.Connection }, number64),
	newField("correlation", func(a *Attempt) *int32 { return &a.Correlation }, number32),
	newField("topic", func(a *Attempt) *string { return &a.Topic }, nameText),
	newField("partition", func(a *Attempt) *int32 { return &a.Partition }, number32),
	newField("producer_id", func(a *Attempt) *int64 { return &a.ProducerID }, number64),
	newField("epoch", func(a *Attempt) *int16 { return &a.Epoch }, number16),
	newField("sequence", func(a *Attempt) *int32 { return &a.Sequence }, number32),
	newField("sends", func(a *Attempt) *[]Range { return &a.Sends }, ranges),
	newField("unnamed", func(a *Attempt) *int64 { return &a.Unnamed }, count64),
	newField("answer", func(a *Attempt) *string { return &a.Answer }, nameText),
	newField("lost", func(a *Attempt) *string { return &a.Lost }, nameText),
	newField("offset", func(a *Attempt) *int64 { return &a.Offset }, number64),
	newField("reached", func(a *Attempt) *bool { return &a.Reached }, truth),
	newField("broker_answer", func(a *Attempt) *string { return &a.BrokerAnswer }, nameText),
	newField("broker_offset", func(a *Attempt) *int64 { return &a.BrokerOffset }, number64),
	newField("fault", func(a *Attempt) *string { return &a.Fault }, nameText),
	newField("bytes", func(a *Attempt) *int64 { return &a.Bytes }, count64),
	newField("uncompressed", func(a *Attempt) *int64 { return &a.Uncompressed }, count64),
}

var pollFields = []field[Poll]{
	must("process", func(p *Poll) *string { return &p.Process }, nameText),
	must("number", func(p *Poll) *int64 { return &p.Number }, number64),
	must("time", func(p *Poll) *int64 { return &p.Time }, number64),
}

var pollReturnFields = []field[PollReturn]{
	must("process", func(p *PollReturn) *string { return &p.Process }, nameText),
	must("number", func(p *PollReturn) *int64 { return &p.Number }, number64),
	must("time", func(p *PollReturn) *int64 { return &p.Time }, number64),
	newField("records", func(p *PollReturn) *[]Records { return &p.Records },
		list(object(recordsFields, Records{LeaderEpoch: Unknown, Partition: Partition{Partition: Unknown}}))),
	newField("error", func(p *PollReturn) *string { return &p.Error }, nameText),
	newField("stated", func(p *PollReturn) *Outcome { return &p.Stated }, outcome),
}

var recordsFields = []field[Records]{
	newField("topic", func(r *Records) *string { return &r.Topic }, nameText),
	newField("partition", func(r *Records) *int32 { return &r.Partition.Partition }, number32),
	newField("leader_epoch", func(r *Records) *int32 { return &r.LeaderEpoch }, number32),
	newField("records", func(r *Records) *[]Record { return &r.Records }, records),
}

var positionChangeFields = []field[PositionChange]{
	must("process", func(p *PositionChange) *string { return &p.Process }, nameText),
	must("time", func(p *PositionChange) *int64 { return &p.Time }, number64),
	newField("how", func(p *PositionChange) *string { return &p.How }, nameText),
	newField("partitions", func(p *PositionChange) *[]PartitionPosition { return &p.Partitions },
		list(object(positionFields, PartitionPosition{Partition{Partition: Unknown}, Unknown}))),
	newField("reason", func(p *PositionChange) *string { return &p.Reason }, nameText),
}

var positionFields = []field[PartitionPosition]{
	newField("topic", func(p *PartitionPosition) *string { return &p.Topic }, nameText),
	newField("partition", func(p *PartitionPosition) *int32 { return &p.Partition.Partition }, number32),
	newField("position", func(p *PartitionPosition) *int64 { return &p.Position }, number64),
}

var faultStartFields = []field[FaultStart]{
	must("id", func(f *FaultStart) *string { return &f.ID }, text),
	newField("name", func(f *FaultStart) *string { return &f.Name }, nameText),
	newField("target", func(f *FaultStart) *string { return &f.Target }, text),
	newField("settings", func(f *FaultStart) *map[string]string { return &f.Settings }, textMap),
	must("time", func(f *FaultStart) *int64 { return &f.Time }, number64),
	newField("lie", func(f *FaultStart) *bool { return &f.Lie }, truth),
}

var faultEndFields = []field[FaultEnd]{
	must("id", func(f *FaultEnd) *string { return &f.ID }, text),
	must("time", func(f *FaultEnd) *int64 { return &f.Time }, number64),
	newField("bit", func(f *FaultEnd) *bool { return &f.Bit }, truth),
	newField("evidence", func(f *FaultEnd) *string { return &f.Evidence }, text),
	newField("effects", func(f *FaultEnd) *[]string { return &f.Effects }, textList),
	newField("error", func(f *FaultEnd) *string { return &f.Error }, text),
}

var clusterEventFields = []field[ClusterEvent]{
	must("time", func(c *ClusterEvent) *int64 { return &c.Time }, number64),
	newField("what", func(c *ClusterEvent) *string { return &c.What }, nameText),
	newField("detail", func(c *ClusterEvent) *string { return &c.Detail }, text),
}

var finalRecordsFields = []field[FinalRecords]{
	newField("isolation", func(f *FinalRecords) *string { return &f.Isolation }, nameText),
	newField("topic", func(f *FinalRecords) *string { return &f.Topic }, nameText),
	newField("partition", func(f *FinalRecords) *int32 { return &f.Partition.Partition }, number32),
	newField("leader_epoch", func(f *FinalRecords) *int32 { return &f.LeaderEpoch }, number32),
	newField("records", func(f *FinalRecords) *[]Record { return &f.Records.Records }, records),
}

var finalReadFields = []field[FinalRead]{
	newField("isolation", func(f *FinalRead) *string { return &f.Isolation }, nameText),
	newField("topic", func(f *FinalRead) *string { return &f.Topic }, nameText),
	newField("partition", func(f *FinalRead) *int32 { return &f.Partition.Partition }, number32),
	must("time", func(f *FinalRead) *int64 { return &f.Time }, number64),
	newField("log_start", func(f *FinalRead) *int64 { return &f.LogStart }, number64),
	newField("high_watermark", func(f *FinalRead) *int64 { return &f.HighWatermark }, number64),
	newField("log_end", func(f *FinalRead) *int64 { return &f.LogEnd }, number64),
	newField("leader_epoch", func(f *FinalRead) *int32 { return &f.LeaderEpoch }, number32),
	newField("position", func(f *FinalRead) *int64 { return &f.Position }, number64),
	newField("second_high_watermark", func(f *FinalRead) *int64 { return &f.SecondHighWatermark }, number64),
	newField("second_log_end", func(f *FinalRead) *int64 { return &f.SecondLogEnd }, number64),
	newField("second_after_ms", func(f *FinalRead) *int64 { return &f.SecondAfterMs }, count64),
	newField("error", func(f *FinalRead) *string { return &f.Error }, text),
}

var replicaRecordsFields = []field[ReplicaRecords]{
	newField("topic", func(r *ReplicaRecords) *string { return &r.Topic }, nameText),
	newField("partition", func(r *ReplicaRecords) *int32 { return &r.Partition.Partition }, number32),
	newField("replica", func(r *ReplicaRecords) *int32 { return &r.Replica }, number32),
	newField("source", func(r *ReplicaRecords) *string { return &r.Source }, nameText),
	newField("leader_epoch", func(r *ReplicaRecords) *int32 { return &r.LeaderEpoch }, number32),
	newField("records", func(r *ReplicaRecords) *[]ReplicaRecord { return &r.Records }, replicaRecords),
}

var replicaReadFields = []field[ReplicaRead]{
	newField("topic", func(r *ReplicaRead) *string { return &r.Topic }, nameText),
	newField("partition", func(r *ReplicaRead) *int32 { return &r.Partition.Partition }, number32),
	newField("replica", func(r *ReplicaRead) *int32 { return &r.Replica }, number32),
	newField("source", func(r *ReplicaRead) *string { return &r.Source }, nameText),
	must("time", func(r *ReplicaRead) *int64 { return &r.Time }, number64),
	newField("log_start", func(r *ReplicaRead) *int64 { return &r.LogStart }, number64),
	newField("high_watermark", func(r *ReplicaRead) *int64 { return &r.HighWatermark }, number64),
	newField("log_end", func(r *ReplicaRead) *int64 { return &r.LogEnd }, number64),
	newField("position", func(r *ReplicaRead) *int64 { return &r.Position }, number64),
	newField("error", func(r *ReplicaRead) *string { return &r.Error }, text),
}

var noteFields = []field[Note]{
	must("time", func(n *Note) *int64 { return &n.Time }, number64),
	newField("text", func(n *Note) *string { return &n.Text }, text),
}

var endFields = []field[End]{
	must("time", func(e *End) *int64 { return &e.Time }, number64),
	newField("reason", func(e *End) *string { return &e.Reason }, text),
}

// Lines as they are before their fields are read.
var (
	zeroSend         = Send{Partition: Unknown, Rank: Unknown}
	zeroSendReturn   = SendReturn{Partition: Unknown, Offset: Unknown}
	zeroFinalRecords = FinalRecords{Records: Records{LeaderEpoch: Unknown, Partition: Partition{Partition: Unknown}}}
	zeroAttempt      = Attempt{
		Broker: Unknown, Connection: Unknown, Correlation: Unknown, Partition: Unknown, ProducerID: Unknown,
		Epoch: Unknown, Sequence: Unknown, Offset: Unknown, BrokerOffset: Unknown,
	}
	zeroFinalRead = FinalRead{
		Partition: Partition{Partition: Unknown}, LogStart: Unknown, HighWatermark: Unknown, LogEnd: Unknown,
		LeaderEpoch: Unknown, Position: Unknown, SecondHighWatermark: Unknown, SecondLogEnd: Unknown,
	}
	zeroReplicaRecords = ReplicaRecords{Partition: Partition{Partition: Unknown}, Replica: Unknown, LeaderEpoch: Unknown}
	zeroReplicaRead    = ReplicaRead{
		Partition: Partition{Partition: Unknown}, Replica: Unknown, LogStart: Unknown, HighWatermark: Unknown,
		LogEnd: Unknown, Position: Unknown,
	}
)

// appendLine appends the JSON form of a line, without its line end: here those that
// make up a history's bulk.
func appendLine(w *jx.Writer, l Line) bool {
	switch l := l.(type) {
	case *Send:
		writeLine(w, lineSend, sendFields, l)
	case *SendReturn:
		writeLine(w, lineSendReturn, sendReturnFields, l)
	case *Attempt:
		writeLine(w, lineAttempt, attemptFields, l)
	case *Poll:
		writeLine(w, linePoll, pollFields, l)
	case *PollReturn:
		writeLine(w, linePollReturn, pollReturnFields, l)
	case *FinalRecords:
		writeLine(w, lineFinalRecords, finalRecordsFields, l)
	case *ReplicaRecords:
		writeLine(w, lineReplicaRecords, replicaRecordsFields, l)
	default:
		return appendRareLine(w, l)
	}
	return true
}

func appendRareLine(w *jx.Writer, l Line) bool {
	switch l := l.(type) {
	case *Producer:
		writeLine(w, lineProducer, producerFields, l)
	case *ProducerRefused:
		writeLine(w, lineProducerRefused, producerRefusedFields, l)
	case *Commit:
		writeLine(w, lineCommit, commitFields, l)
	case *CommitReturn:
		writeLine(w, lineCommitReturn, commitReturnFields, l)
	case *ProducerClose:
		writeLine(w, lineProducerClose, producerCloseFields, l)
	case *Consumer:
		writeLine(w, lineConsumer, consumerFields, l)
	case *ConsumerClose:
		writeLine(w, lineConsumerClose, consumerCloseFields, l)
	case *PositionChange:
		writeLine(w, linePositionChange, positionChangeFields, l)
	case *FaultStart:
		writeLine(w, lineFaultStart, faultStartFields, l)
	case *FaultEnd:
		writeLine(w, lineFaultEnd, faultEndFields, l)
	case *ClusterEvent:
		writeLine(w, lineCluster, clusterEventFields, l)
	case *FinalRead:
		writeLine(w, lineFinalRead, finalReadFields, l)
	case *ReplicaRead:
		writeLine(w, lineReplicaRead, replicaReadFields, l)
	case *Note:
		writeLine(w, lineNote, noteFields, l)
	case *End:
		writeLine(w, lineEnd, endFields, l)
	default:
		return false
	}
	return true
}

// readers read the lines by their kind.
var readers = map[string]func(*decoder) (Line, error){
	lineProducer:        reader(producerFields, Producer{}),
	lineProducerClose:   reader(producerCloseFields, ProducerClose{}),
	lineProducerRefused: reader(producerRefusedFields, ProducerRefused{}),
	lineCommit:          reader(commitFields, Commit{}),
	lineCommitReturn:    reader(commitReturnFields, CommitReturn{}),
	lineConsumer:        reader(consumerFields, Consumer{}),
	lineConsumerClose:   reader(consumerCloseFields, ConsumerClose{}),
	lineSend:            reader(sendFields, zeroSend),
	lineSendReturn:      reader(sendReturnFields, zeroSendReturn),
	lineAttempt:         reader(attemptFields, zeroAttempt),
	linePoll:            reader(pollFields, Poll{}),
	linePollReturn:      reader(pollReturnFields, PollReturn{}),
	linePositionChange:  reader(positionChangeFields, PositionChange{}),
	lineFaultStart:      reader(faultStartFields, FaultStart{}),
	lineFaultEnd:        reader(faultEndFields, FaultEnd{}),
	lineCluster:         reader(clusterEventFields, ClusterEvent{}),
	lineFinalRecords:    reader(finalRecordsFields, zeroFinalRecords),
	lineFinalRead:       reader(finalReadFields, zeroFinalRead),
	lineReplicaRecords:  reader(replicaRecordsFields, zeroReplicaRecords),
	lineReplicaRead:     reader(replicaReadFields, zeroReplicaRead),
	lineNote:            reader(noteFields, Note{}),
	lineEnd:             reader(endFields, End{}),
}
