package meter

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// PropertyOrigin is the property in which the broker keeps who sent a stored
// message: "<api key id>,<protocol>". Clients never see it.
const PropertyOrigin = policy.OwnPrefix

// OriginCharged is what PropertyOrigin holds in the copy of a message that
// waited and was charged when it was sent.
const OriginCharged = "-"

// AppendOrigin adds PropertyOrigin to encoded properties, unless they would
// then pass the limit of a record: the message is then counted without its key.
func AppendOrigin(props []byte, keyID string, protocol byte) []byte {
	if len(props)+len(PropertyOrigin)+len(keyID)+5 > message.MaxPropertiesBytes {
		return props
	}
	return message.AppendProperty(props, PropertyOrigin, keyID+","+string(rune(protocol)))
}

func origin(props []byte) (keyID string, protocol byte) {
	value, ok := message.FindProperty(props, PropertyOrigin)
	if i := bytes.LastIndexByte(value, ','); ok && i >= 0 && i+2 == len(value) {
		return string(value[:i]), value[i+1]
	}
	return "", 0
}

// Sent tells to which topic of which namespace, in the client's words, a client
// sent a stored record. ok is false for what the broker wrote itself: copies on
// their way to a retry or dead-letter topic, which it leaves without an origin.
// A half message counts when it is sent, whatever becomes of it; the committed
// message does not count again. What a client sends to a retry topic itself is a message
// like any other, also while it waits for its delay; the record that then
// arrives says that it is charged.
func Sent(f *message.Fields) (namespaceID, topic string, ok bool) {
	prefix, ns, bare, ok := sent(f)
	return strings.Clone(ns), strings.Clone(prefix + bare), ok
}

// SentIn is Sent for those who want the namespace only, which is a part of f.
func SentIn(f *message.Fields) (namespaceID string, ok bool) {
	_, ns, _, ok := sent(f)
	return ns, ok
}

func sent(f *message.Fields) (prefix, namespaceID, bare string, ok bool) {
	name, parked := f.Topic, false
	from, own := message.FindProperty(f.Properties, PropertyOrigin)
	half := false
	switch {
	case string(from) == OriginCharged:
		return "", "", "", false
	case own && parks(name):
		parked = true
	case own && string(name) == halfTopic:
		half = true
	case !own && f.SysFlag&message.SysFlagTransaction == message.SysFlagCommit:
		return "", "", "", false
	}
	if parked || half { // nowhere else is that property the broker's
		name, _ = message.FindProperty(f.Properties, message.KeyRealTopic)
	}
	prefix, namespaceID, bare, ok = policy.SplitPhysical(unsafe.String(unsafe.SliceData(name), len(name)))
	if !ok || prefix != "" && !own {
		return "", "", "", false
	}
	return prefix, namespaceID, bare, true
}

// halfTopic is where half messages wait, by RocketMQ's name.
const halfTopic = "RMQ_SYS_TRANS_HALF_TOPIC"

// parks tells whether messages of a topic wait in it for their own.
func parks(topic []byte) bool {
	return string(topic) == message.ScheduleTopic || string(topic) == message.TimerTopic
}

// Size is what a message weighs on the bill: its body as it came over the wire
// and the user's properties, in bytes.
func Size(body, props []byte) uint64 {
	size, _ := weigh(body, props)
	return size
}

// Class tells a stored message's class from its properties.
func Class(props []byte) byte {
	_, class := weigh(nil, props)
	return class
}

// weigh is Size and Class in one pass.
func weigh(body, props []byte) (size uint64, class byte) {
	n := len(body)
	class = ClassNormal
	for k, v := range message.Properties(props) {
		if !message.SystemKey(k) {
			if !bytes.HasPrefix(k, []byte(policy.OwnPrefix)) {
				n += len(k) + len(v)
			}
			continue
		}
		switch string(k) {
		case message.KeyTransactionPrepared:
			class = ClassTransactional
		case message.KeyDelay, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs:
			if class != ClassTransactional {
				class = ClassDelayed
			}
		case message.KeyShardingKey, message.KeyShardingKeyGo:
			if class == ClassNormal {
				class = ClassOrdered
			}
		}
	}
	return uint64(n), class
}

// Units returns the billable units of a message of size bytes, of 4 KiB and of
// 64 KiB; an empty message is one of each.
func Units(size uint64) (u4, u64 uint64) {
	return max(1, (size+4<<10-1)/(4<<10)), max(1, (size+64<<10-1)/(64<<10))
}

// Delivered counts stored records that are about to be handed to a consumer;
// record is a whole stored record as the log has it.
func (m *Meter) Delivered(cell Cell, records [][]byte) {
	var byClass [len(classes)]Values
	for _, rec := range records {
		f, err := message.Parse(rec)
		if err != nil {
			continue
		}
		size, class := weigh(f.Body, f.Properties)
		u4, u64 := Units(size)
		v := &byClass[strings.IndexByte(classes, class)]
		v[MessagesOut]++
		v[BytesOut] += size
		v[Units4Out] += u4
		v[Units64Out] += u64
	}
	for i := range byClass {
		if byClass[i][MessagesOut] > 0 {
			cell.Class = classes[i]
			m.Add(cell, &byClass[i])
		}
	}
}

// Passed counts a message that went from its sender straight to its receiver and
// is stored nowhere: one in and one out, as if it had been.
func (m *Meter) Passed(cell Cell, body, props []byte) {
	size, class := weigh(body, props)
	u4, u64 := Units(size)
	var v Values
	v[MessagesIn], v[BytesIn], v[Units4In], v[Units64In] = 1, size, u4, u64
	v[MessagesOut], v[BytesOut], v[Units4Out], v[Units64Out] = 1, size, u4, u64
	cell.Class = class
	m.Add(cell, &v)
}

// classes are all that Class returns.
const classes = string(rune(ClassNormal)) + string(rune(ClassOrdered)) + string(rune(ClassDelayed)) + string(rune(ClassTransactional))
