// This file holds what every provider does in the same way, through Kafka's admin
// protocol.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminClientID is the client id of our own administration, so that it can be told
// from the clients under test.
const adminClientID = "ackproof-admin"

// admin asks and changes a cluster through the admin protocol.
type admin struct {
	client    *kadm.Client
	inner     *kgo.Client
	bootstrap []string

	mu sync.Mutex
	// single are clients of one broker each, by its place in bootstrap.
	single map[int]*kgo.Client
	closed bool
}

// newAdmin makes an admin client of the cluster behind the addresses. It connects
// when it is first used.
func newAdmin(bootstrap []string) (*admin, error) {
	inner, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ClientID(adminClientID),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryTimeout(10*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	)
	if err != nil {
		return nil, fmt.Errorf("making an admin client of %v: %w", bootstrap, err)
	}
	return &admin{client: kadm.NewClient(inner), inner: inner, bootstrap: bootstrap}, nil
}

func (a *admin) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, client := range a.single {
		client.Close()
	}
	a.inner.Close()
}

func (a *admin) createTopic(ctx context.Context, t Topic) error {
	properties := make(map[string]*string, len(t.Properties))
	for name, value := range t.Properties {
		properties[name] = kadm.StringPtr(value)
	}
	answer, err := a.client.CreateTopic(ctx, t.Partitions, t.ReplicationFactor, properties, t.Name)
	if err != nil {
		if answer.ErrMessage != "" {
			return fmt.Errorf("creating topic %s: %w: %s", t.Name, err, answer.ErrMessage)
		}
		return fmt.Errorf("creating topic %s (%d partitions, replication factor %d, %v): %w",
			t.Name, t.Partitions, t.ReplicationFactor, t.Properties, err)
	}
	return nil
}

// addPartitions makes a topic have so many partitions. Where it has as many, nothing is
// wrong: the client asks again when no answer comes, and then is told INVALID_PARTITIONS
// though its first request was carried out.
func (a *admin) addPartitions(ctx context.Context, topic string, to int32) error {
	answers, err := a.client.UpdatePartitions(ctx, int(to), topic)
	answer := answers[topic]
	if err == nil {
		err = answer.Err
	}
	if errors.Is(err, kerr.InvalidPartitions) {
		if topics, asking := a.client.ListTopics(ctx, topic); asking == nil && len(topics[topic].Partitions) == int(to) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("making topic %s have %d partitions: %w %s", topic, to, err, answer.ErrMessage)
	}
	return nil
}

// awaitLeaders waits until every partition of the topic has a leader.
func awaitLeaders(ctx context.Context, c Cluster, topic string, partitions int32) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		leaders, err := c.Leaders(ctx, topic)
		led := int32(0)
		for _, l := range leaders {
			if l.Broker != NoLeader {
				led++
			}
		}
		if err == nil && led == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a leader of each of the %d partitions of %s, %d have one: %w",
				partitions, topic, led, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

func (a *admin) topicProperties(ctx context.Context, topic string) (map[string]string, error) {
	described, err := a.client.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describing the properties of topic %s: %w", topic, err)
	}
	of, err := described.On(topic, nil)
	if err == nil {
		err = of.Err
	}
	if err != nil {
		return nil, fmt.Errorf("describing the properties of topic %s: %w", topic, err)
	}
	properties := make(map[string]string, len(of.Configs))
	for _, c := range of.Configs {
		if c.Value != nil && !c.Sensitive {
			properties[c.Key] = *c.Value
		}
	}
	return properties, nil
}

func (a *admin) logEnds(ctx context.Context, topic string) ([]int64, error) {
	listed, err := a.client.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("listing the log ends of topic %s: %w", topic, err)
	}
	ends := make([]int64, len(listed[topic]))
	for partition, end := range listed[topic] {
		if partition < 0 || int(partition) >= len(ends) {
			return nil, fmt.Errorf("listing the log ends of topic %s: partition %d of %d", topic, partition, len(ends))
		}
		ends[partition] = end.Offset
	}
	return ends, nil
}

// whole gives nil where the metadata lists each of the brokers, each answers, and
// every partition has a leader and all its replicas in sync.
func (a *admin) whole(ctx context.Context, brokers []int32) error {
	// kadm would answer from what the client has seen before.
	request := kmsg.NewPtrMetadataRequest()
	metadata, err := request.RequestWith(ctx, a.inner)
	if err != nil {
		return fmt.Errorf("asking the cluster for its metadata: %w", err)
	}
	var what []string
	for _, id := range brokers {
		switch {
		case !slices.ContainsFunc(metadata.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == id }):
			what = append(what, fmt.Sprintf("broker %d is away", id))
		default:
			if _, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, a.inner.Broker(int(id))); err != nil {
				what = append(what, fmt.Sprintf("broker %d does not answer: %v", id, err))
			}
		}
	}
	for i := range metadata.Topics {
		what = append(what, missingOf(&metadata.Topics[i])...)
	}
	return missing(what)
}

// missingOf says what a topic is missing.
func missingOf(topic *kmsg.MetadataResponseTopic) (what []string) {
	name := "(topic " + fmt.Sprintf("%x", topic.TopicID) + ")"
	if topic.Topic != nil {
		name = *topic.Topic
	}
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		what = append(what, fmt.Sprintf("topic %s: %v", name, err))
	}
	for _, p := range topic.Partitions {
		switch {
		case p.Leader < 0:
			what = append(what, fmt.Sprintf("%s/%d has no leader", name, p.Partition))
		case len(p.ISR) < len(p.Replicas):
			what = append(what, fmt.Sprintf("%s/%d has %d of %d replicas in sync", name, p.Partition,
				len(p.ISR), len(p.Replicas)))
		}
	}
	return what
}
