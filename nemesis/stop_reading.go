// This file holds the fault of a broker that stops reading what clients send.

package nemesis

import (
	"context"
	"fmt"
	"sync"

	"github.com/ackproof/ackproof/wire"
)

func stopReading() Fault {
	return Fault{
		Name: "stop-reading",
		Doc: "what clients send is read no further, until the fault is over, and answers go on: a client that sends more " +
			"than the buffers of the sockets take waits in the middle of a request",
		Settings: []Setting{
			brokerFilter("only on connections to this broker"),
			word("producer", anyOne, "only on connections of the client with this client.id"),
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			return &unread{network: env.Cluster.Wire(), settings: s}, nil
		},
	}
}

// unread is the injection.
type unread struct {
	network  *wire.Network
	settings Settings

	mu    sync.Mutex
	pause *wire.Pause
	over  bool
}

func (u *unread) Target() string {
	text := "connections"
	if client, given := u.settings.filter("producer"); given {
		text += " of " + client
	}
	if broker, given := u.settings.filter("broker"); given {
		return text + " to broker " + broker
	}
	return text + " to every broker"
}

// concerns says whether a connection is one that is not read from.
func (u *unread) concerns(e wire.End) bool {
	if broker, given := u.settings.filter("broker"); given && broker != fmt.Sprint(e.Broker) {
		return false
	}
	client, given := u.settings.filter("producer")
	return !given || client == e.ClientID
}

func (u *unread) Inject(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pause == nil {
		u.pause = u.network.Pause(u.concerns)
	}
	return nil
}

func (u *unread) Heal(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pause != nil {
		u.pause.Resume()
	}
	u.over = true
	return nil
}

func (u *unread) Evidence() Evidence {
	u.mu.Lock()
	defer u.mu.Unlock()
	stopped := int64(0)
	if u.pause != nil {
		stopped = u.pause.Stopped()
	}
	switch {
	case stopped == 0:
		return Evidence{Text: "nobody sent anything that was left unread"}
	case u.over:
		return Evidence{Bit: true, Text: fmt.Sprintf("requests were left unread on connections %d times; they are read again", stopped)}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("requests were left unread on connections %d times", stopped)}
}
