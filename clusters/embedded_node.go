// This file holds one broker of the embedded cluster: its proxy, and the listener
// that it hands to kfake, which tells kfake the proxy's address as its own.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/ackproof/ackproof/wire"
)

// embeddedNode is one broker: a proxy that stays, and a listener of kfake behind it
// that comes and goes with the broker's membership.
type embeddedNode struct {
	id    int32
	proxy *wire.Proxy
	// away is guarded by Embedded.membership.
	away bool
	// returning: kfake is about to ask for this node's listener.
	returning atomic.Bool

	mu          sync.Mutex
	connections map[*embeddedConn]struct{}
}

func newEmbeddedNode(ctx context.Context, network *wire.Network, id int32) (*embeddedNode, error) {
	proxy, err := network.Proxy(ctx, id, "127.0.0.1:0", dialNowhere)
	if err != nil {
		return nil, fmt.Errorf("making the proxy of broker %d: %w", id, err)
	}
	return &embeddedNode{id: id, proxy: proxy, connections: make(map[*embeddedConn]struct{})}, nil
}

// listen opens a listener for kfake and leads the proxy to it.
func (n *embeddedNode) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	inner, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the listener of broker %d: %w", n.id, err)
	}
	address := inner.Addr().String()
	n.proxy.Retarget(func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", address)
	})
	return &embeddedListener{Listener: inner, advertised: n.proxy.Address(), node: n}, nil
}

// dialNowhere is where a proxy leads before its broker has a listener.
func dialNowhere(context.Context) (net.Conn, error) {
	return nil, errors.New("the broker has not started")
}

// reset closes the connections that kfake has accepted. kfake itself keeps them
// open when a broker is removed, and when it is closed for a moment.
func (n *embeddedNode) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		_ = c.Conn.Close() // closing is all that is wanted of it
	}
	clear(n.connections)
}

// embeddedListener is what kfake listens on: it says that its address is the
// proxy's, so that this is what kfake advertises.
type embeddedListener struct {
	net.Listener
	advertised net.Addr
	node       *embeddedNode
}

func (l *embeddedListener) Addr() net.Addr { return l.advertised }

func (l *embeddedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &embeddedConn{Conn: inner, node: l.node}
	l.node.mu.Lock()
	l.node.connections[c] = struct{}{}
	l.node.mu.Unlock()
	return c, nil
}

// embeddedConn is a connection that kfake has accepted.
type embeddedConn struct {
	net.Conn
	node *embeddedNode
}

func (c *embeddedConn) Close() error {
	c.node.mu.Lock()
	delete(c.node.connections, c)
	c.node.mu.Unlock()
	return c.Conn.Close()
}
