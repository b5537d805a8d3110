// This file holds the tests of events: identities, stamps, payloads, and what is
// found when a record is not what was sent.

package clients

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func testEvents(tb testing.TB, run string, seed int64) *Events {
	tb.Helper()
	events, err := NewEvents(run, seed)
	if err != nil {
		tb.Fatal(err)
	}
	return events
}

func TestIdentities(t *testing.T) {
	for _, c := range []struct {
		rule string
		e    Event
		text string
	}{
		{"origin, key and number are joined by slashes", Event{"p1", "k3", 17}, "p1/k3/17"},
		{"an empty key stands for a record without a key", Event{"p1", "", 0}, "p1//0"},
		{"a slash in a name is escaped", Event{"a/b", "c/d", 1}, "a%2Fb/c%2Fd/1"},
		{"a percent sign is escaped", Event{"50%", "%2F", 2}, "50%25/%252F/2"},
		{"space, control and other alphabets are escaped byte by byte", Event{"a b", "\x00\u00e9", 3}, "a%20b/%00%C3%A9/3"},
		{"the largest number fits", Event{"p", "k", math.MaxInt64}, "p/k/9223372036854775807"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got := c.e.String(); got != c.text {
				t.Fatalf("text is %q, want %q", got, c.text)
			}
			if back, err := ParseEvent(c.text); err != nil || back != c.e {
				t.Fatalf("read back as %+v, %v", back, err)
			}
		})
	}
}

func TestTextsThatAreNoIdentity(t *testing.T) {
	for rule, text := range map[string]string{
		"too few parts":                     "p1/17",
		"too many parts":                    "p1/k/l/17",
		"no origin":                         "/k/17",
		"a number with a sign":              "p1/k/+17",
		"a number below zero":               "p1/k/-1",
		"a number with a leading zero":      "p1/k/017",
		"an escape of what needs none":      "p%31/k/17",
		"an escape in lower case":           "a%2fb/k/17",
		"an escape that is cut":             "a%2/k/17",
		"a byte that should be escaped":     "a b/k/17",
		"a number that no integer can hold": "p1/k/9223372036854775808",
	} {
		t.Run(rule+" is refused", func(t *testing.T) {
			if e, err := ParseEvent(text); err == nil {
				t.Fatalf("%q was read as %+v", text, e)
			}
		})
	}
}

func TestEqualTextsAreEqualIdentitiesAndNoOthers(t *testing.T) {
	names := rapid.StringMatching(`[/% a-c\x00é]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		a := Event{names.Draw(t, "origin"), names.Draw(t, "key"), rapid.Int64Range(0, 20).Draw(t, "number")}
		b := Event{names.Draw(t, "origin"), names.Draw(t, "key"), rapid.Int64Range(0, 20).Draw(t, "number")}
		if (a.String() == b.String()) != (a == b) {
			t.Fatalf("%+v is %q, %+v is %q", a, a.String(), b, b.String())
		}
	})
}

func TestRecordsOfEventsVerify(t *testing.T) {
	names := rapid.StringMatching(`[/% a-z0-9\x00é-]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		run, seed := names.Draw(t, "run"), rapid.Int64().Draw(t, "seed")
		events, err := NewEvents(run, seed)
		if err != nil {
			t.Fatal(err)
		}
		e := Event{names.Draw(t, "origin"), rapid.StringN(0, 300, -1).Draw(t, "key"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "number")}
		process, operation := names.Draw(t, "process"), rapid.Int64Range(0, 1e17).Draw(t, "operation")
		size := rapid.IntRange(0, 100).Draw(t, "size")
		p := events.Payload(e, process, operation, size)
		if len(p.Value) != size {
			t.Fatalf("value has %d bytes, want %d", len(p.Value), size)
		}
		if (p.Key == nil) != (e.Key == "") || string(p.Key) != e.Key {
			t.Fatalf("key is %q (nil: %t), want %q", p.Key, p.Key == nil, e.Key)
		}
		event, corrupt := events.Verify(p)
		if event != e.String() || corrupt != "" {
			t.Fatalf("read as %q, corrupt %q", event, corrupt)
		}
		stamp, ours := events.Own(p.Headers[0].Value)
		if !ours || stamp.Operation != operation || string(stamp.Process) != string(appendEscaped(nil, process)) ||
			string(stamp.Event) != e.String() || stamp.Length != int64(size) {
			t.Fatalf("the stamp says %+v (ours: %t)", stamp, ours)
		}
	})
}

