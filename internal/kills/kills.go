// Package kills plays runs of verify that are killed hard (SIGKILL) at a given moment, and
// says whether what they left is what was promised: a history that reads up to the last
// second, an honest verdict, and nothing that verify clean does not remove.
package kills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// Kill is one run, and when it is killed.
type Kill struct {
	// Program is the built command; Arguments are those of its run, without --out.
	Program   string
	Arguments []string
	// Out is the run directory. Temporary is the folder for temporary files of the run and
	// of every command after it, so that what it leaves can be told from others'.
	Out, Temporary string
	// After is how long after its start the process is killed; zero: not at all.
	After time.Duration
}

// Outcome is what a killed run left.
type Outcome struct {
	// Phase is what it was doing, as its history tells: one of the Phase constants.
	Phase string `json:"phase"`
	// Took is how long it lived.
	Took time.Duration `json:"took"`
	// Behind is how far behind the kill the last line lies that can be read. It says
	// something of the recorder where clients worked: then lines came all the time.
	Behind time.Duration `json:"behind"`
	// Stalled is the longest that this process itself had to wait for the machine.
	Stalled time.Duration `json:"stalled"`
	// Sent counts the sends of the history. Status and Verdict are those of verify check.
	Sent    int64  `json:"sent"`
	Status  int    `json:"status"`
	Verdict string `json:"verdict"`
	// Problems are what ought not to be; empty: all is as promised.
	Problems []string `json:"problems"`
}

// What a run was doing when it was killed.
const (
	PhaseBefore     = "before there was a history"
	PhaseStarting   = "start-up"
	PhaseWorking    = "under load"
	PhaseFault      = "during a fault"
	PhaseHealing    = "while healing and draining"
	PhaseReading    = "during the final read"
	PhaseConcluding = "between the history's end and the verdict"
	PhaseOver       = "after the verdict was written"
)

// Phases gives the phases in their order.
func Phases() []string {
	return []string{PhaseBefore, PhaseStarting, PhaseWorking, PhaseFault, PhaseHealing, PhaseReading, PhaseConcluding, PhaseOver}
}

// MostBehind is how far behind a kill the last readable line may lie while clients work:
// the second within which a history is flushed, and what writing it takes on a busy machine.
const MostBehind = 1500 * time.Millisecond

// MostStalled is how long this process itself may have had to wait for the machine: above
// that a history that ends too early says nothing.
const MostStalled = 150 * time.Millisecond

// limit bounds each command.
const limit = 5 * time.Minute

// Play plays the run, kills it, and judges what it left, verify clean aside. The error says
// that it could not be played, or the context's.
func (k Kill) Play(ctx context.Context) (Outcome, error) {
	var o Outcome
	at, err := k.run(ctx, &o)
	if err != nil {
		return o, err
	}
	left := k.left(&o, at)
	if err := k.check(ctx, &o, left); err != nil {
		return o, err
	}
	return o, ctx.Err()
}

// Working says that clients worked when the run was killed.
func (o *Outcome) Working() bool { return o.Phase == PhaseWorking || o.Phase == PhaseFault }

// Excused says that the history ends too early, and that the machine was too busy for that to mean anything.
func (o *Outcome) Excused() bool {
	return o.Working() && o.Behind > MostBehind && o.Stalled > MostStalled
}

func (o *Outcome) problem(format string, args ...any) {
	o.Problems = append(o.Problems, fmt.Sprintf(format, args...))
}

// command gives a command of the program, in its own folder for temporary files.
func (k Kill) command(ctx context.Context, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, k.Program, arguments...)
	c.Env = append(os.Environ(), "TMPDIR="+k.Temporary)
	return c
}

// run plays the run and gives when it was killed, or had ended.
func (k Kill) run(ctx context.Context, o *Outcome) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := k.command(ctx, append([]string{"run", "--json", "--out", k.Out}, k.Arguments...)...)
	var progress strings.Builder
	c.Stderr = &progress
	if err := c.Start(); err != nil {
		return at, fmt.Errorf("starting a run: %w", err)
	}
	began := time.Now()
	stop := o.watchTheMachine()
	killed := make(chan time.Time, 1)
	if k.After > 0 {
		timer := time.AfterFunc(k.After, func() {
			killed <- time.Now()
			_ = c.Process.Kill() // it may have ended
		})
		defer timer.Stop()
	}
	err = c.Wait()
	at = time.Now()
	select {
	case at = <-killed:
	default:
	}
	o.Took = at.Sub(began)
	stop()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return at, fmt.Errorf("the run did not end: %w", context.Cause(ctx))
	case err != nil && !errors.As(err, &ended):
		return at, fmt.Errorf("the run: %w", err)
	case ended != nil && ended.Exited() && ended.ExitCode() != 2: // 2 is unknown, an answer
		o.problem("the run itself ended with %d: %s", ended.ExitCode(), lastLine(progress.String()))
	}
	return at, nil
}

