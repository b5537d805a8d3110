// This file tests clients in a process of their own: Apache's Java client against a
// cluster, and programs that do not do what PROTOCOL.md says.

package clients

import (
	"bufio"
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
	"testing"
	"time"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/internal/maven"
)

// playsAdapter is the variable that makes this test's binary an adapter, a bad one.
const playsAdapter = "ACKPROOF_TEST_ADAPTER"

func TestMain(m *testing.M) {
	if how := os.Getenv(playsAdapter); how != "" {
		playAdapter(how)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playAdapter answers as an adapter does, until it does how.
func playAdapter(how string) {
	in := bufio.NewScanner(os.Stdin)
	say := func(line string) { _, _ = fmt.Fprintln(os.Stdout, line) }
	for in.Scan() {
		var command struct{ Do string }
		_ = json.Unmarshal(in.Bytes(), &command)
		switch command.Do {
		case "describe":
			if how == "other-version" {
				say(`{"is":"client","client":"bad","version":"1","protocol":99}`)
			}
			say(`{"is":"client","client":"bad","version":"1","protocol":1}`)
		case "open":
			switch how {
			case "refuses":
				say(`{"is":"refused","error":"ConfigException","message":"not like this"}`)
				say(`{"is":"result","id":0}`)
				return
			case "hangs-at-open":
				select {}
			}
			say(`{"is":"opened","properties":{"acks":"all"},"unknown":{"field":1}}`)
		case "send":
			switch how {
			case "dies":
				_, _ = fmt.Fprintln(os.Stderr, "its last words")
				os.Exit(3)
			case "writes-rubbish":
				say(`this is no JSON`)
			case "answers-what-nobody-asked":
				say(`{"is":"result","id":77,"partition":0,"offset":1}`)
				say(`{"is":"result","id":0,"partition":0,"offset":1}`)
				say(`{"is":"result","id":0,"partition":0,"offset":2}`)
			}
		case "close":
			if how == "hangs-at-close" {
				select {}
			}
			say(`{"is":"closed"}`)
			return
		}
	}
}

// bad gives the library that this test's binary is.
func bad(t *testing.T, how string) Library {
	t.Helper()
	t.Setenv(playsAdapter, how)
	library, err := External(t.Context(), []string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	return library
}

func TestAProgramThatIsNoAdapterIsSaidSo(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		how     string
		says    string
	}{
		"a program that there is not": {[]string{"/no/such/program"}, "", "/no/such/program"},
		"one that ends at once":       {[]string{"true"}, "", "it ended by itself"},
		"one that speaks of weather":  {[]string{"echo", "it rains"}, "", "a line that is none of the protocol"},
		"another protocol":            {[]string{os.Args[0]}, "other-version", "speaks version 99 of the protocol"},
		"nothing at all":              {nil, "", "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(playsAdapter, c.how)
			if _, err := External(t.Context(), c.command); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want %q", err, c.says)
			}
		})
	}
}

func TestAClientThatDiesOrWritesRubbishFailsTheRunAndLeavesItsSendsOpen(t *testing.T) {
	for how, says := range map[string]string{"dies": "its last words", "writes-rubbish": `"this is no JSON"`} {
		t.Run(how, func(t *testing.T) {
			r := newTestRun(t, 1)
			p, err := bad(t, how).NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"})
			if err != nil {
				t.Fatal(err)
			}
			r.send(p, 1, "k")
			eventually(t, "a send is refused", func() bool {
				return p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k"}) != nil
			})
			if _, err := p.Close(r.context(), time.Second); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("closing gives %v; want %q", err, says)
			}
			if returns := linesOf[*histories.SendReturn](r.lines); len(returns) != 0 {
				t.Errorf("it has completions: %+v", returns[0])
			}
			if closes := linesOf[*histories.ProducerClose](r.lines); len(closes) != 1 || !closes[0].Crashed {
				t.Errorf("its close: %+v", closes)
			}
		})
	}
}

func TestAClientThatRefusesIsRecordedSo(t *testing.T) {
	r := newTestRun(t, 1)
	_, err := bad(t, "refuses").NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "not like this") {
		t.Errorf("got %v", err)
	}
	if lines := linesOf[*histories.ProducerRefused](r.lines); len(lines) != 1 || lines[0].Client != "bad" {
		t.Errorf("recorded: %+v", lines)
	}
}

func TestAClientThatHangsIsGivenUp(t *testing.T) {
	r := newTestRun(t, 1)
	ctx, cancel := context.WithTimeout(r.context(), 200*time.Millisecond)
	defer cancel()
	_, err := bad(t, "hangs-at-open").NewProducer(ctx, ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("opening gives %v", err)
	}
	p, err := bad(t, "hangs-at-close").NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p2"})
	if err != nil {
		t.Fatal(err)
	}
	r.send(p, 1, "k")
	if unknown := r.closed(p, 50*time.Millisecond); unknown != 1 {
		t.Errorf("%d sends are recorded as unknown", unknown)
	}
}

