// This file holds the checker to the corpus: one history of every anomaly at every place
// in every kind of history, and as many healthy ones.

package checker_test

import (
	"testing"

	"github.com/ackproof/ackproof/corpus"
)

func TestTheCorpusIsJudgedRight(t *testing.T) {
	figures, err := corpus.Measure(t.Context(), randomCases(t, 1200), 2, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures.Failures {
		t.Errorf("%s: %s", f.Case, f.What)
	}
	if !figures.Right() {
		t.Errorf("%+v", figures)
	}
}
