// This file holds what is tried out with a container: whether it can be reached, cut
// off and stopped, as brokers are.

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/clusters/images"
)

// What is tried out, in this order.
const (
	trialContainer = "containers"
	trialReach     = "addresses"
	trialCut       = "nf_tables"
	trialLoss      = "numgen"
	trialStop      = "signals"
)

var trialNames = []string{trialContainer, trialReach, trialCut, trialLoss, trialStop}

// The limits of a trial, and of one connection in it.
const (
	trialLimit   = 40 * time.Second
	connectLimit = time.Second
)

// trial is a container in a network of its own. Nobody listens in it: a connection
// that is refused came through.
type trial struct {
	engine    *engine.Engine
	owner     *engine.Owner
	container string
	address   string // of a port of it, for this process
}

// tryOut makes a container, does with it what is done with brokers, and removes it.
func tryOut(ctx context.Context, e *engine.Engine) []Check {
	limited, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	t := &trial{engine: e}
	made := t.make(limited)
	first := Check{Name: trialContainer, Result: Passed, Needed: true,
		Found: "a container with NET_ADMIN and a network of its own runs"}
	if made != nil {
		first.Result, first.Found = Missing, oneLine(made)
		first.Do = "let the engine run containers with the capability NET_ADMIN, in networks of their own"
	}
	checks := []Check{first}
	for _, s := range t.steps() {
		check := Check{Name: s.name, Result: Passed, Needed: s.name != trialLoss, Found: s.found}
		if made != nil {
			check.Result, check.Found = CannotTell, "there is no container to try it out on"
		} else if err := s.try(limited); err != nil {
			check.Result, check.Found, check.Do = Missing, s.lacks+": "+oneLine(err), s.do
		}
		checks = append(checks, check)
	}
	if err := t.remove(context.WithoutCancel(ctx)); err != nil {
		checks[0].Result, checks[0].Do = Missing, "verify clean"
		checks[0].Found = "what was tried out could not be removed: " + oneLine(err)
	}
	return checks
}

// step is one thing that is tried out.
type step struct {
	name         string
	found, lacks string
	do           string
	try          func(context.Context) error
}

func (t *trial) steps() []step {
	return []step{
		{trialReach, "the containers' addresses can be connected to from here", "brokers cannot be reached from here",
			"run verify on the engine's machine", t.reach},
		{trialCut, "packets are dropped and pass again in a container's namespace", "the network's faults cannot be had",
			"load the kernel module nf_tables on the engine's machine", t.cut},
		{trialLoss, "a share of the packets is dropped", "the fault loss cannot be had",
			"load the kernel module nft_numgen on the engine's machine", t.lose},
		{trialStop, "a process is stopped and goes on", "the fault pause cannot be had",
			"let the engine send SIGSTOP and SIGCONT", t.stop},
	}
}

// make starts the container.
func (t *trial) make(ctx context.Context) (err error) {
	if t.owner, err = engine.NewOwner(); err != nil {
		return err
	}
	image, err := images.Agent(ctx, t.engine)
	if err != nil {
		return err
	}
	t.container = t.owner.Name("trial")
	if err := t.engine.CreateNetwork(ctx, t.owner, t.owner.Name("network")); err != nil {
		return err
	}
	spec := engine.Spec{Owner: t.owner, Name: t.container, Image: image, Network: t.owner.Name("network"),
		Entrypoint: []string{agent.Path, agent.CommandHold}, Capabilities: []string{"NET_ADMIN"}}
	if !t.engine.Description().Reachable {
		spec.Publish = []uint16{clientPort}
	}
	if err := t.engine.Start(ctx, spec); err != nil {
		return err
	}
	state, err := t.engine.State(ctx, t.container)
	if err != nil {
		return err
	}
	t.address = netip.AddrPortFrom(state.Address, clientPort).String()
	if port, published := state.Published[clientPort]; published {
		t.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	}
	return nil
}

// remove removes what was made.
func (t *trial) remove(ctx context.Context) error {
	if t.owner == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	return errors.Join(t.engine.RemoveContainer(ctx, t.container), t.engine.RemoveNetwork(ctx, t.owner.Name("network")),
		t.owner.Release())
}

// reach makes a connection from here.
func (t *trial) reach(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * connectLimit}
	connection, err := dialer.DialContext(ctx, "tcp", t.address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return err
	}
	return connection.Close()
}

// execute runs a command of the agent in the container and reads what it prints into
// result, unless that is nil.
func (t *trial) execute(ctx context.Context, result any, command ...string) error {
	output, err := t.engine.Execute(ctx, t.container, append([]string{agent.Path}, command...)...)
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(output, result); err != nil {
		return fmt.Errorf("reading what the agent said to %s: %w", command[0], err)
	}
	return nil
}

// drop puts a cut in force that drops what comes in at a port.
func (t *trial) drop(ctx context.Context, percent int) error {
	text, err := json.Marshal(agent.Cut{Name: trialCut, Rules: []agent.Rule{
		{Name: "in", Direction: agent.In, LocalPort: clientPort, Percent: percent}}})
	if err != nil {
		return fmt.Errorf("encoding a cut: %w", err)
	}
	return t.execute(ctx, nil, agent.CommandCut, string(text))
}

// probe makes a connection inside the container's namespace, where nothing but the
// rules is between, and gives what it came to.
func (t *trial) probe(ctx context.Context) (string, error) {
	var probe agent.Probe
	err := t.execute(ctx, &probe, agent.CommandProbe, fmt.Sprintf("127.0.0.1:%d", clientPort), connectLimit.String())
	return probe.Result, err
}

// cut drops everything, and lets it pass again.
func (t *trial) cut(ctx context.Context) error {
	if err := t.drop(ctx, 100); err != nil {
		return err
	}
	during, err := t.probe(ctx)
	if err != nil {
		return err
	}
	var inForce []agent.InForce
	if err := t.execute(ctx, &inForce, agent.CommandCuts); err != nil {
		return err
	}
	if err := t.execute(ctx, nil, agent.CommandMend, trialCut); err != nil {
		return err
	}
	if during != agent.TimedOut || len(inForce) != 1 || inForce[0].Dropped["in"] == 0 {
		return fmt.Errorf("with a rule that drops every packet a connection is %s, and the rule says %v", during, inForce)
	}
	after, err := t.probe(ctx)
	if err == nil && after != agent.Refused {
		err = fmt.Errorf("when the rule is taken away again, a connection is %s", after)
	}
	return err
}

// lose lets a share of the packets be dropped.
func (t *trial) lose(ctx context.Context) error {
	if err := t.drop(ctx, 50); err != nil {
		return err
	}
	return t.execute(ctx, nil, agent.CommandMend, trialCut)
}

// stop stops the first process and lets it go on.
func (t *trial) stop(ctx context.Context) error {
	for _, signal := range []string{"SIGSTOP", "SIGCONT"} {
		if err := t.engine.Signal(ctx, t.container, signal); err != nil {
			return err
		}
		var now agent.Process
		err := poll(ctx, 20*time.Millisecond, func() error {
			err := t.execute(ctx, &now, agent.CommandProcess)
			if err == nil && (now.State == agent.Stopped) != (signal == "SIGSTOP") {
				err = fmt.Errorf("after %s the state of the process is %s", signal, now.State)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
