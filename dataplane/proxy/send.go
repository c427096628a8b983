package proxy

import (
	"context"
	"crypto/md5"
	"crypto/sha1" // digests that clients may send, not a protection
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// Limits of one message and one request.
const (
	maxUserProperties   = 128
	maxPropertyBytes    = 16 << 10 // of one value
	maxMessageIDBytes   = 255
	maxMessageGroup     = 63
	maxBatchMessages    = 1000
	maxBornHostBytes    = 255
	maxTraceContextSize = 1 << 10
)

// SendMessage stores the messages of one topic, all or none, and answers one
// entry for each.
//
// An empty body is legal on both protocols: it is stored and delivered as an
// empty body.
func (s *service) SendMessage(ctx context.Context, req *v2.SendMessageRequest) (*v2.SendMessageResponse, error) {
	resp := &v2.SendMessageResponse{}
	resp.Status = s.f.serve(ctx, "send_message", func(c *call) (err error) {
		resp.Entries, err = c.send(req.GetMessages())
		return err
	})
	if resp.Status.GetCode() != v2.Code_OK {
		// Some SDKs look at the entries only: each one says the same.
		resp.Entries = make([]*v2.SendResultEntry, min(len(req.GetMessages()), maxBatchMessages))
		for i := range resp.Entries {
			resp.Entries[i] = &v2.SendResultEntry{Status: resp.Status, MessageId: req.GetMessages()[i].GetSystemProperties().GetMessageId()}
		}
	}
	return resp, nil
}

func (c *call) send(messages []*v2.Message) ([]*v2.SendResultEntry, error) {
	if len(messages) == 0 {
		return nil, fail(v2.Code_MESSAGE_CORRUPTED, "message_illegal", "the request holds no message")
	}
	if len(messages) > maxBatchMessages {
		return nil, failLimit(v2.Code_MESSAGE_CORRUPTED, "message_illegal", strconv.Itoa(maxBatchMessages)+" messages", "the request holds too many messages")
	}
	t, err := c.topicConfig(messages[0].GetTopic(), policy.OperationPub)
	if err != nil {
		return nil, err
	}
	first := messages[0].GetTopic()
	stored := make([]*message.Message, len(messages))
	size := 0
	for i, m := range messages {
		if m.GetTopic().GetName() != first.GetName() || m.GetTopic().GetResourceNamespace() != first.GetResourceNamespace() {
			return nil, fail(v2.Code_MESSAGE_CORRUPTED, "message_illegal", "the messages of one request must have the same topic")
		}
		if err := checkType(m, acceptedTypes(t)); err != nil {
			return nil, err
		}
		if stored[i], err = c.stored(m, t.TopicName); err != nil {
			return nil, err
		}
		size += len(stored[i].Body) + len(stored[i].Properties)
	}
	if err := c.v.TakeSend(len(stored), size); err != nil {
		return nil, err
	}
	return c.store(messages, stored)
}

func (c *call) store(messages []*v2.Message, stored []*message.Message) ([]*v2.SendResultEntry, error) {
	var sent []broker.Sent
	who := c.caller(stored[0].Topic)
	if len(stored) == 1 {
		one, err := c.f.core.Send(c.ctx, who, stored[0], -1)
		if err != nil {
			return nil, err
		}
		sent = []broker.Sent{one}
	} else {
		var err error
		if sent, err = c.f.core.SendBatch(c.ctx, who, stored); err != nil {
			return nil, err
		}
	}
	entries := make([]*v2.SendResultEntry, len(sent))
	for i := range sent {
		entries[i] = &v2.SendResultEntry{
			Status: done(v2.Code_OK), MessageId: messages[i].GetSystemProperties().GetMessageId(), Offset: sent[i].QueueOffset,
		}
		if stored[i].SysFlag&message.SysFlagPrepared != 0 {
			entries[i].TransactionId = transactionID(sent[i])
		}
		entries[i].RecallHandle = c.f.core.RecallHandle(stored[i], messages[i].GetTopic().GetName())
	}
	return entries, nil
}

// typeOf derives what kind a message is from what it carries; only for
// transactions the client's word counts.
func typeOf(p *v2.SystemProperties) v2.MessageType {
	switch {
	case p.GetMessageType() == v2.MessageType_TRANSACTION:
		return v2.MessageType_TRANSACTION
	case p.GetDeliveryTimestamp() != nil:
		return v2.MessageType_DELAY
	case p.MessageGroup != nil:
		return v2.MessageType_FIFO
	case p.Priority != nil:
		return v2.MessageType_PRIORITY
	case p.LiteTopic != nil:
		return v2.MessageType_LITE
	}
	return v2.MessageType_NORMAL
}

// checkType refuses messages that the topic does not take, and kinds that this
// server cannot keep the promise of.
func checkType(m *v2.Message, accepted []v2.MessageType) error {
	p := m.GetSystemProperties()
	if p == nil {
		p = &v2.SystemProperties{}
	}
	kind := typeOf(p)
	fits := false
	names := make([]string, len(accepted))
	for i, t := range accepted {
		fits = fits || t == kind
		names[i] = t.String()
	}
	if !fits {
		return fail(v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "message_type_mismatch", "the topic takes %s messages, this one is %s", strings.Join(names, ", "), kind)
	}
	if told := p.GetMessageType(); told != kind && told != v2.MessageType_MESSAGE_TYPE_UNSPECIFIED {
		return fail(v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "message_type_mismatch", "the message says that it is %s, but what it carries makes it %s", told, kind)
	}
	if kind == v2.MessageType_TRANSACTION && p.GetDeliveryTimestamp() != nil {
		return notYet("transactional messages with a delivery timestamp are not supported yet")
	}
	if kind != v2.MessageType_NORMAL && kind != v2.MessageType_DELAY && kind != v2.MessageType_TRANSACTION {
		return notYet("sending %s messages is not supported over gRPC yet", kind)
	}
	return nil
}

// stored makes the stored form of a message, after checking every part of it.
func (c *call) stored(m *v2.Message, topic string) (*message.Message, error) {
	p := m.GetSystemProperties()
	body, err := c.body(m)
	if err != nil {
		return nil, err
	}
	if err := checkSystem(p); err != nil {
		return nil, err
	}
	if err := checkUser(m.GetUserProperties()); err != nil {
		return nil, err
	}
	props := message.AppendProperties(nil, m.GetUserProperties())
	add := func(key, value string) {
		if value != "" {
			props = message.AppendProperty(props, key, value)
		}
	}
	add(message.KeyTags, p.GetTag())
	add(message.KeyKeys, strings.Join(p.GetKeys(), " "))
	add(message.KeyUniqueKey, p.GetMessageId())
	if at := p.GetDeliveryTimestamp(); at != nil {
		if !at.IsValid() {
			return nil, fail(v2.Code_ILLEGAL_DELIVERY_TIME, "delay_illegal", "the delivery timestamp %v is no time", at)
		}
		// Rounded up: a message is never early.
		add(message.KeyTimerDeliverMs, strconv.FormatInt(at.AsTime().Add(time.Millisecond-1).UnixMilli(), 10))
	}
	if t := p.GetTraceContext(); len(t) <= maxTraceContextSize && !hasControl(t) {
		add(message.KeyTraceContext, t)
	}
	if h := p.GetBornHost(); len(h) <= maxBornHostBytes && !hasControl(h) {
		add(message.KeyBornHost, h)
	}
	var sysFlag int32
	if p.GetMessageType() == v2.MessageType_TRANSACTION {
		window, err := orphanWindow(p)
		if err != nil {
			return nil, err
		}
		sysFlag = message.SysFlagPrepared
		add(message.KeyTransactionPrepared, "true")
		add(message.KeyProducerGroup, m.GetTopic().GetName()) // whoever names the topic in its settings may be asked
		add(message.KeyCheckImmunityTime, window)
	}
	if len(props) > message.MaxPropertiesBytes {
		return nil, failLimit(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE, "properties_too_large", strconv.Itoa(message.MaxPropertiesBytes)+" bytes", "the message's properties are too large together")
	}
	born := c.f.now().UnixMilli()
	if t := p.GetBornTimestamp(); t != nil && t.IsValid() {
		born = t.AsTime().UnixMilli()
	}
	return &message.Message{
		Topic: topic, QueueID: -1, SysFlag: sysFlag, BornTimestamp: born, BornHost: c.remote, Body: body, Properties: policy.StoreProperties(c.v, props),
	}, nil
}

// body returns the body as it is stored: plain, within the limits, and as its
// digest says.
func (c *call) body(m *v2.Message) ([]byte, error) {
	limit := int64(c.f.cfg.MaxBodyBytes)
	if n := c.v.MaxMessageBytes(); n > 0 && n < limit {
		limit = n
	}
	tooLarge := failLimit(v2.Code_MESSAGE_BODY_TOO_LARGE, "body_too_large", strconv.FormatInt(limit, 10)+" bytes", "the message body is too large")
	body, p := m.GetBody(), m.GetSystemProperties()
	if int64(len(body)) > limit {
		return nil, tooLarge
	}
	var sum []byte
	switch p.GetBodyDigest().GetType() {
	case v2.DigestType_MD5:
		h := md5.Sum(body)
		sum = h[:]
	case v2.DigestType_SHA1:
		h := sha1.Sum(body)
		sum = h[:]
	}
	if want := p.GetBodyDigest().GetChecksum(); sum != nil && want != "" && !strings.EqualFold(want, hex.EncodeToString(sum)) {
		return nil, fail(v2.Code_MESSAGE_CORRUPTED, "message_illegal", "the body does not have the digest that came with it")
	}
	if p.GetBodyEncoding() != v2.Encoding_GZIP {
		return body, nil
	}
	plain, err := message.Inflate(body, limit)
	if errors.Is(err, message.ErrBodyTooLarge) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, fail(v2.Code_MESSAGE_CORRUPTED, "message_illegal", "the body is labelled GZIP, but is neither gzip nor zlib data")
	}
	return plain, nil
}

