package broker

import (
	"context"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// receives is all progress of groups that receive.
type receives struct {
	b       *Broker
	journal *journal

	mu      sync.Mutex
	table   map[groupTopic]*receiver
	byTopic map[string][]*receiver
	nextID  uint32
	waiting int
	byNS    map[string]int // waiting, by namespace
	stopped chan struct{}  // closed by stop
	once    sync.Once
}

// receiver is one group in one topic.
type receiver struct {
	key groupTopic

	mu      sync.Mutex
	queues  map[int32]*progress
	rotate  int
	waiting int
	changed chan struct{} // closed and replaced when something may be there
}

func openReceives(b *Broker, fsys vfs.FS) (*receives, error) {
	r := &receives{b: b, table: map[groupTopic]*receiver{}, byTopic: map[string][]*receiver{}, byNS: map[string]int{}, stopped: make(chan struct{})}
	byID := map[uint32]*progress{}
	j, err := openJournal(fsys, b.cfg.Dir, func(payload []byte) error { return applyEntry(byID, payload) })
	if err != nil {
		return nil, err
	}
	r.journal = j
	for id, p := range byID {
		r.nextID = max(r.nextID, id)
		r.adopt(p)
	}
	return r, nil
}

// adopt puts a replayed queue in the table. The journal is newer than the
// offsets on disk when its base is higher: then nothing below it is asked for
// again. It is older when the power failed: then the offsets count, which
// reconcileLocked sees at the first receive.
func (r *receives) adopt(p *progress) {
	if p.fresh {
		r.receiver(p.key).queues[p.queue] = p
		return
	}
	if _, top := r.b.store.QueueOffsets(p.key.topic, p.queue); p.next > top {
		r.b.log.Warn("receive position was ahead of the log and is corrected", "topic", p.key.topic, "group", p.key.group, "queue", p.queue, "offset", p.next, "corrected", top)
		p.next = top
		for offset := range p.leases {
			if offset >= top {
				p.endLocked(offset)
			}
		}
		p.base = min(p.base, top)
	}
	if stored, ok := r.b.offsets.get(p.key.group, p.key.topic, p.queue); !ok || stored < p.base {
		r.b.offsets.set(p.key.group, p.key.topic, p.queue, p.base)
	}
	r.receiver(p.key).queues[p.queue] = p
}

func (r *receives) receiver(key groupTopic) *receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.table[key]
	if rec == nil {
		rec = &receiver{key: key, queues: map[int32]*progress{}, changed: make(chan struct{})}
		r.table[key] = rec
		r.byTopic[key.topic] = append(r.byTopic[key.topic], rec)
	}
	return rec
}

// queue returns the progress of one queue, naming it in the journal first.
func (r *receives) queue(rec *receiver, id int32) *progress {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	p := rec.queues[id]
	if p == nil {
		r.mu.Lock()
		r.nextID++
		n := r.nextID
		r.mu.Unlock()
		p = newProgress(n, rec.key, id)
		rec.queues[id] = p
		r.journal.add(p.appendName(nil))
	}
	return p
}

func (r *receives) find(group, topic string, queue int32) *progress {
	r.mu.Lock()
	rec := r.table[groupTopic{group, topic}]
	r.mu.Unlock()
	if rec == nil {
		return nil
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.queues[queue]
}

func (r *receives) inFlight(group, topic string, queue int32) int {
	p := r.find(group, topic, queue)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.leases)
}

// arrived wakes the receivers of a topic.
func (r *receives) arrived(topic string) {
	r.mu.Lock()
	recs := r.byTopic[topic]
	r.mu.Unlock()
	for _, rec := range recs {
		rec.signal()
	}
}

func (rec *receiver) signal() {
	rec.mu.Lock()
	if rec.waiting > 0 {
		close(rec.changed)
		rec.changed = make(chan struct{})
	}
	rec.mu.Unlock()
}

// stop ends all waiting receives and lets none wait.
func (r *receives) stop() { r.once.Do(func() { close(r.stopped) }) }

func (r *receives) close() error { return r.journal.close() }

// compactAt is the size from which the journal is rewritten, and again each
// time that it has grown to four times what the rewriting left.
const compactAt = 8 << 20

// run syncs the journal each second and keeps it short.
func (r *receives) run(ctx context.Context) error {
	limit := int64(compactAt)
	return every(ctx, time.Second, func() {
		if err := r.journal.sync(); err != nil {
			r.b.log.Error("receive journal was not synced", "err", err)
		}
		if r.journal.length() < limit {
			return
		}
		if err := r.journal.compact(r.snapshot); err != nil {
			r.b.log.Error("receive journal was not compacted", "err", err)
		}
		limit = max(compactAt, 4*r.journal.length())
	})
}

func (r *receives) snapshot() []byte {
	var out []byte
	for _, rec := range r.receivers() {
		rec.mu.Lock()
		queues := make([]*progress, 0, len(rec.queues))
		for _, p := range rec.queues {
			queues = append(queues, p)
		}
		rec.mu.Unlock()
		for _, p := range queues {
			p.mu.Lock()
			if !p.fresh && !p.gone {
				out = p.snapshotLocked(out)
			} else if !p.gone {
				out = appendEntry(out, p.appendName(nil))
			}
			p.mu.Unlock()
		}
	}
	return out
}

func (r *receives) receivers() []*receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*receiver, 0, len(r.table))
	for _, rec := range r.table {
		out = append(out, rec)
	}
	return out
}

// drop forgets what keep does not want.
func (r *receives) drop(keep func(groupTopic) bool) {
	for _, rec := range r.receivers() {
		if keep(rec.key) {
			continue
		}
		r.mu.Lock()
		delete(r.table, rec.key)
		rest := r.byTopic[rec.key.topic][:0:0]
		for _, other := range r.byTopic[rec.key.topic] {
			if other != rec {
				rest = append(rest, other)
			}
		}
		r.byTopic[rec.key.topic] = rest
		if len(rest) == 0 {
			delete(r.byTopic, rec.key.topic)
		}
		r.mu.Unlock()
		rec.mu.Lock()
		for _, p := range rec.queues {
			p.mu.Lock()
			p.gone = true
			r.journal.add(p.appendGone(nil))
			p.mu.Unlock()
		}
		rec.mu.Unlock()
		rec.signal()
	}
}
