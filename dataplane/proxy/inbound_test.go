package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// frame is one HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// begun is the first part of a gRPC message of size bytes.
func begun(size int, part int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, part)...)
}

func newTestInbound(c net.Conn) *inbound {
	f := &Front{cfg: DefaultConfig(), log: slog.New(slog.DiscardHandler), now: time.Now, closing: make(chan struct{})}
	f.ln = newListener(f, nil)
	return newInbound(f, c)
}

// streamCost is what a stream of a header frame with one byte counts.
const streamCost = streamBytes + 1

// What is unfinished is counted exactly, however the bytes are cut.
func TestInbound_countsUnfinishedMessages(t *testing.T) {
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	padded := func(pad byte, p []byte) []byte { return append(append([]byte{pad}, p...), make([]byte, pad)...) }
	for _, c := range []struct {
		name    string
		frames  [][]byte
		bytes   int64
		streams int
	}{
		{"nothing", nil, 0, 0},
		{"whole", [][]byte{frame(frameData, 0, 1, begun(1000, 1000))}, 0, 0},
		{"two in one frame", [][]byte{frame(frameData, 0, 1, append(begun(10, 10), begun(7, 7)...))}, 0, 0},
		{"empty message", [][]byte{frame(frameData, 0, 1, begun(0, 0))}, 0, 0},
		{"part", [][]byte{frame(frameData, 0, 1, begun(1000, 300))}, 300, 1},
		{"parts of two", [][]byte{frame(frameData, 0, 1, begun(1000, 300)), frame(frameData, 0, 3, begun(500, 100)), frame(frameData, 0, 1, make([]byte, 50))}, 450, 2},
		{"part, then the rest", [][]byte{frame(frameData, 0, 1, begun(1000, 300)), frame(frameData, 0, 1, make([]byte, 700))}, 0, 0},
		{"only a part of the length", [][]byte{frame(frameData, 0, 1, []byte{0, 0})}, 0, 1},
		{"padding does not count", [][]byte{frame(frameData, flagPadded, 1, padded(200, begun(1000, 300)))}, 300, 1},
		{"only padding", [][]byte{frame(frameData, flagPadded, 1, padded(9, nil))}, 0, 0},
		{"reset by the client", [][]byte{frame(frameData, 0, 1, begun(1000, 300)), frame(frameRST, 0, 1, make([]byte, 4))}, 0, 0},
		{"ended in the middle", [][]byte{frame(frameData, flagEndStream, 1, begun(1000, 300))}, 0, 0},
		{"ended by trailers", [][]byte{frame(frameData, 0, 1, begun(1000, 300)), frame(frameHeaders, flagEndStream, 1, []byte("x"))}, 0, 0},
		{"headers alone", [][]byte{frame(frameHeaders, 4, 1, []byte("x"))}, streamCost, 1},
		{"headers of two frames", [][]byte{frame(frameHeaders, 0, 1, []byte("x")), frame(frameContinuation, 4, 1, make([]byte, 99))}, streamCost + 99, 1},
		{"headers, then a part", [][]byte{frame(frameHeaders, 4, 1, []byte("x")), frame(frameData, 0, 1, begun(1000, 300))}, streamCost + 300, 1},
		{"headers, then a reset", [][]byte{frame(frameHeaders, 4, 1, []byte("x")), frame(frameRST, 0, 1, make([]byte, 4))}, 0, 0},
		{"headers, then a message", [][]byte{frame(frameHeaders, 4, 1, []byte("x")), frame(frameData, 0, 1, begun(10, 10))}, 0, 0},
		{"headers that end the stream", [][]byte{frame(frameHeaders, 4|flagEndStream, 1, []byte("x"))}, 0, 0},
		{"other frames between", [][]byte{frame(4, 0, 0, make([]byte, 12)), frame(frameData, 0, 1, begun(1000, 300)), frame(6, 0, 0, make([]byte, 8)), frame(8, 0, 1, make([]byte, 4))}, 300, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := append(bytes.Clone(preface), bytes.Join(c.frames, nil)...)
			for seed := range uint64(20) {
				i := newTestInbound(nil)
				i.login()
				rnd := rand.New(rand.NewPCG(seed, 1))
				for rest := all; len(rest) > 0; {
					n := 1 + rnd.IntN(min(len(rest), 1+int(seed)*40))
					i.in.scan(rest[:n], i.began, i.data, nil)
					rest = rest[n:]
				}
				if i.bytes != c.bytes || i.f.unfinished.Load() != c.bytes || len(i.streams) != c.streams {
					t.Fatalf("seed %d: %d bytes, %d in all, %d streams; want %d and %d", seed, i.bytes, i.f.unfinished.Load(), len(i.streams), c.bytes, c.streams)
				}
			}
		})
	}
}

