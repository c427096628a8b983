package main

import (
	"io/fs"
	"os"
	"testing"
)

func TestDocs_areUpToDate(t *testing.T) {
	pages, err := render(t.Context(), os.DirFS("../examples"))
	if err != nil {
		t.Fatal(err)
	}
	docs := os.DirFS("../docs")
	for name, want := range pages {
		got, err := fs.ReadFile(docs, name)
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is not what its schema and example say; run go generate ./terraform", name)
		}
	}
	err = fs.WalkDir(docs, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && pages[path] == "" {
			t.Errorf("docs/%s belongs to nothing; run go generate ./terraform", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
