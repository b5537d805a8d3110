// This file holds how the operations of Jepsen's Kafka workload become lines,
// whatever notation they were read from. FORMAT.md describes the mapping.

package histories

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The types of a Jepsen operation.
type jepsenType byte

const (
	jepsenNoType jepsenType = iota
	jepsenInvoke
	jepsenOK
	jepsenFail
	jepsenInfo
)

func jepsenTypeOf(name []byte) jepsenType {
	switch string(name) {
	case "invoke":
		return jepsenInvoke
	case "ok":
		return jepsenOK
	case "fail":
		return jepsenFail
	case "info":
		return jepsenInfo
	}
	return jepsenNoType
}

func (t jepsenType) outcome() Outcome {
	switch t { //nolint:exhaustive // everything else is unknown
	case jepsenOK:
		return OutcomeOK
	case jepsenFail:
		return OutcomeFail
	}
	return OutcomeInfo
}

// The functions of a Jepsen operation.
type jepsenFunction byte

const (
	jepsenOther jepsenFunction = iota
	jepsenTransact
	jepsenAssign
	jepsenSubscribe
	jepsenCrash
)

// jepsenOperation is one entry of a Jepsen history: an invocation or a
// completion. Reading the next one overwrites what it points to.
type jepsenOperation struct {
	number     int64 // the line that it is on
	time       int64
	hasTime    bool
	client     bool // it has a process number; the nemesis has a name
	process    int64
	kind       jepsenType
	function   jepsenFunction
	sends      []jepsenSend
	polls      bool // it has a poll
	parts      []jepsenPart
	records    []jepsenRecord
	keys       []string   // of assign and subscribe
	hasKeys    bool       // they are given
	rebalances [][]string // keys by rebalance
	message    string     // of the error
	// sendEvents and recordEvents hold the identities.
	sendEvents, recordEvents []byte
}

// jepsenSend is a send; its identity is sendEvents[start:end].
type jepsenSend struct {
	key        string
	start, end int
	offset     int64
}

// jepsenPart is what a poll returned of one key: records[first:last].
type jepsenPart struct {
	key         string
	first, last int
}

// jepsenRecord is a record; its identity is recordEvents[start:end].
type jepsenRecord struct {
	offset     int64
	start, end int
}

func (o *jepsenOperation) reset() {
	*o = jepsenOperation{
		sends: o.sends[:0], parts: o.parts[:0], records: o.records[:0], keys: o.keys[:0],
		rebalances: o.rebalances[:0], sendEvents: o.sendEvents[:0], recordEvents: o.recordEvents[:0],
	}
}

// setFunction sets the function by its name. A :poll polls also where its value
// is not given.
func (o *jepsenOperation) setFunction(name []byte) {
	switch string(name) {
	case "send", "txn":
		o.function = jepsenTransact
	case "poll":
		o.function, o.polls = jepsenTransact, true
	case "assign":
		o.function = jepsenAssign
	case "subscribe":
		o.function = jepsenSubscribe
	case "crash":
		o.function = jepsenCrash
	}
}

// jepsenPending is an invocation that has no completion yet.
type jepsenPending struct {
	open     bool
	number   int64
	time     int64
	function jepsenFunction
	polls    bool
	sends    []pendingSend
	keys     []string
}

type pendingSend struct{ key, event string }

// jepsenSession is what is known of a process.
type jepsenSession struct {
	name       string
	continues  string
	generation int
	producer   bool // its producer line was given
	consumer   bool
	operations int64            // the number of the next one
	ranks      map[string]int64 // of the next send, by key
	pending    jepsenPending
}

// jepsenMapper turns operations into lines. Sends are given when their
// completion is known, with the time of their invocation, because only the
// completion says what was really sent; ranks follow the invocations, which is
// the same since a process does one operation at a time.
type jepsenMapper struct {
	sessions map[int64]*jepsenSession
	// give takes a line; false: no more are wanted.
	give    func(line Line, number int64) bool
	stopped bool
	seen    bool // an operation was seen
	timed   bool // it had a time
	count   int64
	notes   map[string]int64
}

func newJepsenMapper(give func(Line, int64) bool) *jepsenMapper {
	return &jepsenMapper{sessions: map[int64]*jepsenSession{}, give: give, notes: map[string]int64{}}
}

// notApplicable are the assumptions that a Jepsen history says nothing about, by
// package checker's names.
var notApplicable = []string{
	"log-empty-at-start", "attempted-during-every-fault", "acknowledged-before-first-fault",
	"acknowledged-after-last-fault", "faults-bit", "last-write-to-each-partition-succeeded", "final-read-complete",
}

// jepsenHeader is the header of an imported Jepsen history. Jepsen stamps all
// operations by one clock.
func jepsenHeader(format string) *Header {
	return &Header{
		Tool:   "jepsen",
		Clock:  "jepsen",
		Source: &Source{Format: format, StatesOutcomes: true, NotApplicable: slices.Clone(notApplicable)},
	}
}

