// This file tests the import of Jepsen's Kafka histories, in EDN and in the
// neutral JSON form.

package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// ednLines reads an EDN history from memory, in small pieces: what is read must
// not depend on how the text is cut into reads.
func ednLines(tb testing.TB, text string) (lines []Line, numbers []int64, err error) {
	tb.Helper()
	file := mustOpenBytes(tb, "history.edn", []byte(text))
	if file.Format() != FormatJepsen {
		tb.Fatalf("it was taken for %s", file.Format())
	}
	lines, numbers, err = readAll(file)
	slow := newEDNScanner("history.edn", iotest.OneByteReader(strings.NewReader(text)))
	slow.buf = make([]byte, 0, 16)
	var again []Line
	errAgain := readJepsen(context.Background(), slow, newJepsenMapper(func(l Line, _ int64) bool {
		again = append(again, l)
		return true
	}))
	if !reflect.DeepEqual(lines, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		tb.Fatalf("read at once: %d lines, %v; read byte by byte: %d lines, %v", len(lines), err, len(again), errAgain)
	}
	return lines, numbers, err
}

// summary is the lines as short texts.
func summary(lines []Line) []string {
	var all []string
	for _, l := range lines {
		switch l := l.(type) {
		case *Producer:
			all = append(all, fmt.Sprintf("producer %s @%d", l.Name, l.Time))
		case *Consumer:
			all = append(all, fmt.Sprintf("consumer %s @%d", l.Name, l.Time))
		case *ProducerClose:
			all = append(all, fmt.Sprintf("producer-close %s @%d crashed=%v", l.Name, l.Time, l.Crashed))
		case *ConsumerClose:
			all = append(all, fmt.Sprintf("consumer-close %s @%d crashed=%v", l.Name, l.Time, l.Crashed))
		case *Send:
			all = append(all, fmt.Sprintf("send %s:%d @%d %s to %s/%d key %s rank %d", l.Process, l.Number, l.Time, l.Event,
				l.Topic, l.Partition, l.OrderingKey, l.Rank))
		case *SendReturn:
			all = append(all, strings.TrimSpace(fmt.Sprintf("return %s:%d @%d %s at %d/%d %s", l.Process, l.Number, l.Time,
				l.Stated, l.Partition, l.Offset, l.Message)))
		case *Poll:
			all = append(all, fmt.Sprintf("poll %s:%d @%d", l.Process, l.Number, l.Time))
		case *PollReturn:
			text := fmt.Sprintf("polled %s:%d @%d %s", l.Process, l.Number, l.Time, l.Stated)
			for _, part := range l.Records {
				text += fmt.Sprintf(" %s/%d", part.Topic, part.Partition.Partition)
				for _, r := range part.Records {
					text += fmt.Sprintf(" %d=%s", r.Offset, r.Event)
				}
			}
			all = append(all, text)
		case *PositionChange:
			text := fmt.Sprintf("%s %s @%d", l.How, l.Process, l.Time)
			for _, p := range l.Partitions {
				text += fmt.Sprintf(" %s/%d:%d", p.Topic, p.Partition.Partition, p.Position)
			}
			all = append(all, strings.TrimSpace(text+" "+l.Reason))
		default:
			all = append(all, fmt.Sprintf("%T", l))
		}
	}
	return all
}

