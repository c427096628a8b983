package remoting

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestServer_limitsConnectionsPerAddress(t *testing.T) {
	log := &logLines{}
	s := startServer(t, Config{MaxConns: 100, MaxConnsPerIP: 2}, echo, slog.New(slog.NewTextHandler(log, nil)))
	var clients []*Client
	for range 2 {
		c := newClient(t, ClientOptions{})
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for range 20 {
		waitClosed(t, dialRaw(t, s))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "remote=127.0.0.1") {
		t.Errorf("log %q, want one line naming the address", got)
	}
	for _, c := range clients {
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
			t.Errorf("a connection within the limit: %v", err)
		}
		_ = c.Close()
	}
	_ = s.Close()
	if n := len(s.perIP); n != 0 {
		t.Errorf("%d addresses are still counted", n)
	}
}

// What was said about an address is not said again for ten seconds, and not
// remembered for longer.
func TestServer_saysRefusedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(Config{}, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		for i, want := range []bool{true, false} {
			if got := s.sayRefusedLocked(a); got != want {
				t.Errorf("line %d about one address: said %t", i, got)
			}
		}
		if !s.sayRefusedLocked(b) {
			t.Error("another address was not named")
		}
		time.Sleep(refusedPause)
		if !s.sayRefusedLocked(b) || len(s.refused) != 1 {
			t.Errorf("after the pause %d addresses are remembered, want the one just named", len(s.refused))
		}
	})
}

// pipeConn is a connection with a budget, and the end of its peer. The reads
// of frames are the test's: nobody serves it.
func pipeConn(t *testing.T, large int) (*Conn, *reads) {
	t.Helper()
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	r := &reads{Conn: here, peer: there}
	c := newConn(cfg, loggerOrDiscard(nil), &shared{large: newBudget(large), out: newBacklog(cfg.MaxQueued)}, r, bufio.NewReaderSize(r, 4<<10), nil)
	t.Cleanup(func() {
		_ = c.Close()
		_ = there.Close()
	})
	return c, r
}

// reads notes the largest buffer that bytes were read into.
type reads struct {
	net.Conn
	peer    net.Conn
	largest int
}

func (r *reads) Read(p []byte) (int, error) {
	r.largest = max(r.largest, len(p))
	return r.Conn.Read(p)
}

func prefix(header, body int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+header+body))
	return binary.BigEndian.AppendUint32(b, uint32(header))
}

// fullHeader has as many fields as fit into about 64 KiB.
func fullHeader() []byte {
	return []byte(`{"code":1,"extFields":{` + strings.Repeat(`"key1":"val1",`, 4095) + `"a":"b"}}`)
}

func TestReadFrame_allocatesWhatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unasked := `{"flag":1,"opaque":7}`
		for _, p := range [][]byte{
			prefix(64<<10, 0),
			append(prefix(2, 64<<10), "{}"...),
			append(prefix(len(unasked), 64<<10), unasked...),
		} {
			c, r := pipeConn(t, 1<<20)
			done := make(chan error, 1)
			go func() { _, err := c.readFrame(); done <- err }() // ends when the peer leaves
			if _, err := r.peer.Write(p); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if r.largest > 4<<10 {
				t.Errorf("%d bytes were allocated for the %d that arrived", r.largest, len(p))
			}
			_ = r.peer.Close()
			if err := <-done; err == nil {
				t.Error("a frame was read")
			}
		}
	})
}

// A header of 64 KiB decodes into more than twice its size, which is held
// until the last byte of the body came.
func TestReadFrame_countsUnfinishedFrames(t *testing.T) {
	header := fullHeader()
	for _, test := range []struct {
		name string
		sent []byte
		want int // held at least
	}{
		{"half a header", append(prefix(len(header), 0), header[:len(header)-1]...), len(header) - freeFrame},
		{"no body", append(prefix(len(header), 64<<10), header...), len(header) + 4096*fieldSize - freeFrame},
		{"half a body", append(append(prefix(len(header), 64<<10), header...), make([]byte, 60<<10)...), len(header) + 4096*fieldSize + 60<<10 - freeFrame},
		{"a small one", append(prefix(2, 8<<10), append([]byte("{}"), make([]byte, 8<<10-1)...)...), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := pipeConn(t, 1<<20)
				done := make(chan error, 1)
				go func() { done <- c.readLoop() }() // ends when the peer leaves
				if _, err := r.peer.Write(test.sent); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if held := 1<<20 - c.large.left; held < test.want || held > 2*test.want {
					t.Errorf("%d bytes are counted, want %d to the double", held, test.want)
				}
				_ = r.peer.Close()
				if err := <-done; err == nil {
					t.Error("the loop ended without an error")
				}
				if c.large.left != 1<<20 {
					t.Errorf("%d bytes were not given back", 1<<20-c.large.left)
				}
			})
		})
	}
}

