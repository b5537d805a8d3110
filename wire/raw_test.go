// This file tests the wire between a client and a broker that are mere sockets: what
// passes, in which order, and what each attempt says.

package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// limit bounds everything that a test waits for.
const limit = 10 * time.Second

// scripted is a broker that keeps every frame that it is sent and answers by a
// function; a nil answer is none.
type scripted struct {
	network  *Network
	proxy    *Proxy
	listener net.Listener
	answer   func(frame []byte) []byte

	mu       sync.Mutex
	frames   [][]byte
	attempts []Attempt
}

func newScripted(t *testing.T, answer func(frame []byte) []byte) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{network: NewNetwork(), listener: listener, answer: answer}
	s.network.Observe(func(a *Attempt) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attempts = append(s.attempts, *a)
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	if s.proxy, err = s.network.Proxy(t.Context(), 7, "127.0.0.1:0", dialTo(listener.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		if err := s.network.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return s
}

func dialTo(address net.Addr) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address.String())
	}
}

func (s *scripted) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	var pool framePool
	for {
		frame, err := pool.read(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.frames = append(s.frames, frame)
		s.mu.Unlock()
		if answer := s.answer(frame); answer != nil {
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

// got gives the frames that the broker was sent.
func (s *scripted) got() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// told gives the attempts, once there are as many.
func (s *scripted) told(t *testing.T, want int) []Attempt {
	t.Helper()
	wait(t, fmt.Sprintf("%d attempts", want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.attempts) >= want
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attempts) > want {
		t.Fatalf("%d attempts, want %d", len(s.attempts), want)
	}
	return slices.Clone(s.attempts)
}

// socket is a client that is a mere socket.
type socket struct {
	*testing.T
	net.Conn
	r *bufio.Reader
}

func (s *scripted) socket(t *testing.T) *socket {
	t.Helper()
	conn, err := net.Dial("tcp", s.proxy.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	return &socket{t, conn, bufio.NewReader(conn)}
}

func (s *socket) send(frames ...[]byte) {
	s.Helper()
	for _, frame := range frames {
		if _, err := s.Write(frame); err != nil {
			s.Fatal(err)
		}
	}
}

// next reads an answer.
func (s *socket) next() []byte {
	s.Helper()
	var pool framePool
	frame, err := pool.read(s.r)
	if err != nil {
		s.Fatalf("reading an answer: %v", err)
	}
	return frame
}

// refused connects and waits for the end, which may come before the beginning.
func (s *scripted) refused(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", s.proxy.Address().String())
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
		t.Fatal("the connection stays open")
	}
}

// ended waits for the connection's end.
func (s *socket) ended() {
	s.Helper()
	if _, err := io.Copy(io.Discard, s.r); isTimeout(err) {
		s.Fatal("the connection stays open")
	}
}

// stillOpen says whether the connection is open and nothing comes.
func (s *socket) stillOpen() bool {
	_ = s.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := s.r.Peek(1)
	_ = s.SetReadDeadline(time.Now().Add(limit))
	return isTimeout(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func correlationOf(frame []byte) int32 { return int32(binary.BigEndian.Uint32(frame[4:])) }

// plainBatch is a batch of one record, or of more.
func plainBatch(values ...string) []byte {
	return encodeBatch(kmsg.RecordBatch{Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(values))}, encodeRecords(values))
}

func encodeRecords(values []string) (records []byte) {
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(value),
			Headers: []kmsg.Header{{Key: "id", Value: []byte(fmt.Sprint(i))}}}
		body := r.AppendTo(nil)[1:] // without the length, which is zero in one byte
		r.Length = int32(len(body))
		records = r.AppendTo(records)
	}
	return records
}

func encodeBatch(head kmsg.RecordBatch, records []byte) []byte {
	head.Records = records
	batch := head.AppendTo(nil)
	binary.BigEndian.PutUint32(batch[batchLength:], uint32(len(batch)-batchLength-4))
	return seal(batch)
}

// produceFrame is a Produce request for partitions 0, 1 … of one topic.
func produceFrame(version int16, correlation int32, acks int16, batches ...[]byte) []byte {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks, request.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, [16]byte{1}
	for i, batch := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), batch
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("socket")).AppendRequest(nil, request, correlation)
}

