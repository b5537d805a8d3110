// This file holds `verify run`.

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/nemesis"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
	"github.com/ackproof/ackproof/scenarios"
)

type runFlags struct {
	cluster, producer, topicConfig, faults, out string
	kafka, image, listen, brokerConfig          string
	memoryMiB, diskMiB                          int64
	duration                                    time.Duration
	seed                                        int64
	topics, producers, consumers, keys          int
	valueSize                                   int
	partitions                                  int32
	rate                                        float64
	client, clientExec, resume                  string
	overlap, allowLies, json, verbose, all      bool
}

func newRunCommand(s streams) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [NAME... | SCENARIO.yaml]",
		Short: "Play a scenario and judge it",
		Long: `Play a scenario: start a cluster, let producers and consumers work, inject faults,
heal, read every partition to its end, and judge the history. Without a scenario: a
useful default on a three-broker cluster inside this process.

A scenario by name is a claim about Kafka that is tried step by step (verify scenarios
lists them): it says beforehand what is expected, and the exit status is 0 where that
came, 1 where reality differs, and 2 where it proved nothing. Several names, or --all,
are played one after the other on one cluster, with every client of --client.

Faults, with their settings (name:setting=value,setting=value,name…):

` + nemesis.Describe(),
		Example: `  verify run
  verify run lost-ack
  verify run lost-ack --client java --cluster containers
  verify run --all --cluster containers --kafka 4.4.0 --client franz-go,java:4.4.0
  verify run --faults lost-response --producer enable.idempotence=false,max.in.flight.requests.per.connection=5
  verify run --faults refuse:error=NOT_LEADER_OR_FOLLOWER,every=20,move-leader --duration 30s --seed 7
  verify run verify-runs/2026-12-01T02-00-00-seed7/scenario.yaml     # the same schedule and workload again`,
		RunE: func(c *cobra.Command, args []string) error { return s.run(c.Context(), c, args, &f) },
	}
	f.register(c)
	return c
}

func (f *runFlags) register(c *cobra.Command) {
	d := scenarios.Default()
	flags := c.Flags()
	flags.StringVar(&f.cluster, "cluster", d.Cluster.Provider,
		"where the brokers run: embedded (in this process), or containers (real Kafka; takes a container engine)")
	flags.StringVar(&f.kafka, "kafka", "", "containers: version of the brokers, from 3.4.0 on (default "+scenarios.DefaultKafka+")")
	flags.StringVar(&f.image, "image", "", "containers: use this image, which has Kafka's jars in /opt/kafka/libs and a Java")
	flags.StringVar(&f.listen, "listen", "",
		"containers: address of the first broker for clients, as 127.0.0.1:19091; the others take the next ports (default: free ones)")
	flags.StringVar(&f.brokerConfig, "broker-config", "", "containers: broker properties under Kafka's names")
	flags.Int64Var(&f.memoryMiB, "broker-memory", 0, "containers: memory of each broker in MiB, half of it heap (default 768)")
	flags.Int64Var(&f.diskMiB, "broker-disk", 0,
		"containers: size of each broker's data volume in MiB, kept in memory then (0: the engine's disk)")
	flags.StringVar(&f.client, "client", d.Workload.Client, "the client library: franz-go, or java[:VERSION] (Apache's own, "+
		"from Maven Central); several, with commas, for scenarios by name")
	flags.StringVar(&f.clientExec, "client-exec", "", "another client: a command that speaks the protocol of clients/PROTOCOL.md")
	flags.BoolVar(&f.all, "all", false, "play every scenario that verify scenarios lists")
	flags.StringVar(&f.resume, "resume", "", "go on with the campaign (--all, or several names) in this directory")
	flags.StringVar(&f.producer, "producer", "",
		"producer properties under Kafka's names, as acks=1,retries=0; the rest stays at the library's defaults")
	flags.StringVar(&f.topicConfig, "topic-config", "", "topic properties under Kafka's names, as min.insync.replicas=2")
	flags.StringVar(&f.faults, "faults", d.Faults.Asked, "faults to inject, or none")
	flags.BoolVar(&f.overlap, "overlap", false, "let different faults be on at the same time")
	flags.DurationVar(&f.duration, "duration", d.Duration, "how long the producers work")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the workload and the schedule (0: drawn, and printed)")
	flags.IntVar(&f.topics, "topics", d.Topics.Count, "number of topics")
	flags.Int32Var(&f.partitions, "partitions", d.Topics.Partitions, "partitions of each topic")
	flags.IntVar(&f.producers, "producers", d.Workload.Producers, "number of producers")
	flags.IntVar(&f.consumers, "consumers", d.Workload.Consumers, "number of consumers that read during the faults")
	flags.IntVar(&f.keys, "keys", d.Workload.Keys, "number of keys of each producer")
	flags.Float64Var(&f.rate, "rate", d.Workload.Rate, "events a second that all producers together are offered")
	flags.IntVar(&f.valueSize, "value-size", d.Workload.ValueSize, "size of a value in bytes")
	flags.StringVar(&f.out, "out", "", "the run directory, created; default: verify-runs/TIME-seedSEED")
	flags.BoolVar(&f.allowLies, "allow-lies", false,
		"allow faults that no healthy broker shows: a planted broker is judged then, not Kafka")
	flags.BoolVar(&f.json, "json", false, "print verdict.json on standard output")
	flags.BoolVar(&f.verbose, "verbose", false, "list every promise, assumption and fault")
}

