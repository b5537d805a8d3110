// This file holds `verify corpus`.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/corpus"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/report"
)

type corpusFlags struct {
	histories     int
	seed          uint64
	json, verbose bool
	keep          string
}

func newCorpusCommand(s streams) *cobra.Command {
	var f corpusFlags
	c := &cobra.Command{
		Use:   "corpus",
		Short: "Measure the checker by histories whose truth is known",
		Long: `Measure the checker by small histories whose truth is known: healthy ones, in which
nothing may be found, and ones with a planted defect, which must be found and called by
its name, and nothing else: every anomaly, at every place where it can hide, in every
kind of history that is read. A defect that nobody could tell of must be called unknown.
Half of the histories are healthy.

Exit status 0: all were judged right; 1: one was not.`,
		Example: `  verify corpus
  verify corpus --histories 1000000 --seed 7 --verbose
  verify corpus --json | jq '[.planted, .found, .named_wrong, .false_alarms, .histories]'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.corpus(c.Context(), f) },
	}
	c.Flags().IntVar(&f.histories, "histories", 100_000, "how many histories are made and judged")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what they are drawn from: the same seed makes the same histories")
	c.Flags().BoolVar(&f.json, "json", false, "print the figures as JSON on standard output")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "list every anomaly at every place")
	c.Flags().StringVar(&f.keep, "keep", "", "write the histories that were judged wrong into this directory, which is created")
	return c
}

func (s streams) corpus(ctx context.Context, f corpusFlags) error {
	if f.histories < 1 {
		return usageError{fmt.Errorf("--histories %d: it takes one history at least", f.histories)}
	}
	figures, err := corpus.Measure(ctx, f.histories, f.seed, func(done int64) {
		if isTerminal(s.progress) {
			_, _ = fmt.Fprintf(s.progress, "\r%d of %d", done, f.histories)
		}
	})
	if isTerminal(s.progress) {
		_, _ = fmt.Fprint(s.progress, "\r\033[K")
	}
	if err != nil {
		return fmt.Errorf("measuring the checker: %w", err)
	}
	if err := keepFailures(ctx, f.keep, figures); err != nil {
		return err
	}
	if f.json {
		err = s.writeJSON(figures)
	} else {
		err = report.Text{Colour: isTerminal(s.out), Verbose: f.verbose}.Corpus(s.out, figures)
	}
	if err == nil && !figures.Right() {
		err = verdictError{exitViolated}
	}
	return err
}

// keepFailures writes what was judged wrong to files that verify check reads.
func keepFailures(ctx context.Context, directory string, figures *corpus.Figures) error {
	if directory == "" {
		return nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return usageError{fmt.Errorf("creating --keep: %w", err)}
	}
	for _, failure := range figures.Failures {
		name := strings.NewReplacer(", ", ".", " ", "-").Replace(failure.Case) + ".jsonl"
		if err := keep(ctx, filepath.Join(directory, name), failure.Made().History); err != nil {
			return fmt.Errorf("keeping a history that was judged wrong: %w", err)
		}
	}
	return nil
}

func keep(ctx context.Context, path string, h histories.History) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out, err := histories.NewTextWriter(file, h.Header())
	if err != nil {
		return errors.Join(err, file.Close())
	}
	err = out.WriteAll(ctx, h)
	var cut *histories.CutError
	if errors.As(err, &cut) { // and so is the copy
		err = nil
	}
	return errors.Join(err, out.Close(), file.Close())
}
