package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// retained is a store whose clock, disk and dispatcher the test drives.
type retained struct {
	*Store
	t    *testing.T
	disk *vfs.Mem
	mu   sync.Mutex
	now  time.Time
	sent map[string]int64
}

func newRetained(t *testing.T, change func(*Config)) *retained {
	t.Helper()
	r := &retained{t: t, now: time.UnixMilli(1_700_000_000_000).UTC(), sent: map[string]int64{}}
	r.disk = vfs.NewMem(r.clock)
	cfg := testConfig()
	cfg.Retention = 10 * time.Minute
	cfg.DiskFreeBytes = 1 << 40
	change(&cfg)
	r.open(cfg)
	return r
}

func (r *retained) open(cfg Config) {
	s, err := Open(cfg, Deps{FS: r.disk, Now: r.clock})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Store = s
	r.t.Cleanup(func() { s.Close() })
}

func (r *retained) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *retained) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// send appends n messages of 2 KiB, one a second.
func (r *retained) send(topic string, n int) {
	r.t.Helper()
	for range n {
		r.pass(time.Second)
		a, err := r.Append(ctx, msg(topic, 0, fmt.Sprintf("%d%s", r.sent[topic], strings.Repeat("b", 2000))), DurabilityAsync)
		if err != nil {
			r.t.Fatal(err)
		}
		if a.QueueOffset != r.sent[topic] {
			r.t.Fatalf("offset %d, want %d", a.QueueOffset, r.sent[topic])
		}
		r.sent[topic]++
	}
	if err := r.dispatch(ctx, r.visible()); err != nil {
		r.t.Fatal(err)
	}
}

// look runs one look at the disk and checks that the first offsets of all
// queues are right after it.
func (r *retained) look() (files int) {
	r.t.Helper()
	before := len(r.clog.Bases())
	if err := r.retain(); err != nil {
		r.t.Fatal(err)
	}
	logMin, _ := r.CommitLogRange()
	for topic, sent := range r.sent {
		lo, hi := r.QueueOffsets(topic, 0)
		if hi != sent {
			r.t.Fatalf("%s ends at %d, want %d", topic, hi, sent)
		}
		if lo == hi {
			continue
		}
		b, err := r.Read(topic, 0, lo, ReadOptions{MaxMessages: 1})
		if err != nil || b.Status != ReadFound {
			r.t.Fatalf("%s at its first offset %d: %v, %v", topic, lo, b.Status, err)
		}
		f, err := message.Parse(b.Records[0])
		if err != nil || f.QueueOffset != lo || f.PhysicalOffset < logMin {
			r.t.Fatalf("%s at %d: %+v, %v", topic, lo, f, err)
		}
		b.Release()
	}
	return before - len(r.clog.Bases())
}

// A quiet topic whose messages went has min = max, and a pull from 0 is sent
// there once, not in circles.
func TestRetain_quietTopicEndsWhereItStood_B018_B019(t *testing.T) {
	r := newRetained(t, func(*Config) {})
	r.send("Quiet", 5)
	r.send("Busy", 20)
	r.pass(11 * time.Minute)
	r.send("Busy", 20)
	if r.look() == 0 {
		t.Fatal("nothing went")
	}
	if lo, hi := r.QueueOffsets("Quiet", 0); lo != 5 || hi != 5 {
		t.Errorf("quiet topic from %d to %d", lo, hi)
	}
	at, steps := int64(0), 0
	for ; steps < 5; steps++ {
		b, err := r.Read("Quiet", 0, at, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if at = b.Next; b.Status == ReadNotFound {
			break
		}
	}
	if at != 5 || steps != 1 {
		t.Errorf("after %d steps at %d", steps, at)
	}
	cfg := r.cfg
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(cfg)
	if lo, hi := r.QueueOffsets("Quiet", 0); lo != 5 || hi != 5 {
		t.Errorf("after a restart: from %d to %d", lo, hi)
	}
	r.send("Quiet", 1)
}

// A disk that is full refuses messages with the code and nothing else; the
// oldest files go one a look; sends work again by themselves below the low
// mark, not between the marks.
func TestRetain_fullDiskComesBackByItself_B017(t *testing.T) {
	r := newRetained(t, func(c *Config) { c.Retention = 1000 * time.Hour })
	r.send("T", 60)
	r.disk.SetSpace(vfs.Space{Total: 1000, Free: 50}) // 95 %, whatever is deleted
	if n := r.look(); n == 0 {
		t.Error("no files went")
	}
	if _, err := r.Append(ctx, msg("T", 0, "refused"), DurabilitySync); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("append to a full disk: %v", err)
	}
	if err := r.SaveConfig("offsets.json", []byte("{}")); err != nil {
		t.Errorf("progress is not saved: %v", err)
	}
	if got := bodies(t, r.Store, "T", 0); len(got) == 0 {
		t.Error("nothing can be read")
	}
	r.disk.SetSpace(vfs.Space{Total: 1000, Free: 120}) // 88 %, between the marks
	r.look()
	if _, err := r.Append(ctx, msg("T", 0, "refused"), DurabilitySync); !errors.Is(err, ErrDiskFull) {
		t.Errorf("append between the marks: %v", err)
	}
	r.disk.SetSpace(vfs.Space{Total: 1000, Free: 200})
	if n := r.look(); n != 0 {
		t.Errorf("%d files went with room", n)
	}
	r.send("T", 1)
}

