// Package replica says who wrote which part of a broker group's commit log, and
// how much of it is committed: durable on the majority of the group's voters.
//
// It owns the terms: each time a broker begins to append as the leader of its
// group, a term begins at the end of its log. They live in a side file, because
// the log's records have no place for them. Here is the form for a group of one
// voter, which is its own majority: it costs a small file at each start and
// nothing for a message.
package replica

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// FileName is the name that RocketMQ's controller mode gives the same file; its
// brokers read it in that mode only.
const FileName = "epochFileCheckpoint"

// Term is a time in which one broker led.
type Term struct {
	Number int32
	Start  int64 // commit log offset of its first record
}

// Terms are those of one log, oldest first. Methods may be called at any time.
type Terms struct {
	fs     vfs.FS
	folder string
	log    *slog.Logger

	mu   sync.Mutex
	list []Term
}

// Open reads the terms of a store folder; none is no error. When the file is
// damaged its copy is used. Without a copy the terms begin anew, since a group
// of one has nobody to compare them with; the damaged file is kept beside it.
func Open(fsys vfs.FS, folder string, log *slog.Logger) (*Terms, error) {
	t := &Terms{fs: fsys, folder: folder, log: log}
	list, err := t.read(FileName)
	if err == nil {
		t.list = list
		return t, nil
	}
	list, bakErr := t.read(FileName + ".bak")
	switch {
	case bakErr == nil:
		log.Error("the file of terms is damaged or missing, its previous copy is used", "file", t.path(FileName), "err", err)
		t.list = list
		return t, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(bakErr, fs.ErrNotExist):
		return t, nil
	case errors.Is(err, fs.ErrNotExist):
		err = bakErr
	}
	log.Error("the file of terms and its copy are damaged: terms begin anew", "file", t.path(FileName), "err", err, "copy", bakErr)
	if err := fsys.Rename(t.path(FileName), t.path(FileName)+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("set damaged terms aside: %w", err)
	}
	return t, nil
}

func (t *Terms) path(name string) string { return filepath.Join(t.folder, name) }

func (t *Terms) read(name string) ([]Term, error) {
	b, err := vfs.ReadFile(t.fs, t.path(name))
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// Begin starts a term at end, the end of the log after recovery, durably.
// Terms that began behind it are gone with their records; one that began right
// there never had a record, and the new one takes its place.
func (t *Terms) Begin(end int64) (Term, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := Term{Number: 1, Start: end}
	list := make([]Term, 0, len(t.list)+1)
	for _, old := range t.list {
		next.Number = max(next.Number, old.Number+1)
		if old.Start < end {
			list = append(list, old)
		}
	}
	list = append(list, next)
	if err := t.save(list); err != nil {
		return Term{}, fmt.Errorf("begin term %d at %d: %w", next.Number, end, err)
	}
	t.list = list
	return next, nil
}

// save replaces the file; the one that was there becomes the copy. While no
// file is there the copy is.
func (t *Terms) save(list []Term) error {
	name := t.path(FileName)
	if err := vfs.WriteFile(t.fs, name+".tmp", Encode(list)); err != nil {
		return err
	}
	if err := t.fs.Rename(name, name+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.fs.Rename(name+".tmp", name); err != nil {
		return err
	}
	return t.fs.SyncDir(t.folder)
}

// Forget drops terms all of whose records lie in front of first, the begin of
// the log. The file follows with the next Begin.
func (t *Terms) Forget(first int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) > 1 && t.list[1].Start <= first {
		t.list = t.list[1:]
	}
}

// At returns the term of the record at an offset; false when it lies in front
// of all terms that are known.
func (t *Terms) At(offset int64) (Term, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.list) - 1; i >= 0; i-- {
		if t.list[i].Start <= offset {
			return t.list[i], true
		}
	}
	return Term{}, false
}

// Committed returns the offset up to which the log is on the majority of the
// voters: of the one there is, so all that it has synced.
func (t *Terms) Committed(flushed int64) int64 { return flushed }

// Encode is the content of the file:
//
//	number of terms, line end
//	CRC-32 (IEEE, without its top bit) of all that follows, in decimal, line end
//	term "-" start offset, line end, for each
func Encode(list []Term) []byte {
	var rest []byte
	for _, term := range list {
		rest = fmt.Appendf(rest, "%d-%d\n", term.Number, term.Start)
	}
	return append(fmt.Appendf(nil, "%d\n%d\n", len(list), sum(rest)), rest...)
}

func sum(b []byte) uint32 { return crc32.ChecksumIEEE(b) & 0x7FFFFFFF }

// Decode is the inverse of Encode. A checksum of 0 is not looked at, as
// RocketMQ's own are. Terms must grow, in number and start.
func Decode(b []byte) ([]Term, error) {
	count, rest, ok := bytes.Cut(b, []byte("\n"))
	check, rest, ok2 := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(count))
	want, err2 := strconv.ParseUint(string(check), 10, 32)
	if !ok || !ok2 || err != nil || err2 != nil || n < 0 {
		return nil, fmt.Errorf("the first two lines are not a number of terms and a checksum: %.40q", b)
	}
	if got := uint64(sum(rest)); want != 0 && got != want {
		return nil, fmt.Errorf("checksum %d, want %d", got, want)
	}
	var list []Term
	for line := range bytes.Lines(rest) {
		var term Term
		number, start, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("-"))
		num, err := strconv.ParseInt(string(number), 10, 32)
		at, err2 := strconv.ParseInt(string(start), 10, 64)
		term = Term{int32(num), at}
		if err != nil || err2 != nil || num < 0 || at < 0 || len(list) > 0 && (term.Number <= list[len(list)-1].Number || at < list[len(list)-1].Start) {
			return nil, fmt.Errorf("line %d is no later term: %.40q", len(list)+3, line)
		}
		list = append(list, term)
	}
	if len(list) != n {
		return nil, fmt.Errorf("%d terms, the first line says %d", len(list), n)
	}
	return list, nil
}
