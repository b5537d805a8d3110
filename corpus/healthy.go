// This file holds what happens in a healthy world: sends with every kind of answer that
// real Kafka gives, polls of consumers that seek and are rebalanced, faults that do no
// harm, transactions of others (their records, aborted or not, and their markers), a log
// start that moves up.

package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/ackproof/ackproof/histories"
)

// Names that the histories use.
const (
	topicName   = "orders"
	clockName   = "runner"
	freshName   = "fresh"
	noBatchYet  = 3 // a log has so many offsets of foreign records before a run that found it not empty
	epochAtRest = 5
)

// shape says what a world is like.
type shape struct {
	partitions int32
	producers  int
	keys       int // of each producer
	largest    int // sends of a batch
	steps      int
	base       int64 // first offset
	// sequential: a producer has one batch under way, as a process of Jepsen's has one
	// operation.
	sequential bool
	// certain: every send is acknowledged with its offset.
	certain bool
	// unsure: unknown outcomes come often.
	unsure bool
	faults int
	// notEmpty: the log held records before the run.
	notEmpty bool
	// retention: the log's start moves up in the end.
	retention bool
	restarts  bool
	// tight: no offset is left out and none is foreign.
	tight bool
	// unserved: a fresh client is not served in the first partition.
	unserved bool
	// noFresh: no fresh client writes at the end.
	noFresh bool
	// imported: only what other tools record: no attempts, no faults, no second clock.
	imported bool
	// unkeyed: a batch chooses its partition, not a key.
	unkeyed bool
	// asked: every send asks for its partition.
	asked bool
	// compacted: the topic's older records of a key are removed.
	compacted bool
}

// play makes a world of a shape.
func play(r *rand.Rand, s shape) *world {
	w := &world{Rand: r, shape: s}
	w.head = &histories.Header{Run: "corpus", Tool: "ackproof corpus", Clock: clockName, Producer: defaultProducer()}
	topic := histories.Topic{Name: topicName, Partitions: s.partitions, ReplicationFactor: 3,
		Properties: map[string]string{histories.PropertyMinInsyncReplicas: "2"}}
	if s.compacted {
		topic.Properties[histories.PropertyCleanupPolicy] = "compact"
	}
	for p := range s.partitions {
		l := &partition{Partition: histories.Partition{Topic: topicName, Partition: p}, base: s.base, next: s.base, start: s.base,
			epoch: epochAtRest, shown: forever}
		if s.notEmpty {
			for range noBatchYet {
				l.put(&record{})
			}
			l.base = l.next
			topic.Start = append(topic.Start, l.base)
		}
		if !s.tight {
			l.next += w.Int64N(3) // markers come before the first record, too
		}
		w.logs = append(w.logs, l)
	}
	w.head.Topics = []histories.Topic{topic}
	w.logs[0].unserved = s.unserved
	w.open()
	w.run()
	w.settle()
	return w
}

// defaultProducer is what the default producer has in force.
func defaultProducer() map[string]string {
	return map[string]string{
		histories.PropertyAcks: "all", histories.PropertyIdempotence: "true", histories.PropertyMaxInFlight: "5",
		histories.PropertyRetries: "2147483647", histories.PropertyDeliveryTimeout: "20000",
	}
}

func (w *world) open() {
	for i := range w.shape.producers {
		w.openProducer(fmt.Sprintf("p%d", i), !w.shape.imported && w.chance(2))
	}
	for i := range 1 + w.IntN(2) {
		clock := ""
		if i == 1 && !w.shape.imported && w.chance(3) {
			clock = "another machine"
		}
		w.openConsumer(fmt.Sprintf("c%d", i), clock)
	}
}

func (w *world) openProducer(name string, visible bool) *producer {
	p := &producer{ranks: map[string]int64{}, line: &histories.Producer{Name: name, Time: w.now, Client: histories.ClientFranzGo,
		AttemptsVisible: visible}}
	w.say(p.line)
	w.producers = append(w.producers, p)
	return p
}

