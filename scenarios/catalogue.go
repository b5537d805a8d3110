// This file holds what a scenario of the catalogue is: a claim about Kafka, told as an
// article would tell it, the configuration and the steps that try it, and what is
// expected of each client. The scenarios themselves stand in catalogue_*.go.

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// Named is a scenario of the catalogue: a claim, and the experiment that tries it. It is
// plain data and does not change.
type Named struct {
	Name string
	// Claim in one line.
	Claim string
	// Story explains it, as an article would: paragraphs, separated by empty lines.
	Story string
	// Sources of the claim and of the explanation.
	Sources []string
	// Disputed is what some articles say instead; empty: nobody does, as far as is known.
	Disputed string
	// OnlyContainers says why it does not show on the embedded cluster; empty: it does.
	OnlyContainers string
	// Essence are the properties and faults without which it shows nothing, as a person
	// may break them: each a change that is to make it fail.
	Essence []Break

	// configure changes what every scenario of the catalogue starts from.
	configure func(*Scenario)
	// properties of the producers that depend on the client; nil: none.
	properties func(Subject) map[string]string
	// expect gives what is expected of a subject, in numbers.
	expect func(Subject) []checker.Expectation
	// violates gives the broken promises that are expected, because of a known hole; nil: none.
	violates func(Subject) []checker.Anomaly
	// choosePartition: the script names the partition of every send.
	choosePartition bool
	// play does the steps.
	play func(*script)
}

// Break is one change that takes a scenario's essence away.
type Break struct {
	// Producer and Topic properties over the scenario's; NoFaults: its faults are left out.
	Producer, Topic map[string]string
	NoFaults        bool
}

// String says the change as it is said to verify run.
func (b Break) String() string {
	var flags []string
	if b.NoFaults {
		flags = append(flags, "--faults none")
	}
	if len(b.Producer) > 0 {
		flags = append(flags, "--producer "+joined(b.Producer))
	}
	if len(b.Topic) > 0 {
		flags = append(flags, "--topic-config "+joined(b.Topic))
	}
	return strings.Join(flags, " ")
}

func joined(properties map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		parts = append(parts, name+"="+properties[name])
	}
	return strings.Join(parts, ",")
}

// Subject is what a scenario is played on: what is expected may depend on it.
type Subject struct {
	// Client is the client library and ClientVersion its version, as "java" and "4.4.0".
	Client, ClientVersion string
	// Provider of the cluster, and the brokers' version where they are real.
	Provider, Kafka string
}

// Java says whether the client is Apache's own.
func (s Subject) Java() bool { return s.Client == histories.ClientJava }

// FranzGo says whether the client is franz-go.
func (s Subject) FranzGo() bool { return s.Client == histories.ClientFranzGo }

// Real says whether the brokers are Kafka's own.
func (s Subject) Real() bool { return s.Provider != ProviderEmbedded }

// JavaBefore says whether the client is Apache's own and older than major.minor.
func (s Subject) JavaBefore(major, minor int) bool {
	if !s.Java() {
		return false
	}
	parts := strings.SplitN(s.ClientVersion, ".", 3)
	if len(parts) < 2 {
		return false
	}
	gotMajor, err := strconv.Atoi(parts[0])
	gotMinor, errMinor := strconv.Atoi(parts[1])
	return err == nil && errMinor == nil && (gotMajor < major || (gotMajor == major && gotMinor < minor))
}

// Expectations gives what is expected of a subject.
func (n Named) Expectations(s Subject) []checker.Expectation { return n.expect(s) }

// Violates gives the promises that the scenario is expected to see broken, by a known hole.
func (n Named) Violates(s Subject) []checker.Anomaly {
	if n.violates == nil {
		return nil
	}
	return n.violates(s)
}

// catalogue holds the scenarios in the order in which they are told. It is made when the
// program starts, since a script may look into it.
var catalogue []Named

func init() {
	for _, chapter := range [][]Named{
		retriesAndOrder(),
		idempotence(),
		sessions(),
		acknowledgements(),
		errorAnswers(),
		producersOwn(),
	} {
		catalogue = append(catalogue, chapter...)
	}
}

