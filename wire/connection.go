// This file holds the life of a connection: requests one way, answers the other
// way, in the order of the requests.

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrame bounds a frame: brokers accept 100 MiB (socket.request.max.bytes), and a
// fetch answer may be somewhat larger. What claims more is not Kafka.
const maxFrame = 256 << 20

// connection is one client's connection and the broker's behind it.
type connection struct {
	network        *Network
	broker         int32
	number         int64
	client, server net.Conn
	name           atomic.Value

	ctx    context.Context
	cancel context.CancelFunc
	silent atomic.Bool // nothing passes any more, but it stays open

	// sending is held by whoever writes to the broker.
	sending sync.Mutex
	held    *heldRequest

	mu      sync.Mutex
	pending []*flight
}

// flight is a request that the client waits for an answer to.
type flight struct {
	exchange *Exchange
	decision Decision
	reached  bool
	// ready is an answer that waits for its turn, complete with its length: one of our
	// own, or one that the broker gave out of turn.
	ready  []byte
	answer map[int]Answer // of ready, by batch
	// swallow: the client did not send this request and gets no answer to it.
	swallow bool
}

func (n *Network) serve(client net.Conn, broker int32, dial Dial) {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	server, err := dial(ctx)
	if err != nil {
		reset(client)
		return
	}
	c := &connection{network: n, broker: broker, number: n.connections.Add(1), client: client, server: server,
		ctx: ctx, cancel: cancel}
	n.mu.Lock()
	n.live[c] = struct{}{}
	n.mu.Unlock()
	if n.ctx.Err() != nil {
		c.cut()
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		c.answers()
		c.hangUp()
	})
	c.requests()
	c.hangUp()
	answers.Wait()
	n.mu.Lock()
	delete(n.live, c)
	n.mu.Unlock()
	c.abandon()
}

// hangUp ends the connection in good order, unless it is to be silent: then it
// waits until the client gives up or the network closes.
func (c *connection) hangUp() {
	if c.silent.Load() && c.ctx.Err() == nil {
		_, _ = io.Copy(io.Discard, c.client)
	}
	c.cancel()
	_ = c.client.Close()
	_ = c.server.Close()
}

// cut ends the connection at once, from anywhere.
func (c *connection) cut() {
	c.cancel()
	reset(c.client)
	_ = c.server.Close()
}

// reset closes a connection so that the other side sees a reset, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (c *connection) clientName() string {
	name, _ := c.name.Load().(string)
	return name
}

