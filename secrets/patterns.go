// This file holds what secrets look like in free text.

package secrets

import (
	"regexp"
	"slices"
	"strings"
)

// triggers are what a text has, in small letters, that has anything of this file. Looking for
// them is much faster than asking the expressions.
var triggers = []string{"pass", "pwd", "secret", "token", "credential", "jaas", "user.info", "user_info", "userinfo", "user-info",
	"authorization", "bearer", "basic ", "cookie", "jwt", "private", "api", "accesskey", "access_key", "access-key", "access.key",
	"master", "keystore", "truststore", "certificate", "encryption", "signing", "shared", "account", "eyj", "akia", "asia", "aiza",
	"gh", "xox", "glpat-", "://"}

// suspicious says whether it is worth while to look closer at a text.
func suspicious(text string) bool {
	lower := lowered(text)
	for _, trigger := range triggers {
		if strings.Contains(lower, trigger) {
			return true
		}
	}
	return false
}

// lowered gives ASCII's letters in small.
func lowered(text string) string {
	b := make([]byte, len(text))
	for i := range len(text) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return string(b)
}

// shape is something that is a secret by its look. The value is the last group of the
// expression.
type shape struct {
	what       string
	expression *regexp.Regexp
	accept     func(value string) bool // nil: always
}

const privateKey = "private key"

var shapes = []shape{
	{privateKey, regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?` +
		`(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z))`), nil},
	{"JSON web token", regexp.MustCompile(`(eyJ[A-Za-z0-9_=\-]{8,}(?:\.[A-Za-z0-9_=\-]*){1,4})`), nil},
	{"AWS access key", regexp.MustCompile(`\b((?:AKIA|ASIA)[A-Z0-9]{16})\b`), nil},
	{"access token", regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|` +
		`xox[abeoprs]-[A-Za-z0-9\-]{10,}|AIza[A-Za-z0-9_\-]{35}|glpat-[A-Za-z0-9_\-]{20,})`), nil},
	{"bearer token", regexp.MustCompile(`(?i)\bbearer[ \t]+([A-Za-z0-9._~+/=\-]+)`), random},
	{"basic credentials", regexp.MustCompile(`(?i)\bbasic[ \t]+([A-Za-z0-9+/=_\-]+)`), random},
	{"password in a URL", regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.\-]*://[^/\s:@"'<>]*:([^@\s"'/<>]+)@`), noPort},
}

// isShape says whether this is what a shape is called, and no property's name.
func isShape(what string) bool {
	return slices.ContainsFunc(shapes, func(s shape) bool { return s.what == what })
}

// random says whether a word is no word of a language: "bearer authentication" has no token.
func random(value string) bool {
	return len(value) >= 20 || (len(value) >= 8 && strings.ContainsAny(value, "0123456789"))
}

// noPort says whether what follows a colon is no port of a list of addresses.
func noPort(value string) bool {
	return !strings.Contains(value, ",") || strings.Trim(value[:strings.IndexByte(value, ',')], "0123456789") != ""
}

// shapes takes out what is a secret by its look.
func (r *Redactor) shapes(text string, hit func(what string)) string {
	for _, s := range shapes {
		found := s.expression.FindAllStringSubmatchIndex(text, -1)
		if found == nil {
			continue
		}
		var result strings.Builder
		from := 0
		for _, at := range found {
			start, end := at[2], at[3]
			value := text[start:end]
			if nothing(value) || (s.accept != nil && !s.accept(value)) {
				continue
			}
			if r.learning && random(value) {
				r.LearnValue(s.what, value)
			}
			hit(s.what)
			result.WriteString(text[from:start])
			result.WriteString(Marker)
			from = end
		}
		text = result.String() + text[from:]
	}
	return text
}

