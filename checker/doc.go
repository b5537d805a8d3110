// Package checker says of a history which of Kafka's promises held and which
// broke, judged against what the very configuration of its producers, topics
// and cluster promises.
//
// It knows only histories: it never talks to a cluster, and judges one that was
// recorded last year, by another tool or by another client just the same. Check
// is its one entry.
//
// How a verdict comes about: one pass over the history builds a compact state of
// sends, reads and logs (collect.go, reads.go, logs.go); judges walk that state,
// each for a few anomalies (judge_*.go); the promise table (promises.go) says
// which of them were promised; the assumptions of the judgement are checked too
// (assumptions.go); a second pass over the history fetches every operation that
// proves the examples (evidence.go). With offsets in the acknowledgements all of
// this is near-linear work without a search. porcupine is the second, independent
// judge of real-time order (second_judge.go).
package checker
