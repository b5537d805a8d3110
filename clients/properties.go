// This file holds producer properties under Kafka's own names: reading them, and
// refusing what Kafka's own producer refuses, for the reason that it gives
// (org.apache.kafka.clients.producer.ProducerConfig, Kafka 4.x). What a client
// library can make of them is decided by its adapter.

package clients

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/ackproof/ackproof/histories"
)

// UnknownPropertyError says that a property is none that can be set.
type UnknownPropertyError struct {
	Name string
	// Nearest is the property that was probably meant; empty: none is near.
	Nearest string
	// Reason why a property that Kafka does have cannot be set; empty: Kafka has
	// none of that name, as far as is known here.
	Reason string
}

func (e *UnknownPropertyError) Error() string {
	switch {
	case e.Reason != "":
		return fmt.Sprintf("producer property %s: %s", e.Name, e.Reason)
	case e.Nearest != "":
		return fmt.Sprintf("producer property %s is unknown; did you mean %s?", e.Name, e.Nearest)
	}
	return fmt.Sprintf("producer property %s is unknown; known are %s", e.Name, strings.Join(PropertyNames(), ", "))
}

// RefusedError says that Kafka's producer refuses a property's value, or a combination of
// properties (ConfigException). Property is empty where only Reason says which.
type RefusedError struct {
	Property, Value, Reason string
}

func (e *RefusedError) Error() string {
	if e.Property == "" { // a library in another process says it in its own words
		return e.Reason
	}
	return fmt.Sprintf("producer property %s=%s: Kafka refuses it: %s", e.Property, e.Value, e.Reason)
}

// NotApplicableError says that a client library cannot honour a property's value
// that Kafka accepts: "n/a (client)" in a matrix.
type NotApplicableError struct {
	Client, Property, Value, Reason string
}

func (e *NotApplicableError) Error() string {
	return fmt.Sprintf("producer property %s=%s: n/a (client): %s %s", e.Property, e.Value, e.Client, e.Reason)
}

// None is the value, in properties in force, of a limit that there is not.
const None = "none"

// Properties are producer properties that a user gave: each a value that Kafka
// knows. Whether they go together is for the client library to say (Library.Effective).
// The zero value gives none, and leaves everything at the client library's own default. It is immutable.
type Properties struct {
	given map[string]string
}

// property is a property that can be set, with how its value is read: into the
// form in which it is kept, or with what it must be.
type property struct {
	name string
	read func(value string) (canonical, must string)
}

var settable = []property{
	{histories.PropertyAcks, readAcks},
	{histories.PropertyIdempotence, readBoolean},
	{histories.PropertyMaxInFlight, readInteger(1, math.MaxInt32)},
	{histories.PropertyRetries, readInteger(0, math.MaxInt32)},
	{histories.PropertyDeliveryTimeout, readInteger(0, math.MaxInt32)},
	{histories.PropertyRequestTimeout, readInteger(0, math.MaxInt32)},
	{histories.PropertyRetryBackoff, readInteger(0, math.MaxInt64)},
	{histories.PropertyLinger, readInteger(0, math.MaxInt64)},
	{histories.PropertyBatchSize, readInteger(0, math.MaxInt32)},
	{histories.PropertyBufferMemory, readInteger(0, math.MaxInt64)},
	{histories.PropertyCompression, readOneOf("none", "gzip", "snappy", "lz4", "zstd")},
	{histories.PropertyPartitioner, readText},
	{maxBlock, readInteger(0, math.MaxInt64)},
	{maxRequestSize, readInteger(0, math.MaxInt32)},
	{metadataMaxAge, readInteger(0, math.MaxInt64)},
	{retryBackoffMax, readInteger(0, math.MaxInt64)},
}

// cannotSet are properties that Kafka's producer has and that cannot be set here.
var cannotSet = map[string]string{
	histories.PropertyTransactionalID:          "transactions are not supported yet",
	"transaction.timeout.ms":                   "transactions are not supported yet",
	"transaction.two.phase.commit.enable":      "transactions are not supported yet",
	"bootstrap.servers":                        "the cluster decides where its brokers are",
	"client.id":                                "a client's id is the name of its process in the history",
	"key.serializer":                           "events are bytes",
	"value.serializer":                         "events are bytes",
	"interceptor.classes":                      "no Java class is loaded here",
	"partitioner.ignore.keys":                  "not supported; partitioner.class may name a partitioner without keys",
	"partitioner.adaptive.partitioning.enable": "not supported",
	"reconnect.backoff.ms":                     "not supported",
	"reconnect.backoff.max.ms":                 "not supported",
	"connections.max.idle.ms":                  "not supported",
}

// PropertyNames gives the names of the properties that can be set.
func PropertyNames() []string {
	var names []string
	for _, p := range settable {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// ParseProperties reads "name=value,name=value". Empty text gives no properties.
// See NewProperties for what it refuses.
func ParseProperties(text string) (Properties, error) {
	given := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if !found || name == "" {
			// Not quoted whole: what stands there may be a secret.
			return Properties{}, fmt.Errorf("reading producer properties: %q is not name=value", name)
		}
		if _, twice := given[name]; twice {
			return Properties{}, fmt.Errorf("reading producer properties: %s is given twice", name)
		}
		given[name] = strings.TrimSpace(value)
	}
	return NewProperties(given)
}

// NewProperties takes properties by name. It fails with an *UnknownPropertyError
// for a name that cannot be set, whose value the error does not quote, and with a
// *RefusedError for a value that Kafka refuses.
func NewProperties(given map[string]string) (Properties, error) {
	p := Properties{given: make(map[string]string, len(given))}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(settable, func(s property) bool { return s.name == name })
		if i < 0 {
			return Properties{}, unknownProperty(name)
		}
		canonical, must := settable[i].read(given[name])
		if must != "" {
			return Properties{}, &RefusedError{name, given[name], "it must be " + must}
		}
		p.given[name] = canonical
	}
	return p, nil
}

