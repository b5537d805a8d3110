// This file holds the writer of histories. Lines are encoded by whoever writes
// them; a goroutine of the writer's own compresses and writes what has gathered.

package histories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-faster/jx"
	"github.com/klauspost/compress/zstd"
)

const (
	// frameSize is how much text a frame holds before it is compressed: small
	// enough to lose little and to decode in parallel, large enough to compress.
	frameSize = 1 << 20
	// flushEvery is how long a line waits at most for its frame to be ended and
	// given to the operating system. The format promises one second.
	flushEvery = 500 * time.Millisecond
	// maxQueue is how many full frames may wait before Write waits.
	maxQueue = 2
	// maxKept is the largest buffer that is kept for reuse.
	maxKept = 4 * frameSize
)

// ErrEnded is what Write returns for a line after the End line. The history
// stays as it is: whole.
var ErrEnded = errors.New("the history has ended; the line is not recorded")

// Writer writes a history. Its methods may be called concurrently; the order of
// the calls to Write is the order of the lines in the file.
//
// What was written a second ago is in the hands of the operating system and
// readable, whatever becomes of this process. The first error of writing stays:
// every later Write, Flush and Close returns it, and what had reached the file
// before stays readable.
type Writer struct {
	name    string
	out     io.Writer
	file    *os.File      // out, where the writer opened it
	encoder *zstd.Encoder // nil: plain text
	lines   sync.Pool     // of *jx.Writer

	mu      sync.Mutex
	changed sync.Cond // of everything below
	current []byte    // lines that wait for their frame to fill
	waiting int64     // lines in current
	queue   []frame   // full frames, oldest first
	spare   [][]byte
	flush   bool // end the current frame now
	timer   *time.Timer
	closed  bool
	ended   bool // an End line was written
	err     error

	written int64 // lines that Write took, with the header
	flushed int64 // lines that reached the operating system
	bytes   int64 // bytes of the file

	done chan struct{} // closed when the goroutine has ended
}

// frame is text that is to be one frame, and its number of lines.
type frame struct {
	text  []byte
	lines int64
}

// Create creates the file of a history at path, which must not exist, and writes
// the header. The lines are compressed with zstd if path ends in ".zst", else
// plain text. The caller must Close it.
func Create(path string, header *Header) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("creating history %s: %w; a recorded history is never overwritten", path, err)
		}
		return nil, fmt.Errorf("creating history: %w", err)
	}
	w, err := newWriter(path, file, header, strings.HasSuffix(path, ".zst"))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	w.file = file
	return w, nil
}

// NewWriter writes a history to out, compressed with zstd: the header at once.
// Close does not close out.
func NewWriter(out io.Writer, header *Header) (*Writer, error) {
	return newWriter("history", out, header, true)
}

// NewTextWriter is NewWriter without compression.
func NewTextWriter(out io.Writer, header *Header) (*Writer, error) {
	return newWriter("history", out, header, false)
}

func newWriter(name string, out io.Writer, header *Header, compressed bool) (*Writer, error) {
	w := &Writer{name: name, out: out, done: make(chan struct{})}
	w.changed.L = &w.mu
	w.lines.New = func() any { return new(jx.Writer) }
	if header == nil {
		return nil, fmt.Errorf("writing history %s: no header given", name)
	}
	if compressed {
		encoder, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("writing history %s: %w", name, err)
		}
		w.encoder = encoder
	}
	first := new(jx.Writer)
	appendHeader(first, header)
	if err := new(File).readHeader(first.Buf); err != nil {
		return nil, fmt.Errorf("writing history %s: a header that cannot be read again: %w", name, err)
	}
	first.RawStr("\n")
	w.written = 1
	n, err := w.put(w.compress(nil, first.Buf))
	if err != nil {
		return nil, w.failure(err, 0)
	}
	w.flushed, w.bytes = 1, n
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(flushEvery, w.tick)
	go w.run()
	return w, nil
}

// Write records a line; it keeps nothing of it. It waits only where the disk
// cannot keep up.
func (w *Writer) Write(l Line) error {
	text := w.lines.Get().(*jx.Writer)
	defer w.lines.Put(text)
	text.Reset()
	if !appendLine(text, l) {
		return fmt.Errorf("writing history %s: a %T is not a line", w.name, l)
	}
	text.RawStr("\n")
	_, isEnd := l.(*End)
	err := w.add(text.Buf, isEnd)
	if cap(text.Buf) > maxKept {
		text.Buf = nil
	}
	return err
}

