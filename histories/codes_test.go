// This file tests the tables of errors against what Kafka's code does, row by row.

package histories

import (
	"strings"
	"testing"
)

// Expectations by code: what an answer says of the append with acks=1 and acks=all.
var produceExpectations = []struct {
	code     int16
	name     string
	one, all Appended
}{
	{0, "NONE", AppendedYes, AppendedYes},
	{-1, "UNKNOWN_SERVER_ERROR", AppendedUnknown, AppendedUnknown},
	{2, "CORRUPT_MESSAGE", AppendedNo, AppendedNo},
	{3, "UNKNOWN_TOPIC_OR_PARTITION", AppendedNo, AppendedUnknown},
	{6, "NOT_LEADER_OR_FOLLOWER", AppendedNo, AppendedUnknown},
	{7, "REQUEST_TIMED_OUT", AppendedUnknown, AppendedUnknown},
	{10, "MESSAGE_TOO_LARGE", AppendedNo, AppendedNo},
	{13, "NETWORK_EXCEPTION", AppendedUnknown, AppendedUnknown},
	{17, "INVALID_TOPIC_EXCEPTION", AppendedNo, AppendedNo},
	{18, "RECORD_LIST_TOO_LARGE", AppendedNo, AppendedNo},
	{19, "NOT_ENOUGH_REPLICAS", AppendedNo, AppendedNo},
	{20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", AppendedUnknown, AppendedUnknown},
	{21, "INVALID_REQUIRED_ACKS", AppendedNo, AppendedNo},
	{29, "TOPIC_AUTHORIZATION_FAILED", AppendedNo, AppendedNo},
	{31, "CLUSTER_AUTHORIZATION_FAILED", AppendedNo, AppendedNo},
	{32, "INVALID_TIMESTAMP", AppendedNo, AppendedNo},
	{42, "INVALID_REQUEST", AppendedNo, AppendedNo},
	{43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", AppendedNo, AppendedNo},
	{44, "POLICY_VIOLATION", AppendedNo, AppendedNo},
	{45, "OUT_OF_ORDER_SEQUENCE_NUMBER", AppendedNo, AppendedNo},
	{46, "DUPLICATE_SEQUENCE_NUMBER", AppendedYes, AppendedYes},
	{47, "INVALID_PRODUCER_EPOCH", AppendedNo, AppendedNo},
	{48, "INVALID_TXN_STATE", AppendedNo, AppendedNo},
	{49, "INVALID_PRODUCER_ID_MAPPING", AppendedNo, AppendedNo},
	{51, "CONCURRENT_TRANSACTIONS", AppendedNo, AppendedNo},
	{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", AppendedNo, AppendedNo},
	{56, "KAFKA_STORAGE_ERROR", AppendedUnknown, AppendedUnknown},
	{59, "UNKNOWN_PRODUCER_ID", AppendedNo, AppendedNo},
	{74, "FENCED_LEADER_EPOCH", AppendedNo, AppendedNo},
	{75, "UNKNOWN_LEADER_EPOCH", AppendedNo, AppendedNo},
	{76, "UNSUPPORTED_COMPRESSION_TYPE", AppendedNo, AppendedNo},
	{87, "INVALID_RECORD", AppendedNo, AppendedNo},
	{90, "PRODUCER_FENCED", AppendedNo, AppendedNo},
	{100, "UNKNOWN_TOPIC_ID", AppendedNo, AppendedNo},
	{103, "INCONSISTENT_TOPIC_ID", AppendedNo, AppendedNo},
	{120, "TRANSACTION_ABORTABLE", AppendedNo, AppendedNo},
}

func TestAnAnswerSaysOfTheAppend(t *testing.T) {
	for _, want := range produceExpectations {
		t.Run(want.name, func(t *testing.T) {
			row, known := ErrorByCode(want.code)
			if !known || row.Name != want.name || !row.Produce || row.Why == "" || row.Source == "" {
				t.Fatalf("code %d is %+v", want.code, row)
			}
			if byName, known := ErrorByName(want.name); !known || byName != row {
				t.Errorf("by its name it is %+v", byName)
			}
			both := want.one
			if want.one != want.all {
				both = AppendedUnknown
			}
			for acks, appended := range map[string]Appended{
				"1": want.one, "all": want.all, "-1": want.all, "0": AppendedUnknown, "": both, "2": both,
			} {
				if got := row.Appended(acks); got != appended {
					t.Errorf("acks %q: appended %v, want %v", acks, got, appended)
				}
			}
		})
	}
	if len(produceErrors) != len(produceExpectations) {
		t.Errorf("the table has %d rows for a produce, %d are expected", len(produceErrors), len(produceExpectations))
	}
}

func TestEveryCodeHasOneRowAndOneName(t *testing.T) {
	names := map[string]bool{}
	for code := int16(-1); code <= 136; code++ {
		row, known := ErrorByCode(code)
		if !known || row.Code != code || row.Name == "" || names[row.Name] {
			t.Errorf("code %d has the row %+v", code, row)
		}
		names[row.Name] = true
		if byName, known := ErrorByName(row.Name); !known || byName.Code != code {
			t.Errorf("the name %s gives %+v", row.Name, byName)
		}
		if ErrorName(code) != row.Name {
			t.Errorf("ErrorName(%d) is %s, want %s", code, ErrorName(code), row.Name)
		}
		if row.Produce {
			continue
		}
		for _, acks := range []string{"0", "1", "all", ""} {
			if row.Appended(acks) != AppendedUnknown {
				t.Errorf("%s is no answer to a produce and is not unknown", row.Name)
			}
		}
	}
	if len(errorsByCode) != 138 || len(produceErrors)+len(otherErrors) != 138 {
		t.Errorf("%d codes of %d rows", len(errorsByCode), len(produceErrors)+len(otherErrors))
	}
}

func TestACodeWithoutARowIsUnknown(t *testing.T) {
	row, known := ErrorByCode(9999)
	if known || row.Appended("all") != AppendedUnknown || row.Appended("1") != AppendedUnknown {
		t.Errorf("code 9999 is %+v", row)
	}
	if _, known := ErrorByName("UNKNOWN_ERROR_CODE_9999"); known {
		t.Error("its name has a row")
	}
	if ErrorName(9999) != "UNKNOWN_ERROR_CODE_9999" || ErrorName(-7) != "UNKNOWN_ERROR_CODE_-7" {
		t.Errorf("its name is %s", ErrorName(9999))
	}
}

func TestNamesThatClientsStillUseAreKnown(t *testing.T) {
	for name, code := range map[string]int16{"NOT_LEADER_FOR_PARTITION": 6, "INVALID_TOPIC": 17} {
		if row, known := ErrorByName(name); !known || row.Code != code {
			t.Errorf("%s is %+v", name, row)
		}
	}
}

func TestAnAnswerIsLegal(t *testing.T) {
	cases := []struct {
		rule  string
		name  string
		acks  string
		after bool
		legal bool
		why   string
	}{
		{"a refusal without the append", "NOT_LEADER_OR_FOLLOWER", "1", false, true, ""},
		{"a refusal after the append: never with acks=1", "NOT_LEADER_OR_FOLLOWER", "1", true, false,
			"nothing was appended"},
		{"lost leadership in the wait for the replicas", "NOT_LEADER_OR_FOLLOWER", "all", true, true, ""},
		{"a refusal that no wait can give", "MESSAGE_TOO_LARGE", "all", true, false, "nothing was appended"},
		{"too few replicas before the append", "NOT_ENOUGH_REPLICAS", "all", false, true, ""},
		{"too few replicas with acks=1: never", "NOT_ENOUGH_REPLICAS", "1", false, false, "only where acks=all"},
		{"too few replicas after the append", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "-1", true, true, ""},
		{"the same with acks=1: never", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "1", true, false, "only where acks=all"},
		{"a time-out either way", "REQUEST_TIMED_OUT", "all", false, true, ""},
		{"a time-out either way, served", "REQUEST_TIMED_OUT", "1", true, true, ""},
		{"an acknowledgement after the append", "NONE", "all", true, true, ""},
		{"an acknowledgement without the append: a lie", "NONE", "all", false, false, "has not had the request"},
		{"a duplicate after the append", "DUPLICATE_SEQUENCE_NUMBER", "1", true, true, ""},
		{"a duplicate without the append: a lie", "DUPLICATE_SEQUENCE_NUMBER", "1", false, false,
			"has not had the request"},
		{"a client's own code: never", "NETWORK_EXCEPTION", "all", true, false, "made up by clients"},
		{"an answer to something else: never", "GROUP_ID_NOT_FOUND", "all", false, false,
			"not an answer that a broker gives"},
		{"any answer with acks=0: never", "NONE", "0", true, false, "acks=0"},
		{"with unknown acks what is legal under both", "MESSAGE_TOO_LARGE", "", false, true, ""},
		{"with unknown acks not what one forbids", "NOT_LEADER_OR_FOLLOWER", "", true, false, "nothing was appended"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			row, known := ErrorByName(c.name)
			if !known {
				t.Fatal("no row")
			}
			legal, why := LegalAnswer(row.Code, c.acks, c.after)
			if legal != c.legal || why == "" || !strings.Contains(why, c.why) {
				t.Errorf("%s with acks %s, after=%v: legal %v because %q", c.name, c.acks, c.after, legal, why)
			}
		})
	}
	if legal, why := LegalAnswer(9999, "all", true); legal || !strings.Contains(why, "UNKNOWN_ERROR_CODE_9999") {
		t.Errorf("a code without a row is legal because %q", why)
	}
}

func TestLegalityFollowsTheTable(t *testing.T) {
	for _, want := range produceExpectations {
		row, _ := ErrorByCode(want.code)
		for acks, appended := range map[string]Appended{"1": want.one, "all": want.all} {
			for _, after := range []bool{false, true} {
				possible := !row.ClientOnly && (!row.AllOnly || acks != "1")
				legal := possible && (appended != AppendedNo || !after) && (appended != AppendedYes || after)
				if got, why := LegalAnswer(want.code, acks, after); got != legal {
					t.Errorf("%s with acks=%s, after=%v: legal %v (%s), want %v", want.name, acks, after, got, why, legal)
				}
			}
		}
	}
}

func TestAnErrorOfAClientIsDefinite(t *testing.T) {
	cases := []struct {
		client, name string
		definite     bool
	}{
		{"franz-go", "kgo.ErrMaxBuffered", true},
		{"franz-go", "kgo.errNoTopic", true},
		{"franz-go", "kgo.errNotInTransaction", true},
		{"franz-go", "kgo.ErrRecordTimeout", false},
		{"franz-go", "kgo.ErrRecordRetries", false},
		{"franz-go", "kgo.ErrAborting", false},
		{"franz-go", "kgo.ErrClientClosed", false},
		{"franz-go", "context.Canceled", false},
		{"franz-go", "SerializationException", false},
		{"java", "SerializationException", true},
		{"java", "TimeoutException: metadata", true},
		{"java", "BufferExhaustedException", true},
		{"java", "IllegalStateException", true},
		{"java", "TransactionAbortedException", true},
		{"java", "TimeoutException: delivery", false},
		{"java", "TimeoutException", false},
		{"java", "kgo.ErrMaxBuffered", false},
		{"librdkafka", "RD_KAFKA_MSG_STATUS_NOT_PERSISTED", true},
		{"librdkafka", "RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED", false},
		{"franz-go", "something new", false},
		{"", "kgo.ErrMaxBuffered", false},
		{"franz-go", "", false},
	}
	for _, c := range cases {
		if got := ClientErrorDefinite(c.client, c.name); got != c.definite {
			t.Errorf("%s of %s: definite %v, want %v", c.name, c.client, got, c.definite)
		}
	}
	for _, row := range clientErrors {
		if got, known := ClientErrorByName(row.Client, row.Name); !known || got != row || row.Why == "" {
			t.Errorf("%s of %s gives %+v", row.Name, row.Client, got)
		}
	}
	if len(clientErrorIndex) != len(clientErrors) {
		t.Error("an error has two rows")
	}
}
