package meter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// rig is a meter over a commit log that is a slice, with its own clock, and a
// collector that keeps maxima.
type rig struct {
	*Meter
	t       testing.TB
	dir     string
	now     time.Time
	log     []entry
	end     int64
	pending [][]byte // reports made and not yet delivered
	merged  map[mergeKey]uint64
	sealed  map[string]bool // source/minute that the collector holds as final
}

type entry struct {
	offset int64
	rec    []byte
}

type mergeKey struct {
	source string
	minute int64
	cell   Cell
	count  string
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), now: start, merged: map[mergeKey]uint64{}, sealed: map[string]bool{}}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	m, err := Open(Config{
		Dir: r.dir, Broker: "b", Secret: []byte("secret"), Retention: 5 * time.Minute,
		LogEnd: func() int64 { return r.end }, Now: func() time.Time { return r.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Meter = m
	from := m.FoldFrom()
	for _, e := range r.log {
		if e.offset >= from {
			m.Fold(e.offset, e.rec)
		}
	}
}

// crash forgets the process as kill -9 does: nothing is saved or closed.
func (r *rig) crash() {
	r.t.Helper()
	dead := r.egress
	r.open()
	if err := dead.close(); err != nil { // give the mapping back; its content is in the file already
		r.t.Fatal(err)
	}
}

func (r *rig) store(topic, key string, body int) {
	r.t.Helper()
	r.storeWith(topic, body, AppendOrigin(message.AppendProperty(nil, "color", "red"), key, ProtocolRemoting))
}

func (r *rig) storeWith(topic string, body int, props []byte) {
	r.t.Helper()
	r.storeMessage(&message.Message{Topic: topic, Body: make([]byte, body), Properties: props})
}

func (r *rig) storeMessage(m *message.Message) {
	r.t.Helper()
	rec, err := message.AppendRecord(nil, m)
	if err != nil {
		r.t.Fatal(err)
	}
	message.Patch(rec, 0, r.end, r.now.UnixMilli())
	r.log = append(r.log, entry{r.end, rec})
	r.Fold(r.end, rec)
	r.end += int64(len(rec))
}

// report makes a report and keeps it for deliver.
func (r *rig) report() Report {
	r.t.Helper()
	body, signature, err := r.Report()
	if err != nil {
		r.t.Fatal(err)
	}
	if !Verify([]byte("secret"), body, signature) || Verify([]byte("other"), body, signature) {
		r.t.Error("the signature does not fit")
	}
	r.pending = append(r.pending, body)
	var rep Report
	if err := json.Unmarshal(body, &rep); err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// deliver merges a report as the control plane does and returns its sequence.
func (r *rig) deliver(body []byte) uint64 {
	r.t.Helper()
	var rep Report
	if err := json.Unmarshal(body, &rep); err != nil {
		r.t.Fatal(err)
	}
	for _, s := range rep.Sources {
		for _, m := range s.Minutes {
			id := fmt.Sprint(s.Source, m.Minute)
			for _, c := range m.Cells {
				cell := Cell{NamespaceID: c.NamespaceID, Topic: c.Topic, Group: c.Group, KeyID: c.KeyID}
				if c.Class != "" {
					cell.Class = c.Class[0]
				}
				for name, n := range c.Counts {
					k := mergeKey{s.Source, m.Minute, cell, name}
					if r.sealed[id] && m.Sealed && r.merged[k] != n {
						r.t.Errorf("sealed cell %v changed from %d to %d", k, r.merged[k], n)
					}
					r.merged[k] = max(r.merged[k], n)
				}
			}
			if m.Sealed {
				r.sealed[id] = true
			}
		}
	}
	return rep.Sequence
}

// total sums a counter over sources and minutes.
func (r *rig) total(name string) (sum uint64) {
	for k, n := range r.merged {
		if k.count == name {
			sum += n
		}
	}
	return sum
}

// settle turns two minutes and collects everything.
func (r *rig) settle() {
	r.t.Helper()
	for range 3 {
		r.now = r.now.Add(time.Minute)
		r.Tick()
		if err := r.Ack(r.deliver(r.pendingReport())); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) pendingReport() []byte {
	r.report()
	return r.pending[len(r.pending)-1]
}

func TestMeter_exactOverCrashesAndLostReports(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t)
			var in, out, bytesIn uint64
			for range 300 {
				switch n := rnd.IntN(100); {
				case n < 45:
					body := rnd.IntN(9000)
					r.store(fmt.Sprintf("nsaaaaaa%%t%d", rnd.IntN(3)), fmt.Sprintf("slk_%d", rnd.IntN(2)), body)
					in++
					bytesIn += uint64(body) + uint64(len("color")+len("red"))
				case n < 70:
					v := Values{}
					v[MessagesOut] = uint64(1 + rnd.IntN(32))
					out += v[MessagesOut]
					r.Add(Cell{NamespaceID: "nsaaaaaa", Topic: "t", Group: fmt.Sprintf("g%d", rnd.IntN(3)), KeyID: "slk_1"}, &v)
				case n < 80:
					r.now = r.now.Add(time.Duration(rnd.IntN(50)) * time.Second)
					r.Tick()
				case n < 82:
					r.now = r.now.Add(-time.Duration(rnd.IntN(90)) * time.Second) // the clock is stepped back
					r.Tick()
				case n < 90:
					r.report()
				case n < 94: // a report arrives, in any order, maybe again, maybe without its acknowledgement
					if len(r.pending) > 0 {
						sequence := r.deliver(r.pending[rnd.IntN(len(r.pending))])
						if rnd.IntN(2) == 0 {
							if err := r.Ack(sequence); err != nil {
								t.Fatal(err)
							}
						}
					}
				case n < 97:
					r.crash()
				default:
					if err := r.Close(); err != nil {
						t.Fatal(err)
					}
					r.open()
				}
			}
			r.settle()
			if got := r.total("messages_in"); got != in {
				t.Errorf("messages_in %d, stored %d", got, in)
			}
			if got := r.total("bytes_in"); got != bytesIn {
				t.Errorf("bytes_in %d, stored %d", got, bytesIn)
			}
			if got := r.total("messages_out"); got != out {
				t.Errorf("messages_out %d, delivered %d", got, out)
			}
			for _, body := range r.pending { // all of it again: nothing changes
				r.deliver(body)
			}
			if got := r.total("messages_in") + r.total("messages_out"); got != in+out {
				t.Errorf("after a replay of all reports: %d, want %d", got, in+out)
			}
			if files, _ := filepath.Glob(r.dir + "/*" + counterSuffix); len(files) != 1 {
				t.Errorf("%d counter files are left, want the live one", len(files))
			}
		})
	}
}

