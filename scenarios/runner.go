// This file holds the runner: it plays one scenario, from the cluster's start to
// the verdict.

package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/nemesis"
	"github.com/ackproof/ackproof/runs"
)

// ErrRecordingStopped says that the history could not be written any further, as
// when the disk is full: the run was ended, healed, and what was recorded until
// then was checked.
var ErrRecordingStopped = errors.New("the history could not be recorded to its end")

// ErrLeftBehind says that not everything could be undone or removed, as when the
// container engine died; what was recorded was checked all the same.
var ErrLeftBehind = errors.New("something was left behind")

// Status is what goes on in a run, for a live display.
type Status struct {
	Phase             string
	Elapsed, Duration time.Duration
	// Counts of what was recorded so far.
	clients.Counts
	// Faults that are on now, by id.
	Faults []string
}

// The phases of a run.
const (
	phaseStarting = "starting the cluster"
	phaseWorking  = "working"
	phaseHealing  = "healing"
	phaseDraining = "draining the producers"
	phaseServing  = "asking whether the cluster serves again"
	phaseReading  = "reading every partition to its end"
	phaseReplicas = "reading every replica's log"
	phaseRemoving = "writing down the brokers' logs, removing the cluster"
	phaseChecking = "checking"
)

// Runner plays one scenario once. Status may be called at any time by anyone; Run
// once.
type Runner struct {
	scenario Scenario
	// named is the scenario of the catalogue, where one is played.
	named      Named
	library    clients.Library
	properties clients.Properties
	effective  map[string]string
	phase      atomic.Pointer[string]
	began      atomic.Int64 // when the producers began, in nanoseconds since the epoch
	recorder   atomic.Pointer[clients.Recorder]
	player     atomic.Pointer[nemesis.Player]
	// problems are what did not go as it should and decides no verdict.
	problems problems
	// ended is why a script was not played to its end; nil: it was.
	ended error
}

// Prepare validates everything that can be validated before anything is started, finds
// the client, and draws the schedule. What the user asked for wrongly is an *InputError.
// Progress, if given, is told what takes time: a client may have to be fetched.
func Prepare(ctx context.Context, s Scenario, progress func(string)) (*Runner, error) {
	r := &Runner{scenario: s}
	r.enter(phaseStarting)
	var err error
	if r.library, err = s.Workload.openLibrary(ctx, progress); err != nil {
		return nil, err
	}
	if s.Script != "" {
		if r.named, err = Find(s.Script); err != nil {
			return nil, err
		}
		r.scenario.Producer = maps.Clone(s.Producer)
		r.named.withClient(&r.scenario, r.Subject())
	}
	if r.properties, err = clients.NewProperties(r.scenario.Producer); err != nil {
		return nil, inputError("the producer's properties: %w", err)
	}
	if err := r.askEffective(ctx); err != nil {
		return nil, err
	}
	if err := r.plan(); err != nil {
		return nil, &InputError{err}
	}
	if r.scenario.Limits.Serve == 0 {
		r.scenario.Limits.Serve = clients.ServeLimit(r.effective)
	}
	r.scenario.Versions = Versions()
	r.scenario.Versions[r.library.Name()] = r.library.Version()
	return r, nil
}

// askEffective asks the library which properties will be in force.
func (r *Runner) askEffective(ctx context.Context) error {
	var err error
	if r.effective, err = r.library.Effective(ctx, r.properties); err == nil {
		return nil
	}
	var refused *clients.RefusedError
	var notApplicable *clients.NotApplicableError
	if !errors.As(err, &refused) && !errors.As(err, &notApplicable) {
		return err
	}
	return inputError("the producer's properties: %w", err)
}

// Subject is what the scenario is played on.
func (r *Runner) Subject() Subject {
	return Subject{Client: r.library.Name(), ClientVersion: r.library.Version(), Provider: r.scenario.Cluster.Provider,
		Kafka: r.scenario.Cluster.Kafka}
}

