// This file holds a connection and its way there: requests from the client to the
// broker.

package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// connection is one client's connection and the broker's behind it.
type connection struct {
	network *Network
	proxy   *Proxy // nil behind a dialer
	broker  int32
	number  int64
	client  net.Conn
	name    atomic.Pointer[string]

	ctx    context.Context
	cancel context.CancelFunc
	// silent: nothing passes any more, but the connection stays open.
	silent atomic.Bool
	// opaque: what passes are no frames any more.
	opaque atomic.Bool

	// gone: the client ended the connection while nobody read from it.
	gone atomic.Bool

	// reader reads from the client, and held waits to be overtaken until heldUntil;
	// all are of the requests' goroutine alone.
	reader    *bufio.Reader
	held      *flight
	heldUntil time.Time

	mu     sync.Mutex
	server net.Conn // nil until the broker is connected to
	lost   string   // what is said of requests without an answer, once it ended
	// sent are the requests that the broker has to answer, in its order.
	sent []*flight
	// asked are the requests that the client waits for, in its order.
	asked []*flight
	// delivering: a goroutine is busy with the first of asked; turn is told when it
	// is not any more.
	delivering bool
	turn       sync.Cond
	// late are the goroutines that wait until an answer may be passed on. Only the
	// answers' goroutine adds to them.
	late sync.WaitGroup
}

// flight is a request on its way, and its answer on its way back.
type flight struct {
	exchange *Exchange
	decision Decision
	// frame is the request as it came, in a buffer of the pool.
	frame []byte
	// own is an answer of our own, with what it says about each batch.
	own     []byte
	answers []batchAnswer
	// kept is an answer of the broker that came before its turn, or before it is due;
	// both are guarded by the connection's mu until they are the deliverer's.
	kept []byte
	due  time.Time
	// twin: the client did not send this request and gets no answer to it.
	twin bool

	// The rest is guarded by the connection's mu.
	queued  bool // among asked
	reached bool
	writing bool // the frame is being written to the broker
	told    bool
}

// mayBeSilent says whether the broker may have no answer to the request: a Produce
// request that could not be decoded may be one with acks=0.
func (f *flight) mayBeSilent() bool {
	return f.exchange.Key == int16(kmsg.Produce) && f.exchange.Produce == nil && !f.twin
}

// unanswered says whether the request is one that the broker does not answer.
func (f *flight) unanswered() bool { return f.exchange.Produce != nil && f.exchange.Produce.Acks == 0 }

// connect gives a connection of a client, for the time being without a broker.
func (n *Network) connect(client net.Conn, broker int32) *connection {
	c := &connection{network: n, broker: broker, number: n.connections.Add(1), client: client}
	c.ctx, c.cancel = context.WithCancel(n.ctx)
	c.turn.L = &c.mu
	return c
}

// register makes the connection one that the network can cut.
func (c *connection) register() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.network.live[c] = struct{}{}
	if c.network.closed {
		c.cut()
	}
}

func (c *connection) unregister() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.live, c)
	c.cancel()
}

// serve leads frames both ways until the connection ends.
func (c *connection) serve(server net.Conn) {
	c.mu.Lock()
	c.server = server
	c.mu.Unlock()
	if c.ctx.Err() != nil { // cut while the broker was connected to
		c.hangUp()
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		c.answerAll(bufio.NewReaderSize(server, readSize))
		c.late.Wait() // what came is passed on, though its broker is gone
		if !c.silent.Load() {
			c.hangUp()
		}
	})
	c.reader = bufio.NewReaderSize(c.client, readSize)
	c.requestAll()
	c.hangUp()
	answers.Wait()
	c.abandon()
}

// hangUp ends the connection in good order.
func (c *connection) hangUp() {
	c.end()
	_ = c.client.Close()
}

// cut ends the connection at once, from anywhere.
func (c *connection) cut() {
	c.end()
	reset(c.client)
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == "" {
		c.lost = LostConnection
		if c.silent.Load() || c.network.ctx.Err() != nil {
			c.lost = LostSilence
		}
	}
	c.cancel()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// goSilent lets nothing pass any more. A request that is just being written is
// given up, or a broker that does not read would keep the client's end unseen.
func (c *connection) goSilent() {
	c.silent.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.server.SetWriteDeadline(time.Now())
}

// reset closes a connection so that the other side sees a reset, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (c *connection) clientName() string {
	if name := c.name.Load(); name != nil {
		return *name
	}
	return ""
}

