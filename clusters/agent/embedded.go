// This file holds the built program.

package agent

import (
	_ "embed" // the programs
	"fmt"

	"github.com/klauspost/compress/zstd"
)

//go:generate go run ./build

// The program for each architecture, built by the folder build and compressed with
// zstd. A test builds them again and compares.
var (
	//go:embed agent_linux_amd64.zst
	amd64 []byte
	//go:embed agent_linux_arm64.zst
	arm64 []byte
)

// Architectures are the ones that the program was built for, under Go's names.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Program gives the program for an architecture under Go's name.
func Program(architecture string) ([]byte, error) {
	compressed := map[string][]byte{"amd64": amd64, "arm64": arm64}[architecture]
	if compressed == nil {
		return nil, fmt.Errorf("there is no agent for the architecture %q (there is: %v)", architecture, Architectures())
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking the agent: %w", err)
	}
	defer decoder.Close()
	program, err := decoder.DecodeAll(compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking the agent for %s: %w", architecture, err)
	}
	return program, nil
}
