// This file holds the codec: the JSON form of a line, by the tables of schema.go.

package histories

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// writeLine writes a line: its kind, then its fields.
func writeLine[T any](w *jx.Writer, kind string, fields []field[T], t *T) {
	w.RawStr(`{"line":"`)
	w.RawStr(kind)
	w.RawStr(`"`)
	for i := range fields {
		if f := &fields[i]; f.required || !f.absent(t) {
			w.RawStr(f.member)
			f.write(w, t)
		}
	}
	w.ObjEnd()
}

// writeObject writes an object inside of a line.
func writeObject[T any](w *jx.Writer, fields []field[T], t *T) {
	w.ObjStart()
	first := true
	for i := range fields {
		f := &fields[i]
		if !f.required && f.absent(t) {
			continue
		}
		member := f.member
		if first {
			member, first = member[1:], false
		}
		w.RawStr(member)
		f.write(w, t)
	}
	w.ObjEnd()
}

// appendHeader appends the JSON form of a header, without its line end.
func appendHeader(w *jx.Writer, h *Header) {
	w.RawStr(fmt.Sprintf(`{"line":"%s","format":"%s","version":"%d.%d"`,
		lineHeader, formatName, FormatMajor, FormatMinor))
	for i := range headerFields {
		if f := &headerFields[i]; !f.absent(h) {
			w.RawStr(f.member)
			f.write(w, h)
		}
	}
	w.ObjEnd()
}

// maxNames bounds the texts that a decoder keeps for reuse, and maxNameLength
// their length.
const (
	maxNames      = 4096
	maxNameLength = 256
)

// decoder reads lines. It is used by one goroutine.
type decoder struct {
	jx    *jx.Decoder
	names map[string]string
	// careful: look at the type of every value before reading it, so that an error
	// says what was found. Otherwise that is left to jx, which is faster.
	careful bool
	// field is the path of the field that is being read, for errors.
	field []string
	// events and eventEnds gather the identities of a list of records.
	events    []byte
	eventEnds []int
	skipped   skipped
}

// skipped counts what a newer format has and this program does not know.
type skipped struct {
	lines, fields int64
	// names holds the first few of them: `line "x"`, `field "y" of send`.
	names []string
}

const maxSkippedNames = 16

func (s *skipped) name(name string) {
	if len(s.names) >= maxSkippedNames {
		return
	}
	for _, known := range s.names {
		if known == name {
			return
		}
	}
	s.names = append(s.names, name)
}

// add counts what another decoder skipped.
func (s *skipped) add(other skipped) {
	s.lines += other.lines
	s.fields += other.fields
	for _, name := range other.names {
		s.name(name)
	}
}

func newDecoder() *decoder {
	return &decoder{jx: jx.DecodeBytes(nil), names: make(map[string]string), careful: true}
}

// decodeFast is decode for lines that are most likely right.
func (d *decoder) decodeFast(raw []byte) (Line, error) {
	before := d.skipped
	d.careful = false
	line, err := d.decode(raw)
	d.careful = true
	if err != nil {
		d.skipped = before
		return d.decode(raw)
	}
	return line, nil
}

// decode reads one line. A line of an unknown kind gives nil and is counted.
func (d *decoder) decode(raw []byte) (Line, error) {
	d.field = d.field[:0]
	kind, err := d.kindOf(raw)
	if err != nil {
		return nil, err
	}
	read, known := readers[kind]
	switch {
	case kind == lineHeader:
		return nil, errors.New("a second header line; a file holds one history")
	case !known:
		if !jx.Valid(raw) {
			return nil, errors.New("not a JSON object")
		}
		d.skipped.lines++
		d.skipped.name(fmt.Sprintf("line %q", kind))
		return nil, nil
	}
	d.field = append(d.field, kind)
	d.jx.ResetBytes(raw)
	line, err := read(d)
	if err == nil {
		err = d.nothingFollows()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.where(), err)
	}
	return line, nil
}

// nothingFollows: after the object there is white space only.
func (d *decoder) nothingFollows() error {
	if d.jx.Next() != jx.Invalid {
		return errors.New("a second JSON value follows on the line; one object a line is expected")
	}
	// Invalid is the end of the line as well as a byte that begins no value.
	if err := d.jx.Skip(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("something follows the JSON object on its line")
	}
	return nil
}

// where names the line's kind and the field that is being read.
func (d *decoder) where() string {
	if len(d.field) == 1 {
		return d.field[0]
	}
	return fmt.Sprintf("%s: field %q", d.field[0], strings.Join(d.field[1:], "."))
}

const linePrefix = `{"line":"`

// kindOf finds a line's kind: at once where the line begins with it.
func (d *decoder) kindOf(raw []byte) (string, error) {
	if len(raw) > len(linePrefix) && string(raw[:len(linePrefix)]) == linePrefix {
		rest := raw[len(linePrefix):]
		for i, c := range rest {
			if c == '"' {
				return d.known(rest[:i]), nil
			}
			if c == '\\' || i > 64 {
				break
			}
		}
	}
	return d.kindAnywhere(raw)
}

