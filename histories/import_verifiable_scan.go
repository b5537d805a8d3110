// This file holds the first pass over the files of Kafka's verifiable clients: it
// finds what no single line says, namely which values were sent and by whom.

package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// verifiableSeries is what a producer's values have in common; the values of one
// series are numbered from 0.
type verifiableSeries struct{ topic, prefix string }

// verifiableClient is one file, with what the scan found in it.
type verifiableClient struct {
	file  *File
	name  string // of its session
	role  verifiableRole
	first int64 // the earliest timestamp, in milliseconds; Unknown
	cut   *CutError

	// Of a producer: the series of its values, once one was completed.
	series *verifiableSeries
	// keys has an entry for every value up to the highest that was completed: zero
	// where it was not, else its key's number + 1; the null key is number 0.
	keys      []uint32
	keyNumber map[string]uint32
	completed int64
	sent      int64 // as its tool_data line says; Unknown: it has none, it is open
	size      int64 // how many values were sent, or may have been

	// Of a consumer: the highest value of each series.
	highest map[verifiableSeries]highestValue

	// lowest is the lowest offset of each partition that was acknowledged, or read.
	lowest map[Partition]int64
}

type highestValue struct{ number, line, byte int64 }

// maxOutstanding is how many more values a producer may have sent than completed.
// What can be on its way at once is bounded by buffer.memory, so a higher one means
// that lines are missing; and it must not cost us the memory that it claims.
const maxOutstanding = 1 << 22

// verifiableScan is what the first pass found.
type verifiableScan struct {
	clients []*verifiableClient // the producers first
	// producers by their series, and by their prefix where that is not empty and
	// names just one.
	producers map[verifiableSeries]*verifiableClient
	byPrefix  map[string]*verifiableClient
	topics    map[string]bool // that producers wrote to
	// unknownSeries: a client may have sent values, and none of them is known.
	unknownSeries bool
	zero          int64 // time zero, in milliseconds since 1970
	notes         verifiableNotes
}

// verifiableNotes counts what could not be used and what is worth knowing, each
// with the place of the first one.
type verifiableNotes map[string]*verifiableNote

type verifiableNote struct {
	count int64
	first string
}

func (n verifiableNotes) add(what, place string) {
	if n[what] == nil {
		n[what] = &verifiableNote{first: place}
	}
	n[what].count++
}

func (n verifiableNotes) list() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%d %s (first: %s)", n[what].count, what, n[what].first))
	}
	return all
}

// What is worth knowing of lines that could be used.
const (
	noteNoOffset  = "sends acknowledged without an offset (acks=0, or a duplicate's answer)"
	noteAgain     = "completions of a value that had one already"
	noteNoRecords = "polls without the record_data of all their records, so that nobody can tell what was read " +
		"(VerifiableConsumer prints it with --verbose)"
	noteLeft     = "record_data lines without the records_consumed after them"
	noteCommit   = "commits of offsets that failed"
	noteOpen     = "producers without their tool_data line (killed, or cut off): what they sent last is not known"
	noteSilent   = "clients that completed nothing"
	noteSentLess = "tool_data lines that tell of fewer values than there are"
	noteNobody   = "consumers and no producer, so that all records are foreign (put the files together with --one-history)"
	noteLate     = "partitions that no consumer read from their beginning (--reset-policy earliest, a new --group-id): " +
		"what lies before counts as lost"
	noteUnread = "producers and no consumer, so that nothing was read (put the files together with --one-history)"
)

// scanVerifiable reads all files once.
func scanVerifiable(ctx context.Context, files []*File) (*verifiableScan, error) {
	s := &verifiableScan{
		producers: make(map[verifiableSeries]*verifiableClient), byPrefix: make(map[string]*verifiableClient),
		topics: make(map[string]bool), notes: make(verifiableNotes),
	}
	named := make(map[string]int)
	for _, f := range files {
		named[filepath.Base(f.name)]++
	}
	for _, f := range files {
		c := newVerifiableClient(f)
		if named[c.name] > 1 {
			c.name = f.name
		}
		s.clients = append(s.clients, c)
		if err := c.scan(ctx, s.notes); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.clients, func(a, b *verifiableClient) int { return cmp.Compare(a.role, b.role) })
	for _, c := range s.clients {
		if err := s.nameProducer(c); err != nil {
			return nil, err
		}
	}
	for _, c := range s.clients {
		if err := s.extend(c); err != nil {
			return nil, err
		}
	}
	s.conclude()
	return s, nil
}

func newVerifiableClient(f *File) *verifiableClient {
	return &verifiableClient{file: f, name: filepath.Base(f.name), first: Unknown, sent: Unknown,
		keyNumber: make(map[string]uint32), highest: make(map[verifiableSeries]highestValue), lowest: make(map[Partition]int64)}
}

