// This file holds how each kind of line becomes rows.

package parquet

import "github.com/ackproof/ackproof/histories"

// take writes a line.
func (w *Writer) take(line histories.Line) {
	switch l := line.(type) {
	case *histories.Send:
		w.takeSend(l)
	case *histories.SendReturn:
		w.takeSendReturn(l)
	case *histories.Attempt:
		w.takeAttempt(l)
	case *histories.Poll:
		w.tables.polls.add(pollRow{w.at, operation{l.Process, l.Number, l.Time}})
	case *histories.PollReturn:
		w.takePollReturn(l)
	case *histories.PositionChange:
		w.takePositionChange(l)
	case *histories.Commit:
		w.takeCommit(l)
	case *histories.CommitReturn:
		w.tables.commitReturns.add(commitReturnRow{w.at, operation{l.Process, l.Number, l.Time}, l.Error, l.ClientError, l.Message})
	default:
		w.takeSession(line)
	}
}

// takeSession writes a line about a session.
func (w *Writer) takeSession(line histories.Line) {
	switch l := line.(type) {
	case *histories.Producer:
		w.tables.producers.add(producerRow{w.at, l.Name, l.Time, l.Clock, l.Client, l.ClientVersion, l.Properties != nil,
			l.Continues, l.AttemptsVisible, l.Fresh})
		w.takeProperties("producer", l.Name, l.Properties)
		w.takeProperties("producer-requested", l.Name, l.Requested)
	case *histories.ProducerRefused:
		w.tables.refusals.add(producerRefusalRow{w.at, l.Name, l.Time, l.Client, l.ClientVersion, l.ClientError, l.Message})
		w.takeProperties("producer-refused", l.Name, l.Requested)
	case *histories.ProducerClose:
		w.tables.closes.add(closeRow{w.at, "producer", l.Name, l.Time, l.Crashed})
	case *histories.Consumer:
		w.tables.consumers.add(consumerRow{w.at, l.Name, l.Time, l.Clock, l.Client, l.ClientVersion, l.Continues})
		w.takeProperties("consumer", l.Name, l.Properties)
	case *histories.ConsumerClose:
		w.tables.closes.add(closeRow{w.at, "consumer", l.Name, l.Time, l.Crashed})
	default:
		w.takeCluster(line)
	}
}

// takeCluster writes a line about the cluster, its faults and its logs.
func (w *Writer) takeCluster(line histories.Line) {
	switch l := line.(type) {
	case *histories.FaultStart:
		w.tables.faultStarts.add(faultStartRow{w.at, l.ID, l.Name, l.Target, l.Time, l.Lie})
		w.takeProperties("fault", l.ID, l.Settings)
	case *histories.FaultEnd:
		w.tables.faultEnds.add(faultEndRow{w.at, l.ID, l.Time, l.Bit, l.Evidence, l.Error})
		for _, effect := range l.Effects {
			w.tables.effects.add(effectRow{w.at.History, l.ID, effect})
		}
	case *histories.ClusterEvent:
		w.tables.clusterEvents.add(clusterEventRow{w.at, l.Time, l.What, l.Detail})
	case *histories.Note:
		w.tables.notes.add(noteRow{w.at, l.Time, l.Text})
	case *histories.FinalRecords:
		w.takeFinalRecords(l)
	case *histories.FinalRead:
		w.takeFinalRead(l)
	case *histories.ReplicaRecords:
		w.takeReplicaRecords(l)
	case *histories.ReplicaRead:
		w.tables.replicaReads.add(replicaReadRow{w.at, l.Topic, known(l.Partition.Partition), known(l.Replica), l.Source, l.Time,
			known(l.LogStart), known(l.HighWatermark), known(l.LogEnd), known(l.Position), l.Error})
	case *histories.End:
		w.ended, w.reason = true, l.Reason
	}
}

func (w *Writer) takeSend(l *histories.Send) {
	row := sendRow{whence: w.at, operation: operation{l.Process, l.Number, l.Time}, Event: l.Event, Topic: l.Topic,
		Partition: known(l.Partition), OrderingKey: l.OrderingKey, Rank: known(l.Rank)}
	if l.ResendOf != nil {
		row.Resend, row.ResendOfProcess, row.ResendOfNumber = true, l.ResendOf.Process, known(l.ResendOf.Number)
	}
	w.tables.sends.add(row)
	w.highest[l.Process] = max(w.highest[l.Process], l.Number+1)
}

