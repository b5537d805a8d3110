// This file holds the judges of what consumers were given: divergence, vanished
// and future reads, skipped and backward polls, and leader epochs along a log.

package checker

import (
	"math"
	"slices"

	"github.com/ackproof/ackproof/histories"
)

func (f *findings) judgeReads() {
	f.judgeDivergence()
	f.judgeVanished()
	f.judgeEpochs()
	f.judgeFuture()
	f.judgeSteps()
}

// at names an offset of a log.
type logOffset struct {
	log    int32
	offset int64
}

// judgeDivergence reports each offset once, however many reads disagree there.
func (f *findings) judgeDivergence() {
	s := f.state
	reported := make(map[logOffset]bool)
	for _, d := range s.disagreements {
		at := logOffset{d.log, d.offset}
		if reported[at] {
			continue
		}
		reported[at] = true
		if d.acknowledged {
			f.add(Divergence, d.log, d.offset, []uint32{d.first, d.second}, []histories.OperationID{d.by},
				"%s offset %d was acknowledged to both %s and %s", s.logName(d.log), d.offset,
				s.eventName(d.first), s.eventName(d.second))
			f.restsOnAcknowledgement(Divergence, WrongOffset)
			continue
		}
		f.add(Divergence, d.log, d.offset, []uint32{d.first, d.second}, []histories.OperationID{d.by},
			"one poll found %s at %s offset %d, another one %s", s.eventName(d.first), s.logName(d.log), d.offset,
			s.eventName(d.second))
	}
	for index, log := range s.logs {
		if log.final == nil {
			continue
		}
		f.judgeFinalAgainstSeen(int32(index), log, reported)
	}
}

// restsOnAcknowledgement: the last instance that was found rests on an acknowledgement's
// being final, so that it is promised only where that is; and where that is promised, the
// table promises it as well.
func (f *findings) restsOnAcknowledgement(name, final Anomaly) {
	last := &f.instances[name][len(f.instances[name])-1]
	last.promised = f.promisedFor(final, last.numbers)
}

func (f *findings) judgeFinalAgainstSeen(index int32, log *partitionLog, reported map[logOffset]bool) {
	s := f.state
	for i, r := range log.records {
		if i > 0 && log.records[i-1].offset == r.offset && log.records[i-1].event != r.event &&
			!reported[logOffset{index, r.offset}] {
			reported[logOffset{index, r.offset}] = true
			f.add(Divergence, index, r.offset, []uint32{log.records[i-1].event, r.event}, nil,
				"the final read found %s and %s at %s offset %d", s.eventName(log.records[i-1].event),
				s.eventName(r.event), s.logName(index), r.offset)
		}
		first, seen := log.seen.get(r.offset)
		if !seen || first == r.event || reported[logOffset{index, r.offset}] {
			continue
		}
		reported[logOffset{index, r.offset}] = true
		f.add(Divergence, index, r.offset, []uint32{first, r.event}, nil,
			"a poll found %s at %s offset %d, the final read %s", s.eventName(first), s.logName(index), r.offset,
			s.eventName(r.event))
	}
}

// judgeVanished: what a poll returned at or above the final log start must be in
// the final log at that offset.
func (f *findings) judgeVanished() {
	s := f.state
	for index, log := range s.logs {
		if log.final == nil {
			continue
		}
		log.seen.each(func(offset int64, e uint32) {
			f.judgeSeen(int32(index), log, offset, e)
		})
	}
	for _, d := range s.disagreements {
		if !d.acknowledged && s.logs[d.log].final != nil {
			f.judgeSeen(d.log, s.logs[d.log], d.offset, d.second)
		}
	}
}

func (f *findings) judgeSeen(index int32, log *partitionLog, offset int64, e uint32) {
	s := f.state
	if e == foreign || offset < log.start() || log.holds(offset, e) {
		return
	}
	if !log.settled(offset) {
		f.cannotTell(VanishedRead, "the final read did not get as far as the offsets that consumers had read")
		return
	}
	if len(log.at(offset)) == 0 { // compaction leaves a gap, never another record
		switch s.compacts(log.name.Topic) {
		case yes:
			return
		case perhaps:
			f.cannotTell(VanishedRead, "what a consumer was given is not in the log, and whether the topic is compacted is not known "+
				"("+histories.PropertyCleanupPolicy+")")
			return
		case no:
		}
	}
	f.add(VanishedRead, index, offset, []uint32{e}, nil, "a consumer was given %s at %s offset %d; in the final log, %s",
		s.eventName(e), s.logName(index), offset, s.instead(log, offset))
}

// judgeEpochs: along a log the leader epoch never falls (KIP-101).
func (f *findings) judgeEpochs() {
	s := f.state
	for index, log := range s.logs {
		records := log.records
		if log.evidenceOnly {
			records = log.unfinished
		}
		f.judgeEpochsOf(int32(index), records)
	}
}

