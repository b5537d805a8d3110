// This file holds the building of an image from Maven Central's jars: the jars, a Java
// runtime of just the modules that Kafka needs, and the system's libraries that this
// runtime needs. It takes a JDK and Maven.

package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/internal/maven"
)

// recipe counts the ways in which images were built; a change makes new ones.
const recipe = 3

// leastJava is what Kafka's brokers need from 4.0 on (KIP-1013).
const leastJava = 17

// builtName is the name of the images that are built here.
const builtName = "ackproof/kafka"

func builtReference(version, architecture string) string {
	return fmt.Sprintf("%s:%s-%s-r%d", builtName, version, architecture, recipe)
}

// modules of Java that a broker needs, measured with 3.7 to 4.4.
const modules = "java.base,java.logging,java.management,java.naming,java.security.sasl,java.security.jgss,java.sql," +
	"java.xml,java.desktop,jdk.unsupported,jdk.crypto.ec,jdk.management,jdk.zipfs"

// tools are the programs of this machine that a build takes.
type tools struct{ maven, jlink string }

// findTools gives the tools, or says which one is missing and what to do about it.
func findTools(ctx context.Context) (tools, error) {
	var t tools
	if runtime.GOOS != "linux" {
		return t, errors.New("an image is built on Linux alone, since the Java runtime of this machine goes into it; " +
			"let the engine reach a registry, or name an image")
	}
	var err error
	if t.maven, err = maven.Find(); err != nil {
		return t, err
	}
	t.jlink = filepath.Join(os.Getenv("JAVA_HOME"), "bin", "jlink")
	if _, err := os.Stat(t.jlink); os.Getenv("JAVA_HOME") == "" || err != nil {
		if t.jlink, err = exec.LookPath("jlink"); err != nil {
			return t, errors.New("it takes a JDK with jlink, neither in JAVA_HOME nor in PATH; install a JDK (openjdk-17-jdk-headless)")
		}
	}
	output, err := exec.CommandContext(ctx, t.jlink, "--version").Output()
	if err != nil {
		return t, fmt.Errorf("asking %s for its version: %w", t.jlink, err)
	}
	major := 0
	if _, err := fmt.Sscanf(string(output), "%d", &major); err != nil || major < leastJava {
		return t, fmt.Errorf("the JDK of %s is %s; Kafka's brokers need %d or newer", t.jlink,
			strings.TrimSpace(string(output)), leastJava)
	}
	return t, nil
}

// CanBuild gives nil where this machine has what building an image takes.
func CanBuild(ctx context.Context) error {
	_, err := findTools(ctx)
	return err
}

// build builds an image into the engine.
func build(ctx context.Context, e *engine.Engine, version, reference string) error {
	t, err := findTools(ctx)
	if err != nil {
		return err
	}
	if e.Description().Architecture != runtime.GOARCH {
		return fmt.Errorf("the engine runs on %s and this machine on %s", e.Description().Architecture, runtime.GOARCH)
	}
	folder, remove, err := engine.TemporaryFolder(engine.FolderImage)
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // temporary
	jars, java := filepath.Join(folder, "libs"), filepath.Join(folder, "java")
	if err := t.fetchJars(ctx, folder, jars, version); err != nil {
		return err
	}
	if err := t.linkJava(ctx, java); err != nil {
		return err
	}
	libraries, err := systemLibraries(ctx, java)
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(writer, jars, java, libraries)
		_ = writer.CloseWithError(err) // never fails
		packed <- err
	}()
	label := engine.LabelImage + "=kafka-" + version
	base := reference + "-base"
	err = e.Import(ctx, base, reader, "ENV PATH=/opt/java/bin", "ENV JAVA_HOME=/opt/java", "LABEL "+label)
	_ = reader.CloseWithError(errors.New("the engine reads no further")) // never fails
	if err := errors.Join(err, <-packed); err != nil {
		return err
	}
	return errors.Join(addArchive(ctx, e, base, reference, label), e.RemoveImage(ctx, base))
}

// fetchJars fetches Kafka's jars and all that they need at run time.
func (t tools) fetchJars(ctx context.Context, folder, jars, version string) error {
	wanted := []maven.Artifact{{Group: "org.apache.kafka", Name: "kafka_2.13", Version: version},
		{Group: "org.apache.kafka", Name: "kafka-tools", Version: version}}
	if err := maven.Fetch(ctx, t.maven, folder, jars, wanted...); err != nil {
		return err
	}
	binding, err := missingBinding(jars)
	if err != nil || binding == nil {
		return err
	}
	return maven.Fetch(ctx, t.maven, folder, jars, append(wanted, *binding)...)
}

var (
	log4jCore = regexp.MustCompile(`^log4j-core-(.+)\.jar$`)
	slf4j     = regexp.MustCompile(`^slf4j-api-(\d+)\..*\.jar$`)
	bindings  = regexp.MustCompile(`^(slf4j-reload4j|slf4j-log4j12|log4j-slf4j2?-impl)-.*\.jar$`)
)

// missingBinding gives what binds slf4j to log4j where Kafka's own dependencies do not:
// from 4.0 on a broker would write no log at all.
func missingBinding(jars string) (*maven.Artifact, error) {
	entries, err := os.ReadDir(jars)
	if err != nil {
		return nil, fmt.Errorf("looking at the jars: %w", err)
	}
	core, name := "", "log4j-slf4j-impl"
	for _, entry := range entries {
		if bindings.MatchString(entry.Name()) {
			return nil, nil
		}
		if found := log4jCore.FindStringSubmatch(entry.Name()); found != nil {
			core = found[1]
		}
		if found := slf4j.FindStringSubmatch(entry.Name()); found != nil && found[1] != "1" {
			name = "log4j-slf4j2-impl"
		}
	}
	if core == "" {
		return nil, errors.New("the jars hold neither a binding of slf4j nor log4j-core: the broker would write no log")
	}
	return &maven.Artifact{Group: "org.apache.logging.log4j", Name: name, Version: core}, nil
}

// linkJava makes a Java runtime of the modules that Kafka needs, with an archive of
// Java's own classes, so that it starts faster.
func (t tools) linkJava(ctx context.Context, java string) error {
	link := exec.CommandContext(ctx, t.jlink, "--add-modules", modules, "--strip-debug", "--no-header-files", "--no-man-pages",
		"--output", java)
	if err := runQuietly(link); err != nil {
		return fmt.Errorf("linking a Java runtime: %w", err)
	}
	share := exec.CommandContext(ctx, filepath.Join(java, "bin", "java"), "-XX:+UseSerialGC", "-Xshare:dump")
	if err := runQuietly(share); err != nil {
		return fmt.Errorf("archiving the classes of the Java runtime: %w", err)
	}
	return nil
}

// runQuietly runs a command; what it wrote is in the error.
func runQuietly(command *exec.Cmd) error {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, firstLines(output.String()))
	}
	return nil
}

// firstLines gives enough of a tool's output to see what is wrong.
func firstLines(output string) string {
	const most = 4
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[:min(len(lines), most)], "\n")
}