// plan draws the schedule, or checks the one that the scenario brings.
func (r *Runner) plan() error {
	faults := &r.scenario.Faults
	if r.scenario.Script != "" {
		if faults.Asked != "" && faults.Asked != nemesis.None {
			return fmt.Errorf("%s injects its own faults; they can be left out (none), and not changed", r.scenario.Script)
		}
		return nil
	}
	if len(faults.Schedule) == 0 {
		asked, err := nemesis.Parse(faults.Asked)
		if err != nil {
			return err
		}
		faults.Schedule, err = nemesis.Draw(asked, r.scenario.Duration, r.scenario.Seed,
			nemesis.Options{Overlap: faults.Overlap})
		if err != nil {
			return err
		}
	}
	if err := faults.Schedule.Validate(); err != nil {
		return err
	}
	return faults.Schedule.CheckLies(r.effective[histories.PropertyAcks], faults.AllowLies)
}

// Scenario is what is played: every default spelled out, the schedule drawn.
func (r *Runner) Scenario() Scenario { return r.scenario }

func (r *Runner) enter(phase string) { r.phase.Store(&phase) }

// Problem says what went wrong and decides no verdict: why the cluster was not whole when
// everything was undone, with the last lines of a broker that had ended, and what of the
// brokers' logs could not be written down. Nil: nothing.
func (r *Runner) Problem() error { return r.problems.joined() }

// problems gathers errors. It may be used by several goroutines at once.
type problems struct {
	mu   sync.Mutex
	errs []error
}

func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

func (p *problems) joined() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// Status says what is going on.
func (r *Runner) Status() Status {
	s := Status{Phase: *r.phase.Load(), Duration: r.scenario.Duration}
	if began := r.began.Load(); began != 0 {
		s.Elapsed = min(time.Since(time.Unix(0, began)), s.Duration)
	}
	if recorder := r.recorder.Load(); recorder != nil {
		s.Counts = recorder.Counts()
	}
	if player := r.player.Load(); player != nil {
		for _, fault := range player.Running() {
			s.Faults = append(s.Faults, fault.ID)
		}
	}
	return s
}

// Run plays the scenario into the run directory and judges it. When the context
// ends, the work ends early: faults are undone, clients drained, partitions read,
// and what was recorded is checked. A verdict may come with an error: see
// ErrRecordingStopped. Without a verdict the run itself failed.
func (r *Runner) Run(ctx context.Context, directory *runs.Directory) (*checker.Verdict, error) {
	return r.run(ctx, directory, nil)
}

// RunOn is Run on a cluster that runs already and goes on running: it must be whole, and
// nothing else may be played on it meanwhile.
func (r *Runner) RunOn(ctx context.Context, cluster clusters.Cluster, directory *runs.Directory) (*checker.Verdict, error) {
	return r.run(ctx, directory, cluster)
}

func (r *Runner) run(ctx context.Context, directory *runs.Directory, cluster clusters.Cluster) (*checker.Verdict, error) {
	text, err := r.scenario.YAML()
	if err != nil {
		return nil, err
	}
	if err := directory.WriteScenario(text); err != nil {
		return nil, err
	}
	played := r.play(ctx, directory, cluster)
	if played != nil && !errors.Is(played, ErrRecordingStopped) && !errors.Is(played, ErrLeftBehind) {
		return nil, played
	}
	r.enter(phaseChecking)
	verdict, err := r.judge(context.WithoutCancel(ctx), directory)
	return verdict, errors.Join(played, err)
}

// judge checks the history on disk: the file is what counts, not what was in
// memory.
func (r *Runner) judge(ctx context.Context, directory *runs.Directory) (*checker.Verdict, error) {
	file, err := histories.Open(directory.History())
	if err != nil {
		return nil, fmt.Errorf("reading back the history: %w", err)
	}
	verdict, err := checker.Check(ctx, file, checker.Options{})
	if err != nil {
		return nil, err
	}
	verdict.History.Path = directory.History()
	if err := r.expect(ctx, file, verdict); err != nil {
		return verdict, err
	}
	return verdict, directory.WriteVerdict(verdict)
}

