// This file tests that a client in another language takes part: the example in Python,
// which was written by somebody who had read clients/PROTOCOL.md and nothing else.

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const pythonExample = "../../clients/examples/python"

func TestTheExampleInPythonTakesPart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // packages are fetched
	defer cancel()
	environment := filepath.Join(t.TempDir(), "python")
	for _, command := range [][]string{
		{"python3", "-m", "venv", environment},
		{filepath.Join(environment, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
			"--requirement", filepath.Join(pythonExample, "requirements.txt")},
	} {
		//nolint:gosec // the commands stand above
		if output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s; it takes Python with venv and the package index", strings.Join(command, " "), err, output)
		}
	}
	adapter, err := filepath.Abs(filepath.Join(pythonExample, "adapter.py"))
	if err != nil {
		t.Fatal(err)
	}
	r := invoke(t, "run", "lost-ack", "lost-ack-idempotent", "crash-loses-buffer", "consumer-redelivery",
		"no-atomicity-without-transactions", "--seed", "1", "--out", filepath.Join(t.TempDir(), "campaign"),
		"--client-exec", filepath.Join(environment, "bin", "python")+" "+adapter)
	if r.status != exitHeld || !strings.Contains(r.stdout, "5 as expected, 0 otherwise, 0 unknown, 0 not applicable") {
		t.Errorf("status %d:\n%s%s", r.status, r.stdout, r.progress)
	}
}
