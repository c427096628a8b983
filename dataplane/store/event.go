package store

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
)

// Event is something that happened to a store: one of the types of this file or
// of commitlog's. Each is logged, counted by its type and given to Deps.Events.
// There is one for a file, a queue, a round of work or a change of state, never
// one for a message that is well.
type Event = commitlog.Event

// RecoveryBegan says that the folder is read from a commit log offset on.
type RecoveryBegan struct {
	Clean  bool // the last stop was
	From   int64
	Queues int // that were found
}

// Line implements Event.
func (e RecoveryBegan) Line() (slog.Level, string, []any) {
	return slog.LevelDebug, "store is being recovered", []any{"clean", e.Clean, "from", e.From, "queues", e.Queues}
}

// RecoveryEnded says what the recovery found and did.
type RecoveryEnded struct {
	Clean     bool
	From, End int64 // commit log offsets
	Cut       bool  // bytes behind the last good record were removed
	Reason    error // what stood there
	Damaged   int   // places that were passed over
	Rebuilt   int   // queues
	Took      time.Duration
}

// Line implements Event.
func (e RecoveryEnded) Line() (slog.Level, string, []any) {
	args := []any{"clean", e.Clean, "from", e.From, "end", e.End, "cut", e.Cut, "reason", e.Reason, "damaged", e.Damaged, "rebuilt", e.Rebuilt, "took", e.Took}
	if e.Clean && !e.Cut && e.Damaged == 0 {
		return slog.LevelDebug, "store is recovered", args
	}
	return slog.LevelWarn, "store was repaired", args
}

// LogBegins says that a log that was stopped cleanly has lost its first files.
type LogBegins struct{ Had, Has int64 } // commit log offsets of the oldest record

// Line implements Event.
func (e LogBegins) Line() (slog.Level, string, []any) {
	return slog.LevelError, "the first commit log files are missing, what they held is lost, unless another program has deleted them for their age",
		[]any{"had_from", e.Had, "has_from", e.Has}
}

// LogEndLost says that the log ends in front of what was synced: messages that
// were acknowledged are gone. It comes at each start until a record is behind.
type LogEndLost struct {
	From, To int64 // commit log offsets: where the log ends, and how far it is known to have come
	Next     int64 // where it goes on
	Messages int64 // that the queues know to be lost
	Queues   []LostInQueue
	More     int // queues that are not in the list
}

// Line implements Event.
func (e LogEndLost) Line() (slog.Level, string, []any) {
	var list strings.Builder
	for i, q := range e.Queues {
		if i > 0 {
			list.WriteString(", ")
		}
		fmt.Fprintf(&list, "%s queue %d: %d", q.Topic, q.Queue, q.Messages)
	}
	if e.More > 0 {
		fmt.Fprintf(&list, ", and %d more queues", e.More)
	}
	return slog.LevelError, "the end of the commit log is lost although it was synced: a file is missing, or was cut or damaged", []any{
		"lost_from", e.From, "lost_to", e.To, "goes_on_at", e.Next, "messages", e.Messages, "queues", list.String(),
		"fix", "stop the server and bring the file back from a copy or a replica; without it these messages are gone, everything else is served",
	}
}

// QueueLostMessages says that nothing is left of messages that a queue had; their
// offsets are not used again.
type QueueLostMessages struct {
	Topic    string
	Queue    int32
	From, To int64 // queue offsets
}

// Line implements Event.
func (e QueueLostMessages) Line() (slog.Level, string, []any) {
	return slog.LevelError, "messages of a queue are lost, their offsets are not used again", []any{"topic", e.Topic, "queue", e.Queue, "from", e.From, "to", e.To}
}

// CheckpointDamaged says that nothing tells what was synced.
type CheckpointDamaged struct{ Err error }

// Line implements Event.
func (e CheckpointDamaged) Line() (slog.Level, string, []any) {
	return slog.LevelError, "it is not known what was synced: the whole commit log is checked, but nothing can be missed at its end", []any{"err", e.Err}
}

// RecordDamaged says that a reader came by a damaged record; once for each.
type RecordDamaged struct {
	Offset int64 // in the commit log
	Err    error
}

// Line implements Event.
func (e RecordDamaged) Line() (slog.Level, string, []any) {
	return slog.LevelError, "damaged record is passed over", []any{"offset", e.Offset, "err", e.Err}
}

// QueueDamaged says that a consume queue is built anew from the commit log.
type QueueDamaged struct {
	Topic  string
	Queue  int32
	Batch  bool  // a batch consume queue
	Offset int64 // up to which it is whole, or where it was found damaged
	Err    error
}

// Line implements Event.
func (e QueueDamaged) Line() (slog.Level, string, []any) {
	text := "consume queue is damaged and is built anew"
	if e.Batch {
		text = "batch consume queue is damaged and is built anew"
	}
	return slog.LevelError, text, []any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "err", e.Err}
}

// QueueIncomplete says that a consume queue lacks messages that it had, or that
// the commit log has, and is built anew.
type QueueIncomplete struct {
	Topic        string
	Queue        int32
	Batch        bool
	Offset, Want int64 // where it ends, and where it should
}

