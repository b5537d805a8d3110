// This file holds the recording side of a producer: it gives sends their numbers
// and ranks, keeps their lines in the order in which the library had them, and
// sees to it that each of them ends.

package clients

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// ProducerSession records one producer. An adapter calls Invoke for each send and
// Return for each result of its library, then Closing, CloseOutstanding, Wait and
// End, in that order. All methods may be called concurrently.
type ProducerSession struct {
	recorder *Recorder
	name     string
	choose   bool

	// turn is held around number, time stamp, line and hand-over, so that the order
	// of the lines is the order in which the library had the events. A channel,
	// since who waits for it must be able to give up.
	turn    chan struct{}
	number  int64
	ranks   map[string]int64 // next rank by ordering key
	numbers map[string]int64 // next event number by key

	mu         sync.Mutex
	open       openOperations // have no result yet
	unfinished int            // those, and those whose result is being recorded
	waiters    map[int64]waiter
	closing    bool
	crashed    bool
	drained    chan struct{} // closed when closing and nothing is unfinished
	ended      bool
}

// waiter is whom to tell of a send's first completion.
type waiter struct {
	event string
	done  func(SendResult)
}

// Result is what a library said of a send.
type Result struct {
	// Partition and Offset as acknowledged, or histories.Unknown.
	Partition int32
	Offset    int64
	// Err is nil for success. Error and ClientError name it as histories.SendReturn
	// does: one of them, if it is not nil.
	Err         error
	Error       string
	ClientError string
}

// NewProducerSession opens a session and records line, whose Name and Time it sets.
func (r *Recorder) NewProducerSession(options ProducerOptions, line histories.Producer) (*ProducerSession, error) {
	if err := r.claim(options.Name); err != nil {
		return nil, fmt.Errorf("opening a producer: %w", err)
	}
	line.Name, line.Time = options.Name, r.Now()
	line.Requested = options.Properties.Given()
	line.Continues, line.Fresh = options.Continues, options.Fresh
	line.AttemptsVisible = options.AttemptsVisible
	if err := r.Write(&line); err != nil {
		return nil, fmt.Errorf("opening the producer %s: %w", options.Name, err)
	}
	return &ProducerSession{
		recorder: r, name: options.Name, choose: options.ChoosePartition,
		turn: make(chan struct{}, 1), ranks: make(map[string]int64), numbers: make(map[string]int64),
		waiters: make(map[int64]waiter), drained: make(chan struct{}),
	}, nil
}

// HandOver gives a send to the library. It is called in send order, one call at a
// time, after the line of the send was written.
type HandOver func(operation int64, event string, payload Payload)

// Invoke records a send and hands it over. The error says that handOver was not
// called.
func (s *ProducerSession) Invoke(ctx context.Context, request SendRequest, handOver HandOver) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	operation := s.number
	event := s.event(request)
	if !s.begin(operation, event.String(), request.Done) {
		return fmt.Errorf("sending with the producer %s: %w", s.name, ErrClosed)
	}
	s.number++
	payload := s.recorder.events.Payload(event, s.name, operation, request.ValueSize)
	line := histories.Send{
		OperationID: histories.OperationID{Process: s.name, Number: operation},
		Event:       event.String(), Topic: request.Topic, Partition: histories.Unknown,
		OrderingKey: request.Key, Rank: s.ranks[request.Key],
	}
	s.ranks[request.Key]++
	if s.choose {
		line.Partition = request.Partition
	}
	if request.Again != nil {
		line.ResendOf = &request.Again.Of
	}
	line.Time = s.recorder.Now()
	if err := s.recorder.Write(&line); err != nil {
		s.answered(operation)
		s.finished()
		return err
	}
	s.recorder.counts.sent.Add(1)
	handOver(operation, line.Event, payload)
	return nil
}

// event gives the event of a request: its own, or the next of this producer and key.
func (s *ProducerSession) event(request SendRequest) Event {
	if request.Again != nil {
		return request.Again.Event
	}
	e := Event{Origin: s.name, Key: request.Key, Number: s.numbers[request.Key]}
	s.numbers[request.Key]++
	return e
}

// begin opens an operation, unless the session is closing.
func (s *ProducerSession) begin(operation int64, event string, done func(SendResult)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.open.add(operation)
	s.unfinished++
	if done != nil {
		s.waiters[operation] = waiter{event, done}
	}
	return true
}

// isOpen says whether an operation has no result yet: a client in another process may give
// one for what it was never handed.
func (s *ProducerSession) isOpen(operation int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open.has(operation)
}

// answered takes an operation out of those without a result, before the result is
// recorded: so none is recorded as unknown after its result.
func (s *ProducerSession) answered(operation int64) waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.remove(operation)
	w := s.waiters[operation]
	delete(s.waiters, operation)
	return w
}

