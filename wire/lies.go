// This file holds the lies: what no healthy broker does. They plant a wrong broker,
// so that one can see whether it is caught.

package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The lies. Each calls took, if given, whenever it took effect. Requests that they
// do not fit pass.

// AcknowledgeUnwritten acknowledges a Produce request that the broker never has.
func AcknowledgeUnwritten(name string, took func()) Decision {
	return Decision{kind: acknowledgeUnwritten, name: name, took: took}
}

// WriteTwice has the broker write a Produce request a second time. The copy carries
// no producer id, or an idempotent batch would be recognised.
func WriteTwice(name string, took func()) Decision {
	return Decision{kind: writeTwice, name: name, took: took}
}

// SwapBatches has the broker write a Produce request behind the next one of its
// connection, both without producer ids; where none comes within a tenth of a second
// it passes alone.
func SwapBatches(name string, took func()) Decision {
	return Decision{kind: swapBatches, name: name, took: took}
}

// CorruptByte changes the last byte of the first value of a Produce request, with a
// right checksum.
func CorruptByte(name string, took func()) Decision {
	return Decision{kind: corruptByte, name: name, took: took}
}

// DivergeReads exchanges the contents of two records in the answer to a Fetch
// request, with a right checksum.
func DivergeReads(name string, took func()) Decision {
	return Decision{kind: divergeReads, name: name, took: took}
}

func (d Decision) tookEffect() {
	if d.took != nil {
		d.took()
	}
}

// lie does what was decided with a Produce request.
func (c *connection) lie(frame []byte, f *flight) bool {
	switch f.decision.kind {
	case acknowledgeUnwritten:
		f.ready, f.answer = c.network.ends.invent(f.exchange)
		f.decision.tookEffect()
		return c.answerOurselves(f)
	case writeTwice:
		return c.forwardTwice(frame, f)
	case swapBatches:
		return c.hold(frame, f)
	case corruptByte:
		if changed := corrupted(f.exchange); changed != nil {
			frame = changed
			f.decision.tookEffect()
		}
	default: // a lie about another kind of request
	}
	return c.forward(frame, f)
}

// forwardTwice sends the request and a copy under a correlation of its own, whose
// answer is swallowed.
func (c *connection) forwardTwice(frame []byte, f *flight) bool {
	if !c.forward(frame, f) {
		return false
	}
	twin := anonymous(frame, f.exchange)
	x := *f.exchange
	x.Correlation = ^f.exchange.Correlation
	binary.BigEndian.PutUint32(twin[8:], uint32(x.Correlation))
	if !c.forward(twin, &flight{exchange: &x, swallow: true}) {
		return false
	}
	f.decision.tookEffect()
	return true
}

// heldRequest waits for the next one to overtake it.
type heldRequest struct {
	frame []byte
	*flight
}

// holdFor is how long a request waits to be overtaken.
const holdFor = 100 * time.Millisecond

// hold keeps the request back until the next Produce request has gone before it.
// Its answer is due first all the same, so it is pending from now on.
func (c *connection) hold(frame []byte, f *flight) bool {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.held != nil {
		// It overtakes the one before it, and that is enough.
		return c.send(anonymous(frame, f.exchange), f) && c.release(f)
	}
	c.held = &heldRequest{anonymous(frame, f.exchange), f}
	c.push(f)
	held := c.held
	c.network.working.Go(func() {
		c.wait(holdFor)
		c.sending.Lock()
		defer c.sending.Unlock()
		if c.held == held {
			c.held = nil
			_ = c.sendHeld(held)
		}
	})
	return true
}

// release sends a request that was held back, now that another one, f, went before
// it. The caller holds sending.
func (c *connection) release(f *flight) bool {
	held := c.held
	if held == nil || f.exchange.Produce == nil || f.swallow {
		return true
	}
	c.held = nil
	held.decision.tookEffect()
	return c.sendHeld(held)
}

func (c *connection) sendHeld(held *heldRequest) bool {
	_, err := c.server.Write(held.frame)
	c.mu.Lock()
	held.reached = err == nil
	c.mu.Unlock()
	return err == nil
}

// anonymous gives a copy of the frame whose batches carry no producer id.
func anonymous(frame []byte, x *Exchange) []byte {
	twin := bytes.Clone(frame)
	for _, b := range x.Produce.Batches {
		at := bytes.Index(twin, b.raw)
		if len(b.raw) < batchRecords || at < 0 {
			continue
		}
		batch := twin[at : at+len(b.raw)]
		batch[batchAttributes+1] &^= transactionalBit
		for i := batchProducerID; i < batchProducerID+8+2+4; i++ {
			batch[i] = 0xFF // producer id, epoch and base sequence are -1
		}
		seal(batch)
	}
	return twin
}

// The layout of a record batch's head, continued.
const (
	batchLength      = 8
	batchChecksum    = 17
	batchProducerID  = 43
	transactionalBit = 0x10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal sets a batch's length and checksum.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[batchLength:], uint32(len(batch)-batchLength-4))
	binary.BigEndian.PutUint32(batch[batchChecksum:], crc32.Checksum(batch[batchAttributes:], castagnoli))
}

