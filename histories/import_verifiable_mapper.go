// This file holds how the lines of Kafka's verifiable clients become lines of a
// history, once the scan has found what was sent. FORMAT.md describes the mapping.

package histories

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// verifiableMapper turns one file into lines.
type verifiableMapper struct {
	scan    *verifiableScan
	client  *verifiableClient
	session string
	// take takes a line; false: no more are wanted.
	take    func(line Line, number int64) bool
	stopped bool
	now     int64 // the time of the last line that had one
	line    int64 // the number of the last line
	started bool  // it had a line of the protocol
	ended   bool  // the client says that it has shut down
	notes   verifiableNotes

	// Of a producer.
	next  int64            // the value that is to be sent next
	ranks map[uint32]int64 // of the next value, by key
	keys  []string

	// Of a consumer.
	sessions   int
	operations int64 // the number of the next one
	parts      []Records
	got        map[Partition]int64 // records of the poll so far
}

// give gives all lines of a client.
func (s *verifiableScan) give(ctx context.Context, c *verifiableClient, notes verifiableNotes,
	take func(Line, int64) bool) error {
	t, err := c.file.verifiableText()
	if err != nil {
		return err
	}
	defer t.close()
	m := &verifiableMapper{scan: s, client: c, session: c.name, take: take, notes: notes,
		ranks: make(map[uint32]int64), got: make(map[Partition]int64), sessions: 1, keys: make([]string, len(c.keyNumber)+1)}
	for key, number := range c.keyNumber {
		m.keys[number] = key
	}
	m.open(0)
	for !m.stopped && t.more(ctx) {
		m.line = t.number
		if t.flaw != "" {
			continue
		}
		if t.timestamp >= 0 {
			m.now = (t.timestamp - s.zero) * int64(time.Millisecond)
		}
		if err := m.protocolLine(&t.verifiableLine); err != nil {
			return t.locate(err)
		}
	}
	if t.err == nil {
		m.finish()
	}
	return t.err
}

func (m *verifiableMapper) add(l Line) {
	if !m.stopped && !m.take(l, m.line) {
		m.stopped = true
	}
}

// open opens the client's session. Each file has a clock of its own.
func (m *verifiableMapper) open(at int64) {
	switch m.client.role { //nolint:exhaustive // the others did nothing
	case roleProducer:
		m.add(&Producer{Name: m.session, Time: at, Clock: m.client.name, Client: ClientJava})
	case roleConsumer:
		m.add(&Consumer{Name: m.session, Time: at, Clock: m.client.name, Client: ClientJava})
	}
}

func (m *verifiableMapper) protocolLine(v *verifiableLine) error {
	again := m.started
	m.started = true
	switch v.name {
	case nameStartup:
		if again && m.client.role == roleConsumer {
			m.restart()
		}
	case nameShutdown:
		m.ended = true
	case nameSuccess, nameError:
		return m.complete(v)
	case nameRecord:
		m.record(v)
	case nameConsumed:
		m.consumed(v)
	case nameAssigned:
		m.position(ChangeAdd, v)
	case nameRevoked:
		m.position(ChangeRevoke, v)
	}
	return nil
}

// sendUpTo gives the sends of all values below the bound that were not given yet:
// one thread sends them in their order. When each was sent is not known, so their
// time is that of the beginning.
func (m *verifiableMapper) sendUpTo(bound int64) {
	c := m.client
	for ; m.next < bound && !m.stopped; m.next++ {
		send := &Send{
			OperationID: OperationID{m.session, m.next},
			Event:       c.series.topic + "/" + c.series.prefix + strconv.FormatInt(m.next, 10),
			Topic:       c.series.topic, Partition: Unknown, Rank: Unknown,
		}
		key := uint32(0)
		if m.next < int64(len(c.keys)) {
			key = c.keys[m.next]
		}
		if key == 0 && len(m.keys) == 1 {
			key = 1 // a producer whose keys are all null
		}
		// Of what was never completed, a producer with keys does not say the key.
		if key > 0 {
			send.OrderingKey, send.Rank = m.keys[key-1], m.ranks[key]
			m.ranks[key]++
		}
		m.add(send)
	}
}

// complete gives the completion of a value, and the sends up to it.
func (m *verifiableMapper) complete(v *verifiableLine) error {
	_, n, ok := splitVerifiable(v.value.text)
	if !ok || m.client.series == nil || n >= m.client.size {
		return errors.New("it was not there when the file was read first; check files that nobody writes to any more")
	}
	m.sendUpTo(n + 1)
	back := &SendReturn{OperationID: OperationID{m.session, n}, Time: m.now, Partition: int32(v.partition), Offset: v.offset}
	if v.name == nameError {
		back.Partition, back.Offset = Unknown, Unknown
		back.ClientError = javaError(v.exception, v.message)
		back.Message = v.message[:min(len(v.message), maxMessage)]
	}
	m.add(back)
	return nil
}

