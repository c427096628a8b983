package processor

import (
	"strconv"
	"strings"

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
	m, err := p.message(r, &h, topic, h.Flag, r.f.Body, []byte(h.Properties))
	if err != nil {
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
	return p.sendReply(r, sent.MessageID, key, sent.QueueID, sent.QueueOffset), nil
}

// message makes the stored form of what was sent; sizes are those that the
// client sent, before names are mapped.
func (p *Processor) message(r *request, h *wire.SendHeader, topic string, flag int32, body, props []byte) (*message.Message, error) {
	if len(props) > message.MaxPropertiesBytes {
		return nil, &broker.Error{Code: broker.CodePropertiesTooLarge, Text: "the message properties are too large", Limit: strconv.Itoa(message.MaxPropertiesBytes) + " bytes"}
	}
	if limit := r.v.MaxMessageBytes(); limit > 0 && int64(len(body)) > limit {
		return nil, &broker.Error{Code: broker.CodeBodyTooLarge, Text: "the message body is over the topic's limit", Topic: topic, Limit: strconv.FormatInt(limit, 10) + " bytes"}
	}
	return &message.Message{
		Topic: topic, QueueID: h.QueueID, Flag: flag, SysFlag: h.SysFlag & clientSysFlags,
		BornTimestamp: h.BornTimestamp, BornHost: r.conn.RemoteAddr(), ReconsumeTimes: max(h.ReconsumeTimes, 0),
		Body: body, Properties: policy.StoreProperties(r.v, props),
	}, nil
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
	ms := make([]*message.Message, len(entries))
	for i, e := range entries {
		if ms[i], err = p.message(r, h, topic, e.Flag, e.Body, e.Properties); err != nil {
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
	ids := make([]string, len(sent))
	for i := range sent {
		ids[i] = sent[i].MessageID
	}
	return p.sendReply(r, strings.Join(ids, ","), "", sent[0].QueueID, sent[0].QueueOffset), nil
}

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
