// This file holds the reading of every replica's log: each broker asked for what it
// holds itself, by fetches here and by its segment files in replica_segments.go.

package clients

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ackproof/ackproof/histories"
)

// SegmentFile is one file of a partition's directory on a broker.
type SegmentFile struct {
	// Name without its directory, as "00000000000000000000.log".
	Name string
	// Open gives its content, from the start. It is called once at most.
	Open func() (io.ReadCloser, error)
}

// ReplicaReadOptions say which replicas are read, and how.
type ReplicaReadOptions struct {
	Recorder   *Recorder
	Connection Connection
	Partitions []histories.Partition
	// Replicas are the node ids to read, where they hold the partition; nil: every
	// replica that the metadata names.
	Replicas []int32
	// Segments gives the files of one replica's directory of a partition, in any
	// order; files that are no segments are passed over. Nil: replicas are only
	// fetched from, which shows a follower's log up to its high watermark.
	Segments func(ctx context.Context, replica int32, p histories.Partition) ([]SegmentFile, error)
	// Settle is how long is waited for the replicas' high watermarks to agree (a
	// follower learns of it by its next fetch only), and for a broker that does not
	// answer; zero: 15 seconds.
	Settle time.Duration
}

// ReplicaReadSummary is what the reading of the replicas came to.
type ReplicaReadSummary struct {
	Records int64
	// Reads are the closing lines, as recorded: by partition and replica, in their
	// order, first the fetch, then the segments.
	Reads []histories.ReplicaRead
}

// ReplicaRead reads the log of every replica of the partitions and records what it
// found. It is taken after the final read: everything healed, every producer closed.
// It ends when ctx does. What could not be read stands in the closing lines; the
// error says that it could not begin or that the history can no longer be written.
func ReplicaRead(ctx context.Context, options ReplicaReadOptions) (ReplicaReadSummary, error) {
	r, err := newReplicaReader(options)
	if err != nil {
		return ReplicaReadSummary{}, fmt.Errorf("reading the replicas: %w", err)
	}
	defer r.client.Close()
	for _, read := range r.settle(ctx) {
		if err := r.readFrom(ctx, read); err != nil {
			return r.summary, fmt.Errorf("reading the replicas: %w", err)
		}
	}
	return r.summary, nil
}

// replicaReader reads the replicas once. It is used by one goroutine.
type replicaReader struct {
	ReplicaReadOptions
	client       *kgo.Client
	admin        *kadm.Client
	decompressor kgo.Decompressor
	reading      recordReader
	summary      ReplicaReadSummary
}

// fetchVersion is the last version of Fetch that names topics rather than their ids;
// followers answer consumers from 11 on (KIP-392).
const fetchVersion = 12

func newReplicaReader(o ReplicaReadOptions) (*replicaReader, error) {
	if o.Settle <= 0 {
		o.Settle = 15 * time.Second
	}
	kgoOptions, err := franzGoConnection(o.Connection, "replica-read", new(openConnections))
	if err != nil {
		return nil, err
	}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), fetchVersion)
	client, err := kgo.NewClient(append(kgoOptions, kgo.MaxVersions(versions))...)
	if err != nil {
		return nil, err
	}
	return &replicaReader{ReplicaReadOptions: o, client: client, admin: kadm.NewClient(client),
		decompressor: kgo.DefaultDecompressor()}, nil
}

// replicaOf names one replica of one partition.
type replicaOf struct {
	histories.Partition
	replica int32
}

// settle looks at the replicas until their high watermarks agree or Settle has
// passed, and gives what is to be read: where each log starts and how far it is
// shown, or why that is not known.
func (r *replicaReader) settle(ctx context.Context) []*histories.ReplicaRead {
	settling, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	found := make(map[replicaOf]*histories.ReplicaRead)
	for {
		looked := r.look(settling)
		for i, read := range looked {
			of := replicaOf{read.Partition, read.Replica}
			// A look that failed says less than one before it that did not.
			if before := found[of]; before != nil && read.Error != "" && (before.Error == "" || settling.Err() != nil) {
				looked[i] = before
			}
			found[of] = looked[i]
		}
		if agreed(looked) || !wait(settling, lookAgain) {
			return looked
		}
	}
}

// agreed: every replica answers, and those of a partition have one high watermark.
func agreed(looked []*histories.ReplicaRead) bool {
	shown := make(map[histories.Partition]int64)
	for _, read := range looked {
		if high, known := shown[read.Partition]; read.Error != "" || (known && high != read.HighWatermark) {
			return false
		}
		shown[read.Partition] = read.HighWatermark
	}
	return true
}

