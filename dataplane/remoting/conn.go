package remoting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Conn is one established connection, on either side.
type Conn struct {
	*shared
	cfg     Config
	log     *slog.Logger
	taken   int // of large, for the frame that the reader goroutine is at
	nc      net.Conn
	br      *bufio.Reader
	scratch []byte // header buffer of the reader goroutine
	handler Handler
	starter Starter       // handler, if it is one
	borrow  wire.Borrower // of the reader goroutine, for starter
	started bool          // since the last Flush of starter; owned by the reader goroutine
	small   *bufio.Reader // below br while that is large; nil otherwise
	remote  netip.AddrPort
	local   netip.AddrPort

	ctx      context.Context // ends when the connection closes; given to handlers
	cancel   context.CancelFunc
	inFlight chan struct{}
	handlers sync.WaitGroup // handler goroutines; waited for by serve
	draining atomic.Bool
	cut      atomic.Bool // the writer must end; stored under mu
	opaque   atomic.Int32

	mu       sync.Mutex
	closed   bool
	queue    []byte                     // encoded frames that wait for the writer
	held     int                        // bytes of queue and of the batch being written, all counted in out
	wake     chan struct{}              // writer: queue is not empty, or closed
	room     chan struct{}              // closed and replaced when the writer took the queue
	pending  map[int32]chan *wire.Frame // requests of ours that wait for a reply
	onClose  []func()
	attrs    map[any]any
	flushing bool // the writer holds bytes that are not on the wire yet
	waiting  bool // somebody waits on room
	mute     bool // the peer takes no more answers: nothing is queued any more
}

func newConn(cfg Config, log *slog.Logger, sh *shared, nc net.Conn, br *bufio.Reader, h Handler) *Conn {
	ctx, cancel := context.WithCancel(context.Background()) // the connection is its own root: it ends by close
	c := &Conn{
		shared: sh, cfg: cfg, log: log, nc: nc, br: br, handler: h,
		remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr()),
		ctx: ctx, cancel: cancel,
		inFlight: make(chan struct{}, cfg.MaxInFlight),
		wake:     make(chan struct{}, 1), room: make(chan struct{}),
		pending: make(map[int32]chan *wire.Frame),
	}
	c.starter, _ = h.(Starter)
	sh.out.enter(c) // until Close
	return c
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// RemoteAddr is the peer's address; the zero value for other than TCP.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr is the address that the peer reached us at.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Value returns what SetValue stored under key, nil if nothing.
func (c *Conn) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attrs[key]
}

// ValueOrStore returns the value under key, after storing make() there if
// there was none. make runs under the connection's lock: it must be short.
func (c *Conn) ValueOrStore(key any, make func() any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.attrs[key]; ok {
		return v
	}
	if c.attrs == nil {
		c.attrs = map[any]any{}
	}
	v := make()
	c.attrs[key] = v
	return v
}

// OnClose registers fn to run once after the connection closed, at once if it
// already is. Functions run one after the other.
func (c *Conn) OnClose(fn func()) {
	c.mu.Lock()
	if !c.closed {
		c.onClose = append(c.onClose, fn)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	fn()
}

// Closed reports whether the connection has ended.
func (c *Conn) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends the connection. Frames that wait to be written are dropped.
// It may be called again.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	hooks := c.onClose
	c.onClose = nil
	pending := c.pending
	c.pending = nil
	c.queue = nil
	c.countLocked(-c.held)
	c.mu.Unlock()
	c.out.leave(c)
	c.cancel()
	c.signalWriter()
	err := c.nc.Close()
	for _, ch := range pending {
		close(ch)
	}
	for _, fn := range hooks {
		fn()
	}
	return err
}

// Reply sends the answer to a request of the peer; nothing is sent for a
// one-way request. It waits for room in the write queue, at most
// Config.WriteTimeout, and then closes the connection. An answer that cannot
// be encoded is replaced by a system error, so that the peer gets one.
func (c *Conn) Reply(req, resp *wire.Frame) {
	if resp == nil || req.IsOneWay() {
		return
	}
	resp.Opaque = req.Opaque
	resp.Serialize = req.Serialize
	resp.Flag |= wire.FlagResponse
	err := c.enqueueWait(resp)
	if errors.Is(err, wire.ErrTooLarge) {
		err = c.enqueueWait(req.Reply(wire.SystemError, "the answer passes the frame size limit"))
	}
	if errors.Is(err, ErrQueueFull) {
		c.log.Warn("closing connection: peer does not read", "remote", c.remote)
		_ = c.Close()
	}
}

