// This file holds `verify doctor`.

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/clusters"
	"github.com/ackproof/ackproof/scenarios"
)

func newDoctorCommand(s streams) *cobra.Command {
	var asJSON bool
	var kafka string
	c := &cobra.Command{
		Use: "doctor", Short: "Say what this machine can do, and what to do about what is missing",
		Long: `Say what this machine can do: whether a container engine answers, whether it has the
memory and the image that brokers need, and whether a container can be reached, cut
off and stopped as the faults take it. That is tried out, with a small container of its
own, which is gone afterwards. Runs on the embedded cluster need none of it.

Exit status: 0 runs in containers are possible; 2 something that they need is missing
or cannot be told.`,
		Example: `  verify doctor
  verify doctor --kafka 3.9.1 --json`,
		Args: takesNothing,
		RunE: func(c *cobra.Command, _ []string) error {
			d := clusters.Diagnose(c.Context(), kafka)
			d.Checks = append(d.Checks, javaClient(c.Context()))
			if err := s.sayDiagnosis(d, asJSON); err != nil {
				return err
			}
			if !d.Containers {
				return verdictError{exitUnknown}
			}
			return nil
		},
	}
	c.Flags().StringVar(&kafka, "kafka", scenarios.DefaultKafka, "the version of the brokers whose image is looked for")
	c.Flags().BoolVar(&asJSON, "json", false, "print as a JSON object")
	return c
}

// javaClient says whether Apache's own client can take part here.
func javaClient(ctx context.Context) clusters.Check {
	found, err := clients.JavaHere(ctx)
	if err != nil {
		return clusters.Check{Name: "java-client", Result: clusters.Missing, Found: err.Error(),
			Do: "install what is missing, or play with franz-go"}
	}
	return clusters.Check{Name: "java-client", Result: clusters.Passed, Found: found}
}

// takesNothing refuses arguments.
func takesNothing(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments; %q was given", c.CommandPath(), args[0])}
	}
	return nil
}

// sayDiagnosis prints one line for each check, and what it means in the end.
func (s streams) sayDiagnosis(d clusters.Diagnosis, asJSON bool) error {
	if asJSON {
		return s.writeJSON(d)
	}
	for _, check := range d.Checks {
		line := fmt.Sprintf("%-11s  %-12s  %s", check.Result, check.Name, check.Found)
		if check.Do != "" && check.Needed {
			line += "; to do: " + check.Do
		} else if check.Do != "" {
			line += "; runs go without it; to do: " + check.Do
		}
		if _, err := fmt.Fprintln(s.out, line); err != nil {
			return err
		}
	}
	conclusion := "runs in containers are possible here: verify run --cluster containers"
	if !d.Containers {
		conclusion = "runs in containers are not possible here until what is missing is there; " +
			"runs on the embedded cluster are: verify run"
	}
	_, err := fmt.Fprintf(s.out, "\n%s\n", conclusion)
	return err
}
