package storetool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/store"
)

// verifier is the state of one Verify.
type verifier struct {
	*folder
	Report
	opts        *Options
	queues      map[string]map[int32]*queueCheck
	indexes     []*indexCheck
	lost        bool        // the log ends in front of what was synced
	lostQueues  []lostQueue // with entries behind its end
	noDirectory bool        // of compact queues: none of them can be looked at

	damaged []span // places without records inside of the log
	synced  int64  // records stored until then are in synced files, ms
	newest  int64  // commit log offset of the newest queue entry
}

// span is a part of the commit log.
type span struct{ from, to int64 }

// Verify reads everything in a folder: each record with its checksum, each
// queue entry against its record, each key of the index, each configuration
// file, the timers' files against each other. The error is about the reading, ErrNoStore or store.ErrLocked; what is
// wrong with the folder is in the report. It ends with ctx.
func Verify(ctx context.Context, o Options) (*Report, error) {
	f, err := openFolder(&o, true)
	if err != nil {
		return nil, err
	}
	v := &verifier{folder: f, opts: &o, queues: map[string]map[int32]*queueCheck{}}
	v.Folder, v.Sizes = o.Dir, f.sizes
	err = errors.Join(v.run(ctx), f.close())
	v.sort()
	v.reportLost()
	return &v.Report, err
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.checkFolder(); err != nil {
		return err
	}
	if err := v.checkConfig(); err != nil {
		return err
	}
	if fit, err := v.checkSegments(); err != nil || !fit {
		return err
	}
	if err := v.look(); err != nil {
		return err
	}
	v.Clean = !v.view.Unclean
	if !v.Clean {
		v.dirty(Finding{Name: "unclean-stop", File: "abort", What: "the broker was not stopped, it was killed or lost its power", Fix: fixStart})
	}
	if err := v.checkDirectory(); err != nil {
		return err
	}
	cp := v.view.Checkpoint()
	v.synced = min(cp.CommitLog, cp.Queues)
	if err := v.view.QueueStates(); err != nil {
		v.fault(Finding{Name: "queue-states", File: "queues.state", What: err.Error(), Fix: "Remove the file: the next start makes a new one, but cannot tell this time whether queue files were lost."})
	}
	if err := v.loadQueues((*queueCheck).findUsed); err != nil {
		return err
	}
	if err := v.openIndexes(); err != nil {
		return err
	}
	if err := v.readLog(ctx); err != nil {
		return err
	}
	if err := v.finishQueues(); err != nil {
		return err
	}
	if err := v.checkBatchQueues(); err != nil {
		return err
	}
	if err := v.finishIndexes(); err != nil {
		return err
	}
	if err := v.checkTimers(); err != nil {
		return err
	}
	if err := errors.Join(v.checkTables(), v.checkTerms(), v.checkCheckpoint()); err != nil {
		return err
	}
	return v.checkBegin()
}

// checkBegin tells of files that are missing in front of the log: after a
// clean stop no queue begins in front of it.
func (v *verifier) checkBegin() error {
	if v.cfg.QueueLayout == store.LayoutCompatible {
		// Last of all, since it repairs the files as the overlay shows them.
		err := v.view.Queues(func(_ string, _ int32, _ *queuelog.Queue, err error) error {
			if errors.Is(err, queuelog.ErrDamaged) {
				return nil // it was told of
			}
			return err
		})
		if errors.Is(err, queuelog.ErrDirectory) || errors.Is(err, queuelog.ErrSize) {
			return nil // as was that
		}
		if err != nil {
			return err
		}
	}
	states := v.view.States
	for _, ids := range v.queues {
		for _, q := range ids {
			if q.log == nil {
				continue
			}
			if u, ok, err := q.at(q.first); err != nil {
				return err
			} else if ok {
				states = append(states, queuelog.State{Topic: q.topic, ID: q.id, Low: q.first, Next: q.used, LowOffset: u.Offset})
			}
		}
	}
	for _, st := range states {
		if v.Clean && st.LowOffset >= 0 && st.LowOffset < v.From && st.Next > st.Low {
			name, _ := v.place(st.LowOffset)
			v.fault(Finding{Name: "segment-missing", File: name, What: fmt.Sprintf("the commit log begins at %d, but when it was stopped message %d of %s queue %d was at %d", v.From, st.Low, st.Topic, st.ID, st.LowOffset), Fix: fixCopy})
			return nil
		}
	}
	return nil
}

