// This file tests a container engine that dies in the middle of a run: one of the
// test's own, with its own socket, folder, network and processes, all of which end with
// the test. It takes dockerd and root.

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
	"github.com/ackproof/ackproof/scenarios"
)

// secondEngine is an engine that can be killed and started again.
type secondEngine struct {
	client   *client.Client
	host     string
	process  *exec.Cmd
	commands io.Writer
}

// engineScript is the first process of the engine's own namespaces: what runs there
// ends with it, which is when its standard input does.
const engineScript = `ip link set lo up || exit 1
begin() {
	rm -f "$1/pid"
	dockerd --host "unix://$1/docker.sock" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" --cgroup-parent "$2" &
	engine=$!
}
begin "$@"
while read -r command; do
	case $command in
	kill) kill -KILL $engine; wait $engine ;;
	begin) begin "$@" ;;
	esac
done
kill -TERM $engine; wait $engine`

// startSecondEngine starts an engine and gives it the image of the brokers from the
// machine's own.
func startSecondEngine(t *testing.T, m *machine) *secondEngine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a second container engine takes root: run ci/test as root")
	}
	// A socket's path must be short, and its folder is removed when all has ended.
	folder, err := os.MkdirTemp("", "engine-")
	if err != nil {
		t.Fatal(err)
	}
	group := "/" + filepath.Base(folder)
	e := &secondEngine{host: "unix://" + filepath.Join(folder, "docker.sock")}
	e.process = exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", engineScript,
		"sh", folder, group)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	e.process.Stdout, e.process.Stderr = log, log
	commands, err := e.process.StdinPipe()
	if err == nil {
		err = e.process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	e.commands = commands
	t.Cleanup(func() {
		_ = commands.Close()
		_ = e.process.Wait() // it ends as its engine does
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the engine said:\n%s", text[max(len(text)-3000, 0):])
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Errorf("removing the folder of the engine: %v", err)
		}
		removeGroups(t, group)
	})
	if e.client, err = client.New(client.WithHost(e.host)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.client.Close() })
	e.await(t)
	e.copyImage(t, m)
	return e
}

// removeGroups removes the control groups that an engine leaves, empty.
func removeGroups(t *testing.T, group string) {
	t.Helper()
	var folders []string
	for _, pattern := range []string{"/sys/fs/cgroup" + group, "/sys/fs/cgroup/*" + group} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, found...)
	}
	for _, folder := range folders {
		below, _ := filepath.Glob(folder + "/*/")
		for _, path := range append(below, folder) {
			await(t, "the control group "+path+" is gone", func() bool { return os.Remove(path) == nil || os.IsNotExist(os.Remove(path)) })
		}
	}
}

// await waits until the engine answers.
func (e *secondEngine) await(t *testing.T) {
	t.Helper()
	await(t, "the second engine answers", func() bool {
		_, err := e.client.Ping(t.Context(), client.PingOptions{})
		return err == nil
	})
}

func (e *secondEngine) copyImage(t *testing.T, m *machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	defer cancel()
	reference, err := images.Present(ctx, m.Engine, scenarios.DefaultKafka)
	if err != nil {
		t.Fatal(err)
	}
	first, err := client.New(client.WithHost(m.Description().Address))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	saved, err := first.ImageSave(ctx, []string{reference})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = saved.Close() }()
	loaded, err := e.client.ImageLoad(ctx, saved)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loaded.Close() }()
	if _, err := io.Copy(io.Discard, loaded); err != nil {
		t.Fatal(err)
	}
}

// tell tells the script.
func (e *secondEngine) tell(t *testing.T, command string) {
	t.Helper()
	if _, err := fmt.Fprintln(e.commands, command); err != nil {
		t.Fatal(err)
	}
}

// start makes an invocation that uses the engine, in the engine's network, where the
// brokers' addresses are.
func (e *secondEngine) start(t *testing.T, m *machine, args ...string) *invocation {
	t.Helper()
	i := m.start(t, args...)
	network := fmt.Sprintf("--net=/proc/%d/ns/net", e.process.Process.Pid)
	path, err := exec.LookPath("nsenter")
	if err != nil {
		t.Fatal(err)
	}
	i.Path, i.Args = path, append([]string{"nsenter", network, binary}, args...)
	i.Env = append(i.Env, "DOCKER_HOST="+e.host)
	return i
}

