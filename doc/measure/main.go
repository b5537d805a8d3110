// Command measure makes the tables of doc/measured: it plays runs on real brokers in
// containers, one after the other, and writes what the verdicts say.
//
//	go run ./doc/measure -table versions         # three versions, then ten seeds
//	go run ./doc/measure -table configurations   # nine configurations under three faults
//	go run ./doc/measure -table kills            # two hundred runs, killed at any moment
//	go run ./doc/measure -table night -for 2h    # drawn versions, clients, configurations and faults
//
// A run whose verdict lies in the working folder already is not played again, so that
// a table that was interrupted is gone on with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// experiment is one run of a table.
type experiment struct {
	// name is unique in its table; it names the run's folder.
	name string
	// cells stand at the beginning of the row.
	cells     []string
	arguments []string
}

// table is one table: its runs, and how a verdict becomes the rest of a row.
type table struct {
	title, about string
	head         []string
	runs         []experiment
	row          func(v verdict) []string
}

// verdict is what the tables need of verdict.json.
type verdict struct {
	Verdict string `json:"verdict"`
	Summary string `json:"summary"`
	Counts  struct {
		Invoked, Acknowledged, Failed, Unknown int64
		InLog                                  int64 `json:"in_log"`
		Holes, Ghosts                          int64
		UnconfirmedLosses                      int64 `json:"unconfirmed_losses"`
	} `json:"counts"`
	Promises  []struct{ Name, Verdict, Reason string } `json:"promises"`
	Anomalies map[string]struct {
		Count int64 `json:"count"`
		Moved int64 `json:"moved"`
	} `json:"anomalies"`
	Faults []struct {
		Name, Target, Evidence string
		Bit                    bool
	} `json:"faults"`
	SecondJudge struct{ Verdict string } `json:"second_judge"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "measure: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	which := flag.String("table", "", "versions, configurations, kills or night")
	duration := flag.Duration("for", 2*time.Hour, "night: how much is played, what lies in the folder of the runs included")
	from := flag.Int("from", 1, "night: the first seed")
	work := flag.String("work", filepath.Join("verify-runs", "measure"), "folder of the runs")
	out := flag.String("out", filepath.Join("doc", "measured"), "folder of the tables")
	kill := killed{}
	flag.IntVar(&kill.embedded, "embedded", 160, "kills: of how many runs on the embedded cluster")
	flag.IntVar(&kill.containers, "containers", 40, "kills: of how many runs on brokers in containers")
	flag.Int64Var(&kill.seed, "seed", 1, "kills: what the moments are drawn from")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	program, err := prepare(ctx, filepath.Join(*work, *which), *out)
	if err != nil {
		return err
	}
	switch *which {
	case "kills":
		return kill.measure(ctx, program, filepath.Join(*work, *which), *out)
	case "night":
		return playNight(ctx, program, filepath.Join(*work, *which), *out, *from, *duration)
	}
	return measure(ctx, *which, program, filepath.Join(*work, *which), *out)
}

// prepare makes the folders and builds verify.
func prepare(ctx context.Context, work, out string) (program string, err error) {
	if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(out, 0o755)); err != nil {
		return "", err
	}
	program = filepath.Join(work, "verify")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/verify")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building verify: %w", err)
	}
	return program, nil
}

func measure(ctx context.Context, which, program, work, out string) error {
	t, known := map[string]table{"versions": versions(), "configurations": configurations()}[which]
	if !known {
		return fmt.Errorf("there is no table %q; there is: versions, configurations, kills, night", which)
	}
	var rows [][]string
	for i, r := range t.runs {
		v, err := play(ctx, program, work, r)
		if err != nil {
			return fmt.Errorf("the run %s: %w", r.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s %d/%d %s: %s\n", time.Now().Format(time.TimeOnly), i+1, len(t.runs), r.name, v.Summary)
		rows = append(rows, append(append([]string{}, r.cells...), t.row(v)...))
		if err := os.WriteFile(filepath.Join(out, which+".md"), t.markdown(which, rows), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// play plays a run, or takes the verdict that is there, and keeps of the run what a
// reader wants to check again.
func play(ctx context.Context, program, work string, r experiment) (v verdict, err error) {
	folder := filepath.Join(work, r.name)
	path := filepath.Join(folder, "verdict.json")
	if _, err := os.Stat(path); err != nil {
		if err := os.RemoveAll(folder); err != nil {
			return v, err
		}
		arguments := append([]string{"run", "--out", folder, "--cluster", "containers"}, r.arguments...)
		command := exec.CommandContext(ctx, program, arguments...)
		var progress strings.Builder
		command.Stderr = &progress
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
		err := command.Run()
		if _, missing := os.Stat(path); missing != nil {
			return v, fmt.Errorf("%w: %s", err, progress.String())
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(text, &v)
}

// markdown gives the table.
func (t table) markdown(which string, rows [][]string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\nMade by `go run ./doc/measure -table %s`; do not edit.\n\n%s\n\n", t.title, which, t.about)
	line := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	fmt.Fprintf(&text, "|%s\n", strings.Repeat(" --- |", len(t.head)))
	for _, row := range rows {
		line(row)
	}
	return []byte(text.String())
}

// moves counts the faults that bit, and those of them that moved leaders.
func (v verdict) moves() (bit, moved int) {
	for _, f := range v.Faults {
		if !f.Bit {
			continue
		}
		bit++
		if strings.Contains(f.Evidence, "moved to another leader") && !strings.HasPrefix(after(f.Evidence, "; "), "0 of") {
			moved++
		}
	}
	return bit, moved
}

func after(text, separator string) string {
	_, rest, _ := strings.Cut(text, separator)
	return rest
}

func (v verdict) promise(name string) string {
	for _, p := range v.Promises {
		if p.Name == name {
			return p.Verdict
		}
	}
	return "–"
}

// counted gives the count of an anomaly, with a * where it is not promised to be none.
func (v verdict) counted(name string) string {
	text := number(v.Anomalies[name].Count)
	if v.promise(name) == "not-promised" {
		text += "*"
	}
	return text
}

func number(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// versions are the default producer under partitions, kills and pauses of leaders.
func versions() table {
	t := table{title: "The default producer on real brokers",
		about: `90 s of "isolate-leader", "kill-leader" and "pause-leader" on three brokers in containers, with the default
producer of franz-go (acks=all, idempotent), 3,000 events a second over 6 partitions, replication factor 3,
min.insync.replicas 2. "Faults" are those that bit, "moved" those of them that moved leaderships; where recovery took long
on a busy machine, the last one found no time. One row is one run:

    verify run --cluster containers --kafka VERSION --seed SEED`,
		head: []string{"Kafka", "seed", "verdict", "sent", "acknowledged", "in the log", "lost", "duplicates", "disorder",
			"replica divergence", "faults", "moved"},
		row: func(v verdict) []string {
			bit, moved := v.moves()
			return []string{v.Verdict, number(v.Counts.Invoked), number(v.Counts.Acknowledged), number(v.Counts.InLog),
				number(v.Anomalies["lost-write"].Count), number(v.Anomalies["duplicate"].Count),
				number(v.Anomalies["order-violation"].Count), v.promise("replica-divergence"), fmt.Sprint(bit), fmt.Sprint(moved)}
		}}
	add := func(version string, seed int) {
		t.runs = append(t.runs, experiment{name: fmt.Sprintf("%s-seed%d", version, seed), cells: []string{version, fmt.Sprint(seed)},
			arguments: []string{"--kafka", version, "--seed", fmt.Sprint(seed)}})
	}
	for _, version := range []string{"3.9.1", "4.1.0", "4.4.0"} {
		add(version, 1)
	}
	for seed := 2; seed <= 10; seed++ {
		add("4.1.0", seed)
	}
	return t
}

// seed of the table of configurations.
const seed = 1

// configurations are nine producers under three faults, on one partition.
func configurations() table {
	t := table{title: "What each configuration loses, duplicates and reorders",
		about: `One partition, one producer of franz-go at 3,000 events a second, Kafka 4.1.0, replication factor 3,
min.insync.replicas 2, linger.ms=2, batch.size=16384, request.timeout.ms=1500, delivery.timeout.ms=20000 where the row does not
say otherwise. The leader is paused three times (pause-leader, 44 s), isolated from the other brokers three times
(isolate-leader, 44 s), or every 20th response is lost (lost-response:every=20, 20 s). A count with a * is not promised
to be none; one without is. With acks=0 nothing is acknowledged: "lost" counts what the library reported sent and the
log lacks. The seed is 1.`,
		head: []string{"fault", "configuration", "verdict", "sent", "acknowledged", "in the log", "lost", "duplicates",
			"disorder", "late ghosts", "holes", "ghosts", "faults"},
		row: func(v verdict) []string {
			bit, _ := v.moves()
			lost := v.counted("lost-write")
			if n := v.Counts.UnconfirmedLosses; n > 0 { // reported sent, with nobody's answer
				lost = number(n) + "*"
			}
			return []string{v.Verdict, number(v.Counts.Invoked), number(v.Counts.Acknowledged), number(v.Counts.InLog), lost,
				v.counted("duplicate"), v.counted("order-violation"), v.counted("late-ghost"),
				number(v.Counts.Holes), number(v.Counts.Ghosts), fmt.Sprint(bit)}
		}}
	for _, fault := range []struct{ faults, duration string }{
		{"pause-leader", "44s"}, {"isolate-leader", "44s"}, {"lost-response:every=20", "20s"},
	} {
		for i, c := range producers {
			fault0, _, _ := strings.Cut(fault.faults, ":")
			t.runs = append(t.runs, experiment{name: fmt.Sprintf("%s-%d", fault0, i+1), cells: []string{"`" + fault0 + "`", c.name},
				arguments: []string{"--kafka", "4.1.0", "--seed", fmt.Sprint(seed), "--faults", fault.faults, "--duration", fault.duration,
					"--partitions", "1", "--producers", "1", "--keys", "8", "--value-size", "16", "--producer", c.properties()}})
		}
	}
	return t
}

type producer struct{ name, own string }

// producers are the rows of the table, in the order of the promise matrix.
var producers = []producer{
	{"acks=all, idempotent", ""},
	{"the same, delivery.timeout.ms=2500", "delivery.timeout.ms=2500"},
	{"acks=all, not idempotent, 5 in flight", "enable.idempotence=false,max.in.flight.requests.per.connection=5"},
	{"acks=all, not idempotent, 1 in flight", "enable.idempotence=false,max.in.flight.requests.per.connection=1"},
	{"acks=all, not idempotent, retries=0", "enable.idempotence=false,max.in.flight.requests.per.connection=5,retries=0"},
	{"acks=1, 5 in flight", "acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=5"},
	{"acks=1, 1 in flight", "acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=1"},
	{"acks=1, retries=0, 5 in flight", "acks=1,enable.idempotence=false,max.in.flight.requests.per.connection=5,retries=0"},
	{"acks=0, retries=0", "acks=0,enable.idempotence=false,max.in.flight.requests.per.connection=5,retries=0"},
}

// properties gives the producer's properties: those of every row, and its own.
func (p producer) properties() string {
	all := "linger.ms=2,batch.size=16384,request.timeout.ms=1500"
	if !strings.Contains(p.own, "delivery.timeout.ms") {
		all += ",delivery.timeout.ms=20000"
	}
	if p.own != "" {
		all += "," + p.own
	}
	return all
}