func (d *decoder) kindAnywhere(raw []byte) (kind string, err error) {
	d.jx.ResetBytes(raw)
	if d.jx.Next() != jx.Object {
		return "", errors.New("not a JSON object")
	}
	found := false
	err = d.object(func(key []byte) error {
		if string(key) != "line" {
			return d.jx.Skip()
		}
		found = true
		kind, err = d.text(true)
		return err
	})
	if err != nil && !jx.Valid(raw) {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	if err == nil && !found {
		err = errors.New(`no field "line", which says what a line is`)
	}
	return kind, err
}

// reader builds the function that reads lines of one kind.
func reader[T any, P interface {
	*T
	Line
}](fields []field[T], zero T) func(*decoder) (Line, error) {
	return func(d *decoder) (Line, error) {
		t := zero
		if err := readObject(d, fields, &t); err != nil {
			return nil, err
		}
		return P(&t), nil
	}
}

// readObject reads an object's fields into t. Unknown ones are skipped and
// counted; one that is there twice or is missing though required is an error.
func readObject[T any](d *decoder, fields []field[T], t *T) error {
	if err := d.want(jx.Object, "an object"); err != nil {
		return err
	}
	var seen uint64
	next := 0
	depth := len(d.field)
	err := d.object(func(key []byte) error {
		if depth == 1 && string(key) == "line" {
			return d.jx.Skip()
		}
		i := findField(fields, key, next)
		if i < 0 {
			return d.skipField(key, depth)
		}
		d.field = append(d.field[:depth], fields[i].name)
		if seen&(1<<i) != 0 {
			return errors.New("is there twice")
		}
		seen |= 1 << i
		next = i + 1
		if err := fields[i].read(d, t); err != nil {
			return err
		}
		d.field = d.field[:depth+1]
		return nil
	})
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i].required && seen&(1<<i) == 0 {
			d.field = append(d.field[:depth], fields[i].name)
			return errors.New("is missing")
		}
	}
	return nil
}

// findField finds a field by its name, first where the written order has it.
func findField[T any](fields []field[T], key []byte, next int) int {
	for i := next; i < len(fields); i++ {
		if fields[i].name == string(key) {
			return i
		}
	}
	for i := range min(next, len(fields)) {
		if fields[i].name == string(key) {
			return i
		}
	}
	return -1
}

func (d *decoder) skipField(key []byte, depth int) error {
	d.field = d.field[:depth]
	isHeader := depth == 1 && d.field[0] == lineHeader && (string(key) == "format" || string(key) == "version")
	if !isHeader {
		d.skipped.fields++
		d.skipped.name(fmt.Sprintf("field %q of %s", validText(key), strings.Join(d.field, ".")))
	}
	return d.jx.Skip()
}

// object calls f with every key of an object; f reads the value.
func (d *decoder) object(f func(key []byte) error) error {
	members, err := d.jx.ObjIter()
	if err != nil {
		return err
	}
	for members.Next() {
		if err := f(members.Key()); err != nil {
			return err
		}
	}
	return members.Err()
}

// array calls f for every element of an array; f reads it.
func (d *decoder) array(f func() error) error {
	if err := d.want(jx.Array, "an array"); err != nil {
		return err
	}
	elements, err := d.jx.ArrIter()
	if err != nil {
		return err
	}
	for elements.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return elements.Err()
}

// want checks the type of the value that is next.
func (d *decoder) want(want jx.Type, words string) error {
	if !d.careful {
		return nil
	}
	if got := d.jx.Next(); got != want {
		if got == jx.Invalid {
			return errors.New("want " + words + ", found no JSON value")
		}
		return fmt.Errorf("want %s, found a JSON %s", words, got)
	}
	return nil
}

// readInteger reads a whole number that fits into V.
func readInteger[V int16 | int32 | int64](d *decoder, v *V) error {
	if err := d.want(jx.Number, "a whole number"); err != nil {
		return err
	}
	wide, err := d.jx.Int64()
	if err != nil {
		return fmt.Errorf("want a whole number of 64 bits: %w", err)
	}
	*v = V(wide)
	if int64(*v) != wide {
		return fmt.Errorf("%d is too large for this field", wide)
	}
	return nil
}

// text reads a text; one that is known to come again is kept once.
func (d *decoder) text(known bool) (string, error) {
	if err := d.want(jx.String, "a text"); err != nil {
		return "", err
	}
	raw, err := d.jx.StrBytes()
	if err != nil {
		return "", err
	}
	if known {
		return d.known(raw), nil
	}
	return validText(raw), nil
}

// known gives the text of raw, the same string for the same text.
func (d *decoder) known(raw []byte) string {
	if s, kept := d.names[string(raw)]; kept {
		return s
	}
	s := validText(raw)
	if len(d.names) < maxNames && len(raw) <= maxNameLength {
		d.names[string(raw)] = s
	}
	return s
}

// event reads the identity of a record into d.events: a text, or null.
func (d *decoder) event() error {
	if d.jx.Next() == jx.Null {
		d.eventEnds = append(d.eventEnds, len(d.events))
		return d.jx.Null()
	}
	if err := d.want(jx.String, "a text or null"); err != nil {
		return err
	}
	start := len(d.events)
	all, err := d.jx.StrAppend(d.events)
	if err != nil {
		return err
	}
	if !utf8.Valid(all[start:]) {
		all = append(all[:start], validText(all[start:])...)
	}
	d.events = all
	d.eventEnds = append(d.eventEnds, len(all))
	return nil
}

// validText gives raw as a text; bytes that are no UTF-8 become U+FFFD.
func validText(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}
