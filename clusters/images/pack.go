// This file holds the packing of a root file system.

package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// besideLibrary are what stands beside the C library and no program of Java's names: what
// it loads by itself when a name is looked up, and what the codecs need that Kafka's jars
// bring (zstd-jni names libpthread, which is empty since glibc 2.34, and does not load
// without it).
var besideLibrary = []string{"libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libpthread.so.0", "libm.so.6",
	"libdl.so.2", "librt.so.1"}

// systemLibraries gives the paths of the shared libraries that the Java runtime needs,
// as the system's loader finds them.
func systemLibraries(ctx context.Context, java string) ([]string, error) {
	needed := make(map[string]bool)
	err := filepath.WalkDir(java, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if !strings.HasSuffix(path, ".so") && filepath.Base(filepath.Dir(path)) != "bin" {
			return nil
		}
		output, err := exec.CommandContext(ctx, "ldd", path).Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) { // not dynamic
			return nil
		}
		for _, library := range lddPaths(string(output)) {
			if !strings.HasPrefix(library, java) {
				needed[library] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finding the libraries that the Java runtime needs: %w", err)
	}
	for library := range needed {
		if filepath.Base(library) == "libc.so.6" {
			for _, name := range besideLibrary {
				if beside := filepath.Join(filepath.Dir(library), name); exists(beside) {
					needed[beside] = true
				}
			}
		}
	}
	var paths []string
	for library := range needed {
		paths = append(paths, library)
	}
	slices.Sort(paths)
	return paths, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lddPaths reads the output of ldd: "name => /path (address)" or "/path (address)".
func lddPaths(output string) []string {
	var paths []string
	for line := range strings.Lines(output) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				paths = append(paths, word)
				break
			}
		}
	}
	return paths
}

// pack writes the root file system: the runtime, the libraries at their own paths,
// the jars, and the few files that a system needs.
func pack(to io.Writer, jars, java string, libraries []string) error {
	archive := tar.NewWriter(to)
	for _, folder := range []string{"tmp/", "data/", "etc/", "opt/kafka/"} {
		mode := int64(0o755)
		if folder == "tmp/" {
			mode = 0o1777
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: mode}); err != nil {
			return fmt.Errorf("packing %s: %w", folder, err)
		}
	}
	for name, content := range map[string]string{"etc/passwd": "root:x:0:0:root:/:/\n", "etc/group": "root:x:0:\n",
		"etc/nsswitch.conf": "hosts: files dns\n"} {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}
		if err := errors.Join(archive.WriteHeader(header), write(archive, []byte(content))); err != nil {
			return fmt.Errorf("packing %s: %w", name, err)
		}
	}
	for _, library := range libraries {
		if err := packFile(archive, library, library[1:]); err != nil {
			return err
		}
	}
	if err := packFolder(archive, java, "opt/java"); err != nil {
		return err
	}
	if err := packFolder(archive, jars, Libraries[1:]); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return nil
}

func packFolder(archive *tar.Writer, folder, at string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return packFile(archive, path, filepath.Join(at, relative))
	})
}

// packFile packs what a path leads to: no link is left in the image.
func packFile(archive *tar.Writer, path, at string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("packing %s: %w", path, err)
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	// The time too: Java compares it with the one in its archive of classes.
	header := &tar.Header{Name: at, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
