// This file tests the import of what Kafka's VerifiableProducer and
// VerifiableConsumer print. The lines are written by the documented protocol.

package histories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// verifiableFile is a file of a test: its name, and its lines.
type verifiableFile struct {
	name  string
	lines []string
}

func (f verifiableFile) text() string { return strings.Join(f.lines, "\n") + "\n" }

func producerFile(name string, lines ...string) verifiableFile { return verifiableFile{name, lines} }
func consumerFile(name string, lines ...string) verifiableFile { return verifiableFile{name, lines} }

// acked is an acknowledgement at the time 1000 ms and so many more.
func acked(at int, value string, partition, offset int) string {
	return fmt.Sprintf(`{"timestamp":%d,"name":"producer_send_success","key":null,"value":%q,"topic":"t","partition":%d,"offset":%d}`,
		1000+at, value, partition, offset)
}

func ackedWithKey(key, value string, offset int) string {
	return strings.Replace(acked(0, value, 0, offset), `"key":null`, fmt.Sprintf(`"key":%q`, key), 1)
}

func sendFailed(at int, value, exception, message string) string {
	return fmt.Sprintf(`{"timestamp":%d,"name":"producer_send_error","topic":"t","key":null,"value":%q,`+
		`"exception":"class org.apache.kafka.common.errors.%s","message":%q}`, 1000+at, value, exception, message)
}

func toolData(sent int) string {
	return fmt.Sprintf(`{"timestamp":2000,"name":"tool_data","sent":%d,"acked":0,"target_throughput":-1,"avg_throughput":1.5}`, sent)
}

func record(at int, value string, partition, offset int) string {
	return fmt.Sprintf(`{"timestamp":%d,"name":"record_data","key":null,"value":%q,"topic":"t","partition":%d,"offset":%d}`,
		1000+at, value, partition, offset)
}

// consumed closes a poll of so many records of partition 0.
func consumed(at, count int) string {
	return fmt.Sprintf(`{"timestamp":%d,"name":"records_consumed","count":%d,"partitions":[{"topic":"t","partition":0,"count":%d,`+
		`"minOffset":0,"maxOffset":9}]}`, 1000+at, count, count)
}

func rebalanced(at int, name string, partitions ...int) string {
	var list []string
	for _, p := range partitions {
		list = append(list, fmt.Sprintf(`{"topic":"t","partition":%d}`, p))
	}
	return fmt.Sprintf(`{"timestamp":%d,"name":"partitions_%s","partitions":[%s]}`, 1000+at, name, strings.Join(list, ","))
}

func named(at int, name string) string {
	return fmt.Sprintf(`{"timestamp":%d,"name":%q}`, 1000+at, name)
}

// inMemory puts files that lie in memory together.
func inMemory(tb testing.TB, files ...verifiableFile) (*File, error) {
	tb.Helper()
	var all []*File
	for _, f := range files {
		all = append(all, mustOpenBytes(tb, f.name, []byte(f.text())))
	}
	return Together(context.Background(), all...)
}

