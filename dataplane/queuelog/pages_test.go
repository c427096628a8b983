package queuelog

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func openPages(t *testing.T, fsys vfs.FS, notBefore int64) (*Pages, map[string]*Queue, error) {
	t.Helper()
	l := NewPages(PagesConfig{FS: fsys, PagesPerFile: 64, Reach: 1000, NotBefore: notBefore}, "/q", "/q/directory")
	queues := map[string]*Queue{}
	_, err := l.Load(func(topic string, id int32, q *Queue, err error) error {
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		queues[fmt.Sprintf("%s/%d", topic, id)] = q
		return nil
	})
	if err != nil && !errors.Is(err, ErrDirectory) {
		t.Fatal(err)
	}
	return l, queues, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pagesModel is what a layout must remember of queues to which unit n*life
// tells where it belongs.
type pagesModel struct {
	t     *testing.T
	added map[string]int64  // units that were appended
	first map[string]int64  // units in front of it were expired
	life  map[string]uint32 // changes when a queue is made again
	had   map[string]uint32 // life of the queue at the last sync, missing when it had none
	sync  map[string]int64  // units at the last sync
	time  int64             // of the last sync
	now   int64             // of a sync that may be under way
}

// unitOf is unit i of the queue: each queue has its own places in the log, so
// that no page can be taken for another's.
func unitOf(life uint32, i int64) Unit {
	return Unit{Offset: i*100000 + int64(life), Size: 50, TagsCode: int64(life)<<32 | i}
}

// verify loads what a power cut has left.
func (m *pagesModel) verify(disk *vfs.Mem) error {
	l, queues, err := openPages(m.t, disk, m.time)
	if err != nil {
		return err
	}
	for name, life := range m.had {
		q, ok := queues[name]
		if !ok {
			if m.life[name] != life {
				continue // removed since
			}
			return fmt.Errorf("%s is gone", name)
		}
		lo, hi := q.Range()
		if m.life[name] == life && (hi < m.sync[name] || hi > m.added[name] || lo > m.first[name]) {
			return fmt.Errorf("%s has %d to %d; first %d, synced %d, added %d", name, lo, hi, m.first[name], m.sync[name], m.added[name])
		}
		for at := lo; at < hi; at++ {
			u, ok, err := q.At(at)
			if err != nil || !ok {
				return fmt.Errorf("%s at %d of %d to %d: %v %w", name, at, lo, hi, ok, err)
			}
			if u != unitOf(life, at) && u != unitOf(m.life[name], at) {
				return fmt.Errorf("%s at %d of %d to %d: %v of life %d or %d", name, at, lo, hi, u, life, m.life[name])
			}
		}
	}
	return l.Close()
}

// After a power cut at any step every queue has what the last sync covered,
// with its own units, although pages change hands all the time.
func TestPages_crashAtEveryStep(t *testing.T) {
	points := 0
	for seed := range uint64(2) {
		mem := vfs.NewMem(nil)
		ff := vfs.NewFaults(mem)
		m := &pagesModel{t: t, added: map[string]int64{}, first: map[string]int64{}, life: map[string]uint32{}, had: map[string]uint32{}, sync: map[string]int64{}}
		ff.Set(func(op vfs.Op, name string) (int, error) {
			if op == vfs.OpRead || op == vfs.OpOpen {
				return 0, nil
			}
			for i, keep := range []float64{0, 0.5, 1} {
				points++
				if err := m.verify(mem.CrashClone(keep, seed*1e6+uint64(points*10+i))); err != nil {
					t.Fatalf("seed %d point %d (%s %s) keep %v: %v", seed, points, op, name, keep, err)
				}
			}
			return 0, nil
		})
		must(t, mem.MkdirAll("/"))
		l, _, err := openPages(t, ff, 0)
		must(t, err)
		m.run(l, rand.New(rand.NewPCG(seed, 5)))
	}
	t.Logf("%d crash points", points)
	if points < 2000 {
		t.Fatalf("only %d crash points", points)
	}
}

// run does random things to a few queues.
func (m *pagesModel) run(l *Pages, rng *rand.Rand) {
	t := m.t
	queues := map[string]*Queue{}
	touched := map[*Queue]bool{}
	lives := uint32(0)
	for range 400 {
		name := fmt.Sprintf("T%d/0", rng.IntN(5))
		q := queues[name]
		if q == nil {
			var err error
			q, err = l.Open(name[:2], 0)
			must(t, err)
			lives++
			queues[name], m.life[name], m.added[name], m.first[name] = q, lives, 0, 0
		}
		switch rng.IntN(10) {
		case 0:
			must(t, l.Flush([]*Queue{q}))
		case 1, 2:
			m.now++
			var list []*Queue
			for q := range touched {
				list = append(list, q)
			}
			clear(touched)
			must(t, l.Sync(list, m.now))
			m.time = m.now
			m.had, m.sync = map[string]uint32{}, map[string]int64{}
			for name, q := range queues {
				if _, hi := q.Range(); hi > 0 {
					m.had[name], m.sync[name] = m.life[name], hi
				}
			}
		case 3:
			if _, hi := q.Range(); hi > 0 {
				at := rng.Int64N(hi + 1)
				m.first[name] = max(m.first[name], at)
				_, err := q.Expire(unitOf(0, at).Offset)
				must(t, err)
				touched[q] = true
			}
		case 4:
			if rng.IntN(3) == 0 {
				delete(queues, name)
				delete(touched, q)
				m.life[name] = 0
				must(t, l.Remove(name[:2], []*Queue{q}))
				delete(m.had, name)
			}
		default:
			for range 1 + rng.IntN(120) {
				if got := q.Append(m.added[name], unitOf(m.life[name], m.added[name])); got != Added {
					t.Fatalf("append %s %d: %v", name, m.added[name], got)
				}
				m.added[name]++
			}
			touched[q] = true
		}
	}
	// Every page that is taken belongs to somebody.
	taken, owned := 0, len(l.leaving)
	for _, w := range l.used {
		taken += bits.OnesCount64(w)
	}
	for _, q := range queues {
		x := q.on.(*pageList)
		owned += len(x.now().list) + len(l.released[x])
	}
	if taken != owned || taken == 0 {
		t.Errorf("%d pages are taken, %d are somebody's", taken, owned)
	}
}

// filled makes a layout with two queues of 120 units, synced at time 7.
func filled(t *testing.T) (*vfs.Mem, *Pages) {
	t.Helper()
	mem := vfs.NewMem(nil)
	l, _, err := openPages(t, mem, 0)
	must(t, err)
	var queues []*Queue
	for id := range int32(2) {
		q, err := l.Open("T", id)
		must(t, err)
		for i := range int64(120) {
			q.Append(i, unitOf(uint32(id), i))
		}
		queues = append(queues, q)
	}
	must(t, l.Sync(queues, 7))
	must(t, l.Close())
	return mem, l
}

func TestLoad_everyByteOfTheDirectory(t *testing.T) {
	mem, _ := filled(t)
	good, err := vfs.ReadFile(mem, "/q/directory")
	must(t, err)
	try := func(what string, b []byte) {
		disk := mem.CrashClone(1, 1)
		must(t, vfs.WriteFile(disk, "/q/directory", b))
		_, queues, err := openPages(t, disk, 7)
		if !errors.Is(err, ErrDirectory) || len(queues) != 0 {
			t.Fatalf("%s: %d queues, %v", what, len(queues), err)
		}
		if _, queues, err := openPages(t, disk, 0); err != nil || len(queues) != 0 {
			t.Fatalf("%s: it is not new: %d queues, %v", what, len(queues), err)
		}
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x40
		try(fmt.Sprint("byte ", i), bad)
		try(fmt.Sprint("cut at ", i), good[:i])
	}
	// What a crash leaves behind the last sync is no damage.
	disk := mem.CrashClone(1, 1)
	must(t, vfs.WriteFile(disk, "/q/directory", append(slices.Clone(good), good[directoryHeader:directoryHeader+50]...)))
	if _, queues, err := openPages(t, disk, 7); err != nil || len(queues) != 2 {
		t.Fatalf("half a frame: %d queues, %v", len(queues), err)
	}
	if b, err := vfs.ReadFile(disk, "/q/directory"); err != nil || len(b) != len(good) {
		t.Fatalf("half a frame stays: %d bytes of %d, %v", len(b), len(good), err)
	}
}

func TestRead_everyByteOfAPageHeader(t *testing.T) {
	mem, _ := filled(t)
	name := "/q/00000000000000000000"
	good, err := vfs.ReadFile(mem, name)
	must(t, err)
	for i := range pageHeader {
		bad := slices.Clone(good)
		bad[PageBytes+i] ^= 1
		must(t, vfs.WriteFile(mem, name, bad))
		l, queues, err := openPages(t, mem, 7)
		must(t, err)
		if _, _, err := queues["T/0"].At(60); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d: %v", i, err)
		}
		if u, ok, err := queues["T/0"].At(10); err != nil || !ok || u != unitOf(0, 10) {
			t.Errorf("byte %d: the page in front gives %v %v %v", i, u, ok, err)
		}
		must(t, l.Close())
	}
}

