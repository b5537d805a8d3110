// This file tests that a run may be killed hard at any moment. `go run ./doc/measure -table
// kills` does the same two hundred times, on brokers in containers too.

package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/internal/kills"
)

// wholeRun is about how long a run of one second lives here: moments are drawn from it.
const wholeRun = 3 * time.Second

// TestARunMayBeKilledAtAnyMoment kills a dozen runs, beside each other and other tests. How far
// behind the kill a history ends is asked only where the machine is not too busy for that.
func TestARunMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(time.Now().UnixNano()))
	for i := range 12 {
		after := time.Duration(1 + random.Int63n(int64(wholeRun)))
		t.Run(fmt.Sprintf("%d, after %s", i, after.Round(time.Millisecond)), func(t *testing.T) {
			t.Parallel()
			k := kills.Kill{Program: binary, Out: filepath.Join(t.TempDir(), "run"), Temporary: t.TempDir(), After: after,
				Arguments: []string{"--duration", "1s", "--rate", "500", "--faults", "lost-response,move-leader"}}
			o, err := k.Play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("killed %s, %d events sent, the last line %s before: %s", o.Phase, o.Sent, o.Behind.Round(time.Millisecond), o.Verdict)
			for _, problem := range o.Problems {
				t.Error(problem)
			}
		})
	}
}

// TestWhatAKilledRunLeavesInFilesIsRemoved: the embedded cluster has its logs in files where
// a fault takes their ends away.
func TestWhatAKilledRunLeavesInFilesIsRemoved(t *testing.T) {
	t.Parallel()
	m := requireEngine(t) // verify clean takes one
	k := kills.Kill{Program: binary, Out: filepath.Join(t.TempDir(), "run"), Temporary: m.temporary, After: wholeRun / 2,
		Arguments: []string{"--duration", "20s", "--rate", "500", "--faults", "restart-losing-suffix", "--allow-lies"}}
	if _, err := k.Play(t.Context()); err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(m.temporary, "ackproof-*"))
	if err != nil || !strings.Contains(fmt.Sprint(folders), engine.FolderLogs) {
		t.Fatalf("the run left %v (%v), and no logs: nothing is tested here", folders, err)
	}
	problems, err := k.Clean(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for _, folder := range folders {
		if _, err := os.Stat(folder); strings.Contains(folder, engine.FolderLogs) && err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}
