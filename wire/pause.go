// This file holds brokers that stop reading what clients send.

package wire

import "sync/atomic"

// Pause is that connections are not read from. Its methods may be called concurrently.
type Pause struct {
	network *Network
	filter  func(End) bool
	over    chan struct{}
	stopped atomic.Int64
}

// Pause stops reading what clients send on the connections for which the filter is true,
// those that are made later among them, until Resume is called: a client can write until
// the buffers of the sockets are full, and waits then. A request of which something was read
// already is read to its end, and answers pass. The client's id is not known before the
// first request was read. A filter must be quick; it may be called concurrently.
func (n *Network) Pause(filter func(End) bool) *Pause {
	p := &Pause{network: n, filter: filter, over: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pauses = append(n.pauses, p)
	return p
}

// Resume reads again. It may be called once more, and does nothing then.
func (p *Pause) Resume() {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	for i, other := range p.network.pauses {
		if other == p {
			p.network.pauses = append(p.network.pauses[:i:i], p.network.pauses[i+1:]...)
			close(p.over)
			return
		}
	}
}

// Stopped is how often a connection had something to say that was not read, so far.
func (p *Pause) Stopped() int64 { return p.stopped.Load() }

// pauseOf gives a pause that the connection has to keep; nil: none.
func (n *Network) pauseOf(c *connection) *Pause {
	n.mu.Lock()
	pauses := n.pauses
	n.mu.Unlock()
	for _, p := range pauses {
		if p.filter(End{c.broker, c.number, c.clientName()}) {
			return p
		}
	}
	return nil
}

// mayRead waits until the connection may be read from. False: it ended meanwhile.
func (c *connection) mayRead() bool {
	for {
		p := c.network.pauseOf(c)
		if p == nil {
			return true
		}
		p.stopped.Add(1)
		select {
		case <-p.over:
		case <-c.ctx.Done():
			return false
		}
	}
}
