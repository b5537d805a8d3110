// This file holds the final read: every partition read from its start to its end,
// with the figures that say whether that was all.

package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// FinalReadOptions say what is read.
type FinalReadOptions struct {
	Recorder   *Recorder
	Connection Connection
	Partitions []histories.Partition
	// Isolation level; empty: histories.ReadUncommitted.
	Isolation string
	// SecondLook is how long after the first look at the ends the second one is
	// taken; zero: one second. One request timeout where a request may still be on
	// its way.
	SecondLook time.Duration
	// Settle is how long the first look waits for log ends that are above the high
	// watermark, and for partitions that do not answer; zero: 15 seconds.
	Settle time.Duration
}

// FinalReadSummary is what a final read came to.
type FinalReadSummary struct {
	// Complete partitions were read from start to an end that stayed the same.
	Complete, Incomplete int
	Records              int64
	// Reads are the closing lines, as recorded, in the order of the partitions.
	Reads []histories.FinalRead
}

// FinalRead reads the partitions to their high watermark and records what it found
// and how far it came. It is taken after everything is healed and every producer
// closed. It ends when ctx does: the lines then say what is missing. The error says
// that it could not begin or that the history can no longer be written.
func FinalRead(ctx context.Context, options FinalReadOptions) (FinalReadSummary, error) {
	r, err := newFinalReader(options)
	if err != nil {
		return FinalReadSummary{}, fmt.Errorf("reading the logs to the end: %w", err)
	}
	defer r.client.Close()
	first := r.firstLook(ctx)
	reading, cancel := r.leaveTimeForSecondLook(ctx)
	err = r.read(reading)
	cancel()
	if err != nil {
		return FinalReadSummary{}, fmt.Errorf("reading the logs to the end: %w", err)
	}
	r.secondLook(ctx, first)
	return r.close()
}

// finalReader reads the logs once. It is used by one goroutine.
type finalReader struct {
	FinalReadOptions
	client     *kgo.Client
	admin      *kadm.Client
	logs       map[histories.Partition]*histories.FinalRead
	unfinished map[histories.Partition]bool
	failing    map[histories.Partition]time.Time // since when, without progress
	reading    recordReader
	records    int64
}

func newFinalReader(o FinalReadOptions) (*finalReader, error) {
	if o.Isolation == "" {
		o.Isolation = histories.ReadUncommitted
	}
	if o.SecondLook <= 0 {
		o.SecondLook = time.Second
	}
	if o.Settle <= 0 {
		o.Settle = 15 * time.Second
	}
	isolation, err := franzGoIsolation(o.Isolation)
	if err != nil {
		return nil, err
	}
	kgoOptions, err := franzGoConnection(o.Connection, "final-read", new(openConnections))
	if err != nil {
		return nil, err
	}
	// Control records are kept, since a position reaches the end only past them; and
	// little is fetched ahead, since everything that is waits in memory.
	kgoOptions = append(kgoOptions, kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxWait(100*time.Millisecond))
	r := &finalReader{FinalReadOptions: o, logs: make(map[histories.Partition]*histories.FinalRead),
		unfinished: make(map[histories.Partition]bool), failing: make(map[histories.Partition]time.Time)}
	for _, p := range o.Partitions {
		r.logs[p] = &histories.FinalRead{Partition: p, Isolation: o.Isolation, LogStart: histories.Unknown,
			HighWatermark: histories.Unknown, LogEnd: histories.Unknown, LeaderEpoch: histories.Unknown,
			Position: histories.Unknown, SecondHighWatermark: histories.Unknown, SecondLogEnd: histories.Unknown}
	}
	if r.client, err = kgo.NewClient(kgoOptions...); err != nil {
		return nil, err
	}
	r.admin = kadm.NewClient(r.client)
	return r, nil
}

// ends is what a look at the ends of the logs found.
type ends struct {
	start, highWatermark, logEnd int64
	epoch                        int32
	err                          error
}

// settled: the end is known and everything below it is shown.
func (e ends) settled() bool { return e.err == nil && e.highWatermark == e.logEnd }

// lookAgain is how long a look that did not find everything settled waits.
const lookAgain = 100 * time.Millisecond

