package store

import (
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// A read is cold when it is further behind the end of the commit log than
// Config.HotBytes: it probably needs the disk, which those at the tail and the
// sync of the log need, too, and what it brings in pushes what they want out of
// the page cache. So consumer groups that read cold have a budget, each and all
// together, in bytes a second and in bytes that are being read at a time; over
// it a Read returns less, or ReadLater. And what they have gone over is dropped
// from the page cache. FORMAT.md has the figures behind the choices.

const (
	coldWindow = 4 << 20               // of the log, that is dropped at once
	coldLeast  = 64 << 10              // a cold read waits until it gets so much
	coldBurst  = 10 * time.Millisecond // of the rate, that can be saved
	coldPause  = 10 * time.Millisecond // until others have read
	coldPage   = 4 << 10               // what the disk reads at least
	coldGroups = 1024                  // more budgets are looked through for idle ones
)

// coldReads are the budgets of the consumer groups that read cold.
type coldReads struct {
	now  func() time.Time
	hot  int64 // bytes behind the end of the log that are not cold
	held atomic.Uint64
	work work

	mu     sync.Mutex
	limit  coldBudget // of a group, full
	all    coldBudget
	groups map[string]*coldBudget
	sweep  int // number of groups at which idle ones are dropped
}

// coldBudget is a rate and a number of bytes at a time.
type coldBudget struct {
	rate     int64   // bytes a second
	inFlight int64   // bytes being read at a time
	left     float64 // below 0 after a record that is larger than what was left
	at       time.Time
	flying   int64
}

func (c *coldReads) init(cfg *Config, now func() time.Time) {
	c.now, c.hot = now, cfg.HotBytes
	if c.hot == 0 {
		c.hot = machineMemory() / 10 * 4
	}
	c.all = newColdBudget(cfg.ColdRate, cfg.ColdInFlight)
	c.limit = newColdBudget(cfg.ColdGroupRate, cfg.ColdGroupInFlight)
	c.groups, c.sweep = map[string]*coldBudget{}, coldGroups
}

func newColdBudget(rate, inFlight int64) coldBudget {
	b := coldBudget{rate: rate, inFlight: inFlight}
	b.left = b.burst()
	return b
}

func (b *coldBudget) burst() float64 {
	return max(float64(b.rate)*coldBurst.Seconds(), coldLeast)
}

func (b *coldBudget) refill(now time.Time) {
	if !b.at.IsZero() {
		b.left = min(b.burst(), b.left+max(now.Sub(b.at).Seconds(), 0)*float64(b.rate))
	}
	b.at = now
}

// room is how much of n may be read now; 0 for nothing, and when to ask again.
func (b *coldBudget) room(n int64) (int64, time.Duration) {
	least := float64(min(n, coldLeast))
	if b.left < least {
		return 0, max(time.Duration(math.Ceil((least-b.left)/float64(b.rate)*1e9)), time.Millisecond)
	}
	n = min(n, int64(b.left))
	if b.flying == 0 {
		return n, 0 // one read is always allowed
	}
	if b.inFlight-b.flying < int64(least) {
		return 0, coldPause
	}
	return min(n, b.inFlight-b.flying), 0
}

// take takes up to n bytes out of a group's budget and that of all; 0 for
// nothing, and when to ask again. What was taken goes back with give.
func (c *coldReads) take(group string, n int64) (int64, time.Duration) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupLocked(group, now)
	c.all.refill(now)
	g.refill(now)
	got, wait := c.all.room(n)
	if got > 0 {
		got, wait = g.room(got)
	}
	if got == 0 {
		c.held.Add(1)
		return 0, wait
	}
	for _, b := range []*coldBudget{&c.all, g} {
		b.left -= float64(got)
		b.flying += got
	}
	return got, 0
}

// give ends a read that took bytes and came to used, which may be more.
func (c *coldReads) give(group string, took, used int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range []*coldBudget{&c.all, c.groups[group]} {
		b.left += float64(took - used)
		b.flying -= took
	}
}

