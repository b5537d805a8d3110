// This file holds what an interceptor and an observer are shown.

package wire

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Exchange is a request on its way to a broker. It must not be kept or changed.
type Exchange struct {
	Broker      int32
	Connection  int64 // unique in the network
	ClientID    string
	Key         int16 // of the API
	Version     int16
	Correlation int32
	// Received is when the request had been read whole from the client.
	Received time.Time
	// Produce is set for a Produce request that could be decoded.
	Produce *Produce
	body    []byte // the whole frame without its length
	head    int    // length of a Produce request's header in body
}

// Produce is a decoded Produce request.
type Produce struct {
	Acks int16
	// Batches are what the request carries, one for each partition, in its order.
	Batches []ProduceBatch
	request *kmsg.ProduceRequest
}

// ProduceBatch is what one request carries for one partition.
type ProduceBatch struct {
	// Topic is empty where the request names a topic id that no Metadata answer
	// has explained yet.
	Topic     string
	Partition int32
	// ProducerID, ProducerEpoch and BaseSequence are -1 without idempotence.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Records       int32 // their number
	id            [16]byte
	raw           []byte
}

// EachHeader calls visit with every record's value of the named header, in batch
// order, nil where a record has none. It decompresses; the slices are valid during
// the call only.
func (b *ProduceBatch) EachHeader(name string, visit func(value []byte)) error {
	return eachRecord(b.raw, func(r *Record) { visit(r.Header(name)) })
}

// EachRecord calls visit with every record, in batch order. It decompresses; the
// record and what it holds are valid during the call only.
func (b *ProduceBatch) EachRecord(visit func(*Record)) error { return eachRecord(b.raw, visit) }

// Raw is the record batch as it came (message format 2), valid as long as the
// exchange or attempt.
func (b *ProduceBatch) Raw() []byte { return b.raw }

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
	// Answer is what the client was given; nil: nothing that could be read, and
	// Lost says why.
	Answer *Answer
	Lost   string
	// Reached: all of the batch was handed to the broker's connection.
	Reached bool
	// BrokerAnswer is what the broker answered, where that was seen and is not what
	// the client was given.
	BrokerAnswer *Answer
	// Fault is the name of the decision that acted on the batch.
	Fault string
	batch *ProduceBatch
}

// EachHeader is ProduceBatch.EachHeader.
func (a *Attempt) EachHeader(name string, visit func(value []byte)) error {
	return a.batch.EachHeader(name, visit)
}

// EachHeaderSized is EachHeader, and gives the size of the batch as it was sent, and the
// one that it has without compression, both in bytes; zero, with an error, where its
// records cannot be read.
func (a *Attempt) EachHeaderSized(name string, visit func(value []byte)) (sent, uncompressed int64, err error) {
	uncompressed, err = eachRecordSized(a.batch.raw, func(r *Record) { visit(r.Header(name)) })
	return int64(len(a.batch.raw)), uncompressed, err
}

// EachRecord is ProduceBatch.EachRecord.
func (a *Attempt) EachRecord(visit func(*Record)) error { return a.batch.EachRecord(visit) }

// Answer is a broker's answer about one batch.
type Answer struct {
	Code       int16
	BaseOffset int64
}

// What happened to a batch instead of an answer.
const (
	// LostConnection: the connection ended before the answer came.
	LostConnection = "connection-closed"
	// LostSilence: no answer came while the connection stayed open, until the
	// client gave up or the network was closed.
	LostSilence = "no-answer"
	// LostAcksZero: acks=0, no answer is ever sent.
	LostAcksZero = "acks-0"
)
