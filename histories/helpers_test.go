// This file holds what the tests share: histories in memory, written and opened.

package histories

import (
	"bytes"
	"context"
	"slices"
	"testing"
)

// written is the file of a history of lines.
func written(tb testing.TB, compressed bool, header *Header, lines []Line) []byte {
	tb.Helper()
	var out bytes.Buffer
	create := NewTextWriter
	if compressed {
		create = NewWriter
	}
	w, err := create(&out, header)
	if err != nil {
		tb.Fatal(err)
	}
	for _, line := range lines {
		if err := w.Write(line); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// historyInMemory opens a whole history of lines, and gives its size as text.
func historyInMemory(tb testing.TB, compressed bool, lines []Line) (*File, int64) {
	tb.Helper()
	whole := append(slices.Clone(lines), &End{Reason: EndFinished})
	size := int64(len(written(tb, false, &Header{Run: "r"}, whole)))
	return mustOpenBytes(tb, "history", written(tb, compressed, &Header{Run: "r"}, whole)), size
}

func mustOpenBytes(tb testing.TB, name string, content []byte) *File {
	tb.Helper()
	file, err := OpenBytes(name, content)
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// readAll gives all lines of a history, and the error that ended them.
func readAll(h History) (lines []Line, numbers []int64, err error) {
	for entry, err := range h.Lines(context.Background()) {
		if err != nil {
			return lines, numbers, err
		}
		lines, numbers = append(lines, entry.Line), append(numbers, entry.Number)
	}
	return lines, numbers, nil
}
