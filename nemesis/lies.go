// This file holds the lies on the wire: what no healthy broker does. They plant a
// wrong broker, so that one can see whether it is caught.

package nemesis

import (
	"context"

	"github.com/ackproof/ackproof/wire"
)

// lieOnProduce is a lie about produce requests. It counts what took effect, which is
// not every request that it is tried on.
func lieOnProduce(name, doc string, decide func(name string, took func()) wire.Decision) Fault {
	return Fault{
		Name: name, Doc: doc, Planted: true,
		Settings: aimSettings("20"),
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			w := newWireFault(env, s, nil)
			w.countsEffects = true
			w.decide = func(*wire.Exchange) wire.Decision { return decide(env.ID, w.took) }
			return w, nil
		},
	}
}

func acknowledgeUnwritten() Fault {
	return lieOnProduce("acknowledge-unwritten", "a produce is acknowledged, and the broker never has it",
		wire.AcknowledgeUnwritten)
}

func writeTwice() Fault {
	return lieOnProduce("write-twice", "the broker appends a produce twice", wire.WriteTwice)
}

func swapBatches() Fault {
	return lieOnProduce("swap-batches", "the broker appends two produces of one connection in the wrong order",
		wire.SwapBatches)
}

func corruptByte() Fault {
	return lieOnProduce("corrupt-byte", "the broker appends a produce with one byte of a value changed", wire.CorruptByte)
}

// firstOne stands for the first consumer that is seen.
const firstOne = "first"

func divergeReads() Fault {
	return Fault{
		Name: "diverge-reads", Planted: true,
		Doc: "one consumer is given two records with their contents exchanged",
		Settings: []Setting{
			word("consumer", firstOne, "the client.id of the consumer, or the first that fetches"),
			number("every", "1", "act on every n-th of its fetch requests", 1),
			number("count", "0", "act on so many requests at most; 0: no limit", 0),
			brokerFilter("act only on requests to this broker"),
		},
		aim: func(_ context.Context, env *Environment, s Settings) (Injection, error) {
			w := newWireFault(env, s, nil)
			w.api, w.countsEffects = fetchKey, true
			w.decide = func(*wire.Exchange) wire.Decision { return wire.DivergeReads(env.ID, w.took) }
			return w, nil
		},
	}
}
