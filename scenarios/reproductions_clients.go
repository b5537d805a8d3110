// This file holds the reproductions of defects of client libraries.

package scenarios

import (
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func clientReproductions() []Named {
	return []Named{cancelledAfterTimedOut(), idempotenceOffByDefault()}
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
			s.Workload.Consumers = 0 // adapters of old clients have producers alone
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
