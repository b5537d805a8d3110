package histories

import (
	"context"
	"errors"
)

func jepsenHeader(string) *Header { return &Header{} }
func (f *File) jepsenLines(ctx context.Context, yield func(Entry, error) bool) {
	yield(Entry{}, errors.New("EDN histories cannot be read yet"))
}
func (f *File) readNeutral(text []byte) error {
	return errors.New("it is JSON, but no history; " + accepted)
}
