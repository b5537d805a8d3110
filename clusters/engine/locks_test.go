// This file tests how what is in use is told from what is left, with processes that
// are killed. No container engine is needed.

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// becomeOwner in the environment makes the test's binary a run that owns a lock and
// folders, says so, and waits to be killed.
const becomeOwner = "ACKPROOF_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(becomeOwner) == "" {
		os.Exit(m.Run())
	}
	_, err := NewOwner()
	for _, what := range []string{FolderSegments, FolderImage} {
		if err == nil {
			_, _, err = TemporaryFolder(what)
		}
	}
	fmt.Println(err)
	_, _ = fmt.Scanln() // nothing comes
}

// startOwner starts another process that owns a lock and two folders in the folder for
// temporary files, which is the test's own from then on.
func startOwner(t *testing.T) *exec.Cmd {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), becomeOwner+"=1")
	input, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = owner.Process.Kill() // it may be gone
		_ = owner.Wait()
	})
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "<nil>\n" {
		t.Fatalf("the other process says %q (%v)", line, err)
	}
	return owner
}

func leftFiles(t *testing.T) []LeftFile {
	t.Helper()
	files, err := LeftFiles()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWhatAProcessLeavesIsToldFromWhatIsInUse(t *testing.T) {
	owner := startOwner(t)
	files := leftFiles(t)
	if len(files) != 3 {
		t.Fatalf("there are %v, not a lock and two folders", files)
	}
	for _, file := range files {
		if !file.Alive {
			t.Errorf("%s is said to be left while its process lives", file.Path)
		}
		if RemoveFile(file.Path) == nil {
			t.Errorf("%s was removed while its process lives", file.Path)
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
	for _, file := range leftFiles(t) {
		if file.Alive {
			t.Errorf("%s is said to be in use after its process was killed", file.Path)
		}
		if err := RemoveFile(file.Path); err != nil {
			t.Error(err)
		}
	}
	if files := leftFiles(t); len(files) != 0 {
		t.Errorf("%v are left after all were removed", files)
	}
}

func TestWhatIsNotOursIsNoneOfTheLeftFiles(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	for _, name := range []string{"ackproof-segments-mine", "ackproof-image-", "ackproof-other-12", "other-image-12"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "ackproof-image-12"), nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	if files := leftFiles(t); len(files) != 0 {
		t.Errorf("%v are taken for ours", files)
	}
}

func TestAnOwnerReleasesItsLockAndAFolderIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	owner, err := NewOwner()
	if err != nil {
		t.Fatal(err)
	}
	folder, remove, err := TemporaryFolder(FolderImage)
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(leftFiles(t), func(f LeftFile) bool { return f.Path == owner.Labels()[labelLock] && f.Alive })
	if !named {
		t.Error("the lock that the labels name is not among those that are in use")
	}
	if err := os.WriteFile(filepath.Join(folder, "a jar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if err := owner.Release(); err != nil {
		t.Error(err)
	}
	if files := leftFiles(t); len(files) != 0 {
		t.Errorf("%v are left", files)
	}
}

// Whoever cleans up may come between the making of a lock and its taking: then it is
// gone, and what is taken is no lock.
func TestALockThatIsGoneIsNotHeld(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	owner, err := NewOwner()
	if err != nil {
		t.Fatal(err)
	}
	path := owner.Labels()[labelLock]
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := hold(owner.lock); err == nil {
		t.Error("a lock is held of a file that is not there")
	}
}

// One has the lock at a time, and nothing remains of it; whoever waits gets it.
func TestALockIsHadByOneAtATime(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	unlock, err := Lock(t.Context(), "build")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ended, "build"); !errors.Is(err, context.Canceled) {
		t.Errorf("a lock that is taken was had a second time: %v", err)
	}
	if other, err := Lock(t.Context(), "another"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	const waiters = 4
	var waiting sync.WaitGroup
	var has, had atomic.Int32
	for range waiters {
		waiting.Go(func() {
			unlock, err := Lock(t.Context(), "build")
			if err != nil {
				t.Error(err)
				return
			}
			if has.Add(1) > 1 {
				t.Error("two have the lock")
			}
			had.Add(1)
			has.Add(-1)
			unlock()
		})
	}
	unlock()
	waiting.Wait()
	if had.Load() != waiters {
		t.Errorf("%d of %d had the lock", had.Load(), waiters)
	}
	if files := leftFiles(t); len(files) != 0 {
		t.Errorf("%v are left", files)
	}
}

func TestOnlyTheLockOfTheRunIsRemovedWithIt(t *testing.T) {
	folder := t.TempDir()
	for name, ours := range map[string]bool{"ackproof-7/abc.lock": true, "ackproof-7/abd.lock": false, "other/abc.lock": false,
		"ackproof-7/abc": false} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (&Engine{}).Remove(t.Context(), Left{Run: "abc", Lock: path}); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); (err != nil) != ours {
			t.Errorf("%s: removed is %t", name, err != nil)
		}
	}
}

func TestWhetherARunLivesIsInDoubtWhereItsLockCannotBeRead(t *testing.T) {
	if lives, err := alive(filepath.Join(t.TempDir(), "none")); lives || err != nil {
		t.Errorf("a run without a lock lives: %t (%v)", lives, err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := alive(filepath.Join(path, "below-a-file.lock")); err == nil {
		t.Error("what cannot be read says that a run is over")
	}
}
