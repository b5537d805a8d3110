// This file holds the reader of history files: what a file is, by its content,
// and its lines.

package histories

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/go-faster/jx"
)

// The formats that Open recognises.
const (
	FormatNative  = formatName
	FormatJepsen  = "jepsen-edn"
	FormatNeutral = "kafka-log-checker-case"
	// FormatVerifiable is what Kafka's VerifiableProducer and VerifiableConsumer
	// print.
	FormatVerifiable = "kafka-verifiable-clients"
)

// File is a history that lies in a file. It is a History: Lines reads the file
// anew each time. It keeps no file open between two readings.
type File struct {
	name       string
	format     string
	compressed bool
	header     *Header
	// text is where a native history's lines begin: after the header's line.
	text   place
	open   func() (io.ReadCloser, error)
	size   int64
	memory *Memory // a history that is small enough to have been read at once
	// verifiable is set for the lines of Kafka's verifiable clients.
	verifiable *verifiableHistory
	// unknown is what the header has and this program does not know, skipped the
	// same of header and lines in the last reading.
	unknown skipped
	skipped skipped
}

var _ History = (*File)(nil)

// Open opens a history. What the file is, is seen from its content: a native
// history (compressed by zstd or not), a history of Jepsen's Kafka workload
// (EDN), the lines of one of Kafka's verifiable clients (several of them are one
// history: see OpenTogether), a single case of the neutral JSON form. It reads the
// header only. The error says what was found, and what is accepted.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening history: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("opening history %s: it is a directory; name the file in it (history.jsonl.zst)", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("opening history %s: it is no regular file; a history is read more than once, "+
			"so save it to a file first", path)
	}
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	return openFile(path, info.Size(), open)
}

// OpenBytes is Open for a file's content that lies in memory already; name stands in
// messages. The content must not change while the history is used.
func OpenBytes(name string, content []byte) (*File, error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return openFile(name, int64(len(content)), open)
}

// OpenPart is Open for a history that is a part of something else, as a file of an archive: open
// gives its content anew each time, size is that in bytes, name stands in messages.
func OpenPart(name string, size int64, open func() (io.ReadCloser, error)) (*File, error) {
	return openFile(name, size, open)
}

// openFile is Open for whatever can be read more than once.
func openFile(name string, size int64, open func() (io.ReadCloser, error)) (*File, error) {
	f := &File{name: name, size: size, open: open}
	in, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening history: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	if err := f.recognise(bufio.NewReaderSize(in, sniffSize)); err != nil {
		var cut *CutError
		if errors.As(err, &cut) {
			return nil, err
		}
		return nil, fmt.Errorf("opening history %s: %w", name, err)
	}
	return f, nil
}

// Header gives the header. That of an imported history has its source's notes
// only after its lines have been read to the end.
func (f *File) Header() *Header { return f.header }

// Name is the path that the file was opened by.
func (f *File) Name() string { return f.name }

// Format is the format that was recognised: FormatNative, FormatJepsen,
// FormatVerifiable or FormatNeutral.
func (f *File) Format() string { return f.format }

// Skipped is the number of lines of a kind that this program does not know,
// which a newer minor version of the format may have, in the last reading of
// Lines.
func (f *File) Skipped() int64 { return f.skipped.lines }

// SkippedFields is the same for unknown fields of known lines; with the header's.
func (f *File) SkippedFields() int64 { return f.skipped.fields }

// SkippedNames names the first few of both, as `field "offfset" of send`: a
// misspelt field is found here.
func (f *File) SkippedNames() []string { return f.skipped.names }

// Lines gives all lines in order. See History.
func (f *File) Lines(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		switch {
		case f.memory != nil:
			f.memory.Lines(ctx)(yield)
		case f.format == FormatJepsen:
			f.jepsenLines(ctx, yield)
		case f.verifiable != nil:
			f.verifiableLines(ctx, yield)
		default:
			f.nativeLines(ctx, yield)
		}
	}
}

// Text gives the text of a file without its compression, as it was written: the header and all
// lines. Reading it ends with io.EOF at the end of the file and with a *CutError where a compressed
// file is cut; a text that merely lacks its last lines ends with io.EOF. Whoever calls it closes it.
func (f *File) Text() (io.ReadCloser, error) {
	in, err := f.open()
	if err != nil || !f.compressed {
		return in, err
	}
	text, err := newZstdText(in)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &fileText{f.name, text, in}, nil
}

// fileText is the text of a compressed file.
type fileText struct {
	name string
	text *zstdText
	file io.Closer
}

func (t *fileText) Read(p []byte) (int, error) {
	n, err := t.text.Read(p)
	switch {
	case errors.Is(err, errCut):
		err = &CutError{Name: t.name, Byte: t.text.walker.at, Reason: err.Error()}
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("reading history %s: %w", t.name, err)
	}
	return n, err
}

func (t *fileText) Close() error {
	t.text.close()
	return t.file.Close()
}

