// This file holds the lies: what no healthy broker does. They plant a wrong broker,
// so that one can see whether it is caught.

package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The lies. Each calls took, if given, whenever it took effect, from a connection's
// goroutine. Requests that they do not fit pass.
//
// A lie that keeps a batch from the log, or puts it there without its producer id,
// leaves a gap in the sequence of an idempotent producer that a broker would refuse
// to go on behind. So from then on every batch of that producer id and epoch for that
// partition, on any connection of the network, goes to the broker without them.

// AcknowledgeUnwritten acknowledges a Produce request that the broker never has, at
// the offsets where the logs seem to end. It does not fit acks=0.
func AcknowledgeUnwritten(name string, took func()) Decision {
	return Decision{kind: acknowledgeUnwritten, name: name, took: took}
}

// WriteTwice has the broker write a Produce request a second time. The copy carries
// no producer id, or an idempotent batch would be recognised, and is in no
// transaction. The client gets the first answer.
func WriteTwice(name string, took func()) Decision {
	return Decision{kind: writeTwice, name: name, took: took}
}

// SwapBatches has the broker write a Produce request behind the next one of its
// connection that is for one of its partitions, both without producer ids; where none
// comes within a tenth of a second it passes alone. Both are answered with the places
// where they lie. It does not fit acks=0.
func SwapBatches(name string, took func()) Decision {
	return Decision{kind: swapBatches, name: name, took: took}
}

// CorruptByte changes the last byte of the first value of a Produce request that is
// not empty, with a right checksum.
func CorruptByte(name string, took func()) Decision {
	return Decision{kind: corruptByte, name: name, took: took}
}

// DivergeReads exchanges the contents (key, value, headers) of two neighbouring
// records of one batch in the answer to a Fetch request, with a right checksum. An
// answer without a batch of two records passes.
func DivergeReads(name string, took func()) Decision {
	return Decision{kind: divergeReads, name: name, took: took}
}

func (d Decision) tookEffect() {
	if d.took != nil {
		d.took()
	}
}

// acknowledge acknowledges a request that the broker does not get.
func (c *connection) acknowledge(f *flight) bool {
	c.network.forged.add(f.exchange)
	f.own, f.answers = c.network.ends.invent(f.exchange)
	f.decision.tookEffect()
	return c.answerOurselves(f)
}

// forwardTwin sends a copy of a request that has just been sent; its answer is
// swallowed.
func (c *connection) forwardTwin(f *flight, frame []byte) bool {
	if f.unanswered() {
		if _, err := c.server.Write(frame); err != nil {
			return c.silent.Load()
		}
		f.decision.tookEffect()
		return true
	}
	twin := &flight{exchange: &Exchange{Key: f.exchange.Key, Version: f.exchange.Version, Correlation: f.exchange.Correlation},
		decision: f.decision, twin: true}
	return c.forward(twin, frame)
}

// holdFor is how long a request waits to be overtaken.
const holdFor = 100 * time.Millisecond

// hold keeps the request back until the next one for one of its partitions has gone
// before it. Its answer is due first all the same.
func (c *connection) hold(f *flight) bool {
	c.network.forged.add(f.exchange)
	c.held, c.heldUntil = f, time.Now().Add(holdFor)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ask(f)
	return true
}

// letGoBehind sends the request that is held, if f, which has just been sent, is for
// one of its partitions.
func (c *connection) letGoBehind(f *flight) bool {
	if c.held == nil || f.exchange.Produce == nil {
		return true
	}
	for i := range c.held.exchange.Produce.Batches {
		for j := range f.exchange.Produce.Batches {
			a, b := &c.held.exchange.Produce.Batches[i], &f.exchange.Produce.Batches[j]
			if a.Topic == b.Topic && a.id == b.id && a.Partition == b.Partition {
				return c.letGo(true)
			}
		}
	}
	return true
}

// letGo sends the request that is held, if one is; overtaken says whether another one
// went before it.
func (c *connection) letGo(overtaken bool) bool {
	f := c.held
	if f == nil {
		return true
	}
	c.held = nil
	_ = c.client.SetReadDeadline(time.Time{})
	if overtaken {
		f.decision.tookEffect()
	}
	return c.forward(f, c.outgoing(f))
}

