// This file holds the reproductions of defects of client libraries.

package scenarios

import (
	"fmt"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func clientReproductions() []Named {
	all := []Named{cancelledAfterTimedOut(), recycledBatchBuffer(), idempotenceOffByDefault(), failedInFlight(),
		staleSequence()}
	for i := range all {
		configure := all[i].configure
		all[i].configure = func(s *Scenario) {
			configure(s)
			// It is producers that have these defects, and adapters of old clients may have no others.
			s.Workload.Consumers = 0
		}
	}
	return all
}

func cancelledAfterTimedOut() Named {
	return Named{
		Name: "cancelled-after-timed-out",
		Claim: "an idempotent send that was answered REQUEST_TIMED_OUT and then cancelled may be in the log; what is sent " +
			"after it is written all the same",
		Story: `A leader that has appended a batch and does not hear of its followers in time answers
REQUEST_TIMED_OUT. It has the batch. The client cannot know, and tries again with the same sequence number; that is
safe, since the leader recognises it.

Now the application loses patience: the context with which it sent the event ends. A client that gives the event up at
this point must not use its sequence number for another one. franz-go up to v1.20.6 took the answer for a proof that
nothing had been written, failed the event, and gave its number to the next. The leader saw a number that it knew,
appended nothing, and answered "done", with the offset of the first event. The second was acknowledged, and is nowhere.

The scenario bounds each send by delivery.timeout.ms, lets the leader answer REQUEST_TIMED_OUT until the first send is
cancelled, or should have been, and sends two more.`,
		Sources: []string{"franz-go issue #1217", "franz-go's CHANGELOG, v1.20.7", sourceStateEntry},
		Essence: []Break{{NoFaults: true}},

		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn, histories.PropertyDeliveryTimeout+"=3500")(s)
		},
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				atLeast("answers:REQUEST_TIMED_OUT", 1, "the leader had the batch and said that it took too long"),
				atLeast("retried-sends", 1, "the client tried again"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			slow := s.begin("refuse:error=REQUEST_TIMED_OUT,after=true,every=1")
			p.send("cancelled")
			slow.bit()
			// A client may wait for ever rather than give up what may be written.
			s.within(cancelledWithin, func() bool { return p.ended.Load() >= p.count() })
			slow.end()
			for _, key := range keys("after", 2) {
				p.send(key)
			}
			p.settle(stepLimit)
		},
	}
}

// cancelledWithin is how long a send that is bounded by delivery.timeout.ms=3500 may take to be
// given up.
const cancelledWithin = 5 * time.Second

func recycledBatchBuffer() Named {
	return Named{
		Name:  "recycled-batch-buffer",
		Claim: "an event that expires while its request is being written goes nowhere else, and nothing else goes in its place",
		Story: `A producer has begun to write a large request to a broker, and the broker reads no further: it is
busy, or has muted the connection to keep a quota. The events in the request wait for delivery.timeout.ms and are
failed. That is as it should be; whether they were written is not known.

Up to 4.1.1 Kafka's Java client then also gave the memory of the failed batches back to its pool, though the request
that was half written still pointed to it. The next batches that the application filled, for other topics, were put
into the same memory. When the broker read on, it got the head of the old request, with the old topic and partition,
and behind it the bytes of the new batch: whole, with a checksum that fits. It appended them. An event lies in a topic
to which it was never sent, and a second time where it belongs.

The scenario lets the batches wait first, behind an answer that is late, so that they expire before their request does.
Then the broker that leads their partitions stops reading; they expire; events for the other topic go to another broker
and are acknowledged; and the broker reads on.`,
		Sources: []string{"KAFKA-19012", "Kafka's clients/…/Sender.java (failBatch) and BufferPool.java",
			"KIP-219 (brokers mute connections)"},
		Essence: []Break{{NoFaults: true}},

		choosePartition: true,
		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOff, oneInFlight, histories.PropertyRequestTimeout+"=10000",
				histories.PropertyDeliveryTimeout+"=10000", fmt.Sprintf("%s=%d", histories.PropertyBatchSize, recycledSize+1000))(s)
			s.Producer["max.request.size"] = "4000000"
			delete(s.Producer, "metadata.max.age.ms")
			s.Topics.Count, s.Topics.Partitions = 2, 24
		},
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				exactly("errors:TimeoutException: delivery", recycledEvents, "events expired while their request was being written"),
				exactly("acknowledged{shop}", recycledWarm+2+recycledEvents+recycledAfter,
					"the rest of the request was read later, and every event in it was written"),
				none("wrong-place", "no event lies where it was not sent to"),
				none("corrupt", "none is damaged"),
			}, recovered()...)
		},
		play: playRecycledBuffer,
	}
}

