// This file holds the generator of small histories: healthy ones by construction,
// and the damage that is then done to them.

package checker_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"

	"github.com/ackproof/ackproof/histories"
)

// Names that all generated histories use.
const (
	generatedTopic = "orders"
	generatedClock = "runner"
)

// pending is a send that was invoked and has not completed.
type pending struct {
	send *histories.Send
	home int32
}

// world is a small cluster that is always healthy, with clients that record.
type world struct {
	*rand.Rand
	head *histories.Header
	body []histories.Line
	now  int64

	partitions int32
	logs       [][]oracleRecord
	producers  []string
	consumers  []string
	numbers    map[string]int64
	ranks      map[string]int64
	events     map[string]int64
	// outstanding sends by producer and key, in send order.
	outstanding map[string][]pending
	positions   map[string][]int64
	epochs      []int32
	// sent holds all sends, for resends.
	sent []pending
	// plain: every send is acknowledged with its offset.
	plain bool
}

// randomHistory plays a healthy run of a few sends and polls; plain leaves out
// everything whose outcome cannot be told.
func randomHistory(r *rand.Rand, plain bool) *histories.Memory {
	w := &world{Rand: r, plain: plain, partitions: int32(1 + r.Intn(3)), numbers: map[string]int64{}, ranks: map[string]int64{},
		events: map[string]int64{}, outstanding: map[string][]pending{}, positions: map[string][]int64{}}
	w.head = &histories.Header{Run: "r", Tool: "generator", Clock: generatedClock, Producer: map[string]string{
		histories.PropertyAcks: "all", histories.PropertyIdempotence: "true", histories.PropertyMaxInFlight: "5",
		histories.PropertyRetries: "2147483647",
	}}
	w.head.Topics = []histories.Topic{{Name: generatedTopic, Partitions: w.partitions, ReplicationFactor: 3,
		Properties: map[string]string{histories.PropertyMinInsyncReplicas: "2"}}}
	w.logs, w.epochs = make([][]oracleRecord, w.partitions), make([]int32, w.partitions)
	w.begin()
	for range 6 + r.Intn(30) {
		w.now += int64(r.Intn(3))
		switch r.Intn(5) {
		case 0, 1:
			w.invoke()
		case 2, 3:
			w.complete()
		default:
			w.poll()
		}
	}
	w.finish()
	return &histories.Memory{Head: w.head, Body: w.body}
}

func (w *world) say(l histories.Line) { w.body = append(w.body, l) }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.Intn(n) == 0 }

func (w *world) begin() {
	for i := range 1 + w.Intn(3) {
		name := fmt.Sprintf("producer-%d", i)
		w.producers = append(w.producers, name)
		w.say(&histories.Producer{Name: name, Time: w.now, Client: histories.ClientFranzGo, AttemptsVisible: w.chance(2)})
	}
	for i := range 1 + w.Intn(2) {
		name := fmt.Sprintf("consumer-%d", i)
		w.consumers = append(w.consumers, name)
		w.say(&histories.Consumer{Name: name, Time: w.now})
		w.positions[name] = make([]int64, w.partitions)
		var assigned []histories.PartitionPosition
		for p := range w.partitions {
			assigned = append(assigned, histories.PartitionPosition{Partition: at(p)})
			if w.chance(3) {
				assigned[p].Position = histories.Unknown
			}
		}
		w.say(&histories.PositionChange{Process: name, Time: w.now, How: histories.ChangeAssign, Partitions: assigned})
	}
}

func at(partition int32) histories.Partition {
	return histories.Partition{Topic: generatedTopic, Partition: partition}
}

func (w *world) next(process string) histories.OperationID {
	n := w.numbers[process]
	w.numbers[process]++
	return histories.OperationID{Process: process, Number: n}
}

