// This file holds the workload: which event each producer hands over next, and
// when.

package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// pick is what a producer hands over next.
type pick struct{ topic, key string }

// sequence draws the events of one producer from the seed: the same seed gives the
// same events in the same order, however fast they are sent.
type sequence struct {
	random *rand.Rand
	topics []string
	keys   []string
}

func newSequence(seed int64, producer int, topics []string, keys int) *sequence {
	s := &sequence{random: rand.New(rand.NewPCG(uint64(seed), uint64(producer)+1)), topics: topics}
	for k := range keys {
		s.keys = append(s.keys, fmt.Sprintf("k%d", k))
	}
	return s
}

// next gives the next event. A key belongs to one topic, so that its events have
// one order.
func (s *sequence) next() pick {
	k := s.random.IntN(len(s.keys))
	return pick{topic: s.topics[k%len(s.topics)], key: s.keys[k]}
}

// pace lets events through at a rate. It catches up after a short stall, but not
// after a long one: what a blocked client could not be offered is not made up for.
type pace struct {
	perSecond float64
	started   time.Time
	sent      float64
}

// catchUp bounds the burst after a stall.
const catchUp = 250 * time.Millisecond

// tick is how often a producer looks whether it is due; small enough for batches
// to form by linger.ms and not by us.
const tick = time.Millisecond

// due waits until at least one event is due and gives how many are; zero when the
// context ended.
func (p *pace) due(ctx context.Context) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0
		case now := <-timer.C:
			owed := now.Sub(p.started).Seconds()*p.perSecond - p.sent
			if limit := max(p.perSecond*catchUp.Seconds(), 1); owed > limit {
				p.sent += owed - limit
				owed = limit
			}
			if owed >= 1 {
				p.sent += float64(int(owed))
				return int(owed)
			}
			timer.Reset(tick)
		}
	}
}
