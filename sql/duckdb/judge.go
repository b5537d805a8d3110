// This file holds Judge: the SQL files of the third judge, run in DuckDB.

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // DuckDB, as a driver of database/sql

	"github.com/ackproof/ackproof/parquet"
	judge "github.com/ackproof/ackproof/sql"
)

// Counts is what the third judge found in one history, whatever its configuration
// promises. They are those of verdict.json under the same names.
type Counts struct {
	History        string `json:"history"`
	LostWrite      int64  `json:"lost-write"`
	Duplicate      int64  `json:"duplicate"`
	OrderViolation int64  `json:"order-violation"`
	Divergence     int64  `json:"divergence"`
}

// Judge gives the counts of all histories of an exported folder, by name. The error says
// what is wrong with the folder, or is the engine's. It may be called concurrently.
func Judge(ctx context.Context, dir string) (counts []Counts, err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, fmt.Errorf("starting DuckDB: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // temporary views are a connection's own
	if err := openTables(ctx, db, dir); err != nil {
		return nil, err
	}
	statements, err := judge.Statements()
	if err != nil {
		return nil, err
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("preparing the judge for %s: %w", dir, err)
		}
	}
	return ask(ctx, db, dir)
}

// openTables makes a view of each file.
func openTables(ctx context.Context, db *sql.DB, dir string) error {
	for _, t := range parquet.Tables() {
		path := filepath.Join(dir, t.Name+".parquet")
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("opening the tables: %w; name a folder that verify export --parquet has written", err)
		}
		view := fmt.Sprintf("CREATE VIEW %s AS SELECT * FROM read_parquet('%s')", t.Name, strings.ReplaceAll(path, "'", "''"))
		if _, err := db.ExecContext(ctx, view); err != nil {
			return fmt.Errorf("opening the table %s: %w; was its export finished?", path, err)
		}
	}
	return nil
}

func ask(ctx context.Context, db *sql.DB, dir string) (counts []Counts, err error) {
	rows, err := db.QueryContext(ctx,
		"SELECT history, lost_write, duplicate, order_violation, divergence FROM counts ORDER BY history")
	if err != nil {
		return nil, fmt.Errorf("judging %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c Counts
		if err := rows.Scan(&c.History, &c.LostWrite, &c.Duplicate, &c.OrderViolation, &c.Divergence); err != nil {
			return nil, fmt.Errorf("judging %s: %w", dir, err)
		}
		counts = append(counts, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("judging %s: %w", dir, err)
	}
	return counts, nil
}
