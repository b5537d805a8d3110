// Package scenarios holds what is played: the scenario, its YAML form with every
// default spelled out, and the runner that plays one from the cluster's start to
// the verdict.
package scenarios

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/nemesis"
)

// Format is the first line of a scenario file and its version.
const Format = "ackproof-scenario/1"

// Scenario is everything that decides what is played. Saved after the schedule is
// drawn, it plays the same schedule and workload again.
type Scenario struct {
	Format   string        `yaml:"format"`
	Name     string        `yaml:"name"`
	Seed     int64         `yaml:"seed"`
	Duration time.Duration `yaml:"duration"`
	Cluster  ClusterPart   `yaml:"cluster"`
	Topics   TopicsPart    `yaml:"topics"`
	Workload WorkloadPart  `yaml:"workload"`
	// Producer properties under Kafka's names; what is absent stays at the
	// client library's own default.
	Producer map[string]string `yaml:"producer"`
	// ProducerGiven are those that the user put over a scenario of the catalogue: they
	// hold for every producer of its script.
	ProducerGiven map[string]string `yaml:"producer.given,omitempty"`
	// Script names the scenario of the catalogue whose steps are played: then rate, keys
	// and schedule say nothing.
	Script string     `yaml:"script,omitempty"`
	Faults FaultsPart `yaml:"faults"`
	// Expect says what is expected, in numbers, and Violates which promises are expected
	// to be broken, because of a hole that is known.
	Expect   []checker.Expectation `yaml:"expect,omitempty"`
	Violates []checker.Anomaly     `yaml:"violates,omitempty"`
	Limits   LimitsPart            `yaml:"limits"`
	// Versions of everything that took part, for the record.
	Versions map[string]string `yaml:"versions,omitempty"`
}

// ClusterPart says which cluster is started.
type ClusterPart struct {
	// Provider is ProviderEmbedded or ProviderContainers.
	Provider string `yaml:"provider"`
	Brokers  int    `yaml:"brokers"`
	// The rest is for brokers in containers alone. Kafka is their version; Image is
	// used instead of one that is chosen by it.
	Kafka string `yaml:"kafka,omitempty"`
	Image string `yaml:"image,omitempty"`
	// Listen is where the first broker's address for clients is taken; the others
	// take the ports after it. Port 0: free ones.
	Listen string `yaml:"listen,omitempty"`
	// Memory that each broker may take, and the size of its data volume (0: as large
	// as the disk), in MiB.
	MemoryMiB int64 `yaml:"broker.memory.mib,omitempty"`
	DiskMiB   int64 `yaml:"broker.disk.mib,omitempty"`
	// Properties of the brokers under Kafka's names, over those that every cluster in
	// containers has.
	Properties map[string]string `yaml:"properties,omitempty"`
}

// The providers of clusters.
const (
	ProviderEmbedded   = "embedded"
	ProviderContainers = "containers"
)

// DefaultKafka is the version of the brokers where none is named.
const DefaultKafka = "4.1.0"

// TopicsPart says which topics are created.
type TopicsPart struct {
	// Prefix of the topics' names, so that runs on one cluster do not meet.
	Prefix            string `yaml:"prefix"`
	Count             int    `yaml:"count"`
	Partitions        int32  `yaml:"partitions"`
	ReplicationFactor int16  `yaml:"replication.factor"`
	// Properties of the topics under Kafka's names.
	Properties map[string]string `yaml:"properties"`
}

// WorkloadPart says what the clients do.
type WorkloadPart struct {
	// Client is the client library: see Clients. Exec is used instead where it is given:
	// a program that speaks the protocol of clients/PROTOCOL.md, and its arguments.
	Client    string   `yaml:"client"`
	Exec      []string `yaml:"client.exec,omitempty"`
	Producers int      `yaml:"producers"`
	Consumers int      `yaml:"consumers"`
	Keys      int      `yaml:"keys"`
	// Rate is what all producers together are offered, in events per second.
	Rate float64 `yaml:"rate"`
	// ValueSize in bytes.
	ValueSize int `yaml:"value.size"`
}

