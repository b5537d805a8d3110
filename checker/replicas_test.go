// This file tests what the twins cannot say of replica divergence: what is told when
// replicas were not read, and what proves a difference.

package checker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// replicated is a healthy history without replicas, and the records of its first
// partition as a replica would hold them.
func replicated(t *testing.T) (*histories.Memory, []histories.ReplicaRecord, int64) {
	t.Helper()
	h := healthy(t)
	h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool {
		switch l.(type) {
		case *histories.ReplicaRecords, *histories.ReplicaRead, *histories.End:
			return true
		}
		return false
	})
	var records []histories.ReplicaRecord
	for _, l := range lines[*histories.FinalRecords](h) {
		if l.Partition == at(0) {
			records = append(records, histories.ReplicaRecord{Record: l.Records.Records[0]})
		}
	}
	return h, records, records[len(records)-1].Offset + 1
}

func replicaLines(replica int32, records []histories.ReplicaRecord, end int64) []histories.Line {
	return []histories.Line{
		&histories.ReplicaRecords{Partition: at(0), Replica: replica, Source: histories.SourceFetch, Records: records},
		&histories.ReplicaRead{Partition: at(0), Replica: replica, Source: histories.SourceFetch, HighWatermark: end,
			LogEnd: histories.Unknown, Position: end},
	}
}

func divergence(t *testing.T, h *histories.Memory) (checker.PromiseVerdict, *checker.AnomalyPart) {
	t.Helper()
	h.Body = append(h.Body, &histories.End{Time: 1000, Reason: histories.EndFinished})
	v := check(t, h)
	i := slices.IndexFunc(v.Promises, func(p checker.PromiseVerdict) bool { return p.Name == checker.ReplicaDivergence })
	return v.Promises[i], v.Anomalies[checker.ReplicaDivergence]
}

func TestWhereReplicasWereNotReadTheirPromiseIsNotHeld(t *testing.T) {
	for _, c := range []struct {
		rule, verdict, says string
		change              func(h *histories.Memory, records []histories.ReplicaRecord, end int64)
	}{
		{"no replica at all", checker.NotTested, "no replica was read", func(*histories.Memory, []histories.ReplicaRecord, int64) {}},
		{"those of one partition only", checker.UnknownWord, "orders/1 (no replica was read)",
			func(h *histories.Memory, records []histories.ReplicaRecord, end int64) {
				h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, records, end)...)
			}},
		{"a read that the history ends in", checker.UnknownWord, "replica 2 (fetch): the history ends inside of its read",
			func(h *histories.Memory, records []histories.ReplicaRecord, end int64) {
				h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, records, end)[0])
			}},
		{"a read with two records at one offset", checker.UnknownWord, "replica 2 (fetch): it has two records at offset 0",
			func(h *histories.Memory, records []histories.ReplicaRecord, end int64) {
				again := append(slices.Clone(records), histories.ReplicaRecord{Record: histories.Record{Event: "other/0"}})
				h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, again, end)...)
			}},
		{"a read with an impossible offset", checker.UnknownWord, "replica 2 (fetch): it has a record at the offset -1",
			func(h *histories.Memory, records []histories.ReplicaRecord, end int64) {
				bad := []histories.ReplicaRecord{{Record: histories.Record{Offset: -1}}}
				h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, bad, end)...)
			}},
		{"a missing record where the topic may be compacted", checker.UnknownWord, "whether the topic is compacted is not known",
			func(h *histories.Memory, records []histories.ReplicaRecord, end int64) {
				h.Head.Producer, h.Head.Topics[0].Properties, h.Head.Topics[0].Partitions = nil, nil, 1
				h.Body = slices.DeleteFunc(h.Body, func(l histories.Line) bool {
					read, ok := l.(*histories.FinalRead)
					return ok && read.Partition != at(0)
				})
				h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, records[1:], end)...)
			}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h, records, end := replicated(t)
			c.change(h, records, end)
			p, part := divergence(t, h)
			if p.Verdict != c.verdict || part.Count != 0 || (!strings.Contains(p.Reason, c.says) && part.Undecided != 1) {
				t.Errorf("it is %s (%s), %d found, %d undecided; want %q", p.Verdict, p.Reason, part.Count, part.Undecided, c.says)
			}
		})
	}
}

func TestADifferenceIsProvenByTheLinesOfBothReplicas(t *testing.T) {
	for rule, c := range map[string]struct {
		second histories.ReplicaRecord
		says   []string
	}{
		"one holds another record": {histories.ReplicaRecord{Record: histories.Record{Event: "other/0"}, Digest: "0a"},
			[]string{"replica 2 (fetch) holds other/0, digest 0a at orders/0 offset 0", "replica 1 (fetch) holds"}},
		"one lacks it": {histories.ReplicaRecord{Record: histories.Record{Offset: 7000}},
			[]string{"the log of replica 2 (fetch) was read from 0 to", "replica 1 (fetch) holds"}},
	} {
		t.Run(rule, func(t *testing.T) {
			h, records, end := replicated(t)
			second := slices.Clone(records)
			second[0] = c.second
			h.Body = append(append(h.Body, replicaLines(1, records, end)...), replicaLines(2, second, end)...)
			p, part := divergence(t, h)
			if p.Verdict != checker.Violated || part.Count != 1 || part.Instances[0].Offset != 0 {
				t.Fatalf("it is %s (%s): %+v", p.Verdict, p.Reason, part.Instances)
			}
			var texts []string
			for _, e := range part.Examples[0].Evidence {
				if e.What == "replica-read" {
					texts = append(texts, e.Text)
				}
			}
			for _, says := range c.says {
				if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, says) }) {
					t.Errorf("the evidence %q does not say %q", texts, says)
				}
			}
		})
	}
}
