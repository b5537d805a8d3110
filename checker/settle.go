// This file holds what is decided before any anomaly is asked for: under which
// configuration each send is judged, what its outcome is, and where each event
// lies in the log.

package checker

import (
	"fmt"
	"maps"
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
	}
	for index, log := range s.logs {
		if log.final == nil {
			s.evidence(int32(index), log)
		} else {
			s.fillBelowStart(log)
		}
	}
	s.addUnreadEvidence()
	for index, log := range s.logs {
		log.sortRecords()
		s.placeEvents(int32(index), log)
	}
}

// evidence makes a log of what polls returned, where there is no final read. What
// an unfinished final read returned is evidence too.
func (s *state) evidence(index int32, log *partitionLog) {
	log.evidenceOnly = true
	for _, r := range log.records {
		if r.event != foreign {
			s.noteSeen(r.event, index, r.offset, never, s.clocks.of(""))
		}
		log.seen.first(r.offset, r.event)
	}
	log.records = log.records[:0]
	log.seen.each(func(offset int64, e uint32) {
		log.records = append(log.records, place{offset, e, histories.Unknown})
	})
}

// addUnreadEvidence adds, to logs without a final read, the events that were read
// at an offset where another one was read first, and the acknowledged ones that
// nobody read, at the offset of their acknowledgement.
func (s *state) addUnreadEvidence() {
	for e := range s.events {
		ev := &s.events[e]
		if ev.seen {
			log := s.logs[ev.seenLog]
			if first, _ := log.seen.get(ev.seenOffset); log.evidenceOnly && first != uint32(e) {
				log.records = append(log.records, place{ev.seenOffset, uint32(e), histories.Unknown})
			}
			continue
		}
		for _, i := range s.sendsOf(uint32(e)) {
			d := &s.sends[i]
			if d.outcome == ok && d.log >= 0 && d.offset >= 0 && s.logs[d.log].evidenceOnly {
				s.logs[d.log].records = append(s.logs[d.log].records, place{d.offset, uint32(e), histories.Unknown})
			}
		}
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
// place: in the partition that acknowledged it, if it lies there, else where it
// was found first.
func (s *state) placeEvents(index int32, log *partitionLog) {
	for i, r := range log.records {
		if r.event == foreign || (i > 0 && log.records[i-1].offset == r.offset && log.records[i-1].event == r.event) {
			continue
		}
		ev := &s.events[r.event]
		s.noteCopy(r.event, ev, index, r.offset)
		switch {
		case !ev.placed, ev.placeLog != index && s.acknowledgedIn(r.event, index) && !s.acknowledgedIn(r.event, ev.placeLog):
			ev.placed, ev.placeLog, ev.placeOffset = true, index, r.offset
		}
	}
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

func (s *state) acknowledgedIn(e uint32, log int32) bool {
	for _, i := range s.sendsOf(e) {
		if s.sends[i].outcome == ok && s.sends[i].log == log {
			return true
		}
	}
	return false
}

// confirmed: acknowledged; with acks=0, where nothing is, reported as sent.
func (s *state) confirmed(d *send) bool {
	return d.outcome == ok || (d.succeeded && s.configurationOf(d).acksOrUnknown() == "0")
}

// read: somebody was given the event, or the final log holds it.
func (s *state) inLogByReading(e uint32) bool {
	ev := &s.events[e]
	return ev.placed && (ev.seen || !s.logs[ev.placeLog].evidenceOnly)
}