// look asks every replica once where its log starts and how far it is shown.
func (r *replicaReader) look(ctx context.Context) []*histories.ReplicaRead {
	var topics []string
	for _, p := range r.Partitions {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	metadata, err := r.admin.Metadata(ctx, topics...)
	starts, startsErr := r.admin.ListStartOffsets(ctx, topics...)
	ends, endsErr := r.admin.ListEndOffsets(ctx, topics...)
	err = errors.Join(err, startsErr, endsErr)
	var looked []*histories.ReplicaRead
	for _, p := range r.Partitions {
		start, hasStart := starts.Lookup(p.Topic, p.Partition)
		end, hasEnd := ends.Lookup(p.Topic, p.Partition)
		problem := errors.Join(start.Err, end.Err)
		if !hasStart || !hasEnd {
			problem = cmp.Or(err, errNoAnswer)
		}
		for _, replica := range r.replicasOf(metadata, p) {
			read := &histories.ReplicaRead{Partition: p, Replica: replica, Source: histories.SourceFetch,
				LogStart: histories.Unknown, HighWatermark: histories.Unknown, LogEnd: histories.Unknown, Position: histories.Unknown}
			why := problem
			if why == nil {
				why = r.probe(ctx, read, start.Offset, end.Offset)
			}
			if why != nil {
				read.Error = "finding the ends of the replica's log: " + why.Error()
			}
			looked = append(looked, read)
		}
	}
	return looked
}

var errNoAnswer = errors.New("no broker answers for the partition")

// replicasOf gives the replicas that are to be read. Where the metadata does not
// name them it gives those that were asked for, or an unknown one, so that the
// history says what is missing.
func (r *replicaReader) replicasOf(metadata kadm.Metadata, p histories.Partition) []int32 {
	replicas := slices.Sorted(slices.Values(metadata.Topics[p.Topic].Partitions[p.Partition].Replicas))
	switch {
	case len(replicas) == 0 && len(r.Replicas) == 0:
		return []int32{histories.Unknown}
	case len(replicas) == 0:
		return r.Replicas
	case r.Replicas == nil:
		return replicas
	}
	return slices.DeleteFunc(replicas, func(replica int32) bool { return !slices.Contains(r.Replicas, replica) })
}

// probe fetches a little from the replica for the figures that come with it. A log
// that starts later than the leader's is asked at the leader's end.
func (r *replicaReader) probe(ctx context.Context, read *histories.ReplicaRead, start, end int64) error {
	answer, err := r.fetch(ctx, read, start, 1)
	if err == nil && answer.ErrorCode == kerr.OffsetOutOfRange.Code && start != end {
		answer, err = r.fetch(ctx, read, end, 1)
	}
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return err
	}
	if answer.LogStartOffset < 0 || answer.HighWatermark < 0 {
		return fmt.Errorf("the broker says log start %d, high watermark %d", answer.LogStartOffset, answer.HighWatermark)
	}
	read.LogStart, read.HighWatermark, read.Position = answer.LogStartOffset, answer.HighWatermark, answer.LogStartOffset
	return nil
}

// replicaFetchBytes bounds what one fetch brings, but for a single larger batch.
const replicaFetchBytes = 4 << 20

// fetch sends one plain consumer fetch to the replica's own broker.
func (r *replicaReader) fetch(ctx context.Context, read *histories.ReplicaRead, offset int64, maxBytes int32) (
	*kmsg.FetchResponseTopicPartition, error) {
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = read.Partition.Partition, offset, maxBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = read.Topic, append(topic.Partitions, partition)
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes, request.Topics = maxBytes, append(request.Topics, topic)
	answered, err := r.client.Broker(int(read.Replica)).Request(ctx, request)
	if err != nil {
		return nil, err
	}
	answer, ok := answered.(*kmsg.FetchResponse)
	switch {
	case !ok:
		return nil, fmt.Errorf("a fetch was answered by a %T", answered)
	case answer.ErrorCode != 0:
		return nil, kerr.ErrorForCode(answer.ErrorCode)
	case len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1:
		return nil, errors.New("the answer to a fetch of one partition has none or several")
	}
	return &answer.Topics[0].Partitions[0], nil
}

