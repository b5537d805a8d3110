// Package agent is what Ackproof runs inside a broker's containers: a small static
// Linux program. It holds a network namespace open, cuts what a fault wants cut in
// it, says how many packets were dropped, tries connections out, and starts a
// broker. The program is embedded here, built and compressed, so that no toolchain
// is needed where verify runs; its source is in the folder program, which alone knows
// of nftables. Everything here is plain data.
package agent

// The commands of the program: its first argument.
const (
	// CommandHold waits for SIGTERM or SIGINT; it keeps a network namespace open.
	CommandHold = "hold"
	// CommandCut takes a Cut as JSON and puts it in force, all of it or nothing.
	CommandCut = "cut"
	// CommandMend takes the name of a cut and takes it away; one that is not there
	// is no error.
	CommandMend = "mend"
	// CommandCuts prints the cuts that are in force: a list of InForce.
	CommandCuts = "cuts"
	// CommandProbe takes an address and a duration and prints a Probe: what a TCP
	// connection to it came to.
	CommandProbe = "probe"
	// CommandArchive takes the path of a Broker as JSON, starts it once, writes an
	// archive of the classes that it has loaded to Archive, and ends.
	CommandArchive = "archive"
	// CommandProcess prints a Process: what the first process of the container is
	// doing, though it may be stopped.
	CommandProcess = "process"
	// CommandListen takes an address, accepts connections there and closes them,
	// until SIGTERM; for trying out what can be reached.
	CommandListen = "listen"
	// CommandBroker takes the path of a Broker as JSON, formats the storage where it
	// is not formatted, and becomes the broker.
	CommandBroker = "broker"
)

// Path is where the program lies in every container that has it.
const Path = "/ackproof-agent"

// Directions of packets, seen from the namespace.
const (
	In  = "in"
	Out = "out"
)

// Archive is where an image may have an archive of a broker's classes, with which
// Java starts in half the time (JEP 350).
const Archive = "/opt/kafka/broker.jsa"

// Rule drops packets. Its conditions hold together; the zero value of one means any.
type Rule struct {
	// Name of the rule, for its counter.
	Name string `json:"name"`
	// Direction is In or Out.
	Direction string `json:"direction"`
	// Peer is the other side's IPv4 address.
	Peer string `json:"peer,omitempty"`
	// LocalPort and PeerPort are TCP ports.
	LocalPort uint16 `json:"local_port,omitempty"`
	PeerPort  uint16 `json:"peer_port,omitempty"`
	// Percent of the packets that are dropped, 1 to 100.
	Percent int `json:"percent"`
}

// Cut is a set of rules that are put in force and taken away together. Cuts do not
// know of each other: what one drops is dropped.
type Cut struct {
	// Name of the cut: letters, digits and "-"; unique in a namespace.
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
	// Late rules are asked after all that are not: they see, and count, what those
	// let through.
	Late bool `json:"late,omitempty"`
}

// InForce is a cut that is in force.
type InForce struct {
	Name string `json:"name"`
	// Dropped counts packets by the rule's name.
	Dropped map[string]uint64 `json:"dropped"`
}

// What a connection came to.
const (
	Connected = "connected"
	Refused   = "refused"
	TimedOut  = "timed-out"
)

// Probe is what one attempt to connect came to.
type Probe struct {
	Result string `json:"result"`
	// Error is the system's words; empty where it connected.
	Error string `json:"error,omitempty"`
}

// Process is what the first process of a container is doing.
type Process struct {
	// State is the kernel's letter: R and S run or sleep, T is stopped by SIGSTOP
	// (proc_pid_stat(5)).
	State string `json:"state"`
}

// Stopped is the state of a process that was stopped.
const Stopped = "T"

// Broker says how a broker is started.
type Broker struct {
	// Libraries is the folder of Kafka's jars.
	Libraries string `json:"libraries"`
	// Options of the Java virtual machine.
	Options []string `json:"options"`
	// Properties is the path of the broker's properties file.
	Properties string `json:"properties"`
	// Data is log.dirs: one folder.
	Data string `json:"data"`
	// Ready is an address where the broker takes connections once it is up; for
	// CommandArchive alone.
	Ready string `json:"ready,omitempty"`
	// Format are the arguments of the storage tool after "format".
	Format []string `json:"format"`
}
