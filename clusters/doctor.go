// This file holds what is found out of this machine before anything is played on it:
// whether a cluster in containers can be started, and whether the faults can be had.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/clusters/images"
)

// Diagnosis is what this machine can do.
type Diagnosis struct {
	// Containers: clusters in containers can be started, and their faults be had.
	// Embedded ones always can.
	Containers bool `json:"containers"`
	// Engine is what the container engine says of itself; nil: none answers.
	Engine *engine.Description `json:"engine,omitempty"`
	Checks []Check             `json:"checks"`
}

// Check is what one question about the machine came to.
type Check struct {
	Name string `json:"name"`
	// Result is Passed, Missing or CannotTell.
	Result string `json:"result"`
	// Needed: where it is missing, runs in containers are not to be had.
	Needed bool `json:"needed"`
	// Found is what there is; Do what the reader can do about what there is not.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// What a check comes to.
const (
	Passed     = "ok"
	Missing    = "missing"
	CannotTell = "cannot tell"
)

// The limits of finding out: of all, and of the registry, which may be far or nowhere.
const (
	diagnosisLimit = time.Minute
	registryLimit  = 10 * time.Second
)

// Diagnose finds out what this machine can do, by trying it out with a container of
// its own, which is gone afterwards. Version is the one of Kafka that is asked for. It
// takes no longer than a minute and always has an answer.
func Diagnose(ctx context.Context, version string) Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, diagnosisLimit)
	defer cancel()
	var d Diagnosis
	e, err := engine.Open(ctx)
	if err != nil {
		d.Checks = withoutEngine(ctx, err)
		return d
	}
	defer func() { _ = e.Close() }() // it was only asked
	description := e.Description()
	d.Engine = &description
	left := checkLeft(ctx, e) // before there is something of our own
	// Side by side: the registry may take long to answer, or not to.
	groups := make([][]Check, 3)
	var asking sync.WaitGroup
	asking.Go(func() { groups[0] = append(checkEngine(description), checkMemory(description)) })
	asking.Go(func() { groups[1] = checkImages(ctx, e, version) })
	asking.Go(func() { groups[2] = tryOut(ctx, e) })
	asking.Wait()
	d.Checks = append(slices.Concat(groups...), checkTemporary(), left)
	d.Containers = !slices.ContainsFunc(d.Checks, func(c Check) bool { return c.Needed && c.Result != Passed })
	return d
}

// withoutEngine is what can be said where no engine answers.
func withoutEngine(ctx context.Context, problem error) []Check {
	found, do := oneLine(problem), "start a container engine (as Docker, or dockerd), or set DOCKER_HOST to where one listens"
	if cut, _, has := strings.Cut(found, "; start one"); has {
		found = cut
	}
	checks := []Check{{Name: "engine", Result: Missing, Needed: true, Found: found, Do: do}}
	for _, name := range []string{"memory", "image", "registry"} {
		checks = append(checks, Check{Name: name, Result: CannotTell, Needed: name != "registry", Found: "there is no engine to ask"})
	}
	checks = append(checks, checkBuilding(ctx))
	for _, name := range trialNames {
		checks = append(checks, Check{Name: name, Result: CannotTell, Needed: name != trialLoss,
			Found: "there is no engine to try it out on"})
	}
	return append(checks, checkTemporary(), Check{Name: "clean", Result: CannotTell, Found: "there is no engine to ask"})
}

func checkEngine(d engine.Description) []Check {
	found := fmt.Sprintf("version %s, API %s, at %s: %s, kernel %s, %s, %d CPUs", d.Version, d.API, d.Address, d.System,
		d.Kernel, d.Architecture, d.CPUs)
	limits := Check{Name: "memory-limit", Result: Passed, Found: "a container's memory can be limited"}
	if !d.LimitsMemory {
		limits = Check{Name: "memory-limit", Result: Missing,
			Found: "a container's memory cannot be limited: --broker-memory sets the heap, and nothing stops a broker that takes more",
			Do:    "enable the memory cgroup of the kernel (cgroup_enable=memory)"}
	}
	return []Check{{Name: "engine", Result: Passed, Needed: true, Found: found}, limits}
}

