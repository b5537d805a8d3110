// Package images gives the images that brokers run in: the official apache/kafka
// where a registry can be reached; else one that is built on the spot from the jars
// on Maven Central, and kept in the engine, so that it is built once; or any other
// that is named. All of them are held to one contract: Kafka's jars in Libraries, and
// a Java that is in PATH or in JAVA_HOME.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/ackproof/ackproof/clusters/agent"
	"github.com/ackproof/ackproof/clusters/engine"
)

// Libraries is the folder of Kafka's jars in every image.
const Libraries = "/opt/kafka/libs"

// JavaOptions start a broker fast, on few cores. A broker is started with them, and with
// others after them; an archive of classes is good for the same ones only.
func JavaOptions() []string {
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxMetaspaceSize=192m", "-XX:+ExitOnOutOfMemoryError",
		"-Dkafka.logs.dir=/tmp", "-Djava.awt.headless=true"}
}

// Wanted says which image is wanted.
type Wanted struct {
	// Version of Kafka, as 4.1.0.
	Version string
	// Image is any other image that is to be used instead; Version may be empty then.
	Image string
	// Progress is told what takes long. Nil: nobody is.
	Progress func(what string)
}

// ErrNoImage says that there is no such image, or that it cannot be had here: what
// was asked for is wrong, or the machine lacks something.
var ErrNoImage = errors.New("the brokers' image cannot be had")

var versionForm = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(-rc\d+)?$`)

// CheckVersion refuses what is no version of Kafka that brokers can be started of:
// before 3.4 KRaft was young. Official images there are from 3.7 on, and older versions are
// built from jars.
func CheckVersion(version string) error {
	parts := versionForm.FindStringSubmatch(version)
	if parts == nil {
		return fmt.Errorf("%q is not a version of Kafka, as 4.1.0", version)
	}
	major, _ := strconv.Atoi(parts[1]) // digits
	minor, _ := strconv.Atoi(parts[2])
	if major < 3 || (major == 3 && minor < 4) {
		return fmt.Errorf("version %s of Kafka is too old: brokers are started from 3.4.0 on", version)
	}
	return nil
}

// Official gives the reference of the official image of a version.
func Official(version string) string { return "apache/kafka:" + version }

// Find gives the reference of an image that the engine has: one that it had before,
// one that was pulled, or one that was built. ErrNoImage where it cannot be had.
func Find(ctx context.Context, e *engine.Engine, w Wanted) (string, error) {
	if w.Progress == nil {
		w.Progress = func(string) {}
	}
	if w.Image != "" {
		return w.Image, pullOnce(ctx, e, w, w.Image)
	}
	if err := CheckVersion(w.Version); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoImage, err)
	}
	if reference, err := Present(ctx, e, w.Version); err != nil || reference != "" {
		return reference, err
	}
	built := builtReference(w.Version, e.Description().Architecture)
	unlock, err := lockBuild(ctx, built)
	if err != nil {
		return "", err
	}
	defer unlock()
	if has, err := e.HasImage(ctx, built); err != nil || has { // built meanwhile by another run
		return built, err
	}
	pullErr := pullOnce(ctx, e, w, Official(w.Version))
	if pullErr == nil {
		return Official(w.Version), nil
	}
	if ctx.Err() != nil {
		return "", pullErr
	}
	w.Progress("building an image of Kafka " + w.Version + " from Maven Central's jars, since no registry can be reached; " +
		"the next run finds it built")
	if err := build(ctx, e, w.Version, built); err != nil {
		return "", fmt.Errorf("%w: %w; and building one from Maven Central's jars failed: %w", ErrNoImage, pullErr, err)
	}
	return built, nil
}

// Present gives the reference of the image of a version that the engine has; empty:
// it has none.
func Present(ctx context.Context, e *engine.Engine, version string) (string, error) {
	for _, reference := range []string{builtReference(version, e.Description().Architecture), Official(version)} {
		if has, err := e.HasImage(ctx, reference); err != nil || has {
			return reference, err
		}
	}
	return "", nil
}

// All gives the references of all of Kafka's images that the engine has.
func All(ctx context.Context, e *engine.Engine) ([]string, error) {
	return e.ImagesNamed(ctx, builtName, "apache/kafka")
}

// pullOnce pulls an image that the engine does not have.
func pullOnce(ctx context.Context, e *engine.Engine, w Wanted, reference string) error {
	has, err := e.HasImage(ctx, reference)
	if err != nil || has {
		return err
	}
	w.Progress("pulling the image " + reference)
	if err := e.Pull(ctx, reference); err != nil {
		return fmt.Errorf("%w: %w", ErrNoImage, err)
	}
	return nil
}

// lockBuild lets one run at a time build an image.
func lockBuild(ctx context.Context, reference string) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(reference))
	unlock, err = engine.Lock(ctx, fmt.Sprintf("build-%x", sum[:6]))
	if err != nil {
		return nil, fmt.Errorf("waiting for another run that builds %s: %w", reference, err)
	}
	return unlock, nil
}

// Agent gives the reference of the agent's image, made where the engine lacks it.
func Agent(ctx context.Context, e *engine.Engine) (string, error) {
	program, err := agent.Program(e.Description().Architecture)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(program)
	reference := fmt.Sprintf("ackproof/agent:%x", sum[:6])
	if has, err := e.HasImage(ctx, reference); err != nil || has {
		return reference, err
	}
	var archive bytes.Buffer
	files := tar.NewWriter(&archive)
	if err := errors.Join(
		files.WriteHeader(&tar.Header{Name: agent.Path[1:], Mode: 0o755, Size: int64(len(program))}),
		write(files, program), files.Close()); err != nil {
		return "", fmt.Errorf("packing the agent: %w", err)
	}
	err = e.Import(ctx, reference, &archive, fmt.Sprintf("ENTRYPOINT [%q, %q]", agent.Path, agent.CommandHold),
		"LABEL "+engine.LabelImage+"=agent")
	return reference, err
}

func write(w *tar.Writer, content []byte) error {
	_, err := w.Write(content)
	return err
}
