// This file holds the rows of the tables, one type to a table: the columns in their
// order. What they mean stands in sql/README.md, which a test compares with them.
//
// A number that is not known is nil, so that it is NULL in SQL; a text that is not
// known is empty, as in a history, so that rows can be joined by it. Only the event
// of a record is nil where the record is foreign.

package parquet

// whence is where a row comes from: the history, the place of its line among the
// lines after the header (from 1), and the line's number in the file.
type whence struct {
	History string `parquet:"history,dict"`
	Entry   int64  `parquet:"entry,delta"`
	Line    int64  `parquet:"line,delta"`
}

// operation is the operation that a row is of.
type operation struct {
	Process string `parquet:"process,dict"`
	Number  int64  `parquet:"number,delta"`
	TimeNs  int64  `parquet:"time_ns,delta"`
}

type historyRow struct {
	History         string `parquet:"history"`
	Run             string `parquet:"run"`
	Tool            string `parquet:"tool,dict"`
	Started         string `parquet:"started"`
	Clock           string `parquet:"clock,dict"`
	Seed            int64  `parquet:"seed"`
	Scenario        string `parquet:"scenario,dict"`
	ClusterProvider string `parquet:"cluster_provider,dict"`
	ClusterVersion  string `parquet:"cluster_version,dict"`
	SourceFormat    string `parquet:"source_format,dict"`
	Imported        bool   `parquet:"imported"`
	StatesOutcomes  bool   `parquet:"states_outcomes"`
	Entries         int64  `parquet:"entries"`
	Ended           bool   `parquet:"ended"`
	EndReason       string `parquet:"end_reason,dict"`
	Cut             bool   `parquet:"cut"`
	CutReason       string `parquet:"cut_reason"`
}

type topicRow struct {
	History           string `parquet:"history,dict"`
	Topic             string `parquet:"topic,dict"`
	Partitions        *int64 `parquet:"partitions,optional"`
	ReplicationFactor *int64 `parquet:"replication_factor,optional"`
}

type topicStartRow struct {
	History   string `parquet:"history,dict"`
	Topic     string `parquet:"topic,dict"`
	Partition int64  `parquet:"partition"`
	LogEnd    int64  `parquet:"log_end"`
}

type propertyRow struct {
	History string `parquet:"history,dict"`
	Scope   string `parquet:"scope,dict"`
	Owner   string `parquet:"owner,dict"`
	Name    string `parquet:"name,dict"`
	Value   string `parquet:"value,dict"`
}

type effectRow struct {
	History string `parquet:"history,dict"`
	Fault   string `parquet:"fault,dict"`
	Effect  string `parquet:"effect,dict"`
}

type producerRow struct {
	whence
	Name            string `parquet:"name,dict"`
	TimeNs          int64  `parquet:"time_ns,delta"`
	Clock           string `parquet:"clock,dict"`
	Client          string `parquet:"client,dict"`
	ClientVersion   string `parquet:"client_version,dict"`
	PropertiesGiven bool   `parquet:"properties_given"`
	Continues       string `parquet:"continues,dict"`
	AttemptsVisible bool   `parquet:"attempts_visible"`
	Fresh           bool   `parquet:"fresh"`
}

type producerRefusalRow struct {
	whence
	Name          string `parquet:"name,dict"`
	TimeNs        int64  `parquet:"time_ns,delta"`
	Client        string `parquet:"client,dict"`
	ClientVersion string `parquet:"client_version,dict"`
	ClientError   string `parquet:"client_error,dict"`
	Message       string `parquet:"message"`
}

type consumerRow struct {
	whence
	Name          string `parquet:"name,dict"`
	TimeNs        int64  `parquet:"time_ns,delta"`
	Clock         string `parquet:"clock,dict"`
	Client        string `parquet:"client,dict"`
	ClientVersion string `parquet:"client_version,dict"`
	Continues     string `parquet:"continues,dict"`
}

