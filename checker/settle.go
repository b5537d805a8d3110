// This file holds what is decided before any anomaly is asked for: under which
// configuration each send is judged, what its outcome is, and where each event
// lies in the log.

package checker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// judgedConfiguration is a configuration with its promises.
type judgedConfiguration struct {
	Configuration
	promises map[Anomaly]Promise
	scatter  bool // keys may spread over partitions
}

// configure finds the distinct configurations of the history's producers and
// topics and asks the promise table about each. There is always at least one, so
// that a history without sends has promises as well.
func (s *state) configure() error {
	byText := make(map[string]int)
	for i := range s.sends {
		x, topic := s.sessions[s.sends[i].process], s.sends[i].topic
		for len(x.configs) <= int(topic) {
			x.configs = append(x.configs, -1)
		}
		if x.configs[topic] >= 0 {
			continue
		}
		config, err := s.configurationIndex(byText, x, s.topics.list[topic])
		if err != nil {
			return err
		}
		x.configs[topic] = config
	}
	if len(s.configurations) > 0 {
		return nil
	}
	topic := ""
	if len(s.header.Topics) > 0 {
		topic = s.header.Topics[0].Name
	}
	_, err := s.configurationIndex(byText, &session{}, topic)
	return err
}

func (s *state) configurationIndex(byText map[string]int, x *session, topic string) (int, error) {
	c := Configuration{Producer: s.header.Producer, Topic: s.topicProperties(topic), Effects: s.effects()}
	if x.producer != nil {
		if x.producer.Properties != nil {
			c.Producer = x.producer.Properties
		}
		c.Client = strings.TrimSpace(x.producer.Client + " " + x.producer.ClientVersion)
	}
	c.Producer = overlay(c.Producer, s.options.Producer)
	c.Topic = overlay(c.Topic, s.options.Topic)
	text := fmt.Sprint(c)
	if i, ok := byText[text]; ok {
		return i, nil
	}
	promises, err := Promises(c)
	if err != nil {
		return 0, err
	}
	judged := &judgedConfiguration{Configuration: c, promises: make(map[Anomaly]Promise)}
	for _, p := range promises {
		judged.promises[p.Anomaly] = p
	}
	judged.scatter = properties{partitioner: c.partitioner(), effects: effectSet(c.Effects)}.keysScatter()
	byText[text] = len(s.configurations)
	s.configurations = append(s.configurations, judged)
	return byText[text], nil
}

func effectSet(effects []string) map[string]bool {
	set := make(map[string]bool, len(effects))
	for _, e := range effects {
		set[e] = true
	}
	return set
}

func (s *state) topicProperties(topic string) map[string]string {
	for _, t := range s.header.Topics {
		if t.Name == topic {
			return t.Properties
		}
	}
	return nil
}

