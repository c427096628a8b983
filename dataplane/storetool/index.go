package storetool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sluicemq/sluice/dataplane/keyindex"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// indexCheck is one key index and how far its entries were compared.
type indexCheck struct {
	v     *verifier
	dir   string // below the folder
	view  *store.IndexView
	check *keyindex.Checker
	entry keyindex.Entry // the next one
	more  bool

	lacks, lackAt, lackT int64 // records behind the last entry without keys
	missing              int64 // records with a missing key in front of entries
	missingAt            int64
	begun                bool // an entry was compared
}

func (v *verifier) openIndexes() error {
	for _, compatible := range []bool{true, false} {
		dir := v.view.IndexDir(compatible)
		if ok, err := vfs.Exists(v.fs, dir); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		name := filepath.Base(dir)
		x, err := v.view.OpenIndex(compatible)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrConfigDamaged):
			v.fault(Finding{Name: "index-secret", File: "config/sluice.indexKey.json", What: fmt.Sprintf("the key index cannot be read without it (%v)", err), Fix: "The next start makes the index anew."})
			continue
		case err != nil:
			v.fault(Finding{Name: "index-file", File: name, What: err.Error(), Fix: fixRebuild})
			continue
		}
		c := &indexCheck{v: v, dir: name, view: x}
		c.check = x.Check(c.fault)
		if err := c.advance(); err != nil {
			return err
		}
		v.indexes = append(v.indexes, c)
	}
	return nil
}

// fault sorts what is wrong in a file: an unclean stop leaves such things in
// what was not synced, and the next start looks there.
func (x *indexCheck) fault(f keyindex.Fault) {
	found := Finding{Name: "index-file", File: filepath.Join(x.dir, f.File), Offset: f.Offset, What: f.What, Fix: fixRebuild}
	if x.mended(f.Newest, f.End) {
		found.Fix = fixStart
		x.v.dirty(found)
		return
	}
	x.v.fault(found)
}

func (x *indexCheck) mended(newest bool, end int64) bool {
	return !x.v.Clean && (newest || end > x.v.view.Checkpoint().Index)
}

func (x *indexCheck) advance() (err error) {
	x.entry, x.more, err = x.check.Next()
	if x.more {
		x.v.Keys++
	}
	return err
}

func (x *indexCheck) wrong(e keyindex.Entry, format string, args ...any) {
	found := Finding{Name: "index-entry", File: filepath.Join(x.dir, e.File), Offset: e.At, What: fmt.Sprintf(format, args...), Fix: fixRebuild}
	if x.mended(e.NewestOne, e.End) {
		found.Fix = fixStart
		x.v.dirty(found)
		return
	}
	x.v.fault(found)
}

// record compares the keys of a record with the entries. Both come in the
// order of the log.
func (x *indexCheck) record(off int64, f *message.Fields) error {
	for x.more && x.entry.Offset < off {
		if x.entry.Offset >= x.v.From && !x.v.inDamage(x.entry.Offset) {
			x.wrong(x.entry, "the entry is of a record at %d, where none with a key is", x.entry.Offset)
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	want := slices.Clone(x.view.Hashes(f))
	if len(want) == 0 {
		return nil
	}
	if !x.more {
		if x.lacks == 0 {
			x.lackAt, x.lackT = off, f.StoreTimestamp
		}
		x.lacks++
		return nil
	}
	for x.more && x.entry.Offset == off {
		x.begun = true
		e := x.entry
		if i := slices.Index(want, e.Hash); i >= 0 {
			want = slices.Delete(want, i, i+1)
		} else {
			x.wrong(e, "the entry has the hash %d, which is of no key of its record at %d", e.Hash, off)
		}
		var seconds int64
		if e.Base > 0 {
			seconds = min(max((f.StoreTimestamp-e.Base)/1000, 0), 1<<31-1)
		}
		if int64(e.Seconds) != seconds {
			x.wrong(e, "the entry says that its record was stored %d s behind the begin of the file, it was %d s", e.Seconds, seconds)
		}
		if e.First && e.Begin != f.StoreTimestamp {
			x.wrong(e, "the header says that the first record was stored at %d, it was at %d", e.Begin, f.StoreTimestamp)
		}
		// After a repair the header knows it from the entry, by the second.
		if e.Last && e.End != f.StoreTimestamp && e.End != e.Base+1000*int64(e.Seconds) {
			x.wrong(e, "the header says that the newest record was stored at %d, it was at %d", e.End, f.StoreTimestamp)
		}
		if err := x.advance(); err != nil {
			return err
		}
	}
	if len(want) > 0 {
		if x.missing == 0 {
			x.missingAt = off
		}
		x.missing++
	}
	return nil
}

// finishIndexes tells of records without keys.
func (v *verifier) finishIndexes() error {
	for _, x := range v.indexes {
		for x.more {
			switch {
			case x.entry.Offset >= v.To && (!v.Clean || v.lost):
				found := Finding{Name: "index-ahead", File: filepath.Join(x.dir, x.entry.File), Offset: x.entry.At, What: fmt.Sprintf("entries from here on are of records behind the end of the commit log at %d", v.To), Fix: fixStart}
				if v.lost {
					found.Fix = ""
					v.note(found) // they are passed over
				} else {
					v.dirty(found)
				}
				for x.more {
					if err := x.advance(); err != nil {
						return err
					}
				}
				continue
			case x.entry.Offset >= v.From && !v.inDamage(x.entry.Offset):
				x.wrong(x.entry, "the entry is of a record at %d, where none with a key is", x.entry.Offset)
			}
			if err := x.advance(); err != nil {
				return err
			}
		}
		if x.lacks > 0 {
			v.dirty(Finding{Name: "index-behind", File: x.dir, What: fmt.Sprintf("%d records from %d of the commit log on are not in the index yet", x.lacks, x.lackAt), Fix: fixStart})
		}
		if x.missing > 0 {
			v.fault(Finding{Name: "index-lacks", File: x.dir, What: fmt.Sprintf("%d records from %d of the commit log on have keys that are not in the index, later ones are", x.missing, x.missingAt), Fix: fixRebuild})
		}
		if err := x.view.Close(); err != nil {
			return err
		}
	}
	return nil
}

// indexHeader reads the header of an index file.
func indexHeader(fsys vfs.FS, name string) (IndexFile, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return IndexFile{}, err
	}
	b := make([]byte, 40)
	_, err = f.ReadAt(b, 0)
	return IndexFile{
		FirstTime: int64(binary.BigEndian.Uint64(b)), LastTime: int64(binary.BigEndian.Uint64(b[8:])),
		Keys: max(0, int32(binary.BigEndian.Uint32(b[36:]))-1),
	}, errors.Join(err, f.Close())
}
