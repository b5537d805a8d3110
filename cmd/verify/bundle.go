// This file holds `verify bundle`.

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/bundles"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/scenarios"
)

type bundleFlags struct{ out, limit string }

func newBundleCommand(s streams) *cobra.Command {
	var f bundleFlags
	c := &cobra.Command{
		Use:   "bundle RUN_DIR",
		Short: "Make one file of a run that can be attached to an issue, without secrets",
		Long: `Make one .zip of a run directory that can be attached to an issue: the scenario, the
history, the verdict, the page, and the brokers' logs and configurations. REPORT.md in
it is ready to paste: the verdict, versions, configuration, what was broken with
examples, the faults with their evidence, and how to check it and play it again.
Whoever gets it runs verify check BUNDLE.zip, and needs nothing else.

Secrets are taken out, by the name of their property (ssl.key.password,
sasl.jaas.config), by their look (bearer tokens, passwords in URLs and logs, private
keys), and wherever else a value stands that a property names as a secret, also
encoded. What was taken out, and where, is said; the values never are. The history is
judged with and without its secrets, and no bundle is made where that differs. What
does not look like a secret cannot be found: names of hosts and topics stay.

A bundle that would be too large has its history packed tighter; then the brokers'
logs are cut to the lines around the faults and the last ones, then left out; then the
page is left out; last, the history is cut at its end, and reads and is judged as cut.
What is missing is said in REPORT.md.`,
		Example: `  verify bundle verify-runs/2026-12-01T02-00-00-seed7
  verify bundle --out lost-writes.zip --limit 10MB verify-runs/2026-12-01T02-00-00-seed7
  unzip -p lost-writes.zip REPORT.md         # the text to paste
  verify check lost-writes.zip               # anywhere`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("verify bundle takes one run directory, and %d were given; verify bundle --help shows examples",
					len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return s.bundle(c.Context(), args[0], f) },
	}
	c.Flags().StringVar(&f.out, "out", "", "the file, created; default: RUN_DIR.zip")
	c.Flags().StringVar(&f.limit, "limit", "25MB", "how large it may be: bytes, or with kB, MB, KiB, MiB")
	return c
}

func (s streams) bundle(ctx context.Context, run string, f bundleFlags) error {
	limit, err := parseSize(f.limit)
	if err != nil {
		return usageError{fmt.Errorf("--limit %q: %w", f.limit, err)}
	}
	out := f.out
	if out == "" {
		if out = strings.TrimRight(run, `/\`) + ".zip"; strings.Trim(out, ".") == "zip" || strings.HasSuffix(out, "/..zip") {
			return usageError{fmt.Errorf("verify bundle %s: name the file with --out", run)}
		}
	}
	version := "ackproof " + scenarios.Versions()["ackproof"]
	bundled, err := bundles.Write(ctx, run, out, bundles.Options{Limit: limit, Tool: version})
	if err != nil {
		return err
	}
	return s.sayBundled(bundled)
}

// sayBundled says what became of a bundle.
func (s streams) sayBundled(b *bundles.Bundled) error {
	var text strings.Builder
	issue := b.Issue
	fmt.Fprintf(&text, "%s  %s\n\n", strings.ToUpper(issue.Verdict.Verdict), issue.Verdict.Summary)
	fmt.Fprintf(&text, "  bundle     %s (%s; the limit is %s)\n", b.Path, report.Size(b.Size), report.Size(b.Limit))
	head := "  secrets  "
	if len(issue.Redactions) == 0 {
		fmt.Fprintf(&text, "%s  none was found; names of hosts and topics are as they were\n", head)
	}
	for n, r := range issue.Redactions {
		if n == 12 {
			fmt.Fprintf(&text, "             and more: see %s\n", bundles.IssueFile)
			break
		}
		fmt.Fprintf(&text, "%s  %s, %s: %s\n", head, r.File, r.Where(), r.What)
		head = "           "
	}
	head = "  left out "
	for _, what := range issue.LeftOut {
		fmt.Fprintf(&text, "%s  %s\n", head, what)
		head = "           "
	}
	for _, note := range issue.Notes {
		fmt.Fprintf(&text, "  note       %s\n", note)
	}
	if issue.Cut != nil {
		fmt.Fprintf(&text, "  note       what is left of the history is judged %s: %s\n", issue.Cut.Verdict, issue.Cut.Summary)
	}
	fmt.Fprintf(&text, "\n  next       paste this into the issue:   unzip -p %s %s\n", b.Path, bundles.IssueFile)
	fmt.Fprintf(&text, "             whoever gets the file runs:  verify check %s\n", issue.Bundle)
	_, err := s.out.Write([]byte(text.String()))
	return err
}

// parseSize reads a size: 25MB, 25MiB, 300kB, 1000.
func parseSize(text string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"b", 1}, {"", 1}}
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, unit := range units {
		number, is := strings.CutSuffix(lower, unit.name)
		if !is {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n*unit.bytes >= 1 && n*unit.bytes < math.MaxInt64/2) {
			break
		}
		return int64(n * unit.bytes), nil
	}
	return 0, errors.New("it is no size; it takes a number of bytes, or one with kB, MB, KiB or MiB, as 25MB")
}
