// This file holds the judges that ask, event by event, whether the log holds what
// the answers say: loss, wrong offsets, duplicates, impossible writes, phantoms,
// corruption, wrong places, and records that are there but not shown.

package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// judgePlaces walks all events once.
func (f *findings) judgePlaces() {
	for e := range f.state.events {
		f.judgeEvent(uint32(e))
	}
	f.judgeCorrupt()
	f.judgeFrozen()
	f.judgeAskedPlaces()
}

func (f *findings) judgeEvent(e uint32) {
	s := f.state
	ev := &s.events[e]
	sends := s.sendsOf(e)
	if len(sends) == 0 {
		if ev.placed || ev.seen {
			f.phantom(e)
		}
		return
	}
	f.countOutcomes(e, sends)
	failed := true
	for _, i := range sends {
		failed = failed && s.sends[i].outcome == fail
		if s.sends[i].outcome == ok {
			f.judgeOffset(e, &s.sends[i])
		}
	}
	if !s.inLogByReading(e) {
		f.judgeAbsent(e, sends)
	}
	if failed && ev.placed {
		f.add(ImpossibleWrite, ev.placeLog, ev.placeOffset, []uint32{e}, nil,
			"%s lies at %s offset %d, although its send certainly failed%s", s.eventName(e), s.logName(ev.placeLog),
			ev.placeOffset, quoted(s.errors.list[s.sends[sends[0]].err]))
	}
	if ev.copies > 1 {
		f.judgeCopies(e, sends)
	}
}

// countOutcomes counts sends by outcome, and what is no violation by itself.
func (f *findings) countOutcomes(e uint32, sends []uint32) {
	s := f.state
	acknowledged, unknown, reported := false, false, false
	for _, i := range sends {
		d := &s.sends[i]
		f.counts.Invoked++
		if d.resend {
			f.counts.Resends++
		}
		switch d.outcome {
		case ok:
			f.counts.Acknowledged++
			acknowledged = true
		case fail:
			f.counts.Failed++
		default:
			f.counts.Unknown++
			unknown = true
			reported = reported || d.succeeded
		}
	}
	switch {
	case unknown && !acknowledged && s.events[e].placed:
		f.counts.Ghosts++
	case reported && !s.events[e].placed:
		f.counts.UnconfirmedLosses++
	}
}

func (f *findings) phantom(e uint32) {
	s := f.state
	ev := &s.events[e]
	log, offset := ev.placeLog, ev.placeOffset
	if !ev.placed {
		log, offset = ev.seenLog, ev.seenOffset
	}
	f.add(Phantom, log, offset, []uint32{e}, nil, "%s was read at %s offset %d, and nobody sent it",
		s.eventName(e), s.logName(log), offset)
}

// absence is what can be said of an acknowledged event that no reading found.
type absence int

const (
	cannotTell absence = iota
	notShown
	lost
)

// judgeAbsent says of an event that no reading found whether it is lost, not shown,
// or cannot be told: what any of its acknowledgements proves.
func (f *findings) judgeAbsent(e uint32, sends []uint32) {
	worst, reason := absence(-1), ""
	var witness *send
	for _, i := range sends {
		d := &f.state.sends[i]
		if d.outcome != ok || (d.log >= 0 && f.state.logs[d.log].evidenceOnly && f.state.events[e].seen) {
			continue
		}
		if a, why := f.state.absence(d); a > worst {
			worst, reason, witness = a, why, d
		}
	}
	switch {
	case witness == nil:
	case worst == lost:
		f.lost(e, witness)
	case worst == notShown:
		f.notShown(e, witness)
	default:
		f.cannotTell(LostWrite, reason)
	}
}

