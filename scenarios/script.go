// This file holds what the steps of a scenario of the catalogue are written with:
// producers and consumers that are opened, send, crash and come back, faults that
// begin and end, and conditions that are waited for.

package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/nemesis"
)

// script plays the steps of one scenario. Its first error stays, and every step after
// it does nothing: so steps are written as a list. One goroutine uses it.
type script struct {
	*stage
	// ctx ends at ctrl-C, and when the history can no longer be written.
	ctx    context.Context
	player *nemesis.Player
	// topic is the first topic of the run, by its name on the cluster.
	topic string
	// stops end the loads that go on in the background.
	stops []func()
	// choose: the script names the partition of every send.
	choose bool
	err    error
}

// stepLimit bounds one wait of a script where it names no limit: long enough for a
// client that waits for metadata, and a cluster that elects a leader.
const stepLimit = 30 * time.Second

// look is how often a condition is looked at.
const look = 5 * time.Millisecond

// fail keeps the first error.
func (s *script) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// over says that nothing more is to be done.
func (s *script) over() bool {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	return s.err != nil
}

// until waits for a condition. What says what is waited for, in an error.
func (s *script) until(limit time.Duration, what string, holds func() bool) {
	if s.over() || s.within(limit, holds) || s.over() {
		return
	}
	s.fail("after %s it is still not so that %s", limit, what)
}

// within waits for a condition as long as the limit, and says whether it came to hold:
// where it need not.
func (s *script) within(limit time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return holds()
		case <-ticker.C:
		}
	}
	return true
}

// wait lets time pass: for what has no condition, as a limit of the broker's.
func (s *script) wait(d time.Duration) { s.within(d, func() bool { return false }) }

// session is a producer of a script. Several goroutines may send with it.
type session struct {
	*script
	name     string
	producer clients.Producer
	// ended are the sends that have a completion: acknowledged, or failed.
	ended, acknowledged atomic.Int64

	turn    sync.Mutex       // held while an event is handed over
	sent    int64            // events handed over
	numbers map[string]int64 // next number of an event, by key
}

// handed is an event that was handed over, so that it can be sent again.
type handed struct {
	key   string
	event clients.Event
	of    histories.OperationID
}

// set is a property of one producer of a script, over those of the scenario and under
// those that the user asked for.
type set struct{ name, value string }

// open opens a producer that continues no other. Where it is refused, the session
// is nil, and the refusal stands in the history: see refused.
func (s *script) open(name string, own ...set) *session { return s.openAfter("", name, own...) }

// restart opens the session that the application begins after another one ended.
func (s *script) restart(p *session, name string, own ...set) *session {
	return s.openAfter(p.name, name, own...)
}

func (s *script) openAfter(earlier, name string, own ...set) *session {
	p := &session{script: s, name: name, numbers: make(map[string]int64)}
	if s.over() {
		return p
	}
	producer, err := s.newProducer(earlier, name, own...)
	if err != nil {
		s.fail("opening the producer %s: %w", name, err)
		return p
	}
	p.producer = producer
	s.producers = append(s.producers, producer)
	return p
}

// refused opens a producer that its library is expected to refuse; the refusal stands in
// the history, or else the session.
func (s *script) refused(name string, own ...set) {
	if s.over() {
		return
	}
	producer, err := s.newProducer("", name, own...)
	var refused *clients.RefusedError
	var notApplicable *clients.NotApplicableError
	switch {
	case errors.As(err, &refused), errors.As(err, &notApplicable):
	case err != nil:
		s.fail("opening the producer %s: %w", name, err)
	default:
		s.producers = append(s.producers, producer)
	}
}

func (s *script) newProducer(earlier, name string, own ...set) (clients.Producer, error) {
	properties := maps.Clone(s.scenario.Producer)
	for _, one := range own {
		properties[one.name] = one.value
	}
	maps.Copy(properties, s.scenario.ProducerGiven)
	parsed, err := clients.NewProperties(properties)
	if err != nil {
		return nil, err
	}
	return s.library.NewProducer(s.ctx, clients.ProducerOptions{Recorder: s.recorder, Connection: s.connection,
		Name: name, Continues: earlier, Properties: parsed, LargestValue: s.scenario.Workload.ValueSize,
		ChoosePartition: s.choose, AttemptsVisible: true})
}