func TestWhatVerifyFinds(t *testing.T) {
	events := testEvents(t, "run-1", 7)
	sent := Event{"p1", "k/1", 4}
	fresh := func() Payload { return events.Payload(sent, "p1", 9, 40) }
	flip := func(b []byte, i int) { b[i] ^= 1 }
	for _, c := range []struct {
		rule           string
		damage         func(*Payload)
		event, corrupt string
	}{
		{"nothing was changed", func(*Payload) {}, "p1/k%2F1/4", ""},
		{"a record without headers is foreign", func(p *Payload) { p.Headers = nil }, "", ""},
		{"a record with other headers is foreign", func(p *Payload) { p.Headers = p.Headers[1:] }, "", ""},
		{"a record of another run is foreign", func(p *Payload) { *p = testEvents(t, "run-2", 7).Payload(sent, "p1", 9, 40) }, "", ""},
		{"a run whose name begins alike is another run", func(p *Payload) {
			*p = testEvents(t, "run-11", 7).Payload(sent, "p1", 9, 40)
			flip(p.Headers[0].Value, len(p.Headers[0].Value)-1)
		}, "", ""},
		{"a stamp in somebody else's form is foreign", func(p *Payload) { p.Headers[0].Value = []byte("2 whatever") }, "", ""},
		{"a flipped bit in the value", func(p *Payload) { flip(p.Value, 39) }, "p1/k%2F1/4", CorruptValue},
		{"a shorter value", func(p *Payload) { p.Value = p.Value[:39] }, "p1/k%2F1/4", CorruptValue},
		{"a longer value", func(p *Payload) { p.Value = append(bytes.Clone(p.Value), 'x') }, "p1/k%2F1/4", CorruptValue},
		{"no value", func(p *Payload) { p.Value = nil }, "p1/k%2F1/4", CorruptValue},
		{"the value of the event before", func(p *Payload) {
			p.Value = events.Payload(Event{"p1", "k/1", 3}, "p1", 8, 40).Value
		}, "p1/k%2F1/4", CorruptValue},
		{"the payload of another seed", func(p *Payload) { *p = testEvents(t, "run-1", 8).Payload(sent, "p1", 9, 40) }, "p1/k%2F1/4", CorruptValue},
		{"another key", func(p *Payload) { p.Key = []byte("k/2") }, "p1/k%2F1/4", CorruptKey},
		{"no key", func(p *Payload) { p.Key = nil }, "p1/k%2F1/4", CorruptKey},
		{"a key that begins alike", func(p *Payload) { p.Key = []byte("k/11") }, "p1/k%2F1/4", CorruptKey},
		{"the second header is gone", func(p *Payload) { p.Headers = p.Headers[:1] }, "p1/k%2F1/4", CorruptHeaders},
		{"the headers are in another order", func(p *Payload) {
			p.Headers = []Header{p.Headers[1], p.Headers[0]}
		}, "p1/k%2F1/4", CorruptHeaders},
		{"a header too many", func(p *Payload) { p.Headers = append(p.Headers, Header{"x", nil}) }, "p1/k%2F1/4", CorruptHeaders},
		{"a flipped bit in the second header", func(p *Payload) { flip(p.Headers[1].Value, 3) }, "p1/k%2F1/4", CorruptHeaders},
		{"the second header under another name", func(p *Payload) { p.Headers[1].Key = "trace" }, "p1/k%2F1/4", CorruptHeaders},
		{"a stamp with the checksum of another record", func(p *Payload) {
			p.Headers[0].Value = forgeChecksum(t, p.Headers[0].Value)
		}, "p1/k%2F1/4", CorruptChecksum},
		{"a flipped bit in the identity", func(p *Payload) {
			flip(p.Headers[0].Value, bytes.Index(p.Headers[0].Value, []byte("/4 "))+1)
		}, "", CorruptIdentity},
		{"a cut stamp", func(p *Payload) { p.Headers[0].Value = p.Headers[0].Value[:20] }, "", CorruptIdentity},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := fresh()
			c.damage(&p)
			event, corrupt := events.Verify(p)
			if event != c.event || corrupt != c.corrupt {
				t.Fatalf("read as event %q, corrupt %q; want %q, %q", event, corrupt, c.event, c.corrupt)
			}
		})
	}
	t.Run("an empty key where there was none", func(t *testing.T) {
		p := events.Payload(Event{"p1", "", 0}, "p1", 0, 4)
		p.Key = []byte{}
		if event, corrupt := events.Verify(p); event != "p1//0" || corrupt != CorruptKey {
			t.Fatalf("read as event %q, corrupt %q", event, corrupt)
		}
	})
}

