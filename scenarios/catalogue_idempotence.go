// This file holds the scenarios about what the broker knows of an idempotent producer:
// what it does with a gap, how much it remembers, and what a failover or a restart
// leaves of it.

package scenarios

import (
	"fmt"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
)

func idempotence() []Named {
	return []Named{gapRefusedOrBuffered(), sequenceGap(), fiveBatchWindow(), failoverKeepsProducerState(), restartShrinksWindow(),
		idempotentOrderDisputed()}
}

// recovered is expected wherever the client is to get over what happened.
func recovered() []checker.Expectation {
	return []checker.Expectation{
		none("duplicate", "nothing was written twice"),
		none("order-violation", "the order held"),
		none("lost-write", "nothing that was acknowledged is missing"),
	}
}

func gapRefusedOrBuffered() Named {
	return Named{
		Name:  "gap-refused-or-buffered",
		Claim: "does the broker hold an out-of-sequence batch back until the missing one comes, or refuse it? It refuses it",
		Story: `An idempotent producer has batches 5, 6, 7 and 8 on their way. Batch 5 is refused, say because the
partition has just lost a replica. Batches 6, 7 and 8 arrive: they are in sequence among themselves, and one is
missing before them.

Some articles say that the broker buffers them, as TCP does with segments, and appends all of them once 5 has come. If
it did, the client would have to send only batch 5 again. Others say that it refuses each of them, and that the client
sends all four again.

What went over the wire settles it. Every batch behind the gap is answered OUT_OF_ORDER_SEQUENCE_NUMBER, at once,
before batch 5 is sent again; none is appended until it comes a second time. The broker keeps no batch that it cannot
append: the order is the work of the client, which keeps what is unacknowledged in order, and of the broker's refusal,
which makes overtaking impossible.`,
		Sources:  []string{"Kafka's storage/…/ProducerAppendInfo.java (checkSequence)", sourceKIP98},
		Disputed: "the broker buffers what comes out of sequence and appends it when the missing batch has come",
		Essence:  []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				atLeast("gap-refused", 1, "batches behind the gap reached the broker, and it refused them"),
				none("gap-accepted", "it neither appended one nor held one back"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			refuseSome(p, "refuse:error=NOT_ENOUGH_REPLICAS,every=7,count=3,retries=never")
		},
	}
}

// refuseSome sends events with several in flight while the fault refuses some of them.
func refuseSome(p *session, refusal string) {
	p.warm()
	for _, key := range keys("before", 10) {
		p.send(key)
	}
	p.settle(stepLimit)
	refused := p.begin(refusal)
	for _, key := range keys("order", 60) {
		p.send(key)
	}
	refused.bit()
	p.settle(stepLimit)
	refused.end()
}

