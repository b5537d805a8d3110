// This file holds the oracle: a slow and obvious second checker, written from the
// definitions of the anomalies and not from the code. It keeps everything in
// plain slices, asks every pair of everything, and shares nothing with the
// checker but the lines of a history and Outcome.

package checker_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// oracleSend is one send with what became of it.
type oracleSend struct {
	*histories.Send
	session *histories.Producer
	returns []*histories.SendReturn
	facts   checker.AttemptFacts
	acks    string
	clock   string

	outcome histories.Outcome
	// reported: the client said success, which with acks=0 means nothing.
	reported bool
	// confirmedAt is when the success was reported; -1: never.
	confirmedAt int64
	// ackPartition and ackOffset, as acknowledged, or Unknown.
	ackPartition int32
	ackOffset    int64
}

// oracleRead is one record that a poll returned.
type oracleRead struct {
	process string
	time    int64
	clock   string
	ok      bool
	at      histories.Partition
	record  histories.Record
}

// oracleRecord is a record of the final read.
type oracleRecord struct {
	at     histories.Partition
	epoch  int32
	record histories.Record
}

// oraclePlace is where an event lies.
type oraclePlace struct {
	at     histories.Partition
	offset int64
}

func (p oraclePlace) String() string {
	return fmt.Sprintf("%s/%d@%d", p.at.Topic, p.at.Partition, p.offset)
}

// oracle holds a history in plain slices and what it found.
type oracle struct {
	header *histories.Header
	body   []histories.Line
	sends  []*oracleSend
	reads  []oracleRead
	final  []oracleRecord
	ends   map[histories.Partition]*histories.FinalRead

	// found has, by anomaly, the sorted names of what shows it.
	found map[checker.Anomaly][]string
	// pairs of a realtime order violation: "A before B".
	realtimePairs map[string]bool
	moved         int
	holes         int
	ghosts        int
	stale         int
	unconfirmed   int
}

// consult runs the oracle on a history.
func consult(h *histories.Memory) *oracle {
	o := &oracle{header: h.Head, body: h.Body, ends: map[histories.Partition]*histories.FinalRead{},
		found: map[checker.Anomaly][]string{}, realtimePairs: map[string]bool{}}
	o.gatherSends()
	o.gatherReads()
	o.loss()
	o.duplicates()
	o.order()
	o.lateGhosts()
	o.realtime()
	o.wrongOffsets()
	o.divergence()
	o.vanished()
	o.epochs()
	o.future()
	o.strangers()
	o.corrupt()
	o.impossible()
	o.wrongPlace()
	o.positions()
	o.replicas()
	o.recovery()
	o.count()
	for name := range o.found {
		sort.Strings(o.found[name])
		o.found[name] = slices.Compact(o.found[name])
	}
	return o
}

func (o *oracle) say(name checker.Anomaly, format string, args ...any) {
	o.found[name] = append(o.found[name], fmt.Sprintf(format, args...))
}

// gatherSends reads the lines about sends.
func (o *oracle) gatherSends() {
	sessions := map[string]*histories.Producer{}
	for _, l := range o.body {
		switch l := l.(type) {
		case *histories.Producer:
			sessions[l.Name] = l
		case *histories.Send:
			s := &oracleSend{Send: l, session: sessions[l.Process], confirmedAt: -1,
				ackPartition: histories.Unknown, ackOffset: histories.Unknown}
			s.clock = o.header.Clock
			properties := o.header.Producer
			if s.session != nil && s.session.Clock != "" {
				s.clock = s.session.Clock
			}
			if s.session != nil && s.session.Properties != nil {
				properties = s.session.Properties
			}
			s.acks = properties[histories.PropertyAcks]
			if s.acks == "-1" {
				s.acks = "all"
			}
			o.sends = append(o.sends, s)
		case *histories.SendReturn:
			for _, s := range o.sends {
				if s.OperationID == l.OperationID {
					s.returns = append(s.returns, l)
				}
			}
		}
	}
	for _, l := range o.body {
		if a, ok := l.(*histories.Attempt); ok {
			o.gatherAttempt(a)
		}
	}
	for _, s := range o.sends {
		s.conclude()
	}
}

func (o *oracle) gatherAttempt(a *histories.Attempt) {
	for _, s := range o.sends {
		for _, r := range a.Sends {
			if s.Process != a.Process || s.Number < r.First || s.Number > r.Last {
				continue
			}
			code, known := histories.ErrorByName(a.Answer)
			switch {
			case known && code.Appended(s.acks) == histories.AppendedYes:
				s.facts.Acknowledged++
			case known && code.Appended(s.acks) == histories.AppendedNo:
				s.facts.Refused++
			default:
				s.facts.Unknown++
			}
		}
	}
}

