package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
)

func TestCreateMakesAnEmptyDirectoryAndRefusesAnyOther(t *testing.T) {
	t.Run("a new directory is made with those above it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a", "b")
		if _, err := Create(path); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a directory that holds anything is refused by name and left alone", func(t *testing.T) {
		path := t.TempDir()
		precious := filepath.Join(path, "precious")
		if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Create(path)
		if err == nil || !strings.Contains(err.Error(), "precious") || !strings.Contains(err.Error(), "--out") {
			t.Fatalf("want a refusal that names the file and the flag, got %v", err)
		}
		if entries, _ := os.ReadDir(path); len(entries) != 1 {
			t.Fatalf("the directory was touched: %v", entries)
		}
	})
	t.Run("a path below a file is refused", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(filepath.Join(file, "run")); err == nil {
			t.Fatal("created a directory below a file")
		}
	})
}

func TestHistoryPathTakesARunDirectoryOrAFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := HistoryPath(dir); err == nil || !strings.Contains(err.Error(), HistoryFile) {
		t.Fatalf("a directory without a history: want an error that names %s, got %v", HistoryFile, err)
	}
	history := filepath.Join(dir, HistoryFile)
	if err := os.WriteFile(history, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, history} {
		if got, err := HistoryPath(path); err != nil || got != history {
			t.Errorf("HistoryPath(%s) = %s, %v; want %s", path, got, err, history)
		}
	}
	if _, err := HistoryPath(filepath.Join(dir, "absent")); err == nil {
		t.Error("a path that does not exist was accepted")
	}
}

func TestTheVerdictIsReadBackAsItWasWritten(t *testing.T) {
	d, err := Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WriteVerdict(&checker.Verdict{Verdict: checker.Held, Run: "r"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(d.Verdict())
	if err != nil {
		t.Fatal(err)
	}
	var back checker.Verdict
	if err := json.Unmarshal(text, &back); err != nil || back.Run != "r" || back.Verdict != checker.Held {
		t.Fatalf("got %+v, %v", back, err)
	}
	if leftovers, _ := filepath.Glob(filepath.Join(d.Path, "*.part")); len(leftovers) > 0 {
		t.Errorf("left behind: %v", leftovers)
	}
}
