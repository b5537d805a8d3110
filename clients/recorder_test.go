// This file tests what the recorder does with lines beyond writing them.

package clients

import (
	"errors"
	"testing"

	"github.com/ackproof/ackproof/histories"
)

// flushingLines counts what was written when it was last flushed.
type flushingLines struct {
	written, flushed int
	err              error
}

func (f *flushingLines) Write(histories.Line) error {
	f.written++
	return nil
}

func (f *flushingLines) Flush() error {
	f.flushed = f.written
	return f.err
}

func TestWhatAFaultIsAboutToDoIsOnDiskBeforeItIsDone(t *testing.T) {
	lines := &flushingLines{}
	r, err := NewRecorder(lines, RecorderOptions{Run: "run-1"})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range []histories.Line{&histories.Note{}, &histories.FaultStart{ID: "kill#1"}, &histories.FaultEnd{ID: "kill#1"}} {
		if err := r.Write(line); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 2, 2}[i]; lines.flushed != want {
			t.Errorf("after line %d, %d lines are on disk, want %d", i+1, lines.flushed, want)
		}
	}
	lines.err = errors.New("no space left")
	if err := r.Write(&histories.FaultStart{ID: "kill#2"}); err == nil || r.Err() == nil {
		t.Error("a fault that cannot be written down is no error")
	}
}
