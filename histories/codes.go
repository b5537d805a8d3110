// This file holds the table of Kafka's error codes as answers to a produce: what
// each says about the append, and where a healthy broker may give it. The
// checker's outcomes and the legality of wire faults both read this table.

package histories

import "fmt"

// Appended says whether an attempt that was answered with a code appended its
// batch to a log.
type Appended int

const (
	// AppendedUnknown says that it may have been appended, or may still be.
	AppendedUnknown Appended = iota
	// AppendedNo says that the attempt appended nothing anywhere.
	AppendedNo
	// AppendedYes says that it was appended, and that is acknowledged.
	AppendedYes
)

func (a Appended) String() string {
	switch a {
	case AppendedNo:
		return "no"
	case AppendedYes:
		return "yes"
	default:
		return "unknown"
	}
}

// ErrorCode is a row of the table of Kafka's error codes.
type ErrorCode struct {
	Code int16
	// Name as in org.apache.kafka.common.protocol.Errors.
	Name string
	// Produce: a produce can be answered with it, or a client can report it for
	// one. The other rows only give a name to a number.
	Produce bool
	// ClientOnly: clients invent it, no broker answers a produce with it.
	ClientOnly bool
	// AllOnly: a broker answers with it only where acks=all.
	AllOnly bool
	// AcksOne and AcksAll say what it means for the append, by acks.
	AcksOne, AcksAll Appended
	// Why in one line, and Source: where in Kafka it is decided.
	Why, Source string
}

// Appended says what an answer with this code means for the append of the batch
// that was answered, where the producer asked for acks ("0", "1", "all", "-1").
// With acks=0 no answer exists and nothing is known. Any other text stands for
// acks that are not known: the more uncertain of both meanings is given.
func (c ErrorCode) Appended(acks string) Appended {
	switch acks {
	case "0":
		return AppendedUnknown
	case "1":
		return c.AcksOne
	case "all", "-1":
		return c.AcksAll
	}
	if c.AcksOne == c.AcksAll {
		return c.AcksOne
	}
	return AppendedUnknown
}

// ErrorByCode gives the row of a code.
func ErrorByCode(code int16) (ErrorCode, bool) {
	row, known := errorsByCode[code]
	return row, known
}

// ErrorByName gives the row of a name; earlier names of a code that clients
// still use are known too (NOT_LEADER_FOR_PARTITION).
func ErrorByName(name string) (ErrorCode, bool) {
	code, known := errorCodesByName[name]
	if !known {
		return ErrorCode{}, false
	}
	return errorsByCode[code], true
}

// ErrorName gives the name of a code; UNKNOWN_ERROR_CODE_n for one without a row.
func ErrorName(code int16) string {
	if row, known := errorsByCode[code]; known {
		return row.Name
	}
	return fmt.Sprintf("UNKNOWN_ERROR_CODE_%d", code)
}

// LegalAnswer says whether a healthy broker could answer a produce with code: a
// code that says "nothing was appended" only where the broker did not serve the
// request (after=false), one that says "appended" only where it did, an
// indeterminate one either way. Why explains the answer in both cases. Where
// acks is not known it must be legal under acks=1 and under acks=all.
func LegalAnswer(code int16, acks string, after bool) (legal bool, why string) {
	row, known := errorsByCode[code]
	name := ErrorName(code)
	switch acks {
	case "0":
		return false, "with acks=0 a broker answers nothing"
	case "1", "all", "-1":
	default:
		if legal, why = LegalAnswer(code, "1", after); !legal {
			return false, why
		}
		return LegalAnswer(code, "all", after)
	}
	switch {
	case !known || !row.Produce:
		return false, name + " is not an answer that a broker gives to a produce"
	case row.ClientOnly:
		return false, name + " is made up by clients, no broker answers with it"
	case row.AllOnly && acks == "1":
		return false, name + " is answered only where acks=all"
	}
	switch appended := row.Appended(acks); {
	case appended == AppendedNo && after:
		return false, name + " says that nothing was appended, and the broker has served the request: " + row.Why
	case appended == AppendedYes && !after:
		return false, name + " says that it was appended, and the broker has not had the request"
	}
	return true, row.Why
}

