// This file holds what is done to containers, networks and volumes.

package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Spec says what container is made.
type Spec struct {
	Owner *Owner
	Name  string
	Image string
	// Entrypoint replaces the image's.
	Entrypoint []string
	// Network is the name of the network that it joins; Namespace the name of the
	// container whose network namespace it shares instead.
	Network, Namespace string
	// HostNetwork: it has the network of the engine's machine.
	HostNetwork bool
	// Publish are TCP ports that can be connected to from the engine's machine.
	Publish []uint16
	// Capabilities that it keeps; all others are dropped, unless All is set.
	Capabilities    []string
	AllCapabilities bool
	// Volume is mounted at Mount.
	Volume, Mount string
	// Memory limit in bytes; 0: none.
	Memory int64
	// Files by their path in the container.
	Files map[string]File
}

// File is one file that a container is given.
type File struct {
	Content []byte
	Mode    int64
}

// Start makes and starts a container. After an error nothing of it is left.
func (e *Engine) Start(ctx context.Context, s Spec) error {
	request := testcontainers.ContainerRequest{Image: s.Image, Name: s.Name, Entrypoint: s.Entrypoint, Labels: s.Owner.Labels()}
	if s.Network != "" {
		request.Networks = []string{s.Network}
	}
	for _, port := range s.Publish {
		request.ExposedPorts = append(request.ExposedPorts, fmt.Sprintf("%d/tcp", port))
	}
	for name, file := range s.Files {
		request.Files = append(request.Files, testcontainers.ContainerFile{Reader: bytes.NewReader(file.Content),
			ContainerFilePath: name, FileMode: file.Mode})
	}
	request.ConfigModifier = func(c *container.Config) { c.User = "0" }
	request.HostConfigModifier = func(h *container.HostConfig) {
		if s.Namespace != "" {
			h.NetworkMode = container.NetworkMode("container:" + s.Namespace)
		}
		if s.HostNetwork {
			h.NetworkMode = "host"
		}
		if s.Volume != "" {
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: s.Volume, Target: s.Mount})
		}
		if !s.AllCapabilities {
			h.CapDrop, h.CapAdd = []string{"ALL"}, s.Capabilities
		}
		h.Memory = s.Memory
		h.MemorySwap = s.Memory // no swap beside it
	}
	started, err := testcontainers.GenericContainer(ctx,
		testcontainers.GenericContainerRequest{ContainerRequest: request, Started: true})
	if err != nil {
		err = fmt.Errorf("starting the container %s (image %s): %w", s.Name, s.Image, err)
		if started != nil {
			err = errors.Join(err, e.RemoveContainer(context.WithoutCancel(ctx), s.Name))
		}
	}
	return err
}

// State is what the engine says of a container.
type State struct {
	Running, OutOfMemory bool
	ExitCode             int
	// StartedAt is when it was started last, in the engine's words: another start
	// has another time.
	StartedAt string
	// Address on its network, if it has one of its own.
	Address netip.Addr
	// Published are the ports of the engine's machine by the container's own.
	Published map[uint16]uint16
}

// State asks for the state of a container.
func (e *Engine) State(ctx context.Context, name string) (State, error) {
	answer, err := e.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		return State{}, fmt.Errorf("asking for the state of the container %s: %w", name, err)
	}
	c := answer.Container
	s := State{Published: make(map[uint16]uint16)}
	if c.State != nil {
		s.Running, s.OutOfMemory = c.State.Running, c.State.OOMKilled
		s.ExitCode, s.StartedAt = c.State.ExitCode, c.State.StartedAt
	}
	if c.NetworkSettings != nil {
		for _, n := range c.NetworkSettings.Networks {
			s.Address = n.IPAddress
		}
		for port, bindings := range c.NetworkSettings.Ports {
			for _, b := range bindings {
				var published uint16
				if _, err := fmt.Sscan(b.HostPort, &published); err == nil {
					s.Published[port.Num()] = published
				}
			}
		}
	}
	return s, nil
}

// Kill sends SIGKILL to a container's process. One that is not running is no error.
func (e *Engine) Kill(ctx context.Context, name string) error {
	_, err := e.client.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "SIGKILL"})
	if err != nil && !errdefs.IsConflict(err) {
		return fmt.Errorf("killing the container %s: %w", name, err)
	}
	return nil
}

// Signal sends a signal, as SIGSTOP, to a container's first process.
func (e *Engine) Signal(ctx context.Context, name, signal string) error {
	if _, err := e.client.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: signal}); err != nil {
		return fmt.Errorf("sending %s to the container %s: %w", signal, name, err)
	}
	return nil
}

// Stop sends SIGTERM and waits; SIGKILL follows after so many seconds.
func (e *Engine) Stop(ctx context.Context, name string, seconds int) error {
	if _, err := e.client.ContainerStop(ctx, name, client.ContainerStopOptions{Timeout: &seconds}); err != nil {
		return fmt.Errorf("stopping the container %s: %w", name, err)
	}
	return nil
}

// StartAgain starts a container that has ended. One that is running is no error.
func (e *Engine) StartAgain(ctx context.Context, name string) error {
	if _, err := e.client.ContainerStart(ctx, name, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the container %s again: %w", name, err)
	}
	return nil
}

