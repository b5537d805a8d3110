// This file compares the checker with the oracle on random small histories, and
// holds what must be true of healthy ones.

package checker_test

import (
	"fmt"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// randomCases is how many histories each property is tried on; ACKPROOF_RANDOM_CASES
// asks for more.
func randomCases(t *testing.T, n int) int {
	t.Helper()
	text := os.Getenv("ACKPROOF_RANDOM_CASES")
	if text == "" {
		return n
	}
	more, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ACKPROOF_RANDOM_CASES: %v", err)
	}
	return more
}

func TestHealthyHistoriesAreHeld(t *testing.T) {
	for seed := range randomCases(t, 1000) {
		h := randomHistory(rand.New(rand.NewSource(int64(seed))), true)
		v := check(t, h)
		for name, part := range v.Anomalies {
			if part.Count > 0 {
				t.Fatalf("seed %d: %s: %s\n%s", seed, name, part.Instances[0].Text, show(h))
			}
		}
		if v.Verdict != checker.Held || v.SecondJudge.Verdict != checker.Held {
			t.Fatalf("seed %d: %s (%s), the second judge %s\n%s", seed, v.Verdict, v.Summary, v.SecondJudge.Verdict, show(h))
		}
	}
}

func TestNothingIsFoundWhereOutcomesAreUnknownButAllIsWell(t *testing.T) {
	for seed := range randomCases(t, 1000) {
		h := randomHistory(rand.New(rand.NewSource(int64(seed))), false)
		v := check(t, h)
		for name, part := range v.Anomalies {
			if part.Count > 0 {
				t.Fatalf("seed %d: %s: %s\n%s", seed, name, part.Instances[0].Text, show(h))
			}
		}
	}
}

func TestCheckerAgreesWithTheOracle(t *testing.T) {
	met := map[checker.Anomaly]int{}
	for seed := range randomCases(t, 4000) {
		r := rand.New(rand.NewSource(int64(seed)))
		h := randomHistory(r, r.Intn(3) == 0)
		if r.Intn(4) == 0 {
			h.Head.Clock = ""
		}
		if r.Intn(6) == 0 {
			h.Head.Producer = map[string]string{histories.PropertyAcks: []string{"0", "1"}[r.Intn(2)],
				histories.PropertyIdempotence: "false", histories.PropertyMaxInFlight: "5", histories.PropertyRetries: "3"}
		}
		if r.Intn(6) == 0 {
			h.Head.Effects = []string{histories.EffectUncleanElection}
		}
		damage(r, h, r.Intn(5))
		if r.Intn(3) == 0 {
			withoutFinalRead(h)
		}
		for name := range compare(t, seed, h) {
			met[name]++
		}
	}
	for _, d := range checker.Anomalies() {
		if met[d.Name] == 0 {
			t.Errorf("the damage never produced %s, so nothing was compared", d.Name)
		}
	}
}

// compare checks a history by both and gives what the oracle found.
func compare(t *testing.T, seed int, h *histories.Memory) map[checker.Anomaly][]string {
	t.Helper()
	v, o := check(t, h), consult(h)
	for _, d := range checker.Anomalies() {
		got := named(v, d.Name)
		if part := v.Anomalies[d.Name]; part.Count != int64(len(part.Instances)) {
			t.Fatalf("seed %d: %s: count %d of %d instances", seed, d.Name, part.Count, len(part.Instances))
		}
		if !slices.Equal(got, o.found[d.Name]) {
			t.Fatalf("seed %d: %s\nchecker %q\noracle  %q\n%s", seed, d.Name, got, o.found[d.Name], show(h))
		}
	}
	for _, i := range v.Anomalies[checker.RealtimeOrderViolation].Instances {
		if pair := i.Events[0] + " before " + i.Events[1]; !o.realtimePairs[pair] {
			t.Fatalf("seed %d: realtime order: %s is no such pair\n%s", seed, pair, show(h))
		}
	}
	counts := fmt.Sprint(v.Counts.Holes, v.Counts.Ghosts, v.Counts.StaleDuplicates, v.Counts.UnconfirmedLosses,
		v.Anomalies[checker.OrderViolation].Moved)
	if want := fmt.Sprint(o.holes, o.ghosts, o.stale, o.unconfirmed, o.moved); counts != want {
		t.Fatalf("seed %d: holes, ghosts, stale duplicates, unconfirmed losses, moved: checker %s, oracle %s\n%s",
			seed, counts, want, show(h))
	}
	if found := len(o.found[checker.RealtimeOrderViolation]) > 0; v.SecondJudge.Verdict != checker.UnknownWord &&
		found != (v.SecondJudge.Verdict == checker.Violated) {
		t.Fatalf("seed %d: porcupine says %s, realtime order violations: %v\n%s", seed, v.SecondJudge.Verdict, found, show(h))
	}
	return o.found
}