// jepsenCases are Jepsen histories with the lines that they become.
var jepsenCases = []struct {
	rule, text string
	want       []string
	notes      []string
}{
	{"a send that was acknowledged, with its offset",
		`{:index 0 :time 10 :type :invoke :process 0 :f :send :value [[:send 3 7]]}
			 {:index 1 :time 20 :type :ok :process 0 :f :send :value [[:send 3 [5 7]]]}`,
		[]string{"producer p0 @10", "send p0:0 @10 3/7 to 3/0 key 3 rank 0", "return p0:0 @20 ok at 0/5"}, nil},
	{"acknowledgements without an offset, in every notation",
		`{:time 10 :type :invoke :process 0 :f :send :value [[:send 3 7] [:send 3 8] [:send 4 9]]}
			 {:time 20 :type :ok :process 0 :f :send :value [[:send 3 [nil 7]] [:send 3 8] (:send 4 (2 9))]}`,
		[]string{"producer p0 @10", "send p0:0 @10 3/7 to 3/0 key 3 rank 0", "send p0:1 @10 3/8 to 3/0 key 3 rank 1",
			"send p0:2 @10 4/9 to 4/0 key 4 rank 0", "return p0:0 @20 ok at 0/-1", "return p0:1 @20 ok at 0/-1",
			"return p0:2 @20 ok at 0/2"}, nil},
	{"a send that failed and one that crashed, with their errors",
		`{:time 1 :type :invoke :process 0 :f :send :value [[:send "a" 1]]}
			 {:time 2 :type :fail :process 0 :f :send :value [[:send "a" 1]] :error [:not-leader "gone"]}
			 {:time 3 :type :invoke :process 0 :f :send :value [[:send "a" 2]]}
			 {:time 4 :type :info :process 0 :f :send :value [[:send "a" [9 2]]] :error :timeout}`,
		[]string{"producer p0 @1", "send p0:0 @1 a/1 to a/0 key a rank 0",
			`return p0:0 @2 fail at 0/-1 [:not-leader "gone"]`,
			"send p0:1 @3 a/2 to a/0 key a rank 1", "return p0:1 @4 info at 0/9 :timeout"}, nil},
	{"what was sent is what the completion says, in the place of the invocation",
		`{:time 1 :type :invoke :process 0 :f :send :value [[:send 1 1] [:send 1 2]]}
			 {:time 2 :type :invoke :process 1 :f :send :value [[:send 1 3]]}
			 {:time 3 :type :ok :process 1 :f :send :value [[:send 1 [1 3]]]}
			 {:time 4 :type :ok :process 0 :f :send :value [[:send 1 [0 "a"]] [:send 2 [0 2]]]}
			 {:time 5 :type :invoke :process 0 :f :send :value [[:send 1 4]]}
			 {:time 6 :type :ok :process 0 :f :send :value [[:send 1 [2 4]]]}`,
		[]string{"producer p1 @2", "send p1:0 @2 1/3 to 1/0 key 1 rank 0", "return p1:0 @3 ok at 0/1",
			"producer p0 @1", "send p0:0 @1 1/a to 1/0 key 1 rank 0", "send p0:1 @1 2/2 to 2/0 key 2 rank 0",
			"return p0:0 @4 ok at 0/0", "return p0:1 @4 ok at 0/0", "send p0:2 @5 1/4 to 1/0 key 1 rank 1",
			"return p0:2 @6 ok at 0/2"}, nil},
	{"what the completion leaves out may have been sent as well",
		`{:time 1 :type :invoke :process 0 :f :send :value [[:send 1 1] [:send 1 2]]}
			 {:time 2 :type :ok :process 0 :f :send :value [[:send 1 [0 1]]]}`,
		[]string{"producer p0 @1", "send p0:0 @1 1/1 to 1/0 key 1 rank 0", "send p0:1 @1 1/2 to 1/0 key 1 rank 1",
			"return p0:0 @2 ok at 0/0", "return p0:1 @2 info at 0/-1"}, nil},
	{"an operation without a completion: invoked, at the end",
		`{:time 1 :type :invoke :process 0 :f :txn :value [[:send 1 1] [:poll]]}
			 {:time 2 :type :invoke :process 1 :f :poll :value [[:poll]]}
			 {:time 3 :type :ok :process 1 :f :poll :value [[:poll {1 [[0 1]]}]]}`,
		[]string{"consumer p1 @2", "poll p1:0 @2", "polled p1:0 @3 ok 1/0 0=1/1",
			"producer p0 @1", "send p0:0 @1 1/1 to 1/0 key 1 rank 0", "consumer p0 @1", "poll p0:1 @1"},
		[]string{"1 operations without a completion"}},
	{"a process that goes on without its completion",
		`{:time 1 :type :invoke :process 0 :f :send :value [[:send 1 1]]}
			 {:time 2 :type :invoke :process 0 :f :send :value [[:send 1 2]]}
			 {:time 3 :type :ok :process 0 :f :send :value [[:send 1 [0 2]]]}`,
		[]string{"producer p0 @1", "send p0:0 @1 1/1 to 1/0 key 1 rank 0", "send p0:1 @2 1/2 to 1/0 key 1 rank 1",
			"return p0:1 @3 ok at 0/0"}, []string{"1 operations without a completion"}},
	{"the polls of one operation, in order",
		`{:time 1 :type :invoke :process 2 :f :txn :value [[:poll] [:send 5 1] [:poll]]}
			 {:time 2 :type :ok :process 2 :f :txn :value [[:poll {5 [[0 "b"] [2 :c]], 6 ([1 3])}] [:send 5 [3 1]] [:poll {5 [[3 1]]}]]}`,
		[]string{"producer p2 @1", "send p2:0 @1 5/1 to 5/0 key 5 rank 0", "consumer p2 @1", "poll p2:1 @1",
			"return p2:0 @2 ok at 0/3", "polled p2:1 @2 ok 5/0 0=5/b 2=5/:c 6/0 1=6/3 5/0 3=5/1"}, nil},
	{"polls that failed or crashed",
		`{:time 1 :type :invoke :process 2 :f :poll :value [[:poll]]}
			 {:time 2 :type :fail :process 2 :f :poll :value [[:poll {5 [[0 1]]}]]}
			 {:time 3 :type :invoke :process 2 :f :poll :value [[:poll]]}
			 {:time 4 :type :info :process 2 :f :poll :value nil}`,
		[]string{"consumer p2 @1", "poll p2:0 @1", "polled p2:0 @2 fail 5/0 0=5/1", "poll p2:1 @3",
			"polled p2:1 @4 info"}, nil},
	{"changes of the assignment: at the completion, not where they failed",
		`{:time 1 :type :invoke :process 0 :f :assign :value [1 2]}
			 {:time 2 :type :ok :process 0 :f :assign :value [1 2]}
			 {:time 3 :type :invoke :process 0 :f :subscribe :value [3]}
			 {:time 4 :type :fail :process 0 :f :subscribe :value nil}
			 {:time 5 :type :invoke :process 0 :f :subscribe :value ["x" :y]}
			 {:time 6 :type :info :process 0 :f :subscribe :value nil}
			 {:time 7 :type :invoke :process 0 :f :assign :value (4)}`,
		[]string{"consumer p0 @1", "assign p0 @2 1/0:-1 2/0:-1", "subscribe p0 @6 x/0:-1 :y/0:-1",
			"assign p0 @7 4/0:-1 without a completion"}, []string{"1 operations without a completion"}},
	{"rebalances before the poll's records",
		`{:time 1 :type :invoke :process 0 :f :poll :value [[:poll]]}
			 {:time 2 :type :ok :process 0 :f :poll :rebalance-log [{:type :assigned :keys [1 2]} {:keys #_old [] , :partitions [{:topic "t"}]}]
			  :value [[:poll {1 [[0 5]]}]]}`,
		[]string{"consumer p0 @1", "poll p0:0 @1", "subscribe p0 @2 1/0:-1 2/0:-1 rebalance", "subscribe p0 @2 rebalance",
			"polled p0:0 @2 ok 1/0 0=1/5"}, nil},
	{"a crash ends the sessions, and its number may come again",
		`{:time 1 :type :invoke :process 0 :f :txn :value [[:send 1 1] [:poll]]}
			 {:time 2 :type :ok :process 0 :f :txn :value [[:send 1 [0 1]] [:poll {}]]}
			 {:time 3 :type :invoke :process 0 :f :crash :value nil}
			 {:time 4 :type :info :process 0 :f :crash :value nil}
			 {:time 5 :type :invoke :process 0 :f :send :value [[:send 1 2]]}
			 {:time 6 :type :invoke :process 1 :f :crash}
			 {:time 7 :type :info :process 1 :f :crash}`,
		[]string{"producer p0 @1", "send p0:0 @1 1/1 to 1/0 key 1 rank 0", "consumer p0 @1", "poll p0:1 @1",
			"return p0:0 @2 ok at 0/0", "polled p0:1 @2 ok", "consumer-close p0 @4 crashed=true",
			"producer-close p0 @4 crashed=true", "producer p0#2 @5", "send p0#2:0 @5 1/2 to 1/0 key 1 rank 0"},
		[]string{"1 operations without a completion"}},
	{"the nemesis and other functions are counted",
		`{:time 0 :type :info :process :nemesis :f :start-partition :value {"n1" #{"n2"}}}
			 {:time 1 :type :invoke :process 0 :f :debug-topic-partitions :value {:a [1.5 \[ 2/3 "}" #inst "2020"]}}
			 {:time 2 :type :info :process :nemesis :f :start-partition :value [:isolated {"n1" #{"n2"}}]}`,
		nil, []string{"1 entries of other functions ignored", "2 entries without a process number (the nemesis) ignored"}},
	{"values that differ only in their type stay different",
		`{:time 1 :type :invoke :process 0 :f :send :value [[:send 1 1] [:send "1" "1"] [:send :1 :1] [:send "a/b" "\"q"] [:send "" -5N]]}`,
		[]string{"producer p0 @1", "send p0:0 @1 1/1 to 1/0 key 1 rank 0", `send p0:1 @1 "1"/"1" to "1"/0 key "1" rank 0`,
			"send p0:2 @1 :1/:1 to :1/0 key :1 rank 0", `send p0:3 @1 "a/b"/"\"q" to "a/b"/0 key "a/b" rank 0`,
			`send p0:4 @1 ""/-5 to ""/0 key "" rank 0`}, []string{"1 operations without a completion"}},
}

