// This file looks for what runs.

package kills

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// processesWith gives the processes that have a variable in their environment, as name=value.
func processesWith(variable string) (found []string, err error) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, path := range environments {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended, or is another user's
		}
		all := bytes.Split(text, []byte{0})
		if slices.ContainsFunc(all, func(v []byte) bool { return string(v) == variable }) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")) // it may have ended by now
			found = append(found, fmt.Sprintf("a process of the run lives: %s: %s", filepath.Dir(path),
				bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return found, nil
}
