// This file holds History, what a checker reads, and the one that lies in
// memory.

package histories

import (
	"context"
	"fmt"
	"iter"
)

// Entry is a line with its place: the number of the line in the file that it
// was read from (the header's is 1), or its index from 2 in memory.
type Entry struct {
	Line   Line
	Number int64
}

// History is a recorded history. Lines may be called more than once and each
// time gives all lines in the order in which they were recorded; the sequence
// ends early with a *CutError where the file was cut, after the last whole line,
// and with any other error where it cannot be read on. A History may be read by
// one goroutine at a time.
type History interface {
	Header() *Header
	Lines(ctx context.Context) iter.Seq2[Entry, error]
}

// CutError says that a history ends in the middle: everything up to its last
// whole line was read.
type CutError struct {
	// Name of the file, Line the number of the last whole line, Byte the place
	// in the file (compressed, if it is) where the last whole part ends.
	Name string
	Line int64
	Byte int64
	// Reason in words.
	Reason string
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%s: cut after line %d (byte %d): %s; what was read up to there is kept",
		e.Name, e.Line, e.Byte, e.Reason)
}

// Memory is a history in memory, for tests and for tools that build one.
type Memory struct {
	Head *Header
	Body []Line
}

// Header gives the header.
func (m *Memory) Header() *Header { return m.Head }

// Lines gives the lines in order.
func (m *Memory) Lines(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i, line := range m.Body {
			if ctx.Err() != nil {
				yield(Entry{}, ctx.Err())
				return
			}
			if !yield(Entry{Line: line, Number: int64(i) + 2}, nil) {
				return
			}
		}
	}
}