// javaError names an error of the Java client as the table of client errors does:
// the class, with what its message adds where one class has several meanings.
func javaError(exception, message string) string {
	class := strings.TrimPrefix(exception, "class ")
	class = class[strings.LastIndexAny(class, ".$")+1:]
	switch {
	case class == "":
		return "unnamed"
	case class == "TimeoutException" && strings.Contains(message, "not present in metadata"):
		return "TimeoutException: metadata"
	case class == "TimeoutException" && strings.HasPrefix(message, "Expiring "):
		return "TimeoutException: delivery"
	case class == "RecordTooLargeException" && strings.Contains(message, "max.request.size"):
		return "RecordTooLargeException: max.request.size"
	case class == "IllegalStateException" && !strings.Contains(message, "after producer has been closed"):
		// Older clients end what was on its way with this class as well.
		return "IllegalStateException: other"
	}
	return class
}

// record takes a record of the poll that is being read.
func (m *verifiableMapper) record(v *verifiableLine) {
	p := Partition{v.topic, int32(v.partition)}
	if n := len(m.parts); n == 0 || m.parts[n-1].Partition != p {
		m.parts = append(m.parts, Records{Partition: p, LeaderEpoch: Unknown})
	}
	part := &m.parts[len(m.parts)-1]
	part.Records = append(part.Records, Record{Offset: v.offset, Event: m.scan.event(v.topic, v.value)})
	m.got[p]++
}

// consumed closes a poll. Where it lacks records that the consumer was given, it
// gets one without an offset: the checker then says that nothing can be told of
// what was not read.
func (m *verifiableMapper) consumed(v *verifiableLine) {
	parts, missing := v.partitions, false
	if !v.listed {
		given := int64(0)
		for _, n := range m.got {
			given += n
		}
		parts = append(parts, verifiablePart{Partition{"", Unknown}, v.count - given})
	}
	for _, p := range parts {
		if m.got[p.Partition] < p.count {
			missing = true
			m.parts = append(m.parts, Records{Partition: p.Partition, LeaderEpoch: Unknown, Records: []Record{{Offset: Unknown}}})
		}
	}
	if missing {
		m.notes.add(noteNoRecords, fmt.Sprintf("%s:%d", m.client.name, m.line))
	}
	m.poll("")
}

// poll gives the poll that was read.
func (m *verifiableMapper) poll(stated Outcome) {
	id := OperationID{m.session, m.operations}
	m.operations++
	m.add(&Poll{id, m.now})
	m.add(&PollReturn{OperationID: id, Time: m.now, Records: m.parts, Stated: stated})
	m.parts = nil
	clear(m.got)
}

// abandon gives the records of a poll that has no records_consumed: there may have
// been more.
func (m *verifiableMapper) abandon() {
	if len(m.parts) > 0 {
		m.notes.add(noteLeft, fmt.Sprintf("%s:%d", m.client.name, m.line))
		m.poll(OutcomeInfo)
	}
}

// position gives a change of the assignment. A rebalance gives and takes
// partitions; where a consumer goes on is not said.
func (m *verifiableMapper) position(how string, v *verifiableLine) {
	m.abandon()
	change := &PositionChange{Process: m.session, Time: m.now, How: how, Reason: "rebalance"}
	for _, p := range v.partitions {
		change.Partitions = append(change.Partitions, PartitionPosition{p.Partition, Unknown})
	}
	m.add(change)
}

// restart begins another session: a consumer that was started again goes on in the
// same file.
func (m *verifiableMapper) restart() {
	m.closeSession()
	m.sessions++
	m.session = fmt.Sprintf("%s#%d", m.client.name, m.sessions)
	m.operations, m.ended = 0, false
	m.open(m.now)
}

func (m *verifiableMapper) closeSession() {
	switch m.client.role { //nolint:exhaustive // the others did nothing
	case roleProducer:
		m.add(&ProducerClose{Name: m.session, Time: m.now, Crashed: !m.ended})
	case roleConsumer:
		m.abandon()
		m.add(&ConsumerClose{Name: m.session, Time: m.now, Crashed: !m.ended})
	}
}

// finish gives what may have been sent beyond the last completion, and closes.
func (m *verifiableMapper) finish() {
	m.sendUpTo(m.client.size)
	m.closeSession()
}
