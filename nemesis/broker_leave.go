// This file holds the fault that lets a broker leave the cluster for a while.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ackproof/ackproof/clusters"
)

// leaderBroker stands for the broker that leads a partition.
const leaderBroker = "leader"

func brokerLeave() Fault {
	return Fault{
		Name: "broker-leave",
		Doc:  "a broker closes its listener and its connections, its leaderships move; it returns under its id",
		Settings: []Setting{
			nodeOr("broker", leaderBroker, "the broker, the one that leads partition, or a drawn one", leaderBroker, randomOne),
			partitionFilter(randomOne, "with broker=leader: whose leader", randomOne),
		},
		available: func(c clusters.Cluster, _ Settings) error {
			if _, can := c.(clusters.MemberMover); !can {
				return errors.New("its brokers cannot be told to leave")
			}
			if len(c.Description().Brokers) < 2 {
				return errors.New("it has one broker, which cannot leave")
			}
			return nil
		},
		aim: aimBroker,
	}
}

// departure is the injection.
type departure struct {
	members clusters.MemberMover
	cluster clusters.Cluster
	topics  []string
	broker  int32
	target  string

	mu sync.Mutex
	// tried: Leave was called, so Return is owed whatever it said.
	tried, left, returned   bool
	all, ledBefore, ledAway int
}

func aimBroker(ctx context.Context, env *Environment, s Settings) (Injection, error) {
	members, can := env.Cluster.(clusters.MemberMover)
	if !can {
		return nil, errors.New("the cluster's brokers cannot be told to leave")
	}
	d := &departure{members: members, cluster: env.Cluster, topics: env.Topics}
	switch {
	case s.is("broker", randomOne):
		brokers := members.MayLeave()
		d.broker = brokers[env.Random.IntN(len(brokers))]
		d.target = fmt.Sprintf("broker %d", d.broker)
	case s.is("broker", leaderBroker):
		chosen, err := chooseLeaver(ctx, env, members, s["partition"])
		if err != nil {
			return nil, err
		}
		d.broker = chosen.Broker
		d.target = fmt.Sprintf("leader of %s: broker %d", chosen.Name(), d.broker)
	default:
		d.broker, _ = s.filterID("broker", randomOne)
		d.target = fmt.Sprintf("broker %d", d.broker)
	}
	return d, nil
}

// chooseLeaver gives the partition whose leader is to leave: a drawn one's may leave
// where there is such a one.
func chooseLeaver(ctx context.Context, env *Environment, members clusters.MemberMover, value string) (clusters.Leader, error) {
	if value != randomOne {
		chosen, err := choosePartitions(ctx, env, value)
		if err != nil {
			return clusters.Leader{}, err
		}
		return chosen[0], nil
	}
	all, err := choosePartitions(ctx, env, everyOne)
	if err != nil {
		return clusters.Leader{}, err
	}
	may := slices.DeleteFunc(slices.Clone(all), func(l clusters.Leader) bool {
		return !slices.Contains(members.MayLeave(), l.Broker)
	})
	if len(may) == 0 {
		may = all
	}
	return may[env.Random.IntN(len(may))], nil
}

func (d *departure) Target() string { return d.target }

func (d *departure) Inject(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.ledBefore, d.all, err = d.led(ctx); err != nil {
		return err
	}
	d.tried = true
	if err := d.members.Leave(ctx, d.broker); err != nil {
		d.tried = !errors.Is(err, clusters.ErrAway) // another fault sent it away, and will bring it back
		return err
	}
	d.left = true
	d.ledAway, _, err = d.led(ctx)
	return err
}

// led counts the run's partitions that the broker leads.
func (d *departure) led(ctx context.Context) (led, all int, err error) {
	leaders, err := d.cluster.Leaders(ctx, d.topics...)
	if err != nil {
		return 0, 0, err
	}
	for _, l := range leaders {
		if l.Broker == d.broker {
			led++
		}
	}
	return led, len(leaders), nil
}

func (d *departure) Heal(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.tried {
		return nil
	}
	if err := d.members.Return(ctx, d.broker); err != nil {
		return err
	}
	d.tried, d.returned = false, d.left
	return nil
}

func (d *departure) Evidence() Evidence {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.left {
		return Evidence{Text: fmt.Sprintf("broker %d did not leave", d.broker)}
	}
	back := "it is away"
	if d.returned {
		back = "it returned"
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("broker %d left: it led %d of %d partitions before and %d while it was "+
		"away; %s", d.broker, d.ledBefore, d.all, d.ledAway, back)}
}
