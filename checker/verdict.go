// This file holds the verdict: what verdict.json says, and how the parts make the
// whole.

package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// VerdictVersion is the version of the verdict's JSON form; a field is added
// under a new minor version and removed or changed under a new major one.
const VerdictVersion = "1.1"

// The verdicts.
const (
	Held        = "held"
	Violated    = "violated"
	UnknownWord = "unknown"
	NotPromised = "not-promised"
	NotTested   = "not-tested"
)

// Verdict is the whole judgement of one history. Its JSON form is verdict.json,
// documented in doc/VERDICT.md.
type Verdict struct {
	Version string `json:"version"`
	// Verdict is Held, Violated or UnknownWord.
	Verdict string `json:"verdict"`
	// Summary is the verdict in a sentence.
	Summary string `json:"summary"`
	// Planted: faults that no healthy broker shows (lies) were injected, so it
	// was a planted broker that was judged, not Kafka.
	Planted bool   `json:"planted,omitempty"`
	Run     string `json:"run"`
	// History says where the history came from and how much of it there is.
	History        HistorySummary           `json:"history"`
	Configurations []Configuration          `json:"configurations"`
	Promises       []PromiseVerdict         `json:"promises"`
	Anomalies      map[Anomaly]*AnomalyPart `json:"anomalies"`
	Counts         Counts                   `json:"counts"`
	Assumptions    []Assumption             `json:"assumptions"`
	Faults         []*Fault                 `json:"faults"`
	SecondJudge    SecondJudge              `json:"second_judge"`
	// Measures are numbers about the run, and Expected what became of what its scenario
	// expects; only of a run that expects something.
	Measures Measures  `json:"measures,omitempty"`
	Expected *Expected `json:"expected,omitempty"`
	// Windows of the second judge, if Options.Windows asked for them: by partition in
	// the order in which the history names them. They are no part of the JSON form.
	Windows []*Window `json:"-"`

	options Options // that it was checked with
}

// HistorySummary says what was read.
type HistorySummary struct {
	Path   string   `json:"path,omitempty"`
	Format string   `json:"format"`
	Tool   string   `json:"tool,omitempty"`
	Lines  int64    `json:"lines"`
	Cut    string   `json:"cut,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Overridden: properties that the caller supplied or put over the header's.
	Overridden bool `json:"overridden,omitempty"`
	// Interrupted: the run was ended before its time, and healed.
	Interrupted bool `json:"interrupted,omitempty"`
}

// PromiseVerdict is the verdict on one promise.
type PromiseVerdict struct {
	Name    Anomaly `json:"name"`
	Promise string  `json:"promise"`
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason"`
}

// AnomalyPart is what was found of one anomaly.
type AnomalyPart struct {
	Count int64 `json:"count"`
	// Promised: the configuration promises that it does not happen; null: that
	// depends on something that is not known.
	Promised *bool `json:"promised"`
	// Undecided counts what might be an instance, had more been recorded.
	Undecided int64 `json:"undecided,omitempty"`
	// Examples are the most telling few, with every operation that proves them.
	Examples []Example `json:"examples"`
	// Instances is the whole list.
	Instances []Instance `json:"instances,omitempty"`
	// Moved, for order violations: the least number of events that would have
	// to move for the order to hold.
	Moved int64 `json:"events_moved,omitempty"`
}

// Example is an instance with the life of its events.
type Example struct {
	Instance
	Evidence []Evidence `json:"evidence"`
}

// Counts are what was counted and is no violation by itself.
type Counts struct {
	Invoked      int64 `json:"invoked"`
	Acknowledged int64 `json:"acknowledged"`
	Failed       int64 `json:"failed"`
	Unknown      int64 `json:"unknown"`
	// InLog counts records that are events of this run.
	InLog   int64 `json:"in_log"`
	Foreign int64 `json:"foreign"`
	Polls   int64 `json:"polls"`
	// Holes: failed or unknown and absent, the next one acknowledged. Ghosts:
	// unknown and present.
	Holes  int64 `json:"holes"`
	Ghosts int64 `json:"ghosts"`
	// StaleDuplicates: copies that lie behind the first place of a later event.
	StaleDuplicates int64 `json:"stale_duplicates"`
	// UnconfirmedLosses: reported as sent without a broker's answer, and absent.
	UnconfirmedLosses int64 `json:"unconfirmed_losses"`
	// Resends and ApplicationDuplicates: sent again by the application, and
	// therefore more than once in the log.
	Resends               int64 `json:"resends"`
	ApplicationDuplicates int64 `json:"application_duplicates"`

	Moved int64 `json:"-"`
}

