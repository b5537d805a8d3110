// This file tests the built binary as its users meet it: exit statuses, runs under
// faults and lies, kills, interruptions and bad input.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/runs"
)

// binary is the built command.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "verify-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	binary = filepath.Join(folder, "verify")
	if output, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building the command: %v\n%s", err, output))
	}
	return m.Run()
}

// result is what an invocation came to.
type result struct {
	status           int
	stdout, progress string
}

// runLimit bounds one invocation.
const runLimit = 2 * time.Minute

func invoke(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	return finish(t, start(ctx, args...))
}

type invocation struct {
	*exec.Cmd
	out, progress bytes.Buffer
}

func start(ctx context.Context, args ...string) *invocation {
	i := &invocation{Cmd: exec.CommandContext(ctx, binary, args...)}
	i.Stdout, i.Stderr = &i.out, &i.progress
	return i
}

func finish(t *testing.T, i *invocation) result {
	t.Helper()
	var err error
	if i.Process == nil {
		err = i.Run()
	} else {
		err = i.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", i.Args, err)
	}
	if strings.Contains(i.progress.String(), "panic:") || strings.Contains(i.progress.String(), "goroutine ") {
		t.Fatalf("%v panicked:\n%s", i.Args, i.progress.String())
	}
	return result{i.ProcessState.ExitCode(), i.out.String(), i.progress.String()}
}

func (r result) verdict(t *testing.T) *checker.Verdict {
	t.Helper()
	var v checker.Verdict
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("standard output is not one verdict: %v\n%.500s\n%s", err, r.stdout, r.progress)
	}
	return &v
}

// want checks a verdict's whole and the exit status that goes with it.
func (r result) want(t *testing.T, whole string) *checker.Verdict {
	t.Helper()
	v := r.verdict(t)
	status := map[string]int{checker.Held: exitHeld, checker.Violated: exitViolated, checker.UnknownWord: exitUnknown}[whole]
	if v.Verdict != whole || r.status != status {
		t.Fatalf("verdict %s (%s), exit status %d; want %s and %d\n%s", v.Verdict, v.Summary, r.status, whole, status, failures(v))
	}
	return v
}

// failures says what in a verdict is not as it should be.
func failures(v *checker.Verdict) string {
	var text strings.Builder
	for _, p := range v.Promises {
		if p.Verdict == checker.Violated || p.Verdict == checker.UnknownWord {
			fmt.Fprintf(&text, "%s: %s (%s)\n", p.Name, p.Verdict, p.Reason)
			for _, x := range v.Anomalies[p.Name].Examples {
				fmt.Fprintf(&text, "  %s\n", x.Text)
			}
		}
	}
	for _, a := range v.Assumptions {
		if a.Verdict == checker.AssumptionFailed {
			fmt.Fprintf(&text, "assumption %s: %s\n", a.Name, a.Detail)
		}
	}
	return text.String()
}

// run plays a run into a new directory and gives it.
func run(t *testing.T, args ...string) (result, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	return invoke(t, append([]string{"run", "--json", "--out", out}, args...)...), out
}

func TestTheDefaultProducerHoldsUnderEveryFault(t *testing.T) {
	t.Parallel()
	r, out := run(t, "--duration", "8s", "--seed", "3")
	v := r.want(t, checker.Held)
	if v.Counts.Acknowledged < 5000 || v.Planted {
		t.Errorf("acknowledged %d, planted %v", v.Counts.Acknowledged, v.Planted)
	}
	bit := make(map[string]bool)
	for _, f := range v.Faults {
		bit[f.Name] = bit[f.Name] || f.Bit
	}
	for _, name := range []string{"lost-response", "cut-before", "refuse", "hold-back", "move-leader", "broker-leave"} {
		if !bit[name] {
			t.Errorf("%s did not bite: %v", name, v.Faults)
		}
	}
	t.Run("the run directory is judged the same again", func(t *testing.T) {
		again := invoke(t, "check", "--json", out).want(t, checker.Held)
		if again.Counts != v.Counts {
			t.Errorf("counts differ: %+v and %+v", again.Counts, v.Counts)
		}
		text := invoke(t, "check", out)
		if text.status != exitHeld || !strings.HasPrefix(text.stdout, "HELD") || strings.Contains(text.stdout, "\x1b[") {
			t.Errorf("exit status %d\n%s", text.status, text.stdout)
		}
	})
	t.Run("the saved scenario plays the same schedule", func(t *testing.T) {
		d := runs.Directory{Path: out}
		second, secondOut := run(t, d.Scenario())
		second.want(t, checker.Held)
		first, err := os.ReadFile(d.Scenario())
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := os.ReadFile((&runs.Directory{Path: secondOut}).Scenario())
		if err != nil || !bytes.Equal(first, repeated) {
			t.Errorf("the scenarios differ (%v):\n%s\n%s", err, first, repeated)
		}
	})
	t.Run("the directory is never played into again", func(t *testing.T) {
		if r := invoke(t, "run", "--out", out); r.status != exitUsage || !strings.Contains(r.progress, "not empty") {
			t.Errorf("exit status %d: %s", r.status, r.progress)
		}
	})
}

