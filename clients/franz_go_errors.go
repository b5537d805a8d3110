// This file holds how franz-go's errors are named in a history.

package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproof/ackproof/histories"
)

// franzGoErrors are the errors that kgo raises itself, in the order in which they
// are looked for: a limit of kgo's wraps the last broker's answer, and the limit is
// what ended the send.
var franzGoErrors = []struct {
	err  error
	name string
}{
	{kgo.ErrRecordTimeout, "kgo.ErrRecordTimeout"},
	{kgo.ErrRecordRetries, "kgo.ErrRecordRetries"},
	{kgo.ErrMaxBuffered, "kgo.ErrMaxBuffered"},
	{kgo.ErrAborting, "kgo.ErrAborting"},
	{kgo.ErrClientClosed, "kgo.ErrClientClosed"},
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// franzGoTexts are errors that kgo does not export.
var franzGoTexts = map[string]string{
	"cannot produce record with no topic and no default topic":             "kgo.errNoTopic",
	"cannot produce record transactionally if not in a transaction":        "kgo.errNotInTransaction",
	"topic purged while buffered":                                          "kgo.errPurged",
	"unable to partition record due to no usable partitions":               "kgo.errNoPartitions",
	"metadata update is missing a partition that we were previously using": "kgo.errMissingMetadataPartition",
}

// nameFranzGoError gives the name of a Kafka error or, where it is none, of kgo's
// own error class.
func nameFranzGoError(err error) (kafka, client string) {
	for _, known := range franzGoErrors {
		if errors.Is(err, known.err) {
			return "", known.name
		}
	}
	var answer *kerr.Error
	if errors.As(err, &answer) {
		return histories.ErrorName(answer.Code), ""
	}
	var loss *kgo.ErrDataLoss
	if errors.As(err, &loss) {
		return "", "kgo.ErrDataLoss"
	}
	if errors.Is(err, io.EOF) {
		return "", "io.EOF"
	}
	if name, known := franzGoTexts[err.Error()]; known {
		return "", name
	}
	return "", strings.TrimPrefix(fmt.Sprintf("%T", innermost(err)), "*")
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