// finished notes that the result of an operation is recorded.
func (s *ProducerSession) finished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfinished--
	s.signalIfDrained()
}

// signalIfDrained is called with mu held.
func (s *ProducerSession) signalIfDrained() {
	if !s.closing || s.unfinished > 0 {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// Return records the result that the library gave for an operation: once for each,
// sooner or later.
func (s *ProducerSession) Return(operation int64, result Result) {
	line := histories.SendReturn{
		OperationID: histories.OperationID{Process: s.name, Number: operation},
		Time:        s.recorder.Now(), Partition: result.Partition, Offset: result.Offset,
	}
	w := s.answered(operation)
	if s.hasCrashed() {
		s.finished()
		return
	}
	if result.Err != nil {
		line.Partition, line.Offset = histories.Unknown, histories.Unknown
		line.Error, line.ClientError, line.Message = result.Error, result.ClientError, result.Err.Error()
		s.recorder.counts.errored.Add(1)
	} else {
		s.recorder.counts.acknowledged.Add(1)
	}
	_ = s.recorder.Write(&line) // the recorder keeps the error, and the run stops by it
	w.tell(SendResult{Operation: line.OperationID, Partition: line.Partition, Offset: line.Offset, Err: result.Err})
	s.finished()
}

func (w waiter) tell(result SendResult) {
	if w.done != nil {
		result.Event = w.event
		w.done(result)
	}
}

// Closing refuses every further Invoke. It gives false if it was called before.
func (s *ProducerSession) Closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.closing
	s.closing = true
	s.signalIfDrained()
	return first
}

// CloseOutstanding records every operation that has no result yet as unknown and
// gives their number. Their results may still come.
func (s *ProducerSession) CloseOutstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.recorder.Now()
	for operation := range s.open.all {
		line := histories.SendReturn{
			OperationID: histories.OperationID{Process: s.name, Number: operation}, Time: now,
			Partition: histories.Unknown, Offset: histories.Unknown, Closed: true,
			Message: "the library gave no result before the recorder's limit",
		}
		_ = s.recorder.Write(&line)
		s.waiters[operation].tell(SendResult{Operation: line.OperationID, Closed: true,
			Partition: histories.Unknown, Offset: histories.Unknown})
		delete(s.waiters, operation)
	}
	s.recorder.counts.closed.Add(int64(s.open.count))
	return s.open.count
}

// Wait waits until every operation has its result; it gives how many have none.
// It is called after Closing.
func (s *ProducerSession) Wait(ctx context.Context) int {
	select {
	case <-s.drained:
		return 0
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfinished
}

// Crash begins a crash: every further Invoke is refused, and results that come from now on
// are not recorded, since a process that is gone hears of none. It gives false if the
// session was closing or had crashed before. End records the end.
func (s *ProducerSession) Crash() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.closing, s.crashed = true, true
	s.signalIfDrained()
	return true
}

// stopRecording makes the end of a closing session that of a crash.
func (s *ProducerSession) stopRecording() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = true
}

// hasCrashed says whether results are not recorded any more.
func (s *ProducerSession) hasCrashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// End records the end of the session, once.
func (s *ProducerSession) End() error {
	s.mu.Lock()
	already, crashed := s.ended, s.crashed
	s.ended = true
	s.mu.Unlock()
	if already {
		return nil
	}
	return s.recorder.Write(&histories.ProducerClose{Name: s.name, Time: s.recorder.Now(), Crashed: crashed})
}

// note records a remark about the session while it lasts. Libraries call back from
// goroutines that nobody can wait for; what comes after the end is dropped.
func (s *ProducerSession) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.recorder.Note("%s: %s", s.name, fmt.Sprintf(format, args...))
	}
}

// openOperations is a set of operation numbers, one bit for each: millions of them
// are given out, and few are open at a time.
type openOperations struct {
	words []uint64
	count int
}

func (o *openOperations) add(number int64) {
	for int(number/64) >= len(o.words) {
		o.words = append(o.words, 0)
	}
	o.words[number/64] |= 1 << (number % 64)
	o.count++
}

func (o *openOperations) has(number int64) bool {
	return number >= 0 && int(number/64) < len(o.words) && o.words[number/64]&(1<<(number%64)) != 0
}

func (o *openOperations) remove(number int64) {
	bit := uint64(1) << (number % 64)
	if o.words[number/64]&bit != 0 {
		o.words[number/64] &^= bit
		o.count--
	}
}

// all gives the numbers in order.
func (o *openOperations) all(yield func(int64) bool) {
	for i, word := range o.words {
		for ; word != 0; word &= word - 1 {
			if !yield(int64(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// closeLimit bounds how long a library may take to give the results of what it had
// when its client was closed.
const closeLimit = 30 * time.Second