// openConsumer opens one that begins at the start of every partition.
func (w *world) openConsumer(name, clock string) *consumer {
	c := &consumer{name: name, positions: map[*partition]int64{}}
	w.say(&histories.Consumer{Name: name, Time: w.now, Clock: clock})
	assign := &histories.PositionChange{Process: name, Time: w.now, How: histories.ChangeAssign}
	for _, l := range w.logs {
		c.positions[l] = l.start
		assign.Partitions = append(assign.Partitions, histories.PartitionPosition{Partition: l.Partition, Position: l.start})
	}
	w.say(assign)
	w.consumers = append(w.consumers, c)
	return c
}

// run lets the clients work, with the faults spread over the middle.
func (w *world) run() {
	for _, p := range w.producers { // of one that nothing is known of, anything could be
		w.handOverBy(p)
		w.answerOf(p, acknowledge)
	}
	for step := range w.shape.steps {
		w.pass()
		w.turnFaults(step)
		switch w.IntN(6) {
		case 0, 1:
			w.handOver()
		case 2, 3:
			w.answer(w.someFate())
		case 4:
			w.poll()
		default:
			w.strangersWrite()
		}
		if w.shape.restarts && step == w.shape.steps/2 {
			w.restart()
		}
	}
	w.turnFaults(w.shape.steps)
}

// turnFaults begins and ends the faults: each has its share of the steps, and begins and
// ends inside of it.
func (w *world) turnFaults(step int) {
	if w.shape.faults == 0 {
		return
	}
	share := max(w.shape.steps/w.shape.faults, 3)
	switch {
	case !w.faulty && step%share == share/3 && w.faults < w.shape.faults:
		w.faults++
		w.say(&histories.FaultStart{ID: fmt.Sprintf("pause#%d", w.faults), Name: "pause", Target: "broker 2", Time: w.now})
		w.faulty = true
		w.handOver()
	case w.faulty && (step%share == share*2/3 || step == w.shape.steps):
		w.say(&histories.FaultEnd{ID: fmt.Sprintf("pause#%d", w.faults), Time: w.now, Bit: true, Evidence: "stopped"})
		w.faulty = false
		w.electLeaders()
	}
}

// electLeaders lets a new leader take over, of which stale metadata still names the old
// epoch.
func (w *world) electLeaders() {
	for _, l := range w.logs {
		if w.chance(2) {
			l.epoch++
			w.say(&histories.ClusterEvent{Time: w.now, What: histories.ClusterLeader,
				Detail: fmt.Sprintf("%s/%d: broker %d, epoch %d", l.Topic, l.Partition.Partition, w.IntN(3), int(l.epoch)-w.IntN(2))})
		}
	}
}

// restart ends a producer and opens its successor.
func (w *world) restart() {
	old := w.producers[0]
	for len(old.waiting) > 0 {
		w.answerOf(old, acknowledge)
	}
	w.say(&histories.ProducerClose{Name: old.line.Name, Time: w.now, Crashed: w.chance(2)})
	p := w.openProducer(old.line.Name+".2", old.line.AttemptsVisible)
	p.line.Continues, p.restarted = old.line.Name, true
	w.producers = slices.DeleteFunc(w.producers, func(x *producer) bool { return x == old })
}

// handOver gives a batch of events to a client library.
func (w *world) handOver() { w.handOverBy(pickOne(w, w.producers)) }

func (w *world) handOverBy(p *producer) {
	for w.shape.sequential && len(p.waiting) > 0 || len(p.waiting) > 4 {
		w.answerOf(p, w.someFate())
		w.now++
	}
	log := pickOne(w, w.logs)
	key := strconv.Itoa(w.IntN(w.shape.keys))
	if !w.shape.unkeyed {
		log = w.homeOf(p, key)
	}
	asked := w.shape.asked || w.shape.unkeyed || w.chance(2)
	b := &batch{}
	for range 1 + w.IntN(w.shape.largest) {
		b.sends = append(b.sends, w.send(p, b, log, key, asked))
		if !w.shape.unkeyed && w.chance(2) {
			key = w.sameHome(p, log, key)
		}
		w.now += w.Int64N(3)
	}
	if w.shape.sequential {
		for _, s := range b.sends {
			s.line.Time = w.now
		}
	}
	p.waiting = append(p.waiting, b)
}

