// This file holds the redactor: what it knows, and how it takes known values out.

package secrets

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// Marker stands where a secret was. It means nothing in JSON, YAML, HTML, Markdown and in
// properties.
const Marker = "(redacted)"

// Finding says what was taken out, and never the value.
type Finding struct {
	// Line it was found in, from 1.
	Line int64
	// What it was: the name of the property or field that holds it, what it looked like
	// ("bearer token"), or "value of NAME" where the value of a property stood elsewhere.
	What string
}

// Redactor takes secrets out of the files of one run. Every file goes through Learn first, so
// that a value that one file names as a secret is found in all the others, and then through
// Redact. It is used by one goroutine.
type Redactor struct {
	values   map[string]string // where a value that is taken out everywhere was found: the property's name
	forms    []form            // of values, the longest first
	byStart  [][]int32         // forms by their first two bytes
	stale    bool              // values has grown since forms was made
	learning bool
}

// form is how a known value may stand in a text.
type form struct{ text, name string }

// New gives a redactor that knows no value yet.
func New() *Redactor { return &Redactor{values: make(map[string]string)} }

// LearnValue says that a value stands under the name of a secret. What is short or common is
// not taken out elsewhere.
func (r *Redactor) LearnValue(name, value string) {
	for _, v := range valuesIn(name, value) {
		if _, known := r.values[v]; !known && telling(v) && !nothing(v) {
			r.values[v], r.stale = name, true
		}
	}
}

var (
	jaasOption = regexp.MustCompile(`([A-Za-z_][\w.\-]*)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)`)
	scheme     = regexp.MustCompile(`(?i)^(?:bearer|basic|digest|token|negotiate)[ \t]+`)
)

// leastLine is the length of the shortest line of a value of many lines that is a secret of
// its own.
const leastLine = 16

// valuesIn gives the secrets that a value is and holds.
func valuesIn(name, value string) []string {
	value = strings.TrimSpace(value)
	values := []string{value, unquoted(value)}
	words := wordsOf(name)
	switch {
	case strings.HasSuffix(strings.Join(words, " "), "jaas config"):
		for _, option := range jaasOption.FindAllStringSubmatch(value, -1) {
			// PlainLoginModule has a user's password under user_NAME.
			if Name(option[1]) || strings.HasPrefix(option[1], "user_") {
				values = append(values, unquoted(option[2]))
			}
		}
	case strings.HasSuffix(strings.Join(words, " "), "user info"):
		if _, password, found := strings.Cut(value, ":"); found {
			values = append(values, password)
		}
	}
	if at := scheme.FindStringIndex(value); at != nil {
		token := value[at[1]:]
		values = append(values, token)
		if text, err := base64.StdEncoding.DecodeString(token); err == nil {
			if _, password, found := strings.Cut(string(text), ":"); found {
				values = append(values, password)
			}
		}
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= leastLine && !strings.HasPrefix(line, "-----") {
				values = append(values, line)
			}
		}
	}
	return values
}

// unquoted takes quotes and their escapes off.
func unquoted(value string) string {
	if len(value) < 2 || (value[0] != '"' && value[0] != '\'') || value[len(value)-1] != value[0] {
		return value
	}
	var text strings.Builder
	inner := value[1 : len(value)-1]
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		text.WriteByte(inner[i])
	}
	return text.String()
}

// prepare makes the forms of what is known.
func (r *Redactor) prepare() {
	if !r.stale {
		return
	}
	r.stale, r.forms, r.byStart = false, nil, make([][]int32, 1<<16)
	names := make(map[string]string)
	for value, name := range r.values {
		for _, text := range formsOf(value) {
			if known, twice := names[text]; !twice || name < known {
				names[text] = name
			}
		}
	}
	for text, name := range names {
		r.forms = append(r.forms, form{text, name})
	}
	slices.SortFunc(r.forms, func(a, b form) int {
		if len(a.text) != len(b.text) {
			return len(b.text) - len(a.text)
		}
		return strings.Compare(a.text, b.text)
	})
	for i, f := range r.forms {
		start := startOf(f.text)
		r.byStart[start] = append(r.byStart[start], int32(i))
	}
}

// known takes every known value out of a text.
func (r *Redactor) known(text string, hit func(what string)) string {
	if r.learning || len(r.forms) == 0 {
		return text // it is asked for once everything is known
	}
	var result strings.Builder
	from := 0
	for at := 0; at+1 < len(text); {
		f := r.formAt(text[at:])
		if f == nil {
			at++
			continue
		}
		result.WriteString(text[from:at])
		result.WriteString(Marker)
		if isShape(f.name) {
			hit(f.name)
		} else {
			hit("value of " + f.name)
		}
		at += len(f.text)
		from = at
	}
	if from == 0 {
		return text
	}
	return result.String() + text[from:]
}

// startOf gives the first two bytes of a text, which has them.
func startOf(text string) int { return int(text[0])<<8 | int(text[1]) }

func (r *Redactor) formAt(text string) *form {
	for _, i := range r.byStart[startOf(text)] {
		if strings.HasPrefix(text, r.forms[i].text) {
			return &r.forms[i]
		}
	}
	return nil
}

// under takes the value of a secret's name out, whole.
func (r *Redactor) under(name, value string, hit func(what string)) string {
	if nothing(value) {
		return value
	}
	if r.learning {
		r.LearnValue(name, value)
	}
	hit(r.known(name, hit))
	return Marker
}

// Known takes the known values out of a text that is no file.
func (r *Redactor) Known(text string) string {
	r.prepare()
	return r.known(text, func(string) {})
}

// text takes secrets out of text. In code only what stands in quotes, or under a name that is
// plainly a password's, is a value.
func (r *Redactor) text(text string, code bool, hit func(what string)) string {
	text = r.known(text, hit)
	if !suspicious(text) {
		return text
	}
	text = r.shapes(text, hit)
	return r.named(text, code, hit)
}
