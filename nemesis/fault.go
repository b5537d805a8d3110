// This file holds what a fault is: a small value with a name, its settings, whether
// it can be had on a cluster, whether it is a lie, and how to aim it.

package nemesis

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/clusters"
)

// Fault is one kind of thing that the nemesis does. It is plain data and does not
// change; the catalogue holds all of them.
type Fault struct {
	Name string
	// Doc says what it does, in one line.
	Doc string
	// Settings it knows, in the order in which they are documented.
	Settings []Setting
	// Planted: no healthy broker ever does this, whatever the settings.
	Planted bool
	// NeedsDisk: it can be had only where the brokers keep their logs on disk
	// (clusters.EmbeddedOptions.Disk).
	NeedsDisk bool

	// Pauses: a client may send nothing for seconds after it (franz-go waits for
	// metadata up to five seconds after an error answer), so that a fault that comes
	// soon after would find nothing to act on.
	Pauses bool
	// Stalls: a request may still be on its way to a broker's log long after it, as in
	// the buffers of a broker that was frozen, or of a connection that was cut.
	Stalls bool
	// Least is how long it lasts at least where its times are drawn, so that the
	// cluster notices; Window how long it and the quiet time after it take. Zero: it
	// acts at once, and nothing has to recover.
	Least, Window time.Duration

	// lie says why a fault with these settings is a lie; "": it is legal. Nil:
	// Planted decides.
	lie func(s Settings, acks string) string
	// available says why the cluster cannot have it. Nil: any cluster can.
	available func(c clusters.Cluster, s Settings) error
	// aim chooses a target.
	aim func(ctx context.Context, env *Environment, s Settings) (Injection, error)
}

// Environment is what a fault is given when it is aimed.
type Environment struct {
	// ID of this injection, as "lost-response#3". Wire attempts carry it.
	ID      string
	Cluster clusters.Cluster
	// Topics of the run: nothing else is harmed.
	Topics []string
	// Random is for this injection alone.
	Random *rand.Rand
}

// Injection is a fault with its target chosen. Its methods are called by one
// goroutine after the other, Evidence at any time.
type Injection interface {
	// Target in words: "leader of orders/0: broker 2".
	Target() string
	// Inject begins it and returns when it is on. After an error or the end of
	// the context, Heal undoes what was done of it.
	Inject(ctx context.Context) error
	// Heal undoes it and returns when it is gone. It may be called again, and
	// without Inject.
	Heal(ctx context.Context) error
	// Evidence says whether it took effect, so far.
	Evidence() Evidence
}

// Evidence says whether a fault took effect.
type Evidence struct {
	Bit bool
	// Text says by what one knows.
	Text string
	// Effects that change what is promised, as histories.EffectUncleanElection.
	Effects []string
}

// Complete gives the settings with every default spelled out and every value in its
// one spelling. An unknown setting or a bad value is an error that names it and
// what there is.
func (f Fault) Complete(given map[string]string) (Settings, error) {
	complete := make(Settings, len(f.Settings))
	for _, setting := range f.Settings {
		complete[setting.Name] = setting.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		setting, known := f.setting(name)
		if !known {
			return nil, f.unknownSetting(name)
		}
		value, err := setting.canonical(given[name])
		if err != nil {
			return nil, fmt.Errorf("%s:%s=%s: %w", f.Name, name, given[name], err)
		}
		complete[name] = value
	}
	return complete, nil
}

func (f Fault) setting(name string) (Setting, bool) {
	for _, s := range f.Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

func (f Fault) unknownSetting(name string) error {
	var names []string
	for _, s := range f.Settings {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("the fault %s has no setting %q: it has none at all", f.Name, name)
	}
	return fmt.Errorf("the fault %s has no setting %q%s (it has: %s)", f.Name, name, didYouMean(name, names),
		strings.Join(names, ", "))
}

// Lie says why the fault with these settings is a lie, that is, why no healthy
// broker could behave so towards a producer with the given acks ("0", "1", "all";
// "" where they are not known: it must be legal under all of them). "": it is legal.
func (f Fault) Lie(s Settings, acks string) string {
	if f.lie != nil {
		return f.lie(s, acks)
	}
	if f.Planted {
		return "no healthy broker does this"
	}
	return ""
}

// Available gives nil where the cluster can have the fault with these settings, and
// otherwise why it cannot.
func (f Fault) Available(c clusters.Cluster, s Settings) error {
	if f.available == nil {
		return nil
	}
	if err := f.available(c, s); err != nil {
		return fmt.Errorf("the fault %s cannot be had on the %s cluster: %w", f.Name, c.Description().Provider, err)
	}
	return nil
}

// Aim chooses the target of an injection by the fault's rule. It asks the cluster
// and changes nothing.
func (f Fault) Aim(ctx context.Context, env *Environment, s Settings) (Injection, error) {
	injection, err := f.aim(ctx, env, s)
	if err != nil {
		return nil, fmt.Errorf("choosing the target of %s: %w", env.ID, err)
	}
	return injection, nil
}