// conclude asks Outcome; a success among several completions wins.
func (s *oracleSend) conclude() {
	facts := checker.SendFacts{Acks: s.acks, Attempts: s.facts}
	if s.session != nil {
		facts.Client, facts.AttemptsVisible = s.session.Client, s.session.AttemptsVisible
	}
	for _, r := range s.returns {
		success := !r.Closed && r.Error == "" && r.ClientError == ""
		facts.Returned, facts.Closed, facts.Error, facts.ClientError = true, r.Closed, r.Error, r.ClientError
		facts.Stated = r.Stated
		if success {
			break
		}
	}
	s.outcome = checker.Outcome(facts)
	for _, r := range s.returns {
		success := !r.Closed && r.Error == "" && r.ClientError == ""
		if !success || (r.Stated != "" && r.Stated != histories.OutcomeOK) || s.confirmedAt >= 0 {
			continue
		}
		s.reported, s.confirmedAt = true, r.Time
		s.ackPartition, s.ackOffset = r.Partition, r.Offset
	}
	if s.acks == "0" { // an answer that never was names no place
		s.ackPartition, s.ackOffset = histories.Unknown, histories.Unknown
	} else if s.outcome != histories.OutcomeOK {
		s.ackPartition, s.ackOffset, s.confirmedAt = histories.Unknown, histories.Unknown, -1
	}
}

// acknowledged, where "acknowledged" reads "reported sent" with acks=0.
func (s *oracleSend) acknowledged() bool {
	return s.outcome == histories.OutcomeOK || (s.acks == "0" && s.reported)
}

// home is the partition that the send went to, as far as it is known.
func (s *oracleSend) home() (histories.Partition, bool) {
	p := s.ackPartition
	if p == histories.Unknown {
		p = s.Partition
	}
	return histories.Partition{Topic: s.Topic, Partition: p}, p != histories.Unknown
}

// gatherReads reads the lines about polls and the final read.
func (o *oracle) gatherReads() {
	clocks := map[string]string{}
	for _, l := range o.body {
		switch l := l.(type) {
		case *histories.Consumer:
			clocks[l.Name] = l.Clock
		case *histories.PollReturn:
			clock := o.header.Clock
			if clocks[l.Process] != "" {
				clock = clocks[l.Process]
			}
			for _, rs := range l.Records {
				for _, r := range rs.Records {
					ok := l.Stated == "" || l.Stated == histories.OutcomeOK
					o.reads = append(o.reads, oracleRead{l.Process, l.Time, clock, ok, rs.Partition, r})
				}
			}
		case *histories.FinalRecords:
			for _, r := range l.Records.Records {
				o.final = append(o.final, oracleRecord{l.Partition, l.LeaderEpoch, r})
			}
		case *histories.FinalRead:
			o.ends[l.Partition] = l
		}
	}
}

// What the final read of a partition says of an offset.
const (
	placeNotRead  = iota // nobody knows
	placeBelow           // below the log start
	placeRead            // read: what is not there is not in the log
	placeAboveHW         // in the log, but not shown
	placeAfterEnd        // the log ends before it
)

func (o *oracle) ask(at histories.Partition, offset int64) int {
	f := o.ends[at]
	switch {
	case f == nil:
		return placeNotRead
	case offset < f.LogStart:
		return placeBelow
	case offset < f.Position:
		return placeRead
	case !o.complete(at) && !o.frozen(at):
		return placeNotRead
	case offset < max(f.LogEnd, f.SecondLogEnd):
		return placeAboveHW
	}
	return placeAfterEnd
}

// complete: high watermark, what was read and log end agree, and a second look
// found the same end.
func (o *oracle) complete(at histories.Partition) bool {
	f := o.ends[at]
	return f != nil && f.Error == "" && f.Position == f.HighWatermark && f.LogEnd == f.HighWatermark &&
		f.SecondHighWatermark == f.HighWatermark && f.SecondLogEnd == f.LogEnd
}

// frozen: read up to a high watermark that stayed below the log end.
func (o *oracle) frozen(at histories.Partition) bool {
	f := o.ends[at]
	return f != nil && f.Error == "" && f.Position == f.HighWatermark && f.LogEnd > f.HighWatermark &&
		f.SecondHighWatermark == f.HighWatermark && f.SecondLogEnd >= f.LogEnd
}

