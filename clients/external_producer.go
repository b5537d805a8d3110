// This file holds the recording producer of a client in a process of its own.

package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// NewProducer opens a producer.
func (l *externalLibrary) NewProducer(ctx context.Context, options ProducerOptions) (Producer, error) {
	p := &externalProducer{name: options.Name, choose: options.ChoosePartition, ready: make(chan struct{})}
	e, opened, err := l.open(ctx, p.hear, opening{Role: roleProducer, Name: options.Name,
		Bootstrap: options.Connection.Seeds, Properties: options.Properties.Given(), ChoosePartition: options.ChoosePartition})
	if err != nil {
		return nil, options.refused(l, err) // its process was waited for
	}
	p.process = e
	p.session, err = options.Recorder.NewProducerSession(options, histories.Producer{
		Client: l.name, ClientVersion: l.version, Properties: opened.Properties})
	close(p.ready)
	if err != nil {
		e.wait(0)
		return nil, err
	}
	return p, nil
}

// externalProducer is one process that produces.
type externalProducer struct {
	name    string
	choose  bool
	process *external
	session *ProducerSession
	ready   chan struct{} // closed when session is set
}

// sending is the command that hands an event over.
type sending struct {
	Do        string       `json:"do"`
	ID        int64        `json:"id"`
	Topic     string       `json:"topic"`
	Partition *int32       `json:"partition,omitempty"`
	Key       []byte       `json:"key,omitempty"`
	Value     []byte       `json:"value"`
	Headers   []headerPair `json:"headers"`
}

// closing is the command that ends a session in good order.
type closing struct {
	Do      string `json:"do"`
	LimitMs int64  `json:"limit_ms"`
}

// hear takes a line of the process.
func (p *externalProducer) hear(e *external, s said) {
	select {
	case <-p.ready:
	case <-e.stopped.Done():
		return // it was never opened
	}
	if s.Is != "result" || p.session == nil {
		return
	}
	result := Result{Partition: histories.Unknown, Offset: histories.Unknown, Error: s.Error, ClientError: s.ClientError}
	if s.Error != "" || s.ClientError != "" {
		result.Err = errors.New(s.Message)
	}
	if s.Partition != nil {
		result.Partition = *s.Partition
	}
	if s.Offset != nil {
		result.Offset = *s.Offset
	}
	if !p.session.isOpen(s.ID) {
		p.session.note("the client gave a result for operation %d, which it has not, or has given one for", s.ID)
		return
	}
	p.session.Return(s.ID, result)
}

// Send hands one event over. See Producer.
func (p *externalProducer) Send(ctx context.Context, request SendRequest) error {
	// Room first: what stands in the history as handed over is.
	if err := p.process.reserve(ctx); err != nil {
		return fmt.Errorf("sending with the producer %s: %w", p.name, err)
	}
	put := false
	var told error
	err := p.session.Invoke(ctx, request, func(operation int64, _ string, payload Payload) {
		line := sending{Do: "send", ID: operation, Topic: request.Topic, Key: payload.Key, Value: payload.Value}
		if p.choose {
			line.Partition = &request.Partition
		}
		for _, h := range payload.Headers {
			line.Headers = append(line.Headers, encodedHeader(h))
		}
		put, told = true, p.process.put(line)
	})
	if !put {
		<-p.process.room
	}
	return errors.Join(err, told)
}

// Close ends the session. See Producer.
func (p *externalProducer) Close(ctx context.Context, drain time.Duration) (unknown int, err error) {
	if !p.session.Closing() {
		return 0, nil
	}
	if gone := p.process.problem(); gone != nil {
		return 0, p.died(gone)
	}
	p.process.toEnd()
	limited, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	if told := p.process.tell(limited, closing{Do: "close", LimitMs: drain.Milliseconds()}); told != nil && ctx.Err() == nil {
		p.session.note("it could not be told to close: %v", told)
	}
	// Results come until the process has ended; what comes behind the limit is recorded
	// as a second completion.
	if p.drained(limited) > 0 {
		unknown = p.session.CloseOutstanding()
	}
	if !p.process.wait(endLimit) {
		p.session.note("its process did not end within %s of its limit, and was killed", endLimit)
	}
	if unknown == 0 {
		unknown = p.session.CloseOutstanding()
	}
	return unknown, p.session.End()
}

// drained waits until every send has its result, the process has ended, or ctx has; it
// gives how many have none.
func (p *externalProducer) drained(ctx context.Context) int {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.process.stopped, cancel)()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-p.process.ended:
			cancel()
		case <-waiting.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return p.session.Wait(waiting)
}

// died records that the process ended though nobody told it to: a crash that was not
// asked for, and what it had not answered stays open. The run fails by it.
func (p *externalProducer) died(why error) error {
	p.session.stopRecording()
	p.process.wait(0)
	return errors.Join(why, p.session.End())
}

// Crash ends the session. See Producer.
func (p *externalProducer) Crash(context.Context) error {
	if !p.session.Crash() {
		return nil
	}
	p.process.kill()
	p.process.wait(endLimit)
	return p.session.End()
}