// effects are those of the faults that bit, and those that the header knows.
func (s *state) effects() []string {
	set := effectSet(s.header.Effects)
	for _, f := range s.faults {
		for _, e := range f.Effects {
			set[e] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// settle judges every send's outcome and finds every event's place.
func (s *state) settle() {
	for i := range s.sends {
		d := &s.sends[i]
		d.outcome = stated(Outcome(s.facts(d)))
		if d.outcome == ok && d.log < 0 && d.asked >= 0 {
			// The client did not say where, but it was told to write nowhere else.
			d.log = s.log(histories.Partition{Topic: s.topics.list[d.topic], Partition: d.asked})
		}
	}
	for index, log := range s.logs {
		if log.final == nil {
			s.evidence(int32(index), log)
		} else {
			s.fillBelowStart(log)
		}
	}
	s.addSecondSights()
	for index, log := range s.logs {
		log.sortRecords()
		s.placeEvents(int32(index), log)
	}
	s.addAcknowledged()
	s.findHomes()
}

// evidence makes a log of what polls returned, where there is no final read. What
// an unfinished final read returned is evidence too, and a read like any other.
func (s *state) evidence(index int32, log *partitionLog) {
	log.sortRecords()
	log.evidenceOnly, log.unfinished, log.records = true, log.records, nil
	for _, r := range log.unfinished {
		if first := log.seen.first(r.offset, r.event); first != r.event {
			s.disagreements = append(s.disagreements, disagreement{log: index, offset: r.offset, first: first, second: r.event})
		}
	}
	log.seen.each(func(offset int64, e uint32) {
		log.records = append(log.records, place{offset, e, histories.Unknown})
	})
}

// addSecondSights adds, to logs without a final read and below the start of the
// others, the events that were read at an offset where another one had been read
// first.
func (s *state) addSecondSights() {
	for _, d := range s.disagreements {
		if log := s.logs[d.log]; (log.evidenceOnly || d.offset < log.start()) && !d.acknowledged && d.second != foreign {
			log.records = append(log.records, place{d.offset, d.second, histories.Unknown})
		}
	}
}

// addAcknowledged adds, to logs without a final read, the acknowledged events that
// no reading found anywhere, at the offset of their acknowledgement.
func (s *state) addAcknowledged() {
	for e := range s.events {
		ev := &s.events[e]
		if ev.placed {
			continue
		}
		for _, i := range s.sendsOf(uint32(e)) {
			d := &s.sends[i]
			if d.outcome != ok || d.offset < 0 || !s.logs[d.log].evidenceOnly {
				continue
			}
			s.logs[d.log].records = append(s.logs[d.log].records, place{d.offset, uint32(e), histories.Unknown})
			s.noteCopy(uint32(e), ev, d.log, d.offset)
			if !ev.placed {
				ev.placed, ev.told, ev.placeLog, ev.placeOffset = true, true, d.log, d.offset
			}
		}
	}
	for _, log := range s.logs {
		log.sortRecords()
	}
}

// fillBelowStart adds what was seen during the run below the start of the final
// log: retention, deletion or compaction removed it there.
func (s *state) fillBelowStart(log *partitionLog) {
	if log.start() == 0 {
		return
	}
	log.seen.each(func(offset int64, e uint32) {
		if offset < log.start() {
			log.records = append(log.records, place{offset, e, histories.Unknown})
		}
	})
}

// placeEvents notes for every event how often it lies in the log, and its first
// place. Where it lies in several partitions, findHomes chooses.
func (s *state) placeEvents(index int32, log *partitionLog) {
	for i, r := range log.records {
		if r.event == foreign || (i > 0 && log.records[i-1].offset == r.offset && log.records[i-1].event == r.event) {
			continue
		}
		ev := &s.events[r.event]
		s.noteCopy(r.event, ev, index, r.offset)
		if !ev.placed {
			ev.placed, ev.placeLog, ev.placeOffset = true, index, r.offset
		}
	}
}

// findHomes settles the place of the events that lie in several places: the first
// one in the partition that acknowledged the earliest of its sends, else in the
// partition that the earliest one was sent to, else where it was found first.
func (s *state) findHomes() {
	for e, copies := range s.copies {
		ev := &s.events[e]
		for _, home := range s.homes(e) {
			if at := slices.IndexFunc(copies, func(c copyPlace) bool { return c.log == home }); at >= 0 {
				ev.placeLog, ev.placeOffset = home, copies[at].offset
				break
			}
		}
		for _, c := range copies {
			if c.log == ev.placeLog {
				ev.placeOffset = min(ev.placeOffset, c.offset)
			}
		}
	}
}

// homes gives the logs that an event belongs to, the likeliest first.
func (s *state) homes(e uint32) []int32 {
	var acknowledged, asked []int32
	for _, i := range s.sendsOf(e) {
		d := &s.sends[i]
		if d.outcome == ok {
			acknowledged = append(acknowledged, d.log) // none has the number -1 of an unknown one
		}
		if d.asked >= 0 {
			asked = append(asked, s.log(histories.Partition{Topic: s.topics.list[d.topic], Partition: d.asked}))
		}
	}
	return append(acknowledged, asked...)
}

// copyPlace is one of several places of one event.
type copyPlace struct {
	log    int32
	offset int64
}

// noteCopy counts a place of an event and, from the second one on, lists them.
func (s *state) noteCopy(e uint32, ev *event, index int32, offset int64) {
	ev.copies++
	if ev.copies == 2 {
		s.copies[e] = append(s.copies[e], copyPlace{ev.placeLog, ev.placeOffset})
	}
	if ev.copies > 1 {
		s.copies[e] = append(s.copies[e], copyPlace{index, offset})
	}
}

// span is the time in which an event certainly came to its place, by one clock: from
// the first invocation of its sends to their first reported acknowledgement, if any.
type span struct {
	clock      uint32
	call, back int64
	by         histories.OperationID // that was acknowledged
}

// span gives that of the event at a place. There is none where it is not the event's
// first place, where nobody sent it, and where several clocks stamped its sends.
func (s *state) span(index int32, r place) (span, bool) {
	if r.event == foreign {
		return span{}, false
	}
	ev := &s.events[r.event]
	if ev.first == 0 || ev.placeLog != index || ev.placeOffset != r.offset {
		return span{}, false
	}
	t := span{clock: s.sessions[s.sends[ev.first-1].process].clock, call: math.MaxInt64, back: math.MaxInt64}
	for _, i := range s.sendsOf(r.event) {
		d := &s.sends[i]
		if s.sessions[d.process].clock != t.clock {
			return span{}, false
		}
		t.call = min(t.call, d.invoked)
		if at := d.reportedAt(); d.outcome == ok && at != never && at < t.back {
			t.back, t.by = at, s.operation(d)
		}
	}
	return t, true
}

// confirmed: acknowledged; with acks=0, where nothing is, reported as sent.
func (s *state) confirmed(d *send) bool {
	return d.outcome == ok || (d.succeeded && s.configurationOf(d).acksOrUnknown() == "0")
}

// read: somebody was given the event, or the final log holds it.
func (s *state) inLogByReading(e uint32) bool {
	ev := &s.events[e]
	return ev.placed && !ev.told
}
