// This file holds the versions of everything that takes part in a run.

package scenarios

import "runtime/debug"

// libraries are the modules whose versions decide how a run behaves.
var libraries = map[string]string{
	"github.com/twmb/franz-go":           "franz-go",
	"github.com/twmb/franz-go/pkg/kfake": "kfake",
	"github.com/anishathalye/porcupine":  "porcupine",
	"github.com/twmb/franz-go/pkg/kmsg":  "kmsg",
	"github.com/klauspost/compress":      "klauspost/compress",
	"github.com/ackproof/ackproof":       "ackproof",
}

// Versions gives the versions of this program and of the libraries that decide how
// a run behaves, as the build recorded them.
func Versions() map[string]string {
	versions := map[string]string{"ackproof": "(unknown)"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	versions["ackproof"] = build.Main.Version
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			versions["revision"] = setting.Value
		}
	}
	for _, module := range build.Deps {
		name, wanted := libraries[module.Path]
		if !wanted {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		versions[name] = module.Version
	}
	return versions
}
