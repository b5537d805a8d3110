// This file holds the scenarios about applications: what becomes of a producer or a
// consumer that ends and begins again, and of an application that sends twice.

package scenarios

import (
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func sessions() []Named {
	return []Named{newSessionResend(), sameEventSentTwice(), crashLosesBuffer(),
		noAtomicityWithoutTransactions(), consumerRedelivery()}
}

// outbox is how many payments an application sends from its outbox.
const outbox = 20

func newSessionResend() Named {
	return Named{
		Name: "new-session-resend",
		Claim: "the application restarts and sends again (its outbox was not marked): a new producer id, " +
			"so the broker takes the duplicates",
		Story: `An application reads payments from a table, its outbox, sends them with an idempotent producer, and
marks each row when it is acknowledged. It crashes when all were sent and none was marked. After the restart it finds
its outbox full and sends everything again.

The new producer has a new producer id, and its sequence numbers begin at 0. To the broker these are new batches of a
producer that it has never seen. It appends all of them. Idempotence has done nothing wrong: it promises that the
*client library's* retries are not written twice, within one session.

What helps: a transactional.id (which fences the old session, and lets outbox and events be tied together), or a
reader that recognises the event by its own identity. The verdict counts these duplicates as the application's and not
as a broken promise.`,
		Sources: []string{sourceKIP98 + ": the guarantee is within a single producer session", "Kafka's producer javadoc"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("application-duplicates", outbox, "every payment that was sent again is in the log twice"),
				none("duplicate", "none of them is the client library's or the broker's"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			var sent []handed
			for i := range outbox {
				sent = append(sent, p.send(payment(i)))
			}
			p.settle(stepLimit)
			p.crash()
			again := s.restart(p, "shop-restarted")
			again.warm()
			for _, h := range sent {
				if !s.faultless() { // it did not crash, so it had marked its outbox
					again.again(h)
				}
			}
			again.settle(stepLimit)
		},
	}
}

func sameEventSentTwice() Named {
	return Named{
		Name:  "same-event-sent-twice",
		Claim: "two sends of one event by the application are two records",
		Story: `An application sends payment #42 and waits for the acknowledgement, with a patience of its own: a
second. The answer takes two. The application takes that for a failure and sends the payment again, through the same
idempotent producer.

These are two sends. The client library gives each its own sequence number, as it must: it cannot know that they mean
the same. Both are written, once each. A timeout in the application around a producer that retries by itself makes
duplicates that no setting of the producer prevents; delivery.timeout.ms is the limit to set instead, and the callback
the place to learn how it ended.`,
		Sources: []string{"Kafka's producer javadoc (what an application sends again cannot be recognised)"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("application-duplicates", 1, "payment #42 is in the log twice"),
				none("duplicate", "by the application alone"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			slow := s.begin("hold-back:side=answer,by=2s,every=1,count=1,key=" + payment(42))
			h := p.send(payment(42))
			if !s.within(time.Second, func() bool { return p.ended.Load() >= p.count() }) {
				p.again(h)
			}
			p.settle(stepLimit)
			slow.end()
		},
	}
}

// buffered is how many events a producer has in its buffer when it crashes.
const buffered = 100

func crashLosesBuffer() Named {
	return Named{
		Name:  "crash-loses-buffer",
		Claim: "what lay in the producer's buffer at a crash was never acknowledged and is not counted as lost",
		Story: `send() returns before anything is sent: it puts the event into a buffer, and the client sends what
has gathered there, after linger.ms or when a batch is full. A process that is killed in between takes the buffer with
it.

A hundred events were handed over, and none is in the log. Nothing of it was acknowledged, so no promise is broken: an
event counts from its acknowledgement on. An application that must not lose what it was given has to keep it until the
callback came, or has to wait for it.

The scenario gives the producer a long linger.ms so that the buffer is full when it is killed. With a short one it
loses less, and never nothing for sure.`,
		Sources: []string{"Kafka's producer javadoc (the buffer, flush and close)"},
		Essence: []Break{{NoFaults: true}, {Producer: with("linger.ms=0")}},

		configure: setProducer("acks=all"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("absent{shop}", buffered, "none of what lay in the buffer is in the log"),
				none("acknowledged{shop}", "and none of it was acknowledged"),
				none("lost-write", "so nothing is lost that was promised"),
			}
		},
		play: func(s *script) {
			s.open("earlier").warm()
			p := s.open("shop", set{histories.PropertyLinger, "60000"}, set{histories.PropertyBatchSize, "1000000"})
			for i := range buffered {
				p.send(payment(i))
			}
			s.wait(500 * time.Millisecond)
			p.crash()
		},
	}
}

func noAtomicityWithoutTransactions() Named {
	return Named{
		Name:  "no-atomicity-without-transactions",
		Claim: "a crash between two partitions leaves one written",
		Story: `A transfer is two events: a debit on one account, a credit on another. They have different keys, so
they lie in different partitions, with different leaders.

The debit is written and acknowledged. The credit cannot be delivered just then, and before it can the process dies.
The log holds half a transfer, for good. acks=all and idempotence say something about each event, and nothing about
two together.

Transactions do: both events become visible to read_committed consumers, or neither. They need a transactional.id, and
consumers that read committed.`,
		Sources: []string{sourceKIP98 + " (atomic writes to several partitions need a transaction)"},
		Essence: []Break{{NoFaults: true}},

		choosePartition: true,
		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn)(s)
			s.Topics.Partitions = 2
		},
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("in-log{second}", 1, "the debit of the second transfer is in the log"),
				exactly("absent{second}", 1, "its credit is not"),
				exactly("in-log{first}", 2, "the first transfer is whole"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			for _, name := range []string{"first", "second"} {
				p := s.open(name)
				p.sendTo(0, "debit", scriptValueSize)
				p.settle(stepLimit)
				cut := fault{script: s}
				if name == "second" {
					cut = s.begin("cut-before:every=1")
				}
				p.sendTo(1, "credit", scriptValueSize)
				cut.bit()
				if name == "second" && !s.faultless() {
					p.crash()
				} else {
					p.settle(stepLimit)
				}
				cut.end()
			}
		},
	}
}

