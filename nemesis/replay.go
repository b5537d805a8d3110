// This file holds the fault that sends recorded batches again: what a client's retry
// after a lost answer looks like, byte for byte.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

func replay() Fault {
	return Fault{
		Name: "replay",
		Doc: "when it ends, batches that were acknowledged meanwhile are sent again byte for byte, the newest first, as " +
			"after a lost answer; those without sequence numbers are not",
		Settings: []Setting{
			number("batches", "7", "so many of one producer and partition; a broker knows the last five again", 1),
			word("producer", anyOne, "of the client with this client.id; any: of the one acknowledged last"),
			partitionFilter(anyOne, "of this partition; any: of the one acknowledged last", anyOne),
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			return &replayed{env: env, settings: s, most: int(s.number("batches"))}, nil
		},
	}
}

// replayed remembers batches while it is on. They are sent again by Act, or else by Heal.
type replayed struct {
	env      *Environment
	settings Settings
	most     int

	mu     sync.Mutex
	remove func()
	// streams are those of the aimed producers and partitions that were written to last,
	// the last one last.
	streams []*stream
	acted   bool
	sending *recordedBatch // what is being sent again now
	answers []string
	bit     bool // one was answered
}

// stream is what one producer wrote to one partition.
type stream struct {
	client     string
	partition  histories.Partition
	producerID int64
	batches    []*recordedBatch // the newest last
}

// recordedBatch is one batch as a client sent it, and where the broker says that it is.
type recordedBatch struct {
	epoch    int16
	sequence int32
	offset   int64
	raw      []byte
}

// mostStreams bounds how many streams are remembered; the one that was not written to for
// the longest time is forgotten.
const mostStreams = 32

func (r *replayed) Target() string {
	text := fmt.Sprintf("the last %d batches", r.most)
	if producer, given := r.settings.filter("producer"); given {
		text += " of " + producer
	}
	if partition, given := r.settings.filter("partition"); given {
		text += " for " + partition
	}
	return text
}

func (r *replayed) Inject(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.remove == nil {
		r.remove = r.env.Cluster.Wire().Intercept(r)
	}
	return nil
}

// Decide marks the requests that it sends itself, and disturbs nothing.
func (r *replayed) Decide(x *wire.Exchange) wire.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sending == nil || x.Produce == nil || len(x.Produce.Batches) != 1 ||
		!slices.Equal(x.Produce.Batches[0].Raw(), r.sending.raw) {
		return wire.Pass()
	}
	return wire.Label(r.env.ID)
}

// Answered remembers the batches that are acknowledged.
func (r *replayed) Answered(x *wire.Exchange, answers []*wire.Answer) {
	if producer, given := r.settings.filter("producer"); given && producer != x.ClientID {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acted {
		return
	}
	for i, answer := range answers {
		if answer != nil && answer.Code == 0 && r.concerns(&x.Produce.Batches[i]) {
			r.remember(x.ClientID, &x.Produce.Batches[i], answer.BaseOffset)
		}
	}
}

func (r *replayed) concerns(b *wire.ProduceBatch) bool {
	if b.ProducerID < 0 || !slices.Contains(r.env.Topics, b.Topic) {
		return false
	}
	partition, given := r.settings.filter("partition")
	return !given || partition == partitionName(histories.Partition{Topic: b.Topic, Partition: b.Partition})
}

// remember keeps a batch; where a retry was acknowledged too, that changes nothing. It is
// called with mu held.
func (r *replayed) remember(client string, b *wire.ProduceBatch, offset int64) {
	of := &stream{client: client, partition: histories.Partition{Topic: b.Topic, Partition: b.Partition}, producerID: b.ProducerID}
	if i := slices.IndexFunc(r.streams, of.is); i >= 0 {
		of = r.streams[i]
		r.streams = slices.Delete(r.streams, i, i+1)
	}
	r.streams = append(r.streams, of)
	if len(r.streams) > mostStreams {
		r.streams = slices.Delete(r.streams, 0, 1)
	}
	known := func(other *recordedBatch) bool {
		return other.epoch == b.ProducerEpoch && other.sequence == b.BaseSequence
	}
	if slices.ContainsFunc(of.batches, known) {
		return
	}
	of.batches = append(of.batches, &recordedBatch{epoch: b.ProducerEpoch, sequence: b.BaseSequence, offset: offset,
		raw: slices.Clone(b.Raw())})
	if len(of.batches) > r.most {
		of.batches = slices.Delete(of.batches, 0, 1)
	}
}

func (s *stream) is(other *stream) bool {
	return s.client == other.client && s.partition == other.partition && s.producerID == other.producerID
}

// Act sends what was remembered again, the newest first, to whoever leads now.
func (r *replayed) Act(ctx context.Context) error {
	r.mu.Lock()
	var of stream
	if n := len(r.streams); n > 0 && !r.acted {
		of = *r.streams[n-1]
	}
	r.acted = true
	r.mu.Unlock()
	if len(of.batches) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.env.Cluster.Bootstrap()...), kgo.ClientID(of.client), kgo.RequestRetries(0))
	if err != nil { // its options are ours
		return fmt.Errorf("making a client to send batches again: %w", err)
	}
	defer client.Close()
	defer r.send(nil)
	for i, b := range slices.Backward(of.batches) {
		r.send(b)
		answer, err := sendAgain(ctx, r.env.Cluster, client, of.partition, b.raw)
		if err != nil {
			err = fmt.Errorf("sending the batch at sequence %d of %s again: %w", b.sequence, partitionName(of.partition), err)
			r.say(false, len(of.batches)-i, "no answer: "+err.Error())
			return err
		}
		r.say(true, len(of.batches)-i, answered(answer, b))
	}
	return nil
}

