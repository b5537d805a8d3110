// This file tests the promise table row by row, against doc/PROMISES.md as well.

package checker_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// row is a row of the matrix; the anomalies may happen where it says yes.
type row struct {
	acks, idempotence, inFlight, retries string
	lost, duplicate, disorder, lateGhost bool
}

// documentedRows reads the matrix of doc/PROMISES.md, every way in which a cell may
// be set spelled out.
func documentedRows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../doc/PROMISES.md")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{"any": {"1", "2", "5", "100"}, "> 1": {"2", "5"}, "1 to 5": {"1", "5"}, "> 0": {"1", "2147483647"}}
	spelled := func(cell string) []string {
		if v := values[cell]; v != nil {
			return v
		}
		return []string{cell}
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 11 || !strings.ContainsAny(cells[1], "123456789") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, inFlight := range spelled(cells[4]) {
			for _, retries := range spelled(cells[5]) {
				rows = append(rows, row{cells[2], cells[3], inFlight, retries, cells[6] == "yes", cells[7] == "yes",
					cells[8] == "yes", cells[9] == "yes"})
			}
		}
	}
	if len(rows) < 20 {
		t.Fatalf("only %d rows were read", len(rows))
	}
	return rows
}

func (r row) configuration() checker.Configuration {
	return checker.Configuration{Topic: map[string]string{}, Producer: map[string]string{
		histories.PropertyAcks: r.acks, histories.PropertyIdempotence: r.idempotence,
		histories.PropertyMaxInFlight: r.inFlight, histories.PropertyRetries: r.retries}}
}

func promised(t *testing.T, c checker.Configuration) map[checker.Anomaly]checker.Promise {
	t.Helper()
	promises, err := checker.Promises(c)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[checker.Anomaly]checker.Promise)
	for _, p := range promises {
		if p.Reason == "" {
			t.Errorf("%s has no reason", p.Anomaly)
		}
		byName[p.Anomaly] = p
	}
	if len(byName) != len(checker.Anomalies()) {
		t.Errorf("%d promises for %d anomalies", len(byName), len(checker.Anomalies()))
	}
	return byName
}

func TestTheTableIsTheDocumentedMatrix(t *testing.T) {
	for _, r := range documentedRows(t) {
		promises := promised(t, r.configuration())
		for name, allowed := range map[checker.Anomaly]bool{checker.LostWrite: r.lost, checker.Duplicate: r.duplicate,
			checker.OrderViolation: r.disorder, checker.LateGhost: r.lateGhost} {
			if p := promises[name]; p.Promised == nil || *p.Promised == allowed {
				t.Errorf("%+v: %s promised %v (%s)", r, name, p.Promised, p.Reason)
			}
		}
	}
}

// always are promised under every configuration without effects.
var always = []checker.Anomaly{checker.Corrupt, checker.Phantom, checker.ImpossibleWrite, checker.WrongPlace, checker.FutureRead,
	checker.SkippedPoll, checker.BackwardPoll, checker.Unseen, checker.ReplicaDivergence, checker.NotRecovered}

func TestEveryOtherAnomalyHasItsEntryInEveryRow(t *testing.T) {
	untilUnclean := []checker.Anomaly{checker.Divergence, checker.VanishedRead, checker.EpochRegression}
	withAcksAll := []checker.Anomaly{checker.RealtimeOrderViolation, checker.WrongOffset}
	for _, r := range documentedRows(t) {
		for _, unclean := range []bool{false, true} {
			c := r.configuration()
			if unclean {
				c.Effects = []string{histories.EffectUncleanElection}
			}
			for name, p := range promised(t, c) {
				var want bool
				switch {
				case slices.Contains(always, name):
					want = true
				case slices.Contains(untilUnclean, name):
					want = !unclean
				case slices.Contains(withAcksAll, name):
					want = !unclean && r.acks == "all"
				default:
					continue
				}
				if p.Promised == nil || *p.Promised != want {
					t.Errorf("%+v, unclean %v: %s promised %v, want %v", r, unclean, name, p.Promised, want)
				}
			}
		}
	}
}

func TestWhatTakesPromisesAway(t *testing.T) {
	full := row{acks: "all", idempotence: "true", inFlight: "5", retries: "2147483647"}
	for _, c := range []struct {
		rule   string
		change func(*checker.Configuration)
		gone   []checker.Anomaly
	}{
		{"nothing, when nothing happened", func(*checker.Configuration) {}, nil},
		{"an unclean election", func(c *checker.Configuration) { c.Effects = []string{histories.EffectUncleanElection} },
			[]checker.Anomaly{checker.LostWrite, checker.WrongOffset, checker.Duplicate, checker.OrderViolation, checker.LateGhost,
				checker.RealtimeOrderViolation, checker.Divergence, checker.VanishedRead, checker.EpochRegression}},
		{"a lost disk", func(c *checker.Configuration) { c.Effects = []string{histories.EffectDiskLost} },
			[]checker.Anomaly{checker.LostWrite, checker.WrongOffset, checker.Duplicate, checker.OrderViolation, checker.LateGhost,
				checker.RealtimeOrderViolation, checker.Divergence, checker.VanishedRead, checker.EpochRegression}},
		{"unclean elections that are allowed", func(c *checker.Configuration) { c.Topic[histories.PropertyUncleanElection] = "true" },
			[]checker.Anomaly{checker.LostWrite, checker.WrongOffset, checker.Duplicate, checker.OrderViolation, checker.LateGhost,
				checker.RealtimeOrderViolation, checker.Divergence, checker.VanishedRead, checker.EpochRegression}},
		{"compaction", func(c *checker.Configuration) { c.Topic[histories.PropertyCleanupPolicy] = "compact,delete" },
			[]checker.Anomaly{checker.LostWrite}},
		{"deleted records", func(c *checker.Configuration) { c.Effects = []string{histories.EffectRecordsDeleted} },
			[]checker.Anomaly{checker.LostWrite}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			configuration := full.configuration()
			c.change(&configuration)
			for name, p := range promised(t, configuration) {
				if p.Promised == nil || *p.Promised == slices.Contains(c.gone, name) {
					t.Errorf("%s promised %v (%s)", name, p.Promised, p.Reason)
				}
			}
		})
	}
}

