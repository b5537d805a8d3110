// This file holds `verify defects`.

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/defects"
	"github.com/ackproof/ackproof/scenarios"
)

type defectsFlags struct {
	out       string
	all, json bool
}

func newDefectsCommand(s streams) *cobra.Command {
	var f defectsFlags
	c := &cobra.Command{
		Use:   "defects [NAME...]",
		Short: "Reproduce defects that users met, or list them",
		Long: `List the track record: defects of clients and brokers that users really met. With
names (or issues, as KAFKA-19012): play each on a version that has it and on one that
has not, and say what was seen.

Red is the checker's verdict alone: a promise that was broken, by its name, or where the
defect breaks none, a measure beyond what is expected. Green takes that what provokes the
defect happened. Exit status: 0 red on the affected version and green on the fixed one;
1 otherwise; 2 it could not be told, as where a version could not be had.`,
		Example: `  verify defects
  verify defects idempotence-off-by-default
  verify defects KAFKA-13598 --json
  verify defects --all --out track-record`,
		RunE: func(c *cobra.Command, names []string) error { return s.defects(c.Context(), names, &f) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "play every defect that verify defects lists")
	c.Flags().StringVar(&f.out, "out", "", "directory of the run directories; default: verify-runs/TIME-defects")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON on standard output")
	return c
}

func (s streams) defects(ctx context.Context, names []string, f *defectsFlags) error {
	if f.all && len(names) > 0 {
		return usageError{fmt.Errorf("--all plays every defect; name some (%s), or give --all", strings.Join(names, " "))}
	}
	wanted := defects.Table()
	if !f.all {
		wanted = nil
		for _, name := range names {
			d, err := defects.Find(name)
			if err != nil {
				return err
			}
			wanted = append(wanted, d)
		}
	}
	if len(wanted) == 0 {
		return s.listDefects(f.json)
	}
	directory := f.out
	if directory == "" {
		directory = filepath.Join("verify-runs", time.Now().UTC().Format("2006-01-02T15-04-05")+"-defects")
	}
	var results []defects.Result
	for _, d := range wanted {
		if ctx.Err() != nil {
			break
		}
		result := s.reproduce(ctx, d, directory)
		results = append(results, result)
		if f.json {
			continue
		}
		if err := s.tellDefect(d, result); err != nil {
			return err
		}
	}
	if f.json {
		if err := s.writeJSON(results); err != nil {
			return err
		}
	}
	return statusOfDefects(results, ctx.Err() != nil)
}

// reproduce plays one defect and shows its progress.
func (s streams) reproduce(ctx context.Context, d defects.Defect, directory string) defects.Result {
	var current *live
	stop := func() {
		if current != nil {
			current.stop()
			current = nil
		}
	}
	result := d.Reproduce(ctx, directory, defects.Options{
		Progress: func(text string) {
			stop()
			_, _ = fmt.Fprintln(s.progress, text)
		},
		Began: func(r *scenarios.Runner) {
			if isTerminal(s.progress) {
				current = startLive(s.progress, r)
			}
		},
	})
	stop()
	return result
}

// tellDefect says what was seen of a defect.
func (s streams) tellDefect(d defects.Defect, r defects.Result) error {
	w := &lines{w: s.out}
	w.wrapped("", fmt.Sprintf("%s (%s): %s", d.Name, d.Issue, d.Summary))
	for _, seen := range r.Seen {
		w.line("")
		w.wrapped(fmt.Sprintf("  %-18s", seen.Version), fmt.Sprintf("%s: %s", strings.ToUpper(seen.Colour), seen.Why))
		if seen.Verdict != "" {
			w.line("  %-18s%s; %s (%.0f s)", "", "verdict "+seen.Verdict, seen.Directory, seen.Took)
		}
	}
	w.line("")
	w.wrapped("  ", r.Summary)
	w.line("")
	return w.err
}

// statusOfDefects gives the exit status: the worst one.
func statusOfDefects(results []defects.Result, interrupted bool) error {
	var cells []scenarios.Cell
	for _, r := range results {
		cells = append(cells, scenarios.Cell{Verdict: r.Verdict})
	}
	return statusOfCells(cells, interrupted)
}

// listed is a defect as JSON has it.
type listed struct {
	Name       string           `json:"name"`
	Issue      string           `json:"issue"`
	Summary    string           `json:"summary"`
	Where      string           `json:"where"`
	AffectedIn string           `json:"affected_in"`
	FixedIn    string           `json:"fixed_in"`
	Affected   defects.Version  `json:"affected"`
	Fixed      *defects.Version `json:"fixed"`
	Red        defects.Red      `json:"red"`
	Chance     string           `json:"chance"`
	Scenario   string           `json:"scenario"`
}

// listDefects lists the track record.
func (s streams) listDefects(asJSON bool) error {
	table := defects.Table()
	if asJSON {
		all := make([]listed, len(table))
		for i, d := range table {
			all[i] = listed{Name: d.Name, Issue: d.Issue, Summary: d.Summary, Where: d.Where, AffectedIn: d.AffectedIn,
				FixedIn: d.FixedIn, Affected: d.Affected, Red: d.Red, Chance: d.Chance, Scenario: d.Scenario}
			if !d.Fixed.None() {
				all[i].Fixed = &d.Fixed
			}
		}
		return s.writeJSON(all)
	}
	w := &lines{w: s.out}
	for _, d := range table {
		w.wrapped("", fmt.Sprintf("%s (%s, in the %s)", d.Name, d.Issue, d.Where))
		w.wrapped("    ", d.Summary)
		w.wrapped("    affected  ", fmt.Sprintf("%s; played on %s", d.AffectedIn, d.Affected))
		fixed := "no version is known to be without it"
		if !d.Fixed.None() {
			fixed = fmt.Sprintf("%s; played on %s", d.FixedIn, d.Fixed)
		}
		w.wrapped("    fixed     ", fixed)
		w.wrapped("    seen      ", redInWords(d))
		w.line("")
	}
	w.line("verify defects NAME reproduces one; verify scenarios SCENARIO explains how.")
	return w.err
}

// redInWords says what is seen where the defect is.
func redInWords(d defects.Defect) string {
	var names []string
	for _, a := range d.Red.Violated {
		names = append(names, string(a))
	}
	text := strings.Join(names, ", ") + " " + checker.Violated
	if len(d.Red.Exceeded) > 0 {
		text = "more than is expected: " + strings.Join(d.Red.Exceeded, ", ")
	}
	return text + ", " + d.Chance
}
