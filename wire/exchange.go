// This file holds what an interceptor is shown and what it can decide.

package wire

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Exchange is a request on its way to a broker. It must not be kept or changed.
type Exchange struct {
	Broker      int32
	Connection  int64
	ClientID    string
	Key         int16
	Version     int16
	Correlation int32
	Received    time.Time
	// Produce is set for a Produce request that could be decoded.
	Produce *Produce
	body    []byte // the whole frame without its length
	head    int    // length of the request header in body
}

// Produce is a decoded Produce request.
type Produce struct {
	Acks    int16
	Batches []ProduceBatch
	request *kmsg.ProduceRequest
}

// ProduceBatch is what one request carries for one partition.
type ProduceBatch struct {
	// Topic is empty where the request names a topic id that no Metadata answer
	// has explained yet.
	Topic         string
	Partition     int32
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Records       int32
	raw           []byte
}

// EachHeader calls visit with every record's value of the named header, in batch
// order, nil where a record has none. It decompresses; the slices are valid during
// the call only.
func (b *ProduceBatch) EachHeader(name string, visit func(value []byte)) error {
	return eachHeader(b.raw, name, visit)
}

// Attempt is one batch of one Produce request and what became of it.
type Attempt struct {
	Broker        int32
	Connection    int64
	ClientID      string
	Correlation   int32
	Acks          int16
	Topic         string
	Partition     int32
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Records       int32
	// Sent is when the request had been read from the client, Ended when its fate
	// was known.
	Sent, Ended time.Time
	// Answer is what the client was given; nil: nothing, and Lost says why.
	Answer *Answer
	Lost   string
	// Reached: the whole request was handed to the broker's connection.
	Reached bool
	// BrokerAnswer is what the broker answered, where that was seen and is not what
	// the client was given.
	BrokerAnswer *Answer
	// Fault is the name of the decision that acted on the request.
	Fault string
	batch *ProduceBatch
}

// EachHeader is ProduceBatch.EachHeader, for the name in the network's options.
func (a *Attempt) EachHeader(name string, visit func(value []byte)) error {
	return a.batch.EachHeader(name, visit)
}

// Answer is a broker's answer about one batch.
type Answer struct {
	Code       int16
	BaseOffset int64
}

// What happened to a request instead of an answer.
const (
	LostConnection = "connection-closed"
	LostSilence    = "no-answer"
	LostAcksZero   = "acks-0"
)

type kind int

const (
	pass kind = iota
	loseResponse
	cutBefore
	refuse
	holdBack
	// the lies, see lies.go
	acknowledgeUnwritten
	writeTwice
	swapBatches
	corruptByte
	divergeReads
)

// Decision is what becomes of a request. The zero value lets it pass.
type Decision struct {
	kind  kind
	name  string
	stall bool
	after bool
	code  int16
	by    time.Duration
	side  Side
	took  func() // called when a lie took effect
}

// Side is a direction on a connection.
type Side int

// The sides.
const (
	SideRequest Side = iota
	SideAnswer
)

// Pass lets a request pass.
func Pass() Decision { return Decision{} }

// LoseResponse lets the broker serve the request, throws its answer away and closes
// the connection; with stall the connection goes silent instead.
func LoseResponse(name string, stall bool) Decision {
	return Decision{kind: loseResponse, name: name, stall: stall}
}

// CutBefore resets the connection before the broker has the request.
func CutBefore(name string) Decision { return Decision{kind: cutBefore, name: name} }

// Refuse answers a Produce request with an error code: without the broker's having
// it, or after the broker served it. Any other request passes.
func Refuse(name string, code int16, after bool) Decision {
	return Decision{kind: refuse, name: name, code: code, after: after}
}

// HoldBack passes the request, or its answer, on late; what follows it in the same
// direction waits behind it.
func HoldBack(name string, side Side, by time.Duration) Decision {
	return Decision{kind: holdBack, name: name, side: side, by: by}
}

// decodeProduce decodes a Produce request; nil where it cannot be.
func (n *Network) decodeProduce(x *Exchange, offset int) *Produce {
	request := kmsg.NewPtrProduceRequest()
	if x.Version > request.MaxVersion() || x.Version < 3 {
		return nil
	}
	request.SetVersion(x.Version)
	if err := request.UnsafeReadFrom(x.body[offset:]); err != nil {
		return nil
	}
	p := &Produce{Acks: request.Acks, request: request}
	for i := range request.Topics {
		topic := &request.Topics[i]
		name := topic.Topic
		if x.Version >= 13 {
			name = n.topics.name(topic.TopicID)
		}
		for j := range topic.Partitions {
			batch := ProduceBatch{Topic: name, Partition: topic.Partitions[j].Partition, raw: topic.Partitions[j].Records}
			batch.readHead()
			p.Batches = append(p.Batches, batch)
		}
	}
	return p
}

// readHead reads the producer's fields of a record batch, whose layout is that of
// Kafka's message format 2.
func (b *ProduceBatch) readHead() {
	var head kmsg.RecordBatch
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = -1, -1, -1
	if err := head.UnsafeReadFrom(b.raw); err != nil {
		return
	}
	b.ProducerID, b.ProducerEpoch = head.ProducerID, head.ProducerEpoch
	b.BaseSequence, b.Records = head.FirstSequence, head.NumRecords
}

// decompressor is shared; it pools its readers and is safe for concurrent use.
var decompressor = kgo.DefaultDecompressor()
