// This file holds what is asked of the brokers one by one: who leads, whether the
// cluster is whole, and who has which role. Every broker is asked, because a broker
// that is cut off or was frozen tells what was true once.

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/secrets"
)

// Limits of asking one broker, and how long those that have not answered are waited
// for when a majority has.
const (
	askLimit       = 2 * time.Second
	stragglerLimit = 300 * time.Millisecond
)

// askOne asks the broker of an address, by its place in the bootstrap list, and nobody
// else.
func (a *admin) askOne(ctx context.Context, index int, request kmsg.Request) (kmsg.Response, error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, ErrClosed
	}
	if a.single == nil {
		a.single = make(map[int]*kgo.Client)
	}
	client := a.single[index]
	if client == nil {
		var err error
		client, err = kgo.NewClient(kgo.SeedBrokers(a.bootstrap[index]), kgo.ClientID(adminClientID),
			kgo.RequestRetries(0), kgo.DialTimeout(askLimit))
		if err != nil {
			a.mu.Unlock()
			return nil, fmt.Errorf("making a client of %s: %w", a.bootstrap[index], err)
		}
		a.single[index] = client
	}
	a.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	response, err := client.SeedBrokers()[0].Request(limited, request)
	if err != nil {
		return nil, fmt.Errorf("asking the broker at %s: %w", a.bootstrap[index], err)
	}
	return response, nil
}

// view is what one broker says of the cluster.
type view struct {
	index    int
	metadata *kmsg.MetadataResponse
	err      error
}

// views asks every broker for its metadata of the topics (none: of all), and gives
// the answers that came in time: not later than a moment after the majority's.
func (a *admin) views(ctx context.Context, topics []string) []view {
	asking, cancel := context.WithCancel(ctx)
	answers := make(chan view, len(a.bootstrap))
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	for i := range a.bootstrap {
		asked.Go(func() {
			response, err := a.askOne(asking, i, metadataRequest(topics))
			v := view{index: i, err: err}
			if err == nil {
				v.metadata, _ = response.(*kmsg.MetadataResponse)
			}
			answers <- v
		})
	}
	var all []view
	good := 0
	var late <-chan time.Time
	for len(all) < len(a.bootstrap) {
		select {
		case v := <-answers:
			all = append(all, v)
			if v.err == nil {
				good++
			}
			if good > len(a.bootstrap)/2 && late == nil {
				late = time.After(stragglerLimit)
			}
		case <-late:
			return all
		}
	}
	return all
}

