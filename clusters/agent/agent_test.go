// This file tests that the embedded programs are the ones that the sources make.

package agent

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The same toolchain gives the same bytes, so the program is built again with the one
// that built it.
func TestTheEmbeddedProgramsAreBuiltFromTheSources(t *testing.T) {
	for _, architecture := range Architectures() {
		t.Run(architecture, func(t *testing.T) {
			embedded, err := Program(architecture)
			if err != nil {
				t.Fatal(err)
			}
			info, err := buildinfo.Read(bytes.NewReader(embedded))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "agent")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
				"-ldflags", "-s -w -buildid=", "-o", path, "./program")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=", "GOAMD64=v1",
				"GOTOOLCHAIN="+info.GoVersion)
			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			built, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(built, embedded) {
				t.Errorf("the embedded program (%d bytes, %s) is not what the sources make (%d bytes): run go generate ./clusters/agent",
					len(embedded), info.GoVersion, len(built))
			}
		})
	}
}

func TestAnArchitectureWithoutAProgramIsAnError(t *testing.T) {
	if _, err := Program("s390x"); err == nil || !strings.Contains(err.Error(), "s390x") {
		t.Errorf("it gives %v", err)
	}
}