// Senders of unfinished headers are cut off, and give back what they took; what
// is small goes on beside them.
func TestServer_boundsUnfinishedHeaders(t *testing.T) {
	s := startServer(t, Config{FrameGrace: 300 * time.Millisecond, MaxFrame: 256 << 10, MaxLarge: 256 << 10}, echo, nil)
	c := newClient(t, ClientOptions{})
	header := fullHeader()
	var conns []net.Conn
	for range 20 {
		nc := dialRaw(t, s)
		conns = append(conns, nc)
		if _, err := nc.Write(append(prefix(len(header), 64<<10), header...)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, make([]byte, 1000))); err != nil {
			t.Fatalf("a small request beside them: %v", err)
		}
	}
	for _, nc := range conns {
		waitCut(t, nc)
	}
	_ = c.Close()
	_ = s.Close()
	if s.large.left != 256<<10 {
		t.Errorf("%d bytes were not given back", 256<<10-s.large.left)
	}
}

func TestReadFrame_keepsLittleOfLargeHeader(t *testing.T) {
	c, r := pipeConn(t, 1<<20)
	header := fullHeader()
	go func() { _, _ = r.peer.Write(append(prefix(len(header), 0), header...)) }() // ends when it is read
	if _, err := c.readFrame(); err != nil {
		t.Fatal(err)
	}
	if got := cap(c.scratch); got > 4<<10 {
		t.Errorf("%d bytes of buffer are kept", got)
	}
}

// Peers that do not read are cut off, when together they make too much wait;
// those that hold little are not.
func TestEnqueue_boundsBacklogOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{MaxQueue: 8000, MaxQueued: 10_000}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		log := &logLines{}
		sh := newShared(cfg)
		var wg sync.WaitGroup
		open := func() (*Conn, net.Conn) {
			here, there := net.Pipe()
			c := newConn(cfg, slog.New(slog.NewTextHandler(log, nil)), sh, here, bufio.NewReaderSize(here, 4<<10), nil)
			wg.Go(c.serve)
			return c, there
		}
		plain, plainPeer := open()
		var greedy []*Conn
		var hooked atomic.Int32
		for range 5 {
			c, _ := open()
			c.OnClose(func() { hooked.Add(1) })
			greedy = append(greedy, c)
		}
		if err := plain.OneWay(wire.Request(40, make([]byte, 100))); err != nil {
			t.Fatal(err)
		}
		for i := range 40 { // 40,000 bytes and their headers: four times the limit
			c := greedy[i%len(greedy)]
			if err := c.OneWay(wire.Request(40, make([]byte, 1000))); err != nil && !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := sh.out.bytes.Load(); n > 10_000 {
				t.Errorf("%d bytes wait", n)
			}
		}
		if n := hooked.Load(); n < 3 {
			t.Errorf("%d connections were closed, want all that the limit has no room for", n)
		}
		for _, c := range greedy {
			_ = c.Close()
		}
		if got := log.String(); strings.Count(got, "too much waits") != 1 {
			t.Errorf("log %q, want one line", got)
		}
		if err := plain.OneWay(wire.Request(40, make([]byte, 100))); err != nil {
			t.Errorf("plain traffic: %v", err)
		}
		got := make([]byte, 2*sh.out.bytes.Load()) // more than there is
		read := make(chan int, 1)
		go func() { n, _ := io.ReadFull(plainPeer, got); read <- n }() // ends when the connection closes
		synctest.Wait()
		if n := sh.out.bytes.Load(); n != 0 {
			t.Errorf("%d bytes are counted after all was read", n)
		}
		_ = plain.Close()
		wg.Wait()
		if n := <-read; n < 200 {
			t.Errorf("the plain peer got %d bytes", n)
		}
		if n := len(sh.out.conns); n != 0 {
			t.Errorf("%d connections are still known", n)
		}
	})
}

// Replies are bounded like pushes, through a server and its sockets, and a peer
// that reads gets its own.
func TestServer_boundsRepliesOfAll(t *testing.T) {
	log := &logLines{}
	cfg := Config{MaxQueue: 4 << 20, MaxQueued: 4 << 20, MaxInFlight: 1}
	s := startServer(t, cfg, func(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
		r := f.Reply(wire.Success, "")
		r.Body = make([]byte, 100<<10)
		return r
	}, slog.New(slog.NewTextHandler(log, nil)))
	ask, err := wire.AppendFrame(nil, wire.Request(1, nil))
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // 20 MiB of replies each, which the buffers of sockets do not take
		if _, err := dialRaw(t, s).Write(bytes.Repeat(ask, 200)); err != nil {
			t.Fatal(err)
		}
	}
	reader := newClient(t, ClientOptions{})
	for i := 0; !strings.Contains(log.String(), "too much waits"); i++ {
		if _, err := reader.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil || i == 5000 {
			t.Fatalf("request %d of a peer that reads: %v", i, err)
		}
		if n := s.out.bytes.Load(); n > 5<<20 { // each handler may add one reply before the sweep
			t.Fatalf("%d bytes wait", n)
		}
	}
	_ = reader.Close()
	_ = s.Close()
	if n := s.out.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted after the end", n)
	}
}
