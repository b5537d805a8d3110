// This file holds how scenarios of the catalogue and what became of them are shown.

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/ackproof/ackproof/checker"
)

// Line is one scenario with one client in the table of a campaign.
type Line struct {
	Name, Client, Verdict, Summary string
	Expected                       *checker.Expected
	TookSeconds                    float64
}

// Table puts what became of many scenarios on w: a line for each, then why those that are
// not as expected are not. It gives the first error of writing.
func (t Text) Table(w io.Writer, lines []Line) error {
	p := &page{Text: t, w: w}
	name, client := len("scenario"), len("client")
	for _, l := range lines {
		name, client = max(name, len(l.Name)), max(client, len(l.Client))
	}
	p.line("%-*s  %-*s  %-11s  %6s  %s", name, "scenario", client, "client", "verdict", "s", "figures")
	counts := make(map[string]int)
	for _, l := range lines {
		counts[l.Verdict]++
		verdict := p.paint(expectedColour(l.Verdict), fmt.Sprintf("%-11s", l.Verdict))
		p.line("%-*s  %-*s  %s  %6.1f  %s", name, l.Name, client, l.Client, verdict, l.TookSeconds, cut(figures(l.Expected)))
	}
	for _, l := range lines {
		if l.Verdict != checker.AsExpected {
			p.line("")
			p.wrapped(fmt.Sprintf("  %-11s", l.Verdict), fmt.Sprintf("%s with %s: %s", l.Name, l.Client, l.Summary))
		}
	}
	p.line("")
	p.line("%d as expected, %d otherwise, %d unknown, %d not applicable", counts[checker.AsExpected], counts[checker.Otherwise],
		counts[checker.UnknownWord], len(lines)-counts[checker.AsExpected]-counts[checker.Otherwise]-counts[checker.UnknownWord])
	return p.err
}

// Markdown gives the same as a table in Markdown.
func Markdown(w io.Writer, lines []Line) error {
	p := &page{w: w}
	p.line("| scenario | client | verdict | figures |")
	p.line("|---|---|---|---|")
	for _, l := range lines {
		text := figures(l.Expected)
		if text == "" {
			text = l.Summary
		}
		p.line("| %s | %s | %s | %s |", l.Name, l.Client, l.Verdict, strings.ReplaceAll(text, "|", "\\|"))
	}
	return p.err
}

// cut cuts a text so that a line of the table stays one line; results.md has all of it.
func cut(text string) string {
	const most = 110
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// mostFigures bounds how many figures stand in a line: an experiment with dozens has a
// table of its own.
const mostFigures = 8

// figures gives what was measured of what was expected, in a line.
func figures(x *checker.Expected) string {
	if x == nil {
		return ""
	}
	var parts []string
	for i, r := range x.Each {
		if i == mostFigures {
			parts = append(parts, fmt.Sprintf("… %d more", len(x.Each)-i))
			break
		}
		parts = append(parts, r.Measure+" "+r.Value())
	}
	return strings.Join(parts, ", ")
}

func expectedColour(verdict string) string {
	switch verdict {
	case checker.AsExpected:
		return green
	case checker.Otherwise:
		return red
	}
	return yellow
}

// expected shows what a scenario claims and what became of what it expects.
func (p *page) expected(v *checker.Verdict) {
	x := v.Expected
	if x == nil {
		return
	}
	if p.Claim != "" {
		p.wrapped("claim:       ", p.Claim)
	}
	p.wrapped(p.paint(expectedColour(x.Verdict), strings.ToUpper(x.Verdict))+"  ", x.Summary)
	p.line("")
	for _, r := range x.Each {
		mark := map[string]string{checker.AsExpected: "  ok  ", checker.Otherwise: "  NOT ", checker.UnknownWord: "  ?   "}[r.Verdict]
		p.line("%s%s is %s (expected: %s)", p.paint(expectedColour(r.Verdict), mark), r.Measure, r.Value(), r.Want())
		p.wrapped("             ", r.Why)
	}
	p.line("")
}
