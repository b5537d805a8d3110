// This file holds the catalogue: every fault that there is, in one list.

package nemesis

import "slices"

// catalogue does not change.
var catalogue = []Fault{
	lostResponse(),
	cutBefore(),
	refuse(),
	holdBack(),
	moveLeader(),
	brokerLeave(),

	acknowledgeUnwritten(),
	writeTwice(),
	swapBatches(),
	corruptByte(),
	divergeReads(),
	restartLosingSuffix(),
}

// Catalogue gives every fault that there is: those that a healthy cluster must
// survive first, then the lies.
func Catalogue() []Fault { return slices.Clone(catalogue) }
