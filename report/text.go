// Package report holds what a person or a CI system reads of a verdict.
package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/runs"
)

// Text says how a verdict is put on a terminal.
type Text struct {
	// Colour: the reader is a terminal that shows colours.
	Colour bool
	// Directory is the run directory, or empty where only a history was checked.
	Directory string
	// Verbose lists every promise and assumption, not only those that say
	// something.
	Verbose bool
	// Claim is what the scenario that was played claims; empty: none was.
	Claim string
}

// Write puts the verdict on w so that a tired person understands it: the
// conclusion, what broke and how often, the one event that shows it best with its
// whole life, what else was counted, where the evidence lies, what to do next. It
// gives the first error of writing.
func (t Text) Write(w io.Writer, v *checker.Verdict) error {
	p := &page{Text: t, w: w}
	p.expected(v)
	p.headline(v)
	p.broken(v)
	p.uncertain(v)
	p.allowed(v)
	p.promises(v)
	p.counts(v)
	p.faults(v)
	p.next(v)
	return p.err
}

type page struct {
	Text
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// The colours of a terminal (ECMA-48).
const (
	red    = "31;1"
	green  = "32;1"
	yellow = "33;1"
	dim    = "2"
)

func (p *page) paint(colour, text string) string {
	if !p.Colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *page) headline(v *checker.Verdict) {
	colour := map[string]string{checker.Held: green, checker.Violated: red}[v.Verdict]
	if colour == "" {
		colour = yellow
	}
	if v.Planted {
		p.line("%s", p.paint(yellow, "A PLANTED BROKER WAS JUDGED, NOT KAFKA: this run injected lies (--allow-lies)."))
	}
	p.line("%s  %s", p.paint(colour, strings.ToUpper(v.Verdict)), strings.TrimPrefix(v.Summary, plantedPrefix))
	if v.History.Interrupted {
		p.line("The run was interrupted: faults were undone, the clients drained, and what there is was checked.")
	}
	if v.History.Cut != "" {
		p.line("%s %s", p.paint(yellow, "The history is cut:"), v.History.Cut)
	}
	if v.History.Overridden {
		p.line("Judged by the configuration given on the command line, not (only) by the one in the history.")
	}
}

// broken shows each broken promise with its best example.
func (p *page) broken(v *checker.Verdict) {
	for _, promise := range v.Promises {
		if promise.Verdict == checker.Violated {
			p.finding(v, promise, red, "")
			p.wrapped("  promised   ", promise.Promise)
			p.wrapped("  because    ", promise.Reason)
			p.example(v, promise.Name)
		}
	}
}

// allowed shows what happened and may happen under this configuration: what it
// costs.
func (p *page) allowed(v *checker.Verdict) {
	for _, promise := range v.Promises {
		if promise.Verdict == checker.NotPromised && v.Anomalies[promise.Name].Count > 0 {
			p.finding(v, promise, yellow, ", which this configuration does not promise to prevent")
			p.wrapped("  because    ", promise.Reason)
			p.example(v, promise.Name)
		}
	}
}

func (p *page) finding(v *checker.Verdict, promise checker.PromiseVerdict, colour, aside string) {
	p.line("")
	p.line("%s  %s%s", p.paint(colour, string(promise.Name)), times(v.Anomalies[promise.Name].Count), aside)
}

// example tells the life of the events of one example.
func (p *page) example(v *checker.Verdict, name checker.Anomaly) {
	if len(v.Anomalies[name].Examples) == 0 {
		return
	}
	x := v.Anomalies[name].Examples[0]
	p.wrapped("  example    ", x.Text)
	for i, e := range x.Evidence {
		if i == 16 {
			p.line("    %s", p.paint(dim, fmt.Sprintf("… %d more in verdict.json", len(x.Evidence)-i)))
			break
		}
		p.line("    %s  %s  %s", moment(e.Time), e.Text, p.paint(dim, fmt.Sprintf("(line %d)", e.Line)))
	}
	if on := faultsDuring(v, x); on != "" {
		p.line("  meanwhile  %s", on)
	}
}

// moment gives a time since the start of the run, in seconds.
func moment(ns *int64) string {
	if ns == nil {
		return "   at the end"
	}
	return fmt.Sprintf("%11.6f s", float64(*ns)/1e9)
}

// faultsDuring names the faults that were on between the first and the last
// evidence.
func faultsDuring(v *checker.Verdict, x checker.Example) string {
	var first, last *int64
	for _, e := range x.Evidence {
		if e.Time != nil {
			if first == nil {
				first = e.Time
			}
			last = e.Time
		}
	}
	if first == nil || len(v.Faults) == 0 {
		return ""
	}
	var names []string
	for _, f := range v.Faults {
		if f.Start <= *last && f.End >= *first {
			names = append(names, f.ID)
		}
	}
	if len(names) == 0 {
		return "no fault was on"
	}
	return strings.Join(names, ", ")
}

// uncertain lists what could not be told, and which assumption failed.
func (p *page) uncertain(v *checker.Verdict) {
	for _, a := range v.Assumptions {
		if a.Verdict == checker.AssumptionFailed {
			p.line("")
			p.line("%s  %s", p.paint(yellow, "assumption failed: "+a.Name), a.Detail)
		}
	}
	for _, promise := range v.Promises {
		part := v.Anomalies[promise.Name]
		if promise.Verdict == checker.UnknownWord && part.Count > 0 {
			p.line("")
			p.line("%s  found %s, not judged", p.paint(yellow, string(promise.Name)), times(part.Count))
			p.wrapped("  because    ", promise.Reason)
			p.example(v, promise.Name)
		}
	}
}

// promises is the table of all promises.
func (p *page) promises(v *checker.Verdict) {
	p.line("")
	head := fmt.Sprintf("  %-26s %-13s %8s", "promise", "verdict", "found")
	for _, promise := range v.Promises {
		part := v.Anomalies[promise.Name]
		boring := promise.Verdict == checker.Held || promise.Verdict == checker.NotTested
		if boring && !p.Verbose {
			continue
		}
		if head != "" {
			p.line("%s", head)
			head = ""
		}
		verdict := p.paint(colourOf(promise.Verdict, part.Count), fmt.Sprintf("%-13s", promise.Verdict))
		p.line("  %-26s %s %8s", promise.Name, verdict, thousands(part.Count))
	}
	if !p.Verbose {
		p.summary(v, checker.Held)
		p.summary(v, checker.NotTested)
	}
}

func colourOf(verdict string, found int64) string {
	switch {
	case verdict == checker.Violated:
		return red
	case verdict == checker.UnknownWord:
		return yellow
	case verdict == checker.Held:
		return green
	case found > 0:
		return yellow
	}
	return dim
}

// summary names the promises of one verdict in a sentence.
func (p *page) summary(v *checker.Verdict, verdict string) {
	var named []string
	for _, promise := range v.Promises {
		if promise.Verdict == verdict {
			named = append(named, string(promise.Name))
		}
	}
	if len(named) > 0 {
		p.wrapped(fmt.Sprintf("  %-11s", verdict), strings.Join(named, ", "))
	}
}

// together stands for a space at which no line is broken.
const together = "\u00a0"

// wrapped prints a long text in lines of bounded width.
func (p *page) wrapped(head, text string) {
	line := head
	for word := range strings.SplitSeq(text, " ") {
		if len(line)+len(word) > 98 {
			p.line("%s", strings.TrimRight(strings.ReplaceAll(line, together, " "), " "))
			line = strings.Repeat(" ", 13)
		}
		line += word + " "
	}
	p.line("%s", strings.TrimRight(strings.ReplaceAll(line, together, " "), " "))
}

func (p *page) counts(v *checker.Verdict) {
	c := v.Counts
	p.line("")
	p.line("  events     %s sent: %s acknowledged, %s failed, %s unknown; %s in the log", thousands(c.Invoked),
		thousands(c.Acknowledged), thousands(c.Failed), thousands(c.Unknown), thousands(c.InLog))
	var more []string
	for _, x := range []struct {
		n    int64
		name string
	}{{c.Holes, "holes"}, {c.Ghosts, "unknown ones that were written (ghosts)"}, {c.StaleDuplicates, "stale duplicates"},
		{c.UnconfirmedLosses, "reported as sent without an answer, and absent"},
		{c.ApplicationDuplicates, "written again by the application"}, {c.Foreign, "records of others (ignored)"},
		{v.Anomalies[checker.OrderViolation].Moved, "events out of place in their key's order"}} {
		if x.n > 0 {
			more = append(more, thousands(x.n)+" "+x.name)
		}
	}
	if len(more) > 0 {
		p.wrapped("  counted    ", strings.Join(more, ", "))
	}
	for _, note := range v.History.Notes {
		p.line("  note       %s", note)
	}
	for _, a := range v.Assumptions {
		if p.Verbose {
			p.line("  assumed    %s: %s (%s)", a.Name, a.Verdict, a.Detail)
		}
	}
	p.line("  judges     second judge (porcupine, %s appends): %s", thousands(v.SecondJudge.Operations), v.SecondJudge.Detail)
}

func (p *page) faults(v *checker.Verdict) {
	if len(v.Faults) == 0 {
		p.line("  faults     none")
		return
	}
	var names []string
	injected, bit := make(map[string]int), make(map[string]int)
	for _, f := range v.Faults {
		if injected[f.Name] == 0 {
			names = append(names, f.Name)
		}
		injected[f.Name]++
		if f.Bit {
			bit[f.Name]++
		}
	}
	slices.Sort(names)
	var parts []string
	total := 0
	for _, name := range names {
		total += bit[name]
		part := fmt.Sprintf("%s %d", name, bit[name])
		if bit[name] < injected[name] {
			part = fmt.Sprintf("%s %d of %d", name, bit[name], injected[name])
		}
		parts = append(parts, strings.ReplaceAll(part, " ", together))
	}
	p.wrapped("  faults     ", fmt.Sprintf("%d of %d bit: %s", total, len(v.Faults), strings.Join(parts, ", ")))
	for _, f := range v.Faults {
		if p.Verbose || f.Error != "" {
			p.line("    %s – %s  %s  %s: %s%s", seconds(f.Start), seconds(f.End), f.ID, f.Target, f.Evidence, failure(f.Error))
		}
	}
}

func failure(text string) string {
	if text == "" {
		return ""
	}
	return "; failed: " + text
}

func seconds(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }

// next says where the evidence lies and what to do.
func (p *page) next(v *checker.Verdict) {
	p.line("")
	where := p.Directory
	if where == "" {
		where = cmp.Or(v.History.Path, "HISTORY")
	}
	if p.Directory != "" {
		brokers := ""
		if _, err := os.Stat(filepath.Join(p.Directory, runs.BrokersDir)); err == nil {
			brokers = ", " + runs.BrokersDir + "/: their logs and configurations"
		}
		p.line("  evidence   %s (history.jsonl.zst, verdict.json, scenario.yaml%s)", p.Directory, brokers)
	}
	switch v.Verdict {
	case checker.Violated:
		p.line("  next       every instance with its proof: verify check --json %s", where)
		if p.Directory != "" {
			p.line("             play the same again:           verify run %s/scenario.yaml", p.Directory)
		}
	case checker.UnknownWord:
		p.line("  next       this is not a pass; what is said above in %q must be mended first", "assumption failed")
	default:
		p.line("  next       check it again: verify check %s; all there is to say: --verbose", where)
	}
}

func times(n int64) string {
	if n == 1 {
		return "1 time"
	}
	return thousands(n) + " times"
}

// thousands gives a number with its digits in groups of three.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