// homeOf is where the partitioner puts a key.
func (w *world) homeOf(p *producer, key string) *partition {
	n, _ := strconv.Atoi(key)
	return w.logs[(n+len(p.line.Name))%len(w.logs)]
}

// sameHome gives another key of the same partition.
func (w *world) sameHome(p *producer, log *partition, otherwise string) string {
	if key := strconv.Itoa(w.IntN(w.shape.keys)); w.homeOf(p, key) == log {
		return key
	}
	return otherwise
}

func (w *world) send(p *producer, b *batch, log *partition, key string, asked bool) *sent {
	ordering := p.line.Name + "-" + key
	if w.shape.unkeyed {
		ordering = strconv.Itoa(int(log.Partition.Partition))
	}
	s := &sent{producer: p, batch: b, log: log, outcome: histories.OutcomeInfo, inFault: w.faulty,
		afterFaults: w.shape.faults > 0 && w.faults == w.shape.faults && !w.faulty}
	s.line = &histories.Send{OperationID: histories.OperationID{Process: p.line.Name, Number: p.numbers}, Time: w.now,
		Event: fmt.Sprintf("%s/%d", ordering, p.ranks[ordering]), Topic: log.Topic, Partition: histories.Unknown, OrderingKey: ordering,
		Rank: p.ranks[ordering]}
	if w.shape.unkeyed {
		s.line.Event = fmt.Sprintf("%s/%d", p.line.Name, p.numbers)
	}
	if asked {
		s.line.Partition = log.Partition.Partition
	}
	p.numbers++
	p.ranks[ordering]++
	if earlier := w.givenUp(s); earlier != nil {
		s.line.Event, s.line.ResendOf = earlier.line.Event, &earlier.line.OperationID
		s.again, earlier.again = true, true
	}
	w.sends = append(w.sends, s)
	w.say(s.line)
	return s
}

// givenUp gives, now and then, a send whose outcome is unknown, which the application then
// sends again; nil: none.
func (w *world) givenUp(s *sent) *sent {
	if w.shape.imported || !w.chance(6) {
		return nil
	}
	for _, x := range w.sends {
		if x.log == s.log && x.order() == s.order() && x.line.Partition == s.line.Partition &&
			x.outcome == histories.OutcomeInfo && x.back != nil && !x.again {
			return x
		}
	}
	return nil
}

// strangersWrite lets others use the topic: records of theirs, of a transaction that was
// aborted or committed, and its marker, which takes an offset that no reader is given.
func (w *world) strangersWrite() {
	if w.shape.tight {
		return
	}
	l := pickOne(w, w.logs)
	if !w.shape.imported && w.chance(2) {
		l.batches++
		for range 1 + w.IntN(2) {
			l.put(&record{})
		}
	}
	l.next += 1 + w.Int64N(2)
}

// poll gives a consumer what has come, or less: what a follower that lags shows.
func (w *world) poll() {
	c := pickOne(w, w.consumers)
	if !w.shape.imported && w.chance(6) {
		w.move(c)
	}
	to := make(map[*partition]int64, len(w.logs))
	for _, l := range w.logs {
		if at := c.positions[l]; l.next > at && !w.chance(4) {
			to[l] = at + 1 + w.Int64N(l.next-at)
		}
	}
	w.pollUpTo(c, to)
}

// pollUpTo is one poll that looks at each log from its position up to an offset.
func (w *world) pollUpTo(c *consumer, to map[*partition]int64) {
	id := histories.OperationID{Process: c.name, Number: c.numbers}
	c.numbers++
	w.say(&histories.Poll{OperationID: id, Time: w.now})
	w.now += w.Int64N(3)
	back := &histories.PollReturn{OperationID: id, Time: w.now}
	for _, l := range w.logs {
		if end, some := to[l]; some && end > c.positions[l] {
			w.windows = append(w.windows, &window{poll: back, log: l, from: c.positions[l], to: end})
			c.positions[l] = end
		}
	}
	w.say(back)
}

