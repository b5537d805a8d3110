// This file holds the fuzz target of what the agent is told to cut: any text is rules that
// can be put in force, or an error.

package main

import (
	"encoding/json"
	"testing"

	"github.com/ackproof/ackproof/clusters/agent"
)

func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","rules":[{"name":"r","direction":"in","peer":"10.0.0.1","local_port":9092,"percent":100}]}`,
		`{"name":"a","rules":[{"direction":"out","peer":"::1","percent":1},{"direction":"sideways","peer_port":-1}]}`,
		`{"rules":[{"direction":"in","percent":99,"peer_port":70000}]}`, `[]`, `{"name":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var wanted agent.Cut
		if json.Unmarshal(text, &wanted) != nil {
			return
		}
		for _, rule := range wanted.Rules {
			expressions, err := compile(rule)
			if (err == nil) != (len(expressions) >= 2) { // a counter and the drop at least
				t.Fatalf("%+v has %d expressions, %v", rule, len(expressions), err)
			}
		}
	})
}
