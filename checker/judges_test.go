// This file tests the judges, rule by rule, with tales of a few lines: what is found and
// how it is told, and what cannot be told. The twins say which promise is broken; here it
// is which event, where, how often and in which words.

package checker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

// judgedCase is a tale of two partitions with all that its verdict finds, and all that it
// cannot tell.
type judgedCase struct {
	rule string
	tell func(t *tale)
	want []string
}

func testJudged(t *testing.T, cases []judgedCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(2)
			c.tell(story)
			if got, want := strings.Join(foundIn(check(t, &story.Memory)), "\n"), strings.Join(c.want, "\n"); got != want {
				t.Errorf("found\n%s\nwant\n%s\n%s", got, want, show(&story.Memory))
			}
		})
	}
}

// foundIn gives a line for everything that was found and for everything that cannot be told.
func foundIn(v *checker.Verdict) (found []string) {
	for _, p := range v.Promises {
		for _, i := range v.Anomalies[p.Name].Instances {
			found = append(found, fmt.Sprintf("%s (%s): %s", p.Name, p.Verdict, i.Text))
		}
		if part := v.Anomalies[p.Name]; part.Undecided > 0 {
			found = append(found, fmt.Sprintf("%s undecided: %s", p.Name, p.Reason))
		}
	}
	return found
}

// offset is a record of an event at an offset.
func offset(o int64, s *histories.Send) histories.Record {
	return histories.Record{Offset: o, Event: s.Event}
}

// given is a poll of a consumer that returned records of a partition.
func (t *tale) given(consumer string, partition int32, records ...histories.Record) *histories.PollReturn {
	t.wait(1)
	p := &histories.PollReturn{OperationID: histories.OperationID{Process: consumer, Number: t.numbers[consumer]}, Time: t.now,
		Records: []histories.Records{{Partition: at(partition), Records: records}}}
	t.numbers[consumer]++
	t.say(p)
	return p
}

// recorded are records that the final read of partition 0 found, of one leader epoch.
func (t *tale) recorded(epoch int32, records ...histories.Record) {
	t.say(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: histories.Records{Partition: at(0),
		LeaderEpoch: epoch, Records: records}})
}

// closed is a final read of a partition from start to end, which found the whole log.
func (t *tale) closed(partition int32, start, end int64) *histories.FinalRead {
	r := &histories.FinalRead{Partition: at(partition), Isolation: histories.ReadUncommitted, Time: t.now, LogStart: start,
		HighWatermark: end, LogEnd: end, Position: end, SecondHighWatermark: end, SecondLogEnd: end, SecondAfterMs: 1000}
	t.say(r)
	return r
}

func (t *tale) finished() { t.say(&histories.End{Time: t.now, Reason: histories.EndFinished}) }