// watchTheMachine measures, until stop is called, for how long this process has to wait for
// the machine.
func (o *Outcome) watchTheMachine() (stop func()) {
	const every = 10 * time.Millisecond
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
				o.Stalled = max(o.Stalled, time.Since(last)-every)
				last = time.Now()
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// leftBehind is what a killed run's directory holds.
type leftBehind struct {
	history, verdict bool // that there is one that can be read
	ended            bool // the history has its end line
	written          checker.Verdict
}

// left reads what is there, and says what the run was doing.
func (k Kill) left(o *Outcome, at time.Time) leftBehind {
	var left leftBehind
	d := runs.Directory{Path: k.Out}
	text, err := os.ReadFile(d.Verdict())
	if err == nil {
		left.verdict = true
		if err := json.Unmarshal(text, &left.written); err != nil {
			o.problem("verdict.json is there and not whole: %v", err)
		}
	}
	file, err := histories.Open(d.History())
	if err != nil {
		o.Phase = PhaseBefore
		if left.verdict {
			o.problem("there is a verdict and no history: %v", err)
		}
		return left
	}
	left.history = true
	lines := newProgress()
	for entry, err := range file.Lines(context.Background()) {
		var cut *histories.CutError
		if errors.As(err, &cut) {
			break
		}
		if err != nil {
			o.problem("the history is not one that was cut: %v", err)
			break
		}
		lines.take(entry.Line)
	}
	left.ended = lines.end
	o.Phase, o.Sent = lines.phase(left.verdict), lines.sent
	o.Behind = at.Sub(file.Header().Started.Add(time.Duration(lines.latest)))
	if o.Working() && o.Behind > MostBehind && !o.Excused() {
		o.problem("the last line that can be read lies %s behind the kill", o.Behind.Round(time.Millisecond))
	}
	return left
}

// check judges what was left, and the judgement.
func (k Kill) check(ctx context.Context, o *Outcome, left leftBehind) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := k.command(ctx, "check", "--json", k.Out)
	var out, progress strings.Builder
	c.Stdout, c.Stderr = &out, &progress
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || !ended.Exited()) {
		o.problem("verify check did not end by itself: %v: %s", err, lastLine(progress.String()))
		return ctx.Err()
	}
	o.Status = c.ProcessState.ExitCode()
	if !left.history {
		if o.Status != 254 || progress.Len() == 0 || out.Len() > 0 {
			o.problem("without a history verify check ends with %d: %s", o.Status, lastLine(progress.String()))
		}
		return nil
	}
	var v checker.Verdict
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
		o.problem("verify check ended with %d and gave no verdict: %s", o.Status, lastLine(progress.String()))
		return nil
	}
	o.Verdict = v.Verdict
	k.honest(o, left, &v)
	return nil
}

// honest: nothing is held that was cut, and nothing is violated at all, since what was played
// breaks no promise.
func (k Kill) honest(o *Outcome, left leftBehind, v *checker.Verdict) {
	if want := map[string]int{checker.Held: 0, checker.Violated: 1, checker.UnknownWord: 2}[v.Verdict]; o.Status != want {
		o.problem("verify check says %s and ends with %d", v.Verdict, o.Status)
	}
	switch {
	case v.Verdict == checker.Violated:
		o.problem("a violation that is none: %s", v.Summary)
	case !left.ended && v.Verdict != checker.UnknownWord:
		o.problem("a history without its end is %s: %s", v.Verdict, v.Summary)
	case !left.ended && v.History.Cut == "":
		o.problem("the verdict does not say that the history is cut")
	case left.verdict && !left.ended:
		o.problem("there is a verdict, and the history has no end")
	case left.verdict && left.written.Verdict != v.Verdict:
		o.problem("the run wrote that it is %s, and verify check says %s", left.written.Verdict, v.Verdict)
	}
}

// Clean runs verify clean, and gives what is left of the run all the same: of its files,
// and of its processes. What it has on the engine the caller must look for, by Locks.
func (k Kill) Clean(ctx context.Context) (problems []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if output, err := k.command(ctx, "clean").CombinedOutput(); err != nil {
		problems = append(problems, fmt.Sprintf("verify clean: %v: %s", err, lastLine(string(output))))
	}
	err = filepath.WalkDir(k.Temporary, func(path string, entry fs.DirEntry, err error) error {
		// The folder of the locks stays: another run may be about to take one in it.
		inside := strings.Count(strings.TrimPrefix(path, k.Temporary), string(filepath.Separator))
		if err == nil && (inside > 1 || (inside == 1 && !entry.IsDir())) {
			problems = append(problems, "of the temporary files is left: "+path)
		}
		return err
	})
	processes, found := processesWith("TMPDIR=" + k.Temporary)
	problems = append(problems, processes...)
	return problems, errors.Join(err, found)
}
