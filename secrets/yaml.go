// This file holds YAML and Java's properties.

package secrets

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml takes the secrets out of a YAML document. One without any stays as it is; one with
// some is written anew, with its comments. False: it is no YAML.
func (r *Redactor) yaml(content []byte, hit func(line int64, what string)) ([]byte, bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, false
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		return nil, false // more than one document: as text
	}
	changed := false
	w := yamlWalk{r, func(line int, what string) {
		changed = true
		hit(int64(max(line, 1)), what)
	}}
	w.node(&document, "")
	if !changed {
		return content, true
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(4)
	if err := encoder.Encode(&document); err != nil {
		return nil, false
	}
	if err := encoder.Close(); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

type yamlWalk struct {
	*Redactor
	hit func(line int, what string)
}

// node goes through a node; secret is the name of the secret that it stands under.
func (w yamlWalk) node(n *yaml.Node, secret string) {
	hit := func(what string) { w.hit(n.Line, what) }
	n.HeadComment, n.LineComment = w.text(n.HeadComment, false, hit), w.text(n.LineComment, false, hit)
	n.FootComment = w.text(n.FootComment, false, hit)
	switch n.Kind {
	case yaml.DocumentNode:
		for _, child := range n.Content {
			w.node(child, "")
		}
	case yaml.MappingNode:
		w.mapping(n, secret)
	case yaml.SequenceNode:
		announced := ""
		for _, child := range n.Content {
			under := announced
			if announced = flagOf(child.Value); secret != "" {
				under = secret
			}
			w.node(child, under)
		}
	case yaml.ScalarNode:
		w.scalar(n, secret, hit)
	case yaml.AliasNode: // its anchor is met where it is defined
	}
}

func (w yamlWalk) mapping(n *yaml.Node, secret string) {
	property := ""
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		under := secret
		switch {
		case under != "":
		case Name(key.Value):
			under = key.Value
		case strings.EqualFold(key.Value, "value"):
			under = property
		case isNaming(key.Value) && Name(value.Value):
			property = value.Value
		}
		key.Value = w.known(key.Value, func(what string) { w.hit(key.Line, what) })
		w.node(value, under)
	}
}

func (w yamlWalk) scalar(n *yaml.Node, secret string, hit func(what string)) {
	var redacted string
	if secret != "" {
		redacted = w.under(secret, n.Value, hit)
	} else {
		redacted = w.text(n.Value, false, hit)
	}
	if redacted != n.Value {
		n.Value, n.Tag = redacted, "!!str"
		if !strings.Contains(redacted, "\n") {
			n.Style = 0
		}
	}
}

// properties takes the secrets out of a file of Java's properties (java.util.Properties): a
// value may go on in the next line after a backslash.
func (r *Redactor) properties(content []byte, hit func(line int64, what string)) []byte {
	var out bytes.Buffer
	lines := bytes.SplitAfter(content, []byte("\n"))
	for i := 0; i < len(lines); {
		first := int64(i + 1)
		say := func(what string) { hit(first, what) }
		whole := append([]byte(nil), lines[i]...)
		bare := bytes.TrimLeft(whole, " \t\f")
		comment := bytes.HasPrefix(bare, []byte("#")) || bytes.HasPrefix(bare, []byte("!"))
		for i++; i < len(lines) && !comment && goesOn(whole); i++ {
			whole = append(whole, lines[i]...)
		}
		text, end := string(whole), ""
		if trimmed := strings.TrimRight(text, "\r\n"); trimmed != text {
			text, end = trimmed, text[len(trimmed):]
		}
		name, value, at := splitProperty(text)
		if !comment && Name(name) && !nothing(value) {
			r.under(name, value, say)
			text = text[:at] + Marker
		} else {
			text = r.text(text, false, say)
		}
		out.WriteString(text + end)
	}
	return out.Bytes()
}

// goesOn says whether a line ends with an odd number of backslashes.
func goesOn(line []byte) bool {
	line = bytes.TrimRight(line, "\r\n")
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

// splitProperty gives name and value of a logical line without their escapes, and where the
// value begins.
func splitProperty(line string) (name, value string, at int) {
	start := len(line) - len(strings.TrimLeft(line, " \t\f"))
	end := start
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	at = end + len(line[end:]) - len(strings.TrimLeft(line[end:], " \t\f"))
	if at < len(line) && (line[at] == '=' || line[at] == ':') {
		at++
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], " \t\f"))
	}
	return unescaped(line[start:end]), unescaped(line[at:]), at
}

// unescaped takes the escapes of properties off: \t, \u0041, \=, and a line's end with the
// white space after it.
func unescaped(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case '\r', '\n':
			for i+1 < len(text) && strings.IndexByte(" \t\f\r\n", text[i+1]) >= 0 {
				i++
			}
		case 'u':
			var r rune
			if i+4 < len(text) {
				if _, err := fmt.Sscanf(text[i+1:i+5], "%04x", &r); err == nil {
					out.WriteRune(r)
					i += 4
					continue
				}
			}
			out.WriteByte('u')
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}
