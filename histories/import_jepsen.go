// This file holds the reader of Jepsen histories in EDN. It streams: what is in
// memory is one operation and the invocations that have no completion yet.

package histories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// jepsenLines reads a Jepsen history.
func (f *File) jepsenLines(ctx context.Context, yield func(Entry, error) bool) {
	in, err := f.open()
	if err != nil {
		yield(Entry{}, fmt.Errorf("reading history: %w", err))
		return
	}
	defer func() { _ = in.Close() }() // it was only read
	text := io.Reader(in)
	if f.compressed {
		frames, err := newZstdText(in)
		if err != nil {
			yield(Entry{}, fmt.Errorf("reading history %s: %w", f.name, err))
			return
		}
		defer frames.close()
		text = frames
	}
	stopped := false
	mapper := newJepsenMapper(func(l Line, number int64) bool {
		stopped = stopped || !yield(Entry{Line: l, Number: number}, nil)
		return !stopped
	})
	err = readJepsen(ctx, newEDNScanner(f.name, text), mapper)
	f.header.Source.Notes = mapper.notesOf()
	if err != nil && !stopped {
		yield(Entry{}, err)
	}
}

// readJepsen reads all operations. The ones without a completion come last, also
// where the file was cut.
func readJepsen(ctx context.Context, s *ednScanner, m *jepsenMapper) error {
	var o jepsenOperation
	for !m.stopped {
		if m.count%1024 == 0 && ctx.Err() != nil {
			return fmt.Errorf("reading history %s: %w", s.name, ctx.Err())
		}
		err := s.next(&o)
		if err == nil {
			if err = m.take(&o); err == nil {
				continue
			}
			return &LineError{s.name, o.number, s.operationAt, err}
		}
		var cut *CutError
		if !errors.Is(err, io.EOF) && !errors.As(err, &cut) {
			return err
		}
		m.finish()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	return nil
}

// next reads the next operation into o; io.EOF after the last, a *CutError where
// the file ends inside of one.
func (s *ednScanner) next(o *jepsenOperation) error {
	for {
		end, err := s.tryNext(o)
		if errors.Is(err, errBetween) || s.end == nil && s.nearEnd(err) {
			err = errMore
		}
		switch {
		case errors.Is(err, errMore) && s.end == nil:
			if err := s.fill(); err != nil {
				return err
			}
		case errors.Is(err, errMore) && (errors.Is(s.end, io.EOF) || errors.Is(s.end, errCut)):
			return s.cut()
		case errors.Is(err, errMore):
			return fmt.Errorf("reading history %s after line %d: %w", s.name, s.lastLine, s.end)
		case errors.Is(err, io.EOF):
			return s.finish()
		case err != nil:
			return s.locate(err)
		default:
			s.operationAt = s.base + int64(s.from)
			s.take(s.from)
			o.number = s.line
			s.take(end)
			s.lastLine, s.lastByte = s.line, s.base+int64(s.at)
			return nil
		}
	}
}

// tryNext reads an operation that lies whole in the buffer, and gives where it
// ends. errMore: it does not; io.EOF: the text has ended.
func (s *ednScanner) tryNext(o *jepsenOperation) (end int, err error) {
	if s.base == 0 && s.at == 0 {
		if len(s.buf) < len(byteOrderMark) && s.end == nil {
			return 0, errMore
		}
		if bytes.HasPrefix(s.buf, byteOrderMark) {
			s.take(len(byteOrderMark))
		}
	}
	for {
		i, err := s.space(s.at)
		if errors.Is(err, errBetween) && s.end != nil {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		c := s.buf[i]
		switch {
		case s.closed:
			return 0, ednErrorf(i, "something follows the vector of operations")
		case c == '[' && !s.inVector && s.lastByte == 0:
			s.inVector = true
			s.take(i + 1)
			s.lastByte = s.base + int64(s.at)
		case c == ']' && s.inVector:
			s.closed = true
			s.take(i + 1)
		case c == '{' || c == '#':
			o.reset()
			s.from = i
			return s.operation(i, o)
		default:
			return 0, ednErrorf(i, "an operation begins with {, found %q", s.excerpt(i))
		}
	}
}

// span is a form in the buffer.
type span struct{ from, to int }

// operation reads the operation that begins at i, and gives where it ends.
func (s *ednScanner) operation(i int, o *jepsenOperation) (int, error) { //nolint:gocyclo,funlen // one pass over a map
	i, err := s.untag(i)
	if err != nil {
		return 0, err
	}
	if s.buf[i] != '{' {
		return 0, ednErrorf(i, "an operation is a map, found %q", s.excerpt(i))
	}
	var value, rebalances, failure span
	for i++; ; {
		if i, err = s.space(i); err != nil {
			return 0, err
		}
		if s.buf[i] == '}' {
			break
		}
		key := i
		if s.buf[i] == ':' {
			i, err = s.token(i)
		} else {
			i, err = s.skip(i)
		}
		if err != nil {
			return 0, err
		}
		name := s.buf[key:i]
		if i, err = s.space(i); err != nil {
			return 0, err
		}
		if s.buf[i] == '}' {
			return 0, ednErrorf(i, "%s has no value", name)
		}
		from := i
		if o.function == jepsenTransact && string(name) == ":value" {
			// What it means is known already, as is usual: it is read at once.
			if i, err = s.microOperations(o, i); err != nil {
				return 0, err
			}
			continue
		}
		if i, err = s.skip(i); err != nil {
			return 0, err
		}
		switch form := s.buf[from:i]; string(name) {
		case ":value":
			value = span{from, i}
		case ":rebalance-log":
			rebalances = span{from, i}
		case ":error":
			failure = span{from, i}
		case ":type":
			o.kind = jepsenTypeOf(afterColon(form))
		case ":f":
			o.setFunction(afterColon(form))
		case ":time":
			o.hasTime = true
			o.time, err = ednInteger(form, from)
		case ":process":
			if o.client = isInteger(form); o.client {
				o.process, err = ednInteger(form, from)
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return i + 1, s.interpret(o, value, rebalances, failure)
}

func afterColon(form []byte) []byte {
	if len(form) > 0 && form[0] == ':' {
		return form[1:]
	}
	return nil
}

// interpret reads the value of an operation that means something to us.
func (s *ednScanner) interpret(o *jepsenOperation, value, rebalances, failure span) error {
	if !o.client || o.function == jepsenOther {
		return nil
	}
	if failure.to > 0 {
		raw := s.buf[failure.from:min(failure.to, failure.from+maxMessage)]
		o.message = validText(raw)
	}
	if rebalances.to > 0 {
		if err := s.rebalances(o, rebalances.from); err != nil {
			return err
		}
	}
	if value.to == 0 {
		return nil
	}
	if o.function == jepsenTransact {
		_, err := s.microOperations(o, value.from)
		return err
	}
	if o.function == jepsenCrash {
		return nil
	}
	keys, given, err := s.keyList(o.keys, value.from)
	o.keys, o.hasKeys = keys, given
	return err
}

// keyList reads a list of keys.
func (s *ednScanner) keyList(keys []string, i int) ([]string, bool, error) {
	_, given, err := s.elements(i, "a vector of keys", func(i int) (int, error) {
		key, end, err := s.key(i)
		keys = append(keys, key)
		return end, err
	})
	return keys, given, err
}

// rebalances reads [{:keys [k ...] ...} ...].
func (s *ednScanner) rebalances(o *jepsenOperation, i int) error {
	_, _, err := s.elements(i, "a vector of rebalances", func(i int) (int, error) {
		end, err := s.skip(i)
		if err != nil {
			return 0, err
		}
		if i, err = s.untag(i); err != nil {
			return 0, err
		}
		if s.buf[i] != '{' {
			return 0, ednErrorf(i, "a rebalance is a map with :keys, found %q", s.excerpt(i))
		}
		var keys []string
		_, err = s.entries(i, func(key, value int) (int, error) {
			end, err := s.skip(value)
			if err == nil && bytes.HasPrefix(s.buf[key:], []byte(":keys")) && ednClass[s.buf[key+5]] != ednToken {
				keys, _, err = s.keyList(keys, value)
			}
			return end, err
		})
		o.rebalances = append(o.rebalances, keys)
		return end, err
	})
	return err
}

// microOperations reads [[:send key value] [:poll {...}] ...].
func (s *ednScanner) microOperations(o *jepsenOperation, i int) (end int, err error) {
	end, _, err = s.elements(i, "a vector of micro-operations", func(i int) (int, error) {
		return s.microOperation(o, i)
	})
	return end, err
}

func (s *ednScanner) microOperation(o *jepsenOperation, i int) (int, error) {
	begin, place := i, 0
	isSend := false
	var send jepsenSend
	end, _, err := s.elements(i, "a micro-operation [:send key value] or [:poll ...]", func(i int) (end int, err error) {
		place++
		switch {
		case place == 1:
			if end, err = s.token(i); err != nil {
				return 0, err
			}
			name := s.buf[i:end]
			isSend = string(name) == ":send"
			if !isSend && string(name) != ":poll" {
				return 0, ednErrorf(i, "a micro-operation is :send or :poll, found %q", s.excerpt(i))
			}
			o.polls = o.polls || !isSend
			return end, nil
		case isSend && place == 2:
			send.key, end, err = s.key(i)
			return end, err
		case isSend && place == 3:
			return s.sent(o, &send, i)
		case !isSend && place == 2:
			return s.polled(o, i)
		}
		return s.skip(i)
	})
	if err == nil && (place == 0 || isSend && place < 3) {
		return 0, ednErrorf(begin, "a micro-operation is [:send key value] or [:poll ...], found %q", s.excerpt(begin))
	}
	if isSend {
		o.sends = append(o.sends, send)
	}
	return end, err
}

// sent reads a send's value, or [offset value]; the offset may be nil.
func (s *ednScanner) sent(o *jepsenOperation, send *jepsenSend, i int) (end int, err error) {
	send.offset = Unknown
	send.start = len(o.sendEvents)
	o.sendEvents = append(append(o.sendEvents, send.key...), '/')
	if i, err = s.untag(i); err != nil {
		return 0, err
	}
	if c := s.buf[i]; c == '[' || c == '(' {
		o.sendEvents, send.offset, end, err = s.pair(o.sendEvents, i)
		send.offset = max(send.offset, Unknown)
	} else {
		o.sendEvents, end, err = s.appendScalar(o.sendEvents, i)
	}
	send.end = len(o.sendEvents)
	return end, err
}

// pair reads [offset value] and appends the text of the value.
func (s *ednScanner) pair(text []byte, i int) (appended []byte, offset int64, end int, err error) {
	begin := i
	if i, err = s.space(i + 1); err != nil {
		return text, 0, 0, err
	}
	from := i
	if i, err = s.token(i); err != nil {
		return text, 0, 0, err
	}
	offset = Unknown
	if token := s.buf[from:i]; string(token) != "nil" {
		offset, err = ednInteger(token, from)
	}
	if err == nil {
		i, err = s.space(i)
	}
	if err == nil {
		text, i, err = s.appendScalar(text, i)
	}
	if err == nil {
		i, err = s.space(i)
	}
	if err != nil {
		return text, 0, 0, err
	}
	if ednClass[s.buf[i]] != ednClose {
		return text, 0, 0, ednErrorf(begin, "want [offset value], found %q", s.excerpt(begin))
	}
	return text, offset, i + 1, nil
}

// polled reads what a poll returned: {key [[offset value] ...] ...}, or nil.
func (s *ednScanner) polled(o *jepsenOperation, i int) (int, error) {
	i, err := s.untag(i)
	if err != nil {
		return 0, err
	}
	if end, err := s.null(i); end > 0 || err != nil {
		return end, err
	}
	if s.buf[i] != '{' {
		return 0, ednErrorf(i, "want a map of records by key, found %q", s.excerpt(i))
	}
	return s.entries(i, func(key, value int) (int, error) {
		name, _, err := s.key(key)
		if err != nil {
			return 0, err
		}
		part := jepsenPart{key: name, first: len(o.records)}
		end, _, err := s.elements(value, "a vector of [offset value]", func(i int) (int, error) {
			return s.record(o, name, i)
		})
		part.last = len(o.records)
		o.parts = append(o.parts, part)
		return end, err
	})
}

func (s *ednScanner) record(o *jepsenOperation, key string, i int) (int, error) {
	if c := s.buf[i]; c != '[' && c != '(' {
		return 0, ednErrorf(i, "want [offset value], found %q", s.excerpt(i))
	}
	record := jepsenRecord{start: len(o.recordEvents)}
	o.recordEvents = append(append(o.recordEvents, key...), '/')
	events, offset, end, err := s.pair(o.recordEvents, i)
	if err != nil {
		return 0, err
	}
	o.recordEvents = events
	record.offset, record.end = offset, len(events)
	o.records = append(o.records, record)
	return end, nil
}

// key reads a key and gives its text, the same string for the same key.
func (s *ednScanner) key(i int) (key string, end int, err error) {
	if i, err = s.untag(i); err != nil {
		return "", 0, err
	}
	if end, err = s.skip(i); err != nil {
		return "", 0, err
	}
	if key, known := s.keys[string(s.buf[i:end])]; known {
		return key, end, nil
	}
	text, _, err := s.appendScalar(nil, i)
	if err != nil {
		return "", 0, err
	}
	if len(s.keys) < maxNames {
		s.keys[string(s.buf[i:end])] = string(text)
	}
	return string(text), end, nil
}
