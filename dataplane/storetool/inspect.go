package storetool

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Summary is what a folder holds, as far as a quick look tells.
type Summary struct {
	Folder     string           `json:"folder"`
	State      string           `json:"state"` // "clean", "unclean stop" or "in use"
	Layout     string           `json:"queue_layout"`
	Sizes      Sizes            `json:"sizes"`
	Checkpoint store.Checkpoint `json:"checkpoint"`
	Segments   []Segment        `json:"segments"`
	Queues     []QueueRange     `json:"queues"`
	Index      []IndexFile      `json:"index"`
	Cut        []CutFile        `json:"cut"`
}

// Segment is a commit log file.
type Segment struct {
	File      string `json:"file"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Bytes     int64  `json:"bytes"`
	FirstTime int64  `json:"first_time,omitempty"` // store time of the first record in ms; 0 when there is none
	Problem   string `json:"problem,omitempty"`
}

// QueueRange is a consume queue.
type QueueRange struct {
	Topic  string `json:"topic"`
	Queue  int32  `json:"queue"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Newest int64  `json:"newest"` // commit log offset of the newest message, -1 for none
	Files  int    `json:"files"`
	Batch  bool   `json:"batch,omitempty"` // its records may hold several messages
}

// CutFile is a copy of what a start or a repair has cut off the commit log.
type CutFile struct {
	File    string `json:"file"`
	From    int64  `json:"from"` // commit log offset of its first byte
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"` // whole ones
}

// IndexFile is a file of the key index.
type IndexFile struct {
	File      string `json:"file"`
	Keys      int32  `json:"keys"`
	FirstTime int64  `json:"first_time"` // store times in ms
	LastTime  int64  `json:"last_time"`
}

// The states of a folder.
const (
	StateClean   = "clean"
	StateUnclean = "unclean stop"
	StateInUse   = "in use"
)

// Inspect looks at a folder, also at one that a broker has open: then it may
// change meanwhile.
func Inspect(o Options) (*Summary, error) {
	f, err := openFolder(&o, false)
	if err != nil {
		return nil, err
	}
	s := &Summary{Folder: o.Dir, Sizes: f.sizes, State: StateClean, Layout: f.cfg.QueueLayout.String(), Segments: []Segment{}, Queues: []QueueRange{}, Index: []IndexFile{}, Cut: []CutFile{}}
	return s, errors.Join(s.look(f, &o), f.close())
}

func (s *Summary) look(f *folder, o *Options) error {
	lock, err := f.fs.Lock(f.path("lock"), nil)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		s.State = StateInUse
	case err != nil:
		return err
	default:
		defer lock.Close()
		unclean, err := vfs.Exists(f.fs, f.path("abort"))
		if err != nil {
			return err
		}
		if unclean {
			s.State = StateUnclean
		}
	}
	v := &verifier{folder: f, opts: o, queues: map[string]map[int32]*queueCheck{}}
	if err := s.segments(v); err != nil {
		return err
	}
	if v.view != nil || f.cfg.QueueLayout == store.LayoutCompatible {
		if err := v.loadQueues((*queueCheck).halve); err != nil {
			return err
		}
	}
	for _, ids := range v.queues {
		for _, q := range ids {
			r := QueueRange{Topic: q.topic, Queue: q.id, From: q.first, To: q.used, Newest: -1, Files: len(q.names)}
			if u, ok, err := q.at(q.used - 1); err != nil {
				return err
			} else if ok && q.used > q.first {
				r.Newest = u.Offset
			}
			s.Queues = append(s.Queues, r)
		}
	}
	if err := s.batches(v); err != nil {
		return err
	}
	slices.SortFunc(s.Queues, func(a, b QueueRange) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
	})
	if err := s.cuts(f); err != nil {
		return err
	}
	return s.index(f)
}

// batches lists the batch consume queues.
func (s *Summary) batches(v *verifier) error {
	return v.eachQueue("batchconsumequeue", func(topic string, id int32) error {
		q, err := v.loadBatch(topic, id)
		if err != nil || q == nil {
			return err
		}
		r := QueueRange{Topic: topic, Queue: id, Newest: -1, Files: len(q.names), Batch: true}
		for n := q.first; n < q.end; n++ {
			u, ok, err := q.batchUnit(n)
			if err != nil || !ok {
				s.Queues = append(s.Queues, r)
				return err
			}
			if r.Newest < 0 {
				r.From = u.Base
			}
			r.To, r.Newest = u.Next(), u.Offset
		}
		s.Queues = append(s.Queues, r)
		return nil
	})
}

// segments lists the commit log, and opens the view when the files allow it.
func (s *Summary) segments(v *verifier) error {
	fit, err := v.checkSegments()
	if err != nil {
		return err
	}
	problems := map[string]string{}
	for _, found := range slices.Concat(v.Faults, v.Dirty) {
		problems[found.File] = found.What
	}
	if fit {
		if err := v.look(); err != nil {
			return fmt.Errorf("open the commit log: %w", err)
		}
		s.Checkpoint = v.view.Checkpoint()
	}
	infos, err := v.list("commitlog")
	if err != nil {
		return err
	}
	for _, info := range infos {
		if !isLogFile(info) {
			continue
		}
		name := filepath.Join("commitlog", info.Name)
		base, err := strconv.ParseInt(info.Name, 10, 64)
		if err != nil {
			continue // told of in problems
		}
		seg := Segment{File: name, From: base, To: base + v.cfg.SegmentBytes, Bytes: info.Size, Problem: problems[name]}
		if fit {
			if rec, err := v.view.CommitLog().Peek(base); err == nil {
				seg.FirstTime = rec.StoreTimestamp
			}
		}
		s.Segments = append(s.Segments, seg)
	}
	return nil
}

func (s *Summary) index(f *folder) error {
	for _, dir := range []string{"index", "sluice.index"} {
		infos, err := f.list(dir)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if info.Dir || info.Size < 40 {
				continue
			}
			h, err := indexHeader(f.fs, f.path(dir, info.Name))
			if err != nil {
				return err
			}
			h.File = filepath.Join(dir, info.Name)
			s.Index = append(s.Index, h)
		}
	}
	return nil
}
