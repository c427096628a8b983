package console

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
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

func TestEncoded_takesTheSmallestCopyThatTheClientReads(t *testing.T) {
	dist := fstest.MapFS{"assets/a.js": {}, "assets/a.js.gz": {}, "assets/a.js.br": {}, "assets/b.js": {}, "assets/c.js": {}, "assets/c.js.gz": {}}
	for _, c := range []struct{ name, accept, file, encoding string }{
		{"assets/a.js", "gzip, deflate, br, zstd", "assets/a.js.br", "br"},
		{"assets/a.js", "gzip", "assets/a.js.gz", "gzip"},
		{"assets/a.js", "GZIP;q=0.5, br;q=0", "assets/a.js.gz", "gzip"},
		{"assets/a.js", "br;q=0.000, gzip;q=0", "assets/a.js", ""},
		{"assets/a.js", "", "assets/a.js", ""},
		{"assets/b.js", "gzip, br", "assets/b.js", ""},
		{"assets/c.js", "gzip, br", "assets/c.js.gz", "gzip"},
	} {
		file, encoding := Encoded(dist, c.name, c.accept)
		if file != c.file || encoding != c.encoding {
			t.Errorf("%s for %q: got %s %q, want %s %q", c.name, c.accept, file, encoding, c.file, c.encoding)
		}
	}
}

// A build that is there must be one that the server can serve: everything the index names exists, the larger files have
// compressed copies, and nothing needs an inline script, which the content security policy refuses.
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
	if regexp.MustCompile(`<script[^>]*>[^<]`).Match(page) || regexp.MustCompile(`\son[a-z]+=`).Match(page) {
		t.Errorf("%s has an inline script", Index)
	}
	named := regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(string(page), -1)
	if len(named) == 0 {
		t.Errorf("%s names no file", Index)
	}
	for _, m := range named {
		if _, err := fs.Stat(dist, m[1]); err != nil {
			t.Errorf("%s names %s: %v", Index, m[1], err)
		}
		if file, _ := Encoded(dist, m[1], "br"); path.Ext(m[1]) == ".js" && file == m[1] {
			t.Errorf("%s has no compressed copy", m[1])
		}
	}
}
