// This file holds the lines that Apache Kafka's VerifiableProducer and
// VerifiableConsumer print: what each says, and the reader of a file of them.

package histories

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-faster/jx"
)

// verifiableRole is whose lines a file holds.
type verifiableRole byte

const (
	roleUnknown verifiableRole = iota // only lines that both print
	roleProducer
	roleConsumer
	roleShareConsumer
)

func (r verifiableRole) String() string {
	return [...]string{"client", "VerifiableProducer", "VerifiableConsumer", "VerifiableShareConsumer"}[r]
}

// The names of the lines.
const (
	nameStartup    = "startup_complete"
	nameShutdown   = "shutdown_complete"
	nameSuccess    = "producer_send_success"
	nameError      = "producer_send_error"
	nameToolData   = "tool_data"
	nameAssigned   = "partitions_assigned"
	nameRevoked    = "partitions_revoked"
	nameConsumed   = "records_consumed"
	nameRecord     = "record_data"
	nameCommitted  = "offsets_committed"
	nameStopping   = "shutdown_requested"
	nameShareReset = "offset_reset_strategy_set"
	nameShareAcks  = "offsets_acknowledged"
)

var verifiableNames = map[string]verifiableRole{
	nameStartup: roleUnknown, nameShutdown: roleUnknown,
	nameSuccess: roleProducer, nameError: roleProducer, nameToolData: roleProducer,
	nameAssigned: roleConsumer, nameRevoked: roleConsumer, nameConsumed: roleConsumer, nameRecord: roleConsumer,
	nameCommitted: roleConsumer, nameStopping: roleConsumer,
	nameShareReset: roleShareConsumer, nameShareAcks: roleShareConsumer,
}

// verifiableLine is one line of the protocol. Fields that it lacks, or that have
// another type than the protocol says, are empty or Unknown. Reading the next line
// overwrites it.
type verifiableLine struct {
	name       string
	timestamp  int64 // milliseconds since 1970
	topic      string
	key, value optionalText
	partition  int64
	offset     int64
	exception  string
	message    string
	sent       int64 // of tool_data
	count      int64 // of records_consumed
	partitions []verifiablePart
	listed     bool // partitions is there
	badPart    bool // one of them lacks something
	failed     bool // success is false
	failure    string
}

// optionalText is a text that may be null.
type optionalText struct {
	text  string
	given bool
}

// verifiablePart is a partition of a list, with the count of its records.
type verifiablePart struct {
	Partition
	count int64
}

func (v *verifiableLine) reset() {
	*v = verifiableLine{timestamp: Unknown, partition: Unknown, offset: Unknown, sent: Unknown, count: Unknown,
		partitions: v.partitions[:0]}
}

// maxTimestamp is the latest time, in milliseconds since 1970, that is believed:
// nanoseconds must fit as well. It is in the year 2248.
const maxTimestamp = 1 << 43

var errNoProtocolLine = errors.New("no object of the protocol")

// read reads a line. An error says that it is no JSON object alone on its line, or
// one without a name.
func (v *verifiableLine) read(d *decoder, text []byte) error {
	v.reset()
	d.jx.ResetBytes(text)
	if d.jx.Next() != jx.Object {
		return errNoProtocolLine
	}
	err := d.object(func(key []byte) error { return v.field(d, string(key)) })
	if err == nil {
		err = d.nothingFollows()
	}
	if err == nil && v.name == "" {
		err = errNoProtocolLine
	}
	return err
}

