// This file tests `verify check --one-history` with what Kafka's VerifiableProducer and
// VerifiableConsumer print.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
)

// verifiableFiles writes the files of a producer that sent so many values to one
// partition and of a consumer that read all of them, but for those left out.
func verifiableFiles(t *testing.T, sent int, leftOut ...int) (producer, consumer string) {
	t.Helper()
	var sends, reads strings.Builder
	sends.WriteString("`--producer.config` is deprecated\n" + `{"timestamp":1000,"name":"startup_complete"}` + "\n")
	reads.WriteString(`{"timestamp":1000,"name":"partitions_assigned","partitions":[{"topic":"orders","partition":0}]}` + "\n")
	for n := range sent {
		fmt.Fprintf(&sends, `{"timestamp":%d,"name":"producer_send_success","key":null,"value":"%d","topic":"orders","partition":0,"offset":%d}`+"\n",
			2000+n, n, n)
		rebalanced := false
		for _, out := range leftOut {
			rebalanced = rebalanced || n == out
		}
		if rebalanced {
			reads.WriteString(`{"timestamp":1000,"name":"partitions_assigned","partitions":[{"topic":"orders","partition":0}]}` + "\n")
			continue
		}
		fmt.Fprintf(&reads, `{"timestamp":%d,"name":"record_data","key":null,"value":"%d","topic":"orders","partition":0,"offset":%d}`+"\n", 2500+n, n, n)
		fmt.Fprintf(&reads, `{"timestamp":%d,"name":"records_consumed","count":1,"partitions":[{"topic":"orders","partition":0,"count":1,`+
			`"minOffset":%d,"maxOffset":%d}]}`+"\n", 2500+n, n, n)
	}
	fmt.Fprintf(&sends, `{"timestamp":3000,"name":"tool_data","sent":%d,"acked":%d,"target_throughput":-1,"avg_throughput":9.5}`+"\n", sent, sent)
	folder := t.TempDir()
	producer, consumer = filepath.Join(folder, "producer.log"), filepath.Join(folder, "consumer.log")
	for path, text := range map[string]string{producer: sends.String(), consumer: reads.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return producer, consumer
}

func TestFilesOfOneHistoryGiveOneVerdict(t *testing.T) {
	producer, consumer := verifiableFiles(t, 50)
	t.Run("everything was read", func(t *testing.T) {
		v := invoke(t, "check", "--json", "--one-history", consumer, producer).want(t, checker.Held)
		if v.Counts.Acknowledged != 50 || v.Counts.InLog != 50 || len(v.History.Notes) != 1 || !strings.Contains(v.History.Notes[0], "producer.log:1") {
			t.Errorf("%+v, notes %q", v.Counts, v.History.Notes)
		}
	})
	t.Run("the same in words", func(t *testing.T) {
		r := invoke(t, "check", "--one-history", producer, consumer)
		again := "verify check --one-history " + producer + " " + consumer
		if r.status != exitHeld || !strings.HasPrefix(r.stdout, "HELD") || !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), again) {
			t.Errorf("exit status %d, want %q in\n%s", r.status, again, r.stdout)
		}
	})
	t.Run("a file alone says too little, and says how to mend that", func(t *testing.T) {
		for _, path := range []string{producer, consumer} {
			v := invoke(t, "check", "--json", path).want(t, checker.UnknownWord)
			if !strings.Contains(strings.Join(v.History.Notes, "\n"), "--one-history") {
				t.Errorf("notes %q", v.History.Notes)
			}
		}
	})
	lossyProducer, lossyConsumer := verifiableFiles(t, 50, 17)
	t.Run("a lost write is a violation with acks=all", func(t *testing.T) {
		v := invoke(t, "check", "--json", "--one-history", "--producer", "acks=all", lossyProducer, lossyConsumer).want(t, checker.Violated)
		part := v.Anomalies[checker.LostWrite]
		if part.Count != 1 || len(part.Examples) != 1 || part.Examples[0].Events[0] != "orders/17" || len(part.Examples[0].Evidence) == 0 {
			t.Errorf("lost writes: %+v", part)
		}
	})
	t.Run("a lost write is not promised with acks=1", func(t *testing.T) {
		v := invoke(t, "check", "--json", "--one-history", "--producer", "acks=1", lossyProducer, lossyConsumer).want(t, checker.Held)
		if v.Anomalies[checker.LostWrite].Count != 1 {
			t.Errorf("lost writes: %+v", v.Anomalies[checker.LostWrite])
		}
	})
	t.Run("a lost write is unknown without a configuration", func(t *testing.T) {
		invoke(t, "check", "--json", "--one-history", lossyProducer, lossyConsumer).want(t, checker.UnknownWord)
	})
}

func TestFilesThatAreNotOneHistoryAreRefused(t *testing.T) {
	producer, consumer := verifiableFiles(t, 3)
	other, _ := verifiableFiles(t, 2)
	folder := t.TempDir()
	native := filepath.Join(folder, "history.jsonl")
	if err := os.WriteFile(native, []byte(`{"line":"header","format":"ackproof-history","version":"1.0"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule string
		args []string
		says []string
	}{
		{"no file", nil, []string{"needs a history"}},
		{"a history of another format", []string{producer, native}, []string{native, "VerifiableProducer"}},
		{"a run directory", []string{producer, folder}, []string{folder, "directory"}},
		{"a file that is not there", []string{consumer, filepath.Join(folder, "none")}, []string{"none"}},
		{"two producers with the same values", []string{producer, other, consumer}, []string{producer, other, "--value-prefix"}},
		{"a file twice", []string{producer, producer}, []string{"twice"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := invoke(t, append([]string{"check", "--one-history"}, c.args...)...)
			if r.status != exitUsage || r.stdout != "" || !strings.HasPrefix(r.progress, "verify: ") {
				t.Errorf("exit status %d, standard output %q: %s", r.status, r.stdout, r.progress)
			}
			for _, says := range c.says {
				if !strings.Contains(r.progress, says) {
					t.Errorf("the message does not say %q: %s", says, r.progress)
				}
			}
		})
	}
	if help := invoke(t, "check", "--help").stdout; !strings.Contains(help, "--one-history --producer") {
		t.Errorf("the help has no example:\n%s", help)
	}
}