func TestFold_countsOnlyUserMessages(t *testing.T) {
	r := newRig(t)
	r.store("nsaaaaaa%orders", "slk_1", 4097)
	for _, topic := range []string{"%RETRY%nsaaaaaa%g", "%DLQ%nsaaaaaa%g", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"} {
		r.storeWith(topic, 10, message.AppendProperty(nil, "color", "red"))
	}
	// What waits for its time counts when it is sent, and not when it arrives.
	for _, topic := range []string{message.ScheduleTopic, message.TimerTopic} {
		r.storeWith(topic, 10, AppendOrigin(message.AppendProperty(nil, message.KeyRealTopic, "nsaaaaaa%orders"), "slk_1", ProtocolRemoting))
		r.storeWith("nsaaaaaa%orders", 10, message.AppendProperty(nil, PropertyOrigin, OriginCharged))
	}
	r.storeWith(message.TimerTopic, 10, message.AppendProperty(nil, message.KeyRealTopic, "nsaaaaaa%orders")) // written again
	r.settle()
	want := map[string]uint64{"messages_in": 3, "bytes_in": 4097 + 8 + 20, "units4k_in": 4, "units64k_in": 3}
	for name, n := range want {
		if got := r.total(name); got != n {
			t.Errorf("%s = %d, want %d", name, got, n)
		}
	}
	for k := range r.merged {
		if k.cell.NamespaceID != "nsaaaaaa" || k.cell.Topic != "orders" || k.count == "messages_in" && k.cell.KeyID != "slk_1" {
			t.Errorf("counted for %+v", k)
		}
	}
}