// requestAll passes requests from the client to the broker until either ends.
func (c *connection) requestAll() {
	for c.requestNext() {
		if c.opaque.Load() {
			_, _ = io.Copy(c.server, c.reader)
			return
		}
	}
	c.letGo(false)
}

// requestNext waits for a request and passes it on; false ends the connection.
func (c *connection) requestNext() bool {
	if _, err := c.reader.Peek(1); err != nil {
		var timeout net.Error
		if c.held != nil && errors.As(err, &timeout) && timeout.Timeout() {
			return c.letGo(false)
		}
		return false
	}
	if c.opaque.Load() {
		return true
	}
	if !c.mayRead() {
		return false
	}
	if c.held != nil {
		_ = c.client.SetReadDeadline(time.Time{}) // the frame may take its time
	}
	frame, err := c.network.frames.read(c.reader)
	if err != nil {
		c.refuseGarbage(err)
		return false
	}
	x, err := c.exchange(frame[4:])
	if err != nil {
		c.refuseGarbage(err)
		return false
	}
	f := &flight{exchange: x, frame: frame}
	if !c.silent.Load() {
		f.decision = c.network.decide(x)
	}
	going := c.request(f)
	if going && c.held != nil {
		if !time.Now().Before(c.heldUntil) {
			return c.letGo(false)
		}
		_ = c.client.SetReadDeadline(c.heldUntil)
	}
	return going
}

// refuseGarbage counts a connection that ends because of what came on it.
func (c *connection) refuseGarbage(err error) {
	if errors.Is(err, errNotKafka) {
		c.network.counts.notKafka.Add(1)
	}
}

// exchange reads a request's header, and decodes a Produce request.
func (c *connection) exchange(body []byte) (*Exchange, error) {
	x := &Exchange{Broker: c.broker, Connection: c.number, Received: time.Now(), body: body}
	last := c.name.Load()
	if err := x.readHeader(c.clientName()); err != nil {
		return nil, err
	}
	if last == nil || *last != x.ClientID {
		c.name.Store(&x.ClientID)
	}
	if x.Key != int16(kmsg.Produce) {
		return x, nil
	}
	if x.Produce = c.network.decodeProduce(x); x.Produce == nil {
		c.network.counts.undecoded.Add(1)
		return x, nil
	}
	c.network.unsettled.Add(1)
	return x, nil
}

// request does with one request what was decided; false ends the connection.
func (c *connection) request(f *flight) bool {
	d := f.decision
	switch {
	case c.silent.Load():
		c.tell(f, nil, nil, LostSilence)
		return true
	case d.kind == cutBefore:
		c.tell(f, nil, nil, LostConnection)
		c.cut()
		return false
	case d.kind == refuse && !d.after && f.concerned() == len(f.exchange.Produce.Batches):
		return c.refuseWhole(f)
	case d.kind == acknowledgeUnwritten:
		return c.acknowledge(f)
	case d.kind == swapBatches && c.held == nil:
		return c.hold(f)
	case d.kind == holdBack && d.side == SideRequest && !c.holdRequest(d.by):
		c.tell(f, nil, nil, c.whyLost())
		return false
	}
	return c.pass(f)
}

// pass has the broker serve a request, as it is or as a lie has it; false ends the
// connection.
func (c *connection) pass(f *flight) bool {
	var twin []byte
	if f.decision.kind == writeTwice {
		twin = rewritten(f.exchange, func(_ int, raw []byte) ([]byte, bool) { return anonymous(raw), true })
	}
	if !c.forward(f, c.outgoing(f)) {
		if f.unanswered() {
			c.tell(f, nil, nil, c.whyLost())
		}
		return false
	}
	if twin != nil && !c.forwardTwin(f, twin) {
		return false
	}
	if f.unanswered() && !c.after(f) {
		return false
	}
	return c.letGoBehind(f)
}

