// This file holds the pass over a history that builds the state.

package checker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/ackproof/ackproof/histories"
)

// collect reads the whole history into the state. A cut history is read up to
// its cut; any other error of reading is returned.
func (s *state) collect(ctx context.Context, h histories.History) error {
	return s.read(ctx, h, s.take)
}

// read is collect for whoever looks at each line.
func (s *state) read(ctx context.Context, h histories.History, look func(histories.Line)) error {
	for entry, err := range h.Lines(ctx) {
		if errors.As(err, &s.cut) {
			break
		}
		if err != nil {
			return err
		}
		s.lines++
		look(entry.Line)
	}
	return ctx.Err()
}

func (s *state) take(line histories.Line) {
	switch l := line.(type) {
	case *histories.Producer:
		s.takeProducer(l)
	case *histories.Consumer:
		s.takeConsumer(l)
	case *histories.ConsumerClose:
		_, x := s.session(l.Name)
		x.positions = nil
	case *histories.Send:
		s.takeSend(l)
	case *histories.SendReturn:
		s.takeReturn(l)
	case *histories.Attempt:
		s.takeAttempt(l)
	case *histories.Poll:
		_, x := s.session(l.Process)
		s.watchClock(x, l.Time)
	case *histories.PollReturn:
		s.takePoll(l)
	case *histories.PositionChange:
		s.takePositionChange(l)
	case *histories.FaultStart:
		s.takeFaultStart(l)
	case *histories.FaultEnd:
		s.takeFaultEnd(l)
	case *histories.ClusterEvent:
		s.cluster = append(s.cluster, l)
	case *histories.End:
		s.end = l
	case *histories.ProducerClose, *histories.ProducerRefused, *histories.Note, *histories.Commit, *histories.CommitReturn:
	default:
		s.takeLog(line)
	}
}

// takeLog takes what was read of the logs in the end.
func (s *state) takeLog(line histories.Line) {
	switch l := line.(type) {
	case *histories.FinalRecords:
		s.takeFinalRecords(l)
	case *histories.FinalRead:
		s.takeFinalRead(l)
	case *histories.ReplicaRecords:
		s.takeReplicaRecords(l)
	case *histories.ReplicaRead:
		s.takeReplicaRead(l)
	default:
		panic(fmt.Sprintf("checker: a kind of line that is not judged: %T", line))
	}
}

func (s *state) takeProducer(l *histories.Producer) {
	_, x := s.session(l.Name)
	x.producer = l
	x.clock = s.clocks.of(s.clockOf(l.Clock))
}

func (s *state) takeConsumer(l *histories.Consumer) {
	_, x := s.session(l.Name)
	x.clock = s.clocks.of(s.clockOf(l.Clock))
}

func (s *state) clockOf(named string) string {
	if named == "" {
		return s.header.Clock
	}
	return named
}

// watchClock notes where a process's invocations run backwards in time.
func (s *state) watchClock(x *session, at int64) {
	if at < x.lastInvoked && len(s.timesBackward) < 8 {
		s.timesBackward = append(s.timesBackward,
			fmt.Sprintf("%s invoked an operation at %d ns after one at %d ns", x.name, at, x.lastInvoked))
	}
	x.lastInvoked = max(x.lastInvoked, at)
}

func (s *state) takeSend(l *histories.Send) {
	process, x := s.session(l.Process)
	if s.header.Source == nil {
		s.watchClock(x, l.Time)
	}
	if _, again := x.find(l.Number); again {
		s.malform("two sends carry the operation number %d of %s", l.Number, l.Process)
		return
	}
	e := s.event(l.Event)
	index := uint32(len(s.sends))
	key := s.keys.of(l.OrderingKey)
	s.sends = append(s.sends, send{
		group: s.group(process, key), invoked: l.Time, returned: never, offset: histories.Unknown, number: l.Number, rank: l.Rank,
		event: e, key: key, process: process, topic: s.topics.of(l.Topic),
		asked: l.Partition, log: -1, resend: l.ResendOf != nil,
	})
	x.remember(l.Number, index)
	ev := &s.events[e]
	if ev.first == 0 {
		ev.first = index + 1
		return
	}
	ev.more = true
	s.resends[e] = append(s.resends[e], index)
	if l.ResendOf == nil {
		s.malform("event %s was sent twice without saying resend_of", l.Event)
		s.sends[index].resend = true
	}
}

func (s *state) malform(format string, args ...any) {
	if len(s.malformed) < 8 {
		s.malformed = append(s.malformed, fmt.Sprintf(format, args...))
	}
}

