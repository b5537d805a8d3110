// This file holds the faults of the brokers' processes.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters"
)

// processFault makes a fault that does something to the processes of brokers.
func processFault(f Fault, choose func(ctx context.Context, env *Environment, s Settings) (*processes, error)) Fault {
	f.available = func(c clusters.Cluster, _ Settings) error {
		if _, can := c.(clusters.ProcessMaster); !can {
			return errors.New("its brokers have no processes of their own")
		}
		return nil
	}
	f.aim = func(ctx context.Context, env *Environment, s Settings) (Injection, error) {
		master, can := env.Cluster.(clusters.ProcessMaster)
		if !can {
			return nil, errors.New("the cluster's brokers have no processes of their own")
		}
		p, err := choose(ctx, env, s)
		if err != nil {
			return nil, err
		}
		p.env, p.master = env, master
		p.leadership = leadership{env: env, brokers: p.brokers}
		return p, nil
	}
	return f
}

func countSetting() Setting {
	return number("brokers", "1", "of so many brokers: the one that it is aimed at, and drawn others", 1)
}

// chooseBrokers gives the broker that the settings name and as many drawn others as
// they say.
func chooseBrokers(ctx context.Context, env *Environment, s Settings) ([]int32, string, error) {
	first, why, err := chooseBroker(ctx, env, s)
	if err != nil {
		return nil, "", err
	}
	brokers := []int32{first}
	rest := others(env, first)
	for _, i := range env.Random.Perm(len(rest)) {
		if len(brokers) < int(s.number("brokers")) {
			brokers = append(brokers, rest[i])
			why += fmt.Sprintf(", and broker %d", rest[i])
		}
	}
	if len(brokers) < int(s.number("brokers")) {
		return nil, "", fmt.Errorf("there are %d brokers, and not %d", len(brokers), s.number("brokers"))
	}
	return brokers, why, nil
}

func kill() Fault {
	return processFault(Fault{
		Name:     "kill",
		Doc:      "a broker's process is killed (SIGKILL); it starts again with its log when the fault ends",
		Settings: append([]Setting{countSetting()}, brokerSettings()...),
		Least:    4 * time.Second, Window: noticedWindow, Stalls: true,
	}, func(ctx context.Context, env *Environment, s Settings) (*processes, error) {
		brokers, why, err := chooseBrokers(ctx, env, s)
		return &processes{target: why, brokers: brokers, act: killed}, err
	})
}

func killAll() Fault {
	return processFault(Fault{
		Name:  "kill-all",
		Doc:   "all brokers' processes are killed at once; they start again with their logs when the fault ends",
		Least: time.Second, Window: noticedWindow, Stalls: true,
	}, func(_ context.Context, env *Environment, _ Settings) (*processes, error) {
		return &processes{target: "all brokers", brokers: slices.Clone(env.Cluster.Description().Brokers), act: killed}, nil
	})
}

func pause() Fault {
	return processFault(Fault{
		Name:     "pause",
		Doc:      "a broker's process is frozen; its connections stay open; it goes on when the fault ends",
		Settings: append([]Setting{countSetting()}, brokerSettings()...),
		Least:    4 * time.Second, Window: noticedWindow, Stalls: true,
	}, func(ctx context.Context, env *Environment, s Settings) (*processes, error) {
		brokers, why, err := chooseBrokers(ctx, env, s)
		return &processes{target: why, brokers: brokers, act: paused}, err
	})
}

func shutdown() Fault {
	return processFault(Fault{
		Name:     "shutdown",
		Doc:      "a broker shuts down in good order, moving its leaderships; it starts again when the fault ends",
		Settings: append([]Setting{countSetting()}, brokerSettings()...),
		Least:    4 * time.Second, Window: noticedWindow, Stalls: true,
	}, func(ctx context.Context, env *Environment, s Settings) (*processes, error) {
		brokers, why, err := chooseBrokers(ctx, env, s)
		return &processes{target: why, brokers: brokers, act: shutDown}, err
	})
}

func restart() Fault {
	return processFault(Fault{
		Name:     "restart",
		Doc:      "a broker shuts down in good order, moving its leaderships, and starts again at once",
		Settings: append([]Setting{countSetting()}, brokerSettings()...),
		Window:   noticedWindow, Stalls: true,
	}, func(ctx context.Context, env *Environment, s Settings) (*processes, error) {
		brokers, why, err := chooseBrokers(ctx, env, s)
		return &processes{target: why, brokers: brokers, act: restarted}, err
	})
}

