package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// issue gives an issue about a run in which events were lost.
func issue(lost, faults, evidence int) *Issue {
	part := &checker.AnomalyPart{Count: int64(lost)}
	for n := range min(lost, 3) {
		x := checker.Example{Instance: checker.Instance{Text: fmt.Sprintf("p0/k0/%d was acknowledged at orders/0 offset %d", n, n)}}
		for e := range evidence {
			at := int64(e)
			x.Evidence = append(x.Evidence, checker.Evidence{Line: int64(e), Time: &at, Text: strings.Repeat("x", 500)})
		}
		part.Examples = append(part.Examples, x)
	}
	v := &checker.Verdict{Verdict: checker.Violated, Summary: "a promise was broken: lost-write",
		Promises:       []checker.PromiseVerdict{{Name: checker.LostWrite, Promise: "an acknowledged event is in the log", Verdict: checker.Violated, Reason: "acks=all"}},
		Anomalies:      map[checker.Anomaly]*checker.AnomalyPart{checker.LostWrite: part},
		Configurations: []checker.Configuration{{Producer: map[string]string{"acks": "all"}, Client: "java 4.1.0"}}}
	for n := range faults {
		v.Faults = append(v.Faults, &checker.Fault{ID: fmt.Sprintf("kill#%d", n), Target: "broker 1", Bit: true, Evidence: strings.Repeat("e", 390)})
	}
	return &Issue{Bundle: "a run.zip", Tool: "ackproof v1", Verdict: v, Limit: 25_000_000,
		Header: &histories.Header{Run: "r", Seed: 7, Started: time.Unix(0, 0), Cluster: &histories.Cluster{Version: "kafka 4.1.0", Provider: "containers"}},
		Files:  []BundledFile{{"scenario.yaml", 10, "as it was"}, {"history.jsonl.zst", 20_000_000, "as it was"}}}
}

func TestAnIssueSaysWhatAMaintainerAsks(t *testing.T) {
	i := issue(5, 2, 3)
	i.AddRedaction("scenario.yaml", 3, "ssl.key.password")
	i.LeaveOut("brokers/1/core: it is no text")
	i.Note("the run left no verdict")
	text := i.Markdown()
	for _, says := range []string{"# VIOLATED: a promise was broken: lost-write", "### lost-write: 5 times", "| brokers | kafka 4.1.0", "| client | java 4.1.0 |",
		"| seed | 7 |", "verify check 'a run.zip'", "unzip 'a run.zip' scenario.yaml", "acks=all", "`kill#1`", "p0/k0/0 was acknowledged at orders/0 offset 0",
		"| `scenario.yaml` | line 3 | `ssl.key.password` |", "brokers/1/core: it is no text", "the run left no verdict", "20.0 MB"} {
		if !strings.Contains(text, says) {
			t.Errorf("it does not say %q:\n%s", says, text)
		}
	}
}

func TestPromisesThatAreUnknownForOneReasonStandTogether(t *testing.T) {
	i := issue(0, 0, 0)
	i.Verdict.Promises = []checker.PromiseVerdict{{Name: checker.LostWrite, Verdict: checker.UnknownWord, Reason: "it was cut"},
		{Name: checker.Duplicate, Verdict: checker.UnknownWord, Reason: "it was cut"}, {Name: checker.Corrupt, Verdict: checker.UnknownWord, Reason: "other"}}
	if text := i.Markdown(); !strings.Contains(text, "- `lost-write`, `duplicate`: it was cut\n- `corrupt`: other\n") {
		t.Error(text)
	}
}

func TestAnIssueFitsATrackerHoweverMuchThereIsToSay(t *testing.T) {
	i := issue(1_000_000, 5000, 48)
	for n := range 5000 {
		i.AddRedaction(fmt.Sprintf("brokers/%d/server.log", n), int64(n), strings.Repeat("p", 300))
		i.LeaveOut("a part of brokers/%d/server.log: %s", n, strings.Repeat("q", 300))
		i.Files = append(i.Files, BundledFile{fmt.Sprintf("brokers/%d/server.log", n), 1, "cut"})
	}
	if text := i.Markdown(); len(text) > mostText+200 || !strings.Contains(text, "# VIOLATED") || !strings.Contains(text, "verify check") {
		t.Errorf("%d characters:\n%.500s", len(text), text)
	}
}

func TestWhatIsQuotedDoesNotBecomeMarkdown(t *testing.T) {
	i := issue(1, 1, 1)
	i.Verdict.Faults[0].Evidence = "a | b\n# c <script> `d` @bob *e*"
	i.Verdict.Anomalies[checker.LostWrite].Examples[0].Evidence[0].Text = "before ``` after\nnext"
	text := i.Markdown()
	if !strings.Contains(text, "a \\| b # c &lt;script> 'd' @\u200bbob \\*e\\* |") || !strings.Contains(text, "before ''' after next") {
		t.Error(text)
	}
}

func TestARedactionSaysWhere(t *testing.T) {
	i := new(Issue)
	for line := range int64(20) {
		i.AddRedaction("x.log", line+1, "password")
	}
	i.AddRedaction("x.log", 5, "token")
	if got, want := i.Redactions[0].Where(), "lines 1, 2, 3, 4, 5, 6, 7, 8 and 12 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := i.Redactions[1].Where(); got != "line 5" || i.Taken() != 21 {
		t.Errorf("got %q, %d", got, i.Taken())
	}
}
