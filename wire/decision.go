// This file holds what an interceptor can decide about a request. The lies are in
// lies.go.

package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type kind int

const (
	pass kind = iota
	loseResponse
	cutBefore
	refuse
	holdBack
	// the lies, see lies.go
	acknowledgeUnwritten
	writeTwice
	swapBatches
	corruptByte
	divergeReads
)

// Decision is what becomes of a request. The zero value lets it pass. The name that
// the others have is the Fault of the attempts that they acted on.
type Decision struct {
	kind  kind
	name  string
	stall bool
	after bool
	code  int16
	by    time.Duration
	side  Side
	only  func(topic string, partition int32) bool
	took  func() // called when a lie took effect
}

// Side is a direction on a connection.
type Side int

// The sides.
const (
	SideRequest Side = iota
	SideAnswer
)

// Pass lets a request pass.
func Pass() Decision { return Decision{} }

// Label lets a request pass, and its attempts bear the name: it was somebody else than
// the client that sent it.
func Label(name string) Decision { return Decision{name: name} }

// LoseResponse lets the broker serve the request, throws its answer away and closes
// the connection. With stall the connection goes silent instead, from the moment at
// which the answer comes: nothing passes in either direction any more, and it stays
// open until the client gives up. A Produce request with acks=0 has no answer: then
// the same happens as soon as the broker has been sent it.
func LoseResponse(name string, stall bool) Decision {
	return Decision{kind: loseResponse, name: name, stall: stall}
}

// CutBefore resets the connection before the broker has the request.
func CutBefore(name string) Decision { return Decision{kind: cutBefore, name: name} }

// Refuse answers a Produce request with an error code and no offset (-1): without the
// broker's having it, or after the broker served it. With acks=0 there is no answer:
// the connection is closed instead, as Kafka does. It fits Produce requests alone.
func Refuse(name string, code int16, after bool) Decision {
	return Decision{kind: refuse, name: name, code: code, after: after}
}

// Only makes a refusal one of chosen batches: the broker serves the rest of the
// request, and the client is given its answer to them. Only they bear the name.
func (d Decision) Only(chosen func(topic string, partition int32) bool) Decision {
	d.only = chosen
	return d
}

// HoldBack passes the request, or its answer, on late; what follows it in the same
// direction waits behind it. An answer is late by so much after it came, whatever is
// held before it: several that come at once are late at once, as on a slow network. A
// client that gives up meanwhile does not call a request back: it reaches the broker late.
func HoldBack(name string, side Side, by time.Duration) Decision {
	return Decision{kind: holdBack, name: name, side: side, by: by}
}

// Name is the name that the decision was given; empty for one that lets pass.
func (d Decision) Name() string { return d.name }

var errUnfit = errors.New("the decision does not fit the request")

// Fits gives an error where a decision cannot be carried out on a request: a refusal
// of anything but a Produce request, a lie about another API's request, or one that
// needs an answer where acks=0 allows none. Such a request passes, and is counted.
func (d Decision) Fits(x *Exchange) error {
	switch d.kind {
	case refuse, corruptByte, writeTwice:
		if x.Produce == nil {
			return fmt.Errorf("%q about API %d: %w, it is for Produce requests that can be decoded", d.name, x.Key, errUnfit)
		}
	case acknowledgeUnwritten, swapBatches:
		if x.Produce == nil || x.Produce.Acks == 0 {
			return fmt.Errorf("%q about API %d: %w, it is for Produce requests that can be decoded and have an answer",
				d.name, x.Key, errUnfit)
		}
	case divergeReads:
		if x.Key != int16(kmsg.Fetch) {
			return fmt.Errorf("%q about API %d: %w, it is for Fetch requests", d.name, x.Key, errUnfit)
		}
	default: // fits any request
	}
	return nil
}

// concerns says whether the decision acts on a batch.
func (d Decision) concerns(b *ProduceBatch) bool {
	return (d.kind != pass || d.name != "") && (d.only == nil || d.only(b.Topic, b.Partition))
}