// A stream that the server ended early is not counted, and what still comes
// for it is not taken for messages.
func TestInbound_serverEndsStream(t *testing.T) {
	i := newTestInbound(nil)
	i.in.skip = 0
	i.in.scan(frame(frameData, 0, 1, begun(100_000, 300)), i.began, i.data, nil)
	i.out.scan(frame(frameHeaders, flagEndStream, 1, []byte("x")), i.answered, nil, nil)
	i.in.scan(frame(frameData, 0, 1, bytes.Repeat([]byte{0xff}, 500)), i.began, i.data, nil)
	if i.bytes != 0 || i.f.unfinished.Load() != 0 {
		t.Errorf("%d bytes are counted", i.bytes)
	}
	i.in.scan(frame(frameData, flagEndStream, 1, []byte{0xff}), i.began, i.data, nil)
	if len(i.streams) != 0 {
		t.Errorf("%d streams are kept", len(i.streams))
	}
}

// A stranger's stream is counted until both sides have ended it, with or
// without a message; that of a client with a key until the message is whole.
func TestInbound_countsStreamsOfStrangers(t *testing.T) {
	headers, message := frame(frameHeaders, 4, 1, []byte("x")), frame(frameData, 0, 1, begun(10, 10))
	end, answer := frame(frameData, flagEndStream, 1, nil), frame(frameHeaders, flagEndStream, 1, []byte("x"))
	for _, c := range []struct {
		name          string
		in            [][]byte
		before, after int64 // the login
		streams       int   // after the login
	}{
		{"headers", [][]byte{headers}, streamCost, streamCost, 1},
		{"and a message", [][]byte{headers, message}, streamCost, 0, 0},
		{"and the end", [][]byte{headers, message, end}, streamCost, 0, 0},
		{"two messages", [][]byte{headers, message, message}, streamCost, 0, 0},
		{"and a part", [][]byte{headers, message, frame(frameData, 0, 1, begun(9, 5))}, streamCost + 5, 5, 1},
		{"an end without message", [][]byte{headers, end}, streamCost, 0, 0},
		{"headers that end", [][]byte{frame(frameHeaders, 4|flagEndStream, 1, []byte("x"))}, streamCost, 0, 0},
		{"a reset", [][]byte{headers, message, frame(frameRST, 0, 1, make([]byte, 4))}, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			stranger, known := newTestInbound(nil), newTestInbound(nil)
			for _, i := range []*inbound{stranger, known} {
				i.in.skip = 0
				i.in.scan(bytes.Join(c.in, nil), i.began, i.data, nil)
				if i.bytes != c.before || i.f.unfinished.Load() != c.before {
					t.Errorf("%d bytes, %d in all; want %d", i.bytes, i.f.unfinished.Load(), c.before)
				}
			}
			known.login()
			if known.bytes != c.after || known.f.unfinished.Load() != c.after || len(known.streams) != c.streams {
				t.Errorf("after the login %d bytes, %d in all, %d streams; want %d and %d", known.bytes, known.f.unfinished.Load(), len(known.streams), c.after, c.streams)
			}
			if c.before > 0 && (stranger.late(time.Now().Add(-time.Minute)) || !stranger.late(time.Now().Add(time.Minute))) {
				t.Error("the stream is not late by its begin")
			}
			stranger.out.scan(answer, stranger.answered, nil, nil)
			if stranger.bytes != 0 || stranger.f.unfinished.Load() != 0 {
				t.Errorf("%d bytes are counted after the answer", stranger.bytes)
			}
		})
	}
}

