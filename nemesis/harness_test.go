// This file holds what the tests of faults share: a real cluster, a real client under
// load, and a recorder in memory.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

// testLimit bounds every test.
const testLimit = 60 * time.Second

const (
	testTopic      = "orders"
	testPartitions = 3
)

// memory is a recorder that keeps the lines.
type memory struct {
	mu    sync.Mutex
	lines []histories.Line
	fail  error
}

func (m *memory) Write(line histories.Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.lines = append(m.lines, line)
	return nil
}

// linesOf gives the lines of one kind.
func linesOf[L histories.Line](m *memory) []L {
	m.mu.Lock()
	defer m.mu.Unlock()
	var of []L
	for _, line := range m.lines {
		if l, is := line.(L); is {
			of = append(of, l)
		}
	}
	return of
}

// stage is a cluster with a topic and everything that happens on its wire.
type stage struct {
	*testing.T
	ctx     context.Context
	cluster clusters.Cluster
	topic   string
	// limit of healing and of becoming whole.
	limit  time.Duration
	record *memory
	begun  time.Time

	mu       sync.Mutex
	attempts []wire.Attempt
}

func setStage(t *testing.T, disk bool) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	cluster, err := clusters.StartEmbedded(ctx, clusters.EmbeddedOptions{Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the cluster: %v", err)
		}
	})
	s := &stage{T: t, ctx: ctx, cluster: cluster, topic: testTopic, limit: 10 * time.Second}
	s.set(nil)
	return s
}

// set creates the topic and begins to watch the wire.
func (s *stage) set(properties map[string]string) {
	s.Helper()
	s.record, s.begun = new(memory), time.Now()
	s.cluster.Wire().Observe(func(a *wire.Attempt) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attempts = append(s.attempts, *a)
	})
	topic := clusters.Topic{Name: s.topic, Partitions: testPartitions, ReplicationFactor: 3, Properties: properties}
	if err := s.cluster.CreateTopic(s.ctx, topic); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) now() int64 { return int64(time.Since(s.begun)) }

// faulted gives the attempts that a fault acted on.
func (s *stage) faulted() []wire.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.attempts), func(a wire.Attempt) bool { return a.Fault == "" })
}

// player makes a player of the faults, one after the other, each for the given time.
func (s *stage) player(faults string, each time.Duration) *Player {
	s.Helper()
	asked, err := Parse(faults)
	if err != nil {
		s.Fatal(err)
	}
	at := 100 * time.Millisecond
	for i := range asked {
		asked[i].At, asked[i].For = at, each
		at += each + 100*time.Millisecond
	}
	schedule, err := Draw(asked, at, 1, Options{})
	if err != nil {
		s.Fatal(err)
	}
	player, err := NewPlayer(PlayerOptions{Cluster: s.cluster, Schedule: schedule, Topics: []string{s.topic}, Recorder: s.record,
		Now: s.now, Seed: 1, Acks: "all", AllowLies: true, HealLimit: s.limit, WholeLimit: s.limit})
	if err != nil {
		s.Fatal(err)
	}
	return player
}

// longWindow is how long a fault stays on that never bites.
const longWindow = 20 * time.Second

// playUntilBit plays one fault for half a second at least, and then until it has
// bitten: how fast a loaded machine serves is no part of what is tested.
func (s *stage) playUntilBit(fault string) *Player {
	s.Helper()
	player := s.player(fault, longWindow)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- player.Play(ctx) }()
	least := time.Now().Add(600 * time.Millisecond)
	s.until("the fault has bitten", func() bool { return time.Now().After(least) && player.bitten() })
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		s.Fatal(err)
	}
	return player
}

// bitten: every fault that is on has taken effect, and one is on.
func (p *Player) bitten() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, current := range p.running {
		if _, acts := current.injection.(Actor); acts { // at its end
			continue
		}
		if current.injection == nil || !current.injection.Evidence().Bit {
			return false
		}
	}
	return len(p.running) > 0
}

// client makes a client that follows what happens quickly.
func (s *stage) client(name string, options ...kgo.Opt) *kgo.Client {
	s.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.cluster.Bootstrap()...), kgo.ClientID(name),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Millisecond)}, options...)...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(client.Close)
	return client
}

// load sends numbered records until it is stopped, and keeps what was acknowledged.
type load struct {
	stage  *stage
	client *kgo.Client
	cancel context.CancelFunc
	sender sync.WaitGroup

	mu    sync.Mutex
	acked map[string]bool
	sent  int
	errs  []error
}

// everySend is the time between two records of a load.
const everySend = 500 * time.Microsecond

func (s *stage) load(options ...kgo.Opt) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	l := &load{stage: s, client: s.client("load", options...), cancel: cancel, acked: make(map[string]bool)}
	l.sender.Go(func() {
		ticker := time.NewTicker(everySend)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.send()
			}
		}
	})
	s.Cleanup(cancel)
	s.until("the load is under way", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked) > 100
	})
	return l
}