// A transactional message is charged to who sent it, once: as a half message,
// which may be rolled back, and not when it arrives.
func TestFold_countsHalfMessagesOnce(t *testing.T) {
	r := newRig(t)
	user := message.AppendProperty(message.AppendProperty(nil, message.KeyTransactionPrepared, "true"), "color", "red")
	for _, topic := range []string{"nsaaaaaa%orders", "nsbbbbbb%orders", "nsaaaaaa%orders"} {
		real := message.AppendProperty(message.AppendProperty(user, message.KeyRealQueueID, "0"), message.KeyRealTopic, topic)
		r.storeWith("RMQ_SYS_TRANS_HALF_TOPIC", 10, AppendOrigin(real, "slk_1", ProtocolRemoting))
	}
	r.storeMessage(&message.Message{Topic: "nsaaaaaa%orders", Body: make([]byte, 10), Properties: user, SysFlag: message.SysFlagCommit})
	r.settle()
	got := map[Cell]uint64{}
	for k, n := range r.merged {
		if k.count == "messages_in" {
			got[k.cell] += n
		}
	}
	for ns, n := range map[string]uint64{"nsaaaaaa": 2, "nsbbbbbb": 1} {
		cell := Cell{NamespaceID: ns, Topic: "orders", KeyID: "slk_1", Class: ClassTransactional}
		if got[cell] != n {
			t.Errorf("%s was charged %d messages, want %d: %v", ns, got[cell], n, got)
		}
	}
	if got, want := r.total("bytes_in"), uint64(3*(10+8)); r.total("messages_in") != 3 || got != want {
		t.Errorf("%d messages, %d bytes in all, want 3 and %d", r.total("messages_in"), got, want)
	}
}

// Where a client says that a message goes, or came from, changes nothing.
func TestFold_believesNoPropertyOfClients(t *testing.T) {
	r := newRig(t)
	for _, real := range []string{"x", "%RETRY%nsaaaaaa%g", "nsbbbbbb%orders", ""} {
		r.storeWith("nsaaaaaa%orders", 10, AppendOrigin(message.AppendProperty(nil, message.KeyRealTopic, real), "slk_1", ProtocolRemoting))
	}
	r.settle()
	for k, n := range r.merged {
		if k.count == "messages_in" && (k.cell.NamespaceID != "nsaaaaaa" || k.cell.Topic != "orders" || n != 4) {
			t.Errorf("%d counted for %+v", n, k)
		}
	}
	if got := r.total("messages_in"); got != 4 {
		t.Errorf("%d messages in, want 4", got)
	}
}

// What a client sends to a retry topic itself is charged once: when it is
// stored, or when it begins to wait, and then not when it arrives.
func TestFold_countsSendsToRetryTopics(t *testing.T) {
	r := newRig(t)
	own := AppendOrigin(nil, "slk_1", ProtocolRemoting)
	r.storeWith("%RETRY%nsaaaaaa%g", 10, own)
	r.storeWith("%DLQ%nsaaaaaa%g", 10, own)
	r.storeWith("SCHEDULE_TOPIC_XXXX", 10, message.AppendProperty(own, message.KeyRealTopic, "%RETRY%nsaaaaaa%g"))
	r.storeWith("%RETRY%nsaaaaaa%g", 10, message.AppendProperty(nil, message.KeyRealTopic, "%RETRY%nsaaaaaa%g"))
	r.settle()
	got := map[string]uint64{}
	for k, n := range r.merged {
		if k.count == "messages_in" {
			got[k.cell.NamespaceID+" "+k.cell.Topic+" "+k.cell.KeyID] += n
		}
	}
	if want := map[string]uint64{"nsaaaaaa %RETRY%g slk_1": 2, "nsaaaaaa %DLQ%g slk_1": 1}; !maps.Equal(got, want) {
		t.Errorf("messages in: %v, want %v", got, want)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ size, u4, u64 uint64 }{{0, 1, 1}, {1, 1, 1}, {4096, 1, 1}, {4097, 2, 1}, {65536, 16, 1}, {65537, 17, 2}} {
		if u4, u64 := Units(c.size); u4 != c.u4 || u64 != c.u64 {
			t.Errorf("Units(%d) = %d, %d; want %d, %d", c.size, u4, u64, c.u4, c.u64)
		}
	}
}

func TestOrigin_leftOutWhenItDoesNotFit(t *testing.T) {
	props := bytes.Repeat([]byte{'x'}, message.MaxPropertiesBytes-20)
	if got := AppendOrigin(props, "slk_12345678901234567890", 'r'); len(got) != len(props) {
		t.Errorf("properties grew to %d bytes", len(got))
	}
	small := AppendOrigin(nil, "slk_a", 'g')
	if key, protocol := origin(small); key != "slk_a" || protocol != 'g' {
		t.Errorf("origin = %q, %c", key, protocol)
	}
	if Size(nil, small) != 0 {
		t.Error("the origin is billed")
	}
}