// nativeLines reads a history of our own format.
func (f *File) nativeLines(ctx context.Context, yield func(Entry, error) bool) {
	in, err := f.open()
	if err != nil {
		yield(Entry{}, fmt.Errorf("reading history: %w", err))
		return
	}
	defer func() { _ = in.Close() }() // it was only read
	f.skipped = skipped{fields: f.unknown.fields, names: slices.Clone(f.unknown.names)}
	p := startPipeline(ctx, f.name, in, f.compressed, f.text)
	defer p.stop()
	var last reading
	for c := range p.chunks {
		if ctx.Err() != nil || !p.wait(c.ready) {
			break
		}
		f.skipped.add(c.skipped)
		if more := f.giveChunk(c, &last, yield); !more {
			return
		}
	}
	if err := ctx.Err(); err != nil {
		yield(Entry{}, fmt.Errorf("reading history %s: %w", f.name, err))
	}
}

// reading is how far a reading has come.
type reading struct {
	line  int64 // the last whole line
	ended bool  // it was the End line
}

// giveChunk gives on a chunk's lines and, after the last one, how it ended.
// False: there is no more.
func (f *File) giveChunk(c *chunk, last *reading, yield func(Entry, error) bool) bool {
	if last.ended && len(c.entries) > 0 {
		yield(Entry{}, &LineError{f.name, c.entries[0].Number, c.byte, errAfterEnd})
		return false
	}
	for _, entry := range c.entries {
		if !yield(entry, nil) {
			return false
		}
	}
	if n := len(c.entries); n > 0 {
		last.ended = isEnd(c.entries[n-1])
	}
	last.line = max(last.line, c.last)
	if c.err != nil {
		yield(Entry{}, c.err)
		return false
	}
	if c.end == nil {
		return true
	}
	if err := f.ending(c, last); err != nil {
		yield(Entry{}, err)
	}
	return false
}

// ending says how a file ended; nil: whole.
func (f *File) ending(c *chunk, last *reading) error {
	cut := &CutError{Name: f.name, Line: last.line, Byte: c.place}
	if !f.compressed && c.last < c.line {
		cut.Byte = c.byte // the begun line begins here
	}
	switch {
	case errors.Is(c.end, io.EOF) && last.ended:
		return nil
	case errors.Is(c.end, io.EOF):
		cut.Reason = "the end line is missing: whoever recorded it was stopped, or the file was cut"
	case errors.Is(c.end, errCut), errors.Is(c.end, errBegunLine):
		cut.Reason = c.end.Error()
	default:
		return fmt.Errorf("reading history %s after line %d: %w", f.name, last.line, c.end)
	}
	return cut
}

// sniffSize is how much of a file is looked at to see what it is.
const sniffSize = 64 << 10

// maxHeader is the longest header line, and the largest file that is no native
// or EDN history and is read at once.
const maxHeader = 256 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

const accepted = "a history is an ackproof-history (JSON lines, plain or in zstd frames), " +
	"a Jepsen Kafka history (EDN), what Kafka's VerifiableProducer or VerifiableConsumer printed, " +
	"or one case of the neutral JSON form"

// recognise finds the file's format and reads its header.
func (f *File) recognise(in *bufio.Reader) error {
	head, err := in.Peek(sniffSize)
	if err != nil && err != io.EOF {
		return err
	}
	if len(head) == 0 {
		return fmt.Errorf("it is empty: nothing was recorded; %s", accepted)
	}
	if len(head) < len(zstdMagic) && bytes.HasPrefix(zstdMagic, head) {
		return f.cutHeader(errCut)
	}
	if bytes.HasPrefix(head, zstdMagic) || isSkippable(head) {
		text, err := newZstdText(in)
		if err != nil {
			return err
		}
		defer text.close()
		f.compressed = true
		in = bufio.NewReaderSize(text, sniffSize)
		if head, err = in.Peek(sniffSize); err != nil && len(head) == 0 {
			if errors.Is(err, errCut) {
				return f.cutHeader(err)
			}
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("it holds zstd frames without content; %s", accepted)
			}
			return err
		}
	}
	return f.recogniseText(in, head)
}

func (f *File) recogniseText(in *bufio.Reader, head []byte) error {
	kind := textKind(head)
	switch {
	case kind == kindEDN:
		f.format, f.header = FormatJepsen, jepsenHeader(FormatJepsen)
		return nil
	case !bytes.HasPrefix(head, []byte(nativeStart)) && looksVerifiable(head):
		f.format, f.header, f.verifiable = FormatVerifiable, verifiableHeader(), &verifiableHistory{files: []*File{f}}
		return nil
	case kind == kindJSON:
		return f.readJSON(in)
	}
	return fmt.Errorf("%s; %s", describe(head), accepted)
}

// cutHeader is the error of a file that ends before its header does.
func (f *File) cutHeader(reason error) error {
	return &CutError{Name: f.name, Reason: reason.Error() + ", before the end of its header"}
}

type textFormat int

const (
	kindForeign textFormat = iota
	kindJSON
	kindEDN
)

