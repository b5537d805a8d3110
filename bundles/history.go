// This file holds the history: taken without its secrets, judged, and cut where it must be.

package bundles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
	"github.com/ackproof/ackproof/secrets"
)

// historyText is the name under which the redactor reads the text of a history.
const historyText = "history.jsonl"

// historyFile is the history on its way into the bundle.
type historyFile struct {
	original *histories.File
	path     string // of the original
	content  string // where the one of the bundle lies
	how      string
	redacted bool
	frames   []frameEnd // of content, where it was written anew
	packed   *packed
}

// frameEnd is where a frame ends, and how many lines there are up to there.
type frameEnd struct{ bytes, lines int64 }

// wholeLines forgives a text that it is cut: what is left of it are whole lines and one that
// was begun.
func wholeLines(err error) error {
	var cut *histories.CutError
	if errors.As(err, &cut) {
		return nil
	}
	return err
}

// redactHistory takes the secrets out of the history. One that has none stays as it is, byte
// for byte.
func (w *writing) redactHistory(ctx context.Context) error {
	h := w.history
	var findings []secrets.Finding
	rewritten, frames, err := w.rewrite(func(text io.Reader, out io.Writer) (err error) {
		findings, err = w.redactor.Redact(historyText, reading{ctx, text}, out)
		return err
	})
	if err != nil {
		return err
	}
	w.found(runs.HistoryFile, findings)
	h.how, h.redacted = howOf(findings), len(findings) > 0
	if h.redacted {
		h.content, h.frames = rewritten, frames
		return nil
	}
	h.content, err = w.copyHistory(ctx)
	return err
}

func (w *writing) copyHistory(ctx context.Context) (string, error) {
	in, err := os.Open(w.history.path)
	if err != nil {
		return "", inputError("reading the run %s: %w", w.run, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	return w.save(func(out io.Writer) error {
		_, err := io.Copy(out, reading{ctx, in})
		return err
	})
}

// rewrite writes the history anew from its text, as change gives it.
func (w *writing) rewrite(change func(text io.Reader, out io.Writer) error) (path string, frames []frameEnd, err error) {
	text, err := w.history.original.Text()
	if err != nil {
		return "", nil, inputError("reading the run %s: %w", w.run, err)
	}
	defer func() { _ = text.Close() }() // it was only read
	path, err = w.save(func(out io.Writer) error {
		framer, err := newFramer(out)
		if err != nil {
			return err
		}
		if err := wholeLines(change(text, framer)); err != nil {
			return err
		}
		err = framer.close()
		frames = framer.ends
		return err
	})
	return path, frames, err
}

// frameText is how much text a frame of a history that is written anew has: more than while recording,
// since it compresses better, and no more than is decoded at once.
const frameText = 2 << 20

// framer writes text into zstd frames of whole lines; the header's line has one of its own. What comes
// after the last line end is left out: it is of a history that was cut.
type framer struct {
	out     io.Writer
	encoder *zstd.Encoder
	text    []byte
	lines   int64
	bytes   int64
	ends    []frameEnd
}

func newFramer(out io.Writer) (*framer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(frameText))
	if err != nil {
		return nil, err
	}
	return &framer{out: out, encoder: encoder}, nil
}

func (f *framer) Write(p []byte) (int, error) {
	f.text = append(f.text, p...)
	if len(f.ends) > 0 && len(f.text) < frameText {
		return len(p), nil
	}
	return len(p), f.frame()
}

// frame writes the whole lines that have gathered.
func (f *framer) frame() error {
	end := bytes.LastIndexByte(f.text, '\n') + 1
	if len(f.ends) == 0 {
		end = bytes.IndexByte(f.text, '\n') + 1
	}
	if end == 0 {
		return nil
	}
	n, err := f.out.Write(f.encoder.EncodeAll(f.text[:end], nil))
	if err != nil {
		return err
	}
	f.bytes += int64(n)
	f.lines += int64(bytes.Count(f.text[:end], []byte("\n")))
	f.ends = append(f.ends, frameEnd{f.bytes, f.lines})
	f.text = append(f.text[:0], f.text[end:]...)
	return nil
}

func (f *framer) close() error {
	err := f.frame()
	if err == nil {
		err = f.frame() // after the header's
	}
	return errors.Join(err, f.encoder.Close())
}

// judge judges the history of the bundle, and, where something was taken out of it, the original: they must
// get the same. It says which verdict the report tells: the run's own, if it left one.
func (w *writing) judge(ctx context.Context) error {
	bundled, err := checkHistory(ctx, w.history.content)
	if err != nil {
		return err
	}
	w.verdict = bundled
	if w.history.redacted {
		original, err := checkHistory(ctx, w.history.path)
		if err != nil {
			return err
		}
		if difference := differ(judgementOf(original), judgementOf(bundled)); difference != "" {
			return &JudgementError{difference}
		}
	}
	opened, err := histories.Open(w.history.content)
	if err != nil {
		return err
	}
	w.issue.Header = opened.Header()
	return w.tellVerdict(bundled)
}

func checkHistory(ctx context.Context, path string) (*checker.Verdict, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &InputError{err}
	}
	// Under the name that it has in a run, since the verdict on one that is cut says it.
	opened, err := histories.OpenPart(runs.HistoryFile, info.Size(), func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return nil, &InputError{err}
	}
	v, err := checker.Check(ctx, opened, checker.Options{})
	if err != nil {
		return nil, &InputError{err}
	}
	return v, nil
}

