// This file holds the pass over a history that measures it: the state that the judges
// have, and beside it what measures alone are made of.

package checker

import (
	"context"

	"github.com/ackproof/ackproof/histories"
)

// gauge gathers what the measures are made of.
type gauge struct {
	*state
	// journeys stand beside state.sends, gauged beside state.sessions: nil there is one
	// that no line was met of.
	journeys []journey
	gauged   []*gauged
	all      *gauged // what the sessions did together, those of fresh producers aside
	// identities number the producer ids and epochs that batches bore.
	identities map[producerIdentity]uint32
	streams    map[streamName]*stream
	// continues is the session that a consumer's session continues.
	continues map[uint32]uint32
}

// journey is what is known of one send beside the state.
type journey struct {
	attempts  uint32
	identity  uint32 // of the producer, in its last attempt
	refusal   uint32 // the last batch that carried it and was too large, in gauged.refusals, + 1
	partition int32  // of its last attempt
	// completed: the library said how it ended.
	completed, twoIdentities, twoPartitions bool
}

// measureKey is a measure, and the error that it is about.
type measureKey struct{ name, code string }

// gauged is what one session did, or all of them.
type gauged struct {
	counts map[measureKey]int64
	// consumes, produces: it is the one or the other.
	consumes, produces bool
	pace               pace
	// sums of what is averaged, each with what it is divided by.
	latency, answered    float64
	records, batches     float64
	bytes, sizedBatches  float64
	sizedRecords         float64
	uncompressed, packed float64
	murmur, keyed        float64
	// refusals are the batches that were refused as too large.
	refusals []tooLargeBatch
	// given are the offsets of the records that a consumer was given, by log.
	given map[int32]*offsetSet
}

// pace is when a session did something, and how long it did not. Times are never before the
// first one.
type pace struct {
	firstInvoked, lastInvoked, lastReported, lastCompleted int64
	reported                                               int64 // successes
	longestUninvoked, longestUnreported                    int64
}

// producerIdentity is what a broker knows a producer by.
type producerIdentity struct {
	id    int64
	epoch int16
}

// tooLargeBatch is a batch that was refused as too large.
type tooLargeBatch struct {
	records int64
	split   bool
}

func newGauge(header *histories.Header, options Options) *gauge {
	return &gauge{state: newState(header, options), all: newGauged(), identities: make(map[producerIdentity]uint32),
		streams: make(map[streamName]*stream), continues: make(map[uint32]uint32)}
}

func newGauged() *gauged {
	return &gauged{counts: make(map[measureKey]int64), given: make(map[int32]*offsetSet),
		pace: pace{firstInvoked: never, lastInvoked: never, lastReported: never, lastCompleted: never}}
}

// measure reads the whole history, one that is cut up to its cut, and gives the numbers.
func (g *gauge) measure(ctx context.Context, h histories.History) (Measures, error) {
	if err := g.read(ctx, h, g.look); err != nil {
		return nil, err
	}
	if err := g.configure(); err != nil {
		return nil, err
	}
	g.settle()
	g.sumSends()
	g.sumEvents()
	g.sumStreams()
	return g.numbers(), nil
}

// look takes one line, the state first.
func (g *gauge) look(line histories.Line) {
	sends := len(g.sends)
	g.take(line)
	switch l := line.(type) {
	case *histories.Producer:
		_, x := g.of(l.Name)
		x.produces = true
	case *histories.ProducerRefused:
		g.all.add("refused-producers", 1)
	case *histories.Consumer:
		g.lookConsumer(l)
	case *histories.Send:
		if len(g.sends) > sends { // one that is malformed is none
			g.lookSend(l)
		}
	case *histories.SendReturn:
		g.lookReturn(l)
	case *histories.Attempt:
		g.lookAttempt(l)
	case *histories.PollReturn:
		g.lookPoll(l)
	case *histories.CommitReturn:
		if l.Error == "" && l.ClientError == "" {
			process, x := g.of(l.Process)
			x.consumes = true
			g.count(process, "commits", 1)
		}
	}
}

// of gives what is gathered of a session.
func (g *gauge) of(name string) (process uint32, x *gauged) {
	process, _ = g.session(name)
	for len(g.gauged) <= int(process) {
		g.gauged = append(g.gauged, nil)
	}
	if g.gauged[process] == nil {
		g.gauged[process] = newGauged()
	}
	return process, g.gauged[process]
}

