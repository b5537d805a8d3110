// This file holds how faults are asked for: the syntax of --faults, and the form
// that stands in a scenario file.

package nemesis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// None is the word for no faults at all.
const None = "none"

// Asked is one fault that was asked for, with the settings that were given.
type Asked struct {
	Name     string            `yaml:"name"`
	Settings map[string]string `yaml:"settings,omitempty"`
	// At and For fix when it is injected and for how long; both zero: drawn from
	// the seed.
	At  time.Duration `yaml:"at,omitempty"`
	For time.Duration `yaml:"for,omitempty"`
}

// Parse reads what was asked for with --faults:
//
//	refuse:error=NOT_LEADER_OR_FOLLOWER,after=true,every=20,lost-response
//
// Items are separated by commas. One that is "name" or "name:setting=value" begins a
// fault; one that is "setting=value" belongs to the fault before it. "none" alone
// stands for no faults. Values are checked and brought into their one spelling; an
// error names what is wrong, the nearest name, and what there is.
func Parse(text string) ([]Asked, error) {
	if strings.TrimSpace(text) == None {
		return nil, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("no fault is named; say %s, or some of %s", None, strings.Join(Names(), ", "))
	}
	var asked []Asked
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, fmt.Errorf("reading the faults %q: there is nothing between two commas", text)
		}
		begins, setting := item, item
		if equals, colon := strings.Index(item, "="), strings.Index(item, ":"); equals < 0 {
			setting = ""
		} else if colon >= 0 && colon < equals {
			begins, setting = item[:colon], item[colon+1:]
		} else {
			begins = ""
		}
		if begins != "" {
			asked = append(asked, Asked{Name: begins})
		}
		if setting == "" {
			continue
		}
		if err := give(asked, setting); err != nil {
			return nil, fmt.Errorf("reading the faults %q: %w", text, err)
		}
	}
	if err := canonical(asked); err != nil {
		return nil, fmt.Errorf("reading the faults %q: %w", text, err)
	}
	return asked, nil
}

// give adds "setting=value" to the last of the faults.
func give(asked []Asked, setting string) error {
	name, value, _ := strings.Cut(setting, "=")
	if len(asked) == 0 {
		return fmt.Errorf("%q sets something before any fault is named", setting)
	}
	last := &asked[len(asked)-1]
	if _, twice := last.Settings[name]; twice {
		return fmt.Errorf("%s is set twice for %s", name, last.Name)
	}
	if last.Settings == nil {
		last.Settings = make(map[string]string)
	}
	last.Settings[name] = value
	return nil
}

// Check checks faults that were asked for in a scenario file and brings their
// values into their one spelling, in place.
func Check(asked []Asked) error {
	if err := canonical(asked); err != nil {
		return err
	}
	fixed := 0
	for _, a := range asked {
		switch {
		case a.For < 0 || a.At < 0:
			return fmt.Errorf("%s: at (%s) and for (%s) must not be below zero", a.Name, a.At, a.For)
		case a.For > 0:
			fixed++
		case a.At > 0:
			return fmt.Errorf("%s: at is %s, but for is missing: say how long it lasts", a.Name, a.At)
		}
	}
	if fixed > 0 && fixed < len(asked) {
		return fmt.Errorf("%d of %d faults say when they are injected (at, for); either all do, or none", fixed, len(asked))
	}
	return nil
}

func canonical(asked []Asked) error {
	for i := range asked {
		if asked[i].Name == None {
			return fmt.Errorf("%s stands for no faults, and stands alone", None)
		}
		if err := expandRole(&asked[i]); err != nil {
			return err
		}
		fault, err := Find(asked[i].Name)
		if err != nil {
			return err
		}
		complete, err := fault.Complete(asked[i].Settings)
		if err != nil {
			return err
		}
		for name := range asked[i].Settings {
			asked[i].Settings[name] = complete[name]
		}
	}
	return nil
}

