package transaction

import (
	"container/heap"
	"slices"
	"strconv"
	"strings"
)

// State is how far a transaction is.
type State uint8

// The states. A transaction that has ended is in no table.
const (
	StateOpen      State = iota // nobody has decided
	StateGivenUp                // asked about too often, or too old; may still be decided
	StateCommitted              // delivered; only the record in OpTopic is missing
)

var stateNames = [...]string{"open", "given_up", "committed"}

// String names the state as interfaces show it.
func (s State) String() string { return stateNames[min(int(s), len(stateNames)-1)] }

// half is a transaction that has not ended. About 120 bytes each.
type half struct {
	offset    int64 // in HalfTopic
	physical  int64
	namespace string // of the real topic; shared with others
	stored    int64  // ms
	due       int64  // ms: when to look at it next
	checks    int    // so many producers were asked
	state     State
	recovered bool          // was here at the start: it may have been delivered just before
	ending    chan struct{} // closed when whoever ends it is through; nil when nobody does
	place     int           // in byDue, -1 when in none
}

// table holds the transactions that have not ended, by offset and by due time.
type table struct {
	halves map[int64]*half
	byDue  dueHeap
	order  []int64 // offsets of halves that were added, ascending; may hold ended ones
	open   map[string]int
}

func newTable() table { return table{halves: map[int64]*half{}, open: map[string]int{}} }

// add takes a transaction in, unless it is there.
func (t *table) add(h *half) bool {
	if t.halves[h.offset] != nil {
		return false
	}
	h.place = -1
	t.halves[h.offset] = h
	t.open[h.namespace]++
	if i, found := slices.BinarySearch(t.order, h.offset); !found {
		t.order = slices.Insert(t.order, i, h.offset)
	}
	if h.state != StateGivenUp {
		heap.Push(&t.byDue, h)
	}
	return true
}

// remove forgets a transaction that has ended.
func (t *table) remove(h *half) {
	if t.halves[h.offset] != h {
		return
	}
	delete(t.halves, h.offset)
	if t.open[h.namespace]--; t.open[h.namespace] == 0 {
		delete(t.open, h.namespace)
	}
	if h.place >= 0 {
		heap.Remove(&t.byDue, h.place)
	}
	if len(t.order) > 2*len(t.halves)+1024 {
		t.order = slices.DeleteFunc(t.order, func(offset int64) bool { return t.halves[offset] == nil })
	}
}

// again makes h due at a time.
func (t *table) again(h *half, due int64) {
	h.due = due
	if h.place >= 0 {
		heap.Fix(&t.byDue, h.place)
	} else {
		heap.Push(&t.byDue, h)
	}
}

// rest takes h out of those that become due.
func (t *table) rest(h *half) {
	if h.place >= 0 {
		heap.Remove(&t.byDue, h.place)
	}
}

// first returns the lowest offset that somebody may still be asked about; next
// when there is none.
func (t *table) first(next int64) int64 {
	for len(t.order) > 0 {
		h := t.halves[t.order[0]]
		if h != nil && h.state != StateGivenUp {
			return h.offset
		}
		if h != nil { // given up: behind it others may be open
			break
		}
		t.order = t.order[1:]
	}
	for _, offset := range t.order {
		if h := t.halves[offset]; h != nil && h.state != StateGivenUp {
			return offset
		}
	}
	return next
}

// dueHeap orders by due time.
type dueHeap []*half

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due < d[j].due }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push implements heap.Interface.
func (d *dueHeap) Push(x any) {
	h := x.(*half)
	h.place = len(*d)
	*d = append(*d, h)
}

// Pop implements heap.Interface.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.place = -1
	return h
}

// namespaceOf is the part of a physical name that says whose it is.
func namespaceOf(topic string) string {
	ns, _, found := strings.Cut(topic, "%")
	if !found {
		return ""
	}
	return ns
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
