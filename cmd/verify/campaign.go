// This file holds verify run with several scenarios of the catalogue, or all of them.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/nemesis"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/scenarios"
)

// The files of a campaign's table.
const (
	resultsText     = "results.txt"
	resultsMarkdown = "results.md"
	resultsJSON     = "results.json"
	resultsCodes    = "error-codes.md"
)

// runCampaign plays several scenarios on one cluster.
func (s streams) runCampaign(ctx context.Context, c *cobra.Command, names []string, f *runFlags) error {
	campaign, directory, err := f.campaign(c, names)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.progress, "seed %d, directory %s\n", campaign.Seed, directory)
	var current *live
	number := 0
	observer := scenarios.Observer{
		Progress: func(text string) { _, _ = fmt.Fprintln(s.progress, text) },
		Began: func(cell scenarios.Cell, runner *scenarios.Runner) {
			_, _ = fmt.Fprintf(s.progress, "%s with %s\n", cell.Name, cell.Client)
			if isTerminal(s.progress) {
				current = startLive(s.progress, runner)
			}
		},
		Ended: func(cell scenarios.Cell) {
			number++
			if current != nil {
				current.stop()
				current = nil
			}
			_, _ = fmt.Fprintf(s.progress, "  %s  (%.0f s, %d of %d)\n", cell.Verdict, cell.Took, number,
				len(campaign.Names)*max(len(campaign.Clients), 1))
		},
	}
	cells, played := campaign.Play(ctx, directory, observer)
	if current != nil {
		current.stop()
	}
	if err := s.concludeCampaign(directory, cells, f); err != nil {
		return err
	}
	if played != nil {
		return played
	}
	return statusOfCells(cells, ctx.Err() != nil)
}

// campaign gives what is to be played and where, from the flags or from the campaign that
// is resumed.
func (f *runFlags) campaign(c *cobra.Command, names []string) (scenarios.Campaign, string, error) {
	if f.resume != "" {
		campaign, err := scenarios.LoadCampaign(f.resume)
		return campaign, f.resume, err
	}
	provider := f.provider(c)
	campaign := scenarios.Campaign{Cluster: scenarios.DefaultOn(provider).Cluster, Names: names, Seed: f.seed,
		NoFaults: f.noFaults(c)}
	if err := f.checkNamed(c); err != nil {
		return campaign, "", err
	}
	scratch := scenarios.DefaultOn(provider)
	if err := f.overlayCluster(c, &scratch); err != nil {
		return campaign, "", err
	}
	campaign.Cluster = scratch.Cluster
	for client := range strings.SplitSeq(f.client, ",") {
		campaign.Clients = append(campaign.Clients, strings.TrimSpace(client))
	}
	if f.clientExec != "" {
		campaign.Exec = strings.Fields(f.clientExec)
		if !c.Flags().Changed("client") {
			campaign.Clients = nil
		}
	}
	var err error
	if campaign.Producer, err = parseProperties("producer", f.producer); err != nil {
		return campaign, "", err
	}
	if campaign.Topic, err = parseProperties("topic-config", f.topicConfig); err != nil {
		return campaign, "", err
	}
	if len(names) == 0 {
		for _, n := range scenarios.Catalogue() {
			campaign.Names = append(campaign.Names, n.Name)
		}
	}
	if campaign.Seed == 0 {
		campaign.Seed = rand.Int64N(1_000_000) + 1
	}
	directory := f.out
	if directory == "" {
		directory = filepath.Join("verify-runs", fmt.Sprintf("%s-catalogue-seed%d",
			time.Now().UTC().Format("2006-01-02T15-04-05"), campaign.Seed))
	}
	return campaign, directory, campaign.Create(directory)
}

// noFaults says whether a scenario's own faults are to be left out.
func (f *runFlags) noFaults(c *cobra.Command) bool {
	return c.Flags().Changed("faults") && f.faults == nemesis.None
}

// checkNamed refuses flags that a scenario of the catalogue decides itself.
func (f *runFlags) checkNamed(c *cobra.Command) error {
	for _, name := range []string{"duration", "topics", "partitions", "producers", "consumers", "keys", "rate", "value-size",
		"overlap", "allow-lies"} {
		if c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s cannot be given with a scenario by name, which decides it itself; "+
				"a scenario of your own is a file", name)}
		}
	}
	if c.Flags().Changed("faults") && f.faults != nemesis.None {
		return usageError{fmt.Errorf("--faults %s: a scenario by name has its own faults; they can be left out "+
			"(--faults none), and not changed", f.faults)}
	}
	return nil
}

// concludeCampaign writes the table, into files and on standard output.
func (s streams) concludeCampaign(directory string, cells []scenarios.Cell, f *runFlags) error {
	var table []report.Line
	for _, cell := range cells {
		table = append(table, report.Line{Name: cell.Name, Client: cell.Client, Verdict: cell.Verdict, Summary: cell.Summary,
			Expected: cell.Expected, TookSeconds: cell.Took})
	}
	var text, markdown bytes.Buffer
	document, err := json.MarshalIndent(cells, "", "  ")
	if err == nil {
		err = report.Text{}.Table(&text, table)
	}
	if err == nil {
		err = report.Markdown(&markdown, table)
	}
	if err != nil {
		return fmt.Errorf("making the table: %w", err)
	}
	codes, err := tableOfCodes(cells)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{resultsCodes: codes, resultsText: text.Bytes(), resultsMarkdown: markdown.Bytes(),
		resultsJSON: append(document, '\n')} {
		if len(content) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	if f.json {
		return s.writeJSON(cells)
	}
	if err := (report.Text{Colour: isTerminal(s.out)}).Table(s.out, table); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "\nevery run, with its history: %s (verify check DIRECTORY/NAME/CLIENT)\n"+
		"go on after an interruption: verify run --resume %s\n", directory, directory)
	return err
}

// tableOfCodes gives the table of what each client made of every error, where that was
// played; else nothing.
func tableOfCodes(cells []scenarios.Cell) ([]byte, error) {
	var played []report.Client
	for _, cell := range cells {
		if cell.Name == scenarios.ErrorCodes && cell.Measures != nil {
			played = append(played, report.Client{Name: cell.Client, Measures: cell.Measures})
		}
	}
	if len(played) == 0 {
		return nil, nil
	}
	var codes []report.Code
	for _, a := range scenarios.AnsweredCodes() {
		codes = append(codes, report.Code(a))
	}
	var table bytes.Buffer
	if err := report.Codes(&table, codes, played); err != nil {
		return nil, fmt.Errorf("making the table of errors: %w", err)
	}
	return table.Bytes(), nil
}

// statusOfCells gives the exit status of a campaign: the worst one.
func statusOfCells(cells []scenarios.Cell, interrupted bool) error {
	status := exitHeld
	if interrupted {
		status = exitUnknown
	}
	for _, cell := range cells {
		switch cell.Verdict {
		case checker.Otherwise:
			return verdictError{exitViolated}
		case checker.UnknownWord:
			status = exitUnknown
		}
	}
	if status == exitHeld {
		return nil
	}
	return verdictError{status}
}