func (v *verifiableLine) field(d *decoder, key string) (err error) {
	var text optionalText
	switch key {
	case "name", "topic", "exception", "key":
		text, err = readOptional(d, true)
	case "value", "message", "error":
		text, err = readOptional(d, false)
	}
	switch key {
	case "name":
		v.name = text.text
	case "topic":
		v.topic = text.text
	case "key":
		v.key = text
	case "value":
		v.value = text
	case "exception":
		v.exception = text.text
	case "message":
		v.message = text.text
	case "error":
		v.failure = text.text
	case "timestamp":
		if v.timestamp, err = readNumber(d); v.timestamp > maxTimestamp {
			v.timestamp = Unknown
		}
	case "partition":
		v.partition, err = readNumber(d)
	case "offset":
		v.offset, err = readNumber(d)
	case "sent":
		v.sent, err = readNumber(d)
	case "count":
		v.count, err = readNumber(d)
	case "success":
		err = v.readSuccess(d)
	case "partitions":
		err = v.readPartitions(d)
	default:
		err = d.jx.Skip()
	}
	return err
}

// readOptional reads a text; a number is taken as its digits, since other programs
// that print this protocol do so, and anything else as null.
func readOptional(d *decoder, known bool) (optionalText, error) {
	switch d.jx.Next() { //nolint:exhaustive // everything else is null
	case jx.String:
		text, err := d.text(known)
		return optionalText{text, true}, err
	case jx.Number:
		raw, err := d.jx.Raw()
		return optionalText{string(raw), true}, err
	}
	return optionalText{}, d.jx.Skip()
}

// readNumber reads a whole number of at least zero; anything else is Unknown.
func readNumber(d *decoder) (int64, error) {
	if d.jx.Next() != jx.Number {
		return Unknown, d.jx.Skip()
	}
	raw, err := d.jx.Raw()
	if err != nil {
		return Unknown, err
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	return Unknown, nil
}

func (v *verifiableLine) readSuccess(d *decoder) error {
	if d.jx.Next() != jx.Bool {
		return d.jx.Skip()
	}
	success, err := d.jx.Bool()
	v.failed = !success
	return err
}

func (v *verifiableLine) readPartitions(d *decoder) error {
	if d.jx.Next() != jx.Array {
		return d.jx.Skip()
	}
	v.listed = true
	return d.array(func() error {
		if d.jx.Next() != jx.Object {
			v.badPart = true
			return d.jx.Skip()
		}
		part, number := verifiablePart{count: Unknown}, int64(Unknown)
		err := d.object(func(key []byte) (err error) {
			switch string(key) {
			case "topic":
				var topic optionalText
				topic, err = readOptional(d, true)
				part.Topic = topic.text
			case "partition":
				number, err = readNumber(d)
			case "count":
				part.count, err = readNumber(d)
			default:
				err = d.jx.Skip()
			}
			return err
		})
		if part.Topic == "" || number < 0 || number > math.MaxInt32 {
			v.badPart = true
			return err
		}
		part.Partition.Partition = int32(number)
		v.partitions = append(v.partitions, part)
		return err
	})
}

// usable: the line has what its name promises.
func (v *verifiableLine) usable() bool {
	switch v.name {
	case nameSuccess, nameError:
		return v.topic != "" && v.value.given && v.partition <= math.MaxInt32
	case nameToolData:
		return v.sent >= 0
	case nameRecord:
		return v.topic != "" && v.partition >= 0 && v.partition <= math.MaxInt32 && v.offset >= 0
	case nameAssigned, nameRevoked:
		return v.listed && !v.badPart
	case nameConsumed:
		return (v.listed || v.count >= 0) && !v.badPart
	}
	return true
}

// splitVerifiable splits a value that a VerifiableProducer numbers, "17" or
// "prefix.17", before its number. Numbers are as the program prints them: without
// sign and leading zeros.
func splitVerifiable(value string) (prefix string, number int64, ok bool) {
	at := strings.LastIndexByte(value, '.') + 1
	digits := value[at:]
	if len(digits) == 0 || len(digits) > 18 || (digits[0] == '0' && len(digits) > 1) {
		return "", 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return "", 0, false
		}
		number = number*10 + int64(c-'0')
	}
	return value[:at], number, true
}

// looksVerifiable: a text whose beginning this is holds lines of the protocol.
// Other lines may come before them.
func looksVerifiable(head []byte) bool {
	d := newDecoder()
	var v verifiableLine
	for line := range bytes.Lines(bytes.TrimPrefix(head, byteOrderMark)) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' || v.read(d, line) != nil {
			continue
		}
		if _, known := verifiableNames[v.name]; known {
			return true
		}
	}
	return false
}

