// This file holds the places where a defect can hide.

package corpus

import (
	"slices"

	"github.com/ackproof/ackproof/histories"
)

// Place is where a defect is planted.
type Place struct {
	// Name in kebab case.
	Name string
	// Text says what is special about it.
	Text string

	shape func(*shape)
	// fits: the record may be the defect's. Nil: any.
	fits func(*world, *record) bool
	// what is not recorded, or not known.
	withoutFinalRead, withoutConfiguration, cut bool
	// ownOnly: only histories of our own have such a place.
	ownOnly bool
}

// Places gives all of them.
func Places() []Place {
	return slices.Concat(placesInALog(), placesInARun(), placesOfAHistory())
}

// placesInALog: where the record lies.
func placesInALog() []Place {
	return []Place{
		{Name: "anywhere", Text: "an ordinary record"},
		{Name: "first", Text: "the first record of its partition", fits: func(w *world, r *record) bool {
			return firstEvent(w.logOf(r)) == r
		}},
		{Name: "last", Text: "the last record of its partition", shape: func(s *shape) { s.noFresh = true },
			fits: func(w *world, r *record) bool {
				return lastEvent(w.logOf(r)) == r
			}},
		{Name: "only", Text: "the only record of its partition", shape: func(s *shape) { s.partitions, s.keys, s.steps = 5, 3, 8 },
			fits: func(w *world, r *record) bool { return len(w.logOf(r).events()) == 1 }},
		{Name: "batch-edge", Text: "the first or the last record of a batch of several", shape: func(s *shape) { s.largest = 4 },
			fits: func(_ *world, r *record) bool {
				b := r.sent.batch.sends
				return len(b) > 1 && (b[0] == r.sent || b[len(b)-1] == r.sent)
			}},
		{Name: "segment-edge", Text: "the first record of the oldest segment that is left", ownOnly: true,
			shape: func(s *shape) { s.retention = true },
			fits:  func(w *world, r *record) bool { l := w.logOf(r); return l.start > l.base && firstFrom(l, l.start) == r }},
		{Name: "below-log-start", Text: "a record that retention removed after it had been read", ownOnly: true,
			shape: func(s *shape) { s.retention = true },
			fits:  func(w *world, r *record) bool { return r.offset < w.logOf(r).start }},
		{Name: "high-offsets", Text: "offsets beyond 32 bits", shape: func(s *shape) { s.base = 1<<32 - 3 }},
		{Name: "page-edge", Text: "offsets around a power of two", shape: func(s *shape) { s.base = 506 }},
		{Name: "between-markers", Text: "a record with transaction markers before and behind it", fits: func(w *world, r *record) bool {
			return w.isFree(r, r.offset-1) && w.isFree(r, r.offset+1)
		}},
		{Name: "one-of-many-partitions", Text: "one partition of twelve",
			shape: func(s *shape) { s.partitions, s.keys, s.steps = 12, 12, 60 }},
		{Name: "log-not-empty", Text: "a log that held records of others before the run", ownOnly: true,
			shape: func(s *shape) { s.notEmpty = true }},
	}
}

// placesInARun: when it was sent, and what was sent around it.
func placesInARun() []Place {
	return []Place{
		{Name: "during-a-fault", Text: "sent while a fault was on", ownOnly: true, shape: func(s *shape) { s.faults = 2 },
			fits: func(_ *world, r *record) bool { return r.sent.inFault }},
		{Name: "after-the-last-fault", Text: "sent after the last fault", ownOnly: true, shape: func(s *shape) { s.faults = 1 },
			fits: func(_ *world, r *record) bool { return r.sent.afterFaults }},
		{Name: "key-with-one-event", Text: "the only event of its producer and key",
			shape: func(s *shape) { s.keys = 40 },
			fits:  func(w *world, r *record) bool { return w.sentOf(r.sent) == 1 }},
		{Name: "behind-an-unknown", Text: "right behind one of its producer and key whose outcome is unknown",
			shape: func(s *shape) { s.unsure, s.keys, s.producers = true, 1, 2 },
			fits: func(w *world, r *record) bool {
				p := w.before(r.sent)
				return p != nil && p.outcome == histories.OutcomeInfo
			}},
		{Name: "late-acknowledgement", Text: "acknowledged after the recorder had given it up", ownOnly: true,
			shape: func(s *shape) { s.unsure = true }, fits: func(_ *world, r *record) bool { return r.sent.late }},
		{Name: "restarted-producer", Text: "sent by a session that continues an earlier one", ownOnly: true,
			shape: func(s *shape) { s.restarts, s.producers = true, 1 },
			fits:  func(_ *world, r *record) bool { return r.sent.producer.restarted }},
	}
}

// placesOfAHistory: what is not recorded, or not known.
func placesOfAHistory() []Place {
	return []Place{
		{Name: "cut", Text: "a history that was cut before its end", cut: true, ownOnly: true},
		{Name: "without-final-read", Text: "a history without a final read", withoutFinalRead: true, ownOnly: true},
		{Name: "without-configuration", Text: "a history that does not say how the producer was configured",
			withoutConfiguration: true},
	}
}

func (w *world) logOf(r *record) *partition {
	for _, l := range w.logs {
		if slices.Contains(l.records, r) {
			return l
		}
	}
	return w.logs[0]
}

func firstEvent(l *partition) *record { return firstFrom(l, l.base) }

// firstFrom gives the first event from an offset on.
func firstFrom(l *partition, offset int64) *record {
	for _, r := range l.events() {
		if r.offset >= offset {
			return r
		}
	}
	return nil
}

func lastEvent(l *partition) *record {
	events := l.events()
	if len(events) == 0 {
		return nil
	}
	return events[len(events)-1]
}

// isFree: the log holds nothing at an offset below its end.
func (w *world) isFree(r *record, offset int64) bool {
	l := w.logOf(r)
	return offset >= l.base && offset < l.next && len(between(l.records, offset, offset+1)) == 0
}

// sentOf counts what was sent with the producer and ordering key of a send.
func (w *world) sentOf(s *sent) int {
	n := 0
	for _, x := range w.sends {
		if x.order() == s.order() {
			n++
		}
	}
	return n
}

// before gives the send before one, of its producer and ordering key.
func (w *world) before(s *sent) *sent {
	for _, x := range w.sends {
		if x.order() == s.order() && x.line.Rank == s.line.Rank-1 {
			return x
		}
	}
	return nil
}
