// This file holds the generator of random histories: lines of any kind over few events,
// offsets and partitions, in the order that the format asks for and else without any
// sense, so that every rule of both judges meets every other.

package main

import (
	"fmt"
	"math/rand"

	"github.com/ackproof/ackproof/histories"
)

// chaos writes a history.
type chaos struct {
	*rand.Rand
	head    *histories.Header
	body    []histories.Line
	numbers map[string]int64
	ranks   map[string]int64
	sent    map[string]histories.OperationID // the first send of each event
}

// Few of everything, so that things meet.
var (
	chaosAcks    = []string{"0", "1", "all", "-1", "all", "all"}
	chaosErrors  = []string{"NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "NO_SUCH_CODE"}
	chaosAnswers = []string{"NONE", "NONE", "", "NOT_LEADER_FOR_PARTITION", "MESSAGE_TOO_LARGE", "DUPLICATE_SEQUENCE_NUMBER", "OTHER"}
	chaosRaised  = []string{"kgo.ErrMaxBuffered", "kgo.ErrRecordTimeout"}
	chaosStated  = []histories.Outcome{histories.OutcomeOK, histories.OutcomeFail, histories.OutcomeInfo}
)

func anyHistory(r *rand.Rand) *histories.Memory {
	c := &chaos{Rand: r, numbers: map[string]int64{}, ranks: map[string]int64{}, sent: map[string]histories.OperationID{}}
	c.head = &histories.Header{Run: "r", Clock: "c"}
	if c.chance(2) {
		c.head.Producer = map[string]string{histories.PropertyAcks: pick(r, chaosAcks)}
	}
	if c.chance(2) {
		c.head.Topics = []histories.Topic{{Name: "a", Partitions: int32(r.Intn(3)), Start: []int64{int64(r.Intn(3)), 0}[:r.Intn(3)]}}
	}
	if c.chance(4) {
		c.head.Source = &histories.Source{Format: "some", StatesOutcomes: true}
	}
	for i := range 1 + r.Intn(2) {
		p := &histories.Producer{Name: fmt.Sprintf("p%d", i), Client: histories.ClientFranzGo, AttemptsVisible: c.chance(2)}
		if c.chance(2) {
			p.Properties = map[string]string{histories.PropertyAcks: pick(r, chaosAcks)}
		}
		c.say(p)
	}
	for range 4 + r.Intn(20) {
		c.line()
	}
	if !c.chance(4) {
		c.finalReads()
	}
	if !c.chance(5) {
		c.say(&histories.End{Reason: histories.EndFinished})
	}
	return &histories.Memory{Head: c.head, Body: c.body}
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.Intn(len(all))] }

func (c *chaos) chance(n int) bool { return c.Intn(n) == 0 }

func (c *chaos) say(l histories.Line) { c.body = append(c.body, l) }

func (c *chaos) offset() int64 { return int64(c.Intn(8)) }

// orUnknown is a number, or that it is not known.
func (c *chaos) orUnknown(n int64) int64 {
	if c.chance(4) {
		return histories.Unknown
	}
	return n
}

func (c *chaos) partition() histories.Partition {
	topic := "a"
	if c.chance(8) {
		topic = "b"
	}
	return histories.Partition{Topic: topic, Partition: int32(c.Intn(2))}
}

func (c *chaos) line() {
	switch process := fmt.Sprintf("p%d", c.Intn(3)); c.Intn(9) {
	case 0, 1, 2:
		c.send(process)
	case 3, 4, 5:
		c.sendReturn(process)
	case 6:
		c.attempt(process)
	case 7:
		l := &histories.PollReturn{OperationID: c.next("c"), Records: c.records()}
		if c.chance(5) {
			l.Stated = pick(c.Rand, chaosStated)
		}
		c.say(&histories.Poll{OperationID: l.OperationID})
		c.say(l)
	default:
		c.say(&histories.PositionChange{Process: "c", How: histories.ChangeSeek,
			Partitions: []histories.PartitionPosition{{Partition: c.partition(), Position: c.offset()}}})
	}
}