// OneWay sends a request that has no answer. It never blocks: with a full
// write queue the frame is dropped and the error is ErrQueueFull.
func (c *Conn) OneWay(f *wire.Frame) error {
	f.Opaque = c.opaque.Add(1)
	f.Flag |= wire.FlagOneWay
	_, err := c.enqueue(f)
	return err
}

// Invoke sends a request and waits for its answer. The opaque is of our own
// counter and cannot clash with requests of the peer.
func (c *Conn) Invoke(ctx context.Context, f *wire.Frame) (*wire.Frame, error) {
	ch := make(chan *wire.Frame, 1)
	f.Opaque = c.opaque.Add(1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.pending[f.Opaque] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, f.Opaque)
		c.mu.Unlock()
	}()
	if _, err := c.enqueue(f); err != nil {
		return nil, err
	}
	select {
	case resp, ok := <-ch:
		if !ok {
			return nil, ErrClosed
		}
		return resp, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("request code %d to %s: %w", f.Code, c.remote, ctx.Err())
	}
}

// enqueue appends the frame to the write queue. The queue takes a frame of any
// size when it is empty, so that its bound never refuses what is legal. When
// full it returns ErrQueueFull and a channel that is closed at the next chance.
func (c *Conn) enqueue(f *wire.Frame) (room <-chan struct{}, err error) {
	c.mu.Lock()
	if c.closed || c.mute || c.cut.Load() {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if len(c.queue) > 0 && len(c.queue)+len(f.Body) > c.cfg.MaxQueue {
		c.waiting = true
		room = c.room
		c.mu.Unlock()
		return room, ErrQueueFull
	}
	before := len(c.queue)
	c.queue, err = wire.AppendFrame(c.queue, f)
	over := c.countLocked(len(c.queue) - before)
	c.mu.Unlock()
	if err == nil {
		c.signalWriter()
	}
	if over {
		c.shed()
	}
	return nil, err
}

// shed cuts connections off whose peers do not read.
func (c *Conn) shed() {
	if n, share := c.out.shed(); n > 0 {
		c.log.Log(c.ctx, c.lines.level(kindBacklog), "closing connections: their peers do not read and too much waits for all", "connections", n, "limit", c.out.limit, "share", share)
	}
}

// countLocked adds n to the bytes that wait and reports whether there are too
// many of them on all connections.
func (c *Conn) countLocked(n int) (over bool) {
	c.held += n
	return c.out.bytes.Add(int64(n)) > c.out.limit
}

// cutOff drops what waits if it is more than share and ends the connection. It
// does not wait and calls nobody: the writer closes the connection.
func (c *Conn) cutOff(share int64) bool {
	c.mu.Lock()
	if c.closed || c.cut.Load() || int64(c.held) <= share {
		c.mu.Unlock()
		return false
	}
	c.cut.Store(true)
	c.queue = nil
	c.countLocked(-c.held)
	c.mu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Unix(1, 0))
	c.signalWriter()
	return true
}

func (c *Conn) enqueueWait(f *wire.Frame) error {
	room, err := c.enqueue(f)
	if !errors.Is(err, ErrQueueFull) {
		return err
	}
	t := time.NewTimer(c.cfg.WriteTimeout)
	defer t.Stop()
	for errors.Is(err, ErrQueueFull) {
		select {
		case <-room:
			room, err = c.enqueue(f)
		case <-c.ctx.Done():
			return ErrClosed
		case <-t.C:
			return ErrQueueFull
		}
	}
	return err
}

func (c *Conn) signalWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keepBuffer is the largest write buffer that is kept for the next batch.
const keepBuffer = 256 << 10