// forgeChecksum gives a whole stamp that differs in the record's checksum.
func forgeChecksum(t *testing.T, stamp []byte) []byte {
	t.Helper()
	words := strings.Split(string(stamp), " ")
	words[6] = "00000000"
	text := []byte(strings.Join(words[:7], " ") + " ")
	return appendChecksum(text, checksum(text, nil, nil))
}

func TestEveryFlippedBitOfARecordIsFound(t *testing.T) {
	events := testEvents(t, "run-1", 7)
	p := events.Payload(Event{"p1", "k1", 4}, "p1", 9, 40)
	for name, part := range map[string][]byte{"key": p.Key, "value": p.Value, "stamp": p.Headers[0].Value, "trace": p.Headers[1].Value} {
		for bit := range 8 * len(part) {
			part[bit/8] ^= 1 << (bit % 8)
			event, corrupt := events.Verify(p)
			part[bit/8] ^= 1 << (bit % 8)
			if event != "" && corrupt == "" {
				t.Fatalf("bit %d of the %s was flipped and not found: %q", bit, name, event)
			}
		}
	}
}

func TestValuesCompressAsTextDoes(t *testing.T) {
	events := testEvents(t, "run-1", 7)
	var together bytes.Buffer
	w := gzip.NewWriter(&together)
	const count, size = 500, 200
	for n := range int64(count) {
		if _, err := w.Write(events.Payload(Event{"p1", "k1", n}, "p1", n, size).Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if ratio := float64(count*size) / float64(together.Len()); ratio < 1.5 || ratio > 4 {
		t.Fatalf("gzip makes the values %.2f times smaller; want as with JSON, 1.5 to 4 times", ratio)
	}
}

func TestReadingStampsAllocatesNothing(t *testing.T) {
	events := testEvents(t, "run-1", 7)
	stamp := events.Payload(Event{"p1", "k1", 4}, "p1", 9, 40).Headers[0].Value
	if n := testing.AllocsPerRun(100, func() {
		if _, ours := events.Own(stamp); !ours {
			t.Error("not ours")
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func FuzzParseStamp(f *testing.F) {
	events := testEvents(f, "run-1", 7)
	f.Add(events.Payload(Event{"p1", "k1", 4}, "p1", 9, 40).Headers[0].Value)
	f.Add(events.Payload(Event{"p/1", "", 0}, "p%", 0, 0).Headers[0].Value)
	f.Add([]byte("1 run-1"))
	f.Fuzz(func(t *testing.T, header []byte) {
		stamp, good := ParseStamp(header)
		if good && (len(stamp.Run) == 0 || len(stamp.Event) == 0 || len(stamp.Process) == 0 || stamp.Operation < 0 || stamp.Length < 0) {
			t.Fatalf("%q was read as %+v", header, stamp)
		}
		// Whatever it is, verifying a record that has it ends in an answer.
		event, _ := events.Verify(Payload{Value: header, Headers: []Header{{StampHeader, header}}})
		if event != "" && !good {
			t.Fatalf("%q is no stamp and names %q", header, event)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add("p1/k3/17")
	f.Add("a%2Fb//0")
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := ParseEvent(text); err == nil && e.String() != text {
			t.Fatalf("%q was read as %+v, which is %q", text, e, e.String())
		}
	})
}

func BenchmarkPayload(b *testing.B) {
	events := testEvents(b, "run-1", 7)
	b.ReportAllocs()
	for n := range b.N {
		events.Payload(Event{"p1", "k1", int64(n)}, "p1", int64(n), 128)
	}
}

func BenchmarkOwn(b *testing.B) {
	events := testEvents(b, "run-1", 7)
	stamp := events.Payload(Event{"p1", "k1", 4}, "p1", 9, 128).Headers[0].Value
	b.ReportAllocs()
	for range b.N {
		events.Own(stamp)
	}
}

func BenchmarkVerify(b *testing.B) {
	events := testEvents(b, "run-1", 7)
	p := events.Payload(Event{"p1", "k1", 4}, "p1", 9, 128)
	b.ReportAllocs()
	for range b.N {
		events.Verify(p)
	}
}
