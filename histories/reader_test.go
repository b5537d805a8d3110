// This file tests the reader: what a file is, and that a file that was cut,
// corrupted or written by a newer program gives no line that was not written.

package histories

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// sampleLines are n lines of several kinds, the last one the end.
func sampleLines(n int) []Line {
	lines := []Line{&Producer{Name: "p", Client: "franz-go", Properties: map[string]string{"acks": "all"}}}
	for i := int64(0); len(lines) < n-1; i++ {
		id := OperationID{"p", i}
		switch i % 4 {
		case 0:
			lines = append(lines, &Send{OperationID: id, Time: i, Event: fmt.Sprintf("p/k/%d", i*7919%1000), Topic: "t",
				Partition: Unknown, OrderingKey: "k", Rank: i})
		case 1:
			lines = append(lines, &SendReturn{OperationID: id, Time: i, Partition: 0, Offset: i})
		case 2:
			lines = append(lines, &PollReturn{OperationID: id, Time: i, Records: []Records{{Partition{"t", 0}, 1,
				[]Record{{i, fmt.Sprint("p/k/", i), ""}, {i + 1, "", ""}}}}})
		case 3:
			lines = append(lines, &Note{Time: i, Text: strings.Repeat("\u2603", int(i%9))})
		}
	}
	return append(lines, &End{Time: int64(n), Reason: EndFinished})
}

// inFrames is the file of lines with so many lines to a frame.
func inFrames(tb testing.TB, header *Header, lines []Line, each int) (file []byte, starts []int) {
	tb.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, header)
	if err != nil {
		tb.Fatal(err)
	}
	for i, line := range lines {
		if i%each == 0 {
			if err := w.Flush(); err != nil {
				tb.Fatal(err)
			}
			starts = append(starts, out.Len())
		}
		if err := w.Write(line); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes(), starts
}

// oneFrame is text as `zstd` compresses it from a pipe: one frame that does not
// say how long it is.
func oneFrame(tb testing.TB, text []byte, options ...zstd.EOption) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func mustEqual(t *testing.T, got, want []Line) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("read %d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("line %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	header := &Header{Run: "r", Clock: "c", Topics: []Topic{{Name: "t", Partitions: 3}}}
	lines := sampleLines(5000)
	text := written(t, false, header, lines)
	frames, _ := inFrames(t, header, lines, 100)
	half := len(text) / 2
	files := []struct {
		rule    string
		content []byte
	}{
		{"in frames of the writer's own choice", written(t, true, header, lines)},
		{"in many small frames", frames},
		{"as plain text", text},
		{"as plain text without the last line end", bytes.TrimSuffix(text, []byte("\n"))},
		{"as plain text with Windows' line ends", bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))},
		{"as plain text with a byte order mark", append([]byte("\xef\xbb\xbf"), text...)},
		{"in one frame of unknown size", oneFrame(t, text)},
		{"in one frame without a checksum", oneFrame(t, text, zstd.WithEncoderCRC(false))},
		{"in frames that cut lines", append(oneFrame(t, text[:half]), oneFrame(t, text[half:])...)},
		{"with skippable frames between", append(append(skippable(77), frames...), skippable(0)...)},
	}
	for _, f := range files {
		t.Run(f.rule, func(t *testing.T) {
			file := mustOpenBytes(t, "history", f.content)
			if !reflect.DeepEqual(file.Header(), header) {
				t.Errorf("the header is %+v, want %+v", file.Header(), header)
			}
			for range 2 { // as often as one likes
				got, numbers, err := readAll(file)
				if err != nil {
					t.Fatal(err)
				}
				mustEqual(t, got, lines)
				for i, number := range numbers {
					if number != int64(i)+2 {
						t.Fatalf("line %d has the number %d, want %d", i, number, i+2)
					}
				}
			}
		})
	}
}

// skippable is a frame that readers pass over.
func skippable(size int) []byte {
	frame := binary.LittleEndian.AppendUint32([]byte{0x5a, 0x2a, 0x4d, 0x18}, uint32(size))
	return append(frame, make([]byte, size)...)
}

