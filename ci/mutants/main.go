// Command mutants changes the code of a package in one small place after the other and
// runs the package's tests against each change. A change that no test notices is a
// survivor: a line that is not tested, or one that makes no difference.
//
//	go run ./ci/mutants checker            # about 15 minutes on two cores
//	go run ./ci/mutants -work DIR wire     # goes on with what lies in DIR
//
// All changes of a package are compiled into one test binary, each behind a switch, so
// that a mutant costs a run and not a build: mutant schemata (Untch, Offutt, Harrold 1993).
// Tools that build the tests anew for each mutant (gremlins) take ten times as long here.
package main

import (
	"bytes"
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
	"sync"
	"time"
)

// limit is how long the tests of one mutant may run: one that makes them hang is noticed.
// On a machine that is busy with other things it may be the machine that was slow, so
// that these are told apart.
const limit = 90 * time.Second

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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range flag.Args() {
		p := &trial{name: name, work: filepath.Join(*work, name), done: make(map[string]result)}
		if err := p.play(ctx, *workers); err != nil {
			return fmt.Errorf("the mutants of %s: %w", name, err)
		}
	}
	return nil
}

// trial is the mutants of one package.
type trial struct {
	name, work, binary string
	mutants            []Mutant
	done               map[string]result
	lock               sync.Mutex
	log                *os.File
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
	reached, err := p.reached(ctx)
	if err != nil {
		return err
	}
	todo := make(chan Mutant)
	var all sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		all.Go(func() {
			for m := range todo {
				if errs[worker] == nil {
					errs[worker] = p.try(ctx, m, reached[m.ID])
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
	if err := errors.Join(errors.Join(errs...), ctx.Err()); err != nil {
		return err
	}
	return p.summary()
}

// build compiles the tests of the package with every mutant in it.
func (p *trial) build(ctx context.Context) error {
	mutants, overlay, err := Mutate(ctx, "./"+p.name, p.work)
	if err != nil {
		return err
	}
	p.mutants, p.binary = mutants, filepath.Join(p.work, "tests")
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

// reached runs the tests without a mutant and gives those that the tests come by.
func (p *trial) reached(ctx context.Context) (map[int]bool, error) {
	path, err := filepath.Abs(filepath.Join(p.work, "reached"))
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if text, err := p.test(ctx, 0, "ACKPROOF_MUTANTS_REACHED="+path); err != nil {
		return nil, fmt.Errorf("the tests fail without a mutant: %w\n%s", err, text)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reached := make(map[int]bool)
	for line := range strings.Lines(string(text)) {
		var id int
		if _, err := fmt.Sscan(line, &id); err == nil {
			reached[id] = true
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %d mutants, %d reached by tests, which take %s\n", p.name, len(p.mutants), len(reached),
		time.Since(began).Round(time.Millisecond))
	return reached, nil
}

// test runs the tests with one mutant switched on.
func (p *trial) test(ctx context.Context, id int, more ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, p.binary, "-test.failfast", "-test.timeout", limit.String())
	command.Dir = p.name
	command.Env = append(append(os.Environ(), fmt.Sprintf("ACKPROOF_MUTANT=%d", id)), more...)
	return command.CombinedOutput()
}

func (p *trial) try(ctx context.Context, m Mutant, reached bool) error {
	r := result{Mutant: m, Fate: notReached}
	if reached {
		began := time.Now()
		r.Fate = survived
		if _, err := p.test(ctx, m.ID); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.Fate = killed
		}
		r.Seconds = time.Since(began).Seconds()
		if r.Fate == killed && r.Seconds >= limit.Seconds() {
			r.Fate = timedOut
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.done[m.Key()] = r
	if r.Fate != killed {
		fmt.Fprintf(os.Stderr, "%-11s %s\n", r.Fate, m)
	}
	_, err = p.log.Write(append(text, '\n'))
	return err
}

// summary counts, and names the survivors on standard output.
func (p *trial) summary() error {
	var out strings.Builder
	counts := make(map[string]int)
	for _, m := range p.mutants {
		r := p.done[m.Key()]
		counts[r.Fate]++
		if r.Fate != killed {
			fmt.Fprintf(&out, "%-11s %s\n", r.Fate, m)
		}
	}
	fmt.Fprintf(&out, "%s: %d mutants, %d killed, %d timed out, %d survived, %d not reached\n", p.name, len(p.mutants),
		counts[killed], counts[timedOut], counts[survived], counts[notReached])
	_, err := os.Stdout.WriteString(out.String())
	return err
}
