package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gRPC holds a request in memory from its first byte on, for as long as the
// rest takes, and asks nobody whether it may. So the bytes of each connection
// are looked at on their way: HTTP/2 frames, and in DATA frames the messages
// of gRPC. What has begun to arrive and is not whole is counted; over the
// limit of all connections, those that hold much of it are not read from. A
// stream holds memory, too, from its headers on, and is counted until its
// first message is whole. Until a connection has made one call of a known key
// it is a stranger's: its streams are counted until they end, because a few
// calls need no key, and an answer may stay unread. What is not over in time
// ends its connection.
//
// So one address, with 5,000 connections, can make the server hold, in counted
// bytes: as a stranger a quarter of MaxUnfinished and 5,000 times
// strangerFree and one stream more, 64 + 5,000 x 0.125 MiB, 700 MiB; with a key
// all of it and 5,000 times unfinishedFree and one stream, 1,850 MiB. With the
// connections themselves and garbage a stranger's came to 1 GB of RSS.

var (
	errUnfinished = errors.New("too many unfinished requests on this server")
	errNotHTTP2   = errors.New("too many streams were sent to")
)

const (
	// unfinishedFree is what a connection may have unfinished at any time.
	unfinishedFree = 256 << 10
	// strangerFree is the same for a stranger's: the first calls of an SDK.
	strangerFree = 64 << 10
	// strangerShare is the part of the limit that strangers may fill: clients
	// that are known do not wait for them.
	strangerShare = 4
	// streamBytes is what a stream takes beside its headers' frames: gRPC's
	// own state and the goroutine of the call, 11 KiB, and the headers as a
	// map. HPACK names a header with one byte, so that MaxHeaderBytes of them,
	// which count 33 at least, make a map of 50 KiB.
	streamBytes = 48 << 10
	// unfinishedWait is how long a connection over it waits for room.
	unfinishedWait = 10 * time.Second
	// maxTracked bounds the streams that are looked at on one connection.
	maxTracked = 4096

	prefaceBytes = 24 // what a client sends first
	frameHead    = 9
	messageHead  = 5
	maxFrame     = 16 << 10 // gRPC refuses longer ones

	frameData         = 0
	frameHeaders      = 1
	frameRST          = 3
	frameContinuation = 9
	flagEndStream     = 0x1
	flagPadded        = 0x8
	streamMask        = 1<<31 - 1
)

// inbound is a connection with its unfinished messages.
type inbound struct {
	net.Conn
	f *Front

	in, out frames      // each used by one goroutine
	rest    []byte      // read, and not let in yet; used by the reader
	known   atomic.Bool // not a stranger's any more; set under mu

	mu      sync.Mutex // guards the rest
	streams map[uint32]*arriving
	bytes   int64
	closed  bool
}

// arriving is a stream and the message that it is at.
type arriving struct {
	head  [messageHead]byte
	heads int   // bytes of head that are there
	left  int64 // bytes of the message that are not
	have  int64 // bytes of it that are
	cost  int64 // counted for the stream itself
	since time.Time
	first bool // the stream has had no whole message yet
	ended bool // the client has ended the stream, and the server has not
	dead  bool // the server has ended the stream: what comes is dropped by gRPC
}

func newInbound(f *Front, c net.Conn) *inbound {
	i := &inbound{Conn: c, f: f, streams: map[uint32]*arriving{}}
	i.in.skip = prefaceBytes
	i.f.ln.track(i)
	return i
}

// Read lets bytes in, as long as there is room for what they begin. Those of
// one read can begin a thousand streams, so it stops at the frame that is one
// too many and keeps the rest for the next call.
func (i *inbound) Read(p []byte) (int, error) {
	for {
		if err := i.room(); err != nil {
			return 0, err
		}
		var err error
		n := copy(p, i.rest)
		if n == 0 {
			if n, err = i.Conn.Read(p); n == 0 {
				return 0, err
			}
		}
		i.mu.Lock()
		in := i.in.scan(p[:n], i.began, i.data, i.fullLocked)
		over := len(i.streams) > maxTracked
		i.mu.Unlock()
		if over {
			return 0, errNotHTTP2
		}
		switch {
		case in < len(i.rest):
			i.rest = i.rest[in:]
		case in < n:
			i.rest, err = bytes.Clone(p[in:n]), nil // an error comes again
		default:
			i.rest = nil
		}
		if in > 0 {
			return in, err
		}
	}
}

