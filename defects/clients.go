// This file holds the defects of client libraries.

package defects

import "github.com/ackproof/ackproof/checker"

func clientDefects() []Defect {
	return []Defect{
		{
			Name: "cancelled-after-timed-out", Issue: "franz-go #1217", Where: InClient,
			Summary: "a send that the broker had stored and answered REQUEST_TIMED_OUT is cancelled, and its sequence number " +
				"is used again: the broker takes the next event for a retry and acknowledges it without writing it",
			AffectedIn: "up to v1.20.6", FixedIn: "v1.20.7",
			Affected: Version{FranzGo, "1.20.6"}, Fixed: Version{FranzGo, "1.20.7"},
			Red:    Red{Violated: []checker.Anomaly{checker.LostWrite}},
			Chance: "every time",
		},
		{
			Name: "recycled-batch-buffer", Issue: "KAFKA-19012", Where: InClient,
			Summary: "a batch expires while its request is still being written; its memory is used for a batch of another " +
				"topic, and the request goes on with that: an event lies in a topic to which it was never sent",
			AffectedIn: "2.8.0 to 4.1.1", FixedIn: "3.9.2, 4.0.2, 4.1.2, 4.2.0",
			Affected: Version{Java, "4.1.1"}, Fixed: Version{Java, "4.2.0"},
			Red:    Red{Violated: []checker.Anomaly{checker.WrongPlace}},
			Chance: "every time",
		},
		{
			Name: "idempotence-off-by-default", Issue: "KAFKA-13598", Where: InClient,
			Summary: "the producer says that it is idempotent by default, and is not: a retry after a lost answer is " +
				"written again",
			AffectedIn: "3.0.0, 3.1.0", FixedIn: "3.0.1, 3.1.1, 3.2.0",
			Affected: Version{Java, "3.0.0"}, Fixed: Version{Java, "3.0.1"},
			Red:    Red{Violated: []checker.Anomaly{checker.Duplicate}},
			Chance: "every time",
		},
		{
			Name: "failed-in-flight", Issue: "KAFKA-14034", Where: InClient,
			Summary: "a batch that was written is answered with an error that is not retried; another one in flight is then " +
				"renumbered under a new epoch, and its retry is written again",
			AffectedIn: "up to 4.4.0, the newest that was played",
			Affected:   Version{Java, "4.4.0"},
			Red:        Red{Violated: []checker.Anomaly{checker.Duplicate}},
			Chance:     "every time",
		},
		{
			Name: "stale-sequence", Issue: "KAFKA-12152", Where: InClient,
			Summary: "a new epoch because of one partition leaves the sequence numbers of others as they were: the broker " +
				"refuses what is sent there next, and the client gives itself epoch after epoch",
			AffectedIn: "2.5.0 to 2.7.0", FixedIn: "2.7.1, 2.8.0",
			Affected: Version{Java, "2.7.0"}, Fixed: Version{Java, "2.7.1"},
			Red:    Red{Exceeded: []string{"sends-under-two-epochs", "broker-answers:OUT_OF_ORDER_SEQUENCE_NUMBER"}},
			Chance: "every time",
		},
	}
}