// anyFrame is a request of any API and version with a body of bytes.
func anyFrame(key, version int16, correlation int32, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	frame = append(frame, 0, 6, 's', 'o', 'c', 'k', 'e', 't')
	return sealFrame(append(frame, body...))
}

// serveProduce answers Produce requests with offset 100 and more, and whatever else
// with the body that it came with.
func serveProduce(frame []byte) []byte {
	x := &Exchange{body: frame[4:]}
	if err := x.readHeader(""); err != nil {
		return nil
	}
	if x.Key == int16(kmsg.Produce) {
		if x.Produce = NewNetwork().decodeProduce(x); x.Produce != nil {
			if x.Produce.Acks == 0 {
				return nil
			}
			answer, _ := produceAnswer(x, func(i int) Answer { return Answer{BaseOffset: 100 + int64(i)} })
			return answer
		}
	}
	answer := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(x.Correlation))
	return sealFrame(append(answer, x.body[x.head:]...))
}

// keeps says whether an answer has come that is not passed on yet.
func (n *Network) keeps() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		c.mu.Lock()
		kept := slices.ContainsFunc(c.asked, func(f *flight) bool { return f.kept != nil })
		c.mu.Unlock()
		if kept {
			return true
		}
	}
	return false
}

// on decides about the requests with one correlation id.
func on(correlation int32, d Decision) Interceptor {
	return InterceptorFunc(func(x *Exchange) Decision {
		if x.Correlation == correlation {
			return d
		}
		return Pass()
	})
}