func consumerRedelivery() Named {
	return Named{
		Name:  "consumer-redelivery",
		Claim: "a consumer that crashes before it commits sees records again; after, it does not",
		Story: `A consumer reads records, processes them, and commits its offset. If it dies between the two, its
successor begins at the last committed offset, and is given the same records again: at least once. If it dies after
the commit, its successor goes on behind it.

So processing has to bear records that come twice; or has to be tied to the commit, as transactions do for what Kafka
itself stores. A consumer that commits *before* it processes turns this around: then a crash loses records for the
group.

The scenario plays three sessions of one group: the first crashes without a commit, the second is given everything
again and crashes behind its commit, the third is given only what is new.`,
		Sources: []string{"Kafka's consumer javadoc (offsets and consumer position)"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("redelivered{reader-2}", outbox+1, "the second session was given again what the first had not committed"),
				exactly("commits{reader-2}", 1, "it committed"),
				none("redelivered{reader-3}", "the third was given nothing again"),
				exactly("polled{reader-3}", outbox, "and all that was new"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			write := func() {
				for i := range outbox {
					p.send(payment(i))
				}
				p.settle(stepLimit)
			}
			write()
			group := s.topic + "-billing"
			first := s.read("", "reader-1", group)
			first.poll(outbox+1, stepLimit)
			if s.faultless() {
				first.commit() // as a consumer does that ends in good order
			}
			first.crash()
			second := s.read("reader-1", "reader-2", group)
			second.poll(outbox+1, stepLimit)
			second.commit()
			second.crash()
			third := s.read("reader-2", "reader-3", group)
			write()
			third.poll(outbox, stepLimit)
			third.poll(1, time.Second)
		},
	}
}
