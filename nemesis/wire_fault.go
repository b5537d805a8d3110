// This file holds what all faults on the wire have in common: which requests they
// act on, how they count, and how they are put on and taken off.

package nemesis

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/wire"
)

// Keys of the APIs that faults can be aimed at (Kafka's protocol guide).
const (
	produceKey = 0
	fetchKey   = 1
)

// aimSettings are the settings by which every fault on the wire is aimed at requests.
func aimSettings(every string) []Setting {
	settings := []Setting{
		number("every", every, "act on every n-th of the run's requests", 1),
		number("count", "0", "act on so many requests at most; 0: no limit", 0),
		brokerFilter("act only on requests to this broker"),
		partitionFilter(anyOne, "act only on requests that carry a batch for this partition", anyOne),
		word("producer", anyOne, "act only on requests of the client with this client.id"),
		wordOf("key", "act only on requests that carry a record with this key", "a key|any"),
		choice("retries", anyOne, "act only on requests with a batch that was seen before (only), or only on others (never)",
			anyOne, onlyRetries, neverRetries),
	}
	for i := range settings {
		settings[i].shared = true
	}
	return settings
}

// apiSetting chooses the API whose requests are acted on.
func apiSetting() Setting {
	setting := choice("api", "produce", "the requests to act on; with fetch, partition, key and retries are not looked at",
		"produce", "fetch")
	setting.shared = true
	return setting
}

// wireFault is the injection of a fault that acts on requests on the wire.
type wireFault struct {
	env      *Environment
	settings Settings
	api      int16
	every    int64
	most     int64
	// client is the client.id whose requests are acted on; "": anyone's. first: the
	// first client that is seen becomes it.
	client string
	first  bool
	// decide gives what becomes of a request that the fault acts on.
	decide func(x *wire.Exchange) wire.Decision
	// between is what becomes of the requests that are counted and not acted on, as
	// long as any may still be. The zero value lets them pass.
	between wire.Decision
	// countsEffects: not every act takes effect, and took is called for those that
	// do.
	countsEffects bool
	// settle waits until what was acted on is past, after the last act. Nil:
	// nothing is left behind.
	settle func(ctx context.Context, w *wireFault) error

	mu      sync.Mutex
	remove  func()
	seen    int64
	acted   int64
	effect  int64
	brokers map[int32]int64
	// hit are the numbers of the connections that were acted on.
	hit     map[int64]bool
	lastAct time.Time
	// batches are those that were seen, where retries are told from first attempts;
	// earlier are those before them, so that memory is bounded.
	batches, earlier map[uint64]struct{}
}

// Values of the setting retries.
const (
	onlyRetries  = "only"
	neverRetries = "never"
)

// newWireFault aims a fault on the wire.
func newWireFault(env *Environment, s Settings, decide func(x *wire.Exchange) wire.Decision) *wireFault {
	w := &wireFault{env: env, settings: s, decide: decide, every: s.number("every"), most: s.number("count"),
		brokers: make(map[int32]int64), hit: make(map[int64]bool)}
	if s.is("api", "fetch") {
		w.api = fetchKey
	}
	for _, name := range []string{"producer", "consumer"} {
		switch client := s[name]; client {
		case "", anyOne:
		case firstOne:
			w.first = name == "consumer"
		default:
			w.client = client
		}
	}
	return w
}

// Target says which requests are acted on.
func (w *wireFault) Target() string {
	name := "produce"
	if w.api == fetchKey {
		name = "fetch"
	}
	text := fmt.Sprintf("every %s %s request", ordinal(w.every), name)
	if w.every == 1 {
		text = fmt.Sprintf("every %s request", name)
	}
	switch {
	case w.settings.is("consumer", firstOne):
		text += " of the first consumer"
	case w.client != "":
		text += " of " + w.client
	}
	if broker, given := w.settings.filter("broker"); given {
		text += " to broker " + broker
	}
	if partition, given := w.settings.filter("partition"); given {
		text += " for " + partition
	}
	if key, given := w.settings.filter("key"); given {
		text += " with a record of the key " + key
	}
	switch w.settings["retries"] {
	case onlyRetries:
		text += " that is a retry"
	case neverRetries:
		text += " that is a first attempt"
	}
	if w.most > 0 {
		text += fmt.Sprintf(", %d at most", w.most)
	}
	return text
}

func ordinal(n int64) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// Inject puts the fault on the wire.
func (w *wireFault) Inject(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remove == nil {
		w.remove = w.env.Cluster.Wire().Intercept(w)
	}
	return nil
}

