// This file holds one table: its Parquet file, and its columns for whoever describes
// them.

package parquet

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Table describes one table of a set.
type Table struct {
	// Name of the table; its file is Name.parquet.
	Name    string
	Columns []Column
}

// Column is one column. Type is text, bigint or boolean, as SQL says it.
type Column struct {
	Name string
	Type string
	// Nullable: NULL stands for what is not known.
	Nullable bool
}

// What bounds the memory of a table: rows that wait to be encoded, and rows that
// are encoded and wait for their row group to be whole.
const (
	batchRows    = 512
	rowGroupRows = 1 << 17
)

// compression is made once: a codec keeps its encoders.
var compression = &zstd.Codec{Level: zstd.SpeedDefault}

// table writes rows of one type into one file. The first error of any table of the
// set stays in failure, and nothing is written after it: whoever adds rows asks once
// a line.
type table[T any] struct {
	name    string
	file    *os.File
	writer  *parquet.GenericWriter[T]
	batch   []T
	rows    int64
	failure *error
}

// anyTable is a table of whatever rows.
type anyTable interface {
	create(dir string, failure *error) error
	close() error
	count() (name string, rows int64)
	describe() Table
}

func newTable[T any](name string) *table[T] { return &table[T]{name: name} }

// create makes the file; its writer takes memory only once there are rows.
func (t *table[T]) create(dir string, failure *error) error {
	t.failure = failure
	file, err := os.OpenFile(filepath.Join(dir, t.name+".parquet"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("creating the table %s: %w", t.name, err)
	}
	t.file = file
	t.writer = parquet.NewGenericWriter[T](file, parquet.Compression(compression), parquet.MaxRowsPerRowGroup(rowGroupRows),
		parquet.CreatedBy("ackproof", "", ""))
	return nil
}

func (t *table[T]) add(row T) {
	t.rows++
	t.batch = append(t.batch, row)
	if len(t.batch) >= batchRows {
		t.write()
	}
}

func (t *table[T]) write() {
	if *t.failure == nil && len(t.batch) > 0 {
		if _, err := t.writer.Write(t.batch); err != nil {
			*t.failure = fmt.Errorf("writing %s: %w", t.file.Name(), err)
		}
	}
	clear(t.batch) // the texts of lines must not stay
	t.batch = t.batch[:0]
}

// close writes what waits, and the file's end without which it cannot be read.
func (t *table[T]) close() error {
	if t.file == nil {
		return nil
	}
	t.write()
	if *t.failure == nil {
		if err := t.writer.Close(); err != nil {
			*t.failure = fmt.Errorf("writing the end of %s: %w", t.file.Name(), err)
		}
	}
	return t.file.Close()
}

func (t *table[T]) count() (string, int64) { return t.name, t.rows }

func (t *table[T]) describe() Table {
	var row T
	schema := parquet.SchemaOf(row)
	described := Table{Name: t.name}
	for _, field := range schema.Fields() {
		described.Columns = append(described.Columns, Column{field.Name(), typeOf(field), field.Optional()})
	}
	return described
}

// typeOf gives SQL's word for the type of a column.
func typeOf(field parquet.Field) string {
	switch field.Type().Kind() {
	case parquet.Boolean:
		return "boolean"
	case parquet.Int64:
		return "bigint"
	default:
		return "text"
	}
}
