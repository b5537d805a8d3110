// This file holds the Produce API: requests decoded and rewritten, answers read and
// made.

package wire

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstProduce is the first version that carries message format 2, and
// firstTopicIDs the first that names topics by their ids (KIP-516).
const (
	firstProduce  = 3
	firstFlexible = 9
	firstTopicIDs = 13
)

// decodeProduce decodes a Produce request; nil where it cannot be.
func (n *Network) decodeProduce(x *Exchange) *Produce {
	request := kmsg.NewPtrProduceRequest()
	if x.Version > request.MaxVersion() || x.Version < firstProduce {
		return nil
	}
	if x.Version >= firstFlexible {
		offset, err := skipTags(x.body, x.head)
		if err != nil {
			return nil
		}
		x.head = offset
	}
	request.SetVersion(x.Version)
	if err := request.UnsafeReadFrom(x.body[x.head:]); err != nil {
		return nil
	}
	p := &Produce{Acks: request.Acks, request: request}
	for i := range request.Topics {
		topic := &request.Topics[i]
		// The request's strings lie in a buffer that will be another frame's.
		name := n.topics.own(topic.Topic)
		if x.Version >= firstTopicIDs {
			name = n.topics.name(topic.TopicID)
		}
		for j := range topic.Partitions {
			batch := ProduceBatch{Topic: name, id: topic.TopicID, Partition: topic.Partitions[j].Partition,
				raw: topic.Partitions[j].Records}
			batch.readHead()
			p.Batches = append(p.Batches, batch)
		}
	}
	return p
}

// readHead reads the producer's fields of a record batch.
func (b *ProduceBatch) readHead() {
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = -1, -1, -1
	if !soundHead(b.raw) {
		return
	}
	b.ProducerID = int64(binary.BigEndian.Uint64(b.raw[batchProducerID:]))
	b.ProducerEpoch = int16(binary.BigEndian.Uint16(b.raw[batchProducerEpoch:]))
	b.BaseSequence = int32(binary.BigEndian.Uint32(b.raw[batchBaseSequence:]))
	b.Records = int32(binary.BigEndian.Uint32(b.raw[batchCount:]))
}

// rewritten gives a frame of the request with other batches: change gives each batch's
// new bytes, and whether it stays at all.
func rewritten(x *Exchange, change func(batch int, raw []byte) (changed []byte, stays bool)) []byte {
	request := *x.Produce.request
	request.Topics = nil
	batch := 0
	for _, topic := range x.Produce.request.Topics {
		partitions := topic.Partitions
		topic.Partitions = nil
		for _, p := range partitions {
			changed, stays := change(batch, p.Records)
			batch++
			if stays {
				p.Records = changed
				topic.Partitions = append(topic.Partitions, p)
			}
		}
		if len(topic.Partitions) > 0 {
			request.Topics = append(request.Topics, topic)
		}
	}
	frame := append(make([]byte, 4, 4+len(x.body)), x.body[:x.head]...)
	return sealFrame(request.AppendTo(frame))
}

// batchAnswer is an answer about one batch, if there is one.
type batchAnswer struct {
	Answer
	given bool
}

// readProduceAnswer decodes a broker's answer; nil where it cannot be.
func readProduceAnswer(x *Exchange, frame []byte) *kmsg.ProduceResponse {
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(x.Version)
	if readAnswer(frame, response) != nil {
		return nil
	}
	return response
}

// answersOf gives what an answer says about each batch of the request, by index.
func answersOf(x *Exchange, response *kmsg.ProduceResponse) []batchAnswer {
	if response == nil {
		return nil
	}
	answers := make([]batchAnswer, 0, len(x.Produce.Batches))
	for i := range x.Produce.request.Topics {
		asked := &x.Produce.request.Topics[i]
		topic := topicOf(response, asked, i)
		for j := range asked.Partitions {
			var answer batchAnswer
			if p := partitionOf(topic, asked.Partitions[j].Partition, j); p != nil {
				answer = batchAnswer{Answer{Code: p.ErrorCode, BaseOffset: p.BaseOffset}, true}
			}
			answers = append(answers, answer)
		}
	}
	return answers
}

// topicOf finds a topic in an answer; nil if it is not there. Brokers answer in the
// request's order, or nearly so: likely is where to look first.
func topicOf(r *kmsg.ProduceResponse, asked *kmsg.ProduceRequestTopic, likely int) *kmsg.ProduceResponseTopic {
	for i := range r.Topics {
		if t := &r.Topics[(i+likely)%len(r.Topics)]; t.Topic == asked.Topic && t.TopicID == asked.TopicID {
			return t
		}
	}
	return nil
}

