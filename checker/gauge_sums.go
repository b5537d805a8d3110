// This file holds the numbers that are made of all that was gathered.

package checker

import (
	"fmt"
	"math"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// sumSends counts what is known of each send once the history is read.
func (g *gauge) sumSends() {
	added := g.partitionsAdded()
	for i := range g.sends {
		d, j := &g.sends[i], &g.journeys[i]
		if g.fresh(d.process) {
			continue
		}
		g.count(d.process, "invoked", 1)
		g.count(d.process, [...]string{ok: "acknowledged", fail: "failed", info: "unknown"}[d.outcome], 1)
		if !g.inLogByReading(d.event) {
			g.count(d.process, "absent", 1)
		}
		g.sumJourney(d.process, j)
		if d.outcome == ok && d.invoked < added {
			g.agree(d)
		}
	}
}

func (g *gauge) sumJourney(process uint32, j *journey) {
	if !j.completed {
		g.count(process, "unanswered-sends", 1)
	}
	if j.attempts > 1 {
		g.count(process, "retried-sends", 1)
	}
	if j.twoIdentities {
		g.count(process, "sends-under-two-epochs", 1)
	}
	if j.twoPartitions {
		g.count(process, "sends-to-two-partitions", 1)
	}
	if j.attempts == 0 {
		return
	}
	most := measureKey{name: "most-attempts-of-a-send"}
	g.each(process, func(x *gauged) { x.counts[most] = max(x.counts[most], int64(j.attempts)) })
}

// partitionsAdded gives when a fault that added partitions began.
func (g *gauge) partitionsAdded() int64 {
	added := int64(math.MaxInt64)
	for _, f := range g.faults {
		for _, effect := range f.Effects {
			if effect == histories.EffectPartitionsAdded {
				added = min(added, f.Start)
			}
		}
	}
	return added
}

// agree takes whether an acknowledged event lies where its key puts it. Where the
// application chose the partition, the key had no say.
func (g *gauge) agree(d *send) {
	key := g.keys.list[d.key]
	if key == "" || d.log < 0 || d.asked >= 0 {
		return
	}
	at := g.logs[d.log].name
	partitions := g.partitionsOf(at.Topic)
	if partitions <= 0 {
		return
	}
	g.each(d.process, func(x *gauged) {
		x.keyed++
		if murmur2(key)&0x7fffffff%uint32(partitions) == uint32(at.Partition) {
			x.murmur++
		}
	})
}

// murmur2 is the hash by which Kafka's clients choose the partition of a key
// (org.apache.kafka.common.utils.Utils.murmur2; Austin Appleby's MurmurHash2 with a seed of
// Kafka's own).
func murmur2(key string) uint32 {
	const m, r, seed = 0x5bd1e995, 24, 0x9747b28c
	h := uint32(seed) ^ uint32(len(key))
	i := 0
	for ; i+4 <= len(key); i += 4 {
		k := uint32(key[i]) | uint32(key[i+1])<<8 | uint32(key[i+2])<<16 | uint32(key[i+3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	for rest := len(key) - i; rest > 0; rest-- {
		h ^= uint32(key[i+rest-1]) << (8 * (rest - 1))
		if rest == 1 {
			h *= m
		}
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// sumEvents counts what lies in the log, for the session that sent an event first.
func (g *gauge) sumEvents() {
	for _, log := range g.logs {
		for _, r := range log.records {
			if r.event == foreign || g.events[r.event].told || g.events[r.event].first == 0 {
				continue
			}
			g.count(g.sends[g.events[r.event].first-1].process, "in-log", 1)
		}
	}
	for e := range g.copies {
		if sends := g.sendsOf(e); len(sends) > 0 {
			g.count(g.sends[sends[0]].process, "copies", max(int64(g.events[e].copies)-g.explained(sends), 0))
		}
	}
}

// explained gives how many records the sends of an event explain.
func (g *gauge) explained(sends []uint32) int64 {
	n := int64(0)
	for _, i := range sends {
		if g.sends[i].outcome != fail {
			n++
		}
	}
	return max(n, 1)
}

// numbers gives the measures.
func (g *gauge) numbers() Measures {
	m := make(Measures)
	g.all.put(m, "")
	for process, x := range g.gauged {
		name := g.sessions[process].name
		if x == nil || g.fresh(uint32(process)) || name == "" || strings.ContainsAny(name, "{}") {
			continue // one without a name, or with one that cannot be asked for, counts for the run
		}
		suffix := "{" + name + "}"
		x.put(m, suffix)
		if x.produces {
			m["invoked"+suffix] += 0
		}
		if x.consumes {
			m["polled"+suffix] += 0
		}
	}
	g.putPlaces(m)
	m["keys-in-two-partitions"] = g.scatteredKeys()
	return m
}

const (
	nanosecondsInAMillisecond = 1e6
	nanosecondsInASecond      = 1e9
)

// put puts the numbers of a session, or of all, under their names with the suffix.
func (x *gauged) put(m Measures, suffix string) {
	for key, n := range x.counts {
		name := key.name
		if key.code != "" {
			name += ":" + key.code
		}
		m[name+suffix] = float64(n)
	}
	put := func(name string, value, by float64) {
		if by > 0 {
			m[name+suffix] = value / by
		}
	}
	p := &x.pace
	put("events-per-second", float64(p.reported), float64(p.lastReported-p.firstInvoked)/nanosecondsInASecond)
	put("longest-time-without-an-invocation-ms", float64(p.longestUninvoked), nanosecondsInAMillisecond)
	unreported := max(p.longestUnreported, max(p.lastInvoked, p.lastCompleted)-p.lastReported)
	put("longest-time-without-an-acknowledgement-ms", float64(unreported), nanosecondsInAMillisecond)
	put("mean-request-latency-ms", x.latency/nanosecondsInAMillisecond, x.answered)
	put("mean-batch-records", x.records, x.batches)
	put("mean-batch-bytes", x.bytes, x.sizedBatches)
	put("bytes-per-record", x.bytes, x.sizedRecords)
	put("compression-ratio", x.uncompressed, x.packed)
	put("murmur2-agreements", x.murmur, x.keyed)
}

// putPlaces puts how the events are spread over partitions.
func (g *gauge) putPlaces(m Measures) {
	total, most := int64(0), int64(0)
	for _, log := range g.logs {
		n := int64(0)
		for _, r := range log.records {
			if r.event == foreign || g.events[r.event].told {
				continue
			}
			if first := g.events[r.event].first; first == 0 || !g.fresh(g.sends[first-1].process) {
				n++
			}
		}
		m[fmt.Sprintf("in-partition{%s/%d}", log.name.Topic, log.name.Partition)] = float64(n)
		total, most = total+n, max(most, n)
	}
	if total > 0 {
		m["largest-partition-share"] = float64(most) / float64(total)
	}
}

// scatteredKeys counts the keys of a producer whose events lie in more than one partition.
func (g *gauge) scatteredKeys() float64 {
	homes := make([]int32, len(g.groupSizes)) // the log of a key's first event, + 1; -1: in two
	visit := func(group uint32, log int32) {
		switch {
		case homes[group] == 0:
			homes[group] = log + 1
		case homes[group] != log+1:
			homes[group] = -1
		}
	}
	for i := range g.sends {
		d := &g.sends[i]
		if !g.inLogByReading(d.event) || g.keys.list[d.key] == "" || g.fresh(d.process) {
			continue
		}
		visit(d.group, g.events[d.event].placeLog)
		for _, c := range g.copies[d.event] {
			visit(d.group, c.log)
		}
	}
	scattered := 0.0
	for _, home := range homes {
		if home < 0 {
			scattered++
		}
	}
	return scattered
}
