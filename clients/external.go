// This file holds client libraries in a process of their own, in any language: those that
// speak the protocol of PROTOCOL.md.

package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// External gives the client library behind a command and its arguments, which speaks the
// protocol of PROTOCOL.md. It starts the command once, to ask for name and version. The
// error says what the command did instead.
func External(ctx context.Context, command []string) (Library, error) {
	if len(command) == 0 {
		return nil, errors.New("no command is given")
	}
	l := &externalLibrary{command: command, effective: make(map[string]map[string]string)}
	heard := make(chan said, 1)
	e, err := startExternal("describe", command, func(_ *external, s said) { offer(heard, s) })
	if err != nil {
		return nil, err
	}
	defer e.wait(0)
	s, err := e.ask(ctx, heard, map[string]any{"do": "describe"})
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the client %s who it is: %w", strings.Join(command, " "), err)
	case s.Is != "client" || s.Client == "":
		return nil, fmt.Errorf("the client %s answered describe with %q and not with its name", strings.Join(command, " "), s.Is)
	case s.Protocol != protocolVersion:
		return nil, fmt.Errorf("the client %s speaks version %d of the protocol; this program speaks %d",
			strings.Join(command, " "), s.Protocol, protocolVersion)
	}
	l.name, l.version = s.Client, s.Version
	return l, nil
}

// offer gives a line to whoever waits for one; what nobody waits for is dropped.
func offer(to chan said, s said) {
	select {
	case to <- s:
	default:
	}
}

// ask gives a command and waits for the next line.
func (e *external) ask(ctx context.Context, heard <-chan said, command any) (said, error) {
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it did not answer within %s", startLimit))
	defer cancel()
	if err := e.tell(limited, command); err != nil {
		return said{}, err
	}
	select {
	case s := <-heard:
		return s, nil
	case <-e.ended:
		select {
		case s := <-heard: // its last word
			return s, nil
		default:
			return said{}, e.whyEnded()
		}
	case <-limited.Done():
		return said{}, context.Cause(limited)
	}
}

// externalLibrary is a client library in processes of its own.
type externalLibrary struct {
	command       []string
	name, version string

	mu        sync.Mutex
	effective map[string]map[string]string // what was asked before, by the properties
}

func (l *externalLibrary) Name() string    { return l.name }
func (l *externalLibrary) Version() string { return l.version }

// nowhere is an address at which no broker is: opening a producer need not reach one.
const nowhere = "127.0.0.1:1"

// Effective opens a producer that is led nowhere, and asks what is in force.
func (l *externalLibrary) Effective(ctx context.Context, p Properties) (map[string]string, error) {
	key := p.String()
	l.mu.Lock()
	known, asked := l.effective[key]
	l.mu.Unlock()
	if asked {
		return maps.Clone(known), nil
	}
	e, properties, err := l.open(ctx, func(*external, said) {}, opening{Role: roleProducer, Name: "asked",
		Bootstrap: []string{nowhere}, Properties: p.Given()})
	if err != nil {
		return nil, err
	}
	e.wait(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effective[key] = properties.Properties
	return maps.Clone(properties.Properties), nil
}

// The roles of a session.
const (
	roleProducer = "producer"
	roleConsumer = "consumer"
)

// opening is the command that opens a session.
type opening struct {
	Do              string            `json:"do"`
	Role            string            `json:"role"`
	Name            string            `json:"name"`
	Bootstrap       []string          `json:"bootstrap"`
	Properties      map[string]string `json:"properties"`
	ChoosePartition bool              `json:"choose_partition,omitempty"`
	Assignment      []position        `json:"assignment,omitempty"`
}

// open starts a process and opens its session. What it says then goes to hear.
func (l *externalLibrary) open(ctx context.Context, hear func(*external, said), o opening) (*external, said, error) {
	o.Do = "open"
	first, opened := make(chan said, 1), false
	e, err := startExternal(o.Name, l.command, func(e *external, s said) {
		if !opened { // by the one goroutine that hears
			opened = true
			first <- s
			return
		}
		hear(e, s)
	})
	if err != nil {
		return nil, said{}, err
	}
	s, err := e.ask(ctx, first, o)
	switch {
	case err != nil:
		e.wait(0)
		return nil, s, fmt.Errorf("opening the session: %w", err)
	case s.Is == "refused":
		e.toEnd()
		e.wait(endLimit)
		return nil, s, &RefusedError{Reason: fmt.Sprintf("%s %s refuses it: %s: %s", l.name, l.version, s.Error, s.Message)}
	case s.Is != "opened":
		e.wait(0)
		return nil, s, fmt.Errorf("opening the session: it answered %q, and neither opened nor refused", s.Is)
	}
	return e, s, nil
}
