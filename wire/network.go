// Package wire is Kafka frames between a client and a broker: decoded, observed
// and intercepted, as a proxy in front of a broker and as a dialer of a client in
// this process. Both lead through the same code.
//
// A frame that nobody asks anything of passes byte for byte, whatever API and
// version it is of. Produce requests are decoded, and the answers to them;
// Metadata answers are, for the topic ids that newer Produce versions use.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Network is all the connections between the clients and brokers of a cluster. Its
// methods may be called concurrently.
type Network struct {
	observer    atomic.Pointer[func(*Attempt)]
	ctx         context.Context
	cancel      context.CancelFunc
	working     sync.WaitGroup
	connections atomic.Int64
	topics      topicNames
	ends        logEnds
	unsettled   atomic.Int64 // Produce requests whose fate was not told yet

	mu           sync.Mutex
	interceptors []*registered
	live         map[*connection]struct{}
}

type registered struct{ Interceptor }

// NewNetwork gives a network without connections.
func NewNetwork() *Network {
	ctx, cancel := context.WithCancel(context.Background())
	return &Network{ctx: ctx, cancel: cancel, live: make(map[*connection]struct{})}
}

// Observe calls the observer once for every batch of every Produce request from now
// on, when its fate is known, from the connection's goroutine: it must be quick, may
// be called concurrently, and must not keep the attempt. It replaces the one before.
func (n *Network) Observe(observer func(*Attempt)) { n.observer.Store(&observer) }

// Settled waits until the observer has been told of every Produce request that was
// read from a client so far; the context's error where that takes too long. A client
// may know its answer a moment before the observer does.
func (n *Network) Settled(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for n.unsettled.Load() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the fate of %d Produce requests: %w", n.unsettled.Load(), ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// Interceptor decides what becomes of requests.
type Interceptor interface {
	// Decide is called when a whole request has been read from a client, before
	// the broker has it. It must be quick; it may be called concurrently.
	Decide(*Exchange) Decision
}

// InterceptorFunc is a function that is an Interceptor.
type InterceptorFunc func(*Exchange) Decision

// Decide calls the function.
func (f InterceptorFunc) Decide(x *Exchange) Decision { return f(x) }

// Intercept asks the interceptor about every request from now on, after those that
// were added before it; the first one that does not let a request pass decides.
func (n *Network) Intercept(i Interceptor) (remove func()) {
	r := &registered{i}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.interceptors = append(n.interceptors[:len(n.interceptors):len(n.interceptors)], r)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		var rest []*registered
		for _, other := range n.interceptors {
			if other != r {
				rest = append(rest, other)
			}
		}
		n.interceptors = rest
	}
}

func (n *Network) decide(x *Exchange) Decision {
	n.mu.Lock()
	interceptors := n.interceptors
	n.mu.Unlock()
	for _, i := range interceptors {
		if d := i.Decide(x); d.kind != pass {
			return d
		}
	}
	return Decision{}
}

// Close ends every connection and returns when all goroutines have ended.
func (n *Network) Close() error {
	n.cancel()
	n.Reset(func(End) bool { return true })
	n.working.Wait()
	return nil
}

// End names a connection: the broker that it leads to, its number, as in Exchange and
// Attempt, and the client's id, empty before its first request.
type End struct {
	Broker     int32
	Connection int64
	ClientID   string
}

// Reset cuts the live connections for which the filter is true.
func (n *Network) Reset(filter func(End) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if filter(End{c.broker, c.number, c.clientName()}) {
			c.cut()
		}
	}
}

// Dial is how a connection to a broker is made.
type Dial func(ctx context.Context) (net.Conn, error)

// Proxy stands in front of one broker.
type Proxy struct {
	network  *Network
	broker   int32
	listener net.Listener
	mu       sync.Mutex
	dial     Dial
	refusing bool
}

// Proxy listens on an address and leads what connects to it to the broker.
func (n *Network) Proxy(ctx context.Context, broker int32, listen string, dial Dial) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s for broker %d: %w", listen, broker, err)
	}
	p := &Proxy{network: n, broker: broker, listener: listener, dial: dial}
	n.working.Go(p.accept)
	context.AfterFunc(n.ctx, func() { _ = listener.Close() })
	return p, nil
}

// Address is where clients connect to.
func (p *Proxy) Address() net.Addr { return p.listener.Addr() }

// Retarget leads new connections elsewhere: the broker came back at another place.
func (p *Proxy) Retarget(dial Dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = dial
}

// Refuse cuts the connections and refuses new ones until it is taken back: the
// broker is gone.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refusing = refuse
	p.mu.Unlock()
	if refuse {
		p.network.Reset(func(e End) bool { return e.Broker == p.broker })
	}
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
		p.mu.Lock()
		dial, refusing := p.dial, p.refusing
		p.mu.Unlock()
		if refusing {
			reset(client)
			continue
		}
		p.network.working.Go(func() { p.network.serve(client, p.broker, dial) })
	}
}