func TestWhatAFaultDoesToAConfiguration(t *testing.T) {
	t.Parallel()
	const pipelined = "enable.idempotence=false,max.in.flight.requests.per.connection=5"
	for _, c := range []struct {
		rule, producer, faults string
		duplicates, disorder   bool
		promised               bool // no duplicates
	}{
		{"a lost response makes duplicates without idempotence", pipelined, "lost-response", true, false, false},
		{"a lost response makes none with idempotence", "enable.idempotence=true", "lost-response", false, false, true},
		{"a refusal breaks the order with five in flight", pipelined, "refuse", true, true, false},
		{"a refusal breaks nothing with one in flight", "enable.idempotence=false,max.in.flight.requests.per.connection=1", "refuse", false, false, false},
		{"a refusal breaks nothing with idempotence", "enable.idempotence=true", "refuse", false, false, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			r, _ := run(t, "--duration", "8s", "--seed", "5", "--producer", c.producer, "--faults", c.faults)
			v := r.want(t, checker.Held)
			duplicate, order := v.Anomalies[checker.Duplicate], v.Anomalies[checker.OrderViolation]
			if duplicate.Promised == nil || *duplicate.Promised != c.promised {
				t.Errorf("duplicates: promised %v", duplicate.Promised)
			}
			// A pipelined client that is refused may duplicate as well; only where
			// the rule says so must it.
			if c.duplicates != (duplicate.Count > 0) && c.faults != "refuse" {
				t.Errorf("%d duplicates", duplicate.Count)
			}
			if c.disorder && order.Count == 0 {
				t.Error("the order held")
			}
			if !c.disorder && c.faults == "refuse" && (order.Count > 0 || duplicate.Count > 0) {
				t.Errorf("%d order violations, %d duplicates", order.Count, duplicate.Count)
			}
		})
	}
}

func TestAWrongBrokerIsCaughtByTheRightAnomaly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lie, producer string
		anomaly       checker.Anomaly
	}{
		{"acknowledge-unwritten", "", checker.LostWrite},
		{"write-twice", "", checker.Duplicate},
		{"swap-batches", "", checker.OrderViolation},
		{"restart-losing-suffix", "", checker.LostWrite},
		{"diverge-reads", "", checker.Divergence},
		{"corrupt-byte", "", checker.Corrupt},
		{"refuse:error=NOT_ENOUGH_REPLICAS,after=true", "enable.idempotence=false,retries=0", checker.ImpossibleWrite},
	} {
		t.Run(c.lie, func(t *testing.T) {
			t.Parallel()
			r, _ := run(t, "--duration", "4s", "--seed", "9", "--allow-lies", "--faults", c.lie, "--producer", c.producer)
			v := r.want(t, checker.Violated)
			if v.Anomalies[c.anomaly].Count == 0 || !v.Planted || !strings.Contains(v.Summary, "planted") {
				t.Errorf("%s: %d, planted %v: %s", c.anomaly, v.Anomalies[c.anomaly].Count, v.Planted, failures(v))
			}
			if len(v.Anomalies[c.anomaly].Examples) == 0 || len(v.Anomalies[c.anomaly].Examples[0].Evidence) == 0 {
				t.Error("there is no example with evidence")
			}
		})
	}
	t.Run("a lie that is not allowed is refused by name", func(t *testing.T) {
		r := invoke(t, "run", "--faults", "write-twice", "--out", filepath.Join(t.TempDir(), "run"))
		if r.status != exitUsage || !strings.Contains(r.progress, "write-twice") || !strings.Contains(r.progress, "--allow-lies") {
			t.Errorf("exit status %d: %s", r.status, r.progress)
		}
	})
}