// Decide is asked about every request. It lets pass what is not its business.
func (w *wireFault) Decide(x *wire.Exchange) wire.Decision {
	if !w.concerns(x) {
		return wire.Pass()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remove == nil { // it is being taken off
		return wire.Pass()
	}
	if w.first && w.client == "" {
		w.client = x.ClientID
	}
	if w.client != "" && w.client != x.ClientID || !w.keyFits(x) {
		return wire.Pass()
	}
	fits := w.attemptFits(x)
	if fits {
		w.seen++
	}
	switch {
	case w.most > 0 && w.acted >= w.most:
		return wire.Pass()
	case !fits || w.seen%w.every != 0:
		return w.between
	}
	w.acted++
	w.brokers[x.Broker]++
	w.hit[x.Connection] = true
	w.lastAct = time.Now()
	return w.decide(x)
}

// Asked remembers which batches were seen, where retries are told from first attempts:
// also in requests that another fault acted on.
func (w *wireFault) Asked(x *wire.Exchange) {
	if _, given := w.settings.filter("retries"); !given || x.Produce == nil || !w.concerns(x) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != "" && w.client != x.ClientID {
		return
	}
	if w.batches == nil || len(w.batches) >= mostBatches {
		w.batches, w.earlier = make(map[uint64]struct{}), w.batches
	}
	for i := range x.Produce.Batches {
		if name, readable := nameOf(&x.Produce.Batches[i]); readable {
			w.batches[name] = struct{}{}
		}
	}
}

// mostBatches is how many batches are remembered at least; what is forgotten counts as
// new.
const mostBatches = 1 << 16

// attemptFits says whether a request is a first attempt or a retry, as asked for: by its
// records, which a client sends again as they were, whatever their batch is called then.
// It is called with mu held.
func (w *wireFault) attemptFits(x *wire.Exchange) bool {
	wanted, given := w.settings.filter("retries")
	if !given || x.Produce == nil {
		return true
	}
	again := slices.ContainsFunc(x.Produce.Batches, func(b wire.ProduceBatch) bool {
		name, readable := nameOf(&b)
		_, now := w.batches[name]
		_, before := w.earlier[name]
		return readable && (now || before) // what cannot be read is no retry of anything
	})
	return again == (wanted == onlyRetries)
}

// nameOf gives a batch a name by what its records hold: stamps, where our own clients sent
// them.
func nameOf(b *wire.ProduceBatch) (name uint64, readable bool) {
	hash := fnv.New64a()
	err := b.EachRecord(func(r *wire.Record) {
		r.EachHeader(func(_, value []byte) { _, _ = hash.Write(value) }) // never fails
		_, _ = hash.Write(r.Key)
		_, _ = hash.Write(r.Value)
	})
	_, _ = fmt.Fprintf(hash, "%s/%d", b.Topic, b.Partition)
	return hash.Sum64(), err == nil
}

// keyFits says whether a request carries a record with the key that was asked for.
func (w *wireFault) keyFits(x *wire.Exchange) bool {
	key, given := w.settings.filter("key")
	if !given || x.Produce == nil {
		return true
	}
	found := false
	for i := range x.Produce.Batches {
		// What cannot be read has no key.
		_ = x.Produce.Batches[i].EachRecord(func(r *wire.Record) { found = found || string(r.Key) == key })
	}
	return found
}

// took is called when an act took effect.
func (w *wireFault) took() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effect++
}

// concerns says whether the request is one that the fault counts, whoever sent it.
func (w *wireFault) concerns(x *wire.Exchange) bool {
	if x.Key != w.api || (w.api == produceKey && x.Produce == nil) {
		return false
	}
	if broker, given := w.settings.filter("broker"); given && broker != fmt.Sprint(x.Broker) {
		return false
	}
	if w.api != produceKey {
		return true // what is said of records is said of produce requests
	}
	partition, given := w.settings.filter("partition")
	return slices.ContainsFunc(x.Produce.Batches, func(b wire.ProduceBatch) bool {
		if given {
			return partition == partitionName(histories.Partition{Topic: b.Topic, Partition: b.Partition})
		}
		return len(w.env.Topics) == 0 || slices.Contains(w.env.Topics, b.Topic)
	})
}

// Heal takes the fault off the wire and waits until what it acted on is past.
func (w *wireFault) Heal(ctx context.Context) error {
	w.mu.Lock()
	remove := w.remove
	w.remove = nil
	acted := w.acted
	w.mu.Unlock()
	if remove != nil {
		remove()
	}
	if acted == 0 || w.settle == nil {
		return nil
	}
	return w.settle(ctx, w)
}

// Evidence counts what was acted on.
func (w *wireFault) Evidence() Evidence {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.acted == 0:
		return Evidence{Text: fmt.Sprintf("it acted on none of the %d requests that it saw", w.seen)}
	case w.countsEffects && w.effect == 0:
		return Evidence{Text: fmt.Sprintf("it was tried on %d of the %d requests that it saw, and took effect on none",
			w.acted, w.seen)}
	case w.countsEffects:
		return Evidence{Bit: true, Text: fmt.Sprintf("it took effect %d times, tried on %d of the %d requests "+
			"that it saw (%s)", w.effect, w.acted, w.seen, byBroker(w.brokers))}
	}
	return Evidence{Bit: true, Text: fmt.Sprintf("it acted on %d of the %d requests that it saw (%s)",
		w.acted, w.seen, byBroker(w.brokers))}
}

// byBroker gives counts as "broker 0: 12, broker 1: 3".
func byBroker(counts map[int32]int64) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("broker %d: %d", id, counts[id]))
	}
	return strings.Join(parts, ", ")
}

// cutHit cuts the connections whose requests were acted on: what was left silent
// ends.
func cutHit(_ context.Context, w *wireFault) error {
	w.mu.Lock()
	hit := maps.Clone(w.hit)
	w.mu.Unlock()
	w.env.Cluster.Wire().Reset(func(e wire.End) bool { return hit[e.Connection] })
	return nil
}
