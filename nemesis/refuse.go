// This file holds the fault that answers with an error.

package nemesis

import (
	"context"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

func refuse() Fault {
	return Fault{
		Name: "refuse",
		Doc:  "a produce is answered with an error, without the broker's having it, or after the broker served it",
		Settings: append([]Setting{
			errorName("error", "NOT_LEADER_OR_FOLLOWER",
				"the error; one that a healthy broker could not answer with there is a lie"),
			boolean("after", "false", "after the broker served it"),
			duration("late", "20ms", "the answers to those that are not refused come so late, so that several are in flight"),
		}, aimSettings("5")...),
		Pauses: true,
		lie:    lieOfRefusal,
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			code, after := s.errorCode("error").Code, s.is("after", "true")
			w := newWireFault(env, s, func(*wire.Exchange) wire.Decision { return wire.Refuse(env.ID, code, after) })
			// A client that has nothing else in flight when it is refused shows
			// nothing: a broker in this process answers before the next batch is full.
			w.between = wire.HoldBack("", wire.SideAnswer, s.duration("late"))
			return w, nil
		},
	}
}

// lieOfRefusal says why a refusal is one that no healthy broker gives, by the table
// of error codes. With acks=0 there is no answer: the connection is closed, which
// a broker does on any error and may do at any time.
func lieOfRefusal(s Settings, acks string) string {
	if acks == "0" {
		return ""
	}
	if legal, why := histories.LegalAnswer(s.errorCode("error").Code, acks, s.is("after", "true")); !legal {
		return why
	}
	return ""
}
