// This file holds numbered events and how one lies in a Kafka record: a payload
// that can be verified by anyone who knows the run and its seed, and a stamp that
// names the event and the send that carried it.

package clients

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// StampHeader is the key of the record header that names the event.
const StampHeader = "ackproof"

// traceHeader is the key of a second, ordinary header: headers are a part of what
// a broker must keep, so one that means nothing to us is verified too.
const traceHeader = "trace-id"

// What of a record can differ from what was sent, as histories.Record.Corrupt
// says it.
const (
	CorruptIdentity = "identity" // the stamp is ours and was damaged
	CorruptKey      = "key"
	CorruptValue    = "value"
	CorruptHeaders  = "headers"
	CorruptChecksum = "checksum"
)

// Event is the identity of an event within its run. Numbers run from 0 for each
// origin and key. An empty key stands for a record without a key.
type Event struct {
	Origin string
	Key    string
	Number int64
}

// String gives the identity in its text form "origin/key/number". Bytes of origin
// and key that are not printable US-ASCII, or are one of "%", "/" and space, are
// escaped as "%2F"; so equal texts are equal identities and no others.
func (e Event) String() string { return string(e.append(nil)) }

func (e Event) append(to []byte) []byte {
	to = append(appendEscaped(to, e.Origin), '/')
	to = append(appendEscaped(to, e.Key), '/')
	return strconv.AppendInt(to, e.Number, 10)
}

// ParseEvent reads the text form of an identity. It accepts only what String
// gives.
func ParseEvent(text string) (Event, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Event{}, fmt.Errorf("reading event %q: want origin/key/number", text)
	}
	origin, good := unescape(parts[0])
	key, alsoGood := unescape(parts[1])
	number, err := strconv.ParseInt(parts[2], 10, 64)
	e := Event{Origin: origin, Key: key, Number: number}
	if !good || !alsoGood || err != nil || number < 0 || origin == "" || e.String() != text {
		return Event{}, fmt.Errorf("reading event %q: not the canonical form of origin/key/number", text)
	}
	return e, nil
}

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool { return c > ' ' && c < 0x7F && c != '%' && c != '/' }

func appendEscaped(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; plain(c) {
			to = append(to, c)
		} else {
			to = append(to, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return to
}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, good := unhex(s[i+1], s[i+2])
		if !good {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), true
}

func unhex(high, low byte) (byte, bool) {
	h, l := strings.IndexByte(hexDigits, high), strings.IndexByte(hexDigits, low)
	if h < 0 || l < 0 {
		return 0, false
	}
	return byte(h<<4 | l), true
}

// escapedIs says whether an escaped text stands for key, without building it.
func escapedIs(escaped, key []byte) bool {
	n := 0
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if c == '%' {
			if i+2 >= len(escaped) {
				return false
			}
			var good bool
			if c, good = unhex(escaped[i+1], escaped[i+2]); !good {
				return false
			}
			i += 2
		}
		if n >= len(key) || key[n] != c {
			return false
		}
		n++
	}
	return n == len(key)
}

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// Payload is what a Kafka record carries. A nil Key is Kafka's null key.
type Payload struct {
	Key     []byte
	Value   []byte
	Headers []Header
}

// Events makes and verifies the records of one run. It is immutable and may be
// used concurrently.
type Events struct {
	run  string // escaped
	seed uint64
}

// NewEvents gives the events of a run. Whoever knows run and seed can verify every
// record of it.
func NewEvents(run string, seed int64) (*Events, error) {
	if run == "" {
		return nil, errors.New("making events: the run has no name")
	}
	return &Events{run: string(appendEscaped(nil, run)), seed: uint64(seed)}, nil
}

// Payload gives the record of an event as one send carries it: operation is the
// number of that send among those of process. The value has size bytes: text that
// compresses about as well as JSON does, derived from the event and the seed.
func (v *Events) Payload(e Event, process string, operation int64, size int) Payload {
	const numbers = 96 // room for the numbers and spaces of a stamp; only a guess, as names may need escapes
	b := make([]byte, 0, len(v.run)+len(e.Origin)+2*len(e.Key)+len(process)+size+traceLength+numbers)
	cut := func(from int) []byte { return b[from:len(b):len(b)] }

	var key []byte
	if e.Key != "" {
		b = append(b, e.Key...)
		key = cut(0)
	}
	from := len(b)
	var text [128]byte
	identity := e.append(text[:0])
	state := v.state(identity)
	b = appendFiller(b, size, state)
	value := cut(from)
	from = len(b)
	b = appendTrace(b, state)
	trace := cut(from)
	from = len(b)
	b = append(append(b, stampVersion+" "...), v.run...)
	b = append(append(b, ' '), identity...)
	b = appendEscaped(append(b, ' '), process)
	b = strconv.AppendInt(append(b, ' '), operation, 10)
	b = strconv.AppendInt(append(b, ' '), int64(size), 10)
	b = append(appendChecksum(append(b, ' '), checksum(key, value, trace)), ' ')
	b = appendChecksum(b, crc32.Checksum(b[from:], castagnoli))
	return Payload{Key: key, Value: value, Headers: []Header{{StampHeader, cut(from)}, {traceHeader, trace}}}
}

