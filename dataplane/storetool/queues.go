package storetool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// lightPrefix begins the names of light queues, whose entries point to records
// of other topics.
const lightPrefix = "%LMQ%"

// queueFiles are the files of one queue, read one after the other.
type queueFiles struct {
	fs    vfs.FS
	dir   string
	unit  int64           // bytes of an entry
	size  int64           // of a file
	names map[int64]int64 // file's first byte → its size
	first int64           // number of the first entry
	end   int64           // number behind the last file's last entry

	buf   []byte
	bufAt int64 // entry at buf[0]
}

// entry returns the bytes of an entry; nil when no file has it.
func (q *queueFiles) entry(n int64) ([]byte, error) {
	if i := n - q.bufAt; i >= 0 && (i+1)*q.unit <= int64(len(q.buf)) {
		return q.buf[i*q.unit:][:q.unit], nil
	}
	at := n * q.unit
	base := at - at%q.size
	size, ok := q.names[base]
	if !ok || at+q.unit > base+size {
		return nil, nil
	}
	f, err := q.fs.Open(filepath.Join(q.dir, fmt.Sprintf("%020d", base)))
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(800*q.unit, (base+size-at)/q.unit*q.unit))
	_, err = f.ReadAt(b, at-base)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	q.buf, q.bufAt = b, n
	return b[:q.unit], nil
}

// place is where an entry stands; of the compact layout, in which queue.
func (q *queueCheck) place(root string, n int64) (name string, at int64) {
	if q.log != nil {
		return fmt.Sprintf("sluice.queues of %s queue %d, message %d", q.topic, q.id, n), 0
	}
	return q.queueFiles.place(root, n)
}

// place is where an entry stands.
func (q *queueFiles) place(root string, n int64) (name string, at int64) {
	at = n * q.unit
	base := at - at%q.size
	rel, err := filepath.Rel(root, filepath.Join(q.dir, fmt.Sprintf("%020d", base)))
	if err != nil {
		rel = q.dir
	}
	return rel, at - base
}

// queueCheck is one queue and how far its entries were compared.
type queueCheck struct {
	queueFiles
	log    *queuelog.Queue // of the compact layout, instead of files
	units  []queuelog.Unit // read ahead of log
	unitAt int64           // of units[0]
	topic  string
	id     int32
	next   int64 // entries in front of it were compared
	used   int64 // entries in front of it are in use
	lacks  int64 // records that have no entry behind the last one
	lackAt int64 // commit log offset of the first of them
	lackT  int64 // its store time
	run    lostRun
	pages  map[int64]bool // of the compact layout: those that are damaged, by their first entry
}

// loadFiles looks at the files of a queue folder.
func (v *verifier) loadFiles(unit, size int64, elem ...string) (queueFiles, error) {
	q := queueFiles{fs: v.fs, dir: v.path(elem...), unit: unit, size: size, names: map[int64]int64{}}
	infos, err := v.list(elem...)
	if err != nil {
		return q, err
	}
	last := int64(-1)
	for i, info := range infos {
		name := filepath.Join(append(append([]string{}, elem...), info.Name)...)
		base, err := strconv.ParseInt(info.Name, 10, 64)
		switch {
		case !isLogFile(info):
			v.note(Finding{Name: "foreign-file", File: name, What: "it is no consume queue file and is left alone"})
			continue
		case err != nil || base%size != 0 || info.Size > size:
			v.fault(Finding{Name: "queue-file-size", File: name, What: fmt.Sprintf("a file of %d bytes of this name does not fit to files of %d bytes", info.Size, size), Fix: fixSizes})
			continue
		case last >= 0 && base != last+size:
			v.fault(Finding{Name: "queue-file-missing", File: filepath.Join(filepath.Dir(name), fmt.Sprintf("%020d", last+size)), What: "files in the middle of the queue are missing", Fix: fixRebuild})
		case info.Size < size && i < len(infos)-1:
			v.fault(Finding{Name: "queue-file-short", File: name, Offset: info.Size, What: fmt.Sprintf("it has %d bytes, not %d, and it is not the last one", info.Size, size), Fix: fixRebuild})
		case info.Size < size:
			v.dirty(Finding{Name: "queue-file-incomplete", File: name, Offset: info.Size, What: "the making of the file was interrupted", Fix: fixStart})
		}
		if last < 0 {
			q.first = base / unit
		}
		q.names[base], last = info.Size, base
		q.end = (base + info.Size) / unit
	}
	return q, nil
}

