package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// place is where a message is.
type place struct {
	queue  int32
	offset int64
}

// ledger is what was acknowledged and what was handed out.
type ledger struct {
	mu     sync.Mutex
	acked  map[place]string // body
	pulled map[place]string
	wrong  []string // what consumers saw that cannot be
}

func newLedger() *ledger { return &ledger{acked: map[place]string{}, pulled: map[place]string{}} }

func (l *ledger) pulledCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pulled)
}

// send sends one message after the other to one queue, each fifth time a batch,
// and takes down what is acknowledged. What fails is not sent again.
func (l *ledger) send(ctx context.Context, plane *testcluster.DataPlane, id int) error {
	queue := int32(id % queues)
	for n := 0; ctx.Err() == nil; n++ {
		bodies := []string{fmt.Sprintf("%d/%d", id, n)}
		if n%5 == 4 {
			for range 3 {
				n++
				bodies = append(bodies, fmt.Sprintf("%d/%d", id, n))
			}
		}
		offset, err := l.sendOnce(ctx, plane, queue, bodies)
		if err != nil {
			pause(ctx, 5*time.Millisecond) // the broker is down
			continue
		}
		l.mu.Lock()
		for i, b := range bodies {
			l.acked[place{queue, offset + int64(i)}] = b
		}
		l.mu.Unlock()
	}
	return nil
}

func (l *ledger) sendOnce(ctx context.Context, plane *testcluster.DataPlane, queue int32, bodies []string) (offset int64, err error) {
	code, body := wire.SendMessageV2, []byte(bodies[0])
	h := wire.SendHeader{
		ProducerGroup: "p", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 8, QueueID: queue, BornTimestamp: time.Now().UnixMilli(),
		Properties: string(message.AppendProperty(nil, message.KeyKeys, bodies[0])), MaxReconsumeTimes: -1,
	}
	if len(bodies) > 1 {
		code, body, h.Batch, h.Properties = wire.SendBatchMessage, nil, true, ""
		for _, b := range bodies {
			if body, err = message.AppendBatchEntry(body, message.BatchEntry{Body: []byte(b), Properties: message.AppendProperty(nil, message.KeyKeys, b)}); err != nil {
				return 0, err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := plane.Tenant.At(plane.Broker.Broker).Call(ctx, code, h.Fields(code).Map(), body)
	if err != nil {
		return 0, err
	}
	r := wire.ReadFields(resp.Ext)
	if got := r.Int32("queueId"); got != queue {
		return 0, fmt.Errorf("stored in queue %d, sent to %d", got, queue)
	}
	return r.Int64("queueOffset"), r.Err()
}

// pull reads a queue as it grows. Whatever was handed out once must stay.
func (l *ledger) pull(ctx context.Context, plane *testcluster.DataPlane, queue int32) error {
	for next := int64(0); ctx.Err() == nil; {
		got, err := pullOnce(ctx, plane, queue, next, 1000)
		if err != nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		l.mu.Lock()
		for _, m := range got {
			if m.QueueOffset != next {
				l.wrong = append(l.wrong, fmt.Sprintf("queue %d: offset %d where %d belongs", queue, m.QueueOffset, next))
			}
			l.pulled[place{queue, m.QueueOffset}] = string(m.Body)
			next = m.QueueOffset + 1
		}
		l.mu.Unlock()
	}
	return nil
}

func pullOnce(ctx context.Context, plane *testcluster.DataPlane, queue int32, offset, hold int64) ([]message.Message, error) {
	h := wire.PullHeader{
		ConsumerGroup: topic, Topic: topic, QueueID: queue, QueueOffset: offset, MaxMessages: 32, SuspendTimeoutMillis: hold,
		SysFlag: wire.PullFlagSubscription | wire.PullFlagSuspend, Subscription: "*", ExpressionType: "TAG",
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := plane.Tenant.At(plane.Broker.Broker).Call(ctx, wire.PullMessage, h.Fields().Map(), nil, wire.PullNotFound, wire.PullRetryImmediately)
	if err != nil {
		return nil, err
	}
	var out []message.Message
	for body := resp.Body; len(body) > 0; {
		size, _, ok := message.Head(body)
		if !ok || int(size) > len(body) {
			return nil, fmt.Errorf("queue %d offset %d: the answer is not a row of records", queue, offset)
		}
		m, err := message.Decode(body[:size])
		if err != nil {
			return nil, err
		}
		out = append(out, m)
		body = body[size:]
	}
	return out, nil
}

// verdict counts what is wrong.
type verdict struct {
	stored, lost, changed, reordered, repeated int
	examples                                   []string
}

func (v *verdict) add(n *int, format string, args ...any) {
	*n++
	if len(v.examples) < 20 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) err() error {
	if v.lost+v.changed+v.reordered+v.repeated > 0 {
		return fmt.Errorf("acknowledged messages are not as they were:\n%s", strings.Join(v.examples, "\n"))
	}
	return nil
}

// verify reads all queues and compares.
func (l *ledger) verify(ctx context.Context, plane *testcluster.DataPlane) (*verdict, error) {
	v := &verdict{}
	for _, w := range l.wrong {
		v.add(&v.changed, "%s", w)
	}
	stored := map[place]string{}
	places := map[string]place{}
	acked := make(map[string]bool, len(l.acked))
	for _, body := range l.acked {
		acked[body] = true
	}
	for q := range int32(queues) {
		last := map[string]int{} // sender -> number of its last message
		for next := int64(0); ; {
			got, err := pullOnce(ctx, plane, q, next, 1)
			if err != nil {
				return nil, err
			}
			if len(got) == 0 {
				break
			}
			for _, m := range got {
				at, body := place{q, m.QueueOffset}, string(m.Body)
				if m.QueueOffset != next {
					v.add(&v.reordered, "queue %d: offset %d where %d belongs", q, m.QueueOffset, next)
				}
				if before, again := places[body]; again {
					v.add(&v.repeated, "message %s is at %v and at %v", body, before, at)
				}
				stored[at], places[body] = body, at
				var n int
				sender, number, _ := strings.Cut(body, "/")
				if _, err := fmt.Sscan(number, &n); err != nil {
					v.add(&v.changed, "%v holds %.60q", at, body)
				} else if before, ok := last[sender]; ok && n <= before && acked[body] {
					v.add(&v.reordered, "queue %d: message %s after %s/%d", q, body, sender, before)
				}
				// What its sender gave up waiting for may come after what it sent next.
				if acked[body] {
					last[sender] = n
				}
				next = m.QueueOffset + 1
			}
		}
	}
	v.stored = len(stored)
	for name, known := range map[string]map[place]string{"acknowledged": l.acked, "handed out": l.pulled} {
		for at, body := range known {
			if got, ok := stored[at]; !ok {
				v.add(&v.lost, "%v: %s, which was %s, is gone", at, body, name)
			} else if got != body {
				v.add(&v.changed, "%v: %s, which was %s, is now %s", at, body, name, got)
			}
		}
	}
	return v, nil
}