// records gives what the log of a partition holds: what the final read found and,
// below its start only, what was seen during the run. Without a final read, what
// any poll returned.
func (o *oracle) records(at histories.Partition) map[int64][]histories.Record {
	log := map[int64][]histories.Record{}
	add := func(r histories.Record) {
		for _, there := range log[r.Offset] {
			if there.Event == r.Event {
				return
			}
		}
		log[r.Offset] = append(log[r.Offset], r)
	}
	f := o.ends[at]
	for _, r := range o.final {
		if r.at == at {
			add(r.record)
		}
	}
	for _, r := range o.reads {
		if r.at == at && (f == nil || r.record.Offset < f.LogStart) {
			add(r.record)
		}
	}
	return log
}

func (o *oracle) partitions() []histories.Partition {
	seen := map[histories.Partition]bool{}
	for _, r := range o.final {
		seen[r.at] = true
	}
	for _, r := range o.reads {
		seen[r.at] = true
	}
	for at := range o.ends {
		seen[at] = true
	}
	for _, s := range o.sends {
		if at, known := s.home(); known {
			seen[at] = true
		}
	}
	var all []histories.Partition
	for at := range seen {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b histories.Partition) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return all
}

// places gives where the log holds an event, lowest offset first per partition.
func (o *oracle) places(event string) []oraclePlace {
	var places []oraclePlace
	for _, at := range o.partitions() {
		var offsets []int64
		for offset, records := range o.records(at) {
			for _, r := range records {
				if r.Event == event {
					offsets = append(offsets, offset)
				}
			}
		}
		slices.Sort(offsets)
		for _, offset := range offsets {
			places = append(places, oraclePlace{at, offset})
		}
	}
	return places
}

// firstPlace of an event: its lowest offset, in the partition that it belongs to
// if it lies there.
func (o *oracle) firstPlace(event string) (oraclePlace, bool) {
	places := o.evidence(event)
	for _, known := range []func(*oracleSend) int32{
		func(s *oracleSend) int32 { return s.ackPartition },
		func(s *oracleSend) int32 { return s.Partition },
	} {
		for _, s := range o.sendsOf(event) {
			for _, p := range places {
				if s.Topic == p.at.Topic && known(s) == p.at.Partition {
					return p, true
				}
			}
		}
	}
	if len(places) > 0 {
		return places[0], true
	}
	return oraclePlace{}, false
}

// evidence gives where the log holds an event. Without a final read an
// acknowledgement is evidence of a place where no poll showed one.
func (o *oracle) evidence(event string) []oraclePlace {
	places := o.places(event)
	if len(places) > 0 {
		return places
	}
	for _, s := range o.sendsOf(event) {
		at, known := s.home()
		if known && o.ends[at] == nil && s.outcome == histories.OutcomeOK && s.ackOffset >= 0 {
			places = append(places, oraclePlace{at, s.ackOffset})
		}
	}
	slices.SortStableFunc(places, func(a, b oraclePlace) int {
		return cmp.Or(cmp.Compare(a.at.Partition, b.at.Partition), cmp.Compare(a.offset, b.offset))
	})
	return places
}

func (o *oracle) placed(event string) bool {
	_, placed := o.firstPlace(event)
	return placed
}

func (o *oracle) sendsOf(event string) []*oracleSend {
	var all []*oracleSend
	for _, s := range o.sends {
		if s.Event == event {
			all = append(all, s)
		}
	}
	return all
}

// events gives every event that was sent, once, in order of its first send.
func (o *oracle) events() []string {
	var all []string
	for _, s := range o.sends {
		if !slices.Contains(all, s.Event) {
			all = append(all, s.Event)
		}
	}
	return all
}

// loss judges lost writes and unseen ones: what was acknowledged and is nowhere.
func (o *oracle) loss() {
	accounted := map[histories.Partition]bool{}
	for _, event := range o.events() {
		if len(o.places(event)) > 0 {
			continue
		}
		lost, unseen := false, false
		hidden := map[histories.Partition]bool{}
		for _, s := range o.sendsOf(event) {
			if s.outcome != histories.OutcomeOK {
				continue
			}
			l, u := o.missing(s)
			lost, unseen = lost || l, unseen || u
			if at, known := s.home(); u && known {
				hidden[at] = true
			}
		}
		switch {
		case lost:
			o.say(checker.LostWrite, "%s", event)
		case unseen:
			o.say(checker.Unseen, "%s", event)
			maps.Copy(accounted, hidden)
		}
	}
	for _, at := range o.partitions() {
		if o.frozen(at) && !accounted[at] {
			o.say(checker.Unseen, "%s/%d", at.Topic, at.Partition)
		}
	}
}