// verifiableCases are files with the lines that they become. Times are counted from
// 999 ms, or from a millisecond before the earliest line.
var verifiableCases = []struct {
	rule  string
	files []verifiableFile
	want  []string
	notes []string
}{
	{"a producer and a consumer make one history, whichever comes first",
		[]verifiableFile{
			consumerFile("c", named(0, "startup_complete"), rebalanced(1, "assigned", 0, 1), record(5, "0", 0, 7), record(5, "1", 1, 0),
				`{"timestamp":1006,"name":"records_consumed","count":2,"partitions":[{"topic":"t","partition":0,"count":1,"minOffset":7,`+
					`"maxOffset":7},{"topic":"t","partition":1,"count":1,"minOffset":0,"maxOffset":0}]}`,
				`{"timestamp":1007,"name":"offsets_committed","offsets":[{"topic":"t","partition":0,"offset":8}],"success":true}`,
				consumed(8, 0), rebalanced(9, "revoked", 1), named(10, "shutdown_complete"), named(10, "shutdown_requested")),
			producerFile("p", named(0, "startup_complete"), acked(3, "0", 0, 7), acked(4, "1", 1, 0), named(11, "shutdown_complete"), toolData(2)),
		},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @4000000  at 0/7",
			"send p:1 @0 t/1 to t/-1 key  rank 1", "return p:1 @5000000  at 1/0", "producer-close p @1001000000 crashed=false",
			"consumer c @0", "add c @2000000 t/0:-1 t/1:-1 rebalance", "poll c:0 @7000000", "polled c:0 @7000000  t/0 7=t/0 t/1 0=t/1",
			"poll c:1 @9000000", "polled c:1 @9000000 ", "revoke c @10000000 t/1:-1 rebalance", "consumer-close c @11000000 crashed=false"},
		nil},
	{"every value below the highest was sent, in the order of values and not of completions",
		[]verifiableFile{producerFile("p", acked(0, "3", 0, 2), acked(0, "1", 1, 0), toolData(6))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "send p:1 @0 t/1 to t/-1 key  rank 1",
			"send p:2 @0 t/2 to t/-1 key  rank 2", "send p:3 @0 t/3 to t/-1 key  rank 3", "return p:3 @1000000  at 0/2",
			"return p:1 @1000000  at 1/0", "send p:4 @0 t/4 to t/-1 key  rank 4", "send p:5 @0 t/5 to t/-1 key  rank 5",
			"producer-close p @1001000000 crashed=true"},
		[]string{"1 producers and no consumer, so that nothing was read (put the files together with --one-history) (first: p)"}},
	{"without tool_data, what a consumer read beyond the last completion may have been sent",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 2)), consumerFile("c", record(1, "2", 0, 2), consumed(1, 1))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/2",
			"send p:1 @0 t/1 to t/-1 key  rank 1", "send p:2 @0 t/2 to t/-1 key  rank 2", "producer-close p @1000000 crashed=true",
			"consumer c @0", "poll c:0 @2000000", "polled c:0 @2000000  t/0 2=t/2", "consumer-close c @2000000 crashed=true"},
		[]string{"1 producers without their tool_data line (killed, or cut off): what they sent last is not known (first: p, after the value 0)"}},
	{"with tool_data, what a consumer read beyond it was sent by nobody",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 2), toolData(1)),
			consumerFile("c", record(1, "1", 0, 2), record(1, "x", 0, 3), record(1, "9.0", 0, 4), record(1, "00", 0, 5), consumed(1, 4))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/2",
			"producer-close p @1001000000 crashed=true", "consumer c @0", "poll c:0 @2000000",
			"polled c:0 @2000000  t/0 2=t/1 3=t/x 4=t/9.0 5=t/00", "consumer-close c @2000000 crashed=true"}, nil},
	{"records are foreign: without a value, of a topic that nobody wrote to",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 2), toolData(1)),
			consumerFile("c", strings.Replace(record(1, "0", 0, 2), `"0"`, "null", 1),
				strings.Replace(record(1, "0", 0, 3), `"t"`, `"u"`, 1), `{"name":"records_consumed","count":0}`)},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/2",
			"producer-close p @1001000000 crashed=true", "consumer c @0", "poll c:0 @2000000",
			"polled c:0 @2000000  t/0 2= u/0 3=", "consumer-close c @2000000 crashed=true"}, nil},
	{"records are foreign: without a producer's file",
		[]verifiableFile{consumerFile("c", record(0, "0", 0, 2), consumed(0, 1))},
		[]string{"consumer c @0", "poll c:0 @1000000", "polled c:0 @1000000  t/0 2=", "consumer-close c @1000000 crashed=true"},
		[]string{"1 consumers and no producer, so that all records are foreign (put the files together with --one-history) (first: c)"}},
	{"records are foreign: while a client that completed nothing may have sent them",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 0), toolData(1)), producerFile("q", named(0, "startup_complete")),
			consumerFile("c", record(1, "0", 0, 0), record(1, "2.7", 0, 1), consumed(1, 2))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/0",
			"producer-close p @1001000000 crashed=true", "consumer c @0", "poll c:0 @2000000",
			"polled c:0 @2000000  t/0 0=t/0 1=", "consumer-close c @2000000 crashed=true"},
		[]string{"1 clients that completed nothing (first: q)"}},
	{"producers with prefixes, and a value that lies on another topic than its producer's",
		[]verifiableFile{producerFile("b/p", acked(0, "1.0", 0, 0), toolData(1)), producerFile("a/p", acked(0, "2.0", 0, 1), toolData(1)),
			consumerFile("c", record(1, "1.0", 0, 0), record(1, "2.0", 0, 1), strings.Replace(record(1, "2.0", 0, 3), `"t"`, `"u"`, 1),
				consumed(1, 2))},
		[]string{"producer b/p @0", "send b/p:0 @0 t/1.0 to t/-1 key  rank 0", "return b/p:0 @1000000  at 0/0",
			"producer-close b/p @1001000000 crashed=true", "producer a/p @0", "send a/p:0 @0 t/2.0 to t/-1 key  rank 0",
			"return a/p:0 @1000000  at 0/1", "producer-close a/p @1001000000 crashed=true", "consumer c @0", "poll c:0 @2000000",
			"polled c:0 @2000000  t/0 0=t/1.0 1=t/2.0 u/0 3=t/2.0", "consumer-close c @2000000 crashed=true"}, nil},
	{"the same values on two topics are two producers'",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 0), toolData(1)),
			producerFile("q", strings.Replace(acked(0, "0", 0, 0), `"t"`, `"u"`, 1), toolData(1)),
			consumerFile("c", record(1, "0", 0, 0), strings.Replace(record(1, "0", 0, 0), `"t"`, `"u"`, 1), consumed(1, 1))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/0",
			"producer-close p @1001000000 crashed=true", "producer q @0", "send q:0 @0 u/0 to u/-1 key  rank 0",
			"return q:0 @1000000  at 0/0", "producer-close q @1001000000 crashed=true", "consumer c @0", "poll c:0 @2000000",
			"polled c:0 @2000000  t/0 0=t/0 u/0 0=u/0", "consumer-close c @2000000 crashed=true"}, nil},
	{"repeating keys order the sends of each key; a send without a completion has no key and no rank",
		[]verifiableFile{producerFile("p", ackedWithKey("1", "1", 0), ackedWithKey("0", "0", 1), ackedWithKey("1", "4", 2),
			ackedWithKey("0", "3", 3), toolData(6)), consumerFile("c", named(0, "startup_complete"))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key 0 rank 0", "send p:1 @0 t/1 to t/-1 key 1 rank 0",
			"return p:1 @1000000  at 0/0", "return p:0 @1000000  at 0/1", "send p:2 @0 t/2 to t/-1 key  rank -1",
			"send p:3 @0 t/3 to t/-1 key 0 rank 1", "send p:4 @0 t/4 to t/-1 key 1 rank 1", "return p:4 @1000000  at 0/2",
			"return p:3 @1000000  at 0/3", "send p:5 @0 t/5 to t/-1 key  rank -1", "producer-close p @1001000000 crashed=true"},
		[]string{"1 clients that completed nothing (first: c)",
			"1 producers and no consumer, so that nothing was read (put the files together with --one-history) (first: p)"}},
	{"acknowledged without an offset, twice, and an error",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, -1), acked(1, "0", 0, 5), sendFailed(2, "1", "NetworkException", "gone"), toolData(1)),
			consumerFile("c", consumed(0, 0))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/-1", "return p:0 @2000000  at 0/5",
			"send p:1 @0 t/1 to t/-1 key  rank 1", "return p:1 @3000000  at -1/-1 gone", "producer-close p @1001000000 crashed=true",
			"consumer c @0", "poll c:0 @1000000", "polled c:0 @1000000 ", "consumer-close c @1000000 crashed=true"},
		[]string{"1 completions of a value that had one already (first: p:2)",
			"1 sends acknowledged without an offset (acks=0, or a duplicate's answer) (first: p:1)",
			"1 tool_data lines that tell of fewer values than there are (first: p)"}},
	{"polls that do not say all their records have one without an offset in their place",
		[]verifiableFile{consumerFile("c", consumed(0, 500), record(1, "0", 0, 5), consumed(1, 2), record(2, "1", 0, 7),
			`{"name":"records_consumed","count":3}`, record(3, "2", 1, 0), rebalanced(4, "assigned", 1), record(5, "3", 1, 1))},
		[]string{"consumer c @0", "poll c:0 @1000000", "polled c:0 @1000000  t/0 -1=", "poll c:1 @2000000",
			"polled c:1 @2000000  t/0 5= t/0 -1=", "poll c:2 @3000000", "polled c:2 @3000000  t/0 7= /-1 -1=",
			"poll c:3 @5000000", "polled c:3 @5000000 info t/1 0=", "add c @5000000 t/1:-1 rebalance",
			"poll c:4 @6000000", "polled c:4 @6000000 info t/1 1=", "consumer-close c @6000000 crashed=true"},
		[]string{"1 consumers and no producer, so that all records are foreign (put the files together with --one-history) (first: c)",
			"3 polls without the record_data of all their records, so that nobody can tell what was read " +
				"(VerifiableConsumer prints it with --verbose) (first: c:1)",
			"2 record_data lines without the records_consumed after them (first: c:7)"}},
	{"a consumer that was started again in the same file is another session; a commit that failed is told",
		[]verifiableFile{consumerFile("c", named(0, "startup_complete"), consumed(1, 0),
			`{"timestamp":1002,"name":"offsets_committed","offsets":[],"success":false,"error":"REBALANCE"}`,
			named(3, "startup_complete"), consumed(4, 0), named(5, "shutdown_complete"))},
		[]string{"consumer c @0", "poll c:0 @2000000", "polled c:0 @2000000 ", "consumer-close c @4000000 crashed=true",
			"consumer c#2 @4000000", "poll c#2:0 @5000000", "polled c#2:0 @5000000 ", "consumer-close c#2 @6000000 crashed=false"},
		[]string{"1 commits of offsets that failed (first: REBALANCE at c:3)",
			"1 consumers and no producer, so that all records are foreign (put the files together with --one-history) (first: c)"}},
	{"consumers that began behind the first acknowledged offset are told of",
		[]verifiableFile{producerFile("p", acked(0, "0", 0, 3), acked(0, "1", 0, 4), toolData(2)), consumerFile("c", record(1, "1", 0, 4), consumed(1, 1))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @1000000  at 0/3",
			"send p:1 @0 t/1 to t/-1 key  rank 1", "return p:1 @1000000  at 0/4", "producer-close p @1001000000 crashed=true",
			"consumer c @0", "poll c:0 @2000000", "polled c:0 @2000000  t/0 4=t/1", "consumer-close c @2000000 crashed=true"},
		[]string{"1 partitions that no consumer read from their beginning (--reset-policy earliest, a new --group-id): what lies before " +
			"counts as lost (first: t/0, read from offset 4 and acknowledged from 3)"}},
	{"what is no line of the protocol is counted, with the place of the first one",
		[]verifiableFile{producerFile("p", "\xef\xbb\xbf--producer.config is deprecated", "", " {not JSON}", `[1]`, `{"nameless":1}`, `{"name":"startup_complete"} x`,
			`{"name":"heartbeat"}`, `{"name":"producer_send_success","value":"0"}`, `{"name":"tool_data","sent":"many"}`,
			`{"offset":4,"more":{"a":[1]},"partition":0,"topic":"t","value":0,"name":"producer_send_success","timestamp":"noon"}`+"\r", toolData(1))},
		[]string{"producer p @0", "send p:0 @0 t/0 to t/-1 key  rank 0", "return p:0 @0  at 0/4", "producer-close p @1000000 crashed=true"},
		[]string{"2 lines of the protocol with a field that is missing or wrong (first: p:8)",
			"5 lines that are no lines of the protocol (other text that was printed) (first: p:1)",
			`1 lines whose name this program does not know (first: "heartbeat" at p:7)`,
			"1 producers and no consumer, so that nothing was read (put the files together with --one-history) (first: p)"}},
}