func TestOrderIsJudgedByRank(t *testing.T) {
	testJudged(t, []judgedCase{
		{"events in the order of their ranks, whichever line comes first, are in order", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			a.Rank, b.Rank = 1, 0
			t.acknowledge(b, 0, t.write(0, b))
			t.acknowledge(a, 0, t.write(0, a))
			t.end()
		}, nil},
		{"events against the order of their ranks are not", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			a.Rank, b.Rank = 1, 0
			t.acknowledge(a, 0, t.write(0, a))
			t.acknowledge(b, 0, t.write(0, b))
			t.end()
		}, []string{
			"order-violation (violated): p/k/1 was sent before p/k/0 by the same producer with the same key, and lies " +
				"behind it: offsets 1 and 0 of orders/0",
		}},
		{"an unknown event at the very offset of a later one surfaced behind nothing", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(b, 0, 0)
			t.given("c", 0, offset(0, a))
			t.given("d", 0, offset(0, b))
			t.finished()
		}, []string{"divergence (violated): one poll found p/k/0 at orders/0 offset 0, another one p/k/1"}},
		{"of two acknowledged at one offset the one that was sent last is the one it surfaced behind", func(t *tale) {
			ghost, b, c := t.send("p", "k"), t.send("p", "k"), t.send("p", "k")
			t.acknowledge(b, 0, 0)
			t.acknowledge(c, 0, 0)
			t.given("c", 0, offset(0, b), offset(1, ghost))
			t.given("d", 0, offset(0, c))
			t.finished()
		}, []string{
			"late-ghost (violated): the outcome of p/k/0 was unknown; it surfaced at offset 1 of orders/0, behind p/k/2 " +
				"(offset 0), which was sent later and acknowledged",
			"divergence (violated): orders/0 offset 0 was acknowledged to both p/k/1 and p/k/2",
		}},
	})
	testMeasures(t, []measureCase{
		{"the first place of an event is no copy that lies behind a later one", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(b, 0, t.write(0, b))
			t.acknowledge(a, 0, t.write(0, a, a))
		}, map[string]float64{"stale-duplicates": 1, "order-violation": 1, "duplicate": 1}},
		{"the place of an event that lies in two partitions is the first one in that which acknowledged it", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(a, 1, 1)
			t.acknowledge(b, 1, 0)
			t.recorded(0, offset(0, a))
			t.say(&histories.FinalRecords{Isolation: histories.ReadUncommitted, Records: histories.Records{Partition: at(1),
				Records: []histories.Record{offset(0, b), offset(1, a)}}})
			t.closed(0, 0, 1)
			t.closed(1, 0, 2)
		}, map[string]float64{"order-violation": 1, "duplicate": 1}},
		{"nor is a copy at the very offset of a later one", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(a, 0, 0)
			t.acknowledge(b, 0, 1)
			t.recorded(0, offset(0, a), offset(1, a), offset(1, b))
			t.closed(0, 0, 2)
		}, map[string]float64{"stale-duplicates": 0, "duplicate": 1, "divergence": 1}},
	})
}

