// This file holds the measures: numbers about a run, by name, which expectations are
// about and tables are made of. They decide no promise.

package checker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// Measures are numbers about a run by their names; see MeasureNames. A name may be about
// an error, as answers:NOT_LEADER_OR_FOLLOWER, and then about one session, in braces, as
// attempts{p0}. What is zero is absent, but for what every run and every session has.
type Measures map[string]float64

// MeasureName is the name of a measure and what it means.
type MeasureName struct {
	Name string
	// Sessions: there is one for each session, too, as attempts{p0}. Coded: the name goes
	// on with the name of an error, as answers:NONE. Placed: there is one for each
	// partition, and none for all, as in-partition{orders/0}.
	Sessions, Coded, Placed bool
	// Unit of the number, and what it counts or how it is made.
	Unit    string
	Meaning string
}

// What most measures count.
const (
	ofSends    = "sends"
	ofRecords  = "records"
	ofAttempts = "attempts"
	ofBatches  = "batches"
	ofEvents   = "events"
)

const (
	whole      = iota // one number, of the whole run
	bySession         // and one for each session
	byCode            // and by the name of an error
	ofAPlace          // for each partition alone
	codesAlone        // of the whole run, and by the name of an error
)

func named(name string, kind int, unit, meaning string) MeasureName {
	return MeasureName{Name: name, Sessions: kind == bySession || kind == byCode, Coded: kind == byCode || kind == codesAlone,
		Placed: kind == ofAPlace, Unit: unit, Meaning: meaning}
}

// measureNames is the one table of measures; doc/VERDICT.md has the same.
var measureNames = []MeasureName{
	named("invoked", bySession, ofSends, "handed over to a client library; "+
		"this and the next four of the whole run are those of `counts`"),
	named("acknowledged", bySession, ofSends, "acknowledged"),
	named("failed", bySession, ofSends, "certainly not written"),
	named("unknown", bySession, ofSends, "of which neither is known"),
	named("in-log", bySession, ofRecords, "of the run's events in the final log; of a session those of events that it sent first"),
	named("acknowledged-without-an-offset", bySession, ofSends, "reported as a success that named no offset"),
	named("errors", byCode, ofSends, "whose first completion was an error: Kafka's, or a class of the client library's own"),
	named("unanswered-sends", bySession, ofSends, "that the library never completed"),
	named("absent", bySession, ofSends, "whose event is not in the final log"),
	named("copies", bySession, ofRecords, "beyond those that the sends of their event explain: "+
		"the client library's or the broker's"),
	named("in-partition", ofAPlace, ofRecords, "of the run's events in one partition of the final log"),
	named("largest-partition-share", whole, "share", "of those in the fullest partition"),
	named("keys-in-two-partitions", whole, "keys", "of a producer whose events lie in more than one partition"),
	named("murmur2-agreements", bySession, "share", "of acknowledged events with a key that lie where murmur2 of the key puts "+
		"them; those aside whose partition the application chose, and those sent after partitions were added"),
	named("events-moved", whole, ofEvents, "that would have to move for the order to hold, at least"),
	named("holes", whole, ofEvents, "as in `counts`"),
	named("ghosts", whole, ofEvents, "as in `counts`"),
	named("unconfirmed-losses", whole, ofEvents, "as in `counts`"),
	named("stale-duplicates", whole, ofRecords, "as in `counts`"),
	named("resends", whole, ofSends, "as in `counts`"),
	named("application-duplicates", whole, ofEvents, "as in `counts`"),
	named("refused-producers", whole, "sessions", "that a client library refused to open"),
	named("attempts", bySession, ofAttempts, "batches of a client that went over the wire; "+
		"what the fault replay sends is none, here and below"),
	named("answers", byCode, ofAttempts, "that the client was given an answer to"),
	named("broker-answers", byCode, ofAttempts, "that a broker itself was seen to answer, whatever the client was given"),
	named("unanswered-attempts", bySession, ofAttempts, "that the client was given no answer to"),
	named("retried-sends", bySession, ofSends, "that went over the wire more than once"),
	named("most-attempts-of-a-send", bySession, ofAttempts, "that carried the send which was carried most often"),
	named("recognised-retries", bySession, ofAttempts, "of a batch that a broker answered with the offset at which it was "+
		"already said to be written, by its producer id, epoch and sequence number"),
	named("recognised-elsewhere", bySession, ofAttempts, "the same, answered by another broker than the first one"),
	named("sends-under-two-epochs", bySession, ofSends, "that went over the wire under more than one producer id and epoch"),
	named("sends-to-two-partitions", bySession, ofSends, "that went over the wire for more than one partition"),
	named("split-batches", bySession, ofBatches, "refused as too large of which a smaller batch carried a part later"),
	named("gap-refused", bySession, ofBatches, "that a broker refused as out of sequence while the sequence number before "+
		"theirs was not written"),
	named("gap-accepted", bySession, ofBatches, "written although the sequence number before theirs was not, or only behind them"),
	named("replayed-answers", codesAlone, ofAttempts, "of the fault replay that were answered"),
	named("replayed-recognised", whole, ofAttempts, "of the fault replay that were answered with the offset of the first time"),
	named("replayed-refused", whole, ofAttempts, "of the fault replay that were answered with an error"),
	named("events-per-second", bySession, "1/s", "sends reported as a success, from the first invocation to the last such report"),
	named("mean-request-latency-ms", bySession, "ms", "from an attempt to its answer, on average"),
	named("mean-batch-records", bySession, ofRecords, "in a batch, on average"),
	named("mean-batch-bytes", bySession, "bytes", "of a batch as it was sent, on average"),
	named("bytes-per-record", bySession, "bytes", "of batches as they were sent, by their records"),
	named("compression-ratio", bySession, "quotient", "the size of the batches without compression by their size as they were sent"),
	named("longest-time-without-an-acknowledgement-ms", bySession, "ms", "without a reported success, from the first invocation "+
		"to the last invocation or completion"),
	named("longest-time-without-an-invocation-ms", bySession, "ms", "between two sends"),
	named("polled", bySession, ofRecords, "that consumers were given"),
	named("redelivered", bySession, ofRecords, "that a consumer was given, and a session that it continues had been given"),
	named("commits", bySession, "commits", "of a group's offsets that were acknowledged"),
}

