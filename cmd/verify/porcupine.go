// This file holds what verify check --porcupine adds: pages that show the second judge's
// windows.

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
)

// porcupineFlags say which windows are drawn, where to, and how long the second judge
// may take.
type porcupineFlags struct {
	windows, out string
	timeout      time.Duration
}

func (f *porcupineFlags) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.windows, "porcupine", "",
		"draw the failing window of each partition, or of all partitions one (--porcupine=all)")
	c.Flags().Lookup("porcupine").NoOptDefVal = checker.WindowsFailing
	c.Flags().StringVar(&f.out, "porcupine-out", "",
		"folder of the pages (default: porcupine in the run directory; HISTORY.porcupine beside a file)")
	c.Flags().DurationVar(&f.timeout, "porcupine-timeout", 0,
		"how long the second judge may take for a partition (default 10s; 30s with --porcupine)")
}

// options puts the flags into those of the checker.
func (f *porcupineFlags) options(options *checker.Options, histories int) error {
	switch {
	case f.windows != "" && f.windows != checker.WindowsFailing && f.windows != checker.WindowsAll:
		return usageError{fmt.Errorf("--porcupine=%s: it is --porcupine (failing windows) or --porcupine=all", f.windows)}
	case f.timeout < 0:
		return usageError{fmt.Errorf("--porcupine-timeout is %s; it must not be negative", f.timeout)}
	case f.out != "" && f.windows == "":
		return usageError{fmt.Errorf("--porcupine-out says where pages go; --porcupine draws them")}
	case f.out != "" && histories > 1:
		return usageError{fmt.Errorf(
			"--porcupine-out takes the pages of one history; %d were given: leave it out, or check them one by one", histories)}
	}
	options.Windows, options.SecondJudgeTimeout = f.windows, f.timeout
	if f.windows != "" && f.timeout == 0 {
		options.SecondJudgeTimeout = 30 * time.Second
	}
	return nil
}

// folder is where the pages of a history go.
func (f *porcupineFlags) folder(path string) string {
	if f.out != "" {
		return f.out
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, runs.PorcupineDir)
	}
	return strings.TrimRight(path, "/") + "." + runs.PorcupineDir
}

const choosePlace = "choose a place that can be written with --porcupine-out"

// draw writes the pages of a verdict's windows, and says which.
func (f *porcupineFlags) draw(w io.Writer, v *checker.Verdict, path string) error {
	if f.windows == "" {
		return nil
	}
	folder := f.folder(path)
	names := make(map[string]bool)
	failing := 0
	for _, window := range v.Windows {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return usageError{fmt.Errorf("making the folder of the pages: %w; %s", err, choosePlace)}
		}
		page := filepath.Join(folder, pageName(window, names))
		if err := drawPage(page, v, window); err != nil {
			return err
		}
		says := "linearizable"
		if window.Contradiction != nil {
			failing++
			says = "NOT linearizable"
		}
		p := window.Partition
		if _, err := fmt.Fprintf(w, "  porcupine  %s/%d is %s: %s\n", p.Topic, p.Partition, says, page); err != nil {
			return err
		}
	}
	return f.conclude(w, v, failing)
}

// conclude says what the second judge says where nothing that fails was drawn.
func (f *porcupineFlags) conclude(w io.Writer, v *checker.Verdict, failing int) (err error) {
	judge := &v.SecondJudge
	switch {
	case judge.Verdict == checker.UnknownWord:
		_, err = fmt.Fprintf(w, "  porcupine  unknown: %s\n", judge.Detail)
	case judge.Verdict == checker.Held && f.windows == checker.WindowsFailing:
		_, err = fmt.Fprintf(w, "  porcupine  nothing fails: %s; --porcupine=all draws some of each\n", judge.Detail)
	case judge.Verdict == checker.Violated && failing == 0:
		_, err = fmt.Fprintf(w, "  porcupine  nothing drawn: %s\n", judge.Detail)
	}
	return err
}

func drawPage(path string, v *checker.Verdict, window *checker.Window) error {
	file, err := os.Create(path)
	if err != nil {
		return usageError{fmt.Errorf("creating a page: %w; %s", err, choosePlace)}
	}
	if err := report.Picture(file, v, window); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// pageName gives the page of a window a name of its own. An imported topic may have any
// name.
func pageName(window *checker.Window, taken map[string]bool) string {
	topic := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, window.Partition.Topic)
	stem := fmt.Sprintf("%s-%d", topic[:min(len(topic), 150)], window.Partition.Partition)
	name := stem
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s.%d", stem, n)
	}
	taken[name] = true
	return name + ".html"
}
