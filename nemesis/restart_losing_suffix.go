// This file holds the planted fault of a log that is shorter after a restart.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ackproof/ackproof/clusters"
)

func restartLosingSuffix() Fault {
	return Fault{
		Name:      "restart-losing-suffix",
		Doc:       "all brokers restart without what was appended (and acknowledged) last",
		Planted:   true,
		NeedsDisk: true,
		Settings:  []Setting{duration("losing", "150ms", "what was appended for so long before the restart is lost")},
		available: func(c clusters.Cluster, _ Settings) error {
			loser, can := c.(clusters.SuffixLoser)
			if !can {
				return errors.New("it cannot restart without a part of its logs")
			}
			return loser.CanLoseSuffix()
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			loser, can := env.Cluster.(clusters.SuffixLoser)
			if !can {
				return nil, errors.New("the cluster cannot restart without a part of its logs")
			}
			return &suffixLoss{loser: loser, settings: s}, nil
		},
	}
}

// suffixLoss is the injection.
type suffixLoss struct {
	loser    clusters.SuffixLoser
	settings Settings

	mu        sync.Mutex
	restarted bool
	lost      []clusters.LostSuffix
}

func (l *suffixLoss) Target() string { return "all brokers" }

func (l *suffixLoss) Inject(ctx context.Context) error {
	if err := l.loser.MarkLogs(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, l.settings.duration("losing")); err != nil {
		return err
	}
	lost, err := l.loser.RestartLosingSuffix(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost, l.restarted = lost, err == nil
	return err
}

// Heal has nothing to undo: the brokers run, and what is lost is lost.
func (l *suffixLoss) Heal(context.Context) error { return nil }

func (l *suffixLoss) Evidence() Evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.restarted {
		return Evidence{Text: "the brokers were not restarted"}
	}
	var parts []string
	var records int64
	for _, lost := range l.lost {
		records += lost.To - lost.From
		parts = append(parts, fmt.Sprintf("%s/%d offsets %d to %d", lost.Topic, lost.Partition, lost.From, lost.To-1))
	}
	if records == 0 {
		return Evidence{Text: "the brokers were restarted, and lost nothing"}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("%d offsets were lost: %s", records, listed(parts))}
}
