package bundles

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// tester is a test, or a check of rapid's.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var started = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// shape is how a run of a test is.
type shape struct {
	properties map[string]string // of its producer
	note       string
	events     int
	cut        bool
}

// play makes a run directory with one event of many lost: what a real run leaves, without a cluster.
func play(t tester, folder string, s shape) string {
	t.Helper()
	producer := map[string]string{"acks": "all", "enable.idempotence": "true", "max.in.flight.requests.per.connection": "5", "retries": "10"}
	for name, value := range s.properties {
		producer[name] = value
	}
	header := &histories.Header{Run: "r", Tool: "ackproof test", Started: started, Clock: "runner", Seed: 7, Scenario: "test",
		Cluster:  &histories.Cluster{Provider: "containers", Version: "kafka 4.1.0", Brokers: []int32{1, 2, 3}},
		Topics:   []histories.Topic{{Name: "orders", Partitions: 1, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"}, Start: []int64{0}}},
		Producer: producer}
	d := runs.Directory{Path: folder}
	w, err := histories.Create(d.History(), header)
	must(t, err)
	var lines []histories.Line
	lines = append(lines, &histories.Producer{Name: "p0", Client: "franz-go", ClientVersion: "v1"})
	if s.note != "" {
		lines = append(lines, &histories.Note{Time: 1, Text: s.note})
	}
	events := max(s.events, 10)
	final := &histories.FinalRecords{Isolation: histories.ReadUncommitted}
	final.Partition, final.LeaderEpoch = histories.Partition{Topic: "orders"}, 1
	second := int64(time.Second)
	lines = append(lines, &histories.FaultStart{ID: "kill#1", Name: "kill", Target: "broker 1", Time: 60 * second})
	for i := range int64(events) {
		id := histories.OperationID{Process: "p0", Number: i}
		event := fmt.Sprintf("p0/k0/%d", i)
		lines = append(lines, &histories.Send{OperationID: id, Time: 60*second + 10*i, Event: event, Topic: "orders", Partition: -1, OrderingKey: "k0", Rank: i},
			&histories.SendReturn{OperationID: id, Time: 60*second + 10*i + 5, Partition: 0, Offset: i})
		if i == 3 {
			event = "" // it is lost: another one's record lies there
		}
		final.Records.Records = append(final.Records.Records, histories.Record{Offset: i, Event: event})
	}
	lines = append(lines, &histories.FaultEnd{ID: "kill#1", Time: 61 * second, Bit: true, Evidence: "its process was gone"}, final,
		&histories.FinalRead{Partition: final.Partition, Isolation: final.Isolation, Time: 70 * second, HighWatermark: int64(events), LogEnd: int64(events),
			LeaderEpoch: 1, Position: int64(events), SecondHighWatermark: int64(events), SecondLogEnd: int64(events), SecondAfterMs: 1000})
	if !s.cut {
		lines = append(lines, &histories.End{Time: 71 * second, Reason: histories.EndFinished})
	}
	for _, line := range lines {
		must(t, w.Write(line))
	}
	must(t, w.Close())
	must(t, os.WriteFile(d.Scenario(), []byte("format: ackproof-scenario/1\nname: test\nseed: 7\n"), 0o600))
	must(t, d.WriteVerdict(judged(t, d.History())))
	return folder
}

func judged(t tester, path string) *checker.Verdict {
	t.Helper()
	var opened *histories.File
	var err error
	if Is(path) {
		opened, err = Open(path)
	} else {
		opened, err = histories.Open(path)
	}
	must(t, err)
	v, err := checker.Check(t.(interface{ Context() context.Context }).Context(), opened, checker.Options{})
	must(t, err)
	return v
}

func put(t tester, folder, name, content string) {
	t.Helper()
	path := filepath.Join(folder, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// bundle makes a bundle of a run and gives it with what is in it, the history's text decompressed too.
func bundle(t tester, run string, limit int64) (*Bundled, map[string]string) {
	t.Helper()
	out := strings.TrimSuffix(run, "/") + ".zip"
	b, err := Write(t.(interface{ Context() context.Context }).Context(), run, out, Options{Limit: limit, Tool: "ackproof test"})
	must(t, err)
	return b, contents(t, out)
}

func contents(t tester, path string) map[string]string {
	t.Helper()
	archive, err := zip.OpenReader(path)
	must(t, err)
	defer func() { _ = archive.Close() }()
	files := make(map[string]string)
	for _, f := range archive.File {
		in, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(in)
		must(t, err)
		files[f.Name] = string(content)
		if strings.HasSuffix(f.Name, ".zst") {
			decoder, err := zstd.NewReader(bytes.NewReader(content))
			must(t, err)
			text, err := io.ReadAll(decoder)
			must(t, err)
			decoder.Close()
			files["text of "+f.Name] = string(text)
		}
	}
	return files
}

func newRun(t *testing.T, s shape) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	must(t, os.Mkdir(folder, 0o755))
	return play(t, folder, s)
}

// holds looks for a value in a text, also in what of it is base64 or escaped for a URL.
func holds(text, value string) bool {
	if strings.Contains(text, value) || strings.Contains(text, url.QueryEscape(value)) {
		return true
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"':,;&?()<>", r) }) {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if decoded, err := encoding.DecodeString(word); err == nil && bytes.Contains(decoded, []byte(value)) {
				return true
			}
		}
	}
	return false
}

