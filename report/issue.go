// This file holds the text of a bundle that is pasted into an issue.

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// Issue is what the text for an issue says of a run and of the bundle that it lies in.
type Issue struct {
	// Bundle is the file's name; Tool the program that made it, with its version; Limit the size that it was
	// kept under, in bytes.
	Bundle, Tool string
	Limit        int64
	// Verdict is the run's own, Header that of its history.
	Verdict *checker.Verdict
	Header  *histories.Header
	// Cut is the verdict on what is left of the history, where its end was left out.
	Cut   *checker.Verdict
	Files []BundledFile
	// Redactions are the secrets that were taken out, LeftOut what else is not there, each a sentence, Notes
	// what else a reader must know.
	Redactions []*Redaction
	LeftOut    []string
	Notes      []string
}

// BundledFile is a file of a bundle, its size in bytes before it was compressed, and what was done
// with it.
type BundledFile struct {
	Name string
	Size int64
	How  string
}

// Redaction is something that was taken out of a file, in each of Lines.
type Redaction struct {
	File, What string
	Lines      []int64
	Times      int
}

// maxLines is how many lines of one redaction are named.
const maxLines = 8

// AddRedaction notes that something was taken out of a line. What names it, and is never the value.
func (i *Issue) AddRedaction(file string, line int64, what string) {
	at := slices.IndexFunc(i.Redactions, func(r *Redaction) bool { return r.File == file && r.What == what })
	if at < 0 {
		at = len(i.Redactions)
		i.Redactions = append(i.Redactions, &Redaction{File: file, What: what})
	}
	r := i.Redactions[at]
	r.Times++
	if len(r.Lines) < maxLines && !slices.Contains(r.Lines, line) {
		r.Lines = append(r.Lines, line)
	}
}

// Where says in words where it was taken out: "line 3", "lines 3, 9 and 12 more".
func (r *Redaction) Where() string {
	var numbers []string
	for _, line := range r.Lines {
		numbers = append(numbers, fmt.Sprint(line))
	}
	text := "line " + strings.Join(numbers, ", ")
	if len(numbers) > 1 {
		text = "lines " + strings.Join(numbers, ", ")
	}
	if more := r.Times - len(r.Lines); more > 0 && len(r.Lines) == maxLines {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// LeaveOut notes that something is not in the bundle.
func (i *Issue) LeaveOut(format string, args ...any) {
	i.LeftOut = append(i.LeftOut, fmt.Sprintf(format, args...))
}

// Note notes what a reader must know.
func (i *Issue) Note(format string, args ...any) {
	i.Notes = append(i.Notes, fmt.Sprintf(format, args...))
}

// Taken is how many times a secret was taken out.
func (i *Issue) Taken() int {
	n := 0
	for _, r := range i.Redactions {
		n += r.Times
	}
	return n
}

// mostText is how long the text of an issue may be: what trackers take (65,536 characters), and room for
// a sentence.
const mostText = 60_000

// Markdown gives the text, in the Markdown of trackers of issues. Where there is too much to say, it has fewer
// examples, and says where all of them are.
func (i *Issue) Markdown() string {
	text := ""
	for examples := 3; examples >= 0; examples-- {
		m := &markdown{Issue: i, examples: examples, rows: []int{10, 20, 40, 60}[examples]}
		if text = m.write(); len(text) <= mostText {
			return text
		}
	}
	return text[:strings.LastIndexByte(text[:mostText], '\n')+1] + "\n*The rest did not fit an issue: see the bundle.*\n"
}

// markdown writes the text of an issue, with so many examples of an anomaly and so many rows of
// a table.
type markdown struct {
	*Issue
	strings.Builder
	examples, rows int
}

func (m *markdown) line(format string, args ...any) {
	_, _ = fmt.Fprintf(m, format+"\n", args...) // a builder takes everything
}

func (m *markdown) write() string {
	m.headline()
	m.versions()
	m.check()
	m.broken()
	m.doubts()
	m.configuration()
	m.faults()
	m.taken()
	m.contents()
	return m.String()
}

// cell makes a text fit a table's cell, or a line: Markdown must not see in it what it is not.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 400 {
		text = string(runes[:400]) + " …"
	}
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "`", "'", "*", "\\*", "@", "@\u200b").Replace(text)
}

// code puts a text into a line of code.
func code(text string) string {
	return "`" + strings.ReplaceAll(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "'"), "|", "\\|") + "`"
}