// plainBatch gives a batch with other, uncompressed records.
func plainBatch(raw, content []byte) []byte {
	batch := append(bytes.Clone(raw[:batchRecords]), content...)
	batch[batchAttributes+1] &^= codecMask
	seal(batch)
	return batch
}

// corrupted gives the request with one byte of one value changed; nil where no
// record has a value.
func corrupted(x *Exchange) []byte {
	for i := range x.Produce.request.Topics {
		for j := range x.Produce.request.Topics[i].Partitions {
			p := &x.Produce.request.Topics[i].Partitions[j]
			content, _, err := records(p.Records)
			if err != nil {
				continue
			}
			content = bytes.Clone(content)
			if !flipValue(content) {
				continue
			}
			sound := p.Records
			p.Records = plainBatch(p.Records, content)
			frame := append(make([]byte, 4, 4+len(x.body)), x.body[:x.head]...)
			frame = x.Produce.request.AppendTo(frame)
			p.Records = sound
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			return frame
		}
	}
	return nil
}

// flipValue changes the last byte of the first record's value.
func flipValue(content []byte) bool {
	r := reader{b: content}
	r.varint() // length
	if r.bad || len(r.b) == 0 {
		return false
	}
	r.b = r.b[1:]
	r.varint()
	r.varint()
	r.bytes() // key
	value := r.bytes()
	if r.bad || len(value) == 0 {
		return false
	}
	value[len(value)-1] ^= 0x01
	return true
}

// diverged gives a Fetch answer in which two neighbouring records of one batch have
// exchanged their contents; the same answer where no batch has two.
func diverged(frame []byte, f *flight) []byte {
	response := kmsg.NewPtrFetchResponse()
	if f.exchange.Version > response.MaxVersion() {
		return frame
	}
	response.SetVersion(f.exchange.Version)
	offset, err := answerHeader(frame[4:], response.IsFlexible())
	if err != nil || response.ReadFrom(frame[4+offset:]) != nil {
		return frame
	}
	for i := range response.Topics {
		for j := range response.Topics[i].Partitions {
			p := &response.Topics[i].Partitions[j]
			if swapped := swapFirstTwo(p.RecordBatches); swapped != nil {
				p.RecordBatches = swapped
				f.decision.tookEffect()
				return frameOf(f.exchange.Correlation, response)
			}
		}
	}
	return frame
}

// swapFirstTwo exchanges the contents of the first two records of the first batch;
// nil where it has fewer, or is a control batch.
func swapFirstTwo(batches []byte) []byte {
	if len(batches) < batchRecords {
		return nil
	}
	length := batchLength + 4 + int(binary.BigEndian.Uint32(batches[batchLength:]))
	if length > len(batches) || length < batchRecords || batches[batchAttributes+1]&0x20 != 0 {
		return nil
	}
	content, count, err := records(batches[:length])
	if err != nil || count < 2 {
		return nil
	}
	r := reader{b: content}
	first, second := splitRecord(r.bytes()), splitRecord(r.bytes())
	if r.bad || first == nil || second == nil {
		return nil
	}
	var swapped []byte
	swapped = appendRecord(swapped, first[0], second[1])
	swapped = appendRecord(swapped, second[0], first[1])
	batch := plainBatch(batches[:length], append(swapped, r.b...))
	return append(batch, batches[length:]...)
}

// splitRecord splits a record into its place (attributes and deltas) and its content
// (key, value, headers).
func splitRecord(record []byte) [][]byte {
	if len(record) == 0 {
		return nil
	}
	r := reader{b: record[1:]}
	r.varint()
	r.varint()
	if r.bad {
		return nil
	}
	at := len(record) - len(r.b)
	return [][]byte{record[:at], record[at:]}
}

func appendRecord(to, place, content []byte) []byte {
	to = binary.AppendVarint(to, int64(len(place)+len(content)))
	to = append(to, place...)
	return append(to, content...)
}

// logEnds remembers where the answers say that logs end, so that an invented offset
// is a plausible one.
type logEnds struct {
	mu  sync.Mutex
	end map[partitionName]int64
}

type partitionName struct {
	topic     string
	partition int32
}

// see learns from answers about a request's batches.
func (l *logEnds) see(x *Exchange, answers, broker map[int]Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range x.Produce.Batches {
		b := &x.Produce.Batches[i]
		for _, given := range []map[int]Answer{answers, broker} {
			if a, ok := given[i]; ok && a.Code == 0 && a.BaseOffset >= 0 {
				l.advance(partitionName{b.Topic, b.Partition}, a.BaseOffset+int64(b.Records))
			}
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
func (l *logEnds) invent(x *Exchange) (frame []byte, answers map[int]Answer) {
	l.mu.Lock()
	offsets := make([]int64, len(x.Produce.Batches))
	for i := range x.Produce.Batches {
		p := partitionName{x.Produce.Batches[i].Topic, x.Produce.Batches[i].Partition}
		offsets[i] = l.end[p]
		l.advance(p, l.end[p]+int64(x.Produce.Batches[i].Records))
	}
	l.mu.Unlock()
	return producedAnswer(x, func(i int) Answer { return Answer{Code: 0, BaseOffset: offsets[i]} })
}
