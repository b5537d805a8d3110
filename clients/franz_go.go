// This file holds the adapter of franz-go: its producer.

package clients

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// FranzGo gives the client library github.com/twmb/franz-go (package kgo).
func FranzGo() Library { return franzGo{} }

type franzGo struct{}

func (franzGo) Name() string { return histories.ClientFranzGo }

// Version is the one that was built in.
func (franzGo) Version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}

func (franzGo) Effective(_ context.Context, properties Properties) (map[string]string, error) {
	plan, err := planFranzGo(properties)
	if err != nil {
		return nil, err
	}
	return plan.effective, nil
}

// franzGoConnection gives the options that every client has.
func franzGoConnection(connection Connection, name string, open *openConnections) ([]kgo.Opt, error) {
	if len(connection.Seeds) == 0 {
		return nil, errors.New("no address of a broker is given")
	}
	options := []kgo.Opt{kgo.SeedBrokers(connection.Seeds...), kgo.ClientID(name)}
	return append(options, kgo.Dialer(open.dialer(connection.Dial))), nil
}

// recordOverhead is what a record of an event has beside key and value, roughly:
// the two headers.
const recordOverhead = 160

// NewProducer opens a producer.
func (f franzGo) NewProducer(_ context.Context, options ProducerOptions) (Producer, error) {
	plan, err := planFranzGo(options.Properties)
	if err == nil {
		err = plan.fits(options.Properties, options.LargestValue+recordOverhead)
	}
	if err != nil {
		return nil, options.refused(f, err)
	}
	open := new(openConnections)
	connection, err := franzGoConnection(options.Connection, options.Name, open)
	if err != nil {
		return nil, fmt.Errorf("opening the producer %s: %w", options.Name, err)
	}
	p := &franzGoProducer{name: options.Name, open: open, maxBytes: plan.bufferMemory64(),
		acksZero: plan.effective[histories.PropertyAcks] == "0"}
	// Data loss is noted by a callback that changes nothing of what kgo does.
	kgoOptions := append(append(connection, plan.options...), kgo.ProducerOnDataLossDetected(p.dataLoss))
	if options.ChoosePartition {
		delete(plan.effective, histories.PropertyPartitioner)
		kgoOptions = append(kgoOptions, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	p.client, err = kgo.NewClient(kgoOptions...)
	if err != nil {
		return nil, fmt.Errorf("opening the producer %s: %w", options.Name, err)
	}
	p.session, err = options.Recorder.NewProducerSession(options, histories.Producer{
		Client: f.Name(), ClientVersion: f.Version(), Properties: plan.effective})
	if err != nil {
		p.client.Close()
		return nil, err
	}
	return p, nil
}

// franzGoProducer is one kgo client that produces.
type franzGoProducer struct {
	name     string
	open     *openConnections
	client   *kgo.Client
	session  *ProducerSession
	maxBytes int64 // buffer.memory; zero: no limit
	acksZero bool
}

func (p *franzGoProducer) dataLoss(topic string, partition int32) {
	p.session.note("franz-go detected data loss in %s/%d: the broker did not know its sequence number; "+
		"it goes on under a new epoch (ProducerOnDataLossDetected)", topic, partition)
}

// Send hands one event over. See Producer.
func (p *franzGoProducer) Send(ctx context.Context, request SendRequest) error {
	return p.session.Invoke(ctx, request, func(operation int64, _ string, payload Payload) {
		record := &kgo.Record{Topic: request.Topic, Partition: request.Partition, Key: payload.Key, Value: payload.Value,
			Headers: make([]kgo.RecordHeader, len(payload.Headers))}
		for i, h := range payload.Headers {
			record.Headers[i] = kgo.RecordHeader(h)
		}
		p.produce(ctx, record, func(record *kgo.Record, err error) {
			p.session.Return(operation, p.result(record, err))
		})
	})
}

// produce hands a record to kgo so that ctx bounds the wait for buffer space and
// nothing after it: kgo would take a context that ends for a wish to cancel the
// record. Calls are serial, so the buffer can only get emptier meanwhile.
func (p *franzGoProducer) produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
	if p.hasRoom(record) {
		p.client.Produce(context.Background(), record, promise)
		return
	}
	waiting, cancel := context.WithCancel(context.Background())
	detach := context.AfterFunc(ctx, cancel)
	p.client.Produce(waiting, record, func(record *kgo.Record, err error) {
		cancel()
		promise(record, err)
	})
	detach()
}

func (p *franzGoProducer) hasRoom(record *kgo.Record) bool {
	if p.client.BufferedProduceRecords() >= kgoMaxRecords {
		return false
	}
	if p.maxBytes == 0 {
		return true
	}
	size := len(record.Key) + len(record.Value)
	for _, h := range record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return p.client.BufferedProduceBytes()+int64(size) <= p.maxBytes
}

// result reads a promise. kgo gives the offset -1 where an answer has none (a
// duplicate's), but counts from 0 in each batch with acks=0, where there is no
// answer: those are no offsets.
func (p *franzGoProducer) result(record *kgo.Record, err error) Result {
	if err != nil {
		kafka, client := nameFranzGoError(err)
		return Result{Err: err, Error: kafka, ClientError: client}
	}
	result := Result{Partition: record.Partition, Offset: record.Offset}
	if p.acksZero {
		result.Offset = histories.Unknown
	}
	return result
}

// Close ends the session. See Producer.
func (p *franzGoProducer) Close(ctx context.Context, drain time.Duration) (unknown int, err error) {
	if !p.session.Closing() {
		return 0, nil
	}
	flushing, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	if p.client.Flush(flushing) != nil {
		unknown = p.session.CloseOutstanding()
	}
	p.client.Close() // gives every record that is left its result
	limit, cancelLimit := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancelLimit()
	if left := p.session.Wait(limit); left > 0 {
		err = fmt.Errorf("closing the producer %s: %d sends have no result %v after franz-go was closed", p.name, left, closeLimit)
	}
	return unknown, errors.Join(err, p.session.End())
}

// Crash ends the session. See Producer.
func (p *franzGoProducer) Crash(ctx context.Context) error {
	if !p.session.Crash() {
		return nil
	}
	p.open.cut()
	p.client.Close()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	var err error
	if left := p.session.Wait(limit); left > 0 {
		err = fmt.Errorf("crashing the producer %s: %d sends have no result %v after franz-go was closed", p.name, left, closeLimit)
	}
	return errors.Join(err, p.session.End())
}