// filledDisk has as much room as the commit log files leave.
type filledDisk struct {
	vfs.FS
	total int64
}

func (f *filledDisk) Space(dir string) (vfs.Space, error) {
	infos, err := f.FS.ReadDir(dir + "/commitlog")
	free := f.total
	for _, info := range infos {
		free -= info.Size
	}
	return vfs.Space{Total: f.total, Free: free}, err
}

// Under pressure one look makes the room that is wanted, and no more.
func TestRetain_underPressure(t *testing.T) {
	r := newRetained(t, func(c *Config) { c.Retention = 1000 * time.Hour })
	r.send("T", 120)
	files := len(r.clog.Bases())
	r.Store.fs = &filledDisk{FS: r.disk, total: int64(files+1) * r.cfg.SegmentBytes}
	n := r.look()
	// 85 % of the disk may be used.
	if left := len(r.clog.Bases()); n == 0 || left != int(0.85*float64(files+1)) {
		t.Errorf("%d of %d files are left", left, files)
	}
	if n := r.look(); n != 0 {
		t.Errorf("%d more went", n)
	}
}

// Nothing but what nobody has seen yet holds a file: not a consumer that
// stands still, a reader in the middle of one, a delayed or a half message.
func TestRetain_levelsOff_B196(t *testing.T) {
	r := newRetained(t, func(*Config) {})
	half := msg("Half", 0, "h")
	half.SysFlag = message.SysFlagPrepared
	delayed := msg(message.ScheduleTopic, 17, "d")
	delayed.Properties = message.AppendProperty(delayed.Properties, message.KeyDelay, "18")
	for _, m := range []*message.Message{half, delayed} {
		if _, err := r.Append(ctx, m, DurabilitySync); err != nil {
			t.Fatal(err)
		}
	}
	r.send("T", 10)
	slow, err := r.Read("T", 0, 0, ReadOptions{MaxMessages: 4})
	if err != nil || len(slow.Records) != 4 {
		t.Fatal(err)
	}
	most := 0
	for range 60 { // an hour
		r.send("T", 15)
		r.pass(45 * time.Second)
		r.look()
		most = max(most, len(r.clog.Bases()))
	}
	// 15 messages of 2 KiB a minute, kept for 10: some 20 files of 16 KiB.
	if most > 30 {
		t.Errorf("%d files at the most", most)
	}
	for i, rec := range slow.Records {
		if m, err := message.Decode(rec); err != nil || !strings.HasPrefix(string(m.Body), fmt.Sprintf("%db", i)) {
			t.Errorf("record %d of the slow reader has changed: %v", i, err)
		}
	}
	slow.Release()
}

func TestRetain_bySize(t *testing.T) {
	r := newRetained(t, func(c *Config) { c.Retention, c.RetentionBytes = 1000*time.Hour, 5*c.SegmentBytes })
	r.send("T", 90)
	if n := r.look(); n == 0 {
		t.Error("nothing went")
	}
	if got := len(r.clog.Bases()); got != 5 {
		t.Errorf("%d files, want 5", got)
	}
	if n := r.look(); n != 0 {
		t.Errorf("%d more went", n)
	}
}

func TestRetain_atItsHours(t *testing.T) {
	r := newRetained(t, func(c *Config) { c.DeleteHours = []int{4} })
	r.send("T", 30)
	gone := map[int]int{}
	for range 24 {
		r.pass(time.Hour)
		gone[r.clock().Hour()] = r.look()
	}
	for hour, n := range gone {
		if (n > 0) != (hour == 4) {
			t.Errorf("%d files went at %d o'clock", n, hour)
		}
	}
	r.send("T", 30)
	r.disk.SetSpace(vfs.Space{Total: 1000, Free: 50})
	if n := r.look(); n == 0 {
		t.Error("no files went under pressure")
	}
}