// sequence is a run of sequence numbers: those of a producer in a partition.
type sequence struct {
	topic     string
	id        [16]byte
	partition int32
	producer  int64
	epoch     int16
}

func sequenceOf(b *ProduceBatch) sequence {
	return sequence{b.Topic, b.id, b.Partition, b.ProducerID, b.ProducerEpoch}
}

// forgedSequences are those that have a gap by a lie. The zero value is ready.
type forgedSequences struct {
	some atomic.Bool
	mu   sync.Mutex
	gaps map[sequence]bool
}

// add marks the sequences of a request.
func (s *forgedSequences) add(x *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range x.Produce.Batches {
		if x.Produce.Batches[i].ProducerID < 0 {
			continue
		}
		if s.gaps == nil {
			s.gaps = make(map[sequence]bool)
		}
		s.gaps[sequenceOf(&x.Produce.Batches[i])] = true
		s.some.Store(true)
	}
}

// of says which batches of a request are of a sequence with a gap; nil if none is.
func (s *forgedSequences) of(x *Exchange) []bool {
	if !s.some.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var forged []bool
	for i := range x.Produce.Batches {
		if s.gaps[sequenceOf(&x.Produce.Batches[i])] {
			if forged == nil {
				forged = make([]bool, len(x.Produce.Batches))
			}
			forged[i] = true
		}
	}
	return forged
}

// anonymous gives a copy of a batch that carries no producer id and is in no
// transaction.
func anonymous(raw []byte) []byte {
	if !soundHead(raw) {
		return raw
	}
	batch := bytes.Clone(raw)
	batch[batchAttributes+1] &^= transactionalBit
	for i := batchProducerID; i < batchCount; i++ {
		batch[i] = 0xFF // producer id, epoch and base sequence are -1
	}
	return seal(batch)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal sets a batch's checksum.
func seal(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[batchChecksum:], crc32.Checksum(batch[batchAttributes:], castagnoli))
	return batch
}

// withRecords gives a copy of a batch with other records, compressed as it was.
func withRecords(raw, records []byte) []byte {
	batch := bytes.Clone(raw[:batchRecords])
	if codec := codecOf(raw); codec != kgo.CodecNone {
		compressor, err := kgo.DefaultCompressor(codecNamed(codec))
		if err == nil {
			records, codec = compressor.Compress(new(bytes.Buffer), records)
		}
		if err != nil || codec < 0 {
			return nil
		}
	}
	batch = append(batch, records...)
	binary.BigEndian.PutUint32(batch[batchLength:], uint32(len(batch)-batchLength-4))
	return seal(batch)
}

func codecNamed(codec kgo.CompressionCodecType) kgo.CompressionCodec {
	switch codec {
	case kgo.CodecGzip:
		return kgo.GzipCompression()
	case kgo.CodecSnappy:
		return kgo.SnappyCompression()
	case kgo.CodecLz4:
		return kgo.Lz4Compression()
	default:
		return kgo.ZstdCompression()
	}
}

// corruption gives one batch of a request that is to be corrupted with a byte of one
// value changed, and which; nil where no record has a value.
func corruption(f *flight) (batch []byte, at int) {
	if f.decision.kind != corruptByte {
		return nil, 0
	}
	for i := range f.exchange.Produce.Batches {
		if batch = corrupted(f.exchange.Produce.Batches[i].raw); batch != nil {
			f.decision.tookEffect()
			return batch, i
		}
	}
	return nil, 0
}

func corrupted(raw []byte) []byte {
	records, count, release, err := content(raw)
	if err != nil {
		return nil
	}
	defer release()
	records = bytes.Clone(records)
	r := reader{b: records}
	var record Record
	for range count {
		if !record.read(r.bytes()) {
			return nil
		}
		if last := len(record.Value) - 1; last >= 0 {
			record.Value[last] ^= 0x01
			return withRecords(raw, records)
		}
	}
	return nil
}