// The places in Kafka's code where the answers are decided.
const (
	sourceAppend   = "kafka.server.ReplicaManager.appendToLocalLog"
	sourceValidate = "org.apache.kafka.storage.internals.log.LogValidator"
	sourceApis     = "kafka.server.KafkaApis.handleProduceRequest"
	sourceProducer = "org.apache.kafka.storage.internals.log.ProducerAppendInfo"
	sourceReplicas = "kafka.cluster.Partition.checkEnoughReplicasReachOffset"
	sourceDelayed  = "kafka.server.DelayedProduce"
	sourceMinISR   = "kafka.cluster.Partition.appendRecordsToLeader"
	sourceClient   = "org.apache.kafka.clients.producer.internals.Sender"
	sourceVerify   = "kafka.server.ReplicaManager.handleProduceAppend"
	whyBefore      = "decided before the append"
)

// refused builds a row whose code is decided before the append.
func refused(code int16, name, why, source string) ErrorCode {
	return ErrorCode{Code: code, Name: name, Produce: true, AcksOne: AppendedNo, AcksAll: AppendedNo,
		Why: why, Source: source}
}

// indeterminate builds a row whose code leaves the append unknown.
func indeterminate(code int16, name, why, source string) ErrorCode {
	return ErrorCode{Code: code, Name: name, Produce: true, Why: why, Source: source}
}

// refusedUnlessAll builds a row whose code is decided before the append, but can
// also come out of the wait for the replicas, after it.
func refusedUnlessAll(code int16, name, why, source string) ErrorCode {
	row := indeterminate(code, name, why, source)
	row.AcksOne = AppendedNo
	return row
}

// acknowledged builds a row whose code is an acknowledgement.
func acknowledged(code int16, name, why, source string) ErrorCode {
	return ErrorCode{Code: code, Name: name, Produce: true, AcksOne: AppendedYes, AcksAll: AppendedYes,
		Why: why, Source: source}
}

func clientOnly(row ErrorCode) ErrorCode { row.ClientOnly = true; return row }
func allOnly(row ErrorCode) ErrorCode    { row.AllOnly = true; return row }

