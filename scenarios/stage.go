// This file holds the steps of a run between the cluster's start and the last line
// of the history.

package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/nemesis"
)

// openClients opens producers and consumers; the consumers begin to read. stop ends
// their reading.
func (s *stage) openClients(ctx context.Context, reading *sync.WaitGroup) (stop context.CancelFunc, err error) {
	producers := s.scenario.Workload.Producers
	if s.scenario.Script != "" {
		producers = 0 // its script opens them
	}
	for i := range producers {
		p, err := s.library.NewProducer(ctx, clients.ProducerOptions{Recorder: s.recorder, Connection: s.connection,
			Name: fmt.Sprintf("p%d", i), Properties: s.properties, LargestValue: s.scenario.Workload.ValueSize,
			AttemptsVisible: true})
		if err != nil {
			return func() {}, fmt.Errorf("opening producer p%d: %w", i, err)
		}
		s.producers = append(s.producers, p)
	}
	readContext, stop := context.WithCancel(s.cleanup)
	for i := range s.scenario.Workload.Consumers {
		c, err := s.library.NewConsumer(ctx, clients.ConsumerOptions{Recorder: s.recorder, Connection: s.connection,
			Name: fmt.Sprintf("c%d", i), Assignment: s.fromStart()})
		if err != nil {
			return stop, fmt.Errorf("opening consumer c%d: %w", i, err)
		}
		s.consumers = append(s.consumers, c)
		reading.Go(func() {
			for {
				if _, err := c.Poll(readContext); err != nil || readContext.Err() != nil {
					return
				}
			}
		})
	}
	return stop, nil
}

// fromStart is an assignment of every partition from where it ended before the
// run.
func (s *stage) fromStart() []histories.PartitionPosition {
	var all []histories.PartitionPosition
	for _, t := range s.topics {
		for p, start := range t.Start {
			all = append(all, histories.PartitionPosition{Position: start,
				Partition: histories.Partition{Topic: t.Name, Partition: int32(p)}})
		}
	}
	return all
}

