// This file holds which topic properties the embedded cluster takes. kfake stores
// whatever it is given, checks no value, and acts on few: what it would pass over
// silently is refused here, as Kafka refuses what is wrong.

package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The topic properties that are treated by name.
const (
	// uncleanElection: kfake does not know it, and elects no one who lacks a
	// record, whatever it says; but promises rest on it.
	uncleanElection   = "unclean.leader.election.enable"
	minInsyncReplicas = "min.insync.replicas"
)

// embeddedProperties are the topic properties that the embedded cluster knows, each
// with a check of its value.
var embeddedProperties = map[string]func(value string) error{
	"cleanup.policy":         oneOf("delete", "compact", "compact,delete", "delete,compact"),
	"compression.type":       oneOf("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
	"delete.retention.ms":    integerFrom(0),
	"max.message.bytes":      integerFrom(0),
	"message.timestamp.type": oneOf("CreateTime", "LogAppendTime"),
	minInsyncReplicas:        integerFrom(1),
	"retention.bytes":        integerFrom(-1),
	"retention.ms":           integerFrom(-1),
	"segment.bytes":          integerFrom(14),
	"segment.ms":             integerFrom(1),
	uncleanElection:          oneOf("true", "false"),
}

func oneOf(words ...string) func(string) error {
	return func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
	}
}

func integerFrom(least int64) func(string) error {
	return func(value string) error {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < least {
			return fmt.Errorf("it is a whole number from %d", least)
		}
		return nil
	}
}

// checkEmbeddedTopic refuses what the embedded cluster could not do as Kafka does.
func checkEmbeddedTopic(t Topic) error {
	for _, name := range slices.Sorted(maps.Keys(t.Properties)) {
		check, known := embeddedProperties[name]
		if !known {
			return fmt.Errorf("creating topic %s: the embedded cluster does not know the topic property %s (it knows: %s)",
				t.Name, name, strings.Join(slices.Sorted(maps.Keys(embeddedProperties)), ", "))
		}
		if err := check(t.Properties[name]); err != nil {
			return fmt.Errorf("creating topic %s: %s is %q; %w", t.Name, name, t.Properties[name], err)
		}
	}
	if replicas, given := t.Properties[minInsyncReplicas]; given && t.ReplicationFactor > 0 {
		if n, err := strconv.ParseInt(replicas, 10, 64); err == nil && n > int64(t.ReplicationFactor) {
			return fmt.Errorf("creating topic %s: %s is %d and the replication factor %d: Kafka would refuse every "+
				"write with acks=all (NOT_ENOUGH_REPLICAS), and the embedded cluster cannot",
				t.Name, minInsyncReplicas, n, t.ReplicationFactor)
		}
	}
	return nil
}
