// This file tests the writer: order, flushing, back pressure, and what is left
// of a history when its process is killed or its disk is full.

package histories

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The test binary is also the process that writes a history and is killed, or
// has no disk.
const (
	childVariable = "HISTORIES_TEST_CHILD"
	pathVariable  = "HISTORIES_TEST_PATH"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		os.Exit(m.Run())
	case "write":
		childWrites(os.Getenv(pathVariable))
	case "full":
		childFillsDisk(os.Getenv(pathVariable))
	}
}

// childWrites writes notes until it is killed, and says when each was written.
func childWrites(path string) {
	w, err := Create(path, &Header{Run: "killed"})
	if err != nil {
		panic(err)
	}
	for i := int64(0); ; i++ {
		if err := w.Write(&Note{Time: i}); err != nil {
			panic(err)
		}
		fmt.Printf("%d %d\n", i, time.Now().UnixNano())
		<-time.After(200 * time.Microsecond)
	}
}

// childFillsDisk writes until files may not grow any more, and prints the errors.
func childFillsDisk(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	w, err := Create(path, &Header{Run: "full"})
	if err != nil {
		panic(err)
	}
	limit := syscall.Rlimit{Cur: 100_000, Max: 100_000}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	for i := int64(0); err == nil && i < 50_000_000; i++ {
		err = w.Write(&Note{Time: i, Text: strconv.FormatInt(i*i*7919, 36)})
	}
	fmt.Println(err)
	fmt.Println(w.Write(&Note{}))
	fmt.Println(w.Flush())
	fmt.Println(w.Close())
}

func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program)
	c.Env = append(os.Environ(), childVariable+"="+role, pathVariable+"="+path)
	c.Stderr = os.Stderr
	return c
}

// eventually waits until done, at most for limit.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	expired := time.After(limit)
	for !done() {
		select {
		case <-expired:
			t.Fatalf("after %v still not: %s", limit, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestWhatWasWrittenASecondBeforeAKillIsReadable(t *testing.T) {
	for _, name := range []string{"history.jsonl.zst", "history.jsonl"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			c := child(t, "write", path)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var number, at, first, last, killed int64
			// A machine that lets the child wait delays its flushes as it delays
			// its notes: the longest wait between two notes tells how much.
			var wait int64
			written := map[int64]int64{}
			for said := bufio.NewScanner(out); said.Scan(); {
				if _, err := fmt.Sscan(said.Text(), &number, &at); err != nil {
					t.Fatal(err)
				}
				written[number] = at
				if first == 0 {
					first, last = at, at
				}
				wait, last = max(wait, at-last), at
				if killed == 0 && at-first > int64(2*time.Second)+3*wait {
					killed = time.Now().UnixNano()
					if err := c.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = c.Wait() // it was killed
			file, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			lines, _, err := readAll(file)
			var cut *CutError
			if !errors.As(err, &cut) {
				t.Fatalf("reading ended with %v, want a CutError", err)
			}
			read := map[int64]bool{}
			for _, l := range lines {
				read[l.(*Note).Time] = true
			}
			old := 0
			for number, at := range written {
				if killed-at < int64(time.Second)+3*wait {
					continue
				}
				old++
				if !read[number] {
					t.Errorf("note %d was written %v before the kill and is not there", number, time.Duration(killed-at))
				}
			}
			if old < 100 {
				t.Errorf("only %d notes were written early enough to tell", old)
			}
		})
	}
}

func TestAFullDiskIsSaidAndWhatWasWrittenStaysReadable(t *testing.T) {
	for _, name := range []string{"history.jsonl.zst", "history.jsonl"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			out, err := child(t, "full", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(said) != 4 {
				t.Fatalf("the child said %q", said)
			}
			for _, line := range said {
				if line != said[0] || !strings.Contains(line, path) || !strings.Contains(line, "too large") ||
					!strings.Contains(line, "stay readable") {
					t.Errorf("the two writes, Flush and Close said %q", said)
				}
			}
			file, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			lines, _, err := readAll(file)
			var cut *CutError
			if !errors.As(err, &cut) {
				t.Fatalf("reading ended with %v, want a CutError", err)
			}
			for i, l := range lines {
				if note := l.(*Note); note.Time != int64(i) {
					t.Fatalf("line %d is note %d", i, note.Time)
				}
			}
			var flushed int
			_, rest, _ := strings.Cut(said[0], "its first ")
			if _, err := fmt.Sscanf(rest, "%d lines", &flushed); err != nil {
				t.Fatal(err)
			}
			if len(lines)+1 < flushed {
				t.Errorf("%d lines are readable, the error promises %d", len(lines)+1, flushed)
			}
		})
	}
}

// limited takes so many bytes, then fails.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) <= l.left {
		l.left -= len(p)
		return l.Buffer.Write(p)
	}
	n, _ := l.Buffer.Write(p[:l.left])
	l.left = 0
	return n, syscall.ENOSPC
}

