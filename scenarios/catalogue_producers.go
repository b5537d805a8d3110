// This file holds the scenarios about what a producer does by itself: partitions,
// compression, batches and its buffer.

package scenarios

import (
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func producersOwn() []Named {
	return []Named{retryKeepsPartition(), compressionCodecs(), lingerAndBatch(), bufferFull(), keyPartitioning()}
}

func retryKeepsPartition() Named {
	return Named{
		Name: "retry-keeps-partition",
		Claim: "the partition is chosen once, when the event is handed over, also when partitions are added " +
			"during the retries",
		Story: `Events of one key go to one partition: the hash of the key, modulo the number of partitions. Now a
batch has to be retried, and while it is, somebody adds partitions to the topic. If the client chose again for the
retry, the event would go elsewhere, and could be written twice, in two partitions, which no idempotence would notice.

It does not. The partition is chosen when the event is handed over, and stays. What does change is the choice for
later events of the same key: they go where the new number of partitions puts them, and the order between old and new
events of that key is gone. Adding partitions is what breaks it, not the retry.`,
		Sources: []string{"Kafka's clients/…/RecordAccumulator.java", "Kafka's operations manual, adding partitions"},
		Essence: []Break{{NoFaults: true}},

		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn)(s)
			s.Topics.Partitions = 2
		},
		expect: func(Subject) []checker.Expectation {
			return append(recovered(),
				atLeast("retried-sends", 1, "events were retried while partitions were added"),
				none("sends-to-two-partitions", "no retry went to another partition"),
				atLeast("keys-in-two-partitions", 1, "later events of a key did"))
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			orders := keys("order", 20)
			for _, order := range orders {
				p.send(order)
			}
			p.settle(stepLimit)
			cut := s.begin("cut-before:every=1")
			for _, order := range orders {
				p.send(order)
			}
			cut.bit()
			added := s.begin("add-partitions:to=8").bit()
			p.send("meanwhile")
			added.end()
			s.wait(2500 * time.Millisecond) // until the client knows of them
			cut.end()
			p.settle(stepLimit)
			for _, order := range orders {
				p.send(order)
			}
			p.settle(stepLimit)
		},
	}
}

// codecs are those that compression.type knows.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func compressionCodecs() Named {
	return Named{
		Name:  "compression-codecs",
		Claim: "none, gzip, snappy, lz4, zstd under faults: every byte comes back; ratio and throughput measured",
		Story: `A batch is compressed by the client, stored as it came, and decompressed by the consumer: three
libraries may be involved, and every byte has to come back. Each event here carries a value, two headers and a
checksum over all of them; the reader verifies each, after batches were refused, resent and had lost their answers.

What compression gives is measured on values that compress about as well as JSON does: the size without compression by
the size on the wire, for each codec, in batches of 16 KiB. It has no say in what is lost, duplicated or reordered: a
batch is a batch.`,
		Sources: []string{"Kafka's producer configuration, compression.type", "KIP-110 (zstd)"},
		Essence: []Break{{NoFaults: true}, {Producer: with("compression.type=none")}},

		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn, "batch.size=16384", "linger.ms=5")(s)
		},
		expect: func(Subject) []checker.Expectation {
			expected := append(recovered(),
				none("corrupt", "every byte came back"),
				atLeast("retried-sends", 1, "batches were sent again"))
			for _, codec := range codecs {
				if codec == "none" {
					expected = append(expected, atMost("compression-ratio{none}", 1, "as it is"))
				} else {
					expected = append(expected, atLeast("compression-ratio{"+codec+"}", 1.2, "smaller than as it is"))
				}
				expected = append(expected, atLeast("events-per-second{"+codec+"}", 1, "its throughput, under the same faults"))
			}
			return expected
		},
		play: func(s *script) {
			for _, codec := range codecs {
				p := s.open(codec, set{histories.PropertyCompression, codec})
				p.warm()
				lost := s.begin("lost-response:every=2,count=2,retries=never,producer=" + codec)
				for _, key := range keys("order", 600) {
					p.send(key)
				}
				lost.bit()
				p.settle(stepLimit)
				lost.end()
			}
		},
	}
}