func TestAJepsenHistoryBecomesLines(t *testing.T) {
	for _, c := range jepsenCases {
		t.Run(c.rule, func(t *testing.T) {
			file := mustOpenBytes(t, "history.edn", []byte(c.text))
			lines, _, err := ednLines(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(lines); !slices.Equal(got, c.want) {
				t.Errorf("read\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(c.want, "\n "))
			}
			if _, _, err := readAll(file); err != nil {
				t.Fatal(err)
			}
			if got := file.Header().Source.Notes; !slices.Equal(got, c.notes) {
				t.Errorf("the notes are %q, want %q", got, c.notes)
			}
		})
	}
}

// plain is a history of one send; the notations below must read the same.
const plain = `{:index 0 :time 10 :type :invoke :process 0 :f :send :value [[:send 3 7]]}
{:index 1 :time 20 :type :ok :process 0 :f :send :value [[:send 3 [5 7]]]}
`

func TestEDNIsReadInEveryNotation(t *testing.T) {
	want, _, err := ednLines(t, plain)
	if err != nil || len(want) != 3 {
		t.Fatalf("read %d lines, %v", len(want), err)
	}
	invoke, ok, _ := strings.Cut(plain, "\n")
	cases := []struct{ rule, text string }{
		{"in one vector", "[" + invoke + "\n " + ok + "]"},
		{"in one vector with commas", "[" + invoke + ",\n " + ok + "]\n"},
		{"on one line", invoke + " " + strings.TrimSpace(ok)},
		{"without white space between", invoke + strings.TrimSpace(ok)},
		{"spread over lines", strings.ReplaceAll(plain, " ", "\n")},
		{"with Windows' line ends", strings.ReplaceAll(plain, "\n", "\r\n")},
		{"with a byte order mark", "\xef\xbb\xbf" + plain},
		{"with commas everywhere", strings.ReplaceAll(plain, " ", ",, ")},
		{"with comments", "; a comment {\n" + invoke + " ; [\n" + ok + ";;"},
		{"with a discarded operation", "#_{:type :x}" + invoke + "#_ #_ 1 {:a #_ 2 3}" + ok + "#_ [}]"},
		{"as tagged records", "#jepsen.history.Op" + invoke + "\n#jepsen.history.Op " + ok},
		{"with tagged values", strings.ReplaceAll(plain, "[[:send", "#a/b #c [#d [:send")},
		{"in another order", `{:value [[:send 3 7]] :f :send :process 0 :type :invoke :time 10}
			{:value [[:send 3 [5 7]]] :process 0 :f :send :type :ok, :time 20}`},
		{"with members that mean nothing to us", strings.ReplaceAll(plain, "{:index",
			`{:a 1.5e3 :b 2/3 :c \{ :d "}\"" :e #{1 [2]} :f2 {:x (1)} "s" nil :clock-offsets {"n1" -0.2} :inst #inst "2020" :g \newline :index`)},
		{"with parentheses for vectors", strings.NewReplacer("[", "(", "]", ")").Replace(plain)},
		{"with integers in other notations", strings.NewReplacer("7]", "+7N]", "10 ", "+10 ").Replace(plain)},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			text := c.text
			if c.rule == "with a discarded operation" {
				text = strings.TrimSuffix(text, "#_ [}]") + "#_ [1]"
			}
			got, _, err := ednLines(t, text)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read\n %s\nwant\n %s", strings.Join(summary(got), "\n "), strings.Join(summary(want), "\n "))
			}
		})
	}
	t.Run("compressed", func(t *testing.T) {
		got, _, err := readAll(mustOpenBytes(t, "history.edn.zst", oneFrame(t, []byte(plain))))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %v, %v", summary(got), err)
		}
	})
	t.Run("without times: by order", func(t *testing.T) {
		got, _, err := ednLines(t, strings.NewReplacer(":time 10", "", ":time 20", "").Replace(plain))
		if err != nil || got[1].(*Send).Time != 0 || got[2].(*SendReturn).Time != 1 {
			t.Errorf("read %v, %v", summary(got), err)
		}
	})
}

