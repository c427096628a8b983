package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
)

// How many tails are open at the same time.
const (
	tailsTotal = 1000
	tailsEach  = 50
)

// tailWrite bounds one write to a reader who takes nothing.
const tailWrite = 20 * time.Second

// tailCheck is how often a tail asks whether its reader may still read.
const tailCheck = 500 * time.Millisecond

// TailMessages watches messages as they arrive.
func (s *server) TailMessages(gc context.Context, r TailMessagesRequestObject) (TailMessagesResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.d.Catalog.CheckReadable(ctx, c.tenantID(), r.Ns, r.Topic); err != nil {
		return nil, err
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	req := catalog.TailRequest{NamespaceID: r.Ns, Topic: r.Topic, Tag: or(r.Params.Tag, ""), Since: or(r.Params.Since, time.Time{})}
	var err error
	if req.Offsets, err = readPlace(r.Params.LastEventID); err != nil {
		return nil, err
	}
	return &tail{s: s, c: c, ctx: ctx, req: req}, nil
}

// A place is `queue.offset` for each queue, joined by `-`: the next offset of
// each. It is the id of an event, and what Last-Event-ID brings back.
func readPlace(id *string) (map[int32]int64, error) {
	if id == nil {
		return nil, nil
	}
	out := map[int32]int64{}
	for part := range strings.SplitSeq(*id, "-") {
		q, o, ok := strings.Cut(part, ".")
		queue, err1 := strconv.ParseInt(q, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if !ok || err1 != nil || err2 != nil || queue < 0 || offset < 0 {
			return nil, errs.Field("header.Last-Event-ID", "this is no id of an event of a tail")
		}
		out[int32(queue)] = offset
	}
	return out, nil
}

func writePlace(place map[int32]int64) string {
	queues := make([]int32, 0, len(place))
	for q := range place {
		queues = append(queues, q)
	}
	sort.Slice(queues, func(i, j int) bool { return queues[i] < queues[j] })
	parts := make([]string, len(queues))
	for i, q := range queues {
		parts[i] = fmt.Sprintf("%d.%d", q, place[q])
	}
	return strings.Join(parts, "-")
}

// tail is the answer: it runs until the reader goes away.
type tail struct {
	s   *server
	c   *call
	ctx context.Context //nolint:containedctx // of the request that this answers
	req catalog.TailRequest
}

// VisitTailMessagesResponse writes events. One goroutine reads the data plane
// and ends before this returns; this one writes.
func (t *tail) VisitTailMessagesResponse(w http.ResponseWriter) error {
	if err := t.s.tails.take(t.c.tenantID(), 1); err != nil {
		return err
	}
	defer t.s.tails.give(t.c.tenantID(), 1)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	waiting := newBacklog(t.s.tailBytes, t.c.tenantID())
	defer waiting.close() // last: nothing is put any more
	ready := make(chan struct{}, 1)
	ended := make(chan error, 1)
	req := t.req
	req.Ready = func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	}
	req.Each = func(m catalog.StoredMessage) error {
		waiting.put(m)
		return nil
	}
	go func() { ended <- t.s.d.Messages.Tail(ctx, req) }()
	done := false
	defer func() {
		cancel()
		if !done {
			<-ended
		}
	}()

	control := http.NewResponseController(w)
	// The server's deadlines are for requests that end; a reader that takes
	// nothing ends its tail by the deadline of a write.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &events{w: w, control: control, place: map[int32]int64{}}
	for q, o := range t.req.Offsets {
		out.place[q] = o
	}
	beat := time.NewTicker(t.s.d.Config.KeepAlive)
	defer beat.Stop()
	check := time.NewTicker(tailCheck)
	defer check.Stop()
	out.comment("tail of " + t.req.Topic)
	for out.err == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ready:
			out.event("ready", "", struct{}{})
		case <-waiting.some:
			m, dropped := waiting.next()
			if dropped > 0 {
				out.event("dropped", "", map[string]string{"messages": strconv.FormatInt(dropped, 10)})
			}
			out.message(m)
			waiting.written()
		case <-beat.C:
			out.comment("beat")
		case <-check.C:
			if err := t.mayRead(ctx); err != nil && ctx.Err() == nil {
				out.event("problem", "", t.s.problem(t.c.gin, t.c, err))
				return out.err
			}
		case err := <-ended:
			done = true
			if err != nil && !errors.Is(err, context.Canceled) {
				if errs.CodeOf(err) == errs.Internal {
					t.s.d.Logger.Error("tail failed", "request_id", t.c.requestID, "err", err)
				}
				out.event("problem", "", t.s.problem(t.c.gin, t.c, err))
			}
			return out.err
		}
	}
	return out.err
}

// mayRead is what admission asked when the tail began: keys are revoked, people
// sign out and topics are deleted while it runs.
func (t *tail) mayRead(ctx context.Context) error {
	if err := t.s.d.Auth.StillMay(ctx, t.c.principal, t.c.op.permission, resourceOf(t.c.gin, t.c.op), t.c.addr); err != nil {
		return err
	}
	if err := t.s.rulesAllow(ctx, t.c); err != nil {
		return err
	}
	return t.s.d.Catalog.CheckReadable(ctx, t.c.tenantID(), t.req.NamespaceID, t.req.Topic)
}

// events writes server-sent events; after an error it writes nothing more.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	place   map[int32]int64
	err     error
}

func (e *events) write(text []byte) {
	if e.err != nil {
		return
	}
	if e.err = e.control.SetWriteDeadline(time.Now().Add(tailWrite)); e.err != nil && !errors.Is(e.err, http.ErrNotSupported) {
		return
	}
	if _, e.err = e.w.Write(text); e.err == nil {
		e.err = e.control.Flush()
	}
}

func (e *events) comment(text string) { e.write([]byte(": " + text + "\n\n")) }

func (e *events) event(name, id string, data any) {
	var text bytes.Buffer
	text.WriteString("event: " + name + "\n")
	if id != "" {
		text.WriteString("id: " + id + "\n")
	}
	text.WriteString("data: ")
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil { // one line and its end
		e.err = err
		return
	}
	text.WriteByte('\n')
	e.write(text.Bytes())
}

func (e *events) message(m catalog.StoredMessage) {
	e.place[m.Queue] = m.Offset + 1
	e.event("message", writePlace(e.place), messageOut(m))
}
