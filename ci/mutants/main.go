// Command mutants changes the code of a package in one small place after the other and
// runs the package's tests against each change. A change that no test notices is a
// survivor: a line that is not tested, or one that makes no difference. Those that stay
// are explained in explained.jsonl.
//
//	go run ./ci/mutants checker            # half an hour on two cores
//	go run ./ci/mutants -work DIR wire     # goes on with what lies in DIR
//
// All changes of a package are compiled into one test binary, each behind a switch, so
// that a mutant costs a run and not a build: mutant schemata (Untch, Offutt, Harrold 1993).
// Only the tests that come by a change are run, the quick ones first. Tools that build
// the tests anew for each mutant (gremlins) take ten times as long here.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// limitOf is how long tests may run that took so long without a mutant: one that makes them
// hang is noticed. On a machine that is busy with other things it may be the machine that was
// slow, so that these are told apart.
func limitOf(took time.Duration) time.Duration { return 15*time.Second + 20*took }

// What became of a mutant.
const (
	killed     = "killed"
	timedOut   = "timed-out"
	survived   = "survived"
	notReached = "not-reached"
)

// result is what became of a mutant.
type result struct {
	Mutant
	Fate    string  `json:"fate"`
	Seconds float64 `json:"seconds"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	work := flag.String("work", filepath.Join("verify-runs", "mutants"), "folder of binaries and results")
	workers := flag.Int("workers", 2, "how many mutants are tried at once")
	only := flag.String("only", "", "the one file of the package whose mutants are tried")
	markdown := flag.Bool("markdown", false, "print the list of survivors as Markdown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var all []summary
	for _, name := range flag.Args() {
		p := &trial{name: name, work: filepath.Join(*work, name), only: *only, done: make(map[string]result)}
		if err := p.play(ctx, *workers); err != nil {
			return fmt.Errorf("the mutants of %s: %w", name, err)
		}
		s, err := p.summarise()
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return write(all, *markdown)
}

func write(all []summary, markdown bool) error {
	var out strings.Builder
	if markdown {
		out.WriteString(table(all))
	}
	for i := range all {
		if markdown {
			out.WriteString(all[i].markdown())
		} else {
			out.WriteString(all[i].text())
		}
	}
	_, err := os.Stdout.WriteString(out.String())
	return err
}

// trial is the mutants of one package.
type trial struct {
	name, work, binary string
	// only is the file that is tried; "" for all.
	only    string
	mutants []Mutant
	tests   []test
	done    map[string]result
	lock    sync.Mutex
	log     *os.File
}

func (p *trial) play(ctx context.Context, workers int) error {
	if err := os.MkdirAll(p.work, 0o755); err != nil {
		return err
	}
	if err := p.build(ctx); err != nil {
		return err
	}
	if err := p.remember(); err != nil {
		return err
	}
	defer func() { _ = p.log.Close() }() // each result was written on its own
	if err := p.survey(ctx); err != nil {
		return err
	}
	todo := make(chan Mutant)
	var all sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		all.Go(func() {
			for m := range todo {
				if errs[worker] == nil {
					errs[worker] = p.try(ctx, m)
				}
			}
		})
	}
	for _, m := range p.mutants {
		if _, known := p.done[m.Key()]; !known && ctx.Err() == nil {
			todo <- m
		}
	}
	close(todo)
	all.Wait()
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// build compiles the tests of the package with every mutant in it.
func (p *trial) build(ctx context.Context) error {
	mutants, overlay, err := Mutate(ctx, "./"+p.name, p.work)
	if err != nil {
		return err
	}
	p.mutants, p.binary = slices.DeleteFunc(mutants, func(m Mutant) bool { return p.only != "" && m.File != p.only }),
		filepath.Join(p.work, "tests")
	absolute, err := filepath.Abs(p.binary)
	if err != nil {
		return err
	}
	p.binary = absolute
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", p.binary, "./"+p.name)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests: %w\n%s", err, text)
	}
	return nil
}

// remember reads what became of mutants in an earlier run, and opens the file for more.
func (p *trial) remember() error {
	path := filepath.Join(p.work, "results.jsonl")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(text) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		p.done[r.Key()] = r
	}
	p.log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

// quick is how long a test may take to be among those that are tried first.
const quick = time.Second

// test is one of the package's tests, with what it comes by when nothing is changed.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool
}

// survey runs each test alone, without a mutant.
func (p *trial) survey(ctx context.Context) error {
	path, err := filepath.Abs(filepath.Join(p.work, "reached"))
	if err != nil {
		return err
	}
	names, err := exec.CommandContext(ctx, p.binary, "-test.list", ".").Output()
	if err != nil {
		return fmt.Errorf("listing the tests: %w", err)
	}
	all := make(map[int]bool)
	for name := range strings.FieldsSeq(string(names)) {
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		t := test{name: name}
		if t.reaches, t.took, err = p.alone(ctx, name, path); err != nil {
			return err
		}
		p.tests = append(p.tests, t)
		maps.Copy(all, t.reaches)
	}
	slices.SortFunc(p.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	fmt.Fprintf(os.Stderr, "%s: %d mutants, %d reached by %d tests\n", p.name, len(p.mutants), len(all), len(p.tests))
	return nil
}

// alone runs one test without a mutant, and gives what it comes by.
func (p *trial) alone(ctx context.Context, name, path string) (map[int]bool, time.Duration, error) {
	began := time.Now()
	if text, err := p.run(ctx, 0, []string{name}, 10*time.Minute, "ACKPROOF_MUTANTS_REACHED="+path); err != nil {
		return nil, 0, fmt.Errorf("%s fails without a mutant: %w\n%s", name, err, text)
	}
	took := time.Since(began)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	reaches := make(map[int]bool)
	for line := range strings.Lines(string(text)) {
		var id int
		if _, err := fmt.Sscan(line, &id); err == nil {
			reaches[id] = true
		}
	}
	return reaches, took, nil
}

// run runs tests with one mutant switched on, for so long at most.
func (p *trial) run(ctx context.Context, id int, names []string, limit time.Duration, more ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, p.binary, "-test.failfast", "-test.timeout", (limit + time.Minute).String(),
		"-test.run", "^("+strings.Join(names, "|")+")$")
	command.Dir = p.name
	command.Env = append(append(os.Environ(), fmt.Sprintf("ACKPROOF_MUTANT=%d", id)), more...)
	return command.CombinedOutput()
}

// try runs the tests that come by the mutant, the quick ones first, until one fails.
func (p *trial) try(ctx context.Context, m Mutant) error {
	var rounds [2][]string
	var took [2]time.Duration
	for _, t := range p.tests {
		if !t.reaches[m.ID] {
			continue
		}
		round := 0
		if t.took > quick {
			round = 1
		}
		rounds[round] = append(rounds[round], t.name)
		took[round] += t.took
	}
	r := result{Mutant: m, Fate: notReached}
	began := time.Now()
	for round, names := range rounds {
		if len(names) == 0 || r.Fate == killed || r.Fate == timedOut {
			continue
		}
		limit, begun := limitOf(took[round]), time.Now()
		_, err := p.run(ctx, m.ID, names, limit)
		switch {
		case err == nil:
			r.Fate = survived
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(begun) >= limit:
			r.Fate = timedOut
		default:
			r.Fate = killed
		}
	}
	r.Seconds = time.Since(began).Seconds()
	return p.note(r)
}

// note writes a result down.
func (p *trial) note(r result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.done[r.Key()] = r
	if r.Fate != killed {
		fmt.Fprintf(os.Stderr, "%-11s %s\n", r.Fate, r.Mutant)
	}
	_, err = p.log.Write(append(text, '\n'))
	return err
}