func TestAWrongEDNHistoryIsSaidWithItsPlace(t *testing.T) {
	op := func(members string) string { return "{:time 1 :process 0 " + members + "}" }
	cases := []struct{ rule, text, want string }{
		{"an operation that is no map", "{:a 1}\n5",
			`history.edn: line 2 (byte 7 of the text): an operation begins with {, found "5"`},
		{"a tagged vector", "{:a 1}\n#x [1]", "line 2 (byte 10 of the text): an operation is a map"},
		{"a member without a value", "{:a 1 :b}", ":b has no value"},
		{"brackets that do not match", "{:a [1)}", "')' where ']' is due"},
		{"something after the vector", "[{:a 1}]\n{:a 2}", "line 2 (byte 9 of the text): something follows the vector"},
		{"a second vector", "{:a 1}\n[{:a 2}]", "line 2"},
		{"no type", op(":f :send :value [[:send 1 1]]"), "without a :type"},
		{"a completion that nobody invoked", op(":type :ok :f :poll :value [[:poll]]"),
			"process 0 completes an operation that it has not invoked"},
		{"a completion of another function", op(":type :invoke :f :assign :value [1]") + op(":type :ok :f :send :value [[:send 1 1]]"), "has not invoked"},
		{"a completion before its invocation", "{:time 5 :process 0 :type :invoke :f :poll}" + op(":type :ok :f :poll"),
			"before it invoked it"},
		{"times that are there and are not", op(":type :invoke :f :poll") + "{:process 0 :type :ok :f :poll}",
			"some operations have a :time"},
		{"a time that is a text", `{:time "1" :process 0}`, `want an integer, found "\"1\""`},
		{"a time of more than 64 bits", "{:time 9223372036854775808 :process 0}", "does not fit into 64 bits"},
		{"an offset that is a fraction", op(":type :invoke :f :send :value [[:send 1 [1.5 2]]]"),
			`want an integer, found "1.5"`},
		{"a value that is a map", op(":type :invoke :f :send :value [[:send 1 {}]]"),
			"keys and values are integers, strings or keywords"},
		{"a value that is a float", op(":type :invoke :f :send :value [[:send 1 1.5]]"),
			"keys and values are integers, strings or keywords"},
		{"a key that is a symbol", op(":type :invoke :f :send :value [[:send x 1]]"),
			"keys and values are integers, strings or keywords"},
		{"a send without a value", op(":type :invoke :f :send :value [[:send 1]]"),
			"a micro-operation is [:send key value]"},
		{"a micro-operation that is no vector", op(":type :invoke :f :send :value [5]"), "want a micro-operation"},
		{"an unknown micro-operation", op(":type :invoke :f :txn :value [[:append 1 1]]"),
			"a micro-operation is :send or :poll"},
		{"a value that is no vector", op(":type :invoke :f :send :value {:a 1}"), "want a vector of micro-operations"},
		{"records that are no map", op(":type :invoke :f :poll :value [[:poll [1]]]"), "want a map of records by key"},
		{"a record that is no pair", op(":type :invoke :f :poll :value [[:poll {1 [[0 1 2]]}]]"), "want [offset value]"},
		{"a record that is a number", op(":type :invoke :f :poll :value [[:poll {1 [5]}]]"), "want [offset value]"},
		{"keys that are no vector", op(":type :invoke :f :assign :value 5"), "want a vector of keys"},
		{"a rebalance that is no map", op(":type :invoke :f :poll :rebalance-log [5]"), "a rebalance is a map"},
		{"a string with an unknown escape", op(`:type :invoke :f :send :value [[:send "\q" 1]]`), "unknown escape"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			_, _, err := ednLines(t, c.text)
			if err == nil || !strings.HasPrefix(err.Error(), "history.edn: line ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
			var cut *CutError
			if errors.As(err, &cut) {
				t.Errorf("it was taken for a cut: %v", err)
			}
		})
	}
}

