// This file holds the table of errors that client libraries raise themselves:
// which of them say for certain that nothing was sent.

package histories

import "slices"

// The client libraries of the table, as Producer.Client names them.
const (
	ClientFranzGo    = "franz-go"
	ClientJava       = "java"
	ClientLibrdkafka = "librdkafka"
)

// ClientError is an error that a client library raises itself, without a
// broker's answer.
type ClientError struct {
	// Client library, as Producer.Client names it.
	Client string
	// Name of the error class, as SendReturn.ClientError gives it.
	Name string
	// Definite: it is raised before anything of the record is sent, so the
	// record was certainly not written. Otherwise nothing is known from it.
	Definite bool
	Why      string
}

// ClientErrorByName gives the row of a client library's error class.
func ClientErrorByName(client, name string) (ClientError, bool) {
	row, known := clientErrorIndex[[2]string{client, name}]
	return row, known
}

// ClientErrors gives all rows of the table.
func ClientErrors() []ClientError { return slices.Clone(clientErrors) }

// ClientErrorDefinite says whether a client library raises the error class only
// where nothing of the record was sent. One that the table does not have is not
// definite.
func ClientErrorDefinite(client, name string) bool {
	row, _ := ClientErrorByName(client, name)
	return row.Definite
}

// Timeouts of the Java client are one class with several meanings, so recorders
// of Java clients give the meaning with the class.
var clientErrors = []ClientError{
	{ClientFranzGo, "kgo.ErrMaxBuffered", true, "raised by TryProduce or a full buffer, before the record is buffered"},
	{ClientFranzGo, "kgo.errNoTopic", true, "raised before the record is buffered"},
	{ClientFranzGo, "kgo.errNotInTransaction", true, "raised before the record is buffered"},
	{ClientFranzGo, "kgo.ErrRecordTimeout", false, "an attempt may have been sent and not answered"},
	{ClientFranzGo, "kgo.ErrRecordRetries", false, "an attempt may have been sent and not answered"},
	{ClientFranzGo, "kgo.ErrAborting", false, "buffered records are dropped whether or not an attempt was sent"},
	{ClientFranzGo, "kgo.ErrClientClosed", false, "the client was closed whether or not an attempt was sent"},
	{ClientFranzGo, "kgo.errPurged", false, "the topic was purged whether or not an attempt was sent"},
	{ClientFranzGo, "kgo.ErrDataLoss", false, "tells of a gap, nothing about this record"},
	{ClientFranzGo, "context.Canceled", false, "the context ended whether or not an attempt was sent"},
	{ClientFranzGo, "context.DeadlineExceeded", false, "the context ended whether or not an attempt was sent"},
	{ClientFranzGo, "io.EOF", false, "the connection ended before the answer"},
	{ClientJava, "SerializationException", true, "raised by send before the record is buffered"},
	{ClientJava, "RecordTooLargeException: max.request.size", true, "raised by send before the record is buffered"},
	{ClientJava, "TimeoutException: metadata", true, "send found no metadata of the topic in max.block.ms"},
	{ClientJava, "BufferExhaustedException", true, "send found no buffer memory in max.block.ms"},
	{ClientJava, "IllegalStateException", true, "raised by send before the record is buffered"},
	{ClientJava, "TransactionAbortedException", true, "the batch had not been drained when the transaction was aborted"},
	{ClientJava, "TimeoutException: delivery", false,
		"'Expiring N record(s)' covers both 'not sent yet' and 'no answer yet'"},
	{ClientJava, "TimeoutException", false, "without the message it may be the delivery timeout"},
	{ClientJava, "RecordTooLargeException", false, "without the message it may be an answer of the broker"},
	{ClientLibrdkafka, "RD_KAFKA_MSG_STATUS_NOT_PERSISTED", true, "the library says that it was never sent"},
	{ClientLibrdkafka, "RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED", false, "sent, and not answered"},
}

var clientErrorIndex = indexClientErrors()

func indexClientErrors() map[[2]string]ClientError {
	index := make(map[[2]string]ClientError, len(clientErrors))
	for _, row := range clientErrors {
		index[[2]string{row.Client, row.Name}] = row
	}
	return index
}
