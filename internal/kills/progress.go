// This file holds how far a run had come, as the lines of its history tell.

package kills

import (
	"github.com/ackproof/ackproof/histories"
)

// progress is how far a run had come.
type progress struct {
	latest                int64 // of all times
	sent                  int64
	faults                map[string]bool // that are on
	closed, reads, healed bool
	end                   bool
}

func newProgress() *progress { return &progress{faults: make(map[string]bool)} }

func (p *progress) take(line histories.Line) {
	switch l := line.(type) {
	case *histories.Send:
		p.sent++
		p.at(l.Time)
	case *histories.SendReturn:
		p.at(l.Time)
	case *histories.Attempt:
		p.at(l.End)
	case *histories.Poll:
		p.at(l.Time)
	case *histories.PollReturn:
		p.at(l.Time)
	case *histories.ProducerClose:
		p.closed = true
		p.at(l.Time)
	case *histories.FaultStart:
		p.faults[l.ID] = true
		p.at(l.Time)
	case *histories.FaultEnd:
		delete(p.faults, l.ID)
		p.at(l.Time)
	case *histories.ClusterEvent:
		// After the last fault the cluster is healed and said to be whole.
		p.healed = p.healed || l.What == histories.ClusterHealed || l.What == histories.ClusterNotHealed
		p.at(l.Time)
	case *histories.FinalRecords, *histories.FinalRead, *histories.ReplicaRecords, *histories.ReplicaRead:
		p.reads = true
	case *histories.End:
		p.end = true
		p.at(l.Time)
	}
}

func (p *progress) at(time int64) { p.latest = max(p.latest, time) }

func (p *progress) phase(verdict bool) string {
	switch {
	case verdict:
		return PhaseOver
	case p.end:
		return PhaseConcluding
	case p.reads:
		return PhaseReading
	case p.closed, p.healed:
		return PhaseHealing
	case p.sent == 0:
		return PhaseStarting
	case len(p.faults) > 0:
		return PhaseFault
	}
	return PhaseWorking
}
