// This file holds how each anomaly is planted into a healthy world, so that nothing else
// is wrong with it.

package corpus

import (
	"fmt"
	"slices"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// named are the anomalies that a history has, with their counts.
type named map[checker.Anomaly]int64

// Counts that are no numbers.
const (
	// Some: one at least.
	Some int64 = 0
	// Perhaps: it follows from the other, for some readers: where only an acknowledgement
	// says that an event was there, whoever read past it stepped over it. Jepsen names
	// both, too.
	Perhaps int64 = -1
)

// plant puts a defect into a world; nil: this world has no place for it.
type plant func(w *world, at Place) named

// plants holds how each anomaly is planted.
var plants = map[checker.Anomaly]plant{
	checker.LostWrite: plantLoss, checker.Duplicate: plantDuplicate, checker.OrderViolation: plantDisorder,
	checker.LateGhost: plantLateGhost, checker.RealtimeOrderViolation: plantRealtimeDisorder, checker.WrongOffset: plantWrongOffset,
	checker.Divergence: plantDivergence, checker.VanishedRead: plantVanishedRead, checker.EpochRegression: plantEpochRegression,
	checker.FutureRead: plantFutureRead, checker.Phantom: plantPhantom, checker.Corrupt: plantCorruption,
	checker.ImpossibleWrite: plantImpossibleWrite, checker.WrongPlace: plantWrongPlace, checker.SkippedPoll: plantSkip,
	checker.BackwardPoll: plantStepBack, checker.Unseen: plantUnseen, checker.ReplicaDivergence: plantReplicaDivergence,
	checker.NotRecovered: plantNoRecovery,
}

// candidates are the acknowledged events of all logs that may be the defect's, in a drawn
// order.
func (w *world) candidates(at Place) []*record {
	var all []*record
	for _, l := range w.logs {
		for _, r := range l.events() {
			if r.sent.certain() && (at.fits == nil || at.fits(w, r)) && (r.offset >= l.start || at.below()) {
				all = append(all, r)
			}
		}
	}
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// anyCandidate gives one of them; nil: there is none.
func (w *world) anyCandidate(at Place) *record {
	all := w.candidates(at)
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// below: the place is below the log's start.
func (p Place) below() bool { return p.Name == "below-log-start" }

// near gives the free offset next to a record, on the same side of the log's start.
func (w *world) near(at Place, r *record, low int64) (*partition, int64, bool) {
	l := w.logOf(r)
	high := forever
	if at.below() {
		high = l.start
	} else {
		low = max(low, l.start)
	}
	offset, found := l.free(r.offset, low, high)
	return l, offset, found
}

func plantLoss(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l := w.logOf(r)
		if at.withoutFinalRead && lastEvent(l) == r {
			continue // nobody reads past it
		}
		l.remove(r)
		if r.offset == l.next-1 && w.chance(2) {
			l.next = r.offset // cut off; else a marker is behind it
		}
		if at.withoutFinalRead {
			return named{checker.LostWrite: 1, checker.SkippedPoll: Perhaps}
		}
		return named{checker.LostWrite: 1}
	}
	return nil
}

func plantDuplicate(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		if l, offset, found := w.near(at, r, r.offset+1); found {
			l.insert(offset, &record{event: r.event, sent: r.sent})
			return named{checker.Duplicate: 1}
		}
	}
	return nil
}

// swap exchanges what two places hold, and tells both producers so.
func swap(a, b *record) {
	a.event, b.event = b.event, a.event
	a.sent, b.sent = b.sent, a.sent
	for _, r := range []*record{a, b} {
		r.sent.record = r
		r.sent.back.Offset = r.offset
	}
}

// swapNeighbours exchanges two events of which one lies right behind the other and one may be
// the defect's: the first two in a drawn order that suit. It says whether there were any.
func (w *world) swapNeighbours(at Place, suit func(a, b *record) bool) bool {
	try := func(a, b *record) bool {
		if !a.sent.certain() || !b.sent.certain() || !suit(a, b) {
			return false
		}
		swap(a, b)
		return true
	}
	for _, r := range w.candidates(at) {
		events := w.logOf(r).events()
		i := slices.Index(events, r)
		if i > 0 && (at.below() || events[i-1].offset >= w.logOf(r).start) && try(events[i-1], r) {
			return true
		}
		if i+1 < len(events) && (!at.below() || events[i+1].offset < w.logOf(r).start) && try(r, events[i+1]) {
			return true
		}
	}
	return false
}

func plantDisorder(w *world, at Place) named {
	if !w.swapNeighbours(at, func(a, b *record) bool {
		// What was read before it was sent would be a second defect.
		return a.sent.order() == b.sent.order() && b.sent.line.Time <= a.sent.written
	}) {
		return nil
	}
	return named{checker.OrderViolation: 1}
}

func plantRealtimeDisorder(w *world, at Place) named {
	if !w.swapNeighbours(at, func(a, b *record) bool {
		return a.sent.order() != b.sent.order() && a.sent.back.Time < b.sent.line.Time &&
			!w.readBefore(w.logOf(a), a.offset, b.sent.line.Time)
	}) {
		return nil
	}
	return named{checker.RealtimeOrderViolation: 1}
}

// plantLateGhost moves an event of unknown outcome behind a later one that was acknowledged.
func plantLateGhost(w *world, at Place) named {
	for _, l := range w.logs {
		for _, r := range l.events() {
			if r.sent.outcome != histories.OutcomeInfo || r.sent.again || (at.below() != (r.offset < l.start)) ||
				(at.fits != nil && at.Name != "last" && !at.fits(w, r)) {
				continue
			}
			witness := w.laterAcknowledged(l, r)
			if witness == nil || (at.below() && witness.offset >= l.start) {
				continue
			}
			_, offset, found := w.near(at, witness, witness.offset+1)
			if at.Name == "last" {
				offset = l.next
			}
			if !found {
				continue
			}
			s := r.sent
			l.remove(r)
			s.record = l.insert(offset, &record{event: r.event, sent: s})
			return named{checker.LateGhost: 1}
		}
	}
	return nil
}

// laterAcknowledged gives an acknowledged event of the same producer and key that was sent
// after a record's.
func (w *world) laterAcknowledged(l *partition, r *record) *record {
	for _, x := range l.events() {
		if x.sent.certain() && x.sent.order() == r.sent.order() && x.sent.line.Rank > r.sent.line.Rank {
			return x
		}
	}
	return nil
}

func plantWrongOffset(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l := w.logOf(r)
		if offset, found := l.free(r.offset, l.start, forever); found {
			r.sent.back.Offset = offset
			return named{checker.WrongOffset: 1}
		}
	}
	return nil
}

