// This file holds Apache's own client, kafka-clients in any version: fetched from Maven
// Central once, kept, and driven by the adapter whose classes are embedded here.

package clients

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ackproof/ackproof/internal/maven"
)

//go:generate go run ./java/build java/source java/classes

//go:embed java/classes/*.class
var javaClasses embed.FS

// DefaultJava is the version of Apache's Java client where none is named.
const DefaultJava = "4.4.0"

// leastJavaRuntime is what kafka-clients needs from 4.0 on (KIP-1013), and the adapter.
const leastJavaRuntime = 11

var javaVersionForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// Java gives Apache's Java client (org.apache.kafka:kafka-clients) of a version; "": of
// DefaultJava. The first time a version is fetched with Maven, which progress, if given, is
// told. It takes a Java runtime of 11 or newer, in JAVA_HOME or in PATH.
func Java(ctx context.Context, version string, progress func(string)) (Library, error) {
	if version == "" {
		version = DefaultJava
	}
	if !javaVersionForm.MatchString(version) {
		return nil, fmt.Errorf("%q is no version of kafka-clients; it is like %s", version, DefaultJava)
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("looking for a place to keep the client: %w", err)
	}
	cache = filepath.Join(cache, "ackproof")
	classes, err := keepClasses(cache)
	if err != nil {
		return nil, err
	}
	jars, err := keepJars(ctx, cache, version, progress)
	if err != nil {
		return nil, err
	}
	return External(ctx, []string{java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xms16m", "-Xmx192m",
		"-cp", classes + string(os.PathListSeparator) + filepath.Join(jars, "*"), "Adapter"})
}

// JavaHere says in words what Apache's Java client would be run with on this machine, or why
// it cannot be.
func JavaHere(ctx context.Context) (string, error) {
	path, err := findJava(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for a place to keep the client: %w", err)
	}
	kept, err := filepath.Glob(filepath.Join(cache, "ackproof", "kafka-clients", "[0-9]*"))
	if err != nil {
		return "", fmt.Errorf("looking for clients that are kept: %w", err)
	}
	if len(kept) == 0 {
		if _, err := maven.Find(); err != nil {
			return "", fmt.Errorf("no kafka-clients is kept here, and to fetch it %w", err)
		}
		return path + "; kafka-clients is fetched from Maven Central", nil
	}
	for i := range kept {
		kept[i] = filepath.Base(kept[i])
	}
	return fmt.Sprintf("%s; kafka-clients that are kept: %s", path, strings.Join(kept, ", ")), nil
}

// findJava gives the path of a Java runtime that is new enough.
func findJava(ctx context.Context) (string, error) {
	path := filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")
	if _, err := os.Stat(path); os.Getenv("JAVA_HOME") == "" || err != nil {
		if path, err = exec.LookPath("java"); err != nil {
			return "", fmt.Errorf("it takes Java %d or newer, neither in JAVA_HOME nor in PATH; install a runtime "+
				"(openjdk-17-jre-headless)", leastJavaRuntime)
		}
	}
	output, err := exec.CommandContext(ctx, path, "-XshowSettings:properties", "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w: %s", path, err, output)
	}
	found := regexp.MustCompile(`java\.specification\.version = (?:1\.)?(\d+)`).FindSubmatch(output)
	if found == nil {
		return "", fmt.Errorf("%s does not say which version it has", path)
	}
	if major, err := strconv.Atoi(string(found[1])); err != nil || major < leastJavaRuntime {
		return "", fmt.Errorf("%s is Java %s; the client needs %d or newer", path, found[1], leastJavaRuntime)
	}
	return path, nil
}

// keepClasses writes the adapter's classes into the cache, by their content.
func keepClasses(cache string) (string, error) {
	names, err := fs.Glob(javaClasses, "java/classes/*.class")
	if err != nil {
		return "", fmt.Errorf("listing the adapter's classes: %w", err)
	}
	hash := sha256.New()
	content := make(map[string][]byte)
	for _, name := range names {
		bytes, err := javaClasses.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading the adapter's classes: %w", err)
		}
		content[name[strings.LastIndexByte(name, '/')+1:]] = bytes
		_, _ = hash.Write(bytes) // never fails
	}
	return keep(filepath.Join(cache, "java-adapter", fmt.Sprintf("%x", hash.Sum(nil)[:8])), func(folder string) error {
		for name, bytes := range content {
			if err := os.WriteFile(filepath.Join(folder, name), bytes, 0o600); err != nil {
				return fmt.Errorf("writing the adapter's classes: %w", err)
			}
		}
		return nil
	})
}

// keepJars fetches a version of the client into the cache, with what it logs by: nothing.
func keepJars(ctx context.Context, cache, version string, progress func(string)) (string, error) {
	return keep(filepath.Join(cache, "kafka-clients", version), func(folder string) error {
		mvn, err := maven.Find()
		if err != nil {
			return fmt.Errorf("fetching kafka-clients %s: %w", version, err)
		}
		if progress != nil {
			progress(fmt.Sprintf("fetching kafka-clients %s from Maven Central", version))
		}
		work, err := os.MkdirTemp("", "ackproof-maven-")
		if err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(work) }() // temporary
		return maven.Fetch(ctx, mvn, work, folder,
			maven.Artifact{Group: "org.apache.kafka", Name: "kafka-clients", Version: version})
	})
}

// keep makes a folder in the cache, unless it is there: whole or not at all, also where
// two processes make it at once.
func keep(folder string, fill func(folder string) error) (string, error) {
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", fmt.Errorf("making the cache %s: %w", filepath.Dir(folder), err)
	}
	half, err := os.MkdirTemp(filepath.Dir(folder), ".half-")
	if err != nil {
		return "", fmt.Errorf("making a folder in the cache: %w", err)
	}
	if err := fill(half); err != nil {
		return "", errors.Join(err, os.RemoveAll(half))
	}
	if err := os.Rename(half, folder); err != nil {
		_ = os.RemoveAll(half)
		if _, there := os.Stat(folder); there != nil {
			return "", fmt.Errorf("keeping %s: %w", folder, err)
		}
	}
	return folder, nil
}
