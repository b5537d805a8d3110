// This file holds the locks by which what is in use is told from what a process left
// that was killed: the system takes a lock away from a process that ends, however it
// ends.

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// What our locks and folders are called.
const (
	lockSuffix   = ".lock"
	folderPrefix = "ackproof-"
	// lockAttempts is how often a new name is tried where somebody cleaned up between
	// the making of a lock and its taking.
	lockAttempts = 5
)

// lockFolder is where the runs of this user keep their locks.
func lockFolder() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("%s%d", folderPrefix, os.Getuid()))
}

// errTaken says that another process holds a lock.
var errTaken = errors.New("another process has it")

// hold takes a new lock, and makes sure that what it locks is still there: before it
// was locked, whoever cleans up could take it for left.
func hold(lock *flock.Flock) error {
	locked, err := lock.TryLock()
	if err != nil {
		return err
	}
	if !locked {
		return errTaken
	}
	if _, err := os.Stat(lock.Path()); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	return nil
}

// lockAgain is how often a lock that another process has is asked for.
const lockAgain = 200 * time.Millisecond

// Lock waits until no other process of this user has the lock of a name, and takes it
// until unlock is called or the process ends.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	path := filepath.Join(lockFolder(), name+lockSuffix)
	for {
		err := os.MkdirAll(lockFolder(), 0o700)
		lock := flock.New(path)
		if err == nil {
			err = hold(lock)
		}
		if err == nil {
			// Removed under the lock: who waits for it finds that it is gone, and makes
			// another one.
			return func() { _ = errors.Join(os.Remove(path), lock.Unlock()) }, nil
		}
		if !errors.Is(err, errTaken) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %s: %w", path, errors.Join(err, ctx.Err()))
		case <-time.After(lockAgain):
		}
	}
}

// alive says whether the owner of a lock lives: then not even a part of it can be had.
// An error where that cannot be told.
func alive(path string) (bool, error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY)) // never makes one
	free, err := lock.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("whether its run lives cannot be told: %w", err)
	}
	if free {
		_ = lock.Unlock() // it was ours for a moment
	}
	return !free, nil
}

// TemporaryFolder makes a folder in the system's folder for temporary files, for
// FolderSegments, FolderImage or FolderLogs. It is in use until remove is called or the process
// ends.
func TemporaryFolder(what string) (path string, remove func() error, err error) {
	for range lockAttempts {
		if path, err = os.MkdirTemp("", folderPrefix+what+"-"); err != nil {
			break
		}
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		if err = hold(lock); err == nil {
			return path, func() error { return errors.Join(os.RemoveAll(path), lock.Unlock()) }, nil
		}
		_ = os.RemoveAll(path) // nobody knows of it
	}
	return "", nil, fmt.Errorf("making a folder for temporary files (%s): %w", what, err)
}

// LeftFile is a lock or a temporary folder that a process of this user made here.
type LeftFile struct {
	Path string `json:"path"`
	// Alive: its process lives, or that cannot be told.
	Alive bool `json:"alive"`
}

// LeftFiles gives the locks and the temporary folders on this machine.
func LeftFiles() ([]LeftFile, error) {
	locks, err := filepath.Glob(filepath.Join(lockFolder(), "*"+lockSuffix))
	if err != nil {
		return nil, fmt.Errorf("looking for the locks of runs: %w", err)
	}
	folders, err := temporaryFolders()
	if err != nil {
		return nil, err
	}
	var files []LeftFile
	for _, path := range slices.Concat(locks, folders) {
		lives, err := alive(path)
		files = append(files, LeftFile{Path: path, Alive: lives || err != nil})
	}
	return files, nil
}

// What temporary folders are made for.
const (
	FolderSegments = "segments"
	FolderImage    = "image"
	FolderLogs     = "embedded" // of the embedded cluster
)

// folderName is the form of the names of temporary folders.
var folderName = regexp.MustCompile(`^` + folderPrefix + `(` + FolderSegments + `|` + FolderImage + `|` + FolderLogs + `)-\d+$`)

// temporaryFolders gives the folders that TemporaryFolder made.
func temporaryFolders() ([]string, error) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("looking for temporary folders: %w", err)
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && folderName.MatchString(entry.Name()) {
			folders = append(folders, filepath.Join(os.TempDir(), entry.Name()))
		}
	}
	return folders, nil
}

// RemoveFile removes a lock or a temporary folder, unless its process lives.
func RemoveFile(path string) error {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !free {
		err = errTaken
	}
	if err == nil {
		// Under the lock: who takes it next finds that it is gone.
		err = errors.Join(os.RemoveAll(path), lock.Unlock())
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
