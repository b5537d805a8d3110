// This file holds the catalogue: every fault that there is, in one list.

package nemesis

import "slices"

// catalogue does not change once it is made; functions that faults are made of look
// into it, so that it is made when the program starts.
var catalogue []Fault

func init() {
	catalogue = []Fault{
		lostResponse(),
		cutBefore(),
		refuse(),
		holdBack(),
		stopReading(),
		moveLeader(),
		brokerLeave(),
		replay(),
		addPartitions(),

		isolate(),
		majorityMinority(),
		oneWay(),
		cutReplication(),
		cutControllers(),
		cutClients(),
		loss(),
		kill(),
		pause(),
		shutdown(),
		restart(),
		rollingRestart(),
		killAll(),
		uncleanElection(),
		loseLogs(),

		acknowledgeUnwritten(),
		writeTwice(),
		swapBatches(),
		corruptByte(),
		divergeReads(),
		restartLosingSuffix(),
	}
}

// Catalogue gives every fault that there is: those that a healthy cluster must
// survive first, then the lies.
func Catalogue() []Fault { return slices.Clone(catalogue) }
