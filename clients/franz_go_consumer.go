// This file holds the adapter of franz-go: its consumer, with a fixed assignment.

package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// defaultMaxPollRecords is max.poll.records of Kafka's consumer.
const defaultMaxPollRecords = 500

// NewConsumer opens a consumer. It never resets a position by itself where the log
// does not say where it was cut: such a reset is ours, and recorded.
func (f franzGo) NewConsumer(ctx context.Context, options ConsumerOptions) (Consumer, error) {
	fail := func(err error) (Consumer, error) {
		return nil, fmt.Errorf("opening the consumer %s: %w", options.Name, err)
	}
	isolation, err := franzGoIsolation(options.Isolation)
	if err != nil {
		return fail(err)
	}
	open := new(openConnections)
	kgoOptions, err := franzGoConnection(options.Connection, options.Name, open)
	if err != nil {
		return fail(err)
	}
	if options.Assignment, err = franzGoCommitted(ctx, options); err != nil {
		return fail(err)
	}
	c := &franzGoConsumer{recorder: options.Recorder, open: open, group: options.Group, name: options.Name,
		maxRecords: options.MaxPollRecords,
		next:       make(map[histories.Partition]int64), lost: make(map[histories.Partition]bool)}
	if c.maxRecords <= 0 {
		c.maxRecords = defaultMaxPollRecords
	}
	for _, p := range options.Assignment {
		if p.Position < 0 {
			return fail(fmt.Errorf("no start position is given for %s/%d", p.Topic, p.Partition.Partition))
		}
		c.next[p.Partition] = p.Position
	}
	kgoOptions = append(kgoOptions, kgo.ConsumePartitions(franzGoOffsets(options.Assignment)),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation))
	c.client, err = kgo.NewClient(kgoOptions...)
	if err != nil {
		return fail(err)
	}
	properties := map[string]string{histories.PropertyIsolation: histories.ReadUncommitted,
		"auto.offset.reset": "none", "max.poll.records": strconv.Itoa(c.maxRecords)}
	if options.Group != "" {
		properties["group.id"] = options.Group
	}
	if options.Isolation != "" {
		properties[histories.PropertyIsolation] = options.Isolation
	}
	c.session, err = options.Recorder.NewConsumerSession(options, histories.Consumer{
		Client: f.Name(), ClientVersion: f.Version(), Properties: properties})
	if err != nil {
		c.client.Close()
		return nil, err
	}
	return c, nil
}

func franzGoIsolation(level string) (kgo.IsolationLevel, error) {
	switch level {
	case "", histories.ReadUncommitted:
		return kgo.ReadUncommitted(), nil
	case histories.ReadCommitted:
		return kgo.ReadCommitted(), nil
	}
	return kgo.IsolationLevel{}, fmt.Errorf("%s=%s is none of %s, %s",
		histories.PropertyIsolation, level, histories.ReadUncommitted, histories.ReadCommitted)
}

func franzGoOffsets(positions []histories.PartitionPosition) map[string]map[int32]kgo.Offset {
	offsets := make(map[string]map[int32]kgo.Offset)
	for _, p := range positions {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = make(map[int32]kgo.Offset)
		}
		offsets[p.Topic][p.Partition.Partition] = kgo.NewOffset().At(p.Position)
	}
	return offsets
}

// franzGoConsumer is one kgo client that consumes.
type franzGoConsumer struct {
	recorder   *Recorder
	name       string
	group      string
	open       *openConnections
	client     *kgo.Client
	session    *ConsumerSession
	maxRecords int

	// next is the position in each partition: the offset that is due.
	next map[histories.Partition]int64
	// lost are partitions whose position fell out of the log and is not reset yet.
	lost    map[histories.Partition]bool
	reading recordReader

	closing sync.Once
}

// lostRetry is how long a poll waits before it tries again to reset a position.
const lostRetry = 250 * time.Millisecond

