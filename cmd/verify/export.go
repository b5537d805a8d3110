// This file holds `verify export`.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/parquet"
	"github.com/ackproof/ackproof/sql"
)

type exportFlags struct {
	parquet    string
	oneHistory bool
}

func newExportCommand(s streams) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export --parquet DIR HISTORY|RUN_DIR...",
		Short: "Write histories as tables in Parquet files",
		Long: `Write histories as tables in Parquet files: the raw facts, one file to a table, all
histories in one set. Beside them lies the third judge: files in SQL that count lost
writes, duplicates, order violations and divergences, for DuckDB, Spark or any other
engine. It is independent of verify check, and takes histories that are bigger than a
machine. The folder's sql/README.md describes the tables, for questions of your own.

It takes what verify check takes: run directories, histories of our own format, of
Jepsen's Kafka workload (EDN), cases in the neutral form, and with --one-history the
files of Apache Kafka's VerifiableProducer and VerifiableConsumer.`,
		Example: `  verify export --parquet tables verify-runs/2026-12-01T02-00-00-seed7
  verify export --parquet tables nightly/*/history.jsonl.zst
  cd tables && duckdb -c ".read sql/duckdb.sql"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("verify export needs a history or a run directory; verify export --help shows examples")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return s.export(c.Context(), args, f) },
	}
	c.Flags().StringVar(&f.parquet, "parquet", "", "folder for the tables; it is created, and must be empty if it is there")
	c.Flags().BoolVar(&f.oneHistory, "one-history", false,
		"put the files of VerifiableProducers and VerifiableConsumers together into one history")
	return c
}

func (s streams) export(ctx context.Context, paths []string, f exportFlags) error {
	if f.parquet == "" {
		return usageError{errors.New("verify export needs --parquet DIR: the folder that the tables are to be written to")}
	}
	sources := sourcesOf(ctx, paths, f.oneHistory)
	files := make([]*histories.File, len(sources))
	var err error
	for i, source := range sources { // before anything is written
		if files[i], err = source.open(); err != nil {
			return usageError{err}
		}
	}
	writer, err := parquet.Create(f.parquet)
	if err != nil {
		return usageError{err}
	}
	for i, source := range sources {
		if err := source.export(ctx, files[i], writer); err != nil {
			_ = writer.Close() // the first error is the one to tell
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("exporting to %s: %w", f.parquet, err)
	}
	if err := sql.Write(filepath.Join(f.parquet, "sql")); err != nil {
		return fmt.Errorf("exporting to %s: %w", f.parquet, err)
	}
	return s.sayExported(writer.Counts(), f.parquet)
}

// export writes a history into the tables, under the name that verify check is to be
// given for it. What cannot be read is wrong input.
func (h source) export(ctx context.Context, file *histories.File, writer *parquet.Writer) error {
	err := writer.Add(ctx, h.name, file)
	var disk *os.PathError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("exporting %s: interrupted; the tables are not whole, remove them", h.name)
	case errors.As(err, &disk) && disk.Op == "write":
		return fmt.Errorf("%w; the tables are not whole, remove them", err)
	}
	return usageError{fmt.Errorf("%w; the tables are not whole, remove them", err)}
}

func (s streams) sayExported(counts []parquet.Count, dir string) error {
	var text strings.Builder
	for _, c := range counts {
		fmt.Fprintf(&text, "%12d  %s\n", c.Rows, filepath.Join(dir, c.Table+".parquet"))
	}
	fmt.Fprintf(&text, "\nnext  count what is wrong with DuckDB: cd %s && duckdb -c \".read sql/duckdb.sql\"\n", dir)
	fmt.Fprintf(&text, "      with Spark: spark-submit %s %s; all there is to say: %s\n", filepath.Join(dir, "sql", "spark.py"), dir,
		filepath.Join(dir, "sql", "README.md"))
	_, err := s.out.Write([]byte(text.String()))
	return err
}