// invoke hands over a new event, or one of the last ones again.
func (w *world) invoke() {
	producer := w.producers[w.Intn(len(w.producers))]
	key := fmt.Sprintf("k%d", w.Intn(3))
	line := producer + "/" + key
	home := int32(key[1]-'0') % w.partitions
	s := &histories.Send{OperationID: w.next(producer), Time: w.now, Topic: generatedTopic, Partition: home,
		OrderingKey: key, Rank: w.ranks[line]}
	w.ranks[line]++
	if w.chance(3) {
		s.Partition = histories.Unknown
	}
	s.Event = fmt.Sprintf("%s/%d", line, w.events[line])
	if again := w.lastOf(producer, key); again != nil && w.chance(8) {
		s.Event, s.ResendOf = again.Event, &again.OperationID
	} else {
		w.events[line]++
	}
	w.say(s)
	w.sent = append(w.sent, pending{s, home})
	w.outstanding[line] = append(w.outstanding[line], pending{s, home})
}

func (w *world) lastOf(producer, key string) *histories.Send {
	for _, p := range slices.Backward(w.sent) {
		if p.send.Process == producer && p.send.OrderingKey == key {
			return p.send
		}
	}
	return nil
}

// write appends an event to a log and gives its offset.
func (w *world) write(partition int32, event string) int64 {
	log := w.logs[partition]
	offset := int64(0)
	if len(log) > 0 {
		offset = log[len(log)-1].record.Offset + 1
	}
	if w.chance(6) {
		offset += 1 + int64(w.Intn(2)) // a transaction's marker
	}
	if w.chance(8) {
		w.epochs[partition]++
	}
	if w.chance(10) {
		log = append(log, oracleRecord{at(partition), w.epochs[partition], histories.Record{Offset: offset}})
		offset++
	}
	w.logs[partition] = append(log, oracleRecord{at(partition), w.epochs[partition], histories.Record{Offset: offset, Event: event}})
	return offset
}

