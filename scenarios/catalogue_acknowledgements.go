// This file holds the scenarios about acknowledgements: what acks and min.insync.replicas
// are worth when a leader is lost, and what an error says about a write.

package scenarios

import (
	"fmt"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func acknowledgements() []Named {
	return []Named{acksZero(), acksOne(), minISRTwo(), minISROne(), notEnoughReplicas(), quorumLost(),
		deliveryTimeout(), retriesZero()}
}

const (
	oneSharedLog = "its brokers share one log: nothing there is replicated, and nothing is lost with a leader"
	underLoad    = 300 // events a second
)

func acksZero() Named {
	return Named{
		Name:  "acks-zero",
		Claim: "acks=0: loss when the leader is replaced or a connection breaks, and how much",
		Story: `With acks=0 the producer asks for no answer, and there is none. The client library reports success
as soon as the request is written to its socket. What becomes of it there, nobody tells.

When a leader stops, what was written to its connection is gone. And the client does not even learn that there is a
new leader: no answer can say NOT_LEADER_OR_FOLLOWER. It goes on writing to the old one until the connection breaks or
it happens to refresh its metadata, and reports success for every event.

The verdict calls these unconfirmed losses: the library reported a success that no broker ever gave. On real brokers
the leader is frozen for some seconds while events are written; on the embedded cluster, connections are cut.`,
		Sources: []string{"Kafka's producer configuration, acks",
			"Kafka's clients/…/Sender.java (acks=0 completes when the request is sent)"},
		Essence: []Break{{NoFaults: true}, {Producer: with("acks=all")}},

		configure: setProducer("acks=0"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("unconfirmed-losses", 1, "events that the library reported as sent are not in the log"),
				none("lost-write", "none of them was acknowledged by a broker, so no promise is broken"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			stop := p.load(underLoad, keys("order", 10)...)
			if s.real() {
				paused := s.begin("pause:broker=leader,partition=" + s.aPartition()).bit()
				s.wait(6 * time.Second)
				paused.end()
				s.whole()
			} else {
				s.whileLoaded("cut-before:every=10,count=10", 2*time.Second)
			}
			s.wait(time.Second)
			stop()
			p.settle(stepLimit)
		},
	}
}

func (s *script) real() bool { return s.scenario.Cluster.Provider != ProviderEmbedded }

func acksOne() Named {
	return Named{
		Name:  "acks-one",
		Claim: "acks=1: loss when the leader is replaced, and how much",
		Story: `With acks=1 the leader answers as soon as it has appended the batch itself. The followers fetch it a
moment later. If the leader dies in that moment, one of them becomes the leader, and what it had not fetched is gone,
although it was acknowledged. When the old leader returns it cuts off what the new one does not have.

That moment is short on a healthy cluster: milliseconds. It is as long as replication lags: on a busy disk or a bad
network, seconds. The scenario makes it a second and a half: the followers are cut off from the leader, which goes on
acknowledging; they stay in the in-sync set until replica.lag.time.max.ms has passed; within that time the leader is
killed.

What is lost is everything that was acknowledged in that time. Nothing of it broke a promise: acks=1 promises nothing
else.`,
		Sources: []string{"Kafka's producer configuration, acks", "KIP-101, KIP-279 (a returning leader truncates its log)"},
		Essence: []Break{{NoFaults: true}, {Producer: with("acks=all")}},

		OnlyContainers: oneSharedLog,
		configure:      setProducer("acks=1"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("lost-write", 1, "acknowledged events are not in the log"),
				none("failed", "the producer never learnt of it"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			stop := p.load(underLoad, keys("order", 10)...)
			s.wait(time.Second)
			before := s.leader()
			cut := s.begin("cut-replication:broker=leader,partition=" + s.aPartition())
			s.wait(1500 * time.Millisecond)
			killed := s.begin("kill:broker=leader,partition=" + s.aPartition()).bit()
			s.until(stepLimit, "another broker leads", func() bool {
				now := s.leader()
				return killed.id == "" || (now >= 0 && now != before)
			})
			cut.end()
			killed.end()
			s.whole()
			s.wait(time.Second)
			stop()
			p.settle(stepLimit)
		},
	}
}

// electUncleanly cuts replication, kills the leader that is alone in sync, and elects a
// replica that lacks what it wrote last, under load.
func electUncleanly(s *script) {
	p := s.open("shop")
	p.warm()
	stop := p.load(underLoad, keys("order", 10)...)
	s.wait(time.Second)
	s.begin("unclean-election:partition=" + s.aPartition()).bit().end()
	s.whole()
	s.wait(time.Second)
	stop()
	p.settle(time.Minute)
}

func minISRTwo() Named {
	return Named{
		Name: "min-isr-two",
		Claim: "replication cut, leader killed, unclean election: with min.insync.replicas=2 nothing " +
			"acknowledged is lost (writes are refused)",
		Story: `The worst that can happen to a partition: its followers fall behind until only the leader is in
sync, the leader dies, and an operator elects a follower all the same (an unclean election), because an old log is
better than none. (From Kafka 4.1 on a new cluster remembers who else has everything, its eligible leader replicas,
and elects one of them by itself.)

With acks=all and min.insync.replicas=2 the leader refuses writes as soon as it is alone (NOT_ENOUGH_REPLICAS). It
acknowledges nothing that only it has. So the election loses nothing that was acknowledged: there was nothing. The
price is paid before: for as long as the leader is alone nobody can write.

Compare min-isr-one, which is Kafka's default.`,
		Sources: []string{"Kafka's topic configuration, min.insync.replicas", "KIP-106 (unclean election)"},
		Essence: []Break{{NoFaults: true}, {Topic: with("min.insync.replicas=1")}},

		OnlyContainers: oneSharedLog,
		configure: func(s *Scenario) {
			setProducer("acks=all")(s)
			s.Topics.Properties[histories.PropertyMinInsyncReplicas] = "2"
		},
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				none("lost-write", "nothing that was acknowledged is missing"),
				atLeast("answers:NOT_ENOUGH_REPLICAS", 1, "the lonely leader refused to write"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			stop := p.load(underLoad, keys("order", 10)...)
			s.wait(time.Second)
			before := s.leader()
			cut := s.begin("cut-replication:broker=leader,partition=" + s.aPartition())
			s.until(stepLimit, "the leader is alone in sync", func() bool { return cut.id == "" || s.inSync() == 1 })
			refused := s.recorder.Counts().AttemptsRefused
			s.until(stepLimit, "it refuses to write", func() bool {
				return cut.id == "" || s.recorder.Counts().AttemptsRefused >= refused+enoughRefused
			})
			killed := s.begin("kill:broker=leader,partition=" + s.aPartition()).bit()
			cut.end()
			if killed.id != "" {
				s.electAnyone(before)
			}
			killed.end()
			s.whole()
			s.wait(time.Second)
			stop()
			p.settle(time.Minute)
		},
	}
}

// enoughRefused are so many refusals that some are of what came after the leader was alone:
// requests that had been waiting for the followers are answered with a timeout first.
const enoughRefused = 3

// inSync gives how many replicas of partition 0 of the script's topic are in sync.
func (s *script) inSync() int {
	now, known := s.partition(clusters.Leader{Topic: s.topic})
	if !known {
		return -1
	}
	return len(now.InSync)
}

// electAnyone has any living replica elected, as an operator does who wants a leader at
// any price. Where the controller elects one by itself (eligible leader replicas, KIP-966),
// there is nothing left to elect.
func (s *script) electAnyone(before int32) {
	elector, can := s.cluster.(clusters.UncleanElector)
	if !can {
		s.fail("electing a leader: this cluster cannot be told to")
		return
	}
	led := func() bool { now := s.leader(); return now >= 0 && now != before }
	s.until(stepLimit, "another broker leads", func() bool {
		if led() {
			return true
		}
		_, err := elector.ElectUnclean(s.ctx, s.topic, 0)
		return err == nil && led()
	})
}

func minISROne() Named {
	return Named{
		Name:  "min-isr-one",
		Claim: "the same with min.insync.replicas=1: what the lonely leader acknowledged is lost",
		Story: `The same cut, kill and unclean election as in min-isr-two, with min.insync.replicas=1, which is
Kafka's default.

acks=all means all replicas that are in sync. Once the followers have dropped out, that is the leader alone, and
acks=all is worth as much as acks=1: the leader goes on acknowledging what only it has. When it dies and a follower is
elected, all of that is gone.

acks=all is half of a setting. The other half is min.insync.replicas.`,
		Sources: []string{"Kafka's topic configuration, min.insync.replicas", "KIP-966 (eligible leader replicas)"},
		Essence: []Break{{NoFaults: true}, {Topic: with("min.insync.replicas=2")}},

		OnlyContainers: oneSharedLog,
		configure: func(s *Scenario) {
			setProducer("acks=all")(s)
			s.Topics.Properties[histories.PropertyMinInsyncReplicas] = "1"
		},
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("lost-write", 1, "acknowledged events are not in the log, with acks=all"),
				none("answers:NOT_ENOUGH_REPLICAS", "nothing was refused"),
			}
		},
		play: electUncleanly,
	}
}

func notEnoughReplicas() Named {
	return Named{
		Name:  "not-enough-replicas",
		Claim: "refused while the in-sync set is too small, served again after; nothing acknowledged lost",
		Story: `A partition with three replicas and min.insync.replicas=3, and a follower that is killed. Once the
controller has taken it out of the in-sync set, the leader refuses acks=all writes with NOT_ENOUGH_REPLICAS. It says
so before it appends anything: the event is certainly not written.

The client library retries. When the follower is back and has caught up, the retries are served, in order and once
each. An application with a patience longer than the outage notices nothing but the time.

On the embedded cluster the refusals are made on the wire, exactly as a leader gives them.`,
		Sources: []string{"Kafka's core/…/Partition.scala (appendRecordsToLeader)", "Kafka's topic configuration, min.insync.replicas"},
		Essence: []Break{{NoFaults: true}},

		configure: func(s *Scenario) {
			setProducer("acks=all", idempotenceOn)(s)
			s.Topics.Properties[histories.PropertyMinInsyncReplicas] = "3"
		},
		expect: func(Subject) []checker.Expectation {
			return append(recovered(),
				atLeast("answers:NOT_ENOUGH_REPLICAS", 1, "writes were refused while a replica was missing"),
				none("errors", "the retries were served when it was back: the application saw no error"),
				none("unanswered-sends", "and nothing stayed open"))
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			stop := p.load(underLoad, keys("order", 10)...)
			refused := func() bool { return s.recorder.Counts().AttemptsRefused > 0 }
			if s.real() {
				killed := s.begin("kill:broker=follower,partition=" + s.aPartition()).bit()
				s.until(stepLimit, "a write is refused", func() bool { return killed.id == "" || refused() })
				killed.end()
				s.whole()
			} else {
				s.whileLoaded("refuse:error=NOT_ENOUGH_REPLICAS,every=1", time.Second)
			}
			stop()
			p.settle(time.Minute)
		},
	}
}

func quorumLost() Named {
	return Named{
		Name:  "quorum-lost",
		Claim: "two of three combined nodes down: writes are unknown, not refused",
		Story: `Three nodes, each broker and controller. Two of them die. One would expect what not-enough-replicas
shows: the leader that is left refuses writes, since it is alone.

It does not. To take a replica out of the in-sync set takes the controller quorum, and two of three controllers are
gone. The in-sync set stays as it was. The leader appends the write and waits for followers that do not come; the
answer, if there is one, is a timeout. The write is neither refused nor acknowledged: it is unknown, and when the
nodes are back it is in the log.

An application that takes the timeout for "not written" and sends again, writes twice.`,
		Sources: []string{"measured on 4.1.0 and 4.4.0",
			"Kafka's core/…/Partition.scala (the in-sync set changes by the controller alone)"},
		Essence: []Break{{NoFaults: true}},

		OnlyContainers: "it has no controllers that could lose their quorum",
		configure:      setProducer("acks=all", "delivery.timeout.ms=5000"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("unknown", 1, "writes were neither acknowledged nor refused"),
				none("answers:NOT_ENOUGH_REPLICAS", "the leader did not know that it was alone"),
				atLeast("ghosts", 1, "and were in the log when the nodes were back"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			leader := s.leader()
			var killed []fault
			for _, broker := range s.cluster.Description().Brokers {
				if broker != leader {
					killed = append(killed, s.begin(fmt.Sprintf("kill:broker=%d", broker)).bit())
				}
			}
			for i := range 20 {
				p.send(payment(i))
			}
			p.settle(stepLimit)
			for _, f := range killed {
				f.end()
			}
			s.whole()
		},
	}
}

func deliveryTimeout() Named {
	return Named{
		Name:  "delivery-timeout",
		Claim: "sends that expire are unknown: some are in the log; none surfaces behind a later one with idempotence",
		Story: `delivery.timeout.ms is how long a producer tries. When it is over the callback gets a timeout, and
the sentence that comes with it ("Expiring 5 record(s) …") is the same whether a batch was never sent, or was sent and
not answered. In the second case it may be in the log.

The scenario lets answers vanish for longer than that. Some of the sends that expire were written: ghosts, which
nobody was told of. That is the price of a limit, under any configuration.

What idempotence adds: no expired event surfaces *behind* one that was sent later and acknowledged. The client gives
later events no sequence number that would let an old attempt slip in after them.`,
		Sources: []string{"Kafka's producer configuration, delivery.timeout.ms",
			"Kafka's clients/…/TransactionManager.java (maybeResolveSequences)"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn, "delivery.timeout.ms=4000"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("unknown", 1, "sends expired, and nobody can say what became of them"),
				atLeast("ghosts", 1, "some of them are in the log"),
				none("late-ghost", "none behind a later event that was acknowledged"),
				none("duplicate", "nothing was written twice"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			silent := s.begin("lost-response:mode=stall,every=1")
			for _, order := range keys("order", 10) {
				p.send(order)
			}
			silent.bit()
			p.settle(stepLimit)
			silent.end()
			for _, order := range keys("order", 10) {
				p.send(order)
			}
			p.settle(stepLimit)
		},
	}
}

func retriesZero() Named {
	return Named{
		Name:  "retries-zero",
		Claim: "retries=0: errors that were writes",
		Story: `"To avoid duplicates, switch retries off." With retries=0 the library sends each batch once, and
reports an error where the answer is lost. Nothing is written twice by the library.

But the error is not what it seems: the batch whose answer was lost is in the log. The application is told that it
failed. If it believes that, it loses sight of an event that exists; if it sends again, it writes it twice after all,
and now without the library's help. retries=0 moves the problem from the library to the application, and switches
idempotence off with it.`,
		Sources: []string{"Kafka's producer configuration, retries",
			"Kafka's clients/…/ProducerConfig.java (retries=0 switches idempotence off)"},
		Essence: []Break{{NoFaults: true}, {Producer: with("retries=10")}},

		configure: setProducer("acks=all", idempotenceOff, "retries=0"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("errors", 3, "sends were reported as failed"),
				atLeast("ghosts", 3, "and are in the log"),
				none("duplicate", "nothing was written twice by the library"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			lost := s.begin("lost-response:every=5,count=3")
			for i := range 20 {
				p.send(payment(i))
				p.settle(stepLimit)
			}
			lost.bit().end()
		},
	}
}
