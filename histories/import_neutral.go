// This file holds the reader of the neutral JSON form of small Jepsen histories:
// {"format":"kafka-log-checker cases v1","cases":[{"name":...,"ops":[...]}...]}, or
// one such case alone.

package histories

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-faster/jx"
)

// neutralFormat is the value of the format field of a file of many cases.
const neutralFormat = "kafka-log-checker cases v1"

// NeutralCase is one case of the neutral JSON form.
type NeutralCase struct {
	Name string
	Note string
	// Ours says how our own answer relates to the expected one: follow, differ or
	// later; OursWhy says why.
	Ours    string
	OursWhy string
	// Expected is the member "expected".
	Expected json.RawMessage
	// Members are all members of the case except its operations, by name.
	Members map[string]json.RawMessage
	// History is the case's history.
	History *Memory
}

// OpenNeutralCases reads a file of cases in the neutral JSON form.
func OpenNeutralCases(path string) ([]NeutralCase, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading cases: %w", err)
	}
	cases, many, err := parseNeutral(text)
	if err == nil && !many {
		err = fmt.Errorf("it holds one case, not a list of them; open it as a history")
	}
	if err != nil {
		return nil, fmt.Errorf("reading cases %s: %w", path, err)
	}
	return cases, nil
}

// readNeutral reads a file that holds a single case.
func (f *File) readNeutral(text []byte) error {
	if !jx.Valid(text) {
		return fmt.Errorf("it begins like JSON and is not valid JSON; %s", accepted)
	}
	cases, many, err := parseNeutral(text)
	switch {
	case err != nil:
		return err
	case many:
		names := make([]string, 0, len(cases))
		for _, c := range cases[:min(3, len(cases))] {
			names = append(names, c.Name)
		}
		return fmt.Errorf("it holds %d cases (%s, ...): choose one and save it alone, as the object with its %q",
			len(cases), strings.Join(names, ", "), "ops")
	}
	f.format, f.memory, f.header = FormatNeutral, cases[0].History, cases[0].History.Head
	return nil
}

// parseNeutral reads one case or many.
func parseNeutral(text []byte) (cases []NeutralCase, many bool, err error) {
	d := newDecoder()
	d.jx.ResetBytes(text)
	if err := d.want(jx.Object, "an object"); err != nil {
		return nil, false, err
	}
	single := NeutralCase{Members: map[string]json.RawMessage{}}
	format := ""
	err = d.object(func(key []byte) (err error) {
		switch string(key) {
		case "format":
			format, err = d.text(false)
		case "cases":
			many = true
			err = d.array(func() error {
				one := NeutralCase{Members: map[string]json.RawMessage{}}
				err := d.object(func(key []byte) error { return one.member(d, string(key)) })
				cases = append(cases, one)
				return one.check(err)
			})
		default:
			err = single.member(d, string(key))
		}
		return err
	})
	switch {
	case err != nil:
		return nil, many, err
	case many && format != neutralFormat:
		return nil, many, fmt.Errorf("its format is %q, want %q", format, neutralFormat)
	case !many && single.History == nil:
		return nil, many, fmt.Errorf("it is JSON, but no history; %s", accepted)
	case !many:
		cases = []NeutralCase{single}
	}
	return cases, many, nil
}

// check gives an error of a case its name.
func (c *NeutralCase) check(err error) error {
	if err == nil && c.History == nil {
		err = errors.New(`it has no "ops"`)
	}
	if err != nil {
		return fmt.Errorf("case %q: %w", c.Name, err)
	}
	return nil
}