func TestBlankLinesCountAndMeanNothing(t *testing.T) {
	text := `{"line":"header","format":"ackproof-history","version":"1.0"}` + "\n\n \n" +
		`{"line":"note","time":1}` + "\n\n" + `{"line":"end","time":2}` + "\n\n"
	_, numbers, err := readAll(mustOpenBytes(t, "history", []byte(text)))
	if err != nil || fmt.Sprint(numbers) != "[4 6]" {
		t.Errorf("read the lines %v, %v; want 4 and 6", numbers, err)
	}
}

// cutAt checks the reading of a file's first size bytes: a prefix of what was
// written, then a CutError.
func cutAt(t *testing.T, content []byte, size int, lines []Line) int {
	t.Helper()
	file, err := OpenBytes("history", content[:size])
	var cut *CutError
	if err != nil {
		if size > 0 && !errors.As(err, &cut) {
			t.Fatalf("opening the first %d bytes gave %v, want a CutError", size, err)
		}
		return -1
	}
	got, _, err := readAll(file)
	if !errors.As(err, &cut) {
		t.Fatalf("reading the first %d bytes ended with %v, want a CutError", size, err)
	}
	if len(got) > len(lines) {
		t.Fatalf("the first %d bytes gave %d lines, %d were written", size, len(got), len(lines))
	}
	mustEqual(t, got, lines[:len(got)])
	if cut.Line != int64(len(got))+1 {
		t.Fatalf("the CutError says line %d, %d lines were read", cut.Line, len(got)+1)
	}
	if cut.Byte > int64(size) {
		t.Fatalf("the CutError says byte %d of %d", cut.Byte, size)
	}
	return len(got)
}

func TestAFileThatIsCutAnywhereReadsUpToItsLastWholeLine(t *testing.T) {
	lines := sampleLines(40)
	text := written(t, false, &Header{Run: "r"}, lines)
	frames, starts := inFrames(t, &Header{Run: "r"}, lines, 5)
	t.Run("as text, at every byte", func(t *testing.T) {
		for size := range len(text) - 1 { // the last line end is not missed
			got := cutAt(t, text, size, lines)
			whole := bytes.Count(text[:size], []byte("\n"))
			if text[size] == '\n' {
				whole++ // the line is whole without its line end
			}
			if got+1 != whole {
				t.Fatalf("%d bytes hold %d whole lines, %d were read", size, whole, got+1)
			}
		}
	})
	t.Run("in frames, at every byte", func(t *testing.T) {
		for size := range frames {
			got := cutAt(t, frames, size, lines)
			for i, start := range starts {
				if size >= start && got < i*5 {
					t.Fatalf("%d bytes hold %d frames whole, %d lines were read", size, i, got)
				}
			}
		}
	})
	t.Run("in one frame, at every byte", func(t *testing.T) {
		frame := oneFrame(t, text)
		for size := range frame {
			cutAt(t, frame, size, lines)
		}
	})
}

func TestALargeFileThatIsCutAnywhereReadsUpToItsLastWholeLine(t *testing.T) {
	lines := sampleLines(20_000)
	text := written(t, false, &Header{Run: "r"}, lines)
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range []struct {
		rule    string
		content []byte
	}{{"as text", text}, {"in frames", written(t, true, &Header{Run: "r"}, lines)}, {"in one frame", oneFrame(t,
		text)}} {
		t.Run(f.rule, func(t *testing.T) {
			for range 10 {
				size := 1 + random.IntN(len(f.content)-2)
				got := cutAt(t, f.content, size, lines)
				// What is missing is at most the text of a frame, or of two.
				if want := len(lines)*size/len(f.content) - 2*len(lines)*frameSize/len(text); got < want {
					t.Errorf("%d of %d bytes gave only %d lines, want %d", size, len(f.content), got, want)
				}
			}
		})
	}
}

