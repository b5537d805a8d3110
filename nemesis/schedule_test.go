// This file tests the drawing of schedules.

package nemesis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// drawAsked draws faults that are asked for, each at most once.
func drawAsked(t *rapid.T) []Asked {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(Names()), 1, len(Names()), func(n string) string { return n }).Draw(t, "faults")
	var asked []Asked
	for _, n := range names {
		asked = append(asked, Asked{Name: n})
	}
	return asked
}

func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked := drawAsked(t)
		// Long enough for those of them that the cluster must notice.
		least := 3 * time.Second
		for _, a := range asked {
			if fault, err := Find(a.Name); err == nil && fault.Least > 0 {
				least = 8*time.Second + time.Duration(len(asked))*leastNoticed*2
			}
		}
		duration := time.Duration(rapid.Int64Range(int64(least), int64(time.Hour)).Draw(t, "duration"))
		seed := rapid.Int64().Draw(t, "seed")
		options := Options{Overlap: rapid.Bool().Draw(t, "overlap")}
		schedule, err := Draw(asked, duration, seed, options)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Draw(asked, duration, seed, options)
		if err != nil || !reflect.DeepEqual(schedule, again) {
			t.Fatalf("the same seed gives another schedule: %v", err)
		}
		occur(t, asked, schedule)
		inside(t, duration, schedule)
		if !options.Overlap {
			apart(t, schedule)
		}
		if len(schedule) > max(mostEntries, len(asked))*len(asked) {
			t.Fatalf("%d entries", len(schedule))
		}
	})
}

// A fault that the cluster must notice is refused where its share of the run is too
// short for that, and lasts long enough where it is not.
func TestWhatMustBeNoticedLastsLongEnough(t *testing.T) {
	asked, err := Parse("isolate,lost-response")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Draw(asked, 20*time.Second, 1, Options{}); err == nil || !strings.Contains(err.Error(), "isolate, which must last 6s") {
		t.Errorf("a run of 20 s: %v", err)
	}
	schedule, err := Draw(asked, 90*time.Second, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range schedule {
		if e.Fault == "isolate" && e.For < leastNoticed {
			t.Errorf("%s lasts %s", e.Fault, e.For)
		}
	}
}

// occur: every fault that was asked for occurs.
func occur(t *rapid.T, asked []Asked, schedule Schedule) {
	for _, a := range asked {
		if !slices.ContainsFunc(schedule, func(e Entry) bool { return e.Fault == a.Name }) {
			t.Fatalf("%s was asked for and does not occur", a.Name)
		}
	}
}

// inside: nothing in the first tenth or the last fifth (at most 2 and 5 seconds), and
// everything is complete and lasts.
func inside(t *rapid.T, duration time.Duration, schedule Schedule) {
	from, until := min(duration/10, 2*time.Second), duration-min(duration/5, 5*time.Second)
	for _, e := range schedule {
		// Entries are whole milliseconds.
		if e.At < from.Truncate(time.Millisecond) || e.At+e.For > until || e.For < time.Millisecond {
			t.Fatalf("%s at %s for %s is not inside %s to %s", e.Fault, e.At, e.For, from, until)
		}
		fault, err := Find(e.Fault)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Settings) != len(fault.Settings) {
			t.Fatalf("%s has the settings %v, not all of its %d", e.Fault, e.Settings, len(fault.Settings))
		}
	}
}

// apart: one ends before the next begins, with a quiet time between.
func apart(t *rapid.T, schedule Schedule) {
	for i := 1; i < len(schedule); i++ {
		if end := schedule[i-1].At + schedule[i-1].For; schedule[i].At <= end {
			t.Fatalf("%s begins at %s, before %s has ended at %s", schedule[i].Fault, schedule[i].At, schedule[i-1].Fault, end)
		}
	}
}

func TestAScheduleSurvivesYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, err := Draw(drawAsked(t), 10*time.Minute, rapid.Int64().Draw(t, "seed"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(schedule)
		if err != nil {
			t.Fatal(err)
		}
		var read Schedule
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if err := read.Validate(); err != nil {
			t.Fatal(err)
		}
		// An empty map and none are the same in YAML.
		for i := range schedule {
			if len(schedule[i].Settings) != len(read[i].Settings) {
				t.Fatalf("%v became %v", schedule[i], read[i])
			}
			for name, value := range schedule[i].Settings {
				if read[i].Settings[name] != value {
					t.Fatalf("%s became %s", value, read[i].Settings[name])
				}
			}
			if schedule[i].At != read[i].At || schedule[i].For != read[i].For || schedule[i].Fault != read[i].Fault {
				t.Fatalf("%v became %v", schedule[i], read[i])
			}
		}
	})
}

func TestWhatMakesClientsPauseComesLastInTheFirstRound(t *testing.T) {
	for seed := range int64(20) {
		schedule, err := Draw([]Asked{{Name: "refuse"}, {Name: "cut-before"}, {Name: "move-leader"}}, 3*time.Second, seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(schedule) != 3 || schedule[2].Fault != "refuse" {
			t.Errorf("seed %d: the schedule is %v", seed, schedule)
		}
	}
}

func TestSeedsGiveDifferentSchedules(t *testing.T) {
	asked := []Asked{{Name: "lost-response"}, {Name: "cut-before"}, {Name: "move-leader"}}
	one, err := Draw(asked, 20*time.Second, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Draw(asked, 20*time.Second, 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(one, two) {
		t.Error("seeds 1 and 2 give the same schedule")
	}
}

func TestFixedTimesAreTakenAsTheyAre(t *testing.T) {
	asked := []Asked{{Name: "cut-before", At: 2 * time.Second, For: time.Second}, {Name: "lost-response", At: time.Second, For: 5 * time.Second}}
	schedule, err := Draw(asked, 10*time.Second, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(schedule) != 2 || schedule[0].Fault != "lost-response" || schedule[0].At != time.Second || schedule[1].For != time.Second {
		t.Errorf("the schedule is %v", schedule)
	}
	if schedule.End() != 6*time.Second {
		t.Errorf("it ends after %s, want 6s", schedule.End())
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		asked    []Asked
		duration time.Duration
		says     string
	}{
		{"a fault that would end after the run", []Asked{{Name: "cut-before", At: 9 * time.Second, For: 2 * time.Second}}, 10 * time.Second, "end after"},
		{"some with times and some without", []Asked{{Name: "cut-before", For: time.Second}, {Name: "lost-response"}}, 10 * time.Second, "either all do"},
		{"a start without a length", []Asked{{Name: "cut-before", At: time.Second}}, 10 * time.Second, "for is missing"},
		{"a run that is too short", []Asked{{Name: "cut-before"}}, 500 * time.Millisecond, "at least 1s"},
		{"more faults than fit", slices.Repeat([]Asked{{Name: "cut-before"}}, 200), 3 * time.Second, "ask for fewer"},
		{"an unknown fault", []Asked{{Name: "gremlins"}}, 3 * time.Second, "there is no fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if schedule, err := Draw(c.asked, c.duration, 1, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Draw = %v, %v; want an error that says %q", schedule, err, c.says)
			}
		})
	}
}

func TestNoFaultsAreNoSchedule(t *testing.T) {
	if schedule, err := Draw(nil, time.Second, 1, Options{}); err != nil || len(schedule) != 0 {
		t.Errorf("Draw = %v, %v", schedule, err)
	}
}

func TestIDsCountEachFault(t *testing.T) {
	schedule := Schedule{{Fault: "cut-before", For: 1}, {Fault: "refuse", For: 1}, {Fault: "cut-before", For: 1}}
	if ids := schedule.ids(); !slices.Equal(ids, []string{"cut-before#1", "refuse#1", "cut-before#2"}) {
		t.Errorf("the ids are %v", ids)
	}
}
