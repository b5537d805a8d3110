// This file tests the compact tables of the state against plain ones.

package checker

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"unsafe"

	"github.com/ackproof/ackproof/histories"
	"pgregory.net/rapid"
)

func TestIdentitiesAreOpaque(t *testing.T) {
	table := newIdentities()
	numbers := make(map[string]uint32)
	for _, identity := range []string{"", "0", "1", "01", "a/1", "a/01", "a/10", "a/1 ", "1/a", "a/999999999", "a/9999999999",
		"a/70000", "b/70000", "a/18446744073709551616", "ä/1", "a/0", "a/00", "a//1"} {
		number, isNew := table.of(identity)
		if !isNew {
			t.Errorf("%q was taken for another one", identity)
		}
		numbers[identity] = number
	}
	for identity, number := range numbers {
		if again, isNew := table.of(identity); isNew || again != number {
			t.Errorf("%q is %d, then %d (new %v)", identity, number, again, isNew)
		}
		if name := table.name(number); name != identity {
			t.Errorf("%q is named %q", identity, name)
		}
	}
}

func TestIdentitiesAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newIdentities()
		known := make(map[string]uint32)
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			identity := rapid.SampledFrom([]string{"", "p/", "p/k/", "0", "q/0"}).Draw(t, "prefix") +
				rapid.SampledFrom([]string{"", "0", "1", "2", "00", "70000", "65537", "140000", "999999999"}).Draw(t, "counter")
			number, isNew := table.of(identity)
			before, seen := known[identity]
			if seen == isNew || (seen && before != number) {
				t.Fatalf("%q: number %d, new %v; before %d, seen %v", identity, number, isNew, before, seen)
			}
			known[identity] = number
			if table.name(number) != identity {
				t.Fatalf("%q is named %q", identity, table.name(number))
			}
		}
	})
}

func TestOffsetsAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table offsets
		known := make(map[int64]uint32)
		for range rapid.IntRange(1, 100).Draw(t, "n") {
			offset := rapid.SampledFrom([]int64{0, 1, pageSize - 1, pageSize, 10 * pageSize, 1 << 50}).Draw(t, "offset")
			event := rapid.SampledFrom([]uint32{0, 1, 77, foreign}).Draw(t, "event")
			if _, seen := known[offset]; !seen {
				known[offset] = event
			}
			if first := table.first(offset, event); first != known[offset] {
				t.Fatalf("first at %d is %d, want %d", offset, first, known[offset])
			}
		}
		var visited []int64
		table.each(func(offset int64, event uint32) {
			visited = append(visited, offset)
			if known[offset] != event {
				t.Fatalf("%d holds %d, want %d", offset, event, known[offset])
			}
		})
		if len(visited) != len(known) || !slices.IsSorted(visited) {
			t.Fatalf("visited %v of %v", visited, known)
		}
		pages := len(table.pages)
		if _, ok := table.get(5 * pageSize); ok || len(table.pages) != pages {
			t.Fatal("an offset that was never given is there")
		}
	})
}

func TestLongestIncreasingAgreesWithTryingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.Permutation([]int64{1, 2, 3, 3, 5, 6, 6, 8}).Draw(t, "values")
		best := 0
		for set := range 1 << len(values) {
			var chosen []int64
			for i, v := range values {
				if set&(1<<i) != 0 {
					chosen = append(chosen, v)
				}
			}
			if sort.SliceIsSorted(chosen, func(i, j int) bool { return chosen[i] < chosen[j] }) {
				best = max(best, len(chosen))
			}
		}
		if got := longestIncreasing(values); got != best {
			t.Fatalf("%v: %d, want %d", values, got, best)
		}
	})
}

func TestSplitCounterLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		identity := rapid.String().Draw(t, "identity")
		if prefix, counter, ok := splitCounter(identity); ok && prefix+fmt.Sprint(counter) != identity {
			t.Fatalf("%q became %q and %d", identity, prefix, counter)
		}
	})
}