func TestWhatIsLostIsTold(t *testing.T) {
	testJudged(t, []judgedCase{
		{"without a final read a poll that got further says it, of the first offset too", func(t *tale) {
			a, b := t.send("p", "k"), t.send("p", "k")
			t.acknowledge(a, 0, 0)
			t.acknowledge(b, 0, 1)
			t.given("c", 0, offset(1, b))
			t.finished()
		}, []string{"lost-write (violated): p/k/0 was acknowledged at orders/0 offset 0, and no poll returned it, though one returned offset 1"}},
		{"of two acknowledgements that are both of the end of the log the first one is named", func(t *tale) {
			a := t.send("p", "k")
			t.acknowledge(a, 0, 1)
			t.acknowledge(t.again("p", a), 0, 2)
			t.done("p", "k", 0)
			t.end()
		}, []string{
			"lost-write (violated): p/k/0 was acknowledged at orders/0 offset 1, and the final read of that partition " +
				"did not find it anywhere: the log ends at 1",
		}},
		{"acknowledged without an offset, and the whole log was read", func(t *tale) {
			t.back(t.send("p", "k")).Partition = 0
			t.end()
		}, []string{
			"lost-write (violated): p/k/0 was acknowledged at orders/0 (offset not reported), and the final read of that " +
				"partition did not find it anywhere",
		}},
		{"acknowledged without an offset, and the log starts where it did before the run", func(t *tale) {
			t.Head.Topics[0].Start = []int64{5, 0}
			t.back(t.send("p", "k")).Partition = 0
			t.closed(0, 5, 5)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write (violated): p/k/0 was acknowledged at orders/0 (offset not reported), and the final read of that " +
				"partition did not find it anywhere",
		}},
		{"acknowledged without an offset, and the start of the log was removed", func(t *tale) {
			t.back(t.send("p", "k")).Partition = 0
			t.closed(0, 5, 5)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: 1 events cannot be told: acknowledged without an offset, and the start of the log was " +
				"removed",
		}},
		{"acknowledged without an offset, and the final read ended early", func(t *tale) {
			t.back(t.send("p", "k")).Partition = 0
			t.closed(0, 0, 5).Position = 3
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: rests on final-read-complete, which failed: not read to the end: orders/0 (read up to " +
				"3 of 5)",
		}},
		{"what is acknowledged between the high watermark and the end of the log is not shown, at the end it is lost", func(t *tale) {
			t.acknowledge(t.send("p", "k"), 0, 0)
			t.acknowledge(t.send("p", "l"), 0, 1)
			r := t.closed(0, 0, 0)
			r.LogEnd, r.SecondLogEnd = 1, 1
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write (violated): p/l/0 was acknowledged at orders/0 offset 1, and the final read of that partition " +
				"did not find it anywhere: the log ends at 1",
			"unseen (violated): p/k/0 was acknowledged at orders/0 offset 0; the log ends at 1, but readers are shown it " +
				"only up to 0",
		}},
		{"what was read in a partition that lost it may lie in the one that acknowledged it, which the final read left out",
			func(t *tale) {
				a := t.send("p", "k")
				t.acknowledge(a, 0, 5)
				t.given("c", 1, offset(0, a))
				t.closed(1, 0, 1)
				t.finished()
			}, []string{
				"vanished-read (violated): a consumer was given p/k/0 at orders/1 offset 0; in the final log, offset 0 holds " +
					"no event",
			}},
	})
}

func TestWhatWasAcknowledgedAnywhereIsLostOnceEveryPartitionWasRead(t *testing.T) {
	elsewhere := histories.Partition{Topic: "another"}
	testJudged(t, []judgedCase{
		{"every partition was read", func(t *tale) {
			t.back(t.send("p", "k"))
			t.end()
		}, []string{
			"lost-write (violated): p/k/0 was acknowledged at an unknown place, and the final read of every partition " +
				"did not find it",
		}},
		{"another topic was not read whole", func(t *tale) {
			t.back(t.send("p", "k"))
			t.end()
			t.say(&histories.FinalRead{Partition: elsewhere, Isolation: histories.ReadUncommitted, HighWatermark: 5, LogEnd: 5,
				Position: 2, SecondHighWatermark: 5, SecondLogEnd: 5})
		}, []string{
			"lost-write (violated): p/k/0 was acknowledged at an unknown place, and the final read of every partition " +
				"did not find it",
		}},
		{"another topic alone was read", func(t *tale) {
			t.Head.Topics = nil
			t.back(t.send("p", "k"))
			t.closed(0, 0, 0).Partition = elsewhere
			t.finished()
		}, []string{
			"lost-write undecided: 1 events cannot be told: acknowledged without a partition, and not every partition " +
				"was read",
		}},
		{"a partition was not read whole", func(t *tale) {
			t.back(t.send("p", "k"))
			t.closed(0, 0, 0)
			t.closed(1, 0, 5).Position = 3
			t.finished()
		}, []string{
			"lost-write undecided: rests on final-read-complete, which failed: not read to the end: orders/1 (read up to " +
				"3 of 5)",
		}},
		{"a partition that the header knows was not read", func(t *tale) {
			t.back(t.send("p", "k"))
			t.closed(0, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: rests on final-read-complete, which failed: not read to the end: orders/1 (never read)",
		}},
		{"a partition that a send asked for was not read", func(t *tale) {
			t.Head.Topics = nil
			t.send("p", "k").Partition = 1
			t.back(t.send("p", "k"))
			t.closed(0, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: 1 events cannot be told: acknowledged without a partition, and not every partition " +
				"was read",
		}},
		{"a partition below one that was read was not", func(t *tale) {
			t.Head.Topics = nil
			t.back(t.send("p", "k"))
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: 1 events cannot be told: acknowledged without a partition, and not every partition " +
				"was read",
		}},
	})
}

func TestEachOffsetDivergesOnce(t *testing.T) {
	testJudged(t, []judgedCase{
		{"two acknowledgements of one offset, where an acknowledgement is not final", func(t *tale) {
			t.Head.Producer[histories.PropertyAcks], t.Head.Producer[histories.PropertyIdempotence] = "1", "false"
			a, b := t.send("p", "k"), t.send("q", "k")
			t.acknowledge(a, 0, 0)
			t.acknowledge(b, 0, t.write(0, b))
			t.end()
		}, []string{
			"lost-write (not-promised): p/k/0 was acknowledged at orders/0 offset 0, and the final read of that " +
				"partition did not find it anywhere: offset 0 holds q/k/0",
			"divergence (not-promised): orders/0 offset 0 was acknowledged to both p/k/0 and q/k/0",
		}},
		{"three records that the final read found", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "l"), t.send("p", "m")
			t.recorded(0, offset(0, a), offset(0, b), offset(0, c))
			t.closed(0, 0, 1)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{"divergence (violated): the final read found p/k/0 and p/l/0 at orders/0 offset 0"}},
		{"a record that a poll found, and two others that the final read found", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "l"), t.send("p", "m")
			t.given("c", 0, offset(0, c))
			t.recorded(0, offset(0, a), offset(0, b))
			t.closed(0, 0, 1)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"divergence (violated): a poll found p/m/0 at orders/0 offset 0, the final read p/k/0",
			"vanished-read (violated): a consumer was given p/m/0 at orders/0 offset 0; in the final log, offset 0 holds " +
				"p/k/0",
		}},
	})
}

