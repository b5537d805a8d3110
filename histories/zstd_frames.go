// This file holds the walk over the frames of a zstd file: where each begins and
// ends, so that frames can be decoded in parallel, and so that a file that was
// cut is told from one that is corrupt. The layout is RFC 8878's.

package histories

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// wholeFrame is the largest content of a frame that is decoded at once, in
	// parallel with others. Larger ones, and those that do not say how large they
	// are, are decoded as a stream.
	wholeFrame = 16 << 20
	// maxWindow is the memory that a frame may ask for: what zstd itself accepts.
	maxWindow = 128 << 20
	// maxBlock is the largest block of a frame.
	maxBlock = 128 << 10
)

var (
	zstdMagic      = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skippableMagic = []byte{0x2a, 0x4d, 0x18} // after a byte 0x50 ... 0x5f
)

// errCut says that a compressed file ends inside of a frame.
var errCut = errors.New("the file ends inside of a zstd frame")

// corruptError says that a frame is not what its writer wrote.
type corruptError struct {
	at  int64 // where the frame begins in the file
	err error
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("the zstd frame that begins at byte %d is corrupt: %v", e.at, e.err)
}

func (e *corruptError) Unwrap() error { return e.err }

// frameWalker reads a zstd file frame by frame. As an io.Reader it gives the
// compressed bytes of the frame that next came to, then io.EOF.
type frameWalker struct {
	in *bufio.Reader
	// at is where the frame begins in the file, end how far the file was read.
	at, end int64

	left     int64 // bytes to pass on before the next block header is due
	blocks   bool  // more blocks follow
	checksum bool  // a checksum follows the last block
	cut      bool
	failure  error // of the frame's structure
	disk     error // of reading the file
}

func newFrameWalker(in io.Reader) *frameWalker {
	return &frameWalker{in: bufio.NewReaderSize(in, 64<<10)}
}

// next goes to the next frame with content and gives its header; io.EOF at the
// end of the file, errCut where the file ends inside of what is no frame yet.
func (w *frameWalker) next() (zstd.Header, error) {
	for {
		w.at = w.end
		head, err := w.in.Peek(zstd.HeaderMaxSize)
		switch {
		case len(head) == 0 && err == io.EOF:
			return zstd.Header{}, io.EOF
		case len(head) == 0:
			return zstd.Header{}, err
		case isSkippable(head):
			if err := w.skip(head); err != nil {
				return zstd.Header{}, err
			}
			continue
		}
		return w.open(head)
	}
}

func isSkippable(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], skippableMagic)
}

func (w *frameWalker) skip(head []byte) error {
	if len(head) < 8 {
		return errCut
	}
	size := 8 + int64(binary.LittleEndian.Uint32(head[4:]))
	n, err := io.CopyN(io.Discard, w.in, size)
	w.end += n
	if errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}

// open begins a frame with content.
func (w *frameWalker) open(head []byte) (zstd.Header, error) {
	var header zstd.Header
	if !bytes.HasPrefix(head, zstdMagic[:min(len(head), 4)]) {
		return header, w.noFrame(head)
	}
	if len(head) < 4 {
		return header, errCut
	}
	if err := header.Decode(head); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && len(head) < zstd.HeaderMaxSize {
			return header, errCut
		}
		return header, &corruptError{w.at, err}
	}
	w.left, w.blocks, w.checksum = int64(header.HeaderSize), true, header.HasCheckSum
	w.cut, w.failure = false, nil
	return header, nil
}

// noFrame says what is there instead of a frame. Zeros up to the end are what a
// power failure leaves of a file that was being written.
func (w *frameWalker) noFrame(head []byte) error {
	for {
		if len(bytes.Trim(head, "\x00")) > 0 {
			return &corruptError{w.at, errors.New("no zstd frame begins here")}
		}
		n, err := w.in.Discard(len(head))
		w.end += int64(n)
		if err != nil {
			return err
		}
		if head, err = w.in.Peek(zstd.HeaderMaxSize); len(head) == 0 {
			if err == io.EOF {
				return errCut
			}
			return err
		}
	}
}

// Read gives bytes of the current frame.
func (w *frameWalker) Read(p []byte) (int, error) {
	if w.left == 0 {
		if err := w.part(); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > w.left {
		p = p[:w.left]
	}
	n, err := w.in.Read(p)
	w.left -= int64(n)
	w.end += int64(n)
	if err == io.EOF {
		w.cut, err = true, io.ErrUnexpectedEOF
	} else if err != nil {
		w.disk = err
	}
	return n, err
}

// part finds how long the frame's next part is: a block with its header, or the
// checksum.
func (w *frameWalker) part() error {
	if !w.blocks {
		if w.checksum {
			w.checksum, w.left = false, 4
			return nil
		}
		return io.EOF
	}
	head, err := w.in.Peek(3)
	if len(head) < 3 {
		if err != io.EOF {
			w.disk = err
			return err
		}
		w.cut = true
		w.left = int64(len(head)) + 1 // the rest is passed on, then the end is seen
		return nil
	}
	bits := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16
	size := int64(bits >> 3)
	w.blocks = bits&1 == 0
	switch kind := bits >> 1 & 3; {
	case kind == 3:
		w.failure = errors.New("a block of a reserved type")
	case size > maxBlock:
		w.failure = fmt.Errorf("a block of %d bytes", size)
	case kind == 1:
		size = 1 // one byte that is repeated
	}
	w.left = 3 + size
	return w.failure
}

// frameDecoder decodes the current frame of a walker as a stream.
type frameDecoder struct {
	walker *frameWalker
	zstd   *zstd.Decoder
}

func newFrameDecoder(walker *frameWalker) (*frameDecoder, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &frameDecoder{walker: walker, zstd: decoder}, nil
}

// begin begins to decode the walker's current frame, of which from holds the
// compressed bytes.
func (d *frameDecoder) begin(from io.Reader) error { return d.zstd.Reset(from) }

// Read gives content of the frame, io.EOF at its end, errCut where the file ends
// before, a *corruptError where the frame is broken.
func (d *frameDecoder) Read(p []byte) (int, error) {
	n, err := d.zstd.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case d.walker.disk != nil:
		return n, d.walker.disk
	case d.walker.failure != nil:
		return n, &corruptError{d.walker.at, d.walker.failure}
	case d.walker.cut && errors.Is(err, io.ErrUnexpectedEOF):
		return n, errCut
	}
	return n, &corruptError{d.walker.at, err}
}

func (d *frameDecoder) close() { d.zstd.Close() }

// zstdText reads the content of all frames of a zstd file one after the other.
type zstdText struct {
	walker  *frameWalker
	decoder *frameDecoder
	inside  bool
}

func newZstdText(in io.Reader) (*zstdText, error) {
	walker := newFrameWalker(in)
	decoder, err := newFrameDecoder(walker)
	if err != nil {
		return nil, err
	}
	return &zstdText{walker: walker, decoder: decoder}, nil
}

func (t *zstdText) Read(p []byte) (int, error) {
	for {
		if !t.inside {
			if _, err := t.walker.next(); err != nil {
				return 0, err
			}
			if err := t.decoder.begin(t.walker); err != nil {
				return 0, &corruptError{t.walker.at, err}
			}
			t.inside = true
		}
		n, err := t.decoder.Read(p)
		if errors.Is(err, io.EOF) {
			t.inside, err = false, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (t *zstdText) close() { t.decoder.close() }
