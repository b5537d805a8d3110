// This file holds what the tests of the recording clients stand on: a cluster in
// this process, a history in memory, and a look for goroutines that were left.

package clients

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackproof/ackproof/histories"
)

const testTopic = "orders"

// memoryLines keeps the lines that are written.
type memoryLines struct {
	mu    sync.Mutex
	lines []histories.Line
	err   error // what Write returns from now on
}

func (m *memoryLines) Write(line histories.Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.lines = append(m.lines, line)
	}
	return m.err
}

func (m *memoryLines) failWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memoryLines) all() []histories.Line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]histories.Line(nil), m.lines...)
}

// linesOf gives the lines of one kind, in order.
func linesOf[L histories.Line](m *memoryLines) []L {
	var found []L
	for _, line := range m.all() {
		if l, ok := line.(L); ok {
			found = append(found, l)
		}
	}
	return found
}

// testRun is a cluster with a recorder.
type testRun struct {
	*testing.T
	cluster    *kfake.Cluster
	lines      *memoryLines
	recorder   *Recorder
	connection Connection
	partitions int32
}

func newTestRun(t *testing.T, partitions int32, options ...kfake.Opt) *testRun {
	t.Helper()
	noGoroutinesLeft(t)
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.SeedTopics(partitions, testTopic)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	lines := &memoryLines{}
	return &testRun{T: t, cluster: cluster, lines: lines, recorder: testRecorder(t, lines),
		connection: Connection{Seeds: cluster.ListenAddrs()}, partitions: partitions}
}

func testRecorder(tb testing.TB, lines LineWriter) *Recorder {
	tb.Helper()
	recorder, err := NewRecorder(lines, RecorderOptions{Run: "run-1", Seed: 7})
	if err != nil {
		tb.Fatal(err)
	}
	return recorder
}

func (r *testRun) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r.Cleanup(cancel)
	return ctx
}

func (r *testRun) properties(text string) Properties {
	r.Helper()
	p, err := ParseProperties(text)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// producer opens the producer p1.
func (r *testRun) producer(properties string) Producer {
	r.Helper()
	return r.producerWith(ProducerOptions{Name: "p1", Properties: r.properties(properties)})
}

func (r *testRun) producerWith(o ProducerOptions) Producer {
	r.Helper()
	o.Recorder, o.Connection = r.recorder, r.connection
	p, err := FranzGo().NewProducer(r.context(), o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _, _ = p.Close(context.Background(), 0) })
	return p
}

// send sends n events, their keys in turn.
func (r *testRun) send(p Producer, n int, keys ...string) {
	r.Helper()
	for i := range n {
		if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: keys[i%len(keys)], ValueSize: 60}); err != nil {
			r.Fatal(err)
		}
	}
}

// closed closes a producer and gives how many sends were closed as unknown.
func (r *testRun) closed(p Producer, drain time.Duration) int {
	r.Helper()
	unknown, err := p.Close(r.context(), drain)
	if err != nil {
		r.Fatal(err)
	}
	return unknown
}

func (r *testRun) allPartitions() []histories.Partition {
	var all []histories.Partition
	for p := range r.partitions {
		all = append(all, histories.Partition{Topic: testTopic, Partition: p})
	}
	return all
}

// arrived waits until the logs hold so many records: with acks=0 a producer is
// closed before its last ones are there.
func (r *testRun) arrived(count int64) {
	r.Helper()
	for {
		var held int64
		for _, p := range r.cluster.PartitionInfos(testTopic) {
			held += p.HighWatermark
		}
		if held == count {
			return
		}
		if !wait(r.context(), 5*time.Millisecond) {
			r.Fatalf("the logs hold %d records, want %d", held, count)
		}
	}
}

func (r *testRun) finalRead(options FinalReadOptions) FinalReadSummary {
	r.Helper()
	options.Recorder, options.Connection, options.Partitions = r.recorder, r.connection, r.allPartitions()
	if options.SecondLook == 0 {
		options.SecondLook = 10 * time.Millisecond
	}
	summary, err := FinalRead(r.context(), options)
	if err != nil {
		r.Fatal(err)
	}
	return summary
}

// events gives the final read's events with the places where they lie.
func (r *testRun) events() map[string][]string {
	found := make(map[string][]string)
	for _, line := range linesOf[*histories.FinalRecords](r.lines) {
		for _, record := range line.Records.Records {
			found[record.Event] = append(found[record.Event], place(line.Partition.Partition, record.Offset))
		}
	}
	return found
}

func place(partition int32, offset int64) string { return fmt.Sprintf("%d@%d", partition, offset) }

// eventually waits until something holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("waited 20 s in vain for %s", what)
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

// noGoroutinesLeft fails the test if, when all else is undone, goroutines of the
// client library or of ours are left that were not there before.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	before := ourGoroutines()
	t.Cleanup(func() {
		deadline := time.Now().Add(10 * time.Second)
		for len(ourGoroutines()) > len(before) {
			if time.Now().After(deadline) {
				t.Errorf("goroutines are left:\n%s", strings.Join(ourGoroutines(), "\n\n"))
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	})
}

func ourGoroutines() []string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found []string
	for _, stack := range strings.Split(string(buffer), "\n\n") {
		if strings.Contains(stack, "franz-go") || (strings.Contains(stack, "ackproof/clients.") && !strings.Contains(stack, "testing.tRunner")) {
			found = append(found, stack)
		}
	}
	return found
}
