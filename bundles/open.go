// This file holds the reading of a bundle. An archive comes from a stranger: nothing of it is unpacked onto the
// disk, and what it claims to be is looked at first.

package bundles

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// The bounds of what is read of an archive.
const (
	maxFiles = 10_000
	// mostText is how much text a history may have for each byte that it takes, beyond freeText. Ours
	// have ten, or twenty where they repeat themselves.
	mostText = 100
	freeText = 64 << 20
	// maxLine is the longest line of a history.
	maxLine = 64 << 20
)

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return order(a.Name(), b.Name()) })
}

func validText(name string) bool {
	for _, r := range name {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// Is says whether a file is an archive, by how it begins. False for what cannot be read.
func Is(file string) bool {
	in, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // it was only read
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil {
		return false
	}
	return string(head) == "PK\x03\x04" || string(head) == "PK\x05\x06"
}

// Open opens the history of a bundle, or of any other zip archive of a run directory, also where that
// lies in a folder. It is read from the archive; nothing is unpacked. It refuses an
// archive that is broken, whose files would be unpacked elsewhere, or whose history would be larger by
// far than any that was recorded. The history is read with bounded memory as any other.
func Open(file string) (*histories.File, error) {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle %s: it is a zip archive that is cut or broken: %w; get it again", file, err)
	}
	defer func() { _ = archive.Close() }() // it was only read
	name, err := historyIn(&archive.Reader)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle %s: %w", file, err)
	}
	entry, err := archive.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle %s: %w", file, err)
	}
	info, err := entry.Stat()
	if err = errors.Join(err, entry.Close()); err != nil {
		return nil, fmt.Errorf("opening the bundle %s: %w", file, err)
	}
	history, err := histories.OpenPart(file+": "+name, info.Size(), func() (io.ReadCloser, error) { return openEntry(file, name) })
	if err != nil {
		return nil, err
	}
	if err := checkText(history, info.Size()); err != nil {
		return nil, fmt.Errorf("opening the bundle %s: %s: %w", file, name, err)
	}
	return history, nil
}

// historyIn finds the history of an archive, and refuses an archive that is none of a run.
func historyIn(archive *zip.Reader) (string, error) {
	if len(archive.File) > maxFiles {
		return "", fmt.Errorf("it holds %d files; a bundle has a few", len(archive.File))
	}
	var found []*zip.File
	names := make(map[string]bool)
	for _, f := range archive.File {
		switch {
		case !safeName(f.Name):
			return "", fmt.Errorf("it is refused: the file %.200q in it would be unpacked outside of its folder", f.Name)
		case f.Mode()&^(fs.ModePerm|fs.ModeDir) != 0:
			return "", fmt.Errorf("it is refused: %.200q in it is a link or no regular file", f.Name)
		case names[f.Name]:
			return "", fmt.Errorf("it is refused: it holds %.200q twice", f.Name)
		}
		names[f.Name] = true
		if path.Base(f.Name) == runs.HistoryFile && !f.Mode().IsDir() {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("it holds no %s; a bundle is what verify bundle made of a run directory", runs.HistoryFile)
	case len(found) > 1:
		return "", fmt.Errorf("it holds %d histories, %s and %s among them; unpack it and name one", len(found),
			found[0].Name, found[1].Name)
	}
	f := found[0]
	if f.Method != zip.Store && f.Method != zip.Deflate {
		return "", fmt.Errorf("its %s is compressed in a way (method %d) that is not read here; unpack it first", f.Name, f.Method)
	}
	// What is compressed already can hardly be compressed again.
	if f.UncompressedSize64 > 10*f.CompressedSize64+1<<20 {
		return "", fmt.Errorf("it is refused as a zip bomb: its %s would grow from %d to %d bytes", f.Name,
			f.CompressedSize64, f.UncompressedSize64)
	}
	return f.Name, nil
}

// openEntry opens a file of an archive; closing it closes the archive.
func openEntry(file, name string) (io.ReadCloser, error) {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	entry, err := archive.Open(name)
	if err != nil {
		return nil, errors.Join(err, archive.Close())
	}
	return &entryReader{entry, archive}, nil
}

type entryReader struct {
	fs.File
	archive io.Closer
}

func (r *entryReader) Close() error { return errors.Join(r.File.Close(), r.archive.Close()) }

// checkText refuses a history that is small only because it says the same again and again. What else is
// wrong with it is said by whoever reads it.
func checkText(history *histories.File, size int64) error {
	text, err := history.Text()
	if err != nil {
		return err
	}
	defer func() { _ = text.Close() }() // it was only read
	buffer := make([]byte, 1<<20)
	total, line := int64(0), int64(0)
	for {
		n, err := text.Read(buffer)
		total += int64(n)
		if last := bytes.LastIndexByte(buffer[:n], '\n'); last >= 0 {
			line = int64(n - last - 1)
		} else {
			line += int64(n)
		}
		switch {
		case total > freeText+mostText*size:
			return fmt.Errorf("it is refused as a zip bomb: it has %d bytes and more than %d bytes of text", size, total)
		case line > maxLine:
			return fmt.Errorf("it is refused: it has a line of more than %d bytes", int64(maxLine))
		case err != nil:
			return nil // a history that is cut or broken is judged, or refused, by its reader
		}
	}
}