// readFrame reads a frame with its length in front into a buffer of its own.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes: this is not Kafka's protocol", size)
	}
	frame := make([]byte, 4+size)
	copy(frame, length[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// requests passes frames from the client to the broker until either ends.
func (c *connection) requests() {
	for {
		frame, err := readFrame(c.client)
		if err != nil {
			return
		}
		x, ok := c.exchange(frame[4:])
		if !ok {
			return
		}
		if !c.request(frame, x) {
			return
		}
	}
}

var errHeader = errors.New("a frame without a request header")

// exchange reads a request's header, and a Produce request whole.
func (c *connection) exchange(body []byte) (*Exchange, bool) {
	x := &Exchange{Broker: c.broker, Connection: c.number, Received: time.Now(), body: body}
	var err error
	if x.head, err = x.readHeader(); err != nil {
		return nil, false
	}
	c.name.Store(x.ClientID)
	if x.Key == int16(kmsg.Produce) {
		x.Produce = c.network.decodeProduce(x, x.head)
	}
	if x.Produce != nil {
		c.network.unsettled.Add(1)
	}
	return x, true
}

// readHeader reads the request header and gives where the body begins. The
// client's id is a plain nullable string in every header version (KIP-482).
func (x *Exchange) readHeader() (offset int, err error) {
	b := x.body
	if len(b) < 10 {
		return 0, errHeader
	}
	x.Key, x.Version = int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	x.Correlation = int32(binary.BigEndian.Uint32(b[4:]))
	offset = 10
	if length := int(int16(binary.BigEndian.Uint16(b[8:]))); length > 0 {
		if len(b) < offset+length {
			return 0, errHeader
		}
		x.ClientID = string(b[offset : offset+length])
		offset += length
	}
	if request := kmsg.RequestForKey(x.Key); request != nil {
		request.SetVersion(x.Version)
		if request.IsFlexible() {
			return skipTags(b, offset)
		}
	}
	return offset, nil
}

// skipTags skips a section of tagged fields.
func skipTags(b []byte, offset int) (int, error) {
	count, n := binary.Uvarint(b[min(offset, len(b)):])
	if n <= 0 {
		return 0, errHeader
	}
	offset += n
	for range count {
		if _, n = binary.Uvarint(b[min(offset, len(b)):]); n <= 0 {
			return 0, errHeader
		}
		offset += n
		size, n := binary.Uvarint(b[min(offset, len(b)):])
		if n <= 0 || size > uint64(len(b)) || offset+n+int(size) > len(b) {
			return 0, errHeader
		}
		offset += n + int(size)
	}
	return offset, nil
}

// request does with one request what was decided; false ends the connection.
func (c *connection) request(frame []byte, x *Exchange) bool {
	d := c.network.decide(x)
	f := &flight{exchange: x, decision: d}
	switch {
	case d.kind == cutBefore:
		c.fate(f, nil, nil, LostConnection)
		c.cut()
		return false
	case d.kind == refuse && x.Produce != nil && !d.after:
		f.ready, f.answer = refusal(f.exchange, f.decision.code)
		return c.answerOurselves(f)
	case d.kind >= acknowledgeUnwritten && x.Produce != nil && x.Produce.Acks != 0:
		return c.lie(frame, f)
	case d.kind == holdBack && d.side == SideRequest && !c.wait(d.by):
		c.fate(f, nil, nil, LostConnection)
		return false
	}
	return c.forward(frame, f)
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

// forward hands the request to the broker, before one that is held for its place.
func (c *connection) forward(frame []byte, f *flight) bool {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.held != nil && f.exchange.Produce != nil && !f.swallow {
		// With its producer id it would be refused as out of sequence.
		frame = anonymous(frame, f.exchange)
	}
	return c.send(frame, f) && c.release(f)
}

// send writes the request to the broker's connection.
func (c *connection) send(frame []byte, f *flight) bool {
	silent := f.exchange.Produce != nil && f.exchange.Produce.Acks == 0
	f.reached = true
	if !silent {
		c.push(f)
	}
	if _, err := c.server.Write(frame); err != nil {
		f.reached = false
		if silent {
			c.fate(f, nil, nil, LostConnection)
		}
		return false
	}
	if silent {
		c.fate(f, nil, nil, LostAcksZero)
		// Kafka closes the connection where it would have answered with an error.
		return f.decision.kind != refuse && f.decision.kind != loseResponse
	}
	return true
}

// answerOurselves answers without the broker, in turn.
func (c *connection) answerOurselves(f *flight) bool {
	if f.exchange.Produce.Acks == 0 {
		c.fate(f, nil, nil, LostAcksZero)
		return false
	}
	c.push(f)
	return c.flush() == nil
}

func (c *connection) push(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, f)
}

// flush gives the client the answers of our own whose turn it is.
func (c *connection) flush() error {
	for {
		c.mu.Lock()
		if len(c.pending) == 0 || c.pending[0].ready == nil || c.silent.Load() {
			c.mu.Unlock()
			return nil
		}
		f := c.pending[0]
		c.pending = c.pending[1:]
		_, err := c.client.Write(f.ready)
		c.mu.Unlock()
		if err != nil {
			c.fate(f, nil, nil, LostConnection)
			return err
		}
		c.fate(f, f.answer, nil, "")
	}
}

// pop gives the request that a broker's answer belongs to. One whose turn it is not
// stays pending.
func (c *connection) pop(correlation int32) (f *flight, inTurn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.pending {
		if f.exchange.Correlation != correlation || f.ready != nil {
			continue
		}
		if i == 0 || f.swallow {
			c.pending = append(c.pending[:i:i], c.pending[i+1:]...)
			return f, true
		}
		return f, false
	}
	return nil, false
}
