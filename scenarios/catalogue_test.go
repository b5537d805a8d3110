// This file tests the catalogue on the embedded cluster: every scenario that can show
// there shows what it claims, and nothing where its essence is taken away.

package scenarios

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
	"github.com/ackproof/ackproof/histories"
	"github.com/ackproof/ackproof/runs"
)

// prepareNamed prepares a scenario with franz-go and without what a break leaves out.
func prepareNamed(t *testing.T, n Named, b Break) (*Runner, error) {
	t.Helper()
	s := n.Scenario(ProviderEmbedded)
	s.Seed, s.ProducerGiven = 1, b.Producer
	for name, value := range b.Topic {
		s.Topics.Properties[name] = value
	}
	if b.NoFaults {
		s.Faults.Asked = "none"
	}
	return Prepare(t.Context(), s, nil)
}

// playNamed plays a scenario with franz-go on a cluster of its own.
func playNamed(t *testing.T, n Named, b Break) *checker.Verdict {
	t.Helper()
	runner, err := prepareNamed(t, n, b)
	if err != nil {
		t.Fatal(err)
	}
	return playPrepared(t, runner)
}

func playPrepared(t *testing.T, runner *Runner) *checker.Verdict {
	t.Helper()
	directory, err := runs.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := runner.Run(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

func TestEveryScenarioShowsWhatItClaims(t *testing.T) {
	for _, n := range Catalogue() {
		if n.OnlyContainers != "" {
			continue
		}
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			v := playNamed(t, n, Break{})
			if v.Expected.Verdict != checker.AsExpected {
				t.Errorf("%s: %s", v.Expected.Verdict, v.Expected.Summary)
			}
			if wants := n.Violates(Subject{Client: histories.ClientFranzGo}); len(wants) == 0 && v.Verdict != checker.Held {
				t.Errorf("its verdict is %s: %s", v.Verdict, v.Summary)
			}
		})
	}
}

func TestAScenarioWithoutItsEssenceClaimsNoSuccess(t *testing.T) {
	for _, n := range Catalogue() {
		if len(n.Essence) == 0 {
			t.Errorf("nothing of %s is said to be its essence", n.Name)
		}
		if n.OnlyContainers != "" {
			continue
		}
		for _, b := range n.Essence {
			t.Run(n.Name+" "+b.String(), func(t *testing.T) {
				t.Parallel()
				v := playNamed(t, n, b)
				if v.Expected.Verdict == checker.AsExpected {
					t.Errorf("it claims success: %+v", v.Expected.Each)
				}
			})
		}
	}
}