func (c *chaos) next(process string) histories.OperationID {
	n := c.numbers[process]
	c.numbers[process]++
	return histories.OperationID{Process: process, Number: n}
}

// send hands over a new event or an old one again, which it says or not.
func (c *chaos) send(process string) {
	at := c.partition()
	l := &histories.Send{OperationID: c.next(process), Event: fmt.Sprintf("e%d", c.Intn(8)), Topic: at.Topic,
		Partition: int32(c.orUnknown(int64(at.Partition))), OrderingKey: pick(c.Rand, []string{"", "k"})}
	l.Rank = c.ranks[process+l.OrderingKey]
	c.ranks[process+l.OrderingKey]++
	if c.chance(10) {
		l.Rank = int64(c.Intn(4) - 1)
	}
	if first, again := c.sent[l.Event]; again && !c.chance(4) {
		l.ResendOf = &first
	} else if !again {
		c.sent[l.Event] = l.OperationID
	}
	c.say(l)
}

func (c *chaos) sendReturn(process string) {
	if c.numbers[process] == 0 {
		return
	}
	l := &histories.SendReturn{OperationID: histories.OperationID{Process: process, Number: c.Int63n(c.numbers[process])},
		Partition: histories.Unknown, Offset: histories.Unknown}
	switch c.Intn(8) {
	case 0:
		l.Closed = true
	case 1:
		l.Error = pick(c.Rand, chaosErrors)
	case 2:
		l.ClientError = pick(c.Rand, chaosRaised)
	default:
		l.Partition, l.Offset = int32(c.orUnknown(int64(c.Intn(2)))), c.orUnknown(c.offset())
	}
	if c.chance(8) {
		l.Stated = pick(c.Rand, chaosStated)
	}
	c.say(l)
}

func (c *chaos) attempt(process string) {
	first := c.Int63n(c.numbers[process] + 1)
	at := c.partition()
	c.say(&histories.Attempt{Process: process, Topic: at.Topic, Partition: at.Partition, Answer: pick(c.Rand, chaosAnswers),
		Sends: []histories.Range{{First: first, Last: first + c.Int63n(3)}}, Offset: c.orUnknown(c.offset())})
}

// records are some of any partition, in ascending order as a rule.
func (c *chaos) records() []histories.Records {
	rs := histories.Records{Partition: c.partition(), LeaderEpoch: histories.Unknown}
	at := c.offset()
	for range c.Intn(5) {
		event := fmt.Sprintf("e%d", c.Intn(9))
		if c.chance(8) {
			event = ""
		}
		rs.Records = append(rs.Records, histories.Record{Offset: c.orUnknown(at), Event: event})
		at += int64(c.Intn(3))
	}
	return []histories.Records{rs}
}

// finalReads are of some partitions, some of them complete, frozen, or closed by nothing.
func (c *chaos) finalReads() {
	for range 1 + c.Intn(3) {
		isolation := histories.ReadUncommitted
		if c.chance(8) {
			isolation = histories.ReadCommitted
		}
		rs := c.records()[0]
		c.say(&histories.FinalRecords{Isolation: isolation, Records: rs})
		if c.chance(5) {
			continue
		}
		end := c.offset()
		l := &histories.FinalRead{Partition: rs.Partition, Isolation: isolation, LogStart: int64(max(0, c.Intn(8)-4)),
			HighWatermark: end, LogEnd: end, Position: end, SecondHighWatermark: end, SecondLogEnd: end}
		switch c.Intn(6) {
		case 0:
			l.LogEnd, l.SecondLogEnd = end+2, end+2+int64(c.Intn(2))
		case 1:
			l.SecondLogEnd = c.orUnknown(end + 1)
		case 2:
			l.Error = "no leader"
		case 3:
			l.Position = c.offset()
		}
		c.say(l)
	}
}
