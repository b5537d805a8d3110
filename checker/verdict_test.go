// This file tests what the verdict says beside its findings: under which configuration
// each is judged, what was not tested, and how the whole is told.

package checker_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ackproof/ackproof/checker"
	"github.com/ackproof/ackproof/histories"
)

func promiseOf(t *testing.T, v *checker.Verdict, name checker.Anomaly) checker.PromiseVerdict {
	t.Helper()
	i := slices.IndexFunc(v.Promises, func(p checker.PromiseVerdict) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("nothing is said of %s", name)
	}
	return v.Promises[i]
}

// twoConfigurations loses an event of each producer; p's configuration promises that it is
// not, q's does not.
func twoConfigurations(lost ...string) *tale {
	story := newTale(1)
	story.Body[0].(*histories.Producer).Client, story.Body[0].(*histories.Producer).ClientVersion = "franz-go", "v1"
	story.Body[1].(*histories.Producer).Properties = map[string]string{histories.PropertyAcks: "1",
		histories.PropertyIdempotence: "false"}
	story.done("p", "k", 0)
	story.done("q", "k", 0)
	for i, process := range lost {
		story.acknowledge(story.send(process, "k"), 0, int64(10+i))
	}
	story.end()
	return story
}

func TestEachFindingIsJudgedByTheConfigurationOfItsProducer(t *testing.T) {
	for _, c := range []struct {
		lost            []string
		verdict, begins string
		events          []string
	}{
		{[]string{"q", "p"}, checker.Violated, "acks=all: ", []string{"p/k/1", "q/k/1"}},
		{[]string{"q"}, checker.NotPromised, "whatever the configuration is: acks=1: ", []string{"q/k/1"}},
		{nil, checker.Held, "acks=all: ", nil},
	} {
		v := check(t, &twoConfigurations(c.lost...).Memory)
		var events []string
		for _, i := range v.Anomalies[checker.LostWrite].Instances {
			events = append(events, i.Events[0])
		}
		p := promiseOf(t, v, checker.LostWrite)
		if p.Verdict != c.verdict || !strings.HasPrefix(p.Reason, c.begins) || !slices.Equal(events, c.events) {
			t.Errorf("%v is lost: %s (%s), told of %v; want %s (%s…), told of %v", c.lost, p.Verdict, p.Reason, events,
				c.verdict, c.begins, c.events)
		}
		if len(v.Configurations) != 2 || v.Configurations[0].Client != "franz-go v1" || v.Configurations[0].Producer["acks"] != "all" ||
			v.Configurations[1].Producer["acks"] != "1" {
			t.Errorf("configurations: %+v", v.Configurations)
		}
	}
}

func TestThePromisesAreThoseOfTheTopicAndOfItsFaults(t *testing.T) {
	unclean := map[string]string{histories.PropertyUncleanElection: "true"}
	for _, c := range []struct {
		rule    string
		tell    func(t *tale)
		options checker.Options
		want    string
	}{
		{"nothing allows a loss", func(t *tale) { t.done("p", "k", 0) }, checker.Options{}, checker.Held},
		{"the topic's properties do", func(t *tale) {
			t.Head.Topics[0].Properties = unclean
			t.done("p", "k", 0)
		}, checker.Options{}, checker.NotPromised},
		{"they do where nothing was sent, too", func(t *tale) { t.Head.Topics[0].Properties = unclean }, checker.Options{},
			checker.NotPromised},
		{"whoever asks says that they do", func(t *tale) { t.done("p", "k", 0) }, checker.Options{Topic: unclean}, checker.NotPromised},
		{"a fault's effect does", func(t *tale) {
			t.say(&histories.FaultStart{ID: "1", Name: "n"})
			t.say(&histories.FaultEnd{ID: "1", Bit: true, Effects: []string{histories.EffectDiskLost}})
			t.done("p", "k", 0)
		}, checker.Options{}, checker.NotPromised},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(1)
			c.tell(story)
			story.end()
			v, err := checker.Check(t.Context(), &story.Memory, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if p := promiseOf(t, v, checker.LostWrite); p.Verdict != c.want {
				t.Errorf("%s (%s), want %s", p.Verdict, p.Reason, c.want)
			}
		})
	}
}

func TestWhatIsNotKnownDoesNotMatterWhereNothingWasFound(t *testing.T) {
	for _, c := range []struct {
		rule     string
		producer map[string]string
		begins   string
	}{
		{"the configuration is not known", nil, "nothing was found, so it does not matter what the configuration promises"},
		{"it is", map[string]string{"acks": "all"}, "whatever the configuration is: acks=all: "},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(1)
			story.Head.Producer = c.producer
			story.done("p", "k", 0)
			story.end()
			p := promiseOf(t, check(t, &story.Memory), checker.LostWrite)
			if p.Verdict != checker.Held || !strings.HasPrefix(p.Reason, c.begins) {
				t.Errorf("%s: %s", p.Verdict, p.Reason)
			}
		})
	}
}