func (m *markdown) headline() {
	v := m.Verdict
	m.line("# %s: %s", strings.ToUpper(v.Verdict), cell(strings.TrimPrefix(v.Summary, plantedPrefix)))
	m.line("")
	if v.Planted {
		m.line("> **A planted broker was judged, not Kafka:** this run injected lies (`--allow-lies`), " +
			"faults that no healthy broker shows.")
		m.line("")
	}
	if m.Cut != nil {
		m.line("> **The history in this bundle is cut, for the size.** `verify check` judges what is left of it, and says `%s`: %s. "+
			"`%s` is the run's own, of the whole history.", m.Cut.Verdict, cell(m.Cut.Summary), runs.VerdictFile)
		m.line("")
	}
	if v.History.Cut != "" {
		m.line("> **The run was cut short:** %s", cell(v.History.Cut))
		m.line("")
	}
	for _, note := range m.Notes {
		m.line("> %s", cell(note))
		m.line("")
	}
	c := v.Counts
	m.line("%s events sent: %s acknowledged, %s failed, %s unknown; %s in the log.", thousands(c.Invoked),
		thousands(c.Acknowledged), thousands(c.Failed), thousands(c.Unknown), thousands(c.InLog))
	m.line("")
}

// plantedPrefix is what the summary of a run with lies begins with.
const plantedPrefix = "a planted broker was judged, not Kafka (lies were injected): "

