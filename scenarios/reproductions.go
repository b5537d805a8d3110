// This file holds the scenarios that reproduce a defect of one version of a client or of
// the brokers. They stand in reproductions_*.go, and package defects says which versions
// they are red on.

package scenarios

// reproductions are not among the catalogue: they are no claims about Kafka, and what they
// expect is what a version without the defect does.
var reproductions []Named

func init() {
	for _, chapter := range [][]Named{
		clientReproductions(), brokerReproductions(),
	} {
		reproductions = append(reproductions, chapter...)
	}
}

// Reproductions gives the scenarios that reproduce a defect. What each expects is what a
// version without the defect shows, with proof that what provokes it happened; on one that
// has it a promise is broken, or a measure is above what is expected. Find finds them, too.
func Reproductions() []Named { return append([]Named(nil), reproductions...) }
