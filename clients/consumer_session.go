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

	mu    sync.Mutex
	ended bool
}

// NewConsumerSession opens a session and records line, whose Name and Time it
// sets, and the assignment.
func (r *Recorder) NewConsumerSession(options ConsumerOptions, line histories.Consumer) (*ConsumerSession, error) {
	if err := r.claim(options.Name); err != nil {
		return nil, fmt.Errorf("opening a consumer: %w", err)
	}
	s := &ConsumerSession{recorder: r, name: options.Name}
	line.Name, line.Time = options.Name, r.Now()
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

// End records the end of the session, once.
func (s *ConsumerSession) End() error {
	s.mu.Lock()
	already := s.ended
	s.ended = true
	s.mu.Unlock()
	if already {
		return nil
	}
	return s.recorder.Write(&histories.ConsumerClose{Name: s.name, Time: s.recorder.Now()})
}