func checkMemory(d engine.Description) Check {
	const brokers = 3
	needed := neededMemory(brokers, DefaultMemory)
	c := Check{Name: "memory", Result: Passed, Needed: true,
		Found: fmt.Sprintf("the engine's machine has %d MiB; %d brokers of %d MiB need %d MiB", d.Memory>>20, brokers,
			DefaultMemory>>20, needed>>20)}
	if d.Memory < needed {
		c.Result, c.Do = Missing, "give the engine's machine more memory, or each broker less (--broker-memory)"
	}
	return c
}

// checkImages says where the brokers' image comes from.
func checkImages(ctx context.Context, e *engine.Engine, version string) []Check {
	building := checkBuilding(ctx)
	registry := Check{Name: "registry", Result: Passed, Found: images.Official(version) + " can be pulled"}
	limited, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	if err := e.CanPull(limited, images.Official(version)); err != nil {
		registry = Check{Name: "registry", Result: Missing, Found: oneLine(err),
			Do: "let the engine reach the registry; where it cannot, images are built or named (--image)"}
	}
	image := Check{Name: "image", Result: Passed, Needed: true}
	present, err := images.Present(ctx, e, version)
	all, errAll := images.All(ctx, e)
	switch err := errors.Join(err, errAll); {
	case err != nil:
		image.Result, image.Found = CannotTell, oneLine(err)
	case present != "":
		image.Found = fmt.Sprintf("Kafka %s is there: %s", version, present)
	case registry.Result == Passed:
		image.Found = fmt.Sprintf("Kafka %s is pulled by the first run", version)
	case building.Result == Passed:
		image.Found = fmt.Sprintf("Kafka %s is built by the first run", version)
	default:
		image.Result, image.Found = Missing, fmt.Sprintf("Kafka %s is not there and can neither be pulled nor built", version)
		image.Do = "do what the lines registry or building say, or name an image (--image)"
	}
	if len(all) > 0 && image.Result != CannotTell {
		image.Found += "; the engine has " + strings.Join(all, ", ")
	}
	return []Check{image, registry, building}
}

func checkBuilding(ctx context.Context) Check {
	c := Check{Name: "building", Result: Passed,
		Found: "a JDK and Maven are here: images are built where no registry can be reached"}
	if err := images.CanBuild(ctx); err != nil {
		found, do, _ := strings.Cut(oneLine(err), "; ")
		c = Check{Name: "building", Result: Missing, Found: "no image can be built: " + found, Do: do}
	}
	return c
}

// leastTemporary is what building an image and reading the replicas' segment files
// take.
const leastTemporary = 1 << 30

func checkTemporary() Check {
	folder := os.TempDir()
	free, err := freeSpace(folder)
	c := Check{Name: "temporary", Result: Passed, Found: fmt.Sprintf("%d MiB are free in %s", free>>20, folder)}
	switch {
	case err != nil:
		c.Result, c.Found = CannotTell, oneLine(err)
	case free < leastTemporary:
		c.Result = Missing
		c.Do = fmt.Sprintf("free %d MiB there, or set TMPDIR: images are built and replicas read there", leastTemporary>>20)
	}
	return c
}

// checkLeft says what runs left that were killed.
func checkLeft(ctx context.Context, e *engine.Engine) Check {
	all, err := e.Left(ctx)
	if err != nil {
		return Check{Name: "clean", Result: CannotTell, Found: oneLine(err)}
	}
	dead, alive, elsewhere := 0, 0, 0
	for _, left := range all {
		switch {
		case left.Elsewhere:
			elsewhere++
		case left.Alive:
			alive++
		default:
			dead++
		}
	}
	c := Check{Name: "clean", Result: Passed, Found: "no run that was killed left anything"}
	if dead > 0 {
		c.Result, c.Do = Missing, "verify clean"
		c.Found = fmt.Sprintf("runs that were killed left containers, networks or volumes: %d", dead)
	}
	c.Found += fmt.Sprintf("; runs that go on: %d", alive)
	if elsewhere > 0 {
		c.Found += fmt.Sprintf("; runs that were started on other machines: %d", elsewhere)
	}
	return c
}

// oneLine gives an error on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
