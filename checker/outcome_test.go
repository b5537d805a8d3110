// This file tests what a send's raw results mean, rule by rule.

package checker_test

import (
	"slices"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func TestOutcome(t *testing.T) {
	attempts := func(acknowledged, refused, unknown int) checker.AttemptFacts {
		return checker.AttemptFacts{Acknowledged: acknowledged, Refused: refused, Unknown: unknown}
	}
	for _, c := range []struct {
		rule  string
		facts checker.SendFacts
		want  histories.Outcome
	}{
		{"a stated outcome is taken as stated", checker.SendFacts{Acks: "0", Stated: histories.OutcomeOK}, histories.OutcomeOK},
		{"a stated failure too", checker.SendFacts{Acks: "all", Stated: histories.OutcomeFail, Attempts: attempts(0, 0, 1)}, histories.OutcomeFail},
		{"an operation without a completion is unknown", checker.SendFacts{Acks: "all", AttemptsVisible: true}, histories.OutcomeInfo},
		{"even with an acknowledged attempt", checker.SendFacts{Acks: "all", AttemptsVisible: true, Attempts: attempts(1, 0, 0)}, histories.OutcomeInfo},
		{"an acknowledgement is ok", checker.SendFacts{Acks: "all", Returned: true}, histories.OutcomeOK},
		{"with acks=1 as well", checker.SendFacts{Acks: "1", Returned: true, AttemptsVisible: true, Attempts: attempts(1, 0, 0)}, histories.OutcomeOK},
		{"with acks=0 nothing is acknowledged", checker.SendFacts{Acks: "0", Returned: true}, histories.OutcomeInfo},
		{"with acks=0 an error after the request left is unknown", checker.SendFacts{Acks: "0", Returned: true, Error: "NETWORK_EXCEPTION",
			AttemptsVisible: true, Attempts: attempts(0, 0, 1)}, histories.OutcomeInfo},
		{"with acks=0 what never left the process failed", checker.SendFacts{Acks: "0", Returned: true, ClientError: "context.Canceled",
			AttemptsVisible: true}, histories.OutcomeFail},
		{"with acks=0 a success of which no attempt was seen is unknown", checker.SendFacts{Acks: "0", Returned: true,
			AttemptsVisible: true}, histories.OutcomeInfo},
		{"with acks=0 giving up waiting is unknown", checker.SendFacts{Acks: "0", Returned: true, Closed: true, AttemptsVisible: true},
			histories.OutcomeInfo},
		{"with acks=0 an error that is raised before sending is definite where attempts are invisible", checker.SendFacts{Acks: "0",
			Returned: true, Client: histories.ClientFranzGo, ClientError: "kgo.ErrMaxBuffered"}, histories.OutcomeFail},
		{"with acks=0 another error is unknown where attempts are invisible", checker.SendFacts{Acks: "0", Returned: true,
			Client: histories.ClientFranzGo, ClientError: "kgo.ErrRecordTimeout"}, histories.OutcomeInfo},
		{"an error of the library does not undo an acknowledged attempt", checker.SendFacts{Acks: "all", Returned: true,
			ClientError: "context.Canceled", AttemptsVisible: true, Attempts: attempts(1, 0, 0)}, histories.OutcomeOK},
		{"giving up waiting is unknown", checker.SendFacts{Acks: "all", Returned: true, Closed: true, AttemptsVisible: true}, histories.OutcomeInfo},
		{"refused by every attempt is failed", checker.SendFacts{Acks: "all", Returned: true, Error: "NOT_ENOUGH_REPLICAS",
			AttemptsVisible: true, Attempts: attempts(0, 3, 0)}, histories.OutcomeFail},
		{"one unknown attempt makes it unknown", checker.SendFacts{Acks: "all", Returned: true, Error: "REQUEST_TIMED_OUT",
			AttemptsVisible: true, Attempts: attempts(0, 0, 1)}, histories.OutcomeInfo},
		{"a refusal after an unknown attempt stays unknown", checker.SendFacts{Acks: "all", Returned: true, Error: "NOT_ENOUGH_REPLICAS",
			AttemptsVisible: true, Attempts: attempts(0, 2, 1)}, histories.OutcomeInfo},
		{"an error without any attempt left nothing", checker.SendFacts{Acks: "all", Returned: true, ClientError: "kgo.ErrRecordTimeout",
			AttemptsVisible: true}, histories.OutcomeFail},
		{"where attempts are invisible a neighbour's refusal proves nothing", checker.SendFacts{Acks: "all", Returned: true,
			Client: histories.ClientJava, Error: "MESSAGE_TOO_LARGE"}, histories.OutcomeInfo},
		{"nor does a time-out", checker.SendFacts{Acks: "all", Returned: true, Client: histories.ClientFranzGo,
			ClientError: "kgo.ErrRecordTimeout"}, histories.OutcomeInfo},
		{"an error that is raised before sending is definite all the same", checker.SendFacts{Acks: "all", Returned: true,
			Client: histories.ClientFranzGo, ClientError: "kgo.ErrMaxBuffered"}, histories.OutcomeFail},
		{"but only for the library that raises it", checker.SendFacts{Acks: "all", Returned: true, Client: "someone's",
			ClientError: "kgo.ErrMaxBuffered"}, histories.OutcomeInfo},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got := checker.Outcome(c.facts); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// oneSend is a history of one send with one attempt and a completion.
func oneSend(acks string, attempt histories.Attempt, ret histories.SendReturn, whole bool) *histories.Memory {
	id := histories.OperationID{Process: "p0"}
	attempt.Process, attempt.Topic, attempt.Sends = "p0", "t", []histories.Range{{}}
	ret.OperationID, ret.Time, ret.Partition, ret.Offset = id, 3, histories.Unknown, histories.Unknown
	h := &histories.Memory{Head: &histories.Header{Run: "r", Producer: map[string]string{"acks": acks}}, Body: []histories.Line{
		&histories.Producer{Name: "p0", AttemptsVisible: true},
		&histories.Send{OperationID: id, Time: 1, Event: "p0/k/0", Topic: "t", Partition: -1, OrderingKey: "k"},
		&attempt, &ret,
	}}
	if whole {
		h.Body = append(h.Body, &histories.End{Time: 9, Reason: histories.EndFinished})
	}
	return h
}

func TestAnAttemptsAnswerProvesWhatTheTableSays(t *testing.T) {
	for _, c := range []struct {
		rule, acks string
		attempt    histories.Attempt
		error      string
		cut        bool
		want       histories.Outcome
	}{
		{rule: "NOT_LEADER_OR_FOLLOWER is unknown under acks=all", acks: "all", attempt: histories.Attempt{Answer: "NOT_LEADER_OR_FOLLOWER"},
			error: "NOT_LEADER_OR_FOLLOWER", want: histories.OutcomeInfo},
		{rule: "and a refusal under acks=1", acks: "1", attempt: histories.Attempt{Answer: "NOT_LEADER_OR_FOLLOWER"},
			error: "NOT_LEADER_OR_FOLLOWER", want: histories.OutcomeFail},
		{rule: "a connection that closed is unknown", acks: "all", attempt: histories.Attempt{Lost: histories.LostConnection},
			error: "NETWORK_EXCEPTION", want: histories.OutcomeInfo},
		{rule: "DUPLICATE_SEQUENCE_NUMBER is an acknowledgement", acks: "all", attempt: histories.Attempt{Answer: "DUPLICATE_SEQUENCE_NUMBER"},
			error: "DUPLICATE_SEQUENCE_NUMBER", want: histories.OutcomeOK},
		{rule: "a code without a row is unknown", acks: "all", attempt: histories.Attempt{Answer: "A_NEW_ONE"}, error: "A_NEW_ONE",
			want: histories.OutcomeInfo},
		{rule: "where the history is cut attempts may be missing, and a refusal proves nothing", acks: "all", cut: true,
			attempt: histories.Attempt{Answer: "NOT_ENOUGH_REPLICAS"}, error: "NOT_ENOUGH_REPLICAS", want: histories.OutcomeInfo},
		{rule: "with acks=0 what left the process is unknown, whatever it was answered", acks: "0",
			attempt: histories.Attempt{Answer: "NOT_ENOUGH_REPLICAS"}, error: "NOT_ENOUGH_REPLICAS", want: histories.OutcomeInfo},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := check(t, oneSend(c.acks, c.attempt, histories.SendReturn{Error: c.error}, !c.cut))
			want := map[histories.Outcome]checker.Counts{
				histories.OutcomeOK:   {Invoked: 1, Acknowledged: 1},
				histories.OutcomeFail: {Invoked: 1, Failed: 1},
				histories.OutcomeInfo: {Invoked: 1, Unknown: 1},
			}[c.want]
			if v.Counts != want {
				t.Errorf("counts %+v, want %+v", v.Counts, want)
			}
		})
	}
}

// TestHoweverManyAttemptsAreUnknownTheSendIs: they are counted in eight bits.
func TestHoweverManyAttemptsAreUnknownTheSendIs(t *testing.T) {
	for _, attempts := range []int{1, 255, 256, 257} {
		h := oneSend("all", histories.Attempt{Lost: histories.LostSilence}, histories.SendReturn{Error: "NETWORK_EXCEPTION"}, true)
		for range attempts - 1 {
			h.Body = slices.Insert(h.Body, 2, h.Body[2])
		}
		if v := check(t, h); v.Counts.Unknown != 1 {
			t.Errorf("%d attempts: counts %+v", attempts, v.Counts)
		}
	}
}

func TestALateAcknowledgementCounts(t *testing.T) {
	h := oneSend("all", histories.Attempt{Lost: histories.LostSilence}, histories.SendReturn{Closed: true}, false)
	if v := check(t, h); v.Counts.Unknown != 1 {
		t.Fatalf("counts %+v", v.Counts)
	}
	h.Body = append(h.Body, &histories.SendReturn{OperationID: histories.OperationID{Process: "p0"}, Time: 5, Offset: 0})
	if v := check(t, h); v.Counts.Acknowledged != 1 || v.Counts.Unknown != 0 {
		t.Errorf("counts %+v", v.Counts)
	}
}

func check(t *testing.T, h histories.History) *checker.Verdict {
	t.Helper()
	v, err := checker.Check(t.Context(), h, checker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
