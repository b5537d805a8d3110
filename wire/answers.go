// This file holds a connection's way back: answers from the broker to the client, and
// how each attempt's fate is told.

package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerAll passes answers from the broker to the client until either ends, or the
// connection goes silent.
func (c *connection) answerAll(r *bufio.Reader) {
	for {
		if c.opaque.Load() {
			_, _ = io.Copy(c.client, r)
			return
		}
		head, err := r.Peek(8)
		if err != nil || c.silent.Load() {
			return
		}
		if binary.BigEndian.Uint32(head) < 4 {
			c.network.counts.notKafka.Add(1)
			return
		}
		f := c.match(int32(binary.BigEndian.Uint32(head[4:])))
		switch {
		case f == nil: // an answer to nothing that was asked
			c.network.counts.notKafka.Add(1)
			return
		case f.twin:
			if !c.swallow(f, r) {
				return
			}
		case !c.deliver(f, r):
			return
		}
	}
}

// match gives the request that the broker's next answer belongs to: the first that
// it was sent, as Kafka answers in order. Those that it has silently served fall out.
func (c *connection) match(correlation int32) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.sent) > 0 {
		f := c.sent[0]
		if f.exchange.Correlation != correlation && !f.mayBeSilent() {
			return nil
		}
		c.sent[0] = nil
		c.sent = c.sent[1:]
		if f.exchange.Correlation == correlation {
			return f
		}
		c.unask(f)
	}
	return nil
}

// unask takes a request that has no answer from those that the client waits for. The
// caller holds mu.
func (c *connection) unask(f *flight) {
	for i := range c.asked {
		if c.asked[i] == f {
			c.asked = append(c.asked[:i:i], c.asked[i+1:]...)
			return
		}
	}
}

// swallow takes the answer to a request that the client did not send.
func (c *connection) swallow(f *flight, r *bufio.Reader) bool {
	frame, err := c.network.frames.read(r)
	if err != nil {
		return false
	}
	defer c.network.frames.put(frame)
	response := readProduceAnswer(f.exchange, frame)
	if response == nil {
		c.network.counts.undecoded.Add(1)
		return true
	}
	for i := range response.Topics {
		for j := range response.Topics[i].Partitions {
			if response.Topics[i].Partitions[j].ErrorCode == 0 {
				f.decision.tookEffect()
				return true
			}
		}
	}
	return true
}

// deliver gives the client the answer to f, which is next on r, or keeps it until its
// turn comes, and all others whose turn it is.
func (c *connection) deliver(f *flight, r *bufio.Reader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.delivering {
			c.turn.Wait()
		}
		if len(c.asked) == 0 {
			return true
		}
		switch first := c.asked[0]; {
		case first.own != nil || (first.kept != nil && !time.Now().Before(first.due)):
			if !c.settleFirst(nil) {
				return false
			}
		case first == f && !f.answerIsHeldBack():
			f = nil
			if !c.settleFirst(r) {
				return false
			}
		case f != nil: // another one's turn, or not its time yet
			if !c.keep(f, r) {
				return false
			}
			f = nil
		default:
			return true
		}
	}
}

// keep reads an answer and keeps it until its turn comes. One that is held back is
// delivered when its time has come, counted from now, so that those that come one behind
// the other are each as late. The caller holds mu, and is the answers' goroutine.
func (c *connection) keep(f *flight, r *bufio.Reader) bool {
	c.mu.Unlock()
	frame, err := c.network.frames.read(r)
	c.mu.Lock()
	if err != nil {
		return false
	}
	f.kept = frame
	if !f.answerIsHeldBack() {
		return true
	}
	f.due = time.Now().Add(f.decision.by)
	c.late.Go(func() {
		if c.wait(f.decision.by) && !c.deliver(nil, nil) && !c.silent.Load() {
			c.hangUp()
		}
	})
	return true
}

// answerIsHeldBack says whether the answer is to be passed on late. That to a SASL
// handshake never is: what comes behind it are no frames.
func (f *flight) answerIsHeldBack() bool {
	return f.decision.kind == holdBack && f.decision.side == SideAnswer && f.exchange.Key != int16(kmsg.SASLHandshake)
}

// settleFirst settles the first of those that the client waits for, whose answer is
// its own, kept, or next on r; false ends the connection. The caller holds mu, and
// nobody is delivering.
func (c *connection) settleFirst(r *bufio.Reader) bool {
	f := c.asked[0]
	c.delivering = true
	c.mu.Unlock()
	var ok bool
	if f.own != nil {
		ok = c.give(f, f.own, f.answers, nil)
	} else {
		ok = c.settle(f, r)
	}
	c.mu.Lock()
	c.asked[0] = nil
	c.asked = c.asked[1:]
	c.delivering = false
	c.turn.Broadcast()
	return ok
}

// settle does with the broker's answer to a request what was decided about it.
func (c *connection) settle(f *flight, r *bufio.Reader) bool {
	x, d := f.exchange, f.decision
	if d.kind == loseResponse && x.Produce == nil {
		if d.stall {
			c.goSilent()
		}
		return false
	}
	if !c.seenWhole(f) {
		return c.passOn(f, r)
	}
	frame := f.kept
	if frame == nil {
		var err error
		if frame, err = c.network.frames.read(r); err != nil {
			c.tell(f, nil, nil, c.whyLost())
			return false
		}
	}
	f.kept = nil
	ok := c.settleWhole(f, frame)
	c.network.frames.put(frame)
	return ok
}

// seenWhole says whether an answer has to be seen whole, or may pass in pieces.
func (c *connection) seenWhole(f *flight) bool {
	x := f.exchange
	return f.kept != nil || x.Produce != nil || f.decision.kind == divergeReads ||
		(x.Key == int16(kmsg.Metadata) && x.Version >= firstMetadataIDs)
}

