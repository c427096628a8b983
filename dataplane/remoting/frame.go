package remoting

import (
	"bytes"
	"io"
	"time"
	"unsafe"

	"github.com/sluicemq/sluice/dataplane/wire"
)

const (
	// firstRead is how much is allocated for a header or body before any of
	// it arrived, and what is kept of a header buffer for the next frame.
	firstRead = 4 << 10

	// paceStep is how many bytes win a sender more time at once, and what is
	// allocated first for the body of an answer that somebody waits for.
	paceStep = 64 << 10

	// freeFrame is what the frame that a connection is at may hold without
	// asking the budget: usual requests never wait for the large ones of others.
	freeFrame = 16 << 10

	fieldSize = int(unsafe.Sizeof(wire.Field{}))
)

// readFrame reads one frame. Memory grows with the bytes that arrived, not
// with the length that was announced, and beyond freeFrame within
// Config.MaxLarge for all connections; a sender slower than Config.MinRate is
// cut off. What it took of the budget is in c.taken.
func (c *Conn) readFrame() (*wire.Frame, error) {
	c.setReadDeadline(time.Now().Add(c.cfg.IdleTimeout))
	if _, err := c.br.Peek(1); err != nil {
		return nil, err
	}
	start := time.Now()
	c.setReadDeadline(start.Add(c.cfg.FrameGrace))
	var prefix [wire.PrefixSize]byte
	if _, err := io.ReadFull(c.br, prefix[:]); err != nil {
		return nil, err
	}
	p, err := wire.ParsePrefix(prefix[:], c.cfg.MaxFrame)
	if err != nil {
		return nil, err
	}
	header, err := c.readGrowing(start, c.scratch, p.HeaderLen, firstRead, 0)
	if err != nil {
		return nil, err
	}
	if cap(header) <= firstRead {
		c.scratch = header[:0] // the decoder copies
	}
	text, fields := decodedSize(p.Serialize, header)
	if err := c.hold(len(header) + text + 2*fields*fieldSize); err != nil { // their slice doubles
		return nil, err
	}
	f, err := wire.DecodeHeader(p.Serialize, header)
	if err != nil {
		return nil, err
	}
	decoded := text + cap(f.Ext)*fieldSize
	if err := c.hold(decoded); err != nil {
		return nil, err
	}
	if p.BodyLen > 0 {
		first := firstRead
		if c.awaits(f) {
			first = paceStep
		}
		if f.Body, err = c.readGrowing(start, nil, p.BodyLen, first, decoded); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// awaits reports whether f answers a request of ours that has no answer yet.
func (c *Conn) awaits(f *wire.Frame) bool {
	if !f.IsResponse() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[f.Opaque] != nil
}

// decodedSize bounds what a header takes once decoded: the bytes of its text
// with those values that are unescaped, which short ones quadruple, and its
// fields. A compact field has eight bytes at least, a JSON field a colon.
func decodedSize(enc wire.Serialize, header []byte) (text, fields int) {
	text, fields = len(header), len(header)/8
	if enc == wire.SerializeJSON {
		fields = bytes.Count(header, []byte{':'})
		if bytes.IndexByte(header, '\\') >= 0 {
			text *= 5
		}
	}
	return text, min(fields, wire.MaxFields)
}

// hold makes n the bytes that the frame being read holds: what passes
// freeFrame is taken of the budget or given back to it.
func (c *Conn) hold(n int) error {
	more := max(0, n-freeFrame) - c.taken
	if more > 0 {
		if err := c.large.take(more, time.Now().Add(c.cfg.FrameGrace), c.ctx.Done()); err != nil {
			return err
		}
	} else {
		c.large.give(-more)
	}
	c.taken += more
	return nil
}

// readGrowing reads n bytes into buf if they fit, else into a new buffer of
// first bytes that grows as they arrive, beside other bytes that the frame
// holds: fourfold up to paceStep, then to the double. Every paceStep bytes win the sender more time, but none may take longer than
// Config.FrameGrace to come: what was sent fast does not pay for a pause.
func (c *Conn) readGrowing(start time.Time, buf []byte, n, first, other int) ([]byte, error) {
	if n <= cap(buf) {
		buf = buf[:n]
	} else {
		first = min(n, first)
		if err := c.hold(other + first); err != nil {
			return nil, err
		}
		buf = make([]byte, first)
	}
	for read := 0; read < n; {
		if read == len(buf) {
			size := 2 * read
			if read < paceStep {
				size *= 2 // fewer copies of what is small
			}
			size = min(n, size)
			if err := c.hold(other + size); err != nil {
				return nil, err
			}
			next := make([]byte, size)
			copy(next, buf)
			buf = next
		}
		if read > 0 {
			won := time.Duration(read) * time.Second / time.Duration(c.cfg.MinRate)
			deadline, pause := start.Add(c.cfg.FrameGrace+won), time.Now().Add(c.cfg.FrameGrace)
			if pause.Before(deadline) {
				deadline = pause
			}
			c.setReadDeadline(deadline)
		}
		end := min(read+paceStep, len(buf))
		if _, err := io.ReadFull(c.br, buf[read:end]); err != nil {
			return nil, err
		}
		read = end
	}
	return buf, nil
}