func partitionOf(t *kmsg.ProduceResponseTopic, partition int32, likely int) *kmsg.ProduceResponseTopicPartition {
	if t == nil {
		return nil
	}
	for i := range t.Partitions {
		if p := &t.Partitions[(i+likely)%len(t.Partitions)]; p.Partition == partition {
			return p
		}
	}
	return nil
}

// produceAnswer makes an answer out of an answer about each batch.
func produceAnswer(x *Exchange, about func(batch int) Answer) (frame []byte, answers []batchAnswer) {
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(x.Version)
	for i := range x.Produce.request.Topics {
		asked := &x.Produce.request.Topics[i]
		topic := answerTopic(asked)
		for j := range asked.Partitions {
			answer := about(len(answers))
			answers = append(answers, batchAnswer{answer, true})
			topic.Partitions = append(topic.Partitions, answerPartition(asked.Partitions[j].Partition, answer))
		}
		response.Topics = append(response.Topics, topic)
	}
	return answerFrame(x.Correlation, response), answers
}

func answerTopic(asked *kmsg.ProduceRequestTopic) kmsg.ProduceResponseTopic {
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
	return topic
}

func answerPartition(partition int32, answer Answer) kmsg.ProduceResponseTopicPartition {
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.ErrorCode, p.BaseOffset, p.LogStartOffset = partition, answer.Code, answer.BaseOffset, -1
	return p
}

// refusal makes an answer that refuses every batch with a code.
func refusal(x *Exchange, code int16) (frame []byte, answers []batchAnswer) {
	return produceAnswer(x, func(int) Answer { return Answer{Code: code, BaseOffset: -1} })
}

// refusedIn gives a broker's answer with the batches that a decision concerns refused
// in it, whether it has them or not.
func refusedIn(response *kmsg.ProduceResponse, x *Exchange, d Decision) (frame []byte, answers []batchAnswer) {
	batch := 0
	for i := range x.Produce.request.Topics {
		asked := &x.Produce.request.Topics[i]
		for j := range asked.Partitions {
			if d.concerns(&x.Produce.Batches[batch]) {
				topic := topicOf(response, asked, i)
				if topic == nil {
					response.Topics = append(response.Topics, answerTopic(asked))
					topic = &response.Topics[len(response.Topics)-1]
				}
				refused := answerPartition(asked.Partitions[j].Partition, Answer{Code: d.code, BaseOffset: -1})
				if p := partitionOf(topic, refused.Partition, j); p != nil {
					*p = refused
				} else {
					topic.Partitions = append(topic.Partitions, refused)
				}
			}
			batch++
		}
	}
	return answerFrame(x.Correlation, response), answersOf(x, response)
}

// topicNames knows the names of topic ids, learnt from Metadata answers, and keeps
// one copy of each name that was produced to. The zero value is ready.
type topicNames struct {
	mu    sync.RWMutex
	names map[[16]byte]string
	owned map[string]string
}

// maxOwned bounds the names that are kept: clients may ask for any.
const maxOwned = 10_000

func (t *topicNames) name(id [16]byte) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[id]
}

// own gives a copy of a name that does not lie in a frame's buffer.
func (t *topicNames) own(name string) string {
	t.mu.RLock()
	owned, ok := t.owned[name]
	t.mu.RUnlock()
	if ok || name == "" {
		return owned
	}
	owned = strings.Clone(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned == nil {
		t.owned = make(map[string]string)
	}
	if len(t.owned) < maxOwned {
		t.owned[owned] = owned
	}
	return owned
}

// firstMetadataIDs is the first version of Metadata answers that have topic ids.
const firstMetadataIDs = 10

// learn learns from a Metadata answer; false where it cannot be decoded.
func (t *topicNames) learn(version int16, frame []byte) bool {
	response := kmsg.NewPtrMetadataResponse()
	if version > response.MaxVersion() {
		return false
	}
	response.SetVersion(version)
	if readAnswer(frame, response) != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = make(map[[16]byte]string)
	}
	for i := range response.Topics {
		if name := response.Topics[i].Topic; name != nil && response.Topics[i].TopicID != [16]byte{} {
			t.names[response.Topics[i].TopicID] = *name
		}
	}
	return true
}
