// This file holds the kinds of history: our own, in memory and as a file, and those that
// other tools record, written in their own formats and read by our importers.

package corpus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// Kind is a kind of history.
type Kind struct {
	Name string
	// Imported: another tool's format.
	Imported bool

	shape func(*shape)
	write func(ctx context.Context, w *world, at Place) (histories.History, error)
	// lacks says why an anomaly cannot show in this kind.
	lacks map[checker.Anomaly]string
	// lacksAt says why an anomaly cannot be at a place ("anomaly place").
	lacksAt map[string]string
}

// bend makes a shape one that can be told of in this kind of history.
func (k Kind) bend(s *shape) {
	if k.shape != nil {
		k.shape(s)
	}
	if s.imported {
		s.faults, s.restarts, s.retention, s.notEmpty, s.compacted = 0, false, false, false, false
	}
}

// Kinds gives all of them.
func Kinds() []Kind {
	jepsen := func(s *shape) { s.imported, s.sequential, s.unkeyed = true, true, true }
	notJepsens := map[checker.Anomaly]string{
		checker.VanishedRead: "there is no final read", checker.EpochRegression: "it has no leader epochs",
		checker.Corrupt: "values are opaque", checker.ReplicaDivergence: "it has no replicas",
		checker.NotRecovered: "it does not say when the cluster was whole",
		checker.WrongPlace:   "a value is named by the key that it was read from, so that it is a phantom there",
	}
	notVerifiable := map[checker.Anomaly]string{
		checker.RealtimeOrderViolation: "it does not say when a value was sent",
		checker.FutureRead:             "it does not say when a value was sent",
	}
	for name, why := range notJepsens {
		notVerifiable[name] = why
	}
	notVerifiable[checker.WrongPlace] = "a producer does not say which partition it asked for"
	start := map[string]string{"skipped-poll first": "it does not say from where a consumer began"}
	jepsenAt := map[string]string{"skipped-poll first": start["skipped-poll first"],
		"order-violation between-markers": "a process sends one batch at a time, and there are no markers inside of one"}
	return []Kind{
		{Name: "memory", write: inMemory},
		{Name: "file", write: asFile},
		{Name: histories.FormatJepsen, Imported: true, shape: jepsen, write: asEDN, lacks: notJepsens,
			lacksAt: jepsenAt},
		{Name: histories.FormatNeutral, Imported: true, shape: jepsen, write: asNeutral, lacks: notJepsens,
			lacksAt: jepsenAt},
		{Name: histories.FormatVerifiable, Imported: true, lacks: notVerifiable, lacksAt: start, write: asVerifiable,
			shape: func(s *shape) { s.imported, s.unkeyed, s.producers = true, true, max(s.producers, 2) }},
	}
}

func inMemory(_ context.Context, w *world, at Place) (histories.History, error) {
	h := w.history()
	if at.withoutConfiguration {
		h.Head.Producer, h.Head.Topics = nil, nil
	}
	if at.cut {
		h.Body = h.Body[:len(h.Body)-1]
	}
	return h, nil
}

// asFile writes the lines and reads them again; a file is cut inside of its last line.
func asFile(ctx context.Context, w *world, at Place) (histories.History, error) {
	whole := at
	whole.cut = false
	h, err := inMemory(ctx, w, whole)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	create := histories.NewTextWriter
	if w.chance(2) && !at.cut {
		create = histories.NewWriter
	}
	out, err := create(&text, h.Header())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(out.WriteAll(ctx, h), out.Close()); err != nil {
		return nil, err
	}
	content := text.Bytes()
	if at.cut {
		content = content[:len(content)-2-w.IntN(10)] // more than the newline
	}
	return histories.OpenBytes("corpus.jsonl", content)
}

// operation is an invocation or a completion of Jepsen's.
type operation struct {
	time    int64
	process int
	kind    string
	f       string
	sends   []*sent
	poll    *histories.PollReturn
	topics  []string
}

