//go:build linux

// This file holds the start of a broker.

package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
)

// broker formats the storage where it is not, and becomes the broker: signals and
// the exit status are the broker's own.
func broker(path string) error {
	b, java, err := prepare(path)
	if err != nil {
		return err
	}
	if err := syscall.Exec(java, append([]string{java}, kafka(b, archived()...)...), os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", java, err)
	}
	return nil
}

// prepare reads how a broker is started and formats its storage.
func prepare(path string) (b agent.Broker, java string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return b, "", fmt.Errorf("reading how the broker is started: %w", err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, "", fmt.Errorf("reading how the broker is started, %s: %w", path, err)
	}
	if java, err = findJava(); err != nil {
		return b, "", err
	}
	return b, java, format(java, b)
}

// kafka gives Java's arguments for a broker.
func kafka(b agent.Broker, more ...string) []string {
	return slices.Concat([]string{"-cp", filepath.Join(b.Libraries, "*")}, b.Options, more, []string{"kafka.Kafka", b.Properties})
}

// archived gives Java's option for the archive of classes, where the image has one.
func archived() []string {
	if _, err := os.Stat(agent.Archive); err != nil {
		return nil
	}
	return []string{"-XX:SharedArchiveFile=" + agent.Archive}
}

// archiveLimit bounds the start of the broker whose classes are archived.
const archiveLimit = 90 * time.Second

// archive starts a broker, lets it end when it is up, and has Java write the archive
// then.
func archive(path string) error {
	b, java, err := prepare(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), archiveLimit)
	defer cancel()
	command := exec.CommandContext(ctx, java, kafka(b, "-XX:ArchiveClassesAtExit="+agent.Archive)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", java, err)
	}
	for ctx.Err() == nil {
		if answer, err := probe(b.Ready, "1s"); err == nil && answer.Result == agent.Connected {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	cancel()
	_ = command.Wait() // Java's status after SIGTERM is 143
	if archived() == nil {
		return fmt.Errorf("the broker ended and there is no %s", agent.Archive)
	}
	return nil
}

// findJava gives the Java of the image, wherever the image keeps it.
func findJava() (string, error) {
	if java, err := exec.LookPath("java"); err == nil {
		return java, nil
	}
	for _, home := range []string{os.Getenv("JAVA_HOME"), "/opt/java/openjdk", "/opt/java"} {
		java := filepath.Join(home, "bin", "java")
		if info, err := os.Stat(java); home != "" && err == nil && !info.IsDir() {
			return java, nil
		}
	}
	return "", fmt.Errorf("the image has no java, neither in PATH nor in JAVA_HOME (%q)", os.Getenv("JAVA_HOME"))
}

// format formats the storage, as kafka-storage.sh does.
func format(java string, b agent.Broker) error {
	if _, err := os.Stat(filepath.Join(b.Data, "meta.properties")); err == nil {
		return nil
	}
	tool, err := storageTool(b.Libraries)
	if err != nil {
		return err
	}
	arguments := slices.Concat([]string{"-cp", filepath.Join(b.Libraries, "*")}, b.Options, archived(),
		[]string{tool, "format"}, b.Format)
	command := exec.CommandContext(context.Background(), java, arguments...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("formatting the storage (%s %s): %w", tool, strings.Join(b.Format, " "), err)
	}
	return nil
}

// storageTools are the names that the storage tool had, the newest first.
var storageTools = []string{"org.apache.kafka.tools.StorageTool", "kafka.tools.StorageTool"}

// storageTool gives the name of the storage tool that the jars have.
func storageTool(libraries string) (string, error) {
	jars, err := filepath.Glob(filepath.Join(libraries, "kafka*.jar"))
	if err != nil {
		return "", fmt.Errorf("looking for Kafka's jars in %s: %w", libraries, err)
	}
	for _, tool := range storageTools {
		class := strings.ReplaceAll(tool, ".", "/") + ".class"
		for _, jar := range jars {
			if has, err := contains(jar, class); err != nil {
				return "", err
			} else if has {
				return tool, nil
			}
		}
	}
	return "", fmt.Errorf("none of the %d Kafka jars in %s has a storage tool (%s)", len(jars), libraries,
		strings.Join(storageTools, ", "))
}

func contains(jar, name string) (has bool, err error) {
	archive, err := zip.OpenReader(jar)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", jar, err)
	}
	defer func() { _ = archive.Close() }() // only read
	return slices.ContainsFunc(archive.File, func(f *zip.File) bool { return f.Name == name }), nil
}