func TestOfRecoveryAnImportedHistorySpeaksByItsClusterOrByAFreshClient(t *testing.T) {
	for _, c := range []struct {
		rule           string
		cluster, fresh bool
		want           string
	}{
		{"by neither", false, false, checker.NotTested},
		{"by its cluster", true, false, checker.Held},
		{"by a fresh client", false, true, checker.Held},
		{"by both", true, true, checker.Held},
	} {
		t.Run(c.rule, func(t *testing.T) {
			story := newTale(1)
			story.Head.Source = &histories.Source{Format: "someone's"}
			if c.cluster {
				story.say(&histories.ClusterEvent{What: histories.ClusterWhole})
			}
			if c.fresh {
				story.say(&histories.Producer{Name: "fresh", Fresh: true})
				s := story.send("fresh", "")
				s.Partition = 0
				story.acknowledge(s, 0, story.write(0, s))
			}
			story.done("p", "k", 0)
			story.end()
			if p := promiseOf(t, check(t, &story.Memory), checker.NotRecovered); p.Verdict != c.want {
				t.Errorf("%s (%s), want %s", p.Verdict, p.Reason, c.want)
			}
		})
	}
}

func TestALieIsToldWhateverFollowsIt(t *testing.T) {
	const begins = "a planted broker was judged, not Kafka (lies were injected): "
	for _, c := range []struct {
		lies []bool
		want bool
	}{{nil, false}, {[]bool{false}, false}, {[]bool{true, false}, true}, {[]bool{false, true}, true}} {
		story := newTale(1)
		for i, lie := range c.lies {
			story.say(&histories.FaultStart{ID: fmt.Sprint(i), Name: "n", Lie: lie})
		}
		story.done("p", "k", 0)
		story.end()
		if v := check(t, &story.Memory); v.Planted != c.want || strings.HasPrefix(v.Summary, begins) != c.want {
			t.Errorf("lies %v: planted %v, %q", c.lies, v.Planted, v.Summary)
		}
	}
}

func TestTheVerdictsFormHasNoHoles(t *testing.T) {
	story := newTale(1)
	for i := range 5 {
		story.acknowledge(story.send("p", "k"), 0, int64(10+i))
	}
	story.end()
	for _, c := range []struct {
		options  checker.Options
		examples int
		says     []string
		silent   []string
	}{
		{checker.Options{}, 3, []string{`"faults":[]`, `"configurations":[{`}, []string{`"overridden"`}},
		{checker.Options{Examples: 2, Producer: map[string]string{"acks": "all"}}, 2, []string{`"overridden":true`}, nil},
		{checker.Options{Topic: map[string]string{}, WithoutSecondJudge: true}, 3, []string{`"overridden":true`,
			`"verdict":"violated"`}, nil},
	} {
		v, err := checker.Check(t.Context(), &story.Memory, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(v.Anomalies[checker.LostWrite].Examples); n != c.examples {
			t.Errorf("%+v: %d examples, want %d", c.options, n, c.examples)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range append(slices.Clone(c.says), c.silent...) {
			if strings.Contains(string(text), part) != slices.Contains(c.says, part) {
				t.Errorf("%+v: the verdict says %s (or does not, against what it should)", c.options, part)
			}
		}
	}
}

func TestEveryRunHasItsMeasuresEvenIfTheyAreZero(t *testing.T) {
	story := newTale(1)
	story.end()
	_, m := measured(t, &story.Memory)
	for _, name := range []string{"invoked", "acknowledged", "failed", "unknown", "in-log", "attempts"} {
		if value, there := m[name]; !there || value != 0 {
			t.Errorf("%s is %v (there %v), want 0", name, value, there)
		}
	}
	if _, there := m["errors"]; there {
		t.Error("errors is there, and there are none")
	}
}

func TestTheSecondJudgeSaysWhyItDoesNotJudge(t *testing.T) {
	v := check(t, opened(t, clientFile(sentLine("0", 0, 0), closedLine(1)), clientFile(readLines(0, "0")...)))
	if want := "does not say when an event was sent"; v.SecondJudge.Verdict != checker.UnknownWord ||
		!strings.HasPrefix(v.SecondJudge.Detail, "the format ") || !strings.HasSuffix(v.SecondJudge.Detail, want) {
		t.Errorf("%s: %q, want %q", v.SecondJudge.Verdict, v.SecondJudge.Detail, want)
	}
}
