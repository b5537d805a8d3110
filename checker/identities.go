// This file holds the table of identities: events, keys, processes, topics as
// small numbers, so that millions of them fit.

package checker

import (
	"strconv"
	"strings"
)

// names gives equal strings equal small numbers, from 0.
type names struct {
	index map[string]uint32
	list  []string
}

func newNames() *names { return &names{index: make(map[string]uint32)} }

func (n *names) of(name string) uint32 {
	if i, ok := n.index[name]; ok {
		return i
	}
	i := uint32(len(n.list))
	// Cloned, so that the line that the name was read in can be freed.
	name = strings.Clone(name)
	n.index[name] = i
	n.list = append(n.list, name)
	return i
}

// identities numbers event identities. An identity is opaque; but most end in a
// counter ("origin/key/number"), and those are kept as their prefix and counter:
// ten million identities then cost little more than their numbers.
type identities struct {
	prefixes *names
	// dense[prefix][counter] is the event + 1, zero where there is none.
	dense  [][]uint32
	sparse map[string]uint32
	// parts of each event, to give its name back.
	parts []identity
}

type identity struct {
	prefix  uint32
	counter int32 // -1: the prefix is the whole identity
}

func newIdentities() *identities {
	return &identities{prefixes: newNames(), sparse: make(map[string]uint32)}
}

// denseSlack bounds how far a counter may run ahead of those seen before, so that
// one strange identity cannot claim gigabytes.
const denseSlack = 1 << 16

// of gives the event's number, and whether it is new.
func (t *identities) of(event string) (number uint32, isNew bool) {
	prefix, counter, ok := splitCounter(event)
	if !ok {
		return t.ofSparse(event)
	}
	p := t.prefixes.of(prefix)
	for len(t.dense) <= int(p) {
		t.dense = append(t.dense, nil)
	}
	row := t.dense[p]
	if counter > len(row)+denseSlack {
		return t.ofSparse(event)
	}
	if counter < len(row) && row[counter] != 0 {
		return row[counter] - 1, false
	}
	if known, ok := t.sparse[event]; ok {
		return known, false
	}
	for len(row) <= counter {
		row = append(row, 0)
	}
	number = t.add(identity{p, int32(counter)})
	row[counter] = number + 1
	t.dense[p] = row
	return number, true
}

func (t *identities) ofSparse(event string) (number uint32, isNew bool) {
	if known, ok := t.sparse[event]; ok {
		return known, false
	}
	whole := t.prefixes.of(event)
	number = t.add(identity{whole, -1})
	t.sparse[t.prefixes.list[whole]] = number
	return number, true
}

func (t *identities) add(id identity) uint32 {
	t.parts = append(t.parts, id)
	return uint32(len(t.parts) - 1)
}

// name gives the identity back.
func (t *identities) name(event uint32) string {
	part := t.parts[event]
	prefix := t.prefixes.list[part.prefix]
	if part.counter < 0 {
		return prefix
	}
	return prefix + strconv.Itoa(int(part.counter))
}

// splitCounter splits an identity before its trailing canonical number: "a/17"
// into "a/" and 17. Numbers with leading zeros are no counters, lest two
// identities become one.
func splitCounter(event string) (prefix string, counter int, ok bool) {
	i := len(event)
	for i > 0 && event[i-1] >= '0' && event[i-1] <= '9' {
		i--
	}
	digits := event[i:]
	if digits == "" || len(digits) > 9 || (digits[0] == '0' && len(digits) > 1) {
		return "", 0, false
	}
	counter, err := strconv.Atoi(digits)
	return event[:i], counter, err == nil
}