// absence says what one acknowledgement of an event that is nowhere proves, and why
// nothing if nothing.
func (s *state) absence(d *send) (absence, string) {
	if d.log < 0 {
		return s.absenceAnywhere(d)
	}
	log := s.logs[d.log]
	switch {
	case log.evidenceOnly && s.hasFinalRead:
		return cannotTell, "the final read left their partition out"
	case log.evidenceOnly && d.offset >= 0 && log.highestOK > d.offset:
		return lost, ""
	case log.evidenceOnly:
		return notShown, ""
	case d.offset >= 0 && d.offset < log.start():
		return cannotTell, "acknowledged events lie below the start of the final log, and nobody had read them before"
	case d.offset >= 0 && log.settled(d.offset):
		return lost, ""
	case log.frozen():
		return notShown, ""
	case log.complete() && log.start() <= s.startOf(log.name): // and so without an offset
		return lost, ""
	case log.complete():
		return cannotTell, "acknowledged without an offset, and the start of the log was removed"
	}
	return cannotTell, "the final read did not get as far as their acknowledged offsets"
}

// absenceAnywhere: acknowledged without a partition: every partition of the topic
// must have been read whole.
func (s *state) absenceAnywhere(d *send) (absence, string) {
	topic := s.topics.list[d.topic]
	partitions, there := int32(0), max(s.partitionsOf(topic), s.partitionsAsked(d.topic))
	for _, log := range s.logs {
		if log.name.Topic != topic {
			continue
		}
		partitions, there = partitions+1, max(there, log.name.Partition+1)
		if !log.complete() || log.start() > s.startOf(log.name) {
			return cannotTell, "acknowledged without a partition, and not every partition was read whole"
		}
	}
	// Partitions count from 0: one that anything names says that those below it are there.
	if partitions == 0 || partitions < there {
		return cannotTell, "acknowledged without a partition, and not every partition was read"
	}
	return lost, ""
}

// partitionsAsked is how many partitions a topic must have for what any send asked for.
func (s *state) partitionsAsked(topic uint32) int32 {
	if s.asked == nil {
		s.asked = make(map[uint32]int32)
		for i := range s.sends {
			d := &s.sends[i]
			s.asked[d.topic] = max(s.asked[d.topic], d.asked+1)
		}
	}
	return s.asked[topic]
}

// startOf is the log end of a partition before the run, zero if unknown.
func (s *state) startOf(p histories.Partition) int64 {
	for _, t := range s.header.Topics {
		if t.Name == p.Topic && int(p.Partition) < len(t.Start) && p.Partition >= 0 {
			return t.Start[p.Partition]
		}
	}
	return 0
}

func (s *state) partitionsOf(topic string) int32 {
	for _, t := range s.header.Topics {
		if t.Name == topic {
			return t.Partitions
		}
	}
	return 0
}

// notShown: acknowledged, and not shown to those who read.
func (f *findings) notShown(e uint32, d *send) {
	s := f.state
	log := s.logs[d.log]
	if log.evidenceOnly {
		f.add(Unseen, d.log, d.offset, []uint32{e}, nil,
			"%s was acknowledged at %s, and no poll returned it or anything behind it", s.eventName(e), f.acknowledgedAt(d))
		return
	}
	if hindered := s.hindered(); hindered != "" {
		f.cannotTell(Unseen, hindered)
		return
	}
	f.add(Unseen, d.log, d.offset, []uint32{e}, nil,
		"%s was acknowledged at %s; the log ends at %d, but readers are shown it only up to %d", s.eventName(e),
		f.acknowledgedAt(d), log.end(), log.final.HighWatermark)
}

func (f *findings) lost(e uint32, d *send) {
	s := f.state
	where := "the final read of that partition did not find it anywhere"
	if d.log < 0 {
		where = "the final read of every partition did not find it"
	}
	if d.log >= 0 && d.offset >= 0 {
		where += ": " + s.instead(s.logs[d.log], d.offset)
	}
	if d.log >= 0 && s.logs[d.log].evidenceOnly {
		where = fmt.Sprintf("no poll returned it, though one returned offset %d", s.logs[d.log].highestOK)
	}
	f.add(LostWrite, d.log, d.offset, []uint32{e}, nil, "%s was acknowledged at %s, and %s",
		s.eventName(e), f.acknowledgedAt(d), where)
}