func TestWhatIsNotKnownIsPromisedOnlyWhereEveryValueAgrees(t *testing.T) {
	for _, c := range []struct {
		rule     string
		producer map[string]string
		open     []checker.Anomaly // promised is null
		yes, no  []checker.Anomaly
	}{
		{"without any configuration only what always holds is judged", nil,
			[]checker.Anomaly{checker.LostWrite, checker.Duplicate, checker.OrderViolation, checker.LateGhost, checker.WrongOffset,
				checker.Divergence}, always, nil},
		{"acks=all alone settles loss", map[string]string{"acks": "all"},
			[]checker.Anomaly{checker.Duplicate, checker.OrderViolation, checker.LateGhost},
			[]checker.Anomaly{checker.LostWrite, checker.WrongOffset, checker.Divergence}, nil},
		{"idempotence alone settles everything, since Kafka refuses it with less than acks=all", map[string]string{"enable.idempotence": "true"},
			nil, []checker.Anomaly{checker.LostWrite, checker.Duplicate, checker.OrderViolation, checker.LateGhost}, nil},
		{"acks=1 settles that loss is allowed", map[string]string{"acks": "1"}, []checker.Anomaly{checker.Duplicate},
			nil, []checker.Anomaly{checker.LostWrite, checker.LateGhost}},
		{"retries=0 settles duplicates", map[string]string{"retries": "0"}, []checker.Anomaly{checker.LostWrite},
			[]checker.Anomaly{checker.Duplicate}, []checker.Anomaly{checker.LateGhost}},
		{"with five in flight a producer may be idempotent",
			map[string]string{"acks": "all", "retries": "9", "max.in.flight.requests.per.connection": "5"},
			[]checker.Anomaly{checker.Duplicate, checker.OrderViolation}, []checker.Anomaly{checker.LostWrite}, nil},
		{"with six it cannot be, since Kafka refuses that",
			map[string]string{"acks": "all", "retries": "9", "max.in.flight.requests.per.connection": "6"},
			nil, []checker.Anomaly{checker.LostWrite}, []checker.Anomaly{checker.Duplicate, checker.OrderViolation}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			promises := promised(t, checker.Configuration{Producer: c.producer})
			for _, name := range c.open {
				if promises[name].Promised != nil {
					t.Errorf("%s promised %v, want null", name, *promises[name].Promised)
				}
			}
			for want, names := range map[bool][]checker.Anomaly{true: c.yes, false: c.no} {
				for _, name := range names {
					if p := promises[name]; p.Promised == nil || *p.Promised != want {
						t.Errorf("%s promised %v, want %v", name, p.Promised, want)
					}
				}
			}
		})
	}
}

func TestReasonsSayWhatAPromiseRestsOn(t *testing.T) {
	known := row{acks: "all", idempotence: "true", inFlight: "5", retries: "9"}.configuration()
	for _, c := range []struct {
		rule   string
		change func(c *checker.Configuration)
		of     checker.Anomaly
		begins string
	}{
		{"every property is known", func(*checker.Configuration) {}, checker.LostWrite, "acks=all: confirmed only when"},
		{"every possible value agrees", func(c *checker.Configuration) { c.Producer = map[string]string{"acks": "all"} },
			checker.LostWrite, "whatever the configuration is: acks=all: confirmed only when"},
		{"what is missing is named", func(c *checker.Configuration) { c.Producer = nil }, checker.LostWrite,
			"depends on the configuration, which the history does not say ("},
		{"keys spread where partitions were added", func(c *checker.Configuration) {
			c.Effects = []string{histories.EffectPartitionsAdded}
		}, checker.WrongPlace, "an event lies where it was sent to (keys may spread over partitions here: partitions were added)"},
		{"keys spread where the topic was made anew", func(c *checker.Configuration) {
			c.Effects = []string{histories.EffectTopicRecreated}
		}, checker.WrongPlace, "an event lies where it was sent to (keys may spread over partitions here: the topic was made anew)"},
		{"keys spread by round robin", func(c *checker.Configuration) {
			c.Producer[histories.PropertyPartitioner] = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
		}, checker.WrongPlace, "an event lies where it was sent to (keys may spread over partitions here: " +
			"partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			configuration := known
			configuration.Producer = maps.Clone(known.Producer)
			c.change(&configuration)
			if p := promised(t, configuration)[c.of]; !strings.HasPrefix(p.Reason, c.begins) {
				t.Errorf("the reason is %q, want %q", p.Reason, c.begins)
			}
		})
	}
}

func TestAValueThatNoKafkaKnowsIsRefused(t *testing.T) {
	for _, c := range []checker.Configuration{
		{Producer: map[string]string{"acks": "2"}}, {Producer: map[string]string{"enable.idempotence": "yes"}},
		{Producer: map[string]string{"retries": "many"}}, {Producer: map[string]string{"max.in.flight.requests.per.connection": ""}},
		{Topic: map[string]string{"unclean.leader.election.enable": "maybe"}},
	} {
		var wrong *checker.ConfigurationError
		if _, err := checker.Promises(c); !errors.As(err, &wrong) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
