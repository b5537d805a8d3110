// This file holds what the fields of a line can be: for each type of value, when
// it is omitted, how it is written and how it is read. schema.go lists which
// line has which fields.

package histories

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// field is one field of the JSON form of T.
type field[T any] struct {
	name string
	// member is `,"name":`, ready to be written.
	member string
	// required: always written, and an error when it is missing.
	required bool
	// absent: t has the value that an omitted field stands for.
	absent func(t *T) bool
	write  func(w *jx.Writer, t *T)
	read   func(d *decoder, t *T) error
}

// newField builds the field of a value of type V that lies at place in T.
func newField[T, V any](name string, place func(*T) *V, k kind[V]) field[T] {
	return field[T]{
		name:   name,
		member: `,"` + name + `":`,
		absent: func(t *T) bool { return k.absent(place(t)) },
		write:  func(w *jx.Writer, t *T) { k.write(w, place(t)) },
		read:   func(d *decoder, t *T) error { return k.read(d, place(t)) },
	}
}

// must builds a field that is always there.
func must[T, V any](name string, place func(*T) *V, k kind[V]) field[T] {
	f := newField(name, place, k)
	f.required = true
	return f
}

// kind is a type of value in a line.
type kind[V any] struct {
	absent func(*V) bool
	write  func(*jx.Writer, *V)
	read   func(*decoder, *V) error
}

// integer is the kind of numbers; an omitted one is def.
func integer[V int16 | int32 | int64](def V) kind[V] {
	return kind[V]{
		absent: func(v *V) bool { return *v == def },
		write:  func(w *jx.Writer, v *V) { w.Int64(int64(*v)) },
		read:   readInteger[V],
	}
}

// texts is the kind of texts; an omitted one is empty. Known texts come again
// and again in a history and are kept once.
func texts[V ~string](known bool) kind[V] {
	return kind[V]{
		absent: func(v *V) bool { return *v == "" },
		write:  func(w *jx.Writer, v *V) { writeText(w, string(*v)) },
		read: func(d *decoder, v *V) error {
			text, err := d.text(known)
			*v = V(text)
			return err
		},
	}
}

var (
	text     = texts[string](false)
	nameText = texts[string](true)
	outcome  = kind[Outcome]{
		absent: texts[Outcome](true).absent,
		write:  texts[Outcome](true).write,
		read:   readOutcome,
	}
	truth = kind[bool]{
		absent: func(v *bool) bool { return !*v },
		write:  func(w *jx.Writer, v *bool) { w.Bool(*v) },
		read: func(d *decoder, v *bool) (err error) {
			if err = d.want(jx.Bool, "true or false"); err == nil {
				*v, err = d.jx.Bool()
			}
			return err
		},
	}
	// wallTime is RFC 3339 in UTC; an omitted one is the zero time.
	wallTime = kind[time.Time]{
		absent: func(v *time.Time) bool { return v.IsZero() },
		write:  func(w *jx.Writer, v *time.Time) { w.Str(v.UTC().Format(time.RFC3339Nano)) },
		read: func(d *decoder, v *time.Time) error {
			raw, err := d.text(false)
			if err == nil {
				*v, err = time.Parse(time.RFC3339Nano, raw)
			}
			return err
		},
	}
	number64 = integer[int64](Unknown)
	number32 = integer[int32](Unknown)
	number16 = integer[int16](Unknown)
	count64  = integer[int64](0)
	count32  = integer[int32](0)
	count16  = integer[int16](0)

	ranges  = list(kind[Range]{write: writeRange, read: readRange})
	records = kind[[]Record]{
		absent: func(v *[]Record) bool { return *v == nil },
		write:  writeRecords,
		read:   readRecords,
	}
	replicaRecords = kind[[]ReplicaRecord]{
		absent: func(v *[]ReplicaRecord) bool { return *v == nil },
		write:  writeReplicaRecords,
		read:   readReplicaRecords,
	}
	textList = list(text)
	textMap  = kind[map[string]string]{
		absent: func(v *map[string]string) bool { return *v == nil },
		write:  writeTextMap,
		read:   readTextMap,
	}
)

// list is the kind of lists; an omitted one is nil.
func list[V any](element kind[V]) kind[[]V] {
	return kind[[]V]{
		absent: func(v *[]V) bool { return *v == nil },
		write: func(w *jx.Writer, v *[]V) {
			w.ArrStart()
			for i := range *v {
				if i > 0 {
					w.Comma()
				}
				element.write(w, &(*v)[i])
			}
			w.ArrEnd()
		},
		read: func(d *decoder, v *[]V) error {
			*v = []V{}
			return d.array(func() error {
				var zero V
				*v = append(*v, zero)
				return element.read(d, &(*v)[len(*v)-1])
			})
		},
	}
}

// object is the kind of objects with fields of their own.
func object[V any](fields []field[V], zero V) kind[V] {
	return kind[V]{
		absent: func(*V) bool { return false },
		write:  func(w *jx.Writer, v *V) { writeObject(w, fields, v) },
		read: func(d *decoder, v *V) error {
			*v = zero
			return readObject(d, fields, v)
		},
	}
}

// optional is the kind of pointers; an omitted one is nil.
func optional[V any](k kind[V]) kind[*V] {
	return kind[*V]{
		absent: func(v **V) bool { return *v == nil },
		write:  func(w *jx.Writer, v **V) { k.write(w, *v) },
		read: func(d *decoder, v **V) error {
			*v = new(V)
			return k.read(d, *v)
		},
	}
}

