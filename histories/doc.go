// Package histories holds what everything else in Ackproof talks about: the
// lines of a history (operations, attempts, faults, final reads), the header
// that says under which configuration they happened, the table of Kafka's error
// codes, and the file format, reading and writing. It also imports the formats
// of other tools.
//
// A history records the truth: call and return times, the client's raw result,
// and what went over the wire. What that means (acknowledged, failed, unknown;
// held or violated) is decided elsewhere, in package checker.
//
// The package imports nothing else of Ackproof and no Kafka client, so that any
// project's tests can read and write histories with it.
//
// FORMAT.md beside this file describes the file format for recorders in other
// languages.
package histories