// Fault is one fault as the history tells it. Times are nanoseconds since the
// start of the run.
type Fault struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Target   string            `json:"target"`
	Settings map[string]string `json:"settings,omitempty"`
	Start    int64             `json:"start"`
	End      int64             `json:"end"`
	Bit      bool              `json:"bit"`
	Evidence string            `json:"evidence"`
	Effects  []string          `json:"effects,omitempty"`
	Error    string            `json:"error,omitempty"`
	Lie      bool              `json:"lie,omitempty"`
	// Attempted counts the sends that were invoked during the fault.
	Attempted int64 `json:"attempted"`
}

// verdict puts the findings, the promises and the assumptions together; conclude makes the
// whole of it, once the second judge has spoken.
func (f *findings) verdict() *Verdict {
	s := f.state
	v := &Verdict{
		Version: VerdictVersion, Run: s.header.Run, History: s.historySummary(),
		Anomalies: make(map[Anomaly]*AnomalyPart), Assumptions: s.assumptions(), Faults: s.faults, Counts: f.counts,
		options: s.options,
	}
	if v.Faults == nil {
		v.Faults = []*Fault{}
	}
	for _, c := range s.configurations {
		v.Configurations = append(v.Configurations, c.Configuration)
	}
	for _, fault := range s.faults {
		v.Planted = v.Planted || fault.Lie
	}
	for _, log := range s.logs {
		for _, r := range log.records {
			if r.event != foreign && !s.events[r.event].told {
				v.Counts.InLog++
			}
		}
	}
	v.Counts.Foreign, v.Counts.Polls = s.foreign, s.polls
	for _, d := range Anomalies() {
		part := f.part(d.Name)
		v.Anomalies[d.Name] = part
		v.Promises = append(v.Promises, f.judgePromise(d, part, v.Assumptions))
	}
	return v
}

// part gathers the instances of one anomaly, promised ones first.
func (f *findings) part(name Anomaly) *AnomalyPart {
	instances := f.instances[name]
	slices.SortStableFunc(instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(weight(b.promised), weight(a.promised)), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Text, b.Text))
	})
	part := &AnomalyPart{Count: int64(len(instances)), Instances: instances, Examples: []Example{}}
	part.Promised = f.state.configurations[0].promises[name].Promised
	if len(instances) > 0 {
		part.Promised = instances[0].promised
	}
	if name == OrderViolation {
		part.Moved = f.counts.Moved
	}
	if u := f.undecided[name]; u != nil {
		part.Undecided = u.count
	}
	for i := 0; i < len(instances) && i < f.state.options.examples(); i++ {
		part.Examples = append(part.Examples, Example{Instance: instances[i], Evidence: []Evidence{}})
	}
	return part
}

// weight orders promised before undecidable before allowed.
func weight(promised *bool) int {
	switch {
	case promised == nil:
		return 1
	case *promised:
		return 2
	}
	return 0
}

// judgePromise gives the verdict on one promise: a proven violation stands unless
// a failed assumption could have produced it; nothing is held that rests on a
// failed assumption.
func (f *findings) judgePromise(d Description, part *AnomalyPart, assumptions []Assumption) PromiseVerdict {
	p := PromiseVerdict{Name: d.Name, Promise: d.Promise}
	reason := f.state.reasonFor(d.Name, part)
	weak, untested := failedFor(d.Name, assumptions), f.untested(d.Name, part)
	switch {
	case part.Promised != nil && !*part.Promised:
		p.Verdict = NotPromised
		p.Reason = reason
	case part.Count > 0 && weak != nil && weak.overrides:
		p.Verdict, p.Reason = UnknownWord, fmt.Sprintf("%d found, but that proves nothing: %s", part.Count, weak.Detail)
	case part.Count > 0 && d.Name == Unseen && !f.state.hasFinalRead:
		part.Promised = nil
		p.Verdict = UnknownWord
		p.Reason = "without a final read nobody can tell whether these are lost, not shown, or merely not read yet"
	case part.Count > 0 && part.Promised == nil:
		p.Verdict, p.Reason = UnknownWord, reason
	case part.Count > 0:
		p.Verdict, p.Reason = Violated, reason
	case untested != "":
		p.Verdict, p.Reason = NotTested, untested
	case weak != nil:
		p.Verdict, p.Reason = UnknownWord, "rests on "+weak.Name+", which failed: "+weak.Detail
	case part.Undecided > 0:
		p.Verdict = UnknownWord
		p.Reason = fmt.Sprintf("%d events cannot be told: %s", part.Undecided, f.undecided[d.Name].reason)
	case part.Promised == nil:
		p.Verdict, p.Reason = Held, "nothing was found, so it does not matter what the configuration promises"
	default:
		p.Verdict, p.Reason = Held, reason
	}
	return p
}