// startWorking starts a long run and waits until its history has grown.
func startWorking(t *testing.T) (*invocation, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), runLimit)
	t.Cleanup(cancel)
	i := start(ctx, "run", "--json", "--out", out, "--duration", "90s", "--seed", "4")
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for {
		if info, err := os.Stat((&runs.Directory{Path: out}).History()); err == nil && info.Size() > 200_000 {
			return i, out
		}
		select {
		case <-deadline:
			t.Fatal("the history does not grow")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestAKilledRunLeavesAHistoryThatIsChecked(t *testing.T) {
	t.Parallel()
	i, out := startWorking(t)
	if err := i.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = i.Wait() // it was killed
	r := invoke(t, "check", "--json", out)
	v := r.want(t, checker.UnknownWord)
	if v.Counts.Acknowledged < 1000 {
		t.Errorf("only %d acknowledged events were left", v.Counts.Acknowledged)
	}
	if text := invoke(t, "check", out).stdout; !strings.Contains(text, "UNKNOWN") || !strings.Contains(text, "history-whole") {
		t.Errorf("it does not say that the history is cut:\n%s", text)
	}
}

func TestAnInterruptedRunHealsDrainsAndChecks(t *testing.T) {
	t.Parallel()
	i, _ := startWorking(t)
	if err := i.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r := finish(t, i)
	v := r.verdict(t)
	if !v.History.Interrupted || v.Verdict == checker.Violated {
		t.Errorf("interrupted %v, verdict %s: %s", v.History.Interrupted, v.Verdict, failures(v))
	}
	if want := map[string]int{checker.Held: exitHeld, checker.UnknownWord: exitUnknown}[v.Verdict]; r.status != want {
		t.Errorf("exit status %d for %s", r.status, v.Verdict)
	}
	for _, f := range v.Faults {
		if f.End < f.Start {
			t.Errorf("%s was not undone", f.ID)
		}
	}
}

func TestWrongInputIsRefusedWithItsReason(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		rule string
		args []string
		says string
	}{
		{"an unknown command", []string{"prove"}, `no command "prove"`},
		{"an unknown flag", []string{"run", "--colour"}, "--colour"},
		{"a flag with a wrong value", []string{"run", "--duration", "soon"}, "soon"},
		{"a duration that is no time", []string{"run", "--duration", "1ms"}, "duration"},
		{"no partitions", []string{"run", "--partitions", "0"}, "topics.partitions"},
		{"two scenarios", []string{"run", "a.yaml", "b.yaml"}, "one scenario"},
		{"a scenario that is not there", []string{"run", filepath.Join(folder, "none.yaml")}, "none.yaml"},
		{"a scenario that is none", []string{"run", write("bad.yaml", "format: other\n")}, "format"},
		{"a scenario with a misspelt setting", []string{"run", write("typo.yaml", "format: ackproof-scenario/1\nprodcer: {}\n")}, "prodcer"},
		{"an unknown fault", []string{"run", "--faults", "lost-answer"}, "lost-response"},
		{"an unknown setting of a fault", []string{"run", "--faults", "refuse:err=X"}, "err"},
		{"an unknown Kafka error", []string{"run", "--faults", "refuse:error=OOPS"}, "OOPS"},
		{"an unknown property", []string{"run", "--producer", "ack=all"}, "acks"},
		{"a property without a value", []string{"run", "--producer", "acks"}, "key=value"},
		{"idempotence with acks=1", []string{"run", "--producer", "enable.idempotence=true,acks=1"}, "acks must be all"},
		{"a transactional id", []string{"run", "--producer", "transactional.id=x"}, "transactional.id"},
		{"what the client cannot honour", []string{"run", "--producer", "max.in.flight.requests.per.connection=3"}, "n/a (client)"},
		{"another provider", []string{"run", "--cluster", "moon"}, "moon"},
		{"a run directory that cannot be created", []string{"run", "--out", filepath.Join(write("file", ""), "run")}, "--out"},
		{"check without a history", []string{"check"}, "needs a history"},
		{"a history that is not there", []string{"check", filepath.Join(folder, "none")}, "none"},
		{"a directory that is no run", []string{"check", folder}, runs.HistoryFile},
		{"an empty file", []string{"check", write("empty.jsonl", "")}, "empty"},
		{"a foreign file", []string{"check", write("photo.png", "\x89PNG\r\n\x1a\n0000")}, "a history is"},
		{"a corrupt line", []string{"check", write("corrupt.jsonl", `{"line":"header","format":"ackproof-history","version":"1.0","run":"r"}`+"\n{oops}\n"+`{"line":"note","time":1,"text":"x"}`+"\n")}, "line 2"},
		{"a format of the future", []string{"check", write("future.jsonl", `{"line":"header","format":"ackproof-history","version":"9.0","run":"r"}`+"\n")}, "9.0"},
		{"an impossible configuration", []string{"check", "--producer", "acks=many", write("ok.jsonl", `{"line":"header","format":"ackproof-history","version":"1.0","run":"r"}`+"\n")}, "acks"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			args := c.args
			if args[0] == "run" && !strings.Contains(strings.Join(args, " "), "--out") {
				args = append(args, "--out", filepath.Join(t.TempDir(), "run"))
			}
			r := invoke(t, args...)
			if r.status != exitUsage || r.stdout != "" {
				t.Errorf("exit status %d, standard output %q", r.status, r.stdout)
			}
			if !strings.Contains(r.progress, c.says) || !strings.HasPrefix(r.progress, "verify: ") || strings.Count(r.progress, "\n") > 4 {
				t.Errorf("the message does not say %q, or says too much:\n%s", c.says, r.progress)
			}
		})
	}
}

