// This file holds the brokers' properties.

package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ackproof/ackproof/clusters/images"
)

// The ports of a broker, in its network namespace.
const (
	replicationPort = 9092
	controllerPort  = 9093
	clientPort      = 19092
)

// baseProperties are what makes failures be noticed in seconds, and three brokers fit
// on a small machine. The topics' defaults are what an operator who wants no loss
// has.
func baseProperties(brokers int) map[string]string {
	replicas, least := strconv.Itoa(min(brokers, 3)), strconv.Itoa(min(brokers, 2))
	return map[string]string{
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              least,
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "3",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    least,
		"transaction.state.log.num.partitions":             "3",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            least,
		"share.coordinator.state.topic.num.partitions":     "1",
		"unclean.leader.election.enable":                   "false",
		"auto.create.topics.enable":                        "false",
		"group.initial.rebalance.delay.ms":                 "0",
		"broker.heartbeat.interval.ms":                     "500",
		"broker.session.timeout.ms":                        "3000",
		// A broker that starts while it is cut off from the controllers gives up after a minute
		// by default, and a fault may last longer.
		"initial.broker.registration.timeout.ms":                      "600000",
		"replica.lag.time.max.ms":                                     "4000",
		"replica.fetch.wait.max.ms":                                   "250",
		"replica.socket.timeout.ms":                                   "5000",
		"controller.quorum.fetch.timeout.ms":                          "1000",
		"controller.quorum.election.timeout.ms":                       "500",
		"controller.quorum.election.backoff.max.ms":                   "500",
		"controller.quorum.request.timeout.ms":                        "1000",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		"log.cleaner.dedupe.buffer.size":                              "2097152",
		"num.io.threads":                                              "2",
		"num.network.threads":                                         "2",
	}
}

// serverProperties gives a broker's properties file.
func (c *Containers) serverProperties(n *containerNode) []byte {
	var voters []string
	for _, other := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", other.id, other.address, controllerPort))
	}
	properties := c.brokerProperties()
	maps.Copy(properties, map[string]string{
		"process.roles": "broker,controller",
		"node.id":       strconv.Itoa(int(n.id)),
		"listeners": fmt.Sprintf("INTERNAL://:%d,CLIENTS://:%d,CONTROLLER://:%d", replicationPort, clientPort,
			controllerPort),
		"advertised.listeners": fmt.Sprintf("INTERNAL://%s:%d,CLIENTS://%s", n.address, replicationPort,
			n.proxy.Address()),
		"listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "INTERNAL",
		"controller.listener.names":      "CONTROLLER",
		"controller.quorum.voters":       strings.Join(voters, ","),
		"log.dirs":                       dataFolder,
	})
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, properties[name])
	}
	return []byte(text.String())
}

// The brokers' logging: everything to standard output, where the engine keeps it,
// for log4j 1 (before 4.0) and log4j 2.
const (
	log4j1 = `log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %m (%c)%n
log4j.logger.org.apache.kafka.clients.NetworkClient=ERROR
`
	log4j2 = `rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d{ISO8601} %p %m (%c)%n
logger.network.name=org.apache.kafka.clients.NetworkClient
logger.network.level=ERROR
`
)

// javaOptions give a broker a heap of half its memory, and say where it logs to.
func javaOptions(memory int64) []string {
	return append(images.JavaOptions(), fmt.Sprintf("-Xmx%dm", max(memory>>21, 8)),
		"-Dlog4j.configuration=file:"+log4j1Path, "-Dlog4j2.configurationFile="+log4j2Path)
}
