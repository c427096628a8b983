package broker

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// keptEntries is how many entries of a slot are in memory: 12 MiB. A slot with
// more is gone through as often as it takes.
const keptEntries = 256 << 10

// timed is a unit whose slot is being delivered.
type timed struct {
	at     int64 // when to send it on, ms: as wanted, or later when that failed
	wanted int64 // what the unit says, 0 for nothing
	offset int64 // of its record in the commit log
	size   int32
	hash   int32
	magic  int32
}

// slot is what is left of a slot.
type slot struct {
	loaded  bool
	touched bool      // something of it was delivered
	heap    entryHeap // earliest first
	more    bool      // the chain has entries behind bound that are not in the heap
	bound   timed     // last entry of the last pass over the chain
	last    timed     // that left the heap; the log may have two units of one message
}

// entryHeap is a min-heap by time and, for equal times, by age.
type entryHeap []timed

func compareEntries(a, b timed) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.offset, b.offset))
}

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return compareEntries(h[i], h[j]) < 0 }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) { *h = append(*h, x.(timed)) }

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	*h = (*h)[:n]
	return e
}

// entryOf makes the entry of a unit. One that only goes on to another slot, or
// whose time is not known, comes at the end of its slot.
func entryOf(u *timerlog.Unit) timed {
	e := timed{at: u.Wanted, wanted: u.Wanted, offset: u.Offset, size: u.Size, hash: u.TopicHash, magic: u.Magic}
	if u.Wanted == 0 || u.Magic&timerlog.MagicRoll != 0 {
		e.at = u.Due() + timerStep
	}
	return e
}

// works tells whether a unit is more than a cancellation that is in its last
// slot.
func works(u *timerlog.Unit) bool {
	return u.Magic&timerlog.MagicDelete == 0 || u.Magic&timerlog.MagicRoll != 0
}

// offer adds a unit that came while its slot is being delivered.
func (s *slot) offer(u *timerlog.Unit) {
	if e := entryOf(u); works(u) && (!s.more || compareEntries(e, s.bound) <= 0) {
		heap.Push(&s.heap, e)
	}
}

// pop takes the next entry, if it is due at now.
func (s *slot) pop(now int64) (timed, bool) {
	for len(s.heap) > 0 && s.heap[0].at <= now {
		e := heap.Pop(&s.heap).(timed)
		// Same place and other time: one of them is not of the record there.
		if e != s.last {
			s.last = e
			return e, true
		}
	}
	return timed{}, false
}

// later gives an entry back to be tried again.
func (s *slot) later(e timed, at int64) {
	e.at = at
	s.last = timed{}
	heap.Push(&s.heap, e)
}

// load brings the first, or the next, entries of the slot at t.read into memory.
func (t *timers) load() error {
	s := &t.slot
	first := !s.loaded
	if first {
		*s = slot{}
	}
	w, ok, err := t.wheel.Slot(t.read)
	if err != nil {
		return err
	}
	var entries []timed
	more := false
	if ok {
		err = timerlog.Chain(t.log, t.wheel, w, func(_ int64, u timerlog.Unit) error {
			e := entryOf(&u)
			if !works(&u) || !first && compareEntries(e, s.bound) <= 0 || more && compareEntries(e, entries[t.kept-1]) > 0 {
				return nil
			}
			if entries = append(entries, e); len(entries) >= 2*t.kept {
				entries, more = t.first(entries), true
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	if len(entries) > t.kept {
		more = true
	}
	entries = t.first(entries)
	s.loaded, s.more, s.heap = true, more, entries // a sorted slice is a heap
	if n := len(entries); n > 0 {
		s.bound = entries[n-1]
	}
	return nil
}

// first are the entries to keep, in order.
func (t *timers) first(entries []timed) []timed {
	slices.SortFunc(entries, compareEntries)
	return entries[:min(len(entries), t.kept)]
}