// firstLook notes where the logs end, once they have settled or Settle has passed,
// and gives its time.
func (r *finalReader) firstLook(ctx context.Context) time.Time {
	settling, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	found := r.lookUntil(settling, ends.settled)
	at := time.Now()
	for p, log := range r.logs {
		e := found[p]
		if e.err != nil {
			log.Error = "finding the ends of the log: " + e.err.Error()
			continue
		}
		log.LogStart, log.HighWatermark, log.LogEnd, log.LeaderEpoch = e.start, e.highWatermark, e.logEnd, e.epoch
		log.Position = e.start
		if e.start < e.highWatermark {
			r.unfinished[p] = true
		}
	}
	return at
}

// secondLook notes where the logs end after SecondLook.
func (r *finalReader) secondLook(ctx context.Context, first time.Time) {
	if !wait(ctx, r.SecondLook-time.Since(first)) {
		return
	}
	looking, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	after := time.Since(first)
	found := r.lookUntil(looking, func(e ends) bool { return e.err == nil })
	for p, log := range r.logs {
		if e := found[p]; e.err == nil {
			log.SecondHighWatermark, log.SecondLogEnd = e.highWatermark, e.logEnd
			log.SecondAfterMs = after.Milliseconds()
		}
	}
}

// lookUntil looks until all ends are good or ctx ends, and gives the last that was
// found of each.
func (r *finalReader) lookUntil(ctx context.Context, good func(ends) bool) map[histories.Partition]ends {
	found := make(map[histories.Partition]ends)
	for {
		allGood := true
		for p, e := range r.look(ctx) {
			// A look that was cut short says less than the one before it.
			if before, known := found[p]; e.err == nil || !known || (before.err != nil && ctx.Err() == nil) {
				found[p] = e
			}
			allGood = allGood && good(e)
		}
		if allGood || !wait(ctx, lookAgain) {
			return found
		}
	}
}

// wait waits, and gives false if ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// look asks the leaders once where each log starts, what is shown of it, and where
// it ends.
func (r *finalReader) look(ctx context.Context) map[histories.Partition]ends {
	topics := r.topics()
	metadata, err := r.admin.Metadata(ctx, topics...)
	starts, startsErr := r.admin.ListStartOffsets(ctx, topics...)
	shown, shownErr := r.listShown(ctx, topics)
	var request kadm.OffsetForLeaderEpochRequest
	for p := range r.logs {
		request.Add(p.Topic, p.Partition, metadata.Topics[p.Topic].Partitions[p.Partition].LeaderEpoch)
	}
	logEnds, endsErr := r.admin.OffsetForLeaderEpoch(ctx, request)
	all := errors.Join(err, startsErr, shownErr, endsErr)
	found := make(map[histories.Partition]ends, len(r.logs))
	for p := range r.logs {
		detail, hasDetail := metadata.Topics[p.Topic].Partitions[p.Partition]
		start, hasStart := starts.Lookup(p.Topic, p.Partition)
		high, hasHigh := shown.Lookup(p.Topic, p.Partition)
		end, hasEnd := logEnds[p.Topic][p.Partition]
		e := ends{start: start.Offset, highWatermark: high.Offset, logEnd: end.EndOffset, epoch: detail.LeaderEpoch}
		switch {
		case hasDetail && hasStart && hasHigh && hasEnd:
			e.err = errors.Join(detail.Err, start.Err, high.Err, end.Err)
		case all != nil:
			e.err = all
		default:
			e.err = errors.New("no broker answers for the partition")
		}
		if e.err == nil && (e.start < 0 || e.highWatermark < 0 || e.logEnd < 0) {
			e.err = fmt.Errorf("the leader says start %d, high watermark %d, log end %d", e.start, e.highWatermark, e.logEnd)
		}
		found[p] = e
	}
	return found
}

// listShown lists the high watermarks or, read-committed, the last stable offsets.
func (r *finalReader) listShown(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	if r.Isolation == histories.ReadCommitted {
		return r.admin.ListCommittedOffsets(ctx, topics...)
	}
	return r.admin.ListEndOffsets(ctx, topics...)
}