func TestReadsAreJudgedAgainstTheFinalLog(t *testing.T) {
	testJudged(t, []judgedCase{
		{"what was read behind the end of a final read that ended early may still be there", func(t *tale) {
			a, b := t.done("p", "k", 0), t.done("p", "k", 0)
			t.given("c", 0, offset(0, a), offset(1, b))
			t.recorded(0, offset(0, a))
			t.closed(0, 0, 2).Position = 1
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"lost-write undecided: rests on final-read-complete, which failed: not read to the end: orders/0 (read up to " +
				"1 of 2)",
			"vanished-read undecided: rests on final-read-complete, which failed: not read to the end: orders/0 (read up " +
				"to 1 of 2)",
		}},
		{"the leader epoch falls in what an unfinished final read found", func(t *tale) {
			a, b := t.done("p", "k", 0), t.done("p", "k", 0)
			t.recorded(2, offset(0, a))
			t.recorded(1, offset(1, b))
			t.finished()
		}, []string{"epoch-regression (violated): orders/0: the leader epoch falls from 2 at offset 0 to 1 at offset 1"}},
		{"of two records at one offset the later epoch counts", func(t *tale) {
			a, b, c := t.send("p", "k"), t.send("p", "l"), t.send("p", "m")
			t.recorded(1, offset(0, a))
			t.recorded(3, offset(0, b))
			t.recorded(2, offset(1, c))
			t.closed(0, 0, 2)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{
			"divergence (violated): the final read found p/k/0 and p/l/0 at orders/0 offset 0",
			"epoch-regression (violated): orders/0: the leader epoch falls from 3 at offset 0 to 2 at offset 1",
		}},
	})
}

// TestAReadBeforeTheSendIsToldByOneClock: the first to read it had another clock than
// the sender, so that nothing follows from its time.
func TestAReadBeforeTheSendIsToldByOneClock(t *testing.T) {
	tell := func(sendFirst bool, times ...int64) func(t *tale) { // which line comes first says nothing
		return func(t *tale) {
			t.say(&histories.Consumer{Name: "elsewhere", Clock: "another"})
			a := &histories.Send{OperationID: histories.OperationID{Process: "p"}, Time: 10, Event: "p/k/0", Topic: generatedTopic,
				Partition: histories.Unknown, OrderingKey: "k"}
			if sendFirst {
				t.say(a)
			}
			t.given("elsewhere", 0, offset(0, a)).Time = 1
			for i, read := range times {
				t.given(fmt.Sprintf("c%d", i), 0, offset(0, a)).Time = read
			}
			if !sendFirst {
				t.say(a)
			}
			t.now = 20
			t.acknowledge(a, 0, t.write(0, a))
			t.end()
		}
	}
	testJudged(t, []judgedCase{
		{"after the send", tell(false, 10, 11), nil},
		{"before the send, as one of several was", tell(false, 10, 9), []string{
			"future-read (violated): p/k/0 was read at orders/0 offset 0, 1 ns before it was sent",
		}},
		{"before the send, as several were", tell(false, 8, 9), []string{
			"future-read (violated): p/k/0 was read at orders/0 offset 0, 2 ns before it was sent",
		}},
		{"after the send, which was recorded first", tell(true, 10, 11), nil},
		{"before the send, which was recorded first, as one of several was", tell(true, 10, 9), []string{
			"future-read (violated): p/k/0 was read at orders/0 offset 0, 1 ns before it was sent",
		}},
		{"before the send, which was recorded first, as several were", tell(true, 8, 9), []string{
			"future-read (violated): p/k/0 was read at orders/0 offset 0, 2 ns before it was sent",
		}},
	})
}

func TestAFreshClientIsServedWithinTheLimit(t *testing.T) {
	const second = 1000
	unserved := func(timeout string, seconds ...int64) func(t *tale) {
		return func(t *tale) {
			t.done("p", "k", 0)
			t.wait(100 * second)
			t.say(&histories.ClusterEvent{Time: t.now, What: histories.ClusterWhole})
			if timeout != "" {
				t.Head.Producer[histories.PropertyDeliveryTimeout] = timeout
			}
			for i, s := range seconds {
				name := fmt.Sprintf("fresh%d", i)
				t.say(&histories.Producer{Name: name, Time: t.now, AttemptsVisible: true, Fresh: true})
				send := t.send(name, "")
				send.Partition, send.Time = 0, (100+s)*second*millisecond
			}
			t.end()
		}
	}
	undecided := []string{
		"not-recovered undecided: rests on last-write-to-each-partition-succeeded, which failed: the last write to " +
			"orders/0 was not acknowledged",
	}
	violated := func(seconds int) []string {
		return []string{fmt.Sprintf("not-recovered (violated): the cluster said that it is whole, and for %d s no send of a fresh "+
			"client to orders/0 was acknowledged", seconds)}
	}
	testJudged(t, []judgedCase{
		{"less than 60 s", unserved("", 0, 59), undecided},
		{"60 s", unserved("", 0, 60), violated(60)},
		{"60 s of a second client, whose line comes first", unserved("", 60, 0), violated(60)},
		{"less than twice the delivery timeout", unserved("120000", 0, 239), undecided},
		{"twice the delivery timeout", unserved("120000", 0, 240), violated(240)},
		{"a short delivery timeout shortens nothing", unserved("1000", 0, 59), undecided},
	})
}

func TestStepsAreJudgedByWhatTheConsumerWasGivenLast(t *testing.T) {
	// written puts n events in the log of partition 0.
	written := func(t *tale, n int) {
		for range n {
			t.done("p", "k", 0)
		}
	}
	failing := func(t *tale, offsets ...int64) {
		t.poll("c", 0, offsets...)
		t.Body[len(t.Body)-1].(*histories.PollReturn).Stated = histories.OutcomeInfo
	}
	moved := func(t *tale, how string) {
		t.say(&histories.PositionChange{Process: "c", Time: t.now, How: how,
			Partitions: []histories.PartitionPosition{{Partition: at(0), Position: histories.Unknown}}})
	}
	testJudged(t, []judgedCase{
		{"after a poll that failed the closest position counts", func(t *tale) {
			written(t, 7)
			t.poll("c", 0, 0)
			failing(t, 1, 2, 3)
			t.poll("c", 0, 6)
			t.end()
		}, []string{
			"skipped-poll (violated): c was given offset 6 of orders/0 after offset 3 and stepped over p/k/4 at offset 4",
		}},
		{"in a log that may have been cut off, a record that is not as it was given proves nothing of what lay before it", func(t *tale) {
			t.Head.Effects = []string{histories.EffectUncleanElection}
			sends := []*histories.Send{t.send("p", "k"), t.send("p", "k"), t.send("p", "k")}
			t.given("c", 0, offset(0, sends[0]), offset(2, sends[2]))
			t.recorded(0, offset(0, sends[0]), offset(1, sends[1]))
			t.recorded(1, offset(2, sends[2]))
			t.closed(0, 0, 3)
			t.closed(1, 0, 0)
			t.finished()
		}, []string{"skipped-poll undecided: 1 events cannot be told: what lies in the log where a consumer stepped over may have been " +
			"written there after it had passed, in the place of what was lost"}},
		{"after a poll that failed the consumer may be where it was", func(t *tale) {
			written(t, 7)
			t.poll("c", 0, 0)
			failing(t, 1, 2, 3)
			t.poll("c", 0, 1, 2)
			t.end()
		}, nil},
		{"after many polls that failed the consumer may have gone on", func(t *tale) {
			written(t, 22)
			t.poll("c", 0, 0)
			for o := range int64(20) {
				failing(t, o+1)
			}
			t.poll("c", 0, 21)
			t.end()
		}, nil},
		{"a first poll that failed says nothing of where the consumer is", func(t *tale) {
			written(t, 7)
			failing(t, 5)
			t.poll("c", 0, 0)
			t.end()
		}, nil},
		{"a reset whose position is not known allows every step", func(t *tale) {
			written(t, 3)
			t.poll("c", 0, 0, 1, 2)
			moved(t, histories.ChangeReset)
			t.poll("c", 0, 0)
			t.end()
		}, nil},
		{"a partition that is taken away and assigned anew may be read from anywhere", func(t *tale) {
			written(t, 3)
			t.poll("c", 0, 0, 1, 2)
			moved(t, histories.ChangeRevoke)
			moved(t, histories.ChangeAssign)
			t.poll("c", 0, 0)
			t.end()
		}, nil},
		{"one that is assigned again is read on", func(t *tale) {
			written(t, 3)
			t.poll("c", 0, 0, 1, 2)
			moved(t, histories.ChangeAssign)
			t.poll("c", 0, 0)
			t.end()
		}, []string{
			"backward-poll (violated): c was given offset 0 of orders/0 after offset 2, without a seek, a new " +
				"assignment or a reset",
		}},
		{"without one a step back is none that is allowed", func(t *tale) {
			written(t, 3)
			t.poll("c", 0, 0, 1, 2)
			t.poll("c", 0, 0)
			t.end()
		}, []string{
			"backward-poll (violated): c was given offset 0 of orders/0 after offset 2, without a seek, a new assignment " +
				"or a reset",
		}},
	})
}

func TestAPhantomIsToldWhereItWasReadFirst(t *testing.T) {
	ghost := &histories.Send{Event: "nobody/0"}
	testJudged(t, []judgedCase{
		{"at the lower offset of one partition", func(t *tale) {
			t.given("c", 1, offset(5, ghost))
			t.given("d", 1, offset(3, ghost))
			t.end()
		}, []string{
			"vanished-read (violated): a consumer was given nobody/0 at orders/1 offset 3; in the final log, the log " +
				"ends at 0",
			"vanished-read (violated): a consumer was given nobody/0 at orders/1 offset 5; in the final log, the log " +
				"ends at 0",
			"phantom (violated): nobody/0 was read at orders/1 offset 3, and nobody sent it",
		}},
		{"in the partition of the first read", func(t *tale) {
			t.given("c", 1, offset(5, ghost))
			t.given("d", 0, offset(3, ghost))
			t.end()
		}, []string{
			"vanished-read (violated): a consumer was given nobody/0 at orders/0 offset 3; in the final log, the log " +
				"ends at 0",
			"vanished-read (violated): a consumer was given nobody/0 at orders/1 offset 5; in the final log, the log " +
				"ends at 0",
			"phantom (violated): nobody/0 was read at orders/1 offset 5, and nobody sent it",
		}},
	})
}

func TestForeignRecordsAreCounted(t *testing.T) {
	story := newTale(1)
	story.done("p", "k", 0)
	story.given("c", 0, histories.Record{Offset: 1})
	story.logs[0] = append(story.logs[0], histories.Record{Offset: 1})
	story.end()
	if v := check(t, &story.Memory); v.Counts.Foreign != 2 || v.Counts.InLog != 1 || v.Counts.Polls != 1 {
		t.Errorf("%+v, want one foreign record in a poll and one in the log", v.Counts)
	}
}

// TestAProcessThatNeverSaidWhatItIsHasTheRunsClock: and so nothing follows from the time of a read
// by another one.
func TestAProcessThatNeverSaidWhatItIsHasTheRunsClock(t *testing.T) {
	for _, c := range []struct {
		clock string
		want  int64
	}{{"another", 0}, {generatedClock, 1}} {
		story := newTale(1)
		story.Body = []histories.Line{&histories.Consumer{Name: "c", Clock: c.clock}}
		story.now = 10
		a := story.send("unknown", "k")
		story.acknowledge(a, 0, story.write(0, a))
		story.poll("c", 0, 0)
		story.Body[len(story.Body)-1].(*histories.PollReturn).Time = 1
		story.end()
		if found := check(t, &story.Memory).Anomalies[checker.FutureRead].Count; found != c.want {
			t.Errorf("by the clock %q %d reads were before the send, want %d", c.clock, found, c.want)
		}
	}
}

func TestAnEventBelongsWhereItWasAcknowledgedElseWhereItWasSentTo(t *testing.T) {
	for _, c := range []struct {
		rule                string
		asked, acknowledged int32 // Unknown: not
		second              bool  // partition 1 is heard of before partition 0
		want                int32
	}{
		{"it was acknowledged in the second partition", histories.Unknown, 1, false, 1},
		{"it was acknowledged in the first one", 1, 0, false, 0},
		{"it was sent to the second one", 1, histories.Unknown, false, 1},
		{"it was sent to the first one, which was heard of last", 0, histories.Unknown, true, 0},
		{"it was sent to neither, and is found in the first one", histories.Unknown, histories.Unknown, false, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(2)
			if c.second {
				story.done("q", "k", 1)
			}
			s := story.send("p", "k")
			s.Partition = c.asked
			offsets := map[int32]int64{0: story.write(0, s), 1: story.write(1, s)}
			if c.acknowledged != histories.Unknown {
				story.acknowledge(s, c.acknowledged, offsets[c.acknowledged])
			}
			story.end()
			all := check(t, &story.Memory).Anomalies[checker.Duplicate].Instances
			if len(all) != 1 || all[0].Partition != c.want || all[0].Offset != offsets[c.want] {
				t.Errorf("%+v, want one of partition %d", all, c.want)
			}
		})
	}
}

