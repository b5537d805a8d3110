// This file holds the table of the runs that are killed at any moment.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/internal/kills"
)

// killed is how many runs are killed, and what the moments are drawn from.
type killed struct {
	embedded, containers int
	seed                 int64
}

// killedRun is one run that was killed, as it stands in the working folder.
type killedRun struct {
	// Name is unique among the runs of a seed.
	Name    string        `json:"name"`
	Cluster string        `json:"cluster"`
	After   time.Duration `json:"after"`
	kills.Outcome
}

// killedArguments are what is played in turn and killed. Nothing that they do breaks a promise.
var killedArguments = map[string][][]string{
	"embedded": {{"--duration", "3s"}},
	"containers": {{"--cluster", "containers", "--rate", "1000", "--duration", "16s", "--faults", "isolate-leader"},
		{"--cluster", "containers", "--rate", "1000", "--duration", "16s", "--faults", "kill-leader"}},
}

// measure kills the runs that were not killed yet and writes the table. What became of each
// is a line of a file in the working folder.
func (k killed) measure(ctx context.Context, program, work, out string) error {
	e, err := engine.Open(ctx)
	if err != nil {
		return fmt.Errorf("looking for what is left on the container engine: %w", err)
	}
	defer func() { _ = e.Close() }() // it was only asked
	p := &killer{killed: k, program: program, work: work, out: out, engine: e,
		path: filepath.Join(work, fmt.Sprintf("seed%d.jsonl", k.seed))}
	if err := p.load(); err != nil {
		return err
	}
	for _, cluster := range []string{"embedded", "containers"} {
		if err := p.killAll(ctx, cluster, map[string]int{"embedded": k.embedded, "containers": k.containers}[cluster]); err != nil {
			return err
		}
	}
	return p.write()
}

type killer struct {
	killed
	program, work, out, path string
	engine                   *engine.Engine
	runs                     []killedRun
}

// load reads the runs that were killed before.
func (p *killer) load() error {
	text, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var r killedRun
		if json.Unmarshal(lines.Bytes(), &r) == nil { // else it was cut
			p.runs = append(p.runs, r)
		}
	}
	return lines.Err()
}

func (p *killer) find(name string) (killedRun, bool) {
	i := slices.IndexFunc(p.runs, func(r killedRun) bool { return r.Name == name })
	if i < 0 {
		return killedRun{}, false
	}
	return p.runs[i], true
}

// killAll plays one run to its end, so that it is known how long one takes, and kills the others.
func (p *killer) killAll(ctx context.Context, cluster string, count int) error {
	if count == 0 {
		return nil
	}
	var took []time.Duration // by each kind of run, to its end
	for i, arguments := range killedArguments[cluster] {
		r, err := p.once(ctx, cluster, fmt.Sprintf("%s-whole-%d", cluster, i+1), 0, arguments)
		if err != nil {
			return err
		}
		took = append(took, r.Took)
	}
	for i := range count {
		kind := i % len(took)
		r, err := p.once(ctx, cluster, fmt.Sprintf("%s-%d", cluster, i+1), p.moment(cluster, i, took[kind]),
			killedArguments[cluster][kind])
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s %s %d/%d killed after %s, %s: %s %s\n", time.Now().Format(time.TimeOnly), cluster, i+1, count,
			r.After.Round(time.Millisecond), r.Phase, r.Verdict, strings.Join(r.Problems, "; "))
		if err := p.write(); err != nil {
			return err
		}
	}
	return nil
}

// moment draws when the i-th run is killed: half of them at any time; a quarter right after
// its start, and a quarter near its end, where more happens.
func (p *killer) moment(cluster string, i int, whole time.Duration) time.Duration {
	random := rand.New(rand.NewSource(p.seed*1_000_003 + int64(i)*7 + int64(len(cluster))))
	part := random.Float64() * 1.02
	switch i / 2 % 4 { // two kinds of runs take turns
	case 1:
		part = random.Float64() * 0.1
	case 3:
		part = 0.87 + random.Float64()*0.15
	}
	return max(time.Duration(part*float64(whole)), time.Millisecond)
}

// once plays a run and kills it, unless that was done before.
func (p *killer) once(ctx context.Context, cluster, name string, after time.Duration, arguments []string) (
	killedRun, error) {
	if r, done := p.find(name); done {
		return r, nil
	}
	r := killedRun{Name: name, Cluster: cluster, After: after}
	folder, err := filepath.Abs(filepath.Join(p.work, name))
	if err != nil {
		return r, err
	}
	temporary := filepath.Join(folder, "tmp")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(temporary, 0o755)); err != nil {
		return r, err
	}
	k := kills.Kill{Program: p.program, Out: filepath.Join(folder, "run"), Temporary: temporary, After: after,
		Arguments: append([]string{"--seed", fmt.Sprint(p.seed + int64(len(p.runs)))}, arguments...)}
	if r.Outcome, err = k.Play(ctx); err != nil {
		return r, err
	}
	left, err := p.clean(ctx, k)
	if err != nil {
		return r, err
	}
	r.Problems = append(r.Problems, left...)
	if len(r.Problems) == 0 { // else its folder is looked into
		if err := os.RemoveAll(folder); err != nil {
			return r, err
		}
	}
	return r, p.append(r)
}