// FaultsPart says what the nemesis does.
type FaultsPart struct {
	// Asked is what was asked for, as with --faults.
	Asked string `yaml:"asked"`
	// Overlap lets different faults be on at the same time.
	Overlap bool `yaml:"overlap,omitempty"`
	// AllowLies lets faults be injected that no healthy broker shows.
	AllowLies bool `yaml:"allow.lies,omitempty"`
	// Schedule is when each is injected; drawn from the seed where it is absent.
	Schedule nemesis.Schedule `yaml:"schedule,omitempty"`
}

// LimitsPart bounds what could wait for ever.
type LimitsPart struct {
	// Drain is how long closing producers may wait for what is outstanding.
	Drain time.Duration `yaml:"drain"`
	// Whole is how long the cluster may take to become whole after the heal.
	Whole time.Duration `yaml:"whole"`
	// Serve is how long a fresh client may take to be served by a whole cluster;
	// zero: max(60 s, twice the delivery timeout).
	Serve time.Duration `yaml:"serve"`
	// Read is how long the final read may take.
	Read time.Duration `yaml:"read"`
}

// DefaultFaults are the faults that are played when none are named: every family
// that the embedded cluster knows.
const DefaultFaults = "lost-response,cut-before,refuse,hold-back,move-leader,broker-leave"

// DefaultContainersFaults are the faults that are played on brokers in containers when
// none are named: those that make real replication fail over.
const DefaultContainersFaults = "isolate-leader,kill-leader,pause-leader"

// DefaultOn is the scenario that `verify run` plays without a name on a cluster of
// the provider. A provider that does not exist is found by Validate.
func DefaultOn(provider string) Scenario {
	s := Default()
	s.Cluster.Provider = provider
	if provider == ProviderContainers {
		s.Duration = 90 * time.Second
		s.Cluster.Kafka = DefaultKafka
		s.Faults.Asked = DefaultContainersFaults
		s.Limits.Whole, s.Limits.Read = 2*time.Minute, 2*time.Minute
	}
	return s
}

// Default is the scenario that `verify run` plays without a name.
func Default() Scenario {
	return Scenario{
		Format:   Format,
		Name:     "default",
		Duration: 20 * time.Second,
		Cluster:  ClusterPart{Provider: ProviderEmbedded, Brokers: 3},
		Topics: TopicsPart{Prefix: "ackproof", Count: 1, Partitions: 6, ReplicationFactor: 3,
			Properties: map[string]string{histories.PropertyMinInsyncReplicas: "2"}},
		Workload: WorkloadPart{Client: "franz-go", Producers: 3, Consumers: 2, Keys: 24, Rate: 3000, ValueSize: 128},
		Producer: map[string]string{},
		Faults:   FaultsPart{Asked: DefaultFaults},
		Limits:   LimitsPart{Drain: 30 * time.Second, Whole: time.Minute, Read: time.Minute},
	}
}

// InputError says what is wrong with what the user asked for; it is wrong usage,
// not our failure.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

func inputError(format string, args ...any) error {
	return &InputError{fmt.Errorf(format, args...)}
}

// Load reads a scenario file. What it leaves out has the default; what it has too
// much is refused by name and line.
func Load(path string) (Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Scenario{}, inputError("reading the scenario: %w", err)
	}
	return read(path, text)
}

// read reads the text of a scenario file.
func read(path string, text []byte) (Scenario, error) {
	var named struct {
		Cluster struct {
			Provider string `yaml:"provider"`
		} `yaml:"cluster"`
	}
	_ = yaml.Unmarshal(text, &named) // what is wrong with it is said below
	s := DefaultOn(cmp.Or(named.Cluster.Provider, ProviderEmbedded))
	byDefault := s.Faults.Asked
	s.Faults.Asked = ""
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		return Scenario{}, inputError("reading the scenario %s: %w", path, err)
	}
	if s.Format != Format {
		return Scenario{}, inputError("reading the scenario %s: its format is %q; this program plays %q", path, s.Format, Format)
	}
	if s.Faults.Asked == "" && len(s.Faults.Schedule) == 0 && s.Script == "" {
		s.Faults.Asked = byDefault
	}
	if s.Cluster.Image != "" && !strings.Contains(string(text), "kafka:") {
		s.Cluster.Kafka = "" // nobody said which version the image has
	}
	return s, s.Validate()
}