// Write sees which streams the server ends.
func (i *inbound) Write(p []byte) (int, error) {
	i.mu.Lock()
	i.out.scan(p, i.answered, nil, nil)
	i.mu.Unlock()
	return i.Conn.Write(p)
}

// Close closes the connection. It may be called again.
func (i *inbound) Close() error {
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		i.countLocked(-i.bytes)
		clear(i.streams)
		i.f.ln.untrack(i)
	}
	i.mu.Unlock()
	return i.Conn.Close()
}

// room waits until the connection may read on.
func (i *inbound) room() error {
	for deadline := time.Now().Add(unfinishedWait); ; {
		i.mu.Lock()
		full := i.fullLocked()
		i.mu.Unlock()
		if !full {
			return nil
		}
		if time.Now().After(deadline) {
			i.f.ln.say("unfinished", "connection closed: too many unfinished requests at once", i.Conn.RemoteAddr())
			return errUnfinished
		}
		select {
		case <-i.f.closing:
			return errUnfinished
		case <-time.After(50 * time.Millisecond): // thousands may wait
		}
	}
}

// fullLocked reports whether the connection holds more than it may at any
// time, while all together hold too much.
func (i *inbound) fullLocked() bool {
	if i.known.Load() {
		return i.bytes > unfinishedFree && i.f.unfinished.Load() > i.f.cfg.MaxUnfinished
	}
	return i.bytes > strangerFree && i.f.unfinished.Load() > i.f.cfg.MaxUnfinished/strangerShare
}

func (i *inbound) countLocked(n int64) {
	i.bytes += n
	i.f.unfinished.Add(n)
}

// login says that a call on this connection came with a known key.
func (i *inbound) login() {
	if i.known.Load() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known.Store(true)
	for stream, a := range i.streams {
		i.settleLocked(stream, a)
	}
}

// settleLocked forgets what is no longer counted of a stream.
func (i *inbound) settleLocked(stream uint32, a *arriving) {
	if !i.known.Load() && !a.dead {
		return // all of it, until the server has ended the stream
	}
	if !a.first || a.ended {
		i.countLocked(-a.cost)
		a.cost = 0
	}
	if a.ended || a.heads == 0 && !a.first && !a.dead {
		i.countLocked(-a.have)
		delete(i.streams, stream)
	}
}

// began handles a frame of the client.
func (i *inbound) began(kind, flags byte, stream uint32, size int) {
	size = min(size, maxFrame)
	a := i.streams[stream]
	switch kind {
	case frameRST:
		if a != nil {
			i.countLocked(-a.have - a.cost)
			delete(i.streams, stream)
		}
		return
	case frameHeaders:
		if a == nil && !i.closed {
			i.streams[stream] = &arriving{first: true, since: time.Now(), cost: streamBytes + int64(size)}
			i.countLocked(streamBytes + int64(size))
		}
	case frameContinuation:
		if a != nil && a.first {
			a.cost += int64(size)
			i.countLocked(int64(size))
		}
	}
	if kind <= frameHeaders && flags&flagEndStream != 0 {
		i.in.last = stream // after its data
	}
}

// answered handles a frame of the server: one that ends a stream. What the
// client still sends for it is no message any more.
func (i *inbound) answered(kind, flags byte, stream uint32, _ int) {
	if kind != frameRST && (kind > frameHeaders || flags&flagEndStream == 0) {
		return
	}
	if a := i.streams[stream]; a != nil {
		i.countLocked(-a.have - a.cost)
		if a.ended {
			delete(i.streams, stream)
			return
		}
		*a = arriving{dead: true, since: a.since}
	}
}