// send says what is being sent again now.
func (r *replayed) send(b *recordedBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending = b
}

// say keeps what came of a batch.
func (r *replayed) say(answered bool, fromLast int, what string) {
	name := "last"
	if fromLast > 1 {
		name = ordinal(int64(fromLast)) + "-last"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers, r.bit = append(r.answers, name+": "+what), r.bit || answered
}

// answered says a broker's answer, with the offset that it gave first.
func answered(answer wire.Answer, b *recordedBatch) string {
	text := histories.ErrorName(answer.Code)
	if answer.Code == 0 {
		text += fmt.Sprintf(" at %d (first: %d)", answer.BaseOffset, b.offset)
	}
	return text
}

// lastWithTopicNames is the last version of Produce requests that name topics (KIP-516).
const lastWithTopicNames = 12

// sendAgain sends one batch to the partition's leader and gives the answer.
func sendAgain(
	ctx context.Context, c clusters.Cluster, client *kgo.Client, to histories.Partition, raw []byte,
) (wire.Answer, error) {
	leader, err := clusters.LeaderOf(ctx, c, to.Topic, to.Partition)
	if err != nil {
		return wire.Answer{}, err
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Partition, partition.Records = to.Partition, raw
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = to.Topic, append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer, err := client.Broker(int(leader.Broker)).Request(ctx, pinnedProduce{request})
	if err != nil {
		return wire.Answer{}, fmt.Errorf("to broker %d: %w", leader.Broker, err)
	}
	produced, is := answer.(*kmsg.ProduceResponse)
	if !is || len(produced.Topics) != 1 || len(produced.Topics[0].Partitions) != 1 {
		return wire.Answer{}, errors.New("the answer is not about that batch")
	}
	told := produced.Topics[0].Partitions[0]
	return wire.Answer{Code: told.ErrorCode, BaseOffset: told.BaseOffset}, nil
}

// pinnedProduce is a Produce request that is sent in a version which names topics.
type pinnedProduce struct{ *kmsg.ProduceRequest }

// MaxVersion gives the newest version that names topics.
func (pinnedProduce) MaxVersion() int16 { return lastWithTopicNames }

// Heal sends what was not sent yet, and remembers no more. That it could not be sent
// leaves nothing behind: it stands in the evidence.
func (r *replayed) Heal(ctx context.Context) error {
	_ = r.Act(ctx)
	r.mu.Lock()
	remove := r.remove
	r.remove = nil
	r.mu.Unlock()
	if remove != nil {
		remove()
	}
	return nil
}

// Evidence says what the brokers answered.
func (r *replayed) Evidence() Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 {
		remembered := 0
		if n := len(r.streams); n > 0 {
			remembered = len(r.streams[n-1].batches)
		}
		return Evidence{Text: fmt.Sprintf("no batch was sent again; %d are remembered", remembered)}
	}
	return Evidence{Bit: r.bit, Text: strings.Join(r.answers, "; ")}
}
