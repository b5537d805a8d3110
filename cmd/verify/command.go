// This file holds the root command and the exit statuses.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ackproof/ackproof/bundles"
	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/scenarios"
)

// The exit statuses, as the field has them.
const (
	exitHeld     = 0
	exitViolated = 1
	exitUnknown  = 2
	exitUsage    = 254
	exitFailure  = 255
)

// streams are where results and progress go. Results alone go to out.
type streams struct {
	out, progress io.Writer
}

// usageError is wrong usage or unreadable input: exit status 254.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// verdictError carries a verdict's exit status through cobra.
type verdictError struct{ status int }

func (e verdictError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

const longHelp = `Ackproof proves by experiment whether a Kafka cluster and its clients keep their
promises. Test clients write numbered events while a nemesis disturbs the cluster;
everything they saw goes into a history; a checker finds loss, duplicates, order
violations and the rest in it, judged against what that very configuration
promises.

  verify run                      a first verdict in under a minute, nothing to install
  verify run --producer enable.idempotence=false,max.in.flight.requests.per.connection=5 \
             --faults lost-response --duration 8s
                                  what does a lost response do without idempotence?
  verify scenarios                what there is to try: claims about Kafka, each with an experiment
  verify run lost-ack             why was payment #42 charged twice?
  verify defects                  the track record: red on a version that has a defect, green on one without
  verify run --cluster containers --kafka 4.1.0
                                  three real brokers, cut off, killed and paused
  verify doctor                   can this machine do that? what is missing?
  verify clean                    remove what a run left that was killed hard
  verify check RUN_DIR            judge again what was recorded
  verify check --porcupine RUN_DIR  draw the appends that no order explains
  verify bundle RUN_DIR           one file of it for a bug report, without secrets; verify check takes it
  verify check history.edn        judge a history of Jepsen's Kafka workload
  verify corpus                   can the checker be believed? 100,000 histories whose truth is known

Exit status: 0 every promise held; 1 a promise was violated; 2 unknown: the run or
the history does not suffice to tell, which is not a pass; 254 wrong usage or
unreadable input; 255 a failure of verify itself.`

// execute runs the command line and gives the exit status. It never panics on
// input and writes every error to progress.
func execute(ctx context.Context, args []string, out, progress io.Writer) int {
	s := streams{out: out, progress: progress}
	root := &cobra.Command{
		Use: "verify", Short: "Does your Kafka cluster keep its word?", Long: longHelp,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; verify --help shows what there is", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(progress)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; %s --help shows the flags", err, c.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRunCommand(s), newScenariosCommand(s), newDefectsCommand(s), newCheckCommand(s), newCorpusCommand(s),
		newExportCommand(s), newBundleCommand(s), newDoctorCommand(s), newCleanCommand(s), newVersionCommand(s))
	return s.status(root.ExecuteContext(ctx))
}

// status turns an error into an exit status and says it.
func (s streams) status(err error) int {
	var verdict verdictError
	var usage usageError
	var input *scenarios.InputError
	var run *bundles.InputError
	switch {
	case err == nil:
		return exitHeld
	case errors.As(err, &verdict):
		return verdict.status
	case errors.As(err, &usage), errors.As(err, &input), errors.As(err, &run), errors.Is(err, clusters.ErrCannotStart):
		_, _ = fmt.Fprintf(s.progress, "verify: %v\n", err)
		return exitUsage
	case errors.Is(err, clusters.ErrNotUp): // nothing can be told of brokers that did not come up
		_, _ = fmt.Fprintf(s.progress, "verify: %v\n", err)
		return exitUnknown
	case strings.HasPrefix(err.Error(), "unknown command"):
		_, _ = fmt.Fprintf(s.progress, "verify: %v; verify --help shows what there is\n", err)
		return exitUsage
	}
	_, _ = fmt.Fprintf(s.progress, "verify: %v\n", err)
	return exitFailure
}

// statusOf gives the exit status of verdicts: the worst one.
func statusOf(verdicts []*checker.Verdict) error {
	status := exitHeld
	for _, v := range verdicts {
		switch v.Verdict {
		case checker.Violated:
			status = exitViolated
		case checker.UnknownWord:
			if status == exitHeld {
				status = exitUnknown
			}
		}
	}
	if status == exitHeld {
		return nil
	}
	return verdictError{status}
}

// writeJSON puts a document on standard output, alone.
func (s streams) writeJSON(document any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing the verdict to standard output: %w", err)
	}
	return nil
}

// isTerminal says whether a stream is a terminal that wants colours.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// parseProperties reads "key=value,key=value". A part without "=" belongs to the
// value before it, as in cleanup.policy=compact,delete. Nothing gives nil.
func parseProperties(flag, text string) (map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	properties := make(map[string]string)
	last := ""
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		switch {
		case found && key != "":
			if _, twice := properties[key]; twice {
				return nil, usageError{fmt.Errorf("--%s gives %s twice", flag, key)}
			}
			properties[key], last = strings.TrimSpace(value), key
		case !found && last != "":
			properties[last] += "," + strings.TrimSpace(part)
		default:
			return nil, usageError{fmt.Errorf("--%s: %q is not key=value; it takes key=value,key=value", flag, part)}
		}
	}
	return properties, nil
}

// sortedKeys gives the keys of a map in order.
func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