func TestACounterIsCanonical(t *testing.T) {
	for _, c := range []struct {
		rule, event, prefix string
		counter             int
		is                  bool
	}{
		{"the number at the end", "a/17", "a/", 17, true},
		{"every digit is one", "9876543210a0123456789", "", 0, false},
		{"the lowest and the highest digit", "a/900", "a/", 900, true},
		{"what stands before the digits is no digit", "a/:9", "a/:", 9, true},
		{"what stands behind the digits is no digit", "a/9:", "", 0, false},
		{"zero", "a/0", "a/", 0, true},
		{"two zeros", "a/00", "", 0, false},
		{"a zero in front", "a/07", "", 0, false},
		{"nine digits", "a/999999999", "a/", 999999999, true},
		{"ten digits", "a/1234567890", "", 0, false},
		{"digits alone", "5", "", 5, true},
		{"none", "a/", "", 0, false},
		{"nothing", "", "", 0, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if prefix, counter, is := splitCounter(c.event); is != c.is || (is && (prefix != c.prefix || counter != c.counter)) {
				t.Errorf("%q became %q and %d (%v)", c.event, prefix, counter, is)
			}
		})
	}
}

// TestAStrangeIdentityClaimsNoMemory: counters that are nearly dense are kept densely, and one
// that runs far ahead is not.
func TestAStrangeIdentityClaimsNoMemory(t *testing.T) {
	for _, c := range []struct {
		event  string
		sparse bool
	}{{"a/0", false}, {"a/1", false}, {"a/65536", false}, {"a/65537", true}, {"a/999999999", true}} {
		table := newIdentities()
		table.of(c.event)
		if got := len(table.sparse) == 1; got != c.sparse {
			t.Errorf("%s is sparse: %v, want %v", c.event, got, c.sparse)
		}
	}
}

// TestANameDoesNotKeepItsLine: a name is a part of the line that it was read in, of which
// there are millions.
func TestANameDoesNotKeepItsLine(t *testing.T) {
	line := strings.Repeat("a long line ", 10)
	table := newNames()
	if table.of(line[:6]); unsafe.StringData(table.list[0]) == unsafe.StringData(line) {
		t.Error("the name lies in the line")
	}
}

func TestRangesOfSendsAreBelievedAsFarAsABatchReaches(t *testing.T) {
	for _, c := range []struct {
		rule  string
		sends []int64
		given histories.Range
		want  []uint32
	}{
		{"those in the range", []int64{0, 1, 2, 3}, histories.Range{First: 1, Last: 2}, []uint32{1, 2}},
		{"below zero there are none", []int64{0, 1, 2, 3}, histories.Range{First: -9, Last: 1}, []uint32{0, 1}},
		{"behind one that is missing", []int64{4, 6}, histories.Range{First: 4, Last: 6}, []uint32{0, 1}},
		{"as far as a batch reaches behind one that is missing", []int64{20, 21 + denseSlack},
			histories.Range{First: 20, Last: 21 + denseSlack}, []uint32{0, 1}},
		{"not farther", []int64{20, 22 + denseSlack}, histories.Range{First: 20, Last: 22 + denseSlack}, []uint32{0}},
		{"a range without an end", []int64{0, 1, 2}, histories.Range{Last: 1<<63 - 1}, []uint32{0, 1, 2}},
		{"one that is there behind which many may come", []int64{0, 1, 3}, histories.Range{Last: 2 + denseSlack}, []uint32{0, 1, 2}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := &session{}
			for i, number := range c.sends {
				x.remember(number, uint32(i))
			}
			if got := slices.Collect(x.within([]histories.Range{c.given})); !slices.Equal(got, c.want) {
				t.Errorf("the sends %v, want %v", got, c.want)
			}
		})
	}
}

func TestFewListsTheFirstFewOnOneLine(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"one", []string{"a"}, "a"},
		{"as many as are shown", []string{"a", "b", "c"}, "a, b, c"},
		{"more", []string{"a", "b", "c", "d", "e"}, "a, b, c, 2 more"},
		{"lines become one", []string{"a\nb\n\tc"}, "a b c"},
		{"what is just not too long is not cut", []string{strings.Repeat("é", 240)}, strings.Repeat("é", 240)},
		{"what is long is cut", []string{strings.Repeat("é", 300)}, strings.Repeat("é", 240) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := few(c.parts); got != c.want {
				t.Errorf("few gives %q, want %q", got, c.want)
			}
		})
	}
}

// TestMurmur2IsKafkas holds the hash against the vectors of Kafka's UtilsTest.
func TestMurmur2IsKafkas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2(key)); got != want {
			t.Errorf("murmur2 of %q is %d, want %d", key, got, want)
		}
	}
}