// A queue with pages in a file that is gone is damaged until it was built again.
func TestLoad_pageFileGone(t *testing.T) {
	mem, _ := filled(t)
	must(t, mem.Remove("/q/00000000000000000000"))
	for range 2 {
		l, queues, err := openPages(t, mem, 7)
		must(t, err)
		if len(queues) != 2 {
			t.Fatalf("%d queues", len(queues))
		}
		for name, q := range queues {
			if lo, hi := q.Range(); lo != 0 || hi != 0 {
				t.Errorf("%s has %d to %d", name, lo, hi)
			}
		}
		must(t, l.Close())
	}
	l, queues, err := openPages(t, mem, 7)
	must(t, err)
	q := queues["T/1"]
	for i := range int64(120) {
		q.Append(i, unitOf(1, i))
	}
	must(t, l.Sync([]*Queue{q}, 8))
	must(t, l.Close())
	_, queues, err = openPages(t, mem, 8)
	must(t, err)
	if u, ok, err := queues["T/1"].At(119); err != nil || !ok || u != unitOf(1, 119) {
		t.Errorf("built again: %v %v %v", u, ok, err)
	}
}

// A sync costs what changed, and the directory does not grow with the number of syncs.
func TestSync_costFollowsChanges(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	l, _, err := openPages(t, ff, 0)
	must(t, err)
	var queues []*Queue
	for i := range int32(5000) {
		q, err := l.Open("topic", i)
		must(t, err)
		q.Append(0, unitOf(uint32(i), 0))
		queues = append(queues, q)
	}
	must(t, l.Sync(queues, 1))
	whole := l.dir.size
	ops := 0
	ff.Set(func(vfs.Op, string) (int, error) { ops++; return 0, nil })
	const syncs = 1500
	for i := range int64(syncs) {
		for n, q := range queues[7:57] {
			q.Append(i+1, unitOf(uint32(7+n), i+1))
		}
		must(t, l.Sync(queues[7:57], i+2))
	}
	// Units, page file, two parts of a frame, directory; now and then a new page or directory.
	if ops > syncs*60 {
		t.Errorf("%d steps for %d syncs of 50 queues", ops, syncs)
	}
	if l.dir.size > 3*whole+3*framePayload {
		t.Errorf("the directory has %d bytes, %d when it was new", l.dir.size, whole)
	}
	must(t, l.Close())
	_, loaded, err := openPages(t, mem, syncs+1)
	must(t, err)
	if len(loaded) != 5000 {
		t.Errorf("%d queues", len(loaded))
	}
	if _, hi := loaded["topic/7"].Range(); hi != syncs+1 {
		t.Errorf("%d units", hi)
	}
}