// move changes a consumer's position in every way that a healthy group knows.
func (w *world) move(c *consumer) {
	l := pickOne(w, w.logs)
	to := l.start + w.Int64N(l.next-l.start+1)
	change := &histories.PositionChange{Process: c.name, Time: w.now,
		How: pickOne(w, []string{histories.ChangeSeek, histories.ChangeReset, histories.ChangeSubscribe,
			histories.ChangeRevoke}),
		Partitions: []histories.PartitionPosition{{Partition: l.Partition, Position: to}}}
	switch change.How {
	case histories.ChangeSubscribe: // a rebalance: anything may have been reset
		change.Partitions = nil
		for _, l := range w.logs {
			change.Partitions = append(change.Partitions, histories.PartitionPosition{Partition: l.Partition, Position: histories.Unknown})
		}
	case histories.ChangeRevoke: // and given again
		w.say(&histories.PositionChange{Process: c.name, Time: w.now, How: histories.ChangeRevoke,
			Partitions: []histories.PartitionPosition{{Partition: l.Partition, Position: histories.Unknown}}})
		change.How = histories.ChangeAdd
	}
	c.positions[l] = to
	w.say(change)
}

// settle answers what can be answered, ends the run and lets a fresh client write.
func (w *world) settle() {
	for _, p := range w.producers {
		for len(p.waiting) > 0 {
			w.answerOf(p, w.someFate())
		}
	}
	w.pass()
	w.say(&histories.ClusterEvent{Time: w.now, What: histories.ClusterHealed})
	w.pass()
	w.say(&histories.ClusterEvent{Time: w.now, What: histories.ClusterWhole})
	w.pass()
	if !w.shape.noFresh && !w.shape.imported {
		w.freshWrites()
	}
	if w.shape.retention {
		w.retain()
	}
}

// freshWrites has a fresh client write to every partition.
func (w *world) freshWrites() {
	p := w.openProducer(freshName, false)
	p.line.Fresh = true
	for _, l := range w.logs {
		b := &batch{}
		b.sends = append(b.sends, w.send(p, b, l, strconv.Itoa(int(l.Partition.Partition)), true))
		p.waiting = append(p.waiting, b)
		w.pass()
		if l.unserved {
			w.now += 61e9
			w.answerOf(p, missing)
			continue
		}
		w.answerOf(p, acknowledge)
	}
}

// retain has somebody read all that there is, and then the oldest batches go: the log
// starts at the edge of a segment.
func (w *world) retain() {
	c := w.openConsumer("early", "")
	to := make(map[*partition]int64, len(w.logs))
	for _, l := range w.logs {
		to[l] = l.next
	}
	w.pollUpTo(c, to)
	for _, l := range w.logs {
		events := l.events()
		if len(events) < 2 {
			continue
		}
		at := events[1+w.IntN(len(events)-1)]
		for _, r := range l.records {
			if r.batch == at.batch { // batches are not divided
				l.start = r.offset
				break
			}
		}
	}
}

// compact removes records behind which the log holds a later one of the same key, up to
// where each log's cleaner got: it begins at the log's start, so that of two records of a key
// it never keeps the older (KIP-58). Who polled before was given them.
func (w *world) compact() {
	for _, v := range w.windows {
		if !v.other {
			v.given, v.other = between(v.log.records, v.from, v.to), true
		}
	}
	for _, l := range w.logs {
		latest := make(map[string]*record)
		for _, r := range slices.Clone(l.records)[:w.IntN(len(l.records)+1)] {
			if r.sent == nil {
				continue
			}
			if older := latest[r.sent.line.OrderingKey]; older != nil {
				l.remove(older)
			}
			latest[r.sent.line.OrderingKey] = r
		}
	}
}
