// This file holds how judges report what they found.

package checker

import (
	"fmt"

	"github.com/ackproof/ackproof/histories"
)

// Instance is one occurrence of an anomaly.
type Instance struct {
	// Topic and Partition where it happened; Topic empty: not at one place.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// Offset in that partition, or Unknown (-1).
	Offset int64 `json:"offset"`
	// Events concerned, the one that shows it first.
	Events []string `json:"events,omitempty"`
	// Text says in words what happened.
	Text string `json:"text"`

	promised *bool
	numbers  []uint32                // of the events
	by       []histories.OperationID // further operations that prove it
}

// findings collects instances by anomaly.
type findings struct {
	state     *state
	instances map[Anomaly][]Instance
	// undecided counts, by anomaly, what could not be told, with one reason.
	undecided map[Anomaly]*undecided
	counts    Counts
}

type undecided struct {
	count  int64
	reason string
}

func newFindings(s *state) *findings {
	return &findings{state: s, instances: make(map[Anomaly][]Instance), undecided: make(map[Anomaly]*undecided)}
}

// add files an instance about events (the first one decides under which
// configuration it is judged), at a place in a log (-1: none).
func (f *findings) add(name Anomaly, log int32, offset int64, events []uint32, by []histories.OperationID,
	format string, args ...any) {
	instance := Instance{Offset: offset, numbers: events, by: by, Text: fmt.Sprintf(format, args...)}
	if log >= 0 {
		instance.Topic, instance.Partition = f.state.logs[log].name.Topic, f.state.logs[log].name.Partition
	}
	for _, e := range events {
		instance.Events = append(instance.Events, f.state.eventName(e))
	}
	instance.promised = f.promisedFor(name, events)
	f.instances[name] = append(f.instances[name], instance)
}

// promisedFor gives whether the configuration of the first event's producer
// promises that the anomaly does not happen.
func (f *findings) promisedFor(name Anomaly, events []uint32) *bool {
	for _, e := range events {
		if e == foreign {
			continue
		}
		if first := f.state.events[e].first; first != 0 {
			return f.state.configurationOf(&f.state.sends[first-1]).promises[name].Promised
		}
	}
	return f.state.configurations[0].promises[name].Promised
}

// cannotTell counts something that might be an instance, had more been recorded.
func (f *findings) cannotTell(name Anomaly, reason string) {
	u := f.undecided[name]
	if u == nil {
		u = &undecided{reason: reason}
		f.undecided[name] = u
	}
	u.count++
}

func (s *state) eventName(e uint32) string {
	if e == foreign {
		return "(a record of another run)"
	}
	return s.ids.name(e)
}

func (s *state) logName(log int32) string {
	if log < 0 {
		return "an unknown partition"
	}
	return fmt.Sprintf("%s/%d", s.logs[log].name.Topic, s.logs[log].name.Partition)
}

func (s *state) operation(d *send) histories.OperationID {
	return histories.OperationID{Process: s.sessions[d.process].name, Number: d.number}
}