func (s *stage) closeClients(stopReading context.CancelFunc, reading *sync.WaitGroup) error {
	stopReading()
	reading.Wait()
	var errs []error
	for _, c := range s.consumers {
		errs = append(errs, c.Close())
	}
	for _, p := range s.producers {
		_, err := p.Close(s.cleanup, 0)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// openPlayer makes the player of the faults.
func (s *stage) openPlayer() (*nemesis.Player, error) {
	player, err := nemesis.NewPlayer(nemesis.PlayerOptions{
		Cluster: s.cluster, Schedule: s.scenario.Faults.Schedule, Topics: s.scenario.topicNames(), Recorder: s.recorder,
		Now: s.recorder.Now, Seed: s.scenario.Seed, Acks: s.effective[histories.PropertyAcks],
		AllowLies: s.scenario.Faults.AllowLies, WholeLimit: s.limits.Whole, HealLimit: s.limits.Whole, Lasts: s.scenario.Duration,
	})
	if err != nil {
		return nil, &InputError{err}
	}
	s.player.Store(player)
	return player, nil
}

// playFaults lets the producers work while the nemesis plays, then heals and waits
// until the cluster is whole. A cluster that does not become so is no failure of the
// run: that stands in the history, and is judged.
func (s *stage) playFaults(ctx context.Context) error {
	player, err := s.openPlayer()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.enter(phaseWorking)
	var working sync.WaitGroup
	working.Go(func() { s.stopAtFailure(ctx, stop) })
	for i, p := range s.producers {
		working.Go(func() { s.produce(ctx, i, p) })
	}
	s.awaitFirst(ctx)
	enough, cancel := context.WithTimeout(ctx, s.scenario.Duration)
	defer cancel()
	s.began.Store(time.Now().UnixNano())
	err = player.Play(ctx)
	<-enough.Done()
	stop()
	working.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil { // it was undone in the end, and how it went stands in the history
		_ = s.recorder.Note("%v", err)
	}
	return s.heal(player)
}

// stopAtFailure stops the work when the history can no longer be written, as when the
// disk is full: there is no point in going on.
func (s *stage) stopAtFailure(ctx context.Context, stop context.CancelFunc) {
	select {
	case <-s.recorder.Failed():
		stop()
	case <-ctx.Done():
	}
}

// playScript plays the steps of a scenario of the catalogue, then heals and waits until
// the cluster is whole. A script that was not played to its end is no failure of the
// run: what it was to show is unknown then.
func (s *stage) playScript(ctx context.Context) error {
	player, err := s.openPlayer()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, scriptMost)
	defer stop()
	s.enter(phaseWorking)
	s.began.Store(time.Now().UnixNano())
	var watching sync.WaitGroup
	watching.Go(func() { s.stopAtFailure(ctx, stop) })
	stopWatching := player.Watch(ctx)
	steps := &script{stage: s, ctx: ctx, player: player, topic: s.scenario.topicNames()[0], choose: s.named.choosePartition}
	s.named.play(steps)
	for _, end := range steps.stops {
		end()
	}
	stopWatching()
	stop()
	watching.Wait()
	if s.ended = steps.err; s.ended != nil {
		_ = s.recorder.Note("the steps of %s were not played to their end: %v", s.scenario.Script, s.ended)
	}
	return s.heal(player)
}

// scriptMost bounds the steps of a script, whatever they wait for.
const scriptMost = 6 * time.Minute

// heal undoes every fault that is still on and waits until the cluster is whole.
func (s *stage) heal(player *nemesis.Player) error {
	s.enter(phaseHealing)
	notWhole := player.AwaitWhole(s.cleanup)
	if notWhole != nil {
		_ = s.recorder.Note("%v", notWhole)
	}
	if errors.Is(notWhole, nemesis.ErrNotHealed) {
		return fmt.Errorf("%w: %w", ErrLeftBehind, notWhole)
	}
	if notWhole != nil {
		s.problems.add(notWhole) // it is said at the end, too
	}
	return nil
}

// firstLimit bounds the wait for the first acknowledgement.
const firstLimit = 20 * time.Second

// awaitFirst waits until something was acknowledged: on a busy machine the clients take
// seconds to begin, and a fault that strikes before tells nothing. Where nothing is
// acknowledged at all, the schedule is played all the same.
func (s *stage) awaitFirst(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, firstLimit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for s.recorder.Counts().Acknowledged == 0 {
		select {
		case <-limited.Done():
			return
		case <-ticker.C:
		}
	}
}

// produce hands over one producer's events at its share of the rate.
func (s *stage) produce(ctx context.Context, index int, p clients.Producer) {
	w := s.scenario.Workload
	sequence := newSequence(s.scenario.Seed, index, s.scenario.topicNames(), w.Keys)
	pace := pace{perSecond: w.Rate / float64(w.Producers), started: time.Now()}
	for {
		n := pace.due(ctx)
		if n == 0 {
			return
		}
		for range n {
			next := sequence.next()
			if p.Send(ctx, clients.SendRequest{Topic: next.topic, Key: next.key, ValueSize: w.ValueSize}) != nil {
				return
			}
		}
	}
}

// waitForNobody shortens the limits of what comes after the work where every broker's
// process has ended by itself: nobody is left to answer, and nobody will start them.
func (s *stage) waitForNobody() {
	master, can := s.cluster.(clusters.ProcessMaster)
	if !can {
		return
	}
	ctx, cancel := context.WithTimeout(s.cleanup, exitsLimit)
	defer cancel()
	exits, err := master.Exits(ctx)
	if err != nil || len(exits) < len(s.cluster.Description().Brokers) {
		return
	}
	_ = s.recorder.Note("every broker's process has ended by itself: nobody is waited for")
	s.limits.Drain, s.limits.Serve, s.limits.Read = nobodyLimit, nobodyLimit, nobodyLimit
}

// Limits of asking which processes have ended, and of waiting for answers where all have.
const (
	exitsLimit  = 10 * time.Second
	nobodyLimit = 2 * time.Second
)

// closeProducers waits for what is outstanding, within the limit.
func (s *stage) closeProducers() error {
	errs := make([]error, len(s.producers))
	var closing sync.WaitGroup
	for i, p := range s.producers {
		closing.Go(func() { _, errs[i] = p.Close(s.cleanup, s.limits.Drain) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// afterwards asks whether the cluster serves again and reads every partition to its
// end. What it finds stands in the history; only what keeps it from asking is an
// error.
func (s *stage) afterwards() error {
	s.enter(phaseServing)
	s.seeAdded()
	serving, cancel := context.WithTimeout(s.cleanup, s.limits.Serve+s.limits.Drain)
	defer cancel()
	properties := s.properties
	if s.scenario.Script != "" { // its own may be such that nothing can be served
		properties = clients.Properties{}
	}
	_, err := clients.ServesAgain(serving, clients.ServesAgainOptions{Library: s.library, Recorder: s.recorder,
		Connection: s.connection, Partitions: s.partitions(), Properties: properties, Limit: s.limits.Serve,
		ValueSize: s.scenario.Workload.ValueSize, AttemptsVisible: true})
	if err != nil {
		return err
	}
	s.enter(phaseReading)
	reading, cancel := context.WithTimeout(s.cleanup, s.limits.Read)
	defer cancel()
	_, err = clients.FinalRead(reading, clients.FinalReadOptions{Recorder: s.recorder, Connection: s.connection,
		Partitions: s.partitions(), SecondLook: s.secondLook()})
	return errors.Join(err, s.readReplicas())
}

// readReplicas reads the log of every replica, where brokers have logs of their own.
func (s *stage) readReplicas() error {
	segments, can := s.cluster.(clusters.SegmentReader)
	if !can {
		return nil
	}
	s.enter(phaseReplicas)
	reading, cancel := context.WithTimeout(s.cleanup, s.limits.Read)
	defer cancel()
	folder, remove, err := engine.TemporaryFolder(engine.FolderSegments)
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // temporary
	_, err = clients.ReplicaRead(reading, clients.ReplicaReadOptions{Recorder: s.recorder, Connection: s.connection,
		Partitions: s.partitions(), Segments: copiedSegments(segments, folder)})
	return err
}

// segmentFiles gives the segment files of a replica.
type segmentFiles = func(ctx context.Context, replica int32, p histories.Partition) ([]clients.SegmentFile, error)

// copiedSegments gives the segment files of a replica, copied into the folder.
func copiedSegments(cluster clusters.SegmentReader, folder string) segmentFiles {
	return func(ctx context.Context, replica int32, p histories.Partition) ([]clients.SegmentFile, error) {
		own := filepath.Join(folder, fmt.Sprintf("%d-%s-%d", replica, p.Topic, p.Partition))
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, fmt.Errorf("making a folder for the segment files: %w", err)
		}
		if err := cluster.CopySegments(ctx, replica, p.Topic, p.Partition, own); err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(own)
		if err != nil {
			return nil, fmt.Errorf("listing the segment files: %w", err)
		}
		var files []clients.SegmentFile
		for _, entry := range entries {
			files = append(files, clients.SegmentFile{Name: entry.Name(),
				Open: func() (io.ReadCloser, error) { return os.Open(filepath.Join(own, entry.Name())) }})
		}
		return files, nil
	}
}

// partitions gives every partition of the run, those that were added among them.
func (s *stage) partitions() []histories.Partition {
	var all []histories.Partition
	for _, t := range s.topics {
		for p := range max(t.Partitions, s.added[t.Name]) {
			all = append(all, histories.Partition{Topic: t.Name, Partition: p})
		}
	}
	return all
}

// seeAdded asks how many partitions the topics have now. What cannot be asked is found by
// the final read.
func (s *stage) seeAdded() {
	ctx, cancel := context.WithTimeout(s.cleanup, exitsLimit)
	defer cancel()
	s.added = make(map[string]int32)
	for _, t := range s.topics {
		if leaders, err := s.cluster.Leaders(ctx, t.Name); err == nil {
			s.added[t.Name] = int32(len(leaders))
		}
	}
}

// secondLook is when the final read looks at the ends again: a second later; as much
// later as a held-back request may still be on its way; and one request timeout where
// it may be in the buffers of a broker that was frozen or of a connection that was cut.
func (s *stage) secondLook() time.Duration {
	longest := time.Duration(0)
	if s.scenario.Script != "" && s.scenario.Cluster.Provider != ProviderEmbedded {
		longest = s.requestTimeout() // its faults are not known beforehand
	}
	for _, e := range s.scenario.Faults.Schedule {
		if by, err := time.ParseDuration(e.Settings["by"]); err == nil {
			longest = max(longest, by)
		}
		if fault, err := nemesis.Find(e.Fault); err == nil && fault.Stalls {
			longest = max(longest, s.requestTimeout())
		}
	}
	return time.Second + longest
}

// requestTimeout is how long a broker may work on a request, as the clients ask.
func (s *stage) requestTimeout() time.Duration {
	ms, err := strconv.ParseInt(s.effective[histories.PropertyRequestTimeout], 10, 64)
	if err != nil {
		return kafkaRequestTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// kafkaRequestTimeout is Kafka's own default of request.timeout.ms.
const kafkaRequestTimeout = 30 * time.Second