func TestWithoutAFinalReadAcknowledgementsTellWhereEventsLie(t *testing.T) {
	testJudged(t, []judgedCase{
		{"one without an offset tells nothing", func(t *tale) {
			a := t.done("p", "k", 0)
			t.poll("c", 0, 0)
			t.back(t.send("p", "k")).Partition = 0
			t.acknowledge(t.again("p", a), 0, histories.Unknown)
			t.finished()
		}, []string{
			"unseen (unknown): p/k/1 was acknowledged at orders/0 (offset not reported), and no poll returned it or " +
				"anything behind it",
		}},
		{"of several the lowest place in their partition counts", func(t *tale) {
			a := t.send("p", "k")
			t.acknowledge(a, 0, 5)
			t.acknowledge(t.again("p", a), 0, 3)
			t.acknowledge(t.send("p", "k"), 0, 4)
			t.finished()
		}, []string{
			"unseen (unknown): p/k/2 was acknowledged at orders/0 offset 4, and no poll returned it or anything behind it",
			"unseen (unknown): p/k/0 was acknowledged at orders/0 offset 5, and no poll returned it or anything behind it",
		}},
		{"an unfinished final read is taken in the order of its offsets", func(t *tale) {
			a, b := t.done("p", "k", 0), t.done("p", "k", 0)
			t.recorded(2, offset(1, b))
			t.recorded(1, offset(0, a))
			t.finished()
		}, nil},
	})
	story := newTale(1)
	a := story.send("p", "k")
	story.acknowledge(a, 0, 5)
	story.acknowledge(story.again("p", a), 0, 3)
	story.finished()
	if c := check(t, &story.Memory).Counts; c.ApplicationDuplicates != 1 || c.InLog != 0 {
		t.Errorf("%+v, want one event that the application wrote twice, and none that was read", c)
	}
}

