package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

// A large append is encoded only when there is room for its record, first come,
// first served: its body is in memory already, and who sends many of them must
// neither fill it a second time nor stand in the log's queue in front of everybody
// else with more than a few writes. What waits here waits with its sender.
const (
	largeRecords = 64 << 10        // bytes of an append that is large
	largeRoom    = 16 << 20        // bytes of encoded large appends; a single one may have more
	largeWait    = 3 * time.Second // for room, then ErrBusy: so long do clients wait
)

// begin takes an append with memory for the records of messages of a queue that
// was entered; ErrBusy when there is no room for large ones. After an error the
// queue is left.
func (s *Store) begin(q *queue, ms ...*message.Message) (*appendOp, error) {
	size := s.recordsSize(ms)
	room := largePart(size)
	if room > 0 && !s.largeRoom.TryAcquire(room) {
		q.gate.leave()
		return nil, fmt.Errorf("%d bytes of large messages are being written: %w", largeRoom, ErrBusy)
	}
	return s.takeOp(q, size, room), nil
}

// beginWaiting is begin, and waits for room until largeWait or ctx ends.
func (s *Store) beginWaiting(ctx context.Context, q *queue, ms ...*message.Message) (*appendOp, error) {
	size := s.recordsSize(ms)
	room := largePart(size)
	if room > 0 && !s.largeRoom.TryAcquire(room) {
		wait, cancel := context.WithTimeout(ctx, largeWait)
		defer cancel()
		if err := s.largeRoom.Acquire(wait, room); err != nil {
			q.gate.leave()
			if ctx.Err() == nil {
				s.clog.Refused()
				err = fmt.Errorf("%d bytes of large messages are being written, for longer than %v: %w", largeRoom, largeWait, ErrBusy)
			}
			return nil, err
		}
	}
	return s.takeOp(q, size, room), nil
}

// largePart is the room that an append of size bytes takes.
func largePart(size int) int64 {
	if size <= largeRecords {
		return 0
	}
	return min(int64(size), largeRoom)
}

// recordsSize is the bytes of the records of messages; 0 when they are refused
// for their size anyhow.
func (s *Store) recordsSize(ms []*message.Message) (n int) {
	bodies := 0
	for _, m := range ms {
		size, err := message.Size(m)
		n, bodies = n+size, bodies+len(m.Body)
		if err != nil || bodies > s.cfg.MaxMessageBytes {
			return 0
		}
	}
	return n
}

// takeOp returns an append to a queue that was entered.
func (s *Store) takeOp(q *queue, size int, room int64) *appendOp {
	pool := &s.appends
	if room > 0 {
		pool = &s.largeAppends
	}
	op, ok := pool.Get().(*appendOp)
	if !ok {
		op = &appendOp{s: s}
	}
	op.q, op.room = q, room
	op.req.Records = slices.Grow(op.req.Records[:0], size)
	return op
}

// giveOp ends an append: it is written, or never will be.
func (s *Store) giveOp(op *appendOp) {
	pool := &s.appends
	if op.room > 0 {
		pool = &s.largeAppends
	}
	s.leave(op)
	op.req.Sequence, op.done = nil, nil
	pool.Put(op)
}

// leave lets go of the queue and of the room.
func (s *Store) leave(op *appendOp) {
	op.q.gate.leave()
	if op.room > 0 {
		s.largeRoom.Release(op.room)
	}
	op.q, op.room = nil, 0
}