// diverged gives a Fetch answer in which two neighbouring records of one batch have
// exchanged their contents; the same answer where no batch has two.
func diverged(frame []byte, f *flight) []byte {
	response := kmsg.NewPtrFetchResponse()
	if f.exchange.Version > response.MaxVersion() {
		return frame
	}
	response.SetVersion(f.exchange.Version)
	if readAnswer(frame, response) != nil {
		return frame
	}
	for i := range response.Topics {
		for j := range response.Topics[i].Partitions {
			p := &response.Topics[i].Partitions[j]
			if swapped := swapInBatches(p.RecordBatches); swapped != nil {
				p.RecordBatches = swapped
				f.decision.tookEffect()
				return answerFrame(f.exchange.Correlation, response)
			}
		}
	}
	return frame
}

// swapInBatches exchanges two records in the first of the batches that has two; nil
// where none has.
func swapInBatches(batches []byte) []byte {
	for at := 0; ; {
		end, err := batchEnd(batches[at:])
		if err != nil {
			return nil // no more, or the piece of one that fetches may end with
		}
		if swapped := swapLastTwo(batches[at : at+end]); swapped != nil {
			return append(append(bytes.Clone(batches[:at]), swapped...), batches[at+end:]...)
		}
		at += end
	}
}

// swapLastTwo exchanges the contents of the last two records of a batch: those before
// them may lie below the offset that was asked for. Nil where it has fewer, or is a
// control batch.
func swapLastTwo(raw []byte) []byte {
	if raw[batchAttributes+1]&controlBit != 0 {
		return nil
	}
	records, count, release, err := content(raw)
	if err != nil || count < 2 {
		return nil
	}
	defer release()
	r := reader{b: records}
	for i := 0; i < count-2 && !r.bad; i++ { // the count may be any
		r.bytes()
	}
	before := records[:len(records)-len(r.b)]
	firstPlace, firstContent := splitRecord(r.bytes())
	secondPlace, secondContent := splitRecord(r.bytes())
	if r.bad || firstPlace == nil || secondPlace == nil {
		return nil
	}
	swapped := appendRecord(bytes.Clone(before), firstPlace, secondContent)
	swapped = appendRecord(swapped, secondPlace, firstContent)
	return withRecords(raw, append(swapped, r.b...))
}

// splitRecord splits a record into its place (attributes and deltas) and its content
// (key, value, headers).
func splitRecord(record []byte) (place, content []byte) {
	if len(record) == 0 {
		return nil, nil
	}
	r := reader{b: record[1:]}
	r.varint()
	r.varint()
	if r.bad {
		return nil, nil
	}
	at := len(record) - len(r.b)
	return record[:at], record[at:]
}

func appendRecord(to, place, content []byte) []byte {
	to = binary.AppendVarint(to, int64(len(place)+len(content)))
	to = append(to, place...)
	return append(to, content...)
}

// logEnds remembers where the answers say that logs end, so that an invented offset
// is a plausible one. The zero value is ready.
type logEnds struct {
	mu  sync.Mutex
	end map[partitionName]int64
}

type partitionName struct {
	topic     string
	partition int32
}

// see learns from answers about a request's batches.
func (l *logEnds) see(x *Exchange, answers []batchAnswer) {
	if len(answers) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range x.Produce.Batches {
		b := &x.Produce.Batches[i]
		if a := at(answers, i); a != nil && a.Code == 0 && a.BaseOffset >= 0 {
			l.advance(partitionName{b.Topic, b.Partition}, a.BaseOffset+int64(b.Records))
		}
	}
}

func (l *logEnds) advance(p partitionName, end int64) {
	if l.end == nil {
		l.end = make(map[partitionName]int64)
	}
	l.end[p] = max(l.end[p], end)
}

// invent makes an answer that acknowledges every batch at the end of its log.
func (l *logEnds) invent(x *Exchange) (frame []byte, answers []batchAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return produceAnswer(x, func(i int) Answer {
		b := &x.Produce.Batches[i]
		p := partitionName{b.Topic, b.Partition}
		offset := l.end[p]
		l.advance(p, offset+int64(b.Records))
		return Answer{BaseOffset: offset}
	})
}
