// This file tests the reproductions: each is told as a scenario is, and claims nothing
// where what provokes its defect is left out.

package scenarios

import (
	"errors"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/clients"
)

func TestEveryReproductionIsTold(t *testing.T) {
	inCatalogue := make(map[string]bool)
	for _, n := range Catalogue() {
		inCatalogue[n.Name] = true
	}
	for _, n := range Reproductions() {
		if found, err := Find(n.Name); err != nil || found.Claim != n.Claim {
			t.Errorf("%s is not found: %v", n.Name, err)
		}
		if inCatalogue[n.Name] {
			t.Errorf("%s is in the catalogue, too", n.Name)
		}
		if n.Claim == "" || strings.Contains(n.Claim, "\n") || len(n.Story) < 200 || len(n.Sources) == 0 || len(n.Essence) == 0 {
			t.Errorf("%s is not told: claim %q, %d characters of story, %d sources, %d breaks", n.Name, n.Claim, len(n.Story),
				len(n.Sources), len(n.Essence))
		}
		for _, subject := range everySubject() {
			proof := false
			for _, e := range n.Expectations(subject) {
				if err := e.Validate(); err != nil || e.Why == "" {
					t.Errorf("%s of %+v: %v (why: %q)", n.Name, subject, err, e.Why)
				}
				proof = proof || (e.Least != nil && *e.Least > 0)
			}
			if !proof {
				t.Errorf("%s of %+v expects no proof that what provokes it happened", n.Name, subject)
			}
		}
	}
}

func TestAReproductionWithoutItsEssenceClaimsNoSuccess(t *testing.T) {
	for _, n := range Reproductions() {
		if n.OnlyContainers != "" {
			continue
		}
		for _, b := range n.Essence {
			t.Run(n.Name+" "+b.String(), func(t *testing.T) {
				t.Parallel()
				runner, err := prepareNamed(t, n, b)
				var notApplicable *clients.NotApplicableError
				if errors.As(err, &notApplicable) { // it takes another client, and claims nothing of this one
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if v := playPrepared(t, runner); v.Expected.Verdict == checker.AsExpected {
					t.Errorf("it claims success: %+v", v.Expected.Each)
				}
			})
		}
	}
}
