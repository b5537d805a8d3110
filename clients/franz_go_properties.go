// This file holds what franz-go makes of producer properties: its options, what is
// then in force, and what it cannot honour. Everything here was read in the source
// of kgo v1.22.3 (config.go, sink.go, producer.go); the tests hold it against a
// real client's options.

package clients

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// Defaults and bounds of kgo, as far as Kafka's properties speak of them.
const (
	kgoLingerMs         = 10
	kgoBatchSize        = 1000012
	kgoProduceTimeout   = 10 * time.Second
	kgoTimeoutOverhead  = 10 * time.Second
	kgoCompression      = "snappy" // where it makes the batch smaller, as with every codec
	kgoRetryBackoffMs   = 250      // doubled with every failure,
	kgoRetryBackoffMax  = 5000     // up to this
	kgoLeastTimeout     = 100 * time.Millisecond
	kgoMostOverhead     = 15 * time.Minute
	kgoLeastDelivery    = time.Second
	kgoMostLinger       = time.Minute
	kgoLeastBatchSize   = 512
	kgoMostBatchSize    = 1 << 30
	kgoMaxRecords       = 50000
	kafkaRetryBackoffMs = 1000 // retry.backoff.max.ms of Kafka's producer
	unlimitedRetries    = math.MaxInt32
)

const (
	retryBackoffMax        = "retry.backoff.max.ms"
	maxBlock               = "max.block.ms"
	maxRequestSize         = "max.request.size"
	metadataMaxAge         = "metadata.max.age.ms"
	roundRobinPartitioner  = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
	batchAndRecordOverhead = 61 + 5*6 // of a batch, and of its first record's own lengths
)

// franzGoPlan is what a set of properties comes to.
type franzGoPlan struct {
	options   []kgo.Opt
	effective map[string]string
}

func (plan *franzGoPlan) set(name, value string, options ...kgo.Opt) {
	plan.effective[name] = value
	plan.options = append(plan.options, options...)
}

func (plan *franzGoPlan) setNumber(name string, value int64, options ...kgo.Opt) {
	plan.set(name, strconv.FormatInt(value, 10), options...)
}

// planFranzGo translates properties.
func planFranzGo(p Properties) (franzGoPlan, error) {
	if err := p.refusedByKafka(); err != nil {
		return franzGoPlan{}, err
	}
	plan := franzGoPlan{effective: make(map[string]string)}
	for _, step := range []func(Properties) error{
		plan.delivery, plan.inFlight, plan.requestTimeout, plan.linger, plan.deliveryTimeout,
		plan.retries, plan.retryBackoff, plan.batchSize, plan.bufferMemory, plan.partitioner, plan.metadata,
		plan.without,
	} {
		if err := step(p); err != nil {
			return franzGoPlan{}, err
		}
	}
	plan.compression(p)
	return plan, nil
}

func notApplicable(p Properties, property, format string, args ...any) error {
	value, _ := p.text(property)
	return &NotApplicableError{Client: histories.ClientFranzGo, Property: property, Value: value,
		Reason: fmt.Sprintf(format, args...)}
}