func TestWholeLinesInsideOfABrokenLastFrameAreRead(t *testing.T) {
	// Text that does not compress well, so that a frame has many blocks.
	random := rand.New(rand.NewPCG(3, 4))
	var lines []Line
	for i := range 10_000 {
		lines = append(lines, &Note{Time: int64(i), Text: fmt.Sprintf("%x", random.Uint64())})
	}
	content, starts := inFrames(t, &Header{}, lines, len(lines))
	size := starts[0] + (len(content)-starts[0])*9/10
	if got := cutAt(t, content, size, lines); got < len(lines)/2 {
		t.Errorf("nine tenths of a frame gave %d lines of %d", got, len(lines))
	}
}

func TestZerosAtTheEndAreACut(t *testing.T) {
	lines := sampleLines(40)
	whole := lines[:len(lines)-1]
	for _, compressed := range []bool{true, false} {
		content := written(t, compressed, &Header{}, whole)
		padded := append(bytes.Clone(content), make([]byte, 5000)...)
		if got := cutAt(t, padded, len(padded), whole); got != len(whole) {
			t.Errorf("%d lines were read before the zeros, want %d", got, len(whole))
		}
	}
}

func TestACorruptFrameIsAnErrorWithItsPlace(t *testing.T) {
	lines := sampleLines(100)
	content, starts := inFrames(t, &Header{Run: "r"}, lines, 20)
	const damaged = 3 // the frame of lines 60 to 79
	cuts := 0
	for at := starts[damaged]; at < starts[damaged+1]; at++ {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			broken := bytes.Clone(content)
			broken[at] ^= flip
			got, _, err := readAll(mustOpenBytes(t, "history", broken))
			if err == nil {
				if len(got) != len(lines) {
					t.Fatalf("byte %d flipped by %#x: %d lines and no error", at, flip, len(got))
				}
				mustEqual(t, got, lines) // a bit that means nothing
				continue
			}
			if len(got) > len(lines) {
				t.Fatalf("byte %d flipped by %#x: %d lines", at, flip, len(got))
			}
			mustEqual(t, got, lines[:len(got)])
			var cut *CutError
			if errors.As(err, &cut) {
				cuts++
				continue
			}
			if !strings.Contains(err.Error(), "corrupt") || !strings.Contains(err.Error(), "byte") {
				t.Fatalf("byte %d flipped by %#x: the error is %v", at, flip, err)
			}
		}
	}
	// A length that now reaches beyond the file cannot be told from a cut.
	if all := 3 * (starts[damaged+1] - starts[damaged]); cuts*100 > all {
		t.Errorf("%d of %d damages were taken for a cut", cuts, all)
	}
	t.Run("which is where the frame begins", func(t *testing.T) {
		broken := bytes.Clone(content)
		broken[starts[damaged+1]-1] ^= 1 // its checksum
		got, _, err := readAll(mustOpenBytes(t, "history", broken))
		if want := fmt.Sprintf("the zstd frame that begins at byte %d", starts[damaged]); !strings.Contains(err.Error(),
			want) {
			t.Errorf("the error is %q, want %q in it", err, want)
		}
		mustEqual(t, got, lines[:60])
	})
	t.Run("also where it is the last one", func(t *testing.T) {
		broken := bytes.Clone(content)
		broken[len(broken)-1] ^= 1
		var cut *CutError
		if _, _, err := readAll(mustOpenBytes(t, "history", broken)); err == nil || errors.As(err, &cut) {
			t.Errorf("the error is %v, want a corrupt frame", err)
		}
	})
}

func TestALineThatIsWrongIsSaidWithItsPlace(t *testing.T) {
	header := `{"line":"header","format":"ackproof-history","version":"1.0"}` + "\n"
	cases := []struct{ rule, lines, want string }{
		{"in the middle", `{"line":"note","time":1}` + "\n" + `{"line":"note","time":"2"}` + "\n" + `{"line":"end","time":3}` + "\n",
			`history: line 3 (byte 87 of the text): note: field "time": want a whole number, found a JSON string`},
		{"at the end, without a line end", `{"line":"note","time":"2"}`,
			`history: line 2 (byte 62 of the text): note: field "time"`},
		{"cut in the middle of the file", `{"line":"no` + "\n" + `{"line":"end","time":3}` + "\n",
			`history: line 2 (byte 62 of the text): not a JSON object`},
		{"after the end", `{"line":"end","time":3}` + "\n" + `{"line":"note","time":1}` + "\n",
			"history: line 3 (byte 86 of the text): a line after the end line"},
		{"as a second header", header, "history: line 2 (byte 62 of the text): a second header line"},
	}
	for _, c := range cases {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compressed %v", c.rule, compressed), func(t *testing.T) {
				content := []byte(header + c.lines)
				if compressed {
					content = oneFrame(t, content)
				}
				_, _, err := readAll(mustOpenBytes(t, "history", content))
				if err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("the error is %v, want %s", err, c.want)
				}
			})
		}
	}
}

