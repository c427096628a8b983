package remoting

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Codes that collector gives a meaning to.
const (
	codeStarted  = 310
	codeDeclined = 311 // Starts says yes, Start no
	codePanics   = 312
	codeOrdinary = 11
)

// collector is a Starter that answers at Flush what it took, in order.
type collector struct {
	mu      sync.Mutex
	taken   []func()
	started int
	handled int
}

func (k *collector) Handle(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
	k.mu.Lock()
	k.handled++
	k.mu.Unlock()
	return reply(f)
}

func reply(f *wire.Frame) *wire.Frame {
	r := f.Reply(wire.Success, strings.Clone(f.Ext.Value("text")))
	r.Body = slices.Clone(f.Body)
	return r
}

func (k *collector) Starts(code int32) bool { return code >= codeStarted }

func (k *collector) Start(c *Conn, f *wire.Frame) bool {
	switch f.Code {
	case codeDeclined:
		return false
	case codePanics:
		panic("broken")
	}
	resp := reply(f)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	k.taken = append(k.taken, func() {
		c.Answer(resp)
		c.Wake()
	})
	return true
}

func (k *collector) Flush() {
	k.mu.Lock()
	taken := k.taken
	k.taken = nil
	k.mu.Unlock()
	for _, answer := range taken {
		answer()
	}
}

// readReply reads one frame.
func readReply(t *testing.T, r *bufio.Reader) *wire.Frame {
	t.Helper()
	head, err := r.Peek(wire.PrefixSize)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wire.ParsePrefix(head, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, wire.PrefixSize+p.HeaderLen+p.BodyLen)
	for n := 0; n < len(b); {
		m, err := r.Read(b[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	f, err := wire.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every request of a pipeline gets its own answer, whoever answers it and
// however the bytes are cut: frames that span reads, frames larger than the
// buffer, both encodings, text that is escaped.
func TestStart_pipelineAnswersEverything(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	k := &collector{}
	s := startHandler(t, Config{MaxInFlight: 4}, k, nil)
	conn := dialRaw(t, s)
	const n = 600
	codes := []int32{codeStarted, codeStarted, codeStarted, codeDeclined, codePanics, codeOrdinary}
	want := map[int32]string{}
	var stream []byte
	for i := range int32(n) {
		f := wire.Request(codes[rnd.IntN(len(codes))], []byte(strings.Repeat("b", rnd.IntN(3000))))
		if rnd.IntN(40) == 0 {
			f.Body = []byte(strings.Repeat("B", 20_000+rnd.IntN(100_000)))
		}
		f.Opaque, f.Serialize = i, wire.Serialize(rnd.IntN(2))
		f.Ext.Add("text", fmt.Sprintf("t\x01%d\"\\\x02", i))
		want[i] = fmt.Sprintf("%d/%s", len(f.Body), f.Ext.Value("text"))
		if f.Code == codePanics {
			f.Code = codeDeclined
			if rnd.IntN(2) == 0 {
				f.Code = codePanics
			}
		}
		var err error
		if stream, err = wire.AppendFrame(stream, f); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for rest := stream; len(rest) > 0; {
			m := min(len(rest), 1+rnd.IntN(10_000))
			if _, err := conn.Write(rest[:m]); err != nil {
				return
			}
			rest = rest[m:]
		}
	}()
	r := bufio.NewReader(conn)
	for range n {
		f := readReply(t, r)
		got := fmt.Sprintf("%d/%s", len(f.Body), f.Remark)
		if w, ok := want[f.Opaque]; !ok || w != got {
			t.Fatalf("answer to %d is %.60q, want %.60q", f.Opaque, got, w)
		}
		delete(want, f.Opaque)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.started == 0 || k.handled == 0 || k.started+k.handled != n {
		t.Errorf("%d started and %d handled of %d", k.started, k.handled, n)
	}
}

// A connection has a large buffer while its peer sends ahead, in a part of the
// budget that takes nothing from large frames, and gives it back when it pauses,
// and when it ends.
func TestStart_buffersAheadForAWhile(t *testing.T) {
	s := startHandler(t, Config{}, &collector{}, nil)
	left := func(b *budget) int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.left
	}
	wait := func(want int) {
		for left(s.aheads) != want { // the test's own time limit ends a wait in vain
			runtime.Gosched()
		}
	}
	all := left(s.aheads)
	var stream []byte
	for i := range int32(20) {
		f := wire.Request(codeStarted, make([]byte, 1000))
		f.Opaque = i
		stream, _ = wire.AppendFrame(stream, f)
	}
	for _, pauses := range []bool{true, false} {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		rounds := 1
		if pauses {
			rounds = 2
		}
		for range rounds {
			if _, err := conn.Write(stream); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				readReply(t, r)
			}
			if n := left(s.aheads); n != all-bufferAhead || left(s.large) != s.cfg.MaxLarge {
				t.Errorf("%d of %d are left while a peer sends ahead", n, all)
			}
			if pauses {
				wait(all)
			}
		}
		conn.Close()
		wait(all)
	}
}