func TestVerifiableLinesBecomeAHistory(t *testing.T) {
	for _, c := range verifiableCases {
		t.Run(c.rule, func(t *testing.T) {
			file, err := inMemory(t, c.files...)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a history can be read again
				lines, _, err := readAll(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := summary(lines); !slices.Equal(got, c.want) {
					t.Fatalf("got\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(c.want, "\n "))
				}
				if notes := file.Header().Source.Notes; !slices.Equal(notes, c.notes) {
					t.Fatalf("notes\n %s\nwant\n %s", strings.Join(notes, "\n "), strings.Join(c.notes, "\n "))
				}
			}
			if len(c.files) == 1 {
				alone := mustOpenBytes(t, c.files[0].name, []byte(c.files[0].text()))
				if lines, _, err := readAll(alone); err != nil || !slices.Equal(summary(lines), c.want) {
					t.Errorf("opened alone: %v\n %s", err, strings.Join(summary(lines), "\n "))
				}
			}
		})
	}
}

func TestErrorsOfTheJavaClient(t *testing.T) {
	for _, c := range []struct {
		exception, message, name string
		definite                 bool
	}{
		{"class org.apache.kafka.common.errors.SerializationException", "", "SerializationException", true},
		{"class org.apache.kafka.common.errors.TimeoutException", "Topic t not present in metadata after 60000 ms.", "TimeoutException: metadata", true},
		{"class org.apache.kafka.common.errors.TimeoutException", "Expiring 3 record(s) for t-0:120000 ms has passed since batch creation",
			"TimeoutException: delivery", false},
		{"class org.apache.kafka.common.errors.TimeoutException", "", "TimeoutException", false},
		{"class org.apache.kafka.clients.producer.BufferExhaustedException", "Failed to allocate 16384 bytes", "BufferExhaustedException", true},
		{"class org.apache.kafka.common.errors.RecordTooLargeException", "The message is 9 bytes when serialized which is larger than 8, " +
			"which is the value of the max.request.size configuration.", "RecordTooLargeException: max.request.size", true},
		{"class org.apache.kafka.common.errors.RecordTooLargeException", "The request included a message larger than the max message size",
			"RecordTooLargeException", false},
		{"class java.lang.IllegalStateException", "Cannot perform operation after producer has been closed", "IllegalStateException", true},
		{"class java.lang.IllegalStateException", "Producer is closed forcefully.", "IllegalStateException: other", false},
		{"class org.apache.kafka.common.errors.NotEnoughReplicasException", "", "NotEnoughReplicasException", false},
		{"class org.apache.kafka.common.KafkaException", "Producer is closed forcefully.", "KafkaException", false},
		{"org.example.Outer$Inner", "", "Inner", false},
		{"", "", "unnamed", false},
	} {
		t.Run(c.exception+" "+c.message, func(t *testing.T) {
			line := fmt.Sprintf(`{"name":"producer_send_error","topic":"t","value":"0","exception":%q,"message":%q}`, c.exception, c.message)
			if c.message == "" {
				line = fmt.Sprintf(`{"message":null,"name":"producer_send_error","topic":"t","value":"0","exception":%q}`, c.exception)
			}
			file, err := inMemory(t, producerFile("p", line, toolData(1)))
			if err != nil {
				t.Fatal(err)
			}
			lines, _, err := readAll(file)
			if err != nil {
				t.Fatal(err)
			}
			back, ok := lines[2].(*SendReturn)
			if !ok || back.ClientError != c.name || back.Message != c.message || back.Stated != "" {
				t.Fatalf("got %+v, want the client error %q", lines[2], c.name)
			}
			if client := lines[0].(*Producer).Client; ClientErrorDefinite(client, back.ClientError) != c.definite {
				t.Errorf("%s of %s: definite is not %v", back.ClientError, client, c.definite)
			}
		})
	}
}

func TestFilesThatCannotBePutTogether(t *testing.T) {
	p := producerFile("p.log", acked(0, "0", 0, 0), acked(0, "1", 0, 1))
	for _, c := range []struct {
		rule  string
		files []verifiableFile
		says  []string
	}{
		{"two producers with the same values", []verifiableFile{p, producerFile("q.log", acked(0, "7", 1, 0))},
			[]string{"p.log and q.log", "topic t", "--value-prefix"}},
		{"the same prefix twice", []verifiableFile{producerFile("p.log", acked(0, "1.0", 0, 0)), producerFile("q.log", acked(0, "1.5", 0, 1))},
			[]string{"p.log and q.log", `"1.0"`, "--value-prefix"}},
		{"a file that is named twice", []verifiableFile{p, p}, []string{"p.log is named twice"}},
		{"two producers in one file", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), named(1, "startup_complete"))},
			[]string{"p.log: line 2", "second producer", "--value-prefix"}},
		{"two prefixes in one file", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), acked(1, "1.0", 0, 1))},
			[]string{"p.log: line 2", `"1.0"`, "its own file"}},
		{"two topics in one file", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), strings.Replace(acked(1, "1", 0, 1), `"t"`, `"u"`, 1))},
			[]string{"p.log: line 2", "sent to u", "its own file"}},
		{"a producer and a consumer in one file", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), record(1, "0", 0, 0))},
			[]string{"p.log: line 2", "VerifiableConsumer", "VerifiableProducer", "--one-history"}},
		{"a share consumer", []verifiableFile{consumerFile("s.log", named(0, "startup_complete"), `{"name":"offset_reset_strategy_set"}`)},
			[]string{"s.log: line 2", "VerifiableShareConsumer"}},
		{"a value without a number", []verifiableFile{producerFile("p.log", acked(0, "a", 0, 0))}, []string{"p.log: line 1", `"a"`}},
		{"a number that is not printed so", []verifiableFile{producerFile("p.log", acked(0, "01", 0, 0))}, []string{"p.log: line 1", `"01"`}},
		{"a value far above all others", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), acked(0, "99999999999999", 0, 1))},
			[]string{"p.log: line 2", "99999999999999", "missing"}},
		{"a value far above what an open producer completed",
			[]verifiableFile{p, consumerFile("c.log", record(0, "99999999999999", 0, 0), consumed(0, 1))},
			[]string{"c.log: line 1", "99999999999999", "p.log", "tool_data"}},
		{"a tool_data that tells of far more than was completed", []verifiableFile{producerFile("p.log", acked(0, "0", 0, 0), toolData(9999999999))},
			[]string{"p.log", "9999999999", "missing"}},
		{"another format", []verifiableFile{p, {"h.jsonl", []string{`{"line":"header","format":"ackproof-history","version":"1.0"}`}}},
			[]string{"h.jsonl", FormatNative, "alone"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := inMemory(t, c.files...)
			if err == nil {
				t.Fatal("they were put together")
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("it does not say %q: %v", says, err)
				}
			}
		})
	}
	if _, err := OpenTogether(t.Context()); err == nil {
		t.Error("no file at all was put together")
	}
	if _, err := OpenTogether(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
}

