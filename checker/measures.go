// This file holds the measures: numbers about a run, by name, which expectations are
// about and tables are made of. They decide no promise.

package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// Measures are numbers about a run by their names; see MeasureNames. A name may have a
// session in braces, as attempts{p0}, or be about an error, as answers:NOT_LEADER_OR_FOLLOWER.
// What is zero may be absent.
type Measures map[string]float64

// MeasureName is the name of a measure and what it means.
type MeasureName struct {
	Name string
	// Sessions: there is one for each session, too, as attempts{p0}. Coded: the name goes
	// on with the name of an error, as answers:NONE.
	Sessions, Coded bool
	Meaning         string
}

var measureNames = []MeasureName{
	{"invoked", true, false, "events handed over to a client library"},
	{"acknowledged", true, false, "sends whose library reported success"},
	{"failed", false, false, "sends that were certainly not written, as verdict.json counts them"},
	{"unknown", false, false, "sends of which it is not known, as verdict.json counts them"},
	{"errors", true, true, "sends whose first completion is an error; with a name: that one (Kafka's, or the library's own class)"},
	{"unanswered-sends", true, false, "sends that never had a completion of the library"},
	{"in-log", true, false, "records in the final log that are events of the run"},
	{"in-partition", true, false, "the same, of one partition: in-partition{topic/0}"},
	{"absent", true, false, "sends whose event is not in the final log"},
	{"holes", false, false, "as verdict.json counts them"},
	{"ghosts", false, false, "as verdict.json counts them"},
	{"unconfirmed-losses", false, false, "as verdict.json counts them"},
	{"stale-duplicates", false, false, "as verdict.json counts them"},
	{"resends", false, false, "as verdict.json counts them"},
	{"application-duplicates", false, false, "as verdict.json counts them"},
	{"events-moved", false, false, "the least number of events that would have to move for the order to hold"},
	{"copies", true, false, "records beyond the first of each event that was sent once"},
	{"refused-producers", false, false, "producers that a client library refused to open"},
	{"attempts", true, false, "batches that went over the wire, those of replays aside"},
	{"answers", true, true, "attempts that the client was given this answer to (answers:NONE)"},
	{"broker-answers", true, true, "attempts that the broker itself answered so"},
	{"unanswered-attempts", true, false, "attempts that the client was given no answer to"},
	{"retried-sends", true, false, "sends that went over the wire more than once"},
	{"most-attempts-of-a-send", true, false, "how often one send went over the wire at most"},
	{"recognised-retries", true, false,
		"attempts of a batch that a broker answered with the offset that it had been given before (by its sequence number)"},
	{"recognised-elsewhere", true, false, "the same, where another broker had given the offset"},
	{"sends-under-two-epochs", true, false, "sends that went over the wire under more than one producer id and epoch"},
	{"sends-to-two-partitions", true, false, "sends that went over the wire for more than one partition"},
	{"keys-in-two-partitions", false, false, "keys of a producer whose events lie in more than one partition"},
	{"murmur2-agreements", false, false,
		"the share of acknowledged events with a key that lie where murmur2 of the key puts them, by the partitions at the start"},
	{"largest-partition-share", false, false, "the share of the events in the final log that the fullest partition has"},
	{"split-batches", true, false, "attempts refused as too large whose events later went in smaller batches"},
	{"gap-refused", true, false, "batches that skipped a sequence number, and that the broker refused"},
	{"gap-accepted", true, false, "batches that a broker wrote though an earlier sequence number of theirs had not been written"},
	{"replayed-recognised", false, false, "replayed batches that were answered with their old offset"},
	{"replayed-refused", false, false, "replayed batches that were answered with an error"},
	{"events-per-second", true, false, "acknowledged events, from the first invocation to the last acknowledgement"},
	{"mean-request-latency-ms", true, false, "from an attempt to its answer"},
	{"mean-batch-records", true, false, "records of a batch"},
	{"mean-batch-bytes", true, false, "bytes of a batch, as it was sent"},
	{"compression-ratio", true, false, "size of the batches without compression, by their size as they were sent"},
	{"longest-time-without-an-acknowledgement-ms", true, false, "from the first invocation to the last acknowledgement"},
	{"longest-time-without-an-invocation-ms", true, false, "between two events that were handed over"},
	{"polled", true, false, "records that consumers were given"},
	{"redelivered", true, false, "records that a consumer was given which a session that it continues had been given"},
	{"commits", true, false, "commits that were acknowledged"},
}