// passOn passes an answer on in pieces.
func (c *connection) passOn(f *flight, r *bufio.Reader) bool {
	size, err := frameSize(r)
	if err != nil {
		c.refuseGarbage(err)
		return false
	}
	if f.exchange.Key == int16(kmsg.SASLHandshake) && f.exchange.Version == 0 {
		c.opaque.Store(true) // what the client says next are a mechanism's own tokens
	}
	return passOn(c.client, r, size) == nil
}

// settleWhole is settle for an answer that was read whole.
func (c *connection) settleWhole(f *flight, frame []byte) bool {
	x, d := f.exchange, f.decision
	var said []batchAnswer
	switch x.Key {
	case int16(kmsg.Metadata):
		if !c.network.topics.learn(x.Version, frame) {
			c.network.counts.undecoded.Add(1)
		}
	case int16(kmsg.Produce):
		response := readProduceAnswer(x, frame)
		if response == nil && x.Produce != nil {
			c.network.counts.undecoded.Add(1)
		}
		if x.Produce != nil {
			said = answersOf(x, response)
		}
		if d.kind == refuse && response != nil {
			refused, answers := refusedIn(response, x, d)
			return c.give(f, refused, answers, said)
		}
	case int16(kmsg.Fetch):
		if d.kind == divergeReads {
			frame = diverged(frame, f)
		}
	}
	switch {
	case c.silent.Load():
		c.tell(f, nil, said, LostSilence)
		return false
	case d.kind == loseResponse:
		if d.stall {
			c.goSilent()
			c.tell(f, nil, said, LostSilence)
			return false
		}
		c.tell(f, nil, said, LostConnection)
		return false
	}
	return c.give(f, frame, said, nil)
}

// give gives the client an answer. broker is what the broker said, where it is not
// that.
func (c *connection) give(f *flight, frame []byte, answers, broker []batchAnswer) bool {
	if broker == nil && f.own == nil {
		broker = answers
	}
	if c.silent.Load() {
		c.tell(f, nil, broker, LostSilence)
		return true
	}
	if c.gone.Load() {
		c.tell(f, nil, broker, LostConnection)
		return false
	}
	if f.exchange.Produce != nil {
		c.network.answered(f.exchange, answers)
	}
	if _, err := c.client.Write(frame); err != nil {
		c.tell(f, nil, broker, c.whyLost())
		return false
	}
	c.tell(f, answers, broker, "")
	return true
}

// abandon tells the fate of what is still on its way when the connection has ended
// and both goroutines with it.
func (c *connection) abandon() {
	c.mu.Lock()
	asked := c.asked
	c.asked, c.sent = nil, nil
	c.mu.Unlock()
	for _, f := range asked {
		var said []batchAnswer
		if f.kept != nil && f.exchange.Produce != nil {
			said = answersOf(f.exchange, readProduceAnswer(f.exchange, f.kept))
		}
		c.tell(f, nil, said, c.whyLost())
		if f.kept != nil {
			c.network.frames.put(f.kept)
		}
	}
}

// tell tells the observer what became of every batch of a Produce request: the
// answers that the client was given, or what it got instead, and the broker's own
// answers. The request is not looked at any more after that.
func (c *connection) tell(f *flight, answers, broker []batchAnswer, lost string) {
	c.mu.Lock()
	reached := f.reached
	c.mu.Unlock()
	x := f.exchange
	if x.Produce == nil {
		return
	}
	c.network.ends.see(x, answers)
	c.network.ends.see(x, broker)
	if observer := c.network.observer.Load(); observer != nil {
		c.describe(f, answers, broker, lost, reached, *observer)
	}
	c.mu.Lock()
	f.told = true
	free := !f.writing
	c.mu.Unlock()
	if free {
		c.free(f)
	}
	c.network.unsettled.Add(-1)
}

// describe calls the observer with the attempts that a request was.
func (c *connection) describe(f *flight, answers, broker []batchAnswer, lost string, reached bool, observer func(*Attempt)) {
	x := f.exchange
	a := Attempt{Broker: x.Broker, Connection: x.Connection, ClientID: x.ClientID, Correlation: x.Correlation,
		Acks: x.Produce.Acks, Sent: x.Received, Ended: time.Now()}
	for i := range x.Produce.Batches {
		b := &x.Produce.Batches[i]
		a.Topic, a.Partition, a.ProducerID, a.ProducerEpoch = b.Topic, b.Partition, b.ProducerID, b.ProducerEpoch
		a.BaseSequence, a.Records, a.batch = b.BaseSequence, b.Records, b
		if a.Topic == "" { // a Metadata answer may have come meanwhile
			a.Topic = c.network.topics.name(b.id)
		}
		concerned := f.decision.concerns(b)
		a.Fault, a.Reached = "", reached
		if concerned {
			a.Fault = f.decision.name
			a.Reached = reached && (f.decision.kind != refuse || f.decision.after)
		}
		a.Lost, a.Answer, a.BrokerAnswer = lost, at(answers, i), at(broker, i)
		if a.Answer == nil && lost == "" {
			a.Lost = LostSilence
		}
		refused := concerned && f.decision.kind == refuse
		if a.Answer != nil && a.BrokerAnswer != nil && *a.Answer == *a.BrokerAnswer && !refused {
			a.BrokerAnswer = nil // it is what the client was given
		}
		observer(&a)
	}
}

func at(answers []batchAnswer, i int) *Answer {
	if i < len(answers) && answers[i].given {
		return &answers[i].Answer
	}
	return nil
}
