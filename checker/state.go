// This file holds the state that one pass over a history builds: compact enough
// for tens of millions of sends.

package checker

import (
	"github.com/ackproof/ackproof/histories"
)

// never stands for a time that did not come.
const never int64 = -1 << 63

// send is one send. Strings are numbers in the tables of state.
type send struct {
	invoked  int64
	returned int64 // the first acknowledgement, else the last completion; never
	offset   int64 // acknowledged, or Unknown
	number   int64 // of the operation in its process
	rank     int64
	event    uint32
	key      uint32
	process  uint32
	topic    uint32
	group    uint32 // producer and ordering key, in state.groups
	asked    int32  // the partition that was asked for, or Unknown
	log      int32  // index of the acknowledged partition's log, or -1
	err      uint32
	// attempts, saturating: what became of the requests that carried it. Those that were
	// refused decide nothing: with acks=0 there are none.
	acknowledgedAttempts, unknownAttempts               uint8
	stated                                              uint8
	outcome                                             uint8
	hasReturned, closed, clientError, resend, succeeded bool
}

// The outcomes as small numbers.
const (
	unjudged uint8 = iota
	ok
	fail
	info
)

// event is what is known about one event: its sends and where it was seen.
type event struct {
	// first is the index of its first send + 1; zero: nobody invoked it.
	first uint32
	// more: it has further sends, in state.resends.
	more bool
	// seen: a poll returned it. The lowest offset and its log, and the earliest
	// time, by the clock of the first who saw it.
	seen       bool
	seenClock  uint32
	seenLog    int32
	seenOffset int64
	seenTime   int64
	// place: the final log (or the evidence) holds it: its log and first
	// place there, and how many copies lie anywhere.
	placed bool
	// told: an acknowledgement is the only evidence of its place.
	told        bool
	placeLog    int32
	copies      int32
	placeOffset int64
}

// session is a producer or consumer session, or a process that never said what
// it is.
type session struct {
	name     string
	clock    uint32
	producer *histories.Producer
	// configs are indices into state.configurations, by topic; -1: no sends to it.
	configs []int
	// sends by operation number, + 1.
	byNumber map[int64]uint32
	dense    []uint32
	// lastInvoked for the assumption that times do not run backwards.
	lastInvoked int64
	// consumer positions, by log.
	positions map[int32]*position
}

// state is everything that the judges look at.
type state struct {
	header  *histories.Header
	options Options

	keys, topics, errors, clocks *names
	contents                     *names // of records in replicas that no event stands for

	ids     *identities
	events  []event
	sends   []send
	resends map[uint32][]uint32 // event -> further sends
	// groups number the pairs of producer and ordering key; groupSizes counts
	// their sends; inOrder holds all first sends by group and rank, once asked.
	groups     map[orderGroup]uint32
	groupSizes []uint32
	inOrder    []uint32
	copies     map[uint32][]copyPlace
	// asked is how many partitions a topic must have for what its sends asked for, once asked.
	asked map[uint32]int32

	sessions  []*session
	byName    map[string]uint32
	logs      []*partitionLog
	logByName map[histories.Partition]int32

	faults  []*Fault
	cluster []*histories.ClusterEvent
	end     *histories.End
	cut     *histories.CutError
	lines   int64

	// reads that disagree, skips and steps back, corrupt records, as found while
	// reading; the judges turn them into instances.
	disagreements []disagreement
	gaps          []step
	backward      []step
	corrupt       []corruptRecord
	early         map[uint32][]earlyRead // by event
	foreign       int64
	malformed     []string
	timesBackward []string

	configurations []*judgedConfiguration
	hasFinalRead   bool
	polls          int64
}

// orderGroup is what send order is judged within.
type orderGroup struct{ process, key uint32 }

// disagreement: two reads (or two acknowledgements) of one offset.
type disagreement struct {
	log           int32
	offset        int64
	first, second uint32
	by            histories.OperationID
	acknowledged  bool
}

// step is one consumer's step from one record to the next one, as it was given them.
// From a position that was set, from has the offset before it and no event.
type step struct {
	log      int32
	from, to place
	by       histories.OperationID
}

// earlyRead is a delivery that may lie before the event's send.
type earlyRead struct {
	clock  uint32
	log    int32
	offset int64
	at     int64
}

type corruptRecord struct {
	log    int32
	offset int64
	event  uint32
	what   string
}