// fresh says whether a session only asked whether the cluster serves again.
func (g *gauge) fresh(process uint32) bool {
	producer := g.sessions[process].producer
	return producer != nil && producer.Fresh
}

// each calls f with what is gathered of a session and of all of them. Of a fresh
// producer's nothing is gathered.
func (g *gauge) each(process uint32, f func(*gauged)) {
	if !g.fresh(process) {
		f(g.gauged[process])
		f(g.all)
	}
}

// count counts for a session and for all of them.
func (g *gauge) count(process uint32, name string, n int64) {
	g.each(process, func(x *gauged) { x.add(name, n) })
}

// countCoded counts a measure that is about an error, or about the answer that is none.
func (g *gauge) countCoded(process uint32, name, code string) {
	g.each(process, func(x *gauged) {
		x.add(name, 1)
		x.counts[measureKey{name, code}]++
	})
}

func (x *gauged) add(name string, n int64) {
	if n != 0 {
		x.counts[measureKey{name: name}] += n
	}
}

func (g *gauge) lookConsumer(l *histories.Consumer) {
	process, x := g.of(l.Name)
	x.consumes = true
	if l.Continues != "" {
		g.continues[process], _ = g.session(l.Continues)
	}
}

func (g *gauge) lookSend(l *histories.Send) {
	process, _ := g.of(l.Process)
	g.journeys = append(g.journeys, journey{})
	g.each(process, func(x *gauged) { x.pace.invoke(l.Time) })
}

func (p *pace) invoke(at int64) {
	if p.firstInvoked == never {
		*p = pace{firstInvoked: at, lastInvoked: at, lastReported: at, lastCompleted: at}
	}
	p.longestUninvoked = max(p.longestUninvoked, at-p.lastInvoked)
	p.lastInvoked = max(p.lastInvoked, at)
}

// complete takes the first completion of a send.
func (p *pace) complete(at int64, success bool) {
	if success {
		p.reported++
		p.longestUnreported = max(p.longestUnreported, at-p.lastReported)
		p.lastReported = max(p.lastReported, at)
	}
	p.lastCompleted = max(p.lastCompleted, at)
}

func (g *gauge) lookReturn(l *histories.SendReturn) {
	process, _ := g.of(l.Process)
	index, found := g.sessions[process].find(l.Number)
	if !found || l.Closed || g.journeys[index].completed {
		return
	}
	g.journeys[index].completed = true
	failed := l.Error + l.ClientError
	switch {
	case failed != "":
		g.countCoded(process, "errors", failed)
	case l.Offset < 0:
		g.count(process, "acknowledged-without-an-offset", 1)
	}
	g.each(process, func(x *gauged) { x.pace.complete(l.Time, failed == "") })
}

func (g *gauge) lookPoll(l *histories.PollReturn) {
	process, x := g.of(l.Process)
	x.consumes = true
	for _, records := range l.Records {
		log := g.log(records.Partition)
		redelivered := int64(0)
		if x.given[log] == nil {
			x.given[log] = &offsetSet{}
		}
		for _, r := range records.Records {
			x.given[log].add(r.Offset)
			if g.givenBefore(process, log, r.Offset) {
				redelivered++
			}
		}
		g.count(process, "polled", int64(len(records.Records)))
		g.count(process, "redelivered", redelivered)
	}
}

// givenBefore says whether a session that this one continues was given the record.
func (g *gauge) givenBefore(process uint32, log int32, offset int64) bool {
	for range len(g.continues) { // so that a ring of them ends
		earlier, some := g.continues[process]
		if !some {
			return false
		}
		process = earlier
		if int(process) < len(g.gauged) && g.gauged[process] != nil && g.gauged[process].given[log].has(offset) {
			return true
		}
	}
	return false
}

// offsetSet is a set of offsets, which mostly follow one another. A nil one is empty.
type offsetSet struct{ words map[int64]uint64 }

func (s *offsetSet) add(offset int64) {
	if s.words == nil {
		s.words = make(map[int64]uint64)
	}
	s.words[offset>>6] |= 1 << (offset & 63)
}

func (s *offsetSet) has(offset int64) bool {
	return s != nil && s.words[offset>>6]&(1<<(offset&63)) != 0
}