func TestAnEDNHistoryThatIsCutReadsUpToItsLastWholeOperation(t *testing.T) {
	// Operations, what lies before each, and how many lines are read up to it.
	operations := []struct {
		before, text string
		lines        int
	}{
		{"", `{:index 0 :time 10 :type :invoke :process 0 :f :send :value [[:send "k" 7]]}`, 2},
		{" ; a comment {\n#_{:discarded [1 2]} ",
			`{:index 1 :time 20 :type :ok :process 0 :f :send :value [[:send "k" [nil 7]]]}`, 3},
		{"\n", `{:index 2 :time 30 :type :invoke :process 1 :f :poll :value nil}`, 5},
		{"\n\n", `#jepsen.history.Op{:index 3 :time 40 :type :ok :process 1 :f :poll :value [[:poll {"k" [[5 7]]}]]}`, 6},
	}
	for _, vector := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a vector %v", vector), func(t *testing.T) {
			whole, ends := "", []int{}
			if vector {
				whole = "["
			}
			for _, o := range operations {
				whole += o.before + o.text
				ends = append(ends, len(whole))
			}
			for size := 2; size <= len(whole); size++ {
				want, between := 0, false
				for i, end := range ends {
					if size >= end {
						want = operations[i].lines
						between = size == end || i+1 < len(ends) && size <= ends[i+1]-len(operations[i+1].text)
					}
				}
				rest := whole[:size]
				lines, _, err := ednLines(t, rest)
				if len(lines) != want {
					t.Fatalf("%q: %d lines, want %d: %v", rest, len(lines), want, summary(lines))
				}
				var cut *CutError
				if isCut := errors.As(err, &cut); err != nil && !isCut {
					t.Fatalf("%q: %v", rest, err)
				}
				discarding := strings.HasSuffix(rest, "#") || strings.LastIndex(rest, "#_") > strings.LastIndex(rest, "]}")
				if whole := between && !vector && !discarding; whole != (err == nil) {
					t.Fatalf("%q: the error is %v", rest, err)
				}
			}
		})
	}
}

