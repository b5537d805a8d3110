// This file tests the compact tables of the state against plain ones.

package checker

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

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
		if _, ok := table.get(5 * pageSize); ok {
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
