// This file holds the writer of a set of tables: what happens around the lines.

package parquet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// Writer writes histories into one set of tables. It is used by one goroutine at a
// time, and must be closed: a file without its end cannot be read.
type Writer struct {
	names   map[string]bool
	tables  tables
	failure error // the first one of any table
	// of the history that is being written
	at      whence
	highest map[string]int64 // operation number that a process has sent, + 1
	ended   bool
	reason  string
}

// tables are the tables of a set.
type tables struct {
	histories       *table[historyRow]
	topics          *table[topicRow]
	topicStarts     *table[topicStartRow]
	properties      *table[propertyRow]
	effects         *table[effectRow]
	producers       *table[producerRow]
	refusals        *table[producerRefusalRow]
	consumers       *table[consumerRow]
	closes          *table[closeRow]
	sends           *table[sendRow]
	sendReturns     *table[sendReturnRow]
	attempts        *table[attemptRow]
	attemptSends    *table[attemptSendRow]
	polls           *table[pollRow]
	pollReturns     *table[pollReturnRow]
	pollRecords     *table[pollRecordRow]
	positionChanges *table[positionChangeRow]
	commits         *table[commitRow]
	commitReturns   *table[commitReturnRow]
	faultStarts     *table[faultStartRow]
	faultEnds       *table[faultEndRow]
	clusterEvents   *table[clusterEventRow]
	notes           *table[noteRow]
	finalRecords    *table[finalRecordRow]
	finalReads      *table[finalReadRow]
	replicaRecords  *table[replicaRecordRow]
	replicaReads    *table[replicaReadRow]
}

func newTables() tables {
	return tables{
		histories: newTable[historyRow]("histories"), topics: newTable[topicRow]("topics"),
		topicStarts: newTable[topicStartRow]("topic_starts"), properties: newTable[propertyRow]("properties"),
		effects: newTable[effectRow]("effects"), producers: newTable[producerRow]("producers"),
		refusals: newTable[producerRefusalRow]("producer_refusals"), consumers: newTable[consumerRow]("consumers"),
		closes: newTable[closeRow]("closes"), sends: newTable[sendRow]("sends"),
		sendReturns: newTable[sendReturnRow]("send_returns"), attempts: newTable[attemptRow]("attempts"),
		attemptSends: newTable[attemptSendRow]("attempt_sends"), polls: newTable[pollRow]("polls"),
		pollReturns: newTable[pollReturnRow]("poll_returns"), pollRecords: newTable[pollRecordRow]("poll_records"),
		positionChanges: newTable[positionChangeRow]("position_changes"), commits: newTable[commitRow]("commits"),
		commitReturns: newTable[commitReturnRow]("commit_returns"), faultStarts: newTable[faultStartRow]("fault_starts"),
		faultEnds: newTable[faultEndRow]("fault_ends"), clusterEvents: newTable[clusterEventRow]("cluster_events"),
		notes: newTable[noteRow]("notes"), finalRecords: newTable[finalRecordRow]("final_records"),
		finalReads: newTable[finalReadRow]("final_reads"), replicaRecords: newTable[replicaRecordRow]("replica_records"),
		replicaReads: newTable[replicaReadRow]("replica_reads"),
	}
}

func (t *tables) all() []anyTable {
	return []anyTable{t.histories, t.topics, t.topicStarts, t.properties, t.effects, t.producers, t.refusals, t.consumers,
		t.closes, t.sends, t.sendReturns, t.attempts, t.attemptSends, t.polls, t.pollReturns, t.pollRecords, t.positionChanges,
		t.commits, t.commitReturns, t.faultStarts, t.faultEnds, t.clusterEvents, t.notes, t.finalRecords, t.finalReads,
		t.replicaRecords, t.replicaReads}
}

// Tables describes the tables of a set, in the order of sql/README.md.
func Tables() []Table {
	all := newTables()
	var described []Table
	for _, t := range all.all() {
		described = append(described, t.describe())
	}
	return described
}