func TestALargeEDNHistoryIsNotHeldInMemory(t *testing.T) {
	text := string(jepsenText(1000))
	// The same again and again, with the numbers of another process each time.
	const times = 150
	var readers []io.Reader
	for range times {
		readers = append(readers, strings.NewReader(text))
	}
	file, err := openFile("history.edn", 0, func() (io.ReadCloser, error) {
		for _, r := range readers {
			r.(*strings.Reader).Reset(text)
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var stats runtime.MemStats
	n, highest := 0, uint64(0)
	for _, err := range file.Lines(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%100_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&stats)
			highest = max(highest, stats.HeapAlloc)
		}
	}
	if want := times*(2*1000+2*10) + 2; n != want {
		t.Errorf("read %d lines, want %d", n, want)
	}
	if highest > 16<<20 {
		t.Errorf("%d MB were in use for a file of %d MB", highest>>20, times*len(text)>>20)
	}
}

func TestALongOperationIsRead(t *testing.T) {
	var text bytes.Buffer
	text.WriteString(`{:time 1 :type :invoke :process 0 :f :poll :value [[:poll]]}
		{:time 2 :type :ok :process 0 :f :poll :value [[:poll {1 [`)
	const records = 300_000
	for i := range records {
		fmt.Fprintf(&text, "[%d %d] ", i, i)
	}
	text.WriteString("]}]]}\n")
	lines, _, err := readAll(mustOpenBytes(t, "history.edn", text.Bytes()))
	if err != nil || len(lines) != 3 {
		t.Fatalf("read %d lines, %v", len(lines), err)
	}
	if got := lines[2].(*PollReturn).Records[0].Records; len(got) != records || got[records-1].Event != "1/299999" {
		t.Errorf("read %d records", len(got))
	}
}

func TestAnImportIsStoppedByItsReaderAndByItsContext(t *testing.T) {
	file := mustOpenBytes(t, "history.edn", jepsenText(5000))
	n := 0
	for _, err := range file.Lines(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var last error
	for _, err := range file.Lines(ctx) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended by %v, want the context's end", last)
	}
}

// A small file of cases in the neutral form.
const neutralText = `{
 "format": "kafka-log-checker cases v1", "about": "two cases",
 "cases": [
  {"name": "one", "note": "a note", "ours": "differ", "ours_why": "because", "expected": {"lost-write": [1]}, "valid": false,
   "ops": [
    {"index": 0, "time": 0, "process": 0, "type": "invoke", "f": "txn", "value": [{"m": "send", "key": "x", "value": 1}, {"m": "poll"}]},
    {"index": 1, "time": 1, "process": "nemesis", "type": "info", "f": "kill", "value": {"a": 1}},
    {"index": 2, "time": 2, "process": 0, "type": "ok", "f": "txn", "rebalance_log": [{"keys": ["x", 2]}],
     "value": [{"m": "send", "key": "x", "value": 1, "offset": null}, {"m": "poll", "records": {"x": [[0, 1], [1, "1"]], "2": [[4, "b"]]}}]},
    {"index": 3, "time": 3, "process": 1, "type": "invoke", "f": "assign", "value": ["x"]},
    {"index": 4, "time": 4, "process": 1, "type": "info", "f": "assign", "value": ["x"]}]},
  {"name": "two", "ops": []}]}`

func TestNeutralCasesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(path, []byte(neutralText), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := OpenNeutralCases(path)
	if err != nil {
		t.Fatal(err)
	}
	one := cases[0]
	if len(cases) != 2 || one.Name != "one" || one.Note != "a note" || one.Ours != "differ" ||
		one.OursWhy != "because" ||
		string(one.Expected) != `{"lost-write": [1]}` || string(one.Members["valid"]) != "false" || cases[1].Name != "two" {
		t.Errorf("read %+v", cases)
	}
	want := []string{"producer p0 @0", "send p0:0 @0 x/1 to x/0 key x rank 0", "consumer p0 @0", "poll p0:1 @0",
		"subscribe p0 @2 x/0:-1 2/0:-1 rebalance", "return p0:0 @2 ok at 0/-1",
		`polled p0:1 @2 ok x/0 0=x/1 1=x/"1" 2/0 4=2/b`, "consumer p1 @3", "assign p1 @4 x/0:-1"}
	if got := summary(one.History.Body); !slices.Equal(got, want) {
		t.Errorf("read\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(),
		"it holds 2 cases (one, two, ...): choose one") {
		t.Errorf("opening all of them gave %v", err)
	}
	t.Run("one alone is a history", func(t *testing.T) {
		var all struct{ Cases []json.RawMessage }
		if err := json.Unmarshal([]byte(neutralText), &all); err != nil {
			t.Fatal(err)
		}
		file := mustOpenBytes(t, "case.json", all.Cases[0])
		lines, _, err := readAll(file)
		if err != nil || !slices.Equal(summary(lines), want) || file.Format() != FormatNeutral ||
			!file.Header().Source.StatesOutcomes {
			t.Errorf("read %v, %v", summary(lines), err)
		}
	})
}

func TestAWrongNeutralFileIsRefused(t *testing.T) {
	cases := []struct{ rule, text, want string }{
		{"of another format", `{"format":"x","cases":[]}`, `its format is "x"`},
		{"with a case without operations", `{"format":"kafka-log-checker cases v1","cases":[{"name":"n"}]}`,
			`case "n": it has no "ops"`},
		{"with an operation that is a number", `{"name":"n","ops":[5]}`, "operation 0: want an object"},
		{"with a time that is a text", `{"name":"n","ops":[{"time":"1"}]}`, `operation 0: "time": want a whole number`},
		{"with an unknown micro-operation", `{"ops":[{"process":0,"f":"send","value":[{"m":"x"}]}]}`, `found kind "x"`},
		{"with a send without a value", `{"ops":[{"process":0,"f":"send","value":[{"m":"send","key":"x"}]}]}`,
			"a micro-operation is"},
		{"with a record of one element", `{"ops":[{"process":0,"f":"poll","value":[{"m":"poll","records":{"x":[[1]]}}]}]}`, "a record is [offset,value]"},
		{"with a completion that nobody invoked", `{"ops":[{"process":0,"type":"ok","time":0,"f":"poll","value":[]}]}`,
			"has not invoked"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			if _, err := OpenBytes("cases.json", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
		})
	}
}

// asEDN writes the operations of a case of the neutral form in EDN.
func asEDN(t *testing.T, ops []map[string]any) string {
	t.Helper()
	var text strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&text, "{:index %v, :time %v, :type :%v, :process %v, :f :%v, :value ", o["index"], o["time"],
			o["type"],
			o["process"], o["f"])
		ednValue(&text, o["value"].([]any))
		text.WriteString("}\n")
	}
	return text.String()
}

