package broker

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// delay is what a message says about its delivery; the zero value: at once.
type delay struct {
	level       int
	sec, ms, at []byte // TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS; aliases of the properties
	cancels     bool   // it takes another message back
}

// wants tells whether the message asks for anything but delivery at once.
func (d *delay) wants() bool {
	return d.level > 0 || d.sec != nil || d.ms != nil || d.at != nil || d.cancels
}

// note takes in one property.
func (d *delay) note(key, value []byte) *Error {
	switch string(key) {
	case message.KeyDelay:
		n, err := strconv.Atoi(string(value))
		if err != nil {
			return fail(CodeIllegalMessage, "property DELAY is %.40q: it must be a delay level, a number from 1 to 18", value)
		}
		d.level = n
	case message.KeyTimerDelaySec:
		d.sec = value
	case message.KeyTimerDelayMs:
		d.ms = value
	case message.KeyTimerDeliverMs:
		d.at = value
	case message.KeyTimerDeleteKey:
		d.cancels = true
	}
	return nil
}

// wanted is when the message is wanted, ms, by the first of the three
// properties that is there, and which one it is.
func (d *delay) wanted(now int64) (ms int64, property string, value []byte, _ *Error) {
	unit, base := int64(1), now
	switch {
	case d.sec != nil:
		property, value, unit = message.KeyTimerDelaySec, d.sec, 1000
	case d.ms != nil:
		property, value = message.KeyTimerDelayMs, d.ms
	default:
		property, value, base = message.KeyTimerDeliverMs, d.at, 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, "", nil, fail(CodeIllegalMessage, "property %s is %.40q: it must be a whole number", property, value)
	}
	n = min(max(n, math.MinInt64/4/unit), math.MaxInt64/4/unit)
	return base + n*unit, property, value, nil
}

// postpone turns a complete message that is to be delivered later into one of the
// topic that it waits in. One whose time is now or was stays as it is.
func (b *Broker) postpone(m *message.Message, d *delay) *Error {
	if d.level > 0 {
		if d.cancels {
			return fail(CodeIllegalMessage, "a message with property %s needs the time of the message that it takes back, not a delay level", message.KeyTimerDeleteKey)
		}
		return b.schedule.park(m, d.level)
	}
	if d.sec == nil && d.ms == nil && d.at == nil {
		return fail(CodeIllegalMessage, "a message with property %s needs the time of the message that it takes back, in %s", message.KeyTimerDeleteKey, message.KeyTimerDeliverMs)
	}
	now := b.now().UnixMilli()
	wanted, property, value, err := d.wanted(now)
	switch {
	case err != nil:
		return err
	case wanted-now > b.cfg.MaxDelay.Milliseconds():
		return &Error{
			Code: CodeIllegalDelay, Text: "property " + property + " is " + string(value[:min(len(value), 40)]) + ": that is further ahead than messages can wait",
			Topic: m.Topic, Limit: DelayText(b.cfg.MaxDelay),
		}
	case wanted <= now && d.cancels:
		return fail(CodeIllegalMessage, "property %s is %.40s: a message cannot be taken back when its time has come", property, value)
	case wanted <= now:
		return nil
	}
	return b.postponeUntil(m, wanted)
}

// postponeUntil makes m wait in TimerTopic until wanted, ms.
func (b *Broker) postponeUntil(m *message.Message, wanted int64) *Error {
	cancels, isCancel := message.GetProperty(m.Properties, message.KeyTimerDeleteKey)
	props := message.AppendPropertiesWithout(make([]byte, 0, len(m.Properties)+len(m.Topic)+160), m.Properties,
		message.KeyRealTopic, message.KeyRealQueueID, message.KeyTimerOutMs, message.KeyTimerEnqueueMs, message.KeyTimerDequeueMs,
		message.KeyTimerRollTimes, message.KeyTimerDeliverMs, message.KeyTimerDeleteKey)
	if isCancel {
		// Of this topic, whatever it says: nobody takes back what he may not send.
		unique := uniqueOf(m.Topic, []byte(cancels))
		if _, bare, ok := strings.Cut(m.Topic, "%"); ok {
			unique = uniqueOf(bare, unique)
		}
		props = message.AppendProperty(props, message.KeyTimerDeleteKey, m.Topic+"+"+string(unique))
	}
	props = message.AppendProperty(props, message.KeyTimerDeliverMs, strconv.FormatInt(wanted, 10))
	props = message.AppendProperty(props, message.KeyTimerOutMs, strconv.FormatInt(timerlog.OutMs(wanted, timerStep), 10))
	return parkIn(m, props, TimerTopic, 0)
}