// delivery is acks and idempotence. kgo has no default rule as Kafka's: with fewer
// acks, idempotence must be switched off by name.
func (plan *franzGoPlan) delivery(p Properties) error {
	acks, given := p.text(histories.PropertyAcks)
	if !given {
		acks = "all"
	}
	switch acks {
	case "0":
		plan.set(histories.PropertyAcks, acks, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		plan.set(histories.PropertyAcks, acks, kgo.RequiredAcks(kgo.LeaderAck()))
	default:
		plan.set(histories.PropertyAcks, acks, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	if p.Idempotent() {
		plan.set(histories.PropertyIdempotence, "true")
	} else {
		plan.set(histories.PropertyIdempotence, "false", kgo.DisableIdempotentWrite())
	}
	return nil
}

// inFlight: with idempotence kgo ignores the setting. It allows one request per
// broker until the first answer, then five.
func (plan *franzGoPlan) inFlight(p Properties) error {
	n, given := p.number(histories.PropertyMaxInFlight)
	if p.Idempotent() {
		if given && n != maxInFlightIdempotent {
			return notApplicable(p, histories.PropertyMaxInFlight, "with idempotence has always 5 requests in flight; "+
				"only 5 can be asked for%s", kgoOnInFlight(n))
		}
		plan.setNumber(histories.PropertyMaxInFlight, maxInFlightIdempotent)
		return nil
	}
	if !given {
		n = 1
	}
	plan.setNumber(histories.PropertyMaxInFlight, n, kgo.MaxProduceRequestsInflightPerBroker(int(n)))
	return nil
}

// kgoOnInFlight asks kgo itself for so many requests in flight with idempotence, and
// gives what it says.
func kgoOnInFlight(n int64) string {
	client, err := kgo.NewClient(kgo.MaxProduceRequestsInflightPerBroker(int(min(n, math.MaxInt32))))
	if err == nil {
		client.Close()
		return ""
	}
	return fmt.Sprintf(" (it says: %v)", err)
}

// requestTimeout: kgo waits for an answer to a produce as long as the time that
// the request grants the broker plus an overhead; for an answer to anything else,
// the overhead. Their sum is what Kafka calls request.timeout.ms.
func (plan *franzGoPlan) requestTimeout(p Properties) error {
	ms, given := p.number(histories.PropertyRequestTimeout)
	if !given {
		plan.setNumber(histories.PropertyRequestTimeout, (kgoProduceTimeout + kgoTimeoutOverhead).Milliseconds())
		return nil
	}
	if ms < 2*kgoLeastTimeout.Milliseconds() {
		return notApplicable(p, histories.PropertyRequestTimeout,
			"waits at least 100 ms for the broker and 100 ms for the network; the least is 200")
	}
	whole := time.Duration(ms) * time.Millisecond
	overhead := min(whole/2, kgoTimeoutOverhead)
	plan.setNumber(histories.PropertyRequestTimeout, ms,
		kgo.ProduceRequestTimeout(whole-overhead), kgo.RequestTimeoutOverhead(overhead))
	return nil
}

// metadata: kgo asks for metadata no more often than its minimum age allows, which must
// not be above the maximum.
func (plan *franzGoPlan) metadata(p Properties) error {
	ms, given := p.number(metadataMaxAge)
	if !given {
		return nil
	}
	if ms < kgoLeastMetadataAge {
		return notApplicable(p, metadataMaxAge, "asks for metadata no more often than every %d ms", kgoLeastMetadataAge)
	}
	age := time.Duration(ms) * time.Millisecond
	plan.setNumber(metadataMaxAge, ms, kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, kgoMetadataMinAge)))
	return nil
}

// kgo's least maximum age of metadata in milliseconds, and its default minimum age.
const (
	kgoLeastMetadataAge = 1000
	kgoMetadataMinAge   = 5 * time.Second
)

// without refuses what kgo has no equal of.
func (plan *franzGoPlan) without(p Properties) error {
	for name, reason := range map[string]string{
		maxBlock:        "waits for buffer space and metadata without a limit",
		maxRequestSize:  "has no limit of a request but that of a batch (batch.size)",
		retryBackoffMax: "has no limit of its own; with retry.backoff.ms it is Kafka's default, 1000",
	} {
		if _, given := p.text(name); given {
			return notApplicable(p, name, "%s", reason)
		}
	}
	return nil
}

func (plan *franzGoPlan) linger(p Properties) error {
	ms, given := p.number(histories.PropertyLinger)
	if !given {
		plan.setNumber(histories.PropertyLinger, kgoLingerMs)
		return nil
	}
	if ms > kgoMostLinger.Milliseconds() {
		return notApplicable(p, histories.PropertyLinger, "lingers at most 60000 ms")
	}
	plan.setNumber(histories.PropertyLinger, ms, kgo.ProducerLinger(time.Duration(ms)*time.Millisecond))
	return nil
}

// deliveryTimeout: an idempotent kgo does not give up a record that may have been
// written, whatever limit it has, unless it is allowed to cancel.
func (plan *franzGoPlan) deliveryTimeout(p Properties) error {
	ms, given := p.number(histories.PropertyDeliveryTimeout)
	if !given {
		plan.set(histories.PropertyDeliveryTimeout, None)
		return nil
	}
	linger, _ := strconv.ParseInt(plan.effective[histories.PropertyLinger], 10, 64)
	request, _ := strconv.ParseInt(plan.effective[histories.PropertyRequestTimeout], 10, 64)
	if err := p.refuseTimeouts(linger, request); err != nil {
		return err
	}
	if ms < kgoLeastDelivery.Milliseconds() {
		return notApplicable(p, histories.PropertyDeliveryTimeout, "has no delivery limit below 1000 ms")
	}
	plan.setNumber(histories.PropertyDeliveryTimeout, ms, kgo.RecordDeliveryTimeout(time.Duration(ms)*time.Millisecond))
	plan.allowCancellation(p)
	return nil
}

func (plan *franzGoPlan) retries(p Properties) error {
	n, given := p.number(histories.PropertyRetries)
	if !given || n == unlimitedRetries {
		plan.setNumber(histories.PropertyRetries, unlimitedRetries)
		return nil
	}
	plan.setNumber(histories.PropertyRetries, n, kgo.RecordRetries(int(n)))
	plan.allowCancellation(p)
	return nil
}

// allowCancellation makes a limit that was asked for hold with idempotence too.
func (plan *franzGoPlan) allowCancellation(p Properties) {
	if p.Idempotent() {
		plan.options = append(plan.options, kgo.AllowIdempotentProduceCancellation())
	}
}

func (plan *franzGoPlan) retryBackoff(p Properties) error {
	ms, given := p.number(histories.PropertyRetryBackoff)
	if !given {
		plan.setNumber(histories.PropertyRetryBackoff, kgoRetryBackoffMs)
		plan.setNumber(retryBackoffMax, kgoRetryBackoffMax)
		return nil
	}
	plan.setNumber(retryBackoffMax, kafkaRetryBackoffMs)
	plan.setNumber(histories.PropertyRetryBackoff, ms, kgo.RetryBackoffFn(kafkaBackoff(ms)))
	return nil
}

// kafkaBackoff is the backoff of Kafka's producer (KIP-580): doubled with every
// failure up to retry.backoff.max.ms, give or take a fifth; constant where it begins
// at that limit or above.
func kafkaBackoff(ms int64) func(failures int) time.Duration {
	const most = kafkaRetryBackoffMs
	return func(failures int) time.Duration {
		if ms >= most {
			return most * time.Millisecond
		}
		doublings := min(max(failures-1, 0), 20)
		wait := min(float64(ms)*math.Exp2(float64(doublings)), most)
		return time.Duration(wait * (0.8 + 0.4*rand.Float64()) * float64(time.Millisecond))
	}
}

func (plan *franzGoPlan) batchSize(p Properties) error {
	n, given := p.number(histories.PropertyBatchSize)
	if !given {
		plan.setNumber(histories.PropertyBatchSize, kgoBatchSize)
		return nil
	}
	if n < kgoLeastBatchSize || n > kgoMostBatchSize {
		return notApplicable(p, histories.PropertyBatchSize, "has batches of %d to %d bytes", kgoLeastBatchSize, kgoMostBatchSize)
	}
	plan.setNumber(histories.PropertyBatchSize, n, kgo.ProducerBatchMaxBytes(int32(n)))
	return nil
}

// fits refuses a batch.size that a single record exceeds: kgo then fails every such
// record, where Kafka's producer gives it a batch of its own.
func (plan *franzGoPlan) fits(p Properties, recordSize int) error {
	n, given := p.number(histories.PropertyBatchSize)
	if given && int64(recordSize+batchAndRecordOverhead) > n {
		return notApplicable(p, histories.PropertyBatchSize,
			"fails every record that is larger than batch.size before it is sent, and records here have about %d bytes", recordSize)
	}
	if n, given := p.number(histories.PropertyBufferMemory); given && int64(recordSize) > n {
		return notApplicable(p, histories.PropertyBufferMemory,
			"fails every record that is larger than buffer.memory, and records here have about %d bytes", recordSize)
	}
	return nil
}

// bufferMemory: kgo counts the uncompressed bytes of keys, values and headers. It
// also holds at most 50000 records, whatever this says. A send waits for space
// without a limit of its own.
func (plan *franzGoPlan) bufferMemory(p Properties) error {
	plan.set(maxBlock, None)
	n, given := p.number(histories.PropertyBufferMemory)
	switch {
	case !given:
		plan.set(histories.PropertyBufferMemory, None)
	case n == 0:
		return notApplicable(p, histories.PropertyBufferMemory, "takes 0 for no limit")
	case n > math.MaxInt:
		return notApplicable(p, histories.PropertyBufferMemory, "takes at most %d here", math.MaxInt)
	default:
		plan.setNumber(histories.PropertyBufferMemory, n, kgo.MaxBufferedBytes(int(n)))
	}
	return nil
}

// bufferMemory64 is the limit in bytes; zero: none.
func (plan *franzGoPlan) bufferMemory64() int64 {
	n, _ := strconv.ParseInt(plan.effective[histories.PropertyBufferMemory], 10, 64)
	return n
}

// partitioner: like Kafka's default, kgo's takes murmur2 of the key and keeps to a
// partition for a while where there is none. Kafka has no name for it, so none
// stands in the properties in force.
func (plan *franzGoPlan) partitioner(p Properties) error {
	class, given := p.text(histories.PropertyPartitioner)
	switch {
	case !given:
		return nil
	case class == roundRobinPartitioner:
		plan.set(histories.PropertyPartitioner, class, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		return nil
	}
	return notApplicable(p, histories.PropertyPartitioner,
		"cannot load a Java class; it has the equal of %s, and without this property of Kafka's default", roundRobinPartitioner)
}

func (plan *franzGoPlan) compression(p Properties) {
	name, given := p.text(histories.PropertyCompression)
	if !given {
		plan.set(histories.PropertyCompression, kgoCompression)
		return
	}
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
	plan.set(histories.PropertyCompression, name, kgo.ProducerBatchCompression(codec))
}
