// This file holds the picture of a window of the second judge: porcupine's own page,
// in Kafka's words.

package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/anishathalye/porcupine"
)

//go:embed picture.html
var pictureHTML string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureHTML))

// The colours of boxes that are marked, as CSS has them.
const (
	colourContradiction = "#f6a29b"
	colourUnanswered    = "#d9d9f3"
	colourFault         = "#fbd38d"
	colourCluster       = "#d6c7f0"
	colourPoll          = "#cdeccd"
)

// errPictureChanged: porcupine's page does not have the places that ours is put into.
var errPictureChanged = errors.New("drawing the window: porcupine's page is not as it was when this was written")

// Picture writes an HTML page that shows a window of a verdict (see
// checker.Options.Windows): the appends, the order of the log through them as far as
// one explains it, and the faults, cluster events and polls of that time. The page loads
// nothing. The error is that of writing, or says that the window and porcupine disagree.
func Picture(w io.Writer, v *checker.Verdict, window *checker.Window) error {
	p := newPicture(v, window)
	result, info := porcupine.CheckOperationsVerbose(p.model(), p.operations, time.Minute)
	if (result == porcupine.Illegal) != (window.Contradiction != nil) || result == porcupine.Unknown {
		return fmt.Errorf("drawing the window of %s: porcupine says %s of it now, which is a defect of ours", p.partition(), result)
	}
	info.AddAnnotations(p.annotations())
	var page bytes.Buffer
	if err := porcupine.Visualize(p.model(), info, &page); err != nil {
		return fmt.Errorf("drawing the window of %s: %w", p.partition(), err)
	}
	return p.write(w, page.String())
}

type picture struct {
	verdict    *checker.Verdict
	window     *checker.Window
	operations []porcupine.Operation
	lanes      []string // of appends
	start, end int64    // of what is shown
}

func newPicture(v *checker.Verdict, window *checker.Window) *picture {
	p := &picture{verdict: v, window: window, start: window.Appends[0].Call}
	p.end = p.start
	for _, a := range window.Appends {
		p.start, p.end = min(p.start, a.Call), max(p.end, a.Call, a.Return)
	}
	for _, poll := range window.Polls {
		p.start, p.end = min(p.start, poll.Call), max(p.end, poll.Return)
	}
	p.end++ // where what was never answered ends
	for i, a := range window.Appends {
		p.operations = append(p.operations, porcupine.Operation{Input: i, Output: i, Call: a.Call, Return: p.returned(a), Metadata: i})
	}
	p.layOut()
	return p
}

func (p *picture) returned(a checker.Append) int64 {
	if a.Return == histories.Unknown {
		return p.end
	}
	return a.Return
}

// layOut gives each row of each producer a place: first those of the contradiction.
func (p *picture) layOut() {
	type row struct {
		process string
		row     int
	}
	var rows []row
	for _, a := range p.window.Appends {
		if r := (row{a.Process, a.Row}); !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	weight := func(r row) int {
		if c := p.window.Contradiction; c != nil {
			for n, i := range []int{c[1], c[0]} {
				if p.window.Appends[i].Process == r.process {
					return n
				}
			}
		}
		return 2
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), strings.Compare(a.process, b.process), cmp.Compare(a.row, b.row))
	})
	for i, a := range p.window.Appends {
		p.operations[i].ClientId = slices.Index(rows, row{a.Process, a.Row})
	}
	for _, r := range rows {
		name := "producer " + short(r.process)
		if r.row > 0 {
			name = ""
		}
		p.lanes = append(p.lanes, name)
	}
}

// short cuts a name that is too long for a picture.
func short(name string) string {
	if runes := []rune(name); len(runes) > 40 {
		return string(runes[:39]) + "…"
	}
	return name
}

// model is the second judge's, in words. Its inputs, outputs and metadata are indices
// into the window's appends.
func (p *picture) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, _, output any) (bool, any) { return output.(int) == state.(int), output.(int) + 1 },
		DescribeOperation: func(_, output any) string {
			a := p.window.Appends[output.(int)]
			return fmt.Sprintf("%s @%d", short(a.Event), a.Offset)
		},
		DescribeState: func(state any) string {
			n := state.(int)
			if n == 0 {
				return "the log before these appends"
			}
			a := p.window.Appends[n-1]
			return html.EscapeString(fmt.Sprintf("the log up to offset %d (%s)", a.Offset, a.Event))
		},
		DescribeOperationMetadata: func(info any) string { return html.EscapeString(p.describe(info.(int))) },
	}
}