// stranger puts in a producer of one event, sent to a partition when the run began. Its
// outcome is unknown unless it is completed.
func (w *world) stranger(l *partition) *sent {
	w.strangers++
	name := fmt.Sprintf("x%d", w.strangers)
	p := &producer{line: &histories.Producer{Name: name, Client: histories.ClientFranzGo, AttemptsVisible: !w.shape.imported}}
	s := &sent{producer: p, log: l, outcome: histories.OutcomeInfo, batch: &batch{}}
	s.batch.sends = []*sent{s}
	s.line = &histories.Send{OperationID: histories.OperationID{Process: name}, Event: name + "/0", Topic: l.Topic,
		Partition: l.Partition.Partition, OrderingKey: name}
	w.sends = append(w.sends, s)
	w.body = slices.Insert(w.body, 0, histories.Line(p.line), histories.Line(s.line))
	return s
}

// unanswered is a stranger whose event may have been in a request that got no answer.
func (w *world) unanswered(l *partition) *sent {
	s := w.stranger(l)
	if w.chance(2) {
		w.attempt(s.producer, s.batch, "")
	}
	return s
}

// consumerAt opens a consumer with a position in one partition.
func (w *world) consumerAt(l *partition, position int64) *consumer {
	w.strangers++
	w.pass()
	c := &consumer{name: fmt.Sprintf("y%d", w.strangers), positions: map[*partition]int64{}}
	w.say(&histories.Consumer{Name: c.name, Time: w.now})
	w.say(&histories.PositionChange{Process: c.name, Time: w.now, How: histories.ChangeAssign,
		Partitions: []histories.PartitionPosition{{Partition: l.Partition, Position: position}}})
	return c
}

// given is a poll that was given records, whatever the log holds.
func (w *world) given(c *consumer, l *partition, records ...*record) {
	w.pass()
	id := histories.OperationID{Process: c.name, Number: c.numbers}
	c.numbers++
	back := &histories.PollReturn{OperationID: id, Time: w.now}
	w.say(&histories.Poll{OperationID: id, Time: w.now})
	w.say(back)
	w.windows = append(w.windows, &window{poll: back, log: l, given: records, other: true})
}

// plantDivergence gives one consumer another record at an offset: one that is nowhere else,
// or a stranger's.
func plantDivergence(w *world, at Place) named {
	r := w.anyCandidate(at)
	if r == nil {
		return nil
	}
	l := w.logOf(r)
	other := *r
	other.sent, other.event = nil, ""
	found := named{checker.Divergence: 1}
	if w.shape.imported || w.chance(2) {
		other.event = w.unanswered(l).line.Event
		if !at.withoutFinalRead && !at.below() {
			found[checker.VanishedRead] = 1 // it is not in the final log
		}
	}
	w.given(w.consumerAt(l, r.offset), l, &other)
	return found
}

// plantVanishedRead gives a consumer an event, which then is not in the log.
func plantVanishedRead(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l, offset, found := w.near(at, r, 0)
		if !found {
			continue
		}
		s := w.unanswered(l)
		w.given(w.consumerAt(l, offset), l, &record{offset: offset, event: s.line.Event, epoch: r.epoch})
		return named{checker.VanishedRead: 1}
	}
	return nil
}

// plantEpochRegression raises a record's leader epoch above its successor's, or lowers the
// last one's.
func plantEpochRegression(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l := w.logOf(r)
		switch records := between(l.records, l.start, forever); {
		case records[len(records)-1] != r:
			r.epoch = l.epoch + 10
		case len(records) > 1:
			r.epoch = epochAtRest - 1
		default:
			continue
		}
		return named{checker.EpochRegression: 1}
	}
	return nil
}

