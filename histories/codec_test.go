// This file tests the codec: every field of every line survives, whatever it
// holds, and what is wrong is refused with its place.

package histories

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-faster/jx"
)

// allLines is one line of every kind, as it is before its fields are read.
func allLines() []Line {
	send, sendReturn, attempt := zeroSend, zeroSendReturn, zeroAttempt
	finalRecords, finalRead := zeroFinalRecords, zeroFinalRead
	replicaRecords, replicaRead := zeroReplicaRecords, zeroReplicaRead
	return []Line{
		&Producer{}, &ProducerClose{}, &Consumer{}, &ConsumerClose{}, &send, &sendReturn, &attempt, &Poll{},
		&PollReturn{}, &PositionChange{}, &FaultStart{}, &FaultEnd{}, &ClusterEvent{}, &finalRecords, &finalRead,
		&replicaRecords, &replicaRead, &Note{}, &End{}, &ProducerRefused{}, &Commit{}, &CommitReturn{},
	}
}

// encode gives the JSON form of a line.
func encode(tb testing.TB, l Line) []byte {
	tb.Helper()
	var w jx.Writer
	if !appendLine(&w, l) {
		tb.Fatalf("%T cannot be encoded", l)
	}
	return w.Buf
}

func TestEveryKindOfLineIsKnownToTheseTests(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "lines.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, l := range allLines() {
		known[reflect.TypeOf(l).Elem().Name()] = true
	}
	found := 0
	for _, declaration := range file.Decls {
		f, isFunc := declaration.(*ast.FuncDecl)
		if !isFunc || f.Recv == nil || f.Name.Name != "line" {
			continue
		}
		name := f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
		found++
		if !known[name] {
			t.Errorf("%s is a line and is not in allLines", name)
		}
	}
	if found != len(known) || found != len(readers) {
		t.Errorf("lines.go has %d lines, the tests know %d, the codec %d", found, len(known), len(readers))
	}
}

// mutate calls check with every variant of value in which one leaf was changed.
func mutate(value reflect.Value, path string, check func(path string)) {
	switch value.Kind() {
	case reflect.Struct:
		if value.Type() == reflect.TypeFor[time.Time]() {
			with(value, reflect.ValueOf(time.Date(2026, 5, 6, 7, 8, 9, 10_000_001, time.UTC)), path, check)
			return
		}
		for i := range value.NumField() {
			mutate(value.Field(i), path+"."+value.Type().Field(i).Name, check)
		}
	case reflect.Pointer:
		fresh := reflect.New(value.Type().Elem())
		with(value, fresh, path, func(path string) {
			check(path)
			mutate(fresh.Elem(), path, check)
		})
	case reflect.Slice:
		with(value, reflect.MakeSlice(value.Type(), 0, 0), path+"[]", check)
		two := reflect.MakeSlice(value.Type(), 2, 2)
		with(value, two, path, func(path string) {
			check(path)
			mutate(two.Index(1), path+"[1]", check)
		})
	case reflect.Map:
		with(value, reflect.MakeMap(value.Type()), path+"{}", check)
		with(value, reflect.ValueOf(map[string]string{"b\"": "\n", "a": ""}), path, check)
	case reflect.String:
		if value.Type() == reflect.TypeFor[Outcome]() {
			with(value, reflect.ValueOf(OutcomeInfo), path, check)
			return
		}
		for _, text := range []string{"x", "a \"quoted\" \\ back\x00\x1f\t\n", "snow \u2603 \U0001F600 \u2028 \ufffd",
			"null"} {
			with(value, reflect.ValueOf(text).Convert(value.Type()), path, check)
		}
	case reflect.Bool:
		with(value, reflect.ValueOf(!value.Bool()), path, check)
	case reflect.Int16, reflect.Int32, reflect.Int64:
		bits := value.Type().Bits()
		for _, n := range []int64{-1, 0, 7, math.MaxInt64 >> (64 - bits), math.MinInt64 >> (64 - bits)} {
			with(value, reflect.ValueOf(n).Convert(value.Type()), path, check)
		}
	default:
		panic("the test cannot change a " + value.Kind().String() + " at " + path)
	}
}

// with sets value for the time of check.
func with(value, changed reflect.Value, path string, check func(path string)) {
	before := reflect.ValueOf(value.Interface())
	value.Set(changed)
	check(path)
	value.Set(before)
}

func TestEveryFieldOfEveryLineSurvives(t *testing.T) {
	for _, l := range allLines() {
		kind := reflect.TypeOf(l).Elem().Name()
		t.Run(kind, func(t *testing.T) {
			checks := 0
			check := func(path string) {
				checks++
				raw := encode(t, l)
				got, err := newDecoder().decode(raw)
				if err != nil {
					t.Fatalf("%s: decoding %s: %v", path, raw, err)
				}
				if !reflect.DeepEqual(got, l) {
					t.Errorf("%s is not what it was:\n wrote %s\n  read %s\n", path, raw, encode(t, got))
				}
			}
			check("")
			mutate(reflect.ValueOf(l).Elem(), kind, check)
			if checks < reflect.TypeOf(l).Elem().NumField() {
				t.Errorf("only %d variants were checked", checks)
			}
		})
	}
}

