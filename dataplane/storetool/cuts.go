package storetool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// cutFolder holds copies of what starts and repairs have cut off; FORMAT.md of
// the store describes it.
const cutFolder = "sluice.cut"

// cuts lists the copies of what was cut off the commit log.
func (s *Summary) cuts(f *folder) error {
	times, err := f.list(cutFolder)
	if err != nil {
		return err
	}
	for _, time := range times {
		infos, err := f.list(cutFolder, time.Name, "commitlog")
		if err != nil {
			return err
		}
		for _, info := range infos {
			from, err := strconv.ParseInt(info.Name, 10, 64)
			if !isLogFile(info) || err != nil {
				continue
			}
			c := CutFile{File: filepath.Join(cutFolder, time.Name, "commitlog", info.Name), From: from, Bytes: info.Size}
			if c.Records, err = countCut(f.fs, f.path(c.File)); err != nil {
				return err
			}
			s.Cut = append(s.Cut, c)
		}
	}
	slices.SortFunc(s.Cut, func(a, b CutFile) int { return cmp.Compare(a.File, b.File) })
	return nil
}

func countCut(fsys vfs.FS, name string) (n int64, err error) {
	err = eachCut(fsys, name, func([]byte) error { n++; return nil })
	return n, err
}

// ExportCut writes the records that such a copy holds whole to out, as Export
// does. Nobody knows of them whether they are half messages or rolled back; the
// rest of the copy is passed over.
func ExportCut(name string, out io.Writer) (ExportResult, error) {
	x := &export{out: json.NewEncoder(out)}
	err := eachCut(vfs.ReadOnly(), name, func(rec []byte) error {
		f, err := message.Parse(rec)
		if err == nil {
			err = x.write(&f, rec)
		}
		return err
	})
	if err != nil {
		return x.ExportResult, fmt.Errorf("read %s: %w", name, err)
	}
	return x.ExportResult, nil
}

// eachCut visits the whole records of a copy: wherever the magic of one stands,
// since nobody knows where the damage ends.
func eachCut(fsys vfs.FS, name string, visit func(rec []byte) error) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	const overlap = 7 // a magic may stand across two chunks
	chunk := make([]byte, 1<<20)
	for at := int64(0); at+overlap < size; {
		b := chunk[:min(int64(len(chunk)), size-at)]
		if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		next := at + int64(len(b)) - overlap
		for i := 0; i+8 <= len(b); {
			found := bytes.Index(b[i+4:], []byte{0xDA, 0xA3, 0x20}) // what both versions begin with
			if found < 0 {
				break
			}
			i += found
			rec, err := cutRecord(f, at+int64(i), size)
			if err != nil {
				return err
			}
			if rec == nil {
				i++
				continue
			}
			if err := visit(rec); err != nil {
				return err
			}
			if i += len(rec); i >= len(b)-overlap {
				next = at + int64(i)
			}
		}
		at = next
	}
	return nil
}

// cutRecord returns the record at a byte of a copy, nil when none is there.
func cutRecord(f vfs.File, at, size int64) ([]byte, error) {
	var head [message.BlankBytes]byte
	if at+int64(len(head)) > size {
		return nil, nil
	}
	if _, err := f.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	n, _, _ := message.Head(head[:])
	if n < message.MinRecordBytes || at+int64(n) > size {
		return nil, nil
	}
	rec := make([]byte, n)
	if _, err := f.ReadAt(rec, at); err != nil {
		return nil, err
	}
	if _, err := message.Verify(rec); err != nil {
		return nil, nil
	}
	return rec, nil
}