func ednValue(text *strings.Builder, value []any) {
	text.WriteString("[")
	for _, element := range value {
		micro, isMicro := element.(map[string]any)
		switch {
		case !isMicro:
			text.WriteString(ednScalar(element))
		case micro["m"] == "send":
			offset, reported := micro["offset"]
			sent := ednScalar(micro["value"])
			if reported {
				sent = "[" + ednScalar(offset) + " " + sent + "]"
			}
			text.WriteString("[:send " + ednScalar(micro["key"]) + " " + sent + "]")
		default:
			ednPoll(text, micro["records"])
		}
		text.WriteString(" ")
	}
	text.WriteString("]")
}

func ednPoll(text *strings.Builder, records any) {
	byKey, returned := records.(map[string]any)
	if !returned {
		text.WriteString("[:poll]")
		return
	}
	text.WriteString("[:poll {")
	for key, list := range byKey {
		text.WriteString(ednScalar(key) + " [")
		for _, pair := range list.([]any) {
			text.WriteString("[" + ednScalar(pair.([]any)[0]) + " " + ednScalar(pair.([]any)[1]) + "]")
		}
		text.WriteString("]")
	}
	text.WriteString("}]")
}

func ednScalar(value any) string {
	switch value := value.(type) {
	case nil:
		return "nil"
	case string:
		return `"` + value + `"`
	}
	return fmt.Sprint(value)
}

