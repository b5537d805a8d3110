// This file holds how the figures of the corpus are shown.

package report

import (
	"io"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/corpus"
)

// Corpus puts the checker's marks on w: the whole, each anomaly in a line, with Verbose
// each anomaly at each place, and what was judged wrong. It gives the first error of
// writing.
func (t Text) Corpus(w io.Writer, f *corpus.Figures) error {
	p := &page{Text: t, w: w}
	p.line("%s histories of seed %d: %s healthy, %s with a defect, %s with one that nobody could tell of", thousands(f.Histories),
		f.Seed, thousands(f.Healthy), thousands(f.Planted), thousands(f.Undecidable))
	p.line("")
	p.line("  found, and named right   %s of %s", thousands(f.Found), thousands(f.Planted))
	p.line("  called unknown, rightly  %s of %s", thousands(f.SaidUnknown), thousands(f.Undecidable))
	p.line("  something else named     %s", thousands(f.NamedWrong))
	p.line("  false alarms             %s", thousands(f.FalseAlarms))
	p.line("  unknown without need     %s", thousands(f.Unsure))
	p.line("  the judges disagree      %s", thousands(f.JudgesDisagree))
	p.line("")
	p.line("%-24s  %9s  %9s  %11s  %11s  %6s", "anomaly", "planted", "found", "undecidable", "unknown", "places")
	for _, d := range checker.Anomalies() {
		p.sensitivity(d.Name, f.Anomalies[d.Name])
	}
	if t.Verbose {
		p.placesOf(f)
	}
	for _, failure := range f.Failures {
		p.line("")
		p.wrapped("  wrong  ", failure.Case+": "+failure.What)
	}
	p.line("")
	if f.Right() {
		p.line("%s", p.paint(green, "every defect was found and named right, and nothing that is not there"))
	} else {
		p.line("%s", p.paint(red, "the checker, or the corpus, is wrong"))
	}
	return p.err
}

func (p *page) sensitivity(name checker.Anomaly, places map[string]*corpus.Share) {
	var planted, found, undecidable, unknown int64
	for _, s := range places {
		if s.Verdict == checker.Violated {
			planted, found = planted+s.Planted, found+s.Right
		} else {
			undecidable, unknown = undecidable+s.Planted, unknown+s.Right
		}
	}
	p.line("%-24s  %9s  %9s  %11s  %11s  %6d", name, thousands(planted), thousands(found), thousands(undecidable),
		thousands(unknown), len(places))
}

// placesOf lists each anomaly at each place.
func (p *page) placesOf(f *corpus.Figures) {
	for _, d := range checker.Anomalies() {
		p.line("")
		p.line("%s", d.Name)
		for _, at := range corpus.Places() {
			if s := f.Anomalies[d.Name][at.Name]; s != nil {
				word := "found"
				if s.Verdict != checker.Violated {
					word = "unknown"
				}
				p.line("  %-24s  %s of %s %s", at.Name, thousands(s.Right), thousands(s.Planted), word)
			}
		}
	}
}
