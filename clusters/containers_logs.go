// This file holds what is done to the brokers' logs behind their backs.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
)

var _ LogEraser = (*Containers)(nil)

// emptyCheckpoint is a checkpoint of leader epochs without an entry: its version, and how
// many there are.
const emptyCheckpoint = "0\n0\n"

// EraseLog empties the partition's files and leaves its folder: a broker that starts then
// finds a log that begins and ends at 0. A log of several segments is refused: where the next
// offset goes is said by a segment's name, and no file can be removed from outside of a
// container that does not run.
func (c *Containers) EraseLog(ctx context.Context, broker int32, topic string, partition int32) error {
	n, err := c.node(broker)
	if err != nil {
		return err
	}
	state, err := c.engine.State(ctx, n.broker)
	if err == nil && state.Running {
		err = errors.New("its process must not run")
	}
	if err == nil {
		err = n.eraseLog(ctx, topic, partition)
	}
	if err != nil {
		return fmt.Errorf("erasing the log of %s/%d on broker %d: %w", topic, partition, broker, err)
	}
	return nil
}

func (n *containerNode) eraseLog(ctx context.Context, topic string, partition int32) error {
	folder := fmt.Sprintf("%s/%s-%d", dataFolder, topic, partition)
	files := map[string][]byte{"leader-epoch-checkpoint": []byte(emptyCheckpoint)}
	segments := 0
	err := n.cluster.engine.Files(ctx, n.broker, folder, func(file string, _ io.Reader) error {
		switch path.Ext(file) {
		case ".log":
			segments++
			files[file] = nil
		case ".index", ".timeindex", ".txnindex":
			files[file] = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	if segments != 1 {
		return fmt.Errorf("it has %d segments, and only one of a single segment can be emptied", segments)
	}
	return n.cluster.engine.Put(ctx, n.broker, folder, files)
}
