//go:build linux

// Command program is the agent: see package agent. It is built static, for Linux
// alone, and runs as the only program of its image, or as the first process of a
// broker's container.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "ackproof agent: %v\n", err)
		os.Exit(1)
	}
}

// run does what the arguments say and writes what was asked for to out.
func run(arguments []string, out io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("no command; this program is started by verify, inside containers")
	}
	command, arguments := arguments[0], arguments[1:]
	wanted, known := map[string]int{agent.CommandHold: 0, agent.CommandCut: 1, agent.CommandMend: 1, agent.CommandCuts: 0,
		agent.CommandProbe: 2, agent.CommandProcess: 0, agent.CommandListen: 1, agent.CommandBroker: 1,
		agent.CommandArchive: 1}[command]
	if !known {
		return fmt.Errorf("there is no command %q", command)
	}
	if len(arguments) != wanted {
		return fmt.Errorf("%s takes %d arguments, not %d", command, wanted, len(arguments))
	}
	switch command {
	case agent.CommandHold:
		hold()
		return nil
	case agent.CommandCut:
		return cut(arguments[0])
	case agent.CommandMend:
		return mend(arguments[0])
	case agent.CommandCuts:
		inForce, err := cuts()
		return write(out, inForce, err)
	case agent.CommandProbe:
		result, err := probe(arguments[0], arguments[1])
		return write(out, result, err)
	case agent.CommandProcess:
		now, err := process()
		return write(out, now, err)
	case agent.CommandListen:
		return listen(arguments[0])
	case agent.CommandArchive:
		return archive(arguments[0])
	default:
		return broker(arguments[0])
	}
}

func write(out io.Writer, document any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(document)
}

// hold waits until it is told to end. It is the first process of its container, so
// that signals reach it only if it asks for them.
func hold() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// probe tries to connect, and says what came of it.
func probe(address, limit string) (agent.Probe, error) {
	timeout, err := time.ParseDuration(limit)
	if err != nil || timeout <= 0 {
		return agent.Probe{}, fmt.Errorf("probing %s: %q is not a duration above zero", address, limit)
	}
	dialer := net.Dialer{Timeout: timeout}
	connection, err := dialer.DialContext(context.Background(), "tcp", address)
	if err == nil {
		return agent.Probe{Result: agent.Connected}, connection.Close()
	}
	var timedOut interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return agent.Probe{Result: agent.Refused, Error: err.Error()}, nil
	case errors.As(err, &timedOut) && timedOut.Timeout():
		return agent.Probe{Result: agent.TimedOut, Error: err.Error()}, nil
	case strings.Contains(err.Error(), "operation not permitted"):
		// A packet that is dropped on its way out is refused by our own system.
		return agent.Probe{Result: agent.TimedOut, Error: err.Error()}, nil
	}
	return agent.Probe{}, fmt.Errorf("probing %s: %w", address, err)
}

// process says what the first process is doing: the letter after its name, which is in
// parentheses and may hold anything.
func process() (agent.Process, error) {
	text, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return agent.Process{}, fmt.Errorf("looking at the first process: %w", err)
	}
	_, rest, found := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	if !found || rest == "" {
		return agent.Process{}, fmt.Errorf("looking at the first process: %q has no state", text)
	}
	return agent.Process{State: rest[:1]}, nil
}

// listen accepts connections and closes them until it is told to end.
func listen(address string) error {
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var config net.ListenConfig
	listener, err := config.Listen(ended, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	context.AfterFunc(ended, func() { _ = listener.Close() }) // Accept tells
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting on %s: %w", address, err)
		}
		_ = connection.Close() // that it came is all
	}
}