// writeText writes a text; bytes that are no UTF-8 become U+FFFD.
func writeText(w *jx.Writer, s string) {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	w.Str(s)
}

// writeTextMap writes a map in the order of its keys, so that equal headers are
// equal bytes.
func writeTextMap(w *jx.Writer, v *map[string]string) {
	keys := make([]string, 0, len(*v))
	for key := range *v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	w.ObjStart()
	for i, key := range keys {
		if i > 0 {
			w.Comma()
		}
		writeText(w, key)
		w.RawStr(":")
		writeText(w, (*v)[key])
	}
	w.ObjEnd()
}

func readTextMap(d *decoder, v *map[string]string) error {
	*v = map[string]string{}
	return d.object(func(key []byte) error {
		name := validText(key)
		value, err := d.text(true)
		(*v)[name] = value
		return err
	})
}

func readOutcome(d *decoder, v *Outcome) error {
	raw, err := d.text(true)
	if err != nil {
		return err
	}
	switch *v = Outcome(raw); *v {
	case "", OutcomeOK, OutcomeFail, OutcomeInfo:
		return nil
	}
	return fmt.Errorf(`want "ok", "fail" or "info", found %q`, raw)
}

// writeRange writes a range as [first,last].
func writeRange(w *jx.Writer, r *Range) {
	w.ArrStart()
	w.Int64(r.First)
	w.Comma()
	w.Int64(r.Last)
	w.ArrEnd()
}

func readRange(d *decoder, r *Range) error {
	at := 0
	err := d.array(func() error {
		at++
		switch at {
		case 1:
			return readInteger(d, &r.First)
		case 2:
			return readInteger(d, &r.Last)
		}
		return errors.New("want [first,last], found more elements")
	})
	if err == nil && at != 2 {
		return errors.New("want [first,last], found fewer elements")
	}
	return err
}

// writeRecords writes records as [offset,"event"], [offset,null] for a foreign
// one, [offset,"event","corrupt"].
func writeRecords(w *jx.Writer, records *[]Record) {
	w.ArrStart()
	for i := range *records {
		if i > 0 {
			w.Comma()
		}
		record := &(*records)[i]
		writeRecord(w, record, record.Corrupt != "")
		w.ArrEnd()
	}
	w.ArrEnd()
}

// writeReplicaRecords writes them in the same way, and [offset,"event","corrupt","digest"]
// where there is a digest.
func writeReplicaRecords(w *jx.Writer, records *[]ReplicaRecord) {
	w.ArrStart()
	for i := range *records {
		if i > 0 {
			w.Comma()
		}
		record := &(*records)[i]
		writeRecord(w, &record.Record, record.Corrupt != "" || record.Digest != "")
		if record.Digest != "" {
			w.Comma()
			writeText(w, record.Digest)
		}
		w.ArrEnd()
	}
	w.ArrEnd()
}

// writeRecord begins the array of a record.
func writeRecord(w *jx.Writer, record *Record, withCorrupt bool) {
	w.ArrStart()
	w.Int64(record.Offset)
	w.Comma()
	if record.Event == "" {
		w.Null()
	} else {
		writeText(w, record.Event)
	}
	if withCorrupt {
		w.Comma()
		writeText(w, record.Corrupt)
	}
}

func readRecords(d *decoder, records *[]Record) error {
	*records = []Record{}
	err := d.records(func() error {
		*records = append(*records, Record{})
		return readRecord(d, &(*records)[len(*records)-1], nil)
	})
	d.eachEvent(err, func(i int, event string) { (*records)[i].Event = event })
	return err
}

func readReplicaRecords(d *decoder, records *[]ReplicaRecord) error {
	*records = []ReplicaRecord{}
	err := d.records(func() error {
		*records = append(*records, ReplicaRecord{})
		record := &(*records)[len(*records)-1]
		return readRecord(d, &record.Record, &record.Digest)
	})
	d.eachEvent(err, func(i int, event string) { (*records)[i].Event = event })
	return err
}

// records calls f for every record of a list. The identities of all records are kept
// in one string: a poll with many records costs one allocation for them, not one
// each. See eachEvent.
func (d *decoder) records(f func() error) error {
	d.events, d.eventEnds = d.events[:0], d.eventEnds[:0]
	return d.array(f)
}

// eachEvent gives the identities of the records that were just read, unless that
// failed.
func (d *decoder) eachEvent(err error, set func(i int, event string)) {
	if err != nil {
		return
	}
	all, start := string(d.events), 0
	for i, end := range d.eventEnds {
		set(i, all[start:end])
		start = end
	}
}

// readRecord reads one record; digest is nil where a record can have none.
func readRecord(d *decoder, record *Record, digest *string) error {
	const (
		shape       = `[offset,"event"], [offset,null] or [offset,"event","corrupt"]`
		withDigests = shape + ` or [offset,"event","corrupt","digest"]`
	)
	want := shape
	if digest != nil {
		want = withDigests
	}
	at := 0
	err := d.array(func() (err error) {
		at++
		switch {
		case at == 1:
			return readInteger(d, &record.Offset)
		case at == 2:
			return d.event()
		case at == 3:
			record.Corrupt, err = d.text(true)
			return err
		case at == 4 && digest != nil:
			*digest, err = d.text(false)
			return err
		}
		return errors.New("want " + want + ", found more elements")
	})
	if err == nil && at < 2 {
		return errors.New("want " + want + ", found fewer elements")
	}
	return err
}