// The events of the request that is half written: together far more than the buffers of the
// sockets take, and less than max.request.size. Before them some are sent, and after them as
// many as it takes that all memory of the pool is used again.
const (
	recycledEvents = 8
	recycledSize   = 200_000
	recycledWarm   = 11
	recycledAfter  = recycledEvents + 4
)

// playRecycledBuffer lets events expire in a request that is half written, and sends others
// before the rest of it is read.
func playRecycledBuffer(s *script) {
	topics := s.scenario.topicNames()
	p := s.open("shop")
	slow, slowLeader := s.partitionsOfOneLeader(topics[0])
	other := s.partitionOfAnotherLeader(topics[1], slowLeader)
	if len(slow) < recycledEvents {
		s.fail("no broker leads %d partitions of %s", recycledEvents, topics[0])
	}
	if s.over() {
		return
	}
	elsewhere := func(key string, size int) {
		p.hand(clients.SendRequest{Topic: topics[1], Partition: other, Key: key, ValueSize: size})
	}
	// Batches are as long as each other only where the numbers of their sends are, too: so
	// some are sent before, one by one, so that little memory is in the pool. What goes to the
	// slow leader is small, or its socket would give itself a larger buffer.
	for _, key := range keys("warm-up", recycledWarm) {
		elsewhere(key, 0)
		p.settle(stepLimit)
	}
	p.sendTo(slow[0], "warm-up", 0)
	p.settle(stepLimit)
	// The batches wait for so long: by that much they expire before their request does.
	late := s.begin(fmt.Sprintf("hold-back:side=answer,by=8s,broker=%d,producer=shop,every=1,count=1", slowLeader))
	p.sendTo(slow[0], "first", 0)
	late.bit()
	for i := range recycledEvents {
		p.sendTo(slow[i], fmt.Sprintf("old-%02d", i), recycledSize)
	}
	unread := s.begin(fmt.Sprintf("stop-reading:broker=%d,producer=shop", slowLeader)).bit()
	p.settle(stepLimit)
	for i := range recycledAfter {
		elsewhere(fmt.Sprintf("new-%02d", i), recycledSize)
	}
	p.settle(stepLimit)
	before := s.sumOfEnds(topics[0])
	unread.end()
	late.end()
	// On a version that does without the defect all are written, and else some.
	s.within(heard, func() bool { return s.sumOfEnds(topics[0]) >= before+recycledEvents })
}

// partitionsOfOneLeader gives the partitions of a topic that the broker leads which leads
// most of them, and the broker.
func (s *script) partitionsOfOneLeader(topic string) (partitions []int32, broker int32) {
	led := make(map[int32][]int32)
	for _, l := range s.leadersOf(topic) {
		if led[l.Broker] = append(led[l.Broker], l.Partition); len(led[l.Broker]) > len(partitions) {
			partitions, broker = led[l.Broker], l.Broker
		}
	}
	return partitions, broker
}

// partitionOfAnotherLeader gives a partition of a topic that another broker leads.
func (s *script) partitionOfAnotherLeader(topic string, broker int32) int32 {
	for _, l := range s.leadersOf(topic) {
		if l.Broker != broker {
			return l.Partition
		}
	}
	s.fail("broker %d leads every partition of %s; the steps take one that another broker leads", broker, topic)
	return 0
}

func (s *script) leadersOf(topic string) []clusters.Leader {
	if s.over() {
		return nil
	}
	leaders, err := s.cluster.Leaders(s.ctx, topic)
	if err != nil {
		s.fail("asking who leads the partitions of %s: %w", topic, err)
	}
	return leaders
}

// sumOfEnds gives how many records a topic has, where nothing was removed.
func (s *script) sumOfEnds(topic string) (sum int64) {
	ends, err := s.cluster.LogEnds(s.ctx, topic)
	if err != nil {
		return -1
	}
	for _, end := range ends {
		sum += end
	}
	return sum
}

