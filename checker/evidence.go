// This file holds the second pass over a history: it fetches every operation that
// proves the examples.

package checker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ackproof/ackproof/histories"
)

// Evidence is one line of the history that bears on an example, in words.
type Evidence struct {
	// Line is its number in the history.
	Line int64 `json:"line"`
	// Time in nanoseconds since the start of the run; absent where the line has
	// none of its own (the final read's).
	Time *int64 `json:"time,omitempty"`
	// What it is: send, return, attempt, poll, final-read, replica-read.
	What string `json:"what"`
	Text string `json:"text"`
}

// evidenceLimit bounds the evidence of one example: a record that a hundred polls
// returned is proven by the first few.
const evidenceLimit = 48

// gatherer knows which examples care for which event and operation.
type gatherer struct {
	events     map[string][]*Example
	operations map[histories.OperationID][]*Example
	// replicas holds the examples of replica divergence, by partition.
	replicas map[histories.Partition][]*Example
	// sends of the events, once their lines were met.
	sends map[histories.OperationID]string
	// byProcess holds the operation numbers of sends, for the attempts.
	byProcess map[string][]int64
}

// gatherEvidence fills in the evidence of every example.
func (s *state) gatherEvidence(ctx context.Context, h histories.History, v *Verdict) error {
	g := &gatherer{
		events: make(map[string][]*Example), operations: make(map[histories.OperationID][]*Example),
		sends: make(map[histories.OperationID]string), byProcess: make(map[string][]int64),
		replicas: make(map[histories.Partition][]*Example),
	}
	for name, part := range v.Anomalies {
		for i := range part.Examples {
			x := &part.Examples[i]
			g.want(s, x)
			if name == ReplicaDivergence {
				p := histories.Partition{Topic: x.Topic, Partition: x.Partition}
				g.replicas[p] = append(g.replicas[p], x)
			}
		}
	}
	if len(g.events) == 0 && len(g.operations) == 0 && len(g.replicas) == 0 && len(v.Windows) == 0 {
		return nil
	}
	polls := s.windowPolls(v.Windows)
	for entry, err := range h.Lines(ctx) {
		if cut := (*histories.CutError)(nil); errors.As(err, &cut) {
			break
		}
		if err != nil {
			return err
		}
		g.take(entry)
		polls.take(entry.Line)
	}
	polls.finish()
	for _, part := range v.Anomalies {
		for i := range part.Examples {
			slices.SortStableFunc(part.Examples[i].Evidence, byTime)
		}
	}
	return nil
}

