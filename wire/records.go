// This file holds the walk through the records of a batch (message format 2,
// Kafka's protocol guide).

package wire

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layout of a record batch's head.
const (
	batchAttributes = 21
	batchCount      = 57
	batchRecords    = 61
	codecMask       = 0x07
)

var errRecords = errors.New("the records of a batch do not follow Kafka's message format 2")

// records gives the records of a batch, decompressed, and their number.
func records(raw []byte) (content []byte, count int, err error) {
	if len(raw) < batchRecords {
		return nil, 0, errRecords
	}
	count = int(int32(binary.BigEndian.Uint32(raw[batchCount:])))
	codec := kgo.CompressionCodecType(raw[batchAttributes+1] & codecMask)
	content, err = decompressor.Decompress(raw[batchRecords:], codec)
	return content, count, err
}

// eachHeader visits the value of one header of every record.
func eachHeader(raw []byte, name string, visit func([]byte)) error {
	content, count, err := records(raw)
	if err != nil {
		return err
	}
	r := reader{b: content}
	for range count {
		size := r.varint()
		if r.bad || size < 0 || size > int64(len(r.b)) {
			return errRecords
		}
		record := reader{b: r.b[:size]}
		r.b = r.b[size:]
		value := record.header(name)
		if record.bad {
			return errRecords
		}
		visit(value)
	}
	return nil
}

// reader reads the fields of a record; bad once something does not fit.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes reads a length and as many bytes; nil for a negative length.
func (r *reader) bytes() []byte {
	n := r.varint()
	if n < 0 || r.bad {
		return nil
	}
	if n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// header skips to a record's headers and gives the value of the named one.
func (r *reader) header(name string) []byte {
	if len(r.b) == 0 {
		r.bad = true
		return nil
	}
	r.b = r.b[1:] // attributes
	r.varint()    // timestamp delta
	r.varint()    // offset delta
	r.bytes()     // key
	r.bytes()     // value
	for n := r.varint(); n > 0 && !r.bad; n-- {
		key, value := r.bytes(), r.bytes()
		if string(key) == name {
			return value
		}
	}
	return nil
}
