// This file holds `verify version`.

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/scenarios"
)

func newVersionCommand(s streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the versions of verify, its formats and its client libraries",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			versions := scenarios.Versions()
			versions["go"] = runtime.Version()
			versions["platform"] = runtime.GOOS + "/" + runtime.GOARCH
			versions["history format"] = fmt.Sprintf("%d.%d", histories.FormatMajor, histories.FormatMinor)
			versions["verdict format"] = checker.VerdictVersion
			if asJSON {
				return s.writeJSON(versions)
			}
			for _, name := range sortedKeys(versions) {
				if _, err := fmt.Fprintf(s.out, "%-16s %s\n", name, versions[name]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as a JSON object")
	return c
}