// notesOf gives what could not be used, in words and in order.
func (m *jepsenMapper) notesOf() []string {
	var notes []string
	for _, what := range slices.Sorted(maps.Keys(m.notes)) {
		notes = append(notes, fmt.Sprintf("%d %s", m.notes[what], what))
	}
	return notes
}

func (m *jepsenMapper) line(l Line, number int64) {
	if !m.stopped && !m.give(l, number) {
		m.stopped = true
	}
}

// take takes the next operation.
func (m *jepsenMapper) take(o *jepsenOperation) error {
	m.count++
	if !o.client {
		m.notes["entries without a process number (the nemesis) ignored"]++
		return nil
	}
	if o.kind == jepsenNoType {
		return fmt.Errorf("an operation of process %d without a :type (:invoke, :ok, :fail, :info)", o.process)
	}
	if o.function == jepsenOther {
		m.notes["entries of other functions ignored"]++
		return nil
	}
	if err := m.stamp(o); err != nil {
		return err
	}
	s := m.session(o.process)
	if o.kind == jepsenInvoke {
		if s.pending.open {
			m.notes["operations without a completion"]++
			m.abandon(s)
		}
		s.invoke(o)
		return nil
	}
	if !s.pending.open || s.pending.function != o.function {
		return fmt.Errorf("process %d completes an operation that it has not invoked", o.process)
	}
	if o.time < s.pending.time {
		return fmt.Errorf("process %d completes an operation before it invoked it", o.process)
	}
	m.complete(s, o)
	return nil
}

// stamp gives operations of a history without times their order as time.
func (m *jepsenMapper) stamp(o *jepsenOperation) error {
	if !m.seen {
		m.seen, m.timed = true, o.hasTime
	}
	if m.timed != o.hasTime {
		return fmt.Errorf("some operations have a :time and others have none")
	}
	if !o.hasTime {
		o.time = m.count - 1
	}
	return nil
}

func (m *jepsenMapper) session(process int64) *jepsenSession {
	s := m.sessions[process]
	if s == nil {
		s = &jepsenSession{name: "p" + strconv.FormatInt(process, 10), generation: 1, ranks: map[string]int64{}}
		m.sessions[process] = s
	}
	return s
}

// invoke keeps an invocation until its completion.
func (s *jepsenSession) invoke(o *jepsenOperation) {
	p := &s.pending
	p.open, p.number, p.time, p.function, p.polls = true, o.number, o.time, o.function, o.polls
	p.sends = p.sends[:0]
	for _, send := range o.sends {
		p.sends = append(p.sends, pendingSend{send.key, string(o.sendEvents[send.start:send.end])})
	}
	p.keys = append(p.keys[:0], o.keys...)
}

// complete gives the lines of an operation and of its completion.
func (m *jepsenMapper) complete(s *jepsenSession, o *jepsenOperation) {
	p := &s.pending
	p.open = false
	switch o.function {
	case jepsenAssign, jepsenSubscribe:
		keys := p.keys
		if o.hasKeys {
			keys = o.keys
		}
		if o.kind != jepsenFail {
			m.position(s, o.function, keys, o.time, o.number, "")
		}
	case jepsenCrash:
		m.crash(s, o.time, o.number)
	default:
		m.transact(s, o)
	}
}

// identity gives the identity of a completion's send: the invocation's own text
// where they agree, as they do as a rule, so that nothing is allocated.
func (p *jepsenPending) identity(o *jepsenOperation, i int) string {
	send := o.sends[i]
	text := o.sendEvents[send.start:send.end]
	if i < len(p.sends) && p.sends[i].key == send.key && p.sends[i].event == string(text) {
		return p.sends[i].event
	}
	return string(text)
}

// transact gives the lines of an operation that sends or polls.
func (m *jepsenMapper) transact(s *jepsenSession, o *jepsenOperation) {
	p := &s.pending
	first := s.operations
	for i, send := range o.sends {
		m.send(s, send.key, p.identity(o, i), o.number)
	}
	// What the invocation has beyond the completion may have been sent as well.
	beyond := p.sends[min(len(o.sends), len(p.sends)):]
	for _, send := range beyond {
		m.send(s, send.key, send.event, o.number)
	}
	poll := int64(Unknown)
	if p.polls || o.polls {
		poll = m.poll(s, o.number)
		for _, keys := range o.rebalances {
			m.position(s, jepsenSubscribe, keys, o.time, o.number, "rebalance")
		}
	}
	for i, send := range o.sends {
		m.sendReturn(s, o, first+int64(i), send.offset, o.kind.outcome())
	}
	for i := range beyond {
		stated := o.kind.outcome()
		if stated == OutcomeOK {
			stated = OutcomeInfo
		}
		m.sendReturn(s, o, first+int64(len(o.sends)+i), Unknown, stated)
	}
	if poll >= 0 {
		m.pollReturn(s, o, poll)
	}
}

