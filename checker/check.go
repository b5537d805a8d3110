// This file holds Check, the one entry of the package.

package checker

import (
	"context"
	"fmt"
	"time"

	"github.com/ackproof/ackproof/histories"
)

// Options say how to check. The zero value is a good default.
type Options struct {
	// Producer properties and Topic properties, under Kafka's names, that stand
	// in for what the header lacks, or override what it says.
	Producer, Topic map[string]string
	// Examples is how many examples of each anomaly get their whole evidence;
	// zero: 3.
	Examples int
	// SecondJudgeTimeout bounds the second judge's search per partition; zero:
	// 10 s. Out of time it says so, and decides nothing.
	SecondJudgeTimeout time.Duration
	// WithoutSecondJudge leaves the second judge out.
	WithoutSecondJudge bool
	// Windows says which windows of the second judge are kept in Verdict.Windows:
	// WindowsFailing, WindowsAll, or none if it is empty.
	Windows string
}

func (o Options) examples() int {
	if o.Examples == 0 {
		return 3
	}
	return o.Examples
}

// Check judges a history. It reads it twice: once to judge, once to fetch the
// evidence for the examples. A history that was cut is judged as far as it goes;
// the verdict says so. The error is the reader's (an unreadable line, a file that
// is gone), a *ConfigurationError, or the context's.
//
// Memory is about 200 bytes per send, its log record included, and twice that while
// the tables grow; each replica that was read adds four bytes per offset. Check may be called
// concurrently on different histories.
func Check(ctx context.Context, h histories.History, options Options) (*Verdict, error) {
	s := newState(h.Header(), options)
	if err := s.collect(ctx, h); err != nil {
		return nil, fmt.Errorf("checking the history: %w", err)
	}
	if err := s.configure(); err != nil {
		return nil, err
	}
	s.settle()
	f := newFindings(s)
	f.judgePlaces()
	f.judgeOrder()
	f.judgeRealtime()
	f.judgeReads()
	f.judgeReplicas()
	f.judgeRecovery()
	v := f.verdict()
	if !options.WithoutSecondJudge {
		s.secondJudge(ctx, v)
	}
	v.conclude()
	if err := s.gatherEvidence(ctx, h, v); err != nil {
		return nil, fmt.Errorf("gathering the evidence: %w", err)
	}
	return v, ctx.Err()
}
