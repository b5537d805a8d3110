// This file judges what Kafka's VerifiableProducer and VerifiableConsumer print: good
// and bad twins, made of a few values each.

package checker_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// sentLine is the acknowledgement of a value.
func sentLine(value string, partition, offset int) string {
	return fmt.Sprintf(`{"name":"producer_send_success","key":null,"value":%q,"topic":"t","partition":%d,"offset":%d,"timestamp":5}`,
		value, partition, offset)
}

func errorLine(value, exception, message string) string {
	return fmt.Sprintf(`{"name":"producer_send_error","key":null,"value":%q,"topic":"t","timestamp":5,`+
		`"exception":"class org.apache.kafka.common.errors.%s","message":%q}`, value, exception, message)
}

func closedLine(sent int) string {
	return fmt.Sprintf(`{"name":"tool_data","sent":%d,"timestamp":9}`, sent)
}

// readLines are a poll of partition 0 from an offset on; "-" is an offset without a
// record, and a value may say another topic, "u:0".
func readLines(from int, values ...string) []string {
	var lines []string
	for i, value := range values {
		if value == "-" {
			continue
		}
		topic := "t"
		if at := strings.IndexByte(value, ':'); at > 0 {
			topic, value = value[:at], value[at+1:]
		}
		lines = append(lines, fmt.Sprintf(`{"name":"record_data","key":null,"value":%q,"topic":%q,"partition":0,"offset":%d,"timestamp":1}`,
			value, topic, from+i))
	}
	return append(lines, fmt.Sprintf(`{"name":"records_consumed","count":%d,"partitions":[{"topic":"t","partition":0,"count":0}],"timestamp":1}`,
		len(lines)))
}

const assignedLine = `{"name":"partitions_assigned","partitions":[{"topic":"t","partition":0}],"timestamp":1}`

