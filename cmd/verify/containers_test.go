// This file tests the built binary on real brokers: what verify doctor says, and what
// verify clean removes and leaves alone. It takes a container engine.

package main

import (
	"context"
	"encoding/json"
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
	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/scenarios"
)

// containersLimit bounds one invocation on real brokers, on a machine where other
// tests run beside it. imageLimit bounds the building of an image.
const (
	containersLimit = 4 * time.Minute
	imageLimit      = 5 * time.Minute
)

// machine is the container engine, and a folder for temporary files that is the test's
// own: what the binary leaves there, and what on the engine names a lock there, is the
// test's.
type machine struct {
	*engine.Engine
	temporary string
}

// requireEngine gives the machine, with the image of the brokers.
func requireEngine(t *testing.T) *machine {
	t.Helper()
	e, err := engine.Open(t.Context())
	if err != nil {
		t.Fatalf("this test takes a container engine: run ci/test, which brings one up, or start one: %v", err)
	}
	m := &machine{e, t.TempDir()}
	t.Cleanup(func() { _ = e.Close() }) // it was only asked
	ctx, cancel := context.WithTimeout(t.Context(), imageLimit)
	defer cancel()
	if _, err := images.Find(ctx, e, images.Wanted{Version: scenarios.DefaultKafka}); err != nil {
		t.Fatal(err)
	}
	return m
}

// start makes an invocation on the machine.
func (m *machine) start(t *testing.T, args ...string) *invocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), containersLimit)
	t.Cleanup(cancel)
	i := start(ctx, args...)
	i.Env = append(os.Environ(), "TMPDIR="+m.temporary)
	return i
}

func (m *machine) invoke(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, m.start(t, args...))
}

// left gives what the test's runs have on the engine.
func (m *machine) left(t *testing.T) []engine.Left {
	t.Helper()
	all, err := m.Left(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(l engine.Left) bool { return !strings.HasPrefix(l.Lock, m.temporary) })
}

