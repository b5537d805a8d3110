// This file holds the recorder: one clock, one writer, and the sessions that put
// lines into the history in the right order. It knows no client library.

package clients

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// LineWriter is where lines go. Write may be called concurrently, keeps nothing of
// a line, and may wait for the disk but for nothing else.
type LineWriter interface {
	Write(histories.Line) error
}

// Recorder writes the lines of one run, stamped by one clock. Its methods may be
// called concurrently.
type Recorder struct {
	lines   LineWriter
	events  *Events
	started time.Time
	counts  counters

	failed chan struct{}
	mu     sync.Mutex
	err    error
	names  map[string]bool
}

// RecorderOptions say what is recorded.
type RecorderOptions struct {
	// Run names the run and Seed is what its payloads are made from, as in the
	// history's header.
	Run  string
	Seed int64
	// Started is time zero; its monotonic reading counts. Zero: now.
	Started time.Time
}

// NewRecorder makes a recorder that writes to lines.
func NewRecorder(lines LineWriter, options RecorderOptions) (*Recorder, error) {
	events, err := NewEvents(options.Run, options.Seed)
	if err != nil {
		return nil, fmt.Errorf("opening the recorder: %w", err)
	}
	if options.Started.IsZero() {
		options.Started = time.Now()
	}
	return &Recorder{lines: lines, events: events, started: options.Started,
		failed: make(chan struct{}), names: make(map[string]bool)}, nil
}

// Now is the time on the run's clock, in nanoseconds.
func (r *Recorder) Now() int64 { return int64(time.Since(r.started)) }

// At gives a time of this process on the run's clock.
func (r *Recorder) At(t time.Time) int64 { return int64(t.Sub(r.started)) }

// Events gives the events of the run, to make or verify records.
func (r *Recorder) Events() *Events { return r.events }

// Write records a line. The first error stays (see Err and Failed), and nothing is
// written after it.
func (r *Recorder) Write(line histories.Line) error {
	select {
	case <-r.failed:
		return r.Err()
	default:
	}
	err := r.lines.Write(line)
	if _, about := line.(*histories.FaultStart); about && err == nil {
		err = r.flush()
	}
	if err != nil {
		r.fail(err)
	}
	return err
}

// flush brings what was written to the operating system, where the writer can do
// that: what a fault is about to do must be known even if it takes this process
// along.
func (r *Recorder) flush() error {
	if writer, can := r.lines.(interface{ Flush() error }); can {
		return writer.Flush()
	}
	return nil
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.failed)
	}
}

// Failed is closed when a line could not be written: the run should stop.
func (r *Recorder) Failed() <-chan struct{} { return r.failed }

// Err is the first error of writing; nil: none.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Note records something that no other line can say.
func (r *Recorder) Note(format string, args ...any) error {
	return r.Write(&histories.Note{Time: r.Now(), Text: fmt.Sprintf(format, args...)})
}

// claim takes a process name. Names are unique, or operations of two processes
// would be taken for each other.
func (r *Recorder) claim(name string) error {
	if name == "" {
		return errors.New("the session has no name")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] {
		return fmt.Errorf("the name %q is taken by another session of the run", name)
	}
	r.names[name] = true
	return nil
}

// Counts is what was recorded so far, for a live display. It decides nothing: what
// is acknowledged, failed or unknown in the end is for the checker to say.
type Counts struct {
	// Sent are the sends invoked; each is acknowledged, errored, closed (as unknown)
	// or outstanding. One that was closed and got an answer later counts as both.
	Sent, Acknowledged, Errored, Closed int64
	// Attempts are requests seen on the wire: of those, AttemptsRefused were
	// answered with an error and AttemptsLost had no answer.
	Attempts, AttemptsRefused, AttemptsLost int64
	// Polls that returned something, and records by what they were.
	Polls, PolledRecords, Foreign, Corrupt int64
	// FinalRecords were read by the final read.
	FinalRecords int64
}

type counters struct {
	sent, acknowledged, errored, closed     atomic.Int64
	attempts, attemptsRefused, attemptsLost atomic.Int64
	polls, polledRecords, foreign, corrupt  atomic.Int64
	finalRecords                            atomic.Int64
}

// Counts gives the counts so far.
func (r *Recorder) Counts() Counts {
	c := &r.counts
	return Counts{
		Sent: c.sent.Load(), Acknowledged: c.acknowledged.Load(), Errored: c.errored.Load(), Closed: c.closed.Load(),
		Attempts: c.attempts.Load(), AttemptsRefused: c.attemptsRefused.Load(), AttemptsLost: c.attemptsLost.Load(),
		Polls: c.polls.Load(), PolledRecords: c.polledRecords.Load(), Foreign: c.foreign.Load(), Corrupt: c.corrupt.Load(),
		FinalRecords: c.finalRecords.Load(),
	}
}

// verify reads one record back and counts what it is.
func (r *Recorder) verify(p Payload, offset int64) histories.Record {
	event, corrupt := r.events.Verify(p)
	if corrupt != "" {
		r.counts.corrupt.Add(1)
	} else if event == "" {
		r.counts.foreign.Add(1)
	}
	return histories.Record{Offset: offset, Event: event, Corrupt: corrupt}
}
