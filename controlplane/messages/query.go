package messages

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/internal/errs"
)

// Query implements catalog.Messages. By time it walks queue after queue; the
// cursor is "<queue>.<offset>". By key and by id it goes back in the log; the
// cursor is the place of the last message.
func (s *Service) Query(ctx context.Context, q catalog.MessageQuery) (catalog.MessagePage, error) {
	switch {
	case q.MessageID != "":
		return s.byID(ctx, q)
	case q.Key != "":
		return s.byKey(ctx, q)
	}
	topic := physical(q.NamespaceID, q.Topic)
	stats, err := settled(ctx, q.Topic, func() ([]mqclient.QueueState, error) { return s.broker.TopicStats(ctx, topic) })
	if err != nil {
		return catalog.MessagePage{}, failure(err)
	}
	if len(stats) == 0 {
		return catalog.MessagePage{}, nil
	}
	w := walk{s: s, q: q, topic: topic, queues: map[int32]mqclient.QueueState{}}
	for _, st := range stats {
		w.queues[st.QueueID] = st
	}
	return w.run(ctx)
}

const (
	// maxFound is what a broker returns for one look-up by key.
	maxFound = 64
	// pageBytes ends a page: messages together have less, or one more than that.
	pageBytes = 2 << 20
)

func (s *Service) byKey(ctx context.Context, q catalog.MessageQuery) (catalog.MessagePage, error) {
	k := mqclient.KeyQuery{Key: q.Key, To: math.MaxInt64}
	if !q.From.IsZero() {
		k.From = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		k.To = q.To.UnixMilli() - 1
	}
	return s.find(ctx, q, k)
}

// byID finds a message by the id that its client gave it, or by its offset id.
// Clients may give one id to many messages. That the message lies in the asked
// topic is checked here: an offset alone says nothing of whose it is.
func (s *Service) byID(ctx context.Context, q catalog.MessageQuery) (catalog.MessagePage, error) {
	page, err := s.find(ctx, q, mqclient.KeyQuery{Key: q.MessageID, Unique: true})
	if err != nil {
		return catalog.MessagePage{}, err
	}
	if len(page.Messages) > 0 || q.Cursor != "" {
		return page, nil
	}
	_, offset, err := message.ParseOffsetID(q.MessageID)
	if err != nil {
		return page, nil // of the form that clients give
	}
	m, err := s.broker.View(ctx, offset)
	if err != nil {
		if err = failure(err); errs.Is(err, errs.Unavailable) {
			return catalog.MessagePage{}, err
		}
		return page, nil // no record begins there
	}
	if m.Topic == physical(q.NamespaceID, q.Topic) {
		page.Messages = []catalog.StoredMessage{shown(q.NamespaceID, m)}
	}
	return page, nil
}

// find takes a page of what k finds, the newest first. Next goes on behind the
// last one; there is none when the broker found less than a page may have and
// all of that is in the page. (A broker that stopped at its own size found more
// than a page takes.)
func (s *Service) find(ctx context.Context, q catalog.MessageQuery, k mqclient.KeyQuery) (page catalog.MessagePage, err error) {
	k.Topic, k.Max = physical(q.NamespaceID, q.Topic), min(q.Limit, maxFound)
	if q.Cursor != "" {
		if k.Before, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil || k.Before < 1 {
			return page, errs.Field("page_token", "%w", errCursor)
		}
	}
	found, err := settled(ctx, q.Topic, func() ([]message.Message, error) { return s.broker.FindByKey(ctx, k) })
	if err != nil {
		return page, failure(err)
	}
	size := 0
	for _, m := range slices.Backward(found) {
		one := shown(q.NamespaceID, m)
		page.Messages = append(page.Messages, one)
		page.Next = strconv.FormatInt(m.PhysicalOffset, 10)
		if m.PhysicalOffset == 0 {
			page.Next = ""
		}
		if size += one.Bytes(); size >= pageBytes {
			break
		}
	}
	if len(page.Messages) == len(found) && len(found) < k.Max {
		page.Next = ""
	}
	return page, nil
}