// member reads a member of a case.
func (c *NeutralCase) member(d *decoder, name string) (err error) {
	if name == "ops" {
		c.History, err = readNeutralHistory(d)
		return err
	}
	raw, err := d.jx.Raw()
	if err != nil {
		return err
	}
	kept := json.RawMessage(append([]byte(nil), raw...))
	c.Members[name] = kept
	text := newDecoder()
	text.jx.ResetBytes(kept)
	switch name {
	case "name":
		c.Name, err = text.text(false)
	case "note":
		c.Note, err = text.text(false)
	case "ours":
		c.Ours, err = text.text(false)
	case "ours_why":
		c.OursWhy, err = text.text(false)
	case "expected":
		c.Expected = kept
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// readNeutralHistory reads a list of operations.
func readNeutralHistory(d *decoder) (*Memory, error) {
	h := &Memory{Head: jepsenHeader(FormatNeutral)}
	mapper := newJepsenMapper(func(l Line, _ int64) bool {
		h.Body = append(h.Body, l)
		return true
	})
	var o jepsenOperation
	index := 0
	err := d.array(func() error {
		o.reset()
		err := readNeutralOperation(d, &o)
		if err == nil {
			err = mapper.take(&o)
		}
		if err != nil {
			return fmt.Errorf("operation %d: %w", index, err)
		}
		index++
		return nil
	})
	mapper.finish()
	h.Head.Source.Notes = mapper.notesOf()
	return h, err
}

func readNeutralOperation(d *decoder, o *jepsenOperation) error {
	if err := d.want(jx.Object, "an object"); err != nil {
		return err
	}
	return d.object(func(key []byte) error {
		name := string(key)
		if err := readNeutralField(d, o, name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
}

func readNeutralField(d *decoder, o *jepsenOperation, name string) (err error) {
	switch name {
	case "time":
		o.hasTime = true
		return readInteger(d, &o.time)
	case "process":
		if o.client = d.jx.Next() == jx.Number; o.client {
			return readInteger(d, &o.process)
		}
	case "type":
		kind, err := d.text(true)
		o.kind = jepsenTypeOf([]byte(kind))
		return err
	case "f":
		function, err := d.text(true)
		o.setFunction([]byte(function))
		return err
	case "value":
		return readNeutralValue(d, o)
	case "error":
		raw, err := d.jx.Raw()
		o.message = validText(raw[:min(len(raw), maxMessage)])
		return err
	case "rebalance_log", "rebalance-log":
		return d.array(func() error { return readNeutralRebalance(d, o) })
	}
	return d.jx.Skip()
}

func readNeutralRebalance(d *decoder, o *jepsenOperation) error {
	var keys []string
	err := d.object(func(key []byte) error {
		if string(key) != "keys" {
			return d.jx.Skip()
		}
		return d.array(func() error {
			text, err := neutralKey(d)
			keys = append(keys, text)
			return err
		})
	})
	o.rebalances = append(o.rebalances, keys)
	return err
}

// readNeutralValue reads a list of micro-operations or of keys: which of them
// is seen from the elements, since "f" may come after "value".
func readNeutralValue(d *decoder, o *jepsenOperation) error {
	if d.jx.Next() != jx.Array {
		return d.jx.Skip()
	}
	o.hasKeys = true
	return d.array(func() error {
		if d.jx.Next() == jx.Object {
			return readNeutralMicroOperation(d, o)
		}
		key, err := neutralKey(d)
		o.keys = append(o.keys, key)
		return err
	})
}

// neutralKey reads a key: a text, or a number, which is the same as its text.
func neutralKey(d *decoder) (string, error) {
	if d.jx.Next() == jx.Number {
		var number int64
		err := readInteger(d, &number)
		return strconv.FormatInt(number, 10), err
	}
	return d.text(true)
}

func readNeutralMicroOperation(d *decoder, o *jepsenOperation) error {
	kind, value := "", []byte(nil)
	send := jepsenSend{offset: Unknown, start: len(o.sendEvents)}
	err := d.object(func(key []byte) (err error) {
		switch string(key) {
		case "m":
			kind, err = d.text(true)
		case "key":
			send.key, err = neutralKey(d)
		case "value":
			value, err = appendNeutralValue(d, nil)
		case "offset":
			if d.jx.Next() == jx.Null {
				return d.jx.Null()
			}
			err = readInteger(d, &send.offset)
			send.offset = max(send.offset, Unknown)
		case "records":
			err = readNeutralRecords(d, o)
		default:
			err = d.jx.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case kind == "poll":
		o.polls = true
		return nil
	case kind != "send" || value == nil:
		return fmt.Errorf(`a micro-operation is {"m":"send","key":...,"value":...} or {"m":"poll"...}, found kind %q`, kind)
	}
	o.sendEvents = append(append(append(o.sendEvents, send.key...), '/'), value...)
	send.end = len(o.sendEvents)
	o.sends = append(o.sends, send)
	return nil
}

func readNeutralRecords(d *decoder, o *jepsenOperation) error {
	if d.jx.Next() == jx.Null {
		return d.jx.Null()
	}
	return d.object(func(key []byte) error {
		part := jepsenPart{key: d.known(key), first: len(o.records)}
		err := d.array(func() error { return readNeutralRecord(d, o, part.key) })
		part.last = len(o.records)
		o.parts = append(o.parts, part)
		return err
	})
}

func readNeutralRecord(d *decoder, o *jepsenOperation, key string) error {
	record := jepsenRecord{start: len(o.recordEvents)}
	o.recordEvents = append(append(o.recordEvents, key...), '/')
	at := 0
	err := d.array(func() (err error) {
		at++
		switch at {
		case 1:
			err = readInteger(d, &record.offset)
		case 2:
			o.recordEvents, err = appendNeutralValue(d, o.recordEvents)
		default:
			err = d.jx.Skip()
		}
		return err
	})
	if err == nil && at != 2 {
		err = errors.New("a record is [offset,value]")
	}
	record.end = len(o.recordEvents)
	o.records = append(o.records, record)
	return err
}

// appendNeutralValue appends the text of a value, different for different ones.
func appendNeutralValue(d *decoder, text []byte) ([]byte, error) {
	if d.jx.Next() == jx.Number {
		var number int64
		err := readInteger(d, &number)
		return strconv.AppendInt(text, number, 10), err
	}
	value, err := d.text(false)
	return appendScalarText(text, value), err
}
