// This file holds the list of survivors that are explained, and what is said of them all
// in the end.

package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Each line is a mutant that no test kills, and why none does. Which line of the file it
// is at does not count, so that the list stays true when other code moves.
//
//go:embed explained.jsonl
var explainedLines []byte

// explanation says why a mutant survives.
type explanation struct {
	Package string `json:"package"`
	Mutant
	// Why is the same sentence for all that survive for one reason.
	Why string `json:"why"`
}

// explained gives the explanations of a package, by the mutants' keys.
func explained(name string) (map[string]explanation, error) {
	all := make(map[string]explanation)
	for line := range bytes.Lines(explainedLines) {
		var e explanation
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading explained.jsonl: %w: %s", err, line)
		}
		if e.Package == name {
			all[e.Key()] = e
		}
	}
	return all, nil
}

// summary is what became of the mutants of a package.
type summary struct {
	name   string
	counts map[string]int
	// unexplained are survivors of which nothing is said.
	unexplained []result
	// byWhy are the explained ones.
	byWhy map[string][]result
	// stale are explained and no survivors.
	stale []explanation
}

func (p *trial) summarise() (summary, error) {
	s := summary{name: p.name, counts: make(map[string]int), byWhy: make(map[string][]result)}
	known, err := explained(p.name)
	if err != nil {
		return s, err
	}
	for _, m := range p.mutants {
		r := p.done[m.Key()]
		r.Line = m.Line
		s.counts[r.Fate]++
		if r.Fate == killed || r.Fate == timedOut {
			continue
		}
		if e, is := known[m.Key()]; is {
			s.byWhy[e.Why] = append(s.byWhy[e.Why], r)
			delete(known, m.Key())
		} else {
			s.unexplained = append(s.unexplained, r)
		}
	}
	for _, e := range known {
		s.stale = append(s.stale, e)
	}
	slices.SortFunc(s.stale, func(a, b explanation) int { return cmp.Compare(a.Key(), b.Key()) })
	return s, nil
}

func (s *summary) explained() (count int) {
	for _, of := range s.byWhy {
		count += len(of)
	}
	return count
}

// text names what is to be done, and counts.
func (s *summary) text() string {
	var out strings.Builder
	for _, r := range s.unexplained {
		fmt.Fprintf(&out, "%-11s %s\n", r.Fate, r.Mutant)
	}
	for _, e := range s.stale {
		fmt.Fprintf(&out, "explained, and no survivor (any more): %s %s: `%s` becomes `%s`\n", e.File, e.Function, e.Before, e.After)
	}
	total := 0
	for _, count := range s.counts {
		total += count
	}
	fmt.Fprintf(&out, "%s: %d mutants, %d killed, %d timed out, %d survived and %d not reached; of these %d explained\n",
		s.name, total, s.counts[killed], s.counts[timedOut], s.counts[survived], s.counts[notReached], s.explained())
	return out.String()
}

// markdown is the list of survivors, by the reason why no test kills them.
func (s *summary) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n", s.name)
	reasons := make([]string, 0, len(s.byWhy))
	for why := range s.byWhy {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(s.byWhy[b]), len(s.byWhy[a])), cmp.Compare(a, b))
	})
	for _, why := range reasons {
		writeList(&out, why, s.byWhy[why])
	}
	if len(s.unexplained) > 0 {
		writeList(&out, "Not explained.", s.unexplained)
	}
	return out.String()
}

func writeList(out *strings.Builder, why string, all []result) {
	fmt.Fprintf(out, "**%d:** %s\n\n", len(all), why)
	for _, r := range all {
		after := "`` " + r.After + " ``"
		if r.After == "" {
			after = "nothing"
		}
		fmt.Fprintf(out, "- %s, %s: `` %s `` becomes %s\n", r.File, r.Function, r.Before, after)
	}
	out.WriteString("\n")
}

// table counts the mutants of every package.
func table(all []summary) string {
	var out strings.Builder
	out.WriteString("| package | mutants | killed | timed out | survived | not reached | explained |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range all {
		s := &all[i]
		total := 0
		for _, count := range s.counts {
			total += count
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d |\n", s.name, total, s.counts[killed], s.counts[timedOut],
			s.counts[survived], s.counts[notReached], s.explained())
	}
	return out.String() + "\n"
}