// stampVersion is the first word of a stamp. Another one belongs to somebody else.
const stampVersion = "1"

// Stamp is what a record's stamp says. Its bytes are those of the header value
// that it was read from.
type Stamp struct {
	// Run, Event and Process are in their escaped text forms.
	Run, Event, Process []byte
	// Operation is the number of the send among those of Process.
	Operation int64
	// Length of the value in bytes, and the checksum (CRC-32C) over key, value and
	// the other header.
	Length   int64
	Checksum uint32
}

// ParseStamp reads the value of a StampHeader. It gives false for anything that is
// not a whole stamp: the stamp has a checksum of its own. It allocates nothing.
func ParseStamp(header []byte) (Stamp, bool) {
	n := len(header) - checksumLength
	if n < 1 || header[n-1] != ' ' {
		return Stamp{}, false
	}
	own, good := readChecksum(header[n:])
	if !good || own != crc32.Checksum(header[:n], castagnoli) {
		return Stamp{}, false
	}
	var words [7][]byte
	rest := header[:n-1]
	for i := range words {
		var more bool
		words[i], rest, more = bytes.Cut(rest, []byte{' '})
		if more != (i < len(words)-1) || len(words[i]) == 0 {
			return Stamp{}, false
		}
	}
	s := Stamp{Run: words[1], Event: words[2], Process: words[3]}
	var operationGood, lengthGood, checksumGood bool
	s.Operation, operationGood = readNumber(words[4])
	s.Length, lengthGood = readNumber(words[5])
	s.Checksum, checksumGood = readChecksum(words[6])
	return s, string(words[0]) == stampVersion && operationGood && lengthGood && checksumGood
}

// readNumber reads a number in its only form: digits without leading zeros.
func readNumber(word []byte) (int64, bool) {
	if len(word) == 0 || len(word) > 18 || (word[0] == '0' && len(word) > 1) {
		return 0, false
	}
	var n int64
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// Own gives the stamp of a record of this run; false: the stamp is unreadable or
// another run's.
func (v *Events) Own(header []byte) (Stamp, bool) {
	s, good := ParseStamp(header)
	return s, good && string(s.Run) == v.run
}

// Verify reads a record back. Event is empty for a foreign record: one without a
// stamp, or of another run. Corrupt names what differs from what was sent; empty:
// nothing. A stamp that begins as ours does and is damaged gives no event and
// CorruptIdentity. It may be called concurrently, and allocates only the event.
func (v *Events) Verify(p Payload) (event, corrupt string) {
	var stamp []byte
	for i := range p.Headers {
		if p.Headers[i].Key == StampHeader {
			stamp = p.Headers[i].Value
			break
		}
	}
	if stamp == nil {
		return "", ""
	}
	s, good := ParseStamp(stamp)
	if !good {
		if v.beginsAsOurs(stamp) {
			return "", CorruptIdentity
		}
		return "", ""
	}
	if string(s.Run) != v.run {
		return "", ""
	}
	return string(s.Event), v.differs(s, p)
}

func (v *Events) beginsAsOurs(stamp []byte) bool {
	rest, ours := bytes.CutPrefix(stamp, []byte(stampVersion+" "))
	rest, run := bytes.CutPrefix(rest, []byte(v.run))
	return ours && run && len(rest) > 0 && rest[0] == ' '
}

func (v *Events) differs(s Stamp, p Payload) string {
	_, rest, _ := bytes.Cut(s.Event, []byte{'/'})
	key, _, _ := bytes.Cut(rest, []byte{'/'})
	state := v.state(s.Event)
	switch {
	case !escapedIs(key, p.Key) || (len(key) == 0) != (p.Key == nil):
		return CorruptKey
	case int64(len(p.Value)) != s.Length || !isFiller(p.Value, state):
		return CorruptValue
	case len(p.Headers) != 2 || p.Headers[0].Key != StampHeader || p.Headers[1].Key != traceHeader ||
		!isTrace(p.Headers[1].Value, state):
		return CorruptHeaders
	case checksum(p.Key, p.Value, p.Headers[1].Value) != s.Checksum:
		return CorruptChecksum
	}
	return ""
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers all of a record but its stamp, which has a checksum of its own.
func checksum(key, value, trace []byte) uint32 {
	c := crc32.Update(0, castagnoli, key)
	c = crc32.Update(c, castagnoli, value)
	return crc32.Update(c, castagnoli, trace)
}

const checksumLength = 8 // hexadecimal digits

func appendChecksum(to []byte, c uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		to = append(to, hexDigits[c>>shift&15])
	}
	return to
}

func readChecksum(word []byte) (uint32, bool) {
	if len(word) != checksumLength {
		return 0, false
	}
	var c uint32
	for _, digit := range word {
		switch {
		case digit >= '0' && digit <= '9':
			c = c<<4 | uint32(digit-'0')
		case digit >= 'A' && digit <= 'F':
			c = c<<4 | uint32(digit-'A'+10)
		default:
			return 0, false
		}
	}
	return c, true
}
