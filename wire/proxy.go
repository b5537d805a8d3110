// This file holds the proxy: the wire in front of a broker, for any client that
// connects to the address that the broker advertises.

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Dial is how a connection to a broker is made. It must give up when the context
// ends.
type Dial func(ctx context.Context) (net.Conn, error)

// Proxy stands in front of one broker. Its methods may be called concurrently.
type Proxy struct {
	network  *Network
	broker   int32
	listener net.Listener
	// working counts the goroutines of this proxy; the network counts them too.
	working sync.WaitGroup

	mu       sync.Mutex
	dial     Dial
	refusing bool
}

// Proxy listens on an address ("127.0.0.1:0" for a free port) and leads what connects
// to it to the broker, until the proxy or the network is closed; the context is for
// the listening alone.
func (n *Network) Proxy(ctx context.Context, broker int32, listen string, dial Dial) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s for broker %d: %w", listen, broker, err)
	}
	p := &Proxy{network: n, broker: broker, listener: listener, dial: dial}
	p.working.Add(1)
	stop := context.AfterFunc(n.ctx, func() { _ = listener.Close() })
	started := n.start(func() {
		defer p.working.Done()
		defer stop()
		p.accept()
	})
	if !started {
		_ = listener.Close()
		return nil, fmt.Errorf("listening on %s for broker %d: %w", listen, broker, ErrClosed)
	}
	return p, nil
}

// Address is where clients connect to.
func (p *Proxy) Address() net.Addr { return p.listener.Addr() }

// Retarget leads new connections elsewhere: the broker came back at another place.
// Live connections stay.
func (p *Proxy) Retarget(dial Dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = dial
}

// Refuse cuts the connections and refuses new ones until it is taken back: the
// broker is gone. A new connection is reset as soon as it is made; the address stays
// taken, so that the broker can come back to it.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refusing = refuse
	p.mu.Unlock()
	if refuse {
		p.network.cut(func(c *connection) bool { return c.proxy == p })
	}
}

// Close ends the listener and the proxy's connections, and returns when their
// goroutines have ended. Its address is free then.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Refuse(true)
	p.working.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the proxy of broker %d: %w", p.broker, err)
	}
	return nil
}

func (p *Proxy) target() (dial Dial, refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dial, p.refusing
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || p.network.ctx.Err() != nil {
				return
			}
			// Out of descriptors, say: try again a moment later.
			select {
			case <-p.network.ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
			continue
		}
		p.working.Add(1)
		started := p.network.start(func() {
			defer p.working.Done()
			p.serve(client)
		})
		if !started {
			p.working.Done()
			reset(client)
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	c := p.network.connect(client, p.broker)
	c.proxy = p
	c.register()
	defer c.unregister()
	// Asked after the connection is known to the network: whoever refuses from now
	// on cuts it.
	dial, refusing := p.target()
	if refusing {
		c.cut()
		return
	}
	server, err := dial(c.ctx)
	if err != nil {
		p.network.counts.unreachable.Add(1)
		c.cut()
		return
	}
	c.serve(server)
}