// send hands over one event of a key, to the first topic.
func (p *session) send(key string) handed { return p.sendTo(0, key, p.scenario.Workload.ValueSize) }

// sendTo hands over one event, to the partition where the script chooses partitions.
func (p *session) sendTo(partition int32, key string, size int) handed {
	return p.hand(clients.SendRequest{Topic: p.topic, Partition: partition, Key: key, ValueSize: size})
}

// again hands over an event that was handed over before, maybe by an earlier session.
func (p *session) again(h handed) {
	p.hand(clients.SendRequest{Topic: p.topic, Key: h.key, ValueSize: p.scenario.Workload.ValueSize,
		Again: &clients.Resend{Event: h.event, Of: h.of}})
}

// hand hands over a request, and gives what is needed to send its event again.
func (p *session) hand(request clients.SendRequest) handed {
	if p.over() {
		return handed{}
	}
	request.Done = p.done
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.producer.Send(p.ctx, request); err != nil {
		p.fail("sending with the producer %s: %w", p.name, err)
		return handed{}
	}
	h := handed{key: request.Key, event: clients.Event{Origin: p.name, Key: request.Key, Number: p.numbers[request.Key]},
		of: histories.OperationID{Process: p.name, Number: p.sent}}
	p.sent++
	if request.Again == nil {
		p.numbers[request.Key]++
	} else {
		h.event = request.Again.Event
	}
	return h
}

// done takes the completion of a send.
func (p *session) done(r clients.SendResult) {
	if r.Err == nil && !r.Closed {
		p.acknowledged.Add(1)
	}
	p.ended.Add(1)
}

// count gives how many events were handed over.
func (p *session) count() int64 {
	p.turn.Lock()
	defer p.turn.Unlock()
	return p.sent
}

// settle waits until every event that was handed over has its completion.
func (p *session) settle(limit time.Duration) {
	p.until(limit, fmt.Sprintf("every send of %s has its completion", p.name), func() bool { return p.ended.Load() >= p.count() })
}

// warm sends one event and waits for its acknowledgement: franz-go has one request in
// flight until the first answer, and a connection has to be made.
func (p *session) warm() {
	p.send("warm-up")
	p.until(stepLimit, fmt.Sprintf("the first event of %s is acknowledged", p.name),
		func() bool { return p.acknowledged.Load() > 0 })
}

// load hands over events of the keys, one after the other, at a rate, until it is
// stopped or the script ends. stop waits for its end, and may be called again.
func (p *session) load(perSecond float64, keys ...string) (stop func()) {
	if p.over() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(p.ctx)
	var loading sync.WaitGroup
	loading.Go(func() { p.keepSending(ctx, perSecond, keys) })
	p.stops = append(p.stops, func() { cancel(); loading.Wait() })
	return p.stops[len(p.stops)-1]
}

// keepSending hands over events until the context ends. What goes wrong ends it: the
// script finds by its own steps that nothing is sent.
func (p *session) keepSending(ctx context.Context, perSecond float64, keys []string) {
	pace := pace{perSecond: perSecond, started: time.Now()}
	for next := 0; ; {
		n := pace.due(ctx)
		if n == 0 {
			return
		}
		for range n {
			p.turn.Lock()
			err := p.producer.Send(ctx, clients.SendRequest{Topic: p.topic, Key: keys[next%len(keys)],
				ValueSize: p.scenario.Workload.ValueSize, Done: p.done})
			if err == nil {
				p.sent++
				p.numbers[keys[next%len(keys)]]++
			}
			p.turn.Unlock()
			if err != nil {
				return
			}
			next++
		}
	}
}

// faultless says that the user asked for no faults: nothing crashes either.
func (s *script) faultless() bool { return s.scenario.Faults.Asked == nemesis.None }

// crash ends the session as a kill would: what it had not sent is gone.
func (p *session) crash() {
	if p.over() {
		return
	}
	if p.faultless() {
		p.close()
		return
	}
	if err := p.producer.Crash(p.cleanup); err != nil {
		p.fail("crashing the producer %s: %w", p.name, err)
	}
}