// startOf is the log end of a partition before the run.
func (o *oracle) startOf(at histories.Partition) int64 {
	for _, t := range o.header.Topics {
		if t.Name == at.Topic && int(at.Partition) < len(t.Start) {
			return t.Start[at.Partition]
		}
	}
	return 0
}

// missing says of an acknowledged send whose event is nowhere what that is.
func (o *oracle) missing(s *oracleSend) (lost, unseen bool) {
	at, known := s.home()
	if !known {
		// Wherever it was acknowledged, it must be in one of the partitions: those
		// of the start, and those that were added since.
		for _, one := range o.partitions() {
			if one.Topic == s.Topic && (!o.complete(one) || o.ends[one].LogStart > o.startOf(one)) {
				return false, false
			}
		}
		for _, t := range o.header.Topics {
			for p := range t.Partitions {
				one := histories.Partition{Topic: t.Name, Partition: p}
				if t.Name == s.Topic && (!o.complete(one) || o.ends[one].LogStart > o.startOf(one)) {
					return false, false
				}
			}
		}
		return true, false
	}
	f := o.ends[at]
	polled := slices.ContainsFunc(o.reads, func(r oracleRead) bool { return r.record.Event == s.Event })
	switch {
	case f == nil && (polled || len(o.ends) > 0): // there was a final read, of other partitions
		return false, false
	case f == nil && s.ackOffset < 0:
		return false, true
	case f == nil:
		for _, r := range o.reads {
			if r.ok && r.at == at && r.record.Offset > s.ackOffset {
				return true, false
			}
		}
		return false, true
	case s.ackOffset < 0:
		// It may have been below the log start, or lie above the high watermark.
		return o.complete(at) && f.LogStart <= o.startOf(at), o.frozen(at)
	}
	place := o.ask(at, s.ackOffset)
	return place == placeRead || place == placeAfterEnd, place == placeAboveHW
}

// duplicates: more copies than the application asked for.
func (o *oracle) duplicates() {
	for _, event := range o.events() {
		asked := 0
		for _, s := range o.sendsOf(event) {
			if s.outcome != histories.OutcomeFail {
				asked++
			}
		}
		if len(o.places(event)) > max(asked, 1) {
			o.say(checker.Duplicate, "%s", event)
		}
	}
}

// line gives the first sends of one producer and ordering key whose events lie in
// a partition, in send order, with their first places. Where the application sent
// an event again the place may be the later send's, unless the first one was
// acknowledged: else the event takes no part.
func (o *oracle) line(process, key string, at histories.Partition) (sends []*oracleSend, places []int64) {
	var all []*oracleSend
	for _, s := range o.sends {
		if s.Process == process && s.OrderingKey == key && s.Rank >= 0 && s.ResendOf == nil {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *oracleSend) int { return int(a.Rank - b.Rank) })
	for _, s := range all {
		place, there := o.firstPlace(s.Event)
		if !there || place.at != at || (len(o.sendsOf(s.Event)) > 1 && !s.acknowledged()) {
			continue
		}
		sends, places = append(sends, s), append(places, place.offset)
	}
	return sends, places
}

// lines calls yield for every producer, ordering key and partition.
func (o *oracle) lines(yield func(at histories.Partition, sends []*oracleSend, places []int64)) {
	seen := map[string]bool{}
	for _, s := range o.sends {
		for _, at := range o.partitions() {
			id := fmt.Sprintf("%q %q %v", s.Process, s.OrderingKey, at)
			if seen[id] {
				continue
			}
			seen[id] = true
			sends, places := o.line(s.Process, s.OrderingKey, at)
			yield(at, sends, places)
		}
	}
}

// order: descents between acknowledged neighbours, and n - longest increasing run.
func (o *oracle) order() {
	o.lines(func(_ histories.Partition, sends []*oracleSend, places []int64) {
		var events []string
		var line []int64
		for i, s := range sends {
			if s.acknowledged() {
				events, line = append(events, s.Event), append(line, places[i])
			}
		}
		for i := 1; i < len(line); i++ {
			if line[i-1] > line[i] {
				o.say(checker.OrderViolation, "%s before %s", events[i-1], events[i])
			}
		}
		o.moved += len(line) - longestRun(line)
	})
}

