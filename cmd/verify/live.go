// This file holds the live line: what is going on, on one line of a terminal.

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ackproof/ackproof/scenarios"
)

// liveEvery is how often the line is drawn on a terminal; elsewhere a change of
// the phase is a line of its own.
const liveEvery = 200 * time.Millisecond

// live draws the progress of a run until it is stopped.
type live struct {
	w        io.Writer
	runner   *scenarios.Runner
	terminal bool
	done     chan struct{}
	drawer   sync.WaitGroup
	phase    string
	last     scenarios.Status
	lastAt   time.Time
	width    int
}

func startLive(w io.Writer, runner *scenarios.Runner) *live {
	l := &live{w: w, runner: runner, terminal: isTerminal(w), done: make(chan struct{}), lastAt: time.Now()}
	l.drawer.Go(l.draw)
	return l
}

// stop ends the drawing and clears the line.
func (l *live) stop() {
	close(l.done)
	l.drawer.Wait()
	if l.terminal && l.width > 0 {
		_, _ = fmt.Fprintf(l.w, "\r%s\r", strings.Repeat(" ", l.width))
	}
}

func (l *live) draw() {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case now := <-ticker.C:
			l.show(l.runner.Status(), now)
		}
	}
}

func (l *live) show(s scenarios.Status, now time.Time) {
	if !l.terminal {
		if s.Phase != l.phase {
			l.phase = s.Phase
			_, _ = fmt.Fprintln(l.w, s.Phase)
		}
		return
	}
	rate := float64(s.Acknowledged-l.last.Acknowledged) / now.Sub(l.lastAt).Seconds()
	l.last, l.lastAt = s, now
	line := liveLine(s, rate)
	padding := max(l.width-len([]rune(line)), 0)
	l.width = len([]rune(line))
	_, _ = fmt.Fprintf(l.w, "\r%s%s", line, strings.Repeat(" ", padding))
}

// liveLine gives the line: progress, rates, running faults, what was found.
func liveLine(s scenarios.Status, rate float64) string {
	line := fmt.Sprintf("%s %5.1f/%.0f s  sent %d  acknowledged %d (%.0f/s)  read %d", s.Phase, s.Elapsed.Seconds(),
		s.Duration.Seconds(), s.Sent, s.Acknowledged, rate, s.PolledRecords)
	if s.Errored+s.Closed > 0 {
		line += fmt.Sprintf("  errors %d", s.Errored+s.Closed)
	}
	if s.AttemptsLost+s.AttemptsRefused > 0 {
		line += fmt.Sprintf("  answers lost %d, refused %d", s.AttemptsLost, s.AttemptsRefused)
	}
	if s.Corrupt > 0 {
		line += fmt.Sprintf("  CORRUPT %d", s.Corrupt)
	}
	if len(s.Faults) > 0 {
		line += "  now: " + strings.Join(s.Faults, ", ")
	}
	if runes := []rune(line); len(runes) > 118 {
		line = string(runes[:117]) + "…"
	}
	return line
}