// clean removes what the run left, and gives what is left all the same.
func (p *killer) clean(ctx context.Context, k kills.Kill) ([]string, error) {
	if err := p.untilAlone(ctx, k.Temporary); err != nil {
		return nil, err
	}
	problems, err := k.Clean(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.engine.Left(ctx)
	if err != nil {
		return nil, err
	}
	for _, left := range all {
		if strings.HasPrefix(left.Lock, k.Temporary) {
			problems = append(problems, fmt.Sprintf("on the engine is left: %v %v %v", left.Containers, left.Networks, left.Volumes))
		}
	}
	return problems, nil
}

// untilAlone waits until nothing is on the engine of another run that is over: somebody may
// be about to look at it, as tests do, and verify clean would remove it. It does not wait for ever.
func (p *killer) untilAlone(ctx context.Context, temporary string) error {
	for range 60 {
		all, err := p.engine.Left(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(l engine.Left) bool {
			return !l.Alive && !l.Elsewhere && !strings.HasPrefix(l.Lock, temporary)
		}) {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *killer) append(r killedRun) error {
	p.runs = append(p.runs, r)
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(p.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

const aboutKills = `Runs that were ended with SIGKILL at moments drawn from seed %d: half of them at any time of their
life, a quarter in its first tenth, a quarter near its end. "Behind" is how far behind the kill the last line lies that
can be read, at worst and in the median: while clients work it must not be more than %s, the second within which
a history is flushed, and some time to write it. Where they do not work nothing is recorded for longer than
that. "Excused" counts the runs that missed it while the machine let the measuring process itself wait for more
than %s, so that nothing can be said of a second. "Unknown" and "held" are what verify check says of what was
left. A history without its end is never held, and one that has its end is judged as the run itself would have.
"None" had not begun its history: verify check says so, with exit status 254. Afterwards verify clean was run:
"left" counts the runs of which a container, network, volume, lock, temporary file or process was there still.
Rules for packets are in the containers' namespaces, and go with them.

%s`

// write writes the table.
func (p *killer) write() error {
	t := table{title: "Killed at any moment",
		about: fmt.Sprintf(aboutKills, p.seed, kills.MostBehind, kills.MostStalled, commands()),
		head: []string{"cluster", "killed", "runs", "behind, worst", "behind, median", "excused", "none", "unknown", "held",
			"violated", "left", "otherwise wrong"}}
	var rows [][]string
	for _, cluster := range []string{"embedded", "containers"} {
		for _, phase := range kills.Phases() {
			if row := p.row(cluster, phase); row != nil {
				rows = append(rows, row)
			}
		}
	}
	text := t.markdown("kills", rows)
	for _, r := range p.runs {
		for _, problem := range r.Problems {
			text = fmt.Appendf(text, "\n- %s, killed after %s: %s\n", r.Name, r.After.Round(time.Millisecond), problem)
		}
	}
	return os.WriteFile(filepath.Join(p.out, "kills.md"), text, 0o644)
}

// row sums up the runs of a cluster that were killed in a phase.
func (p *killer) row(cluster, phase string) []string {
	var behind []time.Duration
	verdicts := make(map[string]int)
	runs, excused, left, wrong := 0, 0, 0, 0
	for _, r := range p.runs {
		if r.Cluster != cluster || r.Phase != phase || r.After == 0 {
			continue
		}
		runs++
		verdicts[r.Verdict]++
		switch {
		case r.Excused():
			excused++
		case r.Working():
			behind = append(behind, r.Behind)
		}
		isLeft := func(problem string) bool {
			return strings.Contains(problem, " is left: ") || strings.HasPrefix(problem, "verify clean") ||
				strings.HasPrefix(problem, "a process")
		}
		if slices.ContainsFunc(r.Problems, isLeft) {
			left++
		} else if len(r.Problems) > 0 {
			wrong++
		}
	}
	if runs == 0 {
		return nil
	}
	worst, median := "–", "–"
	if len(behind) > 0 {
		slices.Sort(behind)
		worst, median = milliseconds(behind[len(behind)-1]), milliseconds(behind[len(behind)/2])
	}
	return []string{cluster, phase, fmt.Sprint(runs), worst, median, fmt.Sprint(excused), fmt.Sprint(verdicts[""]),
		fmt.Sprint(verdicts[checker.UnknownWord]), fmt.Sprint(verdicts[checker.Held]), fmt.Sprint(verdicts[checker.Violated]),
		fmt.Sprint(left), fmt.Sprint(wrong)}
}

// commands gives what is played and killed.
func commands() string {
	var lines []string
	for _, cluster := range []string{"embedded", "containers"} {
		for _, arguments := range killedArguments[cluster] {
			lines = append(lines, "    verify run "+strings.Join(arguments, " "))
		}
	}
	return strings.Join(lines, "\n")
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
