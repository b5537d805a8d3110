// This file holds what can become of a batch: every kind of answer, or none, that a
// healthy cluster gives a producer over a network that loses some.

package corpus

import (
	"github.com/ackproof/ackproof/histories"
)

// fate is what becomes of a batch.
type fate int

const (
	acknowledge   fate = iota
	retried            // its answer was lost; the retry was recognised and got the offset
	refusedFirst       // refused, sent again, acknowledged
	withoutOffset      // a duplicate's answer, which lacks the offset
	late               // the recorder gave up, and then it was acknowledged
	ghost              // written, and nobody was told
	missing            // not written, and nobody can know
	refused            // certainly not written
	neverSent          // refused by the client library
	neverAnswered      // no completion at all; written or not
	fates
)

func (w *world) someFate() fate {
	switch {
	case w.shape.certain:
		return acknowledge
	case w.shape.imported:
		return pickOne(w, []fate{acknowledge, acknowledge, acknowledge, ghost, missing, refused, neverAnswered})
	case w.shape.unsure:
		return pickOne(w, []fate{acknowledge, ghost, missing, late, neverAnswered, withoutOffset, refused})
	case w.chance(2):
		return acknowledge
	}
	return fate(w.IntN(int(fates)))
}

// answer ends the oldest batch of a producer that has one.
func (w *world) answer(f fate) {
	first := w.IntN(len(w.producers))
	for i := range w.producers {
		if p := w.producers[(first+i)%len(w.producers)]; len(p.waiting) > 0 {
			w.answerOf(p, f)
			return
		}
	}
}

func (w *world) answerOf(p *producer, f fate) {
	b := p.waiting[0]
	p.waiting = p.waiting[1:]
	switch f {
	case acknowledge, retried, refusedFirst, withoutOffset, late:
		w.acknowledged(p, b, f)
	case ghost:
		w.write(b)
		w.attempt(p, b, "")
		w.complete(b, func(back *histories.SendReturn) { back.Error = "REQUEST_TIMED_OUT" })
	case missing:
		w.attempt(p, b, "")
		w.complete(b, func(back *histories.SendReturn) { back.ClientError = "kgo.ErrRecordTimeout" })
	case refused:
		w.attempt(p, b, "MESSAGE_TOO_LARGE")
		w.complete(b, func(back *histories.SendReturn) { back.Error = "MESSAGE_TOO_LARGE" })
		if p.line.AttemptsVisible || w.shape.imported {
			b.is(histories.OutcomeFail)
		}
	case neverSent:
		w.complete(b, func(back *histories.SendReturn) { back.ClientError = "kgo.ErrMaxBuffered" })
		b.is(histories.OutcomeFail)
	case neverAnswered:
		if w.chance(2) {
			w.write(b)
		}
		w.attempt(p, b, "")
	case fates:
	}
}

// acknowledged writes a batch and tells of it, in one of several ways.
func (w *world) acknowledged(p *producer, b *batch, f fate) {
	switch f { //nolint:exhaustive // the others are told of at once
	case refusedFirst:
		w.attempt(p, b, "NOT_ENOUGH_REPLICAS")
		w.pass()
	case late:
		w.complete(b, func(back *histories.SendReturn) { back.Closed = true })
		w.pass()
	}
	w.write(b)
	w.now++
	if f == retried || f == withoutOffset {
		w.attempt(p, b, "")
		w.pass()
	}
	w.attempt(p, b, "NONE")
	w.complete(b, func(*histories.SendReturn) {})
	b.is(histories.OutcomeOK)
	for _, s := range b.sends {
		s.late = f == late
		s.back.Partition, s.back.Offset = s.log.Partition.Partition, s.record.offset
		if f == withoutOffset {
			s.back.Offset = histories.Unknown
		}
	}
}

func (b *batch) is(o histories.Outcome) {
	for _, s := range b.sends {
		s.outcome = o
	}
}

// write appends a batch to its log.
func (w *world) write(b *batch) {
	log := b.sends[0].log
	log.batches++
	for _, s := range b.sends {
		s.record = log.put(&record{event: s.line.Event, sent: s})
		s.written = w.now
	}
	log.batches++
	if !w.shape.tight && w.chance(3) {
		log.next += 1 + w.Int64N(2)
	}
	if w.chance(8) {
		log.epoch++
	}
}

// complete says of each send of a batch what the client library was told.
func (w *world) complete(b *batch, tell func(*histories.SendReturn)) {
	for _, s := range b.sends {
		s.back = &histories.SendReturn{OperationID: s.line.OperationID, Time: w.now, Partition: histories.Unknown,
			Offset: histories.Unknown}
		tell(s.back)
		w.say(s.back)
	}
}

// attempt is a request that carried a batch; without an answer its connection broke.
func (w *world) attempt(p *producer, b *batch, answer string) {
	if !p.line.AttemptsVisible {
		return
	}
	first, last := b.sends[0], b.sends[len(b.sends)-1]
	a := &histories.Attempt{Process: p.line.Name, Time: first.line.Time, End: w.now, Broker: 1, Topic: first.log.Topic,
		Partition: first.log.Partition.Partition, ProducerID: 1000, Sequence: int32(first.line.Number), Reached: true, Answer: answer,
		Sends: []histories.Range{{First: first.line.Number, Last: last.line.Number}}, Offset: histories.Unknown,
		BrokerOffset: histories.Unknown}
	if answer == "" {
		a.Lost = histories.LostConnection
	}
	if answer == "NONE" {
		a.Offset = first.record.offset
	}
	w.say(a)
}
