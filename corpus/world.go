// This file holds the world that a history of the corpus tells of: logs, what was sent,
// and what consumers were given. It is healthy by construction; a defect is planted into
// it before it is written down.

package corpus

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ackproof/ackproof/histories"
)

// record is a record of a log.
type record struct {
	offset int64
	event  string // empty: no event of this run
	sent   *sent  // nil: nobody sent it
	epoch  int32
	batch  int // number of the batch in its log
	// corrupt says what differs from what was sent.
	corrupt string
}

// partition is a partition's log, and what readers are shown of it.
type partition struct {
	histories.Partition
	records []*record // by offset
	next    int64     // the log's end
	batches int
	epoch   int32
	// base is where it began: offsets below hold what was written before the run.
	base int64
	// start is where the log starts in the end.
	start int64
	// shown is the high watermark in the end; math.MaxInt64: the log's end.
	shown int64
	// unserved: a fresh client is not served here.
	unserved bool
}

// sent is a send, with what became of it.
type sent struct {
	line *histories.Send
	// back is its last completion; nil: it has none.
	back     *histories.SendReturn
	batch    *batch
	log      *partition
	record   *record // nil: it is not in the log
	outcome  histories.Outcome
	producer *producer
	// written is when it came into the log.
	written int64
	// late: the recorder had given it up before the acknowledgement came.
	late bool
	// again: the application sent the event more than once.
	again bool
	// inFault: invoked while a fault was on; afterFaults: after the last one.
	inFault, afterFaults bool
}

// line of a producer and an ordering key, in which order is promised.
type orderLine struct {
	producer *producer
	key      string
}

func (s *sent) order() orderLine { return orderLine{s.producer, s.line.OrderingKey} }

// certain: acknowledged with its offset, and sent once.
func (s *sent) certain() bool { return s.acknowledged() && !s.again }

// acknowledged: with its offset.
func (s *sent) acknowledged() bool {
	return s.outcome == histories.OutcomeOK && s.record != nil && s.back != nil && s.back.Offset >= 0
}

// batch is what was sent together.
type batch struct{ sends []*sent }

type producer struct {
	line    *histories.Producer
	numbers int64
	ranks   map[string]int64
	// waiting are the batches that have no answer yet, in send order.
	waiting []*batch
	// restarted: it continues an earlier session.
	restarted bool
}

type consumer struct {
	name      string
	numbers   int64
	positions map[*partition]int64
}

// window is what one poll looked at of a log: it was given the records from an offset
// up to another one, whatever turns out to lie there.
type window struct {
	poll     *histories.PollReturn
	log      *partition
	from, to int64
	// given stands in for what the log holds there.
	given []*record
	other bool
}

// world is a cluster with its clients.
type world struct {
	*rand.Rand
	shape shape
	head  *histories.Header
	body  []histories.Line
	now   int64

	logs      []*partition
	producers []*producer
	consumers []*consumer
	sends     []*sent
	windows   []*window
	strangers int // sessions that were put in for a defect
	faulty    bool
	faults    int
	withoutReplicas,
	withoutFinalRead bool
	// deviating makes one replica hold something else at a record's offset.
	deviating *record
}

func (w *world) say(l histories.Line) { w.body = append(w.body, l) }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

func pickOne[T any](w *world, from []T) T { return from[w.IntN(len(from))] }

// pass lets time go on.
func (w *world) pass() { w.now += 1000 + w.Int64N(4000) }

// put appends a record at a log's end.
func (l *partition) put(r *record) *record {
	r.offset, r.epoch, r.batch = l.next, l.epoch, l.batches
	l.records, l.next = append(l.records, r), l.next+1
	return r
}

// insert puts a record at an offset that is free.
func (l *partition) insert(offset int64, r *record) *record {
	at, taken := slices.BinarySearchFunc(l.records, offset, func(r *record, o int64) int { return cmp.Compare(r.offset, o) })
	if taken {
		panic(fmt.Sprintf("corpus: offset %d of %v is taken", offset, l.Partition))
	}
	r.offset, r.epoch, r.batch = offset, l.epoch, -1
	switch {
	case at < len(l.records):
		r.epoch = l.records[at].epoch
	case at > 0:
		r.epoch = l.records[at-1].epoch
	}
	l.records, l.next = slices.Insert(l.records, at, r), max(l.next, offset+1)
	return r
}

func (l *partition) remove(r *record) {
	l.records = slices.DeleteFunc(l.records, func(x *record) bool { return x == r })
	if r.sent != nil && r.sent.record == r {
		r.sent.record = nil
	}
}

// events are the records that are events of this run.
func (l *partition) events() []*record {
	return slices.DeleteFunc(slices.Clone(l.records), func(r *record) bool { return r.event == "" })
}

// free gives the offset nearest to another one that holds nothing, from low on and below
// high; false: there is none.
func (l *partition) free(near, low, high int64) (int64, bool) {
	taken := make(map[int64]bool, len(l.records))
	for _, r := range l.records {
		taken[r.offset] = true
	}
	best, found := int64(0), false
	for o := max(low, l.base); o < high && o <= l.next; o++ {
		if !taken[o] && (!found || distance(o, near) < distance(best, near)) {
			best, found = o, true
		}
	}
	return best, found
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// end is how far readers are shown the log.
func (l *partition) end() int64 { return min(l.next, l.shown) }

// readBefore: a poll that ended before a time covered the offset.
func (w *world) readBefore(l *partition, offset, at int64) bool {
	return slices.ContainsFunc(w.windows, func(v *window) bool {
		return v.log == l && v.from <= offset && offset < v.to && v.poll.Time < at
	})
}

// forever is the high watermark of a log that hides nothing.
const forever int64 = math.MaxInt64
