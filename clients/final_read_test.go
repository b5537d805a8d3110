// This file holds the tests of the final read, of one that is whole and of every
// way in which it can be incomplete, and of the question whether a cluster serves
// again.

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

func (r *testRun) sendAll(n int, keys ...string) {
	r.Helper()
	p := r.producer("")
	r.send(p, n, keys...)
	r.closed(p, 20*time.Second)
}

func TestAFinalReadReadsEverythingAndSaysSo(t *testing.T) {
	for _, isolation := range []string{"", histories.ReadUncommitted, histories.ReadCommitted} {
		t.Run("isolation "+isolation, func(t *testing.T) {
			r := newTestRun(t, 5)
			r.sendAll(3000, "k1", "k2", "k3")
			s := r.finalRead(FinalReadOptions{Isolation: isolation, SecondLook: 50 * time.Millisecond})
			if s.Complete != 5 || s.Incomplete != 0 || s.Records != 3000 || len(r.events()) != 3000 {
				t.Fatalf("the final read is %+v", s)
			}
			for _, f := range linesOf[*histories.FinalRead](r.lines) {
				if f.LogStart != 0 || f.HighWatermark != f.Position || f.LogEnd != f.Position || f.SecondHighWatermark != f.Position ||
					f.SecondLogEnd != f.Position || f.LeaderEpoch < 0 || f.SecondAfterMs < 50 || f.Error != "" || f.Isolation == "" {
					t.Errorf("a closing line is %+v", f)
				}
			}
			for _, line := range linesOf[*histories.FinalRecords](r.lines) {
				if len(line.Records.Records) > finalReadChunk || line.LeaderEpoch < 0 {
					t.Errorf("a line has %d records of epoch %d", len(line.Records.Records), line.LeaderEpoch)
				}
			}
			if c := r.recorder.Counts(); c.FinalRecords != 3000 {
				t.Errorf("counts are %+v", c)
			}
		})
	}
}

func TestAFinalReadBeginsAtTheLogStart(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	r.send(p, 20, "k1")
	eventually(t, "the sends", func() bool { return r.recorder.Counts().Acknowledged == 20 })
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: testTopic, Partition: 0, At: 15})
	if _, err := kadm.NewClient(p.(*franzGoProducer).client).DeleteRecords(r.context(), cut); err != nil {
		t.Fatal(err)
	}
	s := r.finalRead(FinalReadOptions{})
	if s.Complete != 1 || s.Records != 5 || s.Reads[0].LogStart != 15 || s.Reads[0].Position != 20 {
		t.Fatalf("the final read is %+v", s)
	}
}

// Control records are no records of anybody, and the position must pass them.
func TestAFinalReadPassesControlRecords(t *testing.T) {
	for isolation, want := range map[string]int64{histories.ReadUncommitted: 2, histories.ReadCommitted: 1} {
		t.Run(isolation, func(t *testing.T) {
			r := newTestRun(t, 1)
			client, err := kgo.NewClient(kgo.SeedBrokers(r.connection.Seeds...), kgo.TransactionalID("t1"))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
				if err := client.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				if err := client.ProduceSync(r.context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if err := client.EndTransaction(r.context(), end); err != nil {
					t.Fatal(err)
				}
			}
			s := r.finalRead(FinalReadOptions{Isolation: isolation})
			if s.Complete != 1 || s.Records != want || s.Reads[0].Position != 4 {
				t.Fatalf("the final read is %+v, want %d records", s, want)
			}
		})
	}
}