func TestAHugeLineIsReadOrRefusedButNeverPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.jsonl")
	header := `{"line":"header","format":"ackproof-history","version":"1.0","run":"r"}` + "\n"
	note := `{"line":"note","time":1,"text":"` + strings.Repeat("x", 40<<20) + `"}` + "\n"
	if err := os.WriteFile(path, []byte(header+note+`{"line":"end","time":2,"reason":"finished"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	invoke(t, "check", "--json", path).want(t, checker.UnknownWord) // nothing was attempted
}

func TestAFailureOfOurOwnIs255(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no device that is always full elsewhere
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	i := start(t.Context(), "version")
	i.Stdout = full
	if r := finish(t, i); r.status != exitFailure || !strings.Contains(r.progress, "no space") {
		t.Errorf("exit status %d: %s", r.status, r.progress)
	}
}

func TestHelpTeaches(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"run", "--help"}, {"check", "--help"}, {"version"}, {"version", "--json"}} {
		r := invoke(t, args...)
		if r.status != exitHeld || r.progress != "" || len(r.stdout) < 100 {
			t.Errorf("verify %v: exit status %d\n%s%s", args, r.status, r.stdout, r.progress)
		}
	}
	if help := invoke(t, "run", "--help").stdout; !strings.Contains(help, "lost-response") || !strings.Contains(help, "Examples:") {
		t.Errorf("run --help:\n%s", help)
	}
}

func TestSeveralHistoriesGiveTheWorstStatusAndAnArray(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "a.jsonl")
	content := `{"line":"header","format":"ackproof-history","version":"1.0","run":"r"}` + "\n" + `{"line":"end","time":2,"reason":"finished"}` + "\n"
	if err := os.WriteFile(empty, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r := invoke(t, "check", "--json", empty, empty)
	var verdicts []checker.Verdict
	if err := json.Unmarshal([]byte(r.stdout), &verdicts); err != nil || len(verdicts) != 2 || r.status != exitUnknown {
		t.Errorf("exit status %d, %d verdicts, %v", r.status, len(verdicts), err)
	}
}

func TestNoSecretIsEchoed(t *testing.T) {
	r := invoke(t, "run", "--producer", "sasl.jaas.config=hunter2", "--out", filepath.Join(t.TempDir(), "run"))
	if r.status != exitUsage || regexp.MustCompile("hunter2").MatchString(r.stdout+r.progress) {
		t.Errorf("exit status %d: %s", r.status, r.progress)
	}
}

// TestPropertiesOfTheCommandLineAreReadOrRefused: whatever text they are.
func TestPropertiesOfTheCommandLineAreReadOrRefused(t *testing.T) {
	part := rapid.OneOf(rapid.SampledFrom([]string{"", "=", ",", "a=b", " a = b ", "a=b=c", "cleanup.policy=compact", "delete"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 5).Draw(t, "parts"), ",")
		properties, err := parseProperties("producer", text)
		var usage usageError
		if err != nil && !errors.As(err, &usage) {
			t.Fatalf("%q is refused as %v, which is not wrong usage", text, err)
		}
		for name := range properties {
			if name == "" || name != strings.TrimSpace(name) || !strings.Contains(text, name) {
				t.Fatalf("%q has the property %q", text, name)
			}
		}
	})
}