var (
	named = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.\-]*)(?:\\*["'])?[ \t]*(?:=>|[=:])[ \t]*`)
	flag  = regexp.MustCompile(`(?:^|\s)--?([A-Za-z][A-Za-z0-9_.\-]*)[ \t]+`)
	tag   = regexp.MustCompile(`<([A-Za-z][A-Za-z0-9_.\-]*)>`)
)

// named takes out what stands behind the name of a secret: name=value, name: value,
// "name":"value", --name value, <name>value</name>.
func (r *Redactor) named(text string, code bool, hit func(what string)) string {
	for _, expression := range []*regexp.Regexp{named, flag, tag} {
		if code && expression != named {
			continue
		}
		var result strings.Builder
		from := 0
		for _, at := range expression.FindAllStringSubmatchIndex(text, -1) {
			name := text[at[2]:at[3]]
			if at[0] < from || !Name(name) {
				continue
			}
			begins := expression == named && beginsLine(text[:at[2]])
			start, end, quoted := valueAt(text, at[1], name, begins && !code)
			value := text[start:end]
			if nothing(value) || (expression == flag && value[0] == '-') || (code && !quoted && !plainly(name)) {
				continue
			}
			r.learnNamed(name, value, begins)
			hit(name)
			result.WriteString(text[from:start])
			result.WriteString(Marker)
			from = end
		}
		text = result.String() + text[from:]
	}
	return text
}

// learnNamed learns the value of a name in free text where it is no word of the text: in a list of
// properties, or where it looks random.
func (r *Redactor) learnNamed(name, value string, beginsLine bool) {
	if r.learning && ((beginsLine && strings.Contains(name, ".")) || random(value)) {
		r.LearnValue(name, value)
	}
}

// plainly says whether a name is one of a password or secret and of nothing in a program.
func plainly(name string) bool {
	for _, part := range anywhere {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}

// beginsLine says whether nothing but white space and dashes is between the last line end
// and here.
func beginsLine(before string) bool {
	return strings.TrimLeft(before[strings.LastIndexByte(before, '\n')+1:], " \t-") == ""
}

// valueAt finds the value that begins at a place: in quotes, or up to what ends it. Where its
// name begins the line, all of the line is its value.
func valueAt(text string, at int, name string, line bool) (from, to int, quoted bool) {
	rest := text[at:]
	if end := strings.IndexByte(rest, '\n'); end >= 0 {
		rest = rest[:end]
	}
	rest = strings.TrimRight(rest, "\r")
	words := strings.Join(wordsOf(name), " ")
	slashes := len(rest) - len(strings.TrimLeft(rest, `\`))
	switch {
	case slashes < len(rest) && (rest[slashes] == '"' || rest[slashes] == '\''):
		opening := rest[:slashes+1]
		start := len(opening)
		return at + start, at + start + closing(rest[start:], opening), true
	case strings.HasSuffix(words, "jaas config"):
		return at, at + endOfJAAS(rest, line), false
	case strings.HasSuffix(words, "authorization") || strings.HasSuffix(words, "bearer"):
		start := 0
		if kept := scheme.FindStringIndex(rest); kept != nil {
			start = kept[1]
		}
		return at + start, at + start + endOfWord(rest[start:]), false
	case line || strings.HasSuffix(words, "cookie"):
		return at, at + len(strings.TrimRight(rest, " \t")), false
	}
	return at, at + endOfWord(rest), false
}

// closing gives where a quoted text ends, which begins with opening.
func closing(text, opening string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], opening)
		if i < 0 {
			return len(text)
		}
		i += at
		before := text[:i]
		if escapes := len(before) - len(strings.TrimRight(before, `\`)); escapes%2 == 0 {
			return i
		}
		at = i + 1
	}
}

// endOfWord gives where a value without quotes ends.
func endOfWord(text string) int {
	skip := 0
	if strings.HasPrefix(text, Marker) {
		skip = len(Marker)
	}
	if strings.HasPrefix(text, "[hidden]") {
		return len("[hidden]")
	}
	if i := strings.IndexAny(text[skip:], " \t,;&\"'<>)]}\\"); i >= 0 {
		return skip + i
	}
	return len(text)
}

// endOfJAAS gives where the configuration of login modules ends: with the last semicolon
// that closes one.
func endOfJAAS(text string, line bool) int {
	if line {
		return len(strings.TrimRight(text, " \t"))
	}
	quote := byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == ';':
			return i
		}
	}
	return len(text)
}