func TestConnected_integratesTime(t *testing.T) {
	r := newRig(t)
	cell := Cell{NamespaceID: "nsaaaaaa", KeyID: "slk_1", Protocol: ProtocolGRPC}
	r.Tick()
	first, second := r.Connected(cell), r.Connected(cell)
	r.now = r.now.Add(time.Second)
	r.Tick()
	first()
	first() // twice is once
	r.now = r.now.Add(2 * time.Second)
	r.Tick()
	second()
	r.settle()
	if got := r.total("connection_ms"); got != 4000 {
		t.Errorf("connection_ms = %d, want 4000", got)
	}
}

func TestStoredBytes_integrateUntilRetention(t *testing.T) {
	r := newRig(t)
	r.Tick()
	r.store("nsaaaaaa%orders", "slk_1", 992) // and 8 bytes of properties
	for range 300 + 120 {
		r.now = r.now.Add(time.Second)
		r.Tick()
	}
	r.settle()
	// Retained for five minutes, to the minute.
	if got := r.total("byte_ms_stored"); got < 1000*300_000 || got > 1000*361_000 {
		t.Errorf("byte_ms_stored = %d, want five minutes of 1000 bytes", got)
	}
}

func TestDelivered_countsPerRecord(t *testing.T) {
	r := newRig(t)
	var records [][]byte
	for _, size := range []int{0, 4096, 4097} {
		rec, err := message.AppendRecord(nil, &message.Message{Topic: "nsaaaaaa%t", Body: make([]byte, size)})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	for i, props := range [][]byte{message.AppendProperty(nil, "TRAN_MSG", "true"), message.AppendProperty(nil, "SHARDING_KEY", "k")} {
		rec, err := message.AppendRecord(nil, &message.Message{Topic: "nsaaaaaa%t", Body: make([]byte, i+1), Properties: props})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	r.Delivered(Cell{NamespaceID: "nsaaaaaa", Topic: "t", Group: "g"}, records)
	r.settle()
	for name, n := range map[string]uint64{"messages_out": 5, "bytes_out": 8193 + 3, "units4k_out": 6, "units64k_out": 5} {
		if got := r.total(name); got != n {
			t.Errorf("%s = %d, want %d", name, got, n)
		}
	}
}

// What goes straight from sender to receiver counts on both sides.
func TestPassed_countsBothSides(t *testing.T) {
	r := newRig(t)
	r.Passed(Cell{NamespaceID: "nsaaaaaa", Topic: "replies"}, make([]byte, 5000), message.AppendProperty(nil, "k", "v"))
	r.settle()
	for name, n := range map[string]uint64{"messages_in": 1, "bytes_in": 5002, "units4k_in": 2, "messages_out": 1, "bytes_out": 5002, "units4k_out": 2, "units64k_out": 1} {
		if got := r.total(name); got != n {
			t.Errorf("%s = %d, want %d", name, got, n)
		}
	}
}

func TestCheckpoint_damage(t *testing.T) {
	r := newRig(t)
	r.store("nsaaaaaa%orders", "slk_1", 10)
	r.settle()
	path := filepath.Join(r.dir, checkpointName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"empty":   {nil, errNotCheckpoint},
		"magic":   {append([]byte{'X'}, whole[1:]...), errNotCheckpoint},
		"version": {append(append([]byte(checkpointMagic), 9), whole[8:]...), errCheckpointVersion},
		"crc":     {append(append([]byte(nil), whole[:len(whole)-1]...), 'x'), errCheckpointDamaged},
		"cut":     {whole[:len(whole)-9], errCheckpointDamaged},
	} {
		if _, err := decodeCheckpoint(c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := os.WriteFile(path, c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		source := r.fold.source
		r.crash() // opens from the one before
		if r.fold.source != source {
			t.Errorf("%s: the source changed its name", name)
		}
		if err := os.WriteFile(path+".bak", c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openFold(r.cfg); !errors.Is(err, c.want) {
			t.Errorf("%s twice: opened with %v, want a refusal", name, err)
		}
		if err := os.WriteFile(path+".bak", whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAdopt_refusesWhatItDoesNotKnow(t *testing.T) {
	r := newRig(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	path := r.dir + "/" + r.egress.incarnation + counterSuffix
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]error{0: errNotCounterFile, len(counterMagic): errCounterVersion} {
		bad := append([]byte(nil), whole...)
		bad[at] ^= 0x40
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := adopt(path); !errors.Is(err, want) {
			t.Errorf("byte %d: %v, want %v", at, err, want)
		}
	}
	r.open() // goes on without it
	if _, err := os.Stat(path); err != nil {
		t.Error("a file that is not understood was removed")
	}
}

func TestFold_logThatLostItsTail(t *testing.T) {
	r := newRig(t)
	r.store("nsaaaaaa%orders", "slk_1", 10)
	r.store("nsaaaaaa%orders", "slk_1", 10)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	lost := r.log[1]
	r.log, r.end = r.log[:1], lost.offset
	r.open()
	r.store("nsaaaaaa%orders", "slk_1", 10) // lies where the lost one lay
	r.settle()
	if got := r.total("messages_in"); got != 3 {
		t.Errorf("messages_in = %d: what was stored after the loss is not counted", got)
	}
}

func TestAdd_allocatesNothing(t *testing.T) {
	r := newRig(t)
	cell, v := Cell{NamespaceID: "nsaaaaaa", Topic: "orders", Group: "g", KeyID: "slk_12345678901234567890", Class: 'n', Protocol: 'r'}, Values{1, 2, 3}
	r.Add(cell, &v)
	if n := testing.AllocsPerRun(100, func() { r.Add(cell, &v) }); n != 0 {
		t.Errorf("%v allocations a count", n)
	}
}

func TestAdd_concurrentWithRotationAndReports(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			v := Values{MessagesOut: 1}
			for i := range 20_000 {
				r.Add(Cell{NamespaceID: "nsaaaaaa", Topic: fmt.Sprint(i % 50), Group: fmt.Sprint(g)}, &v)
			}
		})
	}
	for minute := range int64(200) {
		r.egress.rotate(minuteOf(start) + minute)
		if minute%10 == 0 {
			if err := r.Ack(r.deliver(r.pendingReport())); err != nil {
				t.Fatal(err)
			}
		}
	}
	wg.Wait()
	r.now = start.Add(300 * time.Minute)
	r.settle()
	if got := r.total("messages_out"); got != 80_000 {
		t.Errorf("messages_out = %d, want 80000", got)
	}
}

// A real process is killed while it counts; what it said it had counted is in
// the file.
func TestCounterFile_survivesKill(t *testing.T) {
	if dir := os.Getenv("SLUICE_METER_CHILD"); dir != "" {
		f, err := createCounterFile(dir, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := uint64(1); ; i++ {
			v := Values{MessagesOut: 1}
			if err := f.add(Cell{NamespaceID: "nsaaaaaa", Topic: fmt.Sprint(i % 100)}, &v); err != nil {
				t.Fatal(err)
			}
			fmt.Println("counted", i)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=TestCounterFile_survivesKill")
	cmd.Env = append(os.Environ(), "SLUICE_METER_CHILD="+dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := uint64(0)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "counted "); ok {
			if _, err := fmt.Sscan(n, &said); err != nil {
				break // the kill cut the last line
			}
		}
		if said == 5000 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	paths, _ := filepath.Glob(dir + "/*" + counterSuffix)
	if len(paths) != 1 {
		t.Fatalf("%d counter files", len(paths))
	}
	dead, err := adopt(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for v := range maps.Values(dead.cells[1]) {
		sum += v[MessagesOut]
	}
	if sum < 5000 || sum < said-1 {
		t.Errorf("the file has %d, the process said %d", sum, said)
	}
}

func FuzzReadCell(f *testing.F) {
	f.Add(appendCell(nil, Cell{NamespaceID: "nsaaaaaa", Topic: "t", Group: "g", KeyID: "k", Class: 'n', Protocol: 'r'}))
	f.Add([]byte{0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := readCell(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		again, err := readCell(bufio.NewReader(bytes.NewReader(appendCell(nil, c))))
		if err != nil || again != c {
			t.Errorf("%+v encodes to %+v, %v", c, again, err)
		}
	})
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add([]byte(checkpointMagic + "\x01\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := decodeCheckpoint(raw); (s == nil) == (err == nil) {
			t.Errorf("neither a checkpoint nor an error: %v, %v", s, err)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	r := newRig(b)
	cell, v := Cell{NamespaceID: "nsaaaaaa", Topic: "orders", Group: "g", KeyID: "slk_12345678901234567890", Class: 'n', Protocol: 'r'}, Values{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		r.Add(cell, &v)
	}
}
