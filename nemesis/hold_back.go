// This file holds the fault that passes requests or answers on late.

package nemesis

import (
	"context"
	"time"

	"github.com/ackproof/ackproof/wire"
)

func holdBack() Fault {
	return Fault{
		Name: "hold-back",
		Doc: "a request or an answer is passed on late; the order on its connection is kept; an answer is late from when " +
			"it came (side=answer,every=1: a slow network)",
		Settings: append([]Setting{
			choice("side", "request", "what is held back", "request", "answer"),
			duration("by", "200ms", "for how long"),
			apiSetting(),
		}, aimSettings("5")...),
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			side, by := wire.SideRequest, s.duration("by")
			if s.is("side", "answer") {
				side = wire.SideAnswer
			}
			w := newWireFault(env, s, func(*wire.Exchange) wire.Decision { return wire.HoldBack(env.ID, side, by) })
			w.settle = letPass
			return w, nil
		},
	}
}

// patience is how long undoing waits for what is held back; what is held back for
// longer is cut off.
const patience = 3 * time.Second

// letPass waits until what was held back last has passed.
func letPass(ctx context.Context, w *wireFault) error {
	w.mu.Lock()
	left := time.Until(w.lastAct.Add(w.settings.duration("by")))
	w.mu.Unlock()
	if left > patience {
		return cutHit(ctx, w)
	}
	if err := sleep(ctx, left); err != nil {
		return cutHit(ctx, w)
	}
	return nil
}
