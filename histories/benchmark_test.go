// This file measures: writing a line, reading a history of ours, reading a Jepsen
// history.

package histories

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/go-faster/jx"
)

// benchmarkLines are sends and their completions, as a recorder writes them.
func benchmarkLines(n int) []Line {
	lines := make([]Line, 0, n)
	for i := range n / 2 {
		id := OperationID{"producer-1", int64(i)}
		key := fmt.Sprintf("key-%d", i%17)
		lines = append(lines,
			&Send{OperationID: id, Time: int64(i) * 1000, Event: fmt.Sprintf("producer-1/%s/%d", key, i/17),
				Topic: "orders", Partition: Unknown, OrderingKey: key, Rank: int64(i / 17)},
			&SendReturn{OperationID: id, Time: int64(i)*1000 + 500_000, Partition: 3, Offset: int64(i)})
	}
	return lines
}

func BenchmarkWriteLine(b *testing.B) {
	for _, text := range []bool{false, true} {
		name, create := "zstd", NewWriter
		if text {
			name, create = "text", NewTextWriter
		}
		b.Run(name, func(b *testing.B) {
			lines := benchmarkLines(1 << 12)
			w, err := create(io.Discard, &Header{Run: "r"})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := range b.N {
				if err := w.Write(lines[i&(1<<12-1)]); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkEncodeLine(b *testing.B) {
	lines := benchmarkLines(1 << 12)
	w := new(jx.Writer)
	b.ReportAllocs()
	for i := range b.N {
		w.Reset()
		appendLine(w, lines[i&(1<<12-1)])
	}
}

func BenchmarkDecodeLine(b *testing.B) {
	const n = 1 << 12
	var raw [][]byte
	for _, line := range benchmarkLines(n) {
		raw = append(raw, encode(b, line))
	}
	for _, fast := range []bool{true, false} {
		b.Run(map[bool]string{true: "fast", false: "careful"}[fast], func(b *testing.B) {
			d := newDecoder()
			read := d.decode
			if fast {
				read = d.decodeFast
			}
			b.ReportAllocs()
			for i := range b.N {
				if _, err := read(raw[i&(n-1)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadHistory(b *testing.B) {
	for _, compressed := range []bool{true, false} {
		b.Run(map[bool]string{true: "zstd", false: "text"}[compressed], func(b *testing.B) {
			const n = 200_000
			file, size := historyInMemory(b, compressed, benchmarkLines(n))
			b.SetBytes(size)
			for b.Loop() {
				if got := countLines(b, file); got != n+1 {
					b.Fatalf("read %d lines, want %d", got, n+1)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func BenchmarkReadJepsen(b *testing.B) {
	text := jepsenText(100_000)
	file := mustOpenBytes(b, "history.edn", text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		countLines(b, file)
	}
}

// jepsenText is a Jepsen history of n sends, and of as many records polled.
func jepsenText(n int) []byte {
	var text bytes.Buffer
	index := 0
	entry := func(kind string, process int, f, value string) {
		fmt.Fprintf(&text, "{:index %d, :time %d, :type :%s, :process %d, :f :%s, :value %s}\n",
			index, index*1000, kind, process, f, value)
		index++
	}
	for i := range n {
		key := i % 12
		entry("invoke", 0, "send", fmt.Sprintf("[[:send %d %d]]", key, i))
		entry("ok", 0, "send", fmt.Sprintf("[[:send %d [%d %d]]]", key, i/12, i))
		if i%100 < 99 {
			continue
		}
		entry("invoke", 1, "poll", "[[:poll]]")
		fmt.Fprintf(&text, "{:index %d, :time %d, :type :ok, :process 1, :f :poll, :value [[:poll {", index,
			index*1000)
		index++
		for key := range 12 {
			fmt.Fprintf(&text, "%d [", key)
			for j := i - 99; j <= i; j++ {
				if j%12 == key {
					fmt.Fprintf(&text, "[%d %d] ", j/12, j)
				}
			}
			text.WriteString("] ")
		}
		text.WriteString("}]]}\n")
	}
	return text.Bytes()
}

func countLines(tb testing.TB, h History) int {
	tb.Helper()
	n := 0
	for _, err := range h.Lines(context.Background()) {
		if err != nil {
			tb.Fatal(err)
		}
		n++
	}
	return n
}