type closeRow struct {
	whence
	Kind    string `parquet:"kind,dict"`
	Name    string `parquet:"name,dict"`
	TimeNs  int64  `parquet:"time_ns,delta"`
	Crashed bool   `parquet:"crashed"`
}

type sendRow struct {
	whence
	operation
	Event           string `parquet:"event"`
	Topic           string `parquet:"topic,dict"`
	Partition       *int64 `parquet:"partition,optional"`
	OrderingKey     string `parquet:"ordering_key,dict"`
	Rank            *int64 `parquet:"rank,optional"`
	Resend          bool   `parquet:"resend"`
	ResendOfProcess string `parquet:"resend_of_process,dict"`
	ResendOfNumber  *int64 `parquet:"resend_of_number,optional"`
}

type sendReturnRow struct {
	whence
	operation
	Partition   *int64 `parquet:"partition,optional"`
	LogOffset   *int64 `parquet:"log_offset,optional"`
	Error       string `parquet:"error,dict"`
	ClientError string `parquet:"client_error,dict"`
	Message     string `parquet:"message,dict"`
	Closed      bool   `parquet:"closed"`
	Stated      string `parquet:"stated,dict"`
}

type attemptRow struct {
	whence
	Process           string `parquet:"process,dict"`
	TimeNs            int64  `parquet:"time_ns,delta"`
	EndTimeNs         int64  `parquet:"end_time_ns,delta"`
	Broker            *int64 `parquet:"broker,optional"`
	Connection        *int64 `parquet:"connection,optional"`
	Correlation       *int64 `parquet:"correlation,optional"`
	Topic             string `parquet:"topic,dict"`
	Partition         *int64 `parquet:"partition,optional"`
	ProducerID        *int64 `parquet:"producer_id,optional"`
	ProducerEpoch     *int64 `parquet:"producer_epoch,optional"`
	Sequence          *int64 `parquet:"sequence,optional"`
	Unnamed           int64  `parquet:"unnamed"`
	Answer            string `parquet:"answer,dict"`
	Lost              string `parquet:"lost,dict"`
	LogOffset         *int64 `parquet:"log_offset,optional"`
	Reached           bool   `parquet:"reached"`
	BrokerAnswer      string `parquet:"broker_answer,dict"`
	BrokerLogOffset   *int64 `parquet:"broker_log_offset,optional"`
	Fault             string `parquet:"fault,dict"`
	BatchBytes        int64  `parquet:"batch_bytes"`
	UncompressedBytes int64  `parquet:"uncompressed_bytes"`
}

type attemptSendRow struct {
	whence
	Process    string `parquet:"process,dict"`
	Number     int64  `parquet:"number,delta"`
	BatchIndex int64  `parquet:"batch_index,delta"`
}

type pollRow struct {
	whence
	operation
}

type pollReturnRow struct {
	whence
	operation
	Records int64  `parquet:"records"`
	Error   string `parquet:"error,dict"`
	Stated  string `parquet:"stated,dict"`
}

type pollRecordRow struct {
	whence
	operation
	Stated      string  `parquet:"stated,dict"`
	RecordIndex int64   `parquet:"record_index,delta"`
	Topic       string  `parquet:"topic,dict"`
	Partition   *int64  `parquet:"partition,optional"`
	LeaderEpoch *int64  `parquet:"leader_epoch,optional"`
	LogOffset   *int64  `parquet:"log_offset,optional"`
	Event       *string `parquet:"event,optional"`
	Corrupt     string  `parquet:"corrupt,dict"`
}

type positionChangeRow struct {
	whence
	Process   string `parquet:"process,dict"`
	TimeNs    int64  `parquet:"time_ns,delta"`
	How       string `parquet:"how,dict"`
	Reason    string `parquet:"reason,dict"`
	Topic     string `parquet:"topic,dict"`
	Partition *int64 `parquet:"partition,optional"`
	Position  *int64 `parquet:"position,optional"`
}

