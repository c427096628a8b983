// Package messages is the control plane's way to the messages of one
// namespace: it sends, looks, tails and measures lag on behalf of people, as
// the system principal. Names are bare in both directions; the caller has
// checked permissions.
//
// It reads through RocketMQ's own requests, outside of any group: looking moves
// no offset and is not billed as a delivery.
package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Service implements catalog.Messages. Messages are looked for and sent at the
// first broker alone; a group moves at all of them.
type Service struct {
	broker  mqclient.Node   // the first of brokers
	brokers []mqclient.Node // masters of the cluster
	now     func() time.Time
	showing chan struct{} // one in it for each tail that unpacks and shows a message
}

// maxShowing bounds how many tails hold an unpacked message at the same time.
const maxShowing = 4

var _ catalog.Messages = (*Service)(nil)

// New makes a Service on the masters of a cluster, of which there is at least
// one.
func New(brokers []mqclient.Node, now func() time.Time) *Service {
	return &Service{broker: brokers[0], brokers: brokers, now: now, showing: make(chan struct{}, maxShowing)}
}

// physical wraps a bare topic name, also `%RETRY%group` and `%DLQ%group`.
func physical(namespaceID, topic string) string {
	prefix, name := groupPrefix(topic)
	return prefix + policy.PhysicalName(namespaceID, name)
}

// groupPrefix cuts off what makes a name the retry or dead-letter topic of a
// group; "" for other topics.
func groupPrefix(topic string) (prefix, name string) {
	for _, prefix := range []string{policy.RetryPrefix, policy.DLQPrefix} {
		if group, ok := strings.CutPrefix(topic, prefix); ok {
			return prefix, group
		}
	}
	return "", topic
}

// bare is the way back; ok is false for a name of another namespace.
func bare(namespaceID, name string) (string, bool) {
	prefix, ns, rest, ok := policy.SplitPhysical(name)
	return prefix + rest, ok && ns == namespaceID
}

// coded is an error with a sentence for people; err is for the log alone.
func coded(code errs.Code, err error, format string, args ...any) error {
	e := errs.E(code, format, args...)
	e.Err = err
	if code == errs.Unavailable {
		e.RetryAfter = time.Second
	}
	return e
}

// failure gives an answer of the broker its code.
func failure(err error) error {
	var answer *mqclient.Error
	if !errors.As(err, &answer) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return coded(errs.Unavailable, err, "the broker does not answer; try again in a moment")
	}
	switch answer.Code {
	case wire.TopicNotExist, wire.SubscriptionGroupNotExist:
		return coded(errs.Unavailable, err, "the broker does not have the topic or group yet; try again in a moment")
	case wire.QueryNotFound, wire.NoMessage:
		return coded(errs.NotFound, err, "there is no such message")
	case wire.MessageIllegal, wire.InvalidParameter:
		return coded(errs.Invalid, err, "the broker refused the message: a size, a property or the queue is out of its limits")
	case wire.SystemBusy, wire.ServiceNotAvailable:
		return coded(errs.Unavailable, err, "the broker takes no messages now; try again in a moment")
	}
	return fmt.Errorf("broker: %w", err)
}

// Times of waiting for an object that was made a moment ago: it is in the
// catalogue, so it will be on the broker.
const (
	settleTime  = 3 * time.Second
	settlePause = 20 * time.Millisecond
)

// settled calls do until the broker knows the topic, for a short time. The
// topics of a group begin with their first message: until then they hold
// nothing, which is the zero value.
func settled[T any](ctx context.Context, topic string, do func() (T, error)) (T, error) {
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		v, err := do()
		if code, ok := mqclient.CodeOf(err); !ok || code != wire.TopicNotExist {
			return v, err
		}
		if prefix, _ := groupPrefix(topic); prefix != "" {
			return v, nil
		}
		if pause(wait, settlePause) != nil {
			return v, err
		}
	}
}

// Send implements catalog.Messages.
func (s *Service) Send(ctx context.Context, m catalog.Outgoing) (catalog.Sent, error) {
	topic := physical(m.NamespaceID, m.Topic)
	queue := int32(-1)
	if m.Queue != nil {
		queue = *m.Queue
	}
	props := message.AppendProperties(nil, m.Properties)
	if m.Tag != "" {
		props = message.AppendProperty(props, message.KeyTags, m.Tag)
	}
	if len(m.Keys) > 0 {
		props = message.AppendProperty(props, message.KeyKeys, strings.Join(m.Keys, " "))
	}
	r, err := settled(ctx, m.Topic, func() (mqclient.SendResult, error) {
		return s.broker.Send(ctx, mqclient.SendRequest{Topic: topic, QueueID: queue, Body: m.Body, Properties: props, Actor: m.ActorID, Born: s.now()})
	})
	if err != nil {
		return catalog.Sent{}, failure(err)
	}
	id := r.UniqueKey
	if id == "" {
		id = r.MessageID
	}
	return catalog.Sent{MessageID: id, Queue: r.QueueID, Offset: r.QueueOffset, StoredAt: s.now()}, nil
}