func TestWhatIsNotDecodedPassesByteForByte(t *testing.T) {
	body := make([]byte, 3<<20)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	for _, c := range []struct {
		rule         string
		key, version int16
		size         int
		undecoded    int64
	}{
		{"an API that is known", 3, 9, 100, 0},
		{"an API that nobody knows", 999, 3, 100, 0},
		{"a version of Produce from before the record batches", 0, 2, 100, 1},
		{"a version of Produce from the future", 0, 77, 100, 1},
		{"a Produce request whose body is garbage", 0, 9, 100, 1},
		{"a version of Metadata from the future, whose answer would be looked at", 3, 77, 100, 1},
		{"a Metadata answer that is garbage", 3, 12, 100, 1},
		{"a frame without a body", 18, 0, 0, 0},
		{"a large frame, whose answer is as large", 1, 4, len(body), 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newScripted(t, serveProduce)
			client := s.socket(t)
			request := anyFrame(c.key, c.version, 5, body[:c.size])
			client.send(request)
			answer := client.next()
			if got := s.got(); len(got) != 1 || !bytes.Equal(got[0], request) {
				t.Error("the request is not what was sent")
			}
			if correlationOf(answer) != 5 || !bytes.Equal(answer[8:], body[:c.size]) {
				t.Error("the answer is not what was sent")
			}
			if got := s.network.Counts(); got.Undecoded != c.undecoded || got.NotKafka != 0 {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func TestAnUndecodedRequestWithoutAnAnswerHoldsNobodyUp(t *testing.T) {
	future := anyFrame(0, 77, 1, []byte("acks are zero, perhaps"))
	s := newScripted(t, func(frame []byte) []byte {
		if bytes.Equal(frame, future) {
			return nil
		}
		return serveProduce(frame)
	})
	client := s.socket(t)
	client.send(future, anyFrame(3, 0, 2, nil), future, anyFrame(3, 0, 3, nil))
	for _, want := range []int32{2, 3} {
		if got := correlationOf(client.next()); got != want {
			t.Errorf("answer %d, want %d", got, want)
		}
	}
}

func TestAnswersKeepTheOrderOfTheRequests(t *testing.T) {
	t.Run("a refusal waits behind an answer that is held back", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		defer s.network.Intercept(on(1, HoldBack("late", SideAnswer, 50*time.Millisecond)))()
		defer s.network.Intercept(on(2, Refuse("refused", 6, false)))()
		client := s.socket(t)
		client.send(produceFrame(9, 1, -1, plainBatch("a")))
		wait(t, "the broker served the first", func() bool { return len(s.got()) == 1 })
		client.send(produceFrame(9, 2, -1, plainBatch("b")), produceFrame(9, 3, -1, plainBatch("c")))
		for want := int32(1); want <= 3; want++ {
			if got := correlationOf(client.next()); got != want {
				t.Fatalf("answer %d came when %d was due", got, want)
			}
		}
		if len(s.got()) != 2 {
			t.Errorf("the broker had %d requests", len(s.got()))
		}
	})
	t.Run("requests wait behind one that is held back", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		defer s.network.Intercept(on(1, HoldBack("late", SideRequest, 30*time.Millisecond)))()
		client := s.socket(t)
		begun := time.Now()
		client.send(anyFrame(3, 0, 1, nil), anyFrame(3, 0, 2, nil))
		for want := int32(1); want <= 2; want++ {
			if got := correlationOf(client.next()); got != want {
				t.Fatalf("answer %d came when %d was due", got, want)
			}
		}
		if held := time.Since(begun); held < 30*time.Millisecond {
			t.Errorf("it took %v only", held)
		}
	})
	t.Run("whatever is decided about a long pipeline", func(t *testing.T) {
		const n = 2000
		s := newScripted(t, serveProduce)
		random := rand.New(rand.NewPCG(1, 2))
		defer s.network.Intercept(InterceptorFunc(func(*Exchange) Decision { // one connection: one goroutine
			return []Decision{Pass(), Refuse("before", 6, false), Refuse("after", 7, true), Pass(), Refuse("again", 19, false),
				SwapBatches("lie", nil), HoldBack("late", SideAnswer, 100*time.Microsecond), WriteTwice("lie", nil),
				HoldBack("late", SideRequest, 100*time.Microsecond), AcknowledgeUnwritten("lie", nil)}[random.IntN(10)]
		}))()
		client := s.socket(t)
		var writing sync.WaitGroup
		writing.Go(func() {
			for i := range int32(n) {
				frame := produceFrame(9, i, -1, plainBatch("a"), plainBatch("b"))
				if i%7 == 3 {
					frame = anyFrame(1, 11, i, make([]byte, i))
				}
				if _, err := client.Write(frame); err != nil {
					t.Error(err)
					return
				}
			}
		})
		defer writing.Wait()
		var said []int16
		for want := range int32(n) {
			answer := client.next()
			if got := correlationOf(answer); got != want {
				t.Fatalf("answer %d came when %d was due", got, want)
			}
			if want%7 == 3 {
				continue
			}
			response := kmsg.NewPtrProduceResponse()
			response.SetVersion(9)
			if err := readAnswer(answer, response); err != nil {
				t.Fatal(err)
			}
			for _, p := range response.Topics[0].Partitions {
				said = append(said, p.ErrorCode)
			}
		}
		attempts := s.told(t, len(said))
		slices.SortStableFunc(attempts, func(a, b Attempt) int { return int(a.Correlation - b.Correlation) })
		for i, a := range attempts {
			if a.Answer == nil || a.Answer.Code != said[i] {
				t.Fatalf("attempt %+v, the client was told %d", a, said[i])
			}
		}
	})
}

func TestAnswersThatAreHeldBack(t *testing.T) {
	t.Run("they are each as late, and not one after the other", func(t *testing.T) {
		const n, by = 100, 50 * time.Millisecond
		s := newScripted(t, serveProduce)
		defer s.network.Intercept(InterceptorFunc(func(*Exchange) Decision { return HoldBack("late", SideAnswer, by) }))()
		client := s.socket(t)
		begun := time.Now()
		for i := range int32(n) {
			client.send(produceFrame(9, i, -1, plainBatch("a")))
		}
		for want := range int32(n) {
			if got := correlationOf(client.next()); got != want {
				t.Fatalf("answer %d came when %d was due", got, want)
			}
		}
		if all := time.Since(begun); all > n*by/2 { // a tenth of a second, on a machine that has nothing else to do
			t.Errorf("%d answers took %v", n, all)
		}
		for _, a := range s.told(t, n) {
			if late := a.Ended.Sub(a.Sent); late < by {
				t.Errorf("answer %d was late by %v", a.Correlation, late)
			}
		}
	})
	t.Run("one is late from when it came", func(t *testing.T) {
		const by = 50 * time.Millisecond
		came := make(chan time.Time, 1)
		firstIsThere := make(chan struct{})
		s := newScripted(t, func(frame []byte) []byte {
			if binary.BigEndian.Uint32(frame[8:]) == 2 {
				<-firstIsThere
				came <- time.Now()
			}
			return serveProduce(frame)
		})
		defer s.network.Intercept(InterceptorFunc(func(*Exchange) Decision { return HoldBack("late", SideAnswer, by) }))()
		client := s.socket(t)
		client.send(produceFrame(9, 1, -1, plainBatch("a")), produceFrame(9, 2, -1, plainBatch("b")))
		client.next()
		close(firstIsThere)
		client.next()
		if late := time.Since(<-came); late < by {
			t.Errorf("the second was late by %v only", late)
		}
	})
	t.Run("one that came is passed on though its broker ended", func(t *testing.T) {
		s := newScripted(t, func(frame []byte) []byte {
			if binary.BigEndian.Uint32(frame[8:]) == 2 {
				return make([]byte, 8) // which is no answer: the wire ends the broker's connection
			}
			return serveProduce(frame)
		})
		defer s.network.Intercept(on(1, HoldBack("late", SideAnswer, 30*time.Millisecond)))()
		client := s.socket(t)
		client.send(produceFrame(9, 1, -1, plainBatch("a")), produceFrame(9, 2, -1, plainBatch("b")))
		if got := correlationOf(client.next()); got != 1 {
			t.Errorf("answer %d came", got)
		}
		client.ended()
	})
	t.Run("what was held when its client went is told with the broker's answer", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		defer s.network.Intercept(on(1, HoldBack("late", SideAnswer, time.Hour)))()
		client := s.socket(t)
		client.send(produceFrame(9, 1, -1, plainBatch("a")), anyFrame(3, 0, 2, nil))
		wait(t, "the broker served both", func() bool { return len(s.got()) == 2 })
		wait(t, "the answer is held", func() bool { return s.network.keeps() })
		_ = client.Close()
		if a := s.told(t, 1)[0]; a.Answer != nil || a.Lost != LostConnection || a.BrokerAnswer == nil {
			t.Errorf("the attempt is %+v", a)
		}
	})
}

func TestSilenceIsSilentInBothDirections(t *testing.T) {
	s := newScripted(t, serveProduce)
	defer s.network.Intercept(on(2, LoseResponse("stall", true)))()
	client := s.socket(t)
	client.send(produceFrame(9, 1, -1, plainBatch("a")))
	client.next()
	client.send(produceFrame(9, 2, -1, plainBatch("b")))
	if a := s.told(t, 2)[1]; a.Lost != LostSilence || !a.Reached || a.BrokerAnswer == nil || a.Fault != "stall" {
		t.Errorf("the request whose answer is lost: %+v", a)
	}
	for i := range int32(50) { // in pieces, as a slow client would
		frame := produceFrame(9, 3+i, -1, plainBatch("c"))
		client.send(frame[:11], frame[11:])
	}
	for _, a := range s.told(t, 52)[2:] {
		if a.Lost != LostSilence || a.Reached || a.Answer != nil || a.Fault != "" {
			t.Fatalf("a request that follows: %+v", a)
		}
	}
	if !client.stillOpen() {
		t.Error("the connection does not stay open and silent")
	}
	if got := len(s.got()); got != 2 {
		t.Errorf("the broker had %d requests, want 2", got)
	}
	_ = client.Close()
	wait(t, "the connection is gone when the client gave up", func() bool { return s.live() == 0 })
}

func (s *scripted) live() int {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	return len(s.network.live)
}

func TestALostResponseEndsTheConnectionForAnyAPI(t *testing.T) {
	for _, key := range []int16{1, 3, 18, 999} {
		t.Run(fmt.Sprintf("API %d", key), func(t *testing.T) {
			s := newScripted(t, serveProduce)
			defer s.network.Intercept(on(2, LoseResponse("lost", false)))()
			client := s.socket(t)
			client.send(anyFrame(key, 0, 1, nil))
			client.next()
			client.send(anyFrame(key, 0, 2, nil))
			client.ended()
			if len(s.got()) != 2 {
				t.Error("the broker did not have the request")
			}
		})
	}
}

func TestACutBeforeKeepsTheRequestFromTheBrokerForAnyAPI(t *testing.T) {
	for _, key := range []int16{0, 1, 3, 999} {
		t.Run(fmt.Sprintf("API %d", key), func(t *testing.T) {
			s := newScripted(t, serveProduce)
			defer s.network.Intercept(on(2, CutBefore("cut")))()
			client := s.socket(t)
			client.send(anyFrame(3, 0, 1, nil))
			client.next()
			client.send(anyFrame(key, 0, 2, nil))
			client.ended()
			if len(s.got()) != 1 {
				t.Error("the broker had the request")
			}
		})
	}
}

func TestARequestThatIsHeldBackReachesTheBrokerThoughTheClientGaveUp(t *testing.T) {
	s := newScripted(t, serveProduce)
	defer s.network.Intercept(on(1, HoldBack("late", SideRequest, 50*time.Millisecond)))()
	client := s.socket(t)
	client.send(produceFrame(9, 1, -1, plainBatch("a")))
	_ = client.Close()
	if a := s.told(t, 1)[0]; a.Lost != LostConnection || a.Answer != nil || !a.Reached {
		t.Errorf("%+v", a)
	}
	wait(t, "the broker has it", func() bool { return len(s.got()) == 1 })
}

func TestWhatIsNotReadWaitsInTheClientUntilItIsReadAgain(t *testing.T) {
	s := newScripted(t, serveProduce)
	client, other := s.socket(t), s.socket(t)
	client.send(anyFrame(3, 0, 1, nil))
	client.next()
	other.send(produceFrame(9, 1, -1, plainBatch("a"))) // by the same name, to the same broker
	other.next()
	const first = 1 // number of the first connection
	pause := s.network.Pause(func(e End) bool { return e.Broker == 7 && e.ClientID == "socket" && e.Connection == first })
	large := anyFrame(3, 0, 2, bytes.Repeat([]byte("x"), 16<<20)) // more than the sockets' buffers take
	written := make(chan error, 1)
	go func() {
		_, err := client.Write(large)
		written <- err
	}()
	wait(t, "something is left unread", func() bool { return pause.Stopped() == 1 })
	other.send(produceFrame(9, 2, -1, plainBatch("b")))
	other.next() // others are served
	select {
	case err := <-written:
		t.Fatalf("the client could write everything: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if got := len(s.got()); got != 3 {
		t.Errorf("the broker has %d requests, want 3", got)
	}
	pause.Resume()
	pause.Resume()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	client.next()
	if got := s.got(); len(got) != 4 || !bytes.Equal(got[3], large) {
		t.Error("what was left unread did not pass as it was")
	}
	client.send(anyFrame(3, 0, 3, nil))
	client.next()
	if pause.Stopped() != 1 {
		t.Errorf("it was stopped %d times", pause.Stopped())
	}
}

func TestAnAnswerPassesWhileNothingIsRead(t *testing.T) {
	answer := make(chan struct{})
	s := newScripted(t, func(frame []byte) []byte {
		<-answer
		return serveProduce(frame)
	})
	client := s.socket(t)
	client.send(anyFrame(3, 0, 1, nil))
	wait(t, "the broker has the request", func() bool { return len(s.got()) == 1 })
	defer s.network.Pause(func(End) bool { return true }).Resume()
	close(answer)
	client.next()
}

func TestPausesThatOverlapAreEachKept(t *testing.T) {
	s := newScripted(t, serveProduce)
	client := s.socket(t)
	one, two := s.network.Pause(func(End) bool { return true }), s.network.Pause(func(End) bool { return true })
	client.send(anyFrame(3, 0, 1, nil))
	wait(t, "it is left unread", func() bool { return one.Stopped() == 1 })
	one.Resume()
	wait(t, "it is still left unread", func() bool { return two.Stopped() == 1 })
	if len(s.got()) != 0 {
		t.Error("the broker has it")
	}
	two.Resume()
	client.next()
}

func TestANetworkThatIsClosedReadsNoLonger(t *testing.T) {
	s := newScripted(t, serveProduce)
	client := s.socket(t)
	pause := s.network.Pause(func(End) bool { return true })
	client.send(anyFrame(3, 0, 1, nil))
	wait(t, "it is left unread", func() bool { return pause.Stopped() == 1 })
	if err := s.network.Close(); err != nil { // it returns
		t.Fatal(err)
	}
	client.ended()
}

func TestOnlyTheChosenBatchesAreRefused(t *testing.T) {
	second := func(_ string, partition int32) bool { return partition == 1 }
	for version := int16(firstProduce); version <= 13; version++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("version %d, after the append %v", version, after), func(t *testing.T) {
				s := newScripted(t, serveProduce)
				defer s.network.Intercept(on(1, Refuse("some", 19, after).Only(second)))()
				client := s.socket(t)
				client.send(produceFrame(version, 1, -1, plainBatch("a"), plainBatch("b"), plainBatch("c")))
				response := kmsg.NewPtrProduceResponse()
				response.SetVersion(version)
				if err := readAnswer(client.next(), response); err != nil {
					t.Fatal(err)
				}
				codes := make(map[int32]int16)
				for _, p := range response.Topics[0].Partitions {
					codes[p.Partition] = p.ErrorCode
				}
				if len(codes) != 3 || codes[0] != 0 || codes[1] != 19 || codes[2] != 0 {
					t.Errorf("the client was told %v", codes)
				}
				x := &Exchange{body: s.got()[0][4:]}
				if err := x.readHeader(""); err != nil {
					t.Fatal(err)
				}
				if x.Produce = s.network.decodeProduce(x); len(x.Produce.Batches) != map[bool]int{false: 2, true: 3}[after] {
					t.Errorf("the broker was sent %d batches", len(x.Produce.Batches))
				}
				for i, a := range s.told(t, 3) {
					if refused := i == 1; (a.Fault == "some") != refused || a.Reached != (after || !refused) ||
						(a.BrokerAnswer != nil) != (refused && after) {
						t.Errorf("batch %d: %+v", i, a)
					}
				}
			})
		}
	}
}