// judgeEpochsOf compares each record with those at the offset before it.
func (f *findings) judgeEpochsOf(index int32, records []place) {
	before := place{offset: histories.Unknown, epoch: histories.Unknown}
	at := before
	for _, r := range records {
		if r.epoch == histories.Unknown {
			continue
		}
		if r.offset != at.offset {
			before, at = at, r
		}
		at.epoch = max(at.epoch, r.epoch)
		if r.epoch < before.epoch {
			f.add(EpochRegression, index, r.offset, []uint32{r.event}, nil,
				"%s: the leader epoch falls from %d at offset %d to %d at offset %d", f.state.logName(index),
				before.epoch, before.offset, r.epoch, r.offset)
		}
	}
}

// judgeFuture compares deliveries with invocations of the same clock only.
func (f *findings) judgeFuture() {
	s := f.state
	for e := range s.events {
		ev := &s.events[e]
		if !ev.seen || ev.first == 0 {
			continue
		}
		if f.judgeEarly(uint32(e), earlyRead{ev.seenClock, ev.seenLog, ev.seenOffset, ev.seenTime}) {
			continue
		}
		for _, r := range s.early[uint32(e)] {
			if f.judgeEarly(uint32(e), r) {
				break
			}
		}
	}
}

// judgeEarly reports a delivery that lies before each of the event's sends.
func (f *findings) judgeEarly(e uint32, r earlyRead) bool {
	s := f.state
	earliest := int64(math.MaxInt64)
	for _, i := range s.sendsOf(e) {
		d := &s.sends[i]
		if s.sessions[d.process].clock != r.clock {
			return false
		}
		earliest = min(earliest, d.invoked)
	}
	if r.at >= earliest {
		return false
	}
	f.add(FutureRead, r.log, r.offset, []uint32{e}, nil, "%s was read at %s offset %d, %d ns before it was sent",
		s.eventName(e), s.logName(r.log), r.offset, earliest-r.at)
	return true
}

// judgeSteps asks of every gap that a consumer stepped over whether the log holds
// a record there, and reports the steps back.
func (f *findings) judgeSteps() {
	s := f.state
	for _, g := range s.gaps {
		log := s.logs[g.log]
		skipped, found := log.between(max(g.from.offset, log.start()-1), g.to.offset)
		switch {
		case !found:
		case log.evidenceOnly && s.compacts(log.name.Topic) == yes:
			f.cannotTell(SkippedPoll, "what others were given where a consumer stepped over may have been compacted away before")
		case s.mayReplace(log.name.Topic) && !log.layBetween(g, skipped.offset):
			f.cannotTell(SkippedPoll, "what lies in the log where a consumer stepped over may have been written there "+
				"after it had passed, in the place of what was lost")
		default:
			f.add(SkippedPoll, g.log, skipped.offset, []uint32{skipped.event}, []histories.OperationID{g.by},
				"%s was given offset %d of %s after offset %d and stepped over %s at offset %d", g.by.Process, g.to.offset,
				s.logName(g.log), g.from.offset, s.eventName(skipped.event), skipped.offset)
			if !s.inLogByReading(skipped.event) {
				f.restsOnAcknowledgement(SkippedPoll, LostWrite)
			}
		}
	}
	for _, b := range s.backward {
		f.add(BackwardPoll, b.log, b.to.offset, nil, []histories.OperationID{b.by},
			"%s was given offset %d of %s after offset %d, without a seek, a new assignment or a reset", b.by.Process, b.to.offset,
			s.logName(b.log), b.from.offset)
	}
}

// mayReplace: an effect of a fault, or the topic's configuration, lets offsets that a
// consumer has passed be given again to other records.
func (s *state) mayReplace(topic string) bool {
	unclean := overlay(s.topicProperties(topic), s.options.Topic)[histories.PropertyUncleanElection] == "true"
	return properties{unclean: unclean, effects: effectSet(s.effects())}.lostCopies() != ""
}

// layBetween: the skipped record lay there already when the consumer passed, even if
// the log was cut off and written anew meanwhile. Records of one offset and leader
// epoch have the same ones before them (KIP-101), so both records must be in the final
// log as the consumer was given them; and a leader writes an offset once, so one that
// follows the first of them in its own epoch followed it from the beginning. One of a
// later epoch need not: there may have been a marker, until it was cut off.
func (l *partitionLog) layBetween(g step, skipped int64) bool {
	return l.holdsAsGiven(g.from) && l.holdsAsGiven(g.to) && slices.ContainsFunc(l.at(skipped), func(p place) bool {
		return p.event != foreign && p.epoch == g.from.epoch
	})
}

// holdsAsGiven: the log holds a record at its offset that is of its leader epoch, which
// is known.
func (l *partitionLog) holdsAsGiven(given place) bool {
	return given.epoch != histories.Unknown && slices.Contains(l.at(given.offset), given)
}
