// This file holds the tests of the recording producer on a real client and a
// cluster in this process.

package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproof/ackproof/histories"
)

// checkSends holds what is true of every history of a producer: numbers and ranks
// are gapless and in line order, and every operation has a completion. It gives the
// completions by operation.
func (r *testRun) checkSends(name string) map[int64][]*histories.SendReturn {
	r.Helper()
	invoked := make(map[int64]*histories.Send)
	returned := make(map[int64][]*histories.SendReturn)
	ranks := make(map[string]int64)
	var last int64
	for _, line := range r.lines.all() {
		switch l := line.(type) {
		case *histories.Send:
			if l.Process != name {
				continue
			}
			if l.Number != int64(len(invoked)) || l.Rank != ranks[l.OrderingKey] || l.Time < last {
				r.Fatalf("send %+v: want number %d, rank %d, a time from %d", l, len(invoked), ranks[l.OrderingKey], last)
			}
			last = l.Time
			ranks[l.OrderingKey]++
			invoked[l.Number] = l
		case *histories.SendReturn:
			if l.Process != name {
				continue
			}
			if invoked[l.Number] == nil || l.Time < invoked[l.Number].Time {
				r.Fatalf("%+v has no invocation before it", l)
			}
			returned[l.Number] = append(returned[l.Number], l)
		}
	}
	for number := range invoked {
		if len(returned[number]) == 0 {
			r.Fatalf("operation %d of %s never ended", number, name)
		}
	}
	return returned
}

func TestEverySendIsRecordedAsItHappened(t *testing.T) {
	for _, properties := range []string{
		"", "acks=1", "acks=0", "enable.idempotence=false", "retries=0",
		"enable.idempotence=false,max.in.flight.requests.per.connection=5",
		"compression.type=none", "compression.type=gzip", "compression.type=snappy", "compression.type=lz4", "compression.type=zstd",
		"linger.ms=0,batch.size=1024", "partitioner.class=" + roundRobinPartitioner,
		"delivery.timeout.ms=30000", "request.timeout.ms=1000,retry.backoff.ms=50",
	} {
		t.Run("properties "+properties, func(t *testing.T) {
			r := newTestRun(t, 4)
			p := r.producer(properties)
			const count = 600
			r.send(p, count, "k1", "k2", "", "k/3")
			if unknown := r.closed(p, 20*time.Second); unknown != 0 {
				t.Fatalf("%d sends were closed as unknown", unknown)
			}
			returned := r.checkSends("p1")
			if len(returned) != count {
				t.Fatalf("%d operations", len(returned))
			}
			r.arrived(count)
			if s := r.finalRead(FinalReadOptions{}); s.Complete != 4 || s.Records != count {
				t.Fatalf("the final read is %+v", s)
			}
			r.checkPlaces(returned, properties == "acks=0")
			if c := r.recorder.Counts(); c.Sent != count || c.Acknowledged != count || c.Errored+c.Closed+c.Foreign+c.Corrupt != 0 {
				t.Fatalf("counts are %+v", c)
			}
		})
	}
}

// checkPlaces: every acknowledged event lies once, where its acknowledgement says.
func (r *testRun) checkPlaces(returned map[int64][]*histories.SendReturn, withoutOffsets bool) {
	r.Helper()
	events := r.events()
	for _, send := range linesOf[*histories.Send](r.lines) {
		places := events[send.Event]
		answer := returned[send.Number][0]
		if len(places) != 1 || answer.Error+answer.ClientError != "" {
			r.Fatalf("%s is at %v; its completion is %+v", send.Event, places, answer)
		}
		if withoutOffsets != (answer.Offset == histories.Unknown) {
			r.Fatalf("offset %d is recorded for %s", answer.Offset, send.Event)
		}
		if !withoutOffsets && places[0] != place(answer.Partition, answer.Offset) {
			r.Fatalf("%s was acknowledged at %s and lies at %s", send.Event, place(answer.Partition, answer.Offset), places[0])
		}
	}
}

