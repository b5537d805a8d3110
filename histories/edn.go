// This file holds a scanner of EDN: it knows just enough of the notation to pass
// over any form, and to read integers, strings, keywords, vectors and maps. It
// holds one top-level form in memory at a time.

package histories

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

const (
	ednBuffer = 1 << 20
	// excerptSize is how much of a wrong form an error quotes.
	excerptSize = 20
	// maxMessage bounds the text of an :error that is kept.
	maxMessage = 1 << 10
)

// Classes of bytes in EDN.
const (
	ednToken byte = iota // part of a number, symbol or keyword
	ednSpace
	ednOpen
	ednClose
	ednString
	ednComment
	ednCharacter // a backslash: a character literal
)

var ednClass = func() (class [256]byte) {
	for _, c := range []byte(" \t\r\n\f\v,") {
		class[c] = ednSpace
	}
	for _, c := range []byte("([{") {
		class[c] = ednOpen
	}
	for _, c := range []byte(")]}") {
		class[c] = ednClose
	}
	class['"'], class[';'], class['\\'] = ednString, ednComment, ednCharacter
	return class
}()

// What ends a scan early: the buffer ends inside of a form, or between forms.
var (
	errMore    = errors.New("the text ends inside of a form")
	errBetween = errors.New("the text ends between two forms")
)

// ednError is a form that is not what it must be, at a place in the buffer.
type ednError struct {
	at   int
	text string
}

func (e *ednError) Error() string { return e.text }

func ednErrorf(at int, format string, args ...any) error {
	return &ednError{at, fmt.Sprintf(format, args...)}
}

// ednScanner reads operations from EDN.
type ednScanner struct {
	name string
	in   io.Reader
	// buf[at:] is what has not been taken yet; buf[0] is byte base of the text.
	buf  []byte
	at   int
	base int64
	line int64 // of buf[at]
	end  error // of in

	inVector, closed bool
	from             int   // where the operation that tryNext read begins in buf
	operationAt      int64 // and in the text
	lastLine         int64 // of the last whole operation
	lastByte         int64 // where it ends

	keys  map[string]string // texts of keys by their notation
	stack []byte            // open collections of a form that is skipped
}

func newEDNScanner(name string, in io.Reader) *ednScanner {
	return &ednScanner{name: name, in: in, line: 1, keys: map[string]string{}, buf: make([]byte, 0, ednBuffer)}
}

// nearEnd: what an error quotes may go on beyond the buffer.
func (s *ednScanner) nearEnd(err error) bool {
	var wrong *ednError
	return errors.As(err, &wrong) && wrong.at+excerptSize > len(s.buf)
}

// take goes on to place in the buffer.
func (s *ednScanner) take(place int) {
	s.line += int64(bytes.Count(s.buf[s.at:place], []byte{'\n'}))
	s.at = place
}

// fill reads more of the file, keeping what has not been taken.
func (s *ednScanner) fill() error {
	if s.at > 0 {
		s.base += int64(s.at)
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at = 0
	}
	if len(s.buf) > cap(s.buf)/2 {
		if len(s.buf) > maxLine {
			return &LineError{s.name, s.line, s.base, fmt.Errorf("an operation longer than %d bytes", int64(maxLine))}
		}
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), s.buf...)
	}
	for {
		n, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf, s.end = s.buf[:len(s.buf)+n], err
		if n > 0 || err != nil {
			return nil //nolint:nilerr // it is kept in s.end, for when the buffer is used up
		}
	}
}

func (s *ednScanner) cut() error {
	reason := "the file ends inside of an operation"
	if errors.Is(s.end, errCut) {
		reason = s.end.Error()
	}
	return &CutError{Name: s.name, Line: s.lastLine, Byte: s.lastByte, Reason: reason}
}

// finish is the end of the text between two operations.
func (s *ednScanner) finish() error {
	switch {
	case !errors.Is(s.end, io.EOF) && !errors.Is(s.end, errCut):
		return fmt.Errorf("reading history %s after line %d: %w", s.name, s.lastLine, s.end)
	case !errors.Is(s.end, io.EOF):
		return s.cut()
	case s.inVector && !s.closed:
		return &CutError{Name: s.name, Line: s.lastLine, Byte: s.lastByte,
			Reason: "the vector of operations that the file begins with is not closed"}
	}
	return io.EOF
}

// locate gives an error its line.
func (s *ednScanner) locate(err error) error {
	place := s.at
	var at *ednError
	if errors.As(err, &at) {
		place = min(at.at, len(s.buf))
	}
	line := s.line + int64(bytes.Count(s.buf[s.at:place], []byte{'\n'}))
	return &LineError{s.name, line, s.base + int64(place), err}
}

func (s *ednScanner) excerpt(i int) string {
	return validText(s.buf[i:min(i+excerptSize, len(s.buf))])
}

