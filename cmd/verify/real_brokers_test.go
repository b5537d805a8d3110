// This file tests whole runs on real brokers in containers, through the built binary:
// what each configuration keeps and loses when replication really fails over. It takes
// a container engine; ci/test brings one up.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/clusters/agent"
	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/nemesis"
)

const (
	// realKafka is the version that the tests play.
	realKafka = "4.1.0"
	// quick properties let the final read's second look come soon: it waits for as
	// long as a request may be on its way.
	quick = "request.timeout.ms=1500,delivery.timeout.ms=20000"
)

// runReal plays a run on real brokers into a new directory and gives it.
func runReal(t *testing.T, args ...string) (result, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	t.Cleanup(cancel)
	out := filepath.Join(t.TempDir(), "run")
	r := finish(t, start(ctx, append([]string{"run", "--json", "--out", out, "--kafka", realKafka, "--seed", "1"}, args...)...))
	keepHistory(t, out)
	return r, out
}

// keepHistory puts a recorded history into the folder that ACKPROOF_HISTORIES names, if it
// names one: there the third judge looks for what it judges (sql/duckdb).
func keepHistory(t *testing.T, run string) {
	t.Helper()
	folder := os.Getenv("ACKPROOF_HISTORIES")
	if folder == "" {
		return
	}
	content, err := os.ReadFile(filepath.Join(run, "history.jsonl.zst"))
	if err == nil {
		name := strings.NewReplacer("/", ".", " ", "-").Replace(t.Name()) + ".jsonl.zst"
		err = errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name), content, 0o644))
	}
	if err != nil {
		t.Errorf("keeping the history: %v", err)
	}
}

// everyFaultBit fails unless each fault bit and was undone.
func everyFaultBit(t *testing.T, v *checker.Verdict) {
	t.Helper()
	if len(v.Faults) == 0 {
		t.Error("no fault was injected")
	}
	for _, f := range v.Faults {
		if !f.Bit || f.Error != "" {
			t.Errorf("%s at %s did not bite: %s %s", f.Name, f.Target, f.Evidence, f.Error)
		}
	}
}

// answers counts the attempts of a run by what the client was given.
func answers(t *testing.T, out string) map[string]int {
	t.Helper()
	file, err := histories.Open(filepath.Join(out, "history.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for entry, err := range file.Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if a, is := entry.Line.(*histories.Attempt); is {
			counts[a.Answer+a.Lost]++
		}
	}
	return counts
}

// notPromised fails unless each of the anomalies was found, and was not promised to be
// absent.
func notPromised(t *testing.T, v *checker.Verdict, names ...checker.Anomaly) {
	t.Helper()
	for _, name := range names {
		if a := v.Anomalies[name]; a.Count == 0 || a.Promised == nil || *a.Promised {
			t.Errorf("%s: %d, promised %v", name, a.Count, a.Promised)
		}
	}
}

