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

// TestTwoForeignRecordsThatDifferAreProven: no event of the run is concerned, and so no line
// but the replicas' own.
func TestTwoForeignRecordsThatDifferAreProven(t *testing.T) {
	h, records, end := replicated(t)
	for replica, digest := range []string{"a", "b"} {
		held := slices.Clone(records)
		held[0] = histories.ReplicaRecord{Record: histories.Record{Offset: held[0].Offset}, Digest: digest}
		h.Body = append(h.Body, replicaLines(int32(replica), held, end)...)
	}
	_, part := divergence(t, h)
	if len(part.Examples) != 1 || len(part.Examples[0].Events) != 0 {
		t.Fatalf("the examples are %+v", part.Examples)
	}
	var kinds []string
	for _, e := range part.Examples[0].Evidence {
		kinds = append(kinds, e.What)
	}
	if want := []string{"replica-read", "replica-read", "replica-read", "replica-read"}; !slices.Equal(kinds, want) {
		t.Errorf("the evidence is %v, want %v", kinds, want)
	}
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

// replica tells of one read of a replica of partition 0, whose log it found to start at 0.
func (t *tale) replica(number int32, source string, end int64, records ...histories.ReplicaRecord) *histories.ReplicaRead {
	t.say(&histories.ReplicaRecords{Partition: at(0), Replica: number, Source: source, Records: records})
	read := &histories.ReplicaRead{Partition: at(0), Replica: number, Source: source, HighWatermark: end, LogEnd: end, Position: end}
	t.say(read)
	return read
}

func replicaRecord(offset int64, event, corrupt, digest string) histories.ReplicaRecord {
	return histories.ReplicaRecord{Record: histories.Record{Offset: offset, Event: event, Corrupt: corrupt}, Digest: digest}
}

// replicasOf is what is said of replicas: each difference, else what was compared.
func replicasOf(t *testing.T, story *tale) string {
	t.Helper()
	v := check(t, &story.Memory)
	var said []string
	for _, i := range v.Anomalies[checker.ReplicaDivergence].Instances {
		said = append(said, i.Text)
	}
	if len(said) == 0 {
		a := assumption(t, v, checker.AssumeReplicasRead)
		said = append(said, a.Verdict+": "+a.Detail)
	}
	return strings.Join(said, "\n")
}

func TestWhatReplicasHoldIsComparedWhereAllMustHoldIt(t *testing.T) {
	const fetch, segments = histories.SourceFetch, histories.SourceSegments
	a, b := replicaRecord(0, "p/k/0", "", ""), replicaRecord(0, "q/k/0", "", "")
	nothingInCommon := "failed: not every replica could be compared: orders/0 (its replicas have nothing in common: "
	for _, c := range []struct {
		rule  string
		whole string // what the cluster said, in turn
		tell  func(t *tale)
		want  string
	}{
		{"each kind of record has its name, in the order of the replicas", "", func(t *tale) {
			t.replica(5, fetch, 1, replicaRecord(0, "", "", "0a"))
			t.replica(4, fetch, 1, replicaRecord(0, "p/k/0", "", "0a"))
			t.replica(3, fetch, 1, replicaRecord(0, "p/k/0", "value", ""))
			t.replica(2, fetch, 1, a)
			t.replica(1, fetch, 1, replicaRecord(0, "", "", ""))
		}, "at orders/0 offset 0 replica 1 (fetch) holds a record that is no event of this run, replica 2 (fetch) holds p/k/0, " +
			"replica 3 (fetch) holds p/k/0, corrupt: value, replica 4 (fetch) holds p/k/0, digest 0a, " +
			"replica 5 (fetch) holds a record that is no event of this run, digest 0a"},
		{"two reads of one replica differ in the order of their sources", "", func(t *tale) {
			t.replica(1, segments, 1, a)
			t.replica(1, fetch, 1, b)
		}, "at orders/0 offset 0 replica 1 (fetch) holds q/k/0, replica 1 (segments) holds p/k/0"},
		{"an offset at the start of a page differs once", "", func(t *tale) {
			t.replica(1, fetch, 513, a, replicaRecord(512, "p/k/1", "", ""))
			t.replica(2, fetch, 513, a, replicaRecord(512, "p/k/2", "", ""))
		}, "at orders/0 offset 512 replica 1 (fetch) holds p/k/1, replica 2 (fetch) holds p/k/2"},
		{"lines of several replicas may alternate", "", func(t *tale) {
			for _, r := range []int32{1, 2} {
				t.say(&histories.ReplicaRecords{Partition: at(0), Replica: r, Source: fetch, Records: []histories.ReplicaRecord{a}})
			}
			t.replica(1, fetch, 2, replicaRecord(1, "p/k/1", "", ""))
			t.replica(2, fetch, 2, replicaRecord(1, "p/k/1", "", ""))
		}, "held: 2 replicas of 1 partitions were read and compared"},
		{"a partition in which nothing was written has nothing to compare", "", func(t *tale) {
			t.replica(1, fetch, 0)
			t.replica(2, fetch, 0)
			t.closed(0, 0, 0)
		}, "held: 2 replicas of 1 partitions were read and compared"},
		{"replicas hold records, and no high watermark covers any", "", func(t *tale) {
			t.replica(1, fetch, 1, a).HighWatermark = 0
			t.replica(2, fetch, 1, b)
		}, nothingInCommon + "the highest log start is 0, the lowest high watermark 0)"},
		{"the final read found records, and replicas show none", "", func(t *tale) {
			t.replica(1, fetch, 0)
			t.replica(2, fetch, 0)
			t.recorded(0, a.Record)
			t.closed(0, 0, 1)
		}, nothingInCommon + "the highest log start is 0, the lowest high watermark 0)"},
		{"what lies below the log start of the final read may have been removed by any", "", func(t *tale) {
			t.replica(1, fetch, 2, a, replicaRecord(1, "p/k/1", "", ""))
			t.replica(2, fetch, 2, replicaRecord(1, "p/k/1", "", ""))
			t.closed(0, 1, 2)
		}, "held: 2 replicas of 1 partitions were read and compared"},
		{"log starts that are not known are no offsets", "", func(t *tale) {
			t.replica(1, fetch, 1, a).LogStart = histories.Unknown
			t.replica(2, fetch, 1, b).LogStart = histories.Unknown
			t.closed(0, 0, 1).LogStart = histories.Unknown
		}, "at orders/0 offset 0 replica 1 (fetch) holds p/k/0, replica 2 (fetch) holds q/k/0"},
		{"of a whole cluster the high watermark of the final read holds for all", "whole", func(t *tale) {
			t.replica(1, fetch, 1, a).HighWatermark = histories.Unknown
			t.replica(2, fetch, 1, b).HighWatermark = histories.Unknown
			t.closed(0, 0, 1).Error = "the leader went away"
		}, "at orders/0 offset 0 replica 1 (fetch) holds p/k/0, replica 2 (fetch) holds q/k/0"},
		{"what the cluster said last counts: not whole, a replica may be behind", "whole, not-whole", func(t *tale) {
			for r := range int32(2) {
				t.replica(2-r, fetch, 1, a).HighWatermark = histories.Unknown
			}
		}, "failed: not every replica could be compared: orders/0 (" +
			"replica 1: the cluster is not whole, and its high watermark is not known; " +
			"replica 2: the cluster is not whole, and its high watermark is not known)"},
		{"a record that one lacks, where nothing was configured of the topic and it is not compacted by default", "", func(t *tale) {
			t.Head.Topics[0].Properties = nil
			t.replica(1, fetch, 1, a)
			t.replica(2, fetch, 1)
		}, "at orders/0 offset 0 replica 1 (fetch) holds p/k/0, replica 2 (fetch) holds no record"},
		{"a record that one lacks, where the topic's properties are known and the producer's are not", "", func(t *tale) {
			t.Head.Producer = nil
			t.replica(1, fetch, 1, a)
			t.replica(2, fetch, 1)
		}, "at orders/0 offset 0 replica 1 (fetch) holds p/k/0, replica 2 (fetch) holds no record"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(1)
			for _, what := range strings.Split(c.whole, ", ") {
				story.say(&histories.ClusterEvent{What: what})
			}
			c.tell(story)
			story.finished()
			if got := replicasOf(t, story); got != c.want {
				t.Errorf("said is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