// scan reads one file.
func (c *verifiableClient) scan(ctx context.Context, notes verifiableNotes) error {
	t, err := c.file.verifiableText()
	if err != nil {
		return err
	}
	defer t.close()
	for t.more(ctx) {
		place := fmt.Sprintf("%s:%d", c.name, t.number)
		if t.flaw == flawName {
			place = fmt.Sprintf("%q at %s", t.verifiableLine.name, place)
		}
		if t.flaw != "" {
			notes.add(t.flaw, place)
			continue
		}
		if err := c.scanLine(t, place, notes); err != nil {
			return t.locate(err)
		}
	}
	c.cut = t.cut
	return t.err
}

func (c *verifiableClient) scanLine(t *verifiableText, place string, notes verifiableNotes) error {
	v := &t.verifiableLine
	if err := c.takeRole(verifiableNames[v.name]); err != nil {
		return err
	}
	if v.timestamp >= 0 && (c.first < 0 || v.timestamp < c.first) {
		c.first = v.timestamp
	}
	switch v.name {
	case nameStartup:
		if c.completed > 0 {
			return errors.New("a second producer starts in this file, whose values begin with 0 again: nothing tells the records " +
				"of the two apart; give each its own file and its own --value-prefix")
		}
	case nameSuccess, nameError:
		return c.complete(v, place, notes)
	case nameToolData:
		c.sent = v.sent
	case nameRecord:
		c.takeLowest(v)
		c.takeHighest(t)
	case nameCommitted:
		if v.failed {
			notes.add(noteCommit, cmp.Or(v.failure, "no reason given")+" at "+place)
		}
	}
	return nil
}

func (c *verifiableClient) takeRole(role verifiableRole) error {
	switch {
	case role == roleShareConsumer:
		return errors.New("it is of a VerifiableShareConsumer, whose reads are acknowledged one by one and in no order; " +
			"its files cannot be judged yet")
	case role == roleUnknown, role == c.role:
		return nil
	case c.role != roleUnknown:
		return fmt.Errorf("it is of a %v, and lines before it are of a %v; give each client its own file, "+
			"and check them with --one-history", role, c.role)
	}
	c.role = role
	return nil
}

// complete takes the completion of a value.
func (c *verifiableClient) complete(v *verifiableLine, place string, notes verifiableNotes) error {
	prefix, n, ok := splitVerifiable(v.value.text)
	if !ok {
		return fmt.Errorf("the value %q is neither a number nor a prefix, a dot and a number, as a VerifiableProducer prints it",
			v.value.text)
	}
	series := verifiableSeries{v.topic, prefix}
	switch {
	case c.series == nil:
		c.series = &series
	case *c.series != series:
		return fmt.Errorf("the value %q sent to %s is of another producer than those before it, as %q sent to %s; "+
			"give each producer its own file", v.value.text, v.topic, c.series.prefix+"0", c.series.topic)
	}
	if n >= c.completed+maxOutstanding {
		return fmt.Errorf("the value %d is far above the %d that were completed before it: lines before this one are missing",
			n, c.completed)
	}
	if missing := n + 1 - int64(len(c.keys)); missing > 0 {
		c.keys = append(c.keys, make([]uint32, missing)...)
	}
	switch {
	case v.name == nameSuccess && v.offset < 0:
		notes.add(noteNoOffset, place)
	case v.name == nameSuccess:
		c.takeLowest(v)
	}
	if c.keys[n] != 0 {
		notes.add(noteAgain, place)
		return nil
	}
	c.completed++
	c.keys[n] = c.keyOf(v.key) + 1
	return nil
}

// keyOf numbers a key; the null key is number 0.
func (c *verifiableClient) keyOf(key optionalText) uint32 {
	if !key.given {
		return 0
	}
	number, known := c.keyNumber[key.text]
	if !known {
		number = uint32(len(c.keyNumber)) + 1
		c.keyNumber[key.text] = number
	}
	return number
}

func (c *verifiableClient) takeLowest(v *verifiableLine) {
	p := Partition{v.topic, int32(v.partition)}
	if lowest, known := c.lowest[p]; !known || v.offset < lowest {
		c.lowest[p] = v.offset
	}
}

// takeHighest notes the highest value of each series that a consumer was given.
func (c *verifiableClient) takeHighest(t *verifiableText) {
	prefix, n, ok := splitVerifiable(t.value.text)
	if !ok {
		return
	}
	series := verifiableSeries{t.topic, prefix}
	if highest, known := c.highest[series]; !known || n > highest.number {
		c.highest[series] = highestValue{n, t.number, t.at}
	}
}

