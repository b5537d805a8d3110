// This file holds the fault that cuts connections before the broker has a request.

package nemesis

import (
	"context"

	"github.com/ackproof/ackproof/wire"
)

func cutBefore() Fault {
	return Fault{
		Name:     "cut-before",
		Doc:      "the connection is reset before the broker has the request",
		Settings: append([]Setting{apiSetting()}, aimSettings("5")...),
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			return newWireFault(env, s, func(*wire.Exchange) wire.Decision { return wire.CutBefore(env.ID) }), nil
		},
	}
}