func idempotenceOffByDefault() Named {
	return Named{
		Name:  "idempotence-off-by-default",
		Claim: "a producer with nothing but defaults is idempotent (KIP-679): a lost answer makes no duplicate",
		Story: `From 3.0 on Kafka's documentation says that enable.idempotence is true by default, and so does the
client's own configuration when it is asked: ProducerConfig of 3.0.0 and 3.1.0 gives enable.idempotence=true. Whoever
relied on it had no idempotence. The code that made the producer idempotent looked whether the application had set the
property, and where it had not, it left it off.

The scenario leaves the property alone, loses answers on the way back, and looks whether the retries were written a
second time. By the configuration that the client itself names they must not be.`,
		Sources: []string{"KAFKA-13598", "KAFKA-10619", "KIP-679", "Kafka's upgrade notes of 3.0.1, 3.1.1 and 3.2.0"},
		Essence: []Break{{NoFaults: true}},

		configure: func(s *Scenario) {
			// acks and retries, too, stay at their defaults.
			delete(s.Producer, histories.PropertyIdempotence)
		},
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("unanswered-attempts", 1, "answers were lost after the broker had written the batch"),
				atLeast("retried-sends", 1, "and the batches were sent again"),
				none("duplicate", "nothing was written twice"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) { payFortyTwo(s, s.open("shop")) },
	}
}

func failedInFlight() Named {
	return Named{
		Name: "failed-in-flight",
		Claim: "with several batches in flight, one that the broker wrote and answered with an error that is not retried " +
			"makes no duplicate of another one",
		Story: `A producer has four batches in flight. The broker writes all of them, and answers the second with
UNKNOWN_SERVER_ERROR: something went wrong after the append. The client does not retry that error. It fails the batch,
and since it takes the batch for unwritten there is a gap in the sequence numbers behind it; so it gives itself a new
epoch, under which it numbers what is still in flight from 0.

The answer to the last of the four is lost. Its retry goes out under the new epoch, where the broker recognises
nothing, and is appended again: a duplicate from an idempotent producer. It takes an error of the broker's own at a bad
moment, and a connection that breaks with it. Redpanda's users met it when a broker answered so after it had moved a
partition.`,
		Sources: []string{"KAFKA-14034", "Redpanda issues #5355 and #5356",
			"Kafka's clients/…/TransactionManager.java (handleFailedBatch)"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				exactly("answers:UNKNOWN_SERVER_ERROR", 1, "one batch was answered with an error that is not retried"),
				atLeast("unanswered-attempts", 1, "the answer to another one in flight was lost"),
				atLeast("retried-sends", 1, "and that one was sent again"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			// Answers keep their order: behind one that is late all of them wait.
			late := s.begin("hold-back:side=answer,by=1s,every=1,count=1,key=first")
			failed := s.begin("refuse:error=UNKNOWN_SERVER_ERROR,after=true,every=1,count=1,key=failed")
			lost := s.begin("lost-response:every=1,count=1,key=lost")
			for _, key := range []string{"first", "failed", "second", "lost"} {
				p.send(key)
			}
			lost.bit()
			p.settle(stepLimit)
			late.end()
			failed.end()
			lost.end()
			p.send("after")
			p.settle(stepLimit)
		},
	}
}

func staleSequence() Named {
	return Named{
		Name: "stale-sequence",
		Claim: "a producer that gives itself a new epoch because of one partition numbers all its partitions from 0, also those " +
			"with nothing in flight",
		Story: `A broker does not know the sequence number of an idempotent producer in one partition any more, and
says OUT_OF_ORDER_SEQUENCE_NUMBER. The client gives itself a new epoch and sends the batch again, numbered from 0
(KIP-360). The epoch is one of the whole producer. So in every other partition, too, the next batch bears the new epoch,
and a broker takes a new epoch only if it begins with 0.

From 2.5 to 2.7.0 the Java client numbered those partitions anew that had something in flight. In the others it went on
counting. Their next batch was refused, the client gave itself yet another epoch because of that, and so on, from
partition to partition.`,
		Sources: []string{"KAFKA-12152", "KIP-360"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		choosePartition: true,
		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn)(s)
			s.Topics.Partitions = 2
		},
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				exactly("sends-under-two-epochs", 1, "one batch made the client give itself a new epoch"),
				none("broker-answers:OUT_OF_ORDER_SEQUENCE_NUMBER", "and no broker saw a sequence number that it could not take"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			for i := range int32(6) {
				p.sendTo(i%2, fmt.Sprintf("before-%d", i), scriptValueSize)
				p.settle(stepLimit)
			}
			forgotten := s.begin("refuse:error=OUT_OF_ORDER_SEQUENCE_NUMBER,every=1,count=1,key=forgotten")
			p.sendTo(0, "forgotten", scriptValueSize)
			forgotten.bit()
			p.settle(stepLimit)
			forgotten.end()
			for i := range int32(6) {
				p.sendTo(i%2, fmt.Sprintf("after-%d", i), scriptValueSize)
				p.settle(stepLimit)
			}
		},
	}
}