// Line implements Event.
func (e QueueIncomplete) Line() (slog.Level, string, []any) {
	text := "consume queue is incomplete and is built anew"
	if e.Batch {
		text = "batch consume queue is incomplete and is built anew"
	}
	return slog.LevelError, text, []any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "want", e.Want}
}

// QueueLostPart says that a consume queue holds less than when it was synced,
// and is built anew.
type QueueLostPart struct {
	Topic                          string
	Queue                          int32
	HadFrom, HadTo, HasFrom, HasTo int64 // queue offsets
}

// Line implements Event.
func (e QueueLostPart) Line() (slog.Level, string, []any) {
	return slog.LevelError, "consume queue has lost a part and is built anew from the commit log",
		[]any{"topic", e.Topic, "queue", e.Queue, "had_from", e.HadFrom, "had_to", e.HadTo, "has_from", e.HasFrom, "has_to", e.HasTo}
}

// QueueEntryRepaired says that the entry of a message was wrong.
type QueueEntryRepaired struct {
	Topic  string
	Queue  int32
	Offset int64
}

// Line implements Event.
func (e QueueEntryRepaired) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "consume queue entry was repaired", []any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset}
}

// DirectoryRemade says that the directory of the queues is of no use.
type DirectoryRemade struct{ Err error }

// Line implements Event.
func (e DirectoryRemade) Line() (slog.Level, string, []any) {
	return slog.LevelError, "queue directory is made anew: it cannot be checked whether queues are complete, and compact ones are built from the commit log", []any{"err", e.Err}
}

// RebuildBegan says that queues are built behind the start.
type RebuildBegan struct {
	Queues   int
	From, To int64 // commit log offsets
}

// Line implements Event.
func (e RebuildBegan) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "consume queues are built anew behind the start", []any{"queues", e.Queues, "from", e.From, "to", e.To}
}

// RebuildEnded says that queues can be read again.
type RebuildEnded struct{ Queues int }

// Line implements Event.
func (e RebuildEnded) Line() (slog.Level, string, []any) {
	return slog.LevelInfo, "consume queues are built anew", []any{"queues", e.Queues}
}

// RebuildFailed says that queues could not be built, and when that is tried
// again.
type RebuildFailed struct {
	Again time.Duration
	Err   error
}

// Line implements Event.
func (e RebuildFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "consume queues cannot be built anew, their reads are refused until it is tried again", []any{"in", e.Again, "err", e.Err}
}

// RebuildCut says that the store stops before queues are built.
type RebuildCut struct{}

// Line implements Event.
func (RebuildCut) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "the store is stopped while consume queues are built anew: the next start begins again", nil
}

// MessagesMissing says that a queue has a gap in front of a message.
type MessagesMissing struct {
	Topic            string
	Queue            int32
	Batch            bool
	Offset, Physical int64
}

// Line implements Event.
func (e MessagesMissing) Line() (slog.Level, string, []any) {
	text := "messages are missing in a queue"
	if e.Batch {
		text = "messages are missing in a batch queue"
	}
	return slog.LevelError, text, []any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "physical", e.Physical}
}

// RecordRejected says that a record is in no queue, since its queue offset is
// damaged.
type RecordRejected struct {
	Topic                  string
	Queue                  int32
	Offset, Want, Physical int64 // Want is -1 when it is not known
}

// Line implements Event.
func (e RecordRejected) Line() (slog.Level, string, []any) {
	return slog.LevelError, "record with a damaged queue offset is in no queue",
		[]any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "want", e.Want, "physical", e.Physical}
}

// PlaceTaken says that a record is in no queue, since another one has its
// place: a defect.
type PlaceTaken struct {
	Topic                           string
	Queue                           int32
	Offset, Next, Physical, TakenBy int64
}

// Line implements Event.
func (e PlaceTaken) Line() (slog.Level, string, []any) {
	return slog.LevelError, "the place of a record is taken, it is in no queue",
		[]any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "next", e.Next, "physical", e.Physical, "taken_by", e.TakenBy}
}

// PlaceDiffers says that a record names another place than its entry; once for
// each queue.
type PlaceDiffers struct {
	Topic       string
	Queue       int32
	Offset      int64
	NamedQueue  int32
	NamedOffset int64
	Physical    int64
}

// Line implements Event.
func (e PlaceDiffers) Line() (slog.Level, string, []any) {
	return slog.LevelError, "record names another place than its queue entry, which counts; more of this queue are not told of",
		[]any{"topic", e.Topic, "queue", e.Queue, "offset", e.Offset, "named_queue", e.NamedQueue, "named_offset", e.NamedOffset, "physical", e.Physical}
}

// DispatchFailed says that messages are stored and not readable yet.
type DispatchFailed struct {
	Again time.Duration
	From  int64 // commit log offset
	Err   error
}

// Line implements Event.
func (e DispatchFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "new messages cannot be made readable, which is tried again", []any{"in", e.Again, "from", e.From, "err", e.Err}
}