// Create makes a set of tables in a folder, which is created where it is missing and
// must be empty otherwise. Nothing is written over.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the tables %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking into the folder of the tables %s: %w", dir, err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty (it holds %s); choose another one for the tables", dir, entries[0].Name())
	}
	w := &Writer{names: make(map[string]bool), tables: newTables()}
	for _, t := range w.tables.all() {
		if err := t.create(dir, &w.failure); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// Add writes a history under a name, which is that of no other one of the set. A
// history that was cut is written as far as it goes, and its row says so. The error
// is the reader's, a file's, or the context's; after one the set is incomplete, and
// is good for nothing but being removed. Memory does not grow with the history.
func (w *Writer) Add(ctx context.Context, name string, h histories.History) error {
	if w.names[name] {
		return fmt.Errorf("writing the history %s: the set has one of this name already; give each a name of its own", name)
	}
	w.names[name] = true
	w.at, w.highest, w.ended, w.reason = whence{History: name}, make(map[string]int64), false, ""
	var cut *histories.CutError
	for entry, err := range h.Lines(ctx) {
		if errors.As(err, &cut) {
			break
		}
		if err != nil {
			return fmt.Errorf("writing the history %s: %w", name, err)
		}
		w.at.Entry++
		w.at.Line = entry.Number
		w.take(entry.Line)
		if w.failure != nil {
			return fmt.Errorf("writing the history %s: %w", name, w.failure)
		}
	}
	w.takeHeader(h.Header(), cut)
	return errors.Join(ctx.Err(), w.failure)
}

// Close ends the files. Its error says that the set is not whole.
func (w *Writer) Close() error {
	var all []error
	for _, t := range w.tables.all() {
		all = append(all, t.close())
	}
	return errors.Join(append(all, w.failure)...)
}

// Count is how many rows a table has.
type Count struct {
	Table string
	Rows  int64
}

// Counts gives the tables that have rows, in the order of Tables.
func (w *Writer) Counts() []Count {
	var counts []Count
	for _, t := range w.tables.all() {
		if name, rows := t.count(); rows > 0 {
			counts = append(counts, Count{name, rows})
		}
	}
	return counts
}

// takeHeader writes what holds for the whole history. It comes last: that a history
// was cut is known at its end.
func (w *Writer) takeHeader(h *histories.Header, cut *histories.CutError) {
	row := historyRow{History: w.at.History, Run: h.Run, Tool: h.Tool, Clock: h.Clock, Seed: h.Seed, Scenario: h.Scenario,
		Entries: w.at.Entry, Ended: w.ended, EndReason: w.reason}
	if !h.Started.IsZero() {
		row.Started = h.Started.UTC().Format(time.RFC3339Nano)
	}
	if h.Source != nil {
		row.Imported, row.SourceFormat, row.StatesOutcomes = true, h.Source.Format, h.Source.StatesOutcomes
	}
	if cut != nil {
		row.Cut, row.CutReason = true, cut.Reason
	}
	w.takeProperties("header", "", h.Producer)
	if h.Cluster != nil {
		row.ClusterProvider, row.ClusterVersion = h.Cluster.Provider, h.Cluster.Version
		w.takeProperties("cluster", "", h.Cluster.Properties)
		w.takeProperties("feature", "", h.Cluster.Features)
	}
	w.tables.histories.add(row)
	for _, t := range h.Topics {
		w.takeTopic(t)
	}
	for _, effect := range h.Effects {
		w.tables.effects.add(effectRow{w.at.History, "", effect})
	}
}

func (w *Writer) takeTopic(t histories.Topic) {
	w.tables.topics.add(topicRow{w.at.History, t.Name, counted(t.Partitions), counted(t.ReplicationFactor)})
	w.takeProperties("topic", t.Name, t.Properties)
	for partition, end := range t.Start {
		w.tables.topicStarts.add(topicStartRow{w.at.History, t.Name, int64(partition), end})
	}
}

func (w *Writer) takeProperties(scope, owner string, properties map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		w.tables.properties.add(propertyRow{w.at.History, scope, owner, name, properties[name]})
	}
}

// known gives a number, nil where it is not known.
func known[N int16 | int32 | int64](n N) *int64 {
	if n < 0 {
		return nil
	}
	return new(int64(n))
}

// counted gives a count, nil where it is not known.
func counted[N int16 | int32](n N) *int64 {
	if n == 0 {
		return nil
	}
	return new(int64(n))
}

// eventOf gives the event of a record, nil where it is foreign.
func eventOf(event string) *string {
	if event == "" {
		return nil
	}
	return &event
}
