package processor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Request and reply: a requester sends an ordinary message that names its
// client and a correlation id. A consumer answers with a reply message, which
// goes straight to that client and is stored nowhere. The topic that it names,
// "<cluster>_REPLY_TOPIC", exists for nobody.

// replyMessage answers SendReplyMessage and its second version.
func (p *Processor) replyMessage(r *request) (*wire.Frame, error) {
	h, err := wire.ParseSendHeader(r.f)
	if err != nil {
		return nil, err
	}
	v, err := p.charged(r, h.ProducerGroup)
	if err != nil {
		return nil, err
	}
	if v.System() {
		return nil, &broker.Error{Code: broker.CodeNoPermission, Text: "a reply belongs to a namespace: sign with a key of it"}
	}
	if _, err := v.Producer(h.ProducerGroup); err != nil {
		return nil, err
	}
	m := &message.Message{}
	if err := p.message(m, r, &h, h.Topic, h.Flag, r.f.Body, []byte(h.Properties)); err != nil {
		return nil, err
	}
	client, _ := m.Property(message.KeyReplyToClient)
	if client == "" {
		return nil, &broker.Error{Code: broker.CodeIllegalMessage, Text: "a reply names the client that waits for it in the property " + message.KeyReplyToClient}
	}
	if err := v.TakeSend(1, len(m.Body)+len(h.Properties)); err != nil {
		return nil, err
	}
	if err := p.b.Reply(r.ctx, r.caller(""), client, m); err != nil {
		return nil, err
	}
	key, _ := message.GetProperty(m.Properties, message.KeyUniqueKey)
	return p.sendReply(r, message.OffsetID(p.b.Config().StoreHost, 0), key, max(m.QueueID, 0), 0), nil
}

// reply pushes a reply to a client of this connection.
func (s *connState) reply(ctx context.Context, id string, m *message.Message) error {
	s.mu.Lock()
	view := s.views[id]
	s.mu.Unlock()
	if view == nil {
		return fmt.Errorf("client %q has left", id)
	}
	v, err := view()
	if err != nil {
		return err
	}
	f := wire.Request(wire.PushReplyMessageToClient, m.Body)
	h := wire.SendHeader{
		ProducerGroup: "SLUICE", Topic: m.Topic, DefaultTopic: "TBW102", QueueID: max(m.QueueID, 0), SysFlag: m.SysFlag, BornTimestamp: m.BornTimestamp, Flag: m.Flag,
		Properties: string(policy.ShowProperties(v, m.Properties)), MaxReconsumeTimes: -1,
	}
	f.Ext = h.Fields(f.Code)
	f.Ext.Add("bornHost", m.BornHost.String())
	f.Ext.Add("storeHost", m.StoreHost.String())
	f.Ext.Add("storeTimestamp", strconv.FormatInt(m.StoreTimestamp, 10))
	resp, err := s.conn.Invoke(ctx, f)
	if err != nil {
		return err
	}
	if resp.Code != wire.Success {
		return fmt.Errorf("the client answered %d %.200s", resp.Code, resp.Remark)
	}
	return nil
}
