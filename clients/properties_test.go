// This file holds the tests of producer properties: what Kafka refuses, what
// franz-go cannot honour, and what is in force otherwise.

package clients

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

func TestWhatKafkaRefuses(t *testing.T) {
	for _, c := range []struct{ given, property, reason string }{
		{"acks=2", "acks", "one of all, -1, 0, 1"},
		{"acks=ALL", "acks", "one of all, -1, 0, 1"},
		{"enable.idempotence=yes", "enable.idempotence", "one of true, false"},
		{"max.in.flight.requests.per.connection=0", "max.in.flight.requests.per.connection", "from 1 to 2147483647"},
		{"retries=-1", "retries", "from 0 to 2147483647"},
		{"retries=2147483648", "retries", "from 0 to 2147483647"},
		{"delivery.timeout.ms=2m", "delivery.timeout.ms", "a whole number"},
		{"request.timeout.ms=-5", "request.timeout.ms", "from 0 to 2147483647"},
		{"retry.backoff.ms=-1", "retry.backoff.ms", "from 0 to 9223372036854775807"},
		{"linger.ms=-1", "linger.ms", "from 0"},
		{"batch.size=-1", "batch.size", "from 0"},
		{"buffer.memory=-1", "buffer.memory", "from 0"},
		{"compression.type=brotli", "compression.type", "one of none, gzip, snappy, lz4, zstd"},
		{"partitioner.class=", "partitioner.class", "given"},
		{"enable.idempotence=true,acks=1", "acks", "acks must be all"},
		{"enable.idempotence=true,acks=0", "acks", "acks must be all"},
		{"enable.idempotence=true,retries=0", "retries", "retries must not be 0"},
	} {
		t.Run(c.given+" is refused with Kafka's reason", func(t *testing.T) {
			p, err := ParseProperties(c.given)
			if err == nil { // a combination: for the library to say
				_, err = FranzGo().Effective(t.Context(), p)
			}
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Property != c.property || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("got %v; want %s refused: %s", err, c.property, c.reason)
			}
		})
	}
}

func TestMoreThanFiveInFlightIsRefusedInTheLibrarysOwnWords(t *testing.T) {
	for _, given := range []string{"max.in.flight.requests.per.connection=6",
		"enable.idempotence=true,max.in.flight.requests.per.connection=6"} {
		p, err := ParseProperties(given)
		if err != nil {
			t.Fatal(err)
		}
		_, err = FranzGo().Effective(t.Context(), p)
		var notApplicable *NotApplicableError
		if !errors.As(err, &notApplicable) || !strings.Contains(err.Error(), "idempotency") {
			t.Errorf("%s gives %v", given, err)
		}
	}
}

func TestPropertiesThatCannotBeSet(t *testing.T) {
	for _, c := range []struct{ given, name, says string }{
		{"transactional.id=t1", "transactional.id", "transactions are not supported yet"},
		{"ack=all", "ack", "did you mean acks?"},
		{"compression=zstd", "compression", "did you mean compression.type?"},
		{"enable.idempotance=true", "enable.idempotance", "did you mean enable.idempotence?"},
		{"max.in.flight.requests=1", "max.in.flight.requests", "did you mean max.in.flight.requests.per.connection?"},
		{"colour=blue", "colour", "known are acks, batch.size"},
		{"ssl.key.password=hush", "ssl.key.password", "not supported"},
		{"sasl.jaas.config=password=hush", "sasl.jaas.config", "not supported"},
		{"reconnect.backoff.ms=5", "reconnect.backoff.ms", "not supported"},
		{"bootstrap.servers=hush:9092", "bootstrap.servers", "the cluster decides"},
	} {
		t.Run(c.name+" is refused by name, and its value is not quoted", func(t *testing.T) {
			_, err := ParseProperties(c.given)
			var unknown *UnknownPropertyError
			if !errors.As(err, &unknown) || unknown.Name != c.name || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v; want %s and %q", err, c.name, c.says)
			}
			if strings.Contains(err.Error(), "hush") {
				t.Fatalf("%v quotes what may be a secret", err)
			}
		})
	}
	for _, text := range []string{"acks", "=1", "acks=1,acks=all"} {
		t.Run("the text "+text+" is refused", func(t *testing.T) {
			if p, err := ParseProperties(text); err == nil {
				t.Fatalf("read as %v", p)
			}
		})
	}
}

