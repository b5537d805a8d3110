// This file holds franz-go in an old version: its adapter, built in a module of its own.

package defects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The adapter's source, and for each version the module that it is built in: go.mod and
// go.sum. They have other names here, since a folder with a go.mod cannot be embedded.
//
//go:embed franzgo/main.go franzgo/*.mod franzgo/*.sum
var franzGoModules embed.FS

// adapterFiles gives what the module of a version consists of, by the names of its files.
func adapterFiles(version string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for name, from := range map[string]string{"main.go": "franzgo/main.go", "go.mod": "franzgo/v" + version + ".mod",
		"go.sum": "franzgo/v" + version + ".sum"} {
		content, err := franzGoModules.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no module for franz-go %s here", version)
		} else if err != nil {
			return nil, fmt.Errorf("reading the adapter of franz-go %s: %w", version, err)
		}
		files[name] = content
	}
	return files, nil
}

// buildFranzGo gives the adapter of a version of franz-go, built once and kept in the
// user's cache. It takes Go, and the first time the module's source from where Go gets it.
func buildFranzGo(ctx context.Context, version string, progress func(format string, args ...any)) (path string, err error) {
	files, err := adapterFiles(version)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		_, _ = hash.Write(files[name]) // never fails
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for a place to keep franz-go %s: %w", version, err)
	}
	kept := filepath.Join(cache, "ackproof", "franz-go", fmt.Sprintf("%s-%x", version, hash.Sum(nil)[:8]))
	path = filepath.Join(kept, "adapter")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", errors.New("an old version of franz-go is built here, which takes Go, and there is no go in PATH")
	}
	progress("building an adapter with franz-go %s", version)
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return "", fmt.Errorf("making a place to keep franz-go %s: %w", version, err)
	}
	work, err := os.MkdirTemp("", "ackproof-franz-go-")
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // temporary
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return "", fmt.Errorf("writing the module of franz-go %s: %w", version, err)
		}
	}
	return path, buildModule(ctx, tool, work, path)
}

// buildModule builds the command of a folder into a file: whole or not at all, also where
// two processes do so at once.
func buildModule(ctx context.Context, tool, work, into string) error {
	half := fmt.Sprintf("%s.%d", into, os.Getpid())
	command := exec.CommandContext(ctx, tool, "build", "-mod=readonly", "-o", half, ".")
	command.Dir = work
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("building the adapter of an old franz-go with %s: %w: %s", tool, err, bytes.TrimSpace(output.Bytes()))
	}
	if err := os.Rename(half, into); err != nil {
		return fmt.Errorf("keeping the adapter of an old franz-go: %w", err)
	}
	return nil
}