// produceErrors are the codes that a produce can end with.
var produceErrors = []ErrorCode{
	acknowledged(0, "NONE", "the leader (acks=1) or the in-sync replicas (acks=all) have it", sourceDelayed),
	indeterminate(-1, "UNKNOWN_SERVER_ERROR", "the catch-all, at any point before or after the append", sourceAppend),
	refused(2, "CORRUPT_MESSAGE", "the checksum is checked before the append", sourceValidate),
	refusedUnlessAll(3, "UNKNOWN_TOPIC_OR_PARTITION",
		"decided before the append, but asked again while it waits for the replicas (acks=all)", sourceReplicas),
	refusedUnlessAll(6, "NOT_LEADER_OR_FOLLOWER",
		"decided before the append, but also when leadership is lost in the wait for the replicas (acks=all)",
		sourceReplicas),
	indeterminate(7, "REQUEST_TIMED_OUT",
		"appended by the leader, the replicas did not have it in time; clients use the same code for their own limit",
		sourceDelayed),
	refused(10, "MESSAGE_TOO_LARGE", whyBefore, sourceValidate),
	clientOnly(indeterminate(13, "NETWORK_EXCEPTION",
		"the client's word for a connection that ended before the answer", sourceClient)),
	refused(17, "INVALID_TOPIC_EXCEPTION", whyBefore, sourceApis),
	refused(18, "RECORD_LIST_TOO_LARGE", whyBefore, sourceAppend),
	allOnly(refused(19, "NOT_ENOUGH_REPLICAS",
		"the in-sync set is checked before the append; also the disguise of a failed transaction verification",
		sourceMinISR)),
	allOnly(indeterminate(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
		"appended, and the in-sync set was found too small afterwards", sourceReplicas)),
	refused(21, "INVALID_REQUIRED_ACKS", whyBefore, sourceAppend),
	refused(29, "TOPIC_AUTHORIZATION_FAILED", whyBefore, sourceApis),
	refused(31, "CLUSTER_AUTHORIZATION_FAILED", whyBefore, sourceApis),
	refused(32, "INVALID_TIMESTAMP", "decided before the append; one bad record rejects its whole batch", sourceValidate),
	refused(42, "INVALID_REQUEST", whyBefore, sourceApis),
	refused(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", whyBefore, sourceValidate),
	refused(44, "POLICY_VIOLATION", whyBefore, sourceApis),
	refused(45, "OUT_OF_ORDER_SEQUENCE_NUMBER",
		"the sequence is checked before the append (checkSequence)", sourceProducer),
	acknowledged(46, "DUPLICATE_SEQUENCE_NUMBER",
		"the batch is in the log already; its offset is not given (current brokers answer NONE instead)", sourceProducer),
	refused(47, "INVALID_PRODUCER_EPOCH", "the epoch is checked before the append", sourceProducer),
	refused(48, "INVALID_TXN_STATE", whyBefore, sourceVerify),
	refused(49, "INVALID_PRODUCER_ID_MAPPING", whyBefore, sourceVerify),
	refused(51, "CONCURRENT_TRANSACTIONS", whyBefore, sourceVerify),
	refused(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", whyBefore, sourceApis),
	indeterminate(56, "KAFKA_STORAGE_ERROR",
		"an I/O error may come after bytes reached the file; also out of the wait for the replicas", sourceAppend),
	refused(59, "UNKNOWN_PRODUCER_ID", "decided before the append, by old brokers only", sourceProducer),
	refused(74, "FENCED_LEADER_EPOCH", whyBefore, sourceAppend),
	refused(75, "UNKNOWN_LEADER_EPOCH", whyBefore, sourceAppend),
	refused(76, "UNSUPPORTED_COMPRESSION_TYPE", whyBefore, sourceApis),
	refused(87, "INVALID_RECORD", "decided before the append; one bad record rejects its whole batch", sourceValidate),
	refused(90, "PRODUCER_FENCED", "a newer epoch exists; decided before the append", sourceProducer),
	refused(100, "UNKNOWN_TOPIC_ID", whyBefore, sourceApis),
	refused(103, "INCONSISTENT_TOPIC_ID", whyBefore, sourceApis),
	refused(120, "TRANSACTION_ABORTABLE", whyBefore, sourceVerify),
}

// otherErrors are the codes that no produce is answered with: their names.
var otherErrors = []struct {
	code int16
	name string
}{
	{1, "OFFSET_OUT_OF_RANGE"}, {4, "INVALID_FETCH_SIZE"}, {5, "LEADER_NOT_AVAILABLE"},
	{8, "BROKER_NOT_AVAILABLE"}, {9, "REPLICA_NOT_AVAILABLE"}, {11, "STALE_CONTROLLER_EPOCH"},
	{12, "OFFSET_METADATA_TOO_LARGE"}, {14, "COORDINATOR_LOAD_IN_PROGRESS"}, {15, "COORDINATOR_NOT_AVAILABLE"},
	{16, "NOT_COORDINATOR"}, {22, "ILLEGAL_GENERATION"}, {23, "INCONSISTENT_GROUP_PROTOCOL"},
	{24, "INVALID_GROUP_ID"}, {25, "UNKNOWN_MEMBER_ID"}, {26, "INVALID_SESSION_TIMEOUT"},
	{27, "REBALANCE_IN_PROGRESS"}, {28, "INVALID_COMMIT_OFFSET_SIZE"}, {30, "GROUP_AUTHORIZATION_FAILED"},
	{33, "UNSUPPORTED_SASL_MECHANISM"}, {34, "ILLEGAL_SASL_STATE"}, {35, "UNSUPPORTED_VERSION"},
	{36, "TOPIC_ALREADY_EXISTS"}, {37, "INVALID_PARTITIONS"}, {38, "INVALID_REPLICATION_FACTOR"},
	{39, "INVALID_REPLICA_ASSIGNMENT"}, {40, "INVALID_CONFIG"}, {41, "NOT_CONTROLLER"},
	{50, "INVALID_TRANSACTION_TIMEOUT"}, {52, "TRANSACTION_COORDINATOR_FENCED"}, {54, "SECURITY_DISABLED"},
	{55, "OPERATION_NOT_ATTEMPTED"}, {57, "LOG_DIR_NOT_FOUND"}, {58, "SASL_AUTHENTICATION_FAILED"},
	{60, "REASSIGNMENT_IN_PROGRESS"}, {61, "DELEGATION_TOKEN_AUTH_DISABLED"}, {62, "DELEGATION_TOKEN_NOT_FOUND"},
	{63, "DELEGATION_TOKEN_OWNER_MISMATCH"}, {64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"},
	{65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"}, {66, "DELEGATION_TOKEN_EXPIRED"},
	{67, "INVALID_PRINCIPAL_TYPE"}, {68, "NON_EMPTY_GROUP"}, {69, "GROUP_ID_NOT_FOUND"},
	{70, "FETCH_SESSION_ID_NOT_FOUND"}, {71, "INVALID_FETCH_SESSION_EPOCH"}, {72, "LISTENER_NOT_FOUND"},
	{73, "TOPIC_DELETION_DISABLED"}, {77, "STALE_BROKER_EPOCH"}, {78, "OFFSET_NOT_AVAILABLE"},
	{79, "MEMBER_ID_REQUIRED"}, {80, "PREFERRED_LEADER_NOT_AVAILABLE"}, {81, "GROUP_MAX_SIZE_REACHED"},
	{82, "FENCED_INSTANCE_ID"}, {83, "ELIGIBLE_LEADERS_NOT_AVAILABLE"}, {84, "ELECTION_NOT_NEEDED"},
	{85, "NO_REASSIGNMENT_IN_PROGRESS"}, {86, "GROUP_SUBSCRIBED_TO_TOPIC"}, {88, "UNSTABLE_OFFSET_COMMIT"},
	{89, "THROTTLING_QUOTA_EXCEEDED"}, {91, "RESOURCE_NOT_FOUND"}, {92, "DUPLICATE_RESOURCE"},
	{93, "UNACCEPTABLE_CREDENTIAL"}, {94, "INCONSISTENT_VOTER_SET"}, {95, "INVALID_UPDATE_VERSION"},
	{96, "FEATURE_UPDATE_FAILED"}, {97, "PRINCIPAL_DESERIALIZATION_FAILURE"}, {98, "SNAPSHOT_NOT_FOUND"},
	{99, "POSITION_OUT_OF_RANGE"}, {101, "DUPLICATE_BROKER_REGISTRATION"}, {102, "BROKER_ID_NOT_REGISTERED"},
	{104, "INCONSISTENT_CLUSTER_ID"}, {105, "TRANSACTIONAL_ID_NOT_FOUND"}, {106, "FETCH_SESSION_TOPIC_ID_ERROR"},
	{107, "INELIGIBLE_REPLICA"}, {108, "NEW_LEADER_ELECTED"}, {109, "OFFSET_MOVED_TO_TIERED_STORAGE"},
	{110, "FENCED_MEMBER_EPOCH"}, {111, "UNRELEASED_INSTANCE_ID"}, {112, "UNSUPPORTED_ASSIGNOR"},
	{113, "STALE_MEMBER_EPOCH"}, {114, "MISMATCHED_ENDPOINT_TYPE"}, {115, "UNSUPPORTED_ENDPOINT_TYPE"},
	{116, "UNKNOWN_CONTROLLER_ID"}, {117, "UNKNOWN_SUBSCRIPTION_ID"}, {118, "TELEMETRY_TOO_LARGE"},
	{119, "INVALID_REGISTRATION"}, {121, "INVALID_RECORD_STATE"}, {122, "SHARE_SESSION_NOT_FOUND"},
	{123, "INVALID_SHARE_SESSION_EPOCH"}, {124, "FENCED_STATE_EPOCH"}, {125, "INVALID_VOTER_KEY"},
	{126, "DUPLICATE_VOTER"}, {127, "VOTER_NOT_FOUND"}, {128, "INVALID_REGULAR_EXPRESSION"},
	{129, "REBOOTSTRAP_REQUIRED"}, {130, "STREAMS_INVALID_TOPOLOGY"}, {131, "STREAMS_INVALID_TOPOLOGY_EPOCH"},
	{132, "STREAMS_TOPOLOGY_FENCED"}, {133, "SHARE_SESSION_LIMIT_REACHED"}, {134, "GROUP_DELETION_FAILED"},
	{135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"}, {136, "CONTROLLER_ID_NOT_REGISTERED"},
}

// earlierNames are names that a code had, or has in some client.
var earlierNames = map[string]int16{
	"NOT_LEADER_FOR_PARTITION": 6,
	"INVALID_TOPIC":            17,
}

var (
	errorsByCode     = indexErrors()
	errorCodesByName = indexErrorNames()
)

func indexErrors() map[int16]ErrorCode {
	byCode := make(map[int16]ErrorCode, len(produceErrors)+len(otherErrors))
	for _, row := range produceErrors {
		byCode[row.Code] = row
	}
	for _, other := range otherErrors {
		byCode[other.code] = ErrorCode{Code: other.code, Name: other.name, Why: "not an answer to a produce"}
	}
	return byCode
}

func indexErrorNames() map[string]int16 {
	byName := make(map[string]int16, len(errorsByCode)+len(earlierNames))
	for code, row := range errorsByCode {
		byName[row.Name] = code
	}
	for name, code := range earlierNames {
		byName[name] = code
	}
	return byName
}