func rollingRestart() Fault {
	return processFault(Fault{
		Name:   "rolling-restart",
		Doc:    "all brokers restart in good order, one after the other, each when the one before it is in sync again",
		Window: 2 * noticedWindow, Stalls: true,
	}, func(_ context.Context, env *Environment, _ Settings) (*processes, error) {
		all := slices.Clone(env.Cluster.Description().Brokers)
		env.Random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return &processes{target: "all brokers, in the order " + names(all), brokers: all, act: restarted, inTurn: true}, nil
	})
}

// act is what is done to a process: it says what it did, in words, and gives an error
// where it is not so.
type act func(ctx context.Context, master clusters.ProcessMaster, broker int32) (done string, err error)

func killed(ctx context.Context, master clusters.ProcessMaster, broker int32) (string, error) {
	if err := master.KillBroker(ctx, broker); err != nil {
		return "", err
	}
	now, err := master.BrokerProcess(ctx, broker)
	if err == nil && now.Running {
		err = fmt.Errorf("broker %d runs though it was killed", broker)
	}
	return fmt.Sprintf("the process of broker %d was gone", broker), err
}

func shutDown(ctx context.Context, master clusters.ProcessMaster, broker int32) (string, error) {
	if err := master.StopBroker(ctx, broker); err != nil {
		return "", err
	}
	return fmt.Sprintf("broker %d had shut down", broker), nil
}

func paused(ctx context.Context, master clusters.ProcessMaster, broker int32) (string, error) {
	if err := master.PauseBroker(ctx, broker); err != nil {
		return "", err
	}
	now, err := master.BrokerProcess(ctx, broker)
	if err == nil && !now.Paused {
		err = fmt.Errorf("broker %d is not frozen though it was paused", broker)
	}
	return fmt.Sprintf("the process of broker %d was frozen", broker), err
}

func restarted(ctx context.Context, master clusters.ProcessMaster, broker int32) (string, error) {
	before, err := master.BrokerProcess(ctx, broker)
	if err != nil {
		return "", err
	}
	if err := master.StopBroker(ctx, broker); err != nil {
		return "", err
	}
	if err := master.StartBroker(ctx, broker); err != nil {
		return "", err
	}
	now, err := master.BrokerProcess(ctx, broker)
	if err == nil && now.Started == before.Started {
		err = fmt.Errorf("broker %d is the same process as before", broker)
	}
	return fmt.Sprintf("broker %d is another process", broker), err
}

// processes is the injection.
type processes struct {
	env     *Environment
	master  clusters.ProcessMaster
	target  string
	brokers []int32
	act     act
	// effects, if given, are those of what was done.
	effects func() []string
	// inTurn: one after the other, each in sync again before the next.
	inTurn bool

	mu         sync.Mutex
	touched    []int32
	done       []string
	leadership leadership
	healed     bool
	back       bool
}

func (p *processes) Target() string { return p.target }

func (p *processes) Inject(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leadership.look(ctx)
	if p.inTurn {
		for _, broker := range p.brokers {
			if err := p.one(ctx, broker); err != nil {
				return err
			}
			awaitInSync(ctx, p.env, broker)
		}
		return nil
	}
	p.touched = p.brokers
	errs := make([]error, len(p.brokers))
	done := make([]string, len(p.brokers))
	var acting sync.WaitGroup
	for i, broker := range p.brokers {
		acting.Go(func() { done[i], errs[i] = p.act(ctx, p.master, broker) })
	}
	acting.Wait()
	for i, err := range errs {
		if err == nil {
			p.done = append(p.done, done[i])
		}
	}
	return errors.Join(errs...)
}

func (p *processes) one(ctx context.Context, broker int32) error {
	p.touched = append(p.touched, broker)
	done, err := p.act(ctx, p.master, broker)
	if err == nil {
		p.done = append(p.done, done)
	}
	return err
}

// Heal starts what does not run, lets go on what is frozen, and waits until it is back.
func (p *processes) Heal(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.touched) == 0 {
		return nil
	}
	p.leadership.lookAgain(ctx)
	errs := make([]error, len(p.touched))
	var starting sync.WaitGroup
	for i, broker := range p.touched {
		starting.Go(func() { errs[i] = p.master.StartBroker(ctx, broker) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.back = awaitInSync(ctx, p.env, p.touched...)
	p.touched, p.healed = nil, true
	return nil
}

func (p *processes) Evidence() Evidence {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.done) == 0 {
		return Evidence{Text: "nothing happened to " + names(p.brokers)}
	}
	text := listed(p.done) + "; " + p.leadership.text()
	switch {
	case p.healed && !p.back:
		text += "; its replicas were not in sync again " + backLimit.String() + " after it was back"
	case p.healed:
		text += "; it is back"
	}
	evidence := Evidence{Bit: true, Text: text}
	if p.effects != nil {
		evidence.Effects = p.effects()
	}
	return evidence
}
