// Command verify proves by experiment whether a Kafka cluster and its clients keep
// their promises. See verify --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The first ctrl-C ends the run in good order; the second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
