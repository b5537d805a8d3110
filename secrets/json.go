// This file holds JSON: everything but the strings that change stays as it is, byte for byte.

package secrets

import (
	"bytes"
	"encoding/json"
	"strings"
)

// jsonText goes through JSON line by line. A string never ends in another line, so what spans
// lines is only where in objects and arrays it stands.
type jsonText struct {
	*Redactor
	stack []container
	key   string // of the member whose value is due
	value bool   // a member's value is due
	wrong bool   // the line is not JSON
}

// container is an object or array that is open.
type container struct {
	object bool
	secret bool   // it stands under the name of a secret
	name   string // the name that makes it one
	// property is the name that a member gives, as in {"name":"ssl.key.password","value":"x"},
	// or, in an array, what a flag before was.
	property string
}

// line takes the secrets out of a line. What is not JSON goes through as text.
func (j *jsonText) line(line []byte, hit func(what string)) []byte {
	var out bytes.Buffer
	changed := false
	j.wrong = false
	for at := 0; at < len(line); {
		end := at + 1
		written := line[at:end]
		switch c := line[at]; c {
		case '"':
			end = endOfString(line, at)
			written = j.literal(line[at:end], hit)
		case '{', '[':
			j.open(c == '{')
		case '}', ']':
			j.close()
		case ':':
			j.value = true
		case ',':
			j.value, j.key = false, ""
		case ' ', '\t', '\r', '\n':
		default:
			for end < len(line) && !bytes.ContainsRune([]byte(" \t\r\n,:]}[{\""), rune(line[end])) {
				end++
			}
			written = j.bare(line[at:end], hit)
		}
		changed = changed || !bytes.Equal(written, line[at:end])
		out.Write(written)
		at = end
	}
	written := line
	if changed {
		written = out.Bytes()
	}
	if j.wrong { // a secret may stand anywhere in it
		if text := j.text(string(written), false, hit); text != string(written) {
			return []byte(text)
		}
	}
	return written
}

// endOfString gives where the string literal that begins at a place ends.
func endOfString(line []byte, at int) int {
	for i := at + 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(line)
}

// maxDepth bounds how deep containers are followed; what lies deeper is text.
const maxDepth = 1000

func (j *jsonText) open(object bool) {
	name, secret := j.underSecret()
	if len(j.stack) < maxDepth {
		j.stack = append(j.stack, container{object: object, secret: secret, name: name})
	}
	j.key, j.value = "", false
}

func (j *jsonText) close() {
	if len(j.stack) > 0 {
		j.stack = j.stack[:len(j.stack)-1]
	}
	j.key, j.value = "", false
}

func (j *jsonText) top() *container {
	if len(j.stack) == 0 {
		return &container{}
	}
	return &j.stack[len(j.stack)-1]
}

// underSecret says whether the value that is due is a secret, and by which name.
func (j *jsonText) underSecret() (name string, secret bool) {
	top := j.top()
	switch {
	case top.secret:
		return top.name, true
	case j.value && Name(j.key):
		return j.key, true
	case j.value && strings.EqualFold(j.key, "value") && top.property != "":
		return top.property, true
	case !top.object && top.property != "":
		return top.property, true
	}
	return "", false
}

func (j *jsonText) literal(literal []byte, hit func(what string)) []byte {
	var text string
	if err := json.Unmarshal(literal, &text); err != nil {
		j.wrong = true
		return literal
	}
	top := j.top()
	if top.object && !j.value {
		j.key = text
		return j.encoded(literal, text, j.known(text, hit))
	}
	if name, secret := j.underSecret(); secret {
		if !top.object {
			top.property = ""
		}
		return j.encoded(literal, text, j.under(name, text, hit))
	}
	switch {
	case top.object && Name(text) && isNaming(j.key):
		top.property = text
	case !top.object:
		top.property = flagOf(text)
	}
	return j.encoded(literal, text, j.text(text, false, hit))
}

// isNaming says whether a member of this name says what another member of its object is.
func isNaming(key string) bool {
	switch strings.ToLower(key) {
	case "name", "key", "property", "config":
		return true
	}
	return false
}

// flagOf gives the name of a secret that a flag of a command line announces: --password.
func flagOf(text string) string {
	name := strings.TrimLeft(text, "-")
	if name == text || strings.ContainsAny(name, "= ") || !Name(name) {
		return ""
	}
	return name
}

func (j *jsonText) encoded(literal []byte, text, redacted string) []byte {
	if text == redacted {
		return literal
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(bytes.Contains(literal, []byte(`\u003c`)))
	if err := encoder.Encode(redacted); err != nil {
		return []byte(`"` + Marker + `"`)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// bare is a number, true, false, null, or no JSON at all.
func (j *jsonText) bare(token []byte, hit func(what string)) []byte {
	j.wrong = j.wrong || !json.Valid(token)
	name, secret := j.underSecret()
	if !secret || nothing(string(token)) {
		return token
	}
	return []byte(`"` + j.under(name, string(token), hit) + `"`)
}