func TestAnAcknowledgedAttemptTellsThePartitionThatTheSendAskedFor(t *testing.T) {
	testJudged(t, []judgedCase{{"the first one", func(t *tale) {
		s := t.send("p", "k")
		s.Partition = 0
		t.batch(0, 0, s)
		t.back(s).ClientError = "RecordTimeout"
		t.end()
	}, []string{
		"lost-write (violated): p/k/0 was acknowledged at orders/0 (offset not reported), and the final read of that " +
			"partition did not find it anywhere",
	}}})
}

func TestTimesOfTwoClocksAreNotCompared(t *testing.T) {
	for _, c := range []struct {
		clock string
		want  int64
	}{{"another", 0}, {generatedClock, 1}} {
		story := newTale(1)
		story.say(&histories.Producer{Name: "x", Clock: c.clock})
		a, b := story.send("p", "k"), story.send("q", "k")
		story.acknowledge(b, 0, 1)
		x := story.again("x", b)
		story.acknowledge(x, 0, 1)
		a.Time = story.now + 1 // after b was acknowledged, and it lies before b
		story.now += 2
		story.acknowledge(a, 0, story.write(0, a))
		story.write(0, b)
		story.end()
		if found := check(t, &story.Memory).Anomalies[checker.RealtimeOrderViolation].Count; found != c.want {
			t.Errorf("with the clock %q %d violations, want %d", c.clock, found, c.want)
		}
	}
}