// abandon gives the lines of an invocation that never completed.
func (m *jepsenMapper) abandon(s *jepsenSession) {
	p := &s.pending
	p.open = false
	switch p.function {
	case jepsenAssign, jepsenSubscribe:
		m.position(s, p.function, p.keys, p.time, p.number, "without a completion")
	case jepsenCrash:
		m.crash(s, p.time, p.number)
	default:
		for _, send := range p.sends {
			m.send(s, send.key, send.event, p.number)
		}
		if p.polls {
			m.poll(s, p.number)
		}
	}
}

// finish gives the operations that never completed, in the order of their
// invocations.
func (m *jepsenMapper) finish() {
	var open []*jepsenSession
	for _, s := range m.sessions {
		if s.pending.open {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b *jepsenSession) int {
		return cmp.Or(cmp.Compare(a.pending.time, b.pending.time), cmp.Compare(a.pending.number, b.pending.number),
			cmp.Compare(a.name, b.name))
	})
	for _, s := range open {
		m.notes["operations without a completion"]++
		m.abandon(s)
	}
}

func (m *jepsenMapper) openProducer(s *jepsenSession, number int64) {
	if !s.producer {
		s.producer = true
		m.line(&Producer{Name: s.name, Time: s.pending.time, Client: "jepsen", Continues: s.continues}, number)
	}
}

func (m *jepsenMapper) openConsumer(s *jepsenSession, number int64) {
	if !s.consumer {
		s.consumer = true
		m.line(&Consumer{Name: s.name, Time: s.pending.time, Client: "jepsen"}, number)
	}
}

func (m *jepsenMapper) send(s *jepsenSession, key, event string, number int64) {
	m.openProducer(s, number)
	rank := s.ranks[key]
	s.ranks[key] = rank + 1
	m.line(&Send{
		OperationID: OperationID{s.name, s.operations},
		Time:        s.pending.time,
		Event:       event,
		Topic:       key,
		OrderingKey: key,
		Rank:        rank,
	}, number)
	s.operations++
}

func (m *jepsenMapper) sendReturn(s *jepsenSession, o *jepsenOperation, operation, offset int64, stated Outcome) {
	m.line(&SendReturn{
		OperationID: OperationID{s.name, operation},
		Time:        o.time,
		Offset:      offset,
		Message:     o.message,
		Stated:      stated,
	}, o.number)
}

func (m *jepsenMapper) poll(s *jepsenSession, number int64) int64 {
	m.openConsumer(s, number)
	operation := s.operations
	s.operations++
	m.line(&Poll{OperationID{s.name, operation}, s.pending.time}, number)
	return operation
}

func (m *jepsenMapper) pollReturn(s *jepsenSession, o *jepsenOperation, operation int64) {
	events := string(o.recordEvents)
	records := make([]Record, len(o.records))
	for i, r := range o.records {
		records[i] = Record{Offset: r.offset, Event: events[r.start:r.end]}
	}
	var parts []Records
	if len(o.parts) > 0 {
		parts = make([]Records, len(o.parts))
	}
	for i, part := range o.parts {
		parts[i] = Records{
			Partition:   Partition{Topic: part.key},
			LeaderEpoch: Unknown,
			Records:     records[part.first:part.last:part.last],
		}
	}
	m.line(&PollReturn{
		OperationID: OperationID{s.name, operation},
		Time:        o.time,
		Records:     parts,
		Error:       o.message,
		Stated:      o.kind.outcome(),
	}, o.number)
}

// position gives a change of the assignment; positions are unknown.
func (m *jepsenMapper) position(s *jepsenSession, f jepsenFunction, keys []string, time, number int64, reason string) {
	m.openConsumer(s, number)
	change := &PositionChange{Process: s.name, Time: time, How: ChangeAssign, Reason: reason}
	if f == jepsenSubscribe {
		change.How = ChangeSubscribe
	}
	for _, key := range keys {
		change.Partitions = append(change.Partitions, PartitionPosition{Partition{Topic: key}, Unknown})
	}
	m.line(change, number)
}

// crash ends a process's sessions. Should Jepsen go on with its number, that is
// another session.
func (m *jepsenMapper) crash(s *jepsenSession, time, number int64) {
	if s.consumer {
		m.line(&ConsumerClose{Name: s.name, Time: time, Crashed: true}, number)
	}
	if s.producer {
		m.line(&ProducerClose{Name: s.name, Time: time, Crashed: true}, number)
	}
	if s.consumer || s.producer {
		base, generation := s.name, s.generation+1
		if s.generation > 1 {
			base = base[:len(base)-len(fmt.Sprintf("#%d", s.generation))]
		}
		*s = jepsenSession{
			name: fmt.Sprintf("%s#%d", base, generation), generation: generation, ranks: map[string]int64{},
		}
	}
}
