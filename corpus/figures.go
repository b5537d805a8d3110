// This file holds the figures: how much of what was planted is found, and how often
// something is found that is not there.

package corpus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ackproof/ackproof/checker"
)

// Figures are the checker's marks. Their JSON form is that of verify corpus --json.
type Figures struct {
	Seed      uint64 `json:"seed"`
	Histories int64  `json:"histories"`
	Healthy   int64  `json:"healthy"`
	// Planted are the histories with a defect that can be proven, Found those in which
	// its promise was called violated, with the right count.
	Planted int64 `json:"planted"`
	Found   int64 `json:"found"`
	// Undecidable are those with one that nobody could tell, SaidUnknown those in which
	// its promise was called unknown.
	Undecidable int64 `json:"undecidable"`
	SaidUnknown int64 `json:"said_unknown"`
	// NamedWrong are planted histories in which something else was found as well, or
	// instead; FalseAlarms healthy ones in which anything was.
	NamedWrong  int64 `json:"named_wrong"`
	FalseAlarms int64 `json:"false_alarms"`
	// Unsure are histories whose whole was called unknown without need, or held without
	// the proof.
	Unsure int64 `json:"unsure"`
	// JudgesDisagree counts histories about which porcupine says otherwise.
	JudgesDisagree int64 `json:"judges_disagree"`
	// Anomalies and Places divide the planted ones.
	Anomalies map[checker.Anomaly]map[string]*Share `json:"anomalies"`
	// Failures are the first few cases that were not judged right.
	Failures []Failure `json:"failures"`
}

// Share is what became of the defects of one anomaly at one place.
type Share struct {
	Planted int64 `json:"planted"`
	// Right: found, or called unknown where nobody could tell.
	Right int64 `json:"right"`
	// Verdict that is right.
	Verdict string `json:"verdict"`
}

// Failure is a case that was not judged right.
type Failure struct {
	Case string `json:"case"`
	What string `json:"what"`
	made *Case
}

// Made gives the case, to look into.
func (f Failure) Made() *Case { return f.made }

// Right says that every history was judged right.
func (f *Figures) Right() bool {
	return f.Found == f.Planted && f.SaidUnknown == f.Undecidable && f.NamedWrong+f.FalseAlarms+f.Unsure+f.JudgesDisagree == 0
}

// keptFailures bounds the list of failures.
const keptFailures = 20

// Measure has the checker judge so many histories, on all processors, and tells of its
// progress now and then. It fails where the checker or the corpus does.
func Measure(ctx context.Context, n int, seed uint64, progress func(done int64)) (*Figures, error) {
	f := &Figures{Seed: seed, Anomalies: make(map[checker.Anomaly]map[string]*Share), Failures: []Failure{}}
	var next atomic.Int64
	var lock sync.Mutex
	var workers sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for worker := range errs {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				made, judged, err := one(ctx, int(i), seed)
				if err != nil {
					errs[worker] = err
					return
				}
				lock.Lock()
				f.add(made, judged)
				if f.Histories%1000 == 0 {
					progress(f.Histories)
				}
				lock.Unlock()
			}
		})
	}
	workers.Wait()
	return f, errors.Join(errors.Join(errs...), ctx.Err())
}

func one(ctx context.Context, i int, seed uint64) (*Case, *Judgement, error) {
	made, err := One(ctx, i, seed)
	if err != nil {
		return nil, nil, err
	}
	judged, err := Judge(ctx, made)
	return made, judged, err
}

// Judgement is how a case was judged.
type Judgement struct {
	Verdict *checker.Verdict
	// Found: the planted defect was, as it had to be.
	Found bool
	// Others are anomalies that were found and are not there.
	Others []string
	// Whole: the verdict of the whole is right.
	Whole bool
	// Agree: the second judge does not say otherwise.
	Agree bool
}

// Judge has the checker judge a case.
func Judge(ctx context.Context, made *Case) (*Judgement, error) {
	v, err := checker.Check(ctx, made.History, made.Options)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", made.Name, err)
	}
	j := &Judgement{Verdict: v, Found: made.Anomaly == ""}
	for _, p := range v.Promises {
		count := v.Anomalies[p.Name].Count
		want, there := made.Named[p.Name]
		switch {
		case p.Name == made.Anomaly:
			j.Found = p.Verdict == made.Verdict && (made.Verdict != checker.Violated || count == want || (want == Some && count > 0))
		case there && (count == want || want == Perhaps):
		case count > 0 && p.Verdict != checker.NotPromised, p.Verdict == checker.Violated:
			j.Others = append(j.Others, fmt.Sprintf("%s (%d, %s)", p.Name, count, p.Verdict))
		}
	}
	found := v.Anomalies[checker.RealtimeOrderViolation].Count > 0
	j.Agree = v.SecondJudge.Verdict == checker.UnknownWord || found == (v.SecondJudge.Verdict == checker.Violated)
	j.Whole = v.Verdict == made.Verdict
	return j, nil
}

func (f *Figures) add(made *Case, j *Judgement) {
	f.Histories++
	switch {
	case made.Anomaly == "":
		f.Healthy++
		count(&f.FalseAlarms, len(j.Others) > 0)
	case made.Verdict == checker.Violated:
		f.Planted++
		count(&f.Found, j.Found)
	default:
		f.Undecidable++
		count(&f.SaidUnknown, j.Found)
	}
	if made.Anomaly != "" {
		count(&f.NamedWrong, len(j.Others) > 0)
		f.share(made, j)
	}
	count(&f.Unsure, !j.Whole && j.Found && len(j.Others) == 0)
	count(&f.JudgesDisagree, !j.Agree)
	if what := j.wrong(made); what != "" && len(f.Failures) < keptFailures {
		f.Failures = append(f.Failures, Failure{made.Name, what, made})
	}
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}

func (f *Figures) share(made *Case, j *Judgement) {
	places := f.Anomalies[made.Anomaly]
	if places == nil {
		places = make(map[string]*Share)
		f.Anomalies[made.Anomaly] = places
	}
	if places[made.Place] == nil {
		places[made.Place] = &Share{Verdict: made.Verdict}
	}
	places[made.Place].Planted++
	count(&places[made.Place].Right, j.Found && len(j.Others) == 0)
}

// wrong says what was judged wrong; empty: nothing.
func (j *Judgement) wrong(made *Case) string {
	promise := ""
	for _, p := range j.Verdict.Promises {
		if p.Name == made.Anomaly {
			promise = fmt.Sprintf("%s (%d): %s", p.Verdict, j.Verdict.Anomalies[p.Name].Count, p.Reason)
		}
	}
	switch {
	case !j.Found:
		return fmt.Sprintf("%s must be %s and is %s; also found: %v", made.Anomaly, made.Verdict, promise, j.Others)
	case len(j.Others) > 0:
		return fmt.Sprintf("found what is not there: %v", j.Others)
	case !j.Whole:
		return fmt.Sprintf("the whole must be %s and is %s: %s", made.Verdict, j.Verdict.Verdict, j.Verdict.Summary)
	case !j.Agree:
		return "the second judge says " + j.Verdict.SecondJudge.Verdict
	}
	return ""
}
