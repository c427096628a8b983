package commitlog

import (
	"log/slog"
	"time"
)

// Event is something that happened to a log: one of the types of this file.
// There is one for a file, a sync or a change of state, never one for a message.
type Event interface {
	// Line is the event as a line of a log. The text is the same for all events
	// of a type.
	Line() (level slog.Level, text string, args []any)
}

// RemoveReason says why a file was removed.
type RemoveReason string

// The reasons.
const (
	RemovedByAge    RemoveReason = "age"        // it was not changed for the time that messages are kept
	RemovedBySize   RemoveReason = "size"       // the log was larger than it may be
	RemovedEarly    RemoveReason = "disk"       // the disk was nearly full
	RemovedByRepair RemoveReason = "behind_end" // it had nothing but what a crash left
)

// SegmentCreated says that a file is there with its full size.
type SegmentCreated struct {
	Base  int64 // commit log offset of its first byte
	Bytes int64
}

// Line implements Event.
func (e SegmentCreated) Line() (slog.Level, string, []any) {
	return slog.LevelDebug, "commit log file is made", []any{"offset", e.Base, "bytes", e.Bytes}
}

// SegmentNotCreated says that the next file could not be made ahead of need;
// the appender tries again.
type SegmentNotCreated struct{ Err error }

// Line implements Event.
func (e SegmentNotCreated) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "cannot prepare the next commit log file", []any{"err", e.Err}
}

// SegmentSealed says that nothing is appended to a file any more.
type SegmentSealed struct{ Base, Next int64 } // its first byte and that of the file that follows

// Line implements Event.
func (e SegmentSealed) Line() (slog.Level, string, []any) {
	return slog.LevelDebug, "commit log goes on in the next file", []any{"offset", e.Base, "next", e.Next}
}

// SegmentRemoved says that a file is deleted.
type SegmentRemoved struct {
	Base, Bytes int64
	Reason      RemoveReason
}

// Line implements Event.
func (e SegmentRemoved) Line() (slog.Level, string, []any) {
	level := slog.LevelInfo
	if e.Reason == RemovedEarly || e.Reason == RemovedByRepair {
		level = slog.LevelWarn
	}
	return level, "commit log file is removed", []any{"offset", e.Base, "bytes", e.Bytes, "reason", string(e.Reason)}
}

// SegmentsMissing says that files between others are not there.
type SegmentsMissing struct {
	First string // name of the first one
	Files int64
}

// Line implements Event.
func (e SegmentsMissing) Line() (slog.Level, string, []any) {
	return slog.LevelError, "commit log files are missing, what they held is lost", []any{"first", e.First, "files", e.Files}
}

// SegmentCompleted says that a file was shorter than its size. Cut says that it
// is not the newest, so something is lost.
type SegmentCompleted struct {
	File  string
	Bytes int64 // that it had
	Cut   bool
}

// Line implements Event.
func (e SegmentCompleted) Line() (slog.Level, string, []any) {
	if e.Cut {
		return slog.LevelError, "commit log file was cut, what it held behind is lost", []any{"file", e.File, "bytes", e.Bytes}
	}
	return slog.LevelWarn, "completed a short commit log file", []any{"file", e.File, "bytes", e.Bytes}
}

// DamageSkipped says that [From, To) holds no good record and is passed over.
type DamageSkipped struct {
	From, To int64
	Err      error
}

// Line implements Event.
func (e DamageSkipped) Line() (slog.Level, string, []any) {
	return slog.LevelError, "damaged part of the commit log is skipped", []any{"from", e.From, "to", e.To, "err", e.Err}
}

// CheckProgress says how far a recovery is, each 256 MiB.
type CheckProgress struct{ From, At, FilesEnd int64 }

// Line implements Event.
func (e CheckProgress) Line() (slog.Level, string, []any) {
	return slog.LevelInfo, "commit log is being checked", []any{"from", e.From, "at", e.At, "files_end", e.FilesEnd}
}

// FlushFailed says that a sync failed: the log takes no appends any more. It
// comes once.
type FlushFailed struct{ Err error }

// Line implements Event.
func (e FlushFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "commit log stopped: sync failed", []any{"err", e.Err}
}

// FlushSlow says that a sync took longer than SlowFlush.
type FlushSlow struct {
	Took  time.Duration
	Bytes int64
}

// SlowFlush is from where on a sync is worth a word; RocketMQ's limit.
const SlowFlush = 500 * time.Millisecond

// Line implements Event.
func (e FlushSlow) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "sync of the commit log is slow", []any{"took", e.Took, "bytes", e.Bytes}
}

// BackpressureBegan says that an append was refused with ErrBusy.
type BackpressureBegan struct{ Waiting, Bytes int } // appends that wait to be written, and their records

// Line implements Event.
func (e BackpressureBegan) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "appends are refused: the disk does not keep up", []any{"waiting", e.Waiting, "bytes", e.Bytes}
}

// BackpressureEnded says that none was refused for a second.
type BackpressureEnded struct {
	Refused int // appends
	Lasted  time.Duration
}

// Line implements Event.
func (e BackpressureEnded) Line() (slog.Level, string, []any) {
	return slog.LevelInfo, "appends are accepted again", []any{"refused", e.Refused, "lasted", e.Lasted}
}

// WaiterPanicked says that the Waiter of a request panicked: a defect. Its
// request is stored or refused all the same, and all others go on.
type WaiterPanicked struct {
	Value any
	Stack string
}

// Line implements Event.
func (e WaiterPanicked) Line() (slog.Level, string, []any) {
	return slog.LevelError, "who waited for an append panicked", []any{"panic", e.Value, "stack", e.Stack}
}

// ClockSetBack says that the clock is far behind the newest record, whose store
// time new ones get for now.
type ClockSetBack struct{ Now, Newest time.Time }

// Line implements Event.
func (e ClockSetBack) Line() (slog.Level, string, []any) {
	return slog.LevelError, "the clock is far behind the newest message: new ones get its store time for now", []any{"now", e.Now, "newest", e.Newest}
}

// ClockFollowed says that the clock has stayed behind, so store times are those
// of the clock again: from Offset on they are smaller than in front of it.
type ClockFollowed struct {
	Now, Newest time.Time
	Offset      int64
}

// Line implements Event.
func (e ClockFollowed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "the clock stays behind: store times go back to it, and who looks for a time may find older messages",
		[]any{"now", e.Now, "newest", e.Newest, "offset", e.Offset}
}

// TailKept says that bytes behind the end of the log are cut off and where their
// copy is.
type TailKept struct {
	From, To int64 // commit log offsets
	File     string
}

// Line implements Event.
func (e TailKept) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "bytes behind the end of the commit log are cut off, a copy is kept", []any{"from", e.From, "to", e.To, "copy", e.File}
}

// TailNotKept says that bytes behind the end of the log are cut off and gone.
type TailNotKept struct {
	From, To int64 // commit log offsets
	Err      error // why there is no copy
}

// Line implements Event.
func (e TailNotKept) Line() (slog.Level, string, []any) {
	return slog.LevelError, "bytes behind the end of the commit log are cut off, and no copy is kept", []any{"from", e.From, "to", e.To, "err", e.Err}
}