// Lag implements catalog.Messages.
func (s *Service) Lag(ctx context.Context, namespaceID tenant.ID, group string) ([]catalog.QueueLag, error) {
	progress, err := s.broker.GroupStats(ctx, policy.PhysicalName(namespaceID, group), "")
	if err != nil {
		return nil, failure(err)
	}
	mins := map[string]int64{}
	var out []catalog.QueueLag
	for _, p := range progress {
		topic, ok := bare(namespaceID, p.Topic)
		if !ok {
			continue
		}
		if _, known := mins[key(p.Topic, p.QueueID)]; !known {
			stats, err := s.broker.TopicStats(ctx, p.Topic)
			if err != nil {
				return nil, failure(err)
			}
			for _, q := range stats {
				mins[key(p.Topic, q.QueueID)] = q.MinOffset
			}
		}
		out = append(out, catalog.QueueLag{
			Topic: topic, Queue: p.QueueID, MinOffset: mins[key(p.Topic, p.QueueID)], MaxOffset: p.BrokerOffset,
			Committed: p.ConsumerOffset, Lag: max(0, p.BrokerOffset-max(0, p.ConsumerOffset)),
		})
	}
	slices.SortFunc(out, func(a, b catalog.QueueLag) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Queue - b.Queue)
	})
	return out, nil
}

func key(topic string, queue int32) string { return topic + "/" + strconv.Itoa(int(queue)) }

// absentPause is how often a tail asks for a topic that its group has not yet.
const absentPause = time.Second

// Tail implements catalog.Messages: one long poll a queue, one goroutine that
// calls r.Each.
func (s *Service) Tail(ctx context.Context, r catalog.TailRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	topic := physical(r.NamespaceID, r.Topic)
	starts, err := s.starts(ctx, topic, r)
	if err != nil {
		return err
	}
	if r.Ready != nil {
		r.Ready()
	}
	for len(starts) == 0 { // all that will be in the topic is new
		if err := pause(ctx, absentPause); err != nil {
			return err
		}
		r.Since = time.UnixMilli(0)
		if starts, err = s.starts(ctx, topic, r); err != nil {
			return err
		}
	}
	found := make(chan message.Message)
	failed := make(chan error, len(starts))
	var wg sync.WaitGroup
	for queue, offset := range starts {
		wg.Go(func() { failed <- s.follow(ctx, topic, queue, offset, r.Tag, found) })
	}
	defer wg.Wait()
	defer cancel() // runs first: the polls end, then they are waited for
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case m := <-found:
			if err := s.show(ctx, m, r); err != nil {
				return err
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// show unpacks a message for r.Each. A thousand tails may see a packed message
// at once, which is a thousand times as large unpacked: few of them go on at a
// time.
func (s *Service) show(ctx context.Context, m message.Message, r catalog.TailRequest) error {
	select {
	case s.showing <- struct{}{}:
		defer func() { <-s.showing }()
		return r.Each(shown(r.NamespaceID, m))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// starts is the next offset of every queue of the topic; none for a topic that
// its group does not have yet.
func (s *Service) starts(ctx context.Context, topic string, r catalog.TailRequest) (map[int32]int64, error) {
	stats, err := settled(ctx, r.Topic, func() ([]mqclient.QueueState, error) { return s.broker.TopicStats(ctx, topic) })
	if err != nil {
		return nil, failure(err)
	}
	out := make(map[int32]int64, len(stats))
	for _, q := range stats {
		offset, given := r.Offsets[q.QueueID]
		switch {
		case given:
			out[q.QueueID] = max(offset, q.MinOffset)
		case r.Since.IsZero():
			out[q.QueueID] = q.MaxOffset
		default:
			if out[q.QueueID], err = s.broker.OffsetByTime(ctx, topic, q.QueueID, r.Since); err != nil {
				return nil, failure(err)
			}
		}
	}
	return out, nil
}

// Times of one long poll of a tail.
const (
	hold     = 15 * time.Second
	holdCall = hold + 10*time.Second
)

func (s *Service) follow(ctx context.Context, topic string, queue int32, offset int64, tag string, found chan<- message.Message) error {
	for {
		call, cancel := context.WithTimeout(ctx, holdCall)
		r, err := s.broker.Pull(call, mqclient.PullRequest{Topic: topic, QueueID: queue, Offset: offset, Hold: hold, Tags: tag})
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return failure(err)
		}
		for _, m := range r.Messages {
			if got, _ := message.GetProperty(m.Properties, message.KeyTags); tag != "" && got != tag {
				continue // the broker compares hashes
			}
			select {
			case found <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		offset = r.Next
	}
}

// maxPlain bounds a body that a client compressed: what has more bytes is shown
// as it is stored.
const maxPlain = 4 << 20

// shown is a stored message in the words of the user's world, with the id that
// its client knows. Its slices are its own.
func shown(namespaceID string, m message.Message) catalog.StoredMessage {
	topic, _ := bare(namespaceID, m.Topic)
	id, ok := message.GetProperty(m.Properties, message.KeyUniqueKey)
	if !ok {
		id = message.OffsetID(m.StoreHost, m.PhysicalOffset)
	}
	body, plain := m.PlainBody(maxPlain)
	if !plain || m.SysFlag&message.SysFlagCompressed == 0 {
		body = slices.Clone(body) // the record's
	}
	out := catalog.StoredMessage{
		MessageID: id, Topic: topic, Queue: m.QueueID, Offset: m.QueueOffset, Body: body,
		Properties: map[string]string{}, BornAt: time.UnixMilli(m.BornTimestamp).UTC(), StoredAt: time.UnixMilli(m.StoreTimestamp).UTC(),
		BornHost: m.BornHost.String(), ReconsumeTimes: m.ReconsumeTimes,
	}
	for k, v := range message.Properties(m.Properties) {
		switch name := string(k); {
		case name == message.KeyTags:
			out.Tag = string(v)
		case name == message.KeyKeys:
			out.Keys = strings.Fields(string(v))
		case name == message.KeyShardingKey:
			out.MessageGroup = string(v)
		case message.SystemKey(k), strings.HasPrefix(name, policy.OwnPrefix):
		default:
			out.Properties[name] = string(v)
		}
	}
	return out
}