// alwaysThere are the measures of a run that are there even if they are zero.
var alwaysThere = []string{"invoked", "acknowledged", "failed", "unknown", "in-log", "attempts"}

// MeasureNames gives every measure, those named like an anomaly aside: their value is its
// count.
func MeasureNames() []MeasureName { return slices.Clone(measureNames) }

// Value gives the value of a measure, or of a quotient of two ("a/b"; a slash in braces is
// none of that). False: there is no such measure, the run had no such session, or the
// quotient is one by zero.
func (m Measures) Value(expression string) (float64, bool) {
	above, below, isQuotient := quotient(expression)
	if !isQuotient {
		return m.one(expression)
	}
	dividend, known := m.one(above)
	divisor, alsoKnown := m.one(below)
	if !known || !alsoKnown || divisor == 0 {
		return 0, false
	}
	return dividend / divisor, true
}

// one gives the value of one measure.
func (m Measures) one(expression string) (float64, bool) {
	name, of, err := parseMeasure(expression)
	if err != nil {
		return 0, false
	}
	if _, consumes := m["polled{"+of+"}"]; of != "" && !name.Placed && !consumes {
		if _, produces := m["invoked{"+of+"}"]; !produces {
			return 0, false
		}
	}
	return m[expression], true
}

// quotient cuts a quotient of two measures at the first slash that is outside all braces.
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

var errNoMeasure = errors.New("there is no such measure (doc/VERDICT.md lists them)")

// parseMeasure says of which kind a measure is, and of which session or partition.
func parseMeasure(expression string) (m MeasureName, of string, err error) {
	name, braced, isBraced := strings.Cut(expression, "{")
	of, ends := strings.CutSuffix(braced, "}")
	if isBraced && (!ends || of == "" || strings.ContainsAny(of, "{}")) {
		return m, "", errors.New("want NAME, or NAME{SESSION}")
	}
	name, code, isCoded := strings.Cut(name, ":")
	if _, isAnomaly := descriptionOf(Anomaly(name)); !isAnomaly { // else it is about the whole run
		i := slices.IndexFunc(measureNames, func(m MeasureName) bool { return m.Name == name })
		if i < 0 {
			return m, "", errNoMeasure
		}
		m = measureNames[i]
	}
	switch {
	case isCoded && (!m.Coded || code == ""):
		return m, "", fmt.Errorf("%s is not about the name of an error", name)
	case m.Placed && !isBraced:
		return m, "", fmt.Errorf("%s is about one partition: want %s{TOPIC/PARTITION}", name, name)
	case isBraced && !m.Placed && !m.Sessions:
		return m, "", fmt.Errorf("%s is about the whole run, and not about one session", name)
	}
	return m, of, nil
}

// validMeasure refuses what is neither a measure nor a quotient of two.
func validMeasure(expression string) error {
	parts := []string{expression}
	if above, below, is := quotient(expression); is {
		parts = []string{above, below}
	}
	for _, part := range parts {
		if _, _, err := parseMeasure(part); err != nil {
			return fmt.Errorf("the measure %q: %w", part, err)
		}
	}
	return nil
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

// Measure reads a history once more and measures it; v is the verdict that Check gave on
// the same history. A history that was cut is measured as far as it goes. Fresh producers,
// which only ask whether the cluster serves again, are left out of all that the verdict
// does not count. It takes the memory that Check takes, and some 30 bytes for each send and
// each batch. The errors are those of Check.
func Measure(ctx context.Context, h histories.History, v *Verdict) (Measures, error) {
	m, err := newGauge(h.Header(), v.options).measure(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("measuring the history: %w", err)
	}
	for _, a := range Anomalies() {
		if part := v.Anomalies[a.Name]; part != nil {
			m[string(a.Name)] = float64(part.Count)
			m["events-moved"] += float64(part.Moved)
		}
	}
	c := v.Counts
	for name, count := range map[string]int64{"invoked": c.Invoked, "acknowledged": c.Acknowledged, "failed": c.Failed,
		"unknown": c.Unknown, "in-log": c.InLog, "holes": c.Holes, "ghosts": c.Ghosts, "resends": c.Resends,
		"unconfirmed-losses": c.UnconfirmedLosses, "stale-duplicates": c.StaleDuplicates,
		"application-duplicates": c.ApplicationDuplicates} {
		m[name] = float64(count)
	}
	maps.DeleteFunc(m, func(name string, value float64) bool {
		ofSession := strings.HasPrefix(name, "invoked{") || strings.HasPrefix(name, "polled{")
		return value == 0 && !ofSession && !slices.Contains(alwaysThere, name)
	})
	for _, name := range alwaysThere {
		m[name] += 0
	}
	return m, ctx.Err()
}