func TestADecisionThatDoesNotFitLetsPassAndIsCounted(t *testing.T) {
	for _, c := range []struct {
		rule  string
		d     Decision
		frame []byte
	}{
		{"a refusal of a fetch", Refuse("f", 6, false), anyFrame(1, 11, 1, nil)},
		{"a refusal of a Produce request that cannot be decoded", Refuse("f", 6, true), anyFrame(0, 77, 1, nil)},
		{"a changed byte in a fetch", CorruptByte("f", nil), anyFrame(1, 11, 1, nil)},
		{"exchanged reads in a Produce request", DivergeReads("f", nil), produceFrame(9, 1, -1, plainBatch("a"))},
		{"a swap of what is no Produce request", SwapBatches("f", nil), anyFrame(3, 0, 1, nil)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newScripted(t, serveProduce)
			defer s.network.Intercept(on(1, c.d))()
			client := s.socket(t)
			client.send(c.frame)
			client.next()
			if got := s.got(); len(got) != 1 || !bytes.Equal(got[0], c.frame) {
				t.Error("it did not pass")
			}
			if s.network.Counts().Unfit != 1 {
				t.Errorf("counted %+v", s.network.Counts())
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.attempts) > 0 && s.attempts[0].Fault != "" {
				t.Errorf("the attempt bears the name %q", s.attempts[0].Fault)
			}
		})
	}
}