// TestWhereCompactionExplainsThatNothingLiesAtAnAcknowledgedOffset: the log holds another copy
// of the event, and of two the cleaner keeps the later.
func TestWhereCompactionExplainsThatNothingLiesAtAnAcknowledgedOffset(t *testing.T) {
	wrong := func(place int64) []string {
		return []string{fmt.Sprintf("wrong-offset (violated): p/k/0 was acknowledged at orders/0 offset 3 and lies at orders/0 offset %d; "+
			"offset 3 holds no event", place)}
	}
	// The event is acknowledged at offset 3 and lies elsewhere in a log that begins at start.
	tell := func(policy string, twice bool, start, place int64) func(t *tale) {
		return func(t *tale) {
			t.Head.Topics[0].Properties = map[string]string{histories.PropertyCleanupPolicy: policy}
			s := t.send("p", "k")
			t.acknowledge(s, 0, 3)
			if twice {
				t.back(t.again("p", s)).Error = "REQUEST_TIMED_OUT"
			}
			t.given("c", 0, offset(place, s))
			if place >= start {
				t.recorded(0, offset(place, s))
			}
			t.closed(0, start, 6)
			t.closed(1, 0, 0)
			t.finished()
		}
	}
	testJudged(t, []judgedCase{
		{"the later copy lies behind it", tell("compact", true, 0, 5), nil},
		{"the earlier copy was seen below the log's start", tell("compact,delete", true, 2, 1), nil},
		{"of two copies the cleaner never keeps the earlier", tell("compact", true, 0, 1), wrong(1)},
		{"not where the log begins either", tell("compact,delete", true, 1, 1), wrong(1)},
		{"where it was sent once, and is promised to be written once, there was no other copy", tell("compact", false, 0, 5), wrong(5)},
		{"nor is there anything to explain it where the topic is not compacted", tell("delete", true, 0, 5), wrong(5)},
		{"with retries and without idempotence there may be another copy", func(t *tale) {
			t.Head.Producer[histories.PropertyIdempotence] = "false"
			tell("compact", false, 0, 5)(t)
		}, nil},
		{"a log that holds something else there was not compacted there", func(t *tale) {
			tell("compact", true, 0, 5)(t)
			t.recorded(0, histories.Record{Offset: 3})
		}, []string{strings.Replace(wrong(5)[0], "holds no event", "holds (a record of another run)", 1)}},
	})
}
