// Package clients holds what talks to a Kafka cluster and writes down what it
// did: numbered events whose payload can be verified, producer properties under
// Kafka's own names, the recorder, the recording producers and consumers with one
// adapter per client library, and the final read.
//
// The client library under test is never changed to make recording easier. What
// it cannot honour is refused by name, and the properties that are really in force
// are recorded.
package clients
