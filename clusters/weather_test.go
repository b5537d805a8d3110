// This file tests what is said of brokers that run and never come up, which takes a
// container engine, and which lines of a log are told.

package clusters

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/clusters/engine"
)

// Controllers that give each other a millisecond never agree on a leader: the brokers
// run, and are never up.
func TestBrokersThatNeverComeUpAreGivenUpAndRemoved(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), containersLimit)
	defer cancel()
	e, err := engine.Open(ctx)
	if err != nil {
		t.Fatalf("%v\n(ci/test brings up a container engine)", err)
	}
	defer func() { ok(t, e.Close()) }()
	temporary := t.TempDir() // the locks in it are the test's
	t.Setenv("TMPDIR", temporary)
	const limit = 8 * time.Second
	began := time.Now()
	c, err := StartContainers(ctx, ContainersOptions{Version: testVersion, UpLimit: limit, Properties: map[string]string{
		"controller.quorum.request.timeout.ms": "1", "controller.quorum.fetch.timeout.ms": "1",
		"controller.quorum.election.timeout.ms": "1"}})
	if err == nil {
		ok(t, c.Close())
		t.Fatal("they came up")
	}
	if !errors.Is(err, ErrNotUp) || errors.Is(err, ErrCannotStart) {
		t.Errorf("it is not said that they did not come up: %v", err)
	}
	if took := time.Since(began); took < limit {
		t.Errorf("they were given up after %s", took)
	}
	_, log, found := strings.Cut(err.Error(), "the last lines of broker 1:\n")
	if !found || !strings.Contains(log, "ERROR") && !strings.Contains(log, "INFO") {
		t.Errorf("its last lines are not there: %v", err)
	}
	if !strings.Contains(err.Error(), "they have had 8s") || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("it is not said how long they had, and what was missing: %v", err)
	}
	left, err := e.Left(ctx)
	ok(t, err)
	if slices.ContainsFunc(left, func(l engine.Left) bool { return strings.HasPrefix(l.Lock, temporary) }) {
		t.Errorf("something of them is left: %+v", left)
	}
}

// The cause of a broker's end is told, however much came after it.
func TestTheLinesOfALogThatTell(t *testing.T) {
	const frames = "\tat a.Frame(A.java:1)\n\tat a.Frame(A.java:2)\n"
	const consequence = "ERROR a partition failed\norg.apache.kafka.KafkaStorageException: the log dir is offline\n" + frames
	for _, c := range []struct{ rule, log, want string }{
		{"nothing of nothing", "", ""},
		{"a short log is told whole", "one\ntwo\n", "one\ntwo"},
		{"frames and lists are left out", "java.lang.Error: x\n" + frames + "\tnum.io.threads = 2\nend\n", "java.lang.Error: x\nend"},
		{"the cause stands before the many consequences, which are told once",
			"begin\njava.io.IOException: No space left on device\n" + frames + strings.Repeat(consequence, 50) +
				"1\n2\n3\n4\n5\n6\n",
			"java.io.IOException: No space left on device\norg.apache.kafka.KafkaStorageException: the log dir is offline\n1\n2\n3\n4\n5\n6"},
		{"a line that speaks of an exception is none", "INFO retried after an Exception: fine\n1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6"},
		{"what ends a thread is an exception", "Exception in thread \"main\" a.ConfigException: Invalid value\n1\n2\n3\n4\n5\n6\n",
			"Exception in thread \"main\" a.ConfigException: Invalid value\n1\n2\n3\n4\n5\n6"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got := telling(c.log); got != c.want {
				t.Errorf("it tells:\n%s\nnot:\n%s", got, c.want)
			}
		})
	}
}
