// This file holds the fault that sends recorded batches again: what a client's retry
// after a lost answer looks like, byte for byte.

package nemesis

import (
	"bytes"
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
		Doc:  "the last batches of an idempotent producer are sent again, byte for byte, the newest first, when the fault ends",
		Settings: []Setting{
			number("batches", "5", "so many batches, of the partition that was written to last", 1),
			word("producer", anyOne, "of the client with this client.id"),
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			return &replayed{env: env, most: int(s.number("batches")), producer: s["producer"]}, nil
		},
	}
}

// replayed remembers batches while it is on. They are sent again by Act, or else by Heal.
type replayed struct {
	env      *Environment
	most     int
	producer string

	mu      sync.Mutex
	remove  func()
	batches []recordedBatch // the newest last
	acted   bool
	sending []byte // what is being sent again now
	answers []string
}

// recordedBatch is one batch as a client sent it.
type recordedBatch struct {
	client     string
	topic      string
	partition  int32
	producerID int64
	sequence   int32
	raw        []byte
}

func (r *replayed) Target() string {
	who := "any producer"
	if r.producer != anyOne {
		who = r.producer
	}
	return fmt.Sprintf("the last %d batches of %s", r.most, who)
}

func (r *replayed) Inject(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.remove == nil {
		r.remove = r.env.Cluster.Wire().Intercept(wire.InterceptorFunc(r.see))
	}
	return nil
}

// see remembers the batches of a request, and marks those that it sends itself.
func (r *replayed) see(x *wire.Exchange) wire.Decision {
	if x.Produce == nil {
		return wire.Pass()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(x.Produce.Batches) == 1 && r.sending != nil && bytes.Equal(x.Produce.Batches[0].Raw(), r.sending) {
		return wire.Label(r.env.ID)
	}
	if r.producer != anyOne && r.producer != x.ClientID {
		return wire.Pass()
	}
	for i := range x.Produce.Batches {
		r.remember(x.ClientID, &x.Produce.Batches[i])
	}
	return wire.Pass()
}

// remember keeps a batch that is new. It is called with mu held.
func (r *replayed) remember(client string, b *wire.ProduceBatch) {
	if b.ProducerID < 0 || !slices.Contains(r.env.Topics, b.Topic) {
		return
	}
	if n := len(r.batches); n > 0 {
		last := r.batches[n-1]
		switch {
		case last.topic != b.Topic || last.partition != b.Partition || last.producerID != b.ProducerID:
			r.batches = nil
		case b.BaseSequence <= last.sequence: // a retry of the client's
			return
		}
	}
	r.batches = append(r.batches, recordedBatch{client: client, topic: b.Topic, partition: b.Partition,
		producerID: b.ProducerID, sequence: b.BaseSequence, raw: slices.Clone(b.Raw())})
	if len(r.batches) > r.most {
		r.batches = r.batches[1:]
	}
}

// Act sends what was remembered again, the newest first, to whoever leads now.
func (r *replayed) Act(ctx context.Context) error {
	r.mu.Lock()
	batches := slices.Clone(r.batches)
	done := r.acted
	r.acted = true
	r.mu.Unlock()
	defer r.send(nil)
	if done || len(batches) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.env.Cluster.Bootstrap()...), kgo.ClientID(batches[0].client),
		kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("making a client to send batches again: %w", err)
	}
	defer client.Close()
	for i, b := range slices.Backward(batches) {
		r.send(b.raw)
		if err := r.sendAgain(ctx, client, b, len(batches)-i); err != nil {
			return err
		}
	}
	return nil
}

// send says what is being sent again now.
func (r *replayed) send(raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending = raw
}

// lastWithTopicNames is the last version of Produce requests that name topics (KIP-516).
const lastWithTopicNames = 12

// sendAgain sends one batch, and keeps what the broker said.
func (r *replayed) sendAgain(ctx context.Context, client *kgo.Client, b recordedBatch, fromLast int) error {
	leader, err := clusters.LeaderOf(ctx, r.env.Cluster, b.topic, b.partition)
	if err != nil {
		return fmt.Errorf("sending a batch again: %w", err)
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Partition, partition.Records = b.partition, b.raw
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = b.topic, append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer, err := client.Broker(int(leader.Broker)).Request(ctx, pinnedProduce{request})
	if err != nil {
		return fmt.Errorf("sending the batch at sequence %d of %s/%d again to broker %d: %w", b.sequence, b.topic, b.partition,
			leader.Broker, err)
	}
	produced, is := answer.(*kmsg.ProduceResponse)
	if !is || len(produced.Topics) != 1 || len(produced.Topics[0].Partitions) != 1 {
		return errors.New("sending a batch again: the answer is not about that batch")
	}
	told := produced.Topics[0].Partitions[0]
	text := histories.ErrorName(told.ErrorCode)
	if told.ErrorCode == 0 {
		text = fmt.Sprintf("%s at offset %d", text, told.BaseOffset)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, fmt.Sprintf("%d. from the end: %s", fromLast, text))
	return nil
}

// pinnedProduce is a Produce request that is sent in a version which names topics.
type pinnedProduce struct{ *kmsg.ProduceRequest }

// MaxVersion gives the newest version that names topics.
func (pinnedProduce) MaxVersion() int16 { return lastWithTopicNames }

// Heal sends what was not sent yet, and remembers no more.
func (r *replayed) Heal(ctx context.Context) error {
	err := r.Act(ctx)
	r.mu.Lock()
	remove := r.remove
	r.remove = nil
	r.mu.Unlock()
	if remove != nil {
		remove()
	}
	return err
}

// Evidence says what the brokers answered.
func (r *replayed) Evidence() Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 {
		return Evidence{Text: fmt.Sprintf("no batch was sent again; %d are remembered", len(r.batches))}
	}
	return Evidence{Bit: true, Text: strings.Join(r.answers, "; ")}
}