func newState(header *histories.Header, options Options) *state {
	s := &state{
		header: header, options: options,
		keys: newNames(), topics: newNames(), errors: newNames(), clocks: newNames(), contents: newNames(),
		ids: newIdentities(), resends: make(map[uint32][]uint32),
		early:  make(map[uint32][]earlyRead),
		copies: make(map[uint32][]copyPlace), groups: make(map[orderGroup]uint32),
		byName: make(map[string]uint32), logByName: make(map[histories.Partition]int32),
	}
	s.errors.of("")
	s.clocks.of(header.Clock)
	return s
}

// session gives the session of a process, making one that says nothing about
// itself when no line introduced it.
func (s *state) session(name string) (uint32, *session) {
	if i, ok := s.byName[name]; ok {
		return i, s.sessions[i]
	}
	i := uint32(len(s.sessions))
	x := &session{name: name, lastInvoked: never}
	s.sessions = append(s.sessions, x)
	s.byName[name] = i
	return i, x
}

// log gives the index of a partition's log.
func (s *state) log(p histories.Partition) int32 {
	if i, ok := s.logByName[p]; ok {
		return i
	}
	i := int32(len(s.logs))
	s.logs = append(s.logs, &partitionLog{name: p, highestOK: -1})
	s.logByName[p] = i
	return i
}

// group numbers a producer and ordering key and counts the send into it.
func (s *state) group(process, key uint32) uint32 {
	g, known := s.groups[orderGroup{process, key}]
	if !known {
		g = uint32(len(s.groupSizes))
		s.groups[orderGroup{process, key}] = g
		s.groupSizes = append(s.groupSizes, 0)
	}
	s.groupSizes[g]++
	return g
}

// event gives the number of an identity.
func (s *state) event(identity string) uint32 {
	number, isNew := s.ids.of(identity)
	if isNew {
		s.events = append(s.events, event{seenLog: -1, placeLog: -1})
	}
	return number
}

// sendsOf gives the indices of all sends of an event, the first one first.
func (s *state) sendsOf(e uint32) []uint32 {
	x := &s.events[e]
	if x.first == 0 {
		return nil
	}
	if !x.more {
		return []uint32{x.first - 1}
	}
	return append([]uint32{x.first - 1}, s.resends[e]...)
}

// remember files a send under its operation number.
func (x *session) remember(number int64, index uint32) {
	if number >= 0 && number < int64(len(x.dense))+denseSlack {
		for int64(len(x.dense)) <= number {
			x.dense = append(x.dense, 0)
		}
		x.dense[number] = index + 1
		return
	}
	if x.byNumber == nil {
		x.byNumber = make(map[int64]uint32)
	}
	x.byNumber[number] = index + 1
}

// find gives the send of an operation number.
func (x *session) find(number int64) (uint32, bool) {
	var i uint32
	if number >= 0 && number < int64(len(x.dense)) {
		i = x.dense[number]
	}
	if i == 0 {
		i = x.byNumber[number]
	}
	return i - 1, i != 0
}

// facts gives what Outcome needs to know about a send.
func (s *state) facts(x *send) SendFacts {
	producer := s.sessions[x.process].producer
	f := SendFacts{
		Stated:   [...]histories.Outcome{"", histories.OutcomeOK, histories.OutcomeFail, histories.OutcomeInfo}[x.stated],
		Returned: x.hasReturned, Closed: x.closed,
		Attempts: AttemptFacts{Acknowledged: int(x.acknowledgedAttempts), Unknown: int(x.unknownAttempts)},
		Acks:     s.configurationOf(x).acksOrUnknown(),
	}
	if x.clientError {
		f.ClientError = s.errors.list[x.err]
	} else {
		f.Error = s.errors.list[x.err]
	}
	if producer != nil {
		f.Client = producer.Client
		f.AttemptsVisible = producer.AttemptsVisible && s.whole()
	}
	return f
}

// whole: the history was written to its end.
func (s *state) whole() bool {
	return s.cut == nil && (s.end != nil || s.header.Source != nil)
}

// reportedAt is when the client reported success. Where only an attempt was
// acknowledged, the completion is the client's error or the recorder's giving up,
// and its time says nothing of when the acknowledgement came.
func (d *send) reportedAt() int64 {
	if !d.succeeded {
		return never
	}
	return d.returned
}

// configurationOf gives the configuration that a send is judged by.
func (s *state) configurationOf(x *send) *judgedConfiguration {
	return s.configurations[s.sessions[x.process].configs[x.topic]]
}

func (c *judgedConfiguration) acksOrUnknown() string {
	acks := c.Producer[histories.PropertyAcks]
	if acks == "-1" {
		return "all"
	}
	return acks
}