// Poll does one poll. See Consumer.
func (c *franzGoConsumer) Poll(ctx context.Context) (int, error) {
	operation, err := c.session.Invoke()
	if err != nil {
		return 0, err
	}
	polling, cancel := ctx, func() {}
	if len(c.lost) > 0 {
		polling, cancel = context.WithTimeout(ctx, lostRetry)
	}
	fetches := c.client.PollRecords(polling, c.maxRecords)
	cancel()
	poll := c.take(fetches)
	if err := c.session.write(operation, poll); err != nil {
		return poll.count, err
	}
	if fetches.IsClientClosed() {
		return poll.count, fmt.Errorf("polling with the consumer %s: %w", c.name, ErrClosed)
	}
	return poll.count, c.resetLost(ctx)
}

// polled is what a poll gave, and the resets that the client made: those that come
// before its records and those that come after.
type polled struct {
	records       []histories.Records
	count         int
	problem       string
	before, after []reset
}

type reset struct {
	at     histories.PartitionPosition
	reason string
}

// write records resets and the poll in the order in which they took effect.
func (s *ConsumerSession) write(operation int64, poll polled) error {
	for _, r := range poll.before {
		if err := s.Changed(histories.ChangeReset, r.reason, []histories.PartitionPosition{r.at}); err != nil {
			return err
		}
	}
	if err := s.Return(operation, poll.records, poll.problem); err != nil {
		return err
	}
	for _, r := range poll.after {
		if err := s.Changed(histories.ChangeReset, r.reason, []histories.PartitionPosition{r.at}); err != nil {
			return err
		}
	}
	return nil
}

// take reads what a poll gave.
func (c *franzGoConsumer) take(fetches kgo.Fetches) polled {
	var poll polled
	resets := make(map[histories.Partition]reset)
	fetches.EachError(func(topic string, partition int32, err error) {
		p := histories.Partition{Topic: topic, Partition: partition}
		var loss *kgo.ErrDataLoss
		switch {
		case errors.As(err, &loss):
			resets[p] = reset{histories.PartitionPosition{Partition: p, Position: loss.ResetTo}, err.Error()}
		case errors.Is(err, kerr.OffsetOutOfRange):
			c.lost[p] = true
		}
		if poll.problem == "" && topic != "" {
			poll.problem = fmt.Sprintf("%s/%d: %v", topic, partition, err)
		}
	})
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		p := histories.Partition{Topic: f.Topic, Partition: f.Partition}
		if r, wasReset := resets[p]; wasReset {
			// kgo drops what it has fetched of a partition before it sets the position
			// back, and says so before it fetches on: the records come from there, even
			// if markers let them begin behind the old position.
			poll.before = append(poll.before, r)
			delete(resets, p)
		}
		poll.records = c.reading.read(c.recorder, poll.records, p, f.Records)
		poll.count += len(f.Records)
		c.next[p] = f.Records[len(f.Records)-1].Offset + 1
	})
	for p, r := range resets {
		poll.after = append(poll.after, r)
		c.next[p] = r.at.Position
	}
	return poll
}

// resetLost sets positions that fell out of the log to the nearest that it has.
// What cannot be done now is tried again with the next poll.
func (c *franzGoConsumer) resetLost(ctx context.Context) error {
	if len(c.lost) == 0 || ctx.Err() != nil {
		return nil
	}
	var topics []string
	for p := range c.lost {
		topics = append(topics, p.Topic)
	}
	admin := kadm.NewClient(c.client)
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	starts, err := admin.ListStartOffsets(asking, topics...)
	if err != nil {
		return nil // the cluster does not answer now; the next poll tries again
	}
	ends, err := admin.ListEndOffsets(asking, topics...)
	if err != nil {
		return nil // as above
	}
	for p := range c.lost {
		start, startKnown := starts.Lookup(p.Topic, p.Partition)
		end, endKnown := ends.Lookup(p.Topic, p.Partition)
		if !startKnown || !endKnown || start.Err != nil || end.Err != nil {
			continue
		}
		position := min(max(c.next[p], start.Offset), end.Offset)
		reason := fmt.Sprintf("OFFSET_OUT_OF_RANGE at %d; the log has %d to %d", c.next[p], start.Offset, end.Offset)
		if err := c.session.Changed(histories.ChangeReset, reason,
			[]histories.PartitionPosition{{Partition: p, Position: position}}); err != nil {
			return err
		}
		c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Partition: {Epoch: -1, Offset: position}}})
		c.next[p] = position
		delete(c.lost, p)
	}
	return nil
}