// operations gives the world's operations as Jepsen records them: a batch is one operation
// of its producer.
func (w *world) operations() []operation {
	w.fillPolls()
	processes := make(map[string]int)
	processOf := func(name string) int {
		if _, known := processes[name]; !known {
			processes[name] = len(processes)
		}
		return processes[name]
	}
	var all []operation
	batches := make(map[*batch]bool)
	for _, s := range w.sends {
		if batches[s.batch] {
			continue
		}
		batches[s.batch] = true
		o := operation{time: s.line.Time, process: processOf(s.producer.line.Name), kind: "invoke", f: "send", sends: s.batch.sends}
		all = append(all, o)
		if s.back != nil {
			o.time, o.kind = s.back.Time, map[histories.Outcome]string{histories.OutcomeOK: "ok", histories.OutcomeFail: "fail"}[s.outcome]
			o.kind = cmp.Or(o.kind, "info")
			all = append(all, o)
		}
	}
	for _, line := range w.body {
		switch l := line.(type) {
		case *histories.PositionChange:
			o := operation{time: l.Time, process: processOf(l.Process), kind: "invoke", f: "assign"}
			for _, p := range l.Partitions {
				o.topics = append(o.topics, strconv.Itoa(int(p.Partition.Partition)))
			}
			all = append(all, o)
			o.kind = "ok"
			all = append(all, o)
		case *histories.PollReturn:
			o := operation{time: l.Time, process: processOf(l.Process), kind: "invoke", f: "poll"}
			all = append(all, o)
			o.kind, o.poll = "ok", l
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b operation) int { return cmp.Compare(a.time, b.time) })
	return all
}

// numberOf gives an event as the number that Jepsen's client would have sent.
type numbering map[string]int

func (n numbering) of(event string) int {
	if _, known := n[event]; !known {
		n[event] = len(n)
	}
	return n[event]
}

func (o *operation) key() string { return strconv.Itoa(int(o.sends[0].log.Partition.Partition)) }

func asEDN(_ context.Context, w *world, _ Place) (histories.History, error) {
	var text strings.Builder
	values := numbering{}
	for i, o := range w.operations() {
		fmt.Fprintf(&text, "{:index %d, :time %d, :process %d, :type :%s, :f :%s, :value %s}\n", i, o.time, o.process, o.kind, o.f,
			o.edn(values))
	}
	return histories.OpenBytes("corpus.edn", []byte(text.String()))
}

