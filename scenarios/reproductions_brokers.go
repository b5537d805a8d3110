// This file holds the reproductions of defects of brokers.

package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func brokerReproductions() []Named {
	return []Named{lastReplicaStanding(), wipedReplicaInSync()}
}

// safe is how many events are acknowledged before anything goes wrong.
const safe = 20

func lastReplicaStanding() Named {
	return Named{
		Name:  "last-replica-standing",
		Claim: "what min.insync.replicas brokers acknowledged is not lost when the last replica in sync loses its disk's writes",
		Story: `Three replicas have an event, min.insync.replicas=2, and it was acknowledged. Then the followers fall
behind, one after the other, and the in-sync set shrinks to the leader. It refuses all further writes: nothing is
acknowledged any more that only it has. So far all is well.

Now its machine loses power. Kafka does not sync what it writes, so what the disk had not got is gone. The two others
have every acknowledged event. But only a replica of the in-sync set may lead, and that is the one that lost them. When
it comes back it leads, with what it has left, and the others cut off what it does not have.

Eligible leader replicas (KIP-966) end that: a replica that leaves the set while it shrinks below min.insync.replicas is
remembered as one that has everything acknowledged, and is elected. New clusters have them from 4.1 on.

The scenario cuts the followers off from the leader until it alone is in sync, kills it, empties its log, lets the
followers reach it again, and starts it.`,
		Sources: []string{"KIP-966 (the last replica standing)", "Kafka's broker configuration, log.flush.interval.messages"},
		Essence: []Break{{NoFaults: true}},

		OnlyContainers: oneSharedLog,
		configure:      setProducer("acks=all"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("acknowledged{shop}", safe, "three replicas had them"),
				none("lost-write", "two of the three still have them"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			for _, key := range keys("order", safe) {
				p.send(key)
			}
			p.settle(stepLimit)
			before := s.leader()
			cut := s.begin("cut-replication:broker=leader,partition=" + s.aPartition())
			p.send("unanswered") // a follower is behind only where there is something that it lacks
			s.until(stepLimit, "the leader alone is in sync", func() bool { return cut.none() || s.inSync() == 1 })
			lost := s.begin("lose-logs:broker=leader,partition=" + s.aPartition())
			p.send("meanwhile")
			// Where others are eligible, one of them leads as soon as the leader's end is noticed.
			s.within(2*noticed, func() bool { now := s.leader(); return now >= 0 && now != before })
			cut.end()
			lost.end()
			s.whole()
			p.settle(stepLimit)
		},
	}
}

// noticed is within how long the controller notices that a broker is gone.
const noticed = 6 * time.Second

// The limits of a wiped broker's scenario: nobody is called gone or behind only because the
// steps take their time.
const patience = "50000"

func wipedReplicaInSync() Named {
	return Named{
		Name:  "wiped-replica-in-sync",
		Claim: "a replica that comes back with an empty disk is in sync only once it has everything again",
		Story: `A follower was away. The leader went on alone, as min.insync.replicas=1 allows, and acknowledged. The
follower comes back and catches up, and the leader asks the controller to take it into the in-sync set. The request is
slow. Before it arrives, the follower goes away again, and comes back with an empty disk.

Up to 3.4 the controller saw nothing wrong with the request: the follower is registered, and nothing about the partition
has changed. It is in sync now, and holds nothing. When the leader goes away in its turn, the follower leads, with an
empty log, and the old leader cuts off everything it has, to be like it.

From 3.5 on the request says which registration of the follower it means (its broker epoch), and the controller refuses
to take in another one (KIP-903).

The scenario makes the request slow by cutting the leader off from the other controllers.`,
		Sources: []string{"KAFKA-14139", "KIP-903 (replicas with a stale broker epoch do not join the ISR)"},
		Essence: []Break{{NoFaults: true}},

		OnlyContainers:  oneSharedLog,
		choosePartition: true,
		configure: func(s *Scenario) {
			setProducer("acks=all", histories.PropertyDeliveryTimeout+"=60000")(s)
			s.Topics.Partitions, s.Topics.ReplicationFactor = 6, 2
			s.Topics.Properties[histories.PropertyMinInsyncReplicas] = "1"
			s.Cluster.Properties = map[string]string{"broker.session.timeout.ms": patience, "replica.lag.time.max.ms": patience}
		},
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("acknowledged{shop}", safe, "the leader had them, and it alone was in sync"),
				none("lost-write", "its disk was never touched"),
			}
		},
		play: playWipedReplica,
	}
}

// playWipedReplica lets the leader's request to take its follower into the in-sync set
// arrive after the follower came back with an empty disk.
func playWipedReplica(s *script) {
	p := s.open("shop")
	at := s.withoutController()
	if s.over() {
		return
	}
	leader, follower := at.Broker, at.Replicas[0]+at.Replicas[1]-at.Broker
	p.sendTo(at.Partition, "warm-up", 0)
	p.settle(stepLimit)

	away := s.begin(fmt.Sprintf("shutdown:broker=%d", follower))
	s.until(stepLimit, "the leader alone is in sync", func() bool { return away.none() || len(s.inSyncIn(at)) == 1 })
	for _, key := range keys("order", safe) {
		p.sendTo(at.Partition, key, 0)
	}
	p.settle(stepLimit)

	// The leader must know that the follower is back, and it must not have caught up yet.
	unread := s.begin(fmt.Sprintf("cut-replication:broker=%d", leader))
	p.sendTo(at.Partition, "not-caught-up", 0)
	away.end()
	slow := s.begin(fmt.Sprintf("cut-controllers:broker=%d", leader))
	p.sendTo(at.Partition, "slow", 0)
	unread.end() // it catches up, and the leader asks that it be taken in
	s.wait(caughtUp)
	p.sendTo(at.Partition, "caught-up", 0)
	p.settle(stepLimit)
	unread = s.begin(fmt.Sprintf("cut-replication:broker=%d", leader))
	lost := s.begin(fmt.Sprintf("lose-logs:broker=%d,ends=in-order,logs=%s", follower, at.Name())).bit()
	p.sendTo(at.Partition, "unanswered", 0)
	lost.end()
	slow.end()
	s.within(2*noticed, func() bool { return len(s.inSyncIn(at)) == 2 })
	gone := s.begin(fmt.Sprintf("shutdown:broker=%d", leader)).bit()
	p.sendTo(at.Partition, "meanwhile", 0)
	unread.end()
	s.within(noticed, func() bool { now, ok := s.partition(at); return ok && now.Broker == follower })
	gone.end()
	s.whole()
	p.settle(2 * stepLimit)
}

// caughtUp is how long a follower may take to connect again and fetch a few events. Nobody
// says from outside when it has.
const caughtUp = 10 * time.Second

// withoutController gives a partition that has no replica on the broker which is the active
// controller, so that its replicas may come and go.
func (s *script) withoutController() clusters.Leader {
	roles, can := s.cluster.(clusters.RoleTeller)
	if !can {
		s.fail("asking for the active controller: this cluster does not say")
	}
	if s.over() {
		return clusters.Leader{}
	}
	controller, err := roles.Controller(s.ctx)
	if err != nil {
		s.fail("asking for the active controller: %w", err)
	}
	for _, l := range s.leadersOf(s.topic) {
		if !slices.Contains(l.Replicas, controller) {
			return l
		}
	}
	s.fail("every partition has a replica on broker %d, the active controller", controller)
	return clusters.Leader{}
}

// inSyncIn gives the replicas of a partition that are in sync; nil: not known.
func (s *script) inSyncIn(of clusters.Leader) []int32 {
	now, _ := s.partition(of)
	return now.InSync
}
