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
)

// Index is the page that every path of the console is answered with.
const Index = "index.html"

// BaseTag is the text of Index that names the path under which the console is served. A server that serves it
// under a prefix replaces it by a base element with that prefix, which ends in a slash.
const BaseTag = `<base href="/" />`

// ErrNotBuilt tells that the binary was built without the console.
var ErrNotBuilt = errors.New("console is not built: run `npm ci && npm run build` in console/ and build the binary again")

//go:embed all:dist
var files embed.FS

// FS returns the built console, rooted where Index lies. Files under assets/ have a hash of their content in their
// names and never change; beside each text file lie the same bytes compressed, with .gz and .br added to the name.
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