// answerEpochEnd lets the leader say where its log ends.
func (r *testRun) answerEpochEnd(end func(actual int64) int64) {
	r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, asked := range request.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = asked.Topic
			for _, p := range asked.Partitions {
				partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, end(10)
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
}

func TestALogEndAboveTheHighWatermark(t *testing.T) {
	t.Run("that stays is recorded as it is", func(t *testing.T) {
		r := newTestRun(t, 1)
		r.sendAll(10, "k1")
		r.answerEpochEnd(func(actual int64) int64 { return actual + 3 })
		s := r.finalRead(FinalReadOptions{Settle: 300 * time.Millisecond})
		f := s.Reads[0]
		if s.Incomplete != 1 || f.HighWatermark != 10 || f.Position != 10 || f.LogEnd != 13 || f.SecondLogEnd != 13 || f.Error != "" {
			t.Fatalf("the final read is %+v", s)
		}
	})
	t.Run("that comes down is waited for", func(t *testing.T) {
		r := newTestRun(t, 1)
		r.sendAll(10, "k1")
		looks := 0
		r.answerEpochEnd(func(actual int64) int64 {
			if looks++; looks < 3 {
				return actual + 3
			}
			return actual
		})
		if s := r.finalRead(FinalReadOptions{}); s.Complete != 1 || s.Reads[0].LogEnd != 10 {
			t.Fatalf("the final read is %+v", s)
		}
	})
}

func TestAnEndThatMovesIsSeenByTheSecondLook(t *testing.T) {
	r := newTestRun(t, 1)
	r.sendAll(10, "k1")
	read := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	go func() {
		if read.Wait(r.context(), 1) == nil {
			r.plain(&kgo.Record{Topic: testTopic})
		}
	}()
	s := r.finalRead(FinalReadOptions{SecondLook: time.Second})
	f := s.Reads[0]
	if s.Incomplete != 1 || s.Records != 10 || f.HighWatermark != 10 || f.Position != 10 || f.SecondHighWatermark != 11 || f.SecondLogEnd != 11 {
		t.Fatalf("the final read is %+v", s)
	}
}

func TestAFinalReadGoesOnAfterAnErrorThatPasses(t *testing.T) {
	r := newTestRun(t, 1)
	r.sendAll(10, "k1")
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 3})
	if s := r.finalRead(FinalReadOptions{}); s.Complete != 1 || s.Records != 10 {
		t.Fatalf("the final read is %+v", s)
	}
}

func TestAFinalReadThatCannotBeFinishedSaysWhy(t *testing.T) {
	for _, c := range []struct {
		rule   string
		hinder func(*testRun)
		says   string
		ends   bool // the ends of partition 0 are known
	}{
		{"the ends of a log are not told", func(r *testRun) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Partitions: []int32{0}, Err: kerr.UnknownServerError, Count: -1})
		}, "finding the ends of the log: UNKNOWN_SERVER_ERROR", false},
		{"a partition cannot be fetched", func(r *testRun) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Partitions: []int32{0}, Err: kerr.UnknownServerError, Count: -1})
		}, "reading at offset 0: UNKNOWN_SERVER_ERROR", true},
		{"a partition is fetched in vain until the time is over", func(r *testRun) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1})
		}, "the time for the final read was over at offset 0 of", true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := newTestRun(t, 2)
			r.sendAll(400, "k1", "k2", "k3", "k4", "k5")
			c.hinder(r)
			reading, cancel := context.WithTimeout(r.context(), 6*time.Second)
			defer cancel()
			begun := time.Now()
			s, err := FinalRead(reading, FinalReadOptions{Recorder: r.recorder, Connection: r.connection, Partitions: r.allPartitions(),
				SecondLook: 10 * time.Millisecond, Settle: time.Second})
			if err != nil || time.Since(begun) > 8*time.Second {
				t.Fatalf("it gave %v after %v", err, time.Since(begun))
			}
			f := s.Reads[0]
			if !strings.HasPrefix(f.Error, c.says) || (f.HighWatermark >= 0) != c.ends || (f.SecondHighWatermark >= 0) != c.ends {
				t.Errorf("partition 0 says %+v", f)
			}
			if s.Complete != 1 || !complete(&s.Reads[1]) {
				t.Errorf("partition 1 says %+v", s.Reads[1])
			}
		})
	}
	t.Run("no broker can be reached", func(t *testing.T) {
		r := newTestRun(t, 1)
		reading, cancel := context.WithTimeout(r.context(), time.Second)
		defer cancel()
		s, err := FinalRead(reading, FinalReadOptions{Recorder: r.recorder, Connection: Connection{Seeds: []string{"127.0.0.1:1"}},
			Partitions: r.allPartitions()})
		if err != nil || s.Incomplete != 1 || s.Reads[0].Error == "" || s.Reads[0].HighWatermark != histories.Unknown {
			t.Fatalf("it gave %+v, %v", s, err)
		}
	})
	t.Run("the history cannot be written", func(t *testing.T) {
		r := newTestRun(t, 1)
		r.sendAll(10, "k1")
		full := errors.New("no space left on device")
		r.lines.failWith(full)
		_, err := FinalRead(r.context(), FinalReadOptions{Recorder: r.recorder, Connection: r.connection, Partitions: r.allPartitions()})
		if !errors.Is(err, full) {
			t.Fatalf("it gave %v", err)
		}
	})
}

