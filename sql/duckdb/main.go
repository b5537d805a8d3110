// Command duckdb judges histories that were exported by verify export --parquet: it runs
// the SQL files of the third judge in DuckDB, which is linked in. It is a module of its
// own, since DuckDB needs cgo and verify does without.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
)

// The exit statuses, as those of verify.
const (
	exitUsage   = 254
	exitFailure = 255
)

const usage = `usage: go run . [--json] DIR...

Counts lost writes, duplicates, order violations and divergences of every history in the
folders, which verify export --parquet has written.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// execute runs the command and gives the exit status. What is found does not change it:
// whether it was promised not to happen is for verify check to say.
func execute(ctx context.Context, args []string, out, progress io.Writer) int {
	flags := flag.NewFlagSet("duckdb", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() { _, _ = fmt.Fprint(progress, usage) }
	asJSON := flags.Bool("json", false, "print an array of JSON objects")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() == 0:
		flags.Usage()
		return exitUsage
	}
	var all []Counts
	for _, dir := range flags.Args() {
		counts, err := Judge(ctx, dir)
		if err != nil {
			_, _ = fmt.Fprintln(progress, "duckdb:", err)
			return exitUsage
		}
		all = append(all, counts...)
	}
	if err := write(out, all, *asJSON); err != nil {
		_, _ = fmt.Fprintln(progress, "duckdb: writing the counts:", err)
		return exitFailure
	}
	return 0
}

func write(out io.Writer, all []Counts, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "lost-write\tduplicate\torder-violation\tdivergence\thistory") // Flush has the error
	for _, c := range all {
		_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%s\n", c.LostWrite, c.Duplicate, c.OrderViolation, c.Divergence, c.History)
	}
	return table.Flush()
}