func TestWithAcksZero(t *testing.T) {
	for _, c := range []struct {
		rule    string
		d       Decision
		reached bool
		lost    string
		open    bool
		frames  int
	}{
		{"a request passes, and has no answer", Pass(), true, LostAcksZero, true, 1},
		{"a refusal closes the connection", Refuse("f", 6, false), false, LostAcksZero, false, 0},
		{"a refusal after the append closes the connection", Refuse("f", 7, true), true, LostAcksZero, false, 1},
		{"a lost response closes the connection", LoseResponse("f", false), true, LostAcksZero, false, 1},
		{"a stalled response leaves the connection open and silent", LoseResponse("f", true), true, LostAcksZero, true, 1},
		{"a cut keeps it from the broker", CutBefore("f"), false, LostConnection, false, 0},
		{"a copy is written too", WriteTwice("f", nil), true, LostAcksZero, true, 2},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newScripted(t, serveProduce)
			defer s.network.Intercept(on(1, c.d))()
			client := s.socket(t)
			client.send(produceFrame(9, 1, 0, plainBatch("a")))
			if a := s.told(t, 1)[0]; a.Reached != c.reached || a.Lost != c.lost || a.Answer != nil || a.BrokerAnswer != nil {
				t.Errorf("%+v", a)
			}
			if c.open != client.stillOpen() {
				t.Errorf("the connection is open: %v", !c.open)
			}
			wait(t, "the broker has what passed", func() bool { return len(s.got()) >= c.frames })
			if len(s.got()) != c.frames {
				t.Errorf("the broker had %d requests", len(s.got()))
			}
		})
	}
}

