package store

import (
	"errors"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Errors that callers branch on; all of them survive wrapping.
var (
	ErrNewerVersion       = errors.New("store was written by a newer version")
	ErrSizes              = errors.New("store has files of another size")
	ErrReadOnly           = vfs.ErrReadOnly
	ErrTooManyFiles       = vfs.ErrTooManyFiles
	ErrLocked             = errors.New("data directory is used by another process")
	ErrMessageTooLarge    = errors.New("message too large")
	ErrPropertiesTooLarge = message.ErrPropertiesTooLarge
	ErrTopic              = message.ErrTopic
	ErrName               = errors.New("name cannot be a folder name")
	ErrQueueID            = errors.New("negative queue id")
	ErrProperties         = errors.New("properties contain a zero byte")
	ErrBatch              = errors.New("messages of a batch must share topic, queue and type")
	ErrUnsupported        = errors.New("topic has batch consume queues, to which nothing can be appended")
	ErrQueueLayout        = errors.New("queues have another layout")
	ErrUnclean            = errors.New("the store was not stopped cleanly")
	ErrQueuesDamaged      = errors.New("queues are damaged")
	ErrDiskFull           = commitlog.ErrDiskFull
	ErrBusy               = commitlog.ErrBusy
	ErrFailed             = commitlog.ErrFailed // a sync failed: no appends until the store is opened again
	ErrClosed             = commitlog.ErrClosed
	ErrBuilding           = errors.New("the queue is being built anew")
	ErrIndexing           = errors.New("the key index is being built")
	ErrNotFound           = errors.New("no record at this offset")
	ErrCorrupt            = message.ErrCorrupt
	ErrConfigDamaged      = errors.New("configuration damaged")
)