type commitRow struct {
	whence
	operation
	ConsumerGroup string `parquet:"consumer_group,dict"`
	Topic         string `parquet:"topic,dict"`
	Partition     *int64 `parquet:"partition,optional"`
	Position      *int64 `parquet:"position,optional"`
}

type commitReturnRow struct {
	whence
	operation
	Error       string `parquet:"error,dict"`
	ClientError string `parquet:"client_error,dict"`
	Message     string `parquet:"message,dict"`
}

type faultStartRow struct {
	whence
	Fault  string `parquet:"fault"`
	Name   string `parquet:"name,dict"`
	Target string `parquet:"target"`
	TimeNs int64  `parquet:"time_ns,delta"`
	Lie    bool   `parquet:"lie"`
}

type faultEndRow struct {
	whence
	Fault    string `parquet:"fault"`
	TimeNs   int64  `parquet:"time_ns,delta"`
	Bit      bool   `parquet:"bit"`
	Evidence string `parquet:"evidence"`
	Error    string `parquet:"error"`
}

type clusterEventRow struct {
	whence
	TimeNs int64  `parquet:"time_ns,delta"`
	What   string `parquet:"what,dict"`
	Detail string `parquet:"detail"`
}

type noteRow struct {
	whence
	TimeNs int64  `parquet:"time_ns,delta"`
	Note   string `parquet:"note"`
}

type finalRecordRow struct {
	whence
	Isolation   string  `parquet:"isolation,dict"`
	Topic       string  `parquet:"topic,dict"`
	Partition   *int64  `parquet:"partition,optional"`
	LeaderEpoch *int64  `parquet:"leader_epoch,optional"`
	LogOffset   *int64  `parquet:"log_offset,optional"`
	Event       *string `parquet:"event,optional"`
	Corrupt     string  `parquet:"corrupt,dict"`
}

type finalReadRow struct {
	whence
	Isolation           string `parquet:"isolation,dict"`
	Topic               string `parquet:"topic,dict"`
	Partition           *int64 `parquet:"partition,optional"`
	TimeNs              int64  `parquet:"time_ns,delta"`
	LogStart            *int64 `parquet:"log_start,optional"`
	HighWatermark       *int64 `parquet:"high_watermark,optional"`
	LogEnd              *int64 `parquet:"log_end,optional"`
	LeaderEpoch         *int64 `parquet:"leader_epoch,optional"`
	Position            *int64 `parquet:"position,optional"`
	SecondHighWatermark *int64 `parquet:"second_high_watermark,optional"`
	SecondLogEnd        *int64 `parquet:"second_log_end,optional"`
	SecondAfterMs       int64  `parquet:"second_after_ms"`
	Error               string `parquet:"error"`
}

type replicaRecordRow struct {
	whence
	Topic       string  `parquet:"topic,dict"`
	Partition   *int64  `parquet:"partition,optional"`
	Replica     *int64  `parquet:"replica,optional"`
	Source      string  `parquet:"source,dict"`
	LeaderEpoch *int64  `parquet:"leader_epoch,optional"`
	LogOffset   *int64  `parquet:"log_offset,optional"`
	Event       *string `parquet:"event,optional"`
	Corrupt     string  `parquet:"corrupt,dict"`
	Digest      string  `parquet:"digest"`
}

type replicaReadRow struct {
	whence
	Topic         string `parquet:"topic,dict"`
	Partition     *int64 `parquet:"partition,optional"`
	Replica       *int64 `parquet:"replica,optional"`
	Source        string `parquet:"source,dict"`
	TimeNs        int64  `parquet:"time_ns,delta"`
	LogStart      *int64 `parquet:"log_start,optional"`
	HighWatermark *int64 `parquet:"high_watermark,optional"`
	LogEnd        *int64 `parquet:"log_end,optional"`
	Position      *int64 `parquet:"position,optional"`
	Error         string `parquet:"error"`
}
