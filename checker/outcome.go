// This file holds the one function that says what a send's raw results mean.

package checker

import "github.com/ackproof/ackproof/histories"

// SendFacts is what a history says about one send: what the client reported and
// what went over the wire. Everything in it is raw.
type SendFacts struct {
	// Acks is the producer's acks ("0", "1", "all"); empty: unknown.
	Acks string
	// Client is the client library, for its own error classes.
	Client string
	// Stated is the outcome that an imported history claims; empty: none.
	Stated histories.Outcome
	// Returned: the operation has a completion, which may be the recorder's
	// giving up (Closed).
	Returned bool
	Closed   bool
	// Error and ClientError are the completion's; both empty: the client
	// reported success. A success among several completions wins.
	Error       string
	ClientError string
	// AttemptsVisible: every request that carried the send is in the history,
	// and the history is not cut.
	AttemptsVisible bool
	// Attempts is what became of them.
	Attempts AttemptFacts
}

// AttemptFacts counts a send's attempts by what each certainly did to the log.
type AttemptFacts struct {
	// Acknowledged: answered as written. Refused: the answer proves that this
	// attempt appended nothing. Unknown: everything else.
	Acknowledged, Refused, Unknown int
}

// Outcome says what a send's raw results mean: ok (acknowledged), fail (certainly
// not written) or info (unknown: written now, later or never). When in doubt it
// is info. It is a pure function.
//
// The rules are the design's, chapter 3: a stated outcome is taken as stated;
// with acks=0 nothing is acknowledged; one acknowledged attempt makes it ok; one
// unknown attempt makes it info whatever came after it (min.insync.replicas is
// checked before duplicates are detected, so even a stored batch's retry can be
// refused); it is fail only where none of it left the process, or where every
// attempt was certainly refused.
func Outcome(f SendFacts) histories.Outcome {
	switch {
	case f.Stated != "":
		return f.Stated
	case !f.Returned:
		return histories.OutcomeInfo
	case f.Acks == "0":
		return outcomeWithoutAcks(f)
	case f.succeeded() || f.Attempts.Acknowledged > 0:
		return histories.OutcomeOK
	case f.Closed:
		return histories.OutcomeInfo
	case f.AttemptsVisible:
		return outcomeByAttempts(f)
	case histories.ClientErrorDefinite(f.Client, f.ClientError):
		return histories.OutcomeFail
	}
	return histories.OutcomeInfo
}

func (f SendFacts) succeeded() bool {
	return !f.Closed && f.Error == "" && f.ClientError == ""
}

// outcomeWithoutAcks: a success with acks=0 is invented by the client when the
// bytes are written, and a broker's error only closes the connection. What never
// left the process failed all the same.
func outcomeWithoutAcks(f SendFacts) histories.Outcome {
	if f.succeeded() || f.Closed || f.Attempts != (AttemptFacts{}) {
		return histories.OutcomeInfo
	}
	if f.AttemptsVisible || histories.ClientErrorDefinite(f.Client, f.ClientError) {
		return histories.OutcomeFail
	}
	return histories.OutcomeInfo
}

// outcomeByAttempts judges an error where every attempt is visible. Without any
// attempt nothing left the process: a library that reported an error never sends
// the record afterwards.
func outcomeByAttempts(f SendFacts) histories.Outcome {
	if f.Attempts.Unknown > 0 {
		return histories.OutcomeInfo
	}
	return histories.OutcomeFail
}

// appendedBy says what an attempt's answer proves, as counts for AttemptFacts.
func appendedBy(a *histories.Attempt, acks string) AttemptFacts {
	if a.Answer == "" {
		return AttemptFacts{Unknown: 1}
	}
	code, known := histories.ErrorByName(a.Answer)
	if !known {
		return AttemptFacts{Unknown: 1}
	}
	switch code.Appended(acks) {
	case histories.AppendedYes:
		return AttemptFacts{Acknowledged: 1}
	case histories.AppendedNo:
		return AttemptFacts{Refused: 1}
	default:
		return AttemptFacts{Unknown: 1}
	}
}