// WriteAll writes all lines of another history. Its error is that history's (a *CutError
// where it was cut: what is before the cut was written) or the writer's.
func (w *Writer) WriteAll(ctx context.Context, h History) error {
	for entry, err := range h.Lines(ctx) {
		if err != nil {
			return err
		}
		if err := w.Write(entry.Line); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) add(line []byte, isEnd bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closed && len(w.queue) >= maxQueue {
		w.changed.Wait()
	}
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return fmt.Errorf("writing history %s: it is closed; the line is not recorded", w.name)
	case w.ended:
		return fmt.Errorf("writing history %s: %w", w.name, ErrEnded)
	}
	w.ended = isEnd
	w.current = append(w.current, line...)
	w.waiting++
	w.written++
	if len(w.current) >= frameSize {
		w.endFrame()
		w.changed.Broadcast()
	}
	return nil
}

// endFrame queues what has gathered. The caller holds mu.
func (w *Writer) endFrame() {
	if len(w.current) == 0 {
		return
	}
	w.queue = append(w.queue, frame{w.current, w.waiting})
	w.current, w.waiting = nil, 0
	if n := len(w.spare); n > 0 {
		w.current, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		w.current = make([]byte, 0, frameSize+frameSize/8)
	}
}

// Flush returns when every line written before has reached the operating system.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.written
	w.flush = true
	w.changed.Broadcast()
	for w.err == nil && w.flushed < target {
		w.changed.Wait()
	}
	return w.err
}

// Close flushes, waits for the writer's goroutine and closes the file. It
// returns the first error of the writer's life; a second Close does the same.
func (w *Writer) Close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.timer.Stop()
	w.changed.Broadcast()
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if !first {
		return w.err
	}
	if w.encoder != nil {
		_ = w.encoder.Close() // holds nothing: frames are compressed whole
	}
	if w.file == nil {
		return w.err
	}
	// The last word on a full or broken disk may come only now.
	err := w.file.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // a file system that cannot sync
	}
	if closing := w.file.Close(); err == nil {
		err = closing
	}
	if err != nil && w.err == nil {
		w.err = w.failure(err, w.flushed)
	}
	return w.err
}

// Lines is the number of lines written so far, with the header.
func (w *Writer) Lines() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// Bytes is the size of the file so far: what has reached the operating system.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// run compresses and writes frames until the writer is closed and all is
// written. After an error it ends at once.
func (w *Writer) run() {
	defer close(w.done)
	var packed []byte
	for {
		next, more := w.next()
		if !more {
			return
		}
		packed = w.compress(packed[:0], next.text)
		n, err := w.put(packed)
		if !w.finished(next, n, err) {
			return
		}
		if cap(packed) > maxKept {
			packed = nil
		}
	}
}

// tick asks for the current frame to be ended, again and again until the end.
func (w *Writer) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.err != nil {
		return
	}
	if w.waiting > 0 {
		w.flush = true
		w.changed.Broadcast()
	}
	w.timer.Reset(flushEvery)
}

// next waits for the next frame to write. It gives false when there will be none.
func (w *Writer) next() (frame, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.flush || w.closed {
			w.endFrame()
			w.flush = false
		}
		if len(w.queue) > 0 {
			break
		}
		if w.closed {
			return frame{}, false
		}
		w.changed.Wait()
	}
	first := w.queue[0]
	w.queue = append(w.queue[:0], w.queue[1:]...)
	w.changed.Broadcast()
	return first, true
}

// finished accounts for a frame that was written, or was not.
func (w *Writer) finished(f frame, n int64, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += n
	if err != nil {
		w.err = w.failure(err, w.flushed)
		w.queue, w.current = nil, nil
	} else {
		w.flushed += f.lines
	}
	if cap(f.text) <= maxKept && len(w.spare) <= maxQueue {
		w.spare = append(w.spare, f.text[:0])
	}
	w.changed.Broadcast()
	return err == nil
}

func (w *Writer) compress(packed, text []byte) []byte {
	if w.encoder == nil {
		return text
	}
	return w.encoder.EncodeAll(text, packed)
}

func (w *Writer) put(packed []byte) (int64, error) {
	n, err := w.out.Write(packed)
	if err == nil && n < len(packed) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}

func (w *Writer) failure(err error, lines int64) error {
	return fmt.Errorf("writing history %s: %w; its first %d lines stay readable, nothing after them is recorded",
		w.name, err, lines)
}
