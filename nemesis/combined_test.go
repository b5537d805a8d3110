// This file tests faults on the wire that are on at once: each does its own, and what is
// not its business it leaves alone.

package nemesis

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

// told gives the attempts of a client in the order in which they were sent, once the fate
// of each is known.
func (s *stage) told(client string) []wire.Attempt {
	s.Helper()
	if err := s.cluster.Wire().Settled(s.ctx); err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts := slices.DeleteFunc(slices.Clone(s.attempts), func(a wire.Attempt) bool { return a.ClientID != client })
	slices.SortFunc(attempts, func(a, b wire.Attempt) int { return a.Sent.Compare(b.Sent) })
	return attempts
}

func TestARefusalHoldsOnlyItsOwnBusiness(t *testing.T) {
	for _, c := range []struct {
		rule   string
		faults []string
		client string
		sends  int
		held   time.Duration
	}{
		{"another producer's requests are not held", []string{"refuse:every=100,late=1m,producer=a", "refuse:every=100,late=1m,producer=b"},
			"c", 3, 0},
		{"records of another key are not held", []string{"refuse:every=100,late=1m,key=other"}, "a", 3, 0},
		{"requests for another partition are not held", []string{"refuse:every=100,late=1m,partition=orders/1"}, "a", 3, 0},
		{"nothing is held once it has acted as often as it may", []string{"refuse:every=1,count=1,late=1m,retries=never"}, "a", 3, 0},
		{"its own requests are", []string{"refuse:every=100,late=100ms,producer=a", "refuse:every=100,late=1m,producer=b"}, "a", 1,
			100 * time.Millisecond},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			s := setStage(t, false)
			player, client := s.byHand(t), s.client(c.client, kgo.RetryBackoffFn(soon))
			for _, fault := range c.faults {
				s.begin(t, player, fault)
			}
			for range c.sends {
				s.produce(t, client, "k", "event")
			}
			for _, a := range s.told(c.client) {
				if took := a.Ended.Sub(a.Sent); took < c.held || took > time.Minute {
					t.Errorf("it took %v, and is to be held for %v", took, c.held)
				}
			}
		})
	}
}

func TestTheFirstAttemptIsLostAndItsRetryIsRefused(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	lost := s.begin(t, player, "lost-response:every=1,count=1,producer=p0")
	refused := s.begin(t, player, "refuse:error=UNKNOWN_PRODUCER_ID,every=1,count=1,retries=only,producer=p0")
	s.produce(t, s.client("p1"), "k", "another's")
	s.produce(t, s.client("p0", kgo.RetryBackoffFn(soon)), "k", "event")
	attempts := s.told("p0")
	if len(attempts) != 3 {
		t.Fatalf("there were %d attempts: %+v", len(attempts), attempts)
	}
	if a := attempts[0]; a.Fault != lost || a.Answer != nil || !a.Reached {
		t.Errorf("the first attempt: %+v", a)
	}
	if a := attempts[1]; a.Fault != refused || a.Answer == nil || histories.ErrorName(a.Answer.Code) != "UNKNOWN_PRODUCER_ID" || a.Reached {
		t.Errorf("its retry: %+v", a)
	}
	if a := attempts[2]; a.Fault != "" || a.Answer == nil || a.Answer.Code != 0 {
		t.Errorf("the last attempt: %+v", a)
	}
	// The client began a new epoch, under which the broker knows no batch.
	if log := s.logs()[0]; !slices.Equal(log, []string{"another's", "event", "event"}) {
		t.Errorf("the log holds %q", log)
	}
}

func TestNothingReachesABrokerWhileEveryRequestIsCut(t *testing.T) {
	s := setStage(t, false)
	player := s.byHand(t)
	id := s.begin(t, player, "cut-before:every=1")
	result := make(chan error, 1)
	s.client("p", kgo.RetryBackoffFn(soon)).Produce(s.ctx, &kgo.Record{Topic: s.topic, Value: []byte("event")},
		func(_ *kgo.Record, err error) { result <- err })
	s.until("it was tried several times", func() bool { return len(s.faulted()) >= 5 })
	if ends, err := s.cluster.LogEnds(s.ctx, s.topic); err != nil || ends[0] != 0 {
		t.Errorf("the log ends at %v, %v", ends, err)
	}
	s.end(t, player, id)
	if err := <-result; err != nil {
		t.Errorf("once nothing is cut any more: %v", err)
	}
	for _, a := range s.faulted() {
		if a.Reached || a.Lost != wire.LostConnection {
			t.Errorf("an attempt that was cut: %+v", a)
		}
	}
	if log := s.logs()[0]; !slices.Equal(log, []string{"event"}) {
		t.Errorf("the log holds %q", log)
	}
}
