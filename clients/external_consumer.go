// This file holds the recording consumer of a client in a process of its own.

package clients

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// NewConsumer opens a consumer.
func (l *externalLibrary) NewConsumer(ctx context.Context, options ConsumerOptions) (Consumer, error) {
	c := &externalConsumer{recorder: options.Recorder, name: options.Name, group: options.Group, heard: make(chan said, 1),
		next: make(map[histories.Partition]int64)}
	properties := map[string]string{"max.poll.records": fmt.Sprint(defaultMaxPollRecords)}
	if options.MaxPollRecords > 0 {
		properties["max.poll.records"] = fmt.Sprint(options.MaxPollRecords)
	}
	properties[histories.PropertyIsolation] = histories.ReadUncommitted
	if options.Isolation != "" {
		properties[histories.PropertyIsolation] = options.Isolation
	}
	if options.Group != "" {
		properties["group.id"] = options.Group
	}
	o := opening{Role: roleConsumer, Name: options.Name, Bootstrap: options.Connection.Seeds, Properties: properties}
	for _, p := range options.Assignment {
		o.Assignment = append(o.Assignment, position{p.Topic, p.Partition.Partition, p.Position})
		c.next[p.Partition] = p.Position
	}
	e, opened, err := l.open(ctx, c.hear, o)
	if err != nil {
		return nil, fmt.Errorf("opening the consumer %s: %w", options.Name, err)
	}
	c.process = e
	if len(opened.Positions) > 0 {
		options.Assignment = nil
		for _, p := range opened.Positions {
			options.Assignment = append(options.Assignment, p.named())
			c.next[p.named().Partition] = p.Offset
		}
	}
	maps.Copy(properties, opened.Properties)
	c.session, err = options.Recorder.NewConsumerSession(options, histories.Consumer{
		Client: l.name, ClientVersion: l.version, Properties: properties})
	if err != nil {
		e.wait(0)
		return nil, err
	}
	return c, nil
}

// hear takes a line of the process.
func (c *externalConsumer) hear(e *external, s said) {
	select {
	case c.heard <- s:
	case <-e.stopped.Done(): // nobody asks any more
	}
}

func (p position) named() histories.PartitionPosition {
	return histories.PartitionPosition{Position: p.Offset,
		Partition: histories.Partition{Topic: p.Topic, Partition: p.Partition}}
}

// externalConsumer is one process that consumes.
type externalConsumer struct {
	recorder *Recorder
	name     string
	group    string
	process  *external
	session  *ConsumerSession
	heard    chan said
	next     map[histories.Partition]int64
	polls    int64
	closing  sync.Once
}

// polling is the command that polls, or commits.
type polling struct {
	Do      string     `json:"do"`
	ID      int64      `json:"id"`
	LimitMs int64      `json:"limit_ms,omitempty"`
	Offsets []position `json:"offsets,omitempty"`
}

// pollLimit is how long one poll of the library waits for records: so long an end of the
// context waits, since what a library was given must be recorded.
const pollLimit = 200 * time.Millisecond

// Poll does one poll. See Consumer.
func (c *externalConsumer) Poll(ctx context.Context) (int, error) {
	operation, err := c.session.Invoke()
	if err != nil {
		return 0, err
	}
	for {
		s, err := c.command(polling{Do: "poll", LimitMs: pollLimit.Milliseconds()}, "records", startLimit)
		if err != nil {
			return 0, fmt.Errorf("polling with the consumer %s: %w", c.name, err)
		}
		if len(s.Records) > 0 || len(s.Resets) > 0 || s.Error != "" || ctx.Err() != nil {
			return len(s.Records), c.record(operation, s)
		}
	}
}

// record records what a poll gave.
func (c *externalConsumer) record(operation int64, s said) error {
	poll := polled{problem: s.Error, count: len(s.Records)}
	for _, r := range s.Records {
		p := histories.Partition{Topic: r.Topic, Partition: r.Partition}
		epoch := int32(histories.Unknown)
		if r.LeaderEpoch != nil {
			epoch = *r.LeaderEpoch
		}
		n := len(poll.records)
		if n == 0 || poll.records[n-1].Partition != p || poll.records[n-1].LeaderEpoch != epoch {
			poll.records = append(poll.records, histories.Records{Partition: p, LeaderEpoch: epoch})
			n++
		}
		payload, err := r.payload()
		if err != nil {
			return fmt.Errorf("polling with the consumer %s: %w", c.name, err)
		}
		poll.records[n-1].Records = append(poll.records[n-1].Records, c.recorder.verify(payload, r.Offset))
		c.next[p] = r.Offset + 1
	}
	for _, p := range s.Resets {
		poll.after = append(poll.after, reset{p.named(), s.Error})
		c.next[p.named().Partition] = p.Offset
	}
	return c.session.write(operation, poll)
}

// payload gives what a record carries.
func (r givenRecord) payload() (Payload, error) {
	p := Payload{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		if h[0] == nil {
			return p, fmt.Errorf("a header of the record at %s/%d offset %d has no name", r.Topic, r.Partition, r.Offset)
		}
		header := Header{Key: *h[0]}
		if h[1] != nil {
			value, err := base64.StdEncoding.DecodeString(*h[1])
			if err != nil {
				return p, fmt.Errorf("the header %s of the record at %s/%d offset %d is not base64: %w", *h[0], r.Topic,
					r.Partition, r.Offset, err)
			}
			header.Value = value
		}
		p.Headers = append(p.Headers, header)
	}
	return p, nil
}

func encodedHeader(h Header) headerPair {
	value := base64.StdEncoding.EncodeToString(h.Value)
	return headerPair{&h.Key, &value}
}

// command gives a command and waits for its answer.
func (c *externalConsumer) command(command polling, answer string, limit time.Duration) (said, error) {
	command.ID = c.polls
	c.polls++
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("it did not answer within %s", limit))
	defer cancel()
	if err := c.process.tell(ctx, command); err != nil {
		return said{}, err
	}
	for {
		select {
		case s := <-c.heard:
			if s.Is == answer && s.ID == command.ID {
				return s, nil
			}
		case <-c.process.ended:
			return said{}, c.process.whyEnded()
		case <-ctx.Done():
			return said{}, context.Cause(ctx)
		}
	}
}

// Commit commits the positions. See Consumer.
func (c *externalConsumer) Commit(context.Context) error {
	if c.group == "" {
		return fmt.Errorf("committing with the consumer %s: it has no group", c.name)
	}
	var positions []histories.PartitionPosition
	command := polling{Do: "commit"}
	for p, next := range c.next {
		positions = append(positions, histories.PartitionPosition{Partition: p, Position: next})
		command.Offsets = append(command.Offsets, position{p.Topic, p.Partition, next})
	}
	operation, err := c.session.Commit(positions)
	if err != nil {
		return err
	}
	s, err := c.command(command, "committed", startLimit)
	if err != nil {
		return fmt.Errorf("committing with the consumer %s: %w", c.name, err)
	}
	return c.session.Committed(operation, s.Error, s.ClientError, s.Message)
}

// Close ends the session. See Consumer.
func (c *externalConsumer) Close() error {
	var err error
	c.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		c.process.toEnd()
		_ = c.process.tell(ctx, closing{Do: "close", LimitMs: endLimit.Milliseconds()}) // it is killed where it does not end
		c.process.wait(endLimit)
		err = c.session.End()
	})
	return err
}

// Crash ends the session. See Consumer.
func (c *externalConsumer) Crash(context.Context) error {
	var err error
	c.closing.Do(func() {
		c.process.kill()
		c.process.wait(endLimit)
		err = c.session.Crashed()
	})
	return err
}
