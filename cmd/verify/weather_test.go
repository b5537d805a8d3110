// This file tests bad weather on real brokers: whatever is missing, taken, full or too
// small, the binary ends by itself, says what it was, and leaves nothing. It takes a
// container engine.

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/runs"
)

// inContainers are the arguments of a short run that would be fine in good weather.
func inContainers(t *testing.T, args ...string) []string {
	t.Helper()
	return append([]string{"run", "--cluster", "containers", "--duration", "5s", "--faults", "none", "--seed", "8",
		"--out", filepath.Join(t.TempDir(), "run")}, args...)
}

func TestWhatCannotBeStartedIsRefused(t *testing.T) {
	m := requireEngine(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []struct {
		rule string
		args []string
		says []string
	}{
		{"an image that does not exist", []string{"--image", "ackproof/no-such-image:0"},
			[]string{"the brokers' image cannot be had", "ackproof/no-such-image:0"}},
		{"a version of Kafka that does not exist", []string{"--kafka", "99.0.0"}, []string{"the brokers' image cannot be had", "99.0.0"}},
		{"a port that is taken", []string{"--listen", taken.Addr().String()}, []string{taken.Addr().String(), "address already in use", "choose another"}},
		{"too little memory for a broker", []string{"--broker-memory", "16"}, []string{"16 MiB", "at least"}},
		{"too little memory on the engine's machine", []string{"--broker-memory", "100000000"}, []string{"100000000 MiB", "has", "give it more"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := m.invoke(t, inContainers(t, c.args...)...)
			if r.status != exitUsage || r.stdout != "" {
				t.Errorf("exit status %d, standard output %q", r.status, r.stdout)
			}
			r.says(t, c.says...)
			m.nothingLeft(t)
		})
	}
	t.Run("no engine", func(t *testing.T) {
		r := finish(t, withoutEngine(t, inContainers(t)...))
		if r.status != exitUsage || r.stdout != "" {
			t.Errorf("exit status %d, standard output %q", r.status, r.stdout)
		}
		r.says(t, "no container engine answers", "none.sock", "verify doctor")
	})
}

// says checks that what went to standard error has all of these.
func (r result) says(t *testing.T, all ...string) {
	t.Helper()
	for _, text := range all {
		if !strings.Contains(r.progress, text) {
			t.Errorf("it does not say %q:\n%s", text, r.progress)
		}
	}
}

func TestBrokersThatDoNotComeUpAreUnknownAndSayWhy(t *testing.T) {
	t.Parallel()
	m := requireEngine(t)
	agentImage, err := images.Agent(t.Context(), m.Engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule string
		args []string
		says []string
	}{
		{"a property that Kafka refuses", []string{"--broker-config", "num.io.threads=none"},
			[]string{"ConfigException: Invalid value none for configuration num.io.threads"}},
		{"memory that a broker cannot live on", []string{"--broker-memory", "48"}, []string{"emory"}},
		{"an image without Kafka", []string{"--image", agentImage}, []string{"the image has no java"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := m.invoke(t, inContainers(t, c.args...)...)
			if r.status != exitUnknown || r.stdout != "" {
				t.Errorf("exit status %d, standard output %q", r.status, r.stdout)
			}
			r.says(t, append(c.says, "the brokers did not come up", "ended by itself", "its last lines:\n")...)
			m.nothingLeft(t)
		})
	}
}

// A disk that fills takes every replica at about the same time: the brokers halt, and
// what they had acknowledged cannot be read any more. That is unknown.
func TestBrokersWhoseDisksFillEndTheRun(t *testing.T) {
	t.Parallel()
	m := requireEngine(t)
	folder := t.TempDir()
	scenario, out := filepath.Join(folder, "full.yaml"), filepath.Join(folder, "run")
	if err := os.WriteFile(scenario, []byte(`format: ackproof-scenario/1
name: brokers-disks-fill
seed: 8
duration: 10s
cluster: {provider: containers, broker.disk.mib: 20}
workload: {producers: 2, consumers: 1, keys: 8, rate: 3000, value.size: 4000}
faults: {asked: none}
limits: {drain: 5s, whole: 10s, serve: 5s, read: 10s}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := m.invoke(t, "run", scenario, "--json", "--out", out)
	v := r.verdict(t)
	if r.status != exitUnknown || v.Counts.Acknowledged == 0 || v.Counts.Failed+v.Counts.Unknown == 0 {
		t.Errorf("exit status %d, %+v: %s", r.status, v.Counts, v.Summary)
	}
	r.says(t, "ended by itself", "its last lines:\n")
	if !strings.Contains(r.progress, "No space left on device") && !strings.Contains(r.progress, "SIGBUS") {
		t.Errorf("it does not say that the disk is full:\n%s", r.progress)
	}
	log, err := os.ReadFile(filepath.Join(out, runs.BrokersDir, "1", "server.log"))
	if err != nil || len(log) == 0 {
		t.Errorf("the log of broker 1 was not kept: %v", err)
	}
	m.nothingLeft(t)
}
