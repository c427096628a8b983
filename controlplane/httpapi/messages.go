package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
	if !utf8.Valid(m.Body) || jsonBytes(m.Body) > 2*len(m.Body) {
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

// jsonBytes is the length of a text in JSON. A control character becomes 6
// bytes, so that what nobody can read is more than twice as long; a quote
// becomes 2, so that no readable text is.
func jsonBytes(text []byte) int {
	n := len(text)
	for _, b := range text {
		switch {
		case b == '"', b == '\\', b == '\b', b == '\f', b == '\n', b == '\r', b == '\t':
			n++
		case b < ' ':
			n += 5
		}
	}
	return n
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

// What the answers with messages may take at the same time; see lookup.
const (
	answersTotal, answersEach = 32, 2
	readsTotal, readsEach     = 8, 2
	answersLine               = 64               // of one tenant
	answersPatience           = 10 * time.Second // in a line
	answerWrite               = time.Minute      // for a reader to take an answer
)

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
	return &lookup{s: s, c: c, ctx: ctx, q: q}, nil
}

// lookup is the answer to ListMessages. Messages are large: a tenant has few
// answers at the same time, from the read to the last byte that its reader
// takes, and few tenants read at the same time.
type lookup struct {
	s   *server
	c   *call
	ctx context.Context //nolint:containedctx // of the request that this answers
	q   catalog.MessageQuery
}

// VisitListMessagesResponse reads a page and writes it, message by message:
// of what is written nothing is kept.
func (l *lookup) VisitListMessagesResponse(w http.ResponseWriter) error {
	leave, err := l.s.answers.enter(l.ctx, l.c.tenantID())
	if err != nil {
		return err
	}
	defer leave()
	page, err := l.read()
	if err != nil {
		return err
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return writeMessages(w, page.Messages, l.s.next(l.c, page.Next))
}

func (l *lookup) read() (catalog.MessagePage, error) {
	leave, err := l.s.reads.enter(l.ctx, l.c.tenantID())
	if err != nil {
		return catalog.MessagePage{}, err
	}
	defer leave()
	return l.s.d.Messages.Query(l.ctx, l.q)
}

// writeMessages writes an api.MessageList. It forgets messages as it goes on.
func writeMessages(w io.Writer, messages []catalog.StoredMessage, next *string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	lead := `{"items":[`
	for i := range messages {
		if _, err := io.WriteString(w, lead); err != nil {
			return err
		}
		if err := enc.Encode(messageOut(messages[i])); err != nil {
			return err
		}
		messages[i], lead = catalog.StoredMessage{}, ","
	}
	end := "]}"
	if len(messages) == 0 {
		end = lead + end
	}
	if next != nil {
		text, err := json.Marshal(*next)
		if err != nil {
			return err
		}
		end = strings.TrimSuffix(end, "}") + `,"next_page_token":` + string(text) + "}"
	}
	_, err := io.WriteString(w, end)
	return err
}
