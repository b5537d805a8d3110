// This file holds how faults are aimed at brokers: by the role that one has, or by
// its id.

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/clusters"
)

// The roles by which a broker is chosen. Each is a value of the setting broker, and a
// suffix of a fault's name: isolate-leader is isolate:broker=leader.
const (
	roleLeader                 = "leader"
	roleFollower               = "follower"
	roleController             = "controller"
	roleGroupCoordinator       = "group-coordinator"
	roleTransactionCoordinator = "transaction-coordinator"
	roleLastInSync             = "last-in-sync"
)

func roles() []string {
	return []string{roleLeader, roleFollower, roleController, roleGroupCoordinator, roleTransactionCoordinator,
		roleLastInSync, randomOne}
}

// brokerSettings are the settings by which a fault is aimed at brokers.
func brokerSettings() []Setting {
	settings := []Setting{
		nodeOr("broker", roleLeader, "the broker that it is aimed at, by its role or its id; also a suffix of the name, as -leader",
			roles()...),
		partitionFilter(randomOne, "with broker=leader, follower and last-in-sync: of which partition", randomOne),
		word("coordinates", "ackproof", "with the coordinators: the group.id or the transactional.id"),
	}
	for i := range settings {
		settings[i].shared = true
	}
	return settings
}

// splitRole gives the fault and the role that a name with a suffix stands for.
func splitRole(name string) (fault, role string, is bool) {
	for _, role := range roles() {
		fault, found := strings.CutSuffix(name, "-"+role)
		if !found {
			continue
		}
		if f, err := Find(fault); err == nil {
			if setting, has := f.setting("broker"); has && setting.Values == nodeOr("", "", "", roles()...).Values {
				return fault, role, true
			}
		}
	}
	return "", "", false
}

// chooseBroker gives the broker that the settings name, and why it is that one.
func chooseBroker(ctx context.Context, env *Environment, s Settings) (broker int32, why string, err error) {
	switch role := s["broker"]; role {
	case roleLeader, roleFollower, roleLastInSync:
		return chooseReplica(ctx, env, s, role)
	case roleController, roleGroupCoordinator, roleTransactionCoordinator:
		return chooseRole(ctx, env, s, role)
	case randomOne:
		all := env.Cluster.Description().Brokers
		broker = all[env.Random.IntN(len(all))]
		return broker, fmt.Sprintf("broker %d", broker), nil
	}
	broker, _ = s.filterID("broker", "")
	if !slices.Contains(env.Cluster.Description().Brokers, broker) {
		return 0, "", fmt.Errorf("there is no broker %d (there is: %v)", broker, env.Cluster.Description().Brokers)
	}
	return broker, fmt.Sprintf("broker %d", broker), nil
}

// chooseReplica chooses by what a broker is to a partition.
func chooseReplica(ctx context.Context, env *Environment, s Settings, role string) (int32, string, error) {
	if role == roleLastInSync && s.is("partition", randomOne) {
		return chooseLastInSync(ctx, env)
	}
	chosen, err := choosePartitions(ctx, env, s["partition"])
	if err != nil {
		return 0, "", err
	}
	p := chosen[0]
	if role == roleLeader {
		return p.Broker, fmt.Sprintf("leader of %s: broker %d", p.Name(), p.Broker), nil
	}
	if role == roleLastInSync {
		if len(p.InSync) != 1 {
			return 0, "", fmt.Errorf("%s has %d replicas in sync, not one", p.Name(), len(p.InSync))
		}
		return p.InSync[0], fmt.Sprintf("last in-sync replica of %s: broker %d", p.Name(), p.InSync[0]), nil
	}
	followers := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == p.Broker })
	if len(followers) == 0 {
		return 0, "", fmt.Errorf("%s has no follower", p.Name())
	}
	broker := followers[env.Random.IntN(len(followers))]
	return broker, fmt.Sprintf("follower of %s: broker %d", p.Name(), broker), nil
}

// chooseLastInSync chooses among the partitions that have one replica in sync.
func chooseLastInSync(ctx context.Context, env *Environment) (int32, string, error) {
	leaders, err := env.Cluster.Leaders(ctx, env.Topics...)
	if err != nil {
		return 0, "", err
	}
	alone := slices.DeleteFunc(leaders, func(l clusters.Leader) bool { return len(l.InSync) != 1 })
	if len(alone) == 0 {
		return 0, "", errors.New("no partition of the run has just one replica in sync")
	}
	p := alone[env.Random.IntN(len(alone))]
	return p.InSync[0], fmt.Sprintf("last in-sync replica of %s: broker %d", p.Name(), p.InSync[0]), nil
}