func TestAHistoryOfAnyMinorVersionIsRead(t *testing.T) {
	text := `{"line":"consumer","name":"c","time":0}` + "\n" +
		`{"line":"attempt","process":"p","time":1,"end":2,"sends":[[0,0]],"answer":"NONE"}` + "\n" + `{"line":"end","time":3}` + "\n"
	for _, version := range []string{"1.0", "1.1", "1.2", "1.3"} {
		t.Run(version, func(t *testing.T) {
			file := mustOpenBytes(t, "history", []byte(`{"line":"header","format":"ackproof-history","version":"`+version+`"}`+"\n"+text))
			read, _, err := readAll(file)
			if err != nil || len(read) != 3 || file.Skipped() != 0 || file.SkippedFields() != 0 {
				t.Fatalf("read %d lines, skipped %v: %v", len(read), file.SkippedNames(), err)
			}
			if consumer := read[0].(*Consumer); consumer.Continues != "" {
				t.Errorf("the consumer continues %q", consumer.Continues)
			}
			if attempt := read[1].(*Attempt); attempt.Bytes != 0 || attempt.Uncompressed != 0 {
				t.Errorf("the attempt's sizes are %d and %d", attempt.Bytes, attempt.Uncompressed)
			}
		})
	}
}

func TestAForeignFileIsRefusedInWords(t *testing.T) {
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(uint64(i), 1)).Uint32())
	}
	random[0] = 0x01
	header := `{"line":"header","format":"ackproof-history","version":"`
	cases := []struct{ rule, content, want string }{
		{"empty", "", "it is empty"},
		{"white space", "\n\n \n", `it begins with "\n\n \n"`},
		{"random bytes", string(random), "it is binary data that begins with 01"},
		{"a picture", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a PNG image"},
		{"gzip", "\x1f\x8b\x08\x00\x00\x00", "a gzip file: decompress it first"},
		{"text", "Dear reader,\n", `it begins with "Dear reader,\n"`},
		{"a number", "5\n", `it begins with "5\n"`},
		{"a script", "#!/bin/sh\n", `it begins with "#!/bin/sh`},
		{"UTF-16", "\xff\xfe{\x00", "text in UTF-16"},
		{"other JSON", `{"a":1}` + "\n", "it is JSON, but no history"},
		{"a JSON array", `[{"a":1}]`, `it begins with "[{`},
		{"broken JSON", `{"a":` + "\n1", "it begins like JSON and is not valid JSON"},
		{"lines without a header", `{"line":"note","time":1}` + "\n",
			`it begins with a line of kind "note", not with the header`},
		{"another format", `{"line":"header","format":"x","version":"1.0"}` + "\n",
			`its header says format "x", want "ackproof-history"`},
		{"no version", `{"line":"header","format":"ackproof-history"}` + "\n", `its header says version ""`},
		{"a version in words", header + `one"}` + "\n", `its header says version "one"`},
		{"a newer major version", header + `2.0","zip":[]}` + "\n",
			"it is in version 2.0 of the format, and this program reads versions 1.x; read it with a newer version of this program"},
		{"a header with a wrong field", header + `1.0","seed":"x"}` + "\n",
			`line 1: header: field "seed": want a whole number`},
		{"a header that is not JSON", header + "\n", "its header line is not valid JSON"},
		{"zstd frames without content", string(skippable(10)), "it holds zstd frames without content"},
		{"compressed text", string(oneFrame(t, []byte("Dear reader"))), `it begins with "Dear reader"`},
		{"a broken zstd file", "\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
			"corrupt"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			_, err := OpenBytes("some.file", []byte(c.content))
			if err == nil {
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), "some.file") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want %q in it", err, c.want)
			}
			var cut *CutError
			if errors.As(err, &cut) {
				t.Errorf("it was taken for a history that was cut: %v", err)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "it is a directory") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a file that is not there", func(t *testing.T) {
		if _, err := Open(filepath.Join(t.TempDir(), "x")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a device", func(t *testing.T) {
		if _, err := Open(os.DevNull); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestANewerMinorVersionIsReadAndWhatIsNewIsCounted(t *testing.T) {
	text := `{"line":"header","format":"ackproof-history","version":"1.7","run":"r","zip":{"a":[]}}` + "\n" +
		`{"line":"frob","time":"whatever"}` + "\n" + `{"line":"note","time":1,"zap":true}` + "\n" + `{"line":"end","time":2}` + "\n"
	file := mustOpenBytes(t, "history", []byte(text))
	for range 2 {
		lines, numbers, err := readAll(file)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, lines, []Line{&Note{Time: 1}, &End{Time: 2}})
		if fmt.Sprint(numbers) != "[3 4]" {
			t.Errorf("the numbers are %v, want 3 and 4", numbers)
		}
		if file.Skipped() != 1 || file.SkippedFields() != 2 {
			t.Errorf("skipped %d lines and %d fields, want 1 and 2", file.Skipped(), file.SkippedFields())
		}
		want := `[field "zip" of header line "frob" field "zap" of note]`
		if got := fmt.Sprint(file.SkippedNames()); got != want {
			t.Errorf("skipped %s, want %s", got, want)
		}
	}
}

func TestALongLineIsRead(t *testing.T) {
	records := make([]Record, 200_000)
	for i := range records {
		records[i] = Record{Offset: int64(i), Event: "p/k/" + fmt.Sprint(i)}
	}
	lines := []Line{
		&Note{Time: 1},
		&PollReturn{Records: []Records{{Partition{"t", 0}, 0, records}}},
		&Note{Time: 2, Text: strings.Repeat("x", 20<<20)},
		&End{},
	}
	for _, compressed := range []bool{true, false} {
		got, _, err := readAll(mustOpenBytes(t, "history", written(t, compressed, &Header{}, lines)))
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, got, lines)
	}
}