func (p *picture) partition() string {
	return fmt.Sprintf("%s/%d", p.window.Partition.Topic, p.window.Partition.Partition)
}

// describe says what is known of an append.
func (p *picture) describe(i int) string {
	a := p.window.Appends[i]
	text := fmt.Sprintf("%s\n%s called at %s\n", a.Event, a.Process, p.milliseconds(a.Call))
	switch {
	case a.Acknowledged:
		text += "acknowledged at " + p.milliseconds(a.Return)
	case a.Return == histories.Unknown:
		text += "never acknowledged"
	default:
		text += "never acknowledged; a later one was, at " + p.milliseconds(a.Return)
	}
	text += fmt.Sprintf("\nlies at %s offset %d", p.partition(), a.Offset)
	if c := p.window.Contradiction; c != nil && i == c[0] {
		text += "\nIt was called after " + p.window.Appends[c[1]].Event + " had been acknowledged, and lies before it."
	}
	return text
}

// milliseconds gives a time since the start of the run, to the nanosecond where all that is
// shown took less than a millisecond.
func (p *picture) milliseconds(ns int64) string {
	fraction := fmt.Sprintf("%06d", max(ns%1e6, -(ns%1e6)))
	if p.end-p.start >= 1e6 {
		fraction = fraction[:3]
	}
	return thousands(ns/1e6) + "." + fraction + " ms"
}

// annotations are what is not modelled.
func (p *picture) annotations() []porcupine.Annotation {
	var all []porcupine.Annotation
	for _, poll := range p.window.Polls {
		text := fmt.Sprintf("given @%d", poll.First)
		if poll.Number > 1 {
			text = fmt.Sprintf("given %d: @%d to @%d", poll.Number, poll.First, poll.Last)
		}
		all = append(all, porcupine.Annotation{Tag: "polls of " + short(poll.Process), Start: poll.Call, End: poll.Return,
			Description: text, BackgroundColor: colourPoll,
			Details: fmt.Sprintf("%s polled at %s and was given at %s: %d records of %s from offset %d to %d", poll.Process,
				p.milliseconds(poll.Call), p.milliseconds(poll.Return), poll.Number, p.partition(), poll.First, poll.Last)})
	}
	if p.window.SameClock {
		all = append(all, p.faults()...)
		all = append(all, p.cluster()...)
	}
	return all
}

func (p *picture) faults() []porcupine.Annotation {
	var all []porcupine.Annotation
	for _, f := range p.verdict.Faults {
		end, until := p.end, "not recorded"
		if f.End >= f.Start {
			end, until = f.End, p.milliseconds(f.End)
		}
		if f.Start > p.end || end < p.start {
			continue
		}
		all = append(all, porcupine.Annotation{Tag: "fault " + short(f.ID), Start: max(f.Start, p.start), End: min(end, p.end),
			Description: short(f.Name + " on " + f.Target), BackgroundColor: colourFault,
			Details: fmt.Sprintf("%s on %s\nbegan at %s, end: %s\n%s", f.ID, f.Target, p.milliseconds(f.Start), until, f.Evidence)})
	}
	return all
}

