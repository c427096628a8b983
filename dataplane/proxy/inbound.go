package proxy

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// gRPC holds a request in memory from its first byte on, for as long as the
// rest takes, and asks nobody whether it may. So the bytes of each connection
// are looked at on their way: HTTP/2 frames, and in DATA frames the messages
// of gRPC. What has begun to arrive and is not whole is counted; over the
// limit of all connections, those that hold much of it are not read from. A
// stream holds memory, too, from its headers on: one whose first message is
// not there in time, or any that does not end, ends its connection.

var (
	errUnfinished = errors.New("too many unfinished requests on this server")
	errNotHTTP2   = errors.New("too many streams were sent to")
)

const (
	// unfinishedFree is what a connection may have unfinished at any time.
	unfinishedFree = 256 << 10
	// unfinishedWait is how long a connection over it waits for room.
	unfinishedWait = 10 * time.Second
	// maxTracked bounds the streams that are looked at on one connection.
	maxTracked = 4096

	prefaceBytes = 24 // what a client sends first
	frameHead    = 9
	messageHead  = 5

	frameData     = 0
	frameHeaders  = 1
	frameRST      = 3
	flagEndStream = 0x1
	flagPadded    = 0x8
	streamMask    = 1<<31 - 1
)

// inbound is a connection with its unfinished messages.
type inbound struct {
	net.Conn
	f *Front

	in, out frames // each used by one goroutine

	mu      sync.Mutex // guards the rest
	streams map[uint32]*arriving
	bytes   int64
	closed  bool
}

// arriving is the message that a stream is at.
type arriving struct {
	head  [messageHead]byte
	heads int   // bytes of head that are there
	left  int64 // bytes of the message that are not
	have  int64 // bytes of it that are
	since time.Time
	first bool // the stream has had no whole message yet
	dead  bool // the server has ended the stream: what comes is dropped by gRPC
}

func newInbound(f *Front, c net.Conn) *inbound {
	i := &inbound{Conn: c, f: f, streams: map[uint32]*arriving{}}
	i.in.skip = prefaceBytes
	i.f.ln.track(i)
	return i
}

// Read lets bytes in, as long as there is room for what they begin.
func (i *inbound) Read(p []byte) (int, error) {
	if err := i.room(); err != nil {
		return 0, err
	}
	n, err := i.Conn.Read(p)
	if n > 0 {
		i.mu.Lock()
		i.in.scan(p[:n], i.began, i.data)
		over := len(i.streams) > maxTracked
		i.mu.Unlock()
		if over {
			return 0, errNotHTTP2
		}
	}
	return n, err
}

// Write sees which streams the server ends.
func (i *inbound) Write(p []byte) (int, error) {
	i.mu.Lock()
	i.out.scan(p, i.answered, nil)
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
		much := i.bytes > unfinishedFree
		i.mu.Unlock()
		if !much || i.f.unfinished.Load() <= i.f.cfg.MaxUnfinished {
			return nil
		}
		if time.Now().After(deadline) {
			i.f.ln.say("unfinished", "connection closed: too many unfinished requests at once", i.Conn.RemoteAddr())
			return errUnfinished
		}
		select {
		case <-i.f.closing:
			return errUnfinished
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (i *inbound) countLocked(n int64) {
	i.bytes += n
	i.f.unfinished.Add(n)
}

// began handles a frame of the client.
func (i *inbound) began(kind, flags byte, stream uint32) {
	switch {
	case kind == frameRST || kind <= frameHeaders && flags&flagEndStream != 0:
		i.in.last = stream // after its data
	case kind == frameHeaders && i.streams[stream] == nil && !i.closed:
		i.streams[stream] = &arriving{first: true, since: time.Now()}
	}
}

// answered handles a frame of the server: one that ends a stream. What the
// client still sends for it is no message any more.
func (i *inbound) answered(kind, flags byte, stream uint32) {
	if kind != frameRST && (kind > frameHeaders || flags&flagEndStream == 0) {
		return
	}
	if a := i.streams[stream]; a != nil {
		i.countLocked(-a.have)
		*a = arriving{dead: true, since: a.since}
	}
}

// data handles a part of a DATA frame; last says that the stream ends here.
func (i *inbound) data(stream uint32, p []byte, last bool) {
	a := i.streams[stream]
	if a == nil && len(p) > 0 && !i.closed {
		a = &arriving{}
		i.streams[stream] = a
	}
	for a != nil && !a.dead && len(p) > 0 {
		if a.heads == 0 && !a.first {
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
	if a != nil && (last || a.heads == 0 && !a.first && !a.dead) {
		i.countLocked(-a.have)
		delete(i.streams, stream)
	}
}

// late reports whether a message, or a stream without one, began before limit
// and is not whole yet.
func (i *inbound) late(limit time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for stream, a := range i.streams {
		if (a.heads > 0 || a.first) && a.since.Before(limit) {
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
// frame, and once more when the frame that ends a stream is over.
func (r *frames) scan(p []byte, frame func(kind, flags byte, stream uint32), data func(stream uint32, p []byte, last bool)) {
	for len(p) > 0 {
		if n := min(r.skip, len(p)); n > 0 {
			r.skip -= n
			p = p[n:]
			continue
		}
		if r.heads < frameHead {
			n := copy(r.head[r.heads:], p)
			r.heads += n
			p = p[n:]
			if r.heads < frameHead {
				return
			}
			kind, flags := r.head[3], r.head[4]
			r.left = int(r.head[0])<<16 | int(r.head[1])<<8 | int(r.head[2])
			r.stream = binary.BigEndian.Uint32(r.head[5:]) & streamMask
			r.data, r.pad, r.last = kind == frameData && data != nil, 0, 0
			if r.data && flags&flagPadded != 0 && r.left > 0 {
				r.pad = -1
			}
			frame(kind, flags, r.stream)
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
