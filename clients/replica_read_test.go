// This file holds the tests of reading every replica by fetches, against brokers
// that answer each for themselves.

package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/histories"
)

// newReplicatedRun is a test run whose brokers 0, 1 and 2 all answer fetches.
func newReplicatedRun(t *testing.T, partitions int32) *testRun {
	t.Helper()
	r := newTestRun(t, partitions, kfake.NumBrokers(3))
	for p := range partitions {
		r.cluster.SetFollowers(testTopic, p, []int32{0, 1, 2})
	}
	return r
}

func (r *testRun) replicaRead(options ReplicaReadOptions) ReplicaReadSummary {
	r.Helper()
	options.Recorder, options.Connection, options.Partitions = r.recorder, r.connection, r.allPartitions()
	if options.Settle == 0 {
		options.Settle = 5 * time.Second
	}
	summary, err := ReplicaRead(r.context(), options)
	if err != nil {
		r.Fatal(err)
	}
	return summary
}

// replica gives what was read of one replica and partition from one source.
func (r *testRun) replica(replica, partition int32, source string) []histories.ReplicaRecord {
	var found []histories.ReplicaRecord
	for _, line := range linesOf[*histories.ReplicaRecords](r.lines) {
		if line.Replica == replica && line.Partition.Partition == partition && line.Source == source {
			found = append(found, line.Records...)
		}
	}
	return found
}

// answerOf lets one broker change its answers to fetches.
func (r *testRun) answerOf(replica int32, change func(*kmsg.FetchRequestTopicPartition, *kmsg.FetchResponseTopicPartition)) {
	r.cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if r.cluster.CurrentNode() != replica {
			return nil, nil, false
		}
		asked := request.(*kmsg.FetchRequest).Topics[0]
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.Partition = asked.Partitions[0].Partition
		change(&asked.Partitions[0], &partition)
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = asked.Topic, append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
}

func TestEveryReplicaIsReadToItsHighWatermark(t *testing.T) {
	r := newReplicatedRun(t, 2)
	r.sendAll(3000, "k1", "k2", "k3")
	r.finalRead(FinalReadOptions{})
	s := r.replicaRead(ReplicaReadOptions{})
	if len(s.Reads) != 6 || s.Records != 9000 {
		t.Fatalf("the replicas gave %+v", s)
	}
	final := make(map[int32][]histories.Record)
	for _, line := range linesOf[*histories.FinalRecords](r.lines) {
		final[line.Partition.Partition] = append(final[line.Partition.Partition], line.Records.Records...)
	}
	for i, read := range s.Reads {
		want := histories.ReplicaRead{Partition: histories.Partition{Topic: testTopic, Partition: int32(i / 3)}, Replica: int32(i % 3),
			Source: histories.SourceFetch, Time: read.Time, HighWatermark: int64(len(final[int32(i/3)])), LogEnd: histories.Unknown}
		want.Position = want.HighWatermark
		if read != want || *linesOf[*histories.ReplicaRead](r.lines)[i] != want {
			t.Errorf("read %d is %+v, want %+v", i, read, want)
		}
		found := r.replica(read.Replica, read.Partition.Partition, histories.SourceFetch)
		if !slices.EqualFunc(found, final[read.Partition.Partition], func(a histories.ReplicaRecord, b histories.Record) bool {
			return a.Record == b && a.Digest == ""
		}) {
			t.Errorf("replica %d of partition %d holds %d records, or other ones than the final read's", read.Replica,
				read.Partition.Partition, len(found))
		}
	}
	for _, line := range linesOf[*histories.ReplicaRecords](r.lines) {
		if len(line.Records) > finalReadChunk || line.LeaderEpoch < 0 {
			t.Errorf("a line has %d records of epoch %d", len(line.Records), line.LeaderEpoch)
		}
	}
}

