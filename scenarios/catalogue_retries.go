// This file holds the scenarios about retries: what a lost answer and a refused batch
// do to duplicates and order, with and without idempotence.

package scenarios

import (
	"fmt"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// The names of properties, short enough to be read in a list.
const (
	idempotenceOn  = histories.PropertyIdempotence + "=true"
	idempotenceOff = histories.PropertyIdempotence + "=false"
	oneInFlight    = histories.PropertyMaxInFlight + "=1"
	fiveInFlight   = histories.PropertyMaxInFlight + "=5"
	sixInFlight    = histories.PropertyMaxInFlight + "=6"
)

// Sources that several scenarios name.
const (
	sourceKIP98      = "KIP-98, Exactly Once Delivery and Transactional Messaging"
	sourceInFlight   = "Kafka's producer configuration, max.in.flight.requests.per.connection"
	sourceStateEntry = "Kafka's storage/…/ProducerStateEntry.java and ProducerAppendInfo.java"
)

func retriesAndOrder() []Named {
	return []Named{lostAck(), lostAckIdempotent(), reorderInFlight(), oneInFlightScenario(),
		idempotentFiveInFlight(), moreThanFive()}
}

func lostAck() Named {
	return Named{
		Name:  "lost-ack",
		Claim: "acks=all, retries on, idempotence off: the write is committed, its response is lost, the retry writes it again",
		Story: `A shop charges payments through Kafka. The producer of payment #42 sends it; the leader appends it,
the followers copy it, and the leader answers "done". That answer never arrives: the connection breaks on the way
back.

The producer now knows nothing. Either the request was lost, and the payment is not in the log; or the answer was, and
it is. From where the producer stands both look the same. With retries on (the default) it assumes the worse and sends
payment #42 again.

Nothing in the second request tells the broker that it has seen this payment before: without idempotence a batch
carries neither a producer id nor a sequence number. So the broker appends it again, answers "done", and this time the
answer arrives. The producer reports one success. The log holds the payment twice, and whoever reads it charges the
customer twice.

acks=all does not help: it decides when a write counts as done, and both writes were. The remedy is
enable.idempotence=true (the default of Kafka's own client since 3.0): see lost-ack-idempotent.`,
		Sources: []string{sourceKIP98 + " (its motivation: retries make duplicates)",
			"Kafka's producer configuration, retries"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOn)}, {Producer: with("retries=0")}},

		configure: setProducer("acks=all", idempotenceOff),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("duplicate", 1, "the retry of payment #42 was appended a second time"),
				exactly("unanswered-attempts", 1, "one answer was lost"),
				none("lost-write", "a lost answer loses no event"),
				none("errors", "the producer never learnt of anything: every send was reported as a success"),
			}
		},
		play: func(s *script) { payFortyTwo(s, s.open("shop")) },
	}
}

// payFortyTwo sends a hundred payments; the first answer about number 42 is lost.
func payFortyTwo(s *script, p *session) {
	p.warm()
	for i := range 42 {
		p.send(payment(i))
	}
	p.settle(stepLimit)
	lost := s.begin("lost-response:every=1,count=1,key=" + payment(42))
	p.send(payment(42))
	lost.bit()
	p.settle(stepLimit)
	lost.end()
	for i := 43; i < 100; i++ {
		p.send(payment(i))
	}
	p.settle(stepLimit)
}

func payment(number int) string { return fmt.Sprintf("payment-%d", number) }

func lostAckIdempotent() Named {
	return Named{
		Name:  "lost-ack-idempotent",
		Claim: "the same with idempotence: the broker answers the retry with the first offset, nothing is written twice",
		Story: `The same payment #42, the same lost answer, and enable.idempotence=true. Now the producer has an id,
and each batch for a partition bears a sequence number. The retry carries the same id and the same number as the first
attempt.

The leader remembers, for each producer, the last batches that it appended. It finds this one among them, appends
nothing, and answers "done" with the offset at which the batch has been all along. On the wire one sees two attempts
and one offset; in the log one payment.

That holds for a retry by the client library. It does not hold for an application that sends the payment again: see
new-session-resend and same-event-sent-twice.`,
		Sources: []string{sourceKIP98, sourceStateEntry},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				atLeast("recognised-retries", 1, "the retry was answered with the offset of the first attempt"),
				exactly("unanswered-attempts", 1, "one answer was lost"),
				none("duplicate", "nothing was written twice"),
				none("lost-write", "a lost answer loses no event"),
			}
		},
		play: func(s *script) { payFortyTwo(s, s.open("shop")) },
	}
}