func TestBothNotationsOfACaseGiveTheSameLines(t *testing.T) {
	paths, err := filepath.Glob("../../shared/data/jepsen-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(own, []byte(strings.ReplaceAll(neutralText, `"2"`, `"y"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, own) {
		cases, err := OpenNeutralCases(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var raw struct {
			Cases []struct{ Ops []map[string]any }
		}
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				if len(raw.Cases[i].Ops) == 0 || c.Name == "one" {
					return
				}
				lines, _, err := ednLines(t, asEDN(t, raw.Cases[i].Ops))
				if err != nil {
					t.Fatal(err)
				}
				got, want := summary(lines), summary(c.History.Body)
				if !slices.Equal(sortRecords(got), sortRecords(want)) {
					t.Errorf("from EDN\n %s\nfrom JSON\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
				}
			})
		}
	}
}

// sortRecords makes lines comparable whose maps of records had no order.
func sortRecords(lines []string) []string {
	sorted := slices.Clone(lines)
	for i, line := range sorted {
		words := strings.Fields(line)
		slices.Sort(words)
		sorted[i] = strings.Join(words, " ")
	}
	return sorted
}

func TestAJepsenHistoryLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const sends = 600
	text := jepsenText(sends)
	// Operations of two processes may be anywhere between each other: drop some
	// completions as a crash would, and count what must be left.
	var kept [][]byte
	dropped := 0
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		if bytes.Contains(line, []byte(":type :ok, :process 0")) && random.IntN(10) == 0 {
			dropped++
			continue
		}
		kept = append(kept, line)
	}
	lines, _, err := ednLines(t, string(bytes.Join(kept, nil)))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	ranks := map[string]int64{}
	next := map[string]int64{}
	for _, l := range lines {
		switch l := l.(type) {
		case *Send:
			counts["send"]++
			if l.Rank != ranks[l.OrderingKey] || l.Number != next[l.Process] {
				t.Fatalf("send %+v, want rank %d and number %d", l, ranks[l.OrderingKey], next[l.Process])
			}
			ranks[l.OrderingKey]++
			next[l.Process]++
		case *SendReturn:
			counts["return"]++
		case *PollReturn:
			for _, part := range l.Records {
				counts["record"] += len(part.Records)
			}
		}
	}
	want := map[string]int{"send": sends, "return": sends - dropped, "record": sends}
	if !reflect.DeepEqual(counts, want) || dropped == 0 {
		t.Errorf("counted %v, want %v", counts, want)
	}
}

func FuzzReadEDN(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte("[" + plain + "]"))
	f.Add(jepsenText(3))
	f.Add([]byte(`#jepsen.history.Op{:type :invoke :process 0 :f :poll :rebalance-log [{:keys [1 "a" :b]}] #_ x :value [[:poll {1 ([0 "\u0041"])}]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(in io.Reader, size int) ([]Line, error) {
			s := newEDNScanner("f", in)
			s.buf = make([]byte, 0, size)
			var lines []Line
			err := readJepsen(context.Background(), s, newJepsenMapper(func(l Line, _ int64) bool {
				lines = append(lines, l)
				return true
			}))
			return lines, err
		}
		lines, err := read(bytes.NewReader(text), ednBuffer)
		again, errAgain := read(iotest.OneByteReader(bytes.NewReader(text)), 1)
		if !reflect.DeepEqual(lines, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("at once %d lines, %v; byte by byte %d lines, %v", len(lines), err, len(again), errAgain)
		}
		for _, l := range lines {
			if got, err := newDecoder().decode(encode(t, l)); err != nil || !reflect.DeepEqual(got, l) {
				t.Fatalf("%+v is read again as %+v, %v", l, got, err)
			}
		}
	})
}

func FuzzReadNeutral(f *testing.F) {
	f.Add([]byte(neutralText))
	f.Add([]byte(`{"name":"n","ops":[{"process":0,"type":"invoke","time":0,"f":"poll","value":[{"m":"poll"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cases, _, err := parseNeutral(text)
		if err != nil {
			return
		}
		for _, c := range cases {
			for _, l := range c.History.Body {
				encode(t, l)
			}
		}
	})
}
