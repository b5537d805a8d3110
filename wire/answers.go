// This file holds the way back: the brokers' answers, and how each attempt's fate
// is told.

package wire

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answers passes frames from the broker to the client until either ends.
func (c *connection) answers() {
	for {
		frame, err := readFrame(c.server)
		if err != nil || len(frame) < 8 {
			return
		}
		f, inTurn := c.pop(int32(binary.BigEndian.Uint32(frame[4:])))
		switch {
		case f == nil:
			return // an answer to nothing that was asked
		case f.swallow:
			continue
		case !inTurn:
			c.keep(frame, f)
			continue
		}
		if !c.answer(frame, f) || c.flush() != nil {
			return
		}
	}
}

// keep holds an answer that the broker gave out of turn until its turn comes.
func (c *connection) keep(frame []byte, f *flight) {
	answers := brokerAnswers(f.exchange, frame[4:])
	c.mu.Lock()
	defer c.mu.Unlock()
	f.ready, f.answer = frame, answers
}

// answer does with one answer what was decided about its request; false ends the
// connection.
func (c *connection) answer(frame []byte, f *flight) bool {
	x := f.exchange
	if x.Key == int16(kmsg.Metadata) {
		c.network.topics.learn(x, frame[4:])
	}
	broker := brokerAnswers(x, frame[4:])
	switch d := f.decision; {
	case d.kind == loseResponse && d.stall:
		c.silent.Store(true)
		c.fate(f, nil, broker, LostSilence)
		return false
	case d.kind == loseResponse:
		c.fate(f, nil, broker, LostConnection)
		return false
	case d.kind == refuse && x.Produce != nil:
		frame, f.answer = refusal(x, d.code)
		return c.give(frame, f, f.answer, broker)
	case d.kind == holdBack && d.side == SideAnswer && !c.wait(d.by):
		c.fate(f, nil, broker, LostConnection)
		return false
	case d.kind == divergeReads && x.Key == int16(kmsg.Fetch):
		frame = diverged(frame, f)
	}
	return c.give(frame, f, broker, nil)
}

func (c *connection) give(frame []byte, f *flight, answers, broker map[int]Answer) bool {
	c.mu.Lock()
	_, err := c.client.Write(frame)
	c.mu.Unlock()
	if err != nil {
		if broker == nil {
			broker = answers
		}
		c.fate(f, nil, broker, LostConnection)
		return false
	}
	c.fate(f, answers, broker, "")
	return true
}

// abandon tells the fate of what is still pending when the connection has ended.
func (c *connection) abandon() {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, f := range pending {
		if !f.swallow {
			c.fate(f, nil, nil, LostConnection)
		}
	}
}

// fate tells the observer what became of every batch of a Produce request: the
// answers that the client was given (by batch), or what it got instead, and the
// broker's own answers where they differ.
func (c *connection) fate(f *flight, answers, broker map[int]Answer, lost string) {
	x := f.exchange
	if x.Produce == nil {
		return
	}
	defer c.network.unsettled.Add(-1)
	observer := c.network.observer.Load()
	if observer == nil {
		return
	}
	now := time.Now()
	c.network.ends.see(x, answers, broker)
	for i := range x.Produce.Batches {
		b := &x.Produce.Batches[i]
		a := Attempt{
			Broker: x.Broker, Connection: x.Connection, ClientID: x.ClientID, Correlation: x.Correlation,
			Acks: x.Produce.Acks, Topic: b.Topic, Partition: b.Partition, ProducerID: b.ProducerID,
			ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence, Records: b.Records,
			Sent: x.Received, Ended: now, Lost: lost, Reached: f.reached, Fault: f.decision.name, batch: b,
		}
		if answer, ok := answers[i]; ok {
			a.Answer = &answer
		} else if lost == "" {
			a.Lost = LostSilence
		}
		if answer, ok := broker[i]; ok {
			a.BrokerAnswer = &answer
		}
		(*observer)(&a)
	}
}

// brokerAnswers decodes a Produce answer, by the index of the batch.
func brokerAnswers(x *Exchange, body []byte) map[int]Answer {
	if x.Produce == nil {
		return nil
	}
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(x.Version)
	offset, err := answerHeader(body, response.IsFlexible())
	if err != nil || response.ReadFrom(body[offset:]) != nil {
		return nil
	}
	answers := make(map[int]Answer)
	batch := 0
	for i := range x.Produce.request.Topics {
		for j := range x.Produce.request.Topics[i].Partitions {
			if answer, ok := find(response, &x.Produce.request.Topics[i], x.Produce.request.Topics[i].Partitions[j].Partition); ok {
				answers[batch] = answer
			}
			batch++
		}
	}
	return answers
}

func find(r *kmsg.ProduceResponse, topic *kmsg.ProduceRequestTopic, partition int32) (Answer, bool) {
	for i := range r.Topics {
		if r.Topics[i].Topic != topic.Topic || r.Topics[i].TopicID != topic.TopicID {
			continue
		}
		for _, p := range r.Topics[i].Partitions {
			if p.Partition == partition {
				return Answer{Code: p.ErrorCode, BaseOffset: p.BaseOffset}, true
			}
		}
	}
	return Answer{}, false
}

func answerHeader(body []byte, flexible bool) (int, error) {
	if len(body) < 4 {
		return 0, errHeader
	}
	if !flexible {
		return 4, nil
	}
	return skipTags(body, 4)
}

// refusal makes a Produce answer that refuses every batch with a code.
func refusal(x *Exchange, code int16) (frame []byte, answers map[int]Answer) {
	return producedAnswer(x, func(int) Answer { return Answer{Code: code, BaseOffset: -1} })
}

// producedAnswer makes a Produce answer out of an answer about each batch.
func producedAnswer(x *Exchange, about func(batch int) Answer) (frame []byte, answers map[int]Answer) {
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(x.Version)
	answers = make(map[int]Answer)
	for i := range x.Produce.request.Topics {
		asked := &x.Produce.request.Topics[i]
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		for j := range asked.Partitions {
			answer := about(len(answers))
			answers[len(answers)] = answer
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition = asked.Partitions[j].Partition
			partition.ErrorCode, partition.BaseOffset, partition.LogStartOffset = answer.Code, answer.BaseOffset, -1
			topic.Partitions = append(topic.Partitions, partition)
		}
		response.Topics = append(response.Topics, topic)
	}
	return frameOf(x.Correlation, response), answers
}

func frameOf(correlation int32, response kmsg.Response) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(correlation))
	if response.IsFlexible() {
		frame = append(frame, 0) // no tagged fields
	}
	frame = response.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// topicNames knows the names of topic ids, learnt from Metadata answers.
type topicNames struct {
	mu    sync.RWMutex
	names map[[16]byte]string
}

func (t *topicNames) name(id [16]byte) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[id]
}

func (t *topicNames) learn(x *Exchange, body []byte) {
	response := kmsg.NewPtrMetadataResponse()
	if x.Version > response.MaxVersion() {
		return
	}
	response.SetVersion(x.Version)
	offset, err := answerHeader(body, response.IsFlexible())
	if err != nil || response.ReadFrom(body[offset:]) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range response.Topics {
		if name := response.Topics[i].Topic; name != nil && response.Topics[i].TopicID != [16]byte{} {
			if t.names == nil {
				t.names = make(map[[16]byte]string)
			}
			t.names[response.Topics[i].TopicID] = *name
		}
	}
}
