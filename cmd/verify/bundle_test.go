package main

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// plant puts a file into a run directory.
func plant(t *testing.T, run, name, content string) {
	t.Helper()
	path := filepath.Join(run, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// everythingIn gives all that a bundle holds as one text, the history decompressed.
func everythingIn(t *testing.T, path string) string {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	var all strings.Builder
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == runs.HistoryFile {
			opened, err := histories.OpenBytes(f.Name, content)
			if err != nil {
				t.Fatal(err)
			}
			text, err := opened.Text()
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(text); err != nil {
				t.Fatal(err)
			}
		}
		all.WriteString("\n== " + f.Name + "\n")
		all.Write(content)
	}
	return all.String()
}

func TestARunIsBundledWithoutSecretsAndJudgedTheSameAnywhere(t *testing.T) {
	t.Parallel()
	const password, token = "hunter22-Zz", "tok-9f8e7d6c5b4a"
	r, out := run(t, "--duration", "3s", "--seed", "9", "--allow-lies", "--faults", "acknowledge-unwritten")
	r.want(t, checker.Violated)
	scenario, err := os.ReadFile((&runs.Directory{Path: out}).Scenario())
	if err != nil {
		t.Fatal(err)
	}
	plant(t, out, runs.ScenarioFile, strings.Replace(string(scenario), "producer: {}", "producer:\n    ssl.key.password: "+password, 1))
	plant(t, out, "brokers/1/server.properties", `sasl.jaas.config=x required username="bob" password="`+password+`";`+"\n")
	plant(t, out, "brokers/1/server.log", "Authorization: Bearer "+token+"\nsaid "+base64.StdEncoding.EncodeToString([]byte("bob:"+password))+"\n")
	plant(t, out, runs.ReportFile, "<p>"+password+"</p>")

	made := invoke(t, "bundle", out)
	bundle := out + ".zip"
	if made.status != exitHeld || made.progress != "" {
		t.Fatalf("exit status %d: %s", made.status, made.progress)
	}
	for _, says := range []string{"VIOLATED", "scenario.yaml, line ", "ssl.key.password", "brokers/1/server.properties, line 1: sasl.jaas.config",
		"brokers/1/server.log, line 1: bearer token", "report.html, line 1: value of s", "verify check"} {
		if !strings.Contains(made.stdout, says) {
			t.Errorf("it does not say %q:\n%s", says, made.stdout)
		}
	}
	all := everythingIn(t, bundle)
	for _, secret := range []string{password, token, base64.StdEncoding.EncodeToString([]byte("bob:" + password))} {
		if strings.Contains(all, secret) || strings.Contains(made.stdout, secret) {
			t.Errorf("%s is in the bundle or in what is said of it", secret)
		}
	}
	if !strings.Contains(all, "ssl.key.password: (redacted)") {
		t.Error("nothing was planted into the scenario")
	}

	elsewhere := t.TempDir() // nothing but the binary and the bundle
	moved := filepath.Join(t.TempDir(), "moved.zip")
	if err := os.Rename(bundle, moved); err != nil {
		t.Fatal(err)
	}
	i := start(t.Context(), "check", "--json", moved)
	i.Dir, i.Env = elsewhere, []string{}
	checked := finish(t, i)
	own, err := os.ReadFile((&runs.Directory{Path: out}).Verdict())
	if err != nil {
		t.Fatal(err)
	}
	if want, got := withoutPath(t, own), withoutPath(t, []byte(checked.stdout)); checked.status != exitViolated || !bytes.Equal(want, got) {
		t.Errorf("exit status %d; the verdict is not the run's: %.500s\n%s", checked.status, got, checked.progress)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
	text := invoke(t, "check", moved)
	if text.status != exitViolated || !strings.Contains(text.stdout, "lost-write") {
		t.Errorf("exit status %d:\n%s", text.status, text.stdout)
	}
}

// withoutPath gives a verdict without where its history lay, and without what only a run adds.
func withoutPath(t *testing.T, text []byte) []byte {
	t.Helper()
	var v checker.Verdict
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("no verdict: %v\n%.300s", err, text)
	}
	v.History.Path = ""
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestABundleThatIsWrongIsRefused(t *testing.T) {
	folder := t.TempDir()
	plant(t, folder, "cut.zip", "PK\x03\x04\x14\x00")
	var hostile bytes.Buffer
	archive := zip.NewWriter(&hostile)
	if _, err := archive.Create("../evil"); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	plant(t, folder, "hostile.zip", hostile.String())
	for _, c := range []struct {
		rule string
		args []string
		says string
	}{
		{"a bundle that is cut", []string{"check", filepath.Join(folder, "cut.zip")}, "cut or broken"},
		{"a bundle with a path to the folder above", []string{"check", filepath.Join(folder, "hostile.zip")}, "outside of its folder"},
		{"no run", []string{"bundle"}, "one run directory"},
		{"two runs", []string{"bundle", "a", "b"}, "one run directory"},
		{"a run that is not there", []string{"bundle", filepath.Join(folder, "none")}, "none"},
		{"a directory that is no run", []string{"bundle", folder}, runs.HistoryFile},
		{"a limit that is no size", []string{"bundle", "--limit", "much", folder}, "25MB"},
		{"a limit of nothing", []string{"bundle", "--limit", "0", folder}, "25MB"},
		{"the folder itself, without a name", []string{"bundle", "."}, "--out"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := invoke(t, c.args...)
			if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.progress, c.says) {
				t.Errorf("exit status %d, want %q: %s%s", r.status, c.says, r.progress, r.stdout)
			}
		})
	}
}

func TestSizesAreRead(t *testing.T) {
	for text, want := range map[string]int64{"1000": 1000, "25MB": 25_000_000, "1.5 kb": 1500, "2MiB": 2 << 20, "8b": 8} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "MB", "1TB", "NaN", "1e40", "0"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
