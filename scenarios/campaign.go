// This file holds campaigns: scenarios of the catalogue, each with each of some clients,
// on one cluster that is started once.

package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/runs"
)

// CampaignFile is the name of the file in a campaign's directory that says what was asked.
const CampaignFile = "campaign.yaml"

// Campaign is what is to be played: every scenario with every client. Its directory has a
// run directory for each, NAME/CLIENT, and CampaignFile.
type Campaign struct {
	Cluster ClusterPart `yaml:"cluster"`
	// Names of the scenarios, and clients as in WorkloadPart.Client; Exec stands for one
	// more client where it is given.
	Names   []string `yaml:"names"`
	Clients []string `yaml:"clients"`
	Exec    []string `yaml:"client.exec,omitempty"`
	Seed    int64    `yaml:"seed"`
	// Producer and Topic properties over each scenario's; NoFaults leaves its faults out.
	Producer map[string]string `yaml:"producer,omitempty"`
	Topic    map[string]string `yaml:"topic,omitempty"`
	NoFaults bool              `yaml:"no.faults,omitempty"`
}

// Cell is one scenario with one client, and what became of it.
type Cell struct {
	Name   string `json:"name"`
	Claim  string `json:"claim"`
	Client string `json:"client"`
	// Directory is its run directory; empty: nothing was played.
	Directory string `json:"directory,omitempty"`
	// Verdict is checker.AsExpected, checker.Otherwise, checker.UnknownWord, or
	// NotApplicable.
	Verdict string `json:"verdict"`
	// Summary says it in a sentence.
	Summary string `json:"summary"`
	// Expected says what became of each expectation; nil: nothing was played.
	Expected *checker.Expected `json:"expected,omitempty"`
	// Measures are all numbers about the run.
	Measures checker.Measures `json:"-"`
	// Took is how long it took, in seconds.
	Took float64 `json:"took_s"`
	// Before: it was played before the campaign was resumed.
	Before bool `json:"before,omitempty"`
}

// NotApplicable is the verdict on a scenario that cannot be played so: the client library
// cannot honour it, or the cluster cannot show it.
const NotApplicable = "n/a"

// LoadCampaign reads what was asked of a campaign in its directory.
func LoadCampaign(directory string) (Campaign, error) {
	path := filepath.Join(directory, CampaignFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return Campaign{}, inputError("resuming: %w; name the directory of a campaign", err)
	}
	return readCampaign(path, text)
}

// readCampaign reads the text of a campaign's file.
func readCampaign(path string, text []byte) (Campaign, error) {
	var c Campaign
	if err := yaml.Unmarshal(text, &c); err != nil {
		return Campaign{}, inputError("resuming: %s: %w", path, err)
	}
	return c, c.validate()
}