// complete ends the first outstanding send of a producer and key.
func (w *world) complete() {
	lines := make([]string, 0, len(w.outstanding))
	for line, sends := range w.outstanding {
		if len(sends) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	line := lines[w.Intn(len(lines))]
	p := w.outstanding[line][0]
	w.outstanding[line] = w.outstanding[line][1:]
	back := &histories.SendReturn{OperationID: p.send.OperationID, Time: w.now, Partition: histories.Unknown, Offset: histories.Unknown}
	if w.plain {
		back.Partition, back.Offset = p.home, w.write(p.home, p.send.Event)
		w.say(back)
		return
	}
	switch w.Intn(12) {
	case 0: // written, and the answer was lost
		w.write(p.home, p.send.Event)
		back.Error = "REQUEST_TIMED_OUT"
		w.attempt(p, "", w.now)
	case 1: // not written, and nobody knows
		back.ClientError = "RecordTimeout"
		w.attempt(p, "", w.now)
	case 2: // certainly not written
		back.ClientError = "MaxBuffered"
	case 3: // the recorder gave up, and the acknowledgement came later
		w.say(&histories.SendReturn{OperationID: p.send.OperationID, Time: w.now, Partition: histories.Unknown,
			Offset: histories.Unknown, Closed: true})
		w.now += int64(w.Intn(2))
		back.Time, back.Partition, back.Offset = w.now, p.home, w.write(p.home, p.send.Event)
		w.attempt(p, "NONE", w.now)
	case 4: // a duplicate's answer, without its offset
		w.write(p.home, p.send.Event)
		back.Partition = p.home
		w.attempt(p, "", w.now)
		w.attempt(p, "NONE", w.now)
	case 5: // nobody ever completed it
		if w.chance(2) {
			w.write(p.home, p.send.Event)
		}
		return
	default:
		back.Partition, back.Offset = p.home, w.write(p.home, p.send.Event)
		w.attempt(p, "NONE", w.now)
	}
	w.say(back)
}

func (w *world) attempt(p pending, answer string, end int64) {
	a := &histories.Attempt{Process: p.send.Process, Time: p.send.Time, End: end, Topic: generatedTopic, Partition: p.home,
		ProducerID: histories.Unknown, Epoch: histories.Unknown, Sequence: histories.Unknown, Reached: true,
		Sends: []histories.Range{{First: p.send.Number, Last: p.send.Number}}, Answer: answer, Offset: histories.Unknown,
		BrokerOffset: histories.Unknown}
	if answer == "" {
		a.Lost = histories.LostConnection
	}
	w.say(a)
}

// poll gives a consumer the next records of some partitions.
func (w *world) poll() {
	consumer := w.consumers[w.Intn(len(w.consumers))]
	if w.chance(8) {
		w.move(consumer)
	}
	id := w.next(consumer)
	w.say(&histories.Poll{OperationID: id, Time: w.now})
	back := &histories.PollReturn{OperationID: id, Time: w.now}
	for p := range w.partitions {
		most := 1 + w.Intn(4)
		for _, r := range w.logs[p] {
			if r.record.Offset >= w.positions[consumer][p] && most > 0 {
				w.positions[consumer][p] = r.record.Offset + 1
				most--
				back.Records = give(back.Records, r)
			}
		}
	}
	w.say(back)
}

// give adds a record to those of a poll, in one group with others of its leader epoch.
func give(groups []histories.Records, r oracleRecord) []histories.Records {
	if last := len(groups) - 1; last < 0 || groups[last].Partition != r.at || groups[last].LeaderEpoch != r.epoch {
		groups = append(groups, histories.Records{Partition: r.at, LeaderEpoch: r.epoch})
	}
	last := &groups[len(groups)-1]
	last.Records = append(last.Records, r.record)
	return groups
}

// move changes a consumer's position in every way that there is.
func (w *world) move(consumer string) {
	p := int32(w.Intn(int(w.partitions)))
	to := int64(w.Intn(6))
	how := []string{histories.ChangeSeek, histories.ChangeReset, histories.ChangeAdd, histories.ChangeAssign,
		histories.ChangeSubscribe}[w.Intn(5)]
	change := &histories.PositionChange{Process: consumer, Time: w.now, How: how}
	change.Partitions = []histories.PartitionPosition{{Partition: at(p), Position: to}}
	if how == histories.ChangeSubscribe || how == histories.ChangeAssign {
		for q := range w.partitions {
			w.positions[consumer][q] = to
		}
		if how == histories.ChangeSubscribe {
			change.Partitions[0].Position = histories.Unknown
		}
	}
	w.positions[consumer][p] = to
	w.say(change)
}

// finish lets everything complete, lets a fresh client write, and reads all.
func (w *world) finish() {
	w.now++
	for _, sends := range w.outstanding {
		for len(sends) > 0 && w.plain {
			w.complete()
			sends = sends[1:]
		}
	}
	w.say(&histories.ClusterEvent{Time: w.now, What: histories.ClusterWhole})
	w.say(&histories.Producer{Name: "fresh", Time: w.now, Client: histories.ClientFranzGo, Fresh: true})
	for p := range w.partitions {
		id := w.next("fresh")
		event := fmt.Sprintf("fresh/%d/0", p)
		w.say(&histories.Send{OperationID: id, Time: w.now, Event: event, Topic: generatedTopic, Partition: p,
			OrderingKey: strconv.Itoa(int(p))})
		w.now++
		w.say(&histories.SendReturn{OperationID: id, Time: w.now, Partition: p, Offset: w.write(p, event)})
	}
	for p := range w.partitions {
		w.read(p)
	}
	if w.chance(2) {
		for p := range w.partitions {
			w.readReplicas(p)
		}
	}
	w.say(&histories.End{Time: w.now, Reason: histories.EndFinished})
}

// read writes the final read of a partition, a line per record.
func (w *world) read(p int32) {
	end := int64(0)
	for _, r := range w.logs[p] {
		w.say(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: histories.Records{Partition: at(p),
			LeaderEpoch: r.epoch, Records: []histories.Record{r.record}}})
		end = r.record.Offset + 1
	}
	w.say(&histories.FinalRead{Partition: at(p), Isolation: histories.ReadUncommitted, Time: w.now, HighWatermark: end, LogEnd: end,
		Position: end, SecondHighWatermark: end, SecondLogEnd: end, SecondAfterMs: 1000, LeaderEpoch: w.epochs[p]})
}

