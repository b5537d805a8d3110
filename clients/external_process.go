// This file holds the process of a client that speaks the protocol of PROTOCOL.md: one
// process for each session.

package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// said is a line that a client says. Fields that it does not have are absent.
type said struct {
	Is          string            `json:"is"`
	ID          int64             `json:"id"`
	Client      string            `json:"client"`
	Version     string            `json:"version"`
	Protocol    int               `json:"protocol"`
	Properties  map[string]string `json:"properties"`
	Positions   []position        `json:"positions"`
	Partition   *int32            `json:"partition"`
	Offset      *int64            `json:"offset"`
	Error       string            `json:"error"`
	ClientError string            `json:"client_error"`
	Message     string            `json:"message"`
	Records     []givenRecord     `json:"records"`
	Resets      []position        `json:"resets"`
}

// position is a place in a partition.
type position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// givenRecord is a record that a consumer was given.
type givenRecord struct {
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	LeaderEpoch *int32       `json:"leader_epoch"`
	Key         []byte       `json:"key"`
	Value       []byte       `json:"value"`
	Headers     []headerPair `json:"headers"`
}

// headerPair is the name of a header and its value in base64; null: it has none.
type headerPair [2]*string

// protocolVersion is the version of the protocol that this program speaks.
const protocolVersion = 1

// Limits of a client's process.
const (
	startLimit = 60 * time.Second // of its first answer: a busy machine starts many at once
	endLimit   = 10 * time.Second // of its end, once it was told to end
	mostSaid   = 64 << 20         // bytes of a line
	waitingOut = 64               // commands that wait for the process to read them
)

// external is a process that runs. Its methods may be called concurrently.
type external struct {
	name    string
	command *exec.Cmd
	out     chan []byte   // commands on their way
	room    chan struct{} // one for each of them, and for those that are to come
	stop    context.CancelFunc
	stopped context.Context
	running sync.WaitGroup
	stderr  tail
	// hear is told of each line, by one goroutine, until ended is closed. It must give up
	// when stopped is done.
	hear  func(*external, said)
	ended chan struct{}

	mu      sync.Mutex
	toldEnd bool  // it was told to end, or killed by us
	why     error // why it ended, unless it was told to
}

// startExternal starts a process and tells hear of each line that it says.
func startExternal(name string, command []string, hear func(*external, said)) (*external, error) {
	stopped, stop := context.WithCancel(context.Background())
	e := &external{name: name, stop: stop, stopped: stopped, out: make(chan []byte, waitingOut),
		room: make(chan struct{}, waitingOut), hear: hear,
		ended: make(chan struct{})}
	//nolint:gosec // which command is run is for the user to say
	e.command = exec.Command(command[0], command[1:]...) //nolint:noctx // it is ended by end and kill, not by a context
	alone(e.command)
	e.command.Stderr = &e.stderr
	e.command.WaitDelay = endLimit // what it started may hold its outputs open
	in, err := e.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the client %s: %w", command[0], err)
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the client %s: %w", command[0], err)
	}
	if err := e.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the client %s: %w", command[0], err)
	}
	e.running.Go(func() { e.write(in) })
	e.running.Go(func() { e.read(out) })
	return e, nil
}

// write hands commands to the process until it ends.
func (e *external) write(in io.WriteCloser) {
	defer func() { _ = in.Close() }() // it has ended then, or is to
	buffered := bufio.NewWriterSize(in, 1<<16)
	for {
		select {
		case line := <-e.out:
			<-e.room
			if _, err := buffered.Write(line); err != nil {
				return // its end says why
			}
			if len(e.out) > 0 {
				continue
			}
			if buffered.Flush() != nil {
				return
			}
		case <-e.stopped.Done():
			return
		}
	}
}

// read hears what the process says until it ends, and then waits for it.
func (e *external) read(out io.Reader) {
	defer close(e.ended)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(make([]byte, 1<<16), mostSaid)
	var wrong error
	for wrong == nil && scanner.Scan() {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		s, err := parseSaid(line)
		if err != nil {
			wrong = err
			break
		}
		e.hear(e, s)
	}
	if wrong = errors.Join(wrong, scanner.Err()); wrong != nil {
		killAll(e.command)
	}
	_, _ = io.Copy(io.Discard, out) // so that it can end
	ended := e.command.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if wrong == nil && !e.toldEnd {
		wrong = errors.Join(errors.New("it ended by itself"), ended)
	}
	if wrong != nil {
		e.why = fmt.Errorf("the client's process of %s: %w%s", e.name, wrong, e.stderr.last())
	}
}

// parseSaid reads a line of the protocol.
func parseSaid(line []byte) (said, error) {
	var s said
	if err := json.Unmarshal(line, &s); err != nil || s.Is == "" {
		return said{}, fmt.Errorf("it wrote a line that is none of the protocol: %s", shortened(line))
	}
	return s, nil
}

// shortened gives the beginning of a line.
func shortened(line []byte) string {
	const most = 120
	if len(line) > most {
		return fmt.Sprintf("%q…", line[:most])
	}
	return fmt.Sprintf("%q", line)
}

// tell gives a command to the process. It waits while the process does not read, at most
// until ctx ends; the error is why it was not told.
func (e *external) tell(ctx context.Context, command any) error {
	if err := e.reserve(ctx); err != nil {
		return err
	}
	return e.put(command)
}

// reserve waits until there is room for a command, at most until ctx ends.
func (e *external) reserve(ctx context.Context) error {
	select {
	case <-e.ended: // first: what waits to be written is read by nobody
		return e.whyEnded()
	default:
	}
	select {
	case e.room <- struct{}{}: // also where the context has ended: there is nothing to wait for
		return nil
	default:
	}
	select {
	case e.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.ended:
		return e.whyEnded()
	}
}

// put gives a command for which there is room.
func (e *external) put(command any) error {
	line, err := json.Marshal(command)
	if err != nil {
		<-e.room
		return fmt.Errorf("encoding a command for the client of %s: %w", e.name, err)
	}
	e.out <- append(line, '\n')
	return nil
}

// whyEnded says why the process ended.
func (e *external) whyEnded() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why != nil {
		return e.why
	}
	return fmt.Errorf("the client's process of %s has ended", e.name)
}

// problem gives why the process ended though nobody told it to; nil: it runs, or was told.
func (e *external) problem() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// toEnd notes that the process is about to be told to end, or to be killed.
func (e *external) toEnd() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.toldEnd = true
}

// kill ends the process at once.
func (e *external) kill() {
	e.toEnd()
	select {
	case <-e.ended: // its number may be another one's by now
	default:
		killAll(e.command)
	}
	e.stop()
}

// wait waits until the process has ended, kills it where it does not within the limit, and
// gives whether it ended by itself.
func (e *external) wait(limit time.Duration) (byItself bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.ended:
		byItself = true
	case <-timer.C:
		e.kill()
		<-e.ended
	}
	e.stop()
	e.running.Wait()
	return byItself
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// mostTail is how much of what a process wrote to its standard error is kept.
const mostTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - mostTail; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// last gives the last lines, to be put behind an error.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	const most = 6
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "; its last lines: " + strings.Join(lines, " | ")
}