// nameProducer files a producer under its series and says how many values it sent,
// as far as its own file tells.
func (s *verifiableScan) nameProducer(c *verifiableClient) error {
	if c.role == roleConsumer {
		return nil
	}
	if c.series == nil {
		s.unknownSeries = s.unknownSeries || c.sent != 0
		s.notes.add(noteSilent, c.name)
		return nil
	}
	if other := s.producers[*c.series]; other != nil {
		return fmt.Errorf("%s and %s hold the same values (as %q) on topic %s: nothing tells the records of the two producers apart; "+
			"run each with its own --value-prefix", other.file.name, c.file.name, c.series.prefix+"0", c.series.topic)
	}
	s.producers[*c.series], s.topics[c.series.topic] = c, true
	if prefix := c.series.prefix; prefix != "" {
		_, several := s.byPrefix[prefix]
		s.byPrefix[prefix] = c
		if several {
			s.byPrefix[prefix] = nil
		}
	}
	return c.close(s.notes)
}

// close says how many values a producer sent, as far as its own file tells.
func (c *verifiableClient) close(notes verifiableNotes) error {
	c.size = int64(len(c.keys))
	switch {
	case c.sent < 0:
		notes.add(noteOpen, fmt.Sprintf("%s, after the value %s%d", c.name, c.series.prefix, c.size-1))
	case c.sent < c.size:
		notes.add(noteSentLess, c.name)
	case c.sent >= c.completed+maxOutstanding:
		return fmt.Errorf("%s: its tool_data line says that %d values were sent, and %d were completed: lines are missing",
			c.file.name, c.sent, c.completed)
	default:
		c.size = c.sent
	}
	return nil
}

// producerOf gives the producer that the values of a series are from: one that wrote
// them to this topic, else the one that wrote them to another. Without a prefix the
// latter is not believed, since every producer begins with 0.
func (s *verifiableScan) producerOf(series verifiableSeries) *verifiableClient {
	if c := s.producers[series]; c != nil {
		return c
	}
	return s.byPrefix[series.prefix]
}

// extend lets an open producer have sent what a consumer was given: a value above
// the highest that was completed.
func (s *verifiableScan) extend(c *verifiableClient) error {
	for series, highest := range c.highest {
		p := s.producerOf(series)
		if p == nil || p.sent >= 0 || highest.number < p.size {
			continue
		}
		if highest.number >= p.completed+maxOutstanding {
			return &LineError{Name: c.file.name, Line: highest.line, Byte: highest.byte, Err: fmt.Errorf(
				"the value %s%d is far above the %d that %s tells of, which has no tool_data line: lines are missing there",
				series.prefix, highest.number, p.completed, p.file.name)}
		}
		p.size = highest.number + 1
	}
	return nil
}

// conclude settles what is known once all files were read.
func (s *verifiableScan) conclude() {
	earliest, consumers := int64(Unknown), 0
	for _, c := range s.clients {
		if c.first >= 0 && (earliest < 0 || c.first < earliest) {
			earliest = c.first
		}
		if c.role == roleConsumer {
			consumers++
		}
	}
	// What was sent was sent at time zero, so before everything else.
	s.zero = earliest - 1
	s.noteLateConsumers()
	for _, c := range s.clients {
		switch {
		case consumers == len(s.clients):
			s.notes.add(noteNobody, c.name)
		case consumers == 0 && c.role == roleProducer:
			s.notes.add(noteUnread, c.name)
		}
	}
}

// noteLateConsumers notes the partitions whose first acknowledged records were read by
// nobody. They may be lost, and mostly the consumers merely began too late.
func (s *verifiableScan) noteLateConsumers() {
	acknowledged, read := make(map[Partition]int64), make(map[Partition]int64)
	for _, c := range s.clients {
		lowest := acknowledged
		if c.role == roleConsumer {
			lowest = read
		}
		for p, offset := range c.lowest {
			if known, found := lowest[p]; !found || offset < known {
				lowest[p] = offset
			}
		}
	}
	byName := func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}
	for _, p := range slices.SortedFunc(maps.Keys(acknowledged), byName) {
		if first, found := read[p]; found && first > acknowledged[p] {
			s.notes.add(noteLate, fmt.Sprintf("%s/%d, read from offset %d and acknowledged from %d", p.Topic, p.Partition, first,
				acknowledged[p]))
		}
	}
}

// event gives the identity of a record, empty where it is foreign: where no producer
// of ours wrote to its topic, or where it may be of one that we know no value of.
func (s *verifiableScan) event(topic string, value optionalText) string {
	if !value.given {
		return ""
	}
	if prefix, n, ok := splitVerifiable(value.text); ok {
		if c := s.producerOf(verifiableSeries{topic, prefix}); c != nil && n < c.size {
			return c.series.topic + "/" + value.text
		}
	}
	if s.unknownSeries || !s.topics[topic] {
		return ""
	}
	return topic + "/" + value.text
}

// cut gives where a consumer's file was cut: what it was given after that is not
// known, so nothing can be said of loss. A producer's file that was cut merely
// tells of fewer acknowledgements.
func (s *verifiableScan) cut() *CutError {
	for _, c := range s.clients {
		if c.cut != nil && c.role == roleConsumer {
			return c.cut
		}
	}
	return nil
}