// plantFutureRead has a consumer read an event before it was sent.
func plantFutureRead(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l, time := w.logOf(r), r.sent.line.Time-1
		if time < 0 {
			continue
		}
		w.strangers++
		name := fmt.Sprintf("y%d", w.strangers)
		id := histories.OperationID{Process: name}
		back := &histories.PollReturn{OperationID: id, Time: time}
		lines := []histories.Line{&histories.Consumer{Name: name, Time: time},
			&histories.PositionChange{Process: name, Time: time, How: histories.ChangeAssign,
				Partitions: []histories.PartitionPosition{{Partition: l.Partition, Position: r.offset}}},
			&histories.Poll{OperationID: id, Time: time}, back}
		w.body = slices.Insert(w.body, slices.Index(w.body, histories.Line(r.sent.line)), lines...)
		w.windows = append(w.windows, &window{poll: back, log: l, given: []*record{r}, other: true})
		return named{checker.FutureRead: 1}
	}
	return nil
}

func plantPhantom(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		if l, offset, found := w.near(at, r, 0); found {
			l.insert(offset, &record{event: "nobody/0"})
			return named{checker.Phantom: 1}
		}
	}
	return nil
}

func plantCorruption(w *world, at Place) named {
	r := w.anyCandidate(at)
	if r == nil {
		return nil
	}
	r.corrupt = pickOne(w, []string{"value", "key", "headers", "checksum"})
	return named{checker.Corrupt: 1}
}

// plantImpossibleWrite puts an event into the log that the client library refused to send.
func plantImpossibleWrite(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l, offset, found := w.near(at, r, 0)
		if !found {
			continue
		}
		s := w.stranger(l)
		s.back = &histories.SendReturn{OperationID: s.line.OperationID, Partition: histories.Unknown, Offset: histories.Unknown,
			ClientError: "kgo.ErrMaxBuffered"}
		s.outcome = histories.OutcomeFail
		w.body = slices.Insert(w.body, slices.Index(w.body, histories.Line(s.line))+1, histories.Line(s.back))
		l.insert(offset, &record{event: s.line.Event, sent: s})
		return named{checker.ImpossibleWrite: 1}
	}
	return nil
}

// plantWrongPlace puts an event into another partition than it was sent to.
func plantWrongPlace(w *world, at Place) named {
	if len(w.logs) < 2 {
		return nil
	}
	for _, r := range w.candidates(at) {
		l, offset, found := w.near(at, r, 0)
		if !found {
			continue
		}
		other := w.logs[(slices.Index(w.logs, l)+1)%len(w.logs)]
		s := w.unanswered(other)
		l.insert(offset, &record{event: s.line.Event, sent: s})
		return named{checker.WrongPlace: 1}
	}
	return nil
}

// plantSkip has a consumer step over a record.
func plantSkip(w *world, at Place) named {
	for _, r := range w.candidates(at) {
		l := w.logOf(r)
		records := between(l.records, l.start, forever)
		i := slices.Index(records, r)
		if i < 0 || i == len(records)-1 || (w.shape.imported && i == 0) {
			continue
		}
		rest := slices.Concat(records[:i], records[i+1:])
		c := w.consumerAt(l, l.start)
		if parts := w.IntN(len(rest)); w.chance(2) && parts > 0 { // in two polls
			w.given(c, l, rest[:parts]...)
			rest = rest[parts:]
		}
		w.given(c, l, rest...)
		return named{checker.SkippedPoll: 1}
	}
	return nil
}

// plantStepBack gives a consumer a record again.
func plantStepBack(w *world, at Place) named {
	r := w.anyCandidate(at)
	if r == nil {
		return nil
	}
	l := w.logOf(r)
	c := w.consumerAt(l, r.offset)
	w.given(c, l, r)
	w.given(c, l, r)
	return named{checker.BackwardPoll: 1}
}

// plantUnseen lets the high watermark stand still below an acknowledged record.
func plantUnseen(w *world, at Place) named {
	r := w.anyCandidate(at)
	if r == nil {
		return nil
	}
	w.logOf(r).shown = r.offset
	return named{checker.Unseen: Some}
}

func plantReplicaDivergence(w *world, at Place) named {
	r := w.anyCandidate(at)
	if r == nil {
		return nil
	}
	w.deviating, w.withoutReplicas = r, false
	return named{checker.ReplicaDivergence: 1}
}

// plantNoRecovery: the world was played so that a fresh client is not served, or the
// cluster does not become whole.
func plantNoRecovery(w *world, _ Place) named {
	if w.shape.unserved {
		return named{checker.NotRecovered: 1}
	}
	for i, line := range w.body {
		if c, event := line.(*histories.ClusterEvent); event && c.What == histories.ClusterWhole {
			w.body[i] = &histories.ClusterEvent{Time: c.Time, What: histories.ClusterNotWhole, Detail: "broker 2 is not in sync"}
			return named{checker.NotRecovered: 1}
		}
	}
	return nil
}
