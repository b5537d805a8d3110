// This file tests `verify export`.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/parquet"
)

func TestExportWritesTablesAndTheJudge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tables")
	twins := filepath.Join("..", "..", "checker", "testdata")
	r := invoke(t, "export", "--parquet", dir, filepath.Join(twins, "duplicate.held.jsonl"), filepath.Join(twins, "duplicate.violated.jsonl"))
	if r.status != exitHeld {
		t.Fatalf("status %d: %s", r.status, r.progress)
	}
	for _, table := range parquet.Tables() {
		if info, err := os.Stat(filepath.Join(dir, table.Name+".parquet")); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", table.Name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sql", "duckdb.sql")); err != nil {
		t.Error(err)
	}
	for _, says := range []string{"           2  " + filepath.Join(dir, "histories.parquet") + "\n", `duckdb -c ".read sql/duckdb.sql"`} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("it does not say %q:\n%s", says, r.stdout)
		}
	}
}

func TestExportTakesFilesOfVerifiableClients(t *testing.T) {
	producer, consumer := verifiableFiles(t, 5)
	dir := filepath.Join(t.TempDir(), "tables")
	if r := invoke(t, "export", "--parquet", dir, "--one-history", producer, consumer); r.status != exitHeld ||
		!strings.Contains(r.stdout, "           5  "+filepath.Join(dir, "sends.parquet")+"\n") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.progress)
	}
}

func TestExportRefuses(t *testing.T) {
	twin := filepath.Join("..", "..", "checker", "testdata", "duplicate.held.jsonl")
	full, wrong := t.TempDir(), filepath.Join(t.TempDir(), "wrong.jsonl")
	for _, path := range []string{filepath.Join(full, "precious"), wrong} {
		if err := os.WriteFile(path, []byte("neither a history nor anything\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh := func() string { return filepath.Join(t.TempDir(), "tables") }
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"a folder that is not empty", []string{"--parquet", full, twin}, "precious"},
		{"no folder", []string{twin}, "--parquet DIR"},
		{"no history", []string{"--parquet", fresh()}, "needs a history"},
		{"a history that is none", []string{"--parquet", fresh(), wrong}, "wrong.jsonl"},
		{"a history that is not there", []string{"--parquet", fresh(), filepath.Join(full, "none")}, "none"},
		{"one history twice", []string{"--parquet", fresh(), twin, twin}, "a name of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := invoke(t, append([]string{"export"}, c.args...)...); r.status != exitUsage || !strings.Contains(r.progress, c.says) {
				t.Errorf("status %d, it says: %s", r.status, r.progress)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(full, "precious")); err != nil || len(text) == 0 {
		t.Errorf("what was in the folder is gone: %v", err)
	}
}
