// This file holds the network: all connections of a cluster, who observes them and
// who decides about them.

package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is given where something is asked of a network that was closed.
var ErrClosed = errors.New("the network is closed")

// Network is all the connections between the clients and brokers of a cluster. Its
// methods may be called concurrently.
type Network struct {
	observer    atomic.Pointer[func(*Attempt)]
	ctx         context.Context
	cancel      context.CancelFunc
	working     sync.WaitGroup
	connections atomic.Int64
	frames      framePool
	topics      topicNames
	ends        logEnds
	forged      forgedSequences
	unsettled   atomic.Int64 // Produce requests whose fate was not told yet
	counts      counters

	mu           sync.Mutex
	closed       bool
	interceptors []*registered
	pauses       []*Pause
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
// be called concurrently, and must not keep the attempt (a copy of the struct may be
// kept, but then names no records any more). It replaces the one before.
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

// Counts is what the wire could not do as asked, since the network was made.
type Counts struct {
	// Undecoded are Produce requests that passed undecoded, so that they were not
	// observed, and answers to Produce or Metadata requests that could not be read.
	Undecoded int64
	// NotKafka are connections that were ended because what came on them is not
	// Kafka's protocol.
	NotKafka int64
	// Unreachable are connections that were ended because the broker could not be
	// connected to.
	Unreachable int64
	// Unfit are requests that passed because the decision about them does not fit
	// them (Decision.Fits).
	Unfit int64
}

type counters struct{ undecoded, notKafka, unreachable, unfit atomic.Int64 }

// Counts gives what could not be done as asked.
func (n *Network) Counts() Counts {
	return Counts{Undecoded: n.counts.undecoded.Load(), NotKafka: n.counts.notKafka.Load(),
		Unreachable: n.counts.unreachable.Load(), Unfit: n.counts.unfit.Load()}
}

// Interceptor decides what becomes of requests.
type Interceptor interface {
	// Decide is called when a whole request has been read from a client, before
	// the broker has it. It must be quick; it may be called concurrently. It must
	// not keep the exchange. A decision without a name holds only where no other
	// interceptor has one with a name.
	Decide(*Exchange) Decision
}

// RequestListener is an Interceptor that is also shown the requests that another one
// decided about.
type RequestListener interface {
	Interceptor
	// Asked is called with every request once it is decided about, by whomever. It must
	// be quick; it may be called concurrently. It must not keep the exchange.
	Asked(*Exchange)
}

// AnswerListener is an Interceptor that is also told what clients are answered.
type AnswerListener interface {
	Interceptor
	// Answered is called when a client is about to be given an answer to a Produce
	// request, so that whoever has the answer finds it known here: with the answer about
	// each batch, nil where there is none. It must be quick; it may be called
	// concurrently. It must not keep the exchange.
	Answered(x *Exchange, answers []*Answer)
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
	n.interceptors = append(slices.Clone(n.interceptors), r)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.interceptors = slices.DeleteFunc(slices.Clone(n.interceptors), func(other *registered) bool { return other == r })
	}
}

func (n *Network) decide(x *Exchange) Decision {
	n.mu.Lock()
	interceptors := n.interceptors
	n.mu.Unlock()
	d := n.firstOf(interceptors, x)
	for _, i := range interceptors {
		if listener, listens := i.Interceptor.(RequestListener); listens {
			listener.Asked(x)
		}
	}
	return d
}

// firstOf gives the decision that holds.
func (n *Network) firstOf(interceptors []*registered, x *Exchange) Decision {
	meanwhile := Decision{}
	for _, i := range interceptors {
		d := i.Decide(x)
		switch {
		case d.kind == pass && d.name == "":
			continue
		case d.name == "": // what nobody wants to be named for leaves the word to those who do
			if meanwhile.kind == pass {
				meanwhile = d
			}
			continue
		case d.Fits(x) != nil:
			n.counts.unfit.Add(1)
			return Decision{}
		}
		return d
	}
	return meanwhile
}

// answered tells the listeners what a client is about to be given.
func (n *Network) answered(x *Exchange, answers []batchAnswer) {
	n.mu.Lock()
	interceptors := n.interceptors
	n.mu.Unlock()
	for _, i := range interceptors {
		listener, listens := i.Interceptor.(AnswerListener)
		if !listens {
			continue
		}
		said := make([]*Answer, len(x.Produce.Batches))
		for batch := range said {
			said[batch] = at(answers, batch)
		}
		listener.Answered(x, said)
	}
}

// Close ends every proxy and connection and returns when all goroutines have ended.
// Requests that have no answer by then are told to the observer before it returns.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.cut(func(*connection) bool { return true })
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
	n.cut(func(c *connection) bool { return filter(End{c.broker, c.number, c.clientName()}) })
}

func (n *Network) cut(filter func(*connection) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if filter(c) {
			c.cut()
		}
	}
}

// start runs f in a goroutine that Close waits for; false if it is too late.
func (n *Network) start(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.working.Go(f)
	return true
}
