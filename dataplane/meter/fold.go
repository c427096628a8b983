package meter

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/dataplane/message"
)

// fold counts what is stored, as a pure function of the commit log and of the
// minutes that were sealed. Its source id stays with the folder: after a crash
// the same records give the same cells under the same name.
type fold struct {
	cfg Config

	mu      sync.Mutex
	begun   bool // a record was counted since the start
	source  string
	next    int64 // commit-log offset behind the last counted record
	minute  int64 // minute of the last counted record; never goes back
	open    int64 // first minute that is not sealed
	cells   map[int64]map[Cell]*Values
	topics  map[topicKey]*retained
	waiting *pendingSeal
	hot     hot
}

// hot is where the last record was counted: the next one mostly belongs there,
// too. values is nil when nothing is known.
type hot struct {
	topic, origin []byte // as the record had them
	class         byte
	minute        int64
	values        *Values
	retained      *retained
}

type topicKey struct{ namespaceID, topic string }

// pendingSeal waits until everything that was in the log at the turn of a
// minute has been counted.
type pendingSeal struct{ open, end int64 }

// retained is how many bytes of a topic are stored, by minute of arrival.
type retained struct {
	Minutes []retainedMinute
	Total   uint64
}

type retainedMinute struct {
	Minute int64  `json:"m"`
	Bytes  uint64 `json:"b"`
}

type topicBytes struct {
	namespaceID, topic string
	bytes              uint64
}

func openFold(cfg Config) (*fold, error) {
	f := &fold{cfg: cfg, cells: map[int64]map[Cell]*Values{}, topics: map[topicKey]*retained{}}
	found, err := f.load()
	if err != nil {
		return nil, err
	}
	if !found {
		id := make([]byte, 16)
		rand.Read(id)
		f.source = hex.EncodeToString(id)
		if err := f.save(); err != nil { // the name must be on disk before anything is reported under it
			return nil, err
		}
	}
	return f, nil
}

// from returns where counting goes on.
func (f *fold) from() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// beginLocked notices a log that ends before the checkpoint: a power failure took its
// tail. What was counted stays counted, and what is appended now must not be
// taken for it.
func (f *fold) beginLocked(offset int64) {
	if f.begun {
		return
	}
	f.begun = true
	if offset < f.next {
		f.cfg.Logger.Error("the commit log ended before what was counted: its tail was lost", "counted_to", f.next, "goes_on_at", offset)
		f.next = offset
	}
}

func (f *fold) apply(offset int64, rec []byte) {
	r, err := message.Parse(rec)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beginLocked(offset)
	f.next = offset + int64(len(rec))
	if err != nil {
		return
	}
	f.minute = max(f.minute, f.open, r.StoreTimestamp/60_000)
	size, class := weigh(r.Body, r.Properties)
	v, kept := f.placeLocked(&r, class)
	if v == nil {
		return
	}
	u4, u64 := Units(size)
	v[MessagesIn]++
	v[BytesIn] += size
	v[Units4In] += u4
	v[Units64In] += u64
	kept.add(f.minute, size)
}

// placeLocked returns where a record counts, nil for one that nobody pays.
func (f *fold) placeLocked(r *message.Fields, class byte) (*Values, *retained) {
	from, own := message.FindProperty(r.Properties, PropertyOrigin)
	h := &f.hot
	if own && h.values != nil && h.minute == f.minute && h.class == class && bytes.Equal(h.topic, r.Topic) && bytes.Equal(h.origin, from) {
		return h.values, h.retained
	}
	ns, topic, ok := Sent(r)
	if !ok {
		return nil, nil
	}
	keyID, protocol := origin(r.Properties)
	cell := Cell{NamespaceID: ns, Topic: topic, KeyID: keyID, Class: class, Protocol: protocol}
	if f.cells[f.minute] == nil {
		f.cells[f.minute] = map[Cell]*Values{}
	}
	v := f.cells[f.minute][cell]
	if v == nil {
		v = &Values{}
		f.cells[f.minute][cell] = v
	}
	t := f.topics[topicKey{ns, topic}]
	if t == nil {
		t = &retained{}
		f.topics[topicKey{ns, topic}] = t
	}
	if own && !parks(r.Topic) && string(r.Topic) != halfTopic { // what is parked there counts elsewhere, by a property
		*h = hot{topic: append(h.topic[:0], r.Topic...), origin: append(h.origin[:0], from...), class: class, minute: f.minute, values: v, retained: t}
	}
	return v, t
}

func (t *retained) add(minute int64, bytes uint64) {
	t.Total += bytes
	if n := len(t.Minutes); n > 0 && t.Minutes[n-1].Minute == minute {
		t.Minutes[n-1].Bytes += bytes
		return
	}
	t.Minutes = append(t.Minutes, retainedMinute{minute, bytes})
}

// retained returns the bytes that each topic keeps now; what is older than the
// retention is forgotten.
func (f *fold) retained() []topicBytes {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := minuteOf(f.cfg.Now().Add(-f.cfg.Retention))
	out := make([]topicBytes, 0, len(f.topics))
	for key, t := range f.topics {
		expired := 0
		for expired < len(t.Minutes) && t.Minutes[expired].Minute < oldest {
			t.Total -= t.Minutes[expired].Bytes
			expired++
		}
		t.Minutes = slices.Delete(t.Minutes, 0, expired)
		if len(t.Minutes) == 0 {
			delete(f.topics, key)
			f.hot.values = nil
			continue
		}
		out = append(out, topicBytes{key.namespaceID, key.topic, t.Total})
	}
	return out
}

// seal closes all minutes before now once everything that the log held at the
// turn of the minute is counted, and saves that. A record whose time lies in a
// sealed minute counts in the first open one.
func (f *fold) seal(now, logEnd int64) error {
	f.mu.Lock()
	if f.waiting == nil && now > f.open {
		f.waiting = &pendingSeal{open: now, end: logEnd}
	}
	if f.waiting == nil || f.next < f.waiting.end && logEnd > f.next {
		f.mu.Unlock()
		return nil
	}
	f.open = f.waiting.open
	f.waiting = nil
	f.mu.Unlock()
	return f.save()
}

// read returns the cells of all minutes and the first minute that is open.
func (f *fold) read() (cells map[int64]map[Cell]Values, open int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cells = make(map[int64]map[Cell]Values, len(f.cells))
	for minute, m := range f.cells {
		for cell, v := range m {
			put(cells, minute, cell, *v)
		}
	}
	return cells, f.open
}

// drop forgets the minutes up to and including through.
func (f *fold) drop(through int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for minute := range f.cells {
		if minute <= through && minute < f.open {
			delete(f.cells, minute)
			f.hot.values = nil
		}
	}
}

// compareCells orders cells for reports and checkpoints.
func compareCells(a, b Cell) int {
	return cmp.Or(strings.Compare(a.NamespaceID, b.NamespaceID), strings.Compare(a.Topic, b.Topic), strings.Compare(a.Group, b.Group),
		strings.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Protocol, b.Protocol))
}