func reorderInFlight() Named {
	return Named{
		Name: "reorder-in-flight",
		Claim: "five in flight, idempotence off: a batch that failed is retried behind its successors; " +
			"paid lands before created for one key",
		Story: `An order is first created, then paid: two events of one key, so they go to one partition, and a
reader relies on their order.

The producer has up to five requests in flight on a connection: it does not wait for the answer about "created" before
it sends "paid". Say the broker refuses the batch with "created", because it is just losing the leadership, and takes
the one with "paid" a moment later. The producer retries the refused one, as it should. By then "paid" is in the log.
The order was paid before it existed.

It takes no lost connection and no crash: any error that is retried is enough, as long as a later request is already
on its way. The remedies are idempotence (see idempotent-five-in-flight), or one request in flight (see one-in-flight
for what that costs and what it does not remedy).`,
		Sources: []string{sourceInFlight + " (which warns of reordering by retries)"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOn)}, {Producer: with(oneInFlight)}},

		configure: setProducer("acks=all", idempotenceOff, fiveInFlight),
		expect: func(c Subject) []checker.Expectation {
			expected := []checker.Expectation{
				atLeast("order-violation", 1, "an order was paid before it was created"),
				atLeast("retried-sends", 1, "a refused batch was sent again"),
				none("lost-write", "a refusal loses no event"),
			}
			if c.Java() {
				return append(expected, none("duplicate", "what was refused had not been written, and Java retries nothing else"))
			}
			if c.FranzGo() {
				return append(expected, atLeast("duplicate", 1,
					"franz-go sends everything again that it had sent behind the refused batch, and that had been written"))
			}
			return expected
		},
		play: func(s *script) { orders(s, s.open("shop")) },
	}
}

// orders creates and pays orders while single requests are refused.
func orders(s *script, p *session) {
	p.warm()
	refused := s.begin("refuse:error=NOT_LEADER_OR_FOLLOWER,every=7,count=5,retries=never")
	for _, order := range keys("order", 40) {
		p.send(order) // created
		p.send(order) // paid
	}
	refused.bit()
	p.settle(stepLimit)
	refused.end()
}

// laterOrders creates orders while single answers are lost.
func laterOrders(p *session) {
	lost := p.begin("lost-response:every=10,count=3,retries=never")
	for _, order := range keys("later-order", 40) {
		p.send(order)
	}
	lost.bit()
	p.settle(stepLimit)
	lost.end()
}

// Latency of each answer, so that what is in flight counts, and how many events show it.
const (
	latency        = "hold-back:side=answer,by=20ms,every=1"
	throughputSize = 200
)

// throughput sends as fast as the producers can, with a network of some milliseconds.
func throughput(s *script, producers ...*session) {
	slow := s.begin(latency)
	for _, p := range producers {
		p.warm()
		for _, key := range keys("measured", throughputSize) {
			p.send(key)
		}
		p.settle(stepLimit)
	}
	slow.end()
}

func oneInFlightScenario() Named {
	return Named{
		Name: "one-in-flight",
		Claim: "the same faults and lost responses, one in flight: order holds, duplicates do not go " +
			"away; what it costs in throughput is measured",
		Story: `The classical advice against disorder is max.in.flight.requests.per.connection=1: the next batch
leaves only when the last one was answered, so nothing can overtake it. That is true, and this scenario shows it: the
faults that reorder with five in flight do not with one.

It is often read as "and then every event is there once". It is not so. A lost answer is retried with one in flight
exactly as with five, and written twice. One in flight remedies order alone.

It has a price. With one request in flight a connection carries one batch per round trip. The scenario measures it
over a network where each answer takes 20 ms: the same events from a producer with one in flight and from one with
five. Idempotence with five in flight has order, no duplicates and the throughput of five: see
idempotent-five-in-flight. There is little reason left for one in flight.`,
		Sources: []string{sourceInFlight, "KAFKA-3197: one in flight keeps order also when the leader moves"},
		Essence: []Break{{NoFaults: true}, {Producer: with(fiveInFlight)}, {Producer: with(idempotenceOn, fiveInFlight)}},

		configure: setProducer("acks=all", idempotenceOff, oneInFlight),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				none("order-violation", "nothing overtook a batch that was refused"),
				atLeast("duplicate", 1, "the retry after a lost answer was written again"),
				none("lost-write", "neither loses an event"),
				atLeast("events-per-second{five}/events-per-second{one}", 2,
					"five in flight carry several times what one carries, where an answer takes 20 ms"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			orders(s, p)
			laterOrders(p)
			throughput(s, s.open("one"), s.open("five", set{histories.PropertyMaxInFlight, "5"}))
		},
	}
}