func sequenceGap() Named {
	return Named{
		Name: "sequence-gap",
		Claim: "after the leader has accepted a batch of this producer, one whose sequence skips is refused, not written; " +
			"the client recovers without loss or disorder",
		Story: `The leader refuses one batch of an idempotent producer with an error that a leader gives when it is
about to be replaced. The batches behind it skip a sequence number, and the leader, which has accepted batches of this
producer before, refuses them. The client gets a row of errors that it never shows to the application: it sends
everything again in order, and each send ends well.

"Has accepted a batch of this producer" matters. A leader that knows nothing of a producer id takes any first sequence
number: after its state has expired (producer.id.expiration.ms, a day), for instance, a gap is not noticed. That was
measured with real brokers: a first batch with sequence 17 is accepted.`,
		Sources: []string{"Kafka's storage/…/ProducerAppendInfo.java (checkSequence)",
			"KIP-360, for what happens where the state is gone"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				atLeast("gap-refused", 1, "what skipped a sequence number was refused"),
				none("gap-accepted", "none of it was written out of sequence"),
				none("failed", "the application saw no error"),
				none("unknown", "and nothing stayed open"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			refuseSome(p, "refuse:error=NOT_LEADER_OR_FOLLOWER,every=7,count=3,retries=never")
		},
	}
}

func fiveBatchWindow() Named {
	return Named{
		Name: "five-batch-window",
		Claim: "the leader knows the last five batches of a producer and partition: answered with the old offset, " +
			"and what is older is refused",
		Story: `How far back does the broker's memory of a producer go? The scenario lets a producer write ten
batches, records the bytes of the last seven as they went over the wire, and sends them again, the newest first. That
is what a client's retry after a lost answer looks like, byte for byte.

The last five are each answered with the offset at which they have been all along; nothing is appended. The sixth- and
the seventh-last are refused with OUT_OF_ORDER_SEQUENCE_NUMBER: the leader cannot tell them from a batch that never
arrived, and does not append what is out of sequence.

Five is also what max.in.flight.requests.per.connection may be with idempotence, and this is why.`,
		Sources: []string{"Kafka's storage/…/ProducerStateEntry.java (NUM_BATCHES_TO_RETAIN)", "KAFKA-5494"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				exactly("replayed-recognised", 5, "the last five batches were answered with their old offsets"),
				exactly("replayed-refused", 2, "the two before them were refused"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			replay := s.begin("replay:batches=7,producer=shop")
			writeTen(p)
			replay.act().end()
		},
	}
}

// writeTen writes ten batches of one event each.
func writeTen(p *session) {
	for _, key := range keys("order", 10) {
		p.send(key)
		p.settle(stepLimit)
	}
}

func failoverKeepsProducerState() Named {
	return Named{
		Name:  "failover-keeps-producer-state",
		Claim: "idempotence across a move to a follower that ran throughout",
		Story: `"Idempotence is a promise of one broker: when the leader dies, the new one knows nothing." So some
articles have it. But what the leader remembers of a producer is no state of its own: it is derived from the log. A
follower that copies the log derives the same.

The scenario lets a producer's batches be written while their answers are held back, moves the leadership to another
broker, breaks the connection, and lets the client retry. The new leader answers the retries with the offsets that the
old one had given. Then the recorded bytes of the last five batches are sent once more: it knows all five.

A follower that was restarted meanwhile remembers less: see restart-shrinks-window.`,
		Sources:  []string{sourceKIP98 + " (producer state is rebuilt from the log)", "Kafka's storage/…/ProducerStateManager.java"},
		Disputed: "idempotence does not survive a change of the leader",
		Essence:  []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				atLeast("recognised-elsewhere", 1, "a retry was answered by the new leader with the old leader's offset"),
				exactly("replayed-recognised", 5, "the new leader knows the last five batches"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			replay := s.begin("replay:batches=5,producer=shop")
			writtenUnanswered(s, p, func() {
				before := s.leader()
				moved := s.begin("move-leader:partition=" + s.aPartition()).bit()
				s.until(stepLimit, "another broker leads", func() bool { return moved.id == "" || s.leader() != before })
				p.send("meanwhile")
				moved.end()
				// The old leader goes on answering for a moment, and the client goes on asking it,
				// until both have heard of the new one.
				s.whole()
				s.wait(heard)
			})
			replay.act().end()
		},
	}
}

// heard is how long it takes until everybody has heard of a new leader.
const heard = 2 * time.Second

// leader gives who leads partition 0 of the script's topic; -1: nobody, or it is not known.
func (s *script) leader() int32 {
	now, known := s.partition(clusters.Leader{Topic: s.topic})
	if !known {
		return -1
	}
	return now.Broker
}

// logEnd gives where the log of partition 0 of the script's topic ends; -1: not known.
func (s *script) logEnd() int64 {
	ends, err := s.cluster.LogEnds(s.ctx, s.topic)
	if err != nil || len(ends) == 0 {
		return -1
	}
	return ends[0]
}

// held is how many batches are written while their answers are held back: with one more
// that is sent behind them, as many as an idempotent producer has in flight.
const held = 4

// writtenUnanswered has four batches written whose answers never come, then lets
// something happen to the cluster while no retry gets through, and then lets them through.
func writtenUnanswered(s *script, p *session, happen func()) {
	p.warm()
	writeTen(p)
	before := s.logEnd()
	hold := s.begin(fmt.Sprintf("hold-back:side=answer,by=1m,every=1,count=%d", held))
	for _, key := range keys("unanswered", held) {
		p.send(key)
	}
	hold.bit()
	s.until(stepLimit, "the batches are written", func() bool { return hold.id == "" || s.logEnd() >= before+held })
	cut := s.begin("cut-before:every=1")
	p.send("behind") // its connection breaks, and with it the answers that were held back
	cut.bit()
	happen()
	hold.end()
	cut.end()
	p.settle(stepLimit)
}

func restartShrinksWindow() Named {
	return Named{
		Name:  "restart-shrinks-window",
		Claim: "a restarted leader remembers one batch only: what a retry of an older one does, by client",
		Story: `What a broker knows of a producer is written to disk from time to time, as a snapshot, and the
snapshot holds one batch for each producer: the last. A broker that was restarted, cleanly or not, begins with that.

So when all three brokers were restarted, a retry of the last batch is still recognised. A retry of the one before it
is not: the leader says OUT_OF_ORDER_SEQUENCE_NUMBER. It means "I do not know this one", and the client takes it for
"I have never had this one": it gives itself a new epoch, numbers what it has in flight from 0, and sends it again.
The broker appends it again.

That is a duplicate under the default producer. KIP-98 promises that there is none, so the verdict says violated, and
names the hole. It takes several batches whose answers were all lost, and restarts of every replica before the client
gets through again: a rolling restart under a bad network can do it.`,
		Sources: []string{"Kafka's storage/…/ProducerStateManager.java (a snapshot holds the last batch)",
			"KIP-360 (the client bumps its epoch)", "measured: a leader that ran throughout answers replays of the last five batches"},
		OnlyContainers: "its brokers keep no snapshots: what they remember of a producer does not shrink",
		Essence:        []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		violates:  func(Subject) []checker.Anomaly { return []checker.Anomaly{checker.Duplicate} },
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("broker-answers:OUT_OF_ORDER_SEQUENCE_NUMBER", 1, "the restarted leader did not know the batch that was retried"),
				atLeast("sends-under-two-epochs", 1, "the client sent it again under a new epoch"),
				atLeast("duplicate", 1, "and it was appended a second time"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			writtenUnanswered(s, p, func() {
				restarted := s.begin("kill-all").bit()
				p.send("meanwhile")
				restarted.end()
				s.whole()
			})
		},
	}
}

func idempotentOrderDisputed() Named {
	return Named{
		Name:  "idempotent-order-disputed",
		Claim: "\"with idempotence and five in flight order may break, set one\": it holds",
		Story: `"If you need order, set max.in.flight.requests.per.connection to 1, also with idempotence": the
advice is older than idempotence with several in flight (it came with Kafka 1.0) and is still copied.

The scenario tries to break the order of an idempotent producer with five in flight by everything that makes a client
retry: refusals of single batches, lost answers, connections that are cut before the broker has the request, and a
leadership that moves. Every key has its own order, and a reader would notice any inversion. There is none, and what
is not acknowledged does not surface behind what is.

What can break it is named elsewhere: a new session (new-session-resend), and going on after an error that the client
could not resolve.`,
		Sources: []string{"KAFKA-5494",
			"Kafka's producer configuration, enable.idempotence (which promises order for any value up to five)"},
		Disputed: "with idempotence and five in flight the order may break, so one must be set",
		Essence:  []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return append([]checker.Expectation{
				atLeast("retried-sends", 10, "batches were sent again, many times"),
				none("late-ghost", "nothing that was not acknowledged surfaced late"),
			}, recovered()...)
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			stop := p.load(400, keys("order", 12)...)
			for _, fault := range []string{
				"lost-response:every=7,count=5,retries=never",
				"cut-before:every=7,count=5,retries=never",
				"refuse:error=NOT_LEADER_OR_FOLLOWER,every=7,count=5,retries=never",
			} {
				s.whileLoaded(fault, 2*time.Second)
			}
			s.whileLoaded("move-leader:partition="+s.aPartition(), time.Second)
			s.wait(time.Second)
			stop()
			p.settle(stepLimit)
		},
	}
}

// whileLoaded injects a fault and lets it act for a while, under a load that goes on.
func (s *script) whileLoaded(text string, d time.Duration) {
	f := s.begin(text).bit()
	s.wait(d)
	f.end()
}

// aPartition is the name of the first partition, as faults take it.
func (s *script) aPartition() string { return s.topic + "/0" }
