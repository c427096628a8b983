// Package migrations holds the control plane's schema as versioned SQL, one
// folder per database. A file never changes after a release: sqldb checks its
// sum. Numbers leave room: 0001 to 0099 for the control plane, from 0100 for
// billing.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// For returns the files of a driver, "mysql" or "sqlite".
func For(driver string) (fs.FS, error) { return fs.Sub(files, driver) }
