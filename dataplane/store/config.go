package store

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// FlushMode says what an append with DurabilityDefault waits for.
type FlushMode uint8

// The flush modes.
const (
	FlushAsync  FlushMode = iota // reply after the write, sync every FlushInterval
	FlushSync                    // reply after the sync that covers the record
	FlushQuorum                  // reply when most voters of the broker group have synced the record
)

var flushNames = [...]string{"async", "sync", "quorum"}

// ParseFlushMode returns the mode with the name.
func ParseFlushMode(name string) (FlushMode, error) {
	for i, n := range flushNames {
		if n == name {
			return FlushMode(i), nil
		}
	}
	return 0, fmt.Errorf("flush %q: it is async, sync or quorum", name)
}

// waits reports whether replies wait for a sync.
func (m FlushMode) waits() bool { return m != FlushAsync }

// QueueLayout says how consume queues lie on the disk.
type QueueLayout uint8

// The layouts. ConvertQueues makes one into the other.
const (
	LayoutCompatible QueueLayout = iota // a folder and files of their own, as RocketMQ has them: for up to some thousand queues
	LayoutCompact                       // pages of shared files: for any number
)

var layoutNames = [...]string{"compatible", "compact"}

// String is the name in configurations.
func (l QueueLayout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return "unknown"
}

// ParseQueueLayout returns the layout with the name.
func ParseQueueLayout(name string) (QueueLayout, error) {
	for i, n := range layoutNames {
		if n == name {
			return QueueLayout(i), nil
		}
	}
	return 0, fmt.Errorf("queue layout %q: it is compatible or compact", name)
}

// Config shapes a store. The sizes are part of the data: a folder must always
// be opened with the sizes that it was made with.
type Config struct {
	Dir               string
	SegmentBytes      int64 // size of a commit log file
	QueueSegmentBytes int64 // size of a consume queue file, rounded up to 20
	QueueLayout       QueueLayout
	IndexSlots        int32         // hash table of a key index file
	IndexEntries      int32         // room of a key index file
	IndexCompatible   bool          // write the key index as RocketMQ does; anybody can make its hashes collide
	Flush             FlushMode     //
	FlushInterval     time.Duration // of the commit log in FlushAsync
	QueueFlush        time.Duration // how often queue entries are written to their files
	Checkpoint        time.Duration // how often queues are synced and the recovery point moves
	Retention         time.Duration // a commit log file unchanged for so long is deleted
	RetentionBytes    int64         // the oldest commit log files go while all together have more; 0 for no limit
	DeleteHours       []int         // hours of the clock's day at which files are deleted by age; none for all
	RetentionCheck    time.Duration // how often files and disk space are looked at
	StoreHost         netip.AddrPort
	RebuildBehind     int64   // damaged queues are built anew behind the start when the commit log has more bytes
	MaxMessageBytes   int     // of a body
	DiskFullRatio     float64 // used share of the disk above which appends are refused
	DiskCleanRatio    float64 // used share above which the oldest files go whatever their age, and below which appends are accepted again
	DiskFreeBytes     int64   // free space that is enough whatever the two ratios say
	HotBytes          int64   // reads further behind the end of the commit log are cold; 0 for 40 % of the memory
	ColdRate          int64   // bytes a second that consumer groups read cold, all together
	ColdGroupRate     int64   // the same of one group
	ColdInFlight      int64   // bytes that all of them read cold at a time
	ColdGroupInFlight int64   // the same of one group
	Preallocate       bool    // make the next commit log file ahead of need
	DelayLevels       []time.Duration
}

// DefaultConfig returns the sizes and times of RocketMQ.
func DefaultConfig() Config {
	const minute, hour = time.Minute, time.Hour
	return Config{
		SegmentBytes: 1 << 30, QueueSegmentBytes: 6_000_000, IndexSlots: 5_000_000, IndexEntries: 20_000_000,
		FlushInterval: 500 * time.Millisecond, QueueFlush: time.Second, Checkpoint: time.Minute,
		Retention: 72 * hour, RetentionCheck: 10 * time.Second,
		RebuildBehind: 256 << 20, MaxMessageBytes: 4 << 20, DiskFullRatio: 0.90, DiskCleanRatio: 0.85, DiskFreeBytes: 4 << 30,
		ColdRate: 3 << 29, ColdGroupRate: 1 << 30, ColdInFlight: 8 << 20, ColdGroupInFlight: 1 << 20,
		Preallocate: true,
		DelayLevels: []time.Duration{
			time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, minute, 2 * minute, 3 * minute, 4 * minute, 5 * minute,
			6 * minute, 7 * minute, 8 * minute, 9 * minute, 10 * minute, 20 * minute, 30 * minute, hour, 2 * hour,
		},
	}
}

// Validate reports every setting that cannot work, joined.
func (c *Config) Validate() error {
	var errs []error
	bad := func(name string, value any, rule string) {
		errs = append(errs, fmt.Errorf("store.%s is %v: %s", name, value, rule))
	}
	if c.Dir == "" {
		bad("dir", `""`, "must name a folder")
	}
	if c.MaxMessageBytes < 1 || c.MaxMessageBytes > 1<<30 {
		bad("max_message_bytes", c.MaxMessageBytes, "must be 1 to 1073741824")
	}
	if c.SegmentBytes < 4096 || c.SegmentBytes > 1<<31-1 {
		bad("segment_bytes", c.SegmentBytes, "must be 4096 to 2147483647")
	}
	if c.QueueSegmentBytes < 20 || c.QueueSegmentBytes > 1<<31-20 {
		bad("queue_segment_bytes", c.QueueSegmentBytes, "must be 20 to 2147483628")
	}
	if c.IndexSlots < 1 || c.IndexEntries < 2 || 40+4*int64(c.IndexSlots)+20*int64(c.IndexEntries) > 1<<31-1 {
		bad("index_entries", c.IndexEntries, fmt.Sprintf("a key index file with index_slots (%d) must have at least 1 slot and 2 entries, and fit into 2147483647 bytes", c.IndexSlots))
	}
	if c.QueueLayout > LayoutCompact {
		bad("queue_layout", c.QueueLayout, "must be compatible or compact")
	}
	if c.Flush > FlushQuorum {
		bad("flush", c.Flush, "unknown mode")
	}
	for name, d := range map[string]time.Duration{
		"flush_interval": c.FlushInterval, "queue_flush": c.QueueFlush, "checkpoint": c.Checkpoint,
		"retention": c.Retention, "retention_check": c.RetentionCheck,
	} {
		if d <= 0 {
			bad(name, d, "must be positive")
		}
	}
	if c.RetentionBytes < 0 || c.RetentionBytes > 0 && c.RetentionBytes < 2*c.SegmentBytes {
		bad("retention_bytes", c.RetentionBytes, fmt.Sprintf("must be 0 for no limit or at least two commit log files (%d)", 2*c.SegmentBytes))
	}
	if c.HotBytes < 0 {
		bad("hot_bytes", c.HotBytes, "must be 0 for 40 % of the memory or the bytes behind the end of the commit log that are read freely")
	}
	for name, n := range map[string]int64{
		"cold_rate": c.ColdRate, "cold_group_rate": c.ColdGroupRate, "cold_in_flight": c.ColdInFlight, "cold_group_in_flight": c.ColdGroupInFlight,
	} {
		if n < coldLeast {
			bad(name, n, fmt.Sprintf("must be at least %d bytes", coldLeast))
		}
	}
	for _, hour := range c.DeleteHours {
		if hour < 0 || hour > 23 {
			bad("delete_hours", c.DeleteHours, "must be hours of the day, 0 to 23")
			break
		}
	}
	if c.DiskFullRatio <= 0 || c.DiskFullRatio > 1 || c.DiskCleanRatio <= 0 || c.DiskCleanRatio > c.DiskFullRatio {
		bad("disk_full_ratio", c.DiskFullRatio, fmt.Sprintf("0 < disk_clean_ratio (%v) <= disk_full_ratio <= 1", c.DiskCleanRatio))
	}
	return errors.Join(errs...)
}

// Deps are what a store is given. Nil members get the real thing: vfs.OS,
// time.Now, a logger that discards, nobody who listens.
type Deps struct {
	FS     vfs.FS
	Now    func() time.Time
	Logger *slog.Logger
	Folds  []Fold
	// Events is told what happens, after the log. It must not block nor call the
	// store, and several goroutines call it.
	Events func(Event)
}

// Fold sees every record of the commit log once, in order, from one goroutine.
type Fold struct {
	// From is the commit log offset of the first record that the fold wants;
	// read once, after recovery. Records in front of the log's start are gone.
	From func() int64
	// Apply gets one record; rec is valid during the call only.
	Apply func(offset int64, rec []byte)
}