func TestABundleHoldsTheRunAndIsJudgedAsIt(t *testing.T) {
	run := newRun(t, shape{})
	put(t, run, "brokers/1/server.log", "[2026-12-01 10:01:00,000] INFO hello\n")
	put(t, run, "brokers/1/server.properties", "node.id=1\n")
	put(t, run, "report.html", "<html>page</html>")
	put(t, run, "porcupine/x.html", "<html>")
	b, files := bundle(t, run, 0)
	want := []string{"REPORT.md", "brokers/1/server.log", "brokers/1/server.properties", "history.jsonl.zst", "report.html", "scenario.yaml", "verdict.json"}
	var names []string
	for name, content := range files {
		if strings.HasPrefix(name, "text of ") {
			continue
		}
		names = append(names, name)
		if original, err := os.ReadFile(filepath.Join(run, name)); err == nil && string(original) != content {
			t.Errorf("%s is not as it was", name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("it holds %v, want %v", names, want)
	}
	own, got := judged(t, filepath.Join(run, runs.HistoryFile)), judged(t, b.Path)
	first, _ := json.Marshal(own)
	second, _ := json.Marshal(got)
	if string(first) != string(second) || got.Verdict != checker.Violated {
		t.Errorf("judged %s, the run %s", got.Verdict, own.Verdict)
	}
	for _, says := range []string{"# VIOLATED", "lost-write: 1 time", "kafka 4.1.0", "franz-go v1", "ackproof test", "acks=all", "p0/k0/3", "kill#1",
		"its process was gone", "verify check run.zip", "seed 7", "None was found", "porcupine/"} {
		if !strings.Contains(files[IssueFile], says) {
			t.Errorf("the report does not say %q:\n%s", says, files[IssueFile])
		}
	}
	again := filepath.Join(t.TempDir(), "run.zip")
	_, err := Write(t.Context(), run, again, Options{Tool: "ackproof test"})
	must(t, err)
	one, _ := os.ReadFile(b.Path)
	two, _ := os.ReadFile(again)
	if !bytes.Equal(one, two) {
		t.Error("the same run gave two bundles that differ")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(b.Path), ".bundle-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSecretsAreNowhereInABundle(t *testing.T) {
	const password, token = "hunter22/Zz+9", "tok-9f8e7d6c5b"
	run := newRun(t, shape{properties: map[string]string{"ssl.key.password": password, "sasl.jaas.config": `x required username="bob" password="mellon-77";`},
		note: "the broker said " + password + " and mellon-77 and Authorization: Bearer " + token})
	put(t, run, "scenario.yaml", "format: ackproof-scenario/1\nproducer:\n    ssl.keystore.password: other-"+password+"\n")
	put(t, run, "brokers/1/server.properties", "ssl.key.password="+password+"\nsasl.oauthbearer.client.credentials.client.secret=s3cr3t-oauth\n")
	put(t, run, "brokers/1/server.log", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("bob:mellon-77"))+"\nurl "+
		url.QueryEscape(password)+" "+base64.StdEncoding.EncodeToString([]byte("x"+password))+" s3cr3t-oauth\n")
	put(t, run, "report.html", "<p>"+password+" "+token+"</p>")
	put(t, run, "brokers/mellon-77/server.log", "hello")
	put(t, run, "mellon-77.txt", "hello")
	v := judged(t, filepath.Join(run, runs.HistoryFile))
	must(t, (&runs.Directory{Path: run}).WriteVerdict(v))
	b, files := bundle(t, run, 0)
	said := fmt.Sprint(b.Issue.LeftOut)
	if strings.Contains(said, "mellon-77") || strings.Count(said, "its name holds a secret") != 1 {
		t.Error(said)
	}
	for name, content := range files {
		content += name
		for _, secret := range []string{password, token, "mellon-77", "s3cr3t-oauth"} {
			if holds(content, secret) {
				t.Errorf("%s holds %s:\n%.2000s", name, secret, content)
			}
		}
	}
	if got := judged(t, b.Path); differ(judgementOf(v), judgementOf(got)) != "" {
		t.Error(differ(judgementOf(v), judgementOf(got)))
	}
	for _, says := range []string{"| `scenario.yaml` | line 3 | `ssl.keystore.password` |", "| `brokers/1/server.properties` | line 1 | `ssl.key.password` |",
		"| `history.jsonl.zst` | line 3 | `value of ssl.key.password` |", "put your own there"} {
		if !strings.Contains(files[IssueFile], says) {
			t.Errorf("the report does not say %q:\n%s", says, files[IssueFile])
		}
	}
}

func TestARedactionThatWouldChangeTheVerdictMakesNoBundle(t *testing.T) {
	run := newRun(t, shape{properties: map[string]string{"ssl.key.password": "enable.idempotence"}})
	out := run + ".zip"
	_, err := Write(t.Context(), run, out, Options{})
	var changed *JudgementError
	if !errors.As(err, &changed) {
		t.Fatalf("want a JudgementError, got %v", err)
	}
	if _, err := os.Lstat(out); !errors.Is(err, os.ErrNotExist) {
		t.Error("there is a bundle")
	}
}

func TestWhatIsLeftOutForTheSize(t *testing.T) {
	run := newRun(t, shape{events: 25_000})
	var log strings.Builder
	for i := range 30_000 {
		at := started.Add(time.Duration(i) * 4 * time.Millisecond)
		fmt.Fprintf(&log, "[%s] INFO %x %x\n\tof the line before\n", strings.Replace(at.Format("2006-01-02 15:04:05.000"), ".", ",", 1), i*2654435761, i*40503*7919)
	}
	put(t, run, "brokers/1/server.log", log.String())
	put(t, run, "brokers/1/server.properties", "node.id=1\n")
	whole, _ := bundle(t, run, 0)
	must(t, os.Remove(whole.Path))
	for _, c := range []struct {
		rule  string
		limit int64
		says  string
		check func(t *testing.T, files map[string]string, v *checker.Verdict)
	}{
		{"first the history is packed tighter", whole.Size - 1000, "as it was, packed tighter", func(t *testing.T, files map[string]string, v *checker.Verdict) {
			t.Helper()
			if v.Verdict != checker.Violated || files["brokers/1/server.log"] != log.String() {
				t.Errorf("judged %s", v.Verdict)
			}
		}},
		{"then logs are cut to the lines around the faults", whole.Size / 2, "a part of brokers/1/server.log", func(t *testing.T, files map[string]string, v *checker.Verdict) {
			t.Helper()
			cut := files["brokers/1/server.log"]
			if v.Verdict != checker.Violated || !strings.Contains(cut, "[2026-12-01 10:01:00,000]") || !strings.Contains(cut, "[2026-12-01 10:01:59,996]") ||
				strings.Contains(cut, "[2026-12-01 10:00:10,000]") || !strings.HasPrefix(cut, "[25000 lines left out") {
				t.Errorf("judged %s:\n%.300s", v.Verdict, cut)
			}
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b, files := bundle(t, run, c.limit)
			defer func() { _ = os.Remove(b.Path) }()
			if b.Size > b.Limit || !strings.Contains(files[IssueFile], c.says) {
				t.Errorf("%d of %d bytes:\n%s", b.Size, b.Limit, files[IssueFile])
			}
			c.check(t, files, judged(t, b.Path))
		})
	}
	history := int64(len(repacked(t, run)))
	t.Run("then logs are left out, configurations stay", func(t *testing.T) {
		b, files := bundle(t, run, history+12_000)
		defer func() { _ = os.Remove(b.Path) }()
		if _, there := files["brokers/1/server.log"]; there || files["brokers/1/server.properties"] == "" || judged(t, b.Path).Verdict != checker.Violated {
			t.Errorf("it holds %d files", len(files))
		}
		if !strings.Contains(files[IssueFile], "the brokers' logs, for the size: brokers/1/server.log") || strings.Contains(files[IssueFile], "a part of") {
			t.Error(files[IssueFile])
		}
	})
	t.Run("last, the history is cut, reads as cut, and is no proof of a loss", func(t *testing.T) {
		b, files := bundle(t, run, history*8/10)
		defer func() { _ = os.Remove(b.Path) }()
		v := judged(t, b.Path)
		if v.Verdict != checker.UnknownWord || v.History.Cut == "" || v.Counts.Acknowledged < 1000 {
			t.Errorf("judged %s, cut %q, %d acknowledged", v.Verdict, v.History.Cut, v.Counts.Acknowledged)
		}
		own, _ := os.ReadFile(filepath.Join(run, runs.VerdictFile))
		if files[runs.VerdictFile] != string(own) || !strings.Contains(files[IssueFile], "is cut, for the size") {
			t.Errorf("the verdict is not the run's own, or the report does not say so:\n%s", files[IssueFile])
		}
	})
	t.Run("what does not fit then is said", func(t *testing.T) {
		_, err := Write(t.Context(), run, run+".zip", Options{Limit: 3000})
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "--limit") {
			t.Errorf("it fails with %v", err)
		}
	})
}

// repacked is the history of a bundle that had no room for it as it was.
func repacked(t *testing.T, run string) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(run, runs.HistoryFile))
	must(t, err)
	b, files := bundle(t, run, info.Size()-1)
	must(t, os.Remove(b.Path))
	return files[runs.HistoryFile]
}

