// This file tests what happens when the disk fills, on a small file system of the
// test's own.

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
)

func TestAFullDiskEndsTheRunAndKeepsWhatWasRecorded(t *testing.T) {
	folder := t.TempDir()
	// A mount namespace of its own: the file system goes with the process.
	args := []string{"--mount"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	script := `mount -t tmpfs -o size=300k tmpfs "$1" && exec "$2" run --json --seed 6 --duration 60s --out "$1/run"`
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	i := &invocation{Cmd: exec.CommandContext(ctx, "unshare", append(args, "sh", "-c", script, "sh", folder, binary)...)}
	i.Stdout, i.Stderr = &i.out, &i.progress
	r := finish(t, i)
	v := r.want(t, checker.UnknownWord)
	if v.Counts.Acknowledged < 100 {
		t.Errorf("only %d acknowledged events were kept", v.Counts.Acknowledged)
	}
	if !strings.Contains(r.progress, "no space left") || !strings.Contains(r.progress, filepath.Join(folder, "run")) {
		t.Errorf("it does not say which disk is full:\n%s", r.progress)
	}
}