func (s *state) takeReturn(l *histories.SendReturn) {
	_, x := s.session(l.Process)
	index, found := x.find(l.Number)
	if !found {
		s.malform("operation %d of %s completed and was never invoked", l.Number, l.Process)
		return
	}
	d := &s.sends[index]
	if l.Time < d.invoked && len(s.timesBackward) < 8 {
		s.timesBackward = append(s.timesBackward,
			fmt.Sprintf("operation %d of %s completed at %d ns before its invocation at %d ns", l.Number, l.Process, l.Time, d.invoked))
	}
	if d.succeeded {
		return // the first acknowledgement stands
	}
	d.hasReturned, d.closed = true, l.Closed
	d.returned = l.Time
	d.stated = stated(l.Stated)
	d.clientError = l.ClientError != ""
	d.err = s.errors.of(l.Error + l.ClientError)
	d.succeeded = !l.Closed && l.Error == "" && l.ClientError == "" && (d.stated == unjudged || d.stated == ok)
	if d.succeeded && s.sessionAcks(x) != "0" {
		s.takeAcknowledgement(d, l)
	}
}

func stated(o histories.Outcome) uint8 {
	switch o {
	case histories.OutcomeOK:
		return ok
	case histories.OutcomeFail:
		return fail
	case histories.OutcomeInfo:
		return info
	}
	return unjudged
}

func (s *state) takeAcknowledgement(d *send, l *histories.SendReturn) {
	partition := l.Partition
	if partition == histories.Unknown {
		partition = d.asked
	}
	if partition < 0 {
		return
	}
	d.log = s.log(histories.Partition{Topic: s.topics.list[d.topic], Partition: partition})
	if l.Offset < 0 {
		return
	}
	d.offset = l.Offset
	log := s.logs[d.log]
	if first := log.acknowledged.first(l.Offset, d.event); first != d.event {
		s.disagreements = append(s.disagreements, disagreement{
			d.log, l.Offset, first, d.event, l.OperationID, true})
	}
}

func (s *state) takeAttempt(l *histories.Attempt) {
	_, x := s.session(l.Process)
	facts := appendedBy(l, s.sessionAcks(x))
	for index := range x.within(l.Sends) {
		d := &s.sends[index]
		saturate(&d.acknowledgedAttempts, facts.Acknowledged)
		saturate(&d.unknownAttempts, facts.Unknown)
	}
}

// within gives the sends of a session whose operation numbers lie in the ranges.
func (x *session) within(ranges []histories.Range) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, r := range ranges {
			first := max(r.First, 0) // operation numbers count from 0
			for n := int64(0); n <= r.Last-first; n++ {
				index, found := x.find(first + n)
				if !found && r.Last-first-n > denseSlack {
					break // a range that no batch can carry
				}
				if found && !yield(index) {
					return
				}
			}
		}
	}
}

func saturate(counter *uint8, by int) {
	if by > 0 && *counter < math.MaxUint8 {
		*counter++
	}
}

// sessionAcks gives the acks that decide what an answer proves.
func (s *state) sessionAcks(x *session) string {
	if acks, ok := s.options.Producer[histories.PropertyAcks]; ok {
		return acks
	}
	if x.producer != nil && x.producer.Properties != nil {
		return x.producer.Properties[histories.PropertyAcks]
	}
	return s.header.Producer[histories.PropertyAcks]
}

func (s *state) takeFaultStart(l *histories.FaultStart) {
	s.faults = append(s.faults, &Fault{ID: l.ID, Name: l.Name, Target: l.Target, Settings: l.Settings,
		Start: l.Time, End: never, Lie: l.Lie})
}

func (s *state) takeFaultEnd(l *histories.FaultEnd) {
	for _, f := range s.faults {
		if f.ID == l.ID {
			f.End, f.Bit, f.Evidence, f.Effects, f.Error = l.Time, l.Bit, l.Evidence, l.Effects, l.Error
			return
		}
	}
	s.malform("fault %s ended and never started", l.ID)
}

func (s *state) takeFinalRecords(l *histories.FinalRecords) {
	if l.Isolation == histories.ReadCommitted {
		return // judged with the transactions
	}
	index := s.log(l.Partition)
	log := s.logs[index]
	for _, r := range l.Records.Records {
		if r.Offset < 0 {
			s.malform("a record of %s/%d has the offset %d", l.Topic, l.Partition.Partition, r.Offset)
			continue
		}
		e := foreign
		if r.Event != "" {
			e = s.event(r.Event)
		} else {
			s.foreign++
		}
		if r.Corrupt != "" {
			s.corrupt = append(s.corrupt, corruptRecord{index, r.Offset, e, r.Corrupt})
		}
		log.records = append(log.records, place{r.Offset, e, l.LeaderEpoch})
	}
}

func (s *state) takeFinalRead(l *histories.FinalRead) {
	if l.Isolation == histories.ReadCommitted {
		return
	}
	s.hasFinalRead = true
	s.logs[s.log(l.Partition)].final = l
}
