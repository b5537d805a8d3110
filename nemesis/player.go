// This file holds the player: it plays a schedule against a cluster, writes down
// each fault before it injects it and after it is undone, and undoes everything
// whatever happens.

package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
)

// Recorder takes the lines that the player writes. It may be called by several
// goroutines at once.
type Recorder interface {
	Write(line histories.Line) error
}

// PlayerOptions say what is played, and against what.
type PlayerOptions struct {
	Cluster  clusters.Cluster
	Schedule Schedule
	// Topics of the run: nothing else is harmed.
	Topics   []string
	Recorder Recorder
	// Now gives the time on the run's clock, in nanoseconds.
	Now func() int64
	// Seed of the targets that are drawn.
	Seed int64
	// Acks of the producers: "0", "1", "all"; "": not known.
	Acks string
	// AllowLies lets faults be played that no healthy broker shows.
	AllowLies bool
	// Lasts is after what time no more faults are begun, and those that are on are undone. One
	// that is being injected then is let finish, as half of it shows nothing: what waits for
	// brokers to notice takes as long as they do. Zero: the schedule alone says when it ends.
	Lasts time.Duration
	// HealLimit bounds how long injecting or undoing one fault may take, WholeLimit how long
	// the cluster may take to become whole. Zero: DefaultHealLimit,
	// DefaultWholeLimit.
	HealLimit, WholeLimit time.Duration
}

// The limits that hold where none is given.
const (
	DefaultHealLimit  = 30 * time.Second
	DefaultWholeLimit = time.Minute
)

// Running is a fault that is on.
type Running struct {
	ID, Name, Target string
	// Since when, on the run's clock, in nanoseconds.
	Since int64
}

// Player plays one schedule, once, and injects what is begun by hand. Its methods may be
// called concurrently.
type Player struct {
	options PlayerOptions
	ids     []string
	// find gives the fault of a name: Find, but in tests.
	find func(name string) (Fault, error)

	mu      sync.Mutex
	running map[string]*on
	begun   map[string]int // faults by name that had an id, for the next one begun by hand
	ended   map[string]Evidence
	failure error // the first line that could not be written
}

// on is a fault from before its injection until it is undone.
type on struct {
	Running
	injection Injection // nil where no target was found
	byHand    bool
	// turn is held by who injects or heals.
	turn sync.Mutex
	// over: it was undone, and is not to be injected any more. It is guarded by turn.
	over bool
	// told: its end was written down. It is guarded by the player's mu.
	told bool
}

// inject begins the fault.
func (o *on) inject(ctx context.Context) error {
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.over {
		return fmt.Errorf("injecting %s: everything was undone meanwhile", o.ID)
	}
	return guard("injecting "+o.ID, func() error { return o.injection.Inject(ctx) })
}

// undo heals the fault, or finds that it is healed.
func (o *on) undo(ctx context.Context) error {
	if o.injection == nil {
		return nil
	}
	o.turn.Lock()
	defer o.turn.Unlock()
	o.over = true
	if err := guard("healing "+o.ID, func() error { return o.injection.Heal(ctx) }); err != nil {
		return fmt.Errorf("undoing %s (%s): %w", o.ID, o.Target, err)
	}
	return nil
}

// NewPlayer checks that everything in the schedule can be played against the cluster,
// and that no lie is in it unless lies are allowed. It injects nothing.
func NewPlayer(options PlayerOptions) (*Player, error) {
	if err := options.Schedule.Validate(); err != nil {
		return nil, err
	}
	if err := options.Schedule.CheckLies(options.Acks, options.AllowLies); err != nil {
		return nil, err
	}
	if err := options.Schedule.Available(options.Cluster); err != nil {
		return nil, err
	}
	options.HealLimit = cmp.Or(options.HealLimit, DefaultHealLimit)
	options.WholeLimit = cmp.Or(options.WholeLimit, DefaultWholeLimit)
	return &Player{options: options, ids: options.Schedule.ids(), find: Find, running: make(map[string]*on),
		ended: make(map[string]Evidence)}, nil
}

