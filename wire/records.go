// This file holds the walk through the records of a batch (message format 2, Kafka's
// protocol guide).

package wire

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layout of a record batch's head.
const (
	batchLength        = 8
	batchMagic         = 16
	batchChecksum      = 17
	batchAttributes    = 21
	batchProducerID    = 43
	batchProducerEpoch = 51
	batchBaseSequence  = 53
	batchCount         = 57
	batchRecords       = 61

	// Bits of the lower byte of the attributes.
	codecMask        = 0x07
	transactionalBit = 0x10
	controlBit       = 0x20
)

var errRecords = errors.New("the records of a batch do not follow Kafka's message format 2")

// soundHead says whether a batch begins with a whole head of message format 2.
func soundHead(raw []byte) bool { return len(raw) >= batchRecords && raw[batchMagic] == 2 }

// batchEnd gives where the first batch of raw ends.
func batchEnd(raw []byte) (int, error) {
	if !soundHead(raw) {
		return 0, errRecords
	}
	end := int64(batchLength+4) + int64(binary.BigEndian.Uint32(raw[batchLength:]))
	if end < batchRecords || end > int64(len(raw)) {
		return 0, errRecords
	}
	return int(end), nil
}

// codecOf gives the compression codec of a batch with a sound head.
func codecOf(raw []byte) kgo.CompressionCodecType {
	return kgo.CompressionCodecType(raw[batchAttributes+1] & codecMask)
}

// content gives the records of the first batch of raw, decompressed, and their number.
// They are the batch's own bytes where it is not compressed, else a buffer of the
// pool that release gives back.
func content(raw []byte) (records []byte, count int, release func(), err error) {
	end, err := batchEnd(raw)
	if err != nil {
		return nil, 0, nil, err
	}
	codec := codecOf(raw)
	records, err = decompressor.Decompress(raw[batchRecords:end], codec)
	if err != nil {
		return nil, 0, nil, err
	}
	release = func() {}
	if codec != kgo.CodecNone {
		release = func() { decompressed.PutDecompressBytes(records) }
	}
	return records, int(int32(binary.BigEndian.Uint32(raw[batchCount:]))), release, nil
}

// decompressed keeps buffers, and decompressor its readers; both are safe for
// concurrent use.
var (
	decompressed = new(bufferPool)
	decompressor = kgo.DefaultDecompressor(decompressed)
)

// bufferPool is a kgo.PoolDecompressBytes.
type bufferPool struct{ pool sync.Pool }

// GetDecompressBytes gives a buffer of any size.
func (p *bufferPool) GetDecompressBytes([]byte, kgo.CompressionCodecType) []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 0, readSize)
}

// PutDecompressBytes keeps the buffer unless it is a large one.
func (p *bufferPool) PutDecompressBytes(b []byte) {
	if cap(b) > 0 && cap(b) <= 4*maxPooled {
		p.pool.Put(&b)
	}
}

// Record is one record of a batch.
type Record struct {
	// Key and Value are nil where the record has none.
	Key, Value []byte
	headers    []byte
	count      int64
}

// Header gives the value of the first header of that name; nil if there is none.
func (r *Record) Header(name string) []byte {
	read := reader{b: r.headers}
	for n := r.count; n > 0 && !read.bad; n-- {
		if key, value := read.bytes(), read.bytes(); string(key) == name {
			return value
		}
	}
	return nil
}

// EachHeader calls visit with every header, in order.
func (r *Record) EachHeader(visit func(name, value []byte)) {
	read := reader{b: r.headers}
	for n := r.count; n > 0 && !read.bad; n-- {
		visit(read.bytes(), read.bytes())
	}
}

// eachRecord visits the records of the first batch of raw.
func eachRecord(raw []byte, visit func(*Record)) error {
	_, err := eachRecordSized(raw, visit)
	return err
}

// eachRecordSized is eachRecord, and gives the size that the batch has uncompressed.
func eachRecordSized(raw []byte, visit func(*Record)) (size int64, err error) {
	records, count, release, err := content(raw)
	if err != nil {
		return 0, err
	}
	defer release()
	r := reader{b: records}
	var record Record
	for range count {
		if !record.read(r.bytes()) {
			return 0, errRecords
		}
		visit(&record)
	}
	return batchRecords + int64(len(records)), nil
}

// read reads a record out of its bytes, and says whether they are one.
func (r *Record) read(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	fields := reader{b: b[1:]} // behind the attributes
	fields.varint()            // timestamp delta
	fields.varint()            // offset delta
	r.Key, r.Value = fields.bytes(), fields.bytes()
	r.count = fields.varint()
	r.headers = fields.b
	if fields.bad || r.count < 0 {
		return false
	}
	for n := r.count; n > 0 && !fields.bad; n-- {
		fields.bytes()
		fields.bytes()
	}
	return !fields.bad
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
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