// nothingLeft checks that the test's runs left nothing, on the engine and here.
func (m *machine) nothingLeft(t *testing.T) {
	t.Helper()
	if left := m.left(t); len(left) > 0 {
		t.Errorf("on the engine is left: %+v", left)
	}
	files, err := filepath.Glob(filepath.Join(m.temporary, "*", "*"))
	if err != nil || len(files) > 0 {
		t.Errorf("of temporary files %v are left (%v)", files, err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(containersLimit)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited %s for this: %s", containersLimit, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestTheDoctorSaysThatRunsInContainersArePossible(t *testing.T) {
	m := requireEngine(t)
	r := m.invoke(t, "doctor", "--json")
	var d clusters.Diagnosis
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.progress)
	}
	if r.status != exitHeld || !d.Containers || d.Engine == nil || d.Engine.Version == "" || d.Engine.Kernel == "" {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
	names := make(map[string]string)
	for _, c := range d.Checks {
		names[c.Name] = c.Result
		if c.Found == "" || (c.Result == clusters.Missing && c.Do == "") {
			t.Errorf("a check says nothing of what was found, or of what to do: %+v", c)
		}
	}
	for _, name := range []string{"engine", "memory", "image", "containers", "addresses", "nf_tables", "numgen", "signals", "temporary"} {
		if names[name] != clusters.Passed {
			t.Errorf("%s: %q", name, names[name])
		}
	}
	for _, name := range []string{"registry", "building", "memory-limit", "clean"} {
		if names[name] == "" {
			t.Errorf("nothing is said of %s", name)
		}
	}
	m.nothingLeft(t)
	t.Run("in words, one line for each", func(t *testing.T) {
		r := m.invoke(t, "doctor")
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		if r.status != exitHeld || len(lines) != len(d.Checks)+2 || !strings.Contains(lines[len(lines)-1], "are possible") {
			t.Errorf("exit status %d\n%s", r.status, r.stdout)
		}
		m.nothingLeft(t)
	})
}

func TestTheDoctorSaysWhatIsMissingWithoutAnEngine(t *testing.T) {
	i := withoutEngine(t, "doctor")
	began := time.Now()
	r := finish(t, i)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if r.status != exitUnknown || r.progress != "" {
		t.Errorf("exit status %d, %s", r.status, r.progress)
	}
	lines := strings.Split(r.stdout, "\n")
	for _, says := range []string{"missing", "no container engine answers", "none.sock", "to do: start"} {
		if !strings.Contains(lines[0], says) {
			t.Errorf("the first line does not say %q: %s", says, lines[0])
		}
	}
	if !strings.Contains(r.stdout, "\ncannot tell") || !strings.Contains(r.stdout, "embedded") {
		t.Errorf("it does not say what it cannot tell, or that embedded runs work:\n%s", r.stdout)
	}
	var d clusters.Diagnosis
	if err := json.Unmarshal([]byte(finish(t, withoutEngine(t, "doctor", "--json")).stdout), &d); err != nil || d.Containers {
		t.Errorf("as JSON it says that containers are possible: %t (%v)", d.Containers, err)
	}
}

// withoutEngine makes an invocation for which no engine answers, whatever the machine
// has.
func withoutEngine(t *testing.T, args ...string) *invocation {
	t.Helper()
	i := (&machine{temporary: t.TempDir()}).start(t, args...)
	i.Env = append(i.Env, "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "none.sock"))
	return i
}

// partitioned says whether a cut is in force in a namespace of the run.
func (m *machine) partitioned(t *testing.T, run string) bool {
	t.Helper()
	for _, left := range m.left(t) {
		for _, name := range left.Containers {
			if left.Run != run || !strings.Contains(name, "-holder-") {
				continue
			}
			output, err := m.Execute(t.Context(), name, agent.Path, agent.CommandCuts)
			var cuts []agent.InForce
			if err == nil && json.Unmarshal(output, &cuts) == nil && len(cuts) > 0 { // it may not run yet
				return true
			}
		}
	}
	return false
}

// newRun waits until the binary has begun a run beside the others, and gives its name
// on the engine.
func (m *machine) newRun(t *testing.T, others ...string) (run string) {
	t.Helper()
	await(t, "a run begins", func() bool {
		for _, left := range m.left(t) {
			if !slices.Contains(others, left.Run) {
				run = left.Run
				return true
			}
		}
		return false
	})
	return run
}

// clean runs verify clean and gives what it says of itself.
func (m *machine) clean(t *testing.T, args ...string) cleaned {
	t.Helper()
	r := m.invoke(t, append([]string{"clean", "--json"}, args...)...)
	var c cleaned
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil || r.status != exitHeld {
		t.Fatalf("exit status %d, %v\n%s%s", r.status, err, r.stdout, r.progress)
	}
	return c
}

// names says whether what was removed has the run, and what was left alone.
func (c cleaned) names(run string) (removed, left bool) {
	return slices.ContainsFunc(c.Runs, func(l engine.Left) bool { return l.Run == run }),
		slices.ContainsFunc(c.LeftAlone, func(l leftAlone) bool { return strings.Contains(l.What, run) })
}

// One run is killed in the middle of a partition; another one plays beside it from
// before that until after everything of the first is removed.
func TestARunThatIsKilledIsCleanedUpAndTheOneBesideItIsNotDisturbed(t *testing.T) {
	t.Parallel()
	m := requireEngine(t)
	run := func(args ...string) *invocation {
		i := m.start(t, append([]string{"run", "--cluster", "containers", "--json", "--rate", "300", "--seed", "7",
			"--out", filepath.Join(t.TempDir(), "run")}, args...)...)
		if err := i.Start(); err != nil {
			t.Fatal(err)
		}
		return i
	}
	killed := run("--duration", "60s", "--faults", "isolate-leader")
	dead := m.newRun(t)
	beside := run("--duration", "20s", "--faults", "kill-leader")
	living := m.newRun(t, dead)
	await(t, "a partition is on", func() bool { return m.partitioned(t, dead) })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	segments := filepath.Join(m.temporary, "ackproof-segments-1234567")
	if err := os.Mkdir(segments, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := func(run string) string {
		paths, err := filepath.Glob(filepath.Join(m.temporary, "ackproof-*", run+".lock"))
		if err != nil || len(paths) != 1 {
			return ""
		}
		return paths[0]
	}
	if lock(dead) == "" || lock(living) == "" {
		t.Fatal("the runs have no locks")
	}
	if removed, left := m.clean(t, "--dry-run", "--images").names(dead); !removed || left {
		t.Error("a dry run does not say what would be removed")
	}
	if len(m.left(t)) != 2 || lock(dead) == "" {
		t.Error("a dry run removed something")
	}
	// Two at once: what one is about to remove is no failure of the other.
	other := m.start(t, "clean", "--json")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	c := m.clean(t)
	if r := finish(t, other); r.status != exitHeld || (!strings.Contains(r.stdout, dead) && !strings.Contains(fmt.Sprint(c.Runs), dead)) {
		t.Errorf("another one beside it ended with %d: %s%s", r.status, r.stdout, r.progress)
	}
	if _, left := c.names(dead); left {
		t.Errorf("what the killed run left is not said to be removed: %+v", c)
	}
	if removed, left := c.names(living); removed || !left {
		t.Errorf("the living run is not said to be left alone: %+v", c)
	}
	for _, left := range m.left(t) {
		if left.Run == dead {
			t.Errorf("the killed run left %+v", left)
		}
	}
	if _, err := os.Stat(segments); err == nil || lock(dead) != "" {
		t.Error("the killed run's lock or folder is left")
	}
	if lock(living) == "" {
		t.Error("the living run's lock is gone")
	}
	r := finish(t, beside)
	v := r.want(t, checker.Held)
	if v.Counts.Acknowledged < 1000 || len(v.Faults) == 0 || !v.Faults[0].Bit {
		t.Errorf("%d acknowledged, faults %+v", v.Counts.Acknowledged, v.Faults)
	}
	m.nothingLeft(t)
	if removed, left := m.clean(t).names(dead); removed || left {
		t.Error("what was removed is still spoken of")
	}
}

func TestCleanDoesNothingWithoutAnEngine(t *testing.T) {
	r := finish(t, withoutEngine(t, "clean"))
	if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.progress, "no container engine answers") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.progress)
	}
}

