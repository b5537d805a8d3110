// Command build builds the agent for every architecture and puts it, compressed,
// beside package agent: go generate ./clusters/agent. The same toolchain gives the
// same bytes on every machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

func main() {
	for _, architecture := range []string{"amd64", "arm64"} {
		if err := build(architecture); err != nil {
			fmt.Fprintf(os.Stderr, "building the agent for %s: %v\n", architecture, err)
			os.Exit(1)
		}
	}
}

// build is run in the folder of package agent.
func build(architecture string) error {
	folder, err := os.MkdirTemp("", "ackproof-agent-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder
	path := filepath.Join(folder, "agent")
	command := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid=", "-o", path, "./program")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=", "GOAMD64=v1")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return os.WriteFile("agent_linux_"+architecture+".zst", encoder.EncodeAll(program, nil), 0o644)
}
