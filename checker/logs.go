// This file holds the logs: what the final read found in each partition, and what
// was seen during the run at which offset.

package checker

import (
	"cmp"
	"slices"

	"github.com/ackproof/ackproof/histories"
)

// none and foreign stand where an event's number would.
const (
	foreign uint32 = 1<<32 - 1
	none    uint32 = 1<<32 - 2
)

// place is one record: where an event lies.
type place struct {
	offset int64
	event  uint32
	epoch  int32
}

// partitionLog is what is known about one partition's log.
type partitionLog struct {
	name histories.Partition
	// records of the final read at read-uncommitted, in offset order; without a
	// final read, what polls and acknowledgements give evidence of.
	records []place
	// seen is the first event that any poll returned at each offset.
	seen offsets
	// acknowledged is the first event that an acknowledgement named at each
	// offset.
	acknowledged offsets
	// final is the closing line of the final read; nil: there was none.
	final *histories.FinalRead
	// highestOK is the highest offset that an ok poll returned; -1: none.
	highestOK int64
	// evidenceOnly: records come from polls and acknowledgements. What a final read
	// that was not finished found is kept in unfinished.
	evidenceOnly bool
	unfinished   []place
	// replicas are the reads of its replicas.
	replicas []*replicaLog
}

// start is the first offset that the final log still has.
func (l *partitionLog) start() int64 {
	if l.final == nil {
		return 0
	}
	return l.final.LogStart
}

// complete: the final read saw the whole log (design, chapter 1).
func (l *partitionLog) complete() bool {
	f := l.final
	return f != nil && f.Error == "" && f.HighWatermark >= 0 &&
		f.Position == f.HighWatermark && f.LogEnd == f.HighWatermark &&
		f.SecondHighWatermark == f.HighWatermark && f.SecondLogEnd == f.LogEnd
}

// frozen: the log's end stays above the high watermark: records are there and are
// not shown.
func (l *partitionLog) frozen() bool {
	f := l.final
	return f != nil && f.Error == "" && f.HighWatermark >= 0 && f.LogEnd > f.HighWatermark &&
		f.Position == f.HighWatermark && f.SecondHighWatermark == f.HighWatermark &&
		f.SecondLogEnd >= f.LogEnd
}

// end is where the log ends, as far as both looks say.
func (l *partitionLog) end() int64 { return max(l.final.LogEnd, l.final.SecondLogEnd) }

// passed, of a log with a final read: it went past the offset, so that what it did not return
// there is not there.
func (l *partitionLog) passed(offset int64) bool {
	return offset < l.final.Position
}

// settled: it is known what lies at the offset, or that nothing does: the final
// read went past it, or the log ends before it.
func (l *partitionLog) settled(offset int64) bool {
	return l.passed(offset) || l.complete() || (l.frozen() && offset >= l.end())
}

// at gives the records at an offset (more than one only by evidence).
func (l *partitionLog) at(offset int64) []place {
	i, _ := slices.BinarySearchFunc(l.records, offset, func(p place, o int64) int {
		return cmp.Compare(p.offset, o)
	})
	j := i
	for j < len(l.records) && l.records[j].offset == offset {
		j++
	}
	return l.records[i:j]
}

// holds says whether the event lies at the offset.
func (l *partitionLog) holds(offset int64, event uint32) bool {
	return slices.ContainsFunc(l.at(offset), func(p place) bool { return p.event == event })
}

// between gives the first event that the log holds strictly between two offsets.
func (l *partitionLog) between(low, high int64) (place, bool) {
	i, _ := slices.BinarySearchFunc(l.records, low+1, func(p place, o int64) int {
		return cmp.Compare(p.offset, o)
	})
	for ; i < len(l.records) && l.records[i].offset < high; i++ {
		if l.records[i].event != foreign {
			return l.records[i], true
		}
	}
	return place{}, false
}

// sortRecords puts records in offset order; they mostly are.
func (l *partitionLog) sortRecords() {
	byOffset := func(a, b place) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.event, b.event))
	}
	if !slices.IsSortedFunc(l.records, byOffset) {
		slices.SortStableFunc(l.records, byOffset)
	}
}

// offsets maps offsets to events, in pages, since offsets are nearly dense.
type offsets struct {
	pages map[int64]*page
	last  *page
	at    int64
}

const pageSize = 1 << 9

// page holds event + 1 per offset, zero where there is none (foreign + 1 wraps
// to zero, so foreign is stored as none).
type page [pageSize]uint32

func (o *offsets) page(offset int64, create bool) *page {
	number := offset / pageSize
	if o.last != nil && o.at == number {
		return o.last
	}
	p := o.pages[number]
	if p == nil {
		if !create {
			return nil
		}
		if o.pages == nil {
			o.pages = make(map[int64]*page)
		}
		p = new(page)
		o.pages[number] = p
	}
	o.last, o.at = p, number
	return p
}

// first remembers the event at the offset unless there is one already, and gives
// the one that was there first.
func (o *offsets) first(offset int64, event uint32) uint32 {
	if event == foreign {
		event = none
	}
	cell := &o.page(offset, true)[offset%pageSize]
	if *cell == 0 {
		*cell = event + 1
	}
	if *cell == none+1 {
		return foreign
	}
	return *cell - 1
}

// get gives the event that was remembered at the offset.
func (o *offsets) get(offset int64) (event uint32, ok bool) {
	p := o.page(offset, false)
	if p == nil || p[offset%pageSize] == 0 {
		return 0, false
	}
	if p[offset%pageSize] == none+1 {
		return foreign, true
	}
	return p[offset%pageSize] - 1, true
}

// each gives all offsets in ascending order with their events.
func (o *offsets) each(visit func(offset int64, event uint32)) {
	numbers := make([]int64, 0, len(o.pages))
	for n := range o.pages {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		for i, cell := range o.pages[n] {
			if cell == 0 {
				continue
			}
			event := cell - 1
			if event == none {
				event = foreign
			}
			visit(n*pageSize+int64(i), event)
		}
	}
}
