// Command build compiles the adapter of the Java client into the folder given to it. It
// takes a JDK of 11 or newer and Maven. go generate ./clients runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ackproof/ackproof/internal/maven"
)

// compiledAgainst is the oldest client that the adapter is known to work with; those after
// it have all that it uses.
const compiledAgainst = "3.9.1"

func main() {
	if err := build(context.Background(), os.Args[1], os.Args[2]); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "building the Java adapter: %v\n", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, source, classes string) error {
	mvn, err := maven.Find()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ackproof-java-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // temporary
	jars := filepath.Join(work, "jars")
	if err := maven.Fetch(ctx, mvn, work, jars,
		maven.Artifact{Group: "org.apache.kafka", Name: "kafka-clients", Version: compiledAgainst}); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(source, "*.java"))
	if err != nil {
		return fmt.Errorf("listing the sources: %w", err)
	}
	arguments := append([]string{"--release", "11", "-Werror", "-Xlint:all", "-d", classes,
		"-cp", filepath.Join(jars, "*")}, files...)
	output, err := exec.CommandContext(ctx, "javac", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("javac: %w: %s", err, output)
	}
	return nil
}