func (r *finalReader) topics() []string {
	names := make(map[string]bool)
	for p := range r.logs {
		names[p.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// leaveTimeForSecondLook ends reading early enough for a second look at what could
// be read, if ctx has a deadline.
func (r *finalReader) leaveTimeForSecondLook(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, has := ctx.Deadline()
	if !has {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, left-min(left/2, r.SecondLook+2*time.Second))
}

// finalReadPoll bounds how many records are in memory as lines.
const (
	finalReadPoll  = 5000
	finalReadChunk = 1000
)

// read reads every log to the high watermark that the first look found. The error
// is of writing the history.
func (r *finalReader) read(ctx context.Context) error {
	var start []histories.PartitionPosition
	for p := range r.unfinished {
		start = append(start, histories.PartitionPosition{Partition: p, Position: r.logs[p].LogStart})
	}
	r.client.AddConsumePartitions(franzGoOffsets(start))
	for len(r.unfinished) > 0 && ctx.Err() == nil {
		fetches := r.client.PollRecords(ctx, finalReadPoll)
		fetches.EachError(r.fail)
		var err error
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			err = errors.Join(err, r.take(histories.Partition{Topic: f.Topic, Partition: f.Partition}, f.Records))
		})
		if err != nil {
			return err
		}
		if len(r.failing) > 0 && fetches.Empty() {
			wait(ctx, lookAgain/10) // kgo may fetch again at once
		}
	}
	for p := range r.unfinished {
		log := r.logs[p]
		log.Error = fmt.Sprintf("the time for the final read was over at offset %d of %d", log.Position, log.HighWatermark)
	}
	return nil
}

// fail takes an error of fetching a partition. Most pass, and kgo goes on fetching;
// the reading ends with an error that cannot pass, or that lasts as long as the
// ends of the logs were waited for.
func (r *finalReader) fail(topic string, partition int32, err error) {
	p := histories.Partition{Topic: topic, Partition: partition}
	if !r.unfinished[p] {
		return
	}
	since, failing := r.failing[p]
	if !failing {
		since = time.Now()
		r.failing[p] = since
	}
	var loss *kgo.ErrDataLoss
	final := errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kgo.ErrMaxDecompress)
	if final || time.Since(since) >= r.Settle {
		r.logs[p].Error = fmt.Sprintf("reading at offset %d: %v", r.logs[p].Position, err)
		r.finish(p)
	}
}

func (r *finalReader) finish(p histories.Partition) {
	delete(r.unfinished, p)
	r.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
}

// take records what was read of one partition, up to the high watermark of the
// first look: what came after that shows in the second.
func (r *finalReader) take(p histories.Partition, records []*kgo.Record) error {
	log := r.logs[p]
	if !r.unfinished[p] || len(records) == 0 {
		return nil
	}
	delete(r.failing, p)
	kept := records[:0:0]
	for _, record := range records {
		if record.Offset >= log.HighWatermark {
			break
		}
		log.Position = record.Offset + 1
		if !record.Attrs.IsControl() {
			kept = append(kept, record)
		}
	}
	if log.Position >= log.HighWatermark || records[len(records)-1].Offset >= log.HighWatermark {
		log.Position = log.HighWatermark
		r.finish(p)
	}
	for chunk := range slices.Chunk(kept, finalReadChunk) {
		for _, group := range r.reading.read(r.Recorder, nil, p, chunk) {
			if err := r.Recorder.Write(&histories.FinalRecords{Isolation: r.Isolation, Records: group}); err != nil {
				return err
			}
		}
		r.records += int64(len(chunk))
		r.Recorder.counts.finalRecords.Add(int64(len(chunk)))
	}
	return nil
}

// close records the closing lines.
func (r *finalReader) close() (FinalReadSummary, error) {
	summary := FinalReadSummary{Records: r.records}
	for _, p := range r.Partitions {
		log := r.logs[p]
		log.Time = r.Recorder.Now()
		if err := r.Recorder.Write(log); err != nil {
			return summary, fmt.Errorf("reading the logs to the end: %w", err)
		}
		summary.Reads = append(summary.Reads, *log)
		if complete(log) {
			summary.Complete++
		} else {
			summary.Incomplete++
		}
	}
	return summary, nil
}

// complete is the design's definition; the checker has its own, and decides.
func complete(f *histories.FinalRead) bool {
	return f.Error == "" && f.HighWatermark >= 0 && f.Position == f.HighWatermark && f.LogEnd == f.HighWatermark &&
		f.SecondHighWatermark == f.HighWatermark && f.SecondLogEnd == f.LogEnd
}
