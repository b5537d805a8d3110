// This file holds the measure of what recording costs: one client and cluster,
// with events recorded and without, by the processor time of the whole process.

package clients

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRecording sends b.N events of 128 bytes with 24 keys to six partitions,
// bare and recorded in turn on one cluster, and reports for each what an event
// costs, and the difference: what recording costs.
func BenchmarkRecording(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(6, testTopic))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	connection := Connection{Seeds: cluster.ListenAddrs()}
	var file bytes.Buffer
	writer, err := histories.NewWriter(&file, &histories.Header{Run: "run-1"})
	if err != nil {
		b.Fatal(err)
	}
	recorder := testRecorder(b, writer)
	var keys []string
	for i := range 24 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	// Warm, so that the first does not pay for connections and metadata.
	sendBare(b, connection, recorder, keys, 1000)
	before := processorTime(b)
	sendBare(b, connection, recorder, keys, b.N)
	between := processorTime(b)
	sendRecorded(b, connection, recorder, keys, b.N)
	after := processorTime(b)
	if err := writer.Close(); err != nil {
		b.Fatal(err)
	}
	perEvent := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(b.N) }
	b.ReportMetric(perEvent(between-before), "bare-CPU-us/event")
	b.ReportMetric(perEvent(after-between), "recorded-CPU-us/event")
	b.ReportMetric(perEvent(after-between-(between-before)), "recording-CPU-us/event")
	b.ReportMetric(float64(file.Len())/float64(b.N), "history-B/event")
}

// sendBare sends the same records without recording anything.
func sendBare(b *testing.B, connection Connection, recorder *Recorder, keys []string, n int) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(connection.Seeds...))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		payload := recorder.Events().Payload(Event{"bare", keys[i%len(keys)], int64(i)}, "bare", int64(i), 128)
		client.Produce(context.Background(), &kgo.Record{Topic: testTopic, Key: payload.Key, Value: payload.Value,
			Headers: []kgo.RecordHeader{kgo.RecordHeader(payload.Headers[0]), kgo.RecordHeader(payload.Headers[1])}},
			func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
	}
	if err := client.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func sendRecorded(b *testing.B, connection Connection, recorder *Recorder, keys []string, n int) {
	b.Helper()
	p, err := FranzGo().NewProducer(context.Background(), ProducerOptions{
		Recorder: recorder, Connection: connection, Name: "p1"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		request := SendRequest{Topic: testTopic, Key: keys[i%len(keys)], ValueSize: 128}
		if err := p.Send(context.Background(), request); err != nil {
			b.Fatal(err)
		}
	}
	if unknown, err := p.Close(context.Background(), time.Minute); err != nil || unknown > 0 {
		b.Fatal(unknown, err)
	}
}
