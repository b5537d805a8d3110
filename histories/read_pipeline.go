// This file holds how a native history is read on all cores, in order and in
// bounded memory:
//
//	file -> blocks of text -> chunks of whole lines -> entries
//	        (frames decoded     (split in order)        (lines decoded
//	         in parallel)                                in parallel)
//
// Two goroutines drive it, and one worker for each core does the work. Every
// queue is bounded, so at most a few chunks for each core are in memory.

package histories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/go-faster/jx"
	"github.com/klauspost/compress/zstd"
)

const (
	// firstBlock and largestBlock are how much text is read at once where it is
	// not framed: little at first, since most files are small.
	firstBlock   = 32 << 10
	largestBlock = 1 << 20
	// maxLine is the longest line that is read.
	maxLine = 1 << 30
)

// block is a part of the text, cut anywhere. text and err are set when ready is
// closed.
type block struct {
	ready chan struct{}
	text  []byte
	// err is the error after text, io.EOF at the end; place where it is in the file.
	err   error
	place int64
}

// chunk is a part of the text made of whole lines. entries and err are set when
// ready is closed.
type chunk struct {
	ready   chan struct{}
	text    []byte
	line    int64 // number of its first line
	byte    int64 // place of its first byte in the text
	entries []Entry
	last    int64 // number of its last line
	skipped skipped
	err     error
	// rest: the text after the last line end, where the file ends.
	rest bool
	// end and place are the last block's err and place, in the last chunk.
	end   error
	place int64
}

type task func(*decoder)

// pipeline is one reading of a file. Its goroutines end when ctx does; stop
// waits for them.
type pipeline struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	tasks  chan task
	blocks chan *block
	chunks chan *chunk
	group  sync.WaitGroup
}

