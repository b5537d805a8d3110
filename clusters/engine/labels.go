// This file holds who owns what: the labels of everything that a run makes on the
// engine, and what of it is left.

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
	"strings"

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
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the name of this machine: %w", err)
	}
	folder := lockFolder()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the runs' locks: %w", err)
	}
	for range lockAttempts {
		var random [4]byte
		_, _ = rand.Read(random[:]) // never fails
		o := &Owner{Run: hex.EncodeToString(random[:]), host: host}
		o.lock = flock.New(filepath.Join(folder, o.Run+lockSuffix))
		if err = hold(o.lock); err == nil {
			return o, nil
		}
	}
	return nil, fmt.Errorf("locking %s for a new run: %w", folder, err)
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
	Run string `json:"run"`
	// Alive: the process that owns it lives, or it cannot be told for the reason in
	// Doubt. Elsewhere: it was made from another machine, Host, so that nobody here
	// knows.
	Alive     bool   `json:"alive"`
	Doubt     string `json:"doubt,omitempty"`
	Elsewhere bool   `json:"elsewhere"`
	Host      string `json:"host"`
	// The names of what there is.
	Containers []string `json:"containers"`
	Networks   []string `json:"networks"`
	Volumes    []string `json:"volumes"`
	// Lock is the path of the run's lock, on Host.
	Lock string `json:"lock"`
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
			byRun[run] = &Left{Run: run, Host: labels[labelHost], Elsewhere: labels[labelHost] != host, Lock: labels[labelLock],
				Containers: []string{}, Networks: []string{}, Volumes: []string{}}
		}
		return byRun[run]
	}
	if err := e.list(ctx, of); err != nil {
		return nil, err
	}
	var all []Left
	for _, left := range byRun {
		if !left.Elsewhere {
			var doubt error
			if left.Alive, doubt = alive(left.Lock); doubt != nil {
				left.Alive, left.Doubt = true, doubt.Error()
			}
		}
		slices.Sort(left.Containers)
		slices.Sort(left.Volumes)
		all = append(all, *left)
	}
	slices.SortFunc(all, func(a, b Left) int { return strings.Compare(a.Run, b.Run) })
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

// Remove removes everything that a run made. What is gone already is no error.
func (e *Engine) Remove(ctx context.Context, left Left) error {
	var errs []error
	// Those that use another one's network namespace before that one, which the
	// alphabet does: broker, holder.
	for _, name := range slices.Sorted(slices.Values(left.Containers)) {
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
	// Whoever can make a container can write its labels: nothing but a lock of that run
	// is removed.
	folder, file := filepath.Split(left.Lock)
	if !left.Elsewhere && file == left.Run+lockSuffix && strings.HasPrefix(filepath.Base(folder), folderPrefix) {
		return RemoveFile(left.Lock)
	}
	return nil
}
