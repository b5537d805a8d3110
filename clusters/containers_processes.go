// This file holds what is done to the brokers' processes.

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/clusters/agent"
)

// stopSeconds is how long a broker may take to shut down in good order.
const stopSeconds = 30

// KillBroker sends SIGKILL and returns when the process is gone.
func (c *Containers) KillBroker(ctx context.Context, broker int32) error {
	return c.end(ctx, broker, func(n *containerNode) error { return c.engine.Kill(ctx, n.broker) })
}

// StopBroker lets the broker shut down in good order and returns when the process is
// gone.
func (c *Containers) StopBroker(ctx context.Context, broker int32) error {
	return c.end(ctx, broker, func(n *containerNode) error {
		if err := n.goOn(ctx); err != nil { // a stopped process ends in no order
			return err
		}
		return c.engine.Stop(ctx, n.broker, stopSeconds)
	})
}

// end ends a process and waits until it is gone.
func (c *Containers) end(ctx context.Context, broker int32, end func(*containerNode) error) error {
	n, err := c.node(broker)
	if err != nil {
		return err
	}
	exit, err := n.exit(ctx)
	if err != nil {
		return err
	}
	if exit != nil {
		return errors.New(exit.String())
	}
	n.setDown(true)
	if err := end(n); err != nil {
		return err
	}
	return n.awaitGone(ctx)
}

// poll asks again until there is no error, or the context ends: then it gives the
// last error.
func poll(ctx context.Context, every time.Duration, ask func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// StartBroker starts the process where it does not run, lets it go on where it is
// frozen, and returns when the broker answers and the others know it.
func (c *Containers) StartBroker(ctx context.Context, broker int32) error {
	n, err := c.node(broker)
	if err != nil {
		return err
	}
	if err := n.goOn(ctx); err != nil {
		return err
	}
	if err := n.finishEnding(ctx); err != nil {
		return err
	}
	if err := c.engine.StartAgain(ctx, n.broker); err != nil {
		return err
	}
	n.setDown(false)
	return poll(ctx, 100*time.Millisecond, func() error {
		if exit, err := n.exit(ctx); err == nil && exit != nil {
			return fmt.Errorf("%s; its last lines:\n%s", exit, exit.LastLines)
		}
		_, err := c.admin.askOne(ctx, int(broker)-1, kmsg.NewPtrApiVersionsRequest())
		return err
	})
}

// finishEnding kills a process that was asked to end and has not: whoever asked did not
// wait long enough, as for a broker that is cut off from the controller, and it would end
// some time after it is said to run again.
func (n *containerNode) finishEnding(ctx context.Context) error {
	if !n.isDown() {
		return nil
	}
	state, err := n.cluster.engine.State(ctx, n.broker)
	if err != nil || !state.Running {
		return err
	}
	if err := n.cluster.engine.Kill(ctx, n.broker); err != nil {
		if state, gone := n.cluster.engine.State(ctx, n.broker); gone != nil || state.Running {
			return err
		}
	}
	return n.awaitGone(ctx)
}

// awaitGone waits until the process is gone.
func (n *containerNode) awaitGone(ctx context.Context) error {
	return poll(ctx, 20*time.Millisecond, func() error {
		state, err := n.cluster.engine.State(ctx, n.broker)
		if err == nil && state.Running {
			err = fmt.Errorf("the process of broker %d still runs", n.id)
		}
		return err
	})
}

// PauseBroker stops the process with SIGSTOP. The engine's own pause is the freezer of
// cgroups, which gives up on a busy machine ("unable to freeze").
func (c *Containers) PauseBroker(ctx context.Context, broker int32) error {
	n, err := c.node(broker)
	if err != nil {
		return err
	}
	if err := c.engine.Signal(ctx, n.broker, "SIGSTOP"); err != nil {
		return err
	}
	return poll(ctx, 20*time.Millisecond, func() error {
		p, err := c.BrokerProcess(ctx, broker)
		if err == nil && !p.Paused {
			err = fmt.Errorf("the process of broker %d has not stopped", broker)
		}
		return err
	})
}

// goOn lets a process go on that may be stopped, if there is one.
func (n *containerNode) goOn(ctx context.Context) error {
	state, err := n.cluster.engine.State(ctx, n.broker)
	if err != nil || !state.Running {
		return err
	}
	return n.cluster.engine.Signal(ctx, n.broker, "SIGCONT")
}

// BrokerProcess says what the process is like now.
func (c *Containers) BrokerProcess(ctx context.Context, broker int32) (Process, error) {
	n, err := c.node(broker)
	if err != nil {
		return Process{}, err
	}
	state, err := c.engine.State(ctx, n.broker)
	if err != nil || !state.Running {
		return Process{Started: state.StartedAt}, err
	}
	output, err := c.engine.Execute(ctx, n.broker, agent.Path, agent.CommandProcess)
	if err != nil {
		return Process{}, err
	}
	var now agent.Process
	if err := json.Unmarshal(output, &now); err != nil {
		return Process{}, fmt.Errorf("reading what the process of broker %d is doing: %w", broker, err)
	}
	return Process{Running: true, Paused: now.State == agent.Stopped, Started: state.StartedAt}, nil
}

// Exits gives the brokers whose process ended though nobody asked for it.
func (c *Containers) Exits(ctx context.Context) ([]Exit, error) {
	var exits []Exit
	for _, n := range c.nodes {
		exit, err := n.exit(ctx)
		if err != nil {
			return exits, err
		}
		if exit != nil {
			exits = append(exits, *exit)
		}
	}
	return exits, nil
}

// Leave stops the broker in good order; Return starts it again.
func (c *Containers) Leave(ctx context.Context, broker int32) error {
	n, err := c.node(broker)
	if err != nil {
		return err
	}
	if n.isDown() {
		return fmt.Errorf("letting broker %d leave: %w", broker, ErrAway)
	}
	return c.StopBroker(ctx, broker)
}

// Return brings the broker back under its id and its address.
func (c *Containers) Return(ctx context.Context, broker int32) error {
	return c.StartBroker(ctx, broker)
}

// MayLeave gives every broker.
func (c *Containers) MayLeave() []int32 { return c.description.Brokers }
