// This file holds the table of what clients make of each error that a produce can be
// answered with.

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/ackproof/ackproof/checker"
)

// Code is one answer that was tried, and the session that was given it, twice.
type Code struct {
	Name, Session string
	// After: the broker had appended the batch when it was given.
	After bool
}

// Client is a client library and what was measured of it.
type Client struct {
	Name     string
	Measures checker.Measures
}

// Codes gives a table in Markdown: a row for each answer, a column for each client. It
// gives the first error of writing.
func Codes(w io.Writer, codes []Code, clients []Client) error {
	p := &page{w: w}
	head, rule := "| answer | the broker had written |", "|---|---|"
	for _, c := range clients {
		head += " " + c.Name + " |"
		rule += "---|"
	}
	p.line("%s", head)
	p.line("%s", rule)
	for _, code := range codes {
		row := fmt.Sprintf("| %s | %s |", code.Name, map[bool]string{true: "yes", false: "no"}[code.After])
		for _, c := range clients {
			row += " " + code.reaction(c.Measures) + " |"
		}
		p.line("%s", row)
	}
	return p.err
}

// reaction says in words what a client made of an answer: whether it tried again, what it
// told the application, and whether the producer still worked.
func (c Code) reaction(m checker.Measures) string {
	of := func(name string) float64 { return m[name+"{"+c.Session+"}"] }
	answered, errors := of("answers:"+c.Name), of("errors")
	var said []string
	switch {
	case answered == 0:
		return "was not answered so"
	case errors == 0 && of("acknowledged-without-an-offset") > 0:
		said = append(said, "success, without an offset")
	case errors == 0:
		said = append(said, fmt.Sprintf("tried again %d×, then acknowledged", int(answered)))
	case answered == 1:
		said = append(said, "failed at once")
	default:
		said = append(said, fmt.Sprintf("failed after %d attempts", int(answered)))
	}
	if of("sends-under-two-epochs") > 0 {
		said = append(said, "under a new epoch")
	}
	if of("unanswered-sends") > 0 {
		said = append(said, "no completion in time")
	}
	const failedAndLater = 2 // the event that was answered so, and the one after it
	if errors >= failedAndLater {
		said = append(said, "and the producer is of no use any more")
	}
	return strings.Join(said, ", ")
}
