// Package maven fetches jars from Maven Central, with Maven itself: it knows mirrors,
// proxies and its own cache as this machine is set up for them.
package maven

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Artifact is what is fetched: group, name and version.
type Artifact struct{ Group, Name, Version string }

// pom names what Maven is to fetch.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>io.github.ackproof</groupId><artifactId>fetched</artifactId><version>1</version>
  <dependencies>%s</dependencies>
</project>
`

// Find gives the path of Maven, or says what to install.
func Find() (string, error) {
	path, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("it takes Maven, and there is no mvn in PATH; install Maven (maven)")
	}
	return path, nil
}

// Fetch copies the artifacts and all that they need at run time into a folder, which is
// made. The work folder must be there and is written to. It may be called concurrently
// with other work folders.
func Fetch(ctx context.Context, mvn, work, folder string, wanted ...Artifact) error {
	var dependencies strings.Builder
	for _, a := range wanted {
		fmt.Fprintf(&dependencies, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>",
			a.Group, a.Name, a.Version)
	}
	file := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(file, fmt.Appendf(nil, pom, dependencies.String()), 0o600); err != nil {
		return fmt.Errorf("writing what Maven is to fetch: %w", err)
	}
	command := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "--file", file, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+folder)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("fetching %s %s with Maven: %w: %s", wanted[0].Name, wanted[0].Version, err, firstLines(output.String()))
	}
	return nil
}

// firstLines gives enough of Maven's output to see what is wrong.
func firstLines(output string) string {
	const most = 4
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[:min(len(lines), most)], "\n")
}
