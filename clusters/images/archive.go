// This file holds the last step of building an image: an archive of the classes that
// a broker loads, with which the brokers of every later run start in half the time.

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
	"github.com/ackproof/ackproof/clusters/engine"
)

// alone are the properties of a broker that is started once, by itself.
const alone = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
log.dirs=/tmp/data
offsets.topic.replication.factor=1
log.cleaner.dedupe.buffer.size=2097152
`

// Where things lie in the container that makes the archive.
const (
	aloneProperties = "/tmp/server.properties"
	aloneBroker     = "/tmp/broker.json"
)

// archiveLimit bounds the one start of a broker.
const archiveLimit = 2 * time.Minute

// addArchive starts a broker of the base image once and makes the image of what the
// container is then.
func addArchive(ctx context.Context, e *engine.Engine, base, reference, label string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, archiveLimit)
	defer cancel()
	owner, err := engine.NewOwner()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, owner.Release()) }()
	program, err := agent.Program(e.Description().Architecture)
	if err != nil {
		return err
	}
	how, err := json.Marshal(agent.Broker{Libraries: Libraries, Options: JavaOptions(), Properties: aloneProperties,
		Data: "/tmp/data", Ready: "127.0.0.1:9092",
		Format: []string{"--cluster-id", "ackproofAAAAAAAAAAAAAA", "--config", aloneProperties}})
	if err != nil {
		return fmt.Errorf("encoding how a broker is started: %w", err)
	}
	name := owner.Name("archive")
	defer func() { err = errors.Join(err, e.RemoveContainer(context.WithoutCancel(ctx), name)) }()
	if err := e.Start(ctx, engine.Spec{Owner: owner, Name: name, Image: base, AllCapabilities: true,
		Entrypoint: []string{agent.Path, agent.CommandArchive, aloneBroker},
		Files: map[string]engine.File{agent.Path: {Content: program, Mode: 0o755},
			aloneProperties: {Content: []byte(alone), Mode: 0o644}, aloneBroker: {Content: how, Mode: 0o644}}}); err != nil {
		return err
	}
	if err := awaitEnd(ctx, e, name); err != nil {
		return err
	}
	return e.Commit(ctx, name, reference, "ENTRYPOINT []", "LABEL "+label)
}

// awaitEnd waits until a container has ended, well.
func awaitEnd(ctx context.Context, e *engine.Engine, name string) error {
	const every, lines = 200 * time.Millisecond, 5
	for {
		state, err := e.State(ctx, name)
		if err != nil {
			return err
		}
		if !state.Running && state.ExitCode == 0 {
			return nil
		}
		if !state.Running {
			return fmt.Errorf("the container %s ended with status %d: %s", name, state.ExitCode, e.LastLines(ctx, name, lines))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the container %s has ended: %w", name, ctx.Err())
		case <-time.After(every):
		}
	}
}
