// This file holds the scenarios about error answers: what each of them says about the
// write, and what a client makes of it.

package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func errorAnswers() []Named {
	return []Named{notEnoughAfterAppend(), tooLarge(), duplicateAnswerIsSuccess(), newProducerIDMidRetry(), errorCodes()}
}

func notEnoughAfterAppend() Named {
	const refusal = "refuse:error=NOT_ENOUGH_REPLICAS_AFTER_APPEND,after=true,every=1,count=1,producer="
	return Named{
		Name:  "not-enough-after-append",
		Claim: "refused after the append: unknown, and a duplicate without idempotence",
		Story: `NOT_ENOUGH_REPLICAS and NOT_ENOUGH_REPLICAS_AFTER_APPEND differ by two words and by everything. The
first is said before anything is appended. The second is said when the batch is in the leader's log already, and the
in-sync set became too small while the leader waited for the followers.

So it is an error that was a write. A client that retries it without idempotence writes twice. One that does not retry
tells its application of a failure that is in the log. With idempotence the retry is recognised.

Since Kafka 3.7 brokers say it rarely (REQUEST_TIMED_OUT takes its place); it is made here on the wire, after the
broker has served the request, which is when a broker says it.`,
		Sources: []string{"Kafka's core/…/Partition.scala (checkEnoughReplicasReachOffset)", "KAFKA-15583"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all"),
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("copies{plain}", 1, "without idempotence the retry was written again"),
				none("copies{idempotent}", "with idempotence it was recognised"),
				atLeast("recognised-retries{idempotent}", 1, "and answered with the first offset"),
				exactly("errors{once}", 1, "without retries the application was told of a failure"),
				exactly("in-log{once}", 2, "that is in the log"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			for _, p := range []*session{
				s.open("plain", set{histories.PropertyIdempotence, "false"}),
				s.open("idempotent", set{histories.PropertyIdempotence, "true"}),
				s.open("once", set{histories.PropertyIdempotence, "false"}, set{histories.PropertyRetries, "0"}),
			} {
				p.warm()
				f := s.begin(refusal + p.name)
				p.send(payment(42))
				f.bit()
				p.settle(stepLimit)
				f.end()
			}
		},
	}
}

func tooLarge() Named {
	return Named{
		Name:  "too-large",
		Claim: "a record over the limit is refused by name; a batch over the limit is split and resent, by client and version",
		Story: `A topic takes batches of up to max.message.bytes. A single record above that can never be written:
the broker says MESSAGE_TOO_LARGE, the client passes the name on, and the event is certainly not in the log.

A batch of many small records may be above the limit although each record is far below. Kafka's Java client then
splits the batch and sends the parts, without spending a retry. How far it splits depends on its version: before 4.4
only down to batch.size, so that a limit below batch.size leaves it splitting and trying until delivery.timeout.ms,
with nothing written at all; from 4.4 on it goes on until the parts fit. The client's version decides, not the
broker's. franz-go does not split: every record of the batch fails with the error's name.

The remedy is the same for all: batch.size below max.message.bytes.`,
		Sources: []string{"KIP-126 (splitting of batches)", "measured with the Java clients 4.1.0 and 4.4.0"},
		Essence: []Break{{Topic: with("max.message.bytes=1048588")}},

		configure: func(s *Scenario) {
			setProducer("acks=all", "batch.size=16384", "linger.ms=100", "delivery.timeout.ms=8000")(s)
			s.Topics.Properties["max.message.bytes"] = "1200"
		},
		expect: func(c Subject) []checker.Expectation {
			expected := []checker.Expectation{
				exactly("errors:MESSAGE_TOO_LARGE{record}", 1, "the record that is too large by itself was refused by name"),
				none("in-log{record}", "and is not in the log"),
				atLeast("answers:MESSAGE_TOO_LARGE{batch}", 1, "the batch was refused as a whole"),
				none("lost-write", "nothing that was acknowledged is missing"),
				none("order-violation", "the order held"),
			}
			switch {
			case c.Java() && !c.JavaBefore(4, 4):
				return append(expected, atLeast("split-batches{batch}", 1, "it was split"),
					exactly("acknowledged{batch}", smallRecords, "and every part was written"))
			case c.Java():
				return append(expected, none("acknowledged{batch}", "this version does not split it far enough, and gives it up in the end"))
			case c.FranzGo():
				return append(expected, atLeast("errors:MESSAGE_TOO_LARGE{batch}", 1,
					"franz-go does not split it: its records failed by name"))
			}
			return expected
		},
		play: func(s *script) {
			single := s.open("record")
			single.sendTo(0, "large", 4*scriptValueSize*2)
			single.settle(stepLimit)
			p := s.open("batch")
			for _, key := range keys("small", smallRecords) {
				p.send(key)
			}
			p.settle(stepLimit)
		},
	}
}

// smallRecords are as many as fill a batch that is too large.
const smallRecords = 20

func duplicateAnswerIsSuccess() Named {
	return Named{
		Name:  "duplicate-answer-is-success",
		Claim: "DUPLICATE_SEQUENCE_NUMBER as the answer (after the append) counts as success, without an offset",
		Story: `An idempotent producer retries, and the broker says DUPLICATE_SEQUENCE_NUMBER: I have this one. It
has the shape of an error and is none. The event is in the log; the client libraries know that, and report a success.
What they cannot report is where it lies: the answer has no offset.

Today's brokers answer a duplicate with success and the first offset (see lost-ack-idempotent) as long as they
remember it. The code is left from brokers that did not, and stays in the protocol. It is made here on the wire, after
the append.`,
		Sources: []string{"Kafka's clients/…/Sender.java (completeBatch)", "Kafka's protocol, error 46"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(Subject) []checker.Expectation {
			return append(recovered(),
				exactly("answers:DUPLICATE_SEQUENCE_NUMBER", 1, "the answer was given"),
				none("errors", "and the application saw no error"),
				exactly("acknowledged-without-an-offset", 1, "but a success without an offset"),
				none("absent", "the event is in the log"))
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			f := s.begin("refuse:error=DUPLICATE_SEQUENCE_NUMBER,after=true,every=1,count=1,key=" + payment(42))
			p.send(payment(42))
			f.bit()
			p.settle(stepLimit)
			f.end()
			p.send(payment(43))
			p.settle(stepLimit)
		},
	}
}

func newProducerIDMidRetry() Named {
	return Named{
		Name:  "new-producer-id-mid-retry",
		Claim: "the producer id or epoch changes between two attempts: what happens to the batch, by client",
		Story: `Payment #42 is written, and the answer is lost. Before the retry arrives the broker has forgotten
the producer: it says OUT_OF_ORDER_SEQUENCE_NUMBER, or UNKNOWN_PRODUCER_ID on old brokers. Now the client needs a new
epoch (or a new id) to go on at all. And the batch whose fate it does not know?

Java and franz-go decide alike: they give it a sequence number under the new epoch and send it again. It is the choice
against loss. And it is written twice, since under a new epoch nothing is recognised.

That breaks the promise of idempotence, and the verdict says so. It takes a broker that lost its memory of the
producer between two attempts, as in restart-shrinks-window; here the broker's answer to the retry is made on the
wire.`,
		Sources: []string{"KIP-360 (epoch bump by the client)", "Kafka's clients/…/TransactionManager.java", "franz-go's sink.go"},
		Essence: []Break{{NoFaults: true}, {Producer: with(idempotenceOff)}},

		configure: setProducer("acks=all", idempotenceOn),
		violates:  func(Subject) []checker.Anomaly { return []checker.Anomaly{checker.Duplicate} },
		expect: func(Subject) []checker.Expectation {
			return []checker.Expectation{
				exactly("sends-under-two-epochs", 1, "the batch was sent again under another producer id or epoch"),
				exactly("duplicate", 1, "and written again"),
				none("errors", "the application saw no error"),
				none("lost-write", "nothing that was acknowledged is missing"),
			}
		},
		play: func(s *script) {
			p := s.open("shop")
			p.warm()
			lost := s.begin("lost-response:every=1,count=1,key=" + payment(42))
			forgotten := s.begin("refuse:error=OUT_OF_ORDER_SEQUENCE_NUMBER,every=1,count=1,retries=only,key=" + payment(42))
			p.send(payment(42))
			lost.bit()
			forgotten.bit()
			p.settle(stepLimit)
			lost.end()
			forgotten.end()
			p.send(payment(43))
			p.settle(stepLimit)
		},
	}
}

// answeredCodes are the answers to a produce that are tried, with whether the broker has
// the batch when it says so: every code that the table of error codes has a row for.
func answeredCodes() []answered {
	var all []answered
	for code := int16(-1); code < mostErrorCode; code++ {
		row, known := histories.ErrorByCode(code)
		if !known || !row.Produce || code == 0 {
			continue
		}
		after := row.Appended("all") == histories.AppendedYes
		if legal, _ := histories.LegalAnswer(code, "all", after); legal {
			all = append(all, answered{name: row.Name, after: after})
		}
	}
	return all
}

// Answered is an answer that the scenario error-codes tries: its name, the producer that
// is given it, and whether the broker has the batch when it says so.
type Answered struct {
	Name, Session string
	After         bool
}

// AnsweredCodes gives every answer that the scenario error-codes tries.
func AnsweredCodes() []Answered {
	var all []Answered
	for _, a := range answeredCodes() {
		all = append(all, Answered{Name: a.name, Session: a.session(), After: a.after})
	}
	return all
}

// ErrorCodes is the name of the scenario that tries every error.
const ErrorCodes = "error-codes"

// mostErrorCode is above every code of Kafka's.
const mostErrorCode = 200

type answered struct {
	name  string
	after bool
}

// session gives the name of the producer that is answered so.
func (a answered) session() string { return strings.ReplaceAll(strings.ToLower(a.name), "_", "-") }

// givenUp are the answers after which a client reports the send as failed. Those that are
// not here are tried again, or taken for a success.
var givenUp = map[string][]string{
	histories.ClientJava: {"UNKNOWN_SERVER_ERROR", "MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE",
		"INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TIMESTAMP",
		"INVALID_REQUEST", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE",
		"INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_COMPRESSION_TYPE",
		"INVALID_RECORD", "PRODUCER_FENCED", "TRANSACTION_ABORTABLE"},
	histories.ClientFranzGo: {"UNKNOWN_SERVER_ERROR", "CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION",
		"RECORD_LIST_TOO_LARGE", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
		"INVALID_TIMESTAMP", "INVALID_REQUEST", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "INVALID_TXN_STATE",
		"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_COMPRESSION_TYPE", "INVALID_RECORD", "PRODUCER_FENCED",
		"TRANSACTION_ABORTABLE"},
}

// stops says whether the client's producer sends nothing any more after an answer. To a lost
// producer id Java 4.4.0 puts an end; 3.9.1 fails that send alone (both measured; where between
// them it changed is not known here).
func (s Subject) stops(answer string) bool {
	switch answer {
	case "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "PRODUCER_FENCED":
		return s.Java()
	case "INVALID_PRODUCER_ID_MAPPING":
		return s.Java() && !s.JavaBefore(4, 4)
	}
	return false
}

func errorCodes() Named {
	return Named{
		Name: ErrorCodes,
		Claim: "for every error that a produce can be answered with: does this client retry, split, fail or stop, " +
			"how often, and what is the outcome",
		Story: `A broker has some thirty ways to say no to a produce, and a client has to know for each whether to
try again, to give up this event, or to give up altogether. The documentation calls an error "retriable" or not; what
a library does is in its code.

The scenario opens one idempotent producer for each code. Each sends an event that ends well, then one that is
answered with that code twice, on the wire, where a healthy broker could say so; then a third. From the attempts one
sees whether the client tried again and how often; from its completion, what it told the application; from the log,
what had really happened; and from the third event whether the producer still works.

The table in doc/SCENARIOS.md has a row for each code and a column for each client.`,
		Sources: []string{"Kafka's protocol, error codes",
			"Kafka's clients/…/Sender.java and TransactionManager.java", "franz-go's sink.go"},
		Essence: []Break{{NoFaults: true}},

		configure: setProducer("acks=all", idempotenceOn),
		expect: func(c Subject) []checker.Expectation {
			expected := []checker.Expectation{
				none("lost-write", "nothing that was acknowledged is missing"),
				none("impossible-write", "what was certainly refused is not in the log"),
			}
			failing, known := givenUp[c.Client]
			for _, a := range answeredCodes() {
				expected = append(expected, atLeast("answers:"+a.name+"{"+a.session()+"}", 1, "it was answered so"))
				switch {
				case !known:
				case c.stops(a.name):
					expected = append(expected, exactly("errors{"+a.session()+"}", 2,
						"the application was told of a failure, and the producer is of no use any more"))
				case slices.Contains(failing, a.name):
					expected = append(expected, atLeast("errors{"+a.session()+"}", 1, "and the application was told of a failure"))
				default:
					expected = append(expected, none("errors{"+a.session()+"}", "and the application saw no error"))
				}
			}
			return expected
		},
		play: playErrorCodes,
	}
}

// codesLimit bounds the wait for what a client makes of an answer.
const codesLimit = 12 * time.Second

func playErrorCodes(s *script) {
	codes := answeredCodes()
	var producers []*session
	for _, a := range codes {
		producers = append(producers, s.open(a.session()))
	}
	each := func(limit time.Duration) {
		for _, p := range producers {
			if !s.over() {
				p.send("event")
			}
		}
		s.within(limit, func() bool {
			for _, p := range producers {
				if p.ended.Load() < p.count() {
					return false
				}
			}
			return true
		})
	}
	each(stepLimit)
	var faults []fault
	for i, a := range codes {
		text := "refuse:every=1,count=2,late=1ms,error=" + a.name + ",producer=" + producers[i].name
		if a.after {
			text += ",after=true"
		}
		faults = append(faults, s.begin(text))
	}
	each(codesLimit)
	for _, f := range faults {
		f.end()
	}
	each(codesLimit)
}
