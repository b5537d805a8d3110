// This file holds `verify scenarios`.

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/scenarios"
)

func newScenariosCommand(s streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "scenarios [NAME]",
		Short: "List the scenarios, or explain one",
		Long: `List the scenarios with what each claims, or explain one: what it shows and why, its
configuration, and what is expected of each client, in numbers. verify run NAME plays it.`,
		Example: `  verify scenarios
  verify scenarios lost-ack
  verify run lost-ack`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("verify scenarios explains one scenario; %d were named", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return s.listScenarios(asJSON)
			}
			named, err := scenarios.Find(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return s.writeJSON(describe(named))
			}
			return explain(s.out, named)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON on standard output")
	return c
}

// described is a scenario as JSON has it.
type described struct {
	Name           string                           `json:"name"`
	Claim          string                           `json:"claim"`
	Story          string                           `json:"story"`
	Sources        []string                         `json:"sources"`
	Disputed       string                           `json:"disputed,omitempty"`
	OnlyContainers string                           `json:"only_containers,omitempty"`
	Producer       map[string]string                `json:"producer"`
	Topic          map[string]string                `json:"topic"`
	Expected       map[string][]checker.Expectation `json:"expected"`
	Break          []string                         `json:"break"`
}

func describe(n scenarios.Named) described {
	played := n.Scenario(scenarios.ProviderContainers)
	d := described{Name: n.Name, Claim: n.Claim, Story: n.Story, Sources: n.Sources, Disputed: n.Disputed,
		OnlyContainers: n.OnlyContainers, Producer: played.Producer, Topic: played.Topics.Properties,
		Expected: make(map[string][]checker.Expectation)}
	for _, subject := range subjects() {
		d.Expected[subject.Client] = n.Expectations(subject)
	}
	for _, b := range n.Essence {
		d.Break = append(d.Break, b.String())
	}
	return d
}

// subjects are the clients of which the scenarios know what to expect.
func subjects() []scenarios.Subject {
	return []scenarios.Subject{
		{Client: histories.ClientFranzGo, ClientVersion: clients.FranzGo().Version(), Provider: scenarios.ProviderContainers},
		{Client: histories.ClientJava, ClientVersion: clients.DefaultJava, Provider: scenarios.ProviderContainers},
	}
}

// listScenarios lists them with their claims.
func (s streams) listScenarios(asJSON bool) error {
	all := scenarios.Catalogue()
	if asJSON {
		described := make([]described, len(all))
		for i, n := range all {
			described[i] = describe(n)
		}
		return s.writeJSON(described)
	}
	width := 0
	for _, n := range all {
		width = max(width, len(n.Name))
	}
	w := &lines{w: s.out}
	for _, n := range all {
		mark := " "
		if n.OnlyContainers != "" {
			mark = "*"
		}
		w.wrapped(fmt.Sprintf("%-*s %s ", width, n.Name, mark), n.Claim)
	}
	w.line("")
	w.line("* shows on real brokers only (--cluster containers)")
	w.line("")
	w.line("verify scenarios NAME explains one; verify run NAME plays it; verify run --all plays all of them.")
	return w.err
}

// explain tells a scenario as an article would.
func explain(out io.Writer, n scenarios.Named) error {
	w := &lines{w: out}
	w.wrapped("", n.Name+": "+n.Claim)
	if n.Disputed != "" {
		w.line("")
		w.wrapped("", "Some articles say otherwise: "+n.Disputed+".")
	}
	for paragraph := range strings.SplitSeq(n.Story, "\n\n") {
		w.line("")
		w.wrapped("", strings.Join(strings.Fields(paragraph), " "))
	}
	played := n.Scenario(scenarios.ProviderContainers)
	w.line("")
	w.wrapped("Producer    ", joinedProperties(played.Producer))
	w.wrapped("Topic       ", fmt.Sprintf("%d partition(s), replication factor %d, %s", played.Topics.Partitions,
		played.Topics.ReplicationFactor, joinedProperties(played.Topics.Properties)))
	w.line("")
	w.expectations(n)
	w.line("")
	w.wrapped("Sources     ", strings.Join(n.Sources, "; "))
	w.line("")
	if n.OnlyContainers == "" {
		w.line("Play it     verify run %s                                  in this process, in seconds", n.Name)
		w.line("            verify run %s --cluster containers             on three real brokers", n.Name)
	} else {
		w.line("Play it     verify run %s --cluster containers             on three real brokers", n.Name)
		w.wrapped("            ", "(not on the embedded cluster: "+n.OnlyContainers+")")
	}
	w.line("            … --client java                                 with Apache's own client")
	for i, b := range n.Essence {
		head := "            "
		if i == 0 {
			head = "Break it    "
		}
		w.line("%sverify run %s %s", head, n.Name, b)
	}
	if len(n.Essence) > 0 {
		w.line("            (then it shows nothing, and says so)")
	}
	return w.err
}

// expectations lists what is expected of each client, once where they do not differ.
func (l *lines) expectations(n scenarios.Named) {
	all := subjects()
	first := expectationLines(n.Expectations(all[0]))
	same := true
	for _, subject := range all[1:] {
		same = same && strings.Join(expectationLines(n.Expectations(subject)), "\n") == strings.Join(first, "\n")
	}
	for i, subject := range all {
		who := "every client"
		if !same {
			who = subject.Client + " " + subject.ClientVersion
		}
		l.line("Expected of %s:", who)
		for _, text := range expectationLines(n.Expectations(subject)) {
			l.wrapped("  ", text)
		}
		if violates := n.Violates(subject); len(violates) > 0 {
			l.wrapped("  ", fmt.Sprintf("(the promise against %v is broken by this, because of a hole that is known)", violates))
		}
		if same {
			return
		}
		if i < len(all)-1 {
			l.line("")
		}
	}
}

// mostExpectations bounds how many expectations are listed.
const mostExpectations = 14

func expectationLines(expectations []checker.Expectation) []string {
	var all []string
	for i, e := range expectations {
		if i == mostExpectations {
			return append(all, fmt.Sprintf("… and %d more (--json)", len(expectations)-i))
		}
		all = append(all, fmt.Sprintf("%s: %s; %s", e.Measure, e.Want(), e.Why))
	}
	return all
}

func joinedProperties(properties map[string]string) string {
	var parts []string
	for _, name := range sortedKeys(properties) {
		parts = append(parts, name+"="+properties[name])
	}
	return strings.Join(parts, " ")
}

// lines writes lines of bounded width and keeps the first error.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) line(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format+"\n", args...)
	}
}

// width is how wide a line of text is at most.
const width = 100

// wrapped writes a text in lines; those after the first are indented as far as the head.
func (l *lines) wrapped(head, text string) {
	line, indent := head, strings.Repeat(" ", len([]rune(head)))
	for word := range strings.FieldsSeq(text) {
		if len([]rune(line))+len([]rune(word)) > width && strings.TrimSpace(line) != "" {
			l.line("%s", strings.TrimRight(line, " "))
			line = indent
		}
		line += word + " "
	}
	l.line("%s", strings.TrimRight(line, " "))
}