// scenario gives what is to be played: a file's, or the default's, with the flags
// that were given on top.
func (f *runFlags) scenario(c *cobra.Command, args []string) (scenarios.Scenario, error) {
	s := scenarios.DefaultOn(f.provider(c))
	if len(args) == 1 {
		var err error
		if s, err = f.named(c, args[0]); err != nil {
			return s, err
		}
	}
	if err := f.overlay(c, &s); err != nil {
		return s, err
	}
	if s.Seed == 0 {
		s.Seed = rand.Int64N(1_000_000) + 1
	}
	return s, s.Validate()
}

// isFile says whether an argument is a file's name and not a scenario's.
func isFile(argument string) bool { return strings.ContainsAny(argument, "./\\") }

// named gives the scenario of a file, or of the catalogue.
func (f *runFlags) named(c *cobra.Command, argument string) (scenarios.Scenario, error) {
	if isFile(argument) {
		return scenarios.Load(argument)
	}
	named, err := scenarios.Find(argument)
	if err != nil {
		return scenarios.Scenario{}, err
	}
	s := named.Scenario(f.provider(c))
	if s.Cluster.Provider == scenarios.ProviderEmbedded && named.OnlyContainers != "" {
		return s, usageError{fmt.Errorf("%s does not show on the embedded cluster: %s; give --cluster containers",
			named.Name, named.OnlyContainers)}
	}
	return s, f.checkNamed(c)
}

// provider gives where the brokers run: what is said of containers alone asks for
// containers.
func (f *runFlags) provider(c *cobra.Command) string {
	if c.Flags().Changed("cluster") {
		return f.cluster
	}
	for _, name := range []string{"kafka", "image", "listen", "broker-config", "broker-memory", "broker-disk"} {
		if c.Flags().Changed(name) {
			return scenarios.ProviderContainers
		}
	}
	return f.cluster
}

// overlay puts the flags that were given over the scenario. A schedule that was
// saved is dropped when what it was drawn from changes.
func (f *runFlags) overlay(c *cobra.Command, s *scenarios.Scenario) error {
	given := c.Flags().Changed
	for name, set := range map[string]func(){
		"client":      func() { s.Workload.Client = f.client },
		"client-exec": func() { s.Workload.Client, s.Workload.Exec = "exec", strings.Fields(f.clientExec) },
		"duration":    func() { s.Duration = f.duration },
		"topics":      func() { s.Topics.Count = f.topics }, "partitions": func() { s.Topics.Partitions = f.partitions },
		"producers": func() { s.Workload.Producers = f.producers }, "consumers": func() { s.Workload.Consumers = f.consumers },
		"keys": func() { s.Workload.Keys = f.keys }, "rate": func() { s.Workload.Rate = f.rate },
		"value-size": func() { s.Workload.ValueSize = f.valueSize }, "faults": func() { s.Faults.Asked = f.faults },
		"seed": func() { s.Seed = f.seed }, "allow-lies": func() { s.Faults.AllowLies = f.allowLies },
		"overlap": func() { s.Faults.Overlap = f.overlap },
	} {
		if given(name) {
			set()
		}
	}
	if given("faults") || given("duration") || given("seed") || given("overlap") {
		s.Faults.Schedule = nil
	}
	if err := f.overlayCluster(c, s); err != nil {
		return err
	}
	properties, err := parseProperties("producer", f.producer)
	if err != nil {
		return err
	}
	switch {
	case properties != nil && s.Script != "":
		s.ProducerGiven = properties
	case properties != nil:
		s.Producer = properties
	}
	topic, err := parseProperties("topic-config", f.topicConfig)
	if err != nil {
		return err
	}
	for name, value := range topic {
		s.Topics.Properties[name] = value
	}
	return nil
}