// after does with a request that has no answer what was decided, now that the broker
// has been sent it.
func (c *connection) after(f *flight) bool {
	c.tell(f, nil, nil, LostAcksZero)
	switch f.decision.kind {
	case loseResponse:
		if f.decision.stall {
			c.goSilent()
		}
		return f.decision.stall
	case refuse: // Kafka closes the connection where it would have answered an error
		return f.concerned() == 0
	default:
		return true
	}
}

// wait waits, unless the connection ends.
func (c *connection) wait(by time.Duration) bool {
	timer := time.NewTimer(by)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// holdRequest waits; then it looks whether the client gave up meanwhile, which nobody
// would notice before the broker has answered. False if the connection ended.
func (c *connection) holdRequest(by time.Duration) bool {
	if !c.wait(by) {
		return false
	}
	_ = c.client.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = c.client.SetReadDeadline(time.Time{}) }()
	var err error
	for err == nil { // until there is nothing more to see, or no room to see it
		_, err = c.reader.Peek(c.reader.Buffered() + 1)
	}
	var timeout net.Error
	if !errors.Is(err, bufio.ErrBufferFull) && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		c.gone.Store(true)
	}
	return true
}

func (c *connection) whyLost() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lost != "":
		return c.lost
	case c.silent.Load() || c.network.ctx.Err() != nil:
		return LostSilence
	default:
		return LostConnection
	}
}

// forward sends a frame for the request to the broker; false ends the connection.
func (c *connection) forward(f *flight, frame []byte) bool {
	c.mu.Lock()
	f.reached, f.writing = true, true // before the broker can have answered
	if !f.unanswered() {
		c.sent = append(c.sent, f)
		c.ask(f)
	}
	c.mu.Unlock()
	_, err := c.server.Write(frame)
	c.mu.Lock()
	f.reached, f.writing = err == nil, false
	free := f.told || f.exchange.Produce == nil
	c.mu.Unlock()
	if free {
		c.free(f)
	}
	// In silence what the client says is still read.
	return err == nil || c.silent.Load()
}

// ask puts a request among those that the client waits for. The caller holds mu.
func (c *connection) ask(f *flight) {
	if !f.twin && !f.queued {
		f.queued = true
		c.asked = append(c.asked, f)
	}
}

// free gives the request's buffer back, which was told of and is not being written.
func (c *connection) free(f *flight) {
	frame := f.frame
	f.frame, f.exchange.body = nil, nil
	if p := f.exchange.Produce; p != nil {
		for i := range p.Batches {
			p.Batches[i].raw = nil
		}
		p.request = nil
	}
	c.network.frames.put(frame)
}

// outgoing gives the frame to send for a request: its own, unless its content is not
// to reach the broker as it came.
func (c *connection) outgoing(f *flight) []byte {
	x := f.exchange
	if x.Produce == nil {
		return f.frame
	}
	corrupted, at := corruption(f)
	forged := c.network.forged.of(x)
	partly := f.decision.kind == refuse && !f.decision.after
	if corrupted == nil && forged == nil && !partly {
		return f.frame
	}
	return rewritten(x, func(i int, raw []byte) ([]byte, bool) {
		if corrupted != nil && i == at {
			raw = corrupted
		}
		if forged != nil && forged[i] {
			raw = anonymous(raw)
		}
		return raw, !partly || !f.decision.concerns(&x.Produce.Batches[i])
	})
}

// concerned counts the batches that the decision acts on.
func (f *flight) concerned() (count int) {
	for i := range f.exchange.Produce.Batches {
		if f.decision.concerns(&f.exchange.Produce.Batches[i]) {
			count++
		}
	}
	return count
}

// refuseWhole refuses a request that the broker does not have.
func (c *connection) refuseWhole(f *flight) bool {
	if f.unanswered() {
		c.tell(f, nil, nil, LostAcksZero)
		return false
	}
	f.own, f.answers = refusal(f.exchange, f.decision.code)
	return c.answerOurselves(f)
}

// answerOurselves answers without the broker, in turn; false ends the connection.
func (c *connection) answerOurselves(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ask(f)
	// Whoever is delivering looks for more when it is done.
	for !c.delivering && len(c.asked) > 0 && c.asked[0].own != nil {
		if !c.settleFirst(nil) {
			return false
		}
	}
	return true
}