// Close ends the session. See Consumer.
func (c *franzGoConsumer) Close() error {
	var err error
	c.closing.Do(func() {
		c.client.Close()
		err = c.session.End()
	})
	return err
}

// committedLimit bounds asking for and committing a group's offsets.
const committedLimit = 20 * time.Second

// franzGoCommitted gives the assignment with the group's committed offsets, where it has
// some. The client that asks is none of the run.
func franzGoCommitted(ctx context.Context, options ConsumerOptions) ([]histories.PartitionPosition, error) {
	if options.Group == "" {
		return options.Assignment, nil
	}
	kgoOptions, err := franzGoConnection(options.Connection, options.Name, new(openConnections))
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgoOptions...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	asking, cancel := context.WithTimeout(ctx, committedLimit)
	defer cancel()
	committed, err := kadm.NewClient(client).FetchOffsets(asking, options.Group)
	for coordinatorComes(err) && asking.Err() == nil { // the first group of a cluster waits for its topic to be made
		select {
		case <-asking.Done():
		case <-time.After(lostRetry):
		}
		committed, err = kadm.NewClient(client).FetchOffsets(asking, options.Group)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return options.Assignment, nil // it has never committed
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the committed offsets of the group %s: %w", options.Group, err)
	}
	positions := slices.Clone(options.Assignment)
	for i := range positions {
		p := &positions[i]
		if offset, some := committed.Lookup(p.Topic, p.Partition.Partition); some && offset.Err == nil && offset.At >= 0 {
			p.Position = offset.At
		}
	}
	return positions, nil
}

// coordinatorComes says whether an error means that the group's coordinator is not there
// yet.
func coordinatorComes(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) ||
		errors.Is(err, kerr.NotCoordinator)
}

// Commit commits the positions. See Consumer.
func (c *franzGoConsumer) Commit(ctx context.Context) error {
	if c.group == "" {
		return fmt.Errorf("committing with the consumer %s: it has no group", c.name)
	}
	var offsets kadm.Offsets
	var positions []histories.PartitionPosition
	for p, next := range c.next {
		offsets.AddOffset(p.Topic, p.Partition, next, -1)
		positions = append(positions, histories.PartitionPosition{Partition: p, Position: next})
	}
	operation, err := c.session.Commit(positions)
	if err != nil {
		return err
	}
	committing, cancel := context.WithTimeout(ctx, committedLimit)
	defer cancel()
	err = kadm.NewClient(c.client).CommitAllOffsets(committing, c.group, offsets)
	if err == nil {
		return c.session.Committed(operation, "", "", "")
	}
	kafka, client := nameFranzGoError(err)
	return c.session.Committed(operation, kafka, client, err.Error())
}

// Crash ends the session. See Consumer.
func (c *franzGoConsumer) Crash(context.Context) error {
	var err error
	c.closing.Do(func() {
		c.open.cut()
		c.client.Close()
		err = c.session.Crashed()
	})
	return err
}

// recordReader reads kgo's records as records of a history. It may be used by one
// goroutine at a time.
type recordReader struct{ headers []Header }

// read appends records of one partition, grouped by leader epoch.
func (r *recordReader) read(recorder *Recorder, to []histories.Records, p histories.Partition,
	records []*kgo.Record) []histories.Records {
	for len(records) > 0 {
		epoch := records[0].LeaderEpoch
		n := 1
		for n < len(records) && records[n].LeaderEpoch == epoch {
			n++
		}
		group := histories.Records{Partition: p, LeaderEpoch: epoch, Records: make([]histories.Record, 0, n)}
		for _, record := range records[:n] {
			group.Records = append(group.Records, recorder.verify(r.payload(record), record.Offset))
		}
		to = append(to, group)
		records = records[n:]
	}
	return to
}

func (r *recordReader) payload(record *kgo.Record) Payload {
	r.headers = r.headers[:0]
	for _, h := range record.Headers {
		r.headers = append(r.headers, Header(h))
	}
	return Payload{Key: record.Key, Value: record.Value, Headers: r.headers}
}