func TestWhatFranzGoCannotHonour(t *testing.T) {
	for _, c := range []struct{ given, property, reason string }{
		{"max.in.flight.requests.per.connection=1", "max.in.flight.requests.per.connection", "always 5"},
		{"acks=all,enable.idempotence=true,max.in.flight.requests.per.connection=4", "max.in.flight.requests.per.connection", "always 5"},
		{"request.timeout.ms=199", "request.timeout.ms", "the least is 200"},
		{"linger.ms=60001", "linger.ms", "at most 60000"},
		{"delivery.timeout.ms=900,linger.ms=0,request.timeout.ms=300", "delivery.timeout.ms", "below 1000"},
		{"batch.size=511", "batch.size", "512"},
		{"batch.size=0", "batch.size", "512"},
		{"batch.size=2000000000", "batch.size", "1073741824"},
		{"buffer.memory=0", "buffer.memory", "no limit"},
		{"partitioner.class=com.example.Mine", "partitioner.class", "cannot load a Java class"},
	} {
		t.Run(c.given+" is n/a (client)", func(t *testing.T) {
			p, err := ParseProperties(c.given)
			if err != nil {
				t.Fatal(err)
			}
			_, err = FranzGo().Effective(t.Context(), p)
			var notApplicable *NotApplicableError
			if !errors.As(err, &notApplicable) || notApplicable.Property != c.property || !strings.Contains(err.Error(), c.reason) ||
				!strings.Contains(err.Error(), "n/a (client)") {
				t.Fatalf("got %v; want %s n/a: %s", err, c.property, c.reason)
			}
		})
	}
	for _, c := range []struct{ given, values string }{
		{"delivery.timeout.ms=20009", "10 + 20000"},
		{"delivery.timeout.ms=1000,request.timeout.ms=1000", "10 + 1000"},
		{"delivery.timeout.ms=1000,request.timeout.ms=500,linger.ms=501", "501 + 500"},
		{"delivery.timeout.ms=1000,linger.ms=9223372036854775807", "n/a"}, // does not overflow
	} {
		t.Run("a delivery timeout below one linger and request is refused by the values in force: "+c.given, func(t *testing.T) {
			p, err := ParseProperties(c.given)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = FranzGo().Effective(t.Context(), p); err == nil || !strings.Contains(err.Error(), c.values) {
				t.Fatalf("got %v; want it to name %s", err, c.values)
			}
		})
	}
}

// franzGoDefaults are the properties in force when nothing is asked for.
var franzGoDefaults = map[string]string{
	histories.PropertyAcks:            "all",
	histories.PropertyIdempotence:     "true",
	histories.PropertyMaxInFlight:     "5",
	histories.PropertyRetries:         "2147483647",
	histories.PropertyDeliveryTimeout: "none",
	histories.PropertyRequestTimeout:  "20000",
	histories.PropertyRetryBackoff:    "250",
	"retry.backoff.max.ms":            "5000",
	histories.PropertyLinger:          "10",
	histories.PropertyBatchSize:       "1000012",
	histories.PropertyBufferMemory:    "none",
	"max.block.ms":                    "none",
	histories.PropertyCompression:     "snappy",
}