// expect measures, and holds what was found against what was expected.
func (r *Runner) expect(ctx context.Context, history histories.History, verdict *checker.Verdict) error {
	if len(r.scenario.Expect) == 0 && r.scenario.Script == "" {
		return nil
	}
	measures, err := checker.Measure(ctx, history, verdict)
	if err != nil {
		return err
	}
	verdict.Measures = measures
	verdict.Expected = checker.Expect(verdict, measures, r.scenario.Expect, r.scenario.Violates)
	if r.ended != nil && verdict.Expected.Verdict != checker.Otherwise {
		verdict.Expected.Verdict = checker.UnknownWord
		verdict.Expected.Summary = fmt.Sprintf("it proved nothing: its steps were not played to their end: %v", r.ended)
	}
	return nil
}

// stage is what a run has while it is played.
type stage struct {
	*Runner
	cluster    clusters.Cluster
	recorder   *clients.Recorder
	topics     []histories.Topic
	added      map[string]int32 // how many partitions topics have in the end
	producers  []clients.Producer
	consumers  []clients.Consumer
	connection clients.Connection
	// limits are the scenario's, or shorter where nobody is left to wait for.
	limits LimitsPart
	// cleanup bounds what comes after the work, whatever ended the work.
	cleanup context.Context
}

// play does everything up to the closed history.
func (r *Runner) play(ctx context.Context, directory *runs.Directory, cluster clusters.Cluster) (err error) {
	// What was begun is ended in good order even after ctrl-C; every step below
	// has its own limit.
	s := &stage{Runner: r, limits: r.scenario.Limits, cleanup: context.WithoutCancel(ctx)}
	if cluster == nil {
		if cluster, err = r.scenario.Cluster.Start(ctx, r.scenario.Faults.Schedule.NeedsDisk(), s.enter); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.closeCluster(directory)) }()
	}
	if err := s.useCluster(ctx, cluster); err != nil {
		return err
	}
	header := s.header()
	writer, err := histories.Create(directory.History(), header)
	if err != nil {
		return fmt.Errorf("creating the history: %w", err)
	}
	s.recorder, err = clients.NewRecorder(writer, clients.RecorderOptions{Run: header.Run, Seed: r.scenario.Seed,
		Started: header.Started})
	if err != nil {
		return errors.Join(err, writer.Close())
	}
	r.recorder.Store(s.recorder)
	s.cluster.Wire().Observe(s.recorder.Observe)
	err = s.work(ctx)
	s.enter(phaseRemoving)
	if closed := errors.Join(s.recorder.Err(), writer.Close()); closed != nil {
		return errors.Join(ErrRecordingStopped, closed)
	}
	return err
}

