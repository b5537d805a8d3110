// This file tests the promise table end to end: every row × every anomaly is a history
// with that anomaly, judged under that configuration. What is promised is violated, what
// is not is counted, and what depends on something unknown is unknown. The rows are those
// of doc/PROMISES.md; what each gives stands here once more, by hand.

package corpus_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/corpus"
	"github.com/ackproof/ackproof/histories"
)

// promiseRow is a configuration with what it does not promise, or what depends on what is
// not known. All else is promised.
type promiseRow struct {
	name     string
	producer map[string]string // nil: nothing is known
	topic    map[string]string
	effects  []string
	not      []checker.Anomaly
	unknown  []checker.Anomaly
}

func configured(acks, idempotence, inFlight, retries string) map[string]string {
	return map[string]string{histories.PropertyAcks: acks, histories.PropertyIdempotence: idempotence,
		histories.PropertyMaxInFlight: inFlight, histories.PropertyRetries: retries}
}

// What goes together.
var (
	acknowledged = []checker.Anomaly{checker.RealtimeOrderViolation, checker.WrongOffset}
	shown        = []checker.Anomaly{checker.Divergence, checker.VanishedRead, checker.EpochRegression}
)

func anomalies(lists ...[]checker.Anomaly) []checker.Anomaly { return slices.Concat(lists...) }

func one(names ...checker.Anomaly) []checker.Anomaly { return names }

func promiseRows() []promiseRow {
	const many = "2147483647"
	def := configured("all", "true", "5", many)
	lost := anomalies(one(checker.LostWrite, checker.Duplicate, checker.OrderViolation, checker.LateGhost), acknowledged, shown)
	rows := []promiseRow{
		{name: "1 acks=0 retries=0", producer: configured("0", "false", "5", "0"),
			not: anomalies(one(checker.LostWrite, checker.OrderViolation, checker.LateGhost), acknowledged)},
		{name: "2 acks=0 retries", producer: configured("0", "false", "5", "3"),
			not: anomalies(one(checker.LostWrite, checker.Duplicate, checker.OrderViolation, checker.LateGhost), acknowledged)},
		{name: "3 acks=1 retries=0", producer: configured("1", "false", "5", "0"),
			not: anomalies(one(checker.LostWrite, checker.LateGhost), acknowledged)},
		{name: "4 acks=1 one in flight", producer: configured("1", "false", "1", many),
			not: anomalies(one(checker.LostWrite, checker.Duplicate, checker.LateGhost), acknowledged)},
		{name: "5 acks=1 five in flight", producer: configured("1", "false", "5", many),
			not: anomalies(one(checker.LostWrite, checker.Duplicate, checker.OrderViolation, checker.LateGhost), acknowledged)},
		{name: "6 acks=all retries=0", producer: configured("all", "false", "5", "0"), not: one(checker.LateGhost)},
		{name: "7 acks=all one in flight", producer: configured("all", "false", "1", many),
			not: one(checker.Duplicate, checker.LateGhost)},
		{name: "8 acks=all five in flight", producer: configured("all", "false", "5", many),
			not: one(checker.Duplicate, checker.OrderViolation, checker.LateGhost)},
		{name: "8 acks=-1 two in flight", producer: configured("-1", "false", "2", "1"),
			not: one(checker.Duplicate, checker.OrderViolation, checker.LateGhost)},
		{name: "9 idempotent", producer: def},
		{name: "9 idempotent, one in flight", producer: configured("all", "true", "1", many)},
		{name: "9 min.insync.replicas=1", producer: def, topic: map[string]string{histories.PropertyMinInsyncReplicas: "1"}},
		{name: "9 partitions added", producer: def, effects: []string{histories.EffectPartitionsAdded}},
		{name: "9 compacted", producer: def, topic: map[string]string{histories.PropertyCleanupPolicy: "compact"}, not: one(checker.LostWrite)},
		{name: "9 records deleted", producer: def, effects: []string{histories.EffectRecordsDeleted}, not: one(checker.LostWrite)},
		{name: "9 unclean.leader.election.enable", producer: def, topic: map[string]string{histories.PropertyUncleanElection: "true"}, not: lost},
		{name: "6 unclean.leader.election.enable", producer: configured("all", "false", "5", "0"),
			topic: map[string]string{histories.PropertyUncleanElection: "true"},
			not:   anomalies(one(checker.LostWrite, checker.LateGhost), acknowledged, shown)},
		{name: "nothing known", unknown: lost},
		{name: "acks=all alone", producer: map[string]string{histories.PropertyAcks: "all"},
			unknown: one(checker.Duplicate, checker.OrderViolation, checker.LateGhost)},
		{name: "acks=1 alone", producer: map[string]string{histories.PropertyAcks: "1"},
			not:     anomalies(one(checker.LostWrite, checker.LateGhost), acknowledged),
			unknown: one(checker.Duplicate, checker.OrderViolation)},
		{name: "retries=0 alone", producer: map[string]string{histories.PropertyRetries: "0"}, not: one(checker.LateGhost),
			unknown: anomalies(one(checker.LostWrite, checker.OrderViolation), acknowledged)},
	}
	for _, effect := range []string{histories.EffectUncleanElection, histories.EffectUnsyncedWritesLost, histories.EffectDiskLost,
		histories.EffectTopicRecreated} {
		rows = append(rows, promiseRow{name: "9 " + effect, producer: def, effects: []string{effect}, not: lost})
	}
	return rows
}

func TestEveryRowOfThePromiseTableTimesEveryAnomaly(t *testing.T) {
	for _, row := range promiseRows() {
		for _, d := range checker.Anomalies() {
			t.Run(row.name+"/"+string(d.Name), func(t *testing.T) {
				for seed := range uint64(3) {
					checkRow(t, row, made(t, seed, combination(t, "memory", d.Name, "anywhere")))
				}
			})
		}
	}
}

func checkRow(t *testing.T, row promiseRow, c *corpus.Case) {
	t.Helper()
	head := *c.History.Header()
	head.Producer, head.Effects, head.Topics = row.producer, row.effects, slices.Clone(head.Topics)
	head.Topics[0].Properties = map[string]string{histories.PropertyMinInsyncReplicas: "2"}
	maps.Copy(head.Topics[0].Properties, row.topic)
	if row.producer == nil {
		head.Topics = nil
	}
	v, err := checker.Check(t.Context(), &histories.Memory{Head: &head, Body: lines(t, c.History)}, checker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := checker.Violated
	switch {
	case slices.Contains(row.not, c.Anomaly):
		want = checker.NotPromised
	case slices.Contains(row.unknown, c.Anomaly):
		want = checker.UnknownWord
	case c.Anomaly == checker.SkippedPoll && slices.Contains(row.not, checker.VanishedRead):
		want = "" // what was skipped may have been written later, or must have been there: both happen
	case c.Anomaly == checker.VanishedRead && row.topic[histories.PropertyCleanupPolicy] == "compact":
		want = checker.Held // compacted away
	}
	for _, p := range v.Promises {
		if p.Name == c.Anomaly && want != "" && p.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", c.Name, p.Verdict, p.Reason, want)
		}
		if p.Name != c.Anomaly && p.Verdict == checker.Violated && c.Named[p.Name] == 0 {
			t.Errorf("%s: %s is violated, too (%s)", c.Name, p.Name, p.Reason)
		}
	}
	if part := v.Anomalies[c.Anomaly]; part.Count+part.Undecided == 0 && want != checker.Held && want != "" && row.producer[histories.PropertyAcks] != "0" {
		t.Errorf("%s: it was not counted", c.Name)
	}
}