// textKind looks at how a text begins.
func textKind(head []byte) textFormat {
	first, rest := afterSpace(bytes.TrimPrefix(head, byteOrderMark))
	switch first {
	case '{':
		second, _ := afterSpace(rest)
		switch second {
		case '"', '}', 0:
			return kindJSON
		case ':', '#', ';':
			return kindEDN
		}
	case '[':
		second, rest := afterSpace(rest)
		if third, _ := afterSpace(rest); second == '{' && third == '"' {
			return kindForeign
		}
		if second == '{' || second == '#' || second == ']' || second == 0 {
			return kindEDN
		}
	case '#':
		if len(rest) > 0 && (rest[0] == '_' || bytes.HasPrefix(rest, []byte("jepsen"))) {
			return kindEDN
		}
	}
	return kindForeign
}

// afterSpace gives the first byte after white space, commas and EDN's comments,
// and what follows it; 0: there is none.
func afterSpace(text []byte) (byte, []byte) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', ',':
		case ';':
			end := bytes.IndexByte(text[i:], '\n')
			if end < 0 {
				return 0, nil
			}
			i += end
		default:
			return text[i], text[i+1:]
		}
	}
	return 0, nil
}

// describe says in words what a foreign file seems to be.
func describe(head []byte) string {
	signatures := []struct{ magic, words string }{
		{"\x1f\x8b", "a gzip file: decompress it first"},
		{"BZh", "a bzip2 file: decompress it first"},
		{"\xfd7zXZ", "an xz file: decompress it first"},
		{"PK\x03\x04", "a zip archive: unpack it first"},
		{"\x89PNG", "a PNG image"},
		{"\xff\xfe", "text in UTF-16: convert it to UTF-8 first"},
		{"\xfe\xff", "text in UTF-16: convert it to UTF-8 first"},
		{"\x7fELF", "a program"},
	}
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.magic)) {
			return "it is " + s.words
		}
	}
	begin := validText(head[:min(len(head), 40)])
	if strings.ContainsFunc(begin, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n\f", r) }) {
		return fmt.Sprintf("it is binary data that begins with % x", head[:min(len(head), 8)])
	}
	return fmt.Sprintf("it begins with %q", begin)
}

// nativeStart is how every native history begins that this program wrote.
const nativeStart = `{"line":"header"`

// readJSON reads the header of a native history, or a case of the neutral form.
func (f *File) readJSON(in *bufio.Reader) error {
	first, err := readLine(in, maxHeader)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errCut) {
		return err
	}
	whole := err == nil
	line := bytes.TrimSpace(bytes.TrimPrefix(first, byteOrderMark))
	switch native, kind := headerKind(line); {
	case native && jx.Valid(line):
		f.format, f.text = FormatNative, place{2, int64(len(first))}
		return f.readHeader(line)
	case !whole && (native || strings.HasPrefix(nativeStart, string(line))):
		if errors.Is(err, io.EOF) {
			err = errBegunLine
		}
		return f.cutHeader(err)
	case native:
		return errors.New("its header line is not valid JSON")
	case kind != "":
		return fmt.Errorf("it begins with a line of kind %q, not with the header; the first line of a history says "+
			`"line":"header","format":"%s","version":"%d.%d"`, kind, formatName, FormatMajor, FormatMinor)
	}
	rest, err := io.ReadAll(io.LimitReader(in, maxHeader))
	if err != nil {
		return err
	}
	return f.readNeutral(append(first, rest...))
}

// headerKind: whether the line is the header of a native history, and its kind.
func headerKind(line []byte) (native bool, kind string) {
	if bytes.HasPrefix(line, []byte(nativeStart)) {
		return true, lineHeader
	}
	if !jx.Valid(line) {
		return false, ""
	}
	kind, err := newDecoder().kindOf(line)
	if err != nil {
		return false, ""
	}
	return kind == lineHeader, kind
}

// readLine reads a line with its end. io.EOF: it has none.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > limit {
			return line, fmt.Errorf("its first line is longer than %d bytes", limit)
		}
	}
}

// readHeader reads the header of a native history.
func (f *File) readHeader(line []byte) error {
	d := newDecoder()
	d.field = append(d.field, lineHeader)
	if err := d.checkVersion(line); err != nil {
		return err
	}
	d.jx.ResetBytes(line)
	h := new(Header)
	if err := readObject(d, headerFields, h); err != nil {
		return fmt.Errorf("line 1: %s: %w", d.where(), err)
	}
	f.header, f.unknown, f.skipped = h, d.skipped, d.skipped
	return nil
}

// checkVersion refuses another format and a newer major version of ours.
func (d *decoder) checkVersion(line []byte) error {
	var format, version string
	d.jx.ResetBytes(line)
	err := d.object(func(key []byte) (err error) {
		switch string(key) {
		case "format":
			format, err = d.text(false)
		case "version":
			version, err = d.text(false)
		default:
			err = d.jx.Skip()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("line 1: header: format and version: %w", err)
	}
	if format != formatName {
		return fmt.Errorf("its header says format %q, want %q", format, formatName)
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 1 || minor < 0 {
		return fmt.Errorf("its header says version %q, want one like \"%d.%d\"", version, FormatMajor, FormatMinor)
	}
	if major > FormatMajor {
		return fmt.Errorf("it is in version %s of the format, and this program reads versions %d.x; "+
			"read it with a newer version of this program", version, FormatMajor)
	}
	return nil
}
