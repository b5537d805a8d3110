// Package runs holds the run directory: how it is laid out, created and opened.
//
//	scenario.yaml       what was asked, every default spelled out, the seed, versions
//	history.jsonl.zst   the operations, in the order in which they were recorded
//	verdict.json        the machine-readable verdict
//	report.html         the verdict as a page, with a timeline
//	brokers/            each broker's log and configuration, where there are any
//	porcupine/          pages of the second judge, once verify check --porcupine drew any
package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ackproof/ackproof/checker"
)

// The names in a run directory.
const (
	ScenarioFile = "scenario.yaml"
	HistoryFile  = "history.jsonl.zst"
	VerdictFile  = "verdict.json"
	ReportFile   = "report.html"
	BrokersDir   = "brokers"
	PorcupineDir = "porcupine"
)

// Directory is a run directory. Its methods only touch files under Path.
type Directory struct{ Path string }

// Create makes a run directory, and the ones above it. A directory that is there
// already must be empty: a run never overwrites another one's evidence. The error
// says what to do about it.
func Create(path string) (*Directory, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("creating the run directory %s: %w; choose a place that can be written with --out", path, err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("looking into the run directory %s: %w", path, err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("the run directory %s is not empty (it holds %s); choose another one with --out",
			path, entries[0].Name())
	}
	probe := filepath.Join(path, ScenarioFile)
	file, err := os.OpenFile(probe, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("writing into the run directory %s: %w; choose a place that can be written with --out", path, err)
	}
	return &Directory{Path: path}, file.Close()
}

// HistoryPath gives the history that a path means: the one in a run directory, or
// the file itself.
func HistoryPath(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", path, err)
	}
	if !info.IsDir() {
		return path, nil
	}
	history := filepath.Join(path, HistoryFile)
	if _, err := os.Stat(history); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is a directory without a %s; name a history or a run directory", path, HistoryFile)
	} else if err != nil {
		return "", fmt.Errorf("opening %s: %w", history, err)
	}
	return history, nil
}

// History is the path of the history.
func (d *Directory) History() string { return filepath.Join(d.Path, HistoryFile) }

// Scenario is the path of the scenario.
func (d *Directory) Scenario() string { return filepath.Join(d.Path, ScenarioFile) }

// Verdict is the path of the verdict.
func (d *Directory) Verdict() string { return filepath.Join(d.Path, VerdictFile) }

// MakeBrokers makes the folder of the brokers' logs and configurations, and gives its
// path.
func (d *Directory) MakeBrokers() (string, error) {
	path := filepath.Join(d.Path, BrokersDir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the brokers' logs: %w", err)
	}
	return path, nil
}

// WriteScenario saves the scenario as it is played.
func (d *Directory) WriteScenario(yaml []byte) error { return d.write(ScenarioFile, yaml) }

// WriteVerdict saves the verdict.
func (d *Directory) WriteVerdict(v *checker.Verdict) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the verdict: %w", err)
	}
	return d.write(VerdictFile, append(text, '\n'))
}

// write replaces a file as a whole: a reader never sees half of one.
func (d *Directory) write(name string, content []byte) error {
	path := filepath.Join(d.Path, name)
	temporary := path + ".part"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
