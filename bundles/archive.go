// This file holds the archive: its files compressed one by one, so that their sizes are known before it is
// put together.

package bundles

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
)

// packed is a file as the archive has it.
type packed struct {
	path   string
	method uint16
	crc    uint32
	raw    int64 // its size before
	size   int64
}

// deflate compresses a file.
func (w *writing) deflate(ctx context.Context, from string) (*packed, error) {
	return w.packing(ctx, from, zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
}

// store takes a file as it is: a history is compressed already.
func (w *writing) store(ctx context.Context, from string) (*packed, error) {
	return w.packing(ctx, from, zip.Store, func(out io.Writer) (io.WriteCloser, error) { return unpacked{out}, nil })
}

type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }

func (w *writing) packing(ctx context.Context, from string, method uint16,
	compress func(io.Writer) (io.WriteCloser, error)) (*packed, error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	p := &packed{method: method}
	p.path, err = w.save(func(out io.Writer) error {
		compressed, err := compress(out)
		if err != nil {
			return err
		}
		sum := crc32.NewIEEE()
		p.raw, err = io.Copy(io.MultiWriter(compressed, sum), reading{ctx, in})
		p.crc = sum.Sum32()
		return errors.Join(err, compressed.Close())
	})
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	p.size = info.Size()
	return p, nil
}

// issueText writes the report for the issue, as things are.
func (w *writing) issueText(ctx context.Context) (*packed, error) {
	w.issue.Files = []report.BundledFile{{Name: runs.HistoryFile, Size: w.history.packed.raw, How: w.history.how}}
	for _, f := range w.files {
		w.issue.Files = append(w.issue.Files, report.BundledFile{Name: f.name, Size: f.packed.raw, How: f.how})
	}
	slices.SortFunc(w.issue.Files, func(a, b report.BundledFile) int { return order(a.Name, b.Name) })
	path, err := w.save(func(out io.Writer) error {
		// What was taken out of the files must not come back with an error's text, or a name.
		_, err := io.WriteString(out, w.redactor.Known(w.issue.Markdown()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return w.deflate(ctx, path)
}

// order puts files of the run before those of its brokers.
func order(a, b string) int {
	if c := strings.Count(a, "/") - strings.Count(b, "/"); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// assemble puts the archive together, and gives its size. It appears under its name when it is
// whole.
func (w *writing) assemble(ctx context.Context) (int64, error) {
	if err := w.pack(ctx); err != nil {
		return 0, err
	}
	text, err := w.issueText(ctx)
	if err != nil {
		return 0, err
	}
	path, err := w.save(func(out io.Writer) error {
		archive := zip.NewWriter(out)
		if err := addTo(archive, IssueFile, text); err != nil {
			return err
		}
		slices.SortFunc(w.files, func(a, b *file) int { return order(a.name, b.name) })
		for _, f := range w.files {
			if err := addTo(archive, f.name, f.packed); err != nil {
				return err
			}
		}
		if err := addTo(archive, runs.HistoryFile, w.history.packed); err != nil {
			return err
		}
		return archive.Close()
	})
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	if info.Size() > w.Limit {
		return 0, w.tooLarge(info.Size())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return 0, fmt.Errorf("making the bundle %s: %w", w.out, err)
	}
	if err := os.Link(path, w.out); err != nil { // never over a file that is there
		if errors.Is(err, os.ErrExist) {
			return 0, inputError("making the bundle: %w; name another file with --out", err)
		}
		if err := os.Rename(path, w.out); err != nil { // a file system without links
			return 0, fmt.Errorf("making the bundle: %w", err)
		}
	}
	return info.Size(), nil
}

// addTo adds a file to an archive. It has no time: the same run gives the same bundle.
func addTo(archive *zip.Writer, name string, p *packed) error {
	header := &zip.FileHeader{Name: name, Method: p.method, CRC32: p.crc,
		CompressedSize64: uint64(p.size), UncompressedSize64: uint64(p.raw)}
	header.SetMode(0o644)
	out, err := archive.CreateRaw(header)
	if err != nil {
		return err
	}
	in, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	_, err = io.Copy(out, in)
	return err
}

// safeName says whether a file of an archive stays inside of the folder that it is unpacked in, on
// every system.
func safeName(name string) bool {
	if name == "" || strings.ContainsAny(name, "\\\x00:") || path.IsAbs(name) || !validText(name) {
		return false
	}
	return path.Clean(name) == strings.TrimSuffix(name, "/") && name != ".." && !strings.HasPrefix(name, "../")
}