func TestACloseThatWaitsForNothingIsToldAllTheSame(t *testing.T) {
	library := bad(t, "not at all")
	for range 12 { // it was chance
		r := newTestRun(t, 1)
		p, err := library.NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"})
		if err != nil {
			t.Fatal(err)
		}
		r.closed(p, 0)
		if notes := linesOf[*histories.Note](r.lines); len(notes) > 0 {
			t.Fatalf("it is noted: %s", notes[0].Text)
		}
	}
}

func TestAnAnswerThatNobodyAskedForIsNoted(t *testing.T) {
	r := newTestRun(t, 1)
	p, err := bad(t, "answers-what-nobody-asked").NewProducer(r.context(),
		ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"})
	if err != nil {
		t.Fatal(err)
	}
	r.send(p, 1, "k")
	r.closed(p, 5*time.Second)
	if returns := linesOf[*histories.SendReturn](r.lines); len(returns) != 1 || returns[0].Offset != 1 {
		t.Errorf("completions: %+v", returns)
	}
	if notes := linesOf[*histories.Note](r.lines); len(notes) != 2 {
		t.Errorf("%d notes", len(notes))
	}
}

// java gives Apache's client.
func java(t *testing.T, version string) Library {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may be fetched
	defer cancel()
	library, err := Java(ctx, version, nil)
	if err != nil {
		t.Fatal(err)
	}
	return library
}

func (r *testRun) javaProducer(library Library, name, properties string) Producer {
	r.Helper()
	p, err := library.NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: name,
		Properties: r.properties(properties)})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _, _ = p.Close(context.Background(), 0) })
	return p
}

func TestWhatTheJavaClientWritesComesBackToIt(t *testing.T) {
	for _, version := range []string{DefaultJava, "3.9.1"} {
		t.Run(version, func(t *testing.T) {
			library := java(t, version)
			if library.Name() != histories.ClientJava || library.Version() != version {
				t.Fatalf("it is %s %s", library.Name(), library.Version())
			}
			r := newTestRun(t, 2)
			p := r.javaProducer(library, "p1", "linger.ms=0")
			r.send(p, 100, "a", "b", "c")
			if unknown := r.closed(p, 20*time.Second); unknown != 0 {
				t.Errorf("%d sends are unknown", unknown)
			}
			for _, line := range linesOf[*histories.SendReturn](r.lines) {
				if line.Error+line.ClientError != "" || line.Offset < 0 {
					t.Fatalf("a completion: %+v", line)
				}
			}
			c, err := library.NewConsumer(r.context(), ConsumerOptions{Recorder: r.recorder, Connection: r.connection, Name: "c1",
				Assignment: []histories.PartitionPosition{{Partition: histories.Partition{Topic: testTopic, Partition: 0}},
					{Partition: histories.Partition{Topic: testTopic, Partition: 1}}}})
			if err != nil {
				t.Fatal(err)
			}
			for given := 0; given < 100; {
				n, err := c.Poll(r.context())
				if err != nil {
					t.Fatal(err)
				}
				given += n
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, poll := range linesOf[*histories.PollReturn](r.lines) {
				for _, records := range poll.Records {
					for _, record := range records.Records {
						if record.Event == "" || record.Corrupt != "" {
							t.Fatalf("it was given %+v", record)
						}
					}
				}
			}
		})
	}
}

func TestTheJavaClientSaysWhatIsInForce(t *testing.T) {
	library := java(t, "")
	for given, want := range map[string]map[string]string{
		"":                          {"acks": "all", "enable.idempotence": "true", "linger.ms": "5"},
		"acks=1":                    {"acks": "1", "enable.idempotence": "false"},
		"retries=0":                 {"retries": "0", "enable.idempotence": "false"},
		"enable.idempotence=false":  {"acks": "all", "enable.idempotence": "false"},
		"batch.size=1,linger.ms=77": {"batch.size": "1", "linger.ms": "77"},
	} {
		p, err := ParseProperties(given)
		if err != nil {
			t.Fatal(err)
		}
		got, err := library.Effective(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%q: %s is %q, want %q", given, name, got[name], value)
			}
		}
	}
	six, err := ParseProperties("max.in.flight.requests.per.connection=6")
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := library.Effective(t.Context(), six); !errors.As(err, &refused) || !strings.Contains(err.Error(), "at most 5") {
		t.Errorf("six in flight: %v", err)
	}
}

