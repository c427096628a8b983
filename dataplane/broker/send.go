package broker

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// OwnerKey is the property that says who is charged for a stored message:
// "<api key id>,<protocol>". Records without it are not charged.
const OwnerKey = "__SLUICE"

// Sent tells where a message went.
type Sent struct {
	QueueID        int32
	QueueOffset    int64
	PhysicalOffset int64
	StoreTimestamp int64
}

// roundRobin spreads messages without a queue over queues.
type roundRobin struct{ n atomic.Uint32 }

func (r *roundRobin) pick(n int) int32 { return int32(r.n.Add(1) % uint32(n)) }

// Send stores one message; the core keeps m and its slices until it returns.
// m.Topic is physical, m.QueueID -1 lets the broker choose. A message for a
// retry topic that was tried more than maxReconsume times (-1: as the group
// says) goes to the group's dead letters, one with a delay level waits first. The
// first half of a transaction waits until its producer decides.
func (b *Broker) Send(ctx context.Context, who Caller, m *message.Message, maxReconsume int32) (Sent, error) {
	if group, ok := strings.CutPrefix(m.Topic, RetryPrefix); ok {
		return b.sendRetry(ctx, who, group, m, maxReconsume)
	}
	if transaction.Half(m) {
		return b.sendHalf(ctx, who, m)
	}
	if err := b.prepare(who, m, nil); err != nil {
		return Sent{}, err
	}
	return b.append(ctx, m)
}

// Submit is Send for a message that is not for a retry topic and belongs to no
// transaction, without waiting:
// w is told the outcome, errors as the store says them (see StoreError). Nothing
// is written before Lead. The core uses m and its slices during the call only,
// and buf, which may be nil, as memory for its properties. With an error w is
// never told.
func (b *Broker) Submit(who Caller, m *message.Message, buf []byte, w store.Waiter) error {
	if err := b.prepare(who, m, buf); err != nil {
		return err
	}
	b.addHosts(m)
	if err := b.store.Submit(m, durability(m), w); err != nil {
		return fromStore(err)
	}
	return nil
}

// Lead writes what was submitted, unless somebody does already.
func (b *Broker) Lead() { b.store.Lead() }

// StoreError says an error of the store in the core's words.
func StoreError(err error) error { return fromStore(err) }

// prepare checks a message and completes it; its properties are put into buf if
// there is room. One that is wanted later becomes one of the topic that it waits
// in.
func (b *Broker) prepare(who Caller, m *message.Message, buf []byte) error {
	later, err := b.checkSend(m)
	if err != nil {
		return err
	}
	if err := b.chooseQueue(m); err != nil {
		return err
	}
	b.addProperties(who, m, buf)
	if !later.wants() {
		return nil
	}
	if err := b.postpone(m, &later); err != nil {
		return err
	}
	return nil
}

// SendBatch stores messages of one topic and queue, all or none.
func (b *Broker) SendBatch(ctx context.Context, who Caller, ms []*message.Message) ([]Sent, error) {
	if len(ms) == 0 {
		return nil, fail(CodeIllegalMessage, "the batch is empty")
	}
	if strings.HasPrefix(ms[0].Topic, RetryPrefix) {
		return nil, fail(CodeIllegalMessage, "a batch cannot be sent to a retry topic")
	}
	if err := b.chooseQueue(ms[0]); err != nil {
		return nil, err
	}
	total, owner, props := 0, who.owner(), 0
	for _, m := range ms {
		props += len(m.Properties) + len(OwnerKey) + len(owner) + 3
	}
	memory := make([]byte, 0, props) // of all properties
	for i, m := range ms {
		later, err := b.checkSend(m)
		if err == nil && later.wants() {
			err = fail(CodeIllegalMessage, "it is to be delivered later: send it alone")
		}
		if err != nil {
			err.Text = "message " + strconv.Itoa(i+1) + " of the batch: " + err.Text
			return nil, err
		}
		m.QueueID = ms[0].QueueID
		if total += len(m.Body); total > b.cfg.MaxBatchBytes {
			return nil, &Error{Code: CodeBodyTooLarge, Text: "the batch is too large", Limit: strconv.Itoa(b.cfg.MaxBatchBytes) + " bytes"}
		}
		// The members of a batch are otherwise stored as they came.
		start := len(memory)
		memory = append(memory, m.Properties...)
		m.Properties = memory[start:]
		addProperty(m, OwnerKey, owner)
		memory = memory[:start+len(m.Properties)]
		b.addHosts(m)
	}
	appended, err := b.store.AppendBatch(ctx, ms, durability(ms[0]))
	if err != nil {
		return nil, fromStore(err)
	}
	out := make([]Sent, len(appended))
	for i, a := range appended {
		out[i] = b.sent(ms[i].QueueID, a)
	}
	return out, nil
}

func (b *Broker) append(ctx context.Context, m *message.Message) (Sent, error) {
	b.addHosts(m)
	a, err := b.store.Append(ctx, m, durability(m))
	if err != nil {
		return Sent{}, fromStore(err)
	}
	return b.sent(m.QueueID, a), nil
}