// instead says what lies where an event should be.
func (s *state) instead(log *partitionLog, offset int64) string {
	for _, p := range log.at(offset) {
		return fmt.Sprintf("offset %d holds %s", offset, s.eventName(p.event))
	}
	if log.final != nil && offset >= log.final.LogEnd {
		return fmt.Sprintf("the log ends at %d", log.final.LogEnd)
	}
	return fmt.Sprintf("offset %d holds no event", offset)
}

func (f *findings) acknowledgedAt(d *send) string {
	if d.log < 0 {
		return "an unknown place"
	}
	if d.offset < 0 {
		return f.state.logName(d.log) + " (offset not reported)"
	}
	return fmt.Sprintf("%s offset %d", f.state.logName(d.log), d.offset)
}

// judgeOffset: acknowledged at o, and the log holds it not at o but elsewhere.
func (f *findings) judgeOffset(e uint32, d *send) {
	s := f.state
	ev := &s.events[e]
	if d.log < 0 || d.offset < 0 || !s.inLogByReading(e) {
		return
	}
	log := s.logs[d.log]
	switch {
	case log.holds(d.offset, e):
		return
	case d.offset < log.start():
		f.cannotTell(WrongOffset, "the log's start moved past their acknowledged offsets, and they were seen elsewhere only")
		return
	}
	if !log.evidenceOnly && !log.settled(d.offset) {
		f.cannotTell(WrongOffset, "the final read did not get as far as their acknowledged offsets")
		return
	}
	if f.compactedAway(e, d) {
		return
	}
	f.add(WrongOffset, d.log, d.offset, []uint32{e}, []histories.OperationID{s.operation(d)},
		"%s was acknowledged at %s and lies at %s offset %d; %s", s.eventName(e), f.acknowledgedAt(d),
		s.logName(ev.placeLog), ev.placeOffset, s.instead(log, d.offset))
}

// compactedAway: that nothing lies at an acknowledged offset may be compaction's doing, as the
// event had another copy, which is the one that was found. The cleaner begins at the log's start
// and so keeps no older record of a key where it removed a later one (KIP-58); where neither the
// application nor the configuration allows another copy there was none. Where nobody says whether
// the topic is compacted it excuses nothing: the offset is named, as Jepsen's checker names it, and
// what it is worth is unknown as nothing is known of the configuration.
func (f *findings) compactedAway(e uint32, d *send) bool {
	s, ev, log := f.state, &f.state.events[e], f.state.logs[d.log]
	if s.compacts(log.name.Topic) != yes || len(log.at(d.offset)) > 0 {
		return false
	}
	once := f.promisedFor(Duplicate, []uint32{e})
	if len(s.sendsOf(e)) == 1 && once != nil && *once {
		return false
	}
	return ev.placeLog != d.log || ev.placeOffset > d.offset || ev.placeOffset < log.start()
}

