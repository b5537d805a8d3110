// This file holds the names of the anomalies and what each means in plain words.

package checker

// Anomaly is the name of an anomaly, as in verdict.json.
type Anomaly string

// The anomalies that are judged. Their definitions stand in the table below.
const (
	LostWrite              Anomaly = "lost-write"
	Duplicate              Anomaly = "duplicate"
	OrderViolation         Anomaly = "order-violation"
	LateGhost              Anomaly = "late-ghost"
	RealtimeOrderViolation Anomaly = "realtime-order-violation"
	WrongOffset            Anomaly = "wrong-offset"
	Divergence             Anomaly = "divergence"
	VanishedRead           Anomaly = "vanished-read"
	EpochRegression        Anomaly = "epoch-regression"
	FutureRead             Anomaly = "future-read"
	Phantom                Anomaly = "phantom"
	Corrupt                Anomaly = "corrupt"
	ImpossibleWrite        Anomaly = "impossible-write"
	WrongPlace             Anomaly = "wrong-place"
	SkippedPoll            Anomaly = "skipped-poll"
	BackwardPoll           Anomaly = "backward-poll"
	Unseen                 Anomaly = "unseen"
	ReplicaDivergence      Anomaly = "replica-divergence"
	NotRecovered           Anomaly = "not-recovered"
)

// Description is an anomaly in plain words.
type Description struct {
	Name Anomaly
	// Promise is what was promised, as a sentence that a user can hold Kafka to.
	Promise string
	// Broken is what happened when it is violated, completing "n times: …".
	Broken string
}

// Anomalies gives every anomaly that Check judges, the gravest first. The
// definitions are those of the design, chapter 4.
func Anomalies() []Description {
	return []Description{
		{LostWrite, "an acknowledged event is in the log",
			"an acknowledged event is not in the log"},
		{WrongOffset, "an acknowledged event lies at the offset of its acknowledgement",
			"an acknowledged event lies at another offset than its acknowledgement says"},
		{Corrupt, "a record holds what was sent",
			"a record differs from what was sent"},
		{Duplicate, "an event is written once",
			"an event that was sent once is in the log more than once"},
		{OrderViolation, "events of one producer and key lie in the order in which they were sent",
			"an event lies behind one of its producer and key that was sent after it"},
		{LateGhost, "an event whose outcome was unknown does not surface behind a later acknowledged one",
			"an event whose outcome was unknown surfaced behind a later one that was acknowledged"},
		{RealtimeOrderViolation, "an event that is sent after another one was acknowledged lies behind it",
			"an event that was sent after another one's acknowledgement lies before it"},
		{Divergence, "one offset holds one record, whoever reads it, whenever",
			"two reads of one offset returned different records"},
		{VanishedRead, "a record that a consumer was given stays in the log",
			"a record that a consumer was given is not in the final log"},
		{EpochRegression, "leader epochs do not fall along a log",
			"the leader epoch falls from one batch of the log to the next"},
		{FutureRead, "no record is read before it was sent",
			"a record was read before it was sent"},
		{Phantom, "every event in the log was sent by someone",
			"an event was read that nobody sent"},
		{ImpossibleWrite, "an event that was refused is not in the log",
			"an event is in the log although its send certainly failed"},
		{WrongPlace, "an event lies where it was sent to, and all events of a key in one partition",
			"an event lies in another topic or partition than it must"},
		{SkippedPoll, "a consumer is given every record in turn",
			"a consumer stepped over a record of the log"},
		{BackwardPoll, "a consumer is not given a record again without asking",
			"a consumer was given records that lie at or before what it had already been given"},
		{Unseen, "what is in the log is shown to a reader",
			"an acknowledged event is in the log but is not shown to a reader"},
		{ReplicaDivergence, "all replicas of a partition hold the same records",
			"two replicas of a partition hold different records"},
		{NotRecovered, "after every fault is undone, the cluster serves again within the limit",
			"after every fault was undone, the cluster did not serve again within the limit"},
	}
}
