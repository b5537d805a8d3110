// This file tests that histories that were recorded of defects are judged as they must be.

package defects

import (
	"path/filepath"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func TestARecordedHistoryOfADefectIsJudgedByTheNameOfThePromise(t *testing.T) {
	for _, c := range []struct {
		file     string
		whole    string
		violated map[checker.Anomaly]int64
	}{
		{"cancelled-after-timed-out-franz-go-1.20.6.jsonl", checker.Violated, map[checker.Anomaly]int64{checker.LostWrite: 1}},
		{"cancelled-after-timed-out-franz-go-1.20.7.jsonl", checker.Held, nil},
	} {
		t.Run(c.file, func(t *testing.T) {
			history, err := histories.Open(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			v, err := checker.Check(t.Context(), history, checker.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if v.Verdict != c.whole {
				t.Errorf("%s (%s), want %s", v.Verdict, v.Summary, c.whole)
			}
			for _, p := range v.Promises {
				if want := c.violated[p.Name]; (p.Verdict == checker.Violated) != (want > 0) || (want > 0 && v.Anomalies[p.Name].Count != want) {
					t.Errorf("%s: %s, %d times; want %d", p.Name, p.Verdict, v.Anomalies[p.Name].Count, want)
				}
			}
		})
	}
}
