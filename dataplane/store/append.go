package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
)

// appendOp is the reusable memory of one append.
type appendOp struct {
	req  commitlog.Request
	s    *Store
	q    *queue // that the append has entered
	room int64  // of Store.largeRoom, that it has
	done Waiter // of a Submit
}

// Waiter waits for a message that was submitted.
type Waiter interface {
	// Appended tells the outcome: where the message went, or why it is not
	// stored (errors as for Append). It runs on the goroutine that writes for
	// everybody and must not block. What it returns, nil for nothing, is woken
	// when the others that were written together know their outcome, too.
	Appended(a Appended, err error) Waker
}

// Waker wants to know when a row of messages is done.
type Waker = commitlog.Waker

// Append stores one message and blocks until it has the durability asked for.
// m is only read. A message without StoreHost gets the configured one.
//
// Errors (errors.Is): ErrName and ErrTopic, ErrQueueID, ErrMessageTooLarge,
// ErrPropertiesTooLarge, ErrProperties, ErrUnsupported, ErrDiskFull, ErrBusy,
// ErrClosed, ErrFailed, the error of ctx. After any of them but the last two
// nothing is stored, no queue offset is used up, and the next append may
// succeed as soon as the cause is gone.
func (s *Store) Append(ctx context.Context, m *message.Message, d Durability) (Appended, error) {
	q, err := s.admit(m)
	if err != nil {
		return Appended{}, err
	}
	op, err := s.beginWaiting(ctx, q, m)
	if err != nil {
		return Appended{}, err
	}
	if op.req.Records, err = s.encode(op.req.Records, m); err != nil {
		s.giveOp(op)
		return Appended{}, err
	}
	if err := s.run(ctx, op, m, 1, d); err != nil {
		return Appended{}, err
	}
	a := op.appended()
	s.giveOp(op)
	return a, nil
}

// Submit hands one message over and does not wait: w is told when it has the
// durability asked for, or could not be stored. Nothing is written before Lead.
// m and its slices are not used after the call. With an error w is never told;
// errors as for Append, which waits for room where Submit of a large message is
// ErrBusy.
func (s *Store) Submit(m *message.Message, d Durability, w Waiter) error {
	q, err := s.admit(m)
	if err != nil {
		return err
	}
	op, err := s.begin(q, m)
	if err != nil {
		return err
	}
	if op.req.Records, err = s.encode(op.req.Records, m); err == nil {
		s.aim(op, m, 1, d)
		op.done, op.req.Waiter = w, op
		err = s.clog.Submit(&op.req)
	}
	if err != nil {
		s.giveOp(op)
		return tooLarge(err)
	}
	return nil
}

// Lead writes what was submitted, unless somebody does already.
func (s *Store) Lead() { s.clog.Lead() }

// Done implements commitlog.Waiter.
func (op *appendOp) Done(_ *commitlog.Request, err error) Waker {
	w := op.done
	var a Appended
	if err == nil {
		a = op.appended()
	}
	op.s.giveOp(op)
	return w.Appended(a, tooLarge(err))
}

func (op *appendOp) appended() Appended {
	return Appended{
		PhysicalOffset: op.req.PhysicalOffset, QueueOffset: op.req.QueueOffset,
		StoreTimestamp: op.req.StoreTimestamp, Size: int32(len(op.req.Records)),
	}
}

// AppendBatch stores messages of one topic, queue and transaction type, all or
// none: they get consecutive queue offsets and stand together in the commit
// log. The bodies together are limited like the body of one message. Errors as
// for Append, and ErrBatch.
func (s *Store) AppendBatch(ctx context.Context, ms []*message.Message, d Durability) ([]Appended, error) {
	if len(ms) == 0 {
		return nil, fmt.Errorf("empty batch: %w", ErrBatch)
	}
	q, err := s.admit(ms[0])
	if err != nil {
		return nil, err
	}
	op, err := s.beginWaiting(ctx, q, ms...)
	if err != nil {
		return nil, err
	}
	total := 0
	for i, m := range ms {
		total += len(m.Body)
		switch {
		case m.Topic != ms[0].Topic || m.QueueID != ms[0].QueueID || (m.SysFlag^ms[0].SysFlag)&message.SysFlagTransaction != 0:
			err = fmt.Errorf("message %d: %w", i, ErrBatch)
		case total > s.cfg.MaxMessageBytes:
			err = fmt.Errorf("bodies of the batch exceed %d bytes: %w", s.cfg.MaxMessageBytes, ErrMessageTooLarge)
		default:
			op.req.Records, err = s.encode(op.req.Records, m)
		}
		if err != nil {
			s.giveOp(op)
			return nil, err
		}
	}
	if err := s.run(ctx, op, ms[0], len(ms), d); err != nil {
		return nil, err
	}
	out := make([]Appended, 0, len(ms))
	a := Appended{PhysicalOffset: op.req.PhysicalOffset, QueueOffset: op.req.QueueOffset, StoreTimestamp: op.req.StoreTimestamp}
	for rec := op.req.Records; len(rec) > 0; rec = rec[a.Size:] {
		a.Size, _, _ = message.Head(rec)
		out = append(out, a)
		a.PhysicalOffset += int64(a.Size)
		if op.req.Sequence != nil {
			a.QueueOffset++
		}
	}
	s.giveOp(op)
	return out, nil
}

