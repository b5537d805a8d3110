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

	"github.com/ackproof/ackproof/clusters/agent"
)

// broker formats the storage where it is not, and becomes the broker: signals and
// the exit status are the broker's own.
func broker(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading how the broker is started: %w", err)
	}
	var b agent.Broker
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("reading how the broker is started, %s: %w", path, err)
	}
	java, err := findJava()
	if err != nil {
		return err
	}
	if err := format(java, b); err != nil {
		return err
	}
	arguments := slices.Concat([]string{java, "-cp", filepath.Join(b.Libraries, "*")}, b.Options,
		[]string{"kafka.Kafka", b.Properties})
	if err := syscall.Exec(java, arguments, os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", java, err)
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
	arguments := slices.Concat([]string{"-cp", filepath.Join(b.Libraries, "*")}, b.Options,
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
