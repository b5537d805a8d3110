// Package sql holds the third judge: files in SQL that answer, over a history that was
// exported to Parquet, what the checker answers about loss, duplicates, order and
// divergence. They are written from the definitions and share no code with the checker;
// any engine that a team has may run them. README.md describes the tables that they ask.
package sql

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files are the SQL files, and what runs and describes them.
//
//go:embed *.sql spark.py README.md
var Files embed.FS

// Statements gives the statements of the judge in the order in which they are to run,
// without their closing semicolons. Each makes a view; the last one is "counts". They
// ask the tables of package parquet under their names.
func Statements() ([]string, error) {
	names, err := fs.Glob(Files, "[0-9]*.sql")
	if err != nil {
		return nil, fmt.Errorf("looking for the files of the judge: %w", err)
	}
	var statements []string
	for _, name := range names {
		text, err := Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading %s of the judge: %w", name, err)
		}
		for statement := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(statement) != "" {
				statements = append(statements, statement)
			}
		}
	}
	return statements, nil
}

// Write puts the files into a folder that does not exist yet, so that tables and judge
// can be carried around together.
func Write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the judge: %w", err)
	}
	entries, err := Files.ReadDir(".")
	if err != nil {
		return fmt.Errorf("looking for the files of the judge: %w", err)
	}
	for _, entry := range entries {
		text, err := Files.ReadFile(entry.Name())
		if err != nil {
			return fmt.Errorf("reading %s of the judge: %w", entry.Name(), err)
		}
		if err := os.WriteFile(filepath.Join(dir, entry.Name()), text, 0o644); err != nil {
			return fmt.Errorf("writing the judge: %w", err)
		}
	}
	return nil
}