// readReplicas writes the reads of a partition's three replicas, a line per record: one
// may lag, one may have lost its oldest records to retention.
func (w *world) readReplicas(p int32) {
	end := w.logs[p][len(w.logs[p])-1].record.Offset + 1
	for replica := int32(1); replica <= 3; replica++ {
		for _, source := range []string{histories.SourceFetch, histories.SourceSegments} {
			read := histories.ReplicaRead{Partition: at(p), Replica: replica, Source: source, Time: w.now,
				HighWatermark: histories.Unknown, LogEnd: histories.Unknown, Position: end}
			if w.chance(4) {
				read.LogStart = w.Int63n(end/2 + 1)
			}
			switch {
			case source == histories.SourceSegments && w.chance(2):
				continue
			case source == histories.SourceSegments:
				read.LogEnd = end
			case w.chance(4):
				read.Position = end/2 + 1
				fallthrough
			default:
				read.HighWatermark = read.Position
			}
			w.sayReplica(read, w.logs[p])
		}
	}
}

func (w *world) sayReplica(read histories.ReplicaRead, log []oracleRecord) {
	for _, r := range log {
		if r.record.Offset < read.LogStart || r.record.Offset >= read.Position {
			continue
		}
		record := histories.ReplicaRecord{Record: r.record}
		if record.Event == "" {
			record.Digest = "a digest"
		}
		w.say(&histories.ReplicaRecords{Partition: r.at, Replica: read.Replica, Source: read.Source, LeaderEpoch: r.epoch,
			Records: []histories.ReplicaRecord{record}})
	}
	w.say(&read)
}

// lines gives all lines of one kind.
func lines[L histories.Line](h *histories.Memory) []L {
	var all []L
	for _, l := range h.Body {
		if l, ok := l.(L); ok {
			all = append(all, l)
		}
	}
	return all
}

// damage does n random wrongs to a history, any of which may also be harmless.
func damage(r *rand.Rand, h *histories.Memory, n int) {
	for range n {
		wrongs[r.Intn(len(wrongs))](r, h)
	}
}

// pick gives a random element, or the zero value of none.
func pick[T any](r *rand.Rand, all []T) (T, bool) {
	var none T
	if len(all) == 0 {
		return none, false
	}
	return all[r.Intn(len(all))], true
}

// onePolled gives a random record of a random poll.
func onePolled(r *rand.Rand, h *histories.Memory) *histories.Record {
	var all []*histories.Record
	for _, l := range lines[*histories.PollReturn](h) {
		for i := range l.Records {
			for j := range l.Records[i].Records {
				all = append(all, &l.Records[i].Records[j])
			}
		}
	}
	record, _ := pick(r, all)
	return record
}

// someEvent gives an identity: a known one mostly.
func someEvent(r *rand.Rand, h *histories.Memory) string {
	sends := lines[*histories.Send](h)
	switch r.Intn(8) {
	case 0:
		return ""
	case 1:
		return "nobody/0"
	}
	s, some := pick(r, sends)
	if !some {
		return "nobody/1"
	}
	return s.Event
}

func remove(h *histories.Memory, line histories.Line) {
	h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool { return l == line })
}

// before puts a line in front of the last one, or of a random one.
func before(r *rand.Rand, h *histories.Memory, line histories.Line) {
	h.Body = slices.Insert(h.Body, 1+r.Intn(len(h.Body)-1), line)
}

