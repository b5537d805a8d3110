// This file holds how a bundle is made to fit: what is left out, in which order.

package bundles

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
)

// reduction makes a bundle smaller.
type reduction func(w *writing, ctx context.Context) error

// reductions are tried one after the other until the bundle fits: what costs nothing first, then
// what explains, last what proves.
var reductions = []reduction{
	(*writing).repackHistory,
	func(w *writing, ctx context.Context) error { return w.cutLogs(ctx, wideCut) },
	func(w *writing, ctx context.Context) error { return w.cutLogs(ctx, narrowCut) },
	func(w *writing, _ context.Context) error { return w.drop(isLog, "the brokers' logs") },
	func(w *writing, _ context.Context) error {
		return w.drop(func(name string) bool { return name == runs.ReportFile }, "the page")
	},
	(*writing).cutHistory,
}

// fit leaves out what must be.
func (w *writing) fit(ctx context.Context) error {
	for _, next := range reductions {
		size, err := w.size(ctx)
		if err != nil || size <= w.Limit {
			return err
		}
		if err := next(w, ctx); err != nil {
			return err
		}
	}
	size, err := w.size(ctx)
	if err != nil || size <= w.Limit {
		return err
	}
	return w.tooLarge(size)
}

// tooLarge says what there is that cannot be left out.
func (w *writing) tooLarge(size int64) error {
	var parts []string
	for _, f := range w.files {
		parts = append(parts, fmt.Sprintf("%s %s", f.name, report.Size(f.packed.size)))
	}
	return &InputError{fmt.Errorf("making the bundle %s: %w: with everything left out that may be, it has %s, and the limit is %s "+
		"(packed: %s); give more with --limit, or attach the run directory elsewhere", w.out, ErrTooLarge, report.Size(size),
		report.Size(w.Limit), strings.Join(parts, ", "))}
}

// overhead is what an archive takes for a file beside its content and its name, which stands in it
// twice, and for itself.
const overhead = 30 + 46

// size gives the size of the bundle as it would be now.
func (w *writing) size(ctx context.Context) (int64, error) {
	if err := w.pack(ctx); err != nil {
		return 0, err
	}
	text, err := w.issueText(ctx)
	if err != nil {
		return 0, err
	}
	total := int64(22) + text.size + w.history.packed.size + 2*overhead + 2*int64(len(IssueFile)+len(runs.HistoryFile))
	for _, f := range w.files {
		total += f.packed.size + overhead + 2*int64(len(f.name))
	}
	return total, nil
}

// pack compresses what is not yet.
func (w *writing) pack(ctx context.Context) (err error) {
	for _, f := range w.files {
		if f.packed == nil {
			if f.packed, err = w.deflate(ctx, f.content); err != nil {
				return err
			}
		}
	}
	if w.history.packed == nil {
		w.history.packed, err = w.store(ctx, w.history.content)
	}
	return err
}

// repackHistory compresses the history better, which takes longer than a run has time for. Its
// text stays.
func (w *writing) repackHistory(ctx context.Context) error {
	h := w.history
	if h.redacted {
		return nil // it was written anew already
	}
	path, frames, err := w.rewrite(func(text io.Reader, out io.Writer) error {
		_, err := io.Copy(out, reading{ctx, text})
		return err
	})
	if err != nil {
		return err
	}
	h.frames = frames
	h.content, h.packed, h.how = path, nil, "as it was, packed tighter"
	return nil
}

// cutHistory takes as many whole frames of the history as there is room for. What is left has no
// end line, so whoever reads it sees that it is cut, and it is judged so.
func (w *writing) cutHistory(ctx context.Context) error {
	h := w.history
	lines := h.frames[len(h.frames)-1].lines
	w.sayCut(lines, lines)
	h.how = "cut"
	size, err := w.size(ctx)
	if err != nil {
		return err
	}
	const slack = 4 << 10 // for what the report says of the cut
	room := w.Limit - (size - h.packed.size) - slack
	kept := 0
	for kept < len(h.frames) && h.frames[kept].bytes <= room {
		kept++
	}
	if kept < 2 { // the header alone proves nothing
		return w.tooLarge(size - h.packed.size + h.frames[min(1, len(h.frames)-1)].bytes)
	}
	end := h.frames[kept-1]
	if err := os.Truncate(h.content, end.bytes); err != nil {
		return fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	h.packed = nil
	w.issue.LeftOut = w.issue.LeftOut[:len(w.issue.LeftOut)-1]
	w.sayCut(end.lines, lines)
	cut, err := checkHistory(ctx, h.content)
	if err != nil {
		return err
	}
	w.issue.Cut = cut
	return nil
}

func (w *writing) sayCut(kept, all int64) {
	w.issue.LeaveOut("the end of %s: its first %s lines are there, of %s; it reads as cut, and is judged as far as it goes",
		runs.HistoryFile, report.Thousands(kept), report.Thousands(all))
}

// drop leaves files out.
func (w *writing) drop(which func(name string) bool, what string) error {
	var names []string
	w.files = slices.DeleteFunc(w.files, func(f *file) bool {
		if !which(f.name) {
			return false
		}
		names = append(names, f.name)
		return true
	})
	if len(names) > 0 {
		w.forgetParts(names...)
		w.issue.LeaveOut("%s, for the size: %s", what, strings.Join(names, ", "))
	}
	return nil
}

// forgetParts takes back that parts of files were left out: more of them is now.
func (w *writing) forgetParts(names ...string) {
	w.issue.LeftOut = slices.DeleteFunc(w.issue.LeftOut, func(said string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(said, "a part of "+name+":") })
	})
}

// cut says which lines of a broker's log are kept.
type cut struct {
	// margin around a fault; whole: everything between its start and end is kept too.
	margin time.Duration
	whole  bool
	// last lines that are kept in any case.
	last int
}

var (
	wideCut   = cut{10 * time.Second, true, 1000}
	narrowCut = cut{2 * time.Second, false, 200}
)

// cutLogs cuts the brokers' logs to the lines around the faults, and the last ones.
func (w *writing) cutLogs(ctx context.Context, c cut) error {
	spans := c.spans(w.issue.Header.Started, w.verdict.Faults)
	for _, f := range w.files {
		if !f.log {
			continue
		}
		path, kept, all, err := w.cutLog(ctx, f.content, spans, c.last)
		if err != nil {
			return err
		}
		if f.from == 0 {
			f.from = all
		}
		if kept == all {
			continue
		}
		f.content, f.packed = path, nil
		f.how = "cut to its lines around the faults and its last ones"
		w.forgetParts(f.name)
		w.issue.LeaveOut("a part of %s: %s of %s lines are there, those around the faults and the last %d", f.name,
			report.Thousands(int64(kept)), report.Thousands(int64(f.from)), c.last)
	}
	return nil
}