// MeasureNames gives every measure, those named like an anomaly aside: their value is its
// count.
func MeasureNames() []MeasureName { return slices.Clone(measureNames) }

// Value gives the value of a measure, or of a quotient of two ("a/b"; partitions aside no
// name has a slash). False: there is no such measure, or the quotient is one by zero.
func (m Measures) Value(expression string) (float64, bool) {
	if value, known := m.lookup(expression); !known {
		return 0, false
	} else if above, below, quotient := quotient(expression); quotient {
		divisor, _ := m.lookup(below)
		dividend, _ := m.lookup(above)
		return dividend / divisor, divisor != 0
	} else {
		return value, true
	}
}

// quotient cuts a quotient of two measures at the slash that is outside all braces.
func quotient(expression string) (above, below string, is bool) {
	depth := 0
	for i, c := range expression {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth == 0:
			return expression[:i], expression[i+1:], true
		}
	}
	return "", "", false
}

// lookup gives a value, and whether there is such a measure; of a quotient only the latter.
func (m Measures) lookup(expression string) (float64, bool) {
	if above, below, is := quotient(expression); is {
		_, knownAbove := m.lookup(above)
		_, knownBelow := m.lookup(below)
		return 0, knownAbove && knownBelow
	}
	name, session, _ := strings.Cut(expression, "{")
	name, code, coded := strings.Cut(name, ":")
	for _, known := range measureNames {
		if known.Name == name && (!coded || (known.Coded && code != "")) && (session == "" || known.Sessions) {
			return m[expression], true
		}
	}
	_, isAnomaly := descriptionOf(Anomaly(name))
	return m[expression], isAnomaly && !coded && session == ""
}

// descriptionOf gives the description of an anomaly.
func descriptionOf(a Anomaly) (Description, bool) {
	for _, d := range Anomalies() {
		if d.Name == a {
			return d, true
		}
	}
	return Description{}, false
}

// Measure reads a history once more and measures it; v is its verdict. A history that was
// cut is measured as far as it goes. Fresh producers, which only ask whether the cluster
// serves again, are left out of all that verdict.json does not count. Memory is some hundred
// bytes for each send. The error is the reader's, or the context's.
func Measure(ctx context.Context, h histories.History, v *Verdict) (Measures, error) {
	g := newGauge(h.Header())
	if err := g.read(ctx, h); err != nil {
		return nil, fmt.Errorf("measuring the history: %w", err)
	}
	m := g.measures()
	for _, a := range Anomalies() {
		if part := v.Anomalies[a.Name]; part != nil && part.Count > 0 {
			m[string(a.Name)] = float64(part.Count)
			m["events-moved"] += float64(part.Moved)
		}
	}
	maps.Copy(m, map[string]float64{"failed": float64(v.Counts.Failed), "unknown": float64(v.Counts.Unknown),
		"holes": float64(v.Counts.Holes), "ghosts": float64(v.Counts.Ghosts), "resends": float64(v.Counts.Resends),
		"unconfirmed-losses": float64(v.Counts.UnconfirmedLosses), "stale-duplicates": float64(v.Counts.StaleDuplicates),
		"application-duplicates": float64(v.Counts.ApplicationDuplicates)})
	maps.DeleteFunc(m, func(_ string, value float64) bool { return value == 0 })
	return m, ctx.Err()
}