func (b *Broker) sent(queueID int32, a store.Appended) Sent {
	return Sent{
		QueueID:     queueID,
		QueueOffset: a.QueueOffset, PhysicalOffset: a.PhysicalOffset, StoreTimestamp: a.StoreTimestamp,
	}
}

func durability(m *message.Message) store.Durability {
	if v, ok := message.FindProperty(m.Properties, message.KeyWait); ok && string(v) == "false" {
		return store.DurabilityAsync
	}
	return store.DurabilityDefault
}

func (b *Broker) checkSizes(m *message.Message) *Error {
	if len(m.Properties) > message.MaxPropertiesBytes {
		return &Error{Code: CodePropertiesTooLarge, Text: "the message properties are too large", Limit: "32767 bytes"}
	}
	if len(m.Body) > b.cfg.MaxMessageBytes {
		return &Error{Code: CodeBodyTooLarge, Text: "the message body is too large", Limit: strconv.Itoa(b.cfg.MaxMessageBytes) + " bytes"}
	}
	return nil
}

// checkSend refuses what cannot be stored as a normal message, and returns when
// it is to be delivered.
func (b *Broker) checkSend(m *message.Message) (later delay, _ *Error) {
	if err := b.checkSizes(m); err != nil {
		return later, err
	}
	if m.SysFlag&message.SysFlagTransaction != 0 {
		return later, fail(CodeIllegalMessage, "a transactional message can only be sent alone, and not to a retry topic: sysFlag %d", m.SysFlag)
	}
	for k, v := range message.Properties(m.Properties) {
		switch string(k) {
		case message.KeyDelay, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs, message.KeyTimerDeleteKey:
			if err := later.note(k, v); err != nil {
				return later, err
			}
		case message.KeyMultiDispatch:
			return later, fail(CodeNotYet, "light queues are not supported: property %s", k)
		case message.KeyTransactionPrepared:
			if string(v) == "true" {
				return later, fail(CodeIllegalMessage, "a transactional message can only be sent alone, and not to a retry topic: property %s", k)
			}
		}
	}
	return later, nil
}

// chooseQueue checks the topic and fixes the queue id.
func (b *Broker) chooseQueue(m *message.Message) error {
	t, ok := b.store.Topic(m.Topic)
	if !ok {
		return topicNotFound(m.Topic)
	}
	if t.Perm&store.PermWrite == 0 {
		return &Error{Code: CodeNoPermission, Text: "the topic cannot be written", Topic: m.Topic}
	}
	if m.QueueID < 0 {
		m.QueueID = b.next.pick(max(t.WriteQueueNums, 1))
		return nil
	}
	if n := max(t.ReadQueueNums, t.WriteQueueNums); int(m.QueueID) >= n {
		return &Error{Code: CodeInvalidParameter, Text: "queue id " + strconv.Itoa(int(m.QueueID)) + " does not exist", Topic: m.Topic, Limit: strconv.Itoa(n) + " queues"}
	}
	return nil
}

// addProperties adds what the broker itself says about a message. Properties
// come last and only as far as they fit: what the client sent is kept byte for
// byte.
func (b *Broker) addProperties(who Caller, m *message.Message, buf []byte) {
	_, hasKey := message.FindProperty(m.Properties, message.KeyUniqueKey)
	props := m.Properties
	if _, ok := message.FindProperty(props, message.KeyPopCheckpoint); ok {
		props = message.AppendPropertiesWithout(nil, props, message.KeyPopCheckpoint)
	}
	if n := len(props) + 128; cap(buf) < n {
		buf = make([]byte, 0, n)
	}
	m.Properties = append(buf[:0], props...)
	if !hasKey {
		addProperty(m, message.KeyUniqueKey, newUniqueKey())
	}
	addProperty(m, message.KeyCluster, b.cfg.Cluster)
	addProperty(m, message.KeyRegion, Region)
	addProperty(m, message.KeyTraceOn, strconv.FormatBool(b.cfg.Trace))
	addProperty(m, OwnerKey, who.owner())
}

// Region is the region that messages and send replies name.
const Region = "DefaultRegion"

func (c Caller) owner() string {
	if c.Protocol == 0 {
		return c.KeyID
	}
	return c.KeyID + "," + string(c.Protocol)
}

// addHosts sets where the message is stored, and where it came from if nobody
// knows.
func (b *Broker) addHosts(m *message.Message) {
	m.StoreHost = b.cfg.StoreHost
	if !m.BornHost.IsValid() {
		m.BornHost = b.cfg.StoreHost
	}
}

// addProperty appends a property unless the limit would be passed.
func addProperty(m *message.Message, key, value string) {
	if len(m.Properties)+len(key)+len(value)+3 > message.MaxPropertiesBytes || value == "" {
		return
	}
	m.Properties = message.AppendProperty(m.Properties, key, value)
}
