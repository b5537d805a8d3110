// This file holds the SQL files and the code together: the meanings of answers, and the
// names of the tables. What the files answer is tested in the module duckdb.

package sql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/parquet"
	"github.com/ackproof/ackproof/sql"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := sql.Files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tuples gives the rows of VALUES with so many columns.
func tuples(t *testing.T, text string, columns int) [][]string {
	t.Helper()
	row := regexp.MustCompile(`(?m)^  \('` + strings.Repeat(`([^']*)', '`, columns-1) + `([^']*)'\),?$`)
	var all [][]string
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1:])
	}
	if len(all) == 0 {
		t.Fatalf("there are no rows of %d columns", columns)
	}
	return all
}

func TestAnswersMeanWhatTheTableOfCodesSays(t *testing.T) {
	seen := make(map[int16]bool)
	for _, row := range tuples(t, read(t, "1-answers.sql"), 3) {
		code, known := histories.ErrorByName(row[0])
		if !known || code.AcksOne.String() != row[1] || code.AcksAll.String() != row[2] {
			t.Errorf("%q; the code has %v, %v (known: %t)", row, code.AcksOne, code.AcksAll, known)
		}
		seen[code.Code] = true
	}
	for n := int16(-1); n < 1000; n++ {
		code, known := histories.ErrorByCode(n)
		says := code.AcksOne != histories.AppendedUnknown || code.AcksAll != histories.AppendedUnknown
		if known && says && !seen[n] {
			t.Errorf("%s is not in 1-answers.sql", code.Name)
		}
	}
}

func TestDefiniteClientErrorsAreThoseOfTheTable(t *testing.T) {
	var want [][]string
	for _, e := range histories.ClientErrors() {
		if e.Definite {
			want = append(want, []string{e.Client, e.Name})
		}
	}
	got := tuples(t, read(t, "1-answers.sql"), 2)
	byText := func(a, b []string) int { return strings.Compare(strings.Join(a, " "), strings.Join(b, " ")) }
	slices.SortFunc(want, byText)
	slices.SortFunc(got, byText)
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("1-answers.sql has %q, the table %q", got, want)
	}
}

// TestDuckDBFileOpensEveryTableAndRunsEveryFile, in their order.
func TestDuckDBFileOpensEveryTableAndRunsEveryFile(t *testing.T) {
	text := read(t, "duckdb.sql")
	var want []string
	for _, table := range parquet.Tables() {
		want = append(want, "CREATE OR REPLACE VIEW "+table.Name+" AS SELECT * FROM '"+table.Name+".parquet';")
	}
	names, err := filepath.Glob("[0-9]*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no files: %v", err)
	}
	for _, name := range names {
		want = append(want, ".read sql/"+name)
	}
	var got []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "CREATE") || strings.HasPrefix(line, ".read") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("duckdb.sql does\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestStatementsMakeViewsAndTheLastIsTheCounts(t *testing.T) {
	statements, err := sql.Statements()
	if err != nil {
		t.Fatal(err)
	}
	view := regexp.MustCompile(`(?m)^CREATE OR REPLACE TEMPORARY VIEW (\w+) AS$`)
	last := ""
	for _, statement := range statements {
		names := view.FindAllStringSubmatch(statement, -1)
		if len(names) != 1 || strings.Contains(statement, ";") {
			t.Fatalf("a statement that is not one view:\n%s", statement)
		}
		last = names[0][1]
	}
	if last != "counts" {
		t.Errorf("the last view is %q", last)
	}
}

func TestWriteMakesAFolderAndNeverWritesOverOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sql")
	if err := sql.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "8-counts.sql"))
	if err != nil || string(text) != read(t, "8-counts.sql") {
		t.Errorf("8-counts.sql: %v\n%s", err, text)
	}
	if err := sql.Write(dir); err == nil {
		t.Error("it wrote over a folder")
	}
}
