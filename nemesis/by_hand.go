// This file holds faults that are begun and ended by hand, beside a schedule or
// instead of one: what the steps of a scenario are made of.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Actor is an injection that prepares when it is injected, and does what it is for when
// it is told to.
type Actor interface {
	// Act does it, once; another call does nothing.
	Act(ctx context.Context) error
}

// ErrNotOn says that no fault of that id is on.
var ErrNotOn = errors.New("no such fault is on")

// Begin injects a fault now and gives its id when it is on; ids are counted on behind
// those of the schedule. Its times are not looked at; it is on until End, Heal or
// AwaitWhole. It is written down before it is injected; one that cannot be injected is
// undone and written down so, and that is the error, as is a fault or setting that there
// is not, a lie that is not allowed, a fault that the cluster cannot have, or a history
// that cannot be written.
func (p *Player) Begin(ctx context.Context, asked Asked) (id string, err error) {
	fault, settings, err := p.allowed(asked)
	if err != nil {
		return "", err
	}
	id = p.nextID(fault.Name)
	injection, err := p.aim(ctx, fault, id, settings)
	current := p.begin(fault, settings, &on{Running: Running{ID: id}, injection: injection, byHand: true})
	if failed := p.failed(); failed != nil { // not written down: not done
		p.forget(id)
		return "", failed
	}
	if err == nil {
		err = p.inject(ctx, current)
	}
	if err != nil {
		return "", errors.Join(err, p.end(ctx, current, err))
	}
	return id, nil
}

// allowed gives the fault and its complete settings, or why it must not be injected.
func (p *Player) allowed(asked Asked) (Fault, Settings, error) {
	fault, err := p.find(asked.Name)
	if err != nil {
		return Fault{}, nil, err
	}
	settings, err := fault.Complete(asked.Settings)
	if err != nil {
		return Fault{}, nil, err
	}
	entry := Schedule{{For: time.Second, Fault: fault.Name, Settings: settings}}
	if err := entry.CheckLies(p.options.Acks, p.options.AllowLies); err != nil {
		return Fault{}, nil, err
	}
	return fault, settings, fault.Available(p.options.Cluster, settings)
}

// nextID gives the next id of a fault: the schedule's own come first.
func (p *Player) nextID(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun == nil {
		p.begun = make(map[string]int)
		for _, e := range p.options.Schedule {
			p.begun[e.Fault]++
		}
	}
	p.begun[name]++
	return fmt.Sprintf("%s#%d", name, p.begun[name])
}

// End undoes a fault that Begin injected, writes down how it went, and gives what it did.
// The error is ErrNotOn, or why it could not be undone.
func (p *Player) End(ctx context.Context, id string) (Evidence, error) {
	current, err := p.isOn(id)
	if err != nil {
		return Evidence{}, err
	}
	err = p.end(ctx, current, nil)
	return current.injection.Evidence(), err
}

// EvidenceOf gives what a fault did, so far or until it ended; false where there was none
// of that id, or it found no target.
func (p *Player) EvidenceOf(id string) (Evidence, bool) {
	if current, err := p.isOn(id); err == nil {
		return current.injection.Evidence(), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	evidence, ended := p.ended[id]
	return evidence, ended
}

// isOn gives a fault that is on and has a target.
func (p *Player) isOn(id string) (*on, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.running[id]
	if current == nil || current.injection == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotOn, id)
	}
	return current, nil
}

// Act lets a fault that waits for it do what it is for, and gives what it did so far.
// The error is ErrNotOn, that it is no Actor, or its own.
func (p *Player) Act(ctx context.Context, id string) (Evidence, error) {
	current, err := p.isOn(id)
	if err != nil {
		return Evidence{}, err
	}
	actor, can := current.injection.(Actor)
	if !can {
		return Evidence{}, fmt.Errorf("%s acts from its beginning on", id)
	}
	limited, cancel := context.WithTimeout(ctx, p.options.HealLimit)
	defer cancel()
	err = guard("letting "+id+" act", func() error { return actor.Act(limited) })
	return current.injection.Evidence(), err
}

// bitEvery is how often a fault is asked whether it bit.
const bitEvery = 5 * time.Millisecond

// AwaitBit waits until a fault has taken effect. The error is ErrNotOn where it is not on
// and did not, or says what there is instead of an effect when the context ended.
func (p *Player) AwaitBit(ctx context.Context, id string) error {
	for {
		_, notOn := p.isOn(id) // before its evidence: what it did last counts
		evidence, _ := p.EvidenceOf(id)
		switch {
		case evidence.Bit:
			return nil
		case notOn != nil:
			return notOn
		}
		if err := sleep(ctx, bitEvery); err != nil {
			return fmt.Errorf("%s has not taken effect: %s: %w", id, evidence.Text, err)
		}
	}
}

// Watch writes every change of a leader of the run's partitions that it sees, until stop
// is called, which waits for its end; Play does so by itself.
func (p *Player) Watch(ctx context.Context) (stop func()) {
	cancel, watching := p.watchLeaders(ctx)
	return func() {
		cancel()
		watching.Wait()
	}
}
