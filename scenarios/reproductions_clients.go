// This file holds the reproductions of defects of client libraries.

package scenarios

import (
	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func clientReproductions() []Named {
	return []Named{idempotenceOffByDefault()}
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
