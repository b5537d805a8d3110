// This file tests the syntax of --faults.

package nemesis

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	set := func(pairs ...string) map[string]string {
		m := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name, text string
		want       []Asked
		canonical  string
	}{
		{"none stands for no faults", "none", nil, "none"},
		{"a bare name is a fault without settings", "lost-response", []Asked{{Name: "lost-response"}}, "lost-response"},
		{"items without an equals sign begin a fault each", "lost-response,cut-before,move-leader",
			[]Asked{{Name: "lost-response"}, {Name: "cut-before"}, {Name: "move-leader"}}, "lost-response,cut-before,move-leader"},
		{"an item with an equals sign belongs to the fault before it",
			"refuse:error=NOT_LEADER_OR_FOLLOWER,after=true,every=20,lost-response",
			[]Asked{{Name: "refuse", Settings: set("error", "NOT_LEADER_OR_FOLLOWER", "after", "true", "every", "20")}, {Name: "lost-response"}},
			"refuse:error=NOT_LEADER_OR_FOLLOWER,after=true,every=20,lost-response"},
		{"the first setting may stand behind a comma too", "lost-response,mode=stall",
			[]Asked{{Name: "lost-response", Settings: set("mode", "stall")}}, "lost-response:mode=stall"},
		{"settings come out in the order in which they are documented", "lost-response:every=7,mode=stall",
			[]Asked{{Name: "lost-response", Settings: set("mode", "stall", "every", "7")}}, "lost-response:mode=stall,every=7"},
		{"values come out in their one spelling", "refuse:error=NOT_LEADER_FOR_PARTITION,every=007,hold-back:by=1500ms",
			[]Asked{{Name: "refuse", Settings: set("error", "NOT_LEADER_OR_FOLLOWER", "every", "7")},
				{Name: "hold-back", Settings: set("by", "1.5s")}},
			"refuse:error=NOT_LEADER_OR_FOLLOWER,every=7,hold-back:by=1.5s"},
		{"one fault may be asked for twice", "lost-response:every=2,lost-response:every=3",
			[]Asked{{Name: "lost-response", Settings: set("every", "2")}, {Name: "lost-response", Settings: set("every", "3")}},
			"lost-response:every=2,lost-response:every=3"},
		{"a role at the end of a name is the setting broker", "isolate-leader,kill-last-in-sync,pause-group-coordinator",
			[]Asked{{Name: "isolate", Settings: set("broker", "leader")}, {Name: "kill", Settings: set("broker", "last-in-sync")},
				{Name: "pause", Settings: set("broker", "group-coordinator")}},
			"isolate:broker=leader,kill:broker=last-in-sync,pause:broker=group-coordinator"},
		{"a name that ends like a role and is a fault of its own is that fault", "move-leader", []Asked{{Name: "move-leader"}}, "move-leader"},
		{"a broker may be named by its id", "cut-replication:broker=2", []Asked{{Name: "cut-replication", Settings: set("broker", "2")}},
			"cut-replication:broker=2"},
		{"white space around items is nothing", " lost-response , mode=close ", []Asked{{Name: "lost-response", Settings: set("mode", "close")}},
			"lost-response:mode=close"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("Parse(%q) = %v, want %v", c.text, got, c.want)
			}
			if text := Format(got); text != c.canonical {
				t.Errorf("Format gives %q, want %q", text, c.canonical)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"an unknown fault, with the nearest name", "lost-respons", `did you mean "lost-response"?`},
		{"an unknown fault, with the list", "gremlins", "move-leader"},
		{"an unknown setting, with the nearest name", "lost-response:evry=3", `did you mean "every"?`},
		{"an unknown setting, with the list", "lost-response:colour=red", "it has: mode, api, every"},
		{"a word that a setting does not take", "lost-response:mode=stal", `did you mean "stall"?`},
		{"a number below the least", "lost-response:every=0", "not a whole number from 1"},
		{"a number that is none", "lost-response:every=often", "not a whole number"},
		{"a duration without a unit", "hold-back:by=200", "as 200ms"},
		{"an error that Kafka does not have", "refuse:error=NOT_LEADER", `did you mean "NOT_LEADER_OR_FOLLOWER"?`},
		{"no error as an error", "refuse:error=NONE", "acknowledge-unwritten"},
		{"a partition without a topic", "move-leader:partition=3", "as orders/0"},
		{"a setting before any fault", "every=3,lost-response", "before any fault is named"},
		{"a setting that is given twice", "lost-response:every=3,every=4", "set twice"},
		{"nothing", "", "no fault is named"},
		{"nothing between two commas", "lost-response,,cut-before", "nothing between two commas"},
		{"none beside others", "none,lost-response", "stands alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err == nil {
				t.Fatalf("Parse(%q) = %v, want an error", c.text, got)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("Parse(%q): %v; the error does not say %q", c.text, err, c.says)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"none", "lost-response", "refuse:error=NOT_LEADER_OR_FOLLOWER,after=true,every=20,lost-response",
		"a=b", ":", "=", ",", "hold-back:by=1h,side=answer", "move-leader:partition=a/0,to=2", "broker-leave:broker=leader"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		asked, err := Parse(text)
		if err != nil {
			return
		}
		canonical := Format(asked)
		again, err := Parse(canonical)
		if err != nil {
			t.Fatalf("Parse(%q) gave %q, which does not parse: %v", text, canonical, err)
		}
		if !reflect.DeepEqual(asked, again) {
			t.Fatalf("Parse(%q) = %v, but its canonical text %q is %v", text, asked, canonical, again)
		}
	})
}