// The names of a store folder, ours and RocketMQ's.
var folderNames = []string{"commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "sluice.index", "config", "checkpoint", "abort", "abort.bak",
	"lock", "queues.state", "queues.state.tmp", "sluice.queues", "sluice.version", "sluice.cut", "timerwheel", "timerlog", "compaction", "rocksdbstore", "kvStore", "epochFileCheckpoint",
	"epochFileCheckpoint.bak", "brokerIdentity", "meter", "policy"}

// checkFolder looks at the files of the folder itself.
func (v *verifier) checkFolder() error {
	infos, err := v.list()
	if err != nil {
		return err
	}
	for _, info := range infos {
		switch {
		case info.Name == "checkpoint" && info.Size != 4096:
			v.fault(Finding{Name: "checkpoint-size", File: info.Name, Offset: info.Size, What: fmt.Sprintf("it has %d bytes, not 4096: what is missing counts as zero", info.Size),
				Fix: "The next start reads more of the commit log than it would have to, and writes the file anew."})
		case !slices.Contains(folderNames, info.Name) && !strings.HasPrefix(info.Name, "sluice."):
			v.note(Finding{Name: "foreign-file", File: info.Name, What: "it belongs to no store and is left alone"})
		}
	}
	return nil
}

// checkSegments looks at names and sizes of the commit log files; fit is
// false when the log cannot be read because of them.
func (v *verifier) checkSegments() (fit bool, err error) {
	infos, err := v.list("commitlog")
	if err != nil {
		return false, err
	}
	fit = true
	next, short := int64(-1), ""
	for _, info := range infos {
		name := filepath.Join("commitlog", info.Name)
		if !isLogFile(info) {
			v.note(Finding{Name: "foreign-file", File: name, What: "it is no commit log file and is left alone"})
			continue
		}
		base, err := strconv.ParseInt(info.Name, 10, 64)
		if err != nil || base%v.cfg.SegmentBytes != 0 || info.Size > v.cfg.SegmentBytes {
			v.fault(Finding{Name: "segment-size", File: name, What: fmt.Sprintf("a file of %d bytes of this name does not fit to files of %d bytes: the store cannot be opened", info.Size, v.cfg.SegmentBytes), Fix: fixSizes})
			fit = false
			continue
		}
		if next >= 0 && base != next {
			v.fault(Finding{Name: "segment-missing", File: filepath.Join("commitlog", fmt.Sprintf("%020d", next)), Length: base - next,
				What: fmt.Sprintf("commit log offsets %d to %d are missing, the file and its records are gone", next, base), Fix: fixCopy})
		}
		if short != "" && info.Size > 0 {
			v.fault(Finding{Name: "segment-short", File: short, What: "the file is shorter than the others, and it is not the last: it was cut", Fix: fixCopy})
		}
		if short = ""; info.Size < v.cfg.SegmentBytes {
			short = name
		}
		next = base + v.cfg.SegmentBytes
	}
	if short != "" {
		v.dirty(Finding{Name: "segment-incomplete", File: short, What: "the making of the file was interrupted", Fix: fixStart})
	}
	return fit, nil
}

