// This file holds the dialer: the wire in front of a client of this process, for
// clusters that no proxy can be put in front of.

package wire

import (
	"context"
	"fmt"
	"net"
)

// Dialer gives a dial function for a client: what next connects to is led through
// the network, as broker(address). The connection that the client is given has no
// TLS; next may have, so a client that would use TLS leaves it to next.
func (n *Network) Dialer(next func(ctx context.Context, network, address string) (net.Conn, error),
	broker func(address string) int32) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		server, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		started := n.start(func() {
			c := n.connect(ours, broker(address))
			c.register()
			defer c.unregister()
			c.serve(server)
		})
		if !started {
			_ = server.Close()
			return nil, fmt.Errorf("connecting to %s: %w", address, ErrClosed)
		}
		return theirs, nil
	}
}