// writeLoop writes what is queued, in one call for all frames that came
// together. It ends when the connection closes.
func (c *Conn) writeLoop() {
	var spare []byte
	written := 0
	for range c.wake {
		for {
			c.mu.Lock()
			if c.closed || c.cut.Load() {
				c.mu.Unlock()
				_ = c.Close()
				return
			}
			c.countLocked(-written)
			batch := c.queue
			written = len(batch)
			c.queue = spare[:0]
			spare = nil
			c.flushing = len(batch) > 0
			if c.waiting {
				c.waiting = false
				close(c.room)
				c.room = make(chan struct{})
			}
			c.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			_ = c.nc.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout))
			if c.cut.Load() { // cutOff stored it before it set its deadline
				_ = c.nc.SetWriteDeadline(time.Unix(1, 0))
			}
			if _, err := c.nc.Write(batch); err != nil {
				c.log.Debug("write failed", "remote", c.remote, "err", err)
				if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
					c.silence()
				} else {
					_ = c.Close()
				}
				return
			}
			if cap(batch) <= keepBuffer {
				spare = batch
			}
		}
	}
}

// silence ends writing to a peer that has left. What it sent before that is
// still read and handled; the reader then meets the end and closes.
func (c *Conn) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.mute, c.flushing, c.queue = true, false, nil
	c.countLocked(-c.held)
	if c.waiting {
		c.waiting = false
		close(c.room)
		c.room = make(chan struct{})
	}
}

// serve runs the connection until it closes, and returns after all its
// goroutines ended.
func (c *Conn) serve() {
	writerDone := make(chan struct{})
	go func() { // ends when the connection closes; awaited below
		defer close(writerDone)
		c.writeLoop()
	}()
	err := c.readLoop()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		level := slog.LevelDebug
		if errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) {
			level = c.lines.level(kindMalformed)
		} else if errors.Is(err, errNoRoom) {
			level = c.lines.level(kindTooMany)
		}
		c.log.Log(c.ctx, level, "closing connection", "remote", c.remote, "err", err)
	}
	if c.draining.Load() {
		c.handlers.Wait()
		c.flush()
	}
	_ = c.Close()
	c.handlers.Wait()
	<-writerDone
}

// flush waits until the write queue is on the wire or the write timeout ends.
func (c *Conn) flush() {
	t := time.NewTimer(c.cfg.WriteTimeout)
	defer t.Stop()
	for {
		c.mu.Lock()
		room, busy := c.room, len(c.queue) > 0 || c.flushing
		c.waiting = c.waiting || busy
		c.mu.Unlock()
		if !busy {
			return
		}
		c.signalWriter()
		select {
		case <-room:
		case <-c.ctx.Done():
			return
		case <-t.C:
			return
		}
	}
}

// drain stops the reader; serve then finishes what was accepted.
func (c *Conn) drain() {
	c.draining.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

func (c *Conn) readLoop() error {
	defer c.bufferLess()
	for {
		if c.starter != nil {
			if err := c.startNext(); err != nil {
				return err
			}
		}
		f, err := c.readFrame()
		taken := c.taken
		c.taken = 0
		if err != nil {
			c.large.give(taken)
			return err
		}
		if f.IsResponse() {
			c.large.give(taken) // whoever asked bounds what it asks for
			c.mu.Lock()
			ch := c.pending[f.Opaque]
			delete(c.pending, f.Opaque)
			c.mu.Unlock()
			if ch != nil { // a late or invented answer is dropped
				ch <- f
			}
			continue
		}
		select {
		case c.inFlight <- struct{}{}:
		case <-c.ctx.Done():
			c.large.give(taken)
			return net.ErrClosed
		}
		c.handlers.Add(1)
		c.workers.run(task{c, f, taken})
	}
}

func (c *Conn) handleTask(t task) {
	defer c.handlers.Done() // awaited by serve
	defer c.large.give(t.taken)
	defer func() { <-c.inFlight }()
	c.handle(t.f)
}

// handle is the edge where a broken invariant of a handler becomes an answer.
func (c *Conn) handle(f *wire.Frame) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("request handler panicked", "code", f.Code, "panic", r)
			c.Reply(f, f.Reply(wire.SystemError, "internal error"))
		}
	}()
	c.Reply(f, c.handler.Handle(c.ctx, c, f))
}

// setReadDeadline sets t unless the connection drains: then the reader must
// stay stopped.
func (c *Conn) setReadDeadline(t time.Time) {
	_ = c.nc.SetReadDeadline(t)
	if c.draining.Load() { // drain stored the flag before it set its deadline
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}
