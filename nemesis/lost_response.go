// This file holds the fault that throws answers away.

package nemesis

import (
	"context"

	"github.com/ackproof/ackproof/wire"
)

func lostResponse() Fault {
	return Fault{
		Name: "lost-response",
		Doc:  "the broker serves the request, its answer is thrown away and the connection closed",
		Settings: append([]Setting{
			choice("mode", "close", "close the connection, or let it go silent (stall)", "close", "stall"),
			apiSetting(),
		}, aimSettings("5")...),
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			stall := s.is("mode", "stall")
			w := newWireFault(env, s, func(*wire.Exchange) wire.Decision { return wire.LoseResponse(env.ID, stall) })
			if stall {
				w.settle = cutHit // what is silent would stay so until the client gives up
			}
			return w, nil
		},
	}
}