func idempotentFiveInFlight() Named {
	return Named{
		Name:  "idempotent-five-in-flight",
		Claim: "five in flight with idempotence: order holds, no duplicates, throughput of five in flight",
		Story: `The same refusals and lost answers as in one-in-flight, now with enable.idempotence=true and five
requests in flight.

Order holds although later batches are on their way when one is refused: the broker sees by the sequence numbers that
one is missing and refuses the later ones too (OUT_OF_ORDER_SEQUENCE_NUMBER), until the missing one has come. The
client sends them again in order. Duplicates do not arise, because a batch that was written is recognised by its
number.

And nothing was given up for it: the throughput is that of five in flight. The scenario measures it beside a producer
with one in flight.`,
		Sources: []string{sourceKIP98, "KAFKA-5494: idempotence with up to five in flight", sourceStateEntry},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn, fiveInFlight),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				none("order-violation", "the broker takes batches in the order of their sequence numbers alone"),
				none("duplicate", "a batch that was written is recognised"),
				none("lost-write", "neither loses an event"),
				atLeast("retried-sends", 1, "batches were refused and answers lost, and sent again"),
				atLeast("events-per-second{five}/events-per-second{one}", 2,
					"with idempotence too, five in flight carry several times what one carries"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			orders(s, p)
			laterOrders(p)
			// franz-go has no idempotence with one in flight, so the one beside it has none.
			throughput(s, s.open("one", set{histories.PropertyIdempotence, "false"}, set{histories.PropertyMaxInFlight, "1"}),
				s.open("five"))
		},
	}
}

func moreThanFive() Named {
	return Named{
		Name:  "more-than-five",
		Claim: "more than five in flight with idempotence is refused, by each client in its own way",
		Story: `The broker remembers the last five batches of a producer and partition (see five-batch-window). With
more than five in flight a retry could be of a batch that it has forgotten, so the clients do not let it come to that.

Each has its own way. Kafka's Java client from 4.0 on refuses to be created (ConfigException) whenever
max.in.flight.requests.per.connection is above 5 and idempotence is not switched off by name. Its 3.x versions refuse
only where idempotence was asked for by name; where it was on by default they switched it off and said so in a line of
the log: the application went on without idempotence. franz-go refuses any number of requests in flight with
idempotence, and always has five.

The scenario asks twice: once with enable.idempotence=true, and once with nothing but six in flight.`,
		Sources: []string{"Kafka's clients/…/ProducerConfig.java (postProcessAndValidateIdempotenceConfigs)", sourceInFlight,
			"franz-go's kgo.MaxProduceRequestsInflightPerBroker"},
		Essence: []Break{{Producer: with(fiveInFlight)}, {Producer: with(idempotenceOff)}},

		expect: func(c Subject) []checker.Expectation {
			refusals, why := 2.0, "both were refused: six in flight by name, and six in flight alone"
			if c.JavaBefore(4, 0) {
				refusals, why = 1, "refused where idempotence was asked for by name; where it was on by default it was switched off silently"
			}
			expected := []checker.Expectation{none("lost-write", "those that were opened work")}
			if !c.Java() && !c.FranzGo() { // idempotence may be off by default
				return append(expected, atLeast("refused-producers", 1, "six in flight with idempotence by name was refused"))
			}
			return append(expected, exactly("refused-producers", refusals, why))
		},
		play: func(s *script) {
			six := set{histories.PropertyMaxInFlight, "6"}
			s.refused("six-by-name", set{histories.PropertyIdempotence, "true"}, six)
			s.refused("six", six)
			p := s.open("five")
			p.warm()
			for _, order := range keys("order", 20) {
				p.send(order)
			}
			p.settle(stepLimit)
		},
	}
}
