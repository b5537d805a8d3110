// Command franzgo is an adapter of franz-go: it speaks the protocol of
// clients/PROTOCOL.md as a producer, and needs nothing but franz-go. Package defects builds
// it in a module of its own, with an old version.
//
// A send is bounded as franz-go's users bound one: by the deadline of its context, which is
// delivery.timeout.ms.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	a := &adapter{out: json.NewEncoder(os.Stdout)}
	if err := a.serve(os.Stdin); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // at once: what is not sent yet is not flushed
	}
}

// command is a line that the adapter is told. Fields that it has no use for are left out.
type command struct {
	Do         string            `json:"do"`
	Role       string            `json:"role"`
	Name       string            `json:"name"`
	Bootstrap  []string          `json:"bootstrap"`
	Properties map[string]string `json:"properties"`
	Choose     bool              `json:"choose_partition"`
	ID         int64             `json:"id"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Key        []byte            `json:"key"`
	Value      []byte            `json:"value"`
	Headers    []header          `json:"headers"`
	LimitMs    int64             `json:"limit_ms"`
}

// header is a pair of a name and a value.
type header struct {
	name  string
	value []byte
}

// UnmarshalJSON reads [name, value]; a value that is null has no bytes.
func (h *header) UnmarshalJSON(text []byte) error {
	var pair [2]json.RawMessage
	return errors.Join(json.Unmarshal(text, &pair), json.Unmarshal(pair[0], &h.name), json.Unmarshal(pair[1], &h.value))
}

// adapter is one process, with one session.
type adapter struct {
	mu  sync.Mutex // held while a line is written
	out *json.Encoder

	client  *kgo.Client
	timeout time.Duration // of a send; zero: none
}

// say writes a line.
func (a *adapter) say(is string, fields map[string]any) {
	line := map[string]any{"is": is}
	maps.Copy(line, fields)
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.out.Encode(line) // nobody hears it: the end of standard input says so, too
}

// errDriverGone says that standard input ended.
var errDriverGone = errors.New("whoever drove this process is gone")

// serve does what it is told until the session is over.
func (a *adapter) serve(in io.Reader) error {
	commands := json.NewDecoder(bufio.NewReader(in))
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return errDriverGone
		} else if err != nil {
			return fmt.Errorf("reading a command: %w", err)
		}
		switch c.Do {
		case "describe":
			a.say("client", map[string]any{"client": "franz-go", "version": version(), "protocol": 1})
		case "open":
			if !a.opened(c) {
				return nil
			}
		case "send":
			a.send(c)
		case "close":
			a.close(time.Duration(c.LimitMs) * time.Millisecond)
			return nil
		default:
			return fmt.Errorf("there is no command %q", c.Do)
		}
	}
}

// version is the version of franz-go that was built in.
func version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// opened opens a session and says so, or that it is refused.
func (a *adapter) opened(c command) bool {
	if err := a.open(c); err != nil {
		a.say("refused", map[string]any{"error": "ConfigException", "message": err.Error()})
		return false
	}
	return true
}

// open opens a producer.
func (a *adapter) open(c command) error {
	if c.Role != "producer" {
		return fmt.Errorf("this adapter has producers alone, and no %s", c.Role)
	}
	inForce := map[string]string{"acks": "all", "enable.idempotence": "true", "max.in.flight.requests.per.connection": "5",
		"retries": "2147483647", "delivery.timeout.ms": "none", "linger.ms": "10", "compression.type": "snappy"}
	options := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap...), kgo.ClientID(c.Name)}
	if c.Choose {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	for name, value := range c.Properties {
		option, err := a.property(name, value)
		if err != nil {
			return err
		}
		inForce[name] = value
		options = append(options, option...)
	}
	var err error
	if a.client, err = kgo.NewClient(options...); err != nil {
		return fmt.Errorf("franz-go refuses it: %w", err)
	}
	a.say("opened", map[string]any{"properties": inForce})
	return nil
}

// property translates one of Kafka's properties, or says that it cannot be honoured.
func (a *adapter) property(name, value string) ([]kgo.Opt, error) {
	ms, _ := strconv.ParseInt(value, 10, 32)
	d := time.Duration(ms) * time.Millisecond
	switch {
	case name == "acks" && value == "all", name == "enable.idempotence" && value == "true",
		name == "max.in.flight.requests.per.connection" && value == "5":
		return nil, nil // franz-go's defaults, of which it does not let go
	case name == "compression.type" && value == "none":
		return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, nil
	case name == "linger.ms":
		return []kgo.Opt{kgo.ProducerLinger(d)}, nil
	case name == "batch.size" && ms > 0:
		return []kgo.Opt{kgo.ProducerBatchMaxBytes(int32(ms))}, nil
	case name == "request.timeout.ms" && ms > 0: // half for the broker, half for the way
		return []kgo.Opt{kgo.ProduceRequestTimeout(d / 2), kgo.RequestTimeoutOverhead(d / 2)}, nil
	case name == "metadata.max.age.ms" && ms > 0:
		return []kgo.Opt{kgo.MetadataMaxAge(d), kgo.MetadataMinAge(min(d, time.Second))}, nil
	case name == "delivery.timeout.ms" && ms > 0:
		a.timeout = d
		return nil, nil
	}
	return nil, fmt.Errorf("this adapter cannot honour %s=%s", name, value)
}

// send hands a record to franz-go.
func (a *adapter) send(c command) {
	record := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Key: c.Key, Value: c.Value}
	for _, h := range c.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
	}
	ctx, cancel := context.Background(), func() {}
	if a.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
	}
	a.client.Produce(ctx, record, func(r *kgo.Record, err error) {
		cancel()
		a.say("result", result(c.ID, r, err))
	})
}

// result says what franz-go made of a send.
func result(id int64, r *kgo.Record, err error) map[string]any {
	said := map[string]any{"id": id}
	var answer *kerr.Error
	switch {
	case err == nil:
		said["partition"] = r.Partition
		if r.Offset >= 0 {
			said["offset"] = r.Offset
		}
		return said
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		said["client_error"] = "context.Error"
	case errors.As(err, &answer) && !errors.Is(err, kerr.MessageTooLarge): // which franz-go raises itself, too
		said["error"] = answer.Message
	default:
		said["client_error"] = strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	}
	said["message"] = err.Error()
	return said
}

// close delivers what is outstanding within the limit, and gives up the rest.
func (a *adapter) close(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if a.client != nil {
		_ = a.client.Flush(ctx) // what is left gets its result from Close
		a.client.Close()
	}
	a.say("closed", nil)
}
