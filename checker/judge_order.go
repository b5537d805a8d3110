// This file holds the judges of order: send order within one producer and
// ordering key, and real-time order within one partition.

package checker

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/ackproof/ackproof/histories"
)

// judgeOrder walks the sends of every producer and ordering key in send order.
// A resend is left out: an event's place is its first one, which belongs to its
// first send; and where that first send was not acknowledged the place may be the
// resend's, so such an event is left out altogether.
func (f *findings) judgeOrder() {
	s := f.state
	group := s.inSendOrder()
	for len(group) > 0 {
		n := 1
		for n < len(group) && s.sameOrder(group[0], group[n]) {
			n++
		}
		f.judgeGroup(group[:n])
		group = group[n:]
	}
}

// inSendOrder gives the ranked first sends, by producer and ordering key and in
// each by rank. Sends mostly come in that order already, so they are dealt out to
// their groups, and a group is sorted only where it must be.
func (s *state) inSendOrder() []uint32 {
	if s.inOrder != nil {
		return s.inOrder
	}
	next := make([]uint32, len(s.groupSizes))
	for g, total := 0, uint32(0); g < len(next); g++ {
		next[g] = total
		total += s.groupSizes[g]
	}
	starts := slices.Clone(next)
	order := make([]uint32, len(s.sends))
	for i := range s.sends {
		g := s.sends[i].group
		order[next[g]] = uint32(i)
		next[g]++
	}
	byRank := func(a, b uint32) int { return cmp.Compare(s.sends[a].rank, s.sends[b].rank) }
	for g, start := range starts {
		if group := order[start:next[g]]; !slices.IsSortedFunc(group, byRank) {
			slices.SortStableFunc(group, byRank)
		}
	}
	s.inOrder = slices.DeleteFunc(order, func(i uint32) bool { return s.sends[i].rank < 0 || s.sends[i].resend })
	return s.inOrder
}

func (s *state) sameOrder(a, b uint32) bool {
	return s.sends[a].group == s.sends[b].group
}

// judgeGroup judges the sends of one producer and ordering key, in send order.
func (f *findings) judgeGroup(group []uint32) {
	f.countHoles(group)
	byLog := make(map[int32][]uint32, 1)
	for _, i := range group {
		ev := &f.state.events[f.state.sends[i].event]
		if ev.placed && (!ev.more || f.state.confirmed(&f.state.sends[i])) {
			byLog[ev.placeLog] = append(byLog[ev.placeLog], i)
		}
	}
	for log, sends := range byLog {
		f.judgeSequence(log, sends)
	}
}

// countHoles counts sends that are not in the log while the next one was
// acknowledged.
func (f *findings) countHoles(group []uint32) {
	s := f.state
	for n := 0; n+1 < len(group); n++ {
		d, next := &s.sends[group[n]], &s.sends[group[n+1]]
		if d.outcome != ok && !s.confirmed(d) && !s.events[d.event].placed && s.confirmed(next) && next.rank == d.rank+1 {
			f.counts.Holes++
		}
	}
}

// judgeSequence judges the events of one producer and ordering key in one
// partition, in send order.
func (f *findings) judgeSequence(log int32, sends []uint32) {
	s := f.state
	previous := -1
	var places []int64
	for n, i := range sends {
		if !s.confirmed(&s.sends[i]) {
			continue
		}
		places = append(places, s.placeOf(i))
		if previous >= 0 && s.placeOf(sends[previous]) > s.placeOf(i) {
			f.descent(log, sends[previous], i)
		}
		previous = n
	}
	if !slices.IsSorted(places) {
		f.counts.Moved += int64(len(places) - longestIncreasing(places))
	}
	f.judgeSuffixes(log, sends)
}

func (s *state) placeOf(i uint32) int64 { return s.events[s.sends[i].event].placeOffset }

func (f *findings) descent(log int32, earlier, later uint32) {
	s := f.state
	a, b := &s.sends[earlier], &s.sends[later]
	f.add(OrderViolation, log, s.placeOf(earlier), []uint32{a.event, b.event}, nil,
		"%s was sent before %s by the same producer with the same key, and lies behind it: offsets %d and %d of %s",
		s.eventName(a.event), s.eventName(b.event), s.placeOf(earlier), s.placeOf(later), s.logName(log))
}

// judgeSuffixes looks, from the last send to the first, for unknown ones that
// surfaced behind a later acknowledged one, and for copies that lie behind the
// first place of a later event.
func (f *findings) judgeSuffixes(log int32, sends []uint32) {
	s := f.state
	lowestConfirmed, lowestAny := int64(math.MaxInt64), int64(math.MaxInt64)
	var witness uint32
	for n := len(sends) - 1; n >= 0; n-- {
		d, at := &s.sends[sends[n]], s.placeOf(sends[n])
		for _, c := range s.copies[d.event] {
			if c.log == log && c.offset > at && lowestAny < c.offset {
				f.counts.StaleDuplicates++
			}
		}
		lowestAny = min(lowestAny, at)
		if s.confirmed(d) {
			if at < lowestConfirmed {
				lowestConfirmed, witness = at, sends[n]
			}
			continue
		}
		if d.outcome == info && at > lowestConfirmed {
			f.add(LateGhost, log, at, []uint32{d.event, s.sends[witness].event}, nil,
				"the outcome of %s was unknown; it surfaced at offset %d of %s, behind %s (offset %d), which was sent later and acknowledged",
				s.eventName(d.event), at, s.logName(log), s.eventName(s.sends[witness].event), lowestConfirmed)
		}
	}
}

// longestIncreasing gives the length of the longest subsequence that does not fall
// (Fredman 1975, by binary search over the smallest tails). Without a final read two
// events may have been read at one offset: neither lies behind the other.
func longestIncreasing(values []int64) int {
	var tails []int64
	for _, v := range values {
		i := sort.Search(len(tails), func(i int) bool { return tails[i] > v })
		if i == len(tails) {
			tails = append(tails, v)
		} else {
			tails[i] = v
		}
	}
	return len(tails)
}

// latest is, per clock, the event with the latest invocation so far.
type latest struct {
	event   uint32
	invoked int64
}

// judgeRealtime walks each log by offset. An event that was acknowledged before
// one at a lower offset was even invoked lies out of real-time order.
func (f *findings) judgeRealtime() {
	for index, log := range f.state.logs {
		before := make(map[uint32]latest, 1)
		lower := 0
		for _, r := range log.records {
			for ; log.records[lower].offset < r.offset; lower++ {
				f.noteInvoked(before, int32(index), log.records[lower])
			}
			f.judgeAgainstLower(before, int32(index), r)
		}
	}
}

// noteInvoked notes an event that later ones are judged against.
func (f *findings) noteInvoked(before map[uint32]latest, index int32, r place) {
	t, timed := f.state.span(index, r)
	if b, found := before[t.clock]; timed && (!found || t.call > b.invoked) {
		before[t.clock] = latest{r.event, t.call}
	}
}

func (f *findings) judgeAgainstLower(before map[uint32]latest, index int32, r place) {
	s := f.state
	t, timed := s.span(index, r)
	if !timed {
		return
	}
	if b, found := before[t.clock]; found && b.invoked > t.back {
		f.add(RealtimeOrderViolation, index, r.offset, []uint32{r.event, b.event}, []histories.OperationID{t.by},
			"%s was acknowledged before %s was sent, and lies behind it: offsets %d and %d of %s",
			s.eventName(r.event), s.eventName(b.event), r.offset, s.events[b.event].placeOffset, s.logName(index))
	}
}