// Only records whose event does not stand for their content need a digest.
func TestRecordsThatNoEventStandsForAreComparable(t *testing.T) {
	r := newReplicatedRun(t, 1)
	corrupt := r.recorder.Events().Payload(Event{Origin: "p9", Key: "k", Number: 0}, "p9", 0, 20)
	headers := []kgo.RecordHeader{kgo.RecordHeader(corrupt.Headers[0]), kgo.RecordHeader(corrupt.Headers[1])}
	r.plain(&kgo.Record{Topic: testTopic, Value: []byte("one")}, &kgo.Record{Topic: testTopic, Value: []byte("one")},
		&kgo.Record{Topic: testTopic, Value: []byte("two")}, &kgo.Record{Topic: testTopic, Key: []byte("one")},
		&kgo.Record{Topic: testTopic, Value: []byte{}}, &kgo.Record{Topic: testTopic},
		&kgo.Record{Topic: testTopic, Key: corrupt.Key, Value: []byte("not as sent"), Headers: headers})
	transactional, err := kgo.NewClient(kgo.SeedBrokers(r.connection.Seeds...), kgo.TransactionalID("t1"))
	if err != nil {
		t.Fatal(err)
	}
	defer transactional.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := errors.Join(transactional.BeginTransaction(),
			transactional.ProduceSync(r.context(), &kgo.Record{Topic: testTopic}).FirstErr(),
			transactional.EndTransaction(r.context(), end)); err != nil {
			t.Fatal(err)
		}
	}
	r.sendAll(1, "k1")
	s := r.replicaRead(ReplicaReadOptions{})
	found := r.replica(0, 0, histories.SourceFetch)
	if len(found) != 12 || s.Reads[0].Position != 12 || !slices.Equal(found, r.replica(1, 0, histories.SourceFetch)) {
		t.Fatalf("the replica holds %+v", found)
	}
	equal := map[[2]int64]bool{{0, 1}: true, {5, 7}: true, {5, 9}: true, {7, 9}: true}
	for i := range int64(11) {
		for j := i + 1; j < 11; j++ {
			if (found[i].Digest == found[j].Digest) != equal[[2]int64{i, j}] || found[i].Digest == "" {
				t.Errorf("the digests at %d and %d are %q and %q", i, j, found[i].Digest, found[j].Digest)
			}
		}
	}
	if found[6].Event != "p9/k/0" || found[6].Corrupt != CorruptValue || found[11].Event != "p1/k1/0" || found[11].Digest != "" {
		t.Errorf("the events are %+v and %+v", found[6], found[11])
	}
}

func TestAFollowersHighWatermarkIsItsOwn(t *testing.T) {
	for _, c := range []struct {
		rule  string
		looks int // after which it has caught up
		want  int64
	}{{"and is read to where it is", 1 << 30, 4}, {"and is waited for", 3, 10}} {
		t.Run(c.rule, func(t *testing.T) {
			r := newReplicatedRun(t, 1)
			r.sendAll(10, "k1")
			raw := r.batches(0)
			looks := 0
			r.answerOf(2, func(_ *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
				looks++
				answer.HighWatermark, answer.LogStartOffset, answer.RecordBatches = 4, 0, raw
				if looks > c.looks {
					answer.HighWatermark = 10
				}
			})
			s := r.replicaRead(ReplicaReadOptions{Settle: 500 * time.Millisecond})
			follower := s.Reads[2]
			if follower.HighWatermark != c.want || follower.Position != c.want || follower.Error != "" || s.Reads[1].Position != 10 ||
				int64(len(r.replica(2, 0, histories.SourceFetch))) != c.want {
				t.Fatalf("the follower was read as %+v", follower)
			}
		})
	}
}

// batches gives a partition's record batches as a broker sends them.
func (r *testRun) batches(partition int32) []byte {
	r.Helper()
	reader, err := newReplicaReader(ReplicaReadOptions{Recorder: r.recorder, Connection: r.connection, Partitions: r.allPartitions()})
	if err != nil {
		r.Fatal(err)
	}
	defer reader.client.Close()
	reader.look(r.context())
	answer, err := reader.fetch(r.context(), &histories.ReplicaRead{Replica: r.cluster.LeaderFor(testTopic, partition),
		Partition: histories.Partition{Topic: testTopic, Partition: partition}}, 0, replicaFetchBytes)
	if err != nil {
		r.Fatal(err)
	}
	return slices.Clone(answer.RecordBatches)
}

func TestAReplicaThatStartsLaterThanTheLeader(t *testing.T) {
	r := newReplicatedRun(t, 1)
	r.sendAll(10, "k1")
	raw := r.batches(0)
	follower := (r.cluster.LeaderFor(testTopic, 0) + 1) % 3
	r.answerOf(follower, func(asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
		// As Kafka answers: no figures with the error.
		answer.HighWatermark, answer.LogStartOffset = -1, -1
		if asked.FetchOffset < 6 {
			answer.ErrorCode = kerr.OffsetOutOfRange.Code
			return
		}
		answer.HighWatermark, answer.LogStartOffset, answer.RecordBatches = 10, 6, raw
	})
	s := r.replicaRead(ReplicaReadOptions{})
	if read := s.Reads[follower]; read.LogStart != 6 || read.Position != 10 || read.Error != "" ||
		len(r.replica(follower, 0, histories.SourceFetch)) != 4 {
		t.Fatalf("the follower was read as %+v", read)
	}
}