// Catalogue gives every named scenario, in the order in which they are told.
func Catalogue() []Named { return append([]Named(nil), catalogue...) }

// Find gives the scenario of a name, of the catalogue or a reproduction. An error names
// the nearest one.
func Find(name string) (Named, error) {
	nearest, least := "", len(name)/2+1
	for _, n := range slices.Concat(catalogue, reproductions) {
		if n.Name == name {
			return n, nil
		}
		if d := levenshtein.ComputeDistance(name, n.Name); d < least {
			nearest, least = n.Name, d
		}
	}
	hint := ""
	if nearest != "" {
		hint = fmt.Sprintf("; did you mean %q?", nearest)
	}
	return Named{}, inputError("there is no scenario named %q%s (verify scenarios lists them; a file is named with its path, "+
		"as ./mine.yaml)", name, hint)
}

// What every scenario of the catalogue starts from: small batches that leave at once, so
// that a fault on one request is a fault on one event, and timeouts of a size that lets
// it end in under a minute.
const (
	scriptValueSize      = 200
	scriptBatchSize      = "512"
	scriptRequestTimeout = "3000"
	// scriptMetadataAge lets franz-go ask for metadata every second after an error; by
	// itself it waits for five.
	scriptMetadataAge = "1000"
	// scriptDuration is how long it may take at most, once the cluster is up.
	scriptDuration = time.Minute
)

// Scenario gives the scenario to play on a cluster of the provider, with its defaults.
func (n Named) Scenario(provider string) Scenario {
	s := DefaultOn(provider)
	s.Name, s.Script = n.Name, n.Name
	s.Duration = scriptDuration
	s.Topics.Partitions = 1
	s.Workload.Producers, s.Workload.Consumers, s.Workload.Keys = 1, 1, 1
	s.Workload.Rate, s.Workload.ValueSize = 1, scriptValueSize
	s.Producer = map[string]string{histories.PropertyLinger: "0", histories.PropertyBatchSize: scriptBatchSize,
		histories.PropertyRequestTimeout: scriptRequestTimeout, histories.PropertyCompression: "none",
		"metadata.max.age.ms": scriptMetadataAge}
	s.Faults = FaultsPart{}
	s.Limits = LimitsPart{Drain: 10 * time.Second, Whole: time.Minute, Read: time.Minute}
	if n.configure != nil {
		n.configure(&s)
	}
	return s
}

// withClient adds what depends on the client that was chosen.
func (n Named) withClient(s *Scenario, subject Subject) {
	if n.properties != nil {
		for name, value := range n.properties(subject) {
			s.Producer[name] = value
		}
	}
	maps.Copy(s.Producer, s.ProducerGiven)
	s.Expect, s.Violates = n.expect(subject), n.Violates(subject)
}

// The forms of an expectation.

// atLeast expects a measure to be at least so much: where it is less, the scenario proved
// nothing.
func atLeast(measure string, least float64, why string) checker.Expectation {
	return checker.Expectation{Measure: measure, Least: &least, Why: why}
}

// atMost expects a measure to be at most so much: where it is more, reality differs.
func atMost(measure string, most float64, why string) checker.Expectation {
	return checker.Expectation{Measure: measure, Most: &most, Why: why}
}

// exactly expects a measure to be so much.
func exactly(measure string, value float64, why string) checker.Expectation {
	return checker.Expectation{Measure: measure, Least: &value, Most: &value, Why: why}
}

// none expects that there is none of it.
func none(measure, why string) checker.Expectation { return atMost(measure, 0, why) }

// setProducer gives a change of producer properties, "name=value" each.
func setProducer(pairs ...string) func(*Scenario) {
	return func(s *Scenario) {
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			s.Producer[name] = value
		}
	}
}

// with gives properties, "name=value" each.
func with(pairs ...string) map[string]string {
	properties := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		properties[name] = value
	}
	return properties
}
