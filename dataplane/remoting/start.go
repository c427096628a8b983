package remoting

import (
	"bufio"
	"errors"
	"os"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Starter is a Handler that takes some requests on the reader's goroutine,
// straight from the read buffer, and answers them later: no goroutine and no
// copy for each of them, and those that came together are begun together.
type Starter interface {
	Handler
	// Starts reports whether requests of a code may be taken so.
	Starts(code int32) bool
	// Start takes the request and answers it once with Conn.Answer; or it
	// returns false, having done nothing that counts, and Handle is called. The
	// frame and all that is in it are valid during the call only. It must not
	// block.
	Start(c *Conn, req *wire.Frame) bool
	// Flush begins the work that was taken: nothing else is at hand now.
	Flush()
}

// bufferAhead is the read buffer of a connection whose peer sends requests that
// a Starter takes without waiting for answers, for as long as it does: after a
// pause of aheadPause the small buffer has to do again. All of them together
// have a part of Config.MaxLarge, aheadShare, and without room the small buffer
// stays.
const (
	bufferAhead = 64 << 10
	aheadPause  = time.Second
	aheadShare  = 8
)

// startNext lets the handler start whatever stands whole in the read buffer,
// or will. It returns with the next request in front that somebody else has to
// read, or with the error that ends the connection.
func (c *Conn) startNext() error {
	for {
		if c.br.Buffered() == 0 {
			c.flushStarted()
			if err := c.awaitRequest(); err != nil {
				return err
			}
		}
		if n := c.frameAhead(); n == 0 || !c.start(n) {
			c.flushStarted()
			return nil
		}
		if c.br.Buffered() > 0 && c.small == nil && c.aheads.tryTake(bufferAhead) {
			c.small = c.br
			c.br = bufio.NewReaderSize(c.small, bufferAhead)
		}
	}
}

// awaitRequest blocks until the first byte of a request is there.
func (c *Conn) awaitRequest() error {
	if c.small != nil {
		c.setReadDeadline(time.Now().Add(aheadPause))
		_, err := c.br.Peek(1)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.draining.Load() {
			return err
		}
		c.bufferLess()
	}
	c.setReadDeadline(time.Now().Add(c.cfg.IdleTimeout))
	_, err := c.br.Peek(1)
	return err
}

// bufferLess gives the large buffer back, which must be empty or of no use any
// more.
func (c *Conn) bufferLess() {
	if c.small != nil {
		c.br, c.small = c.small, nil
		c.aheads.give(bufferAhead)
	}
}

// frameAhead returns the size of the next frame once it stands in the read
// buffer whole; 0 if it does not fit, is malformed, or does not come: whoever
// reads it then finds out.
func (c *Conn) frameAhead() int {
	head, err := c.ahead8()
	if err != nil {
		return 0
	}
	p, err := wire.ParsePrefix(head, c.cfg.MaxFrame)
	total := wire.PrefixSize + p.HeaderLen + p.BodyLen
	if err != nil || total > c.br.Size() {
		return 0
	}
	if c.br.Buffered() < total {
		c.flushStarted()
		c.setReadDeadline(time.Now().Add(c.cfg.FrameGrace))
		if _, err := c.br.Peek(total); err != nil {
			return 0
		}
	}
	return total
}

func (c *Conn) ahead8() ([]byte, error) {
	if c.br.Buffered() < wire.PrefixSize {
		c.flushStarted()
		c.setReadDeadline(time.Now().Add(c.cfg.FrameGrace))
	}
	return c.br.Peek(wire.PrefixSize)
}

// start offers the frame of n bytes that stands in the read buffer; false
// leaves it there.
func (c *Conn) start(n int) (taken bool) {
	b, err := c.br.Peek(n)
	if err != nil {
		return false
	}
	p, err := wire.ParsePrefix(b, c.cfg.MaxFrame)
	if err != nil {
		return false
	}
	header, body := b[wire.PrefixSize:wire.PrefixSize+p.HeaderLen], b[wire.PrefixSize+p.HeaderLen:]
	if code, ok := wire.PeekCode(p.Serialize, header); !ok || !c.starter.Starts(code) {
		return false
	}
	f, err := c.borrow.Decode(p.Serialize, header, body)
	if err != nil || f.IsResponse() || !c.starter.Starts(f.Code) { // a header may say its code twice
		return false
	}
	if !c.enter() {
		return false
	}
	if !c.tryStart(f) {
		c.leave()
		return false
	}
	c.started = true
	_, err = c.br.Discard(n)
	return err == nil
}

// tryStart is the edge where a broken invariant of a handler becomes a request
// that was not taken: Handle then says what is wrong.
func (c *Conn) tryStart(f *wire.Frame) (taken bool) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("request handler panicked", "code", f.Code, "panic", r)
			taken = false
		}
	}()
	return c.starter.Start(c, f)
}

// enter counts a request in, waiting for its turn; false when the connection
// closed.
func (c *Conn) enter() bool {
	select {
	case c.inFlight <- struct{}{}:
	default:
		c.flushStarted() // or none of them might ever end
		select {
		case c.inFlight <- struct{}{}:
		case <-c.ctx.Done():
			return false
		}
	}
	c.handlers.Add(1)
	return true
}

func (c *Conn) leave() {
	<-c.inFlight
	c.handlers.Done()
}

func (c *Conn) flushStarted() {
	if c.started {
		c.started = false
		c.starter.Flush()
	}
}

// Answer ends a request that a Starter took. resp, nil for none, must have the
// opaque and encoding of the request; it is not used after the call. Answer
// never blocks and does not wake the writer: Wake does.
func (c *Conn) Answer(resp *wire.Frame) {
	defer c.leave()
	if resp == nil {
		return
	}
	c.mu.Lock()
	if c.closed || c.mute || c.cut.Load() {
		c.mu.Unlock()
		return
	}
	before := len(c.queue)
	var err error
	if c.queue, err = wire.AppendFrame(c.queue, resp); err != nil {
		c.log.Error("an answer cannot be encoded", "code", resp.Code, "err", err)
	}
	over := c.countLocked(len(c.queue) - before)
	c.mu.Unlock()
	if over {
		c.shed()
	}
}

// Wake lets the writer send what Answer has queued.
func (c *Conn) Wake() { c.signalWriter() }
