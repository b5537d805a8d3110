// This file holds the defects of brokers.

package defects

import "github.com/ackproof/ackproof/checker"

func brokerDefects() []Defect {
	return []Defect{
		{
			Name: "last-replica-standing", Issue: "KIP-966", Where: InBroker,
			Summary: "the last replica in sync loses power, and what its disk had not got is lost with it, though two others " +
				"have it: only a replica in sync may lead",
			AffectedIn: "without eligible leader replicas: up to 4.0", FixedIn: "4.1.0 (new clusters)",
			Affected: Version{Kafka, "3.9.1"}, Fixed: Version{Kafka, "4.1.0"},
			Red:    Red{Exceeded: []string{"lost-write"}},
			Chance: "every time",
		},
		{
			Name: "wiped-replica-in-sync", Issue: "KAFKA-14139", Where: InBroker,
			Summary: "a follower that came back with an empty disk is called in sync by a request from before, and then leads: " +
				"what was acknowledged is lost",
			AffectedIn: "up to 3.4", FixedIn: "3.5.0",
			Affected: Version{Kafka, "3.4.1"}, Fixed: Version{Kafka, "3.9.1"},
			Red: Red{Violated: []checker.Anomaly{checker.LostWrite},
				// Offsets are given again.
				Maybe: []checker.Anomaly{checker.WrongOffset, checker.Divergence, checker.VanishedRead, checker.EpochRegression}},
			Chance: "every time",
		},
	}
}
