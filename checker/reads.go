// This file holds how polls are taken in: what each consumer was given, in turn,
// and what was seen at which offset.

package checker

import "github.com/ackproof/ackproof/histories"

// position is a consumer's place in one partition: the last records, as they were
// given, that the next one may rightly follow. There is one as a rule. After a poll
// that failed or crashed (a transaction may be rewound) there are several: the one
// before it, and the one after it.
type position struct {
	after []place
}

// takePoll takes what a poll returned. A poll that failed or crashed returned
// its records all the same: any poll is evidence that a record was there.
func (s *state) takePoll(l *histories.PollReturn) {
	_, x := s.session(l.Process)
	s.polls++
	certain := l.Stated == "" || l.Stated == histories.OutcomeOK
	reached := make(map[int32]place)
	for _, records := range l.Records {
		index := s.log(records.Partition)
		for _, r := range records.Records {
			if r.Offset < 0 {
				s.malform("a record of %s/%d has the offset %d", records.Topic, records.Partition.Partition, r.Offset)
				continue
			}
			e := s.takeRead(x, l, index, r, certain)
			s.step(x, l, index, place{r.Offset, e, records.LeaderEpoch}, reached)
		}
	}
	for index, last := range reached {
		x.advance(index, last, certain)
	}
}

// takeRead notes what was read where, and by which clock when, and gives the event.
func (s *state) takeRead(x *session, l *histories.PollReturn, index int32, r histories.Record, certain bool) uint32 {
	log := s.logs[index]
	if certain {
		log.highestOK = max(log.highestOK, r.Offset)
	}
	e := foreign
	if r.Event != "" {
		e = s.event(r.Event)
		s.noteSeen(e, index, r.Offset, l.Time, x.clock)
	} else {
		s.foreign++
	}
	if r.Corrupt != "" {
		s.corrupt = append(s.corrupt, corruptRecord{index, r.Offset, e, r.Corrupt})
	}
	if first := log.seen.first(r.Offset, e); first != e {
		s.disagreements = append(s.disagreements, disagreement{index, r.Offset, first, e, l.OperationID, false})
	}
	return e
}

func (s *state) noteSeen(e uint32, index int32, offset, at int64, clock uint32) {
	ev := &s.events[e]
	if !ev.seen {
		ev.seen, ev.seenLog, ev.seenOffset, ev.seenTime, ev.seenClock = true, index, offset, at, clock
		return
	}
	if clock == ev.seenClock {
		ev.seenTime = min(ev.seenTime, at)
	} else {
		s.noteOtherClock(e, earlyRead{clock, index, offset, at})
	}
	if ev.seenLog == index {
		ev.seenOffset = min(ev.seenOffset, offset)
	}
}

// noteOtherClock keeps a read by another clock than the first reader's, if it may turn
// out to have been before the event was sent.
func (s *state) noteOtherClock(e uint32, r earlyRead) {
	if first := s.events[e].first; first != 0 {
		d := &s.sends[first-1]
		if s.sessions[d.process].clock != r.clock || r.at >= d.invoked {
			return
		}
	}
	s.early[e] = append(s.early[e], r)
}

// step compares a record with the ones that this consumer was given before it.
// reached holds what this very poll returned last.
func (s *state) step(x *session, l *histories.PollReturn, index int32, to place, reached map[int32]place) {
	if last, inside := reached[index]; inside {
		s.noteStep(index, []place{last}, to, l.OperationID)
	} else if p := x.positions[index]; p != nil {
		s.noteStep(index, p.after, to, l.OperationID)
	}
	reached[index] = to
}

// noteStep files a step that no possible position explains: a gap to be looked
// into once the log is known, or a step back.
func (s *state) noteStep(index int32, after []place, to place, by histories.OperationID) {
	closest, found := place{}, false
	for _, from := range after {
		if to.offset == from.offset+1 {
			return
		}
		if from.offset < to.offset && (!found || from.offset > closest.offset) {
			closest, found = from, true
		}
	}
	if found {
		s.gaps = append(s.gaps, step{index, closest, to, by})
		return
	}
	s.backward = append(s.backward, step{index, after[len(after)-1], to, by})
}

// advance moves the position past a poll. After an uncertain poll the consumer
// may go on, or be rewound to where it was.
func (x *session) advance(index int32, last place, certain bool) {
	if x.positions == nil {
		x.positions = make(map[int32]*position)
	}
	p := x.positions[index]
	switch {
	case certain:
		x.positions[index] = &position{after: []place{last}}
	case p == nil:
		// Nothing is known about where it would be rewound to.
	case len(p.after) < 16:
		p.after = append(p.after, last)
	default:
		p.after[len(p.after)-1] = last
	}
}

// takePositionChange forgets, keeps or sets positions. See the Change constants
// of histories for what each kind of change does to them.
func (s *state) takePositionChange(l *histories.PositionChange) {
	_, x := s.session(l.Process)
	kept := x.positions
	if l.How == histories.ChangeAssign || l.How == histories.ChangeSubscribe {
		x.positions = nil
	}
	for _, p := range l.Partitions {
		index := s.log(p.Partition)
		switch {
		case l.How == histories.ChangeRevoke:
			delete(x.positions, index)
		case p.Position >= 0:
			x.setPosition(index, p.Position)
		case l.How == histories.ChangeAssign && kept[index] != nil:
			x.keepPosition(index, kept[index])
		default:
			delete(x.positions, index)
		}
	}
}

func (x *session) setPosition(index int32, next int64) {
	x.keepPosition(index, &position{after: []place{{next - 1, none, histories.Unknown}}})
}

func (x *session) keepPosition(index int32, p *position) {
	if x.positions == nil {
		x.positions = make(map[int32]*position)
	}
	x.positions[index] = p
}
