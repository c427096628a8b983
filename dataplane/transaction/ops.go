package transaction

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// maxOpBytes is the largest body of a record in OpTopic, RocketMQ's
// transactionOpMsgMaxSize.
const maxOpBytes = 4096

// opTag is the tag of records that say which half messages have ended.
const opTag = "d"

// ops writes the records of OpTopic. Callers that come while one is written
// share the next.
type ops struct {
	c *Coordinator

	mu      sync.Mutex // guards the rest
	waiting []opWait
	writing bool
}

type opWait struct {
	offset int64 // of the half message
	done   chan error
}

// add says durably that a half message has ended. It returns when that is
// stored.
func (o *ops) add(ctx context.Context, offset int64) error {
	w := opWait{offset, make(chan error, 1)}
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	if o.writing {
		o.mu.Unlock()
		return <-w.done // the one who writes goes on until nobody waits
	}
	o.writing = true
	for len(o.waiting) > 0 {
		var body []byte
		n, highest := 0, int64(-1)
		for n < len(o.waiting) && len(body)+21 <= maxOpBytes {
			body = append(strconv.AppendInt(body, o.waiting[n].offset, 10), ',')
			highest = max(highest, o.waiting[n].offset)
			n++
		}
		row := o.waiting[:n:n]
		o.waiting = o.waiting[n:]
		o.mu.Unlock()
		// Not ended by the context of one: the others wait for it, too.
		err := o.c.writeOp(context.WithoutCancel(ctx), body, highest)
		for _, w := range row {
			w.done <- err
		}
		o.mu.Lock()
	}
	o.waiting, o.writing = nil, false
	o.mu.Unlock()
	return <-w.done
}

func (c *Coordinator) writeOp(ctx context.Context, body []byte, highest int64) error {
	a, err := c.deps.Store.Append(ctx, &message.Message{
		Topic: OpTopic, Body: body, BornTimestamp: c.deps.Now().UnixMilli(), BornHost: c.deps.Host, StoreHost: c.deps.Host,
		Properties: message.AppendProperty(nil, message.KeyTags, opTag),
	}, store.DurabilityDefault)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.opsDone.add(a.QueueOffset, highest)
	c.mu.Unlock()
	return nil
}

// parseOp calls visit for each offset of an op record's body. What is no
// number is left out.
func parseOp(body []byte, visit func(offset int64)) {
	for part := range strings.SplitSeq(string(body), ",") {
		if n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64); err == nil && n >= 0 {
			visit(n)
		}
	}
}

// opProgress knows which records of OpTopic may be needed at the next start:
// those that name a half message at or behind the first open one. It keeps one
// entry for up to opChunk records.
type opProgress struct {
	chunks []opChunk
	next   int64 // of OpTopic
}

type opChunk struct {
	first, records int64
	highest        int64 // half offset
}

const chunkRecords = 1024

// add takes a record in.
func (p *opProgress) add(opOffset, highest int64) {
	p.next = opOffset + 1
	if n := len(p.chunks); n > 0 && p.chunks[n-1].records < chunkRecords {
		c := &p.chunks[n-1]
		c.records++
		c.highest = max(c.highest, highest)
		return
	}
	p.chunks = append(p.chunks, opChunk{opOffset, 1, highest})
}

// pass returns the first record that is needed while firstOpen is the first
// open half message.
func (p *opProgress) pass(firstOpen int64) int64 {
	for len(p.chunks) > 0 && p.chunks[0].highest < firstOpen {
		p.chunks = p.chunks[1:]
	}
	if len(p.chunks) == 0 {
		return p.next
	}
	return p.chunks[0].first
}