func (l *load) send() {
	l.mu.Lock()
	number := l.sent
	l.sent++
	l.mu.Unlock()
	value := fmt.Sprintf("event %06d", number)
	record := &kgo.Record{Topic: l.stage.topic, Partition: int32(number % testPartitions), Value: []byte(value)}
	l.client.Produce(l.stage.ctx, record, func(_ *kgo.Record, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			l.acked[value] = true
		} else {
			l.errs = append(l.errs, err)
		}
	})
}

// stop stops sending and waits until everything is acknowledged or failed.
func (l *load) stop() {
	l.stage.Helper()
	l.cancel()
	l.sender.Wait()
	if err := l.client.Flush(l.stage.ctx); err != nil {
		l.stage.Fatalf("the load did not drain: %v", err)
	}
}

// logs reads every partition from its start to its end: the values, by partition.
func (s *stage) logs() [testPartitions][]string {
	s.Helper()
	ends, err := s.cluster.LogEnds(s.ctx, s.topic)
	if err != nil {
		s.Fatal(err)
	}
	starts := make(map[int32]kgo.Offset)
	for p := range int32(testPartitions) {
		starts[p] = kgo.NewOffset().AtStart()
	}
	reader := s.client("reader", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: starts}))
	var logs [testPartitions][]string
	for {
		done := true
		for p, end := range ends[:testPartitions] { // a fault may have added more
			done = done && int64(len(logs[p])) >= end
		}
		if done {
			return logs
		}
		fetches := reader.PollFetches(s.ctx)
		if err := fetches.Err0(); err != nil {
			s.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { logs[r.Partition] = append(logs[r.Partition], string(r.Value)) })
	}
}

// found is what a log says about a load.
type found struct{ lost, duplicates, descents, phantoms int }

func (l *load) judge() found {
	l.stage.Helper()
	seen := make(map[string]int)
	var f found
	for _, values := range l.stage.logs() {
		last := ""
		for _, value := range values {
			seen[value]++
			if seen[value] == 1 && value < last {
				f.descents++
			}
			last = max(last, value)
			if !strings.HasPrefix(value, "event ") || value > fmt.Sprintf("event %06d", l.sent) || len(value) != len("event 000000") {
				f.phantoms++
			}
		}
	}
	for value := range l.acked {
		if seen[value] == 0 {
			f.lost++
		}
	}
	for _, n := range seen {
		f.duplicates += n - 1
	}
	return f
}

// serves fails unless the cluster serves a new client, untouched by any fault.
func (s *stage) serves() {
	s.Helper()
	healed := time.Now()
	client := s.client("fresh")
	for i := range 30 {
		record := &kgo.Record{Topic: s.topic, Partition: int32(i % testPartitions), Value: []byte("fresh")}
		if err := client.ProduceSync(s.ctx, record).FirstErr(); err != nil {
			s.Fatalf("record %d of a fresh client: %v", i, err)
		}
	}
	for _, a := range s.faulted() {
		if a.Sent.After(healed) {
			s.Errorf("after every fault was undone, %s acted on %+v", a.Fault, a)
		}
	}
	// Awaited, since a broker that answers a moment late on a busy machine lacks nothing;
	// what a fault leaves behind stays.
	var lacks error
	defer func() {
		if lacks != nil {
			s.Logf("after every fault was undone: %v", lacks)
		}
	}()
	s.until("the cluster is whole after every fault was undone", func() bool {
		lacks = s.cluster.Whole(s.ctx)
		return lacks == nil
	})
}

// ended fails unless each fault was begun, then ended, and gives the ends.
func (s *stage) ended(count int) []*histories.FaultEnd {
	s.Helper()
	starts, ends := linesOf[*histories.FaultStart](s.record), linesOf[*histories.FaultEnd](s.record)
	if len(starts) != count || len(ends) != count {
		s.Fatalf("%d faults began and %d ended, want %d", len(starts), len(ends), count)
	}
	for _, end := range ends {
		i := slices.IndexFunc(starts, func(b *histories.FaultStart) bool { return b.ID == end.ID })
		if i < 0 {
			s.Fatalf("%s ended and never began", end.ID)
		}
		if starts[i].Time > end.Time || starts[i].Target == "" {
			s.Errorf("%s: from %d to %d, target %q", end.ID, starts[i].Time, end.Time, starts[i].Target)
		}
	}
	return ends
}

// until polls until the condition holds.
func (s *stage) until(what string, condition func() bool) {
	s.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("waiting until %s: %v", what, s.ctx.Err())
		case <-ticker.C:
		}
	}
}

var errTest = errors.New("as the test wants it")
