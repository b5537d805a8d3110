package bundles

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// member is a file of an archive of a test.
type member struct {
	name, content string
	mode          fs.FileMode
	deflate       bool
}

func zipped(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Store}
		if m.deflate {
			header.Method = zip.Deflate
		}
		header.SetMode(0o644 | m.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(m.content)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

const smallText = `{"line":"header","format":"ackproof-history","version":"1.0","run":"r"}` + "\n" +
	`{"line":"note","time":1,"text":"x"}` + "\n" + smallEnd

const smallEnd = `{"line":"end","time":2,"reason":"finished"}` + "\n"

func packedText(tb testing.TB, text string) string {
	tb.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	return string(encoder.EncodeAll([]byte(text), nil))
}

func saved(tb testing.TB, content []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "bundle.zip")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestAnArchiveOfARunIsOpened(t *testing.T) {
	history := packedText(t, smallText)
	for rule, members := range map[string][]member{
		"as verify bundle makes it":      {{name: "REPORT.md"}, {name: runs.HistoryFile, content: history}},
		"zipped again, and in a folder":  {{name: "run/", mode: fs.ModeDir}, {name: "run/" + runs.HistoryFile, content: history, deflate: true}},
		"beside files with odd names":    {{name: runs.HistoryFile, content: history}, {name: "brokers/..x/a b.log"}, {name: "...txt"}},
		"with a history that is cut off": {{name: runs.HistoryFile, content: packedText(t, strings.TrimSuffix(smallText, smallEnd))}},
	} {
		t.Run(rule, func(t *testing.T) {
			path := saved(t, zipped(t, members...))
			if !Is(path) {
				t.Error("it is not seen to be an archive")
			}
			opened, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for entry, err := range opened.Lines(t.Context()) {
				var cut *histories.CutError
				if err != nil && !errors.As(err, &cut) {
					t.Fatal(err)
				}
				if entry.Line != nil || err != nil {
					lines++
				}
			}
			if lines != 2 || opened.Header().Run != "r" {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

func TestAnArchiveThatIsBrokenOrHostileIsRefused(t *testing.T) {
	history := packedText(t, smallText)
	good := member{name: runs.HistoryFile, content: history}
	whole := zipped(t, good)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-30] ^= 0xff
	bomb := smallText + strings.Repeat(`{"line":"note","time":1,"text":"x"}`+"\n", 6<<20)
	for _, c := range []struct {
		rule    string
		content []byte
		says    string
	}{
		{"one that was cut", whole[:len(whole)-10], "cut or broken"},
		{"one whose directory is damaged", damaged, "opening the bundle"},
		{"one with a path to the folder above", zipped(t, good, member{name: "../evil"}), "outside of its folder"},
		{"one with such a path inside", zipped(t, good, member{name: "a/../../evil"}), "outside of its folder"},
		{"one with an absolute path", zipped(t, good, member{name: "/etc/passwd"}), "outside of its folder"},
		{"one with a path of Windows", zipped(t, good, member{name: `..\evil`}), "outside of its folder"},
		{"one with a drive", zipped(t, good, member{name: "C:evil"}), "outside of its folder"},
		{"one whose history has such a path", zipped(t, member{name: "../" + runs.HistoryFile, content: history}), "outside of its folder"},
		{"one with a link", zipped(t, good, member{name: "link", content: "/etc/passwd", mode: fs.ModeSymlink}), "a link"},
		{"one with a file twice", zipped(t, good, good), "twice"},
		{"one without a history", zipped(t, member{name: "REPORT.md"}), "holds no " + runs.HistoryFile},
		{"one with two histories", zipped(t, good, member{name: "b/" + runs.HistoryFile, content: history}), "2 histories"},
		{"one whose history is none", zipped(t, member{name: runs.HistoryFile, content: "hello"}), "a history is"},
		{"an empty one", zipped(t), "holds no"},
		{"one whose archive grows beyond measure", zipped(t, member{name: runs.HistoryFile, content: strings.Repeat("\x00", 64<<20), deflate: true}), "zip bomb"},
		{"one whose history grows beyond measure", zipped(t, member{name: runs.HistoryFile, content: packedText(t, bomb)}), "zip bomb"},
		{"one with a line beyond measure", zipped(t, member{name: runs.HistoryFile,
			content: packedText(t, smallText+strings.Repeat("x", 65<<20)) + strings.Repeat("y", 1<<20)}), "refused"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			path := saved(t, c.content)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Open(path)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error that names the file and says %q", err, c.says)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 128<<20 {
				t.Errorf("refusing it took %d bytes", took)
			}
		})
	}
	t.Run("what is no archive is not taken for one", func(t *testing.T) {
		if Is(saved(t, []byte(smallText))) || Is(t.TempDir()) || Is("not there") {
			t.Error("it is")
		}
	})
}

func FuzzOpenBundle(f *testing.F) {
	history := packedText(f, smallText)
	f.Add(zipped(f, member{name: "REPORT.md"}, member{name: runs.HistoryFile, content: history}))
	f.Add(zipped(f, member{name: "run/" + runs.HistoryFile, content: history, deflate: true}))
	f.Add(zipped(f, member{name: "../" + runs.HistoryFile, content: history}))
	f.Add([]byte("PK\x05\x06"))
	path := filepath.Join(f.TempDir(), "bundle.zip")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(128<<20+256<<10*len(content)); took > most {
				t.Errorf("%d bytes took %d bytes, want %d at most", len(content), took, most)
			}
		}()
		opened, err := Open(path)
		if err != nil {
			return
		}
		if opened.Header() == nil || strings.Contains(opened.Name(), "..") {
			t.Fatalf("opened %s without a header, or from elsewhere", opened.Name())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for entry, err := range opened.Lines(ctx) {
			if err == nil && entry.Line == nil {
				t.Fatal("a line that is none")
			}
		}
	})
}