// judgeCopies: copies that further sends of the application explain are counted;
// those beyond are the client library's or the broker's.
// A send that certainly failed explains none.
func (f *findings) judgeCopies(e uint32, sends []uint32) {
	s := f.state
	ev := &s.events[e]
	explained := 0
	for _, i := range sends {
		if s.sends[i].outcome != fail {
			explained++
		}
	}
	if int(ev.copies) <= explained {
		f.counts.ApplicationDuplicates++
		return
	}
	places := s.placesOf(e)
	f.add(Duplicate, ev.placeLog, ev.placeOffset, []uint32{e}, nil, "%s was sent %s and lies in the log %d times: %s",
		s.eventName(e), times(len(sends)), ev.copies, strings.Join(places, ", "))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// placesOf names the places of an event's copies, at most eight.
func (s *state) placesOf(e uint32) []string {
	var places []string
	for _, p := range s.copies[e] {
		if len(places) == 8 {
			return append(places, "…")
		}
		places = append(places, fmt.Sprintf("%s offset %d", s.logName(p.log), p.offset))
	}
	return places
}

func (f *findings) judgeCorrupt() {
	s := f.state
	seen := make(map[[2]int64]bool)
	for _, c := range s.corrupt {
		at := [2]int64{int64(c.log), c.offset}
		if seen[at] {
			continue
		}
		seen[at] = true
		f.add(Corrupt, c.log, c.offset, []uint32{c.event}, nil, "%s at %s offset %d differs from what was sent: %s",
			s.eventName(c.event), s.logName(c.log), c.offset, c.what)
	}
}

// judgeFrozen: a log end that stays above the high watermark where no
// acknowledged event accounts for it yet.
func (f *findings) judgeFrozen() {
	s := f.state
	accounted := make(map[string]bool)
	for _, i := range f.instances[Unseen] {
		accounted[fmt.Sprintf("%s/%d", i.Topic, i.Partition)] = true
	}
	for index, log := range s.logs {
		if !log.frozen() || accounted[s.logName(int32(index))] {
			continue
		}
		if hindered := s.hindered(); hindered != "" {
			f.cannotTell(Unseen, hindered)
			continue
		}
		f.add(Unseen, int32(index), log.final.HighWatermark, nil, nil,
			"the log of %s ends at %d, but readers are shown it only up to %d",
			s.logName(int32(index)), log.final.LogEnd, log.final.HighWatermark)
	}
}

// keyPlace is a key as one client library maps it to partitions.
type keyPlace struct {
	client string
	topic  uint32
	key    uint32
}

// judgeAskedPlaces walks the logs: is each event where it was sent to, and are
// all events of a key in one partition where that is promised?
func (f *findings) judgeAskedPlaces() {
	s := f.state
	home := make(map[keyPlace]place)
	for index, log := range s.logs {
		for _, r := range log.records {
			if r.event == foreign || s.events[r.event].first == 0 {
				continue
			}
			d := &s.sends[s.events[r.event].first-1]
			switch {
			case !s.mayLie(r.event, log):
				f.add(WrongPlace, int32(index), r.offset, []uint32{r.event}, nil, "%s was sent to %s and lies at %s offset %d",
					s.eventName(r.event), s.askedFor(d), s.logName(int32(index)), r.offset)
			case d.asked < 0 && s.keys.list[d.key] != "" && !s.configurationOf(d).scatter:
				f.judgeKey(home, d, int32(index), r)
			}
		}
	}
}

// mayLie: one of the event's sends was to this partition, or left it open.
func (s *state) mayLie(e uint32, log *partitionLog) bool {
	return slices.ContainsFunc(s.sendsOf(e), func(i uint32) bool {
		d := &s.sends[i]
		return s.topics.list[d.topic] == log.name.Topic && (d.asked < 0 || d.asked == log.name.Partition)
	})
}

func (s *state) askedFor(d *send) string {
	if d.asked < 0 {
		return s.topics.list[d.topic]
	}
	return fmt.Sprintf("%s/%d", s.topics.list[d.topic], d.asked)
}

func (f *findings) judgeKey(home map[keyPlace]place, d *send, index int32, r place) {
	s := f.state
	k := keyPlace{s.configurationOf(d).Client, d.topic, d.key}
	first, known := home[k]
	if !known {
		home[k] = place{offset: int64(index), event: r.event}
		return
	}
	if first.offset == int64(index) {
		return
	}
	f.add(WrongPlace, index, r.offset, []uint32{r.event, first.event}, nil,
		"%s lies in %s, and %s of the same key %q lies in %s", s.eventName(r.event), s.logName(index),
		s.eventName(first.event), s.keys.list[d.key], s.logName(int32(first.offset)))
}