// longestRun is the length of the longest increasing subsequence, quadratic.
func longestRun(line []int64) int {
	best := make([]int, len(line))
	longest := 0
	for i := range line {
		best[i] = 1
		for j := range i {
			if line[j] <= line[i] {
				best[i] = max(best[i], best[j]+1)
			}
		}
		longest = max(longest, best[i])
	}
	return longest
}

func (o *oracle) lateGhosts() {
	o.lines(func(_ histories.Partition, sends []*oracleSend, places []int64) {
		for i, s := range sends {
			for j := i + 1; j < len(sends); j++ {
				if s.outcome == histories.OutcomeInfo && !s.acknowledged() && sends[j].acknowledged() && places[i] > places[j] {
					o.say(checker.LateGhost, "%s", s.Event)
				}
			}
		}
	})
}

// realtime: A acknowledged before B was invoked, A behind B.
func (o *oracle) realtime() {
	for _, a := range o.sends {
		for _, b := range o.sends {
			if a.Event == b.Event || a.outcome != histories.OutcomeOK || a.confirmedAt < 0 || a.clock != b.clock {
				continue
			}
			// An event sent again may have come to its place by any of its sends.
			earliest, oneClock := b.Time, true
			for _, s := range slices.Concat(o.sendsOf(a.Event), o.sendsOf(b.Event)) {
				oneClock = oneClock && s.clock == a.clock
				if s.Event == b.Event {
					earliest = min(earliest, s.Time)
				}
			}
			if !oneClock || a.confirmedAt >= earliest {
				continue
			}
			placeA, thereA := o.firstPlace(a.Event)
			placeB, thereB := o.firstPlace(b.Event)
			if thereA && thereB && placeA.at == placeB.at && placeA.offset > placeB.offset {
				o.say(checker.RealtimeOrderViolation, "%s", a.Event)
				o.realtimePairs[a.Event+" before "+b.Event] = true
			}
		}
	}
}

// wrongOffsets: acknowledged at o, and the log holds it not at o but elsewhere.
func (o *oracle) wrongOffsets() {
	for _, s := range o.sends {
		at, known := s.home()
		places := o.places(s.Event)
		if s.outcome != histories.OutcomeOK || s.ackOffset < 0 || !known || len(places) == 0 {
			continue
		}
		if slices.Contains(places, oraclePlace{at, s.ackOffset}) {
			continue
		}
		place := o.ask(at, s.ackOffset)
		if o.ends[at] == nil || place == placeRead || place == placeAfterEnd {
			o.say(checker.WrongOffset, "%s not at %d", s.Event, s.ackOffset)
		}
	}
}

// divergence: two reads of one place differ, or two acknowledgements.
func (o *oracle) divergence() {
	type seen struct {
		at    oraclePlace
		event string
	}
	var reads, acks []seen
	for _, r := range o.reads {
		reads = append(reads, seen{oraclePlace{r.at, r.record.Offset}, r.record.Event})
	}
	for _, r := range o.final {
		reads = append(reads, seen{oraclePlace{r.at, r.record.Offset}, r.record.Event})
	}
	for _, s := range o.sends {
		if at, known := s.home(); known && s.outcome == histories.OutcomeOK && s.ackOffset >= 0 {
			acks = append(acks, seen{oraclePlace{at, s.ackOffset}, s.Event})
		}
	}
	for _, group := range [][]seen{reads, acks} {
		for _, a := range group {
			for _, b := range group {
				if a.at == b.at && a.event != b.event {
					o.say(checker.Divergence, "%v", a.at)
				}
			}
		}
	}
}

// vanished: delivered once, and the final read passed its place without it.
func (o *oracle) vanished() {
	for _, r := range o.reads {
		place := o.ask(r.at, r.record.Offset)
		if r.record.Event == "" || (place != placeRead && place != placeAfterEnd) {
			continue
		}
		there := false
		for _, f := range o.final {
			there = there || (f.at == r.at && f.record.Offset == r.record.Offset && f.record.Event == r.record.Event)
		}
		if !there {
			o.say(checker.VanishedRead, "%s at %v", r.record.Event, oraclePlace{r.at, r.record.Offset})
		}
	}
}

func (o *oracle) epochs() {
	for _, at := range o.partitions() {
		var line []oracleRecord
		for _, r := range o.final {
			if r.at == at && r.epoch != histories.Unknown {
				line = append(line, r)
			}
		}
		for _, r := range line {
			// The records at the closest lower offset.
			closest, epoch := int64(-1), int32(histories.Unknown)
			for _, before := range line {
				if before.record.Offset < r.record.Offset {
					closest = max(closest, before.record.Offset)
				}
			}
			for _, before := range line {
				if before.record.Offset == closest {
					epoch = max(epoch, before.epoch)
				}
			}
			if r.epoch < epoch {
				o.say(checker.EpochRegression, "%v", oraclePlace{at, r.record.Offset})
			}
		}
	}
}