func (c *coldReads) groupLocked(group string, now time.Time) *coldBudget {
	if g := c.groups[group]; g != nil {
		return g
	}
	if len(c.groups) >= c.sweep {
		for name, g := range c.groups {
			if g.refill(now); g.flying == 0 && g.left >= g.burst() {
				delete(c.groups, name)
			}
		}
		c.sweep = max(coldGroups, 2*len(c.groups))
	}
	g := c.limit
	c.groups[group] = &g
	return &g
}

// coldCost is the bytes that the disk has to read for units.
func (s *Store) coldCost(units []queuelog.Unit) (n int64) {
	s.spans(units, func(_ []queuelog.Unit, size int) { n += max(int64(size), coldPage) })
	return n
}

// coldUnits is the number of units, from the first one on, that are further
// behind than hot.
func coldUnits(units []queuelog.Unit, hotFrom int64) int {
	for i, u := range units {
		if u.Offset >= hotFrom {
			return i
		}
	}
	return len(units)
}

// chilled is a cold read that is under way; the zero value is none.
type chilled struct {
	group      string
	took, used int64
	units      int // of those wanted, the first ones, are cold
	began      time.Time
}

// chill takes the budget for the cold part of what a read has chosen. It
// shortens b when there is less, and says when to come again when there is
// nothing. Every chilled goes to warm.
func (s *Store) chill(b *Batch, o *ReadOptions) (c chilled, wait time.Duration) {
	bufs := b.bufs
	n := coldUnits(bufs.wanted, s.clog.Written()-s.cold.hot)
	if o.Group == "" || n == 0 {
		return c, 0
	}
	c.group, c.used = o.Group, s.coldCost(bufs.wanted[:n])
	if c.took, wait = s.cold.take(o.Group, c.used); c.took == 0 {
		return chilled{}, wait
	}
	c.units, c.began = n, s.now()
	if c.took < c.used {
		fits := 1
		for ; fits < n && s.coldCost(bufs.wanted[:fits+1]) <= c.took; fits++ {
		}
		if fits < len(bufs.wanted) {
			b.Next = bufs.places[fits]
			bufs.wanted, bufs.places = bufs.wanted[:fits], bufs.places[:fits]
		}
		c.units, c.used = fits, s.coldCost(bufs.wanted[:fits])
	}
	return c, 0
}

// warm ends a cold read: it gives the budget back, and drops the windows of the
// log that it has left behind from the page cache. The first one is that of the
// entry in front, where the last read has ended.
func (s *Store) warm(q *queue, c chilled, bufs *readBuffers) {
	if c.took == 0 {
		return
	}
	s.cold.give(c.group, c.took, c.used)
	s.cold.work.observe(s.now().Sub(c.began), c.used)
	wanted := bufs.wanted
	at := wanted[0].Offset / coldWindow
	if before, ok, err := q.log.At(bufs.places[0] - 1); err == nil && ok && before.Offset < wanted[0].Offset {
		at = before.Offset / coldWindow
	}
	for _, u := range wanted[:c.units] {
		first, last := u.Offset/coldWindow, (u.Offset+int64(u.Size))/coldWindow
		for at < last {
			s.clog.Forget(at*coldWindow, coldWindow)
			at = max(at+1, first)
		}
		at = last
	}
}

// machineMemory is the bytes of memory of the machine or of the container; 4 GiB
// where the system does not say.
func machineMemory() int64 {
	memory := int64(4 << 30)
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(raw), "MemTotal: %d kB", &kib); err == nil && kib > 0 {
			memory = kib << 10
		}
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if raw, err := os.ReadFile(name); err == nil {
			var limit int64
			if _, err := fmt.Sscan(string(raw), &limit); err == nil && limit > 0 {
				memory = min(memory, limit)
			}
		}
	}
	return memory
}
