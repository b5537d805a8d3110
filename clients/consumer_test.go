// This file holds the tests of the recording consumer.

package clients

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/histories"
)

func (r *testRun) consumer(o ConsumerOptions) Consumer {
	r.Helper()
	o.Recorder, o.Connection = r.recorder, r.connection
	if o.Assignment == nil {
		for _, p := range r.allPartitions() {
			o.Assignment = append(o.Assignment, histories.PartitionPosition{Partition: p})
		}
	}
	c, err := FranzGo().NewConsumer(r.context(), o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// poll polls until n records came.
func (r *testRun) poll(c Consumer, n int) {
	r.Helper()
	polling := r.context()
	for got := 0; got < n; {
		records, err := c.Poll(polling)
		if err != nil {
			r.Fatal(err)
		}
		if got += records; got < n && polling.Err() != nil {
			r.Fatalf("%d of %d records came", got, n)
		}
	}
}

// pollBriefly polls once.
func (r *testRun) pollBriefly(c Consumer) {
	r.Helper()
	polling, cancel := context.WithTimeout(r.context(), time.Second)
	defer cancel()
	if _, err := c.Poll(polling); err != nil {
		r.Fatal(err)
	}
}

// polledOffsets gives what was polled of each partition, in order.
func (r *testRun) polledOffsets() map[int32][]int64 {
	offsets := make(map[int32][]int64)
	for _, line := range linesOf[*histories.PollReturn](r.lines) {
		for _, group := range line.Records {
			for _, record := range group.Records {
				offsets[group.Partition.Partition] = append(offsets[group.Partition.Partition], record.Offset)
			}
		}
	}
	return offsets
}

// plain sends records that are no events.
func (r *testRun) plain(records ...*kgo.Record) {
	r.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.connection.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(r.context(), records...).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

func TestAConsumerIsGivenEveryRecordAndSaysWhichPollGaveIt(t *testing.T) {
	r := newTestRun(t, 3)
	c := r.consumer(ConsumerOptions{Name: "c1", MaxPollRecords: 50})
	p := r.producer("")
	r.send(p, 300, "k1", "k2", "k3", "")
	r.poll(c, 300)
	r.closed(p, 10*time.Second)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for partition, offsets := range r.polledOffsets() {
		for i, offset := range offsets {
			if offset != int64(i) {
				t.Fatalf("partition %d was polled as %v", partition, offsets)
			}
		}
	}
	open := linesOf[*histories.Consumer](r.lines)[0]
	if open.Name != "c1" || open.Client != "franz-go" || open.Properties["isolation.level"] != "read_uncommitted" {
		t.Fatalf("the session is %+v", open)
	}
	change := linesOf[*histories.PositionChange](r.lines)
	if len(change) != 1 || change[0].How != histories.ChangeAssign || len(change[0].Partitions) != 3 || change[0].Process != "c1" {
		t.Fatalf("position changes are %+v", change)
	}
	polls, returns := linesOf[*histories.Poll](r.lines), linesOf[*histories.PollReturn](r.lines)
	if len(polls) != len(returns) {
		t.Fatalf("%d polls, %d returns", len(polls), len(returns))
	}
	for i := range polls {
		if polls[i].Number != int64(i) || returns[i].Number != int64(i) || returns[i].Error != "" {
			t.Fatalf("poll %d is %+v, %+v", i, polls[i], returns[i])
		}
	}
	if ends := linesOf[*histories.ConsumerClose](r.lines); len(ends) != 1 || ends[0].Name != "c1" {
		t.Fatalf("the session's ends are %+v", ends)
	}
	if n := r.recorder.Counts(); n.PolledRecords != 300 || n.Foreign+n.Corrupt != 0 {
		t.Fatalf("counts are %+v", n)
	}
}

func TestForeignAndCorruptRecordsAreSeen(t *testing.T) {
	r := newTestRun(t, 1)
	other := testEvents(t, "run-0", 7).Payload(Event{"p1", "k1", 0}, "p1", 0, 20)
	damaged := r.recorder.Events().Payload(Event{"p1", "k1", 5}, "p1", 0, 20)
	damaged.Value[3] ^= 1
	record := func(p Payload) *kgo.Record {
		return &kgo.Record{Topic: testTopic, Key: p.Key, Value: p.Value,
			Headers: []kgo.RecordHeader{kgo.RecordHeader(p.Headers[0]), kgo.RecordHeader(p.Headers[1])}}
	}
	r.plain(&kgo.Record{Topic: testTopic, Value: []byte("hello")}, record(other), record(damaged))
	c := r.consumer(ConsumerOptions{Name: "c1"})
	r.poll(c, 3)
	s := r.finalRead(FinalReadOptions{})
	want := []histories.Record{{Offset: 0}, {Offset: 1}, {Offset: 2, Event: "p1/k1/5", Corrupt: CorruptValue}}
	var polled, final []histories.Record
	for _, line := range linesOf[*histories.PollReturn](r.lines) {
		for _, group := range line.Records {
			polled = append(polled, group.Records...)
		}
	}
	for _, line := range linesOf[*histories.FinalRecords](r.lines) {
		final = append(final, line.Records.Records...)
	}
	for i := range want {
		if polled[i] != want[i] || final[i] != want[i] {
			t.Fatalf("record %d was polled as %+v and finally read as %+v, want %+v", i, polled[i], final[i], want[i])
		}
	}
	if c := r.recorder.Counts(); c.Foreign != 4 || c.Corrupt != 2 || s.Complete != 1 {
		t.Fatalf("counts are %+v, the final read %+v", c, s)
	}
}

func TestAPollThatIsGivenNothingEndsWithItsContext(t *testing.T) {
	r := newTestRun(t, 1)
	c := r.consumer(ConsumerOptions{Name: "c1"})
	polling, cancel := context.WithTimeout(r.context(), 50*time.Millisecond)
	defer cancel()
	if n, err := c.Poll(polling); n != 0 || err != nil {
		t.Fatalf("the poll gave %d, %v", n, err)
	}
	if returns := linesOf[*histories.PollReturn](r.lines); len(returns) != 1 || returns[0].Error != "" || len(returns[0].Records) != 0 {
		t.Fatalf("returns are %+v", returns)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Poll(r.context()); !errors.Is(err, ErrClosed) {
		t.Fatalf("a poll after the close gave %v", err)
	}
}

func TestAPositionBelowTheLogStartIsResetAndTheResetIsRecorded(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("linger.ms=0")
	r.send(p, 10, "k1")
	c := r.consumer(ConsumerOptions{Name: "c1"})
	r.poll(c, 10)
	client := c.(*franzGoConsumer).client
	partitions := map[string][]int32{testTopic: {0}}
	client.PauseFetchPartitions(partitions)
	r.send(p, 10, "k1")
	eventually(t, "the sends", func() bool { return r.recorder.Counts().Acknowledged == 20 })
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: testTopic, Partition: 0, At: 20})
	if _, err := kadm.NewClient(p.(*franzGoProducer).client).DeleteRecords(r.context(), cut); err != nil {
		t.Fatal(err)
	}
	client.ResumeFetchPartitions(partitions)
	r.send(p, 5, "k1")
	eventually(t, "record 24", func() bool {
		r.pollBriefly(c)
		offsets := r.polledOffsets()[0]
		return offsets[len(offsets)-1] == 24
	})
	changes := linesOf[*histories.PositionChange](r.lines)
	if len(changes) != 2 || changes[1].How != histories.ChangeReset || changes[1].Partitions[0].Position != 20 ||
		!strings.Contains(changes[1].Reason, "OFFSET_OUT_OF_RANGE at 10") {
		t.Fatalf("position changes are %+v", changes)
	}
	r.checkNoSilentStep()
}

// checkNoSilentStep: between two records of a partition that are not neighbours
// there is a recorded reset to the second or before it.
func (r *testRun) checkNoSilentStep() {
	r.Helper()
	next := make(map[int32]int64)
	for _, line := range r.lines.all() {
		switch l := line.(type) {
		case *histories.PositionChange:
			for _, p := range l.Partitions {
				next[p.Partition.Partition] = p.Position
			}
		case *histories.PollReturn:
			for _, group := range l.Records {
				for _, record := range group.Records {
					if p := group.Partition.Partition; record.Offset != next[p] {
						r.Fatalf("partition %d: a step from %d to %d that no change of position explains", p, next[p], record.Offset)
					}
					next[group.Partition.Partition]++
				}
			}
		}
	}
}

func TestAPositionBeyondTheLogEndIsResetAndTheResetIsRecorded(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("linger.ms=0")
	r.send(p, 10, "k1")
	c := r.consumer(ConsumerOptions{Name: "c1"})
	r.poll(c, 10)
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange})
	r.send(p, 1, "k1") // ends the fetch that waits
	eventually(t, "the reset", func() bool {
		r.pollBriefly(c)
		return len(linesOf[*histories.PositionChange](r.lines)) == 2
	})
	r.send(p, 5, "k1")
	eventually(t, "record 15", func() bool {
		r.pollBriefly(c)
		return len(r.polledOffsets()[0]) >= 16
	})
	change := linesOf[*histories.PositionChange](r.lines)[1]
	if change.How != histories.ChangeReset || !strings.Contains(change.Reason, "OFFSET_OUT_OF_RANGE") {
		t.Fatalf("the change is %+v", change)
	}
	r.checkNoSilentStep()
}

