// This file holds the connections of a client in this process, so that it can lose all of
// them at once, as a process that is killed does.

package clients

import (
	"context"
	"net"
	"sync"
)

// openConnections are those that a client has now. They may be used concurrently; the zero
// value has none.
type openConnections struct {
	mu    sync.Mutex
	gone  bool
	conns map[*openConnection]bool
}

// openConnection takes itself from the open ones when it is closed.
type openConnection struct {
	net.Conn
	of *openConnections
}

// Close closes the connection.
func (c *openConnection) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// dial is a function that makes connections.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer gives a function that makes connections by next (nil: TCP), until they are cut.
func (o *openConnections) dialer(next dial) dial {
	if next == nil {
		next = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &openConnection{Conn: conn, of: o}
		o.mu.Lock()
		gone := o.gone
		if !gone {
			if o.conns == nil {
				o.conns = make(map[*openConnection]bool)
			}
			o.conns[c] = true
		}
		o.mu.Unlock()
		if gone {
			_ = conn.Close() // nobody is left to hear of it
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// cut closes all connections and lets no new ones be made.
func (o *openConnections) cut() {
	o.mu.Lock()
	o.gone = true
	conns := o.conns
	o.conns = nil
	o.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close() // it is gone either way
	}
}
