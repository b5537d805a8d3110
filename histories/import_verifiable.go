// This file holds the import of what Apache Kafka's VerifiableProducer and
// VerifiableConsumer print: several files, one to a client, make one history.
// FORMAT.md describes the mapping.

package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OpenTogether opens files of Apache Kafka's VerifiableProducer and
// VerifiableConsumer as one history: one file to a client, in any order. It reads
// the files once, to see what was sent; the history reads them anew each time.
// Files of another format are refused by name, and so are two producers whose
// values are the same on one topic, since nothing tells their records apart.
func OpenTogether(ctx context.Context, paths ...string) (*File, error) {
	var files []*File
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return Together(ctx, files...)
}

// Together is OpenTogether for files that were opened.
func Together(ctx context.Context, files ...*File) (*File, error) {
	if len(files) == 0 {
		return nil, errors.New("putting histories together: no file was named")
	}
	var names []string
	var size int64
	for _, f := range files {
		if f.format != FormatVerifiable {
			return nil, fmt.Errorf("putting histories together: %s is a history of the format %s; only what VerifiableProducer "+
				"and VerifiableConsumer print is put together, every other file is a whole history and is judged alone", f.name, f.format)
		}
		if slices.Contains(names, f.name) {
			return nil, fmt.Errorf("putting histories together: %s is named twice", f.name)
		}
		names, size = append(names, f.name), size+f.size
	}
	all := &File{name: strings.Join(names, ", "), format: FormatVerifiable, header: verifiableHeader(), size: size}
	all.verifiable = &verifiableHistory{files: files}
	if err := all.verifiable.scan(ctx); err != nil {
		return nil, fmt.Errorf("putting histories together: %w", err)
	}
	return all, nil
}

// verifiableNotApplicable are the assumptions that these files say nothing about,
// by package checker's names. Times are among them: there is no line that says
// when a value was sent.
var verifiableNotApplicable = append(slices.Clone(notApplicable), "times-do-not-run-backwards", "one-clock")

func verifiableHeader() *Header {
	return &Header{
		Tool:   "Apache Kafka's VerifiableProducer and VerifiableConsumer",
		Source: &Source{Format: FormatVerifiable, NotApplicable: slices.Clone(verifiableNotApplicable)},
	}
}

// verifiableHistory is one history out of several files.
type verifiableHistory struct {
	files []*File
	// scanned is what a scan to the end found.
	scanned *verifiableScan
}

// scan reads all files, unless that was done.
func (h *verifiableHistory) scan(ctx context.Context) error {
	if h.scanned != nil {
		return nil
	}
	s, err := scanVerifiable(ctx, h.files)
	if err != nil {
		return err
	}
	h.scanned = s
	return nil
}

// verifiableLines reads a history of the protocol.
func (f *File) verifiableLines(ctx context.Context, yield func(Entry, error) bool) {
	if err := f.verifiable.scan(ctx); err != nil {
		yield(Entry{}, err)
		return
	}
	scan := f.verifiable.scanned
	notes := maps.Clone(scan.notes) // what is found on the way comes on top
	defer func() { f.header.Source.Notes = notes.list() }()
	stopped := false
	give := func(l Line, number int64) bool {
		stopped = stopped || !yield(Entry{Line: l, Number: number}, nil)
		return !stopped
	}
	for _, c := range scan.clients {
		if err := scan.give(ctx, c, notes, give); err != nil && !stopped {
			yield(Entry{}, err)
			return
		}
		if stopped {
			return
		}
	}
	if cut := scan.cut(); cut != nil {
		yield(Entry{}, cut)
	}
}