func TestWhatAReplicaDoesNotGiveStandsInItsLine(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(good []byte, asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition)
		says   string
		read   int
	}{
		{"it does not say how far it is shown", func(_ []byte, _ *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
			answer.ErrorCode = kerr.NotLeaderForPartition.Code
		}, "finding the ends of the replica's log: NOT_LEADER_FOR_PARTITION", 0},
		{"an error that stays", func(_ []byte, asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
			if answer.HighWatermark = 10; asked.PartitionMaxBytes > 1 {
				answer.ErrorCode = kerr.KafkaStorageError.Code
			}
		}, "reading at offset 0: KAFKA_STORAGE_ERROR", 0},
		{"a record that never comes", func(good []byte, asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
			if answer.HighWatermark = 12; asked.FetchOffset < 10 {
				answer.RecordBatches = good
			}
		}, "reading at offset 10: the broker answers without the record that is due", 10},
		{"a wrong checksum", func(good []byte, _ *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
			answer.HighWatermark, answer.RecordBatches = 10, slices.Clone(good)
			answer.RecordBatches[len(good)-1] ^= 1
		}, "reading at offset 0: encoded crc", 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := newReplicatedRun(t, 1)
			r.sendAll(10, "k1")
			good := r.batches(0)
			r.answerOf(1, func(asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
				answer.LogStartOffset = 0
				c.change(good, asked, answer)
			})
			s := r.replicaRead(ReplicaReadOptions{Settle: 400 * time.Millisecond})
			if len(s.Reads) != 3 || !strings.HasPrefix(s.Reads[1].Error, c.says) || s.Reads[0].Error != "" || s.Reads[2].Error != "" {
				t.Fatalf("the reads are %+v, want %q", s.Reads, c.says)
			}
			if n := len(r.replica(1, 0, histories.SourceFetch)); n != c.read {
				t.Fatalf("%d records were read before it, want %d", n, c.read)
			}
		})
	}
}

func TestTheReplicasThatAreRead(t *testing.T) {
	for _, c := range []struct {
		rule  string
		asked []int32
		want  string
	}{{"are all of them", nil, "[0 1 2]"}, {"are those asked for that hold the partition", []int32{2, 0, 7}, "[0 2]"}} {
		t.Run(c.rule, func(t *testing.T) {
			r := newReplicatedRun(t, 1)
			r.sendAll(1, "k1")
			var read []int32
			for _, line := range r.replicaRead(ReplicaReadOptions{Replicas: c.asked}).Reads {
				read = append(read, line.Replica)
			}
			if fmt.Sprint(read) != c.want {
				t.Fatalf("read were %v, want %s", read, c.want)
			}
		})
	}
}

func TestAReadOfReplicasThatCannotBeDone(t *testing.T) {
	t.Run("no broker can be reached", func(t *testing.T) {
		r := newReplicatedRun(t, 1)
		r.connection.Seeds = []string{"127.0.0.1:1"}
		s := r.replicaRead(ReplicaReadOptions{Settle: 300 * time.Millisecond})
		if len(s.Reads) != 1 || s.Reads[0].Error == "" || s.Reads[0].Replica != histories.Unknown {
			t.Fatalf("the reads are %+v", s.Reads)
		}
	})
	t.Run("its time is over", func(t *testing.T) {
		r := newReplicatedRun(t, 1)
		r.sendAll(10, "k1")
		reading, cancel := context.WithCancel(r.context())
		defer cancel()
		r.answerOf(1, func(asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
			if answer.HighWatermark, answer.LogStartOffset = 10, 0; asked.PartitionMaxBytes > 1 {
				cancel()
			}
		})
		s, err := ReplicaRead(reading, ReplicaReadOptions{Recorder: r.recorder, Connection: r.connection, Partitions: r.allPartitions()})
		if err != nil || s.Reads[0].Error != "" || s.Reads[1].Error != "the time for reading the replicas was over at offset 0 of 10" ||
			s.Reads[2].Error == "" {
			t.Fatalf("it gave %+v, %v", s, err)
		}
	})
	t.Run("the history cannot be written", func(t *testing.T) {
		r := newReplicatedRun(t, 1)
		r.sendAll(10, "k1")
		full := errors.New("no space left on device")
		r.lines.failWith(full)
		_, err := ReplicaRead(r.context(), ReplicaReadOptions{Recorder: r.recorder, Connection: r.connection, Partitions: r.allPartitions()})
		if !errors.Is(err, full) {
			t.Fatalf("it gave %v", err)
		}
	})
}
