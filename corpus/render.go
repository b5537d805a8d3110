// This file holds how a world becomes the lines of a history of our own.

package corpus

import (
	"fmt"

	"github.com/ackproof/ackproof/histories"
)

// history writes a world down.
func (w *world) history() *histories.Memory {
	w.fillPolls()
	w.pass()
	if !w.withoutFinalRead {
		for _, l := range w.logs {
			w.finalRead(l)
		}
	}
	if !w.withoutReplicas {
		for _, l := range w.logs {
			w.readReplicas(l)
		}
	}
	w.say(&histories.End{Time: w.now, Reason: histories.EndFinished})
	return &histories.Memory{Head: w.head, Body: w.body}
}

// fillPolls gives every poll the records that its windows show.
func (w *world) fillPolls() {
	for _, v := range w.windows {
		records := v.given
		if !v.other {
			records = between(v.log.records, v.from, min(v.to, v.log.end()))
		}
		for _, r := range records {
			v.poll.Records = add(v.poll.Records, v.log.Partition, r)
		}
	}
}

// between gives the records from an offset up to another one.
func between(records []*record, from, to int64) []*record {
	var some []*record
	for _, r := range records {
		if r.offset >= from && r.offset < to {
			some = append(some, r)
		}
	}
	return some
}

// add puts a record to others of its partition and leader epoch.
func add(groups []histories.Records, p histories.Partition, r *record) []histories.Records {
	if last := len(groups) - 1; last < 0 || groups[last].Partition != p || groups[last].LeaderEpoch != r.epoch {
		groups = append(groups, histories.Records{Partition: p, LeaderEpoch: r.epoch})
	}
	last := &groups[len(groups)-1]
	last.Records = append(last.Records, histories.Record{Offset: r.offset, Event: r.event, Corrupt: r.corrupt})
	return groups
}

func (w *world) finalRead(l *partition) {
	var groups []histories.Records
	for _, r := range between(l.records, l.start, l.end()) {
		groups = add(groups, l.Partition, r)
	}
	for _, g := range groups {
		w.say(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: g})
	}
	w.say(&histories.FinalRead{Partition: l.Partition, Isolation: histories.ReadUncommitted, Time: w.now, LogStart: l.start,
		HighWatermark: l.end(), LogEnd: l.next, LeaderEpoch: l.epoch, Position: l.end(), SecondHighWatermark: l.end(),
		SecondLogEnd: l.next, SecondAfterMs: 1000})
}

// readReplicas writes the reads of three replicas: by fetches, which show a follower up to
// its own high watermark, which may lag, and by the segment files.
func (w *world) readReplicas(l *partition) {
	for broker := int32(1); broker <= 3; broker++ {
		for _, source := range []string{histories.SourceFetch, histories.SourceSegments} {
			w.readReplica(l, broker, source)
		}
	}
}

func (w *world) readReplica(l *partition, broker int32, source string) {
	read := &histories.ReplicaRead{Partition: l.Partition, Replica: broker, Source: source, Time: w.now, LogStart: l.start,
		HighWatermark: histories.Unknown, LogEnd: histories.Unknown, Position: l.end()}
	if source == histories.SourceSegments {
		read.LogEnd, read.Position = l.next, l.next
	} else {
		if broker > 1 && w.deviating == nil && w.chance(3) && l.end() > l.start {
			read.Position -= w.Int64N(l.end() - l.start) // a follower that has not heard of the last high watermark
		}
		read.HighWatermark = read.Position
	}
	for _, r := range between(l.records, l.start, read.Position) {
		if r == w.deviating && broker == 2 {
			if r = w.deviation(r); r == nil {
				continue
			}
		}
		record := histories.ReplicaRecord{Record: histories.Record{Offset: r.offset, Event: r.event, Corrupt: r.corrupt}}
		if r.event == "" {
			record.Digest = fmt.Sprintf("content-%d", r.offset)
		}
		w.say(&histories.ReplicaRecords{Partition: l.Partition, Replica: broker, Source: source, LeaderEpoch: r.epoch,
			Records: []histories.ReplicaRecord{record}})
	}
	w.say(read)
}

// deviation is what one replica holds in a record's place.
func (w *world) deviation(r *record) *record {
	other := *r
	other.event, other.corrupt = "", ""
	return &other
}

// readAll has a fresh consumer read every log from its start to its end, in several polls.
func (w *world) readAll(name string) {
	w.pass()
	c := w.openConsumer(name, "")
	for part := int64(1); part <= 3; part++ {
		to := make(map[*partition]int64, len(w.logs))
		for _, l := range w.logs {
			to[l] = l.start + (l.next-l.start)*part/3
		}
		w.pollUpTo(c, to)
	}
}