// Given gives the properties as they were given, acks=-1 as "all".
func (p Properties) Given() map[string]string {
	if p.given == nil {
		return map[string]string{}
	}
	return maps.Clone(p.given)
}

// String gives the properties as ParseProperties reads them, ordered by name.
func (p Properties) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		parts = append(parts, name+"="+p.given[name])
	}
	return strings.Join(parts, ",")
}

func (p Properties) text(name string) (string, bool) {
	value, given := p.given[name]
	return value, given
}

// number gives a property that readInteger has read.
func (p Properties) number(name string) (int64, bool) {
	value, given := p.given[name]
	if !given {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		panic("clients: a property that was read is not a number: " + name)
	}
	return n, true
}

// Idempotent says whether idempotence is on by Kafka's rule, for a client whose
// default is on: as given, else off if acks or retries rule it out (KIP-679).
func (p Properties) Idempotent() bool {
	if value, given := p.text(histories.PropertyIdempotence); given {
		return value == "true"
	}
	acks, acksGiven := p.text(histories.PropertyAcks)
	retries, retriesGiven := p.number(histories.PropertyRetries)
	return (!acksGiven || acks == "all") && (!retriesGiven || retries != 0)
}

// maxInFlightIdempotent is how many batches of a producer a broker remembers.
const maxInFlightIdempotent = 5

// refusedByKafka checks the combinations that have to do with idempotence, as
// ProducerConfig.postProcessAndValidateIdempotenceConfigs of Kafka 4 does, for a library
// without such a rule; how many may be in flight every library says itself. That of the
// timeouts depends on the client's defaults: see refuseTimeouts.
func (p Properties) refusedByKafka() error {
	idempotence, given := p.text(histories.PropertyIdempotence)
	if idempotence == "false" {
		return nil
	}
	refuse := func(name, reason string) error { return &RefusedError{name, p.given[name], reason} }
	// The defaults are on, all, 5 and 2147483647: only what is given can be wrong.
	if retries, ok := p.number(histories.PropertyRetries); ok && given && retries == 0 {
		return refuse(histories.PropertyRetries, "with enable.idempotence=true retries must not be 0")
	}
	if acks, ok := p.text(histories.PropertyAcks); ok && given && acks != "all" {
		return refuse(histories.PropertyAcks,
			"with enable.idempotence=true acks must be all, otherwise idempotence cannot be guaranteed")
	}
	return nil
}

// refuseTimeouts checks that a delivery timeout that was given leaves room for one
// request (KafkaProducer.configureDeliveryTimeout), by the values in force.
func (p Properties) refuseTimeouts(lingerMs, requestTimeoutMs int64) error {
	delivery, given := p.number(histories.PropertyDeliveryTimeout)
	if !given || (delivery >= lingerMs && delivery-lingerMs >= requestTimeoutMs) {
		return nil
	}
	return &RefusedError{histories.PropertyDeliveryTimeout, p.given[histories.PropertyDeliveryTimeout],
		fmt.Sprintf("it must be at least linger.ms + request.timeout.ms, which are %d + %d", lingerMs, requestTimeoutMs)}
}

func readText(value string) (canonical, must string) {
	if value == "" {
		return "", "given"
	}
	return value, ""
}

func readAcks(value string) (canonical, must string) {
	canonical, must = readOneOf("all", "-1", "0", "1")(value)
	if canonical == "-1" {
		canonical = "all"
	}
	return canonical, must
}

func readBoolean(value string) (canonical, must string) {
	return readOneOf("true", "false")(strings.ToLower(value))
}

func readOneOf(values ...string) func(string) (canonical, must string) {
	return func(value string) (canonical, must string) {
		if slices.Contains(values, value) {
			return value, ""
		}
		return "", "one of " + strings.Join(values, ", ")
	}
}

func readInteger(least, most int64) func(string) (canonical, must string) {
	return func(value string) (canonical, must string) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < least || n > most {
			return "", fmt.Sprintf("a whole number from %d to %d", least, most)
		}
		return strconv.FormatInt(n, 10), ""
	}
}

func unknownProperty(name string) error {
	if reason, known := cannotSet[name]; known {
		return &UnknownPropertyError{Name: name, Reason: reason}
	}
	for _, prefix := range []string{"ssl.", "sasl.", "security.", "metric", "socket."} {
		if strings.HasPrefix(name, prefix) {
			return &UnknownPropertyError{Name: name, Reason: "not supported"}
		}
	}
	nearest, least := "", len(name)/2+1
	for _, candidate := range append(PropertyNames(), slices.Sorted(maps.Keys(cannotSet))...) {
		d := levenshtein.ComputeDistance(name, candidate)
		if len(name) > 3 && strings.HasPrefix(candidate, name) {
			d = 1 // cut short
		}
		if d < least {
			nearest, least = candidate, d
		}
	}
	return &UnknownPropertyError{Name: name, Nearest: nearest}
}
