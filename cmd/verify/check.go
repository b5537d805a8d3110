// This file holds `verify check`.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/bundles"
	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/report"
	"github.com/ackproof/ackproof/runs"
)

type checkFlags struct {
	producer, topicConfig string
	json, verbose         bool
	oneHistory            bool
	examples              int
	porcupine             porcupineFlags
}

func newCheckCommand(s streams) *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check HISTORY|RUN_DIR|BUNDLE.zip...",
		Short: "Judge what was recorded",
		Long: `Judge histories that were recorded before: a run directory, a bundle that verify bundle
made of one (nothing of it is unpacked), a history of our own format (.jsonl or
.jsonl.zst), a history of Jepsen's Kafka workload (EDN), or a case in the neutral form. What it is, is recognised by its content.

What Apache Kafka's VerifiableProducer and VerifiableConsumer print is judged as well:
save the standard output of each into a file of its own (VerifiableConsumer needs
--verbose) and name all of them with --one-history, since the producers' files say what
was sent and the consumers' what was read.

A history that does not say how its producer was configured is judged only by what
holds under every configuration; --producer and --topic-config supply the rest, and
override what the history says.

--porcupine draws, for each partition whose appends are not linearizable, the part of them
that no order explains: an HTML page of porcupine's with faults and polls beside the appends.
Where the time for a partition ends, its second judge says unknown. The verdict and the
exit status are those of verify check in any case.`,
		Example: `  verify check verify-runs/2026-12-01T02-00-00-seed7
  verify check --producer acks=all,enable.idempotence=true history.edn
  verify check --one-history --producer acks=all,enable.idempotence=true producer.log consumer.log
  verify check --porcupine verify-runs/2026-12-01T02-00-00-seed7
  verify check bundle.zip
  verify check --json old.jsonl.zst | jq '.anomalies["lost-write"].instances'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("verify check needs a history or a run directory; verify check --help shows examples")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return s.check(c.Context(), args, f) },
	}
	c.Flags().StringVar(&f.producer, "producer", "", "producer properties in force, as acks=all,enable.idempotence=true")
	c.Flags().StringVar(&f.topicConfig, "topic-config", "", "topic properties in force, as min.insync.replicas=2")
	c.Flags().BoolVar(&f.json, "json", false, "print verdict.json (for several histories an array) on standard output")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "list every promise, assumption and fault")
	c.Flags().BoolVar(&f.oneHistory, "one-history", false,
		"put the files of VerifiableProducers and VerifiableConsumers together and give one verdict")
	c.Flags().IntVar(&f.examples, "examples", 3, "examples of each anomaly with their whole evidence")
	f.porcupine.addTo(c)
	return c
}

func (s streams) check(ctx context.Context, paths []string, f checkFlags) error {
	options := checker.Options{Examples: f.examples}
	if f.examples < 0 {
		return usageError{fmt.Errorf("--examples is %d; it must not be negative", f.examples)}
	}
	var err error
	if options.Producer, err = parseProperties("producer", f.producer); err != nil {
		return err
	}
	if options.Topic, err = parseProperties("topic-config", f.topicConfig); err != nil {
		return err
	}
	var verdicts []*checker.Verdict
	sources := sourcesOf(ctx, paths, f.oneHistory)
	if err := f.porcupine.options(&options, len(sources)); err != nil {
		return err
	}
	for _, source := range sources {
		v, err := source.check(ctx, options)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, v)
		if !f.json {
			if err := s.writeVerdict(v, source.name, len(sources) > 1, f.verbose); err != nil {
				return err
			}
		}
		says := s.out
		if f.json {
			says = s.progress
		}
		if err := f.porcupine.draw(says, v, source.path); err != nil {
			return err
		}
	}
	if f.json {
		if err := s.writeVerdicts(verdicts); err != nil {
			return err
		}
	}
	return statusOf(verdicts)
}

// source is a history that is to be judged.
type source struct {
	name string
	path string // beside which pages are written
	open func() (*histories.File, error)
}

// sourcesOf makes a history of each path, or one of all. A name is what verify check is
// to be given for it.
func sourcesOf(ctx context.Context, paths []string, one bool) []source {
	if one {
		together := func() (*histories.File, error) { return histories.OpenTogether(ctx, paths...) }
		return []source{{"--one-history " + strings.Join(paths, " "), paths[0], together}}
	}
	var sources []source
	for _, path := range paths {
		sources = append(sources, source{path, path, func() (*histories.File, error) {
			if bundles.Is(path) {
				return bundles.Open(path)
			}
			history, err := runs.HistoryPath(path)
			if err != nil {
				return nil, err
			}
			return histories.Open(history)
		}})
	}
	return sources
}

// check judges a history. Whatever cannot be read is wrong input.
func (h source) check(ctx context.Context, options checker.Options) (*checker.Verdict, error) {
	var v *checker.Verdict
	file, err := h.open()
	if err == nil {
		v, err = checker.Check(ctx, file, options)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("checking %s: interrupted", h.name)
	case err != nil:
		return nil, usageError{err}
	}
	v.History.Path = h.name
	return v, nil
}

func (s streams) writeVerdict(v *checker.Verdict, path string, several, verbose bool) error {
	if several {
		if _, err := fmt.Fprintf(s.out, "%s\n", path); err != nil {
			return err
		}
	}
	return report.Text{Colour: isTerminal(s.out), Verbose: verbose}.Write(s.out, v)
}

func (s streams) writeVerdicts(verdicts []*checker.Verdict) error {
	if len(verdicts) == 1 {
		return s.writeJSON(verdicts[0])
	}
	return s.writeJSON(verdicts)
}