// What can be wrong with a line, for the notes.
const (
	flawStray   = "lines that are no lines of the protocol (other text that was printed)"
	flawLong    = "lines that are too long for the protocol"
	flawName    = "lines whose name this program does not know"
	flawField   = "lines of the protocol with a field that is missing or wrong"
	flawCutLine = "last lines that are cut"
)

// maxVerifiableLine is the longest line that is read: the protocol's longest lists
// the partitions of one poll.
const maxVerifiableLine = 4 << 20

// verifiableText reads a file of the protocol, line by line.
type verifiableText struct {
	name  string
	in    *bufio.Reader
	close func()
	d     *decoder

	verifiableLine
	number   int64 // of the line that was read
	at, next int64 // where it and the one after it begin
	flaw     string
	line     []byte
	cut      *CutError // where the text ends before its last line does
	err      error     // that ended the reading
}

func (f *File) verifiableText() (*verifiableText, error) {
	in, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("reading history: %w", err)
	}
	t := &verifiableText{name: f.name, d: newDecoder(), close: func() { _ = in.Close() }} // it was only read
	text := io.Reader(in)
	if f.compressed {
		frames, err := newZstdText(in)
		if err != nil {
			t.close()
			return nil, fmt.Errorf("reading history %s: %w", f.name, err)
		}
		closeFile := t.close
		t.close = func() { frames.close(); closeFile() }
		text = frames
	}
	t.in = bufio.NewReaderSize(text, sniffSize)
	return t, nil
}

// more reads the next line that is not blank. False: there is none, or there was an
// error.
func (t *verifiableText) more(ctx context.Context) bool {
	for t.err == nil && t.cut == nil {
		if t.number%1024 == 0 && ctx.Err() != nil {
			t.err = fmt.Errorf("reading history %s: %w", t.name, ctx.Err())
			return false
		}
		long, err := t.readLine()
		if len(t.line) == 0 && errors.Is(err, io.EOF) {
			return false
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errCut) {
			t.err = fmt.Errorf("reading history %s after line %d: %w", t.name, t.number, err)
			return false
		}
		t.number++
		line := bytes.TrimSpace(t.line)
		if t.at == 0 {
			line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
		}
		t.judge(line, long, err)
		if len(line) > 0 || t.cut != nil {
			return true
		}
	}
	return false
}

// readLine reads a line with its end, and no more of it than the protocol's longest
// has.
func (t *verifiableText) readLine() (long bool, err error) {
	t.at, t.line = t.next, t.line[:0]
	for {
		part, err := t.in.ReadSlice('\n')
		t.next += int64(len(part))
		if len(t.line)+len(part) <= maxVerifiableLine {
			t.line = append(t.line, part...)
		} else {
			long = true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return long, err
		}
	}
}

// judge says what is wrong with a line; ended is nil where it has its end.
func (t *verifiableText) judge(line []byte, long bool, ended error) {
	t.flaw = ""
	err := t.read(t.d, line)
	_, known := verifiableNames[t.verifiableLine.name]
	switch {
	case errors.Is(ended, errCut), ended != nil && err != nil && len(line) > 0:
		t.flaw = flawCutLine
		reason := errBegunLine
		if errors.Is(ended, errCut) {
			reason = errCut
		}
		t.cut = &CutError{Name: t.name, Line: t.number - 1, Byte: t.at, Reason: reason.Error()}
	case long:
		t.flaw = flawLong
	case err != nil:
		t.flaw = flawStray
	case !known:
		t.flaw = flawName
	case !t.usable():
		t.flaw = flawField
	}
}

// locate gives an error the place of the line that was read.
func (t *verifiableText) locate(err error) error {
	return &LineError{Name: t.name, Line: t.number, Byte: t.at, Err: err}
}