// untested says why an anomaly of which nothing was found could not have been; empty:
// it could.
func (f *findings) untested(name Anomaly, part *AnomalyPart) string {
	switch {
	case f.state.cannotBreak(name):
		return "nothing on this cluster could have broken it"
	case name == ReplicaDivergence && !f.state.replicasWereRead():
		return "no replica was read"
	case f.state.silentOn(name) && part.Undecided == 0:
		return "nothing in this history speaks of it"
	}
	return ""
}

// reasonFor gives the table's reason, for the configuration that the first
// instance is judged by.
func (s *state) reasonFor(name Anomaly, part *AnomalyPart) string {
	config := s.configurations[0]
	if len(part.Instances) > 0 && len(part.Instances[0].numbers) > 0 {
		if e := part.Instances[0].numbers[0]; e != foreign && s.events[e].first != 0 {
			config = s.configurationOf(&s.sends[s.events[e].first-1])
		}
	}
	return config.promises[name].Reason
}

func (s *state) cannotBreak(name Anomaly) bool {
	return s.header.Cluster != nil && slices.Contains(s.header.Cluster.CannotBreak, string(name))
}

// silentOn: an imported history can lack what an anomaly would show in. Histories
// of our own never do; where theirs is missing, an assumption failed.
func (s *state) silentOn(name Anomaly) bool {
	if s.header.Source == nil {
		return false
	}
	switch name {
	case NotRecovered:
		return len(s.cluster) == 0 && len(s.freshByLog()) == 0
	case EpochRegression:
		return !s.hasFinalRead
	case Corrupt:
		return true // values are opaque there
	case RealtimeOrderViolation, FutureRead:
		return s.withoutTimes()
	default:
		return false
	}
}

// withoutTimes: the source does not say when what was sent was sent.
func (s *state) withoutTimes() bool {
	return s.header.Source != nil && slices.Contains(s.header.Source.NotApplicable, AssumeTimesForward)
}

// failedFor gives the first failed assumption that a promise rests on. Of those that one
// promise rests on the overriding ones are asked first.
func failedFor(name Anomaly, assumptions []Assumption) *Assumption {
	for i := range assumptions {
		if a := &assumptions[i]; a.Verdict == AssumptionFailed && slices.Contains(a.RestOn, name) {
			return a
		}
	}
	return nil
}

func (s *state) historySummary() HistorySummary {
	h := HistorySummary{Format: "ackproof", Tool: s.header.Tool, Lines: s.lines + 1,
		Overridden:  s.options.Producer != nil || s.options.Topic != nil,
		Interrupted: s.end != nil && s.end.Reason == histories.EndInterrupted}
	if s.cut != nil {
		h.Cut = s.cut.Error()
	}
	if s.header.Source != nil {
		h.Format, h.Notes = s.header.Source.Format, s.header.Source.Notes
	}
	return h
}

// conclude makes the whole: violated if any promise is; else unknown if any is,
// or if nothing was even attempted; else held.
func (v *Verdict) conclude() {
	by := make(map[string][]string)
	for _, p := range v.Promises {
		by[p.Verdict] = append(by[p.Verdict], string(p.Name))
	}
	switch {
	case len(by[Violated]) > 0:
		v.Verdict = Violated
		v.Summary = "a promise was broken: " + strings.Join(by[Violated], ", ")
	case v.Counts.Invoked == 0:
		v.Verdict = UnknownWord
		v.Summary = "nothing was attempted, so nothing can be said"
	case len(by[UnknownWord]) > 0:
		v.Verdict = UnknownWord
		v.Summary = "this history does not suffice to tell: " + strings.Join(by[UnknownWord], ", ")
	case slices.Contains(by[NotPromised], string(LostWrite)):
		v.Verdict = Held
		v.Summary = "no delivery promised: this configuration may lose acknowledged events; what it does promise held"
	default:
		v.Verdict = Held
		v.Summary = "every promise that could be tested held"
	}
	if v.Planted {
		v.Summary = "a planted broker was judged, not Kafka (lies were injected): " + v.Summary
	}
}
