// This file holds the recording side of a consumer: its polls, and every change of
// its positions.

package clients

import (
	"fmt"
	"sync"

	"github.com/ackproof/ackproof/histories"
)

// ConsumerSession records one consumer. One goroutine at a time polls.
type ConsumerSession struct {
	recorder *Recorder
	name     string
	number   int64

	group string

	mu    sync.Mutex
	ended bool
}

// NewConsumerSession opens a session and records line, whose Name and Time it
// sets, and the assignment.
func (r *Recorder) NewConsumerSession(options ConsumerOptions, line histories.Consumer) (*ConsumerSession, error) {
	if err := r.claim(options.Name); err != nil {
		return nil, fmt.Errorf("opening a consumer: %w", err)
	}
	s := &ConsumerSession{recorder: r, name: options.Name, group: options.Group}
	line.Name, line.Time, line.Continues = options.Name, r.Now(), options.Continues
	err := r.Write(&line)
	if err == nil {
		err = s.Changed(histories.ChangeAssign, "assigned when it was opened", options.Assignment)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the consumer %s: %w", options.Name, err)
	}
	return s, nil
}

// Invoke records the invocation of a poll and gives its number.
func (s *ConsumerSession) Invoke() (operation int64, err error) {
	operation = s.number
	s.number++
	return operation, s.recorder.Write(&histories.Poll{
		OperationID: histories.OperationID{Process: s.name, Number: operation}, Time: s.recorder.Now()})
}

// Return records what the poll gave. Problem names what went wrong in a part of it.
func (s *ConsumerSession) Return(operation int64, records []histories.Records, problem string) error {
	n := 0
	for _, group := range records {
		n += len(group.Records)
	}
	if n > 0 {
		s.recorder.counts.polls.Add(1)
		s.recorder.counts.polledRecords.Add(int64(n))
	}
	return s.recorder.Write(&histories.PollReturn{
		OperationID: histories.OperationID{Process: s.name, Number: operation}, Time: s.recorder.Now(),
		Records: records, Error: problem})
}

// Changed records a change of the assignment or of positions.
func (s *ConsumerSession) Changed(how, reason string, partitions []histories.PartitionPosition) error {
	return s.recorder.Write(&histories.PositionChange{
		Process: s.name, Time: s.recorder.Now(), How: how, Partitions: partitions, Reason: reason})
}

// Commit records the invocation of a commit and gives its number.
func (s *ConsumerSession) Commit(offsets []histories.PartitionPosition) (operation int64, err error) {
	operation = s.number
	s.number++
	return operation, s.recorder.Write(&histories.Commit{
		OperationID: histories.OperationID{Process: s.name, Number: operation}, Time: s.recorder.Now(),
		Group: s.group, Offsets: offsets})
}

// Committed records how a commit ended: with Kafka's name of an error, the library's own
// class where it is none, and the text; all empty: it was acknowledged.
func (s *ConsumerSession) Committed(operation int64, kafka, client, message string) error {
	return s.recorder.Write(&histories.CommitReturn{
		OperationID: histories.OperationID{Process: s.name, Number: operation}, Time: s.recorder.Now(),
		Error: kafka, ClientError: client, Message: message})
}

// End records the end of the session, once.
func (s *ConsumerSession) End() error { return s.end(false) }

// Crashed records that the session was ended without any order, once.
func (s *ConsumerSession) Crashed() error { return s.end(true) }

func (s *ConsumerSession) end(crashed bool) error {
	s.mu.Lock()
	already := s.ended
	s.ended = true
	s.mu.Unlock()
	if already {
		return nil
	}
	return s.recorder.Write(&histories.ConsumerClose{Name: s.name, Time: s.recorder.Now(), Crashed: crashed})
}