// YAML gives the scenario as a file that Load reads.
func (s Scenario) YAML() ([]byte, error) {
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the scenario %s: %w", s.Name, err)
	}
	return text, nil
}

// Validate refuses what cannot be played, naming the setting. Properties of the
// producer and faults are validated by those who know them.
func (s Scenario) Validate() error {
	for _, bound := range []struct {
		name         string
		value        float64
		least, most  float64
		explanations string
	}{
		{"duration (in seconds)", s.Duration.Seconds(), 1, 7 * 24 * 3600, ""},
		{"cluster.brokers", float64(s.Cluster.Brokers), 1, 9, ""},
		{"topics.count", float64(s.Topics.Count), 1, 100, ""},
		{"topics.partitions", float64(s.Topics.Partitions), 1, 1000, ""},
		{"topics.replication.factor", float64(s.Topics.ReplicationFactor), 1, float64(s.Cluster.Brokers), " (the number of brokers)"},
		{"workload.producers", float64(s.Workload.Producers), 1, 1000, ""},
		{"workload.consumers", float64(s.Workload.Consumers), 0, 100, ""},
		{"workload.keys", float64(s.Workload.Keys), 1, 1_000_000, ""},
		{"workload.rate", s.Workload.Rate, 1, 10_000_000, ""},
		{"workload.value.size", float64(s.Workload.ValueSize), 0, 900_000, " (under Kafka's max.message.bytes)"},
	} {
		if !(bound.value >= bound.least && bound.value <= bound.most) {
			return inputError("%s is %v; it must be from %v to %v%s", bound.name, bound.value, bound.least, bound.most, bound.explanations)
		}
	}
	if err := s.Cluster.validate(); err != nil {
		return err
	}
	if s.Script != "" {
		if _, err := Find(s.Script); err != nil {
			return err
		}
	}
	for _, e := range s.Expect {
		if err := e.Validate(); err != nil {
			return inputError("expect: %w", err)
		}
	}
	return s.Workload.validateClient()
}

// validate refuses what no provider can start.
func (c ClusterPart) validate() error {
	switch c.Provider {
	case ProviderEmbedded:
		for name, given := range map[string]bool{"kafka": c.Kafka != "", "image": c.Image != "", "listen": c.Listen != "",
			"broker.memory.mib": c.MemoryMiB != 0, "broker.disk.mib": c.DiskMiB != 0, "properties": len(c.Properties) > 0} {
			if given {
				return inputError("cluster.%s is for brokers in containers, and the embedded cluster has none; "+
					"say that the cluster is to be of containers (--cluster containers)", name)
			}
		}
	case ProviderContainers:
		if c.MemoryMiB < 0 || c.DiskMiB < 0 {
			return inputError("a broker's memory (%d MiB) and disk (%d MiB) must not be below zero", c.MemoryMiB, c.DiskMiB)
		}
		if c.Image == "" {
			if err := images.CheckVersion(c.Kafka); err != nil {
				return inputError("cluster.kafka: %w", err)
			}
		}
	default:
		return inputError("there is no cluster provider %q; there is: %s, %s", c.Provider, ProviderEmbedded, ProviderContainers)
	}
	return nil
}

// topicNames gives the names of the topics, unique to the run so that another run
// on the same cluster is not disturbed.
func (s Scenario) topicNames() []string {
	var names []string
	for i := range s.Topics.Count {
		names = append(names, fmt.Sprintf("%s-%d", s.Topics.Prefix, i))
	}
	return names
}