// A network that a living run uses cannot be removed, though the run that made it is
// over.
func TestWhatCannotBeRemovedIsAFailureOfOurs(t *testing.T) {
	m := requireEngine(t)
	t.Setenv("TMPDIR", m.temporary)
	owner := func() *engine.Owner {
		o, err := engine.NewOwner()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	over, living := owner(), owner()
	image, err := images.Agent(t.Context(), m.Engine)
	if err != nil {
		t.Fatal(err)
	}
	network, container := over.Name("network"), living.Name("holder")
	if err := m.CreateNetwork(t.Context(), over, network); err != nil {
		t.Fatal(err)
	}
	if err := over.Release(); err != nil {
		t.Fatal(err)
	}
	err = m.Start(t.Context(), engine.Spec{Owner: living, Name: container, Image: image, Network: network,
		Entrypoint: []string{agent.Path, agent.CommandHold}})
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(m.RemoveContainer(ctx, container), m.RemoveNetwork(ctx, network)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r := m.invoke(t, "clean")
	if r.status != exitFailure || !strings.Contains(r.progress, network) || strings.Contains(r.stdout, "nothing is left") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.progress)
	}
	if state, err := m.State(t.Context(), container); err != nil || !state.Running {
		t.Errorf("the living run's container was touched: %+v (%v)", state, err)
	}
	if err := errors.Join(m.RemoveContainer(t.Context(), container), living.Release()); err != nil {
		t.Fatal(err)
	}
	if removed, left := m.clean(t).names(over.Run); !removed || left {
		t.Error("what nobody uses any more was not removed")
	}
	m.nothingLeft(t)
}