// data handles a part of a DATA frame; last says that the stream ends here.
func (i *inbound) data(stream uint32, p []byte, last bool) {
	a := i.streams[stream]
	if a == nil && len(p) > 0 && !i.closed {
		a = &arriving{since: time.Now()}
		i.streams[stream] = a
	}
	if a == nil {
		return
	}
	for !a.dead && len(p) > 0 {
		if a.heads == 0 && !a.first && a.cost == 0 {
			a.since = time.Now()
		}
		if a.heads < messageHead {
			n := copy(a.head[a.heads:], p)
			a.heads += n
			p = p[n:]
			if a.heads < messageHead {
				break
			}
			a.left = int64(binary.BigEndian.Uint32(a.head[1:]))
		}
		n := min(a.left, int64(len(p)))
		a.left, a.have, p = a.left-n, a.have+n, p[n:]
		i.countLocked(n)
		if a.left == 0 {
			i.countLocked(-a.have)
			a.heads, a.have, a.first = 0, 0, false
		}
	}
	if last {
		i.countLocked(-a.have)
		a.heads, a.have, a.ended = 0, 0, true
	}
	i.settleLocked(stream, a)
}

// late reports whether a message, a stream without one, or any of a stranger
// began before limit and is not over yet.
func (i *inbound) late(limit time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for stream, a := range i.streams {
		if (a.heads > 0 || a.first || a.cost > 0) && a.since.Before(limit) {
			return true
		}
		if a.dead && a.since.Before(limit) {
			delete(i.streams, stream)
		}
	}
	return false
}

// frames finds the frames of one direction of HTTP/2 in a row of reads.
type frames struct {
	skip   int // bytes to pass over
	head   [frameHead]byte
	heads  int
	left   int // bytes of the frame's payload to come
	pad    int // of them padding at the end; -1: its length comes first
	data   bool
	stream uint32
	last   uint32 // stream that ends with this frame, 0 for none
}

// scan calls frame for each frame header, and data for each part of a DATA
// frame, and once more when the frame that ends a stream is over. It returns
// how many bytes it has seen: those before the frame that full was true at.
func (r *frames) scan(p []byte, frame func(kind, flags byte, stream uint32, size int), data func(stream uint32, p []byte, last bool), full func() bool) int {
	all := len(p)
	for len(p) > 0 {
		if n := min(r.skip, len(p)); n > 0 {
			r.skip -= n
			p = p[n:]
			continue
		}
		if r.heads < frameHead {
			if r.heads == 0 && full != nil && full() {
				break
			}
			n := copy(r.head[r.heads:], p)
			r.heads += n
			p = p[n:]
			if r.heads < frameHead {
				break
			}
			kind, flags := r.head[3], r.head[4]
			r.left = int(r.head[0])<<16 | int(r.head[1])<<8 | int(r.head[2])
			r.stream = binary.BigEndian.Uint32(r.head[5:]) & streamMask
			r.data, r.pad, r.last = kind == frameData && data != nil, 0, 0
			if r.data && flags&flagPadded != 0 && r.left > 0 {
				r.pad = -1
			}
			frame(kind, flags, r.stream, r.left)
		} else {
			p = r.payload(p, data)
		}
		if r.left == 0 && r.heads == frameHead {
			r.heads = 0
			if r.last != 0 && data != nil {
				data(r.last, nil, true)
			}
		}
	}
	return all - len(p)
}

// payload takes what belongs to the frame off p.
func (r *frames) payload(p []byte, data func(stream uint32, p []byte, last bool)) []byte {
	if r.pad < 0 {
		r.pad = min(int(p[0]), r.left-1)
		r.left--
		return p[1:]
	}
	n := min(r.left, len(p))
	if r.data {
		if body := min(n, r.left-r.pad); body > 0 {
			data(r.stream, p[:body], false)
		}
	}
	r.left -= n
	return p[n:]
}