func TestTheFirstErrorStays(t *testing.T) {
	out := &limited{left: 300}
	w, err := NewWriter(out, &Header{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := w.Write(&Note{Time: int64(i), Text: strings.Repeat(strconv.Itoa(i*7919), 10)}); err != nil {
			t.Fatalf("nothing was flushed yet: %v", err)
		}
	}
	first := w.Flush()
	if !errors.Is(first, syscall.ENOSPC) {
		t.Fatalf("Flush gave %v, want ENOSPC", first)
	}
	for what, err := range map[string]error{"Write": w.Write(&Note{}), "Flush": w.Flush(), "Close": w.Close(),
		"Close again": w.Close()} {
		if !errors.Is(err, first) {
			t.Errorf("%s gave %v, want the first error", what, err)
		}
	}
	if w.Bytes() != 300 || out.Len() != 300 {
		t.Errorf("the writer counts %d bytes, %d were taken", w.Bytes(), out.Len())
	}
}

func TestAHeaderThatCannotBeWrittenIsAnErrorAtOnce(t *testing.T) {
	if _, err := NewWriter(&limited{left: 5}, &Header{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if _, err := NewTextWriter(io.Discard, nil); err == nil {
		t.Error("a history without a header was begun")
	}
	if _, err := NewTextWriter(io.Discard, &Header{Started: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil ||
		!strings.Contains(err.Error(), `field "started"`) {
		t.Errorf("a header with a year of five digits gave %v", err)
	}
}

// gate passes nothing on until it is opened.
type gate struct {
	open  chan struct{}
	first bool
}

func (g *gate) Write(p []byte) (int, error) {
	if g.first {
		<-g.open
	}
	g.first = true // the header passes
	return len(p), nil
}

func TestASlowDiskHoldsBackTheWriterInsteadOfFillingTheMemory(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	w, err := NewTextWriter(g, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 10_000)
	const lines = 2000
	done := make(chan error, 1)
	go func() {
		for i := range lines {
			if err := w.Write(&Note{Time: int64(i), Text: text}); err != nil {
				done <- err
				return
			}
		}
		done <- w.Close()
	}()
	eventually(t, 10*time.Second, "the queue is full", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.queue) == maxQueue
	})
	if taken := w.Lines() * int64(len(text)); taken > (maxQueue+3)*frameSize {
		t.Errorf("%d bytes were taken while nothing was written", taken)
	}
	select {
	case err := <-done:
		t.Errorf("all was taken while nothing was written: %v", err)
	default:
	}
	close(g.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if w.Lines() != lines+1 {
		t.Errorf("%d lines, want %d", w.Lines(), lines+1)
	}
}

func TestLinesOfManyGoroutinesAreWhole(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 5000
	var group sync.WaitGroup
	for p := range writers {
		group.Go(func() {
			for i := range each {
				line := &Send{OperationID: OperationID{fmt.Sprint("p", p), int64(i)}, Event: fmt.Sprint(p, "/", i),
					Rank: int64(i)}
				if err := w.Write(line); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := w.Write(&End{Reason: EndFinished}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Bytes() != int64(out.Len()) || w.Lines() != writers*each+2 {
		t.Errorf("counted %d bytes and %d lines, want %d and %d", w.Bytes(), w.Lines(), out.Len(), writers*each+2)
	}
	lines, _, err := readAll(mustOpenBytes(t, "history", out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int64{}
	for _, l := range lines[:len(lines)-1] {
		send := l.(*Send)
		if send.Number != next[send.Process] {
			t.Fatalf("%s wrote %d, want %d: the order of a goroutine's calls is kept", send.Process, send.Number,
				next[send.Process])
		}
		next[send.Process]++
	}
	if len(lines) != writers*each+1 {
		t.Errorf("read %d lines, want %d", len(lines), writers*each+1)
	}
}

func TestWithoutFlushALineIsReadableAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w, err := NewWriter(&out, &Header{Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		for round := range 5 {
			// Not in step with the writer's own clock.
			<-time.After(time.Duration(round) * 1234 * time.Millisecond)
			if err := w.Write(&Note{Time: int64(round)}); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			synctest.Wait()
			lines, _, _ := readAll(mustOpenBytes(t, "history", bytes.Clone(out.Bytes())))
			if len(lines) != round+1 {
				t.Errorf("after a second %d lines are readable, want %d", len(lines), round+1)
			}
		}
	})
}

func TestFlushMakesEverythingBeforeItReadable(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := w.Write(&Note{Time: int64(i)}); err != nil {
			t.Fatal(err)
		}
		if i%100 != 99 {
			continue
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		lines, _, err := readAll(mustOpenBytes(t, "history", bytes.Clone(out.Bytes())))
		var cut *CutError
		if len(lines) != i+1 || !errors.As(err, &cut) {
			t.Fatalf("after %d lines %d are readable, ended by %v", i+1, len(lines), err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAHistoryIsCopiedAsFarAsItGoes(t *testing.T) {
	head := &Header{Run: "r"}
	copied := func(from History) ([]byte, error) {
		var out bytes.Buffer
		w, err := NewTextWriter(&out, head)
		if err != nil {
			t.Fatal(err)
		}
		copied := w.WriteAll(t.Context(), from)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes(), copied
	}
	whole, err := copied(&Memory{Head: head, Body: sampleLines(9)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := copied(mustOpenBytes(t, "whole", whole))
	if err != nil || !bytes.Equal(again, whole) {
		t.Errorf("%v; the copy differs:\n%s\n%s", err, whole, again)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1 // where the last line begins
	part, err := copied(mustOpenBytes(t, "cut", whole[:len(whole)-3]))
	var cut *CutError
	if !errors.As(err, &cut) || !bytes.Equal(part, whole[:last]) {
		t.Errorf("%v; of a history that was cut there is\n%s", err, part)
	}
}

func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&End{Reason: EndFinished}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&Note{}); !errors.Is(err, ErrEnded) {
		t.Errorf("a line after the end gave %v, want ErrEnded", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close gave %v: the history is whole", err)
	}
	if err := w.Write(&Note{}); err == nil {
		t.Error("a line was taken after Close")
	}
	lines, _, err := readAll(mustOpenBytes(t, "history", out.Bytes()))
	if err != nil || len(lines) != 1 {
		t.Errorf("read %d lines, %v; want the end line alone", len(lines), err)
	}
}

func TestARecordedHistoryIsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(path, []byte("evidence"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, &Header{}); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("Create gave %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "evidence" {
		t.Errorf("the file now holds %q, %v", content, err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "such", "history.jsonl"), &Header{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("Create in a directory that is not there gave %v", err)
	}
}

func TestWhatIsNoLineIsRefusedAndTheHistoryGoesOn(t *testing.T) {
	var out bytes.Buffer
	w, err := NewTextWriter(&out, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(nil); err == nil {
		t.Error("nil was taken as a line")
	}
	if err := w.Write(&End{}); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	want := `{"line":"header","format":"ackproof-history","version":"1.2"}` + "\n" + `{"line":"end","time":0}` + "\n"
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}
