// This file holds what is done to images.

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// HasImage says whether the engine has the image already.
func (e *Engine) HasImage(ctx context.Context, reference string) (bool, error) {
	_, err := e.client.ImageInspect(ctx, reference)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for the image %s: %w", reference, err)
	}
	return true, nil
}

// Pull pulls an image from its registry.
func (e *Engine) Pull(ctx context.Context, reference string) error {
	answer, err := e.client.ImagePull(ctx, reference, client.ImagePullOptions{})
	if err == nil {
		err = answer.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("pulling the image %s: %w", reference, err)
	}
	return nil
}

// Import makes an image of a root file system, a tar archive. Changes are in the words
// of a Dockerfile, as `LABEL x=y`.
func (e *Engine) Import(ctx context.Context, reference string, files io.Reader, changes ...string) error {
	answer, err := e.client.ImageImport(ctx, client.ImageImportSource{Source: files, SourceName: "-"}, reference,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("importing the image %s: %w", reference, err)
	}
	defer func() { _ = answer.Close() }() // only read
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("importing the image %s: %w", reference, err)
	}
	if has, err := e.HasImage(ctx, reference); err != nil || !has {
		return fmt.Errorf("importing the image %s: the engine does not have it afterwards: %w", reference, err)
	}
	return nil
}

// CanPull asks the image's registry whether it has the image, without pulling it.
func (e *Engine) CanPull(ctx context.Context, reference string) error {
	if _, err := e.client.DistributionInspect(ctx, reference, client.DistributionInspectOptions{}); err != nil {
		return fmt.Errorf("asking its registry for the image %s: %w", reference, err)
	}
	return nil
}

// Commit makes an image of what a container has become.
func (e *Engine) Commit(ctx context.Context, container, reference string, changes ...string) error {
	options := client.ContainerCommitOptions{Reference: reference, Changes: changes}
	if _, err := e.client.ContainerCommit(ctx, container, options); err != nil {
		return fmt.Errorf("making the image %s of the container %s: %w", reference, container, err)
	}
	return nil
}

// Images gives the references of the images that were built here; the id of one that
// has none any more.
func (e *Engine) Images(ctx context.Context) ([]string, error) {
	return e.images(ctx, "those that were built here", client.Filters{}.Add("label", LabelImage))
}

// ImagesNamed gives the references of the images whose name has the form of one of
// the patterns, as apache/kafka.
func (e *Engine) ImagesNamed(ctx context.Context, patterns ...string) ([]string, error) {
	return e.images(ctx, strings.Join(patterns, ", "), client.Filters{}.Add("reference", patterns...))
}

func (e *Engine) images(ctx context.Context, what string, filter client.Filters) ([]string, error) {
	answer, err := e.client.ImageList(ctx, client.ImageListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("listing the images (%s): %w", what, err)
	}
	var references []string
	for _, image := range answer.Items {
		named := slices.DeleteFunc(image.RepoTags, func(tag string) bool { return strings.HasPrefix(tag, "<none>") })
		if len(named) == 0 {
			named = []string{image.ID}
		}
		references = append(references, named...)
	}
	slices.Sort(references)
	return references, nil
}

// ErrInUse says that a container has the image.
var ErrInUse = errors.New("a container has it")

// RemoveImage removes an image. One that is gone is no error; ErrInUse where it is in
// use.
func (e *Engine) RemoveImage(ctx context.Context, reference string) error {
	_, err := e.client.ImageRemove(ctx, reference, client.ImageRemoveOptions{})
	if errdefs.IsConflict(err) {
		return fmt.Errorf("removing the image %s: %w", reference, ErrInUse)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the image %s: %w", reference, err)
	}
	return nil
}