// has counts the containers, networks and volumes that carry a label of ours.
func (e *secondEngine) has(t *testing.T) (n int) {
	t.Helper()
	ours := client.Filters{}.Add("label", "io.github.ackproof.run")
	containers, err := e.client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		t.Fatal(err)
	}
	networks, err := e.client.NetworkList(t.Context(), client.NetworkListOptions{Filters: ours})
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := e.client.VolumeList(t.Context(), client.VolumeListOptions{Filters: ours})
	if err != nil {
		t.Fatal(err)
	}
	return len(containers.Items) + len(networks.Items) + len(volumes.Items)
}

// faultBegan says whether the history of a run that goes on has the start of a fault.
func faultBegan(ctx context.Context, out string) bool {
	file, err := histories.Open((&runs.Directory{Path: out}).History())
	if err != nil {
		return false // not written yet
	}
	for entry, err := range file.Lines(ctx) {
		if err != nil {
			return false // its end is being written
		}
		if _, is := entry.Line.(*histories.FaultStart); is {
			return true
		}
	}
	return false
}

func TestAnEngineThatDiesMidRunEndsTheRun(t *testing.T) {
	m := requireEngine(t)
	e := startSecondEngine(t, m)
	folder := t.TempDir()
	scenario, out := filepath.Join(folder, "dies.yaml"), filepath.Join(folder, "run")
	if err := os.WriteFile(scenario, []byte(`format: ackproof-scenario/1
name: the-engine-dies
seed: 8
duration: 12s
cluster: {provider: containers}
workload: {producers: 2, consumers: 1, keys: 8, rate: 300}
faults:
  schedule:
    - {at: 2s, for: 8s, fault: isolate, settings: {broker: leader, partition: random, clients: "false", coordinates: ackproof}}
limits: {drain: 5s, whole: 5s, serve: 5s, read: 5s}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	i := e.start(t, m, "run", scenario, "--json", "--out", out)
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the isolation begins", func() bool { return faultBegan(t.Context(), out) })
	e.tell(t, "kill")
	died := time.Now()
	r := finish(t, i)
	if took := time.Since(died); took > 2*time.Minute {
		t.Errorf("the run went on for %s", took)
	}
	v := r.verdict(t)
	if r.status != exitUnknown || v.Counts.Acknowledged == 0 {
		t.Errorf("exit status %d, %+v: %s", r.status, v.Counts, v.Summary)
	}
	r.says(t, "no longer answers", e.host, "verify clean")
	if lines := strings.Count(r.progress, "\n"); lines > 25 {
		t.Errorf("it says it in %d lines:\n%s", lines, r.progress)
	}
	e.tell(t, "begin")
	e.await(t)
	if e.has(t) == 0 {
		t.Error("the engine that died has nothing of the run: there was nothing to clean")
	}
	if cleaned := finish(t, e.start(t, m, "clean")); cleaned.status != exitHeld || !strings.Contains(cleaned.stdout, "removed  run") {
		t.Errorf("exit status %d\n%s%s", cleaned.status, cleaned.stdout, cleaned.progress)
	}
	if n := e.has(t); n != 0 {
		t.Errorf("%d containers, networks and volumes are left", n)
	}
	m.nothingLeft(t)
	t.Run("the images that were built here are removed when that is asked for", func(t *testing.T) {
		r := finish(t, e.start(t, m, "clean", "--images"))
		if r.status != exitHeld || !strings.Contains(r.stdout, "removed  image ackproof/agent:") {
			t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.progress)
		}
		built, err := e.client.ImageList(t.Context(), client.ImageListOptions{Filters: client.Filters{}.Add("label", engine.LabelImage)})
		if err != nil || len(built.Items) > 0 {
			t.Errorf("%d of the images that were built here are left (%v)", len(built.Items), err)
		}
	})
}