// RemoveContainer removes a container, running or not. One that is gone is no error, nor is
// one that somebody else removes just now.
func (e *Engine) RemoveContainer(ctx context.Context, name string) error {
	_, err := e.client.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) && e.awaitGone(ctx, name) {
		return nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the container %s: %w", name, err)
	}
	return nil
}

// goneLimit is how long a container may take to be removed by somebody else.
const goneLimit = 30 * time.Second

// awaitGone waits until a container is gone, and says whether it is.
func (e *Engine) awaitGone(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, goneLimit)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := e.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{}); errdefs.IsNotFound(err) {
			return true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}

// Execute runs a command in a container and gives what it wrote to standard output. An
// exit status other than 0 is an error with what it wrote to standard error.
func (e *Engine) Execute(ctx context.Context, name string, command ...string) ([]byte, error) {
	what := fmt.Sprintf("running %s in the container %s", command[len(command)-1], name)
	if len(command) > 1 {
		what = fmt.Sprintf("running %s %s in the container %s", path.Base(command[0]), command[1], name)
	}
	created, err := e.client.ExecCreate(ctx, name, client.ExecCreateOptions{Cmd: command, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	attached, err := e.client.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer attached.Close()
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	var out, problems bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &problems, attached.Reader); err != nil {
		return nil, fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
	}
	ended, err := e.client.ExecInspect(ctx, created.ID, client.ExecInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if ended.ExitCode != 0 {
		return nil, fmt.Errorf("%s: exit status %d: %s", what, ended.ExitCode, strings.TrimSpace(problems.String()))
	}
	return out.Bytes(), nil
}

// Log writes everything that a container wrote, over all its starts.
func (e *Engine) Log(ctx context.Context, name string, to io.Writer) error {
	return e.log(ctx, name, to, to, "all")
}

// Output writes what a container wrote to standard output alone.
func (e *Engine) Output(ctx context.Context, name string, to io.Writer) error {
	return e.log(ctx, name, to, io.Discard, "all")
}

// LastLines gives the last lines that a container wrote; nothing where they cannot be
// had.
func (e *Engine) LastLines(ctx context.Context, name string, lines int) string {
	var text bytes.Buffer
	if e.log(ctx, name, &text, &text, fmt.Sprint(lines)) != nil {
		return ""
	}
	return strings.TrimRight(text.String(), "\n")
}

func (e *Engine) log(ctx context.Context, name string, output, problems io.Writer, tail string) error {
	log, err := e.client.ContainerLogs(ctx, name, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: tail})
	if err != nil {
		return fmt.Errorf("reading the log of the container %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // only read
	if _, err := stdcopy.StdCopy(output, problems, log); err != nil {
		return fmt.Errorf("reading the log of the container %s: %w", name, err)
	}
	return nil
}

// Files calls take with every file in a folder of a container, running or not, as
// long as take gives no error. The content ends with the call.
func (e *Engine) Files(ctx context.Context, name, folder string, take func(file string, content io.Reader) error) error {
	answer, err := e.client.CopyFromContainer(ctx, name, client.CopyFromContainerOptions{SourcePath: folder})
	if err != nil {
		return fmt.Errorf("reading %s of the container %s: %w", folder, name, err)
	}
	defer func() { _ = answer.Content.Close() }() // only read
	archive := tar.NewReader(answer.Content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s of the container %s: %w", folder, name, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := take(path.Base(header.Name), archive); err != nil {
			return err
		}
	}
}

// Put writes files into a folder of a container, running or not, over those that are there.
func (e *Engine) Put(ctx context.Context, name, folder string, files map[string][]byte) error {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		err := out.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[file]))})
		if err == nil {
			_, err = out.Write(files[file])
		}
		if err != nil {
			return fmt.Errorf("writing %s/%s of the container %s: %w", folder, file, name, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing %s of the container %s: %w", folder, name, err)
	}
	_, err := e.client.CopyToContainer(ctx, name, client.CopyToContainerOptions{DestinationPath: folder, Content: &archive})
	if err != nil {
		return fmt.Errorf("writing %s of the container %s: %w", folder, name, err)
	}
	return nil
}

// CreateNetwork makes a network of the run, with addresses of the engine's choice.
func (e *Engine) CreateNetwork(ctx context.Context, o *Owner, name string) error {
	_, err := e.client.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge", Labels: o.Labels()})
	if err != nil {
		return fmt.Errorf("making the network %s: %w", name, err)
	}
	return nil
}

// RemoveNetwork removes a network. One that is gone is no error.
func (e *Engine) RemoveNetwork(ctx context.Context, name string) error {
	_, err := e.client.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the network %s: %w", name, err)
	}
	return nil
}

// CreateVolume makes a volume of the run; with a size above zero, one in memory that
// holds so many bytes, as long as a container uses it.
func (e *Engine) CreateVolume(ctx context.Context, o *Owner, name string, size int64) error {
	options := client.VolumeCreateOptions{Name: name, Driver: "local", Labels: o.Labels()}
	if size > 0 {
		options.DriverOpts = map[string]string{"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d", size)}
	}
	if _, err := e.client.VolumeCreate(ctx, options); err != nil {
		return fmt.Errorf("making the volume %s: %w", name, err)
	}
	return nil
}

// RemoveVolume removes a volume. One that is gone is no error.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	_, err := e.client.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the volume %s: %w", name, err)
	}
	return nil
}