// space goes over white space, comments and discarded forms to the next byte.
func (s *ednScanner) space(i int) (int, error) {
	for i < len(s.buf) && ednClass[s.buf[i]] == ednSpace {
		i++
	}
	if i < len(s.buf) && s.buf[i] != ';' && s.buf[i] != '#' {
		return i, nil
	}
	return s.beyondSpace(i)
}

func (s *ednScanner) beyondSpace(i int) (int, error) {
	for i < len(s.buf) {
		c := s.buf[i]
		switch {
		case ednClass[c] == ednSpace:
			i++
		case c == ';':
			end := bytes.IndexByte(s.buf[i:], '\n')
			if end < 0 {
				return 0, errBetween
			}
			i += end + 1
		case c == '#' && i+1 >= len(s.buf):
			return 0, errMore
		case c == '#' && s.buf[i+1] == '_':
			end, err := s.skip(i + 2)
			if err != nil {
				return 0, err
			}
			i = end
		default:
			return i, nil
		}
	}
	return 0, errBetween
}

// skip goes over a form and gives the place after it.
func (s *ednScanner) skip(i int) (int, error) { //nolint:gocyclo // one switch over the kinds of forms
	for forms := 1; forms > 0; {
		if i >= len(s.buf) {
			return 0, errMore
		}
		c := s.buf[i]
		var err error
		switch class := ednClass[c]; {
		case class == ednSpace:
			i++
			continue
		case class == ednComment:
			if i, err = s.space(i); err != nil {
				return 0, errMore
			}
			continue
		case c == '#' && i+1 >= len(s.buf):
			return 0, errMore
		case c == '#' && s.buf[i+1] == '_':
			i += 2
			forms++
			continue
		case c == '#' && s.buf[i+1] != '{' && s.buf[i+1] != '#':
			// A tag: the form that it tags follows.
			if i, err = s.token(i + 1); err != nil {
				return 0, err
			}
			continue
		case c == '#' && s.buf[i+1] == '{':
			i, err = s.collection(i + 1)
		case class == ednOpen:
			i, err = s.collection(i)
		case class == ednString:
			i, err = s.text(i)
		case class == ednCharacter:
			i, err = s.token(i + 2)
		case class == ednClose:
			err = ednErrorf(i, "a form is missing before %q", c)
		default:
			i, err = s.token(i)
		}
		if err != nil {
			return 0, err
		}
		forms--
	}
	return i, nil
}

// token goes to the end of a number, symbol or keyword. One that the buffer ends
// after may go on: no operation ends with one.
func (s *ednScanner) token(i int) (int, error) {
	for ; i < len(s.buf); i++ {
		if ednClass[s.buf[i]] != ednToken {
			return i, nil
		}
	}
	return 0, errMore
}

// text goes over a string.
func (s *ednScanner) text(i int) (int, error) {
	for i++; i < len(s.buf); i++ {
		switch s.buf[i] {
		case '"':
			return i + 1, nil
		case '\\':
			i++
		}
	}
	return 0, errMore
}

// collection goes over a list, vector, map or set.
func (s *ednScanner) collection(i int) (int, error) {
	s.stack = s.stack[:0]
	for i < len(s.buf) {
		c := s.buf[i]
		switch ednClass[c] {
		case ednOpen:
			s.stack = append(s.stack, closing(c))
		case ednClose:
			if last := len(s.stack) - 1; s.stack[last] != c {
				return 0, ednErrorf(i, "%q where %q is due", c, s.stack[last])
			}
			s.stack = s.stack[:len(s.stack)-1]
			if len(s.stack) == 0 {
				return i + 1, nil
			}
		case ednString:
			end, err := s.text(i)
			if err != nil {
				return 0, err
			}
			i = end
			continue
		case ednComment:
			end := bytes.IndexByte(s.buf[i:], '\n')
			if end < 0 {
				return 0, errMore
			}
			i += end
		case ednCharacter:
			i++
		}
		i++
	}
	return 0, errMore
}

func closing(open byte) byte {
	switch open {
	case '(':
		return ')'
	case '[':
		return ']'
	}
	return '}'
}

// untag goes over the tags before a form.
func (s *ednScanner) untag(i int) (int, error) {
	for {
		at, err := s.space(i)
		if err != nil {
			return 0, err
		}
		if s.buf[at] != '#' || at+1 < len(s.buf) && (s.buf[at+1] == '{' || s.buf[at+1] == '#') {
			return at, nil
		}
		if i, err = s.token(at + 1); err != nil {
			return 0, err
		}
	}
}

// elements calls f at every element of the vector or list at i; f gives where
// the element ends. False: what is there is nil.
func (s *ednScanner) elements(i int, what string, f func(int) (int, error)) (end int, given bool, err error) {
	if i, err = s.untag(i); err != nil {
		return 0, false, err
	}
	if end, err := s.null(i); end > 0 || err != nil {
		return end, false, err
	}
	if c := s.buf[i]; c != '[' && c != '(' {
		return 0, false, ednErrorf(i, "want %s, found %q", what, s.excerpt(i))
	}
	for i++; ; {
		if i, err = s.space(i); err != nil {
			return 0, false, err
		}
		if ednClass[s.buf[i]] == ednClose {
			return i + 1, true, nil
		}
		if i, err = f(i); err != nil {
			return 0, false, err
		}
	}
}