func (m *markdown) versions() {
	h := m.Header
	m.line("| | |")
	m.line("|---|---|")
	row := func(name, text string) {
		if text != "" {
			m.line("| %s | %s |", name, cell(text))
		}
	}
	if h.Cluster != nil {
		row("brokers", fmt.Sprintf("%s (%s, %d brokers)", orUnknown(h.Cluster.Version), orUnknown(h.Cluster.Provider),
			len(h.Cluster.Brokers)))
		row("features", properties(h.Cluster.Features, ", "))
	}
	var clients []string
	for _, c := range m.Verdict.Configurations {
		if c.Client != "" && !slices.Contains(clients, c.Client) {
			clients = append(clients, c.Client)
		}
	}
	row("client", strings.Join(clients, ", "))
	row("recorded by", h.Tool)
	row("bundled by", m.Tool)
	row("scenario", h.Scenario)
	row("seed", fmt.Sprint(h.Seed))
	if !h.Started.IsZero() {
		row("started", h.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	row("run", h.Run)
	m.line("")
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func (m *markdown) check() {
	m.line("## Check it, and play it again")
	m.line("")
	m.line("```")
	m.line("verify check %s", quoted(m.Bundle))
	if slices.ContainsFunc(m.Files, func(f BundledFile) bool { return f.Name == runs.ScenarioFile }) {
		m.line("unzip %s %s", quoted(m.Bundle), runs.ScenarioFile)
		m.line("verify run %s        # seed %d: the same schedule and workload", runs.ScenarioFile, m.Header.Seed)
	}
	m.line("```")
	m.line("")
	m.line("`verify check` needs nothing but the bundle and the binary.")
	if slices.ContainsFunc(m.Redactions, func(r *Redaction) bool { return r.File == runs.ScenarioFile }) {
		m.line("`%s` has `(redacted)` where secrets were: put your own there before it is played.", runs.ScenarioFile)
	}
	m.line("")
}

// quoted makes a name one word of a shell.
func quoted(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// broken tells what was found: what is promised first.
func (m *markdown) broken() {
	titles := []struct{ verdict, title string }{{checker.Violated, "Broken promises"},
		{checker.UnknownWord, "Found, and not judged"},
		{checker.NotPromised, "Found, and not promised otherwise"}}
	for _, t := range titles {
		head := "## " + t.title
		for _, p := range m.Verdict.Promises {
			part := m.Verdict.Anomalies[p.Name]
			if p.Verdict != t.verdict || part == nil || part.Count == 0 {
				continue
			}
			if head != "" {
				m.line("%s\n", head)
				head = ""
			}
			m.finding(p, part)
		}
	}
}

func (m *markdown) finding(p checker.PromiseVerdict, part *checker.AnomalyPart) {
	m.line("### %s: %s", p.Name, times(part.Count))
	m.line("")
	m.line("- promise: %s", cell(p.Promise))
	m.line("- because: %s", cell(p.Reason))
	for n, x := range part.Examples {
		if n >= m.examples {
			break
		}
		m.line("- example: %s", cell(x.Text))
	}
	if part.Count > int64(min(m.examples, len(part.Examples))) {
		m.line("- all of them: `verify check --json %s`", quoted(m.Bundle))
	}
	m.line("")
	if m.examples == 0 || len(part.Examples) == 0 || len(part.Examples[0].Evidence) == 0 {
		return
	}
	m.line("<details><summary>the first example's life, line by line of the history</summary>\n\n```")
	for n, e := range part.Examples[0].Evidence {
		if n == 16 {
			m.line("… %d more in %s", len(part.Examples[0].Evidence)-n, runs.VerdictFile)
			break
		}
		m.line("%s  %s  (line %d)", moment(e.Time), strings.ReplaceAll(clipped(e.Text), "```", "'''"), e.Line)
	}
	if on := faultsDuring(m.Verdict, part.Examples[0]); on != "" {
		m.line("meanwhile: %s", clipped(on))
	}
	m.line("```\n\n</details>\n")
}

// clipped bounds a line of code.
func clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 300 {
		return string(runes[:300]) + " …"
	}
	return text
}

// doubts tells what could not be told.
func (m *markdown) doubts() {
	var lines []string
	for _, a := range m.Verdict.Assumptions {
		if a.Verdict == checker.AssumptionFailed {
			lines = append(lines, fmt.Sprintf("- assumption failed: `%s`: %s", a.Name, cell(a.Detail)))
		}
	}
	var reasons []string
	named := make(map[string][]string) // promises by their reason
	for _, p := range m.Verdict.Promises {
		if part := m.Verdict.Anomalies[p.Name]; p.Verdict == checker.UnknownWord && (part == nil || part.Count == 0) {
			if named[p.Reason] == nil {
				reasons = append(reasons, p.Reason)
			}
			named[p.Reason] = append(named[p.Reason], code(string(p.Name)))
		}
	}
	for _, reason := range reasons {
		lines = append(lines, fmt.Sprintf("- %s: %s", strings.Join(named[reason], ", "), cell(reason)))
	}
	if len(lines) == 0 {
		return
	}
	m.line("## What could not be told\n\n%s\n", strings.Join(lines, "\n"))
}

func (m *markdown) configuration() {
	m.line("## Configuration")
	m.line("")
	for _, c := range m.Verdict.Configurations[:min(len(m.Verdict.Configurations), 3)] {
		m.line("Producer%s, in force:\n\n```properties\n%s\n```\n", of(c.Client), properties(c.Producer, "\n"))
		m.line("<details><summary>Topic, in force</summary>\n\n```properties\n%s\n```\n\n</details>\n", properties(c.Topic, "\n"))
	}
	if h := m.Header; h.Cluster != nil && len(h.Cluster.Properties) > 0 {
		m.line("<details><summary>Brokers, what bears on promises</summary>\n\n```properties\n%s\n```\n\n</details>\n",
			properties(h.Cluster.Properties, "\n"))
	}
}

func of(client string) string {
	if client == "" {
		return ""
	}
	return " (" + cell(client) + ")"
}

func properties(of map[string]string, between string) string {
	var lines []string
	for name, value := range of {
		lines = append(lines, clipped(name+"="+value))
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, between), "```", "'''")
}

func (m *markdown) faults() {
	m.line("## Faults")
	m.line("")
	if len(m.Verdict.Faults) == 0 {
		m.line("None.\n")
		return
	}
	m.line("| fault | target | from – to | took effect | evidence |")
	m.line("|---|---|---|---|---|")
	for n, f := range m.Verdict.Faults {
		if n == m.rows {
			m.line("\n%d more in `%s`.", len(m.Verdict.Faults)-n, runs.VerdictFile)
			break
		}
		bit := "no"
		if f.Bit {
			bit = "yes"
		}
		if f.Lie {
			bit += " (a lie)"
		}
		m.line("| %s | %s | %s – %s | %s | %s |", code(f.ID), cell(f.Target), seconds(f.Start), seconds(f.End), bit,
			cell(f.Evidence+failure(f.Error)))
	}
	m.line("")
}

// taken tells what was taken out, and that nobody can find everything.
func (m *markdown) taken() {
	m.line("## Secrets")
	m.line("")
	if len(m.Redactions) == 0 {
		m.line("None was found. What does not look like one is not found: names of hosts and topics are as they were.\n")
		return
	}
	m.line("Taken out, %s, as below; `(redacted)` stands there now. The history gets the same verdict with and without them. "+
		"What does not look like a secret is not found: names of hosts and topics are as they were.\n", times(int64(m.Taken())))
	m.line("| file | where | what |")
	m.line("|---|---|---|")
	for n, r := range m.Redactions {
		if n == m.rows {
			m.line("\n%d more of other names.", len(m.Redactions)-n)
			break
		}
		m.line("| %s | %s | %s |", code(r.File), r.Where(), code(r.What))
	}
	m.line("")
}

func (m *markdown) contents() {
	m.line("## What is in %s", code(m.Bundle))
	m.line("")
	m.line("| file | size | |")
	m.line("|---|---:|---|")
	for n, f := range m.Files {
		if n == m.rows {
			m.line("\n%d more.", len(m.Files)-n)
			break
		}
		m.line("| %s | %s | %s |", code(f.Name), Size(f.Size), f.How)
	}
	m.line("")
	if len(m.LeftOut) > 0 {
		m.line("Not in it (the limit is %s):\n", Size(m.Limit))
		for n, what := range m.LeftOut {
			if n == m.rows {
				m.line("- %d more", len(m.LeftOut)-n)
				break
			}
			m.line("- %s", cell(what))
		}
		m.line("")
	}
}

// Size gives a size in words, in decimal units as trackers of issues mean them.
func Size(bytes int64) string {
	switch {
	case bytes < 1000:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// Thousands gives a number with its digits in groups of three.
func Thousands(n int64) string { return thousands(n) }
