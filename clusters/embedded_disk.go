// This file holds the embedded cluster's logs on disk, and the planted fault that
// restarts all brokers without the last part of them.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackproof/ackproof/clusters/engine"
)

// disk is a temporary directory with the logs of kfake.
type disk struct {
	directory string
	// current is what kfake works on; marked, what MarkLogs copied, or empty.
	current, marked string
	copies          int
	// erase removes the directory; `verify clean` does where this process is killed.
	erase func() error
}

func newDisk() (*disk, error) {
	directory, erase, err := engine.TemporaryFolder(engine.FolderLogs)
	if err != nil {
		return nil, fmt.Errorf("making a directory for the logs: %w", err)
	}
	return &disk{directory: directory, current: filepath.Join(directory, "0"), erase: erase}, nil
}

func (d *disk) remove() error {
	if err := d.erase(); err != nil {
		return fmt.Errorf("removing the logs: %w", err)
	}
	return nil
}

// mark copies the logs as they are. kfake goes on writing: what is torn at the end
// of a file it ignores when it reads the copy.
func (d *disk) mark() error {
	d.copies++
	marked := filepath.Join(d.directory, fmt.Sprint(d.copies))
	err := filepath.WalkDir(d.current, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(path, ".tmp") {
			return nil // being renamed into its place
		}
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(d.current, path)
		if err != nil {
			return err
		}
		to := filepath.Join(marked, inside)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return copyFile(path, to)
	})
	if err != nil {
		return fmt.Errorf("copying the logs: %w", err)
	}
	d.marked = marked
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // it was only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// CanLoseSuffix gives nil where the logs are on disk.
func (c *Embedded) CanLoseSuffix() error {
	if c.disk == nil {
		return errors.New("its logs are in memory; start it with its logs on disk")
	}
	return nil
}

// MarkLogs remembers the logs as they are.
func (c *Embedded) MarkLogs(ctx context.Context) error {
	c.membership.Lock()
	defer c.membership.Unlock()
	if err := c.CanLoseSuffix(); err != nil {
		return fmt.Errorf("marking the logs: %w", err)
	}
	return c.ask(ctx, func(*kfake.Cluster) error { return c.disk.mark() })
}

// RestartLosingSuffix restarts every broker with the logs as they were marked. Their
// leaders stay, their leader epochs go up.
func (c *Embedded) RestartLosingSuffix(ctx context.Context) ([]LostSuffix, error) {
	c.membership.Lock()
	defer c.membership.Unlock()
	if err := c.canRestart(); err != nil {
		return nil, fmt.Errorf("restarting the brokers without the last part of their logs: %w", err)
	}
	before, err := c.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.restart(ctx); err != nil {
		return nil, fmt.Errorf("restarting the brokers without the last part of their logs: %w", err)
	}
	if err := c.electAbove(ctx, before); err != nil {
		return nil, err
	}
	after, err := c.partitions(ctx)
	if err != nil {
		return nil, err
	}
	var lost []LostSuffix
	for i, p := range before {
		if end := after[i].end; end < p.end {
			lost = append(lost, LostSuffix{Topic: p.Topic, Partition: p.Partition, From: end, To: p.end})
		}
	}
	return lost, nil
}

func (c *Embedded) canRestart() error {
	if err := c.CanLoseSuffix(); err != nil {
		return err
	}
	if c.disk.marked == "" {
		return errors.New("the logs were not marked")
	}
	for _, node := range c.nodes {
		if node.away {
			return fmt.Errorf("broker %d is away; all must be there", node.id)
		}
	}
	return nil
}

// restart stops kfake and starts it again on the marked logs.
func (c *Embedded) restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.fake.Close()
	for _, node := range c.nodes {
		node.reset()
	}
	c.fake = nil
	c.disk.current, c.disk.marked = c.disk.marked, ""
	fake, err := c.startFake(ctx)
	if err != nil {
		return err
	}
	c.fake = fake
	return nil
}

// partitionEnd is a partition's leader and log end.
type partitionEnd struct {
	Leader
	end int64
}

// partitions gives all partitions of the topics that were created here, in the order
// of their names.
func (c *Embedded) partitions(ctx context.Context) ([]partitionEnd, error) {
	c.known.Lock()
	topics := make(map[string]int32, len(c.topics))
	for name, memory := range c.topics {
		topics[name] = memory.partitions
	}
	c.known.Unlock()
	var all []partitionEnd
	err := c.ask(ctx, func(fake *kfake.Cluster) error {
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			for partition := range topics[topic] {
				info := fake.PartitionInfo(topic, partition)
				if info == nil {
					return fmt.Errorf("there is no partition %s/%d any more", topic, partition)
				}
				all = append(all, partitionEnd{
					Leader: Leader{Topic: topic, Partition: partition, Broker: info.Leader, Epoch: info.Epoch},
					end:    info.HighWatermark,
				})
			}
		}
		return nil
	})
	return all, err
}

// electAbove gives each partition its leader of before, in an epoch above the one of
// before: clients refuse to follow a leader epoch that falls.
func (c *Embedded) electAbove(ctx context.Context, before []partitionEnd) error {
	return c.ask(ctx, func(fake *kfake.Cluster) error {
		for _, p := range before {
			for {
				if err := fake.MoveTopicPartition(p.Topic, p.Partition, p.Broker); err != nil {
					return fmt.Errorf("electing the leader of %s again: %w", p.Name(), err)
				}
				if info := fake.PartitionInfo(p.Topic, p.Partition); info == nil || info.Epoch > p.Epoch {
					break
				}
			}
		}
		return nil
	})
}