// named gives what a verdict found of an anomaly by the oracle's names.
func named(v *checker.Verdict, name checker.Anomaly) []string {
	var names []string
	for _, i := range v.Anomalies[name].Instances {
		names = append(names, nameOfInstance(name, i))
	}
	sort.Strings(names)
	return slices.Compact(names)
}

func nameOfInstance(name checker.Anomaly, i checker.Instance) string {
	at := histories.Partition{Topic: i.Topic, Partition: i.Partition}
	place := oraclePlace{at, i.Offset}.String()
	switch name { //nolint:exhaustive // the others are named by their event
	case checker.OrderViolation:
		return i.Events[0] + " before " + i.Events[1]
	case checker.WrongOffset:
		return fmt.Sprintf("%s not at %d", i.Events[0], i.Offset)
	case checker.Divergence, checker.EpochRegression, checker.Corrupt, checker.SkippedPoll, checker.BackwardPoll,
		checker.ReplicaDivergence:
		return place
	case checker.VanishedRead:
		return i.Events[0] + " at " + place
	case checker.WrongPlace:
		if len(i.Events) > 1 {
			parts := strings.Split(i.Events[0], "/")
			return "key " + parts[1]
		}
		return i.Events[0]
	case checker.NotRecovered:
		if i.Topic == "" {
			return "not whole"
		}
		return fmt.Sprint(at)
	case checker.Unseen:
		if len(i.Events) == 0 {
			return fmt.Sprintf("%s/%d", i.Topic, i.Partition)
		}
	}
	return i.Events[0]
}

// show writes a history for a person to read.
func show(h *histories.Memory) string {
	var text strings.Builder
	fmt.Fprintf(&text, "acks=%s\n", h.Head.Producer[histories.PropertyAcks])
	for _, l := range h.Body {
		fmt.Fprintln(&text, line(l))
	}
	return text.String()
}

func line(l histories.Line) string {
	switch l := l.(type) {
	case *histories.Send:
		again := ""
		if l.ResendOf != nil {
			again = fmt.Sprintf(" again after %d", l.ResendOf.Number)
		}
		return fmt.Sprintf("%d send %s#%d %s to %d key %s rank %d%s", l.Time, l.Process, l.Number, l.Event, l.Partition, l.OrderingKey,
			l.Rank, again)
	case *histories.SendReturn:
		return fmt.Sprintf("%d return %s#%d %d@%d %s%s closed=%v %s", l.Time, l.Process, l.Number, l.Partition, l.Offset, l.Error,
			l.ClientError, l.Closed, l.Stated)
	case *histories.PollReturn:
		return fmt.Sprintf("%d poll %s#%d %v %s", l.Time, l.Process, l.Number, l.Records, l.Stated)
	case *histories.Attempt:
		return fmt.Sprintf("%d attempt %s %v %s%s", l.Time, l.Process, l.Sends, l.Answer, l.Lost)
	case *histories.FinalRecords:
		return fmt.Sprintf("final %d epoch %d %v", l.Partition.Partition, l.LeaderEpoch, l.Records.Records)
	case *histories.PositionChange:
		return fmt.Sprintf("%d %s %s %v", l.Time, l.How, l.Process, l.Partitions)
	}
	return fmt.Sprintf("%T %+v", l, l)
}