func TestTheProducerLineSaysWhatIsInForce(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producerWith(ProducerOptions{Name: "p2", Continues: "p1", Fresh: true, AttemptsVisible: true, Properties: r.properties("acks=1")})
	r.closed(p, 0)
	line := linesOf[*histories.Producer](r.lines)[0]
	if line.Name != "p2" || line.Client != "franz-go" || line.ClientVersion == "" || line.Continues != "p1" ||
		!line.Fresh || !line.AttemptsVisible || line.Requested["acks"] != "1" || len(line.Requested) != 1 ||
		line.Properties["enable.idempotence"] != "false" || line.Properties["linger.ms"] != "10" {
		t.Fatalf("the line is %+v", line)
	}
	if ends := linesOf[*histories.ProducerClose](r.lines); len(ends) != 1 || ends[0].Name != "p2" {
		t.Fatalf("the session's ends are %+v", ends)
	}
}

func TestRanksAreTheHandOverOrderOfConcurrentSenders(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	var senders sync.WaitGroup
	for s := range 4 {
		senders.Go(func() {
			for range 250 {
				if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: fmt.Sprint("k", s%2), ValueSize: 20}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	r.closed(p, 20*time.Second)
	returned := r.checkSends("p1")
	offsets := make(map[string]int64)
	for _, send := range linesOf[*histories.Send](r.lines) {
		offset := returned[send.Number][0].Offset
		if before, known := offsets[send.OrderingKey]; known && offset <= before {
			t.Fatalf("rank %d of %s lies at %d, behind the next at %d", send.Rank, send.OrderingKey, offset, before)
		}
		offsets[send.OrderingKey] = offset
	}
}

func TestAnEventThatIsSentAgainSaysSo(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	r.send(p, 1, "k1")
	again := &Resend{Event: Event{"p1", "k1", 0}, Of: histories.OperationID{Process: "p1", Number: 0}}
	if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k1", ValueSize: 60, Again: again}); err != nil {
		t.Fatal(err)
	}
	r.send(p, 1, "k1")
	r.closed(p, 20*time.Second)
	var got []string
	for _, send := range linesOf[*histories.Send](r.lines) {
		got = append(got, fmt.Sprintf("%s rank %d again %t", send.Event, send.Rank, send.ResendOf != nil))
	}
	want := "p1/k1/0 rank 0 again false, p1/k1/0 rank 1 again true, p1/k1/1 rank 2 again false"
	if strings.Join(got, ", ") != want {
		t.Fatalf("sends are %v, want %s", got, want)
	}
	r.finalRead(FinalReadOptions{})
	if places := r.events()["p1/k1/0"]; len(places) != 2 {
		t.Fatalf("the event that was sent twice is at %v", places)
	}
}

func TestTwoSessionsCannotHaveOneName(t *testing.T) {
	r := newTestRun(t, 1)
	r.producer("")
	if _, err := FranzGo().NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: "p1"}); err == nil {
		t.Fatal("a second p1 was opened")
	}
}

func TestResultsAreNamedAsTheTablesNameThem(t *testing.T) {
	for _, c := range []struct {
		rule, properties   string
		fault              *kerr.Error
		error, clientError string
	}{
		{"an answer that is final is a Kafka error", "", kerr.MessageTooLarge, "MESSAGE_TOO_LARGE", ""},
		{"an answer that is repeated until retries are used up is a Kafka error", "retries=1,enable.idempotence=false", kerr.NotLeaderForPartition,
			"NOT_LEADER_OR_FOLLOWER", ""},
		{"a delivery timeout is the client's error", "delivery.timeout.ms=1000,request.timeout.ms=500,linger.ms=0", kerr.RequestTimedOut,
			"", "kgo.ErrRecordTimeout"},
		{"without idempotence too", "enable.idempotence=false,delivery.timeout.ms=1000,request.timeout.ms=500,linger.ms=0", kerr.RequestTimedOut,
			"", "kgo.ErrRecordTimeout"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := newTestRun(t, 1)
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.fault, Count: -1})
			p := r.producer(c.properties)
			r.send(p, 1, "k1")
			if unknown := r.closed(p, 20*time.Second); unknown != 0 {
				t.Fatalf("%d sends were closed as unknown", unknown)
			}
			got := r.checkSends("p1")[0]
			if len(got) != 1 || got[0].Error != c.error || got[0].ClientError != c.clientError || got[0].Message == "" ||
				got[0].Offset != histories.Unknown || got[0].Closed {
				t.Fatalf("the completion is %+v; want %q %q", got[0], c.error, c.clientError)
			}
			if n := r.recorder.Counts().Errored; n != 1 {
				t.Fatalf("%d errors are counted", n)
			}
		})
	}
}

