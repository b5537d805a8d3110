// This file holds one broker in containers: the one that holds its namespace, and the
// one that it runs in.

package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackproof/ackproof/clusters/agent"
	"github.com/ackproof/ackproof/clusters/engine"
	"github.com/ackproof/ackproof/clusters/images"
	"github.com/ackproof/ackproof/wire"
)

// Where things lie in a broker's container.
const (
	dataFolder     = "/data"
	propertiesPath = "/etc/ackproof/server.properties"
	brokerPath     = "/etc/ackproof/broker.json"
	log4j1Path     = "/etc/ackproof/log4j.properties"
	log4j2Path     = "/etc/ackproof/log4j2.properties"
)

// containerNode is one broker.
type containerNode struct {
	cluster *Containers
	id      int32
	// The names of its containers and of its volume.
	holder, broker, volume string
	proxy                  *wire.Proxy
	// address in the cluster's network; clients where its listener for clients is
	// connected to from this process.
	address netip.Addr
	clients string

	mu sync.Mutex
	// down: somebody has asked for the end of the process.
	down bool
}

// newContainerNode opens the proxy, whose address the broker advertises.
func newContainerNode(ctx context.Context, c *Containers, id int32) (*containerNode, error) {
	listen, err := c.listenAddress(int(id) - 1)
	if err != nil {
		return nil, err
	}
	proxy, err := c.network.Proxy(ctx, id, listen, dialNowhere)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %w; choose another address", ErrCannotStart, err)
	} else if err != nil {
		return nil, err
	}
	name := strconv.Itoa(int(id))
	return &containerNode{cluster: c, id: id, proxy: proxy, holder: c.owner.Name("holder-" + name),
		broker: c.owner.Name("broker-" + name), volume: c.owner.Name("data-" + name)}, nil
}

// makePlace makes the volume and starts the holder, which has the address.
func (n *containerNode) makePlace(ctx context.Context, agentImage string) error {
	c := n.cluster
	if err := c.engine.CreateVolume(ctx, c.owner, n.volume, c.options.Disk); err != nil {
		return err
	}
	spec := engine.Spec{Owner: c.owner, Name: n.holder, Image: agentImage, Network: c.owner.Name("network"),
		Entrypoint: []string{agent.Path, agent.CommandHold}, Capabilities: []string{"NET_ADMIN"}}
	if c.options.Disk > 0 { // a volume in memory lasts as long as a container uses it
		spec.Volume, spec.Mount = n.volume, dataFolder
	}
	if !c.engine.Description().Reachable {
		spec.Publish = []uint16{clientPort}
	}
	if err := c.engine.Start(ctx, spec); err != nil {
		return err
	}
	state, err := c.engine.State(ctx, n.holder)
	if err != nil {
		return err
	}
	n.address = state.Address
	n.clients = netip.AddrPortFrom(state.Address, clientPort).String()
	if port, published := state.Published[clientPort]; published {
		n.clients = net.JoinHostPort(c.engine.Description().Host, strconv.Itoa(int(port)))
	}
	n.proxy.Retarget(func(ctx context.Context) (net.Conn, error) {
		dialer := net.Dialer{Timeout: dialLimit}
		return dialer.DialContext(ctx, "tcp", n.clients)
	})
	return nil
}

// dialLimit bounds a connection to a broker that does not answer.
const dialLimit = 10 * time.Second

// create makes and starts the broker's container, in the holder's namespace.
func (n *containerNode) create(ctx context.Context) error {
	c := n.cluster
	program, err := agent.Program(c.engine.Description().Architecture)
	if err != nil {
		return err
	}
	how, err := json.Marshal(agent.Broker{Libraries: images.Libraries, Options: javaOptions(c.options.Memory),
		Properties: propertiesPath, Data: dataFolder, Format: []string{"--cluster-id", clusterID(c.owner.Run),
			"--config", propertiesPath}})
	if err != nil {
		return fmt.Errorf("encoding how broker %d is started: %w", n.id, err)
	}
	return c.engine.Start(ctx, engine.Spec{Owner: c.owner, Name: n.broker, Image: c.image, Namespace: n.holder,
		Entrypoint: []string{agent.Path, agent.CommandBroker, brokerPath}, Volume: n.volume, Mount: dataFolder,
		Memory: n.memoryLimit(), AllCapabilities: true,
		Files: map[string]engine.File{
			agent.Path:     {Content: program, Mode: 0o755},
			propertiesPath: {Content: c.serverProperties(n), Mode: 0o644},
			brokerPath:     {Content: how, Mode: 0o644},
			log4j1Path:     {Content: []byte(log4j1), Mode: 0o644},
			log4j2Path:     {Content: []byte(log4j2), Mode: 0o644},
		}})
}

// memoryLimit gives the limit where the engine can set one.
func (n *containerNode) memoryLimit() int64 {
	if !n.cluster.engine.Description().LimitsMemory {
		return 0
	}
	return n.cluster.options.Memory
}