// QueueFlushFailed says that entries stay in memory.
type QueueFlushFailed struct{ Err error }

// Line implements Event.
func (e QueueFlushFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "consume queues cannot be written", []any{"err", e.Err}
}

// MaintenanceFailed says that a checkpoint or the retention did not work; the
// next one tries again.
type MaintenanceFailed struct{ Err error }

// Line implements Event.
func (e MaintenanceFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "store maintenance failed", []any{"err", e.Err}
}

// CheckpointWritten says that everything in front of Reached, a commit log
// offset, is synced in the log and in the queues.
type CheckpointWritten struct {
	Reached int64
	Took    time.Duration // with the sync of the queues
}

// Line implements Event.
func (e CheckpointWritten) Line() (slog.Level, string, []any) {
	return slog.LevelDebug, "checkpoint is written", []any{"offset", e.Reached, "took", e.Took}
}

// IndexRemade says that the key index is built anew.
type IndexRemade struct{ Err error }

// Line implements Event.
func (e IndexRemade) Line() (slog.Level, string, []any) {
	return slog.LevelError, "key index cannot be used and is built anew", []any{"err", e.Err}
}

// IndexFailed says that keys of new messages are not known yet.
type IndexFailed struct{ Err error }

// Line implements Event.
func (e IndexFailed) Line() (slog.Level, string, []any) {
	return slog.LevelError, "keys of messages cannot be indexed", []any{"err", e.Err}
}

// IndexIncomplete says that the store stops before the index has come to the
// end of the log.
type IndexIncomplete struct{ UpTo, LogEnd int64 }

// Line implements Event.
func (e IndexIncomplete) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "the key index is not complete; the next start goes on with it", []any{"up_to", e.UpTo, "log_end", e.LogEnd}
}

// ConfigRestored says that the previous copy of a configuration file is used.
type ConfigRestored struct {
	File string
	Err  error // what is wrong with it
}

// Line implements Event.
func (e ConfigRestored) Line() (slog.Level, string, []any) {
	return slog.LevelError, "configuration file is damaged or missing, its previous copy is used", []any{"file", e.File, "err", e.Err}
}

// FormatUnknown says that the sizes of the folder are not known.
type FormatUnknown struct{ Err error }

// Line implements Event.
func (e FormatUnknown) Line() (slog.Level, string, []any) {
	return slog.LevelError, "nothing says which sizes the store was made with: those of the configuration are taken", []any{"file", formatFile, "err", e.Err}
}

// TermNotBegun says that the start of this leadership is not noted.
type TermNotBegun struct{ Err error }

// Line implements Event.
func (e TermNotBegun) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "no term begins: the disk is full", []any{"err", e.Err}
}

// RetentionRan says that files were deleted, of which commitlog.SegmentRemoved
// tells each.
type RetentionRan struct {
	Files int
	Bytes int64
	First int64 // commit log offset that is the oldest now
}

// Line implements Event.
func (e RetentionRan) Line() (slog.Level, string, []any) {
	return slog.LevelInfo, "old messages are deleted", []any{"files", e.Files, "bytes", e.Bytes, "first", e.First}
}

// DiskState says how full the disk is.
type DiskState uint8

// The states.
const (
	DiskEnough  DiskState = iota
	DiskCrowded           // the oldest files go before their time
	DiskFull              // appends are refused
)

// DiskChanged says that the state of the disk is another one.
type DiskChanged struct {
	From, To DiskState
	Used     float64 // share of the disk, 0 to 1
	Free     int64
	Limit    float64 // the share from which on To holds, or below which it does
}

// Line implements Event.
func (e DiskChanged) Line() (slog.Level, string, []any) {
	args := []any{"used", e.Used, "free", e.Free, "limit", e.Limit}
	switch {
	case e.To == DiskFull:
		return slog.LevelError, "disk is full: messages are refused", args
	case e.From == DiskFull:
		return slog.LevelInfo, "disk has space again: messages are accepted", args
	case e.To == DiskCrowded:
		return slog.LevelWarn, "disk is nearly full: the oldest messages are deleted before their time", args
	}
	return slog.LevelInfo, "disk has enough space again", args
}

// DiskUnknown says that the free space could not be read.
type DiskUnknown struct{ Err error }

// Line implements Event.
func (e DiskUnknown) Line() (slog.Level, string, []any) {
	return slog.LevelWarn, "free disk space is unknown", []any{"err", e.Err}
}

// ClockWrong says that the clock is far from the newest message.
type ClockWrong struct {
	Ahead       bool // else behind
	Now, Newest time.Time
}

// Line implements Event.
func (e ClockWrong) Line() (slog.Level, string, []any) {
	text := "the clock is far behind the newest message: ages are counted from a wrong time, or that was stored with one"
	if e.Ahead {
		text = "the clock is far ahead of the newest message: nothing is deleted by age until it has stayed there for the time that messages are kept"
	}
	return slog.LevelError, text, []any{"now", e.Now, "newest", e.Newest}
}
