// This file tests what reads bytes: against what was encoded, and with garbage.

package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTheRecordsAreThoseThatWereEncoded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	maybe := func() []byte { // nil, empty, or some bytes
		if random.IntN(3) == 0 {
			return nil
		}
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for _, c := range codecs {
		t.Run("compression "+c.name, func(t *testing.T) {
			for range 200 {
				var want []kmsg.Record
				var encoded []byte
				for i := range random.IntN(20) {
					r := kmsg.Record{OffsetDelta: int32(i), Key: maybe(), Value: maybe()}
					for j := range random.IntN(4) {
						r.Headers = append(r.Headers, kmsg.Header{Key: fmt.Sprint("h", j), Value: maybe()})
					}
					r.Length = int32(len(r.AppendTo(nil)) - 1)
					want, encoded = append(want, r), r.AppendTo(encoded)
				}
				head := kmsg.RecordBatch{Magic: 2, NumRecords: int32(len(want))}
				raw := encodeBatch(head, encoded)
				size := int64(len(raw))
				if compressor, _ := kgo.DefaultCompressor(c.codec); compressor != nil {
					compressed, codec := compressor.Compress(new(bytes.Buffer), encoded)
					head.Attributes = int16(codec)
					raw = encodeBatch(head, compressed)
				}
				checkRecords(t, raw, want)
				a := Attempt{batch: &ProduceBatch{raw: raw}}
				sent, uncompressed, err := a.EachHeaderSized("h0", func([]byte) {})
				if sent != int64(len(raw)) || uncompressed != size || err != nil {
					t.Fatalf("its sizes are %d and %d, %v; want %d and %d", sent, uncompressed, err, len(raw), size)
				}
			}
		})
	}
}

func checkRecords(t *testing.T, raw []byte, want []kmsg.Record) {
	t.Helper()
	i := 0
	err := eachRecord(raw, func(r *Record) {
		w := want[i]
		i++
		same := (r.Key == nil) == (w.Key == nil) && bytes.Equal(r.Key, w.Key) &&
			(r.Value == nil) == (w.Value == nil) && bytes.Equal(r.Value, w.Value)
		var headers []kmsg.Header
		r.EachHeader(func(name, value []byte) {
			headers = append(headers, kmsg.Header{Key: string(name), Value: value})
		})
		if !same || !slices.EqualFunc(headers, w.Headers, func(a, b kmsg.Header) bool {
			return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
		}) {
			t.Fatalf("record %d is %q=%q %v, want %+v", i-1, r.Key, r.Value, headers, w)
		}
		for _, h := range w.Headers {
			if !bytes.Equal(r.Header(h.Key), h.Value) {
				t.Fatalf("header %s is %q, want %q", h.Key, r.Header(h.Key), h.Value)
			}
		}
		if r.Header("none") != nil {
			t.Fatal("a header that is not there has a value")
		}
	})
	if err != nil || i != len(want) {
		t.Fatalf("%d records of %d: %v", i, len(want), err)
	}
}

func TestABatchThatIsNotWholeIsAnError(t *testing.T) {
	whole := plainBatch("a", "b")
	for size := range len(whole) {
		if err := eachRecord(whole[:size], func(*Record) {}); err == nil {
			t.Fatalf("%d of %d bytes are taken for a batch", size, len(whole))
		}
	}
	old := bytes.Clone(whole)
	old[batchMagic] = 1
	if eachRecord(old, func(*Record) {}) == nil {
		t.Error("message format 1 is taken for 2")
	}
	more := bytes.Clone(whole)
	more[batchCount+3] = 3
	if eachRecord(more, func(*Record) {}) == nil {
		t.Error("a third record is taken out of two")
	}
}

func TestARewrittenRequestDiffersOnlyInItsBatches(t *testing.T) {
	for version := int16(firstProduce); version <= 13; version++ {
		frame := produceFrame(version, 1, -1, plainBatch("a"), nil, plainBatch("b", "c"))
		x := &Exchange{body: frame[4:]}
		if err := x.readHeader(""); err != nil {
			t.Fatal(err)
		}
		x.Produce = NewNetwork().decodeProduce(x)
		if x.Produce == nil || len(x.Produce.Batches) != 3 {
			t.Fatalf("version %d is not decoded", version)
		}
		same := rewritten(x, func(_ int, raw []byte) ([]byte, bool) { return raw, true })
		if !bytes.Equal(same, frame) {
			t.Errorf("version %d: rewritten with its own batches it is another", version)
		}
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 'c', 0, 0, 0})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})
	for version := int16(firstProduce); version <= 13; version++ {
		f.Add(produceFrame(version, 1, -1, plainBatch("a", "b"), nil, plainBatch("c"))[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &connection{network: NewNetwork()}
		x, err := c.exchange(body)
		if err != nil {
			return
		}
		if x.head > len(body) {
			t.Fatalf("the header is longer than the frame: %d of %d", x.head, len(body))
		}
		if x.Produce == nil {
			return
		}
		for i := range x.Produce.Batches {
			_ = x.Produce.Batches[i].EachHeader("id", func([]byte) {})
		}
		_ = rewritten(x, func(_ int, raw []byte) ([]byte, bool) { return anonymous(raw), true })
		_, _ = corruption(&flight{exchange: x, decision: CorruptByte("lie", nil)})
		_, answers := refusal(x, 6)
		if len(answers) != len(x.Produce.Batches) {
			t.Fatalf("%d batches are refused of %d", len(answers), len(x.Produce.Batches))
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(make([]byte, batchRecords), "id")
	f.Add(plainBatch("a", "b", "c"), "id")
	f.Add(append(plainBatch("a"), plainBatch("b", "c")...), "id")
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		if len(raw) > batchAttributes+1 { // what a few bytes decompress to is not what is looked for
			raw[batchAttributes+1] &^= codecMask
		}
		_ = eachRecord(raw, func(r *Record) { r.Header(name) })
		if swapped := swapInBatches(raw); swapped != nil {
			if _, err := batchEnd(swapped); err != nil {
				t.Fatalf("what was exchanged is no batch any more: %v", err)
			}
		}
		_ = corrupted(raw)
	})
}

// What a broker answers is read too.
func FuzzAnswers(f *testing.F) {
	for version := int16(firstProduce); version <= 13; version++ {
		x := &Exchange{body: produceFrame(version, 1, -1, plainBatch("a"), plainBatch("b"))[4:]}
		_ = x.readHeader("")
		x.Produce = NewNetwork().decodeProduce(x)
		answer, _ := refusal(x, 6)
		f.Add(answer, version)
	}
	f.Fuzz(func(_ *testing.T, frame []byte, version int16) {
		x := &Exchange{body: produceFrame(min(max(version, firstProduce), 13), 1, -1, plainBatch("a"), plainBatch("b"))[4:]}
		_ = x.readHeader("")
		x.Produce = NewNetwork().decodeProduce(x)
		if response := readProduceAnswer(x, frame); response != nil {
			_ = answersOf(x, response)
			_, _ = refusedIn(response, x, Refuse("f", 6, true))
		}
		_ = new(topicNames).learn(version, frame)
		_ = diverged(frame, &flight{exchange: &Exchange{Key: 1, Version: version}})
	})
}