func TestACrashLeavesSendsOpenWithEveryClient(t *testing.T) {
	for name, library := range map[string]Library{"franz-go": FranzGo(), "java": java(t, "")} {
		t.Run(name, func(t *testing.T) {
			r := newTestRun(t, 1)
			p := r.javaProducer(library, "p1", "linger.ms=60000")
			r.send(p, 10, "k")
			if err := p.Crash(r.context()); err != nil {
				t.Fatal(err)
			}
			if returns := linesOf[*histories.SendReturn](r.lines); len(returns) != 0 {
				t.Errorf("%d completions after a crash", len(returns))
			}
			if closes := linesOf[*histories.ProducerClose](r.lines); len(closes) != 1 || !closes[0].Crashed {
				t.Errorf("its close: %+v", closes)
			}
			if p.Send(r.context(), SendRequest{Topic: testTopic}) == nil {
				t.Error("it goes on sending")
			}
			if n := len(r.events()); n != 0 {
				t.Errorf("%d events of its buffer are in the log", n)
			}
		})
	}
}

func TestASuccessorBeginsWhereTheGroupCommitted(t *testing.T) {
	for name, library := range map[string]Library{"franz-go": FranzGo(), "java": java(t, "")} {
		t.Run(name, func(t *testing.T) {
			r := newTestRun(t, 1)
			p := r.producer("")
			r.send(p, 5, "k")
			r.closed(p, 10*time.Second)
			open := func(name, continues string) Consumer {
				c, err := library.NewConsumer(r.context(), ConsumerOptions{Recorder: r.recorder, Connection: r.connection, Name: name,
					Continues: continues, Group: "billing",
					Assignment: []histories.PartitionPosition{{Partition: histories.Partition{Topic: testTopic}}}})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			for i, want := range []int{5, 5, 0} { // the first commits nothing
				c := open(fmt.Sprintf("c%d", i), "")
				polling, cancel := context.WithTimeout(r.context(), time.Second)
				n, err := c.Poll(polling)
				cancel()
				if err != nil || n != want {
					t.Fatalf("the consumer %d was given %d records, want %d (%v)", i, n, want, err)
				}
				if i == 1 {
					if err := c.Commit(r.context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Crash(r.context()); err != nil {
					t.Fatal(err)
				}
			}
			commits := linesOf[*histories.CommitReturn](r.lines)
			if len(commits) != 1 || commits[0].Error+commits[0].ClientError != "" {
				t.Errorf("commits: %+v", commits)
			}
		})
	}
}

func TestTheEmbeddedClassesAreThoseOfTheSource(t *testing.T) {
	mvn, err := maven.Find()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	jars := filepath.Join(work, "jars")
	if err := maven.Fetch(t.Context(), mvn, work, jars,
		maven.Artifact{Group: "org.apache.kafka", Name: "kafka-clients", Version: "3.9.1"}); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("java/source/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	built := filepath.Join(work, "classes")
	output, err := exec.CommandContext(t.Context(), "javac", append([]string{"--release", "11", "-d", built,
		"-cp", filepath.Join(jars, "*")}, sources...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("javac: %v: %s", err, output)
	}
	classes, err := os.ReadDir(built)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range classes {
		want, err := os.ReadFile(filepath.Join(built, class.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("java/classes", class.Name()))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what its source compiles to (go generate ./clients makes it anew): %v", class.Name(), err)
		}
	}
}

// TestThePagesExamplesAreWhatIsSpoken holds PROTOCOL.md against the code.
func TestThePagesExamplesAreWhatIsSpoken(t *testing.T) {
	page, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]any{"open": &opening{}, "send": &sending{}, "close": &closing{}, "poll": &polling{}, "commit": &polling{},
		"describe": &struct {
			Do string `json:"do"`
		}{}}
	seen := 0
	for _, example := range regexp.MustCompile(`(?m)^\{.*\}$`).FindAllString(string(page), -1) {
		var kind struct{ Do, Is string }
		if err := json.Unmarshal([]byte(example), &kind); err != nil {
			t.Fatalf("%s: %v", example, err)
		}
		var into any = &said{}
		if kind.Do != "" {
			into = commands[kind.Do]
		}
		if into == nil {
			t.Errorf("nobody gives the command %s", example)
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(example))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("%s: %v", example, err)
		}
		seen++
	}
	if seen < 15 {
		t.Errorf("the page has %d examples", seen)
	}
}

// TestNoProcessIsLeft: whatever a client's process started is gone with it.
func TestNoProcessIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	r := newTestRun(t, 1)
	p := r.javaProducer(java(t, ""), "p1", "")
	pid := p.(*externalProducer).process.command.Process.Pid
	if err := p.Crash(r.context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process %d is still there (%v)", pid, err)
	}
}
