// This file holds the judge of replication: after the heal, all replicas of a
// partition hold the same records.

package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

func (f *findings) judgeReplicas() {
	for index, log := range f.state.logs {
		slices.SortStableFunc(log.replicas, func(a, b *replicaLog) int {
			return cmp.Or(cmp.Compare(a.replica, b.replica), cmp.Compare(a.source, b.source))
		})
		f.judgeReplicasOf(int32(index), log)
	}
}

// judgeReplicasOf walks the offsets at which any replica holds something.
func (f *findings) judgeReplicasOf(index int32, log *partitionLog) {
	common := f.state.inCommon(log)
	var pages []int64
	for _, r := range log.replicas {
		for number := range r.contents.pages {
			pages = append(pages, number)
		}
	}
	slices.Sort(pages)
	for _, number := range slices.Compact(pages) {
		first := max(number*pageSize, common.start)
		for offset := first; offset < min((number+1)*pageSize, max(common.shown, common.stored)); offset++ {
			f.judgeReplicasAt(index, log, common, offset)
		}
	}
}

// judgeReplicasAt compares what the replicas hold at one offset.
func (f *findings) judgeReplicasAt(index int32, log *partitionLog, common compared, offset int64) {
	var held, lacking bool
	var first uint32
	same := true
	for _, r := range log.replicas {
		if !r.covers(offset, common) {
			continue
		}
		content, holds := r.contents.get(offset)
		switch {
		case !holds:
			lacking = true
		case !held:
			first, held = content, true
		default:
			same = same && content == first
		}
	}
	switch {
	case !held || (same && !lacking):
	case same && f.state.compacts(log.name.Topic) == yes:
	case same && f.state.compacts(log.name.Topic) == perhaps:
		f.cannotTell(ReplicaDivergence, "a replica lacks what another one holds, and whether the topic is compacted is not known "+
			"("+histories.PropertyCleanupPolicy+")")
	default:
		f.replicasDiffer(index, log, common, offset)
	}
}

// replicasDiffer reports an offset with what each replica holds there.
func (f *findings) replicasDiffer(index int32, log *partitionLog, common compared, offset int64) {
	s := f.state
	var texts []string
	var events []uint32
	for _, r := range log.replicas {
		if !r.covers(offset, common) {
			continue
		}
		content, holds := r.contents.get(offset)
		if !holds {
			texts = append(texts, fmt.Sprintf("%v holds no record", r))
			continue
		}
		texts = append(texts, fmt.Sprintf("%v holds %s", r, s.contentName(content)))
		if e := s.contentEvent(content); e != foreign && !slices.Contains(events, e) {
			events = append(events, e)
		}
	}
	f.add(ReplicaDivergence, index, offset, events, nil, "at %s offset %d %s", s.logName(index), offset, strings.Join(texts, ", "))
}

// answer is yes, no, or perhaps where the history does not say.
type answer int

const (
	no answer = iota
	yes
	perhaps
)

// compacts says whether the records of a topic may be removed by compaction, which
// each replica does for itself.
func (s *state) compacts(topic string) answer {
	properties := overlay(s.topicProperties(topic), s.options.Topic)
	switch {
	case strings.Contains(properties[histories.PropertyCleanupPolicy], "compact"):
		return yes
	case properties != nil || s.header.Producer != nil:
		return no // delete is Kafka's default
	}
	return perhaps
}

// assumeReplicas: two replicas of every partition were read at least, and none in vain.
func (s *state) assumeReplicas() Assumption {
	if !s.replicasWereRead() {
		return Assumption{Name: AssumeReplicasRead, Verdict: AssumptionNotApplicable, Detail: "no replica was read"}
	}
	var problems []string
	replicas := 0
	for index, log := range s.logs {
		read, problem := s.replicasRead(log)
		replicas += read
		if problem != "" {
			problems = append(problems, s.logName(int32(index))+" ("+problem+")")
		}
	}
	if len(problems) > 0 {
		return failed(AssumeReplicasRead, []Anomaly{ReplicaDivergence}, "not every replica could be compared: %s", few(problems))
	}
	return held(AssumeReplicasRead, "%d replicas of %d partitions were read and compared", replicas, len(s.logs))
}

// replicasRead counts the replicas of a partition that were read to their end in one
// way at least, and says what keeps them from being compared.
func (s *state) replicasRead(log *partitionLog) (count int, problem string) {
	whole := make(map[int32]bool)
	for _, r := range log.replicas {
		whole[r.replica] = whole[r.replica] || r.whole()
	}
	var problems []string
	for _, r := range log.replicas {
		if !whole[r.replica] {
			problems = append(problems, fmt.Sprintf("%v: %s", r, r.problem()))
		}
	}
	common := s.inCommon(log)
	for _, replica := range slices.Sorted(maps.Keys(whole)) {
		read := whole[replica]
		count += boolToInt(read)
		if read && common.behind[replica] {
			problems = append(problems, fmt.Sprintf("replica %d: the cluster is not whole, and its high watermark is not known", replica))
		}
	}
	switch {
	case len(problems) > 0:
		return count, strings.Join(problems, "; ")
	case count == 0:
		return count, "no replica was read"
	case count == 1 && s.replicationFactor(log.name.Topic) != 1:
		return count, fmt.Sprintf("only replica %d was read", log.replicas[0].replica)
	case common.empty() && log.holdsAnything():
		return count, fmt.Sprintf("its replicas have nothing in common: the highest log start is %d, the lowest high watermark %d",
			common.start, common.shown)
	}
	return count, ""
}

// holdsAnything: some reading of the final log found a record.
func (l *partitionLog) holdsAnything() bool {
	return (l.final != nil && l.final.Position > l.final.LogStart) ||
		slices.ContainsFunc(l.replicas, func(r *replicaLog) bool { return len(r.contents.pages) > 0 })
}

func (s *state) replicationFactor(topic string) int16 {
	for _, t := range s.header.Topics {
		if t.Name == topic {
			return t.ReplicationFactor
		}
	}
	return 0
}
