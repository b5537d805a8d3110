// Package bundles makes one file of a run directory that can be attached to an issue, and reads
// it again: a zip archive with the files of the run (see package runs) under their names, without
// secrets, and a REPORT.md to paste.
//
// It stands beside cmd/verify and above report, because a bundle holds what report writes, and
// package runs, which report imports, cannot.
package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
	"github.com/ackproof/ackproof/secrets"
)

// IssueFile is the name of the text for an issue in a bundle.
const IssueFile = "REPORT.md"

// DefaultLimit is how large a bundle may be, in bytes: what trackers of issues take.
const DefaultLimit = 25_000_000

// Options say how a bundle is made.
type Options struct {
	// Limit is the size that the bundle may have, in bytes; zero: DefaultLimit.
	Limit int64
	// Tool is the program that makes it, with its version.
	Tool string
}

// Bundled says what became of a bundle.
type Bundled struct {
	// Path of the bundle, Size in bytes, Limit that it was kept under.
	Path        string
	Size, Limit int64
	// Issue is what its REPORT.md says.
	Issue *report.Issue
}

// ErrTooLarge is what Write fails with where nothing that may be left out makes a bundle small
// enough.
var ErrTooLarge = errors.New("the bundle does not fit")

// JudgementError says that without its secrets the history would be judged otherwise.
type JudgementError struct{ Difference string }

func (e *JudgementError) Error() string {
	return "taking the secrets out of the history would change what it proves (" + e.Difference + "); no bundle was made: " +
		"a value that is used as a secret also names what was tested, so play the run again with another secret"
}

// InputError says what is wrong with what was asked for or with the run.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

func inputError(format string, args ...any) error { return &InputError{fmt.Errorf(format, args...)} }

