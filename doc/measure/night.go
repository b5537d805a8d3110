// This file holds the night: runs on real brokers whose version, client, configuration
// and faults are drawn from a seed, one after the other until the time asked for has been
// played.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What a night draws from. Properties that a library cannot honour together are not among
// them; whatever else differs is the point.
var (
	nightVersions  = []string{"3.9.1", "4.1.0", "4.4.0"}
	nightProducers = []string{
		"", "", "", // the default, more often than each other
		"delivery.timeout.ms=3000,request.timeout.ms=1500,linger.ms=5",
		"enable.idempotence=false,max.in.flight.requests.per.connection=5",
		"enable.idempotence=false,max.in.flight.requests.per.connection=1",
		"enable.idempotence=false,retries=0,max.in.flight.requests.per.connection=5",
		"acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=5",
		"acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=1",
		"acks=0,enable.idempotence=false,retries=0,max.in.flight.requests.per.connection=5",
		"compression.type=zstd,batch.size=65536,linger.ms=20",
		"compression.type=gzip,batch.size=2000,linger.ms=0",
	}
	nightTopics = []string{
		"", "", "min.insync.replicas=1", "min.insync.replicas=3", "unclean.leader.election.enable=true,min.insync.replicas=1",
		"segment.bytes=1048576", "message.timestamp.type=LogAppendTime",
	}
	nightFaults = []string{
		"isolate-leader", "isolate-controller", "isolate:clients=true", "majority-minority", "majority-minority:leader=majority",
		"one-way:direction=in", "one-way:direction=out", "cut-replication", "cut-clients", "loss:percent=30",
		"kill-leader", "kill-follower", "kill:brokers=2", "kill-all", "pause-leader", "pause-controller", "pause:brokers=2",
		"restart-leader", "rolling-restart", "move-leader:partition=all", "unclean-election",
		"lost-response", "lost-response:mode=stall", "cut-before", "refuse", "refuse:error=NOT_ENOUGH_REPLICAS",
		"refuse:error=REQUEST_TIMED_OUT,after=true", "hold-back", "hold-back:side=answer,by=1s", "replay", "add-partitions",
	}
	nightLoads = []string{"", "--partitions 1", "--producers 6 --keys 4", "--rate 500 --keys 200", "--topics 3 --partitions 3",
		"--rate 6000 --value-size 32"}
)

// night is one drawn run.
type night struct {
	version, client, producer, topic, load string
	faults                                 []string
}

// drawNight gives the run of a seed: the same for the same seed.
func drawNight(seed int) night {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	from := func(list []string) string { return list[random.IntN(len(list))] }
	n := night{version: from(nightVersions), client: "franz-go", producer: from(nightProducers), topic: from(nightTopics),
		load: from(nightLoads)}
	if random.IntN(4) == 0 {
		n.client = "java:" + n.version
		if n.version == "4.1.0" { // brokers and clients are not upgraded on one day
			n.client = "java:4.4.0"
		}
	}
	faults := slices.Clone(nightFaults)
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	n.faults = faults[:1+random.IntN(4)]
	if random.IntN(3) == 0 {
		n.load += " --overlap"
	}
	return n
}

func (n night) arguments(seed int) []string {
	duration := "50s"
	if len(n.faults) > 3 && !strings.Contains(n.load, "--overlap") {
		duration = "80s" // four faults, one after the other
	}
	arguments := []string{"--kafka", n.version, "--client", n.client, "--seed", fmt.Sprint(seed), "--duration", duration,
		"--faults", strings.Join(n.faults, ",")}
	if n.producer != "" {
		arguments = append(arguments, "--producer", n.producer)
	}
	if n.topic != "" {
		arguments = append(arguments, "--topic-config", n.topic)
	}
	return append(arguments, strings.Fields(n.load)...)
}

// nightTable has no runs of its own: they are drawn.
func nightTable() table {
	return table{title: "A night of random runs on real brokers",
		about: `Three brokers in containers. The version, the client, the producer, the topic, the load and the faults of each run are
drawn from its seed (doc/measure/night.go); a row's run is played again by giving the same arguments to verify run. A count with
a * is not promised to be none. "not held" names the promises that were broken or could not be told; each is explained
in [../NIGHT.md](../NIGHT.md).`,
		head: []string{"seed", "Kafka", "client", "producer, topic", "load", "faults", "bit", "verdict", "sent", "acknowledged", "lost",
			"duplicates", "disorder", "not held", "second judge"},
		row: func(v verdict) []string {
			bit, _ := v.moves()
			var open []string
			for _, p := range v.Promises {
				if p.Verdict == "violated" || p.Verdict == "unknown" {
					open = append(open, p.Name+" "+p.Verdict)
				}
			}
			return []string{fmt.Sprintf("%d of %d", bit, len(v.Faults)), v.Verdict, number(v.Counts.Invoked),
				number(v.Counts.Acknowledged), v.counted("lost-write"), v.counted("duplicate"), v.counted("order-violation"),
				strings.Join(open, ", "), v.SecondJudge.Verdict}
		}}
}

// playNight plays drawn runs until the time that was asked for has been played, those
// that lie in the working folder included.
func playNight(ctx context.Context, program, work, out string, from int, duration time.Duration) error {
	t, played, rows := nightTable(), time.Duration(0), [][]string{}
	about := t.about
	for seed := from; played < duration; seed++ {
		n := drawNight(seed)
		r := experiment{name: fmt.Sprintf("seed%d", seed), arguments: n.arguments(seed)}
		began := time.Now()
		took := filepath.Join(work, r.name+".took.json")
		v, err := play(ctx, program, work, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // a run that could not be made is a row too
			v.Verdict, v.Summary = "failed", err.Error()
		}
		seconds, err := remember(took, time.Since(began))
		if err != nil {
			return err
		}
		played += seconds
		fmt.Fprintf(os.Stderr, "%s %s of %s, seed %d: %s\n", time.Now().Format(time.TimeOnly), played.Round(time.Second), duration,
			seed, v.Summary)
		own := strings.Trim(n.producer+"; "+n.topic, "; ")
		cells := []string{fmt.Sprint(seed), n.version, n.client, own, n.load, strings.Join(n.faults, ",")}
		rows = append(rows, append(cells, t.row(v)...))
		t.about = fmt.Sprintf("%s\n\n%d runs, %s.", about, len(rows), played.Round(time.Second))
		if err := os.WriteFile(filepath.Join(out, "night.md"), t.markdown("night", rows), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps how long a run took; of one that was played before it is what was kept.
func remember(path string, took time.Duration) (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return took, json.Unmarshal(text, &took)
	}
	text, err = json.Marshal(took)
	if err != nil {
		return 0, err
	}
	return took, os.WriteFile(path, text, 0o644)
}