// future: delivered before any of its sends was invoked, by one clock.
func (o *oracle) future() {
	for _, r := range o.reads {
		sends := o.sendsOf(r.record.Event)
		before := len(sends) > 0
		for _, s := range sends {
			before = before && s.clock == r.clock && r.time < s.Time
		}
		if before {
			o.say(checker.FutureRead, "%s", r.record.Event)
		}
	}
}

func (o *oracle) strangers() {
	stranger := func(r histories.Record) {
		if r.Event != "" && len(o.sendsOf(r.Event)) == 0 {
			o.say(checker.Phantom, "%s", r.Event)
		}
	}
	for _, r := range o.reads {
		stranger(r.record)
	}
	for _, r := range o.final {
		stranger(r.record)
	}
}

func (o *oracle) corrupt() {
	for _, r := range o.reads {
		if r.record.Corrupt != "" {
			o.say(checker.Corrupt, "%v", oraclePlace{r.at, r.record.Offset})
		}
	}
	for _, r := range o.final {
		if r.record.Corrupt != "" {
			o.say(checker.Corrupt, "%v", oraclePlace{r.at, r.record.Offset})
		}
	}
}

func (o *oracle) impossible() {
	for _, event := range o.events() {
		failed := true
		for _, s := range o.sendsOf(event) {
			failed = failed && s.outcome == histories.OutcomeFail
		}
		if failed && o.placed(event) {
			o.say(checker.ImpossibleWrite, "%s", event)
		}
	}
}

// wrongPlace: elsewhere than it was sent to, or a key in two partitions. Which
// event of the key is the misplaced one is not said by the definition: the key is
// named.
func (o *oracle) wrongPlace() {
	type where struct{ client, topic, key string }
	scattered := map[where]map[histories.Partition]bool{}
	for _, event := range o.events() {
		sends := o.sendsOf(event)
		for _, p := range o.evidence(event) {
			meant := false
			for _, s := range sends {
				meant = meant || (s.Topic == p.at.Topic && (s.Partition == histories.Unknown || s.Partition == p.at.Partition))
			}
			if !meant {
				o.say(checker.WrongPlace, "%s", event)
				continue
			}
			if s := sends[0]; s.Partition == histories.Unknown && s.OrderingKey != "" {
				w := where{s.client(), s.Topic, s.OrderingKey}
				if scattered[w] == nil {
					scattered[w] = map[histories.Partition]bool{}
				}
				scattered[w][p.at] = true
			}
		}
	}
	for w, places := range scattered {
		if len(places) > 1 {
			o.say(checker.WrongPlace, "key %s", w.key)
		}
	}
}

// client is the library: each maps keys to partitions in its own way.
func (s *oracleSend) client() string {
	if s.session == nil {
		return ""
	}
	return s.session.Client + " " + s.session.ClientVersion
}

// oraclePosition is where a consumer may stand in a partition, none if that is not
// known.
type oraclePosition []oracleStand

// oracleStand is an offset that is due, and the record that was given before it.
type oracleStand struct {
	due  int64
	last *oracleRecord
}

// positions judges skipped and backward polls by walking each consumer's lines.
func (o *oracle) positions() {
	consumers := map[string]map[histories.Partition]oraclePosition{}
	of := func(process string) map[histories.Partition]oraclePosition {
		if consumers[process] == nil {
			consumers[process] = map[histories.Partition]oraclePosition{}
		}
		return consumers[process]
	}
	for _, l := range o.body {
		switch l := l.(type) {
		case *histories.PositionChange:
			o.changePosition(of(l.Process), l)
		case *histories.PollReturn:
			o.walkPoll(of(l.Process), l)
		}
	}
}

func (o *oracle) changePosition(standing map[histories.Partition]oraclePosition, l *histories.PositionChange) {
	before := map[histories.Partition]oraclePosition{}
	for at, p := range standing {
		before[at] = p
	}
	if l.How == histories.ChangeAssign || l.How == histories.ChangeSubscribe {
		clear(standing)
	}
	for _, p := range l.Partitions {
		switch {
		case l.How == histories.ChangeRevoke:
			delete(standing, p.Partition)
		case p.Position >= 0:
			standing[p.Partition] = oraclePosition{{p.Position, nil}}
		case l.How == histories.ChangeAssign && before[p.Partition] != nil:
			standing[p.Partition] = before[p.Partition]
		default:
			delete(standing, p.Partition)
		}
	}
}