func TestABrokerThatCannotBeReachedIsACutConnection(t *testing.T) {
	s := newScripted(t, serveProduce)
	s.proxy.Retarget(func(context.Context) (net.Conn, error) { return nil, errors.New("there is no way") })
	s.refused(t)
	wait(t, "it is counted", func() bool { return s.network.Counts().Unreachable == 1 })
	s.proxy.Retarget(dialTo(s.listener.Addr()))
	client := s.socket(t)
	client.send(anyFrame(3, 0, 1, nil))
	client.next()
}

func TestABrokerThatIsGoneHasNoConnectionLeft(t *testing.T) {
	t.Run("not even one that was just being made", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		dialing := make(chan struct{})
		s.proxy.Retarget(func(ctx context.Context) (net.Conn, error) {
			close(dialing)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		client := s.socket(t)
		<-dialing
		s.proxy.Refuse(true)
		client.ended()
	})
	t.Run("and gets none until it is back", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		client := s.socket(t)
		client.send(anyFrame(3, 0, 1, nil))
		client.next()
		s.proxy.Refuse(true)
		client.ended()
		s.refused(t)
		s.proxy.Refuse(false)
		client = s.socket(t)
		client.send(anyFrame(3, 0, 1, nil))
		client.next()
	})
	t.Run("while other brokers keep theirs", func(t *testing.T) {
		s := newScripted(t, serveProduce)
		other, err := s.network.Proxy(t.Context(), 8, "127.0.0.1:0", dialTo(s.listener.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		client := s.socket(t)
		client.send(anyFrame(3, 0, 1, nil))
		client.next()
		other.Refuse(true)
		client.send(anyFrame(3, 0, 2, nil))
		client.next()
	})
}

func TestResetCutsWhatTheFilterNames(t *testing.T) {
	s := newScripted(t, serveProduce)
	one, other := s.socket(t), s.socket(t)
	for _, client := range []*socket{one, other} {
		client.send(anyFrame(3, 0, 1, nil))
		client.next()
	}
	var ends []End
	s.network.Reset(func(e End) bool { ends = append(ends, e); return e.Connection == 1 })
	if len(ends) != 2 || ends[0].Broker != 7 || ends[0].ClientID != "socket" {
		t.Errorf("the ends are %+v", ends)
	}
	one.ended()
	other.send(anyFrame(3, 0, 2, nil))
	other.next()
}

func TestCloseOfAProxyFreesItsAddressAndWaits(t *testing.T) {
	s := newScripted(t, serveProduce)
	defer s.network.Intercept(on(2, HoldBack("late", SideAnswer, time.Hour)))()
	client := s.socket(t)
	client.send(anyFrame(3, 0, 1, nil))
	client.next()
	client.send(produceFrame(9, 2, -1, plainBatch("a")))
	wait(t, "the broker served it", func() bool { return len(s.got()) == 2 })
	if err := s.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if s.live() != 0 {
		t.Error("a connection outlives its proxy")
	}
	// Whether the broker's answer had been read when the proxy was closed is chance.
	if a := s.told(t, 1)[0]; a.Lost != LostConnection || !a.Reached || (a.BrokerAnswer != nil && a.BrokerAnswer.Code != 0) {
		t.Errorf("%+v", a)
	}
	client.ended()
	if err := s.proxy.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	again, err := s.network.Proxy(t.Context(), 7, s.proxy.Address().String(), dialTo(s.listener.Addr()))
	if err != nil {
		t.Fatalf("the address is not free: %v", err)
	}
	s.proxy = again
	client = s.socket(t)
	client.send(anyFrame(3, 0, 1, nil))
	client.next()
}

func TestAClosedNetworkTellsOfWhatHasNoAnswerAndTakesNothingMore(t *testing.T) {
	s := newScripted(t, func([]byte) []byte { return nil }) // a broker that hangs
	client := s.socket(t)
	client.send(produceFrame(9, 1, -1, plainBatch("a"), plainBatch("b")))
	wait(t, "the broker has it", func() bool { return len(s.got()) == 1 })
	if err := s.network.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.told(t, 2) {
		if a.Lost != LostSilence || !a.Reached || a.Answer != nil {
			t.Errorf("%+v", a)
		}
	}
	client.ended()
	if _, err := s.network.Proxy(t.Context(), 7, "127.0.0.1:0", dialTo(s.listener.Addr())); !errors.Is(err, ErrClosed) {
		t.Errorf("a proxy on a closed network: %v", err)
	}
	dial := s.network.Dialer((&net.Dialer{}).DialContext, func(string) int32 { return 0 })
	if _, err := dial(t.Context(), "tcp", s.listener.Addr().String()); !errors.Is(err, ErrClosed) {
		t.Errorf("a connection on a closed network: %v", err)
	}
}

func TestARequestThatIsCutOffHasNoAttempt(t *testing.T) {
	s := newScripted(t, serveProduce)
	client := s.socket(t)
	frame := produceFrame(9, 1, -1, plainBatch("a"))
	client.send(frame[:len(frame)-1])
	_ = client.Close()
	wait(t, "the connection ends", func() bool { return s.network.connections.Load() == 1 && s.live() == 0 })
	if got := s.told(t, 0); len(got) != 0 || len(s.got()) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestTokensOfASASLMechanismPassAsBytes(t *testing.T) {
	token := []byte{0, 0, 0, 3, 'a', 'b', 'c'} // no request header fits in it
	s := newScripted(t, func(frame []byte) []byte {
		if bytes.Equal(frame, token) {
			return frame
		}
		return serveProduce(frame)
	})
	client := s.socket(t)
	client.send(anyFrame(17, 0, 1, []byte("GSSAPI")))
	client.next()
	client.send(token)
	if got := client.next(); !bytes.Equal(got, token) {
		t.Errorf("the client got %q", got)
	}
}

func TestALengthThatIsOnlyClaimedTakesNoMemory(t *testing.T) {
	s := newScripted(t, serveProduce)
	client := s.socket(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	client.send(binary.BigEndian.AppendUint32(nil, maxFrame), []byte("not as much as that"))
	wait(t, "it is being read", func() bool { return s.live() == 1 })
	_ = client.Close()
	wait(t, "the connection ends", func() bool { return s.live() == 0 })
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were taken", took)
	}
}

func TestAnswersThatNobodyAskedForEndTheConnection(t *testing.T) {
	for rule, answer := range map[string][]byte{
		"another request's answer": {0, 0, 0, 4, 0, 0, 0, 99},
		"no answer's shape":        []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"an empty frame":           {0, 0, 0, 0, 0, 0, 0, 1},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newScripted(t, func([]byte) []byte { return answer })
			client := s.socket(t)
			client.send(produceFrame(9, 1, -1, plainBatch("a")))
			client.ended()
			if a := s.told(t, 1)[0]; a.Lost != LostConnection || !a.Reached {
				t.Errorf("%+v", a)
			}
			if s.network.Counts().NotKafka != 1 {
				t.Errorf("counted %+v", s.network.Counts())
			}
		})
	}
}
