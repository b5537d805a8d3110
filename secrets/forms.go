// This file holds the forms in which a known value may stand in a text.

package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// formsOf gives a value as it stands in text: itself, and as JSON, URLs, HTML, hexadecimal
// digits and base64 have it.
func formsOf(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), strings.ReplaceAll(url.QueryEscape(value), "+", "%20"),
		allPercent(value), html.EscapeString(value), strings.ReplaceAll(html.EscapeString(value), "&#34;", "&quot;"),
		strings.ReplaceAll(html.EscapeString(value), "&#39;", "&apos;"),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for _, form := range forms[1:5] {
		forms = append(forms, lowerPercent(form))
	}
	forms = append(forms, jsonForms(value)...)
	for shift := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, shifted(encoding, value, shift))
		}
	}
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return len(form) < leastKnown })
}

// shifted gives those characters of the base64 of any text with the value in it that are the
// value's alone, where the value begins shift bytes after a multiple of three.
func shifted(encoding *base64.Encoding, value string, shift int) string {
	text := encoding.EncodeToString([]byte("\x00\x00"[:shift] + value))
	from := (shift*8 + 5) / 6
	to := (shift + len(value)) * 8 / 6
	if from >= to {
		return ""
	}
	return text[from:to]
}

// jsonForms gives a value as JSON strings have it: with and without HTML's characters escaped, and with
// everything beyond ASCII escaped.
func jsonForms(value string) []string {
	escaped, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var plain strings.Builder
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil
	}
	text := strings.TrimSuffix(plain.String(), "\n")
	forms := []string{string(escaped[1 : len(escaped)-1]), text[1 : len(text)-1]}
	var ascii strings.Builder
	for _, r := range forms[1] {
		if r < 0x80 {
			ascii.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, `\u%04x`, unit)
		}
	}
	forms = append(forms, ascii.String())
	for _, form := range forms {
		forms = append(forms, strings.ReplaceAll(form, "/", `\/`))
	}
	return forms
}

// allPercent escapes every byte that is neither letter nor digit.
func allPercent(value string) string {
	var text strings.Builder
	for _, b := range []byte(value) {
		if (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, "%%%02X", b)
		}
	}
	return text.String()
}

// lowerPercent writes the escapes of a URL in small letters.
func lowerPercent(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}
