// This file tests that the tables hold what the lines hold, that sql/README.md describes
// them, and that nothing is written over.

package parquet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	reader "github.com/parquet-go/parquet-go"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/parquet"
)

// write writes histories, by name, and gives the folder.
func write(t *testing.T, all map[string]histories.History) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tables")
	w, err := parquet.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range all {
		if err := w.Add(t.Context(), name, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open opens a table, and closes it at the end of the test.
func open(t *testing.T, dir, table string) *reader.File {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, table+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := reader.OpenFile(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// rows reads a table as texts: each row its values by column, NULL where it has none.
func rows(t *testing.T, dir, table string) []map[string]string {
	t.Helper()
	file := open(t, dir, table)
	columns := file.Schema().Columns()
	var all []map[string]string
	for _, group := range file.RowGroups() {
		in := group.Rows()
		buffer := make([]reader.Row, 64)
		for n, err := in.ReadRows(buffer); n > 0; n, err = in.ReadRows(buffer) {
			for _, row := range buffer[:n] {
				texts := make(map[string]string)
				for _, v := range row {
					texts[columns[v.Column()][0]] = v.String()
					if v.IsNull() {
						texts[columns[v.Column()][0]] = "NULL"
					}
				}
				all = append(all, texts)
			}
			if err != nil {
				break
			}
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// show gives some columns of a table, a row to a text.
func show(t *testing.T, dir, table string, columns ...string) []string {
	t.Helper()
	var all []string
	for _, row := range rows(t, dir, table) {
		var values []string
		for _, c := range columns {
			values = append(values, row[c])
		}
		all = append(all, strings.Join(values, " "))
	}
	return all
}

func orders(partition int32) histories.Partition {
	return histories.Partition{Topic: "orders", Partition: partition}
}

func TestLinesBecomeRows(t *testing.T) {
	first := histories.OperationID{Process: "p", Number: 0}
	h := &histories.Memory{
		Head: &histories.Header{Run: "r", Producer: map[string]string{"acks": "all"}, Effects: []string{"disk-lost"},
			Topics: []histories.Topic{{Name: "orders", Partitions: 2, Start: []int64{5, 0}}}},
		Body: []histories.Line{
			&histories.Producer{Name: "p", Properties: map[string]string{}, AttemptsVisible: true},
			&histories.Send{OperationID: first, Event: "e0", Topic: "orders", Partition: histories.Unknown, Rank: 0},
			&histories.Send{OperationID: histories.OperationID{Process: "p", Number: 1}, Event: "e0", Topic: "orders",
				Partition: 1, Rank: histories.Unknown, ResendOf: &first},
			&histories.Attempt{Process: "p", Sends: []histories.Range{{First: 1, Last: 1}, {First: 0, Last: 1 << 60}}, Offset: histories.Unknown},
			&histories.SendReturn{OperationID: first, Partition: 0, Offset: 0},
			&histories.PollReturn{OperationID: histories.OperationID{Process: "c"}, Records: []histories.Records{
				{Partition: orders(0), LeaderEpoch: histories.Unknown, Records: []histories.Record{{Offset: 0, Event: "e0"}, {Offset: 1}}},
				{Partition: orders(1), LeaderEpoch: 3, Records: []histories.Record{{Offset: 0, Event: "e1", Corrupt: "value"}}}}},
			&histories.PositionChange{Process: "c", How: histories.ChangeAssign},
			&histories.FinalRead{Partition: orders(0), LogStart: 0, HighWatermark: histories.Unknown},
			&histories.End{Reason: histories.EndFinished},
		},
	}
	dir := write(t, map[string]histories.History{"h": h})
	for _, c := range []struct {
		table   string
		columns []string
		want    []string
	}{
		{"histories", []string{"history", "run", "imported", "entries", "ended", "end_reason", "cut"}, []string{"h r false 9 true finished false"}},
		{"topic_starts", []string{"topic", "partition", "log_end"}, []string{"orders 0 5", "orders 1 0"}},
		{"topics", []string{"topic", "partitions", "replication_factor"}, []string{"orders 2 NULL"}},
		{"properties", []string{"scope", "name", "value"}, []string{"header acks all"}},
		{"effects", []string{"fault", "effect"}, []string{" disk-lost"}},
		{"producers", []string{"entry", "line", "name", "properties_given", "attempts_visible"}, []string{"1 2 p true true"}}, //nolint:dupword // two columns
		{"sends", []string{"entry", "number", "event", "partition", "rank", "resend", "resend_of_number"},
			[]string{"2 0 e0 NULL 0 false NULL", "3 1 e0 1 NULL true 0"}},
		{"attempt_sends", []string{"entry", "process", "number", "batch_index"}, []string{"4 p 1 0", "4 p 0 1", "4 p 1 2"}},
		{"send_returns", []string{"number", "partition", "log_offset", "error", "closed"}, []string{"0 0 0  false"}},
		{"poll_returns", []string{"records"}, []string{"3"}},
		{"poll_records", []string{"record_index", "partition", "leader_epoch", "log_offset", "event", "corrupt"},
			[]string{"0 0 NULL 0 e0 ", "1 0 NULL 1 NULL ", "2 1 3 0 e1 value"}},
		{"position_changes", []string{"how", "partition"}, []string{"assign NULL"}},
		{"final_reads", []string{"log_start", "high_watermark"}, []string{"0 NULL"}},
		{"commits", []string{"entry"}, nil},
	} {
		if got := show(t, dir, c.table, c.columns...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.table, got, c.want)
		}
	}
}

// broken is a history whose lines end with an error.
type broken struct {
	histories.Memory
	err error
}

func (b *broken) Lines(ctx context.Context) iter.Seq2[histories.Entry, error] {
	return func(yield func(histories.Entry, error) bool) {
		for entry, err := range b.Memory.Lines(ctx) {
			if !yield(entry, err) {
				return
			}
		}
		yield(histories.Entry{}, b.err)
	}
}

func TestHistoryThatWasCutIsWrittenAsFarAsItGoes(t *testing.T) {
	cut := &broken{histories.Memory{Head: &histories.Header{}, Body: []histories.Line{&histories.Note{Text: "n"}}},
		&histories.CutError{Reason: "it ends there"}}
	dir := write(t, map[string]histories.History{"h": cut})
	if got := show(t, dir, "histories", "entries", "ended", "cut", "cut_reason"); !slices.Equal(got, []string{"1 false true it ends there"}) {
		t.Errorf("%q", got)
	}
}

func TestHistoryThatCannotBeReadIsAnError(t *testing.T) {
	w, err := parquet.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("line 7 is wrong")
	if err := w.Add(t.Context(), "h", &broken{histories.Memory{Head: &histories.Header{}}, wrong}); !errors.Is(err, wrong) {
		t.Errorf("the error is %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestTwoHistoriesOfOneNameAreRefused(t *testing.T) {
	w, err := parquet.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &histories.Memory{Head: &histories.Header{}}
	if err := w.Add(t.Context(), "h", h); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(t.Context(), "h", h); err == nil || !strings.Contains(err.Error(), "a name of its own") {
		t.Errorf("the error is %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestFolderThatIsNotEmptyIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parquet.Create(dir); err == nil || !strings.Contains(err.Error(), "precious") {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

// TestRowGroupsAreBounded: memory holds one row group of a table and not the table.
func TestRowGroupsAreBounded(t *testing.T) {
	const sends = 300_000
	h := &histories.Memory{Head: &histories.Header{}, Body: slices.Repeat([]histories.Line{&histories.Note{}}, sends)}
	dir := write(t, map[string]histories.History{"h": h})
	if file := open(t, dir, "notes"); file.NumRows() != sends || len(file.RowGroups()) != 3 {
		t.Errorf("%d rows in %d row groups", file.NumRows(), len(file.RowGroups()))
	}
}

// TestReadmeDescribesTheTables: every table has its heading, and under it its columns.
func TestReadmeDescribesTheTables(t *testing.T) {
	text, err := os.ReadFile("../sql/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, described, _ := strings.Cut(string(text), "\n## The tables\n")
	var got, want []string
	for line := range strings.Lines(described) {
		if name, found := strings.CutPrefix(line, "### "); found {
			got = append(got, "table "+strings.TrimSpace(name))
		} else if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| `") {
			got = append(got, strings.Trim(cells[0], "|` ")+" "+cells[1])
		}
	}
	for _, table := range parquet.Tables() {
		want = append(want, "table "+table.Name)
		for _, c := range table.Columns {
			null := ""
			if c.Nullable {
				null = ", NULL"
			}
			want = append(want, fmt.Sprintf("%s %s%s", c.Name, c.Type, null))
		}
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("sql/README.md says %q where the code has %q", got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}
