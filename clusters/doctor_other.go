//go:build !unix

package clusters

import (
	"errors"
	"fmt"
)

// freeSpace gives how many bytes this user can write into a folder.
func freeSpace(folder string) (int64, error) {
	return 0, fmt.Errorf("asking how much space is free in %s: %w", folder, errors.ErrUnsupported)
}
