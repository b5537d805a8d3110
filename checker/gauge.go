// This file holds the pass over a history that measures it.

package checker

import (
	"context"
	"errors"

	"github.com/ackproof/ackproof/histories"
)

// gauge gathers what the measures are made of.
type gauge struct {
	header *histories.Header
	// sessions by name; those of fresh producers are nil.
	sessions  map[string]*gauged
	all       *gauged // what all of them did together
	events    map[string]*gaugedEvent
	batches   map[batchName]*gaugedBatch
	next      map[producerName]int32 // the next sequence number that a log takes
	refusals  map[string][]refusedBatch
	given     map[string]map[histories.Partition]map[int64]bool // to consumers, by session
	continues map[string]string
	resent    map[string]bool // events that the application sent again
	placed    map[histories.Partition]int64
	murmur    [2]int64 // acknowledged events with a key: that agree, and all
}

// gauged is what one session did, or all of them.
type gauged struct {
	name  string
	sends []gaugedSend // by operation number; only of a session
	// counts by the name of their measure.
	counts map[string]float64
	// The first invocation, the last one, the first completion of its own, the last one.
	firstInvoked, lastInvoked, lastAcknowledged int64
	longestInvoked, longestAcknowledged         int64
	// sums of what is averaged.
	latency, answered, records, batches, bytes, uncompressed float64
}

// gaugedSend is one send.
type gaugedSend struct {
	event     string
	key       string
	topic     string
	attempts  int32
	producer  int64
	epoch     int16
	partition int32
	returned  bool
	closed    bool
	twoEpochs bool
	twoPlaces bool
	resend    bool
	attempted bool
}

// gaugedEvent is an event in the final log.
type gaugedEvent struct {
	copies        int64
	partition     histories.Partition
	twoPartitions bool
}

// batchName names a batch of an idempotent producer.
type batchName struct {
	producerName
	sequence int32
}

// producerName names a producer's sequence in a partition.
type producerName struct {
	id        int64
	epoch     int16
	partition histories.Partition
}

// gaugedBatch is a batch that a broker has answered with an offset.
type gaugedBatch struct {
	offset int64
	broker int32
}

// refusedBatch is a batch that was refused as too large.
type refusedBatch struct {
	sends []histories.Range
	split bool
}

func newGauge(header *histories.Header) *gauge {
	return &gauge{header: header, sessions: make(map[string]*gauged), all: newGauged(""),
		events: make(map[string]*gaugedEvent), batches: make(map[batchName]*gaugedBatch), next: make(map[producerName]int32),
		refusals: make(map[string][]refusedBatch), given: make(map[string]map[histories.Partition]map[int64]bool),
		continues: make(map[string]string), resent: make(map[string]bool), placed: make(map[histories.Partition]int64)}
}

func newGauged(name string) *gauged {
	return &gauged{name: name, counts: make(map[string]float64), firstInvoked: never, lastInvoked: never, lastAcknowledged: never}
}

// read reads the whole history; one that is cut up to its cut.
func (g *gauge) read(ctx context.Context, h histories.History) error {
	for entry, err := range h.Lines(ctx) {
		var cut *histories.CutError
		if errors.As(err, &cut) {
			return nil
		}
		if err != nil {
			return err
		}
		g.take(entry.Line)
	}
	return ctx.Err()
}

func (g *gauge) take(line histories.Line) {
	switch l := line.(type) {
	case *histories.Producer:
		if l.Fresh {
			g.sessions[l.Name] = nil
		} else {
			g.of(l.Name)
		}
	case *histories.ProducerRefused:
		g.all.counts["refused-producers"]++
	case *histories.Consumer:
		g.continues[l.Name] = l.Continues
	case *histories.Send:
		g.takeSend(l)
	case *histories.SendReturn:
		g.takeReturn(l)
	case *histories.Attempt:
		g.takeAttempt(l)
	case *histories.PollReturn:
		g.takePoll(l)
	case *histories.CommitReturn:
		if l.Error == "" && l.ClientError == "" {
			g.count(g.of(l.Process), "commits")
		}
	case *histories.FinalRecords:
		if l.Isolation == histories.ReadUncommitted {
			g.takeFinal(l)
		}
	}
}

// of gives a session; nil: a fresh producer's, which is left out.
func (g *gauge) of(name string) *gauged {
	x, known := g.sessions[name]
	if !known {
		x = newGauged(name)
		g.sessions[name] = x
	}
	return x
}

// count counts one for a session and for all of them.
func (g *gauge) count(x *gauged, names ...string) {
	if x == nil {
		return
	}
	for _, name := range names {
		x.counts[name]++
		g.all.counts[name]++
	}
}