// clusterID gives a Kafka cluster id for a run: 16 bytes in base64 without padding.
func clusterID(run string) string { return "ackproof" + run + "AAAAAA" }

// setDown says whether the end of the process was asked for.
func (n *containerNode) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

func (n *containerNode) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down
}

// remove removes everything of the broker.
func (n *containerNode) remove(ctx context.Context) error {
	e := n.cluster.engine
	return errors.Join(e.RemoveContainer(ctx, n.broker), e.RemoveContainer(ctx, n.holder), e.RemoveVolume(ctx, n.volume))
}

// exit gives the end of the process, if it ended though nobody asked for it.
func (n *containerNode) exit(ctx context.Context) (*Exit, error) {
	if n.isDown() {
		return nil, nil
	}
	e := n.cluster.engine
	state, err := e.State(ctx, n.broker)
	if err != nil || state.Running || n.isDown() { // asked for meanwhile
		return nil, err
	}
	return &Exit{Broker: n.id, ExitCode: state.ExitCode, OutOfMemory: state.OutOfMemory, LastLines: n.lastLines(ctx)}, nil
}

// How much of a broker's log stands in an error, how many of the exceptions before
// that, and how much is looked through for them.
const (
	lastLines      = 6
	lastExceptions = 4
	lookedThrough  = 2000
)

// exception is a line of a log that begins with what was thrown.
var exception = regexp.MustCompile(`^(Caused by: |Exception in thread \S+ )?[\w.$]+(Exception|Error): `)

// lastLines gives the last lines of the broker's log that say something, and the last
// exceptions before them, each once: the cause is often followed by many that tell the
// consequence.
func (n *containerNode) lastLines(ctx context.Context) string {
	return telling(n.cluster.engine.LastLines(ctx, n.broker, lookedThrough))
}

// telling picks the lines of a log. What is indented belongs to a line before it, as the
// frames of a stack and the lists of properties; it would hide what is wrong.
func telling(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "\t") {
			lines = append(lines, line)
		}
	}
	tail := lines[max(len(lines)-lastLines, 0):]
	var exceptions []string
	for _, line := range slices.Backward(lines[:len(lines)-len(tail)]) {
		if exception.MatchString(line) && len(exceptions) < lastExceptions && !slices.Contains(exceptions, line) {
			exceptions = append(exceptions, line)
		}
	}
	slices.Reverse(exceptions)
	return strings.Join(append(exceptions, tail...), "\n")
}

// document writes the broker's log and its configuration into a folder of its own.
func (n *containerNode) document(ctx context.Context, folder string) (err error) {
	folder = filepath.Join(folder, strconv.Itoa(int(n.id)))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of broker %d: %w", n.id, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "server.properties"), n.cluster.serverProperties(n), 0o644); err != nil {
		return fmt.Errorf("writing the properties of broker %d: %w", n.id, err)
	}
	file, err := os.Create(filepath.Join(folder, "server.log"))
	if err != nil {
		return fmt.Errorf("writing the log of broker %d: %w", n.id, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return n.cluster.engine.Log(ctx, n.broker, file)
}

// Document writes each broker's log, configuration and version into the folder.
func (c *Containers) Document(ctx context.Context, folder string) error {
	about, err := json.MarshalIndent(map[string]any{"image": c.image, "version": c.description.Version,
		"features": c.description.Features, "engine": c.engine.Description()}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding what the cluster is: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "cluster.json"), append(about, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing what the cluster is: %w", err)
	}
	if err := c.engine.Ping(ctx); err != nil {
		return err
	}
	documented := c.each(func(n *containerNode) error { return n.document(ctx, folder) })
	return errors.Join(documented, c.admin.documentProperties(ctx, folder, c.description.Brokers))
}

// CopySegments copies the segment files of a replica into a folder.
func (c *Containers) CopySegments(ctx context.Context, broker int32, topic string, partition int32, folder string) error {
	node, err := c.node(broker)
	if err != nil {
		return err
	}
	from := fmt.Sprintf("%s/%s-%d", dataFolder, topic, partition)
	return c.engine.Files(ctx, node.broker, from, func(file string, content io.Reader) error {
		if filepath.Ext(file) != ".log" {
			return nil
		}
		return save(filepath.Join(folder, file), content)
	})
}

func save(path string, content io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("copying a segment: %w", err)
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("copying a segment to %s: %w", path, err)
	}
	return nil
}

// execute runs a command of the agent in the broker's namespace and reads what it
// prints into result, unless that is nil.
func (n *containerNode) execute(ctx context.Context, result any, command ...string) error {
	output, err := n.cluster.engine.Execute(ctx, n.holder, append([]string{agent.Path}, command...)...)
	if err != nil || result == nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(output)).Decode(result); err != nil {
		return fmt.Errorf("reading what the agent of broker %d said to %s: %w", n.id, command[0], err)
	}
	return nil
}
