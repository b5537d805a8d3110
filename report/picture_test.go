// This file tests what the page of a window says, and what it must not do.

package report

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// aWindow is a window with a contradiction of two events of the names given.
func aWindow(topic, first, second string) (*checker.Verdict, *checker.Window) {
	return &checker.Verdict{Run: "r", Verdict: checker.Violated, Faults: []*checker.Fault{
			{ID: "refuse#1", Name: "refuse", Target: "every request", Start: 1e6, End: 2e9, Evidence: "it acted"},
			{ID: "early#1", Name: "early", Start: 0, End: 1, Evidence: "before all"},
			{ID: "open#1", Name: "open", Start: 3e6, End: -1 << 63, Evidence: "never undone"},
		}}, &checker.Window{
			Partition: histories.Partition{Topic: topic, Partition: 3}, SameClock: true, Of: 1234, LeftOut: 5, Contradiction: &[2]int{1, 3},
			Appends: []checker.Append{
				{Process: "p", Event: "p/k/0", Offset: 10, Call: 4e6, Return: 5e6, Acknowledged: true},
				{Process: "p", Event: first, Offset: 11, Call: 8_500_000, Return: 9e6, Acknowledged: true},
				{Process: "q", Event: "q/k/0", Offset: 14, Call: 5e6, Return: histories.Unknown},
				{Process: "q", Event: second, Offset: 17, Call: 6e6, Return: 7_250_000, Acknowledged: true, Row: 1},
			},
			Polls:   []checker.WindowPoll{{Process: "c0", Call: 6e6, Return: 9e6, First: 10, Last: 17, Number: 4}},
			Cluster: []histories.ClusterEvent{{Time: 7e6, What: "leader", Detail: "2 leads"}, {Time: 7e6, What: "whole", Detail: "all"}, {Time: 2e9}},
		}
}

func pictureOf(t *testing.T, v *checker.Verdict, w *checker.Window) string {
	t.Helper()
	var page strings.Builder
	if err := Picture(&page, v, w); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestThePictureSaysWhatContradictsWhat(t *testing.T) {
	v, w := aWindow("orders", "p/k/1", "q/k/1")
	page := pictureOf(t, v, w)
	for _, says := range []string{
		"<title>The appends of orders/3 are not linearizable</title>",
		"<code>q/k/1</code></a> was acknowledged at 7.250 ms\nand lies at offset 17.",
		"Only after that, at 8.500 ms, was", "<code>p/k/1</code></a> sent, and yet it lies before the other, at offset 11.",
		"4 of the partition&#39;s 1,234 appends, offsets 10 to 17.", "5 appends between these", "Run r.", "whole history: violated.",
		`"Description":"q/k/1 @17"`, `p called at 8.500 ms\nacknowledged at 9.000 ms\nlies at orders/3 offset 11`,
		`q called at 5.000 ms\nnever acknowledged`, `"Description":"refuse on every request"`, `end: not recorded`,
		`"Description":"given 4: @10 to @17"`, `leader: 2 leads\nwhole: all`,
		`"Lanes":["producer q","","producer p"]`, // first the one that was acknowledged
	} {
		if !strings.Contains(page, says) {
			t.Errorf("it does not say %s", says)
		}
	}
	if strings.Contains(page, "before all") {
		t.Error("it shows a fault that was over")
	}
}

func TestThePictureOfAWindowThatIsFineSaysSo(t *testing.T) {
	v, w := aWindow("orders", "p/k/1", "q/k/1")
	w.Contradiction, w.Appends, w.SameClock = nil, w.Appends[:3], false
	page := pictureOf(t, v, w)
	for _, says := range []string{"are linearizable</title>", "Nothing is wrong here", "another clock"} {
		if !strings.Contains(page, says) {
			t.Errorf("it does not say %s", says)
		}
	}
	if strings.Contains(page, "refuse") {
		t.Error("it shows faults that another clock stamped")
	}
}

// TestThePictureIsMadeOfTextsAndLoadsNothing: whatever an imported history has for names.
func TestThePictureIsMadeOfTextsAndLoadsNothing(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror="alert(2)">%s%d</body>`
	v, w := aWindow(evil, evil, "second "+evil)
	v.Run, w.Appends[0].Process, w.Polls[0].Process, w.Cluster[0].Detail, v.Faults[0].Target = evil, evil, evil, evil, evil
	page := pictureOf(t, v, w)
	if n := strings.Count(page, "<script>"); n != 2 { // porcupine's and ours
		t.Errorf("%d scripts", n)
	}
	for _, never := range []string{"<img", "alert(1)</script>"} {
		if strings.Contains(page, never) {
			t.Errorf("it contains %s", never)
		}
	}
	plainVerdict, plainWindow := aWindow("orders", "p/k/1", "q/k/1")
	plain := pictureOf(t, plainVerdict, plainWindow)
	for _, address := range regexp.MustCompile(`(src|href|url)\s*[=(]\s*["']?[^"'\s>]+|https?://[^"'\s]+`).FindAllString(plain, -1) {
		if address != `href="#` && address != "http://www.w3.org/2000/svg" {
			t.Errorf("it may load %s", address)
		}
	}
	// The tooltips are set as HTML: what becomes of the data there must be text.
	_, data, found := strings.Cut(page, "const data = ")
	var drawn struct {
		Partitions []struct {
			History               []struct{ Metadata string }
			PartialLinearizations [][]struct{ StateDescription string }
		}
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&drawn); err != nil || !found {
		t.Fatal(err)
	}
	tooltips := 0
	for _, h := range drawn.Partitions[0].History {
		tooltips++
		if strings.ContainsAny(h.Metadata, "<>\"") {
			t.Errorf("a tooltip is HTML: %s", h.Metadata)
		}
	}
	for _, line := range drawn.Partitions[0].PartialLinearizations {
		for _, step := range line {
			tooltips++
			if strings.ContainsAny(step.StateDescription, "<>\"") {
				t.Errorf("a state is HTML: %s", step.StateDescription)
			}
		}
	}
	if tooltips < 5 {
		t.Errorf("%d tooltips were looked at", tooltips)
	}
}

func TestAWindowThatIsNotWhatItSaysIsNotDrawn(t *testing.T) {
	v, w := aWindow("orders", "p/k/1", "q/k/1")
	w.Contradiction = nil
	if err := Picture(&strings.Builder{}, v, w); err == nil || !strings.Contains(err.Error(), "orders/3") {
		t.Errorf("want a refusal that names the partition, got %v", err)
	}
}

func TestAPageThatCannotBeWrittenIsAnError(t *testing.T) {
	v, w := aWindow("orders", "p/k/1", "q/k/1")
	if err := Picture(broken{}, v, w); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}
