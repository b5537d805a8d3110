// This file holds the tests of reading segment files, which the tests write
// themselves, whole and damaged.

package clients

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/histories"
)

// testBatch is a record batch of events.
type testBatch struct {
	first   int64
	epoch   int32
	codec   kgo.CompressionCodec
	control bool
	// deltas of the records' offsets from the first; nil: 0, 1, 2.
	deltas []int
	// last is the delta of the batch's end; zero: that of its last record.
	last int
}

func (b testBatch) encode(tb testing.TB, events *Events) []byte {
	tb.Helper()
	if b.deltas == nil {
		b.deltas = []int{0, 1, 2}
	}
	var records []byte
	for _, delta := range b.deltas {
		if b.last < delta {
			b.last = delta
		}
		records = b.record(events, delta).AppendTo(records)
	}
	batch := kmsg.RecordBatch{FirstOffset: b.first, PartitionLeaderEpoch: b.epoch, Magic: 2, LastOffsetDelta: int32(b.last),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(b.deltas)), Records: records}
	compressor, err := kgo.DefaultCompressor(b.codec)
	if err != nil {
		tb.Fatal(err)
	}
	if compressor != nil {
		compressed, codec := compressor.Compress(new(bytes.Buffer), records)
		batch.Attributes, batch.Records = int16(codec), compressed
	}
	if b.control {
		batch.Attributes |= 0x30
	}
	batch.Length = int32(batchRecords - batchStart + len(batch.Records))
	return withChecksum(batch.AppendTo(nil))
}

// record gives the record at an offset: its event is numbered by it.
func (b testBatch) record(events *Events, delta int) *kmsg.Record {
	record := &kmsg.Record{OffsetDelta: int32(delta)}
	if b.control {
		record.Key, record.Value = []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0}
	} else {
		number := b.first + int64(delta)
		payload := events.Payload(Event{Origin: "p1", Key: "k", Number: number}, "p1", number, 100)
		record.Key, record.Value = payload.Key, payload.Value
		for _, h := range payload.Headers {
			record.Headers = append(record.Headers, kmsg.Header(h))
		}
	}
	// The length counts what follows it; of a record this small it has two bytes, and
	// that of an empty one has one.
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	return record
}

// withChecksum gives a batch the checksum of its content.
func withChecksum(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}

// testSegments reads segment files with the given content, by name.
func testSegments(t *testing.T, files map[string][]byte) (histories.ReplicaRead, []histories.ReplicaRecords) {
	t.Helper()
	lines := &memoryLines{}
	r := &replicaReader{decompressor: kgo.DefaultDecompressor(), ReplicaReadOptions: ReplicaReadOptions{
		Recorder: testRecorder(t, lines),
		Segments: func(context.Context, int32, histories.Partition) ([]SegmentFile, error) {
			return segmentFiles(files), nil
		},
	}}
	read := histories.ReplicaRead{Source: histories.SourceSegments, LogStart: histories.Unknown, LogEnd: histories.Unknown,
		Position: histories.Unknown}
	problem, err := r.readSegments(context.Background(), &read)
	if err != nil {
		t.Fatal(err)
	}
	if problem != nil {
		read.Error = problem.Error()
	}
	var records []histories.ReplicaRecords
	for _, line := range linesOf[*histories.ReplicaRecords](lines) {
		records = append(records, *line)
	}
	return read, records
}

func segmentFiles(files map[string][]byte) []SegmentFile {
	var list []SegmentFile
	for name, content := range files {
		list = append(list, SegmentFile{Name: name, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}})
	}
	return list
}

func segmentName(base int64) string { return fmt.Sprintf("%020d.log", base) }

// held says what was read: "offset:event" or "offset:digest", and the epoch of lines.
func held(lines []histories.ReplicaRecords) string {
	var words []string
	for _, line := range lines {
		words = append(words, fmt.Sprintf("[%d]", line.LeaderEpoch))
		for _, record := range line.Records {
			text := strings.TrimPrefix(record.Event, "p1/k/")
			if record.Digest != "" {
				text += "#" + record.Corrupt
			}
			words = append(words, fmt.Sprintf("%d:%s", record.Offset, text))
		}
	}
	return strings.Join(words, " ")
}