func TestEveryFieldOfTheHeaderSurvives(t *testing.T) {
	h := &Header{}
	mutate(reflect.ValueOf(h).Elem(), "Header", func(path string) {
		var w jx.Writer
		appendHeader(&w, h)
		file := &File{}
		if err := file.readHeader(w.Buf); err != nil {
			t.Fatalf("%s: decoding %s: %v", path, w.Buf, err)
		}
		if !reflect.DeepEqual(file.header, h) {
			t.Errorf("%s is not what it was: wrote %s", path, w.Buf)
		}
		if file.unknown.fields != 0 {
			t.Errorf("%s: the reader does not know %v", path, file.unknown.names)
		}
	})
}

func TestBytesThatAreNoTextBecomeReplacementCharacters(t *testing.T) {
	sent := &Send{OperationID: OperationID{"p\xff", 0}, Event: "e\xc3\x28", Topic: "t\x80", Partition: Unknown,
		Rank: Unknown}
	got, err := newDecoder().decode(encode(t, sent))
	if err != nil {
		t.Fatal(err)
	}
	want := &Send{OperationID: OperationID{"p\ufffd", 0}, Event: "e\ufffd(", Topic: "t\ufffd", Partition: Unknown,
		Rank: Unknown}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	raw := "{\"line\":\"final-records\",\"records\":[[0,\"a\xff\"],[1,null],[2,\"b\",\"c\xfe\"]]}"
	read, err := newDecoder().decode([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	records := []Record{{0, "a\ufffd", ""}, {1, "", ""}, {2, "b", "c\ufffd"}}
	if got := read.(*FinalRecords).Records.Records; !reflect.DeepEqual(got, records) {
		t.Errorf("read %+v, want %+v", got, records)
	}
}

func TestALineIsRefused(t *testing.T) {
	cases := []struct{ rule, raw, want string }{
		{"that is no JSON", `hello`, "not a JSON object"},
		{"that is empty", ``, "not a JSON object"},
		{"that is an array", `[1]`, "not a JSON object"},
		{"that does not say its kind", `{"time":5}`, `no field "line"`},
		{"whose kind is a number", `{"line":5}`, "want a text, found a JSON number"},
		{"that is a second header", `{"line":"header"}`, "a second header line"},
		{"whose required field is missing", `{"line":"note"}`, `note: field "time": is missing`},
		{"that has a field twice", `{"line":"note","time":5,"time":6}`, `note: field "time": is there twice`},
		{"whose number is a text", `{"line":"note","time":"5"}`,
			`note: field "time": want a whole number, found a JSON string`},
		{"whose number is null", `{"line":"note","time":null}`,
			`note: field "time": want a whole number, found a JSON null`},
		{"whose number is a fraction", `{"line":"note","time":1.5}`, `note: field "time": want a whole number`},
		{"whose number has an exponent", `{"line":"note","time":1e3}`, `note: field "time": want a whole number`},
		{"whose number is NaN", `{"line":"note","time":NaN}`,
			`note: field "time": want a whole number, found no JSON value`},
		{"whose number is infinite", `{"line":"note","time":-Infinity}`, `note: field "time"`},
		{"whose number has more than 64 bits", `{"line":"note","time":9223372036854775808}`,
			`note: field "time": want a whole number of 64 bits`},
		{"whose number is huge", `{"line":"note","time":` + strings.Repeat("9", 400) + `}`, `note: field "time"`},
		{"whose number does not fit into the field", `{"line":"attempt","process":"p","time":0,"end":0,"epoch":32768}`,
			`attempt: field "epoch": 32768 is too large`},
		{"whose text is a number", `{"line":"note","time":5,"text":5}`,
			`note: field "text": want a text, found a JSON number`},
		{"whose truth is a text", `{"line":"producer-close","name":"p","time":5,"crashed":"yes"}`,
			`field "crashed": want true or false`},
		{"whose map is a list", `{"line":"consumer","name":"p","time":5,"properties":[]}`, `field "properties"`},
		{"whose map has a number", `{"line":"consumer","name":"p","time":5,"properties":{"a":1}}`,
			`field "properties": want a text`},
		{"whose outcome is no outcome", `{"line":"send-return","process":"p","number":0,"time":0,"stated":"maybe"}`,
			`field "stated": want "ok", "fail" or "info", found "maybe"`},
		{"whose record has no event", `{"line":"final-records","records":[[1]]}`, "found fewer elements"},
		{"whose record has too much", `{"line":"final-records","records":[[1,"a","b","c"]]}`, "found more elements"},
		{"whose record of a replica has too much", `{"line":"replica-records","records":[[1,"a","b","c","d"]]}`, "found more elements"},
		{"whose record of a replica has no event", `{"line":"replica-records","records":[[1]]}`, "found fewer elements"},
		{"whose digest is no text", `{"line":"replica-records","records":[[1,null,"",7]]}`, "want a text"},
		{"whose record's event is a number", `{"line":"final-records","records":[[1,2]]}`, "want a text or null"},
		{"whose range is open", `{"line":"attempt","process":"p","time":0,"end":0,"sends":[[1]]}`, "found fewer elements"},
		{"whose range has three ends", `{"line":"attempt","process":"p","time":0,"end":0,"sends":[[1,2,3]]}`,
			"found more elements"},
		{"with a wrong field deep inside", `{"line":"poll-return","process":"p","number":0,"time":0,"records":[{"leader_epoch":"x"}]}`, `field "records.leader_epoch"`},
		{"that two objects share", `{"line":"note","time":5} {"line":"note","time":6}`, "a second JSON value follows"},
		{"that something follows", `{"line":"note","time":5}}`, "something follows the JSON object"},
		{"that is cut in its middle", `{"line":"note","time":5,"text":"a`, `note: field "text"`},
		{"that has a comma too much", `{"line":"note","time":5,}`, "note"},
		{"of an unknown kind that is no JSON", `{"line":"frob","x":`, "not a JSON object"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			line, err := newDecoder().decode([]byte(c.raw))
			if err == nil {
				t.Fatalf("%s was read as %+v", c.raw, line)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want %q in it", err, c.want)
			}
			if line, errFast := newDecoder().decodeFast([]byte(c.raw)); line != nil || fmt.Sprint(errFast) != err.Error() {
				t.Errorf("read fast it is %+v, %v; want %v", line, errFast, err)
			}
		})
	}
}

func TestALineIsReadThoughItIsUnusual(t *testing.T) {
	note := &Note{Time: 5, Text: "a"}
	cases := []struct{ rule, raw string }{
		{"with white space", " \t{ \"line\" : \"note\" , \"time\" : 5 , \"text\" : \"a\" } "},
		{"with its kind at the end", `{"text":"a","time":5,"line":"note"}`},
		{"with escapes in its kind", `{"line":"n\u006fte","time":5,"text":"\u0061"}`},
		{"with fields that a newer format may have", `{"line":"note","time":5,"zip":{"a":[1,null]},"text":"a","zap":1e99}`},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			got, err := newDecoder().decode([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, note) {
				t.Errorf("read %+v, want %+v", got, note)
			}
		})
	}
}