// Write makes the bundle out, which must not exist, of the run directory run. It changes nothing
// in the run directory. What it fails with: an *InputError, a *JudgementError, ErrTooLarge, or that it could not
// write. It writes beside out for a while, about
// twice what the run directory holds.
func Write(ctx context.Context, run, out string, options Options) (*Bundled, error) {
	if options.Limit == 0 {
		options.Limit = DefaultLimit
	}
	if _, err := os.Lstat(out); err == nil {
		return nil, inputError("making the bundle %s: it is there already; name another file with --out, or remove it", out)
	}
	work, err := os.MkdirTemp(filepath.Dir(out), ".bundle-")
	if err != nil {
		return nil, inputError("making the bundle %s: %w; choose a place that can be written with --out", out, err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	w := &writing{Options: options, run: run, out: out, work: work, redactor: secrets.New()}
	defer w.close()
	size, err := w.write(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("making the bundle %s: interrupted: %w", out, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return &Bundled{out, size, options.Limit, w.issue}, nil
}

// writing is the making of one bundle.
type writing struct {
	Options
	run, out, work string
	root           *os.Root
	redactor       *secrets.Redactor
	files          []*file
	history        *historyFile
	verdict        *checker.Verdict // that the bundle's history gets, before it is cut
	issue          *report.Issue
	temporary      int
}

func (w *writing) close() {
	if w.root != nil {
		_ = w.root.Close() // it was only read
	}
}

func (w *writing) write(ctx context.Context) (int64, error) {
	w.issue = &report.Issue{Bundle: filepath.Base(w.out), Tool: w.Tool, Limit: w.Limit}
	steps := []func(context.Context) error{w.survey, w.learn, w.redact, w.redactHistory, w.judge, w.fit}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	return w.assemble(ctx)
}

// learn reads everything for values that must not be in the bundle.
func (w *writing) learn(ctx context.Context) error {
	for _, f := range w.files {
		in, err := w.root.Open(f.name)
		if err != nil {
			return inputError("reading the run %s: %w", w.run, err)
		}
		err = errors.Join(w.redactor.Learn(f.name, reading{ctx, in}), in.Close())
		if err != nil {
			return inputError("reading the run %s: %w", w.run, err)
		}
	}
	text, err := w.history.original.Text()
	if err != nil {
		return inputError("reading the run %s: %w", w.run, err)
	}
	err = errors.Join(wholeLines(w.redactor.Learn(historyText, reading{ctx, text})), text.Close())
	if err != nil {
		return inputError("reading the run %s: %w", w.run, err)
	}
	return nil
}

// redact copies every file but the history without its secrets. One whose name holds a secret stays
// behind.
func (w *writing) redact(ctx context.Context) error {
	w.files = slices.DeleteFunc(w.files, func(f *file) bool {
		if w.redactor.Known(f.name) == f.name {
			return false
		}
		w.issue.LeaveOut("%s: its name holds a secret", f.name)
		return true
	})
	for n, said := range w.issue.LeftOut { // names that were not known to be secrets yet
		w.issue.LeftOut[n] = w.redactor.Known(said)
	}
	for _, f := range w.files {
		in, err := w.root.Open(f.name)
		if err != nil {
			return inputError("reading the run %s: %w", w.run, err)
		}
		var findings []secrets.Finding
		f.content, err = w.save(func(out io.Writer) (err error) {
			findings, err = w.redactor.Redact(f.name, reading{ctx, in}, out)
			return err
		})
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		w.found(f.name, findings)
		f.how = howOf(findings)
	}
	return nil
}

// howOf says what was done with a file whose secrets are out.
func howOf(findings []secrets.Finding) string {
	if len(findings) > 0 {
		return "secrets taken out"
	}
	return "as it was"
}

// found notes what was taken out of a file.
func (w *writing) found(name string, findings []secrets.Finding) {
	for _, f := range findings {
		w.issue.AddRedaction(name, f.Line, w.redactor.Known(f.What))
	}
}

// save writes a file of its own into the folder for the work.
func (w *writing) save(write func(out io.Writer) error) (string, error) {
	w.temporary++
	path := filepath.Join(w.work, fmt.Sprint(w.temporary))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return "", fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	return path, nil
}

// reading is a reader that ends when its context does.
type reading struct {
	ctx context.Context
	in  io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}

// file is a file of the run that goes into the bundle.
type file struct {
	name    string // in the run directory and in the bundle
	content string // where it lies without its secrets
	how     string // what was done with it
	log     bool   // of a broker: it may be cut
	from    int    // how many lines it had before it was cut
	packed  *packed
}

// survey finds out what there is. A link is not followed, so that nothing from outside of the run
// directory comes into the bundle.
func (w *writing) survey(context.Context) (err error) {
	info, err := os.Stat(w.run)
	if err != nil {
		return inputError("opening the run %s: %w", w.run, err)
	}
	if !info.IsDir() {
		return inputError("opening the run %s: it is a file; a bundle is made of a run directory, which verify run leaves", w.run)
	}
	if w.root, err = os.OpenRoot(w.run); err != nil {
		return inputError("opening the run %s: %w", w.run, err)
	}
	path, err := runs.HistoryPath(w.run)
	if err != nil {
		return &InputError{err}
	}
	original, err := histories.Open(path)
	if err != nil {
		return &InputError{err}
	}
	if original.Format() != histories.FormatNative {
		return inputError("opening the run %s: its %s is in the format %s and was not written by verify run", w.run,
			runs.HistoryFile, original.Format())
	}
	w.history = &historyFile{original: original, path: path}
	for _, name := range []string{runs.ScenarioFile, runs.VerdictFile, runs.ReportFile} {
		if _, err := w.root.Lstat(name); err == nil {
			w.consider(name)
		} else if name != runs.ReportFile {
			w.issue.LeaveOut("%s: the run left none", name)
		}
	}
	if err := w.surveyBrokers(runs.BrokersDir, 0); err != nil {
		return err
	}
	return w.surveyRest()
}

// maxFolders is how deep folders of brokers' files are followed.
const maxFolders = 8

func (w *writing) surveyBrokers(folder string, depth int) error {
	if info, err := w.root.Lstat(folder); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // most runs have no brokers of their own
	}
	opened, err := w.root.Open(folder)
	if err != nil {
		return inputError("reading the run %s: %w", w.run, err)
	}
	entries, err := opened.ReadDir(-1)
	if err = errors.Join(err, opened.Close()); err != nil {
		return inputError("reading the run %s: %w", w.run, err)
	}
	sortEntries(entries)
	for _, entry := range entries {
		name := folder + "/" + entry.Name()
		switch {
		case !entry.IsDir():
			w.consider(name)
		case depth == maxFolders:
			w.issue.LeaveOut("%s: folders are too deep", name)
		default:
			if err := w.surveyBrokers(name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// consider takes a file if its content can be searched for secrets.
func (w *writing) consider(name string) {
	info, err := w.root.Lstat(name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		w.issue.LeaveOut("%s: it is no regular file", name)
	case !safeName(name):
		w.issue.LeaveOut("a file below %s/ whose name no archive may have", runs.BrokersDir)
	case !w.isText(name):
		w.issue.LeaveOut("%s: it is no text, so it cannot be searched for secrets", name)
	default:
		w.files = append(w.files, &file{name: name, log: isLog(name)})
	}
}

// isText looks at the beginning of a file: text has no zero byte and is not compressed.
func (w *writing) isText(name string) bool {
	in, err := w.root.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // it was only read
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	text := string(head[:n])
	for _, magic := range []string{"\x1f\x8b", "PK\x03\x04", "\x28\xb5\x2f\xfd", "BZh", "\xfd7zXZ", "\xff\xfe", "\xfe\xff"} {
		if strings.HasPrefix(text, magic) {
			return false
		}
	}
	return !strings.Contains(text, "\x00")
}

func isLog(name string) bool {
	if !strings.HasPrefix(name, runs.BrokersDir+"/") {
		return false
	}
	switch filepath.Ext(name) {
	case ".properties", ".json", ".yaml", ".yml":
		return false
	}
	return true
}

// surveyRest names what else lies in the run directory.
func (w *writing) surveyRest() error {
	entries, err := os.ReadDir(w.run)
	if err != nil {
		return inputError("reading the run %s: %w", w.run, err)
	}
	for _, entry := range entries {
		switch entry.Name() {
		case runs.ScenarioFile, runs.VerdictFile, runs.ReportFile, runs.HistoryFile, runs.BrokersDir:
		case runs.PorcupineDir:
			w.issue.LeaveOut("%s/: verify check --porcupine draws it again", runs.PorcupineDir)
		default:
			w.issue.LeaveOut("%s: it is no part of a run", entry.Name())
		}
	}
	return nil
}
