// Package engine is the container engine as Ackproof uses it: found and connected
// to through testcontainers-go, and asked directly for what that has no words for
// (signals, volumes, files). Everything that it makes carries labels that say
// which run it belongs to and who owns that run, so that what a run left that was
// killed hard can be told from what is in use, and be removed.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Engine is a connection to a container engine. Its methods may be called
// concurrently.
type Engine struct {
	client      *testcontainers.DockerClient
	description Description
}

// Description says what the engine is.
type Description struct {
	// Address of the engine, as unix:///var/run/docker.sock.
	Address string `json:"address"`
	// System is the operating system that the engine runs on, in its own words.
	System  string `json:"system"`
	Version string `json:"version"`
	// API is the newest version of its interface.
	API string `json:"api"`
	// Kernel is the version of the kernel that the containers run on.
	Kernel string `json:"kernel"`
	// Architecture under Go's name, as amd64.
	Architecture string `json:"architecture"`
	CPUs         int    `json:"cpus"`
	// Memory of the engine's machine, in bytes.
	Memory int64 `json:"memory_bytes"`
	// Reachable: the containers' own addresses can be connected to from here.
	Reachable bool `json:"reachable"`
	// Host is where ports that are published are found.
	Host string `json:"host"`
	// LimitsMemory: a container's memory can be limited.
	LimitsMemory bool `json:"limits_memory"`
}

// ErrNoEngine says that no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// prepare sets up testcontainers-go, which reads its settings once: its reaper is an
// image of its own that cannot be had without a registry, and we clean up by label;
// and it would write to standard error.
var prepare = sync.OnceFunc(func() {
	_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // fails only for a bad name
	log.SetDefault(log.NewNoopLogger())
})

// answerLimit bounds how long an engine may take to answer for the first time.
const answerLimit = 20 * time.Second

// Open connects to the engine that testcontainers-go finds: DOCKER_HOST and no other
// where that is set, its own settings, or the usual sockets. ErrNoEngine, with what to
// do, where none answers, which takes no longer than 20 s.
func Open(ctx context.Context) (*Engine, error) {
	prepare()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := askNamed(ctx)
	var connected *testcontainers.DockerClient
	if err == nil {
		connected, err = connect(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s): %v; start one (as Docker, or dockerd), or set DOCKER_HOST to where it "+
			"listens; verify doctor says what is missing", ErrNoEngine, address(), err)
	}
	e := &Engine{client: connected}
	if err := e.describe(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// askNamed asks the engine that DOCKER_HOST names, if it names one. Where that does
// not answer, testcontainers-go would take another one: brokers would run, and faults
// strike, where nobody asked for them.
func askNamed(ctx context.Context) error {
	if os.Getenv("DOCKER_HOST") == "" {
		return nil
	}
	named, err := client.New(client.FromEnv)
	if err != nil {
		return err
	}
	defer func() { _ = named.Close() }() // it was only asked
	_, err = named.Ping(ctx, client.PingOptions{})
	return err
}

// connect turns the panic that testcontainers-go ends with where it finds no engine
// into the error that it is.
func connect(ctx context.Context) (connected *testcontainers.DockerClient, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return testcontainers.NewDockerClientWithOpts(ctx)
}

func address() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return "DOCKER_HOST=" + host
	}
	return "at the usual sockets, as " + client.DefaultDockerHost
}

func (e *Engine) describe(ctx context.Context) error {
	answer, err := e.client.Client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("asking the container engine what it is: %w", err)
	}
	version, err := e.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return fmt.Errorf("asking the container engine for its version: %w", err)
	}
	info := answer.Info
	e.description = Description{Address: e.client.DaemonHost(), System: info.OperatingSystem, Version: info.ServerVersion,
		API: version.APIVersion, Kernel: info.KernelVersion, Architecture: goArchitecture(info.Architecture),
		CPUs: info.NCPU, Memory: info.MemTotal, LimitsMemory: info.MemoryLimit}
	e.description.Host = "127.0.0.1"
	if at, err := url.Parse(e.description.Address); err == nil && at.Scheme != "unix" && at.Hostname() != "" {
		e.description.Host = at.Hostname()
	}
	// A desktop engine runs its containers in a virtual machine, whose networks are
	// not ours.
	e.description.Reachable = runtime.GOOS == "linux" && strings.HasPrefix(e.description.Address, "unix://") &&
		!strings.Contains(info.OperatingSystem, "Desktop")
	return nil
}

// goArchitecture gives Go's name for what the kernel calls an architecture.
func goArchitecture(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// Description says what the engine is.
func (e *Engine) Description() Description { return e.description }

// Ping says whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	if _, err := e.client.Ping(ctx, client.PingOptions{}); err != nil {
		return fmt.Errorf("the container engine at %s no longer answers: %w", e.description.Address, err)
	}
	return nil
}

// Close ends the connection. What runs goes on running.
func (e *Engine) Close() error { return e.client.Close() }