// A topic with a time of its own ends earlier than the log, also after a
// restart; its bytes are still there, and others' messages are served.
func TestRetain_topicWithATimeOfItsOwn(t *testing.T) {
	r := newRetained(t, func(c *Config) { c.Retention = 1000 * time.Hour })
	short := DefaultTopicConfig("Short")
	short.Attributes = map[string]string{AttributeReserveTime: "60000"}
	if err := r.PutTopic(short); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.send("Short", 1)
		r.send("Long", 1)
	}
	if n := r.look(); n != 0 {
		t.Errorf("%d files went", n)
	}
	// One message every two seconds: 60 s are 30 messages and the one at the border.
	want := [2]int64{69, 100}
	check := func(when string) {
		t.Helper()
		lo, hi := r.QueueOffsets("Short", 0)
		if lo < want[0] || lo > want[0]+1 || hi != want[1] {
			t.Errorf("%s: from %d to %d", when, lo, hi)
		}
		if lo, hi := r.QueueOffsets("Long", 0); lo != 0 || hi != 100 {
			t.Errorf("%s: the other topic is from %d to %d", when, lo, hi)
		}
	}
	check("after a look")
	cfg := r.cfg
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(cfg)
	check("after a restart")
	r.pass(time.Hour)
	r.look()
	if lo, hi := r.QueueOffsets("Short", 0); lo != 100 || hi != 100 {
		t.Errorf("an hour later: from %d to %d", lo, hi)
	}
	r.send("Short", 1)
	r.look()
}

func TestConfig_retentionIsChecked(t *testing.T) {
	c := testConfig()
	c.RetentionBytes, c.DeleteHours = c.SegmentBytes, []int{4, 24}
	err := c.Validate()
	for _, part := range []string{"store.retention_bytes is 16384: must be 0 for no limit or at least two commit log files (32768)", "store.delete_hours is [4 24]: must be hours of the day, 0 to 23"} {
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), part) {
			t.Errorf("%v misses %q", err, part)
		}
	}
}

// A topic with a size of its own keeps its newest messages, whatever the queue
// they are in, the other topics and what was deleted by age; the same after a
// restart, with another limit, and when it is deleted and made again.
func TestRetain_topicWithASizeOfItsOwn(t *testing.T) {
	const limit = 40_000
	rng := rand.New(rand.NewPCG(7, 11))
	r := newRetained(t, func(c *Config) { c.Retention = 1000 * time.Hour })
	put := func(bytes string) {
		small := DefaultTopicConfig("Small")
		small.Attributes = map[string]string{AttributeReserveBytes: bytes}
		if err := r.PutTopic(small); err != nil {
			t.Fatal(err)
		}
	}
	put(strconv.Itoa(limit))
	type stored struct {
		queue         int32
		offset, place int64
		size          int64
	}
	var all []stored
	send := func(n int) {
		t.Helper()
		for range n {
			queue := int32(min(rng.IntN(6), 2)) // the last one has most
			a, err := r.Append(ctx, msg("Small", queue, strings.Repeat("x", rng.IntN(1000))), DurabilityAsync)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, stored{queue, a.QueueOffset, a.PhysicalOffset, int64(a.Size)})
			if rng.IntN(3) == 0 {
				r.send("Other", 1)
			}
		}
		if err := r.dispatch(ctx, r.visible()); err != nil {
			t.Fatal(err)
		}
	}
	// check compares with a walk over all messages, the newest first.
	check := func(limit int64) {
		t.Helper()
		var sum int64
		for i := len(all) - 1; i >= 0; i-- {
			m := all[i]
			sum += m.size
			lo, _ := r.QueueOffsets("Small", m.queue)
			if kept := m.offset >= lo; kept != (sum <= limit) && (kept || sum <= limit-limit/byteMarks-1200) {
				t.Fatalf("message %d of %d, queue %d offset %d: kept is %v, with %d bytes from it on", i, len(all), m.queue, m.offset, kept, sum)
			}
		}
		if lo, _ := r.QueueOffsets("Other", 0); lo != 0 {
			t.Fatalf("the other topic begins at %d", lo)
		}
	}
	for range 20 {
		send(1 + rng.IntN(60))
		r.look()
		check(limit)
	}
	cfg := r.cfg
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(cfg)
	check(limit)
	send(30)
	r.look()
	check(limit)
	put("10000")
	r.look()
	check(10000)
	send(40)
	r.look()
	check(10000)
	put("1")
	send(1)
	r.look()
	if lo, hi := r.QueueOffsets("Small", all[len(all)-1].queue); lo != hi-1 {
		t.Errorf("the newest message is gone: from %d to %d", lo, hi)
	}
	if err := r.DeleteTopic("Small"); err != nil {
		t.Fatal(err)
	}
	put(strconv.Itoa(limit))
	all = nil
	send(200)
	r.look()
	check(limit)
	if n := len(r.topicBytes["Small"].marks); n > 4*byteMarks {
		t.Errorf("%d marks", n)
	}
}
