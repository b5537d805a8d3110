// This file holds the fuzz target: whatever stands in a file that a person or an earlier run
// wrote, it is played as it says or refused.

package scenarios

import (
	"errors"
	"testing"
)

func FuzzFiles(f *testing.F) {
	named, err := Find("lost-ack")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []Scenario{DefaultOn(ProviderEmbedded), DefaultOn(ProviderContainers), named.Scenario(ProviderEmbedded)} {
		text, err := s.YAML()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("names: [lost-ack]\nseed: 7\nclients: [franz-go, 'java:4.4.0']\ncluster: {provider: embedded, brokers: 3}\n"))
	f.Add([]byte(`{"version":"1.1","verdict":"held","expected":{"verdict":"as-expected","each":[]},"measures":{"sends":1e300}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		scenarioIsReadBack(t, text)
		var wrong *InputError
		if _, err := readCampaign("campaign.yaml", text); err != nil && !errors.As(err, &wrong) {
			t.Fatalf("a campaign's file that is wrong is wrong input, and not %v", err)
		}
		cell := Cell{}
		if took := cell.takeText(text); took && cell.Expected == nil {
			t.Fatal("a verdict without what was expected was taken")
		}
	})
}

// scenarioIsReadBack: what is accepted is written so that the same is read.
func scenarioIsReadBack(t *testing.T, text []byte) {
	t.Helper()
	s, err := read("scenario.yaml", text)
	if err != nil {
		var wrong *InputError
		if !errors.As(err, &wrong) {
			t.Fatalf("a scenario that is wrong is wrong input, and not %v", err)
		}
		return
	}
	written, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := read("scenario.yaml", written)
	if err != nil {
		t.Fatalf("it was read, and is not when it is written:\n%s\n%v", written, err)
	}
	if first, err := again.YAML(); err != nil || string(first) != string(written) {
		t.Fatalf("written again it is\n%s\nand was\n%s\n%v", first, written, err)
	}
}