func TestTheCatalogueIsComplete(t *testing.T) {
	// The names that the catalogue was asked for: the claims that engineers argue about.
	for _, name := range strings.Fields(`lost-ack lost-ack-idempotent reorder-in-flight one-in-flight idempotent-five-in-flight
		more-than-five gap-refused-or-buffered sequence-gap five-batch-window failover-keeps-producer-state restart-shrinks-window
		idempotent-order-disputed new-session-resend same-event-sent-twice crash-loses-buffer no-atomicity-without-transactions
		acks-zero acks-one min-isr-two min-isr-one not-enough-replicas not-enough-after-append quorum-lost delivery-timeout
		retries-zero too-large duplicate-answer-is-success new-producer-id-mid-retry retry-keeps-partition error-codes
		compression-codecs linger-and-batch buffer-full key-partitioning consumer-redelivery`) {
		n, err := Find(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if n.Claim == "" || strings.Contains(n.Claim, "\n") || len(n.Story) < 200 || len(n.Sources) == 0 {
			t.Errorf("%s is not told: claim %q, %d characters of story, %d sources", name, n.Claim, len(n.Story), len(n.Sources))
		}
		for _, subject := range everySubject() {
			expected := n.Expectations(subject)
			if len(expected) == 0 {
				t.Errorf("nothing is expected of %+v in %s", subject, name)
			}
			for _, e := range expected {
				if err := e.Validate(); err != nil || e.Why == "" {
					t.Errorf("%s of %+v: %v (why: %q)", name, subject, err, e.Why)
				}
			}
		}
	}
	if _, err := Find("lost-acks"); err == nil || !strings.Contains(err.Error(), `did you mean "lost-ack"?`) {
		t.Errorf("a name that is nearly one gives %v", err)
	}
}

func everySubject() []Subject {
	return []Subject{
		{Client: histories.ClientFranzGo, ClientVersion: clients.FranzGo().Version(), Provider: ProviderContainers},
		{Client: histories.ClientJava, ClientVersion: "4.4.0", Provider: ProviderContainers},
		{Client: histories.ClientJava, ClientVersion: "3.9.1", Provider: ProviderContainers},
		{Client: "somebody", ClientVersion: "0.1", Provider: ProviderEmbedded},
	}
}

func TestVersionsOfJavaAreCompared(t *testing.T) {
	for _, c := range []struct {
		version string
		before  bool
	}{{"3.9.1", true}, {"4.0.0", true}, {"4.3.9", true}, {"4.4.0", false}, {"4.10.0", false}, {"5.0.0", false}, {"odd", false}} {
		if got := (Subject{Client: histories.ClientJava, ClientVersion: c.version}).JavaBefore(4, 4); got != c.before {
			t.Errorf("%s before 4.4: %v", c.version, got)
		}
	}
	if (Subject{Client: histories.ClientFranzGo, ClientVersion: "1.0.0"}).JavaBefore(4, 4) {
		t.Error("franz-go is no Java")
	}
}

func TestAScriptThatCannotGoOnProvesNothing(t *testing.T) {
	n := Named{Name: "stuck", expect: func(Subject) []checker.Expectation { return []checker.Expectation{none("lost-write", "")} },
		play: func(s *script) {
			s.open("p").warm()
			s.until(20*time.Millisecond, "the moon is full", func() bool { return false })
			s.fail("a later step was played")
		}}
	catalogue = append(catalogue, n)
	defer func() { catalogue = catalogue[:len(catalogue)-1] }()
	v := playNamed(t, n, Break{})
	if v.Expected.Verdict != checker.UnknownWord || !strings.Contains(v.Expected.Summary, "it is still not so that the moon is full") {
		t.Errorf("%s: %s", v.Expected.Verdict, v.Expected.Summary)
	}
}

func TestACampaignGoesOnWhereItWasInterrupted(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "campaign")
	asked := Campaign{Cluster: DefaultOn(ProviderEmbedded).Cluster, Names: []string{"lost-ack", "more-than-five", "acks-one"},
		Clients: []string{"franz-go"}, Seed: 1}
	if err := asked.Create(directory); err != nil {
		t.Fatal(err)
	}
	if err := asked.Create(directory); err == nil {
		t.Error("a directory that is not empty was taken")
	}
	first := asked
	first.Names = asked.Names[:1]
	if cells, err := first.Play(t.Context(), directory, Observer{}); err != nil || len(cells) != 1 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	resumed, err := LoadCampaign(directory)
	if err != nil {
		t.Fatal(err)
	}
	began := 0
	cells, err := resumed.Play(t.Context(), directory, Observer{Began: func(Cell, *Runner) { began++ }})
	if err != nil || len(cells) != 3 || began != 1 {
		t.Fatalf("%d cells, %d of them played, %v", len(cells), began, err)
	}
	for i, want := range []Cell{{Verdict: checker.AsExpected, Before: true}, {Verdict: checker.AsExpected},
		{Verdict: NotApplicable}} {
		if cells[i].Verdict != want.Verdict || cells[i].Before != want.Before {
			t.Errorf("%s: %s, before: %v", cells[i].Name, cells[i].Verdict, cells[i].Before)
		}
	}
	if _, err := LoadCampaign(t.TempDir()); err == nil {
		t.Error("a directory without a campaign was resumed")
	}
}
