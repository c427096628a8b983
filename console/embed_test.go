package console

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func TestOpen_tellsThatTheConsoleIsNotBuilt(t *testing.T) {
	_, err := open(fstest.MapFS{"dist/.gitkeep": {}})
	if !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("got %v, want ErrNotBuilt", err)
	}
}

func TestOpen_findsTheIndex(t *testing.T) {
	dist, err := open(fstest.MapFS{"dist/index.html": {Data: []byte("<!doctype html>")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(dist, Index); err != nil {
		t.Fatal(err)
	}
}

// A build that is there must be one that the server can serve: the marker for the base path stands in the index,
// everything the index names exists, and nothing needs an inline script, which the content security policy refuses.
func TestFS_isServable(t *testing.T) {
	dist, err := FS()
	if errors.Is(err, ErrNotBuilt) {
		if _, statErr := fs.Stat(files, "dist/.gitkeep"); statErr != nil {
			t.Fatalf("neither a build nor the placeholder: %v", statErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(dist, Index)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), BaseTag); n != 1 {
		t.Errorf("%s holds %q %d times, want once", Index, BaseTag, n)
	}
	if regexp.MustCompile(`<script[^>]*>[^<]`).Match(page) || regexp.MustCompile(`\son[a-z]+=`).Match(page) {
		t.Errorf("%s has an inline script", Index)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(string(page), -1) {
		if _, err := fs.Stat(dist, m[1]); err != nil {
			t.Errorf("%s names %s: %v", Index, m[1], err)
		}
	}
}