func TestARunThatWasKilledIsBundledAsItIs(t *testing.T) {
	run := newRun(t, shape{cut: true, properties: map[string]string{"ssl.key.password": "hunter22"}})
	must(t, os.Remove(filepath.Join(run, runs.VerdictFile)))
	b, files := bundle(t, run, 0)
	v := judged(t, b.Path)
	if v.History.Cut == "" || v.Verdict == checker.Held {
		t.Errorf("judged %s, cut %q", v.Verdict, v.History.Cut)
	}
	if strings.Contains(files[runs.VerdictFile]+files[IssueFile], ".bundle-") {
		t.Error("it says where it was made")
	}
	if files[runs.VerdictFile] == "" || !strings.Contains(files[IssueFile], "left no verdict") {
		t.Errorf("it lacks a verdict, or does not say whose it is:\n%s", files[IssueFile])
	}
}

func TestNothingFromOutsideAndNothingUnsearchableIsBundled(t *testing.T) {
	run := newRun(t, shape{})
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("precious"), 0o600))
	put(t, run, "brokers/1/core", "\x7fELF\x00\x00")
	put(t, run, "brokers/1/old.log.gz", "\x1f\x8b\x08")
	put(t, run, "brokers/1/ok.log", "hello\n")
	put(t, run, "notes.txt", "mine")
	must(t, os.Symlink(outside, filepath.Join(run, "brokers", "1", "link.log")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(run, "brokers", "2")))
	_, files := bundle(t, run, 0)
	for name, content := range files {
		if strings.Contains(content, "precious") || strings.Contains(name, "link") || strings.Contains(name, "core") || strings.Contains(name, ".gz") || name == "notes.txt" {
			t.Errorf("it holds %s", name)
		}
	}
	if files["brokers/1/ok.log"] == "" {
		t.Error("it lacks the log")
	}
	for _, name := range []string{"core", "old.log.gz", "link.log", "brokers/2", "notes.txt"} {
		if !strings.Contains(files[IssueFile], name) {
			t.Errorf("the report does not say that %s is missing:\n%s", name, files[IssueFile])
		}
	}
}

