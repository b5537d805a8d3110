// This file plays the defects of client libraries: each is red on the version that has it
// and green on the one that has not.

package defects

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/runs"
)

func TestEveryDefectOfAClientIsRedWhereItIsAndGreenWhereItIsNot(t *testing.T) {
	for _, d := range Table() {
		if d.Where != InClient {
			continue // those of brokers are played in recorded_test.go
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			r := d.Reproduce(t.Context(), t.TempDir(), Options{Progress: func(text string) { t.Log(text) }})
			if r.Verdict != checker.AsExpected {
				t.Errorf("%s: %s", r.Verdict, r.Summary)
			}
			for _, seen := range r.Seen {
				t.Logf("%s: %s (%s, %.1f s)", seen.Version, seen.Colour, seen.Why, seen.Took)
				if _, err := os.Stat(filepath.Join(seen.Directory, runs.VerdictFile)); err != nil {
					t.Errorf("it leaves no run directory: %v", err)
				}
			}
		})
	}
}

func TestAnOldFranzGoIsWhatItSaysItIs(t *testing.T) {
	if _, err := buildFranzGo(t.Context(), "0.0.1", t.Logf); err == nil || !strings.Contains(err.Error(), "franz-go 0.0.1") {
		t.Errorf("a version that there is not gives %v", err)
	}
	path, err := buildFranzGo(t.Context(), "1.20.6", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	again, err := buildFranzGo(t.Context(), "1.20.6", func(string, ...any) { t.Error("it is built again") })
	if err != nil || again != path {
		t.Errorf("built again it is %s, %v", again, err)
	}
	library, err := clients.External(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	if library.Name() != FranzGo || library.Version() != "v1.20.6" {
		t.Errorf("it is %s %s", library.Name(), library.Version())
	}
	for properties, refused := range map[string]bool{"acks=all,linger.ms=0": false, "acks=1": true, "retries=3": true} {
		parsed, err := clients.ParseProperties(properties)
		if err != nil {
			t.Fatal(err)
		}
		var refusal *clients.RefusedError
		if _, err := library.Effective(t.Context(), parsed); errors.As(err, &refusal) != refused {
			t.Errorf("%s gives %v", properties, err)
		}
	}
}

func TestWithoutGoAnOldFranzGoCannotBeHadAndThatIsSaid(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	r := Table()[0].Reproduce(t.Context(), t.TempDir(), Options{})
	if r.Verdict != checker.UnknownWord || !strings.Contains(r.Seen[0].Why, "no go in PATH") {
		t.Errorf("%s: %+v", r.Verdict, r.Seen)
	}
}
