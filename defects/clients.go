// This file holds the defects of client libraries.

package defects

import "github.com/ackproof/ackproof/checker"

func clientDefects() []Defect {
	return []Defect{
		{
			Name: "idempotence-off-by-default", Issue: "KAFKA-13598", Where: InClient,
			Summary: "the producer says that it is idempotent by default, and is not: a retry after a lost answer is " +
				"written again",
			AffectedIn: "3.0.0, 3.1.0", FixedIn: "3.0.1, 3.1.1, 3.2.0",
			Affected: Version{Java, "3.0.0"}, Fixed: Version{Java, "3.0.1"},
			Red:      Red{Violated: []checker.Anomaly{checker.Duplicate}},
			Chance:   "every time",
			Scenario: "idempotence-off-by-default", Play: playScenario("idempotence-off-by-default"),
		},
	}
}