func TestWhatCannotBeBundledIsRefusedWithItsReason(t *testing.T) {
	good := newRun(t, shape{})
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	broken := newRun(t, shape{})
	put(t, broken, runs.VerdictFile, "{")
	for _, c := range []struct{ rule, run, out, says string }{
		{"a run that is not there", file + "x", file + ".zip", "no such file"},
		{"a file", file, file + ".zip", "run directory"},
		{"a directory without a history", t.TempDir(), file + ".zip", runs.HistoryFile},
		{"a bundle that is there already", good, file, "there already"},
		{"a place that cannot be written", good, filepath.Join(file, "x.zip"), "--out"},
		{"a verdict that is none", broken, file + ".zip", "is no verdict"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := Write(t.Context(), c.run, c.out, Options{})
			var input *InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an InputError that says %q", err, c.says)
			}
		})
	}
}

// TestRandomSecretsAtRandomPlacesAreNowhere: of settings, configurations and logs.
func TestRandomSecretsAtRandomPlacesAreNowhere(t *testing.T) {
	folder := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		run := filepath.Join(folder, fmt.Sprint(n))
		must(rt, os.Mkdir(run, 0o755))
		defer func() { _ = os.RemoveAll(run); _ = os.Remove(run + ".zip") }()
		value := rapid.StringMatching(`[a-z][A-Za-z0-9!#%&*+/=?@^_~-]{8,20}[0-9]x`).Draw(rt, "value")
		name := rapid.SampledFrom([]string{"ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.credentials.client.secret", "my.api_key"}).Draw(rt, "name")
		s := shape{}
		home := rapid.IntRange(0, 3).Draw(rt, "home")
		if home == 0 {
			s.properties = map[string]string{name: value}
		}
		form := rapid.SampledFrom([]string{value, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)),
			base64.URLEncoding.EncodeToString([]byte("user:" + value))})
		s.note = rapid.SampledFrom([]string{"said ", "", "password="}).Draw(rt, "before") + form.Draw(rt, "noted")
		play(rt, run, s)
		quoted, _ := json.Marshal(map[string]string{name: value})
		switch home {
		case 1:
			put(rt, run, "scenario.yaml", "format: ackproof-scenario/1\nproducer: "+string(quoted)+"\n")
		case 2:
			put(rt, run, "brokers/1/server.properties", name+"="+value+"\n")
		case 3:
			put(rt, run, "brokers/1/properties-in-force.json", string(quoted))
		}
		put(rt, run, "brokers/2/server.log", "INFO "+form.Draw(rt, "logged")+"\nINFO token="+form.Draw(rt, "token")+"\n")
		put(rt, run, "report.html", "<p>"+form.Draw(rt, "shown")+"</p>")
		_, files := bundle(rt, run, 0)
		for name, content := range files {
			if holds(content, value) {
				rt.Fatalf("%s holds %q:\n%.3000s", name, value, content)
			}
		}
	})
}