// byTime orders evidence by time, what has none (the final read) last.
func byTime(a, b Evidence) int {
	switch {
	case a.Time == nil || b.Time == nil:
		return cmp.Compare(boolToInt(a.Time == nil), boolToInt(b.Time == nil))
	default:
		return cmp.Compare(*a.Time, *b.Time)
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (g *gatherer) want(s *state, x *Example) {
	for _, e := range x.numbers {
		if e != foreign {
			g.events[s.eventName(e)] = append(g.events[s.eventName(e)], x)
		}
	}
	for _, id := range x.by {
		g.operations[id] = append(g.operations[id], x)
	}
}

func (x *Example) prove(number int64, at *int64, what, format string, args ...any) {
	if len(x.Evidence) < evidenceLimit {
		x.Evidence = append(x.Evidence, Evidence{number, at, what, fmt.Sprintf(format, args...)})
	}
}

func (g *gatherer) take(entry histories.Entry) {
	switch l := entry.Line.(type) {
	case *histories.Send:
		g.takeSend(entry.Number, l)
	case *histories.SendReturn:
		for _, x := range g.events[g.sends[l.OperationID]] {
			x.prove(entry.Number, &l.Time, "return", "%s was told of operation %d: %s", l.Process, l.Number, told(l))
		}
	case *histories.Attempt:
		g.takeAttempt(entry.Number, l)
	case *histories.PollReturn:
		g.takePoll(entry.Number, l)
	case *histories.FinalRecords:
		g.takeRecords(&l.Records, func(x *Example, r histories.Record) {
			x.prove(entry.Number, nil, "final-read", "the final read found %s at %s/%d offset %d%s", r.Event,
				l.Topic, l.Partition.Partition, r.Offset, epochText(l.LeaderEpoch))
		})
	case *histories.ReplicaRecords:
		g.takeReplicaRecords(entry.Number, l)
	case *histories.ReplicaRead:
		for _, x := range g.replicas[l.Partition] {
			x.prove(entry.Number, nil, "replica-read", "the log of replica %d (%s) was read from %d to %d%s", l.Replica, l.Source,
				l.LogStart, l.Position, quoted(l.Error))
		}
	}
}

// takeReplicaRecords proves what a replica holds at an example's offset; that it holds
// nothing there shows in how far it was read.
func (g *gatherer) takeReplicaRecords(number int64, l *histories.ReplicaRecords) {
	for _, x := range g.replicas[l.Partition] {
		for i := range l.Records {
			if r := &l.Records[i]; r.Offset == x.Offset {
				x.prove(number, nil, "replica-read", "replica %d (%s) holds %s at %s/%d offset %d%s", l.Replica, l.Source,
					recordName(r), l.Topic, l.Partition.Partition, r.Offset, epochText(l.LeaderEpoch))
			}
		}
	}
}

func epochText(epoch int32) string {
	if epoch == histories.Unknown {
		return ""
	}
	return fmt.Sprintf(" (leader epoch %d)", epoch)
}

func (g *gatherer) takeSend(number int64, l *histories.Send) {
	examples := g.events[l.Event]
	if examples == nil {
		return
	}
	g.sends[l.OperationID] = l.Event
	g.byProcess[l.Process] = append(g.byProcess[l.Process], l.Number)
	again := ""
	if l.ResendOf != nil {
		again = fmt.Sprintf(", again after operation %d of %s", l.ResendOf.Number, l.ResendOf.Process)
	}
	for _, x := range examples {
		x.prove(number, &l.Time, "send", "%s handed over %s as operation %d, number %d in the order of key %q%s",
			l.Process, l.Event, l.Number, l.Rank, l.OrderingKey, again)
	}
}

// told says what the client reported.
func told(l *histories.SendReturn) string {
	switch {
	case l.Closed:
		return "nothing; the recorder gave up waiting"
	case l.Stated != "" && l.Stated != histories.OutcomeOK:
		return string(l.Stated)
	case l.Error != "":
		return l.Error + quoted(l.Message)
	case l.ClientError != "":
		return l.ClientError + quoted(l.Message)
	case l.Offset < 0:
		return "acknowledged, without an offset"
	case l.Partition < 0:
		return fmt.Sprintf("acknowledged at offset %d", l.Offset)
	}
	return fmt.Sprintf("acknowledged at partition %d offset %d", l.Partition, l.Offset)
}

func quoted(message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", message)
}

func (g *gatherer) takeAttempt(number int64, l *histories.Attempt) {
	for _, operation := range g.byProcess[l.Process] {
		if !carries(l.Sends, operation) {
			continue
		}
		event := g.sends[histories.OperationID{Process: l.Process, Number: operation}]
		for _, x := range g.events[event] {
			x.prove(number, &l.Time, "attempt", "%s went to broker %d for %s/%d in a batch of %d: %s", event, l.Broker, l.Topic,
				l.Partition, batchSize(l), answered(l))
		}
	}
}

func carries(ranges []histories.Range, number int64) bool {
	for _, r := range ranges {
		if r.First <= number && number <= r.Last {
			return true
		}
	}
	return false
}

func batchSize(l *histories.Attempt) int64 {
	n := l.Unnamed
	for _, r := range l.Sends {
		n += r.Last - r.First + 1
	}
	return n
}

// answered says what the client got, and what the broker had answered where that
// is not the same.
func answered(l *histories.Attempt) string {
	text := "answered " + l.Answer
	if l.Answer == "" {
		text = "no answer (" + l.Lost + ")"
	}
	if l.Answer != "" && l.Offset >= 0 {
		text += fmt.Sprintf(", base offset %d", l.Offset)
	}
	if !l.Reached {
		text += "; it never reached the broker"
	}
	if l.BrokerAnswer != "" {
		text += "; the broker had answered " + l.BrokerAnswer
		if l.BrokerOffset >= 0 {
			text += fmt.Sprintf(", base offset %d", l.BrokerOffset)
		}
	}
	if l.Fault != "" {
		text += " [" + l.Fault + "]"
	}
	return text
}

func (g *gatherer) takePoll(number int64, l *histories.PollReturn) {
	for i := range l.Records {
		records := &l.Records[i]
		g.takeRecords(records, func(x *Example, r histories.Record) {
			x.prove(number, &l.Time, "poll", "%s was given %s at %s/%d offset %d%s", l.Process, r.Event, records.Topic,
				records.Partition.Partition, r.Offset, epochText(records.LeaderEpoch))
		})
	}
	for _, x := range g.operations[l.OperationID] {
		x.prove(number, &l.Time, "poll", "operation %d of %s returned %s", l.Number, l.Process, summary(l.Records, x))
	}
}

// summary names the offsets that a poll returned in an example's partition.
func summary(all []histories.Records, x *Example) string {
	var first, last int64
	n := 0
	for _, records := range all {
		if records.Topic != x.Topic || records.Partition.Partition != x.Partition {
			continue
		}
		for _, r := range records.Records {
			if n == 0 {
				first = r.Offset
			}
			last = r.Offset
			n++
		}
	}
	if n == 0 {
		return "nothing of that partition"
	}
	return fmt.Sprintf("%d records of %s/%d, offsets %d to %d", n, x.Topic, x.Partition, first, last)
}

func (g *gatherer) takeRecords(records *histories.Records, prove func(*Example, histories.Record)) {
	for _, r := range records.Records {
		for _, x := range g.events[r.Event] {
			prove(x, r)
		}
	}
}
