// Gendocs writes terraform/docs from the schemas of the provider and the
// files in terraform/examples. It runs in terraform/, by go generate; a test
// fails when the pages are not what it would write.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	pages, err := render(context.Background(), os.DirFS(filepath.Join(root, "examples")))
	if err != nil {
		return err
	}
	docs := filepath.Join(root, "docs")
	if err := os.RemoveAll(docs); err != nil {
		return err
	}
	for name, text := range pages {
		path := filepath.Join(docs, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
