// This file holds the dialer: the wire in front of a client of this process, for
// clusters that no proxy can be put in front of.

package wire

import (
	"context"
	"net"
)

// Dialer gives a dial function for a client: what next connects to is led through
// the network, as broker(address).
func (n *Network) Dialer(next func(ctx context.Context, network, address string) (net.Conn, error),
	broker func(address string) int32) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		server, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		n.working.Go(func() {
			n.serve(ours, broker(address), func(context.Context) (net.Conn, error) { return server, nil })
		})
		return theirs, nil
	}
}
