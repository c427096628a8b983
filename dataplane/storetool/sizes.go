package storetool

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Sizes are those that a folder was made with. RocketMQ calls them
// mappedFileSizeCommitLog, mappedFileSizeConsumeQueue, maxHashSlotNum and
// maxIndexNum.
type Sizes struct {
	SegmentBytes      int64 `json:"segment_bytes"`
	QueueSegmentBytes int64 `json:"queue_segment_bytes"`
	IndexSlots        int32 `json:"index_slots"`
	IndexEntries      int32 `json:"index_entries"`
}

func (s Sizes) config(dir string) store.Config {
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = dir, s.SegmentBytes, s.QueueSegmentBytes, false
	cfg.IndexSlots, cfg.IndexEntries = s.IndexSlots, s.IndexEntries
	return cfg
}

// or takes what is not given from the folder's own format file.
func (s Sizes) or(f store.Format) Sizes {
	return Sizes{
		cmp.Or(s.SegmentBytes, f.SegmentBytes), cmp.Or(s.QueueSegmentBytes, f.QueueSegmentBytes),
		cmp.Or(s.IndexSlots, f.IndexSlots), cmp.Or(s.IndexEntries, f.IndexEntries),
	}
}

// findSizes takes what is given and finds out the rest from the files; what
// the files do not say is as by default.
func findSizes(fsys vfs.FS, dir string, s Sizes) (Sizes, error) {
	defaults := store.DefaultConfig()
	if s.SegmentBytes == 0 {
		size, err := commonSize(fsys, filepath.Join(dir, "commitlog"))
		if err != nil {
			return s, err
		}
		if s.SegmentBytes = size; size == 0 {
			s.SegmentBytes = defaults.SegmentBytes
		}
	}
	if s.QueueSegmentBytes == 0 {
		size, err := queueFileSize(fsys, filepath.Join(dir, "consumequeue"))
		if err != nil {
			return s, err
		}
		if s.QueueSegmentBytes = size; size == 0 {
			s.QueueSegmentBytes = defaults.QueueSegmentBytes
		}
	}
	if s.IndexSlots == 0 || s.IndexEntries == 0 {
		slots, entries, err := indexSizes(fsys, dir)
		if err != nil {
			return s, err
		}
		if s.IndexSlots, s.IndexEntries = slots, entries; slots == 0 {
			s.IndexSlots, s.IndexEntries = defaults.IndexSlots, defaults.IndexEntries
		}
	}
	return s, nil
}

// isLogFile tells whether a file can be one of a log: 20 digits.
func isLogFile(info vfs.Info) bool {
	if info.Dir || len(info.Name) != 20 {
		return false
	}
	for _, c := range info.Name {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// commonSize is the size that most log files of a folder have, 0 for none: a
// single one may be cut.
func commonSize(fsys vfs.FS, dir string) (int64, error) {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	count := map[int64]int{}
	best := int64(0)
	for _, info := range infos {
		if !isLogFile(info) || info.Size == 0 {
			continue
		}
		count[info.Size]++
		if n := count[info.Size]; n > count[best] || n == count[best] && info.Size > best {
			best = info.Size
		}
	}
	return best, err
}

// maxSizedQueues is how many queues are asked for their file size.
const maxSizedQueues = 64

func queueFileSize(fsys vfs.FS, dir string) (int64, error) {
	topics, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	count, best, looked := map[int64]int{}, int64(0), 0
	for _, topic := range topics {
		if !topic.Dir || err != nil || looked >= maxSizedQueues {
			continue
		}
		var ids []vfs.Info
		ids, err = fsys.ReadDir(filepath.Join(dir, topic.Name))
		for _, id := range ids {
			if !id.Dir || err != nil {
				continue
			}
			var size int64
			if size, err = commonSize(fsys, filepath.Join(dir, topic.Name, id.Name)); size > 0 {
				looked++
				if count[size]++; count[size] > count[best] {
					best = size
				}
			}
		}
	}
	return best, err
}

// maxGuessedIndex is the largest index file of unusual sizes that is searched
// for them.
const maxGuessedIndex = 64 << 20

// indexSizes finds the hash table and the room of the key index: the size of a
// file says 4*slots + 20*entries + 40, and the newest entry must be the newest
// of its slot.
func indexSizes(fsys vfs.FS, dir string) (slots, entries int32, err error) {
	defaults := store.DefaultConfig()
	for _, sub := range []string{"sluice.index", "index"} {
		infos, err := fsys.ReadDir(filepath.Join(dir, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		for _, info := range infos {
			if info.Dir || info.Size == 40+4*int64(defaults.IndexSlots)+20*int64(defaults.IndexEntries) || info.Size < 40+4+2*20 {
				continue
			}
			if info.Size > maxGuessedIndex {
				return 0, 0, fmt.Errorf("key index file %s has %d bytes, which is not RocketMQ's size: say with how many slots and entries it was made", info.Name, info.Size)
			}
			b, err := vfs.ReadFile(fsys, filepath.Join(dir, sub, info.Name))
			if err != nil {
				return 0, 0, err
			}
			if s, e, ok := guessIndex(b); ok {
				return s, e, nil
			}
		}
	}
	return 0, 0, nil
}

// guessIndex tries all pairs of numbers that give the size of the file, most
// of which contradict its entries.
func guessIndex(b []byte) (slots, entries int32, ok bool) {
	u32 := func(at int64) uint32 {
		if at < 0 || at+4 > int64(len(b)) {
			return 0
		}
		return binary.BigEndian.Uint32(b[at:])
	}
	count, used := int64(u32(36)), int64(u32(32))
	if count < 2 || (len(b)-40)%4 != 0 {
		return 0, 0, false
	}
	beginOffset, endOffset := binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])
	rest := int64(len(b)-40) / 4 // slots + 5*entries
	for e := max(count, 2); 5*e < rest; e++ {
		s := rest - 5*e
		at := func(n int64) int64 { return 40 + 4*s + 20*n }
		first, newest := at(1), at(count-1)
		hash := int64(u32(newest))
		if used > s || newest+20 > int64(len(b)) || hash > 1<<31-1 || binary.BigEndian.Uint64(b[first+4:]) != beginOffset ||
			binary.BigEndian.Uint64(b[newest+4:]) != endOffset || int64(u32(40+4*(hash%s))) != count-1 {
			continue
		}
		return int32(s), int32(e), true
	}
	return 0, 0, false
}
