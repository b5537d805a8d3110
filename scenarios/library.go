// This file holds which client library a scenario names.

package scenarios

import (
	"context"
	"fmt"
	"strings"

	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/histories"
)

// Clients says which clients a scenario can name, for a person.
const Clients = "franz-go, java[:VERSION], or a program that speaks clients/PROTOCOL.md (--client-exec)"

// validateClient refuses what names no client.
func (w WorkloadPart) validateClient() error {
	name, version, versioned := strings.Cut(w.Client, ":")
	switch {
	case len(w.Exec) > 0:
		return nil
	case name == histories.ClientFranzGo && !versioned:
		return nil
	case name == histories.ClientFranzGo:
		return inputError("franz-go has the version that this program was built with; only java has a version to choose (java:4.4.0)")
	case name == histories.ClientJava && (!versioned || version != ""):
		return nil
	}
	return inputError("there is no client %q; there is: %s", w.Client, Clients)
}

// openLibrary gives the client library that is put to the test.
func (w WorkloadPart) openLibrary(ctx context.Context, progress func(string)) (clients.Library, error) {
	if len(w.Exec) > 0 {
		library, err := clients.External(ctx, w.Exec)
		if err != nil {
			return nil, &InputError{fmt.Errorf("the client %s: %w", strings.Join(w.Exec, " "), err)}
		}
		return library, nil
	}
	name, version, _ := strings.Cut(w.Client, ":")
	if name == histories.ClientFranzGo {
		return clients.FranzGo(), nil
	}
	library, err := clients.Java(ctx, version, progress)
	if err != nil {
		return nil, &InputError{fmt.Errorf("the client %s: %w", w.Client, err)}
	}
	return library, nil
}
