// This file holds who owns what: the labels of everything that a run makes, and the
// lock by which a run that is alive is told from one that was killed.

package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	"github.com/moby/moby/client"
)

// The labels of what a run makes.
const (
	labelRun  = "io.github.ackproof.run"
	labelHost = "io.github.ackproof.host"
	labelLock = "io.github.ackproof.lock"
	// LabelImage marks images that were built here; it says what they hold.
	LabelImage = "io.github.ackproof.image"
)

// Owner is a run that owns containers, networks and volumes, as long as its process
// lives.
type Owner struct {
	// Run is unique on the engine; it is a part of every name.
	Run  string
	lock *flock.Flock
	host string
}

// NewOwner makes a new owner, which is alive until Release or the end of the process,
// however it ends.
func NewOwner() (*Owner, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the name of this machine: %w", err)
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("ackproof-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the runs' locks: %w", err)
	}
	o := &Owner{Run: hex.EncodeToString(random[:]), host: host}
	o.lock = flock.New(filepath.Join(folder, o.Run+".lock"))
	if locked, err := o.lock.TryLock(); err != nil || !locked {
		return nil, fmt.Errorf("locking %s for a new run: %w", o.lock.Path(), errors.Join(err, errors.ErrUnsupported))
	}
	return o, nil
}

// Name gives a name for something of the run.
func (o *Owner) Name(what string) string { return "ackproof-" + o.Run + "-" + what }

// Labels gives the labels of everything that the run makes.
func (o *Owner) Labels() map[string]string {
	return map[string]string{labelRun: o.Run, labelHost: o.host, labelLock: o.lock.Path()}
}

// Release ends the ownership: what is left then may be removed by anyone.
func (o *Owner) Release() error {
	err := o.lock.Unlock()
	if removed := os.Remove(o.lock.Path()); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// Left is what one run has on the engine.
type Left struct {
	Run string
	// Alive: the process that owns it lives. Elsewhere: it was made from another
	// machine, Host, so that nobody here knows.
	Alive, Elsewhere bool
	Host             string
	Containers       []string // names
	Networks         []string
	Volumes          []string

	lock string
}

// Left gives everything on the engine that runs of Ackproof made, by run.
func (e *Engine) Left(ctx context.Context) ([]Left, error) {
	byRun := make(map[string]*Left)
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the name of this machine: %w", err)
	}
	of := func(labels map[string]string) *Left {
		run := labels[labelRun]
		if byRun[run] == nil {
			byRun[run] = &Left{Run: run, Host: labels[labelHost], Elsewhere: labels[labelHost] != host, lock: labels[labelLock]}
		}
		return byRun[run]
	}
	if err := e.list(ctx, of); err != nil {
		return nil, err
	}
	var all []Left
	for _, left := range byRun {
		left.Alive = !left.Elsewhere && alive(left.lock)
		all = append(all, *left)
	}
	slices.SortFunc(all, func(a, b Left) int { return slices.Compare([]string{a.Run}, []string{b.Run}) })
	return all, nil
}

// list goes through everything that carries our labels.
func (e *Engine) list(ctx context.Context, of func(labels map[string]string) *Left) error {
	filter := client.Filters{}.Add("label", labelRun)
	containers, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return fmt.Errorf("listing the containers of runs: %w", err)
	}
	for _, c := range containers.Items {
		left := of(c.Labels)
		left.Containers = append(left.Containers, firstName(c.Names, c.ID))
	}
	networks, err := e.client.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return fmt.Errorf("listing the networks of runs: %w", err)
	}
	for _, n := range networks.Items {
		left := of(n.Labels)
		left.Networks = append(left.Networks, n.Name)
	}
	volumes, err := e.client.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return fmt.Errorf("listing the volumes of runs: %w", err)
	}
	for _, v := range volumes.Items {
		left := of(v.Labels)
		left.Volumes = append(left.Volumes, v.Name)
	}
	return nil
}

func firstName(names []string, id string) string {
	if len(names) == 0 {
		return id
	}
	return names[0][1:] // the engine writes "/name"
}

// alive says whether the owner of the lock lives: then it cannot be taken.
func alive(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil {
		return true // it cannot be told: leave what may be in use
	}
	if locked {
		_ = lock.Unlock() // it was ours for a moment
	}
	return !locked
}

// Remove removes everything that a run made. What is gone already is no error.
func (e *Engine) Remove(ctx context.Context, left Left) error {
	var errs []error
	// Those that use another one's network namespace before that one.
	slices.Sort(left.Containers)
	for _, name := range left.Containers {
		errs = append(errs, e.RemoveContainer(ctx, name))
	}
	for _, name := range left.Networks {
		errs = append(errs, e.RemoveNetwork(ctx, name))
	}
	for _, name := range left.Volumes {
		errs = append(errs, e.RemoveVolume(ctx, name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if left.lock != "" && !left.Elsewhere {
		if err := os.Remove(left.lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the lock of the run %s: %w", left.Run, err)
		}
	}
	return nil
}