// parkIn puts m, with props and what says where it goes afterwards, into another
// queue.
func parkIn(m *message.Message, props []byte, topic string, queueID int32) *Error {
	props = message.AppendProperty(props, message.KeyRealTopic, m.Topic)
	props = message.AppendProperty(props, message.KeyRealQueueID, strconv.Itoa(int(m.QueueID)))
	if len(props)+len(OwnerKey)+len(meter.OriginCharged)+2 > message.MaxPropertiesBytes {
		return &Error{Code: CodePropertiesTooLarge, Text: "the properties leave no room to say when and where the message is delivered", Topic: m.Topic, Limit: strconv.Itoa(message.MaxPropertiesBytes) + " bytes"}
	}
	m.Properties, m.Topic, m.QueueID = props, topic, queueID
	return nil
}

// charged are the properties of a message that waited on its way into topic: it
// was charged when it was sent, and storing it may happen twice over a crash.
// What the broker puts into a retry topic is never charged. parkIn left room.
func charged(topic string, props []byte, without ...string) []byte {
	out := message.AppendPropertiesWithout(make([]byte, 0, len(props)+96), props, append(without, OwnerKey)...)
	if strings.HasPrefix(topic, RetryPrefix) {
		return out
	}
	return message.AppendProperty(out, OwnerKey, meter.OriginCharged)
}

// DelayText says a limit of Config.MaxDelay, everywhere in the same words.
func DelayText(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		if d == day {
			return "1 day"
		}
		return strconv.FormatInt(int64(d/day), 10) + " days"
	}
	return d.String()
}

// RecallHandle is what takes a message back that was sent and waits for a time
// of its own; empty for another one. topic is what the client calls its topic.
func (b *Broker) RecallHandle(m *message.Message, topic string) string {
	if m.Topic != TimerTopic {
		return ""
	}
	at, _ := message.GetProperty(m.Properties, message.KeyTimerDeliverMs)
	unique, ok := message.GetProperty(m.Properties, message.KeyUniqueKey)
	if !ok || at == "" || !recallable(unique) {
		return ""
	}
	return base64.URLEncoding.EncodeToString([]byte(strings.Join([]string{"v1", topic, b.cfg.Name, at, unique}, " ")))
}

// maxRecallKey is the longest unique key that a recall handle names, in bytes.
const maxRecallKey = 255

// recallable tells whether a unique key can stand in a handle, and so in a
// property: a control character would end it there, and begin another one.
func recallable(unique string) bool {
	return unique != "" && len(unique) <= maxRecallKey && !strings.ContainsFunc(unique, unicode.IsControl)
}

// Recall is a read recall handle.
type Recall struct {
	Topic  string // as the client calls it
	At     int64  // when the message is wanted, ms
	Unique string // its unique key
}

// ParseRecall reads a recall handle that this broker gave. The error is
// CodeBadRecall.
func (b *Broker) ParseRecall(handle string) (Recall, error) {
	text, err := base64.URLEncoding.DecodeString(handle)
	if err != nil {
		text, err = base64.RawURLEncoding.DecodeString(handle)
	}
	parts := strings.SplitN(string(text), " ", 5)
	if err != nil || len(parts) != 5 || parts[0] != "v1" || !recallable(parts[4]) {
		return Recall{}, fail(CodeBadRecall, "the recall handle is not one that a send returned")
	}
	at, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || at <= 0 {
		return Recall{}, fail(CodeBadRecall, "the recall handle has no time")
	}
	if parts[2] != b.cfg.Name {
		return Recall{}, fail(CodeBadRecall, "the recall handle is of broker %.100q: ask that one", parts[2])
	}
	return Recall{Topic: parts[1], At: at, Unique: parts[4]}, nil
}
