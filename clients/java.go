// This file holds the clients that run in a process of their own.

package clients

import (
	"context"
	"errors"
)

// DefaultJava is the version of Apache's Java client where none is named.
const DefaultJava = "4.4.0"

var errNotYet = errors.New("clients in a process of their own are not there yet")

// Java gives Apache's Java client of a version.
func Java(context.Context, string, func(string)) (Library, error) { return nil, errNotYet }

// External gives the client that a command runs.
func External(context.Context, []string) (Library, error) { return nil, errNotYet }