func TestDescribeNamesEverything(t *testing.T) {
	text := Describe()
	for _, fault := range Catalogue() {
		if !strings.Contains(text, fault.Name) || !strings.Contains(text, fault.Doc) {
			t.Errorf("%s is not described", fault.Name)
		}
		for _, s := range fault.Settings {
			if !strings.Contains(text, s.Name+"="+s.Default) || !strings.Contains(text, s.Doc) {
				t.Errorf("the setting %s of %s is not described with its default", s.Name, fault.Name)
			}
		}
	}
}

func TestEveryDefaultIsCanonical(t *testing.T) {
	for _, fault := range Catalogue() {
		for _, s := range fault.Settings {
			if got, err := s.canonical(s.Default); err != nil || got != s.Default {
				t.Errorf("%s:%s=%s: its one spelling is %q (%v)", fault.Name, s.Name, s.Default, got, err)
			}
		}
	}
}

func TestLies(t *testing.T) {
	for _, c := range []struct {
		name, faults, acks string
		lie                bool
	}{
		{"a lost answer is legal", "lost-response", "all", false},
		{"a refusal that leaves the append open is legal after the append", "refuse:error=NOT_LEADER_OR_FOLLOWER,after=true", "all", false},
		{"the same code says that nothing was appended under acks=1, so after the append it is a lie",
			"refuse:error=NOT_LEADER_OR_FOLLOWER,after=true", "1", true},
		{"where acks are not known it must be legal under all of them", "refuse:error=NOT_LEADER_OR_FOLLOWER,after=true", "", true},
		{"a refusal before the append is legal", "refuse:error=NOT_ENOUGH_REPLICAS", "all", false},
		{"the same after the append is a lie", "refuse:error=NOT_ENOUGH_REPLICAS,after=true", "all", true},
		{"a code that says appended is a lie without the append", "refuse:error=DUPLICATE_SEQUENCE_NUMBER", "all", true},
		{"a code that no broker answers a produce with is a lie", "refuse:error=NETWORK_EXCEPTION", "all", true},
		{"with acks=0 a broker closes the connection, so a refusal is legal", "refuse", "0", false},
		{"the default refusal is legal whatever acks are", "refuse", "", false},
		{"an acknowledgement without the append is a lie", "acknowledge-unwritten", "all", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, err := Parse(c.faults)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckLies(asked, c.acks, false); (err != nil) != c.lie {
				t.Errorf("CheckLies(%s, acks %q) = %v, want a lie: %t", c.faults, c.acks, err, c.lie)
			}
			if err := CheckLies(asked, c.acks, true); err != nil {
				t.Errorf("lies are allowed, and yet: %v", err)
			}
		})
	}
}
