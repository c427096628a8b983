package processor

import (
	"strconv"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// clientSysFlags are the flags that a producer may set itself: compression and
// transaction state. Address families and batch wrapping are the broker's.
const clientSysFlags = message.SysFlagCompressed | message.SysFlagMultiTags | message.SysFlagTransaction | message.SysFlagCompressTypes

// send answers SendMessage, SendMessageV2 and SendBatchMessage.
//
// An empty body is legal on both protocols: it is stored and delivered as an
// empty body.
func (p *Processor) send(r *request) (*wire.Frame, error) {
	h, err := wire.ParseSendHeader(r.f)
	if err != nil {
		return nil, err
	}
	v, err := p.charged(r, h.Topic, h.ProducerGroup)
	if err != nil {
		return nil, err
	}
	topic, err := v.Topic(h.Topic, policy.OperationPub)
	if err != nil {
		return nil, err
	}
	if _, err := v.Producer(h.ProducerGroup); err != nil {
		return nil, err
	}
	if h.Batch || r.f.Code == wire.SendBatchMessage {
		return p.sendBatch(r, &h, topic)
	}
	m := &message.Message{}
	if err := p.message(m, r, &h, topic, h.Flag, r.f.Body, []byte(h.Properties)); err != nil {
		return nil, err
	}
	if err := v.TakeSend(1, len(m.Body)+len(h.Properties)); err != nil {
		return nil, err
	}
	sent, err := p.b.Send(r.ctx, r.caller(topic), m, h.MaxReconsumeTimes)
	if err != nil {
		return nil, err
	}
	key, _ := message.GetProperty(m.Properties, message.KeyUniqueKey)
	resp := p.sendReply(r, message.OffsetID(p.b.Config().StoreHost, sent.PhysicalOffset), key, sent.QueueID, sent.QueueOffset)
	resp.Ext.AddOptional("recallHandle", p.b.RecallHandle(m, h.Topic))
	return resp, nil
}

// message sets m to the stored form of what was sent; sizes are those that the
// client sent, before names are mapped.
func (p *Processor) message(m *message.Message, r *request, h *wire.SendHeader, topic string, flag int32, body, props []byte) error {
	if len(props) > message.MaxPropertiesBytes {
		return &broker.Error{Code: broker.CodePropertiesTooLarge, Text: "the message properties are too large", Limit: strconv.Itoa(message.MaxPropertiesBytes) + " bytes"}
	}
	if limit := r.v.MaxMessageBytes(); limit > 0 && int64(len(body)) > limit {
		return &broker.Error{Code: broker.CodeBodyTooLarge, Text: "the message body is over the topic's limit", Topic: topic, Limit: strconv.FormatInt(limit, 10) + " bytes"}
	}
	*m = message.Message{
		Topic: topic, QueueID: h.QueueID, Flag: flag, SysFlag: h.SysFlag & clientSysFlags,
		BornTimestamp: h.BornTimestamp, BornHost: r.conn.RemoteAddr(), ReconsumeTimes: max(h.ReconsumeTimes, 0),
		Body: body, Properties: policy.StoreProperties(r.v, props),
	}
	return nil
}

// maxBatchMessages is as many as have room for their ids in the answer.
const maxBatchMessages = 10_000

func (p *Processor) sendBatch(r *request, h *wire.SendHeader, topic string) (*wire.Frame, error) {
	entries, err := message.DecodeBatch(r.f.Body)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxBatchMessages {
		return nil, &broker.Error{Code: broker.CodeIllegalMessage, Text: "the batch has " + strconv.Itoa(len(entries)) + " messages", Topic: topic, Limit: strconv.Itoa(maxBatchMessages)}
	}
	all, ms := make([]message.Message, len(entries)), make([]*message.Message, len(entries))
	for i, e := range entries {
		ms[i] = &all[i]
		if err := p.message(ms[i], r, h, topic, e.Flag, e.Body, e.Properties); err != nil {
			return nil, err
		}
	}
	if err := r.v.TakeSend(len(ms), len(r.f.Body)); err != nil {
		return nil, err
	}
	sent, err := p.b.SendBatch(r.ctx, r.caller(topic), ms)
	if err != nil {
		return nil, err
	}
	ids := make([]byte, 0, len(sent)*(offsetIDBytes+1))
	for i := range sent {
		if i > 0 {
			ids = append(ids, ',')
		}
		ids = message.AppendOffsetID(ids, p.b.Config().StoreHost, sent[i].PhysicalOffset)
	}
	return p.sendReply(r, string(ids), "", sent[0].QueueID, sent[0].QueueOffset), nil
}

// offsetIDBytes is the length of an offset id with an IPv6 host.
const offsetIDBytes = 56

func (p *Processor) sendReply(r *request, msgID, key string, queueID int32, offset int64) *wire.Frame {
	resp := r.ok()
	resp.Ext = make(wire.Fields, 0, 6)
	resp.Ext.Add("MSG_REGION", broker.Region)
	resp.Ext.AddBool("TRACE_ON", p.b.Config().Trace)
	resp.Ext.Add("msgId", msgID)
	resp.Ext.AddInt("queueId", int64(queueID))
	resp.Ext.AddInt("queueOffset", offset)
	resp.Ext.AddOptional("transactionId", key)
	return resp
}
