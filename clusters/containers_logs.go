// This file holds what is done to the brokers' logs behind their backs.

package clusters

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
)

var _ LogEraser = (*Containers)(nil)

// emptyCheckpoint is a checkpoint of leader epochs without an entry: its version, and how
// many there are.
const emptyCheckpoint = "0\n0\n"

// EraseLogs empties the partitions' files and leaves their folders. A broker that starts
// then finds logs that begin and end at 0. A log of several segments is refused: where the
// next offset goes is said by a segment's name, and no file can be removed from outside of
// a container that does not run.
func (c *Containers) EraseLogs(ctx context.Context, broker int32, topic string) ([]int32, error) {
	n, err := c.node(broker)
	if err != nil {
		return nil, err
	}
	if state, err := c.engine.State(ctx, n.broker); err != nil || state.Running {
		return nil, fmt.Errorf("erasing logs of broker %d: its process must not run (%v)", broker, err)
	}
	leaders, err := c.Leaders(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("erasing logs of broker %d: %w", broker, err)
	}
	var erased []int32
	for _, p := range leaders {
		if !slices.Contains(p.Replicas, broker) {
			continue
		}
		if err := n.eraseLog(ctx, topic, p.Partition); err != nil {
			return erased, fmt.Errorf("erasing the log of %s on broker %d: %w", p.Name(), broker, err)
		}
		erased = append(erased, p.Partition)
	}
	return erased, nil
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
