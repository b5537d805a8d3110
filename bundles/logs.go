// This file holds the cutting of the brokers' logs.

package bundles

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/ackproof/ackproof/checker"
)

// span is a time that lines of a log are kept of.
type span struct{ from, to time.Time }

// spans gives the times that are kept.
func (c cut) spans(started time.Time, faults []*checker.Fault) []span {
	var spans []span
	if started.IsZero() {
		return nil // nobody knows when the faults were
	}
	for _, f := range faults {
		from, to := started.Add(time.Duration(f.Start)), started.Add(time.Duration(f.End))
		if c.whole {
			spans = append(spans, span{from.Add(-c.margin), to.Add(c.margin)})
			continue
		}
		spans = append(spans, span{from.Add(-c.margin), from.Add(c.margin)}, span{to.Add(-c.margin), to.Add(c.margin)})
	}
	return spans
}

// stamp is how a line of a broker's log begins. Brokers in containers keep UTC.
var stamp = regexp.MustCompile(`^\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3})`)

func timeOf(line []byte) (time.Time, bool) {
	m := stamp.FindSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	t, err := time.Parse("2006-01-02 15:04:05.000", string(m[1])+" "+string(m[2])+"."+string(m[3]))
	return t, err == nil
}

// cutLog writes those lines of a log that are in a span or among the last ones, and says where
// others were. A line without a time belongs to the one before it.
func (w *writing) cutLog(ctx context.Context, path string, spans []span, last int) (cut string, kept, all int, err error) {
	err = eachLine(ctx, path, func([]byte) error { all++; return nil })
	if err != nil {
		return "", 0, 0, err
	}
	cut, err = w.save(func(out io.Writer) error {
		buffered := bufio.NewWriter(out)
		number, gone, near := 0, 0, false
		err := eachLine(ctx, path, func(line []byte) error {
			if at, is := timeOf(line); is {
				near = false
				for _, s := range spans {
					near = near || (!at.Before(s.from) && !at.After(s.to))
				}
			}
			number++
			if !near && number <= all-last {
				gone++
				return nil
			}
			if gone > 0 {
				if _, err := fmt.Fprintf(buffered, "[%d lines left out of the bundle]\n", gone); err != nil {
					return err
				}
				gone = 0
			}
			kept++
			_, err := buffered.Write(line)
			return err
		})
		return errors.Join(err, buffered.Flush())
	})
	return cut, kept, all, err
}

// eachLine reads a file line by line.
func eachLine(ctx context.Context, path string, line func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	in := bufio.NewReaderSize(reading{ctx, file}, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimRight(text, "\n")) > 0 || err == nil {
			if err := line(text); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