func TestTheDefaultProducerHoldsOnRealBrokers(t *testing.T) {
	t.Parallel()
	r, out := runReal(t, "--duration", "45s", "--rate", "1000")
	v := r.want(t, checker.Held)
	everyFaultBit(t, v)
	moved := 0
	for _, f := range v.Faults {
		if strings.Contains(f.Evidence, "moved to another leader") {
			moved++
		}
	}
	if v.Counts.Acknowledged < 10_000 || len(v.Faults) < 3 || moved < 3 {
		t.Errorf("%d acknowledged, %d faults, %d moved leaders", v.Counts.Acknowledged, len(v.Faults), moved)
	}
	for _, p := range v.Promises {
		if p.Name == checker.ReplicaDivergence && p.Verdict != checker.Held {
			t.Errorf("the replicas: %s, %s", p.Verdict, p.Reason)
		}
	}
	for _, name := range []string{"cluster.json", "1/server.log", "2/server.properties", "3/properties-in-force.json"} {
		if info, err := os.Stat(filepath.Join(out, "brokers", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnIsolatedLeaderLosesWhatItAloneAcknowledged(t *testing.T) {
	t.Parallel()
	r, out := runReal(t, "--duration", "20s", "--partitions", "1", "--faults", "isolate-leader", "--producer",
		"acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=5,"+quick)
	v := r.want(t, checker.Held)
	everyFaultBit(t, v)
	notPromised(t, v, checker.LostWrite)
	t.Run("judged as if acks=all had been asked for, it is a broken promise", func(t *testing.T) {
		again := invoke(t, "check", "--json", "--producer", "acks=all", out).want(t, checker.Violated)
		if n := again.Anomalies[checker.LostWrite].Count; n != v.Anomalies[checker.LostWrite].Count {
			t.Errorf("%d lost, and %d before", n, v.Anomalies[checker.LostWrite].Count)
		}
	})
}

func TestFollowersThatAreCutOffAreTold(t *testing.T) {
	t.Parallel()
	r, out := runReal(t, "--duration", "24s", "--rate", "500", "--partitions", "1", "--faults", "cut-replication",
		"--producer", "request.timeout.ms=1500")
	v := r.want(t, checker.Held)
	everyFaultBit(t, v)
	if counts := answers(t, out); counts["NOT_ENOUGH_REPLICAS"] == 0 {
		t.Errorf("nobody was refused by name: %v", counts)
	}
	if v.Counts.Acknowledged < 1000 {
		t.Errorf("%d acknowledged", v.Counts.Acknowledged)
	}
}

func TestTwoOfThreeBrokersDownLeaveSendsUnknownAndLoseNothing(t *testing.T) {
	t.Parallel()
	r, out := runReal(t, "--duration", "24s", "--rate", "500", "--partitions", "1", "--faults", "kill-follower:brokers=2",
		"--producer", "request.timeout.ms=1500")
	v := r.want(t, checker.Held)
	everyFaultBit(t, v)
	counts := answers(t, out)
	if counts["REQUEST_TIMED_OUT"]+counts[histories.LostConnection]+counts[histories.LostSilence] == 0 {
		t.Errorf("no attempt was left unanswered or timed out: %v", counts)
	}
}

func TestAnUncleanElectionLosesWhatOneReplicaAcknowledged(t *testing.T) {
	t.Parallel()
	r, _ := runReal(t, "--duration", "30s", "--rate", "500", "--partitions", "1", "--faults", "unclean-election",
		"--topic-config", "min.insync.replicas=1", "--producer", quick)
	v := r.want(t, checker.Held)
	everyFaultBit(t, v)
	notPromised(t, v, checker.LostWrite, checker.VanishedRead)
}

func TestTheFaultsOnTheWireAreTheSameOnRealBrokers(t *testing.T) {
	t.Parallel()
	r, _ := runReal(t, "--duration", "20s", "--rate", "500", "--faults", "lost-response,cut-before,refuse,hold-back", "--producer",
		"enable.idempotence=false,max.in.flight.requests.per.connection=5,"+quick)
	v := r.want(t, checker.Held)
	bit := make(map[string]bool)
	for _, f := range v.Faults { // one that comes right after a refusal finds the client waiting for metadata
		bit[f.Name] = bit[f.Name] || f.Bit
	}
	if len(bit) != 4 || !bit["lost-response"] || !bit["cut-before"] || !bit["refuse"] || !bit["hold-back"] {
		t.Errorf("not each of them bit: %v", bit)
	}
	notPromised(t, v, checker.Duplicate)
}

// cutBehind is a scenario whose limits are short: the cluster does not become whole.
const cutBehind = `format: ackproof-scenario/1
name: cut-behind-our-back
seed: 1
duration: 12s
cluster: {provider: containers, kafka: 4.1.0}
topics: {count: 1, partitions: 1, replication.factor: 3, properties: {min.insync.replicas: "2"}}
workload: {rate: 300, producers: 1}
producer: {acks: "1", enable.idempotence: "false", request.timeout.ms: "1500", delivery.timeout.ms: "20000"}
faults: {asked: none}
limits: {whole: 10s}
`

// Somebody cuts the replication and tells nobody: every process runs, no fault of ours
// is on, and the cluster does not become whole; what a leader alone has stays behind a
// frozen high watermark.
func TestWhatNobodyToldUsOfIsFound(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	defer cancel()
	m := requireEngine(t)
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(scenario, []byte(cutBehind), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "run")
	i := m.start(t, "run", "--json", "--out", out, scenario)
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the history grows", func() bool {
		info, err := os.Stat(filepath.Join(out, "history.jsonl.zst"))
		return err == nil && info.Size() > 20_000
	})
	for _, holder := range holders(t, m) {
		const cut = `{"name":"behind","rules":[{"name":"followers","direction":"in","local_port":9092,"percent":100}]}`
		if _, err := m.Execute(ctx, holder, agent.Path, agent.CommandCut, cut); err != nil {
			t.Fatal(err)
		}
	}
	v := finish(t, i).want(t, checker.Violated)
	for _, name := range []checker.Anomaly{checker.NotRecovered, checker.Unseen} {
		if v.Anomalies[name].Count == 0 {
			t.Errorf("no %s was found", name)
		}
	}
	if n := v.Anomalies[checker.LostWrite].Count; n > 0 {
		t.Errorf("%d events are called lost that are only not shown", n)
	}
}

// holders gives the names of the containers that hold brokers' namespaces.
func holders(t *testing.T, m *machine) (names []string) {
	t.Helper()
	for _, run := range m.left(t) {
		for _, name := range run.Containers {
			if strings.Contains(name, "-holder-") {
				names = append(names, name)
			}
		}
	}
	return names
}

// A client of another language connects to the advertised addresses and meets the same
// faults: Apache's VerifiableProducer, from the brokers' own jars.
func TestAnotherLanguagesClientMeetsTheSameFaults(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	defer cancel()
	m := requireEngine(t)
	cluster, err := clusters.StartContainers(ctx, clusters.ContainersOptions{Version: realKafka})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := cluster.CreateTopic(ctx, clusters.Topic{Name: "orders", Partitions: 1, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	java := newJava(t, cluster, m.Engine)
	healed := loseResponses(ctx, t, cluster)
	producer := java.run(ctx, t, "VerifiableProducer", "--topic", "orders", "--max-messages", "10000", "--throughput", "2000",
		"--producer.config", "/tmp/client.properties")
	healed()
	consumer := java.run(ctx, t, "VerifiableConsumer", "--topic", "orders", "--group-id", "readers", "--max-messages", "10001",
		"--verbose", "--reset-policy", "earliest")
	r := invoke(t, "check", "--one-history", "--json", "--producer",
		"acks=all,enable.idempotence=false,retries=2147483647,max.in.flight.requests.per.connection=5", producer, consumer)
	v := r.verdict(t)
	notPromised(t, v, checker.Duplicate)
	if v.Counts.Acknowledged != 10_000 || v.Anomalies[checker.LostWrite].Count > 0 {
		t.Errorf("%d acknowledged, %d lost", v.Counts.Acknowledged, v.Anomalies[checker.LostWrite].Count)
	}
}

// loseResponses loses every 20th response until it is told to end, and fails unless
// some were.
func loseResponses(ctx context.Context, t *testing.T, cluster clusters.Cluster) (heal func()) {
	t.Helper()
	fault, err := nemesis.Find("lost-response")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := fault.Complete(map[string]string{"every": "20"})
	if err != nil {
		t.Fatal(err)
	}
	env := &nemesis.Environment{ID: "lost-response#1", Cluster: cluster, Topics: []string{"orders"}}
	injection, err := fault.Aim(ctx, env, settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := injection.Inject(ctx); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := injection.Heal(ctx); err != nil {
			t.Fatal(err)
		}
		if evidence := injection.Evidence(); !evidence.Bit {
			t.Errorf("no response was lost: %s", evidence.Text)
		}
	}
}

// java runs the tools of Kafka's jars against a cluster.
type java struct {
	cluster *clusters.Containers
	engine  *engine.Engine
	owner   *engine.Owner
}

func newJava(t *testing.T, cluster *clusters.Containers, e *engine.Engine) *java {
	t.Helper()
	owner, err := engine.NewOwner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Release(); err != nil {
			t.Error(err)
		}
	})
	return &java{cluster, e, owner}
}

// javaProducer are the producer's properties: retries, no idempotence, small batches.
const javaProducer = `retries=2147483647
enable.idempotence=false
max.in.flight.requests.per.connection=5
batch.size=1000
linger.ms=1
request.timeout.ms=2000
`

// run runs a tool to its end and gives the file of what it wrote to standard output.
func (j *java) run(ctx context.Context, t *testing.T, tool string, args ...string) string {
	t.Helper()
	name := j.owner.Name(strings.ToLower(tool))
	defer func() {
		if err := j.engine.RemoveContainer(context.WithoutCancel(ctx), name); err != nil {
			t.Error(err)
		}
	}()
	command := slices.Concat([]string{"/opt/java/bin/java", "-cp", "/opt/kafka/libs/*", "org.apache.kafka.tools." + tool,
		"--bootstrap-server", strings.Join(j.cluster.Bootstrap(), ",")}, args)
	if err := j.engine.Start(ctx, engine.Spec{Owner: j.owner, Name: name, Image: j.cluster.Image(), HostNetwork: true,
		AllCapabilities: true, Entrypoint: command,
		Files: map[string]engine.File{"/tmp/client.properties": {Content: []byte(javaProducer), Mode: 0o644}}}); err != nil {
		t.Fatal(err)
	}
	j.awaitEnd(ctx, t, tool, name)
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%s.jsonl", tool))
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.engine.Output(ctx, name, file), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func (j *java) awaitEnd(ctx context.Context, t *testing.T, tool, name string) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		state, err := j.engine.State(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !state.Running {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not end:\n%s", tool, j.engine.LastLines(context.WithoutCancel(ctx), name, 10))
		case <-ticker.C:
		}
	}
}

// Two claims of the catalogue with Apache's own client on one cluster: the rest of it on
// real brokers is measured in doc/measured, which takes a quarter of an hour.
func TestClaimsHoldWithApachesOwnClientOnRealBrokers(t *testing.T) {
	t.Parallel()
	requireEngine(t)
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	defer cancel()
	out := filepath.Join(t.TempDir(), "campaign")
	r := finish(t, start(ctx, "run", "lost-ack", "five-batch-window", "--client", "java", "--kafka", realKafka, "--seed", "1",
		"--out", out))
	if r.status != exitHeld || !strings.Contains(r.stdout, "2 as expected, 0 otherwise, 0 unknown, 0 not applicable") {
		t.Errorf("status %d:\n%s%s", r.status, r.stdout, r.progress)
	}
}