// useCluster creates the topics on a cluster.
func (s *stage) useCluster(ctx context.Context, cluster clusters.Cluster) error {
	s.cluster = cluster
	s.connection = clients.Connection{Seeds: cluster.Bootstrap()}
	for _, name := range s.scenario.topicNames() {
		if err := s.createTopic(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// documentLimit bounds the writing down of the brokers' logs.
const documentLimit = 30 * time.Second

// closeCluster writes down what the brokers were and said, and removes them. What could
// not be written down is told and changes no verdict.
func (s *stage) closeCluster(directory *runs.Directory) error {
	if documenter, can := s.cluster.(clusters.Documenter); can {
		ctx, cancel := context.WithTimeout(s.cleanup, documentLimit)
		defer cancel()
		folder, err := directory.MakeBrokers()
		if err == nil {
			err = documenter.Document(ctx, folder)
		}
		if err != nil {
			s.problems.add(fmt.Errorf("writing down what the brokers said: %w", err))
		}
	}
	if err := s.cluster.Close(); err != nil {
		return fmt.Errorf("%w: %w", ErrLeftBehind, err)
	}
	return nil
}

// Start starts the brokers. With disk, the embedded ones keep their logs on disk.
// Progress is told what is going on.
func (c ClusterPart) Start(ctx context.Context, disk bool, progress func(string)) (clusters.Cluster, error) {
	if c.Provider == ProviderContainers {
		cluster, err := clusters.StartContainers(ctx, clusters.ContainersOptions{Version: c.Kafka, Image: c.Image,
			Brokers: c.Brokers, Properties: c.Properties, Listen: c.Listen, Memory: c.MemoryMiB << 20,
			Disk: c.DiskMiB << 20, Progress: progress})
		if err != nil {
			return nil, err
		}
		return cluster, nil
	}
	cluster, err := clusters.StartEmbedded(ctx, clusters.EmbeddedOptions{Brokers: c.Brokers, Disk: disk,
		Version: Versions()["kfake"]})
	if err != nil {
		return nil, fmt.Errorf("starting the cluster: %w", err)
	}
	return cluster, nil
}

func (s *stage) createTopic(ctx context.Context, name string) error {
	part := s.scenario.Topics
	if err := s.cluster.CreateTopic(ctx, clusters.Topic{Name: name, Partitions: part.Partitions,
		ReplicationFactor: part.ReplicationFactor, Properties: part.Properties}); err != nil {
		return fmt.Errorf("creating the topic %s: %w", name, err)
	}
	properties, err := s.cluster.TopicProperties(ctx, name)
	if err != nil {
		return fmt.Errorf("asking for the properties of %s: %w", name, err)
	}
	ends, err := s.cluster.LogEnds(ctx, name)
	if err != nil {
		return fmt.Errorf("asking where the logs of %s end: %w", name, err)
	}
	s.topics = append(s.topics, histories.Topic{Name: name, Partitions: part.Partitions,
		ReplicationFactor: part.ReplicationFactor, Properties: properties, Start: ends})
	return nil
}

// header says under which configuration everything happens.
func (s *stage) header() *histories.Header {
	d := s.cluster.Description()
	started := time.Now()
	return &histories.Header{
		Run:     fmt.Sprintf("%s-%d", started.UTC().Format("20060102T150405.000"), s.scenario.Seed),
		Tool:    "ackproof " + s.scenario.Versions["ackproof"],
		Started: started, Clock: "runner", Seed: s.scenario.Seed, Scenario: s.scenario.Name,
		Cluster: &histories.Cluster{Provider: d.Provider, Version: d.Version, Brokers: d.Brokers, Features: d.Features,
			CannotBreak: d.CannotBreak, Properties: d.Properties},
		Topics: s.topics, Producer: s.effective,
	}
}

// work lets the clients work under faults, heals, drains, and reads the logs.
func (s *stage) work(ctx context.Context) error {
	var reading sync.WaitGroup
	stopReading, err := s.openClients(ctx, &reading)
	if err != nil {
		return errors.Join(err, s.closeClients(stopReading, &reading))
	}
	if s.scenario.Script != "" {
		err = s.playScript(ctx)
	} else {
		err = s.playFaults(ctx)
	}
	s.waitForNobody()
	s.enter(phaseDraining)
	err = errors.Join(err, s.closeProducers())
	if s.recorder.Err() == nil {
		err = errors.Join(err, s.afterwards())
	}
	err = errors.Join(err, s.closeClients(stopReading, &reading))
	return errors.Join(err, s.finish(ctx))
}

// settleLimit is how long the wire may take to tell the fate of requests whose
// clients are closed.
const settleLimit = 10 * time.Second

// finish writes the last line, once every request has its own.
func (s *stage) finish(ctx context.Context) error {
	settling, cancel := context.WithTimeout(s.cleanup, settleLimit)
	defer cancel()
	if err := s.cluster.Wire().Settled(settling); err != nil {
		return err
	}
	reason := histories.EndFinished
	if ctx.Err() != nil {
		reason = histories.EndInterrupted
	}
	return s.recorder.Write(&histories.End{Time: s.recorder.Now(), Reason: reason})
}