// expandRole makes isolate:broker=leader of isolate-leader.
func expandRole(a *Asked) error {
	if _, err := Find(a.Name); err == nil {
		return nil
	}
	fault, role, is := splitRole(a.Name)
	if !is {
		return nil
	}
	if _, twice := a.Settings["broker"]; twice {
		return fmt.Errorf("%s is aimed twice: by its name and by broker=%s", a.Name, a.Settings["broker"])
	}
	if a.Settings == nil {
		a.Settings = make(map[string]string)
	}
	a.Name, a.Settings["broker"] = fault, role
	return nil
}

// String gives the fault as Parse reads it, with the settings that were given in
// the order in which they are documented.
func (a Asked) String() string {
	names := slices.Sorted(maps.Keys(a.Settings))
	if fault, err := Find(a.Name); err == nil {
		names = names[:0]
		for _, s := range fault.Settings {
			if _, given := a.Settings[s.Name]; given {
				names = append(names, s.Name)
			}
		}
	}
	text := a.Name
	for i, name := range names {
		separator := ","
		if i == 0 {
			separator = ":"
		}
		text += separator + name + "=" + a.Settings[name]
	}
	return text
}

// Format gives faults as Parse reads them.
func Format(asked []Asked) string {
	if len(asked) == 0 {
		return None
	}
	parts := make([]string, 0, len(asked))
	for _, a := range asked {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, ",")
}

// Find gives the fault of a name.
func Find(name string) (Fault, error) {
	for _, f := range catalogue {
		if f.Name == name {
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("there is no fault %q%s (there is: %s, or %s)", name, didYouMean(name, Names()),
		strings.Join(Names(), ", "), None)
}

// Names gives the names of all faults, in the order of the catalogue.
func Names() []string {
	var names []string
	for _, f := range Catalogue() {
		names = append(names, f.Name)
	}
	return names
}

// Describe gives the catalogue as text for a person: each fault, what it does, its
// settings with their defaults; then what settings mean that many faults have.
func Describe() string {
	var text strings.Builder
	explained := make(map[string]Setting)
	var order []string
	for _, f := range catalogue {
		mark := ""
		if f.Planted {
			mark = " (a lie: needs --allow-lies)"
		}
		fmt.Fprintf(&text, "  %s%s\n      %s\n", f.Name, mark, f.Doc)
		var shared []string
		for _, s := range f.Settings {
			if !s.shared {
				fmt.Fprintf(&text, "      %s=%s  %s (%s)\n", s.Name, s.Default, s.Doc, s.Values)
				continue
			}
			shared = append(shared, s.Name+"="+s.Default)
			name := s.Name + s.Doc // what brokers and what requests are aimed at by have the same names
			if _, known := explained[name]; !known {
				explained[name] = s
				order = append(order, name)
			}
		}
		if len(shared) > 0 {
			fmt.Fprintf(&text, "      %s\n", strings.Join(shared, " "))
		}
	}
	fmt.Fprintf(&text, "  %s\n      no faults\n\nSettings that many faults have:\n", None)
	for _, name := range order {
		s := explained[name]
		fmt.Fprintf(&text, "  %s  %s (%s)\n", s.Name, s.Doc, s.Values)
	}
	return text.String()
}

// CheckLies gives an error where one of the faults is a lie towards producers with
// these acks and lies are not allowed.
func CheckLies(asked []Asked, acks string, allowed bool) error {
	if allowed {
		return nil
	}
	var lies []error
	for _, a := range asked {
		fault, err := Find(a.Name)
		if err != nil {
			return err
		}
		settings, err := fault.Complete(a.Settings)
		if err != nil {
			return err
		}
		if why := fault.Lie(settings, acks); why != "" {
			lies = append(lies, fmt.Errorf("%s is a lie (%s); it needs --allow-lies, and the verdict is then about "+
				"a planted broker", a, why))
		}
	}
	return errors.Join(lies...)
}