// walk reads the messages of a query, queue after queue.
type walk struct {
	s      *Service
	q      catalog.MessageQuery
	topic  string
	queues map[int32]mqclient.QueueState
	page   catalog.MessagePage
	bytes  int // of the messages in page
}

// pullsPerPage bounds what one page costs where hardly anything matches.
const pullsPerPage = 200

func (w *walk) run(ctx context.Context) (catalog.MessagePage, error) {
	queue, offset, err := w.begin(ctx)
	if err != nil {
		return catalog.MessagePage{}, err
	}
	for pulls := 0; ; pulls++ {
		st, ok := w.queues[queue]
		if !ok {
			return w.page, nil // behind the last queue
		}
		if len(w.page.Messages) >= w.q.Limit || pulls >= pullsPerPage || w.bytes >= pageBytes {
			w.page.Next = strconv.Itoa(int(queue)) + "." + strconv.FormatInt(offset, 10)
			return w.page, nil
		}
		done := offset >= st.MaxOffset
		if !done {
			if offset, done, err = w.pull(ctx, queue, offset); err != nil {
				return catalog.MessagePage{}, err
			}
		}
		if !done {
			continue
		}
		if w.q.Queue != nil {
			return w.page, nil
		}
		queue++
		if offset, err = w.first(ctx, queue); err != nil {
			return catalog.MessagePage{}, err
		}
	}
}

var errCursor = errors.New("not a cursor")

func (w *walk) begin(ctx context.Context) (queue int32, offset int64, err error) {
	if w.q.Cursor != "" {
		q, o, ok := strings.Cut(w.q.Cursor, ".")
		n, err1 := strconv.ParseInt(q, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if !ok || errors.Join(err1, err2) != nil || n < 0 || offset < 0 {
			return 0, 0, errs.Field("page_token", "%w", errCursor)
		}
		return int32(n), offset, nil
	}
	if w.q.Queue != nil {
		queue = *w.q.Queue
		if _, ok := w.queues[queue]; !ok {
			return 0, 0, errs.Field("queue", "topic %s has queues 0 to %d", w.q.Topic, len(w.queues)-1)
		}
	}
	if w.q.Offset != nil {
		return queue, max(*w.q.Offset, w.queues[queue].MinOffset), nil
	}
	offset, err = w.first(ctx, queue)
	return queue, offset, err
}

// first is where a query by time begins in a queue.
func (w *walk) first(ctx context.Context, queue int32) (int64, error) {
	st, ok := w.queues[queue]
	if !ok || w.q.From.IsZero() {
		return st.MinOffset, nil
	}
	offset, err := w.s.broker.OffsetByTime(ctx, w.topic, queue, w.q.From)
	if err != nil {
		return 0, failure(err)
	}
	return max(offset, st.MinOffset), nil
}

// pull takes the messages of one read; done says that the queue has no more for
// the query.
func (w *walk) pull(ctx context.Context, queue int32, offset int64) (next int64, done bool, err error) {
	r, err := w.s.broker.Pull(ctx, mqclient.PullRequest{Topic: w.topic, QueueID: queue, Offset: offset, Max: min(32, w.q.Limit-len(w.page.Messages))})
	if err != nil {
		return 0, false, failure(err)
	}
	byTime := w.q.Offset == nil
	for _, m := range r.Messages {
		at := time.UnixMilli(m.StoreTimestamp)
		if byTime && !w.q.To.IsZero() && !at.Before(w.q.To) {
			return m.QueueOffset, true, nil
		}
		if !byTime || !at.Before(w.q.From) {
			one := shown(w.q.NamespaceID, m)
			w.page.Messages = append(w.page.Messages, one)
			w.bytes += one.Bytes()
		}
		if offset = m.QueueOffset + 1; w.bytes >= pageBytes {
			return offset, false, nil
		}
	}
	if len(r.Messages) == 0 {
		if r.Next <= offset {
			return offset, true, nil
		}
		offset = r.Next
	}
	return offset, offset >= r.Max, nil
}
