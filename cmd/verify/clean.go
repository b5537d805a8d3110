// This file holds `verify clean`.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/clusters/engine"
)

type cleanFlags struct{ dryRun, images, allHosts, json bool }

func newCleanCommand(s streams) *cobra.Command {
	var f cleanFlags
	c := &cobra.Command{
		Use: "clean", Short: "Remove what runs left that were killed hard, and nothing else",
		Long: `Remove what runs left that were killed hard: their containers, with the rules in their
network namespaces, networks, volumes, locks and temporary folders. What belongs to a
run that lives is left alone, and so is what was made from another machine, because
nobody here knows whether that run lives. Images are kept, so that the next run starts
at once, unless --images is given.

Exit status: 0 nothing is left of runs that are over; 254 no container engine answers;
255 something could not be removed.`,
		Example: `  verify clean --dry-run
  verify clean
  verify clean --images`,
		Args: takesNothing,
		RunE: func(c *cobra.Command, _ []string) error { return s.clean(c.Context(), f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	flags.BoolVar(&f.images, "images", false, "remove the images that were built here, too; the next run builds them again")
	flags.BoolVar(&f.allHosts, "all-hosts", false,
		"remove what was made from other machines, too; make sure that none of their runs goes on")
	flags.BoolVar(&f.json, "json", false, "print as a JSON object")
	return c
}

// cleaned is what was removed, and what was left alone and why.
type cleaned struct {
	DryRun    bool          `json:"dry_run"`
	Runs      []engine.Left `json:"runs"`
	Files     []string      `json:"files"`
	Images    []string      `json:"images"`
	LeftAlone []leftAlone   `json:"left_alone"`
	problems  []error
}

// leftAlone is a run, a file or an image that is kept, and why.
type leftAlone struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func (s streams) clean(ctx context.Context, f cleanFlags) error {
	e, err := engine.Open(ctx)
	if errors.Is(err, engine.ErrNoEngine) {
		return usageError{err}
	} else if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // nothing is pending
	c := cleaned{DryRun: f.dryRun, Runs: []engine.Left{}, Files: []string{}, Images: []string{}, LeftAlone: []leftAlone{}}
	all, err := e.Left(ctx)
	if err != nil {
		return err
	}
	for _, left := range all {
		c.run(ctx, e, left, f)
	}
	living, err := c.files(f)
	if err != nil {
		return err
	}
	living = living || slices.ContainsFunc(all, func(l engine.Left) bool { return l.Alive })
	if f.images {
		if err := c.images(ctx, e, f, living); err != nil {
			return err
		}
	}
	return errors.Join(s.sayCleaned(c, f), errors.Join(c.problems...))
}

// run removes what a run left, unless it lives or may live.
func (c *cleaned) run(ctx context.Context, e *engine.Engine, left engine.Left, f cleanFlags) {
	what := fmt.Sprintf("run %s (%s)", left.Run, describeLeft(left))
	switch {
	case left.Doubt != "":
		c.keep(what, left.Doubt)
	case left.Alive:
		c.keep(what, "it goes on")
	case left.Elsewhere && !f.allHosts:
		c.keep(what, fmt.Sprintf("it was started on another machine, %s: run verify clean there, or with --all-hosts when it is over",
			left.Host))
	case f.dryRun:
		c.Runs = append(c.Runs, left)
	default:
		if err := e.Remove(ctx, left); err != nil {
			c.problems = append(c.problems, fmt.Errorf("removing what the run %s left: %w", left.Run, err))
			return
		}
		c.Runs = append(c.Runs, left)
	}
}

func (c *cleaned) keep(what, why string) { c.LeftAlone = append(c.LeftAlone, leftAlone{what, why}) }

// describeLeft counts what a run has.
func describeLeft(left engine.Left) string {
	return fmt.Sprintf("%s, %s, %s", count(len(left.Containers), "container"), count(len(left.Networks), "network"),
		count(len(left.Volumes), "volume"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// files removes the locks and the temporary folders of processes that are over, and
// says whether one lives.
func (c *cleaned) files(f cleanFlags) (living bool, err error) {
	files, err := engine.LeftFiles()
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if file.Alive {
			living = true // its run is named above, or has nothing on the engine yet
			continue
		}
		if !f.dryRun {
			if err := engine.RemoveFile(file.Path); err != nil {
				c.problems = append(c.problems, err)
				continue
			}
		}
		c.Files = append(c.Files, file.Path)
	}
	return living, nil
}

// images removes the images that were built here, unless a run may be about to use
// them.
func (c *cleaned) images(ctx context.Context, e *engine.Engine, f cleanFlags, living bool) error {
	references, err := e.Images(ctx)
	if err != nil {
		return err
	}
	for _, reference := range references {
		if living {
			c.keep("image "+reference, "a run goes on")
			continue
		}
		if !f.dryRun {
			err := e.RemoveImage(ctx, reference)
			if errors.Is(err, engine.ErrInUse) {
				c.keep("image "+reference, "a container has it")
				continue
			} else if err != nil {
				c.problems = append(c.problems, err)
				continue
			}
		}
		c.Images = append(c.Images, reference)
	}
	return nil
}

// sayCleaned prints what was done.
func (s streams) sayCleaned(c cleaned, f cleanFlags) error {
	if f.json {
		return s.writeJSON(c)
	}
	did := "removed"
	if c.DryRun {
		did = "would remove"
	}
	var lines []string
	for _, left := range c.Runs {
		lines = append(lines, fmt.Sprintf("%s  run %s (%s): %s", did, left.Run, describeLeft(left),
			strings.Join(slices.Concat(left.Containers, left.Networks, left.Volumes), " ")))
	}
	for _, file := range c.Files {
		lines = append(lines, fmt.Sprintf("%s  %s", did, file))
	}
	for _, image := range c.Images {
		lines = append(lines, fmt.Sprintf("%s  image %s", did, image))
	}
	for _, kept := range c.LeftAlone {
		lines = append(lines, fmt.Sprintf("left alone  %s: %s", kept.What, kept.Why))
	}
	if len(c.Runs)+len(c.Files)+len(c.Images)+len(c.problems) == 0 {
		lines = append(lines, "nothing is left of runs that are over")
	}
	_, err := io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
	return err
}