// readFrom reads one replica in every way that it can be read.
func (r *replicaReader) readFrom(ctx context.Context, read *histories.ReplicaRead) error {
	if read.Error == "" {
		if err := r.readByFetch(ctx, read); err != nil {
			return err
		}
	}
	if err := r.close(read); err != nil || r.Segments == nil || read.Replica == histories.Unknown {
		return err
	}
	segments := &histories.ReplicaRead{Partition: read.Partition, Replica: read.Replica, Source: histories.SourceSegments,
		LogStart: histories.Unknown, HighWatermark: histories.Unknown, LogEnd: histories.Unknown, Position: histories.Unknown}
	problem, err := r.readSegments(ctx, segments)
	if err != nil {
		return err
	}
	if problem != nil {
		segments.Error = problem.Error()
	}
	return r.close(segments)
}

func (r *replicaReader) close(read *histories.ReplicaRead) error {
	read.Time = r.Recorder.Now()
	r.summary.Reads = append(r.summary.Reads, *read)
	return r.Recorder.Write(read)
}

// readByFetch reads the replica up to its high watermark. Most errors pass and are
// waited out; the reading ends with one that cannot pass, or that lasts for Settle.
func (r *replicaReader) readByFetch(ctx context.Context, read *histories.ReplicaRead) error {
	progress := time.Now()
	for read.Position < read.HighWatermark {
		answer, err := r.fetch(ctx, read, read.Position, replicaFetchBytes)
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		final := errors.Is(err, kerr.OffsetOutOfRange)
		before := read.Position
		if err == nil {
			var records []*kgo.Record
			records, err = r.decode(read, answer)
			final = err != nil
			if err := r.write(read, records); err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil && read.Position < read.HighWatermark:
			read.Error = fmt.Sprintf("the time for reading the replicas was over at offset %d of %d", read.Position, read.HighWatermark)
			return nil
		case read.Position > before && !final:
			progress = time.Now()
		case final || time.Since(progress) >= r.Settle:
			read.Error = fmt.Sprintf("reading at offset %d: %v", read.Position, cmp.Or(err, errNothing))
			return nil
		default:
			wait(ctx, lookAgain)
		}
	}
	return nil
}

var errNothing = errors.New("the broker answers without the record that is due")

// decode gives the records of an answer that lie below the high watermark and moves
// the position past them.
func (r *replicaReader) decode(read *histories.ReplicaRead, answer *kmsg.FetchResponseTopicPartition) ([]*kgo.Record, error) {
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: read.Position,
		Topic: read.Topic, Partition: read.Partition.Partition}, answer, r.decompressor, nil)
	read.Position = min(max(read.Position, next), read.HighWatermark)
	records := fetched.Records
	for len(records) > 0 && records[len(records)-1].Offset >= read.HighWatermark {
		records = records[:len(records)-1]
	}
	return records, fetched.Err
}

// write puts records of a replica into the history. A line has those of one leader epoch.
func (r *replicaReader) write(read *histories.ReplicaRead, records []*kgo.Record) error {
	for len(records) > 0 {
		line := &histories.ReplicaRecords{Partition: read.Partition, Replica: read.Replica, Source: read.Source,
			LeaderEpoch: records[0].LeaderEpoch}
		for len(records) > 0 && records[0].LeaderEpoch == line.LeaderEpoch && len(line.Records) < finalReadChunk {
			line.Records = append(line.Records, r.record(records[0]))
			records = records[1:]
		}
		if err := r.Recorder.Write(line); err != nil {
			return err
		}
		r.summary.Records += int64(len(line.Records))
	}
	return nil
}

// record reads one record back. An event that is as it was sent stands for its
// content; anything else has a digest of it.
func (r *replicaReader) record(record *kgo.Record) histories.ReplicaRecord {
	found := histories.ReplicaRecord{Record: histories.Record{Offset: record.Offset}}
	if !record.Attrs.IsControl() {
		found.Event, found.Corrupt = r.Recorder.events.Verify(r.reading.payload(record))
	}
	if found.Event == "" || found.Corrupt != "" {
		found.Digest = digest(record)
	}
	return found
}

// digest is a hash of what a record holds. The type of a control record is in its key.
func digest(record *kgo.Record) string {
	hash := fnv.New64a()
	field := func(b []byte) {
		length := int64(len(b))
		if b == nil {
			length = -1 // null is not empty
		}
		_ = binary.Write(hash, binary.BigEndian, length)
		_, _ = hash.Write(b)
	}
	_ = binary.Write(hash, binary.BigEndian, record.Attrs.IsControl())
	field(record.Key)
	field(record.Value)
	for _, h := range record.Headers {
		field([]byte(h.Key))
		field(h.Value)
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
