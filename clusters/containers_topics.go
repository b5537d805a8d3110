// This file holds what is done to topics and partitions.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic creates a topic and returns when every broker knows it, with a leader of
// every partition, and every leader serves: brokers learn of it one after the other,
// and whichever is asked next must not say that there is no such topic, or that it
// does not lead it.
func (c *Containers) CreateTopic(ctx context.Context, t Topic) error {
	if err := c.admin.createTopic(ctx, t); err != nil {
		return err
	}
	return c.awaitTopic(ctx, t)
}

// AddPartitions makes a topic have so many partitions.
func (c *Containers) AddPartitions(ctx context.Context, topic string, to int32) error {
	if err := c.admin.addPartitions(ctx, topic, to); err != nil {
		return err
	}
	return c.awaitTopic(ctx, Topic{Name: topic, Partitions: to})
}

// awaitTopic waits until every broker knows the topic with its partitions, and they serve.
func (c *Containers) awaitTopic(ctx context.Context, t Topic) error {
	return poll(ctx, 20*time.Millisecond, func() error {
		views := c.admin.views(ctx, []string{t.Name})
		if len(views) < len(c.nodes) {
			return fmt.Errorf("waiting until every broker knows topic %s: %d of %d answer in time", t.Name, len(views), len(c.nodes))
		}
		for _, v := range views {
			if err := v.knows(t); err != nil {
				return fmt.Errorf("waiting until broker %d knows topic %s: %w", v.index+1, t.Name, err)
			}
		}
		_, err := c.admin.logEnds(ctx, t.Name)
		return err
	})
}

// knows gives nil where the view has the topic with all its partitions led.
func (v view) knows(t Topic) error {
	if v.err != nil {
		return v.err
	}
	topic := &v.metadata.Topics[0]
	if lacks := missingOf(topic); len(lacks) > 0 {
		return errors.New(lacks[0])
	}
	if len(topic.Partitions) != int(t.Partitions) {
		return fmt.Errorf("it knows %d of %d partitions", len(topic.Partitions), t.Partitions)
	}
	return nil
}

// TopicProperties gives the properties in force of a topic.
func (c *Containers) TopicProperties(ctx context.Context, topic string) (map[string]string, error) {
	return c.admin.topicProperties(ctx, topic)
}

// LogEnds gives the end of each partition's log.
func (c *Containers) LogEnds(ctx context.Context, topic string) ([]int64, error) {
	return c.admin.logEnds(ctx, topic)
}

// MoveLeader makes the broker the leader of the partition, as an operator does: it
// becomes the preferred replica, and the preferred replica is elected.
func (c *Containers) MoveLeader(ctx context.Context, topic string, partition, broker int32) error {
	what := fmt.Sprintf("moving the leadership of %s/%d to broker %d", topic, partition, broker)
	leader, err := LeaderOf(ctx, c, topic, partition)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Contains(leader.InSync, broker) {
		return fmt.Errorf("%s: it is not in sync (in sync are %v)", what, leader.InSync)
	}
	if err := c.prefer(ctx, leader, broker); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := c.elect(ctx, kadm.ElectPreferredReplica, topic, partition); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return poll(ctx, 20*time.Millisecond, func() error {
		now, err := LeaderOf(ctx, c, topic, partition)
		if err == nil && now.Broker != broker {
			err = fmt.Errorf("%s: broker %d leads still", what, now.Broker)
		}
		return err
	})
}

// prefer puts the broker first in the partition's list of replicas.
func (c *Containers) prefer(ctx context.Context, leader Leader, broker int32) error {
	if leader.Replicas[0] == broker {
		return nil
	}
	replicas := slices.DeleteFunc(slices.Clone(leader.Replicas), func(id int32) bool { return id == broker })
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(leader.Topic, leader.Partition, append([]int32{broker}, replicas...))
	answer, err := c.admin.client.AlterPartitionAssignments(ctx, request)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		return fmt.Errorf("making it the preferred replica: %w", err)
	}
	return poll(ctx, 20*time.Millisecond, func() error {
		now, err := LeaderOf(ctx, c, leader.Topic, leader.Partition)
		if err == nil && now.Replicas[0] != broker {
			err = errors.New("it has not become the preferred replica")
		}
		return err
	})
}

func (c *Containers) elect(ctx context.Context, how kadm.ElectLeadersHow, topic string, partition int32) error {
	var set kadm.TopicsSet
	set.Add(topic, partition)
	results, err := c.admin.client.ElectLeaders(ctx, how, set)
	if err == nil {
		err = results[topic][partition].Err
	}
	if errors.Is(err, kerr.ElectionNotNeeded) {
		return nil // it is so already
	}
	if err != nil {
		return fmt.Errorf("electing its leader: %w", err)
	}
	return nil
}

// ElectUnclean elects any living replica of a partition that has no leader.
func (c *Containers) ElectUnclean(ctx context.Context, topic string, partition int32) (Leader, error) {
	if err := c.elect(ctx, kadm.ElectLiveReplica, topic, partition); err != nil {
		return Leader{}, fmt.Errorf("an unclean election of %s/%d: %w", topic, partition, err)
	}
	var leader Leader
	err := poll(ctx, 20*time.Millisecond, func() (err error) {
		leader, err = LeaderOf(ctx, c, topic, partition)
		return err
	})
	return leader, err
}

// eligibleFeature is the level from which on the controller keeps eligible leader replicas: 1.
const eligibleFeature = "eligible.leader.replicas.version"

// EligibleLeaders gives the partition's eligible leader replicas (KIP-966).
func (c *Containers) EligibleLeaders(ctx context.Context, topic string, partition int32) ([]int32, error) {
	if level := c.description.Features[eligibleFeature]; level == "" || level == "0" {
		return nil, nil // a broker without it may not know the request either
	}
	of := kmsg.NewDescribeTopicPartitionsRequestTopic()
	of.Topic = topic
	request := kmsg.NewPtrDescribeTopicPartitionsRequest()
	request.Topics = append(request.Topics, of)
	response, err := request.RequestWith(ctx, c.admin.inner)
	if err != nil {
		return nil, fmt.Errorf("asking for the eligible leader replicas of %s/%d: %w", topic, partition, err)
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p.EligibleLeaderReplicas, nil
			}
		}
	}
	return nil, fmt.Errorf("asking for the eligible leader replicas of %s/%d: the broker does not know the partition",
		topic, partition)
}