func lingerAndBatch() Named {
	return Named{
		Name:  "linger-and-batch",
		Claim: "batching widens what one fault duplicates or loses; measured",
		Story: `linger.ms and batch.size say how many events share a request. They have no say in whether something
is written twice, and every say in how much: a lost answer makes the whole batch be retried.

Two producers without idempotence lose one answer each. One sends each event by itself: one event is written twice.
The other waits 50 ms for batches of up to 64 KiB: all of the batch is. The same holds for what a crashed leader
loses, and for what one refused record takes with it.

It is no argument against batches, which are where throughput comes from. It is one for idempotence.`,
		Sources: []string{"Kafka's producer configuration, linger.ms and batch.size"},
		Essence: []Break{{NoFaults: true}, {Producer: with("linger.ms=0", "batch.size=512")}},

		configure: setProducer("acks=all", idempotenceOff, oneInFlight),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("copies{single}", 1, "where each event goes by itself, one lost answer duplicates one event"),
				atLeast("copies{batches}", 10, "where they go in batches, it duplicates a batch"),
				atLeast("mean-batch-records{batches}/mean-batch-records{single}", 5, "so much larger are the batches"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			for _, p := range []*session{
				s.open("single"),
				s.open("batches", set{histories.PropertyLinger, "50"}, set{histories.PropertyBatchSize, "65536"}),
			} {
				p.warm()
				lost := s.begin("lost-response:every=1,count=1,producer=" + p.name)
				for _, key := range keys("order", 100) {
					p.send(key)
				}
				lost.bit()
				p.settle(stepLimit)
				lost.end()
			}
		},
	}
}

func bufferFull() Named {
	return Named{
		Name:  "buffer-full",
		Claim: "a full buffer blocks or fails clearly; nothing disappears",
		Story: `When the broker does not answer, events gather in the producer's buffer. It holds buffer.memory
bytes. What then?

Kafka's Java client lets send() wait, for max.block.ms, and then fails it with a TimeoutException about memory
(BufferExhaustedException): the event was never taken, which is certain. franz-go lets Produce wait for as long as it
takes.

Either way each event has an end that the application can see: it waited, it was refused, or it was delivered later.
Nothing disappears in between. An application that sends from its event loop should know that it can block.`,
		Sources: []string{"Kafka's producer configuration, buffer.memory and max.block.ms", "franz-go's kgo.MaxBufferedBytes"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn, "buffer.memory=32768"),
		properties: func(c Subject) map[string]string {
			if c.Java() {
				return with("max.block.ms=1500")
			}
			return nil
		},
		expect: func(c Subject) []checker.Expectation {
			expected := append(recovered(), none("unanswered-sends", "every event has an end that the application saw"))
			if c.Java() {
				return append(expected, atLeast("failed", 1, "events were refused, before anything of them was sent"))
			}
			return append(expected, atLeast("longest-time-without-an-invocation-ms{shop}", 1000, "the application had to wait"))
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			silent := s.begin("lost-response:mode=stall,every=1")
			stop := p.load(1000, keys("order", 10)...)
			silent.bit()
			s.wait(5 * time.Second)
			silent.end()
			s.wait(time.Second)
			stop()
			p.settle(stepLimit)
		},
	}
}

func keyPartitioning() Named {
	return Named{
		Name: "key-partitioning",
		Claim: "equal keys go to one partition (murmur2), also after retries; a hot key makes a hot partition; " +
			"adding partitions moves keys",
		Story: `Order in Kafka is order within a partition, and what brings the events of one customer into one
partition is the hash of their key: murmur2 of its bytes, modulo the number of partitions. Java and franz-go agree on
it to the bit; librdkafka by default and sarama do not, so that two libraries on one topic can put one key into two
places.

Equal keys stay together under retries. A key with most of the traffic makes a partition with most of the traffic, and
no number of partitions helps: they are shared out by key, not by load.

And the modulo means that adding partitions moves keys: later events of most keys go elsewhere than earlier ones.
Where order by key matters, a topic has the partitions it needs from the start.`,
		Sources: []string{"Kafka's clients/…/BuiltInPartitioner.java and Utils.java (murmur2)",
			"Kafka's operations manual, adding partitions"},
		Essence: []Break{{NoFaults: true}},

		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn)(s)
			s.Topics.Partitions = 6
		},
		expect: func(Subject) []checker.Expectation {
			return append(recovered(),
				exactly("murmur2-agreements", 1, "before partitions were added every event lay where murmur2 of its key puts it"),
				atLeast("retried-sends", 1, "those that were retried, too"),
				atLeast("largest-partition-share", 0.5, "the hot key's partition has most of the events"),
				atLeast("keys-in-two-partitions", 1, "and partitions that were added moved keys"))
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			lost := s.begin("lost-response:every=9,count=3,retries=never")
			for _, key := range keys("customer", 30) {
				for range 2 {
					p.send(key)
				}
				for range 6 {
					p.send("hot")
				}
			}
			lost.bit()
			p.settle(stepLimit)
			lost.end()
			added := s.begin("add-partitions:to=13").bit()
			p.send("meanwhile")
			added.end()
			s.wait(2500 * time.Millisecond) // until the client knows of them
			for _, key := range keys("customer", 30) {
				p.send(key)
			}
			p.settle(stepLimit)
		},
	}
}