func TestErrorsOfFranzGoHaveNames(t *testing.T) {
	for err, want := range map[error][2]string{
		context.Canceled: {"", "context.Canceled"},
		fmt.Errorf("records have timed out: %w", context.DeadlineExceeded): {"", "context.DeadlineExceeded"},
		kerr.NotEnoughReplicas: {"NOT_ENOUGH_REPLICAS", ""},
		fmt.Errorf("%w (uncompressed_bytes=5)", kerr.MessageTooLarge): {"MESSAGE_TOO_LARGE", ""},
		&net.OpError{Op: "dial", Err: errors.New("refused")}:          {"", "errors.errorString"},
		errors.New("topic purged while buffered"):                     {"", "kgo.errPurged"},
	} {
		kafka, client := nameFranzGoError(err)
		if kafka != want[0] || client != want[1] {
			t.Errorf("%v is named %q, %q; want %q", err, kafka, client, want)
		}
	}
}

// An idempotent franz-go without limits waits for ever for an answer that says
// neither yes nor no: the recorder ends the operation, and says of the library what
// the library says when it is closed.
func TestASendThatNeverEndsIsClosedAsUnknown(t *testing.T) {
	r := newTestRun(t, 2)
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1})
	p := r.producer("")
	told := make(chan SendResult, 1)
	if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k1", Done: func(s SendResult) { told <- s }}); err != nil {
		t.Fatal(err)
	}
	r.send(p, 3, "k2", "k3")
	if unknown := r.closed(p, 300*time.Millisecond); unknown != 4 {
		t.Fatalf("%d sends were closed as unknown, want 4", unknown)
	}
	for number, returns := range r.checkSends("p1") {
		if len(returns) != 2 || !returns[0].Closed || returns[0].Error+returns[0].ClientError != "" ||
			returns[1].Closed || returns[1].ClientError != "kgo.ErrClientClosed" {
			t.Fatalf("operation %d ended with %+v", number, returns)
		}
	}
	if s := <-told; !s.Closed || s.Event != "p1/k1/0" {
		t.Fatalf("the sender was told %+v", s)
	}
	lines := r.lines.all()
	if _, last := lines[len(lines)-1].(*histories.ProducerClose); !last {
		t.Fatalf("the last line is %T, want the end of the session", lines[len(lines)-1])
	}
	if c := r.recorder.Counts(); c.Closed != 4 {
		t.Fatalf("counts are %+v", c)
	}
	// It is in the log all the same: closed is unknown, not failed.
	if s := r.finalRead(FinalReadOptions{}); s.Records != 4 {
		t.Fatalf("%d records are in the log", s.Records)
	}
}

func TestAnAcknowledgementAfterTheRecordersLimitIsALineOfItsOwn(t *testing.T) {
	r := newTestRun(t, 1)
	release := make(chan struct{})
	p := r.producer("linger.ms=0")
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	told := make(chan SendResult, 2)
	if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k1", Done: func(s SendResult) { told <- s }}); err != nil {
		t.Fatal(err)
	}
	session := p.(*franzGoProducer).session
	if n := session.CloseOutstanding(); n != 1 {
		t.Fatalf("%d sends were outstanding", n)
	}
	close(release)
	eventually(t, "the acknowledgement", func() bool { return r.recorder.Counts().Acknowledged == 1 })
	r.closed(p, 10*time.Second)
	returns := r.checkSends("p1")[0]
	if len(returns) != 2 || !returns[0].Closed || returns[1].Closed || returns[1].Offset != 0 || returns[1].Error+returns[1].ClientError != "" {
		t.Fatalf("the completions are %+v", returns)
	}
	if s := <-told; !s.Closed || len(told) != 0 {
		t.Fatalf("the sender was told %+v and %d more", s, len(told))
	}
}

func TestClosingWhileNoBrokerCanBeReached(t *testing.T) {
	r := newTestRun(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.connection = Connection{Seeds: []string{listener.Addr().String()}}
	_ = listener.Close() // nobody listens there any more
	p := r.producer("")
	r.send(p, 5, "k1")
	begun := time.Now()
	if unknown := r.closed(p, 100*time.Millisecond); unknown != 5 {
		t.Fatalf("%d sends were closed as unknown, want 5", unknown)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Fatalf("closing took %v", took)
	}
	r.checkSends("p1")
}

func TestAClosedProducerTakesNoSends(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	r.send(p, 1, "k1")
	r.closed(p, 10*time.Second)
	if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k1"}); !errors.Is(err, ErrClosed) {
		t.Fatalf("sending gave %v", err)
	}
	if unknown, err := p.Close(r.context(), time.Second); unknown != 0 || err != nil {
		t.Fatalf("the second close gave %d, %v", unknown, err)
	}
	if n := len(r.checkSends("p1")); n != 1 {
		t.Fatalf("%d operations", n)
	}
}