// Available gives an error that says which faults of the schedule the cluster cannot
// have, and why.
func (s Schedule) Available(c clusters.Cluster) error {
	var errs []error
	seen := make(map[string]bool)
	for _, e := range s {
		key := Asked{Name: e.Fault, Settings: e.Settings}.String()
		if seen[key] {
			continue
		}
		seen[key] = true
		fault, err := Find(e.Fault)
		if err == nil {
			err = fault.Available(c, e.Settings)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Play plays the schedule and returns when its last fault is undone, or, when the
// context ends, as soon as those that are on are undone: with the context's error
// then. Faults that do not overlap in the schedule do not overlap in the play: one
// that takes long to undo delays the next, and what finds no time in Lasts any more is not
// begun. A fault that cannot be injected is
// written down so and is no error of Play; a history that cannot be written is one,
// and so is a fault that cannot be undone.
func (p *Player) Play(ctx context.Context) error {
	start := time.Now()
	timed, cancel := p.timed(ctx)
	defer cancel()
	stop, watching := p.watchLeaders(ctx)
	var playing sync.WaitGroup
	over := make([]chan struct{}, len(p.options.Schedule))
	errs := make([]error, len(p.options.Schedule))
	for i, entry := range p.options.Schedule {
		if sleep(timed, time.Until(start.Add(entry.At))) != nil || p.failed() != nil {
			break
		}
		p.awaitEarlier(timed, entry, over)
		if timed.Err() != nil {
			break // recovery took the time that was left: what was not begun is no fault that did not bite
		}
		over[i] = make(chan struct{})
		playing.Go(func() {
			defer close(over[i])
			errs[i] = p.playEntry(ctx, timed, p.ids[i], entry)
		})
	}
	playing.Wait()
	stop()
	watching.Wait()
	return errors.Join(errors.Join(errs...), p.failed(), ctx.Err())
}

// timed is the context in which faults begin and stay on.
func (p *Player) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.options.Lasts <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.options.Lasts)
}

// awaitEarlier waits until the faults that were to be over by now are.
func (p *Player) awaitEarlier(ctx context.Context, next Entry, over []chan struct{}) {
	for i, earlier := range p.options.Schedule {
		if over[i] == nil {
			return // not begun
		}
		if earlier.At+earlier.For > next.At {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-over[i]:
		}
	}
}

// sleep waits; an error where the context ended before.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// playEntry plays one fault from its start to its end, which the end of timed brings on once
// it is injected. It gives an error only where the fault could not be undone.
func (p *Player) playEntry(ctx, timed context.Context, id string, entry Entry) (err error) {
	until := time.Now().Add(entry.For)
	fault, err := p.find(entry.Fault)
	if err != nil {
		return err // NewPlayer found it: the catalogue does not change
	}
	settings := Settings(entry.Settings)
	injection, aimErr := p.aim(ctx, fault, id, settings)
	current := p.begin(fault, settings, &on{Running: Running{ID: id}, injection: injection})
	if p.failed() != nil { // not written down: not done
		p.forget(id)
		return nil
	}
	problem := aimErr
	defer func() {
		err = p.end(ctx, current, problem)
	}()
	if aimErr == nil {
		problem = p.inject(ctx, current)
	}
	if problem == nil {
		_ = sleep(timed, time.Until(until)) // whatever ends the wait, it is undone
	}
	return nil
}

// inject begins a fault; what hangs is given up, and undone then.
func (p *Player) inject(ctx context.Context, current *on) error {
	limited, cancel := context.WithTimeout(ctx, p.options.HealLimit)
	defer cancel()
	return current.inject(limited)
}

// aim chooses the target.
func (p *Player) aim(ctx context.Context, fault Fault, id string, s Settings) (injection Injection, err error) {
	env := &Environment{ID: id, Cluster: p.options.Cluster, Topics: p.options.Topics, Random: p.random(id)}
	err = guard("aiming "+id, func() error {
		injection, err = fault.Aim(ctx, env, s)
		return err
	})
	return injection, err
}

// random gives the source of one injection: the same for the same seed and id,
// whatever else is on.
func (p *Player) random(id string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // never fails
	return rand.New(rand.NewPCG(uint64(p.options.Seed), hash.Sum64()))
}

// guard turns a panic of a fault into an error: everything else is still undone.
func guard(what string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: a broken invariant of ours: %v", what, r)
		}
	}()
	return do()
}

// begin writes the start of a fault down and makes it known to Heal.
func (p *Player) begin(fault Fault, settings Settings, current *on) *on {
	current.Name, current.Target, current.Since = fault.Name, "none", p.options.Now()
	if current.injection != nil {
		current.Target = current.injection.Target()
	}
	p.mu.Lock()
	p.running[current.ID] = current
	p.mu.Unlock()
	p.write(&histories.FaultStart{ID: current.ID, Name: fault.Name, Target: current.Target, Settings: settings,
		Time: current.Since, Lie: fault.Lie(settings, p.options.Acks) != ""})
	return current
}

func (p *Player) forget(id string) {
	p.mu.Lock()
	delete(p.running, id)
	p.mu.Unlock()
}

// end undoes a fault, with a fresh context, and writes down how it went.
func (p *Player) end(ctx context.Context, current *on, problem error) error {
	heal, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.HealLimit)
	defer cancel()
	healErr := current.undo(heal)
	var evidence Evidence
	if current.injection != nil {
		evidence = current.injection.Evidence()
	}
	if p.isFirstEnd(current, evidence) {
		line := &histories.FaultEnd{ID: current.ID, Bit: evidence.Bit, Evidence: evidence.Text, Effects: evidence.Effects}
		if problem = errors.Join(problem, healErr); problem != nil {
			line.Error = problem.Error()
		}
		line.Time = p.options.Now()
		p.write(line)
	}
	if healErr == nil {
		p.forget(current.ID)
	}
	return healErr
}

// isFirstEnd keeps the evidence of a fault that ended, and says whether its end has yet to
// be written down.
func (p *Player) isFirstEnd(current *on, evidence Evidence) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current.injection != nil {
		p.ended[current.ID] = evidence
	}
	first := !current.told
	current.told = true
	return first
}