func TestReadingCanBeStoppedAnywhere(t *testing.T) {
	lines := sampleLines(30_000)
	file := mustOpenBytes(t, "history", written(t, true, &Header{}, lines))
	t.Run("by the reader", func(t *testing.T) {
		before := runtime.NumGoroutine()
		for _, stop := range []int{0, 1, 100, 15_000} {
			n := 0
			for _, err := range file.Lines(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n > stop {
					break
				}
			}
			// One that said that it is done may take a moment to be gone.
			eventually(t, 10*time.Second, "no goroutine is left behind", func() bool { return runtime.NumGoroutine() <= before })
		}
	})
	t.Run("by the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n, last := 0, error(nil)
		for _, err := range file.Lines(ctx) {
			if last = err; err != nil {
				break
			}
			if n++; n == 100 {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) || n >= len(lines) {
			t.Errorf("read %d lines, ended by %v", n, last)
		}
	})
}

// endless gives the text of a history of so many notes, without holding it.
type endless struct {
	left  int
	begun []byte
	text  string
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.begun) == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		e.left--
		e.begun = append(e.begun, e.text...)
	}
	n := copy(p, e.begun)
	e.begun = e.begun[:copy(e.begun, e.begun[n:])]
	return n, nil
}

func TestAHistoryIsNotHeldInMemory(t *testing.T) {
	note := `{"line":"note","time":1,"text":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	header := `{"line":"header","format":"ackproof-history","version":"1.0"}` + "\n"
	const notes = 200_000 // 200 MB
	file, err := openFile("history", 0, func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(header), &endless{left: notes, text: note},
			strings.NewReader(`{"line":"end","time":1}`))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	start, highest, n := stats.HeapAlloc, uint64(0), 0
	for _, err := range file.Lines(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&stats)
			highest = max(highest, stats.HeapAlloc)
		}
	}
	if n != notes+1 {
		t.Errorf("read %d lines, want %d", n, notes+1)
	}
	// A few chunks of 1 MiB for each core, each as text and as lines.
	if limit := start + uint64(8+8*runtime.GOMAXPROCS(0))<<20; highest > limit {
		t.Errorf("%d MB were in use, want at most %d MB", highest>>20, limit>>20)
	}
}

func TestAnErrorOfTheDiskIsNoCut(t *testing.T) {
	lines := sampleLines(4000)
	broken := errors.New("input/output error")
	for _, compressed := range []bool{true, false} {
		content := written(t, compressed, &Header{}, lines)
		reads := 0
		file, err := openFile("history", 0, func() (io.ReadCloser, error) {
			if reads++; reads == 1 {
				return io.NopCloser(bytes.NewReader(content)), nil
			}
			return io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), endOf{broken})), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = readAll(file)
		var cut *CutError
		if !errors.Is(err, broken) || errors.As(err, &cut) {
			t.Errorf("compressed %v: the error is %v, want the disk's", compressed, err)
		}
	}
}

func TestAHistoryThatIsStillBeingWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl.zst")
	w, err := Create(path, &Header{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := errors.Join(w.Write(&Note{Time: int64(i)}), w.Flush()); err != nil {
			t.Fatal(err)
		}
		lines, _, err := readAll(file)
		var cut *CutError
		if len(lines) != i+1 || !errors.As(err, &cut) {
			t.Errorf("read %d lines, %v; want %d and a CutError", len(lines), err, i+1)
		}
	}
}

func FuzzOpen(f *testing.F) {
	lines := sampleLines(12)
	f.Add(written(f, false, &Header{Run: "r"}, lines))
	f.Add(written(f, true, &Header{Run: "r"}, lines))
	f.Add(oneFrame(f, written(f, false, &Header{Run: "r"}, lines)))
	f.Add(append(skippable(3), written(f, true, &Header{}, lines)...))
	f.Add([]byte(`{:type :invoke, :f :send, :process 0, :value [[:send 1 2]]}`))
	f.Add([]byte(`{"name":"x","ops":[]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			// Buffers and decoders, and what zstd packs most tightly: 128 KiB of one byte in four.
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+256<<10*len(content)); took > most {
				t.Errorf("%d bytes took %d bytes, want %d at most", len(content), took, most)
			}
		}()
		file, err := OpenBytes("file", content)
		if err != nil {
			return
		}
		if file.Header() == nil {
			t.Fatal("opened without a header")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		last := int64(0)
		ended := false
		for entry, err := range file.Lines(ctx) {
			if ended {
				t.Fatal("something came after an error")
			}
			if ended = err != nil; ended {
				continue
			}
			if entry.Line == nil || entry.Number < last {
				t.Fatalf("entry %+v after line %d", entry, last)
			}
			last = entry.Number
		}
	})
}

func TestTheTextOfAFileIsWhatWasWritten(t *testing.T) {
	lines := sampleLines(200)
	plain := written(t, false, &Header{Run: "r"}, lines)
	packed := written(t, true, &Header{Run: "r"}, lines)
	for rule, c := range map[string]struct {
		content []byte
		cut     bool
	}{"plain text": {plain, false}, "in frames": {packed, false}, "in frames, cut": {packed[:len(packed)-5], true}} {
		t.Run(rule, func(t *testing.T) {
			file, err := OpenBytes("file", c.content)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // it is read anew each time
				text, err := file.Text()
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(text)
				var cut *CutError
				if errors.As(err, &cut) != c.cut || (err != nil) != c.cut {
					t.Errorf("it ends with %v", err)
				}
				if !bytes.HasPrefix(plain, got) || (!c.cut && len(got) < len(plain)) {
					t.Errorf("%d bytes that are not those written, %d", len(got), len(plain))
				}
				if err := text.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