// When the log is found cut (an unclean election), franz-go goes back by itself to
// where it was cut, and says so.
func TestTruncationThatTheLibraryFindsIsRecordedAsAReset(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("linger.ms=0")
	r.send(p, 10, "k1")
	c := r.consumer(ConsumerOptions{Name: "c1"})
	r.poll(c, 10)
	r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = testTopic
		partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		partition.LeaderEpoch, partition.EndOffset = 0, 7
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	leader := r.cluster.LeaderFor(testTopic, 0)
	if err := r.cluster.MoveTopicPartition(testTopic, 0, (leader+1)%3); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the records from 7 on again", func() bool {
		r.pollBriefly(c)
		return len(r.polledOffsets()[0]) == 13
	})
	changes := linesOf[*histories.PositionChange](r.lines)
	if len(changes) != 2 || changes[1].How != histories.ChangeReset || changes[1].Partitions[0].Position != 7 ||
		!strings.Contains(changes[1].Reason, "lost records") {
		t.Fatalf("position changes are %+v", changes)
	}
	r.checkNoSilentStep()
}

func TestAResetLiesBeforeTheRecordsThatComeWithIt(t *testing.T) {
	p := histories.Partition{Topic: testTopic}
	for _, c := range []struct {
		rule    string
		records []int64
		before  bool
		next    int64
	}{
		{"records from where the log was cut", []int64{7, 8}, true, 9},
		{"records behind a marker that took the place of what was cut off", []int64{12}, true, 13},
		{"no record yet", nil, false, 7},
	} {
		t.Run(c.rule, func(t *testing.T) {
			consumer := &franzGoConsumer{recorder: testRecorder(t, &memoryLines{}), lost: make(map[histories.Partition]bool),
				next: map[histories.Partition]int64{p: 10}}
			fetch := func(f kgo.FetchPartition) kgo.Fetch {
				return kgo.Fetch{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{f}}}}
			}
			var records []*kgo.Record
			for _, offset := range c.records {
				records = append(records, &kgo.Record{Topic: testTopic, Offset: offset})
			}
			poll := consumer.take(kgo.Fetches{fetch(kgo.FetchPartition{Records: records}),
				fetch(kgo.FetchPartition{Err: &kgo.ErrDataLoss{Topic: testTopic, ConsumedTo: 10, ResetTo: 7}})})
			resets := append(slices.Clone(poll.before), poll.after...)
			if len(resets) != 1 || resets[0].at.Position != 7 || (len(poll.before) == 1) != c.before || consumer.next[p] != c.next {
				t.Fatalf("the resets are %+v before and %+v after, next is %d", poll.before, poll.after, consumer.next[p])
			}
		})
	}
}

func TestOptionsOfConsumersThatAreRefused(t *testing.T) {
	r := newTestRun(t, 1)
	for rule, o := range map[string]ConsumerOptions{
		"an isolation level that is none": {Name: "c1", Isolation: "serializable", Connection: r.connection},
		"a start that is not known": {Name: "c2", Connection: r.connection, Assignment: []histories.PartitionPosition{
			{Partition: histories.Partition{Topic: testTopic}, Position: histories.Unknown}}},
		"no address":               {Name: "c3"},
		"a session without a name": {Connection: r.connection},
	} {
		o.Recorder = r.recorder
		if _, err := FranzGo().NewConsumer(r.context(), o); err == nil {
			t.Errorf("%s was accepted", rule)
		}
	}
}
