package httpapi

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
)

func messageOut(m catalog.StoredMessage) api.Message {
	out := api.Message{MessageId: m.MessageID, Topic: m.Topic, Queue: m.Queue, Offset: count(m.Offset), Body: string(m.Body), BodyEncoding: "utf8",
		SizeBytes: int32(len(m.Body)), Tag: some(m.Tag), Keys: m.Keys, Properties: m.Properties, MessageGroup: some(m.MessageGroup), //nolint:gosec // a message has at most 4 MiB
		DeliverAt: atPtr(m.DeliverAt), ReconsumeTimes: m.ReconsumeTimes, BornAt: at(m.BornAt), StoredAt: at(m.StoredAt), BornHost: some(m.BornHost)}
	if !utf8.Valid(m.Body) {
		out.Body, out.BodyEncoding = base64.StdEncoding.EncodeToString(m.Body), "base64"
	}
	if out.Keys == nil {
		out.Keys = []string{}
	}
	if out.Properties == nil {
		out.Properties = map[string]string{}
	}
	return out
}

// SendMessage stores one message.
func (s *server) SendMessage(gc context.Context, r SendMessageRequestObject) (SendMessageResponseObject, error) {
	c, ctx := enter(gc)
	m := catalog.Outgoing{NamespaceID: r.Ns, ActorID: c.principal.ActorID(), Topic: r.Topic, Body: []byte(r.Body.Body), Tag: or(r.Body.Tag, ""),
		Keys: or(r.Body.Keys, nil), Properties: or(r.Body.Properties, nil), Queue: r.Body.Queue, MessageGroup: or(r.Body.MessageGroup, ""),
		DeliverAt: timeOf(r.Body.DeliverAt)}
	if or(r.Body.BodyEncoding, "utf8") == "base64" {
		body, err := base64.StdEncoding.DecodeString(r.Body.Body)
		if err != nil {
			return nil, errs.Field("body", "the body is not base64")
		}
		m.Body = body
	}
	if err := s.d.Catalog.CheckSend(ctx, c.tenantID(), m); err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return SendMessage204Response{}, nil
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	send := func(ctx context.Context) (api.MessageReceipt, error) {
		sent, err := s.d.Messages.Send(ctx, m)
		return api.MessageReceipt{MessageId: sent.MessageID, Topic: r.Topic, Queue: sent.Queue, Offset: count(sent.Offset), StoredAt: at(sent.StoredAt)}, err
	}
	out, err := writeOutside(ctx, s, c, send)
	if err != nil {
		return nil, err
	}
	return SendMessage201JSONResponse(out), nil
}

const defaultLook = time.Hour

// ListMessages looks at stored messages.
func (s *server) ListMessages(gc context.Context, r ListMessagesRequestObject) (ListMessagesResponseObject, error) {
	c, ctx := enter(gc)
	p := r.Params
	q := catalog.MessageQuery{NamespaceID: r.Ns, Topic: r.Topic, MessageID: or(p.MessageId, ""), Key: or(p.Key, ""), Queue: p.Queue, Limit: int(or(p.PageSize, defaultPageSize))}
	byTime := p.From != nil || p.To != nil
	switch {
	case q.MessageID != "" && (q.Key != "" || p.Queue != nil || p.Offset != nil || byTime):
		return nil, errs.Field("query.message_id", "message_id goes with no other way to look")
	case q.Key != "" && (p.Queue != nil || p.Offset != nil):
		return nil, errs.Field("query.key", "key goes with from and to alone")
	case strings.ContainsRune(q.Key, ' '):
		return nil, errs.Field("query.key", "key holds a blank: blanks separate the keys of a message, ask for one of them")
	case p.Offset != nil && p.Queue == nil:
		return nil, errs.Field("query.queue", "offset needs queue")
	case p.Offset != nil && byTime:
		return nil, errs.Field("query.offset", "offset does not go with from and to")
	case p.Offset != nil:
		n, err := strconv.ParseInt(*p.Offset, 10, 64)
		if err != nil {
			return nil, errs.Field("query.offset", "offset %s does not fit 64 bits", *p.Offset)
		}
		q.Offset = &n
	case q.MessageID == "":
		q.To = or(p.To, s.d.Now().UTC())
		look := q.To.Add(-defaultLook)
		if q.Key != "" {
			look = time.Time{}
		}
		q.From = or(p.From, look)
		if !q.From.Before(q.To) {
			return nil, errs.Field("query.from", "from is not before to")
		}
	}
	if err := s.d.Catalog.CheckReadable(ctx, c.tenantID(), r.Ns, r.Topic); err != nil {
		return nil, err
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	var err error
	if q.Cursor, err = s.after(c, p.PageToken); err != nil {
		return nil, err
	}
	page, err := s.d.Messages.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	out := ListMessages200JSONResponse{Items: make([]api.Message, len(page.Messages)), NextPageToken: s.next(c, page.Next)}
	for i, m := range page.Messages {
		out.Items[i] = messageOut(m)
	}
	return out, nil
}