// Bytes of one read that begin many streams are let in up to the limit, and
// the rest when there is room: none is lost.
func TestInbound_stopsAtTheStreamThatIsTooMany(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	i := newTestInbound(server)
	i.in.skip = 0
	i.f.cfg.MaxUnfinished = strangerShare * strangerFree
	var sent []byte
	for s := range uint32(500) {
		sent = append(sent, frame(frameHeaders, 4, 2*s+1, []byte("x"))...)
	}
	go func() { _, _ = client.Write(sent) }()
	got := make([]byte, 32<<10)
	n, err := i.Read(got)
	if want := strangerFree/streamCost + 1; err != nil || len(i.streams) != want || n != want*(frameHead+1) {
		t.Fatalf("%d bytes with %d streams are let in, %v; want %d streams", n, len(i.streams), err, want)
	}
	for n < len(sent) {
		for s := range i.streams { // the server answers
			i.out.scan(frame(frameRST, 0, s, make([]byte, 4)), i.answered, nil, nil)
		}
		more, err := i.Read(got[n:])
		if err != nil || i.bytes > strangerFree+streamCost {
			t.Fatalf("%d bytes are counted, %v", i.bytes, err)
		}
		n += more
	}
	if !bytes.Equal(got[:n], sent) || i.rest != nil {
		t.Error("the bytes did not come as they were sent")
	}
	_ = i.Close()
}

// Over the limit of all connections the one that holds much is not read from,
// others are; closing gives everything back.
func TestInbound_waitsOverTheLimit(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	i := newTestInbound(server)
	i.in.skip = 0
	i.login()
	i.f.cfg.MaxUnfinished = unfinishedFree
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, i)
		read <- err
	}()
	if _, err := client.Write(frame(frameData, 0, 1, begun(1<<20, unfinishedFree+1))); err != nil {
		t.Fatal(err)
	}
	if err := client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(frame(frameData, 0, 1, make([]byte, 100))); err == nil {
		t.Error("the connection over the limit was read from")
	}
	other, end := net.Pipe()
	defer other.Close()
	small := newInbound(i.f, end)
	go func() { _, _ = other.Write([]byte("PRI")) }()
	if _, err := small.Read(make([]byte, 3)); err != nil {
		t.Errorf("another connection: %v", err)
	}
	_ = small.Close()
	close(i.f.closing)
	if err := <-read; !errors.Is(err, errUnfinished) {
		t.Errorf("the connection ended with %v", err)
	}
	_ = i.Close()
	_ = i.Close()
	if i.f.unfinished.Load() != 0 || len(i.f.ln.bound) != 0 {
		t.Errorf("left over: %d bytes, %d connections", i.f.unfinished.Load(), len(i.f.ln.bound))
	}
}

// B001: a request that does not end in time, or has nothing behind its headers,
// without any credential, ends its connection, and the one beside it goes on.
// So does a stream that needs no credential and stays open.
func TestUnfinishedRequest_isCut_B001(t *testing.T) {
	const send, watch = "/apache.rocketmq.v2.MessagingService/SendMessage", "/grpc.health.v1.Health/Watch"
	for name, c := range map[string]struct {
		method string
		body   []byte
	}{
		"half a message": {send, frame(frameData, 0, 1, begun(4<<20, 10_000))}, "headers alone": {send, nil},
		"a stream without login": {watch, frame(frameData, flagEndStream, 1, begun(0, 0))},
	} {
		t.Run(name, func(t *testing.T) { unfinishedIsCut(t, c.method, c.body) })
	}
}

func unfinishedIsCut(t *testing.T, method string, body []byte) {
	e := newEnv(t, func(c *Config) { c.UnfinishedTime = 200 * time.Millisecond })
	c := e.client("slk_a")
	settings := producerSettings("orders")
	ts := c.telemetry(settings)
	c.mustSend("orders", "before")
	nc, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	head := []byte{0x83, 0x86, 0x04} // POST, http, :path
	head = append(head, text(method)...)
	head = append(append(head, 0x01), text("x")...)                               // :authority
	head = append(append(head, 0x0f, 0x10), text("application/grpc")...)          // content-type
	head = append(append(append(head, 0x00), text("te")...), text("trailers")...) // te
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...)
	out = append(out, frame(frameHeaders, 0x4, 1, head)...)
	if _, err := nc.Write(append(out, body...)); err != nil {
		t.Fatal(err)
	}
	if err := nc.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := io.Copy(io.Discard, nc); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the half request keeps its connection")
	}
	c.mustSend("orders", "after")
	c.tell(ts, settings)
	for range 2 { // the answers to both
		if _, err := ts.Recv(); err != nil {
			t.Errorf("the open stream of a client with a key: %v", err)
		}
	}
}