// most bounds the operation numbers that are believed: a line that claims more than the
// history can hold would take all memory.
const mostSends = 1 << 28

// send gives a send by its number; nil: left out, or not there.
func (x *gauged) send(number int64) *gaugedSend {
	if x == nil || number < 0 || number >= int64(len(x.sends)) {
		return nil
	}
	return &x.sends[number]
}

func (g *gauge) takeSend(l *histories.Send) {
	x := g.of(l.Process)
	if x == nil || l.Number != int64(len(x.sends)) || l.Number >= mostSends {
		return // numbers count from 0 without gaps; what does not is found by the checker
	}
	x.sends = append(x.sends, gaugedSend{event: l.Event, key: l.OrderingKey, topic: l.Topic, resend: l.ResendOf != nil,
		partition: histories.Unknown, producer: histories.Unknown, epoch: histories.Unknown})
	g.count(x, "invoked")
	if l.ResendOf != nil {
		g.resent[l.Event] = true
	}
	for _, y := range []*gauged{x, g.all} {
		if y.firstInvoked == never {
			y.firstInvoked, y.lastAcknowledged = l.Time, l.Time
		} else {
			y.longestInvoked = max(y.longestInvoked, l.Time-y.lastInvoked)
		}
		y.lastInvoked = l.Time
	}
}

func (g *gauge) takeReturn(l *histories.SendReturn) {
	x := g.of(l.Process)
	s := x.send(l.Number)
	if s == nil || s.returned {
		return
	}
	if l.Closed {
		s.closed = true
		return
	}
	s.returned = true
	switch {
	case l.Error != "":
		g.count(x, "errors", "errors:"+l.Error)
		return
	case l.ClientError != "":
		g.count(x, "errors", "errors:"+l.ClientError)
		return
	}
	g.count(x, "acknowledged")
	for _, y := range []*gauged{x, g.all} {
		y.longestAcknowledged = max(y.longestAcknowledged, l.Time-y.lastAcknowledged)
		y.lastAcknowledged = max(y.lastAcknowledged, l.Time)
	}
	g.agree(s, l.Partition)
}

// agree counts whether an acknowledged event lies where its key puts it.
func (g *gauge) agree(s *gaugedSend, partition int32) {
	if s.key == "" || partition < 0 {
		return
	}
	for _, t := range g.header.Topics {
		if t.Name == s.topic && t.Partitions > 0 {
			g.murmur[1]++
			if murmur2(s.key)&0x7fffffff%uint32(t.Partitions) == uint32(partition) {
				g.murmur[0]++
			}
		}
	}
}

// murmur2 is the hash by which Kafka's clients choose the partition of a key
// (org.apache.kafka.common.utils.Utils.murmur2; Austin Appleby's MurmurHash2 with a seed of
// Kafka's own).
func murmur2(key string) uint32 {
	const m, r, seed = 0x5bd1e995, 24, 0x9747b28c
	h := uint32(seed) ^ uint32(len(key))
	i := 0
	for ; i+4 <= len(key); i += 4 {
		k := uint32(key[i]) | uint32(key[i+1])<<8 | uint32(key[i+2])<<16 | uint32(key[i+3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	for rest := len(key) - i; rest > 0; rest-- {
		h ^= uint32(key[i+rest-1]) << (8 * (rest - 1))
		if rest == 1 {
			h *= m
		}
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

func (g *gauge) takePoll(l *histories.PollReturn) {
	x := g.of(l.Process)
	for _, records := range l.Records {
		own := g.given[l.Process]
		if own == nil {
			own = make(map[histories.Partition]map[int64]bool)
			g.given[l.Process] = own
		}
		if own[records.Partition] == nil {
			own[records.Partition] = make(map[int64]bool)
		}
		for _, r := range records.Records {
			g.count(x, "polled")
			own[records.Partition][r.Offset] = true
			if g.givenBefore(l.Process, records.Partition, r.Offset) {
				g.count(x, "redelivered")
			}
		}
	}
}

// givenBefore says whether a session that this one continues was given the record.
func (g *gauge) givenBefore(session string, p histories.Partition, offset int64) bool {
	for hops := 0; hops <= len(g.continues); hops++ { // a ring of them ends
		session = g.continues[session]
		if session == "" {
			return false
		}
		if g.given[session][p][offset] {
			return true
		}
	}
	return false
}

func (g *gauge) takeFinal(l *histories.FinalRecords) {
	for _, r := range l.Records.Records {
		if r.Event == "" {
			continue
		}
		e := g.events[r.Event]
		if e == nil {
			e = &gaugedEvent{partition: l.Partition}
			g.events[r.Event] = e
		}
		e.copies++
		e.twoPartitions = e.twoPartitions || e.partition != l.Partition
		g.placed[l.Partition]++
	}
}