func TestSegmentFilesAreReadWhole(t *testing.T) {
	events := testRecorder(t, &memoryLines{}).Events()
	join := func(batches ...testBatch) []byte {
		var all []byte
		for _, b := range batches {
			all = append(all, b.encode(t, events)...)
		}
		return all
	}
	first, second := testBatch{first: 0, epoch: 1}, testBatch{first: 3, epoch: 2}
	whole := join(first, second)
	for _, c := range []struct {
		rule  string
		files map[string][]byte
		holds string
		end   int64
	}{
		{"one file", map[string][]byte{segmentName(0): whole}, "[1] 0:0 1:1 2:2 [2] 3:3 4:4 5:5", 6},
		{"several, in the order of offsets", map[string][]byte{segmentName(3): join(second), segmentName(0): join(first),
			segmentName(6): {}}, "[1] 0:0 1:1 2:2 [2] 3:3 4:4 5:5", 6},
		{"an empty log", map[string][]byte{segmentName(40): {}}, "", 40},
		{"what is no segment is passed over", map[string][]byte{segmentName(0): join(first), "00000000000000000000.index": {1},
			"00000000000000000003.log.deleted": {1}, "leader-epoch-checkpoint": {1}, "x.log": {1}}, "[1] 0:0 1:1 2:2", 3},
		{"control records are kept", map[string][]byte{segmentName(0): join(first, testBatch{first: 3, epoch: 1, control: true,
			deltas: []int{0}})}, "[1] 0:0 1:1 2:2 [1] 3:#", 4},
		{"a compacted batch goes on to its end", map[string][]byte{segmentName(0): join(testBatch{first: 0, deltas: []int{1}, last: 8},
			testBatch{first: 9})}, "[0] 1:1 [0] 9:9 10:10 11:11", 12},
		{"an empty batch moves the end", map[string][]byte{segmentName(0): join(testBatch{first: 0, deltas: []int{}, last: 8})}, "", 9},
		{"a torn end of the last file", map[string][]byte{segmentName(0): whole[:len(whole)-1]}, "[1] 0:0 1:1 2:2", 3},
		{"a torn head at the end of the last file", map[string][]byte{segmentName(0): append(join(first), whole[:7]...)},
			"[1] 0:0 1:1 2:2", 3},
		{"zeros at the end of the last file", map[string][]byte{segmentName(0): append(join(first), make([]byte, 1000)...)},
			"[1] 0:0 1:1 2:2", 3},
	} {
		t.Run(c.rule, func(t *testing.T) {
			read, records := testSegments(t, c.files)
			if read.Error != "" || read.LogEnd != c.end || read.Position != c.end || held(records) != c.holds {
				t.Fatalf("it holds %s, want %s; the read is %+v, want end %d", held(records), c.holds, read, c.end)
			}
		})
	}
	for name, codec := range map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		t.Run("compressed by "+name, func(t *testing.T) {
			read, records := testSegments(t, map[string][]byte{segmentName(7): testBatch{first: 7, codec: codec}.encode(t, events)})
			if read.Error != "" || read.LogStart != 7 || held(records) != "[0] 7:7 8:8 9:9" {
				t.Fatalf("it holds %s, the read is %+v", held(records), read)
			}
		})
	}
}

