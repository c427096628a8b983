package commitlog

import "errors"

// Errors that callers branch on; all of them survive wrapping.
var (
	// ErrDiskFull: nothing was stored, reads go on, later appends work again
	// when there is space.
	ErrDiskFull = errors.New("disk full")
	// ErrBusy: too many appends are waiting; nothing was stored.
	ErrBusy = errors.New("too many appends in progress")
	// ErrTooLarge: the record or batch can never fit into a segment.
	ErrTooLarge = errors.New("larger than a commit log segment")
	// ErrFailed: a sync failed, so what is on disk is unknown. No appends are
	// accepted until the log is opened again.
	ErrFailed = errors.New("commit log stopped after a failed sync")
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("closed")
	// ErrNotFound: no record there (any more).
	ErrNotFound = errors.New("offset outside of the commit log")
)