// admit checks what does not need the record, finds the queue and enters it;
// giveOp leaves it. While its topic is deleted the error is ErrBusy.
func (s *Store) admit(m *message.Message) (*queue, error) {
	switch {
	case s.closed.Load():
		return nil, ErrClosed
	case m.QueueID < 0:
		return nil, fmt.Errorf("queue %d: %w", m.QueueID, ErrQueueID)
	case DiskState(s.disk.Load()) == DiskFull:
		return nil, fmt.Errorf("used share of the disk is above %v: %w", s.cfg.DiskFullRatio, ErrDiskFull)
	}
	q := s.findQueue(m.Topic, m.QueueID)
	if q == nil {
		if err := ValidName(m.Topic); err != nil {
			return nil, fmt.Errorf("topic %w", err)
		}
		if (*s.batchCQ.Load())[m.Topic] {
			return nil, fmt.Errorf("topic %s: %w", m.Topic, ErrUnsupported)
		}
		var err error
		if q, err = s.makeQueue(m.Topic, m.QueueID); err != nil {
			return nil, err
		}
	}
	if !q.gate.enter() {
		return nil, beingDeleted(m.Topic)
	}
	return q, nil
}

// encode checks a message and adds its record to dst.
func (s *Store) encode(dst []byte, m *message.Message) ([]byte, error) {
	if len(m.Body) > s.cfg.MaxMessageBytes {
		return dst, fmt.Errorf("body of %d bytes, at most %d are allowed: %w", len(m.Body), s.cfg.MaxMessageBytes, ErrMessageTooLarge)
	}
	// Recovery takes zeros in properties for a lost sector.
	if bytes.IndexByte(m.Properties, 0) >= 0 {
		return dst, ErrProperties
	}
	if m.SysFlag&message.SysFlagInnerBatch != 0 {
		return dst, fmt.Errorf("inner batch: %w", ErrUnsupported)
	}
	if !m.StoreHost.IsValid() {
		withHost := *m
		withHost.StoreHost = s.cfg.StoreHost
		return message.AppendRecord(dst, &withHost)
	}
	return message.AppendRecord(dst, m)
}

// aim says where the records of op go and what they wait for.
func (s *Store) aim(op *appendOp, m *message.Message, count int, d Durability) {
	op.req.Count, op.req.Sequence = count, &op.q.seq
	if t := m.SysFlag & message.SysFlagTransaction; t == message.SysFlagPrepared || t == message.SysFlagRollback {
		op.req.Sequence = nil // such records are in no queue
	}
	// A group of one voter has committed what that has synced.
	op.req.Sync = d == DurabilitySync || d == DurabilityQuorum || d == DurabilityDefault && s.cfg.Flush.waits()
}

// run appends what op holds. With an error op is given back, or left to the
// log if that still uses it.
func (s *Store) run(ctx context.Context, op *appendOp, m *message.Message, count int, d Durability) error {
	s.aim(op, m, count, d)
	err := s.clog.Append(ctx, &op.req)
	if err == nil {
		return nil
	}
	if op.req.Abandoned() {
		s.leave(op) // it is written
	} else {
		s.giveOp(op)
	}
	return tooLarge(err)
}

// tooLarge says in the store's words that a record does not fit into a segment.
func tooLarge(err error) error {
	if errors.Is(err, commitlog.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrMessageTooLarge, err)
	}
	return err
}