func (w *Writer) takeSendReturn(l *histories.SendReturn) {
	w.tables.sendReturns.add(sendReturnRow{w.at, operation{l.Process, l.Number, l.Time}, known(l.Partition), known(l.Offset),
		l.Error, l.ClientError, l.Message, l.Closed, string(l.Stated)})
}

func (w *Writer) takeAttempt(l *histories.Attempt) {
	w.tables.attempts.add(attemptRow{w.at, l.Process, l.Time, l.End, known(l.Broker), known(l.Connection), known(l.Correlation),
		l.Topic, known(l.Partition), known(l.ProducerID), known(l.Epoch), known(l.Sequence), l.Unnamed, l.Answer, l.Lost,
		known(l.Offset), l.Reached, l.BrokerAnswer, known(l.BrokerOffset), l.Fault, l.Bytes, l.Uncompressed})
	index := int64(0)
	for _, r := range l.Sends {
		// A send's line is before those of its attempts. So a range that runs further
		// names nothing there, and a wrong one cannot fill the disk.
		last := min(r.Last, w.highest[l.Process]-1)
		for number := max(r.First, 0); number <= last; number++ {
			w.tables.attemptSends.add(attemptSendRow{w.at, l.Process, number, index})
			index++
		}
	}
}

func (w *Writer) takePollReturn(l *histories.PollReturn) {
	o := operation{l.Process, l.Number, l.Time}
	index := int64(0)
	for _, records := range l.Records {
		for _, r := range records.Records {
			w.tables.pollRecords.add(pollRecordRow{w.at, o, string(l.Stated), index, records.Topic, known(records.Partition.Partition),
				known(records.LeaderEpoch), known(r.Offset), eventOf(r.Event), r.Corrupt})
			index++
		}
	}
	w.tables.pollReturns.add(pollReturnRow{w.at, o, index, l.Error, string(l.Stated)})
}

// takePositionChange writes a row for each partition; one at least, so that a change
// that names none is there.
func (w *Writer) takePositionChange(l *histories.PositionChange) {
	row := positionChangeRow{whence: w.at, Process: l.Process, TimeNs: l.Time, How: l.How, Reason: l.Reason}
	for _, p := range l.Partitions {
		row.Topic, row.Partition, row.Position = p.Topic, known(p.Partition.Partition), known(p.Position)
		w.tables.positionChanges.add(row)
	}
	if len(l.Partitions) == 0 {
		w.tables.positionChanges.add(row)
	}
}

// takeCommit writes a row for each partition; one at least.
func (w *Writer) takeCommit(l *histories.Commit) {
	row := commitRow{whence: w.at, operation: operation{l.Process, l.Number, l.Time}, ConsumerGroup: l.Group}
	for _, p := range l.Offsets {
		row.Topic, row.Partition, row.Position = p.Topic, known(p.Partition.Partition), known(p.Position)
		w.tables.commits.add(row)
	}
	if len(l.Offsets) == 0 {
		w.tables.commits.add(row)
	}
}

func (w *Writer) takeFinalRecords(l *histories.FinalRecords) {
	for _, r := range l.Records.Records {
		w.tables.finalRecords.add(finalRecordRow{w.at, l.Isolation, l.Topic, known(l.Partition.Partition), known(l.LeaderEpoch),
			known(r.Offset), eventOf(r.Event), r.Corrupt})
	}
}

func (w *Writer) takeFinalRead(l *histories.FinalRead) {
	w.tables.finalReads.add(finalReadRow{w.at, l.Isolation, l.Topic, known(l.Partition.Partition), l.Time, known(l.LogStart),
		known(l.HighWatermark), known(l.LogEnd), known(l.LeaderEpoch), known(l.Position), known(l.SecondHighWatermark),
		known(l.SecondLogEnd), l.SecondAfterMs, l.Error})
}

func (w *Writer) takeReplicaRecords(l *histories.ReplicaRecords) {
	for _, r := range l.Records {
		w.tables.replicaRecords.add(replicaRecordRow{w.at, l.Topic, known(l.Partition.Partition), known(l.Replica), l.Source,
			known(l.LeaderEpoch), known(r.Offset), eventOf(r.Event), r.Corrupt, r.Digest})
	}
}
