// This file holds the loss of a broker's logs: what a power failure does to writes that
// were never synced, and what a new disk is like.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

func loseLogs() Fault {
	f := processFault(Fault{
		Name: "lose-logs",
		Doc: "a broker is killed and starts again without what its logs held, as after a power failure (Kafka syncs nothing by " +
			"default) or with a new disk",
		Settings: append([]Setting{
			choice("ends", "killed", "how its process ends: killed (SIGKILL), or shut down in good order", "killed", "in-order"),
			logsSetting(),
		}, brokerSettings()...),
		Window: noticedWindow, Stalls: true,
	}, func(ctx context.Context, env *Environment, s Settings) (*processes, error) {
		broker, why, err := chooseBroker(ctx, env, s)
		if err != nil {
			return nil, err
		}
		l := &logLoss{env: env, inOrder: s["ends"] == "in-order", of: s["logs"]}
		return &processes{target: why, brokers: []int32{broker}, act: l.act, effects: l.effects}, nil
	})
	available := f.available
	f.available = func(c clusters.Cluster, s Settings) error {
		if _, can := c.(clusters.LogEraser); !can {
			return errors.New("its brokers have no logs of their own")
		}
		return available(c, s)
	}
	return f
}

// logLoss takes a broker's logs away while its process does not run.
type logLoss struct {
	env     *Environment
	inOrder bool
	// of names the partition whose log it is, or all.
	of   string
	logs []clusters.Leader
	// inSync are the partitions in whose in-sync set the broker was: what all of that set
	// has is promised to stay, and now one of it has it no more.
	inSync []string
}

func (l *logLoss) act(ctx context.Context, master clusters.ProcessMaster, broker int32) (string, error) {
	eraser, can := l.env.Cluster.(clusters.LogEraser)
	if !can {
		return "", errors.New("the cluster's brokers have no logs of their own")
	}
	end := master.KillBroker
	if l.inOrder {
		end = master.StopBroker
	}
	if err := errors.Join(l.note(ctx, broker), end(ctx, broker)); err != nil {
		return "", err
	}
	var erased []string
	for _, p := range l.logs {
		if err := eraser.EraseLog(ctx, broker, p.Topic, p.Partition); err != nil {
			return "", err
		}
		erased = append(erased, p.Name())
	}
	done := fmt.Sprintf("broker %d lost its logs of %s", broker, listed(erased))
	if len(l.inSync) == 0 {
		return done + ", in none of which it was in sync", nil
	}
	return done + "; it was in sync in " + listed(l.inSync), nil
}

// note notes which logs of the run the broker has, and where it is in sync now.
func (l *logLoss) note(ctx context.Context, broker int32) error {
	leaders, err := l.env.Cluster.Leaders(ctx, l.env.Topics...)
	for _, p := range leaders {
		if !slices.Contains(p.Replicas, broker) || (l.of != everyOne && l.of != p.Name()) {
			continue
		}
		l.logs = append(l.logs, p)
		if slices.Contains(p.InSync, broker) {
			l.inSync = append(l.inSync, p.Name())
		}
	}
	if err == nil && len(l.logs) == 0 {
		err = fmt.Errorf("broker %d has no log of %s", broker, l.of)
	}
	return err
}

// effects takes promises away only where a replica in sync lost what it had: what one holds
// that is not in sync is worth nothing, and nothing is lost with it.
func (l *logLoss) effects() []string {
	switch {
	case len(l.inSync) == 0:
		return nil
	case l.inOrder:
		return []string{histories.EffectDiskLost}
	}
	return []string{histories.EffectUnsyncedWritesLost}
}

func logsSetting() Setting {
	s := partitionFilter(everyOne, "the log that it loses, or all of the run's", everyOne)
	s.Name = "logs"
	return s
}