// null gives where nil ends, 0 where something else is.
func (s *ednScanner) null(i int) (end int, err error) {
	if s.buf[i] != 'n' {
		return 0, nil
	}
	if end, err = s.token(i); err != nil || string(s.buf[i:end]) != "nil" {
		return 0, err
	}
	return end, nil
}

// entries calls f at every key and value of the map at i; f gives where the
// value ends.
func (s *ednScanner) entries(i int, f func(key, value int) (int, error)) (end int, err error) {
	for i++; ; {
		if i, err = s.space(i); err != nil {
			return 0, err
		}
		if s.buf[i] == '}' {
			return i + 1, nil
		}
		key := i
		if i, err = s.skip(i); err != nil {
			return 0, err
		}
		if i, err = s.space(i); err != nil {
			return 0, err
		}
		if s.buf[i] == '}' {
			return 0, ednErrorf(i, "%s has no value", s.buf[key:i])
		}
		if i, err = f(key, i); err != nil {
			return 0, err
		}
	}
}

// appendScalar appends the text of a key or value: an integer as its digits, a
// keyword with its colon, a string as it is, or quoted where it would look like
// one of the others or hold a slash. So different values have different texts.
func (s *ednScanner) appendScalar(text []byte, i int) (appended []byte, end int, err error) {
	c := s.buf[i]
	if c == '"' {
		if end, err = s.text(i); err != nil {
			return text, 0, err
		}
		value, err := unquote(s.buf[i+1 : end-1])
		if err != nil {
			return text, 0, ednErrorf(i, "%v", err)
		}
		return appendScalarText(text, value), end, nil
	}
	if end, err = s.token(i); err != nil {
		return text, 0, err
	}
	token := s.buf[i:end]
	switch {
	case c == ':' && len(token) > 1:
		return append(text, validText(token)...), end, nil
	case isInteger(token):
		return appendInteger(text, token), end, nil
	}
	return text, 0, ednErrorf(i, "keys and values are integers, strings or keywords, found %q", s.excerpt(i))
}

// appendScalarText appends a text so that it is not taken for another value.
func appendScalarText(text []byte, value string) []byte {
	if value == "" || value[0] == ':' || value[0] == '"' || bytes.IndexByte([]byte(value), '/') >= 0 ||
		isInteger([]byte(value)) {
		return strconv.AppendQuote(text, value)
	}
	return append(text, value...)
}

// isInteger: digits, a sign before and an N (arbitrary precision) after allowed.
func isInteger(token []byte) bool {
	if len(token) > 1 && (token[0] == '-' || token[0] == '+') {
		token = token[1:]
	}
	if len(token) > 1 && token[len(token)-1] == 'N' {
		token = token[:len(token)-1]
	}
	for _, c := range token {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(token) > 0
}

// appendInteger appends an integer without what does not change it.
func appendInteger(text, token []byte) []byte {
	if token[0] == '+' {
		token = token[1:]
	}
	return append(text, bytes.TrimSuffix(token, []byte("N"))...)
}

// ednInteger reads an integer of 64 bits.
func ednInteger(token []byte, at int) (int64, error) {
	if !isInteger(token) {
		return 0, ednErrorf(at, "want an integer, found %q", validText(token[:min(len(token), 40)]))
	}
	digits := bytes.TrimSuffix(token, []byte("N"))
	negative := digits[0] == '-'
	if negative || digits[0] == '+' {
		digits = digits[1:]
	}
	value := uint64(0)
	for _, c := range digits {
		digit := uint64(c - '0')
		if value > (math.MaxInt64-digit)/10 {
			return 0, ednErrorf(at, "%s does not fit into 64 bits", token[:min(len(token), 40)])
		}
		value = value*10 + digit
	}
	if negative {
		return -int64(value), nil
	}
	return int64(value), nil
}

// unquote gives the text of a string without its quotes.
func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return validText(raw), nil
	}
	text := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			text = append(text, raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'n':
			text = append(text, '\n')
		case 't':
			text = append(text, '\t')
		case 'r':
			text = append(text, '\r')
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case '\\', '"':
			text = append(text, raw[i])
		case 'u':
			if i+4 >= len(raw) {
				return "", errors.New(`a string with a short \u`)
			}
			code, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
			if err != nil {
				return "", fmt.Errorf(`a string with a wrong \u: %w`, err)
			}
			text = utf8.AppendRune(text, rune(code))
			i += 4
		default:
			return "", fmt.Errorf("a string with the unknown escape \\%c", raw[i])
		}
	}
	return validText(text), nil
}
