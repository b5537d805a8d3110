// This file compares the third judge with the checker: on the twins, on Jepsen's cases, on
// the corpus, on random small histories of any shape, and on whatever histories ACKPROOF_HISTORIES names.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/corpus"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/parquet"
)

// batch is how many histories are judged by one query, and batchLines how many lines they have
// at most, the last one of them aside: what DuckDB joins lies in memory.
const (
	batch      = 1000
	batchLines = 500_000
)

// comparison gathers histories, and has both judges judge them.
type comparison struct {
	t        *testing.T
	dir      string
	writer   *parquet.Writer
	expected map[string]Counts
	lines    int64
	found    Counts // how much of each the checker found in all
	compared int
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	c := &comparison{t: t, expected: make(map[string]Counts)}
	c.begin()
	return c
}

func (c *comparison) begin() {
	c.t.Helper()
	c.dir = filepath.Join(c.t.TempDir(), "tables")
	var err error
	if c.writer, err = parquet.Create(c.dir); err != nil {
		c.t.Fatal(err)
	}
	clear(c.expected)
	c.lines = 0
}

// add has the checker judge a history, and keeps it for the third judge.
func (c *comparison) add(name string, h histories.History) {
	c.t.Helper()
	v, err := checker.Check(c.t.Context(), h, checker.Options{WithoutSecondJudge: true, Examples: 1})
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	counts := Counts{name, v.Anomalies[checker.LostWrite].Count, v.Anomalies[checker.Duplicate].Count,
		v.Anomalies[checker.OrderViolation].Count, v.Anomalies[checker.Divergence].Count}
	c.expected[name] = counts
	c.found.LostWrite += counts.LostWrite
	c.found.Duplicate += counts.Duplicate
	c.found.OrderViolation += counts.OrderViolation
	c.found.Divergence += counts.Divergence
	if err := c.writer.Add(c.t.Context(), name, h); err != nil {
		c.t.Fatal(err)
	}
	if c.lines += v.History.Lines; len(c.expected) == batch || c.lines > batchLines {
		c.judge()
		c.begin()
	}
}

// judge asks the third judge about the histories that were kept, and compares.
func (c *comparison) judge() {
	c.t.Helper()
	if err := c.writer.Close(); err != nil {
		c.t.Fatal(err)
	}
	counts, err := Judge(c.t.Context(), c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(counts) != len(c.expected) {
		c.t.Fatalf("the third judge judged %d histories of %d", len(counts), len(c.expected))
	}
	for _, got := range counts {
		c.compared++
		if want := c.expected[got.History]; got != want {
			c.t.Errorf("%s:\nthe third judge %+v\nthe checker     %+v", got.History, got, want)
		}
	}
}

// foundAll: a comparison in which the checker found nothing of an anomaly shows nothing.
func (c *comparison) foundAll() {
	c.t.Helper()
	if c.found.LostWrite == 0 || c.found.Duplicate == 0 || c.found.OrderViolation == 0 || c.found.Divergence == 0 {
		c.t.Errorf("of some anomaly nothing was found, so nothing was compared: %+v", c.found)
	}
	c.t.Logf("%d histories, in them %+v", c.compared, c.found)
}

func TestJudgesAgreeOnTheTwins(t *testing.T) {
	paths, err := filepath.Glob("../../checker/testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no twins: %v", err)
	}
	c := newComparison(t)
	for _, path := range paths {
		file, err := histories.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c.add(filepath.Base(path), file)
	}
	c.judge()
	c.foundAll()
}

// casesPath lies outside the project.
const casesPath = "../../../shared/data/jepsen-cases.json"

func TestJudgesAgreeOnJepsensCases(t *testing.T) {
	text, err := os.ReadFile(casesPath)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/data is not there")
	} else if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	c, folder := newComparison(t), t.TempDir()
	for i, one := range all.Cases {
		path := filepath.Join(folder, strconv.Itoa(i)+".json")
		if err := os.WriteFile(path, one, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := histories.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c.add(fmt.Sprintf("case %d", i), file)
	}
	c.judge()
	c.foundAll()
}

// randomCases is how many random histories are compared; ACKPROOF_RANDOM_CASES asks for
// more.
func randomCases(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ACKPROOF_RANDOM_CASES")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ACKPROOF_RANDOM_CASES: %v", err)
	}
	return n
}

func TestJudgesAgreeOnRandomHistories(t *testing.T) {
	c := newComparison(t)
	for seed := range randomCases(t) {
		c.add(fmt.Sprintf("seed %d", seed), anyHistory(rand.New(rand.NewSource(int64(seed)))))
		if t.Failed() {
			t.FailNow()
		}
	}
	c.judge()
	c.foundAll()
}

func TestJudgesAgreeOnTheCorpus(t *testing.T) {
	c := newComparison(t)
	for made, err := range corpus.Cases(t.Context(), randomCases(t), 3) {
		if err != nil {
			t.Fatal(err)
		}
		c.add(fmt.Sprintf("%d: %s", len(c.expected), made.Name), made.History)
	}
	c.judge()
	c.foundAll()
}

func TestJudgesAgreeOnRecordedHistories(t *testing.T) {
	folder := os.Getenv("ACKPROOF_HISTORIES")
	if folder == "" {
		folder = t.TempDir()
		copyTwin(t, filepath.Join(folder, "run", "history.jsonl"))
	}
	c := newComparison(t)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || (!strings.HasSuffix(path, ".jsonl") && !strings.HasSuffix(path, ".jsonl.zst")) {
			return err
		}
		file, err := histories.Open(path)
		if err == nil {
			c.add(path, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.expected) > 0 {
		c.judge()
	}
	if c.compared == 0 {
		t.Fatalf("there is no history (.jsonl, .jsonl.zst) in %s", folder)
	}
	t.Logf("%d histories, in them %+v", c.compared, c.found)
}

// copyTwin puts a history where no other one is.
func copyTwin(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile("../../checker/testdata/duplicate.violated.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tables")
	writer, err := parquet.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := histories.Open("../../checker/testdata/duplicate.violated.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Add(t.Context(), "twin", file), writer.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"a table", []string{dir}, 0, "0           1          0                0           twin\n"},
		{"JSON", []string{"--json", dir}, 0, `"duplicate": 1,`},
		{"a folder that is none", []string{t.TempDir()}, exitUsage, "name a folder that verify export --parquet has written"},
		{"no folder", nil, exitUsage, "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, progress bytes.Buffer
			status := execute(t.Context(), c.args, &out, &progress)
			if said := out.String() + progress.String(); status != c.status || !strings.Contains(said, c.says) {
				t.Errorf("status %d, want %d; it said:\n%s", status, c.status, said)
			}
		})
	}
}