// chooseRole chooses by what a broker is to the cluster.
func chooseRole(ctx context.Context, env *Environment, s Settings, role string) (broker int32, why string, err error) {
	teller, can := env.Cluster.(clusters.RoleTeller)
	if !can {
		return 0, "", fmt.Errorf("the cluster does not tell which broker is the %s", role)
	}
	name := s["coordinates"]
	switch role {
	case roleController:
		broker, err = teller.Controller(ctx)
		why = fmt.Sprintf("active controller: broker %d", broker)
	case roleGroupCoordinator:
		broker, err = teller.GroupCoordinator(ctx, name)
		why = fmt.Sprintf("coordinator of the group %s: broker %d", name, broker)
	default:
		broker, err = teller.TransactionCoordinator(ctx, name)
		why = fmt.Sprintf("coordinator of the transactional id %s: broker %d", name, broker)
	}
	return broker, why, err
}

// others gives the brokers that are not among these.
func others(env *Environment, brokers ...int32) []int32 {
	return slices.DeleteFunc(slices.Clone(env.Cluster.Description().Brokers),
		func(id int32) bool { return slices.Contains(brokers, id) })
}

// leadership follows what becomes of the partitions that some brokers lead.
type leadership struct {
	env     *Environment
	brokers []int32
	before  []clusters.Leader
	// led and moved count partitions: that the brokers led before, and that were led
	// by another one, or under another epoch, when the fault was undone.
	led, moved int
}

// look notes who leads. What cannot be told is left out of the evidence.
func (l *leadership) look(ctx context.Context) {
	l.before, _ = l.env.Cluster.Leaders(ctx, l.env.Topics...)
	for _, p := range l.before {
		if slices.Contains(l.brokers, p.Broker) {
			l.led++
		}
	}
}

// lookAgain counts what moved.
func (l *leadership) lookAgain(ctx context.Context) {
	now, err := l.env.Cluster.Leaders(ctx, l.env.Topics...)
	if err != nil {
		return
	}
	l.moved = 0
	for i, p := range l.before {
		if i < len(now) && slices.Contains(l.brokers, p.Broker) && now[i].Broker != p.Broker && now[i].Broker != clusters.NoLeader {
			l.moved++
		}
	}
}

// text says what became of the leaderships.
func (l *leadership) text() string {
	if l.before == nil {
		return "nobody could tell who leads"
	}
	if l.led == 0 {
		return "it led no partition"
	}
	return fmt.Sprintf("%d of the %d partitions that it led moved to another leader", l.moved, l.led)
}

// backLimit is how long the replicas of a broker that came back are waited for.
const backLimit = 15 * time.Second

// awaitInSync waits until the brokers' replicas of the run's partitions are in sync
// again, so that the next fault finds a whole cluster; not for ever, since what is on
// beside this fault may hold them back.
func awaitInSync(ctx context.Context, env *Environment, brokers ...int32) (back bool) {
	limited, cancel := context.WithTimeout(ctx, backLimit)
	defer cancel()
	for {
		leaders, err := env.Cluster.Leaders(limited, env.Topics...)
		lacks := slices.ContainsFunc(leaders, func(p clusters.Leader) bool {
			return slices.ContainsFunc(brokers, func(id int32) bool {
				return p.Broker == clusters.NoLeader || (slices.Contains(p.Replicas, id) && !slices.Contains(p.InSync, id))
			})
		})
		if err == nil && !lacks {
			return true
		}
		if sleep(limited, 200*time.Millisecond) != nil {
			return false
		}
	}
}

// names gives brokers as "broker 1" or "brokers 1, 3".
func names(brokers []int32) string {
	if len(brokers) == 1 {
		return fmt.Sprintf("broker %d", brokers[0])
	}
	parts := make([]string, 0, len(brokers))
	for _, id := range brokers {
		parts = append(parts, fmt.Sprint(id))
	}
	return "brokers " + strings.Join(parts, ", ")
}
