// This file holds the settings of faults: their names, defaults and kinds.

package nemesis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/ackproof/ackproof/histories"
)

// Setting is one setting that a fault knows.
type Setting struct {
	Name string
	// Default is the value that holds where none is given.
	Default string
	// Doc says what it does, in one line.
	Doc string
	// Values says which values there are, for a person: "close|stall".
	Values string
	// shared: many faults have it; it is explained once for all of them.
	shared bool
	// canonical gives the value in its one spelling, or what is wrong with it.
	canonical func(value string) (string, error)
}

// Settings are the values of a fault's settings by name, complete and canonical:
// made by Fault.Complete.
type Settings map[string]string

// choice is a setting that takes one of some words.
func choice(name, byDefault, doc string, words ...string) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: strings.Join(words, "|"),
		canonical: func(value string) (string, error) {
			if slices.Contains(words, value) {
				return value, nil
			}
			return "", fmt.Errorf("%q is not one of %s%s", value, strings.Join(words, ", "), didYouMean(value, words))
		}}
}

// mostCount bounds the settings that count requests.
const mostCount = 1_000_000_000

// number is a setting that takes a whole number from least.
func number(name, byDefault, doc string, least int) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: fmt.Sprintf("a number from %d", least),
		canonical: func(value string) (string, error) {
			n, err := strconv.Atoi(value)
			if err != nil || n < least || n > mostCount {
				return "", fmt.Errorf("%q is not a whole number from %d to %d", value, least, mostCount)
			}
			return strconv.Itoa(n), nil
		}}
}

// boolean is a setting that is true or false.
func boolean(name, byDefault, doc string) Setting {
	return choice(name, byDefault, doc, "true", "false")
}

// mostDuration bounds the settings that are durations.
const mostDuration = time.Hour

// duration is a setting that takes a length of time.
func duration(name, byDefault, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: "a duration, as 200ms",
		canonical: func(value string) (string, error) {
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 || d > mostDuration {
				return "", fmt.Errorf("%q is not a duration above zero and up to %s, as 200ms or 1.5s", value, mostDuration)
			}
			return d.String(), nil
		}}
}

// errorName is a setting that takes the name of a Kafka error.
func errorName(name, byDefault, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: "the name of a Kafka error",
		canonical: func(value string) (string, error) {
			row, known := histories.ErrorByName(value)
			if !known {
				return "", fmt.Errorf("there is no Kafka error %q%s", value, didYouMean(value, produceErrorNames()))
			}
			if row.Code == 0 {
				return "", fmt.Errorf("NONE is no error; the lie acknowledge-unwritten answers so without the append")
			}
			return row.Name, nil
		}}
}

// produceErrorNames gives the names of the errors that a produce can end with.
func produceErrorNames() []string {
	var names []string
	for code := int16(-1); code < 200; code++ {
		if row, known := histories.ErrorByCode(code); known && row.Produce && code != 0 {
			names = append(names, row.Name)
		}
	}
	return names
}

// anyOne is the value of a filter that lets everything through.
const anyOne = "any"

// brokerFilter takes a node id, or any.
func brokerFilter(doc string) Setting {
	return Setting{Name: "broker", Default: anyOne, Doc: doc, Values: "a node id|any",
		canonical: func(value string) (string, error) {
			if value == anyOne {
				return value, nil
			}
			id, err := strconv.ParseInt(value, 10, 32)
			if err != nil || id < 0 {
				return "", fmt.Errorf("%q is neither a node id nor %q", value, anyOne)
			}
			return strconv.FormatInt(id, 10), nil
		}}
}

// partitionFilter takes topic/partition, or a word that stands for partitions.
func partitionFilter(byDefault, doc string, words ...string) Setting {
	return Setting{Name: "partition", Default: byDefault, Doc: doc, Values: "topic/partition|" + strings.Join(words, "|"),
		canonical: func(value string) (string, error) {
			if slices.Contains(words, value) {
				return value, nil
			}
			p, err := parsePartition(value)
			if err != nil {
				return "", fmt.Errorf("%w, nor one of %s", err, strings.Join(words, ", "))
			}
			return partitionName(p), nil
		}}
}

// parsePartition reads "topic/partition".
func parsePartition(text string) (histories.Partition, error) {
	topic, rest, found := strings.Cut(text, "/")
	id, err := strconv.ParseInt(rest, 10, 32)
	if !found || topic == "" || err != nil || id < 0 {
		return histories.Partition{}, fmt.Errorf("%q is not a partition, as orders/0", text)
	}
	return histories.Partition{Topic: topic, Partition: int32(id)}, nil
}

func partitionName(p histories.Partition) string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// word is a setting that takes any text without white space, "," and "=".
func word(name, byDefault, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Doc: doc, Values: "a name|any",
		canonical: func(value string) (string, error) {
			if value == "" || strings.ContainsAny(value, ",= \t\r\n") {
				return "", fmt.Errorf("%q is not a name", value)
			}
			return value, nil
		}}
}

// wordOf is a word that lets everything through where none is given, with its values in
// other words.
func wordOf(name, doc, values string) Setting {
	setting := word(name, anyOne, doc)
	setting.Values = values
	return setting
}

// The getters read settings that Complete made; that they parse is its promise.

func (s Settings) number(name string) int64 {
	n, err := strconv.ParseInt(s[name], 10, 64)
	return broken(n, err, name)
}

func (s Settings) duration(name string) time.Duration {
	d, err := time.ParseDuration(s[name])
	return broken(d, err, name)
}

func (s Settings) is(name, value string) bool { return s[name] == value }

// errorCode gives the row of the Kafka error that the setting names.
func (s Settings) errorCode(name string) histories.ErrorCode {
	row, known := histories.ErrorByName(s[name])
	if !known {
		panic(fmt.Sprintf("the setting %s=%q was never made complete", name, s[name]))
	}
	return row
}

// filter gives the value of a filter; given is false where it lets everything through
// or the fault has no such filter.
func (s Settings) filter(name string) (value string, given bool) {
	value = s[name]
	return value, value != "" && value != anyOne
}

func broken[T any](value T, err error, name string) T {
	if err != nil {
		panic(fmt.Sprintf("the setting %s was never made complete: %v", name, err))
	}
	return value
}

// didYouMean gives a hint at the nearest of the words, or nothing where none is
// near.
func didYouMean(got string, words []string) string {
	const longestWord = 100
	if len(got) > longestWord {
		return ""
	}
	const shortestPrefix = 3
	best, distance := "", len(got)/3+1
	for _, w := range words {
		if len(got) >= shortestPrefix && strings.HasPrefix(strings.ToLower(w), strings.ToLower(got)) {
			return fmt.Sprintf("; did you mean %q?", w)
		}
		if d := levenshtein.ComputeDistance(strings.ToLower(got), strings.ToLower(w)); d < distance {
			best, distance = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
