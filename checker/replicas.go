// This file holds what the replicas of each partition were found to hold, one table
// of small numbers for each read of one.

package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// replicaLog is one read of one replica of a partition.
type replicaLog struct {
	replica int32
	source  string
	// contents at each offset: see state.content.
	contents offsets
	// closed is its closing line; nil: the history ends before it.
	closed *histories.ReplicaRead
	// malformed says why its lines cannot be a read of a log; empty: they can.
	malformed string
}

// contentBit marks numbers in state.contents; the others are events.
const contentBit uint32 = 1 << 31

// content gives equal records equal small numbers: an event as it was sent that of the
// event, anything else one of its own.
func (s *state) content(r *histories.ReplicaRecord) uint32 {
	if r.Event != "" && r.Corrupt == "" && r.Digest == "" {
		return s.event(r.Event)
	}
	return contentBit | s.contents.of(r.Event+"\x00"+r.Corrupt+"\x00"+r.Digest)
}

// contentName says what a replica holds.
func (s *state) contentName(content uint32) string {
	if content&contentBit == 0 {
		return s.eventName(content)
	}
	parts := strings.SplitN(s.contents.list[content&^contentBit], "\x00", 3)
	return recordName(&histories.ReplicaRecord{Record: histories.Record{Event: parts[0], Corrupt: parts[1]}, Digest: parts[2]})
}

// recordName says what a record of a replica is.
func recordName(r *histories.ReplicaRecord) string {
	name := cmp.Or(r.Event, "a record that is no event of this run")
	if r.Corrupt != "" {
		name += ", corrupt: " + r.Corrupt
	}
	if r.Digest != "" {
		name += ", digest " + r.Digest
	}
	return name
}

// contentEvent gives the event of a content, or foreign.
func (s *state) contentEvent(content uint32) uint32 {
	if content&contentBit == 0 {
		return content
	}
	event, _, _ := strings.Cut(s.contents.list[content&^contentBit], "\x00")
	if event == "" {
		return foreign
	}
	return s.event(event)
}

// openReplica gives the read that a line belongs to: the one that is not closed yet,
// or a new one.
func (s *state) openReplica(p histories.Partition, replica int32, source string) *replicaLog {
	log := s.logs[s.log(p)]
	for _, r := range log.replicas {
		if r.replica == replica && r.source == source && r.closed == nil {
			return r
		}
	}
	r := &replicaLog{replica: replica, source: source}
	log.replicas = append(log.replicas, r)
	return r
}

func (s *state) takeReplicaRecords(l *histories.ReplicaRecords) {
	read := s.openReplica(l.Partition, l.Replica, l.Source)
	for i := range l.Records {
		record := &l.Records[i]
		if record.Offset < 0 {
			read.malformed = fmt.Sprintf("it has a record at the offset %d", record.Offset)
			continue
		}
		content := s.content(record)
		if first := read.contents.first(record.Offset, content); first != content {
			read.malformed = fmt.Sprintf("it has two records at offset %d", record.Offset)
		}
	}
}

func (s *state) takeReplicaRead(l *histories.ReplicaRead) {
	s.openReplica(l.Partition, l.Replica, l.Source).closed = l
}

// replicasWereRead: the history speaks of replicas.
func (s *state) replicasWereRead() bool {
	return slices.ContainsFunc(s.logs, func(l *partitionLog) bool { return len(l.replicas) > 0 })
}

// usable: what it holds up to its position is known.
func (r *replicaLog) usable() bool {
	return r.closed != nil && r.malformed == "" && r.closed.Position >= 0
}

// whole: it came to its end.
func (r *replicaLog) whole() bool { return r.usable() && r.closed.Error == "" }

// problem says why a read is not whole.
func (r *replicaLog) problem() string {
	switch {
	case r.closed == nil:
		return "the history ends inside of its read"
	case r.malformed != "":
		return r.malformed
	}
	return cmp.Or(r.closed.Error, "how far it was read is not known")
}

func (r *replicaLog) String() string { return fmt.Sprintf("replica %d (%s)", r.replica, r.source) }

// compared is the part of a partition's log in which its replicas must agree: from
// start up to shown all of them; from there up to stored their segment files.
type compared struct {
	start, shown, stored int64
	// behind are the replicas that may hold anything, also below shown: their own high
	// watermark is not known, and nothing says that they are in sync.
	behind map[int32]bool
}

// empty: nothing was compared.
func (c compared) empty() bool { return max(c.shown, c.stored) <= c.start }

// inCommon gives the part of a log that all of its replicas have for certain: from the
// highest log start to the lowest high watermark. Above that a follower may lag, and
// only where the cluster is whole and nothing is on its way any more does it matter
// what its files hold.
func (s *state) inCommon(log *partitionLog) compared {
	whole := s.saidWhole()
	var c compared
	if !whole {
		c.behind = log.behind()
	}
	shown, stored := []int64{}, []int64{}
	if log.final != nil {
		c.start = max(c.start, log.final.LogStart)
		shown = append(shown, log.final.HighWatermark)
	}
	for _, r := range log.replicas {
		if r.closed == nil {
			continue
		}
		c.start = max(c.start, r.closed.LogStart)
		shown = append(shown, r.closed.HighWatermark)
		if r.source == histories.SourceSegments {
			stored = append(stored, r.closed.LogEnd)
		}
	}
	c.shown = lowestKnown(shown)
	if whole && log.complete() {
		c.stored = lowestKnown(stored)
	}
	return c
}

// behind gives the replicas of a cluster that is not whole for which no broker spoke.
func (l *partitionLog) behind() map[int32]bool {
	replicas := make(map[int32]bool)
	for _, r := range l.replicas {
		known := r.closed != nil && r.closed.HighWatermark >= 0
		before, seen := replicas[r.replica]
		replicas[r.replica] = !known && (before || !seen)
	}
	return replicas
}

// lowestKnown gives the lowest offset that is not Unknown; 0: none is known.
func lowestKnown(offsets []int64) int64 {
	known := slices.DeleteFunc(offsets, func(o int64) bool { return o < 0 })
	if len(known) == 0 {
		return 0
	}
	return slices.Min(known)
}

// saidWhole: the last that was heard of the cluster is that it is whole.
func (s *state) saidWhole() bool {
	whole := false
	for _, c := range s.cluster {
		switch c.What {
		case histories.ClusterWhole:
			whole = true
		case histories.ClusterNotWhole:
			whole = false
		}
	}
	return whole
}

// covers: the read says what its replica holds at an offset that is compared, or that it
// holds nothing there.
func (r *replicaLog) covers(offset int64, c compared) bool {
	if !r.usable() || offset >= r.closed.Position || c.behind[r.replica] {
		return false
	}
	return offset < c.shown || r.source == histories.SourceSegments
}
