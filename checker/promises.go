// This file holds the promise table: which anomalies Kafka promises to prevent,
// by configuration, with the reason and the source of each rule. It is the one
// place where that is decided.
//
// For loss, duplicates, order and late ghosts the table is the matrix of Kafka's
// documentation and source, measured in part on real brokers; the row numbers in
// the reasons are those of doc/PROMISES.md. Everything else is promised always,
// or with acks=all, unless a fault's effect takes it away.

package checker

import (
	"fmt"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// Promise says whether a configuration promises that an anomaly does not happen.
type Promise struct {
	Anomaly Anomaly
	// Promised is nil where it depends on a property that is not known.
	Promised *bool
	// Reason in words, with the source of the rule.
	Reason string
}

// ruling is the table's answer when every property is known.
type ruling struct {
	promised bool
	reason   string
}

func promised(format string, args ...any) ruling {
	return ruling{true, fmt.Sprintf(format, args...)}
}

func allowed(format string, args ...any) ruling {
	return ruling{false, fmt.Sprintf(format, args...)}
}

// Promises gives the promise about every anomaly for one configuration, in the
// order of Anomalies. It fails with a *ConfigurationError on a value that no
// Kafka accepts. It is a pure function.
func Promises(c Configuration) ([]Promise, error) {
	possible, err := c.possibilities()
	if err != nil {
		return nil, err
	}
	var promises []Promise
	for _, d := range Anomalies() {
		promises = append(promises, agree(d.Name, possible, c.missing()))
	}
	return promises, nil
}

// agree gives the answer that holds under every possibility, or nil.
func agree(name Anomaly, possible []properties, missing []string) Promise {
	first := rule(name, possible[0])
	for _, p := range possible[1:] {
		if rule(name, p).promised != first.promised {
			return Promise{name, nil, "depends on the configuration, which the history does not say (" +
				strings.Join(missing, ", ") + "); give it with --producer and --topic-config"}
		}
	}
	reason := first.reason
	if len(possible) > 1 {
		reason = "whatever the configuration is: " + reason
	}
	return Promise{name, &first.promised, reason}
}

// rule is the table. One case per anomaly; the helpers below are its rows.
func rule(name Anomaly, p properties) ruling {
	switch name {
	case LostWrite:
		return ruleLoss(p)
	case Duplicate:
		return ruleDuplicates(p)
	case OrderViolation:
		return ruleOrder(p)
	case LateGhost:
		return ruleLateGhosts(p)
	case RealtimeOrderViolation, WrongOffset:
		return ruleAcknowledged(p)
	case Divergence, VanishedRead, EpochRegression:
		return ruleHighWatermark(p)
	case WrongPlace:
		return rulePlace(p)
	case NotRecovered:
		return promised("ours: Kafka gives no bound on recovery, we ask for max(60 s, twice the delivery timeout)")
	case Unseen:
		return promised("what lies below the high watermark of a whole cluster is shown to every reader")
	default:
		return promised("holds under every configuration")
	}
}

// lostCopies names an effect that destroys acknowledged records whatever the
// producer's configuration is (KIP-106, KIP-966); empty: none.
func (p properties) lostCopies() string {
	for _, effect := range []string{histories.EffectUncleanElection, histories.EffectUnsyncedWritesLost,
		histories.EffectDiskLost, histories.EffectTopicRecreated} {
		if p.effects[effect] {
			return effect
		}
	}
	if p.unclean {
		return histories.PropertyUncleanElection + "=true"
	}
	return ""
}

// ruleLoss: rows 1 to 5 allow loss, rows 6 to 9 do not.
func ruleLoss(p properties) ruling {
	switch {
	case p.acks == "0":
		return allowed("acks=0: the producer never waits for an answer, so a send reports success without the broker's")
	case p.acks == "1":
		return allowed("acks=1: the leader alone confirms; what was not replicated is cut off when another one leads (KIP-101)")
	case p.lostCopies() != "":
		return allowed("acks=all, but %s: a replica without the record may become leader (KIP-106)", p.lostCopies())
	case p.compacted:
		return allowed("cleanup.policy contains compact: an older record of a key may be removed")
	case p.effects[histories.EffectRecordsDeleted]:
		return allowed("records were deleted during the run")
	}
	return promised("acks=all: confirmed only when every in-sync replica has it, and only one of those may lead")
}

// ruleDuplicates: rows 1, 3, 6 and 9 exclude duplicates. Hole (f): without its
// producer state or its log a broker cannot recognise a retry.
func ruleDuplicates(p properties) ruling {
	switch {
	case p.idempotence && p.lostCopies() != "":
		return allowed("enable.idempotence=true, but %s: a leader without the producer's state cannot recognise a retry",
			p.lostCopies())
	case p.idempotence:
		return promised("enable.idempotence=true: the broker recognises a retried batch by producer id and sequence (KIP-98)")
	case p.retries == 0:
		return promised("retries=0: every batch is sent once")
	}
	return allowed("retries without idempotence: when an answer is lost the retry writes the batch again (KIP-98, motivation)")
}

// ruleOrder: rows 3, 4, 6, 7 and 9 keep the order of acknowledged events.
func ruleOrder(p properties) ruling {
	switch {
	case p.acks == "0":
		return allowed("acks=0: requests cancelled by a disconnect are queued again behind their successors, and nothing is confirmed")
	case p.idempotence && p.lostCopies() != "":
		return allowed("enable.idempotence=true, but %s: a leader that lacks the producer's state accepts any sequence", p.lostCopies())
	case p.idempotence:
		return promised("enable.idempotence=true with up to five in flight: the broker refuses what is out of sequence (KIP-98)")
	case p.inFlight == 1:
		return promised("max.in.flight.requests.per.connection=1: no batch overtakes another")
	case p.retries == 0:
		return promised("retries=0: no batch is sent a second time behind its successors")
	}
	return allowed("retries and %d in flight without idempotence: a batch that failed is sent again behind its successors "+
		"(documented with max.in.flight.requests.per.connection)", p.inFlight)
}

// ruleLateGhosts: only row 9 excludes them: a late copy of an expired batch is
// out of sequence or fenced.
func ruleLateGhosts(p properties) ruling {
	switch {
	case p.idempotence && p.lostCopies() != "":
		return allowed("enable.idempotence=true, but %s", p.lostCopies())
	case p.idempotence:
		return promised("enable.idempotence=true: a late copy of a batch that was given up is refused as out of sequence")
	}
	return allowed("without idempotence a request that was given up may still arrive, behind later ones")
}

// ruleAcknowledged: what follows from an acknowledgement's being final.
func ruleAcknowledged(p properties) ruling {
	switch {
	case p.acks != "all":
		return allowed("acks=%s: an acknowledgement is not final", p.acks)
	case p.lostCopies() != "":
		return allowed("%s: an acknowledged suffix may be lost and its offsets given again", p.lostCopies())
	}
	return promised("acks=all: an acknowledged record keeps its offset")
}

// ruleHighWatermark: consumers read below the high watermark only, and what is
// below it is never truncated without an unclean election or a lost disk.
func ruleHighWatermark(p properties) ruling {
	if cause := p.lostCopies(); cause != "" {
		return allowed("%s: what was below the high watermark may be replaced (KIP-106, KIP-320)", cause)
	}
	return promised("only what every in-sync replica has is shown to readers, and it is never truncated")
}

// rulePlace: where the partition of a key is a function of the key; the rule
// about an explicitly chosen partition holds always.
func rulePlace(p properties) ruling {
	if p.keysScatter() {
		return promised("an event lies where it was sent to (keys may spread over partitions here: %s)", p.partitionsOf())
	}
	return promised("an event lies where it was sent to, and equal keys share a partition (murmur2 of the key)")
}

// keysScatter: events of one key may rightly lie in several partitions.
func (p properties) keysScatter() bool {
	return p.effects[histories.EffectPartitionsAdded] || p.effects[histories.EffectTopicRecreated] ||
		strings.HasSuffix(p.partitioner, "RoundRobinPartitioner")
}

func (p properties) partitionsOf() string {
	switch {
	case p.effects[histories.EffectPartitionsAdded]:
		return "partitions were added"
	case p.effects[histories.EffectTopicRecreated]:
		return "the topic was made anew"
	}
	return histories.PropertyPartitioner + "=" + p.partitioner
}
