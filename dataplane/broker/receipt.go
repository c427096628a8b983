package broker

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

// handle makes a receipt handle: version, queue, offset, nonce. The group and
// topic are not in it: they come with the acknowledgement and pass admission.
func handle(queue int32, l *lease) string {
	var b [21]byte
	b[0] = 1
	binary.BigEndian.PutUint32(b[1:], uint32(queue))
	binary.BigEndian.PutUint64(b[5:], uint64(l.offset))
	binary.BigEndian.PutUint64(b[13:], l.nonce)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

var errHandle = &Error{Code: CodeBadReceipt, Text: "the receipt handle is unknown or out of date: the message was delivered again, or it never was of this group and topic"}

func parseHandle(s string) (queue int32, offset int64, nonce uint64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 21 || b[0] != 1 {
		return 0, 0, 0, errHandle
	}
	return int32(binary.BigEndian.Uint32(b[1:])), int64(binary.BigEndian.Uint64(b[5:])), binary.BigEndian.Uint64(b[13:]), nil
}

// held finds the lease of a handle and calls fn with it under the queue's
// lock; fn returns the journal entry. A message that was acknowledged already
// is no error and fn is not called.
func (b *Broker) held(group, topic, receipt string, fn func(p *progress, l *lease) []byte) error {
	queue, offset, nonce, err := parseHandle(receipt)
	if err != nil {
		return err
	}
	p := b.receives.find(group, topic, queue)
	if p == nil {
		return errHandle
	}
	p.mu.Lock()
	l := p.leases[offset]
	if l == nil || p.gone {
		handedOut := offset < p.next && !p.gone
		p.mu.Unlock()
		if handedOut {
			return nil
		}
		return errHandle
	}
	if l.nonce != nonce {
		p.mu.Unlock()
		return errHandle
	}
	seq := b.receives.journal.add(fn(p, l))
	p.mu.Unlock()
	if err := b.receives.journal.wait(seq); err != nil {
		return &Error{Code: CodeUnavailable, Text: "the broker cannot keep the acknowledgement", Err: err}
	}
	return nil
}

// Ack ends a delivery. It is kept before the call returns. Acknowledging again
// is no error; a handle of an earlier delivery, or of another group or topic,
// gets CodeBadReceipt. A message whose invisible time ran out can still be
// acknowledged until it is handed out again.
func (b *Broker) Ack(group, topic, receipt string) error {
	return b.held(group, topic, receipt, func(p *progress, l *lease) []byte {
		offset := l.offset
		p.endLocked(offset)
		b.baseLocked(p)
		return p.appendState(nil, []int64{offset}, nil)
	})
}

// ChangeInvisible makes a message come again after d from now; 0 means at
// once. The handle stays valid and is returned.
func (b *Broker) ChangeInvisible(group, topic, receipt string, d time.Duration) (string, error) {
	if d < 0 || d > b.cfg.MaxInvisible {
		return receipt, &Error{Code: CodeBadInvisibleTime, Text: "the invisible time must not be negative and be within the limit", Limit: b.cfg.MaxInvisible.String()}
	}
	err := b.held(group, topic, receipt, func(p *progress, l *lease) []byte {
		changed := *l
		changed.visibleAt = b.now().Add(d).UnixMilli()
		return p.appendState(nil, nil, []*lease{p.setLocked(changed)})
	})
	if err == nil {
		b.receives.receiver(groupTopic{group, topic}).signal()
	}
	return receipt, err
}

// GiveBack returns a message that never reached its receiver: it is visible at
// once and this delivery does not count.
func (b *Broker) GiveBack(group, topic, receipt string) error {
	err := b.held(group, topic, receipt, func(p *progress, l *lease) []byte {
		changed := *l
		changed.visibleAt = b.now().UnixMilli()
		changed.attempt--
		return p.appendState(nil, nil, []*lease{p.setLocked(changed)})
	})
	if err == nil {
		b.receives.receiver(groupTopic{group, topic}).signal()
	}
	return err
}

// DeadLetter moves a received message to the group's dead letters and ends its
// delivery. Doing it again is no error.
func (b *Broker) DeadLetter(ctx context.Context, group, topic, receipt string) error {
	queue, offset, nonce, err := parseHandle(receipt)
	if err != nil {
		return err
	}
	p := b.receives.find(group, topic, queue)
	if p == nil {
		return errHandle
	}
	p.mu.Lock()
	l := p.leases[offset]
	current := l != nil && l.nonce == nonce
	p.mu.Unlock()
	if current {
		rec, found, err := b.readOne(p, offset)
		if err != nil {
			return err
		}
		if found {
			if err := b.deadRecord(ctx, group, rec); err != nil {
				return err
			}
		}
	}
	return b.Ack(group, topic, receipt)
}

func (b *Broker) deadRecord(ctx context.Context, group string, rec []byte) error {
	m, err := message.Decode(rec)
	if err != nil {
		return errors.Join(errors.New("decode record for dead letters"), err)
	}
	return b.deadLetter(ctx, group, &m, message.OffsetID(b.cfg.StoreHost, m.PhysicalOffset))
}
