package broker

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"sync"
)

// lease is one message that a receiver has and did not acknowledge.
type lease struct {
	offset    int64
	visibleAt int64 // ms
	attempt   int32 // number of this delivery, from 1
	nonce     uint64
	index     int // in the heap
}

// leaseHeap orders leases by when they become visible.
type leaseHeap []*lease

func (h leaseHeap) Len() int { return len(h) }
func (h leaseHeap) Less(i, j int) bool {
	if h[i].visibleAt != h[j].visibleAt {
		return h[i].visibleAt < h[j].visibleAt
	}
	return h[i].offset < h[j].offset
}
func (h leaseHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push and Pop are container/heap's.
func (h *leaseHeap) Push(x any) { l := x.(*lease); l.index = len(*h); *h = append(*h, l) }

// Pop removes the last element.
func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return l
}

// offsetHeap has the lowest offset on top.
type offsetHeap []int64

func (h offsetHeap) Len() int           { return len(h) }
func (h offsetHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h offsetHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are container/heap's.
func (h *offsetHeap) Push(x any) { *h = append(*h, x.(int64)) }

// Pop removes the last element.
func (h *offsetHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// progress is the place of one group in one queue, when it receives instead of
// pulling. Every offset below next was handed out; those that are neither in
// flight nor below base were acknowledged. base, the oldest message in flight
// or else next, is also the group's consumer offset, which pull consumers and
// tools read and write.
type progress struct {
	id    uint32 // in the journal
	key   groupTopic
	queue int32

	// turn is held by the receiver that reads the queue, over the read; it
	// keeps two of them from taking the same messages. mu is never held over
	// I/O.
	turn chan struct{}

	mu     sync.Mutex
	next   int64
	base   int64 // as last stored in the offset table
	fresh  bool  // no position yet
	leases map[int64]*lease
	due    leaseHeap
	order  offsetHeap // offsets of leases and of some that ended
	gone   bool       // the group or topic was deleted
}

func newProgress(id uint32, key groupTopic, queue int32) *progress {
	return &progress{id: id, key: key, queue: queue, turn: make(chan struct{}, 1), fresh: true, leases: map[int64]*lease{}}
}

func (p *progress) setLocked(l lease) *lease {
	if old := p.leases[l.offset]; old != nil {
		i := old.index
		*old = l
		old.index = i
		heap.Fix(&p.due, i)
		return old
	}
	n := &l
	p.leases[l.offset] = n
	heap.Push(&p.order, l.offset)
	heap.Push(&p.due, n)
	return n
}

func (p *progress) endLocked(offset int64) {
	if l := p.leases[offset]; l != nil {
		heap.Remove(&p.due, l.index)
		delete(p.leases, offset)
	}
}

// oldestLocked is what base should be. Offsets that ended leave the heap when
// they reach its top.
func (p *progress) oldestLocked() int64 {
	for len(p.order) > 0 {
		if offset := p.order[0]; p.leases[offset] != nil {
			return min(offset, p.next)
		}
		heap.Pop(&p.order)
	}
	return p.next
}

func (p *progress) clearLocked() {
	p.leases, p.due, p.order = map[int64]*lease{}, nil, nil
}

// Kinds of journal entries.
const (
	entryName  = 1
	entryState = 2
	entryClear = 3
	entryGone  = 4
)

func (p *progress) appendName(dst []byte) []byte {
	dst = append(binary.BigEndian.AppendUint32(dst, p.id), entryName)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.key.group)))
	dst = append(dst, p.key.group...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.key.topic)))
	dst = append(dst, p.key.topic...)
	return binary.BigEndian.AppendUint32(dst, uint32(p.queue))
}

func (p *progress) appendState(dst []byte, ended []int64, set []*lease) []byte {
	dst = append(binary.BigEndian.AppendUint32(dst, p.id), entryState)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.next))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.base))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(ended)))
	for _, offset := range ended {
		dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(set)))
	for _, l := range set {
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.offset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(l.attempt))
		dst = binary.BigEndian.AppendUint64(dst, l.nonce)
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.visibleAt))
	}
	return dst
}

func (p *progress) appendClear(dst []byte) []byte {
	dst = append(binary.BigEndian.AppendUint32(dst, p.id), entryClear)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.next))
	return binary.BigEndian.AppendUint64(dst, uint64(p.base))
}

func (p *progress) appendGone(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, p.id), entryGone)
}

// snapshotLocked appends framed entries that rebuild p from nothing.
func (p *progress) snapshotLocked(dst []byte) []byte {
	dst = appendEntry(dst, p.appendName(nil))
	set := make([]*lease, 0, len(p.leases))
	for _, l := range p.leases {
		set = append(set, l)
	}
	return appendEntry(dst, p.appendState(nil, nil, set))
}

var errEntry = errors.New("receive journal: damaged entry")

// entry reads one payload; the first short read poisons it.
type entry struct {
	b   []byte
	bad bool
}

func (e *entry) take(n int) []byte {
	if e.bad || n < 0 || n > len(e.b) {
		e.bad = true
		return make([]byte, 8)[:min(max(n, 0), 8)]
	}
	out := e.b[:n]
	e.b = e.b[n:]
	return out
}

func (e *entry) u16() uint16 { return binary.BigEndian.Uint16(e.take(2)) }
func (e *entry) u32() uint32 { return binary.BigEndian.Uint32(e.take(4)) }
func (e *entry) u64() uint64 { return binary.BigEndian.Uint64(e.take(8)) }
func (e *entry) text() string {
	return string(e.take(int(e.u16())))
}

// applyEntry replays one payload into the table by journal id.
func applyEntry(table map[uint32]*progress, payload []byte) error {
	e := entry{b: payload}
	id := e.u32()
	kind := e.take(1)[0]
	p := table[id]
	if kind == entryName {
		group, topic := e.text(), e.text()
		queue := int32(e.u32())
		if e.bad {
			return errEntry
		}
		if p == nil {
			table[id] = newProgress(id, groupTopic{group, topic}, queue)
		}
		return nil
	}
	if p == nil {
		return errEntry
	}
	switch kind {
	case entryState:
		return p.applyState(&e)
	case entryClear:
		next, base := int64(e.u64()), int64(e.u64())
		if e.bad {
			return errEntry
		}
		p.next, p.base, p.fresh = next, base, false
		p.clearLocked()
		return nil
	case entryGone:
		delete(table, id)
		return nil
	}
	return errEntry
}

func (p *progress) applyState(e *entry) error {
	next, base := int64(e.u64()), int64(e.u64())
	ended := e.u32()
	if int64(ended)*8 > int64(len(e.b)) {
		return errEntry
	}
	for range ended {
		p.endLocked(int64(e.u64()))
	}
	set := e.u32()
	if int64(set)*28 > int64(len(e.b)) {
		return errEntry
	}
	for range set {
		l := lease{offset: int64(e.u64()), attempt: int32(e.u32()), nonce: e.u64(), visibleAt: int64(e.u64())}
		p.setLocked(l)
	}
	if e.bad {
		return errEntry
	}
	p.next, p.base, p.fresh = next, base, false
	return nil
}
