// This file holds what is measured of attempts: of each by itself, and of the sequence
// numbers of an idempotent producer's batches.

package checker

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

const (
	// replayFault begins the ids of the faults that send attempts of their own.
	replayFault = "replay#"
	// noError is the name of the answer that is no error.
	noError = "NONE"
	// outOfOrder is what a broker says of a batch that skips a sequence number.
	outOfOrder = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	// mostRecords bounds what a range of sends is believed to hold.
	mostRecords = 1 << 31
)

func (g *gauge) lookAttempt(l *histories.Attempt) {
	process, x := g.of(l.Process)
	if g.fresh(process) {
		return
	}
	x.produces = true
	answer, offset, said := brokersAnswer(l)
	replayed := strings.HasPrefix(l.Fault, replayFault)
	if l.ProducerID >= 0 && l.Sequence >= 0 {
		g.lookSequence(process, l, batchAnswer{answer, offset, said}, replayed)
	}
	if replayed {
		if l.Answer != "" {
			g.all.add("replayed-answers", 1)
			g.all.counts[measureKey{"replayed-answers", l.Answer}]++
		}
		return
	}
	g.count(process, "attempts", 1)
	if l.Answer == "" {
		g.count(process, "unanswered-attempts", 1)
	} else {
		g.countCoded(process, "answers", l.Answer)
	}
	if said {
		g.countCoded(process, "broker-answers", answer)
	}
	records := recordsOf(l)
	g.each(process, func(x *gauged) { x.sum(l, records) })
	g.lookCarried(process, x, l, records)
}

// sum takes what is averaged.
func (x *gauged) sum(l *histories.Attempt, records int64) {
	if l.Answer != "" {
		x.latency += float64(l.End - l.Time)
		x.answered++
	}
	x.records += float64(records)
	x.batches++
	if l.Bytes > 0 {
		x.bytes += float64(l.Bytes)
		x.sizedBatches++
		x.sizedRecords += float64(records)
	}
	if l.Bytes > 0 && l.Uncompressed > 0 {
		x.packed += float64(l.Bytes)
		x.uncompressed += float64(l.Uncompressed)
	}
}

// brokersAnswer gives what the broker itself answered; said is false where it is not known
// to have answered. What a fault made up while nothing reached the broker is none.
func brokersAnswer(l *histories.Attempt) (answer string, offset int64, said bool) {
	if l.BrokerAnswer != "" {
		return l.BrokerAnswer, l.BrokerOffset, true
	}
	return l.Answer, l.Offset, l.Answer != "" && l.Reached
}

func recordsOf(l *histories.Attempt) int64 {
	n := min(max(l.Unnamed, 0), mostRecords)
	for _, r := range l.Sends {
		if r.First >= 0 && r.Last >= r.First {
			n += min(r.Last-r.First+1, mostRecords)
		}
	}
	return n
}

// lookCarried looks at each send that an attempt carries. A batch that was refused as too
// large counts as split with the first smaller one that carries a part of it.
func (g *gauge) lookCarried(process uint32, x *gauged, l *histories.Attempt, records int64) {
	as := producerIdentity{l.ProducerID, l.Epoch}
	identity, known := g.identities[as]
	if !known {
		identity = uint32(len(g.identities))
		g.identities[as] = identity
	}
	refused := uint32(0)
	if l.Answer == "MESSAGE_TOO_LARGE" || l.Answer == "RECORD_LIST_TOO_LARGE" {
		x.refusals = append(x.refusals, tooLargeBatch{records: records})
		refused = uint32(len(x.refusals))
	}
	for index := range g.sessions[process].within(l.Sends) {
		j := &g.journeys[index]
		if j.attempts > 0 {
			j.twoIdentities = j.twoIdentities || j.identity != identity
			j.twoPartitions = j.twoPartitions || j.partition != l.Partition
		}
		j.attempts++
		j.identity, j.partition = identity, l.Partition
		if j.refusal > 0 {
			if b := &x.refusals[j.refusal-1]; records < b.records && !b.split {
				b.split = true
				g.count(process, "split-batches", 1)
			}
		}
		if refused > 0 {
			j.refusal = refused
		}
	}
}

// streamName names what sequence numbers count in.
type streamName struct {
	producerIdentity
	log int32
}

// stream is what went over the wire under one row of sequence numbers.
type stream struct {
	process uint32
	// written are the batches that a broker said are written, by their sequence number;
	// open the attempts of which nobody knows whether they are; refused those that were
	// refused as out of order.
	written []sequenced
	open    []sequenced
	refused []sequenced
}