func clientFile(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// opened opens files, each a text, as one history.
func opened(t *testing.T, texts ...string) *histories.File {
	t.Helper()
	folder := t.TempDir()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(folder, fmt.Sprintf("client%d.log", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	file, err := histories.OpenTogether(t.Context(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var (
	acksAll    = map[string]string{"acks": "all", "enable.idempotence": "false", "retries": "0", "max.in.flight.requests.per.connection": "5"}
	idempotent = map[string]string{"acks": "all", "enable.idempotence": "true", "retries": "9", "max.in.flight.requests.per.connection": "5"}
	withRetry  = map[string]string{"acks": "all", "enable.idempotence": "false", "retries": "9", "max.in.flight.requests.per.connection": "5"}
	acksZero   = map[string]string{"acks": "0", "enable.idempotence": "false", "retries": "0", "max.in.flight.requests.per.connection": "5"}
)

func TestVerifiableClientsAreJudged(t *testing.T) {
	four := []string{sentLine("0", 0, 0), sentLine("1", 0, 1), sentLine("2", 0, 2), sentLine("3", 0, 3)}
	whole := clientFile(append(slices.Clone(four), closedLine(4))...)
	for _, c := range []struct {
		rule     string
		producer map[string]string
		texts    []string
		verdict  string
		found    map[checker.Anomaly]int64
	}{
		{"everything was read", idempotent, []string{whole, clientFile(readLines(0, "0", "1", "2", "3")...)}, checker.Held, nil},
		{"everything was read, and no configuration is known", nil, []string{whole, clientFile(readLines(0, "0", "1", "2", "3")...)},
			checker.Held, nil},
		{"an acknowledged value is gone, and another lies at its offset", acksAll,
			[]string{clientFile(append(slices.Clone(four), sentLine("4", 0, 1), closedLine(5))...), clientFile(readLines(0, "0", "4", "2", "3")...)},
			checker.Violated, map[checker.Anomaly]int64{checker.LostWrite: 1, checker.Divergence: 1, checker.OrderViolation: 1}},
		{"an acknowledged value is gone, and no configuration is known", nil,
			[]string{whole, clientFile(slices.Concat(readLines(0, "0"), []string{assignedLine}, readLines(2, "2", "3"))...)},
			checker.UnknownWord, map[checker.Anomaly]int64{checker.LostWrite: 1}},
		{"an acknowledged value is gone", acksAll,
			[]string{whole, clientFile(slices.Concat(readLines(0, "0"), []string{assignedLine}, readLines(2, "2", "3"))...)},
			checker.Violated, map[checker.Anomaly]int64{checker.LostWrite: 1}},
		{"a consumer was given what lies before and behind, and not the value between", acksAll,
			[]string{whole, clientFile(readLines(0, "0", "-", "2", "3")...), clientFile(readLines(0, "0", "1", "2", "3")...)},
			checker.Violated, map[checker.Anomaly]int64{checker.SkippedPoll: 1}},
		{"two consumers read a part each", acksAll, []string{whole, clientFile(readLines(0, "0", "1")...), clientFile(readLines(2, "2", "3")...)},
			checker.Held, nil},
		{"what was acknowledged last was not read yet", acksAll, []string{whole, clientFile(readLines(0, "0", "1")...)},
			checker.UnknownWord, map[checker.Anomaly]int64{checker.Unseen: 2}},
		{"a value was written twice by an idempotent producer", idempotent,
			[]string{whole, clientFile(readLines(0, "0", "1", "2", "3", "1")...)}, checker.Violated, map[checker.Anomaly]int64{checker.Duplicate: 1}},
		{"a value was written twice, which retries may do", withRetry, []string{whole, clientFile(readLines(0, "0", "1", "2", "3", "1")...)},
			checker.Held, map[checker.Anomaly]int64{checker.Duplicate: 1}},
		{"a value lies behind a later one", idempotent,
			[]string{clientFile(sentLine("1", 0, 0), sentLine("0", 0, 1), closedLine(2)), clientFile(readLines(0, "1", "0")...)},
			checker.Violated, map[checker.Anomaly]int64{checker.OrderViolation: 1}},
		{"values of two partitions are in order, whichever was completed first", idempotent,
			[]string{clientFile(sentLine("2", 0, 0), sentLine("0", 1, 0), sentLine("1", 1, 1), closedLine(3)),
				clientFile(append(readLines(0, "2"), strings.NewReplacer(`"partition":0`, `"partition":1`).Replace(
					clientFile(readLines(0, "0", "1")...)))...)}, checker.Held, nil},
		{"a value that expired surfaced behind a later one", idempotent,
			[]string{clientFile(sentLine("1", 0, 0), errorLine("0", "TimeoutException", "Expiring 1 record(s) for t-0"), closedLine(2)),
				clientFile(readLines(0, "1", "0")...)}, checker.Violated, map[checker.Anomaly]int64{checker.LateGhost: 1}},
		{"a value that expired was written in its place", idempotent,
			[]string{clientFile(sentLine("1", 0, 1), errorLine("0", "TimeoutException", "Expiring 1 record(s) for t-0"), closedLine(2)),
				clientFile(readLines(0, "0", "1")...)}, checker.Held, nil},
		{"a value that was never sent on was written", acksAll,
			[]string{clientFile(sentLine("1", 0, 1), errorLine("0", "TimeoutException", "Topic t not present in metadata after 9 ms."), closedLine(2)),
				clientFile(readLines(0, "0", "1")...)}, checker.Violated, map[checker.Anomaly]int64{checker.ImpossibleWrite: 1}},
		{"a value that nobody sent was read", acksAll, []string{whole, clientFile(readLines(0, "0", "1", "2", "3", "4")...)},
			checker.Violated, map[checker.Anomaly]int64{checker.Phantom: 1}},
		{"a value beyond the last that a killed producer told of was read", acksAll,
			[]string{clientFile(four...), clientFile(readLines(0, "0", "1", "2", "3", "4")...)}, checker.Held, nil},
		{"a value lies on another topic than it was sent to", acksAll,
			[]string{clientFile(sentLine("7.0", 0, 0), sentLine("7.1", 0, 1), closedLine(2)),
				clientFile(append(readLines(0, "7.0", "7.1"), readLines(0, "u:7.1")...)...)},
			checker.Violated, map[checker.Anomaly]int64{checker.WrongPlace: 1, checker.Duplicate: 1}},
		{"an acknowledgement names an offset where the value is not", acksAll,
			[]string{whole, clientFile(readLines(0, "0", "1", "2", "-", "3")...)}, checker.Violated, map[checker.Anomaly]int64{checker.WrongOffset: 1}},
		{"an acknowledgement without an offset, of a value that was read", acksAll,
			[]string{clientFile(sentLine("0", 0, -1), closedLine(1)), clientFile(readLines(0, "0")...)}, checker.Held, nil},
		{"an acknowledgement without an offset, of a value that was not", acksAll,
			[]string{clientFile(sentLine("0", 0, -1), sentLine("1", 0, 0), closedLine(2)), clientFile(readLines(0, "1")...)},
			checker.UnknownWord, map[checker.Anomaly]int64{checker.Unseen: 1}},
		{"with acks=0 nothing is acknowledged", acksZero,
			[]string{clientFile(sentLine("0", 0, -1), sentLine("1", 0, -1), closedLine(2)), clientFile(readLines(0, "1")...)}, checker.Held, nil},
		{"a consumer does not say what it read, so nothing is known of loss", acksAll,
			[]string{whole, clientFile(readLines(0, "0")...), clientFile(readLines(3, "3")...),
				clientFile(`{"name":"records_consumed","count":2,"partitions":[{"topic":"t","partition":0,"count":2}]}`)},
			checker.UnknownWord, map[checker.Anomaly]int64{checker.LostWrite: 2}},
		{"a consumer's file is cut, so nothing is known of loss", acksAll,
			[]string{whole, strings.TrimSuffix(clientFile(slices.Concat(readLines(0, "0"), []string{assignedLine}, readLines(2, "2", "3"),
				[]string{assignedLine})...), "}\n")}, checker.UnknownWord, map[checker.Anomaly]int64{checker.LostWrite: 1}},
		{"a producer's file is cut", acksAll,
			[]string{strings.TrimSuffix(whole, "}\n"), clientFile(slices.Concat(readLines(0, "0"), []string{assignedLine}, readLines(2, "2", "3"))...)},
			checker.Violated, map[checker.Anomaly]int64{checker.LostWrite: 1}},
		{"nobody says what was sent", acksAll, []string{clientFile(readLines(0, "0", "1")...)}, checker.UnknownWord, nil},
		{"a consumer's clock is behind the producer's by an hour", acksAll,
			[]string{strings.ReplaceAll(whole, `"timestamp":5`, `"timestamp":3600005`), clientFile(readLines(0, "0", "1", "2", "3")...)}, checker.Held, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v, err := checker.Check(t.Context(), opened(t, c.texts...), checker.Options{Producer: c.producer})
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[checker.Anomaly]int64)
			for name, part := range v.Anomalies {
				if part.Count > 0 {
					got[name] = part.Count
				}
			}
			if v.Verdict != c.verdict || !maps.Equal(got, c.found) {
				t.Errorf("%s (%s) with %v, want %s with %v", v.Verdict, v.Summary, got, c.verdict, c.found)
			}
			for _, p := range v.Promises {
				if (p.Name == checker.RealtimeOrderViolation || p.Name == checker.FutureRead) && p.Verdict == checker.Held {
					t.Errorf("%s is held, and nothing says when a value was sent", p.Name)
				}
			}
		})
	}
}

// TestVerifiableCounts: what kafkatest calls missing, acknowledged values that nobody
// consumed, is lost-write and unseen together.
func TestVerifiableCounts(t *testing.T) {
	v, err := checker.Check(t.Context(), opened(t,
		clientFile(sentLine("0", 0, 0), sentLine("1", 0, 1), sentLine("2", 0, 2), sentLine("3", 0, 3), errorLine("4", "NetworkException", ""), closedLine(6)),
		clientFile(append(append(readLines(0, "0"), assignedLine), readLines(2, "2")...)...)), checker.Options{Producer: acksAll})
	if err != nil {
		t.Fatal(err)
	}
	c := v.Counts
	missing := v.Anomalies[checker.LostWrite].Count + v.Anomalies[checker.Unseen].Count
	if c.Invoked != 6 || c.Acknowledged != 4 || c.Unknown != 2 || c.Polls != 2 || missing != 2 {
		t.Errorf("%d missing, %+v", missing, c)
	}
	if part := v.Anomalies[checker.LostWrite]; part.Count != 1 || part.Examples[0].Events[0] != "t/1" || len(part.Examples[0].Evidence) == 0 {
		t.Errorf("lost writes: %+v", part)
	}
}