func (o *operation) edn(values numbering) string {
	var parts []string
	switch o.f {
	case "assign":
		return "[" + strings.Join(o.topics, " ") + "]"
	case "send":
		for _, s := range o.sends {
			value := strconv.Itoa(values.of(s.line.Event))
			if o.kind == "ok" {
				offset := "nil"
				if s.back.Offset >= 0 {
					offset = strconv.FormatInt(s.back.Offset, 10)
				}
				value = "[" + offset + " " + value + "]"
			}
			parts = append(parts, fmt.Sprintf("[:send %s %s]", o.key(), value))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	if o.poll == nil {
		return "[[:poll]]"
	}
	for key, records := range byKey(o.poll) {
		var pairs []string
		for _, r := range records {
			pairs = append(pairs, fmt.Sprintf("[%d %d]", r.Offset, values.of(r.Event)))
		}
		parts = append(parts, fmt.Sprintf("%s [%s]", key, strings.Join(pairs, " ")))
	}
	slices.Sort(parts)
	return "[[:poll {" + strings.Join(parts, ", ") + "}]]"
}

// byKey gives a poll's records by partition.
func byKey(l *histories.PollReturn) map[string][]histories.Record {
	keys := make(map[string][]histories.Record)
	for _, g := range l.Records {
		key := strconv.Itoa(int(g.Partition.Partition))
		keys[key] = append(keys[key], g.Records...)
	}
	return keys
}

func asNeutral(_ context.Context, w *world, _ Place) (histories.History, error) {
	values := numbering{}
	var list []map[string]any
	for i, o := range w.operations() {
		list = append(list, map[string]any{"index": i, "time": o.time, "process": o.process, "type": o.kind, "f": o.f,
			"value": o.neutral(values)})
	}
	text, err := json.Marshal(map[string]any{"name": "corpus", "ops": list})
	if err != nil {
		return nil, err
	}
	return histories.OpenBytes("corpus.json", text)
}

func (o *operation) neutral(values numbering) any {
	var parts []any
	switch o.f {
	case "assign":
		return o.topics
	case "send":
		for _, s := range o.sends {
			part := map[string]any{"m": "send", "key": o.key(), "value": values.of(s.line.Event)}
			if o.kind == "ok" {
				part["offset"] = nil
				if s.back.Offset >= 0 {
					part["offset"] = s.back.Offset
				}
			}
			parts = append(parts, part)
		}
		return parts
	}
	part := map[string]any{"m": "poll"}
	if o.poll != nil {
		records := map[string][][2]int64{}
		for key, of := range byKey(o.poll) {
			for _, r := range of {
				records[key] = append(records[key], [2]int64{r.Offset, int64(values.of(r.Event))})
			}
		}
		part["records"] = records
	}
	return append(parts, part)
}

// asVerifiable writes one file for each producer and consumer, as Apache's verifiable
// clients print it.
func asVerifiable(ctx context.Context, w *world, _ Place) (histories.History, error) {
	w.fillPolls()
	values := make(map[string]string) // by event
	files := make(map[string]*strings.Builder)
	var names []string
	file := func(name string) *strings.Builder {
		if files[name] == nil {
			files[name] = &strings.Builder{}
			names = append(names, name)
			line(files[name], "startup_complete")
		}
		return files[name]
	}
	counts := make(map[string]int)
	for _, s := range w.sends { // each producer's sends are in send order
		name := s.producer.line.Name
		values[s.line.Event] = name + "." + strconv.Itoa(counts[name])
		counts[name]++
		file(name)
	}
	for _, l := range w.body {
		w.verifiableLine(l, file, values)
	}
	for _, name := range names {
		if counts[name] > 0 && name[0] != 'x' { // a stranger was killed
			line(files[name], "tool_data", "sent", counts[name])
		}
		line(files[name], "shutdown_complete")
	}
	var opened []*histories.File
	for _, name := range names {
		f, err := histories.OpenBytes(name, []byte(files[name].String()))
		if err != nil {
			return nil, err
		}
		opened = append(opened, f)
	}
	return histories.Together(ctx, opened...)
}

// verifiableLine writes what a client prints of a line of ours.
func (w *world) verifiableLine(l histories.Line, file func(string) *strings.Builder, values map[string]string) {
	switch l := l.(type) {
	case *histories.SendReturn:
		s := w.sendOf(l)
		switch {
		case l.Error == "" && l.ClientError == "":
			line(file(l.Process), "producer_send_success", "key", nil, "value", values[s.line.Event], "topic", s.line.Topic,
				"partition", l.Partition, "offset", l.Offset)
		case s.outcome == histories.OutcomeFail && l.ClientError != "":
			line(file(l.Process), "producer_send_error", "key", nil, "value", values[s.line.Event], "topic", s.line.Topic,
				"exception", "class org.apache.kafka.common.errors.SerializationException", "message", "cannot")
		default:
			line(file(l.Process), "producer_send_error", "key", nil, "value", values[s.line.Event], "topic", s.line.Topic,
				"exception", "class org.apache.kafka.common.errors.TimeoutException", "message", "Expiring 1 record(s)")
		}
	case *histories.PositionChange:
		line(file(l.Process), "partitions_assigned", "partitions", assigned(l))
	case *histories.PollReturn:
		out, count, parts := file(l.Process), 0, []map[string]any{}
		for _, g := range l.Records {
			for _, r := range g.Records {
				value, known := values[r.Event]
				if !known {
					value = w.sends[0].producer.line.Name + ".999" // nobody sent it
				}
				line(out, "record_data", "key", nil, "value", value, "topic", g.Topic, "partition", g.Partition.Partition, "offset", r.Offset)
				count++
			}
			parts = append(parts, map[string]any{"topic": g.Topic, "partition": g.Partition.Partition, "count": len(g.Records),
				"minOffset": g.Records[0].Offset, "maxOffset": g.Records[len(g.Records)-1].Offset})
		}
		line(out, "records_consumed", "count", count, "partitions", parts)
	}
}

func assigned(l *histories.PositionChange) []map[string]any {
	var parts []map[string]any
	for _, p := range l.Partitions {
		parts = append(parts, map[string]any{"topic": p.Topic, "partition": p.Partition.Partition})
	}
	return parts
}

// line prints one line of a verifiable client: its name, then pairs of a property and its
// value.
func line(out *strings.Builder, name string, pairs ...any) {
	object := map[string]any{"timestamp": 1, "name": name}
	for i := 0; i < len(pairs); i += 2 {
		object[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("corpus: a line of a verifiable client: %v", err)) // of our own making
	}
	out.Write(text)
	out.WriteByte('\n')
}

// sendOf gives the send that a completion belongs to.
func (w *world) sendOf(l *histories.SendReturn) *sent {
	for _, s := range w.sends {
		if s.line.OperationID == l.OperationID {
			return s
		}
	}
	panic(fmt.Sprintf("corpus: a completion without its send: %v", l.OperationID))
}
