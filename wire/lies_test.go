// This file tests the lies: what lies in the log, and that the client is none the
// wiser.

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

var producers = []struct {
	name    string
	options []kgo.Opt
}{
	{"with idempotence", nil},
	{"without idempotence", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5)}},
}

// deceived produces five events, of which the second meets the lie, and gives what
// then lies in the log; every attempt was acknowledged, once.
func deceived(t *testing.T, b *bench, lie func(took func()) Decision, inLog int, options ...kgo.Opt) []string {
	t.Helper()
	var took atomic.Int64
	interceptor := second(func() Decision { return lie(func() { took.Add(1) }) })
	defer b.network.Intercept(interceptor)()
	if err := errors.Join(produce(t, b.client(t, options...), 5)...); err != nil {
		t.Fatalf("the client noticed: %v", err)
	}
	attempts := b.seen(t)
	if len(attempts) != 5 {
		t.Errorf("%d attempts, want 5", len(attempts))
	}
	for i, a := range attempts {
		if a.Answer == nil || a.Answer.Code != 0 || (a.Fault == "lie") != (i == 1) {
			t.Errorf("attempt %d: %+v, answered %+v", i, a, a.Answer)
		}
	}
	wait(t, "the lie took effect, once", func() bool { return took.Load() == 1 })
	return b.log(t, inLog)
}

func TestLies(t *testing.T) {
	for _, p := range producers {
		t.Run("acknowledged and never written, "+p.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			got := deceived(t, b, func(took func()) Decision { return AcknowledgeUnwritten("lie", took) }, 4, p.options...)
			if want := []string{"value 0", "value 2", "value 3", "value 4"}; !slices.Equal(got, want) {
				t.Errorf("the log holds %q", got)
			}
			if a := b.attempts[1]; a.Reached || a.Answer.BaseOffset != 1 {
				t.Errorf("the lie: %+v at %d", a, a.Answer.BaseOffset)
			}
		})
		t.Run("written twice, "+p.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			got := deceived(t, b, func(took func()) Decision { return WriteTwice("lie", took) }, 6, p.options...)
			if want := []string{"value 0", "value 1", "value 1", "value 2", "value 3", "value 4"}; !slices.Equal(got, want) {
				t.Errorf("the log holds %q", got)
			}
		})
		for _, c := range codecs {
			t.Run("one byte of a value is changed, "+p.name+", compression "+c.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, 1)
				options := append([]kgo.Opt{kgo.ProducerBatchCompression(c.codec)}, p.options...)
				got := deceived(t, b, func(took func()) Decision { return CorruptByte("lie", took) }, 5, options...)
				if want := []string{"value 0", "value 0", "value 2", "value 3", "value 4"}; !slices.Equal(got, want) {
					t.Errorf("the log holds %q, want %q", got, want) // '1' with its last bit changed is '0'
				}
			})
		}
		t.Run("two batches change places, "+p.name, func(t *testing.T) {
			t.Parallel()
			testSwap(t, p.options)
		})
	}
	t.Run("a batch that none overtakes passes alone", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1)
		defer b.network.Intercept(second(func() Decision {
			return SwapBatches("lie", func() { t.Error("it says that it took effect") })
		}))()
		if err := errors.Join(produce(t, b.client(t), 3)...); err != nil { // one after the other
			t.Fatal(err)
		}
		if got := b.log(t, 3); !slices.Equal(got, []string{"value 0", "value 1", "value 2"}) {
			t.Errorf("the log holds %q", got)
		}
	})
}

func testSwap(t *testing.T, options []kgo.Opt) {
	t.Helper()
	b := newBench(t, 1)
	var armed, took atomic.Bool
	defer b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
		if x.Produce == nil || !armed.CompareAndSwap(true, false) {
			return Pass()
		}
		return SwapBatches("lie", func() { took.Store(true) })
	}))()
	client := b.client(t, append([]kgo.Opt{kgo.ProducerBatchMaxBytes(512), kgo.ProducerBatchCompression(kgo.NoCompression())}, options...)...)
	// The client sends one request alone before it pipelines.
	if err := errors.Join(produce(t, client, 1)...); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	offsets := make([]int64, 5)
	for i := range 4 {
		r := record(i + 1)
		r.Value = append(r.Value, bytes.Repeat([]byte("."), 350)...) // it fills a batch
		client.Produce(t.Context(), r, func(r *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
			offsets[i+1] = r.Offset
		})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, value := range b.log(t, 5) {
		got = append(got, strings.TrimRight(value, "."))
	}
	if want := []string{"value 0", "value 2", "value 1", "value 3", "value 4"}; !slices.Equal(got, want) || !took.Load() {
		t.Errorf("the log holds %q, want %q", got, want)
	}
	if want := []int64{0, 2, 1, 3, 4}; !slices.Equal(offsets, want) {
		t.Errorf("the client was told the offsets %v, want %v", offsets, want)
	}
}

func TestOneClientReadsTwoRecordsExchanged(t *testing.T) {
	for _, c := range codecs {
		t.Run("and another one does not, compression "+c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			client := b.client(t, kgo.ProducerLinger(50*time.Millisecond), kgo.ProducerBatchCompression(c.codec))
			for i := range 3 {
				client.Produce(t.Context(), record(i), nil)
			}
			if err := client.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			var took atomic.Int64
			defer b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
				if x.Key != 1 || x.ClientID != "deceived" {
					return Pass()
				}
				return DivergeReads("lie", func() { took.Add(1) })
			}))()
			if got := b.log(t, 3, kgo.ClientID("deceived")); !slices.Equal(got, []string{"value 0", "value 2", "value 1"}) {
				t.Errorf("the deceived client read %q", got)
			}
			if got := b.log(t, 3); !slices.Equal(got, []string{"value 0", "value 1", "value 2"}) {
				t.Errorf("the other client read %q", got)
			}
			if took.Load() == 0 {
				t.Error("it does not say that it took effect")
			}
		})
	}
	t.Run("but not where every batch has one record", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1)
		if err := errors.Join(produce(t, b.client(t), 3)...); err != nil {
			t.Fatal(err)
		}
		defer b.network.Intercept(InterceptorFunc(func(x *Exchange) Decision {
			if x.Key != 1 {
				return Pass()
			}
			return DivergeReads("lie", func() { t.Error("it says that it took effect") })
		}))()
		if got := b.log(t, 3); !slices.Equal(got, []string{"value 0", "value 1", "value 2"}) {
			t.Errorf("the client read %q", got)
		}
	})
}

// A batch of one record, then one of three: only the second can be changed.
func TestRecordsAreExchangedInTheFirstBatchThatHasTwo(t *testing.T) {
	single, triple := plainBatch("a"), plainBatch("b", "c", "d")
	torn := triple[:len(triple)-1] // the piece of a batch that a fetch may end with
	got := swapInBatches(slices.Concat(single, triple, torn))
	if got == nil || !bytes.HasPrefix(got, single) || !bytes.HasSuffix(got, torn) {
		t.Fatal("the other batches are not as they were")
	}
	var values []string
	err := eachRecord(got[len(single):], func(r *Record) { values = append(values, fmt.Sprintf("%s/%s", r.Value, r.Header("id"))) })
	if err != nil || !slices.Equal(values, []string{"b/0", "d/2", "c/1"}) {
		t.Errorf("%q %v", values, err)
	}
	control := bytes.Clone(triple)
	control[batchAttributes+1] |= controlBit
	for name, batches := range map[string][]byte{"single": single, "torn": torn, "control": control, "nothing": nil} {
		if swapInBatches(batches) != nil {
			t.Errorf("%s: something was exchanged", name)
		}
	}
}