// cluster gives the cluster's events, those of one moment together.
func (p *picture) cluster() []porcupine.Annotation {
	var all []porcupine.Annotation
	for _, c := range p.window.Cluster {
		if c.Time < p.start || c.Time > p.end {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Start == c.Time {
			all[n-1].Details += "\n" + c.What + ": " + c.Detail
			continue
		}
		all = append(all, porcupine.Annotation{Tag: "the cluster", Start: c.Time, End: c.Time, Description: short(c.What),
			BackgroundColor: colourCluster, Details: fmt.Sprintf("at %s\n%s: %s", p.milliseconds(c.Time), c.What, c.Detail)})
	}
	return all
}

// about is what the page says above porcupine's.
type about struct {
	Title, Extent, Run, Verdict, Below string
	Contradiction                      *contradiction
	Unanswered                         bool
}

type contradiction struct {
	First, Second             int
	FirstEvent, SecondEvent   string
	FirstCall, SecondReturn   string
	FirstOffset, SecondOffset int64
	SecondReturned            string
}

func (p *picture) about() about {
	w := p.window
	a := about{Run: p.verdict.Run, Verdict: p.verdict.Verdict,
		Title: fmt.Sprintf("The appends of %s are linearizable", p.partition())}
	if c := w.Contradiction; c != nil {
		first, second := w.Appends[c[0]], w.Appends[c[1]]
		a.Title = fmt.Sprintf("The appends of %s are not linearizable", p.partition())
		a.Contradiction = &contradiction{First: c[0], Second: c[1], FirstEvent: first.Event, SecondEvent: second.Event,
			FirstCall: p.milliseconds(first.Call), SecondReturn: p.milliseconds(second.Return),
			FirstOffset: first.Offset, SecondOffset: second.Offset, SecondReturned: "was acknowledged"}
		if !second.Acknowledged {
			a.Contradiction.SecondReturned = "had been appended (a later append was acknowledged)"
		}
	}
	a.Extent = fmt.Sprintf("Shown: %s of the partition's %s appends, offsets %d to %d.", thousands(int64(len(w.Appends))),
		thousands(int64(w.Of)), w.Appends[0].Offset, w.Appends[len(w.Appends)-1].Offset)
	if w.LeftOut > 0 {
		a.Extent += fmt.Sprintf(" Left out so that it can be read: %s appends between these; they would change nothing.",
			thousands(int64(w.LeftOut)))
	}
	if p.verdict.Planted {
		a.Verdict += ", of a planted broker, not of Kafka (lies were injected)"
	}
	a.Unanswered = slices.ContainsFunc(w.Appends, func(x checker.Append) bool { return !x.Acknowledged })
	a.Below = p.below()
	return a
}

// below says what the annotations are.
func (p *picture) below() string {
	var parts []string
	if len(p.window.Polls) > 0 {
		text := "polls of consumers that were given some of these records"
		if len(p.window.Polls) == checker.WindowPolls {
			text += fmt.Sprintf(" (the first %d)", checker.WindowPolls)
		}
		parts = append(parts, text)
	}
	switch {
	case !p.window.SameClock:
		parts = append(parts, "no faults and no events of the cluster, since another clock than the appends' stamped them")
	case len(p.faults())+len(p.cluster()) > 0:
		parts = append(parts, "the faults that were on, and what the cluster said")
	default:
		parts = append(parts, "no fault was on, and the cluster said nothing")
	}
	return strings.Join(parts, "; ") + ". None of it is judged here."
}

// write puts our words into porcupine's page.
func (p *picture) write(w io.Writer, page string) error {
	colours := make(map[int]string)
	for i, a := range p.window.Appends {
		if !a.Acknowledged {
			colours[i] = colourUnanswered
		}
	}
	show := 0
	if c := p.window.Contradiction; c != nil {
		show = c[0]
		colours[c[0]], colours[c[1]] = colourContradiction, colourContradiction
	}
	about := p.about()
	page = strings.Replace(page, "<title>Porcupine</title>", "", 1)
	for _, part := range []struct {
		name, place, put string // the place, and it again with %s where our part goes
		data             any
	}{
		{"head", "</head>", "%s</head>", about}, // behind porcupine's style, which ours overrides
		{"about", "<body>", "<body>%s", about},
		{"script", "</body>", "%s</body>", map[string]any{"Lanes": p.lanes, "Colours": colours, "Show": show}},
	} {
		var text strings.Builder
		if err := pictureTemplate.ExecuteTemplate(&text, part.name, part.data); err != nil {
			return fmt.Errorf("drawing the window of %s: %w", p.partition(), err)
		}
		if strings.Count(page, part.place) != 1 { // in data, < is escaped
			return errPictureChanged
		}
		page = strings.Replace(page, part.place, fmt.Sprintf(part.put, text.String()), 1)
	}
	_, err := io.WriteString(w, page)
	return err
}
