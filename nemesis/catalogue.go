// This file holds the catalogue: every fault that there is, in one list.

package nemesis

// Catalogue gives every fault that there is: those that a healthy cluster must
// survive first, then the lies.
func Catalogue() []Fault {
	return []Fault{
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
}
