// This file holds what is done to images.

package engine

import (
	"context"
	"fmt"
	"io"

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

// Images gives the references of the images that were built here.
func (e *Engine) Images(ctx context.Context) ([]string, error) {
	answer, err := e.client.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("label", LabelImage)})
	if err != nil {
		return nil, fmt.Errorf("listing the images that were built here: %w", err)
	}
	var references []string
	for _, image := range answer.Items {
		references = append(references, image.RepoTags...)
	}
	return references, nil
}

// RemoveImage removes an image.
func (e *Engine) RemoveImage(ctx context.Context, reference string) error {
	if _, err := e.client.ImageRemove(ctx, reference, client.ImageRemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the image %s: %w", reference, err)
	}
	return nil
}