func TestDamagedSegmentFilesSayWhere(t *testing.T) {
	events := testRecorder(t, &memoryLines{}).Events()
	first, second := testBatch{first: 0}.encode(t, events), testBatch{first: 3}.encode(t, events)
	at := len(first)
	// change damages the second batch and puts its checksum right again.
	change := func(position int, by byte) []byte {
		damaged := bytes.Clone(second)
		damaged[position] ^= by
		return append(bytes.Clone(first), withChecksum(damaged)...)
	}
	flipped := append(bytes.Clone(first), second...)
	flipped[at+100] ^= 1
	for _, c := range []struct {
		rule  string
		files map[string][]byte
		says  string
	}{
		{"a wrong checksum", map[string][]byte{segmentName(0): flipped},
			fmt.Sprintf("00000000000000000000.log, byte %d: the batch at offset 3: encoded crc", at)},
		{"another message format", map[string][]byte{segmentName(0): change(batchMagic, 3)}, "the batch at offset 3 has message format 1;"},
		{"an offset that goes back", map[string][]byte{segmentName(0): append(bytes.Clone(first), first...)},
			"a batch at offset 0 lies behind offset 2"},
		{"a batch below the file's name", map[string][]byte{segmentName(5): first}, "a batch at offset 0 lies behind offset 4"},
		{"an end before the start", map[string][]byte{segmentName(0): change(batchLastDelta, 0x80)},
			"the batch at offset 3 says that it ends at offset -2147483643"},
		{"fewer records than are said", map[string][]byte{segmentName(0): change(batchCount+3, 4)},
			"the batch at offset 3 says that it has 7 records up to offset 5; it has 3 up to offset 5"},
		{"records behind the end that is said", map[string][]byte{segmentName(0): change(batchLastDelta+3, 3)},
			"the batch at offset 3 says that it has 3 records up to offset 4; it has 3 up to offset 5"},
		{"an impossible length", map[string][]byte{segmentName(0): change(batchLength, 0x80)}, "a batch says that it has -"},
		{"a length beyond all bounds", map[string][]byte{segmentName(0): change(batchLength, 0x40)}, "a batch says that it has 1073"},
		{"a torn end of a file that is not the last", map[string][]byte{segmentName(0): first[:at-1], segmentName(3): second},
			"00000000000000000000.log, byte 0: the file ends inside of a batch"},
		{"zeros with more behind them", map[string][]byte{segmentName(0): append(append(bytes.Clone(first), make([]byte, 64)...), 1)},
			fmt.Sprintf("byte %d: zeros lie where a batch should begin", at)},
		{"no segment file", map[string][]byte{"x.log": first}, "the replica has no segment file"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			read, records := testSegments(t, c.files)
			if !strings.Contains(read.Error, c.says) || read.LogEnd != histories.Unknown {
				t.Fatalf("the read is %+v, want %q", read, c.says)
			}
			if read.Position == 3 && held(records) != "[0] 0:0 1:1 2:2" {
				t.Fatalf("before that it holds %s", held(records))
			}
		})
	}
}

func TestAByteThatWasChangedUnderARightChecksumIsSeen(t *testing.T) {
	events := testRecorder(t, &memoryLines{}).Events()
	batch := testBatch{}.encode(t, events)
	batch[len(batch)-150] ^= 1
	read, records := testSegments(t, map[string][]byte{segmentName(0): withChecksum(batch)})
	if read.Error != "" || read.LogEnd != 3 || !strings.Contains(held(records), "2:2#") {
		t.Fatalf("it holds %s, the read is %+v", held(records), read)
	}
}

func TestASegmentFileThatCannotBeRead(t *testing.T) {
	broken := errors.New("input/output error")
	for rule, c := range map[string]struct {
		files []SegmentFile
		err   error
		says  string
	}{
		"the files cannot be listed": {nil, broken, "listing the segment files: input/output error"},
		"one cannot be opened": {[]SegmentFile{{segmentName(0), func() (io.ReadCloser, error) { return nil, broken }}}, nil,
			"opening 00000000000000000000.log: input/output error"},
		"one ends in an error": {[]SegmentFile{{segmentName(0), func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("ab"), brokenReader{broken})), nil
		}}}, nil, "00000000000000000000.log, byte 0: input/output error"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := newReplicatedRun(t, 1)
			s := r.replicaRead(ReplicaReadOptions{Replicas: []int32{1},
				Segments: func(context.Context, int32, histories.Partition) ([]SegmentFile, error) { return c.files, c.err }})
			if len(s.Reads) != 2 || s.Reads[0].Error != "" || s.Reads[1].Source != histories.SourceSegments || s.Reads[1].Error != c.says {
				t.Fatalf("the reads are %+v", s.Reads)
			}
		})
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func TestAReplicaIsReadByFetchesAndFromItsSegments(t *testing.T) {
	r := newReplicatedRun(t, 2)
	r.sendAll(100, "k1", "k2")
	raw := [][]byte{r.batches(0), r.batches(1)}
	s := r.replicaRead(ReplicaReadOptions{Segments: func(_ context.Context, _ int32, p histories.Partition) ([]SegmentFile, error) {
		return segmentFiles(map[string][]byte{segmentName(0): raw[p.Partition]}), nil
	}})
	if len(s.Reads) != 12 || s.Records != 600 {
		t.Fatalf("the replicas gave %+v", s)
	}
	for partition := range int32(2) {
		fetched := r.replica(0, partition, histories.SourceFetch)
		for replica := range int32(3) {
			if found := r.replica(replica, partition, histories.SourceSegments); fmt.Sprint(found) != fmt.Sprint(fetched) {
				t.Errorf("the segments of replica %d hold %v, the fetch gave %v", replica, found, fetched)
			}
		}
	}
}
