// This file holds the reading of a replica's segment files: record batches of message
// format 2, as Kafka's protocol guide describes them, one behind the other.

package clients

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/histories"
)

// The layout of a record batch's head.
const (
	batchLength    = 8  // counts what follows it
	batchStart     = 12 // what the length counts
	batchMagic     = 16
	batchLastDelta = 23 // from the first offset to the last one
	batchCount     = 57
	batchRecords   = 61

	// maxBatch bounds the memory that a damaged length can claim.
	maxBatch = 128 << 20
)

// segment is a segment file with the offset that its name says.
type segment struct {
	SegmentFile
	base int64
	// active: the last one, which a broker may be appending to.
	active bool
}

// segments gives the segment files among files, in offset order.
func segments(files []SegmentFile) []segment {
	var found []segment
	for _, file := range files {
		name, isLog := strings.CutSuffix(file.Name, ".log")
		base, err := strconv.ParseInt(name, 10, 64)
		if isLog && err == nil && base >= 0 {
			found = append(found, segment{SegmentFile: file, base: base})
		}
	}
	slices.SortFunc(found, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	if len(found) > 0 {
		found[len(found)-1].active = true
	}
	return found
}

// readSegments reads all of a replica's log. The problem is what ended the reading
// early, the error is of writing the history.
func (r *replicaReader) readSegments(ctx context.Context, read *histories.ReplicaRead) (problem, err error) {
	files, err := r.Segments(ctx, read.Replica, read.Partition)
	if err != nil {
		return fmt.Errorf("listing the segment files: %w", err), nil
	}
	found := segments(files)
	if len(found) == 0 {
		return errors.New("the replica has no segment file (NNNNNNNNNNNNNNNNNNNN.log)"), nil
	}
	read.LogStart, read.Position = found[0].base, found[0].base
	for _, s := range found {
		if problem, err := r.readSegment(ctx, read, s); problem != nil || err != nil {
			return problem, err
		}
	}
	read.LogEnd = read.Position
	return nil, nil
}

// readSegment reads one file, batch by batch.
func (r *replicaReader) readSegment(ctx context.Context, read *histories.ReplicaRead, s segment) (problem, err error) {
	file, err := s.Open()
	if err != nil {
		return fmt.Errorf("opening %s: %w", s.Name, err), nil
	}
	defer func() { _ = file.Close() }() // it was only read
	batches := &batchReader{in: bufio.NewReaderSize(file, 1<<16)}
	for {
		at := batches.at
		batch, problem := batches.next()
		switch {
		case errors.Is(problem, io.EOF), errors.Is(problem, errTorn) && s.active:
			return nil, nil
		case problem == nil && ctx.Err() != nil:
			problem = fmt.Errorf("the time for reading the replicas was over at offset %d", read.Position)
		}
		var records []*kgo.Record
		if problem == nil {
			records, problem = r.decodeBatch(read, batch)
		}
		if problem != nil {
			return fmt.Errorf("%s, byte %d: %w", s.Name, at, problem), nil
		}
		if err := r.write(read, records); err != nil {
			return nil, err
		}
	}
}

// decodeBatch gives the records of a batch and moves the position past it.
func (r *replicaReader) decodeBatch(read *histories.ReplicaRead, batch []byte) ([]*kgo.Record, error) {
	first := int64(binary.BigEndian.Uint64(batch))
	last := first + int64(int32(binary.BigEndian.Uint32(batch[batchLastDelta:])))
	switch {
	case batch[batchMagic] != 2:
		return nil, fmt.Errorf("the batch at offset %d has message format %d; only format 2 (Kafka 0.11 and later) can be read",
			first, batch[batchMagic])
	case first < read.Position:
		return nil, fmt.Errorf("a batch at offset %d lies behind offset %d", first, read.Position-1)
	case last < first || last == math.MaxInt64:
		return nil, fmt.Errorf("the batch at offset %d says that it ends at offset %d", first, last)
	}
	decoded, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: first,
		Topic: read.Topic, Partition: read.Partition.Partition},
		&kmsg.FetchResponseTopicPartition{Partition: read.Partition.Partition, RecordBatches: batch}, r.decompressor, nil)
	count := int32(binary.BigEndian.Uint32(batch[batchCount:]))
	switch {
	case decoded.Err != nil:
		return nil, fmt.Errorf("the batch at offset %d: %w", first, decoded.Err)
	case next != last+1 || len(decoded.Records) != int(count):
		return nil, fmt.Errorf("the batch at offset %d says that it has %d records up to offset %d; it has %d up to offset %d",
			first, count, last, len(decoded.Records), next-1)
	}
	read.Position = next
	return decoded.Records, nil
}

// errTorn: the file ends inside of a batch, or with zeros: a broker was appending, or
// has given the file its length beforehand (log.preallocate).
var errTorn = errors.New("the file ends inside of a batch; only a replica's last segment may")

// batchReader reads the batches of one segment file.
type batchReader struct {
	in  *bufio.Reader
	at  int64 // of the next batch, in bytes
	raw []byte
}

// next gives the next batch, valid until it is called again; io.EOF: there is none.
func (b *batchReader) next() ([]byte, error) {
	head, err := b.in.Peek(batchStart)
	switch {
	case errors.Is(err, io.EOF) && len(head) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, errTorn
	case err != nil:
		return nil, err
	case bytes.Count(head, []byte{0}) == len(head):
		return nil, b.zeros()
	}
	length := int64(int32(binary.BigEndian.Uint32(head[batchLength:])))
	if length < batchRecords-batchStart || length > maxBatch {
		return nil, fmt.Errorf("a batch says that it has %d bytes", length)
	}
	b.raw = b.raw[:0]
	for size := int(batchStart + length); len(b.raw) < size; {
		// Only as far as the file has kept the length's promise.
		have := len(b.raw)
		step := min(size-have, max(1<<16, have))
		b.raw = slices.Grow(b.raw, step)[:have+step]
		if _, err := io.ReadFull(b.in, b.raw[have:]); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errTorn
		} else if err != nil {
			return nil, err
		}
	}
	b.at += int64(len(b.raw))
	return b.raw, nil
}

// zeros reads what follows a head of zeros, which may be zeros only.
func (b *batchReader) zeros() error {
	for {
		c, err := b.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return errTorn
		case err != nil:
			return err
		case c != 0:
			return errors.New("zeros lie where a batch should begin, and more behind them")
		}
	}
}