func metadataRequest(topics []string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// Leaders gives who leads each partition of the topics: what the broker says that
// knows the highest leader epoch.
func (c *Containers) Leaders(ctx context.Context, topics ...string) ([]Leader, error) {
	newest := make(map[string]map[int32]Leader)
	var errs []error
	for _, v := range c.admin.views(ctx, topics) {
		if v.err != nil {
			errs = append(errs, v.err)
			continue
		}
		for i := range v.metadata.Topics {
			if err := takeLeaders(newest, &v.metadata.Topics[i]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	var leaders []Leader
	for _, topic := range topics {
		if len(newest[topic]) == 0 {
			return nil, fmt.Errorf("no broker tells who leads topic %s: %w", topic, errors.Join(errs...))
		}
		for _, partition := range slices.Sorted(maps.Keys(newest[topic])) {
			leaders = append(leaders, newest[topic][partition])
		}
	}
	return leaders, nil
}

// takeLeaders takes what is newer than what is known.
func takeLeaders(newest map[string]map[int32]Leader, topic *kmsg.MetadataResponseTopic) error {
	if topic.Topic == nil {
		return nil
	}
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		return fmt.Errorf("topic %s: %w", *topic.Topic, err)
	}
	known := newest[*topic.Topic]
	if known == nil {
		known = make(map[int32]Leader)
		newest[*topic.Topic] = known
	}
	for _, p := range topic.Partitions {
		before, has := known[p.Partition]
		// With the same epoch, a view without a leader is the newer one: an epoch
		// begins with a leader.
		sameEpoch := has && p.LeaderEpoch == before.Epoch && p.Leader >= 0 && len(p.ISR) >= len(before.InSync)
		if sameEpoch || (has && p.LeaderEpoch < before.Epoch) {
			continue
		}
		leader := Leader{Topic: *topic.Topic, Partition: p.Partition, Broker: p.Leader, Epoch: p.LeaderEpoch,
			Replicas: p.Replicas, InSync: p.ISR}
		if p.Leader < 0 {
			leader.Broker = NoLeader
		}
		known[p.Partition] = leader
	}
	return nil
}

// Whole gives nil where every broker runs and answers, all agree that every partition
// has a leader and all its replicas in sync, and every voter of the metadata quorum
// is up to date.
func (c *Containers) Whole(ctx context.Context) error {
	if _, err := c.node(1); err != nil {
		return err
	}
	var what []string
	answered := make(map[int]bool)
	for _, v := range c.admin.views(ctx, nil) {
		answered[v.index] = v.err == nil
		if v.err != nil {
			what = append(what, fmt.Sprintf("broker %d does not answer (%v)", v.index+1, v.err))
			continue
		}
		for _, lack := range lacks(v.metadata, c.description.Brokers) {
			what = append(what, fmt.Sprintf("%s, says broker %d", lack, v.index+1))
		}
	}
	for i := range c.nodes {
		if _, known := answered[i]; !known {
			what = append(what, fmt.Sprintf("broker %d answers late", i+1))
		}
	}
	if len(what) > 0 {
		return missing(what)
	}
	return c.quorumWhole(ctx)
}

// lacks says what a broker's view of the cluster lacks.
func lacks(metadata *kmsg.MetadataResponse, brokers []int32) (what []string) {
	for _, id := range brokers {
		if !slices.ContainsFunc(metadata.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == id }) {
			what = append(what, fmt.Sprintf("broker %d is no member", id))
		}
	}
	for i := range metadata.Topics {
		what = append(what, missingOf(&metadata.Topics[i])...)
	}
	return what
}

// mostQuorumLag is how far behind the active controller a voter of a whole quorum may
// be: it fetches every half second at least, and the log grows by an entry as often.
const (
	mostQuorumLag  = 20
	mostQuorumWait = 3 * time.Second
)

// quorumWhole gives nil where the metadata quorum has a leader and every voter has
// fetched from it a moment ago.
func (c *Containers) quorumWhole(ctx context.Context) error {
	quorum, err := c.admin.quorum(ctx)
	if err != nil {
		return err
	}
	var what []string
	ends := make(map[int32]int64)
	for _, v := range quorum.CurrentVoters {
		ends[v.ReplicaID] = v.LogEndOffset
	}
	for _, v := range quorum.CurrentVoters {
		if v.ReplicaID == quorum.LeaderID {
			continue
		}
		if behind := ends[quorum.LeaderID] - v.LogEndOffset; behind > mostQuorumLag {
			what = append(what, fmt.Sprintf("controller %d is %d entries behind the active one", v.ReplicaID, behind))
		}
		if v.LastFetchTimestamp > 0 && v.LastCaughtUpTimestamp > 0 &&
			time.Duration(newestFetch(quorum)-v.LastFetchTimestamp)*time.Millisecond > mostQuorumWait {
			what = append(what, fmt.Sprintf("controller %d has not fetched from the active one for more than %s", v.ReplicaID,
				mostQuorumWait))
		}
	}
	if len(quorum.CurrentVoters) != len(c.nodes) {
		what = append(what, fmt.Sprintf("the metadata quorum has %d voters of %d", len(quorum.CurrentVoters), len(c.nodes)))
	}
	return missing(what)
}

// newestFetch is when the last fetch of any voter came, on the active controller's
// clock.
func newestFetch(quorum *kmsg.DescribeQuorumResponseTopicPartition) int64 {
	newest := int64(0)
	for _, v := range quorum.CurrentVoters {
		newest = max(newest, v.LastFetchTimestamp)
	}
	return newest
}

// quorum asks for the state of the metadata quorum; any broker leads the question to
// the active controller.
func (a *admin) quorum(ctx context.Context) (*kmsg.DescribeQuorumResponseTopicPartition, error) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	request.Topics = append(request.Topics, topic)
	var errs []error
	for i := range a.bootstrap {
		response, err := a.askOne(ctx, i, request)
		if err == nil {
			var partition *kmsg.DescribeQuorumResponseTopicPartition
			if partition, err = quorumOf(response); err == nil {
				return partition, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("asking for the state of the metadata quorum: %w", errors.Join(errs...))
}

func quorumOf(response kmsg.Response) (*kmsg.DescribeQuorumResponseTopicPartition, error) {
	quorum, is := response.(*kmsg.DescribeQuorumResponse)
	if !is {
		return nil, fmt.Errorf("the answer is a %T", response)
	}
	if err := kerr.ErrorForCode(quorum.ErrorCode); err != nil {
		return nil, err
	}
	if len(quorum.Topics) != 1 || len(quorum.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer is not about the one partition of the metadata")
	}
	partition := &quorum.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
		return nil, err
	}
	if partition.LeaderID < 0 {
		return nil, errors.New("the metadata quorum has no leader")
	}
	return partition, nil
}

// Controller gives the active controller.
func (c *Containers) Controller(ctx context.Context) (int32, error) {
	quorum, err := c.admin.quorum(ctx)
	if err != nil {
		return NoLeader, err
	}
	return quorum.LeaderID, nil
}

// GroupCoordinator gives who coordinates the group.
func (c *Containers) GroupCoordinator(ctx context.Context, group string) (int32, error) {
	return coordinator(ctx, group, func() kadm.FindCoordinatorResponses {
		return c.admin.client.FindGroupCoordinators(ctx, group)
	})
}

// TransactionCoordinator gives who coordinates the transactional id.
func (c *Containers) TransactionCoordinator(ctx context.Context, transactionalID string) (int32, error) {
	return coordinator(ctx, transactionalID, func() kadm.FindCoordinatorResponses {
		return c.admin.client.FindTxnCoordinators(ctx, transactionalID)
	})
}

// coordinator asks until a broker tells: the first one that is asked makes the topic
// that holds the answer.
func coordinator(ctx context.Context, name string, find func() kadm.FindCoordinatorResponses) (broker int32, err error) {
	broker = NoLeader
	err = poll(ctx, 100*time.Millisecond, func() error {
		found, has := find()[name]
		if !has {
			return fmt.Errorf("no broker tells who coordinates %q", name)
		}
		if found.Err != nil {
			return fmt.Errorf("asking who coordinates %q: %w", name, found.Err)
		}
		broker = found.NodeID
		return nil
	})
	return broker, err
}

// features gives the finalised features.
func (a *admin) features(ctx context.Context) (map[string]string, error) {
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = adminClientID, "1" // a broker refuses who has none
	response, err := a.askOne(ctx, 0, request)
	if err != nil {
		return nil, fmt.Errorf("asking for the finalised features: %w", err)
	}
	versions, is := response.(*kmsg.ApiVersionsResponse)
	if !is {
		return nil, fmt.Errorf("asking for the finalised features: the answer is a %T", response)
	}
	features := make(map[string]string)
	for _, f := range versions.FinalizedFeatures {
		features[f.Name] = strconv.Itoa(int(f.MaxVersionLevel))
	}
	return features, nil
}

// propertiesLimit bounds the asking for properties: brokers that are gone do not
// answer.
const propertiesLimit = 5 * time.Second

// documentProperties writes the properties in force of every broker into its folder.
func (a *admin) documentProperties(ctx context.Context, folder string, brokers []int32) error {
	ctx, cancel := context.WithTimeout(ctx, propertiesLimit)
	defer cancel()
	described, err := a.client.DescribeBrokerConfigs(ctx, brokers...)
	if err != nil {
		return fmt.Errorf("asking the brokers for their properties: %w", err)
	}
	for _, broker := range described {
		if broker.Err != nil {
			return fmt.Errorf("asking broker %s for its properties: %w", broker.Name, broker.Err)
		}
		properties := make(map[string]string)
		for _, p := range broker.Configs {
			if p.Value != nil && !p.Sensitive && !secrets.Name(p.Key) {
				properties[p.Key] = *p.Value
			}
		}
		text, err := json.MarshalIndent(properties, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the properties of broker %s: %w", broker.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, broker.Name, "properties-in-force.json"), append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the properties of broker %s: %w", broker.Name, err)
		}
	}
	return nil
}