func TestPropertiesInForce(t *testing.T) {
	for _, c := range []struct {
		given   string
		changed map[string]string
	}{
		{"", nil},
		{"acks=-1", nil},
		{"max.in.flight.requests.per.connection=5", nil},
		{"retries=2147483647", nil},
		{"acks=0", map[string]string{"acks": "0", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}},
		{"acks=1", map[string]string{"acks": "1", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}},
		{"retries=0", map[string]string{"retries": "0", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}},
		{"retries=3", map[string]string{"retries": "3"}},
		{"acks=all,enable.idempotence=FALSE", map[string]string{"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}},
		{"enable.idempotence=false,max.in.flight.requests.per.connection=1000", map[string]string{
			"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1000"}},
		{"delivery.timeout.ms=20010", map[string]string{"delivery.timeout.ms": "20010"}},
		{"delivery.timeout.ms=2500, request.timeout.ms=1500, linger.ms=2", map[string]string{
			"delivery.timeout.ms": "2500", "request.timeout.ms": "1500", "linger.ms": "2"}},
		{"retry.backoff.ms=100", map[string]string{"retry.backoff.ms": "100", "retry.backoff.max.ms": "1000"}},
		{"batch.size=16384,buffer.memory=33554432,compression.type=none", map[string]string{
			"batch.size": "16384", "buffer.memory": "33554432", "compression.type": "none"}},
		{"partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner", map[string]string{
			"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}},
	} {
		t.Run("given: "+c.given, func(t *testing.T) {
			p, err := ParseProperties(c.given)
			if err != nil {
				t.Fatal(err)
			}
			got, err := FranzGo().Effective(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(franzGoDefaults)
			maps.Copy(want, c.changed)
			if !maps.Equal(got, want) {
				t.Fatalf("in force are\n%v, want\n%v", got, want)
			}
			again, err := ParseProperties(p.String())
			if err != nil || !maps.Equal(again.Given(), p.Given()) {
				t.Fatalf("%q is read back as %v, %v", p.String(), again, err)
			}
		})
	}
}

// What is said to be in force is held against the options of a real client.
func TestAFranzGoClientHasTheOptionsThatAreSaidToBeInForce(t *testing.T) {
	for _, c := range []struct {
		given   string
		options map[string]any
	}{
		{"", map[string]any{
			"RequiredAcks": kgo.AllISRAcks(), "DisableIdempotentWrite": false, "MaxProduceRequestsInflightPerBroker": 1,
			"RecordRetries": int64(9223372036854775807), "RecordDeliveryTimeout": time.Duration(0),
			"ProduceRequestTimeout": 10 * time.Second, "RequestTimeoutOverhead": 10 * time.Second,
			"ProducerLinger": 10 * time.Millisecond, "ProducerBatchMaxBytes": int32(1000012), "MaxBufferedBytes": int64(0),
			"MaxBufferedRecords": int64(kgoMaxRecords), "AllowIdempotentProduceCancellation": false}},
		{"acks=1", map[string]any{"RequiredAcks": kgo.LeaderAck(), "DisableIdempotentWrite": true}},
		{"acks=0", map[string]any{"RequiredAcks": kgo.NoAck(), "DisableIdempotentWrite": true}},
		{"enable.idempotence=false,max.in.flight.requests.per.connection=7", map[string]any{
			"RequiredAcks": kgo.AllISRAcks(), "DisableIdempotentWrite": true, "MaxProduceRequestsInflightPerBroker": 7}},
		{"retries=3", map[string]any{"RecordRetries": int64(3), "AllowIdempotentProduceCancellation": true}},
		{"retries=3,enable.idempotence=false", map[string]any{"RecordRetries": int64(3), "AllowIdempotentProduceCancellation": false}},
		{"delivery.timeout.ms=30000", map[string]any{
			"RecordDeliveryTimeout": 30 * time.Second, "AllowIdempotentProduceCancellation": true}},
		{"request.timeout.ms=30000", map[string]any{
			"ProduceRequestTimeout": 20 * time.Second, "RequestTimeoutOverhead": 10 * time.Second}},
		{"request.timeout.ms=1500", map[string]any{
			"ProduceRequestTimeout": 750 * time.Millisecond, "RequestTimeoutOverhead": 750 * time.Millisecond}},
		{"linger.ms=0,batch.size=16384,buffer.memory=1000000", map[string]any{
			"ProducerLinger": time.Duration(0), "ProducerBatchMaxBytes": int32(16384), "MaxBufferedBytes": int64(1000000)}},
	} {
		t.Run("given: "+c.given, func(t *testing.T) {
			p, err := ParseProperties(c.given)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := planFranzGo(p)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(plan.options...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for option, want := range c.options {
				if got := client.OptValue(option); got != want {
					t.Errorf("%s is %v (%T), want %v", option, got, got, want)
				}
			}
		})
	}
}

func TestTheDefaultBackoffIsWhatIsSaidToBeInForce(t *testing.T) {
	client, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	backoff, ok := client.OptValue(kgo.RetryBackoffFn).(func(int) time.Duration)
	if !ok {
		t.Fatal("kgo has no backoff function")
	}
	within := func(got time.Duration, ms float64) bool {
		return got >= time.Duration(0.79*ms)*time.Millisecond && got <= time.Duration(1.21*ms)*time.Millisecond
	}
	if got := backoff(1); !within(got, kgoRetryBackoffMs) {
		t.Errorf("the first backoff is %v", got)
	}
	if got := backoff(100); got != kgoRetryBackoffMax*time.Millisecond {
		t.Errorf("the longest backoff is %v", got)
	}
}

func TestTheBackoffOfKafkasProducer(t *testing.T) {
	for _, c := range []struct {
		rule     string
		ms       int64
		failures int
		want     float64
	}{
		{"it begins at retry.backoff.ms", 100, 1, 100},
		{"it doubles with every failure", 100, 3, 400},
		{"it ends at retry.backoff.max.ms", 100, 30, 1000},
		{"no backoff is none", 0, 5, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := kafkaBackoff(c.ms)(c.failures).Seconds() * 1000
			if got < 0.8*c.want-0.01 || got > 1.2*c.want+0.01 {
				t.Fatalf("got %v ms, want %v give or take a fifth", got, c.want)
			}
		})
	}
	t.Run("it is constant where it begins at the limit", func(t *testing.T) {
		if got := kafkaBackoff(5000)(1); got != time.Second {
			t.Fatalf("got %v", got)
		}
	})
}