// tellVerdict finds the verdict that the report tells.
func (w *writing) tellVerdict(bundled *checker.Verdict) error {
	i := slices.IndexFunc(w.files, func(f *file) bool { return f.name == runs.VerdictFile })
	if i < 0 {
		path, err := w.save(func(out io.Writer) error {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(bundled)
		})
		if err != nil {
			return err
		}
		w.files = append(w.files, &file{name: runs.VerdictFile, content: path, how: "made for the bundle"})
		w.issue.Verdict = bundled
		w.issue.Note("The run left no verdict: the one in the bundle is what this version of verify says of the history.")
		return nil
	}
	text, err := os.ReadFile(w.files[i].content)
	if err != nil {
		return fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	var own checker.Verdict
	if err := json.Unmarshal(text, &own); err != nil {
		return inputError("reading the run %s: its %s is no verdict: %w; remove it, and the bundle gets a new one", w.run,
			runs.VerdictFile, err)
	}
	w.issue.Verdict = &own
	if own.Verdict != bundled.Verdict {
		w.issue.Note("%s is the run's own and says %q; this version of verify, which made the bundle, says %q of the same history: %s.",
			runs.VerdictFile, own.Verdict, bundled.Verdict, bundled.Summary)
	}
	return nil
}

// judgement is what must be the same with secrets and without: everything that is no text.
type judgement struct {
	Verdict   string
	Planted   bool
	Promises  []string
	Anomalies map[checker.Anomaly]string
	Counts    checker.Counts
	Assumed   []string
	Faults    []string
}

func judgementOf(v *checker.Verdict) judgement {
	j := judgement{Verdict: v.Verdict, Planted: v.Planted, Counts: v.Counts, Anomalies: make(map[checker.Anomaly]string)}
	for _, p := range v.Promises {
		j.Promises = append(j.Promises, fmt.Sprintf("%s %s", p.Name, p.Verdict))
	}
	for name, part := range v.Anomalies {
		promised := "?"
		if part.Promised != nil {
			promised = fmt.Sprint(*part.Promised)
		}
		j.Anomalies[name] = fmt.Sprintf("%d found, %d undecided, %d moved, promised %s",
			part.Count, part.Undecided, part.Moved, promised)
	}
	for _, a := range v.Assumptions {
		j.Assumed = append(j.Assumed, fmt.Sprintf("%s %s", a.Name, a.Verdict))
	}
	for _, f := range v.Faults {
		j.Faults = append(j.Faults, fmt.Sprintf("%d-%d bit %v lie %v attempted %d", f.Start, f.End, f.Bit, f.Lie, f.Attempted))
	}
	return j
}

// differ says where two judgements differ; empty: nowhere.
func differ(a, b judgement) string {
	if a.Verdict != b.Verdict || a.Planted != b.Planted {
		return fmt.Sprintf("the verdict was %s and would be %s", a.Verdict, b.Verdict)
	}
	for i := range a.Promises {
		if i >= len(b.Promises) || a.Promises[i] != b.Promises[i] {
			return "a promise: " + a.Promises[i]
		}
	}
	for _, d := range checker.Anomalies() {
		if a.Anomalies[d.Name] != b.Anomalies[d.Name] {
			return fmt.Sprintf("%s: was %s, would be %s", d.Name, a.Anomalies[d.Name], b.Anomalies[d.Name])
		}
	}
	switch {
	case a.Counts != b.Counts:
		return fmt.Sprintf("the counts were %+v and would be %+v", a.Counts, b.Counts)
	case !slices.Equal(a.Assumed, b.Assumed):
		return "assumptions would hold that did not, or fail that held"
	case !slices.Equal(a.Faults, b.Faults):
		return "the faults would not be the same"
	}
	return ""
}