// startPipeline reads lines from in, of which skip bytes and lines are the header.
func startPipeline(ctx context.Context, name string, in io.Reader, compressed bool, from place) *pipeline {
	workers := runtime.GOMAXPROCS(0)
	p := &pipeline{
		name:   name,
		tasks:  make(chan task),
		blocks: make(chan *block, workers),
		chunks: make(chan *chunk, workers),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	for range workers {
		p.group.Go(func() { p.work(newDecoder()) })
	}
	p.group.Go(func() {
		defer close(p.blocks)
		if compressed {
			p.readFrames(in)
		} else {
			p.readText(in)
		}
	})
	p.group.Go(func() {
		defer close(p.chunks)
		p.split(from)
	})
	return p
}

// place is a place in the text: a line's number and the offset of its first byte.
type place struct{ line, byte int64 }

func (p *pipeline) stop() {
	p.cancel()
	p.group.Wait()
}

func (p *pipeline) work(d *decoder) {
	for {
		select {
		case t := <-p.tasks:
			t(d)
		case <-p.ctx.Done():
			return
		}
	}
}

// do gives a task to a worker; false: the reading was stopped.
func (p *pipeline) do(t task) bool {
	select {
	case p.tasks <- t:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// wait waits for a block or chunk; false: the reading was stopped.
func (p *pipeline) wait(ready chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func (p *pipeline) queueBlock(b *block) bool {
	select {
	case p.blocks <- b:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func readyBlock(text []byte, err error, at int64) *block {
	b := &block{ready: make(chan struct{}), text: text, err: err, place: at}
	close(b.ready)
	return b
}

// readText queues the text of a file that is not compressed.
func (p *pipeline) readText(in io.Reader) {
	at := int64(0)
	for size := firstBlock; ; size = min(2*size, largestBlock) {
		text := make([]byte, size)
		n, err := io.ReadFull(in, text)
		at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		if !p.queueBlock(readyBlock(text[:n], err, at)) || err != nil {
			return
		}
	}
}

// readFrames queues the text of a zstd file.
func (p *pipeline) readFrames(in io.Reader) {
	walker := newFrameWalker(in)
	whole, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithDecoderMaxMemory(2*wholeFrame), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		p.queueBlock(readyBlock(nil, err, 0))
		return
	}
	// Blocks that are still being decoded use it: the last one is waited for.
	defer whole.Close()
	var decoding sync.WaitGroup
	defer decoding.Wait()
	for {
		header, err := walker.next()
		if err != nil {
			p.queueBlock(readyBlock(nil, err, walker.at))
			return
		}
		if !header.HasFCS || header.FrameContentSize > wholeFrame {
			if !p.streamFrame(walker) {
				return
			}
			continue
		}
		packed, err := readWhole(walker, int64(header.FrameContentSize))
		if err != nil {
			p.breakOff(walker, packed, err)
			return
		}
		b := &block{ready: make(chan struct{}), place: walker.at}
		size := int(header.FrameContentSize)
		decoding.Add(1)
		decode := func(*decoder) {
			defer decoding.Done()
			defer close(b.ready)
			text, err := whole.DecodeAll(packed, make([]byte, 0, size))
			if err != nil {
				b.err = &corruptError{b.place, err}
				return // what was decoded before the error is not to be trusted
			}
			b.text = text
		}
		if !p.do(decode) {
			decoding.Done()
			return
		}
		if !p.queueBlock(b) {
			return
		}
	}
}

// readWhole reads the walker's frame, whose content has size bytes.
func readWhole(walker *frameWalker, size int64) ([]byte, error) {
	// A frame of blocks of one byte each is four times its content.
	limit := 4*size + 1024
	packed, err := io.ReadAll(io.LimitReader(walker, limit))
	if err == nil && int64(len(packed)) == limit {
		err = errors.New("its blocks are longer than its content")
	}
	return packed, err
}

// breakOff queues what can be decoded of a frame that could not be read whole:
// something only where the file was cut. A frame that is broken in another way
// might decode to lines that no one wrote.
func (p *pipeline) breakOff(walker *frameWalker, packed []byte, err error) {
	if walker.disk != nil {
		p.queueBlock(readyBlock(nil, walker.disk, walker.at))
		return
	}
	if walker.failure != nil {
		err = walker.failure
	}
	if !walker.cut || holdsFrame(packed) {
		p.queueBlock(readyBlock(nil, &corruptError{walker.at, err}, walker.at))
		return
	}
	text, err := decodeCut(walker, packed)
	if !errors.Is(err, errCut) {
		text = nil
	}
	p.queueBlock(readyBlock(text, err, walker.at))
}

// holdsFrame: another frame begins inside of what seems to be one that was cut,
// so it was not cut: its own lengths are wrong.
func holdsFrame(packed []byte) bool {
	for at := len(zstdMagic); at < len(packed); {
		next := bytes.Index(packed[at:], zstdMagic)
		if next < 0 {
			return false
		}
		at += next
		var header zstd.Header
		if header.Decode(packed[at:min(at+zstd.HeaderMaxSize, len(packed))]) == nil && header.HasFCS {
			return true
		}
		at++
	}
	return false
}

// decodeCut decodes the blocks that are there of a frame that was cut.
func decodeCut(walker *frameWalker, packed []byte) ([]byte, error) {
	decoder, err := newFrameDecoder(walker)
	if err != nil {
		return nil, err
	}
	defer decoder.close()
	if err := decoder.begin(io.MultiReader(bytes.NewReader(packed), endOf{io.ErrUnexpectedEOF})); err != nil {
		return nil, &corruptError{walker.at, err}
	}
	text, err := io.ReadAll(io.LimitReader(decoder, wholeFrame))
	if err == nil {
		err = errCut // only the checksum is missing
	}
	return text, err
}

// endOf is the end of an input with an error.
type endOf struct{ err error }

func (e endOf) Read([]byte) (int, error) { return 0, e.err }

// streamFrame queues the content of one frame block by block; false: the
// reading has come to its end.
func (p *pipeline) streamFrame(walker *frameWalker) bool {
	decoder, err := newFrameDecoder(walker)
	if err != nil {
		p.queueBlock(readyBlock(nil, err, walker.at))
		return false
	}
	defer decoder.close()
	if err := decoder.begin(walker); err != nil {
		p.queueBlock(readyBlock(nil, &corruptError{walker.at, err}, walker.at))
		return false
	}
	for size := firstBlock; ; size = min(2*size, largestBlock) {
		text := make([]byte, size)
		n, err := readFull(decoder, text)
		if errors.Is(err, io.EOF) {
			return p.queueBlock(readyBlock(text[:n], nil, walker.at))
		}
		if !p.queueBlock(readyBlock(text[:n], err, walker.at)) || err != nil {
			return false
		}
	}
}

// readFull fills text as far as it can and keeps the reader's own error.
func readFull(in io.Reader, text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		var more int
		more, err = in.Read(text[n:])
		n += more
	}
	return n, err
}

// split makes chunks of whole lines of the blocks, in order.
func (p *pipeline) split(from place) {
	s := splitter{pipeline: p, at: place{line: 1}, header: from.line - 1}
	for b := range p.blocks {
		if !p.wait(b.ready) {
			return
		}
		if err := s.add(b.text); err != nil {
			s.finish(err, b.place)
			return
		}
		if b.err != nil {
			s.finish(b.err, b.place)
			return
		}
	}
}

// splitter keeps the begun line between blocks.
type splitter struct {
	pipeline *pipeline
	at       place // of what comes next, the begun line before it
	begun    []byte
	header   int64 // lines at the start that are not given on
}

func (s *splitter) add(text []byte) error {
	if len(s.begun) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			return s.keep(text)
		}
		if err := s.keep(text[:end]); err != nil {
			return err
		}
		text = text[end:]
		line := s.begun
		s.begun = nil
		if !s.give(&chunk{text: line}) {
			return s.pipeline.ctx.Err()
		}
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	if end > 0 && !s.give(&chunk{text: text[:end:end]}) {
		return s.pipeline.ctx.Err()
	}
	return s.keep(text[end:])
}

func (s *splitter) keep(text []byte) error {
	if int64(len(s.begun))+int64(len(text)) > maxLine {
		return fmt.Errorf("line %d (byte %d): longer than %d bytes", s.at.line, s.at.byte, int64(maxLine))
	}
	s.begun = append(s.begun, text...)
	return nil
}

// finish gives the last chunk: what is left without a line end.
func (s *splitter) finish(end error, at int64) {
	s.give(&chunk{text: s.begun, rest: true, end: end, place: at})
}

// give queues a chunk and has its lines decoded.
func (s *splitter) give(c *chunk) bool {
	c.ready = make(chan struct{})
	c.line, c.byte = s.at.line, s.at.byte
	s.at.line += int64(bytes.Count(c.text, []byte{'\n'}))
	s.at.byte += int64(len(c.text))
	header := s.header
	p := s.pipeline
	if !p.do(func(d *decoder) { defer close(c.ready); c.decode(d, p.name, header) }) {
		return false
	}
	select {
	case p.chunks <- c:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// decode decodes the chunk's lines after the first header lines of the file.
func (c *chunk) decode(d *decoder, name string, header int64) {
	d.skipped = skipped{}
	c.entries = make([]Entry, 0, bytes.Count(c.text, []byte{'\n'})+1)
	c.last = c.line - 1
	at, text := place{c.line, c.byte}, c.text
	for len(text) > 0 && c.err == nil {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		raw := bytes.TrimSpace(text[:end])
		if at.line <= header || len(raw) == 0 || c.decodeLine(d, name, raw, at) {
			c.last = at.line
		}
		text = text[end:]
		at.line++
		at.byte += int64(end)
	}
	c.skipped = d.skipped
	c.text = nil
}

// decodeLine decodes one line; false: it is not whole.
func (c *chunk) decodeLine(d *decoder, name string, raw []byte, at place) bool {
	line, err := d.decodeFast(raw)
	switch {
	case err == nil && line == nil: // of an unknown kind
		return true
	case err == nil && len(c.entries) > 0 && isEnd(c.entries[len(c.entries)-1]):
		c.err = &LineError{Name: name, Line: at.line, Byte: at.byte, Err: errAfterEnd}
	case err == nil:
		c.entries = append(c.entries, Entry{Line: line, Number: at.line})
		return true
	case c.rest && !jx.Valid(raw):
		// The begun line at the end of a file: not an error, a cut.
		if errors.Is(c.end, io.EOF) {
			c.end = errBegunLine
		}
	default:
		c.err = &LineError{Name: name, Line: at.line, Byte: at.byte, Err: err}
	}
	return false
}

var errAfterEnd = errors.New("a line after the end line; a file holds one history")

func isEnd(e Entry) bool {
	_, is := e.Line.(*End)
	return is
}

// errBegunLine says that a text ends inside of a line.
var errBegunLine = errors.New("the file ends inside of a line")

// LineError says which line of a file cannot be read, and why.
type LineError struct {
	// Name of the file, Line the number of the line, Byte the offset of its first
	// byte in the text (uncompressed, if the file is compressed).
	Name string
	Line int64
	Byte int64
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s: line %d (byte %d of the text): %v", e.Name, e.Line, e.Byte, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }
