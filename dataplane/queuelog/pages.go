package queuelog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// PagesConfig shapes the compact layout. PagesPerFile is part of the data.
type PagesConfig struct {
	FS           vfs.FS
	PagesPerFile uint32 // 0: 65536, files of 64 MiB
	Reach        int64  // a message may be so far ahead of its queue's end
	NotBefore    int64  // as in Config
}

// Pages is the compact layout: the queues of a store share files of pages, and
// a directory says which pages a queue has. An idle queue costs its page and
// its entry; no queue has a file or a folder of its own, and a start reads the
// directory only. All methods may be called by many goroutines, but Load comes
// first.
//
// A page that a queue gives back is not used again before a directory that
// does not name it is on the disk: a crash finds every named page as it was.
type Pages struct {
	cfg  PagesConfig
	root string

	syncing sync.Mutex // one Sync or Remove at a time; held during I/O
	dir     *directory // guarded by syncing
	failed  error      // of a sync of a page file: what is durable is not known any more; guarded by syncing

	mu       sync.Mutex
	files    []*pageFile
	unnamed  bool                   // a file's name is not on the disk
	used     []uint64               // a bit for each page
	from     int                    // words of used in front of it have no free page
	released map[*pageList][]uint32 // given back by queues since they were noted
	leaving  []uint32               // free as soon as the directory's next frame is durable
}

type pageFile struct {
	vfs.File
	dirty atomic.Bool
}

// NewPages returns the compact layout in the folder root; the directory is the
// file with the given path.
func NewPages(cfg PagesConfig, root, directory string) *Pages {
	if cfg.PagesPerFile == 0 {
		cfg.PagesPerFile = 1 << 16
	}
	l := &Pages{cfg: cfg, root: root, released: map[*pageList][]uint32{}}
	l.dir = newDirectory(cfg.FS, directory, PageBytes, cfg.PagesPerFile)
	return l
}

// Load finds the queues that are there, without a look at their pages. One
// with pages that cannot be there comes empty and with ErrDamaged. With
// ErrDirectory nothing was loaded and the layout begins empty: all queues have
// to be built again. There are no states: nothing else can be missing.
func (l *Pages) Load(each func(topic string, id int32, q *Queue, err error) error) ([]State, error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.cfg.FS.MkdirAll(l.root); err != nil {
		return nil, err
	}
	all, derr := l.dir.load(l.cfg.NotBefore)
	switch {
	case errors.Is(derr, fs.ErrNotExist):
		derr = nil // made below
	case derr != nil && !errors.Is(derr, ErrDirectory):
		return nil, derr
	}
	if derr != nil || l.dir.f == nil {
		l.dir.time = 0
		if err := errors.Join(l.dir.create(nil), l.cfg.FS.SyncDir(filepath.Dir(l.root))); err != nil {
			return nil, err
		}
	}
	if err := l.openFiles(); err != nil {
		return nil, err
	}
	damaged := false
	for _, e := range all {
		if e == nil {
			continue
		}
		q, err := l.load(e)
		if err != nil {
			// Noted before anything is written: its pages may go to others.
			l.dir.put(&entry{number: e.number, lowOffset: -1, next: -1}, true, 0)
			damaged = true
		}
		if err := each(e.topic, e.id, q, err); err != nil {
			return nil, err
		}
	}
	if damaged {
		if err := l.dir.commit(l.dir.time); err != nil {
			return nil, err
		}
	}
	return nil, derr
}

// openFiles opens the page files that are there, up to the first that is missing.
func (l *Pages) openFiles() error {
	infos, err := l.cfg.FS.ReadDir(l.root)
	if err != nil {
		return err
	}
	size := int64(l.cfg.PagesPerFile) * PageBytes
	for _, info := range infos {
		if info.Name != l.fileName(len(l.files)) {
			continue
		}
		f, err := l.cfg.FS.Open(filepath.Join(l.root, info.Name))
		if err != nil {
			return err
		}
		l.addFile(f)
		if info.Size != size {
			// Creation was interrupted; what is missing is no page of a queue,
			// or its header will tell.
			if err := f.Truncate(size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Pages) addFile(f vfs.File) {
	l.files = append(l.files, &pageFile{File: f})
	l.used = append(l.used, make([]uint64, l.cfg.PagesPerFile/64)...)
}

// fileName is the number of the file's first byte, as in the other logs.
func (l *Pages) fileName(i int) string {
	return fmt.Sprintf("%020d", int64(i)*int64(l.cfg.PagesPerFile)*PageBytes)
}

func (l *Pages) newQueue(topic string, id int32, number uint32) (*Queue, *pageList) {
	x := &pageList{l: l, number: number}
	return &Queue{topic: topic, id: id, on: x, number: number, reach: l.cfg.Reach, minOffset: -1}, x
}

// load makes the queue of an entry.
func (l *Pages) load(e *entry) (*Queue, error) {
	q, x := l.newQueue(e.topic, e.id, e.number)
	q.known = true
	// Pages behind the last unit were taken after the sync.
	if keep := (e.next+pageUnits-1)/pageUnits - e.firstPage; keep < int64(len(e.pages)) {
		e.pages = e.pages[:max(keep, 0)]
	}
	whole := e.next >= 0 && (e.low >= e.next || e.firstPage*pageUnits <= e.low && (e.firstPage+int64(len(e.pages)))*pageUnits >= e.next)
	for _, p := range e.pages {
		w := int(p / 64)
		if w >= len(l.used) || l.used[w]&(1<<(p%64)) != 0 {
			whole = false
			continue
		}
		l.used[w] |= 1 << (p % 64)
	}
	if !whole {
		// Its pages stay taken until the next start: they may be another's.
		return q, fmt.Errorf("open %s: pages from %d on, %d of them, are not there or not those of units %d to %d: %w", q, e.firstPage, len(e.pages), e.low, e.next, ErrDamaged)
	}
	x.table.Store(&pageTable{first: e.firstPage, list: slices.Clip(e.pages)})
	x.kept = e.firstPage + int64(len(e.pages))
	q.min, q.minOffset, q.max, q.end = e.low, e.lowOffset, e.next, e.end
	q.written, q.wrote, q.synced, q.tailBase = e.next, e.end, e.next, e.next
	return q, nil
}

// Open returns a queue that Load has not given: it is empty.
func (l *Pages) Open(topic string, id int32) (*Queue, error) {
	q, _ := l.newQueue(topic, id, l.dir.numbers.Add(1)-1)
	return q, nil
}

// Flush writes the queues, in the order of their pages.
func (l *Pages) Flush(queues []*Queue) error {
	type place struct {
		page uint32
		q    *Queue
	}
	order := make([]place, 0, len(queues))
	for _, q := range queues {
		p := place{page: 1<<32 - 1, q: q}
		if t := q.on.(*pageList).now(); len(t.list) > 0 {
			p.page = t.list[len(t.list)-1]
		}
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b place) int { return cmp.Compare(a.page, b.page) })
	for _, p := range order {
		if err := p.q.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes the queues durable with all that was appended until the call, and
// notes that nothing up to storeTime is missing in any queue. Everything that
// has changed since the last Sync must be in the list, also when that failed.
func (l *Pages) Sync(queues []*Queue, storeTime int64) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.Flush(queues); err != nil {
		return err
	}
	// What a commit could not write goes first, or it would grow each time. The
	// pages that it names were synced by then.
	if err := l.dir.writeFull(); err != nil {
		return err
	}
	// Noted first: whatever an entry names was written before the files are
	// synced, and the frame is written after that.
	written := make([]int64, len(queues))
	for i, q := range queues {
		written[i] = q.note(l.dir)
	}
	if err := l.commit(max(storeTime, l.cfg.NotBefore)); err != nil {
		return err
	}
	for i, q := range queues {
		q.noted()
		q.settle(written[i])
	}
	return l.dir.shorten()
}

// commit makes pages and then the directory durable, and frees the pages that
// it does not name any more. When the directory cannot be written, on a full
// disk for example, the next commit may. After an error of a sync it is not
// known what is on the disk: nothing is noted until the store is opened again.
func (l *Pages) commit(storeTime int64) error {
	if l.failed != nil {
		return l.failed
	}
	if l.dir.unchanged(storeTime) {
		return nil
	}
	err := l.syncFiles()
	if err == nil {
		if err := l.dir.writeFrame(max(storeTime, l.dir.time)); err != nil {
			return err
		}
		err = l.dir.sync()
	}
	if err != nil {
		l.failed = fmt.Errorf("queues in %s cannot be made durable until the store is opened again: %w", l.root, err)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeLocked(l.leaving)
	l.leaving = nil
	return nil
}

// syncFiles makes all pages durable that were written before the call.
func (l *Pages) syncFiles() error {
	l.mu.Lock()
	files, unnamed := l.files, l.unnamed
	l.unnamed = false
	l.mu.Unlock()
	for _, f := range files {
		if f.dirty.Swap(false) {
			if err := f.Sync(); err != nil {
				f.dirty.Store(true)
				return err
			}
		}
	}
	if !unnamed {
		return nil
	}
	return l.cfg.FS.SyncDir(l.root)
}

// Remove deletes queues of one topic for good, durably; appends that are under
// way are ignored.
func (l *Pages) Remove(_ string, queues []*Queue) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	for _, q := range queues {
		if err := q.Remove(); err != nil {
			return err
		}
		if q.known {
			l.dir.forget(q.number)
		}
		l.leave(q.on.(*pageList))
	}
	return l.commit(l.dir.time)
}

// Close closes the files; the queues have to be closed each.
func (l *Pages) Close() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.dir.close()
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	l.files = nil
	return err
}

// take gives out a free page.
func (l *Pages) take() (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; l.from < len(l.used); l.from++ {
		if w := l.used[l.from]; w != ^uint64(0) {
			i := bits.TrailingZeros64(^w)
			l.used[l.from] |= 1 << i
			return uint32(l.from*64 + i), nil
		}
	}
	if int64(len(l.used))*64+int64(l.cfg.PagesPerFile) > 1<<32 {
		return 0, fmt.Errorf("queue files in %s have %d pages, which is all there can be", l.root, len(l.used)*64)
	}
	f, err := l.cfg.FS.Create(filepath.Join(l.root, l.fileName(len(l.files))))
	if err != nil {
		return 0, err
	}
	if err := f.Truncate(int64(l.cfg.PagesPerFile) * PageBytes); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	l.addFile(f)
	l.unnamed = true
	l.used[l.from] |= 1
	return uint32(l.from * 64), nil
}

// release takes pages that a queue has given back. The directory still names
// them.
func (l *Pages) release(x *pageList, pages []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(pages) > 0 {
		l.released[x] = append(l.released[x], pages...)
	}
}

// leave says that the directory's next frame does not name the pages any more
// that the queue has given back.
func (l *Pages) leave(x *pageList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.released) > 0 {
		l.leaving = append(l.leaving, l.released[x]...)
		delete(l.released, x)
	}
}

// free makes pages usable that the directory does not name.
func (l *Pages) free(pages []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeLocked(pages)
}

func (l *Pages) freeLocked(pages []uint32) {
	for _, p := range pages {
		l.used[p/64] &^= 1 << (p % 64)
		l.from = min(l.from, int(p/64))
	}
}

func (l *Pages) file(page uint32) (*pageFile, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := int(page / l.cfg.PagesPerFile)
	if i >= len(l.files) {
		return nil, 0
	}
	return l.files[i], int64(page%l.cfg.PagesPerFile) * PageBytes
}

func (l *Pages) readPage(b []byte, page uint32) error {
	f, at := l.file(page)
	if f == nil {
		return fmt.Errorf("page %d: %w", page, fs.ErrClosed)
	}
	_, err := f.ReadAt(b, at)
	return err
}

func (l *Pages) writePage(page uint32, skip int64, b []byte) error {
	f, at := l.file(page)
	if f == nil {
		return fmt.Errorf("page %d: %w", page, fs.ErrClosed)
	}
	// Marked before the queue lets go of its lock: who notes the queue after
	// that sees the mark.
	_, err := f.WriteAt(b, at+skip)
	f.dirty.Store(true)
	return err
}
