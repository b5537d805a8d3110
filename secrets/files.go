// This file holds what is done with a file as a whole: what it is, by its name, and its lines.

package secrets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
)

// format is how a file is read.
type format int

const (
	formatText format = iota
	formatJSON
	formatLines // one JSON document a line
	formatYAML
	formatProperties
	formatCode // HTML with its scripts
)

func formatOf(name string) format {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return formatJSON
	case ".jsonl":
		return formatLines
	case ".yaml", ".yml":
		return formatYAML
	case ".properties", ".env":
		return formatProperties
	case ".html", ".htm", ".js", ".svg":
		return formatCode
	}
	return formatText
}

// Learn reads a file and learns the values that stand in it under the names of secrets. What it
// is, is seen from the name: .json, .jsonl, .yaml, .properties, .html, else text. The error is the
// reader's.
func (r *Redactor) Learn(name string, in io.Reader) error {
	r.learning = true
	defer func() { r.learning = false }()
	_, err := r.through(name, in, io.Discard)
	return err
}

// Redact copies a file without its secrets, and gives what it took out, by line. A file without
// any is copied byte for byte. The error is the reader's or the writer's.
func (r *Redactor) Redact(name string, in io.Reader, out io.Writer) ([]Finding, error) {
	return r.through(name, in, out)
}

func (r *Redactor) through(name string, in io.Reader, out io.Writer) ([]Finding, error) {
	r.prepare()
	var findings []Finding
	hit := func(line int64, what string) { findings = append(findings, Finding{line, what}) }
	format := formatOf(name)
	switch format {
	case formatYAML, formatProperties:
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if format == formatProperties {
			return r.written(name, out, r.properties(content, hit), &findings)
		}
		if document, is := r.yaml(content, hit); is {
			return r.written(name, out, document, &findings)
		}
		findings, in, format = nil, bytes.NewReader(content), formatText
	default:
	}
	if err := r.lines(format, in, out, hit); err != nil {
		return nil, fmt.Errorf("taking secrets out of %s: %w", name, err)
	}
	return findings, nil
}

func (r *Redactor) written(name string, out io.Writer, content []byte, findings *[]Finding) ([]Finding, error) {
	if _, err := out.Write(content); err != nil {
		return nil, fmt.Errorf("taking secrets out of %s: %w", name, err)
	}
	return *findings, nil
}

// lines copies a file line by line.
func (r *Redactor) lines(format format, in io.Reader, out io.Writer, hit func(line int64, what string)) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	take := r.lineTaker(format)
	for number := int64(1); ; number++ {
		line, err := readLine(reader)
		if len(line) > 0 {
			redacted := take(line, func(what string) { hit(number, what) })
			if _, err := out.Write(redacted); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine gives a line with its end. It is good until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	whole := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		whole = append(whole, line...)
	}
	return whole, err
}

// lineTaker gives what takes the secrets out of one line after the other.
func (r *Redactor) lineTaker(format format) func(line []byte, hit func(what string)) []byte {
	switch format {
	case formatJSON:
		return (&jsonText{Redactor: r}).line
	case formatLines:
		return func(line []byte, hit func(what string)) []byte {
			if !r.worthReading(line) {
				return line
			}
			return (&jsonText{Redactor: r}).line(line, hit)
		}
	default:
		t := &plainText{Redactor: r, code: format == formatCode}
		return t.line
	}
}

// worthReading says whether a line of JSON can have a secret: a history has millions of
// lines, and hardly one has.
func (r *Redactor) worthReading(line []byte) bool {
	text := string(line)
	if suspicious(text) || (len(r.values) > 0 && strings.Contains(text, `\`)) {
		return true
	}
	if r.learning {
		return false
	}
	for at := 0; len(r.forms) > 0 && at+1 < len(text); at++ {
		if r.formAt(text[at:]) != nil {
			return true
		}
	}
	return false
}

// plainText goes through text. A private key spans lines.
type plainText struct {
	*Redactor
	code  bool
	inKey bool
}

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyEnds   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyLine   = regexp.MustCompile(`^\W*[A-Za-z0-9+/=]{0,200}\W*$|Proc-Type|DEK-Info|^\W*(?:Version|Comment):`)
)

func (t *plainText) line(line []byte, hit func(what string)) []byte {
	text := string(line)
	body := strings.TrimRight(text, "\r\n")
	end := text[len(body):]
	if t.inKey {
		if at := keyEnds.FindStringIndex(body); at != nil {
			t.inKey = false
			return []byte(Marker + t.text(body[at[1]:], t.code, hit) + end)
		}
		if keyLine.MatchString(body) {
			return []byte(Marker + end)
		}
		t.inKey = false // it was no key
	}
	if at := keyBegins.FindAllStringIndex(body, -1); at != nil {
		last := at[len(at)-1]
		if !keyEnds.MatchString(body[last[1]:]) {
			t.inKey = keyLine.MatchString(body[last[1]:]) // else it is all in this line, and cut off
		}
	}
	redacted := t.text(body, t.code, hit)
	if redacted == body {
		return line
	}
	return []byte(redacted + end)
}
