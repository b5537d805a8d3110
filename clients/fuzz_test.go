// This file holds the fuzz targets of what others write and clients read: properties, the
// lines of another language's client, and segment files. Those of identities are in
// event_test.go.

package clients

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{"", "acks=all,retries=0", "acks=-1", "linger.ms=9223372036854775807", "sasl.jaas.config=secret",
		"compression.type=zstd,,", "=", "a==b", "enable.idempotence=true,enable.idempotence=true", "retries=-9223372036854775809"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProperties(text)
		if err != nil {
			return
		}
		again, err := ParseProperties(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q was read as %q, which is read as %q, %v", text, p, again, err)
		}
		// What was read is answered or refused, by every rule.
		p.Idempotent()
		_ = p.refusedByKafka()
		_ = p.refuseTimeouts(0, 30_000)
	})
}

// FuzzExternal has another language's client say anything. Its producer has three sends
// open; its consumer has been told to poll.
func FuzzExternal(f *testing.F) {
	for _, seed := range []string{
		`{"is":"result","id":0,"partition":1,"offset":7}` + "\n" + `{"is":"result","id":0,"error":"REQUEST_TIMED_OUT","message":"m"}`,
		`{"is":"result","id":9223372036854775807,"partition":-2147483648,"offset":-9223372036854775808}`,
		`{"is":"result","id":1,"client_error":"TimeoutException"}`,
		`{"is":"records","id":0,"records":[{"topic":"t","partition":2147483647,"offset":9223372036854775807,"value":"AA==","headers":[["h","AA=="],[null,null]]}]}`,
		`{"is":"records","id":0,"records":[{"headers":[["h","?"]]}],"resets":[{"topic":"t","partition":0,"offset":-1}],"error":"OFFSET_OUT_OF_RANGE"}`,
		`{"is":"opened","positions":[{}],"properties":{"acks":"all"}}`, `null`, `[]`, `{"is":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		written, err := histories.NewTextWriter(io.Discard, &histories.Header{Run: "run-1"})
		if err != nil {
			t.Fatal(err)
		}
		recorder := testRecorder(t, written)
		producer, consumer, e := silent(t, recorder)
		for line := range bytes.Lines(text) {
			s, err := parseSaid(bytes.TrimSpace(line))
			if err != nil {
				continue
			}
			producer.hear(e, s)
			operation, err := consumer.session.Invoke()
			if err != nil {
				t.Fatal(err)
			}
			_ = consumer.record(operation, s)
		}
		producer.session.CloseOutstanding()
		if err := errors.Join(producer.session.End(), consumer.session.End(), written.Close()); err != nil {
			t.Fatalf("what was said cannot be written down: %v", err)
		}
	})
}

// silent gives a producer and a consumer whose process says nothing by itself.
func silent(t *testing.T, recorder *Recorder) (*externalProducer, *externalConsumer, *external) {
	t.Helper()
	ready := make(chan struct{})
	close(ready)
	ps, err := recorder.NewProducerSession(ProducerOptions{Recorder: recorder, Name: "p1"}, histories.Producer{Client: "any"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err := ps.Invoke(t.Context(), SendRequest{Topic: "t", Key: "k", ValueSize: 40}, func(int64, string, Payload) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	cs, err := recorder.NewConsumerSession(ConsumerOptions{Recorder: recorder, Name: "c1"}, histories.Consumer{Client: "any"})
	if err != nil {
		t.Fatal(err)
	}
	e := &external{name: "any", stopped: context.Background()}
	return &externalProducer{name: "p1", ready: ready, session: ps},
		&externalConsumer{recorder: recorder, name: "c1", session: cs, next: make(map[histories.Partition]int64)}, e
}

// FuzzSegment has a segment file of any bytes, its first batch with the checksum that it
// ought to have: else nothing behind it would be looked at.
func FuzzSegment(f *testing.F) {
	for _, b := range []testBatch{{first: 5, epoch: 1}, {first: 0, deltas: []int{0, 7}, last: 9}, {control: true}} {
		f.Add(b.encode(f, testEvents(f, "run-1", 7)))
	}
	whole := testBatch{first: 5}.encode(f, testEvents(f, "run-1", 7))
	f.Add(binary.BigEndian.AppendUint32(bytes.Clone(whole[:8]), maxBatch)) // and nothing of what it promises
	f.Add(append(bytes.Clone(whole), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		content = checksummed(bytes.Clone(content))
		r := &replicaReader{decompressor: kgo.DefaultDecompressor(), ReplicaReadOptions: ReplicaReadOptions{
			Recorder: testRecorder(t, &memoryLines{})}}
		read := &histories.ReplicaRead{Position: 0}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.readSegment(t.Context(), read, segment{active: true, SegmentFile: segmentFiles(map[string][]byte{"x.log": content})[0]})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20+1000*len(content)); took > most {
			t.Errorf("%d bytes took %d bytes, want %d at most", len(content), took, most)
		}
		if read.Position < 0 {
			t.Errorf("it was read up to offset %d", read.Position)
		}
	})
}

// checksummed puts the checksum of a first batch right, and takes it for uncompressed: what
// a few bytes decompress to is not what is looked for.
func checksummed(content []byte) []byte {
	if len(content) <= batchRecords {
		return content
	}
	content[22] &^= 7 // the codec, in the second byte of the attributes
	end := batchStart + int64(int32(binary.BigEndian.Uint32(content[batchLength:])))
	if end >= batchRecords && end <= int64(len(content)) {
		withChecksum(content[:end])
	}
	return content
}
