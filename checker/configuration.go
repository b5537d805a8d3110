// This file holds what the promise table is asked with: the configuration of one
// producer and topic, as far as it is known.

package checker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ackproof/ackproof/histories"
)

// Configuration is what decides which promises hold: the properties of one
// producer session and of the topic that it writes to, and the effects of the
// faults that were injected. A property that is absent is unknown, and then only
// what holds whatever its value is promised.
type Configuration struct {
	// Producer properties in force, under Kafka's names.
	Producer map[string]string `json:"producer"`
	// Topic properties in force, under Kafka's names.
	Topic map[string]string `json:"topic"`
	// Client library and version.
	Client string `json:"client,omitempty"`
	// Effects of the faults, as histories.EffectUncleanElection.
	Effects []string `json:"effects,omitempty"`
}

// ConfigurationError says that a property has a value that no Kafka accepts.
type ConfigurationError struct {
	Property, Value, Want string
}

func (e *ConfigurationError) Error() string {
	return fmt.Sprintf("reading the configuration: %s=%q is no value that Kafka knows; it must be %s",
		e.Property, e.Value, e.Want)
}

// properties are the values that the promise table speaks of, all known.
type properties struct {
	acks        string // "0", "1", "all"
	idempotence bool
	inFlight    int64
	retries     int64
	unclean     bool   // unclean.leader.election.enable
	compacted   bool   // cleanup.policy includes compact
	partitioner string // partitioner.class; empty: the default
	effects     map[string]bool
	client      string
}

// possibilities gives every way in which the unknown properties may be set: one
// element when everything is known. Combinations that Kafka refuses are left out.
func (c *Configuration) possibilities() ([]properties, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	effects := make(map[string]bool, len(c.Effects))
	for _, e := range c.Effects {
		effects[e] = true
	}
	all := []properties{{effects: effects, client: c.Client, partitioner: c.partitioner()}}
	all = spread(all, c.acks(), func(p *properties, v string) { p.acks = v })
	all = spread(all, c.producerValue(histories.PropertyIdempotence, "true", "false"),
		func(p *properties, v string) { p.idempotence = v == "true" })
	all = spread(all, c.producerValue(histories.PropertyMaxInFlight, "1", "5"),
		func(p *properties, v string) { p.inFlight, _ = strconv.ParseInt(v, 10, 64) })
	all = spread(all, c.producerValue(histories.PropertyRetries, "0", "2147483647"),
		func(p *properties, v string) { p.retries, _ = strconv.ParseInt(v, 10, 64) })
	all = spread(all, c.topicValue(histories.PropertyUncleanElection, "false"),
		func(p *properties, v string) { p.unclean = v == "true" })
	all = spread(all, c.topicValue(histories.PropertyCleanupPolicy, "delete"),
		func(p *properties, v string) { p.compacted = strings.Contains(v, "compact") })
	possible := slices.DeleteFunc(slices.Clone(all), properties.refusedByKafka)
	if len(possible) == 0 {
		return all, nil
	}
	return possible, nil
}

// refusedByKafka: the combinations that the producer refuses (ProducerConfig).
func (p properties) refusedByKafka() bool {
	return p.idempotence && (p.acks != "all" || p.retries == 0 || p.inFlight > 5)
}

// spread multiplies the possibilities by the values that a property may have.
func spread(all []properties, values []string, set func(*properties, string)) []properties {
	var result []properties
	for _, p := range all {
		for _, v := range values {
			q := p
			set(&q, v)
			result = append(result, q)
		}
	}
	return result
}

func (c *Configuration) acks() []string {
	values := c.producerValue(histories.PropertyAcks, "0", "1", "all")
	if values[0] == "-1" {
		return []string{"all"}
	}
	return values
}

func (c *Configuration) partitioner() string { return c.Producer[histories.PropertyPartitioner] }

func (c *Configuration) producerValue(property string, otherwise ...string) []string {
	if v, ok := c.Producer[property]; ok {
		return []string{v}
	}
	return otherwise
}

// topicValue: a topic's property that is not given has Kafka's default, if any
// topic property is known; and no history is judged by a default that a missing
// header merely suggests.
func (c *Configuration) topicValue(property, byDefault string) []string {
	if v, ok := c.Topic[property]; ok {
		return []string{v}
	}
	if c.Topic != nil || c.Producer != nil {
		return []string{byDefault}
	}
	switch property {
	case histories.PropertyUncleanElection:
		return []string{"false", "true"}
	default:
		return []string{"delete", "compact"}
	}
}

// check refuses values that no Kafka accepts, so that a typing error is not
// taken for an unknown.
func (c *Configuration) check() error {
	for property, want := range map[string][]string{
		histories.PropertyAcks:        {"0", "1", "all", "-1"},
		histories.PropertyIdempotence: {"true", "false"},
	} {
		if v, ok := c.Producer[property]; ok && !slices.Contains(want, v) {
			return &ConfigurationError{property, v, "one of " + strings.Join(want, ", ")}
		}
	}
	for _, property := range []string{histories.PropertyMaxInFlight, histories.PropertyRetries} {
		v, ok := c.Producer[property]
		if !ok {
			continue
		}
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return &ConfigurationError{property, v, "a whole number"}
		}
	}
	if v, ok := c.Topic[histories.PropertyUncleanElection]; ok && v != "true" && v != "false" {
		return &ConfigurationError{histories.PropertyUncleanElection, v, "one of true, false"}
	}
	return nil
}

// missing names the properties that the promise table needs and does not have.
func (c *Configuration) missing() []string {
	var names []string
	for _, property := range []string{histories.PropertyAcks, histories.PropertyIdempotence,
		histories.PropertyMaxInFlight, histories.PropertyRetries} {
		if _, ok := c.Producer[property]; !ok {
			names = append(names, property)
		}
	}
	return names
}

// overlay gives base with the properties of over on top; nil only if both are.
func overlay(base, over map[string]string) map[string]string {
	if base == nil && over == nil {
		return nil
	}
	result := maps.Clone(base)
	if result == nil {
		result = make(map[string]string, len(over))
	}
	maps.Copy(result, over)
	return result
}