// readLog reads all records.
func (v *verifier) readLog(ctx context.Context) error {
	log := v.view.CommitLog()
	bases := log.Bases()
	if len(bases) == 0 {
		v.lost = v.endLost(0)
		return nil
	}
	v.From = bases[0]
	limit := log.SegmentEnd(bases[len(bases)-1])
	v.To = v.From
	sc := log.ScanVerified(v.From, limit)
	var f message.Fields // one for all: it escapes
	lastTime := int64(0)
	for n := int64(0); ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			v.opts.progress(sc.Offset()-v.From, limit-v.From)
		}
		off, fields, rec, err := sc.Next()
		if f = fields; err == nil {
			v.Records++
			lastTime = f.StoreTimestamp
			v.passed(off)
			v.To = off + int64(len(rec))
			if err := v.record(off, &f); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			v.passed(sc.Offset())
			v.To = sc.Offset()
			v.lost = v.endLost(lastTime)
			break
		}
		if !errors.Is(err, message.ErrCorrupt) {
			return err
		}
		next, ok := log.Resync(off, limit)
		if !ok {
			v.passed(off)
			v.To = off
			v.lost = v.endLost(lastTime)
			if err := v.tail(off, limit, err); err != nil {
				return err
			}
			break
		}
		v.damaged = append(v.damaged, span{off, next})
		v.damage(off, next, err)
		sc.Reset(next, limit)
	}
	v.opts.progress(limit-v.From, limit-v.From)
	return nil
}

// passed notes what is between the last record and the next place, behind an
// end-of-file marker. Nothing is there, unless a lost end of the log was passed over.
func (v *verifier) passed(off int64) {
	if off > v.To {
		v.damaged = append(v.damaged, span{v.To, off})
	}
}

// damage reports a place without records in front of good ones.
func (v *verifier) damage(from, to int64, err error) {
	name, at := v.place(from)
	if _, statErr := v.fs.Stat(v.path(name)); statErr != nil {
		return // missing: it was told of
	}
	what := fmt.Sprintf("no record can be read there (%v); the next good one is at %d", err, to)
	if !v.Clean && v.cutByStart(from, to) {
		v.dirty(Finding{Name: "torn-write", File: name, Offset: at, Length: to - from, What: what + ", and nothing says that it was synced", Fix: "The next start cuts the log here and keeps a copy of what stands behind in sluice.cut."})
		return
	}
	v.fault(Finding{Name: "record-damaged", File: name, Offset: at, Length: to - from, What: what, Fix: fixCopy})
}

// cutByStart tells whether nothing says that a damaged place and the record
// behind it were synced: then a recovery takes it for a torn tail.
func (v *verifier) cutByStart(from, to int64) bool {
	cp := v.view.Checkpoint()
	f, err := v.view.CommitLog().Peek(to)
	return err == nil && from >= cp.Synced && f.StoreTimestamp > cp.CommitLog
}

// tail reports what stands behind the last record.
func (v *verifier) tail(off, limit int64, cause error) error {
	log := v.view.CommitLog()
	b := make([]byte, 64<<10)
	for at := off; at < limit; {
		name, pos := v.place(at)
		n := min(int64(len(b)), log.SegmentEnd(at)-at)
		f, err := v.fs.Open(v.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			at = log.SegmentEnd(at) // told of already
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.ReadAt(b[:n], pos)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if i := bytes.IndexFunc(b[:n], func(r rune) bool { return r != 0 }); i >= 0 {
			name, pos = v.place(off)
			found := Finding{Name: "torn-write", File: name, Offset: pos, What: fmt.Sprintf("the bytes behind the last record are not zero: %v", cause), Fix: "The next start cuts them off and keeps a copy in sluice.cut."}
			switch {
			case v.lost:
				found.Name, found.Fix = "tail-damaged", "It was synced. The next start cuts it off and keeps a copy in sluice.cut."
				v.fault(found)
			case v.Clean:
				found.Name = "tail-damaged"
				found.Fix = "The last stop was clean, so this was written by somebody else or the newest records are lost. The next start cuts the bytes off and keeps a copy in sluice.cut."
				v.fault(found)
			default:
				v.dirty(found)
			}
			return nil
		}
		at += n
	}
	return nil
}

// place turns a commit log offset into a file and a byte in it.
func (v *verifier) place(off int64) (name string, at int64) {
	at = off % v.cfg.SegmentBytes
	return filepath.Join("commitlog", fmt.Sprintf("%020d", off-at)), at
}

// record compares a record with its queue entry and its keys.
func (v *verifier) record(off int64, f *message.Fields) error {
	if v.view.Queued(off, f) {
		if err := v.checkUnit(off, f); err != nil {
			return err
		}
	}
	for _, x := range v.indexes {
		if err := x.record(off, f); err != nil {
			return err
		}
	}
	return nil
}
