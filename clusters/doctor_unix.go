//go:build unix

package clusters

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace gives how many bytes this user can write into a folder.
func freeSpace(folder string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("asking how much space is free in %s: %w", folder, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // Bsize has another type on macOS
}