// sequenced is a batch with its sequence numbers.
type sequenced struct {
	first, behind int64 // its first sequence number, and the one behind its last
	sent          int64 // the time of the earliest attempt that this is known of
	offset        int64
	broker        int32
}

// batchAnswer is what a broker answered.
type batchAnswer struct {
	name   string
	offset int64
	said   bool
}

// lookSequence looks at the sequence number of a batch, and at what a broker said of it.
func (g *gauge) lookSequence(process uint32, l *histories.Attempt, a batchAnswer, replayed bool) {
	name := streamName{producerIdentity{l.ProducerID, l.Epoch}, g.log(histories.Partition{Topic: l.Topic, Partition: l.Partition})}
	s := g.streams[name]
	if s == nil {
		s = &stream{process: process}
		g.streams[name] = s
	}
	batch := sequenced{int64(l.Sequence), int64(l.Sequence) + max(recordsOf(l), 1), l.Time, a.offset, l.Broker}
	switch {
	case a.said && a.name == noError && replayed:
		if i, known := s.find(batch.first); known && a.offset >= 0 && s.written[i].offset == a.offset {
			g.all.add("replayed-recognised", 1)
		}
	case a.said && replayed:
		g.all.add("replayed-refused", 1)
	case replayed:
	case a.said && a.name == noError:
		g.lookWritten(process, s, batch)
	case a.said && a.name == outOfOrder:
		s.refused = append(s.refused, batch)
	case a.said && appendedBy(&histories.Attempt{Answer: a.name}, "all").Refused > 0:
	case l.Reached:
		s.open = append(s.open, batch)
	}
}

// lookWritten takes a batch that a broker said is written.
func (g *gauge) lookWritten(process uint32, s *stream, batch sequenced) {
	i, known := s.find(batch.first)
	if !known {
		s.written = slices.Insert(s.written, i, batch)
		return
	}
	before := &s.written[i]
	if batch.offset >= 0 && before.offset == batch.offset {
		before.sent = min(before.sent, batch.sent)
		g.count(process, "recognised-retries", 1)
		if before.broker != batch.broker {
			g.count(process, "recognised-elsewhere", 1)
		}
	}
}

// find gives the place of the batch with a first sequence number among those that are
// written, or where it belongs.
func (s *stream) find(first int64) (int, bool) {
	if n := len(s.written); n > 0 && s.written[n-1].first < first {
		return n, false // as nearly always
	}
	return slices.BinarySearchFunc(s.written, first, func(b sequenced, first int64) int { return cmp.Compare(b.first, first) })
}

// holding gives the batch that is written and holds a sequence number; nil: there is none.
func (s *stream) holding(number int64) *sequenced {
	i, exact := s.find(number)
	if !exact {
		i--
	}
	if i < 0 || s.written[i].behind <= number {
		return nil
	}
	return &s.written[i]
}

// mayHold says whether an attempt that was sent at a time or before it may have written a
// sequence number, though nobody knows.
func (s *stream) mayHold(number, until int64) bool {
	return slices.ContainsFunc(s.open, func(b sequenced) bool { return b.first <= number && number < b.behind && b.sent <= until })
}

// writtenBefore says whether a sequence number was written by an attempt that was sent before
// a time, or may have been: of two at the same time nobody knows which was the first.
func (s *stream) writtenBefore(number, time int64) bool {
	b := s.holding(number)
	return (b != nil && b.sent <= time) || s.mayHold(number, time)
}

// sumStreams counts the gaps, once all is known of every batch: the lines of attempts stand
// in the order in which their fates were known, and not in that of the log.
func (g *gauge) sumStreams() {
	for _, s := range g.streams {
		for i := range s.written {
			if s.skips(i) {
				g.count(s.process, "gap-accepted", 1)
			}
		}
		for _, b := range s.refused {
			// A batch that is older than what the broker remembers is refused by the same name.
			if b.first > 0 && !s.writtenBefore(b.first, b.sent) && !s.writtenBefore(b.first-1, b.sent) {
				g.count(s.process, "gap-refused", 1)
			}
		}
	}
}

// skips says whether a batch was certainly written before the sequence number before it.
func (s *stream) skips(i int) bool {
	b := &s.written[i]
	if b.first == 0 {
		return false
	}
	before := s.holding(b.first - 1)
	if before == nil {
		return !s.mayHold(b.first-1, 1<<63-1)
	}
	return b.offset >= 0 && before.offset > b.offset
}
