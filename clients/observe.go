// This file holds how an attempt that was seen on the wire becomes a line: its
// records are named by what their stamps say.

package clients

import (
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

// Observe records an attempt that was seen on the wire; it is what wire.Network
// calls for each. It may be called concurrently, and keeps nothing of the attempt.
// Requests of clients that are no session of this run, with no event of it, are not
// recorded.
func (r *Recorder) Observe(a *wire.Attempt) {
	sends, unnamed, sent, uncompressed := r.named(a)
	if len(sends) == 0 && !r.claimed(a.ClientID) {
		return
	}
	line := histories.Attempt{
		Process: a.ClientID, Time: r.At(a.Sent), End: r.At(a.Ended),
		Broker: a.Broker, Connection: a.Connection, Correlation: a.Correlation,
		Topic: a.Topic, Partition: a.Partition,
		ProducerID: a.ProducerID, Epoch: a.ProducerEpoch, Sequence: a.BaseSequence,
		Sends: sends, Unnamed: unnamed, Lost: a.Lost, Offset: histories.Unknown,
		Reached: a.Reached, BrokerOffset: histories.Unknown, Fault: a.Fault,
		Bytes: sent, Uncompressed: uncompressed,
	}
	r.counts.attempts.Add(1)
	if a.Answer == nil {
		r.counts.attemptsLost.Add(1)
	} else {
		line.Answer, line.Offset = histories.ErrorName(a.Answer.Code), a.Answer.BaseOffset
		if a.Answer.Code != 0 {
			r.counts.attemptsRefused.Add(1)
		}
	}
	if a.BrokerAnswer != nil {
		line.BrokerAnswer, line.BrokerOffset = histories.ErrorName(a.BrokerAnswer.Code), a.BrokerAnswer.BaseOffset
	}
	_ = r.Write(&line) // the recorder keeps the error, and the run stops by it
}

// named gives the sends that a batch carries, in batch order, as ranges of the
// client's operation numbers, counts the records that are none, and gives the batch's
// sizes in bytes.
func (r *Recorder) named(a *wire.Attempt) (sends []histories.Range, unnamed, sent, uncompressed int64) {
	var escaped [64]byte
	process := appendEscaped(escaped[:0], a.ClientID)
	seen := int64(0)
	sent, uncompressed, err := a.EachHeaderSized(StampHeader, func(value []byte) {
		seen++
		stamp, ours := r.events.Own(value)
		if !ours || string(stamp.Process) != string(process) {
			unnamed++
			return
		}
		if last := len(sends) - 1; last >= 0 && sends[last].Last+1 == stamp.Operation {
			sends[last].Last++
			return
		}
		sends = append(sends, histories.Range{First: stamp.Operation, Last: stamp.Operation})
	})
	if err != nil {
		unnamed += max(int64(a.Records)-seen, 0)
	}
	return sends, unnamed, sent, uncompressed
}

// claimed says whether a name is that of a session of this run.
func (r *Recorder) claimed(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}
