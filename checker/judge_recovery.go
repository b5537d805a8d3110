// This file holds the judge of recovery: after the heal, does the cluster serve
// again? Kafka gives no bound; the limit is ours.

package checker

import (
	"strconv"

	"github.com/ackproof/ackproof/histories"
)

// recoveryLimitNs is the time that a whole cluster has to serve a fresh client,
// unless twice the delivery timeout is longer.
const recoveryLimitNs int64 = 60e9

// freshSends are what fresh clients tried in one partition.
type freshSends struct {
	acknowledged bool
	first, last  int64
	event        uint32
}

func (f *findings) judgeRecovery() {
	s := f.state
	hindered := s.hindered()
	if hindered != "" {
		f.cannotTell(NotRecovered, hindered)
	}
	for _, c := range s.cluster {
		if c.What == histories.ClusterNotWhole && hindered == "" {
			f.add(NotRecovered, -1, histories.Unknown, nil, nil,
				"every fault was undone, and the cluster did not become whole within the limit: %s", c.Detail)
		}
	}
	for log, fresh := range s.freshByLog() {
		if fresh.acknowledged || hindered != "" {
			continue
		}
		d := &s.sends[s.events[fresh.event].first-1]
		if fresh.last-fresh.first < s.recoveryLimit(d) {
			f.cannotTell(NotRecovered, "a fresh client's sends were not acknowledged, but it was not given the whole limit")
			continue
		}
		f.add(NotRecovered, log, histories.Unknown, []uint32{fresh.event}, nil,
			"the cluster said that it is whole, and for %d s no send of a fresh client to %s was acknowledged",
			(fresh.last-fresh.first)/1e9, s.logName(log))
	}
}

// hindered says what kept the cluster from recovering that is no fault of its own: a
// process that does not run, a fault that is still on; "": nothing did.
func (s *state) hindered() string {
	notHealed := ""
	for _, c := range s.cluster {
		switch c.What {
		case histories.ClusterBrokerExited:
			return "a cluster recovers where every process runs, and " + c.Detail
		case histories.ClusterNotHealed:
			notHealed = "a cluster recovers once every fault is undone, and one could not be: " + c.Detail
		case histories.ClusterHealed: // tried again
			notHealed = ""
		}
	}
	return notHealed
}

// freshByLog gathers the sends of fresh sessions by the partition asked for.
func (s *state) freshByLog() map[int32]freshSends {
	result := make(map[int32]freshSends)
	for i := range s.sends {
		d := &s.sends[i]
		if p := s.sessions[d.process].producer; p == nil || !p.Fresh || d.asked < 0 {
			continue
		}
		log := s.log(histories.Partition{Topic: s.topics.list[d.topic], Partition: d.asked})
		fresh, known := result[log]
		if !known {
			fresh = freshSends{first: d.invoked, last: d.invoked, event: d.event}
		}
		fresh.acknowledged = fresh.acknowledged || s.confirmed(d)
		fresh.first = min(fresh.first, d.invoked)
		fresh.last = max(fresh.last, d.invoked, d.returned)
		result[log] = fresh
	}
	return result
}

// recoveryLimit is max(60 s, twice the delivery timeout), in nanoseconds.
func (s *state) recoveryLimit(d *send) int64 {
	ms, err := strconv.ParseInt(s.configurationOf(d).Producer[histories.PropertyDeliveryTimeout], 10, 64)
	if err != nil {
		return recoveryLimitNs
	}
	return max(recoveryLimitNs, 2*ms*1e6)
}