func checkSystem(p *v2.SystemProperties) error {
	if id := p.GetMessageId(); strings.TrimSpace(id) == "" || len(id) > maxMessageIDBytes || hasControl(id) {
		return failLimit(v2.Code_ILLEGAL_MESSAGE_ID, "message_id_invalid", "255 bytes", "the message id is missing, too long, or holds a control character")
	}
	if p.Tag != nil {
		if tag := p.GetTag(); strings.TrimSpace(tag) == "" || strings.Contains(tag, "|") || hasControl(tag) {
			return fail(v2.Code_ILLEGAL_MESSAGE_TAG, "message_tag_invalid", "the tag %.100q is blank, or holds '|' or a control character", tag)
		}
	}
	size := len(p.GetTag())
	for _, key := range p.GetKeys() {
		if strings.TrimSpace(key) == "" || hasControl(key) {
			return fail(v2.Code_ILLEGAL_MESSAGE_KEY, "message_key_invalid", "the key %.100q is blank or holds a control character", key)
		}
		size += len(key) + 1
	}
	if size > maxPropertyBytes {
		return failLimit(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE, "properties_too_large", "16384 bytes", "tag and keys are too large together")
	}
	if g := p.GetMessageGroup(); p.MessageGroup != nil && (strings.TrimSpace(g) == "" || len(g) > maxMessageGroup || hasControl(g)) {
		return failLimit(v2.Code_ILLEGAL_MESSAGE_GROUP, "message_group_invalid", "63 bytes", "the message group is blank, too long, or holds a control character")
	}
	return nil
}

func checkUser(user map[string]string) error {
	if len(user) > maxUserProperties {
		return failLimit(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE, "properties_too_large", "128 properties", "the message has %d user properties", len(user))
	}
	for key, value := range user {
		switch {
		case key == "" || hasControl(key):
			return fail(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, "property_key_invalid", "the property key %.100q is empty or holds a control character", key)
		case reserved(key):
			return fail(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, "property_key_reserved", "the property key %.100q is reserved by RocketMQ: choose another one", key)
		case value == "" || hasControl(value):
			return fail(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, "property_value_invalid", "the value of property %.100q is empty or holds a control character", key)
		case len(value) > maxPropertyBytes:
			return failLimit(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE, "properties_too_large", "16384 bytes", "the value of property %.100q is too large", key)
		}
	}
	return nil
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// reserved reports whether a property means something to servers or clients.
func reserved(key string) bool {
	return message.SystemKey([]byte(key)) || strings.HasPrefix(key, policy.OwnPrefix)
}
