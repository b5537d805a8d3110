// This file holds the question whether a cluster that says that it is whole serves
// again: a fresh client writes to every partition.

package clients

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// ServesAgainOptions say who asks and where.
type ServesAgainOptions struct {
	Library    Library
	Recorder   *Recorder
	Connection Connection
	// Name of the fresh session; empty: "fresh".
	Name       string
	Partitions []histories.Partition
	// Properties of the producer. With acks=0 nothing is ever answered, so nothing
	// would be learnt: the library's own defaults are used instead.
	Properties Properties
	// Limit is how long the cluster has; zero: max(60 s, twice the delivery timeout).
	// With less than that the checker cannot tell.
	Limit           time.Duration
	ValueSize       int
	AttemptsVisible bool
}

// leastServeLimit is the bound on recovery; Kafka gives none, this one is ours.
const leastServeLimit = 60 * time.Second

// sendAgainAfter is how long a partition is left alone after a send that failed.
const sendAgainAfter = time.Second

// ServesAgain sends one event to each partition with a fresh producer, and another
// one where a send fails, until each has acknowledged one or the limit has passed.
// It gives the partitions that acknowledged none. The error says that the question
// could not be asked: the producer could not be opened, the history cannot be
// written, or ctx ended.
func ServesAgain(ctx context.Context, o ServesAgainOptions) (silent []histories.Partition, err error) {
	if o.Name == "" {
		o.Name = "fresh"
	}
	effective, err := o.Library.Effective(ctx, o.Properties)
	if err != nil {
		return nil, fmt.Errorf("asking whether the cluster serves again: %w", err)
	}
	if effective[histories.PropertyAcks] == "0" {
		o.Properties = Properties{}
	}
	if o.Limit <= 0 {
		o.Limit = ServeLimit(effective)
	}
	producer, err := o.Library.NewProducer(ctx, ProducerOptions{
		Recorder: o.Recorder, Connection: o.Connection, Name: o.Name, Fresh: true, Properties: o.Properties,
		ChoosePartition: true, LargestValue: o.ValueSize, AttemptsVisible: o.AttemptsVisible,
	})
	if err != nil {
		return nil, fmt.Errorf("asking whether the cluster serves again: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	acknowledged := make([]bool, len(o.Partitions))
	var all sync.WaitGroup
	for i, p := range o.Partitions {
		all.Go(func() { acknowledged[i] = sendUntilAcknowledged(asking, producer, p, o.ValueSize) })
	}
	all.Wait()
	// Whatever is outstanding has had the whole limit: it is closed as unknown now.
	_, err = producer.Close(ctx, 0)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("asking whether the cluster serves again: %w", err)
	}
	for i, p := range o.Partitions {
		if !acknowledged[i] {
			silent = append(silent, p)
		}
	}
	return silent, nil
}

// ServeLimit is how long a whole cluster has to serve a fresh client with these
// properties in force: max(60 s, twice the delivery timeout).
func ServeLimit(effective map[string]string) time.Duration {
	ms, err := strconv.ParseInt(effective[histories.PropertyDeliveryTimeout], 10, 64)
	if err != nil {
		return leastServeLimit // no delivery limit
	}
	return max(leastServeLimit, 2*time.Duration(ms)*time.Millisecond)
}

// sendUntilAcknowledged sends to one partition until a send is acknowledged.
func sendUntilAcknowledged(ctx context.Context, producer Producer, p histories.Partition, size int) bool {
	for ctx.Err() == nil {
		result := make(chan SendResult, 1)
		err := producer.Send(ctx, SendRequest{Topic: p.Topic, Partition: p.Partition, ValueSize: size,
			Done: func(r SendResult) { result <- r }})
		if err != nil {
			return false
		}
		select {
		case r := <-result:
			if r.Err == nil && !r.Closed {
				return true
			}
		case <-ctx.Done():
			return false
		}
		if !wait(ctx, sendAgainAfter) {
			return false
		}
	}
	return false
}