// close ends the session in good order.
func (p *session) close() {
	if p.over() {
		return
	}
	if _, err := p.producer.Close(p.cleanup, p.limits.Drain); err != nil {
		p.fail("closing the producer %s: %w", p.name, err)
	}
}

// keys gives count keys: prefix-0, prefix-1, …
func keys(prefix string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}

// fault is a fault that a script began. Where the user asked for no faults it is none.
type fault struct {
	*script
	id string
}

// begin injects a fault, written as with --faults.
func (s *script) begin(text string) fault {
	f := fault{script: s}
	if s.over() || s.faultless() {
		return f
	}
	asked, err := nemesis.Parse(text)
	if err == nil && len(asked) != 1 {
		err = fmt.Errorf("%q is not one fault", text)
	}
	if err == nil {
		f.id, err = s.player.Begin(s.ctx, asked[0])
	}
	if err != nil {
		s.fail("injecting %s: %w", text, err)
	}
	return f
}

// none says that there is no fault to wait for or to end.
func (f fault) none() bool { return f.id == "" || f.over() }

// bit waits until the fault has taken effect.
func (f fault) bit() fault {
	if f.none() {
		return f
	}
	ctx, cancel := context.WithTimeout(f.ctx, stepLimit)
	defer cancel()
	if err := f.player.AwaitBit(ctx, f.id); err != nil {
		f.fail("waiting until %s bites: %w", f.id, err)
	}
	return f
}

// act lets a fault that waits for it do what it is for.
func (f fault) act() fault {
	if f.none() {
		return f
	}
	if _, err := f.player.Act(f.ctx, f.id); err != nil {
		f.fail("%s: %w", f.id, err)
	}
	return f
}

// end undoes the fault.
func (f fault) end() {
	if f.none() {
		return
	}
	if _, err := f.player.End(f.ctx, f.id); err != nil {
		f.fail("ending %s: %w", f.id, err)
	}
}

// whole waits until the cluster is whole.
func (s *script) whole() {
	s.until(s.limits.Whole, "the cluster is whole", func() bool { return s.cluster.Whole(s.ctx) == nil })
}

// partition gives a partition as it is now.
func (s *script) partition(of clusters.Leader) (clusters.Leader, bool) {
	leaders, err := s.cluster.Leaders(s.ctx, of.Topic)
	if err != nil || int(of.Partition) >= len(leaders) {
		return clusters.Leader{}, false
	}
	return leaders[of.Partition], true
}

// reader is a consumer of a script.
type reader struct {
	*script
	name     string
	consumer clients.Consumer
}

// read opens a consumer of a group, which begins at the group's committed offsets, or at
// the beginning of the run where it has none.
func (s *script) read(earlier, name, group string) *reader {
	r := &reader{script: s, name: name}
	if s.over() {
		return r
	}
	var err error
	r.consumer, err = s.library.NewConsumer(s.ctx, clients.ConsumerOptions{Recorder: s.recorder, Connection: s.connection,
		Name: name, Continues: earlier, Group: group, Assignment: s.fromStart()})
	if err != nil {
		s.fail("opening the consumer %s: %w", name, err)
		return r
	}
	s.consumers = append(s.consumers, r.consumer)
	return r
}

// poll polls until it was given so many records, or none came for the limit.
func (r *reader) poll(records int, limit time.Duration) {
	if r.over() {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	for got := 0; got < records && ctx.Err() == nil; {
		n, err := r.consumer.Poll(ctx)
		if err != nil {
			r.fail("polling with the consumer %s: %w", r.name, err)
			return
		}
		got += n
	}
}

// commit commits the positions behind what was given.
func (r *reader) commit() {
	if r.over() {
		return
	}
	if err := r.consumer.Commit(r.ctx); err != nil {
		r.fail("committing with the consumer %s: %w", r.name, err)
	}
}

// crash ends the session as a kill would.
func (r *reader) crash() {
	if r.over() {
		return
	}
	if r.faultless() {
		if err := r.consumer.Close(); err != nil {
			r.fail("closing the consumer %s: %w", r.name, err)
		}
		return
	}
	if err := r.consumer.Crash(r.cleanup); err != nil {
		r.fail("crashing the consumer %s: %w", r.name, err)
	}
}
