// This file holds frames: a length of four bytes, a header, a body (Kafka's protocol
// guide), and the buffers that they are read into.

package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFrame bounds a frame: brokers accept 100 MiB (socket.request.max.bytes), and
	// a fetch answer may be somewhat larger. What claims more is not Kafka.
	maxFrame = 256 << 20
	// readSize is what is read from a connection at once, and what a frame's buffer
	// begins with: no length that is merely claimed is believed with more memory.
	readSize = 64 << 10
	// maxPooled is the largest buffer that is kept for another frame.
	maxPooled = 1 << 20
)

var (
	errNotKafka = errors.New("this is not Kafka's protocol")
	errHeader   = fmt.Errorf("%w: a frame without a header", errNotKafka)
)

// framePool keeps buffers of frames. The zero value is ready.
type framePool struct{ pool sync.Pool }

// get gives an empty buffer.
func (p *framePool) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 4<<10)
}

// put takes a buffer back that nobody looks at any more.
func (p *framePool) put(b []byte) {
	if cap(b) > 0 && cap(b) <= maxPooled {
		p.pool.Put(&b)
	}
}

// read reads a frame, and gives it with its length in front.
func (p *framePool) read(r *bufio.Reader) ([]byte, error) {
	size, err := frameSize(r)
	if err != nil {
		return nil, err
	}
	b := p.get()
	for len(b) < size {
		have := len(b)
		step := min(size-have, max(readSize, have))
		b = slices.Grow(b, step)[:have+step]
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			p.put(b)
			return nil, err
		}
	}
	return b, nil
}

// frameSize looks at the length of the next frame, and gives the size of the frame
// with its length.
func frameSize(r *bufio.Reader) (int, error) {
	length, err := r.Peek(4)
	if err != nil {
		return 0, err
	}
	size := binary.BigEndian.Uint32(length)
	if size > maxFrame {
		return 0, fmt.Errorf("a frame of %d bytes: %w", size, errNotKafka)
	}
	return 4 + int(size), nil
}

// passOn passes so many bytes on, in pieces as they come.
func passOn(to io.Writer, from *bufio.Reader, size int) error {
	for size > 0 {
		if _, err := from.Peek(1); err != nil {
			return err
		}
		piece, err := from.Peek(min(size, from.Buffered()))
		if err != nil {
			return err
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
		size -= len(piece)
		_, _ = from.Discard(len(piece)) // they are buffered
	}
	return nil
}

// readHeader reads the request header. The client's id is a plain nullable string in
// every header version (KIP-482).
func (x *Exchange) readHeader(lastName string) error {
	b := x.body
	if len(b) < 10 {
		return errHeader
	}
	x.Key, x.Version = int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	x.Correlation = int32(binary.BigEndian.Uint32(b[4:]))
	length := max(int(int16(binary.BigEndian.Uint16(b[8:]))), 0)
	if len(b) < 10+length {
		return errHeader
	}
	x.ClientID = lastName // the same on all requests of a connection, in general
	if name := b[10 : 10+length]; string(name) != lastName {
		x.ClientID = string(name)
	}
	x.head = 10 + length
	return nil
}

// skipTags skips a section of tagged fields.
func skipTags(b []byte, offset int) (int, error) {
	count, n := binary.Uvarint(b[min(offset, len(b)):])
	if n <= 0 {
		return 0, errHeader
	}
	offset += n
	for range count {
		if _, n = binary.Uvarint(b[min(offset, len(b)):]); n <= 0 {
			return 0, errHeader
		}
		offset += n
		size, n := binary.Uvarint(b[min(offset, len(b)):])
		if n <= 0 || size > uint64(len(b)) || offset+n+int(size) > len(b) {
			return 0, errHeader
		}
		offset += n + int(size)
	}
	return offset, nil
}

// readAnswer decodes an answer, whose header has a section of tagged fields if its
// version is a flexible one. (ApiVersions is the exception; it is not decoded here.)
func readAnswer(frame []byte, into kmsg.Response) error {
	if len(frame) < 8 {
		return errHeader
	}
	offset := 8
	if into.IsFlexible() {
		var err error
		if offset, err = skipTags(frame, offset); err != nil {
			return err
		}
	}
	return into.ReadFrom(frame[offset:])
}

// answerFrame makes a frame of an answer.
func answerFrame(correlation int32, response kmsg.Response) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(correlation))
	if response.IsFlexible() {
		frame = append(frame, 0) // no tagged fields
	}
	return sealFrame(response.AppendTo(frame))
}

// sealFrame sets a frame's length.
func sealFrame(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}