// Heal undoes every fault that is on, or that could not be undone before, and
// returns when all are gone or with what could not be. The ends of those that were begun
// by hand are written down; those of the schedule's own Play writes. It may be called at
// any time and again.
func (p *Player) Heal(ctx context.Context) error {
	heal, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.HealLimit)
	defer cancel()
	p.mu.Lock()
	left := make([]*on, 0, len(p.running))
	for _, current := range p.running {
		left = append(left, current)
	}
	p.mu.Unlock()
	var errs []error
	for _, current := range left {
		if current.byHand {
			errs = append(errs, p.end(heal, current, nil))
			continue
		}
		err := current.undo(heal)
		if err == nil {
			p.forget(current.ID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// AwaitWhole undoes what is on, writes that everything is healed, waits until the
// cluster says that it is whole, and writes that, or that it did not become so within
// the limit, which is an error too. The end of the context does not cut it short:
// after ctrl-C it is called as well.
func (p *Player) AwaitWhole(ctx context.Context) error {
	if err := p.Heal(ctx); err != nil {
		p.say(histories.ClusterNotHealed, err.Error())
		return errors.Join(fmt.Errorf("%w: %w", ErrNotHealed, err), p.failed())
	}
	p.say(histories.ClusterHealed, "every fault is undone")
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.WholeLimit)
	defer cancel()
	for {
		err := p.options.Cluster.Whole(limited)
		if err == nil {
			p.say(histories.ClusterWhole, "every broker answers, every partition has a leader and all replicas in sync")
			return p.failed()
		}
		if exited := p.exited(limited); exited != nil {
			return errors.Join(exited, p.failed())
		}
		if sleep(limited, wholeEvery) != nil || errors.Is(err, clusters.ErrClosed) {
			p.say(histories.ClusterNotWhole, err.Error())
			return errors.Join(fmt.Errorf("waiting up to %s for the cluster to become whole: %w", p.options.WholeLimit, err),
				p.failed())
		}
	}
}

// ErrNotHealed says that a fault could not be undone.
var ErrNotHealed = errors.New("not everything could be undone")

// exited writes down which brokers ended though nobody asked for it, and gives that
// as an error, with the last lines of the first one's log.
func (p *Player) exited(ctx context.Context) error {
	master, can := p.options.Cluster.(clusters.ProcessMaster)
	if !can {
		return nil
	}
	exits, _ := master.Exits(ctx) // what cannot be told now is asked again
	if len(exits) == 0 {
		return nil
	}
	for _, exit := range exits {
		p.say(histories.ClusterBrokerExited, exit.String())
	}
	return fmt.Errorf("%s; its last lines:\n%s", exits[0], exits[0].LastLines)
}

// say writes down something about the cluster.
func (p *Player) say(what, detail string) {
	p.write(&histories.ClusterEvent{Time: p.options.Now(), What: what, Detail: detail})
}

// wholeEvery is how often the cluster is asked whether it is whole.
const wholeEvery = 100 * time.Millisecond

// Running gives the faults that are on, the oldest first.
func (p *Player) Running() []Running {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := make([]Running, 0, len(p.running))
	for _, current := range p.running {
		running = append(running, current.Running)
	}
	slices.SortFunc(running, func(a, b Running) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID))
	})
	return running
}

// write hands a line to the recorder and keeps the first error.
func (p *Player) write(line histories.Line) {
	if err := p.options.Recorder.Write(line); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failure == nil {
			p.failure = fmt.Errorf("recording what the nemesis does: %w", err)
		}
	}
}

// failed gives why the history cannot be written any more, or nil.
func (p *Player) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// leadersEvery is how often the leaders are looked at.
const leadersEvery = 100 * time.Millisecond

// watchLeaders writes each change of a leader that it sees, until stop is called.
func (p *Player) watchLeaders(ctx context.Context) (stop func(), watching *sync.WaitGroup) {
	watching = new(sync.WaitGroup)
	watched, stop := context.WithCancel(ctx)
	if len(p.options.Topics) == 0 {
		return stop, watching
	}
	watching.Go(func() {
		last := make(map[string]clusters.Leader)
		for {
			p.seeLeaders(watched, last)
			if sleep(watched, leadersEvery) != nil {
				p.seeLeaders(context.WithoutCancel(ctx), last)
				return
			}
		}
	})
	return stop, watching
}

// seeLeaders looks at the leaders once. What cannot be seen now is seen later.
func (p *Player) seeLeaders(ctx context.Context, last map[string]clusters.Leader) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	leaders, err := p.options.Cluster.Leaders(limited, p.options.Topics...)
	if err != nil {
		return
	}
	for _, now := range leaders {
		before, known := last[now.Name()]
		last[now.Name()] = now
		if known && (before.Broker != now.Broker || before.Epoch != now.Epoch) {
			p.write(&histories.ClusterEvent{Time: p.options.Now(), What: histories.ClusterLeader,
				Detail: fmt.Sprintf("%s: broker %d (epoch %d) after broker %d (epoch %d)", now.Name(), now.Broker, now.Epoch,
					before.Broker, before.Epoch)})
		}
	}
}