func TestWhatANewerFormatHasIsSkippedAndCounted(t *testing.T) {
	d := newDecoder()
	for _, raw := range []string{
		`{"line":"note","time":5,"zip":1,"zap":2}`, `{"line":"frob","x":[]}`, `{"line":"frob"}`,
		`{"line":"note","time":5,"zip":1}`,
	} {
		if _, err := d.decode([]byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	if d.skipped.lines != 2 || d.skipped.fields != 3 {
		t.Errorf("skipped %d lines and %d fields, want 2 and 3", d.skipped.lines, d.skipped.fields)
	}
	want := []string{`field "zip" of note`, `field "zap" of note`, `line "frob"`}
	if fmt.Sprint(d.skipped.names) != fmt.Sprint(want) {
		t.Errorf("skipped %v, want %v", d.skipped.names, want)
	}
}

func FuzzDecodeLine(f *testing.F) {
	for _, l := range allLines() {
		f.Add(encode(f, l))
	}
	f.Add([]byte(`{"line":"poll-return","process":"c","number":0,"time":5,"records":[{"topic":"t","records":[[1,"a"],[2,null]]}]}`))
	f.Add([]byte(`{"line":"commit","process":"c","number":0,"time":5,"group":"g","offsets":[{"topic":"t","partition":0,"position":-1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, err := newDecoder().decode(raw)
		fast, errFast := newDecoder().decodeFast(raw)
		if !reflect.DeepEqual(line, fast) || fmt.Sprint(err) != fmt.Sprint(errFast) {
			t.Fatalf("%q is read as %+v, %v; fast as %+v, %v", raw, line, err, fast, errFast)
		}
		if err != nil || line == nil {
			return
		}
		// What was read is written and read again as the same.
		again, err := newDecoder().decode(encode(t, line))
		if err != nil {
			t.Fatalf("%q was read and cannot be read again: %v", raw, err)
		}
		if !reflect.DeepEqual(again, line) {
			t.Fatalf("%q is read as %+v, then as %+v", raw, line, again)
		}
	})
}