func (r *testRun) serves(properties string, limit time.Duration) ([]histories.Partition, error) {
	return ServesAgain(r.context(), ServesAgainOptions{Library: FranzGo(), Recorder: r.recorder, Connection: r.connection,
		Partitions: r.allPartitions(), Properties: r.properties(properties), Limit: limit, ValueSize: 30})
}

func TestAClusterThatServesAgain(t *testing.T) {
	r := newTestRun(t, 4)
	// The first answer is a refusal: it is asked again.
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Err: kerr.InvalidRecord})
	silent, err := r.serves("", 20*time.Second)
	if err != nil || len(silent) != 0 {
		t.Fatalf("silent are %v, %v", silent, err)
	}
	if line := linesOf[*histories.Producer](r.lines)[0]; !line.Fresh || line.Name != "fresh" {
		t.Fatalf("the session is %+v", line)
	}
	returned := r.checkSends("fresh")
	asked := make(map[int32]int)
	for _, send := range linesOf[*histories.Send](r.lines) {
		asked[send.Partition]++
		if answer := returned[send.Number][0]; answer.Error == "" && answer.Partition != send.Partition {
			t.Fatalf("sent to %d, acknowledged in %d", send.Partition, answer.Partition)
		}
	}
	if asked[0] != 1 || asked[1] != 2 || asked[2] != 1 || asked[3] != 1 {
		t.Fatalf("sends by partition are %v", asked)
	}
}

func TestWhetherAClusterServesIsNotAskedWithoutAcknowledgements(t *testing.T) {
	r := newTestRun(t, 1)
	if silent, err := r.serves("acks=0", 20*time.Second); err != nil || len(silent) != 0 {
		t.Fatalf("silent are %v, %v", silent, err)
	}
	if line := linesOf[*histories.Producer](r.lines)[0]; line.Properties["acks"] != "all" {
		t.Fatalf("the session is %+v", line)
	}
}

func TestAClusterThatDoesNotServeOnePartition(t *testing.T) {
	for rule, properties := range map[string]string{
		"with a client that waits for ever": "",
		"with a client that gives up":       "delivery.timeout.ms=1000,request.timeout.ms=500,linger.ms=0",
	} {
		t.Run(rule, func(t *testing.T) {
			r := newTestRun(t, 3)
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{2}, Err: kerr.NotEnoughReplicas, Count: -1})
			const limit = 1500 * time.Millisecond
			silent, err := r.serves(properties, limit)
			if err != nil || !slices.Equal(silent, []histories.Partition{{Topic: testTopic, Partition: 2}}) {
				t.Fatalf("silent are %v, %v", silent, err)
			}
			returned := r.checkSends("fresh")
			var first, last int64
			for _, send := range linesOf[*histories.Send](r.lines) {
				if send.Partition == 2 {
					if first == 0 {
						first = send.Time
					}
					for _, answer := range returned[send.Number] {
						last = max(last, answer.Time)
					}
				}
			}
			if time.Duration(last-first) < limit-100*time.Millisecond {
				t.Fatalf("the partition was given %v of %v", time.Duration(last-first), limit)
			}
		})
	}
}

func TestTheLimitOnServingAgain(t *testing.T) {
	for rule, c := range map[string]struct {
		delivery string
		want     time.Duration
	}{
		"is a minute without a delivery timeout": {None, time.Minute},
		"is a minute with a short one":           {"20000", time.Minute},
		"is twice a long one":                    {"120000", 4 * time.Minute},
	} {
		if got := ServeLimit(map[string]string{histories.PropertyDeliveryTimeout: c.delivery}); got != c.want {
			t.Errorf("it %s: got %v", rule, got)
		}
	}
}