func TestVerifiableLinesAreRecognised(t *testing.T) {
	whole := producerFile("p", "WARN [Producer] text", "{", acked(0, "0", 0, 0), toolData(1)).text()
	folder := t.TempDir()
	for name, content := range map[string][]byte{"plain": []byte(whole), "zstd": oneFrame(t, []byte(whole)), "no newline": []byte(strings.TrimSpace(whole)),
		"startup alone": []byte(named(0, "startup_complete") + "\n")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := OpenTogether(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			lines, _, err := readAll(file)
			if want := 4; err != nil || name != "startup alone" && len(lines) != want || file.Format() != FormatVerifiable {
				t.Errorf("%s with %d lines, %v", file.Format(), len(lines), err)
			}
		})
	}
	for name, content := range map[string]string{
		"another JSON log":                `{"name":"other","timestamp":1}` + "\n",
		"text":                            "startup_complete\n",
		"a history without its header":    `{"line":"producer","name":"p1","time":1}` + "\n",
		"the name is no member by itself": `{"a":{"name":"startup_complete"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if file, err := OpenBytes("f", []byte(content)); err == nil {
				t.Errorf("it was taken for %s", file.Format())
			}
		})
	}
}

func TestACutFileOfAVerifiableClient(t *testing.T) {
	producer := producerFile("p", acked(0, "0", 0, 0), toolData(1))
	consumer := consumerFile("c", record(0, "0", 0, 0), consumed(0, 1))
	for _, c := range []struct {
		rule               string
		producer, consumer string
		cut                bool // of the history
		note               string
	}{
		{"whole, without the last newline", strings.TrimSpace(producer.text()), strings.TrimSpace(consumer.text()), false, ""},
		{"a producer's merely tells of less", producer.text()[:len(producer.text())-5], consumer.text(), false,
			"1 last lines that are cut (first: p:2)"},
		{"a consumer's leaves open what was read", producer.text(), consumer.text()[:len(consumer.text())-5], true,
			"1 last lines that are cut (first: c:2)"},
		{"zeros at the end of a consumer's", producer.text(), consumer.text() + "\x00\x00\x00", true, "1 last lines that are cut (first: c:3)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			file, err := Together(t.Context(), mustOpenBytes(t, "p", []byte(c.producer)), mustOpenBytes(t, "c", []byte(c.consumer)))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = readAll(file)
			var cut *CutError
			if errors.As(err, &cut) != c.cut || err != nil && !c.cut {
				t.Fatalf("read with %v, want a cut: %v", err, c.cut)
			}
			if c.cut && (cut.Name != "c" || cut.Line == 0) {
				t.Errorf("cut in %s after line %d", cut.Name, cut.Line)
			}
			if notes := file.Header().Source.Notes; c.note != "" && !slices.Contains(notes, c.note) || c.note == "" && len(notes) > 0 {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

func TestAFileThatGrowsWhileItIsRead(t *testing.T) {
	text := producerFile("p", acked(0, "0", 0, 0)).text()
	file, err := openFile("p", 0, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(file); err != nil {
		t.Fatal(err)
	}
	text += acked(0, "1", 0, 1) + "\n"
	if _, _, err := readAll(file); err == nil || !strings.Contains(err.Error(), "p: line 2") {
		t.Errorf("read on: %v", err)
	}
}

// TestVerifiableFilesLoseNothing makes files at random and counts what must be left.
func TestVerifiableFilesLoseNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	const values = 3000
	var producer, consumer []string
	completed, records := 0, 0
	for from := 0; from < values; from += 10 {
		for _, n := range random.Perm(10) {
			switch random.IntN(20) {
			case 0:
				continue
			case 1:
				producer = append(producer, "a line of another program")
			}
			completed++
			producer = append(producer, acked(from, fmt.Sprint(from+n), 0, from+n))
			consumer = append(consumer, record(from, fmt.Sprint(from+n), 0, from+n))
			records++
		}
		consumer = append(consumer, consumed(from, 0))
	}
	file, err := inMemory(t, consumerFile("c", consumer...), producerFile("p", append(producer, toolData(values))...))
	if err != nil {
		t.Fatal(err)
	}
	lines, _, err := readAll(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := countVerifiable(t, lines)
	want := map[string]int{"send": values, "return": completed, "record": records, "poll": values / 10}
	if !reflect.DeepEqual(counts, want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
}

// countVerifiable counts lines and checks what holds in every history: sends in their
// order, and nothing before its invocation.
func countVerifiable(tb testing.TB, lines []Line) map[string]int {
	tb.Helper()
	counts := map[string]int{}
	sent, next := map[OperationID]bool{}, map[string]int64{}
	for _, l := range lines {
		switch l := l.(type) {
		case *Send:
			counts["send"]++
			if l.Number != next[l.Process] || sent[l.OperationID] {
				tb.Fatalf("send %+v, want number %d", l, next[l.Process])
			}
			next[l.Process]++
			sent[l.OperationID] = true
		case *SendReturn:
			counts["return"]++
			if !sent[l.OperationID] {
				tb.Fatalf("%+v was never sent", l)
			}
		case *PollReturn:
			counts["poll"]++
			for _, part := range l.Records {
				counts["record"] += len(part.Records)
			}
		}
	}
	return counts
}

func FuzzReadVerifiable(f *testing.F) {
	for _, c := range verifiableCases {
		first, second := c.files[0].text(), ""
		if len(c.files) > 1 {
			second = c.files[1].text()
		}
		f.Add([]byte(first), []byte(second))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		lines, err := readVerifiable(first, second, false)
		again, errAgain := readVerifiable(first, second, true)
		if !reflect.DeepEqual(lines, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("at once %d lines, %v; byte by byte %d lines, %v", len(lines), err, len(again), errAgain)
		}
		countVerifiable(t, lines)
		for _, l := range lines {
			if got, err := newDecoder().decode(encode(t, l)); err != nil || !reflect.DeepEqual(got, l) {
				t.Fatalf("%+v is read again as %+v, %v", l, got, err)
			}
		}
	})
}

// readVerifiable reads two files as one history, or the first one alone where the
// second is empty; no more than the first lines.
func readVerifiable(first, second []byte, slowly bool) ([]Line, error) {
	var files []*File
	for i, text := range [][]byte{first, second} {
		if i > 0 && len(text) == 0 {
			continue
		}
		name := fmt.Sprintf("f%d", i)
		file := &File{name: name, format: FormatVerifiable, open: func() (io.ReadCloser, error) {
			if slowly {
				return io.NopCloser(iotest.OneByteReader(bytes.NewReader(text))), nil
			}
			return io.NopCloser(bytes.NewReader(text)), nil
		}}
		files = append(files, file)
	}
	all, err := Together(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for entry, err := range all.Lines(context.Background()) {
		if err != nil {
			return lines, err
		}
		if lines = append(lines, entry.Line); len(lines) == 2000 {
			break
		}
	}
	return lines, nil
}

func BenchmarkReadVerifiable(b *testing.B) {
	const values = 100_000
	var producer, consumer []string
	for n := range values {
		producer = append(producer, acked(n, fmt.Sprint(n), 0, n))
		consumer = append(consumer, record(n, fmt.Sprint(n), 0, n))
		if n%500 == 499 {
			consumer = append(consumer, consumed(n, 500))
		}
	}
	files := []verifiableFile{producerFile("p", append(producer, toolData(values))...), consumerFile("c", consumer...)}
	b.SetBytes(int64(len(files[0].text()) + len(files[1].text())))
	for b.Loop() {
		file, err := inMemory(b, files...)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range file.Lines(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
