// This file holds what is measured of attempts, and the numbers that are made of all that
// was gathered.

package checker

import (
	"fmt"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// replayFault begins the ids of the faults whose attempts are no client's.
const replayFault = "replay#"

// noError is the name of the answer that is no error.
const noError = "NONE"

func (g *gauge) takeAttempt(l *histories.Attempt) {
	x := g.of(l.Process)
	if x == nil {
		return
	}
	answer, offset, said := brokersAnswer(l)
	replayed := strings.HasPrefix(l.Fault, replayFault)
	if l.ProducerID >= 0 {
		g.takeBatch(x, l, answer, offset, replayed)
	}
	if replayed {
		return
	}
	g.count(x, "attempts")
	if l.Answer == "" {
		g.count(x, "unanswered-attempts")
	} else {
		g.count(x, "answers", "answers:"+l.Answer)
	}
	if said {
		g.count(x, "broker-answers", "broker-answers:"+answer)
	}
	for _, y := range []*gauged{x, g.all} {
		if l.Answer != "" {
			y.latency += float64(l.End - l.Time)
			y.answered++
		}
		y.batches++
		y.bytes += float64(l.Bytes)
		y.uncompressed += float64(l.Uncompressed)
	}
	records := g.takeSends(x, l)
	x.records += records
	g.all.records += records
	g.takeRefusal(x, l, records)
}

// brokersAnswer gives what the broker itself answered; said is false where it is not known
// to have answered.
func brokersAnswer(l *histories.Attempt) (answer string, offset int64, said bool) {
	if l.BrokerAnswer != "" {
		return l.BrokerAnswer, l.BrokerOffset, true
	}
	made := l.Fault != "" && !strings.HasPrefix(l.Fault, replayFault) && !l.Reached
	return l.Answer, l.Offset, l.Answer != "" && l.Reached && !made
}

// takeBatch looks at the sequence number of a batch.
func (g *gauge) takeBatch(x *gauged, l *histories.Attempt, answer string, offset int64, replayed bool) {
	producer := producerName{l.ProducerID, l.Epoch, histories.Partition{Topic: l.Topic, Partition: l.Partition}}
	name := batchName{producer, l.Sequence}
	if answer != noError {
		switch {
		case replayed:
			g.all.counts["replayed-refused"]++
		case answer == "OUT_OF_ORDER_SEQUENCE_NUMBER" && l.Sequence > g.next[producer]:
			g.count(x, "gap-refused")
		}
		return
	}
	known := g.batches[name]
	switch {
	case known != nil && replayed && known.offset == offset:
		g.all.counts["replayed-recognised"]++
	case known != nil && known.offset == offset:
		g.count(x, "recognised-retries")
		if known.broker != l.Broker {
			g.count(x, "recognised-elsewhere")
		}
	case known == nil:
		g.batches[name] = &gaugedBatch{offset: offset, broker: l.Broker}
		if next, some := g.next[producer]; some && l.Sequence > next {
			g.count(x, "gap-accepted")
		}
		g.next[producer] = max(g.next[producer], l.Sequence+int32(recordsOf(l)))
	}
}

func recordsOf(l *histories.Attempt) int64 {
	n := l.Unnamed
	for _, r := range l.Sends {
		n += r.Last - r.First + 1
	}
	return n
}

// takeSends looks at each send that an attempt carries, and gives the number of records.
func (g *gauge) takeSends(x *gauged, l *histories.Attempt) (records float64) {
	for _, r := range l.Sends {
		for number := max(r.First, 0); number <= r.Last && number < int64(len(x.sends)); number++ {
			s := &x.sends[number]
			s.attempts++
			if s.attempted {
				s.twoEpochs = s.twoEpochs || s.producer != l.ProducerID || s.epoch != l.Epoch
				s.twoPlaces = s.twoPlaces || s.partition != l.Partition
			}
			s.attempted, s.producer, s.epoch, s.partition = true, l.ProducerID, l.Epoch, l.Partition
		}
	}
	return float64(recordsOf(l))
}

// takeRefusal remembers a batch that was refused as too large, and finds that it was split.
func (g *gauge) takeRefusal(x *gauged, l *histories.Attempt, records float64) {
	for i := range g.refusals[l.Process] {
		r := &g.refusals[l.Process][i]
		if r.split || len(l.Sends) == 0 || records >= float64(recordsOf(&histories.Attempt{Sends: r.sends})) {
			continue
		}
		for _, part := range r.sends {
			if l.Sends[0].First >= part.First && l.Sends[0].First <= part.Last {
				r.split = true
				g.count(x, "split-batches")
				break
			}
		}
	}
	const most = 10_000
	if (l.Answer == "MESSAGE_TOO_LARGE" || l.Answer == "RECORD_LIST_TOO_LARGE") && len(g.refusals[l.Process]) < most {
		g.refusals[l.Process] = append(g.refusals[l.Process], refusedBatch{sends: l.Sends})
	}
}

// measures makes the numbers.
func (g *gauge) measures() Measures {
	for _, x := range g.sessions {
		if x != nil {
			g.sumSends(x)
		}
	}
	m := make(Measures)
	g.all.put(m, "")
	for name, x := range g.sessions {
		if x != nil {
			x.put(m, "{"+name+"}")
		}
	}
	g.putPlaces(m)
	return m
}

// sumSends counts what is known of each send once the history is read.
func (g *gauge) sumSends(x *gauged) {
	for i := range x.sends {
		s := &x.sends[i]
		if !s.returned {
			g.count(x, "unanswered-sends")
		}
		if s.attempts > 1 {
			g.count(x, "retried-sends")
		}
		for _, y := range []*gauged{x, g.all} {
			y.counts["most-attempts-of-a-send"] = max(y.counts["most-attempts-of-a-send"], float64(s.attempts))
		}
		if s.twoEpochs {
			g.count(x, "sends-under-two-epochs")
		}
		if s.twoPlaces {
			g.count(x, "sends-to-two-partitions")
		}
		e := g.events[s.event]
		if e == nil {
			g.count(x, "absent")
			continue
		}
		if s.resend {
			continue // counted with the first send of the event
		}
		x.counts["in-log"] += float64(e.copies)
		g.all.counts["in-log"] += float64(e.copies)
		if g.resent[s.event] {
			continue // its copies are the application's
		}
		x.counts["copies"] += float64(e.copies - 1)
		g.all.counts["copies"] += float64(e.copies - 1)
	}
}

const (
	nanosecondsInAMillisecond = 1e6
	nanosecondsInASecond      = 1e9
)

// put puts the numbers of a session, or of all, under their names with the suffix.
func (x *gauged) put(m Measures, suffix string) {
	for name, n := range x.counts {
		m[name+suffix] = n
	}
	put := func(name string, value, by float64) {
		if by > 0 {
			m[name+suffix] = value / by
		}
	}
	if x.firstInvoked != never && x.lastAcknowledged > x.firstInvoked {
		put("events-per-second", x.counts["acknowledged"], float64(x.lastAcknowledged-x.firstInvoked)/nanosecondsInASecond)
	}
	put("mean-request-latency-ms", x.latency/nanosecondsInAMillisecond, x.answered)
	put("mean-batch-records", x.records, x.batches)
	put("mean-batch-bytes", x.bytes, x.batches)
	put("compression-ratio", x.uncompressed, x.bytes)
	put("longest-time-without-an-acknowledgement-ms", float64(x.longestAcknowledged), nanosecondsInAMillisecond)
	put("longest-time-without-an-invocation-ms", float64(x.longestInvoked), nanosecondsInAMillisecond)
}

// putPlaces puts what is known of places.
func (g *gauge) putPlaces(m Measures) {
	total, most := int64(0), int64(0)
	for p, n := range g.placed {
		m[fmt.Sprintf("in-partition{%s/%d}", p.Topic, p.Partition)] = float64(n)
		total, most = total+n, max(most, n)
	}
	if total > 0 {
		m["largest-partition-share"] = float64(most) / float64(total)
	}
	if g.murmur[1] > 0 {
		m["murmur2-agreements"] = float64(g.murmur[0]) / float64(g.murmur[1])
	}
	type keyOf struct{ process, key string }
	homes := make(map[keyOf]histories.Partition)
	moved := make(map[keyOf]bool)
	for name, x := range g.sessions {
		if x == nil {
			continue
		}
		for i := range x.sends {
			s := &x.sends[i]
			e := g.events[s.event]
			if s.key == "" || e == nil {
				continue
			}
			k := keyOf{name, s.key}
			home, some := homes[k]
			moved[k] = moved[k] || e.twoPartitions || (some && home != e.partition)
			homes[k] = e.partition
		}
	}
	for _, is := range moved {
		if is {
			m["keys-in-two-partitions"]++
		}
	}
}