// A full buffer makes the library's Produce wait. The sender's context ends that
// wait, and does nothing to what was handed over before.
func TestWaitingForBufferSpaceEndsWithTheContext(t *testing.T) {
	r := newTestRun(t, 1)
	release := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	p := r.producer("buffer.memory=700,linger.ms=0")
	sending, stop := context.WithCancel(r.context())
	defer stop()
	var err error
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		for err == nil {
			err = p.Send(sending, SendRequest{Topic: testTopic, Key: "k1", ValueSize: 200})
		}
	}()
	eventually(t, "the buffer to be full", func() bool { return r.recorder.Counts().Sent == 3 })
	second, stopSecond := context.WithTimeout(r.context(), 50*time.Millisecond)
	defer stopSecond()
	if err := p.Send(second, SendRequest{Topic: testTopic, Key: "k2"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a sender behind the one that waits got %v", err)
	}
	stop()
	<-blocked
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the sender stopped with %v", err)
	}
	eventually(t, "the result of the send that waited", func() bool { return r.recorder.Counts().Errored == 1 })
	if c := r.recorder.Counts(); c.Acknowledged != 0 || c.Sent != 3 {
		t.Fatalf("counts are %+v", c)
	}
	release <- struct{}{}
	if unknown := r.closed(p, 20*time.Second); unknown != 0 {
		t.Fatalf("%d sends were closed as unknown", unknown)
	}
	returned := r.checkSends("p1")
	if returned[0][0].ClientError != "" || returned[1][0].ClientError != "" || returned[2][0].ClientError != "context.Canceled" {
		t.Fatalf("the completions are %+v %+v %+v", returned[0][0], returned[1][0], returned[2][0])
	}
}

func TestAPropertyThatForbidsTheRecordsIsRefused(t *testing.T) {
	r := newTestRun(t, 1)
	for property, text := range map[string]string{"batch.size": "batch.size=1024", "buffer.memory": "buffer.memory=1000"} {
		_, err := FranzGo().NewProducer(r.context(), ProducerOptions{Recorder: r.recorder, Connection: r.connection, Name: property,
			Properties: r.properties(text), LargestValue: 1000})
		var notApplicable *NotApplicableError
		if !errors.As(err, &notApplicable) || notApplicable.Property != property {
			t.Errorf("opening a producer gave %v", err)
		}
	}
}

func TestAHistoryThatCannotBeWrittenStopsTheRun(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	r.send(p, 1, "k1")
	full := errors.New("no space left on device")
	r.lines.failWith(full)
	if err := p.Send(r.context(), SendRequest{Topic: testTopic, Key: "k1"}); !errors.Is(err, full) {
		t.Fatalf("sending gave %v", err)
	}
	select {
	case <-r.recorder.Failed():
	default:
		t.Fatal("the recorder does not say that it failed")
	}
	if !errors.Is(r.recorder.Err(), full) {
		t.Fatalf("the recorder's error is %v", r.recorder.Err())
	}
	if _, err := p.Close(r.context(), 10*time.Second); !errors.Is(err, full) {
		t.Fatalf("closing gave %v", err)
	}
}

func TestDataLossThatTheLibraryDetectsIsNoted(t *testing.T) {
	r := newTestRun(t, 1)
	p := r.producer("")
	r.send(p, 1, "k1")
	eventually(t, "the first acknowledgement", func() bool { return r.recorder.Counts().Acknowledged == 1 })
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.OutOfOrderSequenceNumber})
	r.send(p, 1, "k1")
	eventually(t, "the note", func() bool { return len(linesOf[*histories.Note](r.lines)) == 1 })
	r.closed(p, 10*time.Second)
	if text := linesOf[*histories.Note](r.lines)[0].Text; !strings.Contains(text, "data loss in orders/0") || !strings.HasPrefix(text, "p1: ") {
		t.Fatalf("the note is %q", text)
	}
}