// wrongs are what can be done to a history.
var wrongs = []func(*rand.Rand, *histories.Memory){
	func(r *rand.Rand, h *histories.Memory) { // a record is not in the log
		if l, some := pick(r, lines[*histories.FinalRecords](h)); some {
			remove(h, l)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a record is there again, somewhere
		if l, some := pick(r, lines[*histories.FinalRecords](h)); some {
			again := *l
			record := l.Records.Records[0]
			record.Offset += int64(r.Intn(6))
			again.Records.Records = []histories.Record{record}
			if r.Intn(3) == 0 {
				again.Partition.Partition = int32(r.Intn(3))
			}
			before(r, h, &again)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // two records changed places
		a, some := pick(r, lines[*histories.FinalRecords](h))
		b, _ := pick(r, lines[*histories.FinalRecords](h))
		if some {
			x, y := &a.Records.Records[0], &b.Records.Records[0]
			x.Event, y.Event = y.Event, x.Event
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // acknowledged elsewhere
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			l.Offset = int64(r.Intn(14)) - 1
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // acknowledged in another partition
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			l.Partition = int32(r.Intn(4)) - 1
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a poll did not get a record
		if l, some := pick(r, lines[*histories.PollReturn](h)); some && len(l.Records) > 0 {
			records := &l.Records[r.Intn(len(l.Records))]
			i := r.Intn(len(records.Records))
			records.Records = slices.Concat(records.Records[:i:i], records.Records[i+1:])
			if len(records.Records) == 0 {
				l.Records = nil
			}
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a poll got another record
		if record := onePolled(r, h); record != nil {
			record.Event = someEvent(r, h)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a poll got it from elsewhere
		if record := onePolled(r, h); record != nil {
			record.Offset = int64(r.Intn(14))
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // the log holds another event
		if l, some := pick(r, lines[*histories.FinalRecords](h)); some {
			l.Records.Records[0].Event = someEvent(r, h)
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.FinalRecords](h)); some {
			l.LeaderEpoch = int32(r.Intn(4)) - 1
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.FinalRecords](h)); some {
			l.Records.Records[0].Corrupt = "value"
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if record := onePolled(r, h); record != nil {
			record.Corrupt = "checksum"
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.PollReturn](h)); some {
			l.Time = int64(r.Intn(20))
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.Send](h)); some {
			l.Time = int64(r.Intn(40))
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			l.Time = int64(r.Intn(40))
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a clock of its own
		clock := []string{"other", generatedClock}[r.Intn(2)]
		p, _ := pick(r, lines[*histories.Producer](h))
		c, _ := pick(r, lines[*histories.Consumer](h))
		if r.Intn(2) == 0 && p != nil {
			p.Clock = clock
		} else if c != nil {
			c.Clock = clock
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // told otherwise
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			l.Closed, l.Error, l.ClientError = false, "", ""
			switch r.Intn(5) {
			case 0:
				l.Closed = true
			case 1:
				l.Error = []string{"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE"}[r.Intn(3)]
			case 2:
				l.ClientError = []string{"MaxBuffered", "RecordTimeout", "AnythingElse"}[r.Intn(3)]
			}
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // never told
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			remove(h, l)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // an importer's word
		if l, some := pick(r, lines[*histories.SendReturn](h)); some {
			l.Stated = []histories.Outcome{"", histories.OutcomeOK, histories.OutcomeFail, histories.OutcomeInfo}[r.Intn(4)]
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.PollReturn](h)); some {
			l.Stated = []histories.Outcome{"", histories.OutcomeFail, histories.OutcomeInfo}[r.Intn(3)]
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // what went over the wire
		if l, some := pick(r, lines[*histories.Attempt](h)); some {
			l.Answer = []string{"", "NONE", "NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"}[r.Intn(5)]
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.Send](h)); some {
			l.Partition = int32(r.Intn(4)) - 1
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		if l, some := pick(r, lines[*histories.Send](h)); some {
			l.Rank = histories.Unknown
		}
	},
	sendAgain,
	func(r *rand.Rand, h *histories.Memory) { // the final read ended early, or shows less than there is
		l, some := pick(r, lines[*histories.FinalRead](h))
		if !some || l.Position == 0 {
			return
		}
		l.Position = int64(r.Intn(int(l.Position) + 1))
		h.Body = slices.DeleteFunc(h.Body, func(line histories.Line) bool {
			records, ok := line.(*histories.FinalRecords)
			return ok && records.Partition == l.Partition && records.Records.Records[0].Offset >= l.Position
		})
		switch r.Intn(3) {
		case 0:
			l.Error = "the leader went away"
		case 1:
			l.HighWatermark, l.SecondHighWatermark = l.Position, l.Position
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // the log's start moved up
		l, some := pick(r, lines[*histories.FinalRead](h))
		if !some {
			return
		}
		l.LogStart = int64(r.Intn(int(l.Position) + 1))
		h.Body = slices.DeleteFunc(h.Body, func(line histories.Line) bool {
			records, ok := line.(*histories.FinalRecords)
			return ok && records.Partition == l.Partition && records.Records.Records[0].Offset < l.LogStart
		})
	},
	func(r *rand.Rand, h *histories.Memory) { // the end moved
		if l, some := pick(r, lines[*histories.FinalRead](h)); some {
			l.SecondLogEnd += int64(r.Intn(2))
			l.SecondHighWatermark += int64(r.Intn(2))
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // no final read of a partition
		if l, some := pick(r, lines[*histories.FinalRead](h)); some {
			remove(h, l)
		}
	},
	func(r *rand.Rand, h *histories.Memory) {
		before(r, h, &histories.ClusterEvent{What: histories.ClusterNotWhole, Detail: "broker 2 is away"})
	},
	func(r *rand.Rand, h *histories.Memory) { // the fresh client is not served
		for _, l := range lines[*histories.SendReturn](h) {
			if l.Process == "fresh" {
				l.Error, l.Offset, l.Partition = "REQUEST_TIMED_OUT", histories.Unknown, histories.Unknown
				l.Time += []int64{1e9, 61e9}[r.Intn(2)]
			}
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a poll comes twice
		if l, some := pick(r, lines[*histories.PollReturn](h)); some {
			again := *l
			again.Number += 1000
			before(r, h, &again)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a replica lacks a record
		if l, some := pick(r, lines[*histories.ReplicaRecords](h)); some {
			remove(h, l)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a replica holds another record
		if l, some := pick(r, lines[*histories.ReplicaRecords](h)); some {
			record := &l.Records[0]
			record.Event, record.Digest = someEvent(r, h), []string{"", "a digest", "another"}[r.Intn(3)]
			record.Corrupt = []string{"", "value"}[r.Intn(2)]
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // the read of a replica ended early, or says other figures
		l, some := pick(r, lines[*histories.ReplicaRead](h))
		if !some {
			return
		}
		figure := []*int64{&l.Position, &l.LogStart, &l.HighWatermark, &l.LogEnd}[r.Intn(4)]
		*figure = int64(r.Intn(10)) - 1
		l.Error = []string{"", "the broker went away"}[r.Intn(2)]
	},
	func(r *rand.Rand, h *histories.Memory) { // the read of a replica was not closed
		if l, some := pick(r, lines[*histories.ReplicaRead](h)); some {
			remove(h, l)
		}
	},
	func(r *rand.Rand, h *histories.Memory) { // a position nobody asked for is forgotten
		if l, some := pick(r, lines[*histories.PositionChange](h)); some {
			remove(h, l)
		}
	},
}

// sendAgain has the application send an event again, at the end of the run.
func sendAgain(r *rand.Rand, h *histories.Memory) {
	first, some := pick(r, lines[*histories.Send](h))
	if !some {
		return
	}
	again := *first
	again.Number, again.Time = 5000+int64(r.Intn(1<<20)), first.Time+int64(r.Intn(30))
	again.Rank, again.ResendOf = first.Rank+100, &first.OperationID
	h.Body = append(h.Body, &again)
	if r.Intn(2) == 0 {
		h.Body = append(h.Body, &histories.SendReturn{OperationID: again.OperationID, Time: again.Time + 1,
			Partition: int32(r.Intn(3)), Offset: int64(r.Intn(12)) - 1})
	}
}

// withoutFinalRead takes the final read away.
func withoutFinalRead(h *histories.Memory) {
	h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool {
		switch l.(type) {
		case *histories.FinalRead, *histories.FinalRecords:
			return true
		}
		return false
	})
}