// Create makes the campaign's directory, which must be empty or not be there.
func (c Campaign) Create(directory string) error {
	if err := c.validate(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(directory); err == nil && len(entries) > 0 {
		return inputError("the directory %s is not empty (it holds %s); choose another one with --out, or go on with --resume",
			directory, entries[0].Name())
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return inputError("creating the directory %s: %w; choose a place that can be written with --out", directory, err)
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the campaign: %w", err)
	}
	if err := os.WriteFile(filepath.Join(directory, CampaignFile), text, 0o644); err != nil {
		return inputError("writing into the directory %s: %w", directory, err)
	}
	return nil
}

func (c Campaign) validate() error {
	for _, name := range c.Names {
		if _, err := Find(name); err != nil {
			return err
		}
	}
	for _, w := range c.workloads() {
		if err := w.validateClient(); err != nil {
			return err
		}
	}
	return c.Cluster.validate()
}

// workloads gives one for each client, with nothing but the client.
func (c Campaign) workloads() []WorkloadPart {
	var all []WorkloadPart
	for _, client := range c.Clients {
		all = append(all, WorkloadPart{Client: client})
	}
	if len(c.Exec) > 0 {
		all = append(all, WorkloadPart{Client: "exec", Exec: c.Exec})
	}
	return all
}

// Observer is told what a campaign does. Each may be nil.
type Observer struct {
	// Progress is told what takes time.
	Progress func(string)
	// Began is told of each run as it begins, and Ended what became of it.
	Began func(Cell, *Runner)
	Ended func(Cell)
}

func (o Observer) progress(text string) {
	if o.Progress != nil {
		o.Progress(text)
	}
}

// Play plays what was not played before, and gives every cell in its order. When the
// context ends, the run that is played ends in good order and no other begins. The error
// is of the cluster, the directory or a run that failed itself; the cells up to there are
// given with it.
func (c Campaign) Play(ctx context.Context, directory string, observer Observer) (cells []Cell, err error) {
	p := &campaigner{Campaign: c, directory: directory, observer: observer}
	defer func() { err = errors.Join(err, p.closeCluster(ctx)) }()
	for _, name := range c.Names {
		for _, w := range c.workloads() {
			if ctx.Err() != nil {
				return cells, nil
			}
			cell, err := p.play(ctx, name, w)
			if err != nil {
				return cells, fmt.Errorf("%s with %s: %w", name, w.Client, err)
			}
			cells = append(cells, cell)
			if observer.Ended != nil {
				observer.Ended(cell)
			}
		}
	}
	return cells, nil
}

// campaigner plays one campaign.
type campaigner struct {
	Campaign
	directory string
	observer  Observer
	cluster   clusters.Cluster
}

// play plays one cell, unless it was played before or cannot be.
func (p *campaigner) play(ctx context.Context, name string, w WorkloadPart) (Cell, error) {
	named, err := Find(name)
	if err != nil {
		return Cell{}, err
	}
	cell := Cell{Name: name, Claim: named.Claim, Client: w.Client}
	if p.Cluster.Provider == ProviderEmbedded && named.OnlyContainers != "" {
		cell.Verdict, cell.Summary = NotApplicable, "it does not show on the embedded cluster: "+named.OnlyContainers
		return cell, nil
	}
	home := filepath.Join(p.directory, name, fileName(w.Client))
	if p.playedBefore(&cell, home) {
		return cell, nil
	}
	runner, err := Prepare(ctx, p.scenario(named, w), p.observer.Progress)
	var refused *clients.RefusedError
	var notApplicable *clients.NotApplicableError
	if errors.As(err, &refused) || errors.As(err, &notApplicable) {
		cell.Verdict, cell.Summary = NotApplicable, err.Error()
		return cell, nil
	}
	if err != nil {
		return cell, err
	}
	if err := p.ready(ctx); err != nil {
		return cell, err
	}
	folder, err := freshDirectory(home)
	if err != nil {
		return cell, err
	}
	if p.observer.Began != nil {
		p.observer.Began(cell, runner)
	}
	began := time.Now()
	verdict, err := runner.RunOn(ctx, p.cluster, folder)
	cell.Took = time.Since(began).Seconds()
	if verdict == nil {
		return cell, err
	}
	cell.Directory = folder.Path
	cell.take(verdict)
	return cell, err
}

// take takes over what became of the expectations.
func (c *Cell) take(v *checker.Verdict) {
	c.Expected, c.Measures = v.Expected, v.Measures
	c.Verdict, c.Summary = v.Expected.Verdict, v.Expected.Summary
}

// scenario gives the scenario of a cell.
func (p *campaigner) scenario(named Named, w WorkloadPart) Scenario {
	s := named.Scenario(p.Cluster.Provider)
	s.Seed, s.Cluster = p.Seed, p.Cluster
	s.Workload.Client, s.Workload.Exec = w.Client, w.Exec
	s.Topics.Prefix = fmt.Sprintf("%s-%s-%d", named.Name, topicName(w.Client), time.Now().UnixMilli()%1_000_000)
	s.ProducerGiven = p.Producer
	for name, value := range p.Topic {
		s.Topics.Properties[name] = value
	}
	if p.NoFaults {
		s.Faults.Asked = "none"
	}
	return s
}

// topicName gives a client's name as it may stand in a topic's: a name with both dots and
// underscores is warned of by brokers, and a colon is none.
func topicName(client string) string {
	return strings.NewReplacer(":", "-", ".", "-", "/", "-").Replace(client)
}

// fileName gives a client's name as a folder's.
func fileName(client string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(client) }

// ready starts the cluster, and starts it anew where it is not whole.
func (p *campaigner) ready(ctx context.Context) error {
	if p.cluster != nil {
		waiting, cancel := context.WithTimeout(ctx, wholeBetween)
		defer cancel()
		var err error
		for {
			if err = p.cluster.Whole(waiting); err == nil {
				return nil
			}
			if waiting.Err() != nil {
				break
			}
			timer := time.NewTimer(100 * time.Millisecond)
			select {
			case <-timer.C:
			case <-waiting.Done():
				timer.Stop()
			}
		}
		p.observer.progress(fmt.Sprintf("starting the cluster anew: %v", err))
		if err := p.closeCluster(ctx); err != nil {
			return err
		}
	}
	var err error
	p.cluster, err = p.Cluster.Start(ctx, false, p.observer.progress)
	return err
}

// wholeBetween is how long the cluster may take to be whole before the next scenario.
const wholeBetween = time.Minute

// closeCluster removes the cluster, having written down what its brokers said.
func (p *campaigner) closeCluster(ctx context.Context) error {
	if p.cluster == nil {
		return nil
	}
	cluster := p.cluster
	p.cluster = nil
	var problems error
	if documenter, can := cluster.(clusters.Documenter); can {
		folder, err := (&runs.Directory{Path: p.directory}).MakeBrokers()
		if err == nil {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentLimit)
			defer cancel()
			err = documenter.Document(limited, folder)
		}
		if err != nil {
			problems = fmt.Errorf("writing down what the brokers said: %w", err)
		}
	}
	return errors.Join(problems, cluster.Close())
}

// playedBefore reads what became of a cell that an earlier session of the campaign played
// to its end.
func (p *campaigner) playedBefore(cell *Cell, home string) bool {
	for _, path := range attemptsAt(home) {
		text, err := os.ReadFile(filepath.Join(path, runs.VerdictFile))
		if err != nil {
			continue
		}
		if cell.takeText(text) {
			cell.Directory, cell.Before = path, true
			return true
		}
	}
	return false
}

// takeText takes a verdict that was written, and says whether it is one of a run that was
// played to its end.
func (c *Cell) takeText(text []byte) bool {
	var v checker.Verdict
	if json.Unmarshal(text, &v) != nil || v.Expected == nil || v.History.Interrupted {
		return false
	}
	c.take(&v)
	return true
}

// mostAttempts bounds how often one cell is begun again.
const mostAttempts = 1000

// attemptsAt gives the run directories of a cell that are there: one that was not played
// to its end is kept, and another one made beside it.
func attemptsAt(home string) []string {
	var all []string
	for i := 1; i < mostAttempts; i++ {
		path := numbered(home, i)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return all
		}
		all = append(all, path)
	}
	return all
}

func numbered(home string, i int) string {
	if i == 1 {
		return home
	}
	return fmt.Sprintf("%s-%d", home, i)
}

// freshDirectory makes the run directory of a cell.
func freshDirectory(home string) (*runs.Directory, error) {
	directory, err := runs.Create(numbered(home, len(attemptsAt(home))+1))
	if err != nil {
		return nil, &InputError{err}
	}
	return directory, nil
}
