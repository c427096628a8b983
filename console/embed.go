// Package console carries the web console inside the binary.
//
// It owns the built files and nothing else: how they are served (base path, caching, security headers) is the
// business of the HTTP server. The sources are TypeScript under src; `npm ci && npm run build` in this folder fills
// dist. Only a placeholder of dist is committed, so that Go builds without Node; FS then says what to do.
package console

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Index is the page that every path of the console is answered with. It names files by paths from the root
// (src="/assets/…"); a server that serves the console under a prefix puts the prefix in front of them. All other files
// find each other relative to where they lie.
const Index = "index.html"

// ErrNotBuilt tells that the binary was built without the console.
var ErrNotBuilt = errors.New("console is not built: run `npm ci && npm run build` in console/ and build the binary again")

//go:embed all:dist
var files embed.FS

// FS returns the built console, rooted where Index lies. Files under assets/ have a hash of their content in their
// names and never change; beside the larger ones lie the same bytes compressed, see Encoded.
// The error is ErrNotBuilt when there is no build inside the binary. The file system is read-only and safe for use
// by many goroutines.
func FS() (fs.FS, error) {
	return open(files)
}

func open(all fs.FS) (fs.FS, error) {
	dist, err := fs.Sub(all, "dist")
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	if _, err := fs.Stat(dist, Index); err != nil {
		return nil, ErrNotBuilt
	}
	return dist, nil
}

// Encoded chooses the copy of a file that a client takes, by its Accept-Encoding header: the name of the file to send
// and its Content-Encoding, which is empty for the file itself. Whoever sends the copy also sends the Content-Type of
// name and "Vary: Accept-Encoding".
func Encoded(dist fs.FS, name, acceptEncoding string) (file, encoding string) {
	for _, c := range []struct{ encoding, suffix string }{{"br", ".br"}, {"gzip", ".gz"}} {
		if !accepts(acceptEncoding, c.encoding) {
			continue
		}
		if _, err := fs.Stat(dist, name+c.suffix); err == nil {
			return name + c.suffix, c.encoding
		}
	}
	return name, ""
}

func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		token, weight, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(token), encoding) {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		return !ok || strings.Trim(q, "0.") != ""
	}
	return false
}