// eachQueue visits the queue folders below a folder of the store.
func (v *verifier) eachQueue(root string, visit func(topic string, id int32) error) error {
	topics, err := v.list(root)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ids, err := v.list(root, topic.Name)
		if !topic.Dir {
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			n, err := strconv.ParseInt(id.Name, 10, 32)
			if !id.Dir || err != nil || n < 0 {
				v.note(Finding{Name: "foreign-file", File: filepath.Join(root, topic.Name, id.Name), What: "it is no queue and is left alone"})
				continue
			}
			if err := visit(topic.Name, int32(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadQueues opens all queues; findEnd sets used.
func (v *verifier) loadQueues(findEnd func(*queueCheck) error) error {
	if v.cfg.QueueLayout == store.LayoutCompact {
		return v.loadCompactQueues()
	}
	per := (v.cfg.QueueSegmentBytes + queuelog.UnitBytes - 1) / queuelog.UnitBytes
	return v.eachQueue("consumequeue", func(topic string, id int32) error {
		files, err := v.loadFiles(queuelog.UnitBytes, per*queuelog.UnitBytes, "consumequeue", topic, strconv.Itoa(int(id)))
		if err != nil {
			return err
		}
		q := &queueCheck{queueFiles: files, topic: topic, id: id, next: files.first}
		if err := findEnd(q); err != nil {
			return err
		}
		if v.queues[topic] == nil {
			v.queues[topic] = map[int32]*queueCheck{}
		}
		v.queues[topic][id] = q
		v.Queues++
		if q.used > q.first {
			u, _, err := q.at(q.used - 1)
			if err != nil {
				return err
			}
			if !u.Blank() {
				v.newest = max(v.newest, u.Offset)
			}
		}
		return nil
	})
}

// loadCompactQueues opens the queues of the compact layout.
func (v *verifier) loadCompactQueues() error {
	const name = "sluice.queues"
	err := v.view.Queues(func(topic string, id int32, log *queuelog.Queue, err error) error {
		if err != nil && !errors.Is(err, queuelog.ErrDamaged) {
			return err
		}
		if err != nil {
			v.fault(Finding{Name: "queue-damaged", File: name, What: fmt.Sprintf("%s queue %d: %v", topic, id, err), Fix: fixStart})
			return nil
		}
		lo, hi := log.Range()
		q := &queueCheck{log: log, topic: topic, id: id, next: lo, used: hi}
		q.first = lo
		if v.queues[topic] == nil {
			v.queues[topic] = map[int32]*queueCheck{}
		}
		v.queues[topic][id] = q
		v.Queues++
		if u, ok, err := log.Last(); err == nil && ok {
			v.newest = max(v.newest, u.Offset)
		}
		return nil
	})
	if errors.Is(err, queuelog.ErrDirectory) {
		v.noDirectory = true
		v.fault(Finding{Name: "queue-directory", File: name + "/directory", What: err.Error(), Fix: "The next start makes all queues anew from the commit log."})
		return nil
	}
	return err
}

// at returns an entry; false where none is in use.
func (q *queueCheck) at(n int64) (queuelog.Unit, bool, error) {
	if q.log != nil {
		return q.atLog(n)
	}
	b, err := q.entry(n)
	if err != nil || b == nil {
		return queuelog.Unit{}, false, err
	}
	u := queuelog.Unit{Offset: int64(binary.BigEndian.Uint64(b)), Size: int32(binary.BigEndian.Uint32(b[8:])), TagsCode: int64(binary.BigEndian.Uint64(b[12:]))}
	return u, u.Offset >= 0 && u.Size > 0, nil
}

func (q *queueCheck) atLog(n int64) (queuelog.Unit, bool, error) {
	if i := n - q.unitAt; i >= 0 && i < int64(len(q.units)) {
		u := q.units[i]
		return u, u.Offset >= 0 && u.Size > 0, nil
	}
	var err error
	if q.units, err = q.log.Read(q.units[:0], n, 50); err != nil || len(q.units) == 0 {
		q.units = q.units[:0]
		if errors.Is(err, queuelog.ErrDamaged) {
			if q.pages == nil {
				q.pages = map[int64]bool{}
			}
			if first := n - n%pageUnits; !q.pages[first] {
				q.pages[first] = false
			}
			err = nil
		}
		return queuelog.Unit{}, false, err
	}
	q.unitAt = n
	return q.atLog(n)
}

// findUsed finds the last entry in use: files are zero behind it.
func (q *queueCheck) findUsed() error {
	for q.used = q.end; q.used > q.first; q.used-- {
		// Backwards chunk by chunk, or each entry would be a read.
		if i := q.used - 1 - q.bufAt; i < 0 || (i+1)*q.unit > int64(len(q.buf)) {
			if _, err := q.entry(max(q.first, (q.used-1)/800*800)); err != nil {
				return err
			}
		}
		_, ok, err := q.at(q.used - 1)
		if err != nil || ok {
			return err
		}
	}
	return nil
}

// halve finds the first entry that is not in use, for those who trust the files.
func (q *queueCheck) halve() error {
	var failed error
	n := sort.Search(int(q.end-q.first), func(i int) bool {
		_, ok, err := q.at(q.first + int64(i))
		failed = errors.Join(failed, err)
		return !ok
	})
	q.used = q.first + int64(n)
	return failed
}

// checkUnit compares the entry of a record; entries in front of it that no
// record asked for are told of.
func (v *verifier) checkUnit(off int64, f *message.Fields) error {
	topic := string(f.Topic)
	q := v.queues[topic][f.QueueID]
	if q == nil {
		if v.queues[topic] == nil {
			v.queues[topic] = map[int32]*queueCheck{}
		}
		dir := v.path("consumequeue", topic, strconv.Itoa(int(f.QueueID)))
		q = &queueCheck{queueFiles: queueFiles{dir: dir, unit: queuelog.UnitBytes, size: v.cfg.QueueSegmentBytes}, topic: topic, id: f.QueueID}
		v.queues[topic][f.QueueID] = q
	}
	n := f.QueueOffset
	switch {
	case n >= q.used:
		if q.lacks == 0 {
			q.lackAt, q.lackT = off, f.StoreTimestamp
		}
		q.lacks++
		return nil
	case n < q.first:
		name, _ := q.place(v.cfg.Dir, q.first)
		v.fault(Finding{Name: "queue-lacks", File: name, What: fmt.Sprintf("message %d of the queue, at %d of the commit log, is in front of its first file", n, off), Fix: fixRebuild})
		return nil
	case n < q.next:
		// Told before, or a repeat after a recovery that other readers ignore.
		name, at := q.place(v.cfg.Dir, n)
		v.note(Finding{Name: "offset-repeated", File: name, Offset: at, What: fmt.Sprintf("the record at %d has the queue offset %d like one in front of it: it is in no queue", off, n)})
		return nil
	}
	if err := v.passUnits(q, n, off); err != nil {
		return err
	}
	got, ok, err := q.at(n)
	if err != nil {
		return err
	}
	v.Units++
	if want := v.view.Unit(off, f); !v.inDamagedPage(q, n) && (!ok || got != want) {
		name, at := q.place(v.cfg.Dir, n)
		v.fault(Finding{Name: "queue-entry", File: name, Offset: at, What: fmt.Sprintf("message %d of the queue is the record at %d of %d bytes with tags code %d, the entry says %d, %d bytes, tags code %d",
			n, want.Offset, want.Size, want.TagsCode, got.Offset, got.Size, got.TagsCode), Fix: fixRebuild})
	}
	q.next = n + 1
	return nil
}

// pageUnits is how many entries a page of the compact layout has.
const pageUnits = (queuelog.PageBytes - 24) / queuelog.UnitBytes

// inDamagedPage tells whether an entry is in a damaged page of the compact
// layout, and reports each page once.
func (v *verifier) inDamagedPage(q *queueCheck, n int64) bool {
	first := n - n%pageUnits
	told, damaged := q.pages[first]
	if damaged && !told {
		q.pages[first] = true
		v.fault(Finding{Name: "queue-page", File: fmt.Sprintf("sluice.queues of %s queue %d, messages %d to %d", q.topic, q.id, first, first+pageUnits-1), What: "the page of these messages has another header than that of the queue",
			Fix: "The first reader has the queue built anew. Now: sluice store repair --rebuild FOLDER"})
	}
	return damaged
}

// passUnits looks at entries up to n, for which the log had no record of the
// queue in front of the commit log offset off.
func (v *verifier) passUnits(q *queueCheck, n, off int64) error {
	blanks := int64(0)
	for ; q.next < n; q.next++ {
		u, ok, err := q.at(q.next)
		if err != nil {
			return err
		}
		v.Units++
		if ok && u.Blank() {
			blanks++
			continue
		}
		name, at := q.place(v.cfg.Dir, q.next)
		switch {
		case v.inDamagedPage(q, q.next):
		case !ok:
			v.fault(Finding{Name: "queue-entry", File: name, Offset: at, What: fmt.Sprintf("the entry of message %d is empty, later ones are there", q.next), Fix: fixRebuild})
		case u.Offset < v.From:
			// The record has expired.
		case v.inDamage(u.Offset):
			v.lose(q, q.next)
		case !v.hasRecord(q, u):
			v.fault(Finding{Name: "queue-entry", File: name, Offset: at, What: fmt.Sprintf("the entry of message %d says that its record of %d bytes is at %d, where the queue has none", q.next, u.Size, u.Offset), Fix: fixRebuild})
		}
	}
	v.endRun(q)
	if blanks > 0 && n > blanks+q.first {
		name, at := q.place(v.cfg.Dir, n-blanks)
		v.note(Finding{Name: "messages-lost", File: name, Offset: at, What: fmt.Sprintf("%d messages in front of message %d, which is at %d, were lost earlier: their places are blank", blanks, n, off)})
	}
	return nil
}

func (v *verifier) inDamage(off int64) bool {
	for _, d := range v.damaged {
		if off >= d.from && off < d.to {
			return true
		}
	}
	return false
}

// hasRecord tells whether an entry that no record of the topic asked for is
// one of a light queue, whose records say in which queues they are.
func (v *verifier) hasRecord(q *queueCheck, u queuelog.Unit) bool {
	f, err := v.view.CommitLog().Peek(u.Offset)
	if err != nil || f.Size != u.Size {
		return false
	}
	names, ok := message.FindProperty(f.Properties, "INNER_MULTI_DISPATCH")
	if !ok {
		return false
	}
	for name := range strings.SplitSeq(string(names), ",") {
		if name == q.topic {
			return true
		}
	}
	return false
}

// finishQueues looks at what is behind the last record of each queue.
func (v *verifier) finishQueues() error {
	for _, ids := range v.queues {
		for _, q := range ids {
			if err := v.finishQueue(q); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) finishQueue(q *queueCheck) error {
	if q.lacks > 0 && !v.noDirectory {
		name, at := q.place(v.cfg.Dir, q.used)
		found := Finding{Name: "queue-behind", File: name, Offset: at, What: fmt.Sprintf("%d records from %d of the commit log on are not in the queue yet", q.lacks, q.lackAt), Fix: fixStart}
		// A start reads the log from the newest entry of all queues on, or
		// from the checkpoint.
		if v.Clean && q.lackAt < v.newest || !v.Clean && q.lackT < v.synced-3000 {
			found.Name, found.Fix = "queue-lacks", fixRebuild
			found.What = fmt.Sprintf("%d records from %d of the commit log on are not in the queue, although they were dispatched", q.lacks, q.lackAt)
			v.fault(found)
		} else {
			v.dirty(found)
		}
	}
	for ; q.next < q.used; q.next++ {
		u, ok, err := q.at(q.next)
		if err != nil {
			return err
		}
		v.Units++
		name, at := q.place(v.cfg.Dir, q.next)
		switch {
		case v.inDamagedPage(q, q.next):
		case ok && u.Offset >= v.To && v.lost && !u.Blank():
			v.loseUnits(q, q.used-q.next)
			v.Units += q.used - q.next - 1
			q.next = q.used - 1
		case ok && u.Offset >= v.To && !v.Clean:
			v.dirty(Finding{Name: "queue-ahead", File: name, Offset: at, What: fmt.Sprintf("from message %d on entries point behind the end of the commit log at %d", q.next, v.To), Fix: fixStart})
			v.Units += q.used - q.next - 1
			q.next = q.used - 1
		case ok && (u.Blank() || u.Offset < v.From || strings.HasPrefix(q.topic, lightPrefix) && v.hasRecord(q, u)):
		case ok && v.hasRecord(q, u):
		case ok && v.inDamage(u.Offset):
			v.lose(q, q.next)
		default:
			v.fault(Finding{Name: "queue-entry", File: name, Offset: at, What: fmt.Sprintf("the entry of message %d says that its record of %d bytes is at %d, where the queue has none", q.next, u.Size, u.Offset), Fix: fixRebuild})
		}
	}
	v.endRun(q)
	return nil
}

// batchUnitBytes is the size of an entry of a batch consume queue:
//
//	0 OFFSET i64, 8 SIZE i32, 12 TAGSCODE i64, 20 STORETIME i64, 28 BASE i64, 36 COUNT i16, 38 COMPACTED i32, 42 zero
const batchUnitBytes = 46

// loadBatch opens a batch consume queue; nil for a folder without files.
func (v *verifier) loadBatch(topic string, id int32) (*queueFiles, error) {
	size, err := commonSize(v.fs, v.path("batchconsumequeue", topic, strconv.Itoa(int(id))))
	if err != nil || size < batchUnitBytes {
		return nil, err
	}
	q, err := v.loadFiles(batchUnitBytes, size, "batchconsumequeue", topic, strconv.Itoa(int(id)))
	return &q, err
}

// batchUnit returns an entry; false where none is in use.
func (q *queueFiles) batchUnit(n int64) (u queuelog.BatchUnit, ok bool, err error) {
	b, err := q.entry(n)
	if err != nil || b == nil {
		return u, false, err
	}
	u.Offset, u.Size = int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))
	u.Base, u.Count = int64(binary.BigEndian.Uint64(b[28:])), int16(binary.BigEndian.Uint16(b[36:]))
	return u, u.Size > 0, nil
}

// checkBatchQueues compares the entries of batch consume queues with their
// records.
func (v *verifier) checkBatchQueues() error {
	return v.eachQueue("batchconsumequeue", func(topic string, id int32) error {
		q, err := v.loadBatch(topic, id)
		if err != nil || q == nil {
			return err
		}
		v.Queues++
		for n := q.first; n < q.end; n++ {
			u, ok, err := q.batchUnit(n)
			if err != nil || !ok {
				return err
			}
			v.Units++
			if u.Offset < v.From {
				continue
			}
			f, err := v.view.CommitLog().Peek(u.Offset)
			if err == nil && f.Size == u.Size && string(f.Topic) == topic && f.QueueID == id {
				continue
			}
			if err != nil && !errors.Is(err, store.ErrCorrupt) && !v.inDamage(u.Offset) && u.Offset < v.To {
				return err
			}
			name, at := q.place(v.cfg.Dir, n)
			v.fault(Finding{Name: "batch-queue-entry", File: name, Offset: at, What: fmt.Sprintf("the entry says that a record of %d bytes is at %d, where the queue has none", u.Size, u.Offset), Fix: fixCopy})
		}
		return nil
	})
}
