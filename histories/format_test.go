// This file tests FORMAT.md against the codec: every example is read and written
// again as it stands, and no kind of line and no field is left out.

package histories

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-faster/jx"
)

// examples are the lines in FORMAT.md's blocks of JSON.
func examples(t *testing.T) (text string, lines []string) {
	t.Helper()
	raw, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	text = string(raw)
	for i, block := range strings.Split(text, "```") {
		if i%2 == 0 {
			continue
		}
		content, isJSON := strings.CutPrefix(block, "json\n")
		if !isJSON {
			t.Errorf("a block that is no JSON: %q", block)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(content), "\n")...)
	}
	return text, lines
}

func TestEveryExampleOfTheFormatIsReadAndWrittenAgain(t *testing.T) {
	_, lines := examples(t)
	kinds := map[string]int{}
	for _, raw := range lines {
		d := newDecoder()
		kind, err := d.kindOf([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		kinds[kind]++
		var w jx.Writer
		if kind == lineHeader {
			file := &File{}
			if err := file.readHeader([]byte(raw)); err != nil {
				t.Errorf("%s: %v", raw, err)
				continue
			}
			appendHeader(&w, file.header)
			d.skipped = file.unknown
		} else {
			line, err := d.decode([]byte(raw))
			if err != nil || line == nil {
				t.Errorf("%s: %v", raw, err)
				continue
			}
			appendLine(&w, line)
		}
		if string(w.Buf) != raw {
			t.Errorf("an example is written differently:\n  example %s\n  written %s", raw, w.Buf)
		}
		if d.skipped.fields != 0 {
			t.Errorf("%s: unknown: %v", raw, d.skipped.names)
		}
	}
	for kind := range readers {
		if kinds[kind] == 0 {
			t.Errorf("there is no example of a line of kind %s", kind)
		}
	}
	if kinds[lineHeader] < 2 {
		t.Error("there is no example of a header")
	}
}

func TestTheSmallHistoryOfTheFormatIsWhole(t *testing.T) {
	text, _ := examples(t)
	first := strings.Split(text, "```")[1]
	lines, _, err := readAll(mustOpenBytes(t, "history", []byte(strings.TrimPrefix(first, "json\n"))))
	if err != nil || len(lines) != 6 {
		t.Errorf("read %d lines, %v", len(lines), err)
	}
}

// described checks that a text names every field.
func described[T any](t *testing.T, text string, fields []field[T]) {
	t.Helper()
	for _, f := range fields {
		if !strings.Contains(text, "`"+f.name+"`") {
			t.Errorf("FORMAT.md does not describe %s of %s", f.name, reflect.TypeFor[T]().Name())
		}
		if !strings.Contains(text, `"`+f.name+`":`) {
			t.Errorf("FORMAT.md has no example of %s of %s", f.name, reflect.TypeFor[T]().Name())
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	text, _ := examples(t)
	section := func(from, to string) string {
		start := strings.Index(text, "\n### "+from)
		end := strings.Index(text, "\n### "+to)
		if start < 0 || end < start {
			t.Fatalf("no section %q before %q", from, to)
		}
		return text[start:end]
	}
	header, sessions := section("Header", "Sessions"), section("Sessions", "Sends")
	sends, attempts := section("Sends", "Attempts"), section("Attempts", "Polls")
	polls, faults := section("Polls", "Faults"), section("Faults", "The final read")
	final, replicas := section("The final read", "Replicas"), section("Replicas", "The end")
	end := text[max(strings.Index(text, "\n### The end"), 0):]
	described(t, header, headerFields)
	described(t, header, clusterFields)
	described(t, header, topicFields)
	described(t, header, sourceFields)
	described(t, sessions, producerFields)
	described(t, sessions, producerCloseFields)
	described(t, sessions, producerRefusedFields)
	described(t, sessions, consumerFields)
	described(t, sessions, consumerCloseFields)
	described(t, sends, sendFields)
	described(t, sends, sendReturnFields)
	described(t, attempts, attemptFields)
	described(t, polls, pollFields)
	described(t, polls, pollReturnFields)
	described(t, polls, recordsFields)
	described(t, polls, positionChangeFields)
	described(t, polls, positionFields)
	described(t, polls, commitFields)
	described(t, polls, commitReturnFields)
	described(t, faults, faultStartFields)
	described(t, faults, faultEndFields)
	described(t, faults, clusterEventFields)
	described(t, faults, noteFields)
	described(t, final, finalRecordsFields)
	described(t, final, finalReadFields)
	described(t, replicas, replicaRecordsFields)
	described(t, replicas, replicaReadFields)
	described(t, end, endFields)
}