// walkPoll follows what a poll returned. A poll that did not return in order to
// its caller (a failed or crashed one) may have moved the position or not.
func (o *oracle) walkPoll(standing map[histories.Partition]oraclePosition, l *histories.PollReturn) {
	ok := l.Stated == "" || l.Stated == histories.OutcomeOK
	before := map[histories.Partition]oraclePosition{}
	for at, p := range standing {
		before[at] = p
	}
	for _, rs := range l.Records {
		for _, r := range rs.Records {
			given := &oracleRecord{rs.Partition, rs.LeaderEpoch, r}
			o.step(standing[rs.Partition], given)
			standing[rs.Partition] = oraclePosition{{r.Offset + 1, given}}
		}
	}
	if ok {
		return
	}
	for _, rs := range l.Records {
		if b := before[rs.Partition]; b != nil && len(rs.Records) > 0 {
			last := rs.Records[len(rs.Records)-1]
			standing[rs.Partition] = append(slices.Clone(b),
				oracleStand{last.Offset + 1, &oracleRecord{rs.Partition, rs.LeaderEpoch, last}})
		} else if b == nil {
			delete(standing, rs.Partition)
		}
	}
}

// step judges one record against the positions that the consumer may have had:
// backward if it is from each of them; else skipped if a record lies between it
// and the nearest of those that it does not lie before.
func (o *oracle) step(from oraclePosition, to *oracleRecord) {
	at, offset := to.at, to.record.Offset
	nearest := oracleStand{due: -1}
	for _, stand := range from {
		if stand.due <= offset && stand.due > nearest.due {
			nearest = stand
		}
	}
	if len(from) > 0 && nearest.due < 0 {
		o.say(checker.BackwardPoll, "%v", oraclePlace{at, offset})
	}
	if nearest.due < 0 {
		return
	}
	if skipped, some := o.steppedOver(at, nearest.due, offset); some && o.certainlyThere(nearest.last, to, skipped) {
		o.say(checker.SkippedPoll, "%v", oraclePlace{at, skipped})
	}
}

// certainlyThere: where offsets may have been given again, a record was skipped only if
// the final read found both its neighbours as they were given, and the record itself in
// the leader epoch of the first.
func (o *oracle) certainlyThere(last, to *oracleRecord, skipped int64) bool {
	if len(o.header.Effects) == 0 {
		return true
	}
	found := func(like func(r oracleRecord) bool) bool { return slices.ContainsFunc(o.final, like) }
	same := func(a *oracleRecord) func(oracleRecord) bool {
		return func(b oracleRecord) bool {
			return a.at == b.at && a.epoch == b.epoch && a.epoch >= 0 && a.record.Offset == b.record.Offset && a.record.Event == b.record.Event
		}
	}
	return last != nil && o.ends[to.at] != nil && found(same(last)) && found(same(to)) && found(func(r oracleRecord) bool {
		return r.at == to.at && r.record.Offset == skipped && r.record.Event != "" && r.epoch == last.epoch
	})
}

// steppedOver gives the lowest event that the log holds in [due, offset).
func (o *oracle) steppedOver(at histories.Partition, due, offset int64) (lowest int64, some bool) {
	f := o.ends[at]
	consider := func(place int64) {
		if place >= due && place < offset && (f == nil || place >= f.LogStart) && (!some || place < lowest) {
			lowest, some = place, true
		}
	}
	for place, records := range o.records(at) {
		if slices.ContainsFunc(records, func(r histories.Record) bool { return r.Event != "" }) {
			consider(place)
		}
	}
	for _, s := range o.sends {
		home, known := s.home()
		if f == nil && known && home == at && s.outcome == histories.OutcomeOK && s.ackOffset >= 0 && len(o.places(s.Event)) == 0 {
			consider(s.ackOffset)
		}
	}
	return lowest, some
}

// oracleReplica is one read of one replica: its closing line, and what it found.
type oracleReplica struct {
	*histories.ReplicaRead
	records map[int64]histories.ReplicaRecord
}