// What is written between note and the end of a sync is in the next one.
func TestSync_whileOthersWrite(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, _, err := openPages(t, mem, 0)
	must(t, err)
	const queues, units = 3, 6000
	var all []*Queue
	for id := range int32(queues) {
		q, err := l.Open("T", id)
		must(t, err)
		all = append(all, q)
	}
	var wg sync.WaitGroup
	var writing atomic.Int32
	for id, q := range all {
		writing.Add(1)
		wg.Go(func() {
			defer writing.Add(-1)
			for i := range int64(units) {
				q.Append(i, unitOf(uint32(id), i))
				if i%7 == 0 {
					if err := q.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
		wg.Go(func() {
			for at := int64(0); at < units; {
				_, hi := q.Range()
				got, err := q.Read(nil, at, 100)
				if err != nil {
					t.Error(err)
					return
				}
				for i, u := range got {
					if u != unitOf(uint32(id), at+int64(i)) {
						t.Errorf("queue %d at %d: %v", id, at+int64(i), u)
						return
					}
				}
				if at += int64(len(got)); at < hi && len(got) == 0 {
					t.Errorf("queue %d has %d units but none at %d", id, hi, at)
					return
				}
				runtime.Gosched()
			}
		})
	}
	for n := int64(1); writing.Load() > 0; n++ {
		var had [queues]int64
		for id, q := range all {
			_, had[id] = q.Range()
		}
		must(t, l.Sync(all, n))
		if n%3 == 0 {
			disk := mem.CrashClone(1, uint64(n))
			_, loaded, err := openPages(t, disk, n)
			must(t, err)
			for id := range queues {
				q := loaded[fmt.Sprintf("T/%d", id)]
				if q == nil {
					continue // it had nothing yet
				}
				_, hi := q.Range()
				if hi < had[id] {
					t.Fatalf("sync %d queue %d: %d units of %d", n, id, hi, had[id])
				}
				for at := range hi {
					if u, ok, err := q.At(at); err != nil || !ok || u != unitOf(uint32(id), at) {
						t.Fatalf("sync %d queue %d at %d of %d: %v %v %v", n, id, at, hi, u, ok, err)
					}
				}
				// It goes on where it ends.
				q.Append(hi, unitOf(uint32(id), hi))
				must(t, q.Flush())
				if _, ok, err := q.At(hi); err != nil || !ok {
					t.Fatalf("sync %d queue %d at %d: %v %v", n, id, hi, ok, err)
				}
			}
		}
	}
	wg.Wait()
}

func TestFiles_openFilesAreBounded(t *testing.T) {
	count := func() int {
		infos, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(infos)
	}
	root := t.TempDir()
	l := NewFiles(Config{FS: vfs.OS(), FileBytes: 200, OpenFiles: 10}, root, root+"/directory")
	before := count()
	var queues []*Queue
	for i := range int32(100) {
		q, err := l.Open("T", i)
		must(t, err)
		queues = append(queues, q)
	}
	for n := range int64(3) {
		for i, q := range queues {
			q.Append(n, unitOf(uint32(i), n))
			must(t, q.Flush())
		}
	}
	if now := count(); now > before+10 {
		t.Errorf("%d files are open, %d before", now, before)
	}
	for i, q := range queues {
		if u, ok, err := q.At(1); err != nil || !ok || u != unitOf(uint32(i), 1) {
			t.Errorf("queue %d: %v %v %v", i, u, ok, err)
		}
		must(t, q.Close())
	}
}