// overlayCluster puts the flags about the cluster over the scenario.
func (f *runFlags) overlayCluster(c *cobra.Command, s *scenarios.Scenario) error {
	for name, set := range map[string]func(){
		"cluster": func() { s.Cluster.Provider = f.cluster }, "kafka": func() { s.Cluster.Kafka = f.kafka },
		"image": func() { s.Cluster.Image, s.Cluster.Kafka = f.image, f.kafka }, "listen": func() { s.Cluster.Listen = f.listen },
		"broker-memory": func() { s.Cluster.MemoryMiB = f.memoryMiB }, "broker-disk": func() { s.Cluster.DiskMiB = f.diskMiB },
	} {
		if c.Flags().Changed(name) {
			set()
		}
	}
	brokers, err := parseProperties("broker-config", f.brokerConfig)
	if err != nil {
		return err
	}
	if brokers != nil {
		s.Cluster.Properties = brokers
	}
	return nil
}

func (s streams) run(ctx context.Context, c *cobra.Command, args []string, f *runFlags) error {
	if f.all && len(args) > 0 {
		return usageError{fmt.Errorf("--all plays every scenario; name some (%s), or give --all", strings.Join(args, " "))}
	}
	if len(args) > 1 && slices.ContainsFunc(args, isFile) {
		return usageError{fmt.Errorf("verify run plays one scenario from a file, or several by name; %s were given",
			strings.Join(args, " "))}
	}
	several := len(args) > 1 || (len(args) == 1 && !isFile(args[0]) && strings.Contains(f.client, ","))
	if f.all || f.resume != "" || several {
		return s.runCampaign(ctx, c, args, f)
	}
	scenario, err := f.scenario(c, args)
	if err != nil {
		return err
	}
	runner, err := scenarios.Prepare(ctx, scenario, func(text string) { _, _ = fmt.Fprintln(s.progress, text) })
	if err != nil {
		return err
	}
	directory, err := f.directory(scenario.Seed)
	if err != nil {
		return usageError{err}
	}
	return s.play(ctx, runner, directory, scenario, f)
}

// play plays one scenario, says what became of it, and gives the exit status.
func (s streams) play(ctx context.Context, runner *scenarios.Runner, directory *runs.Directory, scenario scenarios.Scenario,
	f *runFlags) error {
	_, _ = fmt.Fprintf(s.progress, "seed %d, run directory %s\n", scenario.Seed, directory.Path)
	live := startLive(s.progress, runner)
	verdict, err := runner.Run(ctx, directory)
	live.stop()
	if verdict == nil {
		return err
	}
	if err != nil {
		_, _ = fmt.Fprintf(s.progress, "verify: %v\n", err)
	}
	if writeErr := s.conclude(verdict, directory, scenario, f); writeErr != nil {
		return writeErr
	}
	if problem := runner.Problem(); problem != nil {
		_, _ = fmt.Fprintf(s.progress, "verify: %v\n", problem)
	}
	status := statusOf([]*checker.Verdict{verdict})
	if verdict.Expected != nil {
		status = statusOfCells([]scenarios.Cell{{Verdict: verdict.Expected.Verdict}}, false)
	}
	if err != nil && status == nil {
		return verdictError{exitUnknown}
	}
	return status
}

func (s streams) conclude(v *checker.Verdict, d *runs.Directory, played scenarios.Scenario, f *runFlags) error {
	claim := ""
	if named, err := scenarios.Find(played.Script); err == nil {
		claim = named.Claim
	}
	if f.json {
		return s.writeJSON(v)
	}
	return report.Text{Colour: isTerminal(s.out), Directory: d.Path, Verbose: f.verbose, Claim: claim}.Write(s.out, v)
}

// directory creates the run directory.
func (f *runFlags) directory(seed int64) (*runs.Directory, error) {
	path := f.out
	if path == "" {
		path = filepath.Join("verify-runs", fmt.Sprintf("%s-seed%d", time.Now().UTC().Format("2006-01-02T15-04-05"), seed))
		if _, err := os.Stat(path); err == nil {
			path += fmt.Sprintf("-%d", os.Getpid())
		}
	}
	return runs.Create(path)
}