// replicaReads gives the reads of a partition's replicas that were closed.
func (o *oracle) replicaReads(at histories.Partition) []oracleReplica {
	var reads []oracleReplica
	for _, l := range o.body {
		end, ok := l.(*histories.ReplicaRead)
		if !ok || end.Partition != at {
			continue
		}
		read := oracleReplica{end, map[int64]histories.ReplicaRecord{}}
		for _, l := range o.body {
			some, ok := l.(*histories.ReplicaRecords)
			if !ok || some.Partition != at || some.Replica != end.Replica || some.Source != end.Source {
				continue
			}
			for _, r := range some.Records {
				read.records[r.Offset] = r
			}
		}
		reads = append(reads, read)
	}
	return reads
}

// replicas: between the highest log start and the lowest high watermark two replicas
// hold different records, or one lacks one; above that the segment files alone are
// asked, where the cluster is whole and the final read complete.
func (o *oracle) replicas() {
	whole := false
	for _, l := range o.body {
		if e, ok := l.(*histories.ClusterEvent); ok {
			whole = e.What == histories.ClusterWhole
		}
	}
	for _, at := range o.partitions() {
		reads := o.replicaReads(at)
		starts, shown, ends := []int64{0}, []int64{}, []int64{}
		for _, r := range reads {
			starts, shown, ends = append(starts, r.LogStart), append(shown, r.HighWatermark), append(ends, r.LogEnd)
		}
		if f := o.ends[at]; f != nil {
			starts, shown = append(starts, f.LogStart), append(shown, f.HighWatermark)
		}
		high, stored := lowest(shown), int64(0)
		if whole && o.complete(at) {
			stored = lowest(ends)
		}
		for offset := slices.Max(starts); offset < max(high, stored); offset++ {
			o.replicasAt(at, reads, offset, offset < high)
		}
	}
}

// lowest of the offsets that are known; 0: none is.
func lowest(offsets []int64) int64 {
	slices.Sort(offsets)
	for _, o := range offsets {
		if o >= 0 {
			return o
		}
	}
	return 0
}

func (o *oracle) replicasAt(at histories.Partition, reads []oracleReplica, offset int64, shown bool) {
	different := map[string]bool{}
	for _, r := range reads {
		if offset < r.Position && (shown || r.Source == histories.SourceSegments) {
			record, holds := r.records[offset]
			different[fmt.Sprint(holds, record)] = true
		}
	}
	if len(different) > 1 {
		o.say(checker.ReplicaDivergence, "%v", oraclePlace{at, offset})
	}
}

// recovery: the cluster never became whole, or a fresh client got nothing through
// to a partition for max(60 s, twice the delivery timeout).
func (o *oracle) recovery() {
	for _, l := range o.body {
		if e, ok := l.(*histories.ClusterEvent); ok && e.What == histories.ClusterNotWhole {
			o.say(checker.NotRecovered, "not whole")
		}
	}
	for _, at := range o.partitions() {
		var times []int64
		through := false
		for _, s := range o.sends {
			if s.session == nil || !s.session.Fresh || s.Topic != at.Topic || s.Partition != at.Partition {
				continue
			}
			through = through || s.acknowledged()
			times = append(times, s.Time)
			for _, r := range s.returns {
				times = append(times, r.Time)
			}
		}
		if len(times) > 0 && !through && slices.Max(times)-slices.Min(times) >= 60e9 {
			o.say(checker.NotRecovered, "%v", at)
		}
	}
}

// count counts what is shown and never a violation.
func (o *oracle) count() {
	for _, k := range o.sends {
		for _, next := range o.sends {
			if k.Process == next.Process && k.OrderingKey == next.OrderingKey && k.ResendOf == nil && next.ResendOf == nil &&
				k.Rank >= 0 && next.Rank == k.Rank+1 && !k.acknowledged() && next.acknowledged() && !o.placed(k.Event) {
				o.holes++
			}
		}
	}
	for _, event := range o.events() {
		unknown, acknowledged, reported := false, false, false
		for _, s := range o.sendsOf(event) {
			unknown = unknown || s.outcome == histories.OutcomeInfo
			acknowledged = acknowledged || s.outcome == histories.OutcomeOK
			reported = reported || (s.outcome == histories.OutcomeInfo && s.reported)
		}
		unknown = unknown && !acknowledged
		present := o.placed(event)
		if unknown && present {
			o.ghosts++
		}
		if reported && !present {
			o.unconfirmed++
		}
	}
	o.lines(func(at histories.Partition, sends []*oracleSend, places []int64) {
		for i, s := range sends {
			for _, one := range o.evidence(s.Event) {
				behind := false
				for j := i + 1; j < len(sends); j++ {
					behind = behind || (one.at == at && one.offset > places[i] && places[j] < one.offset)
				}
				if behind {
					o.stale++
				}
			}
		}
	})
}
