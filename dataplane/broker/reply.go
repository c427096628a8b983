package broker

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

// replyTime is how long a client may take to accept a reply.
const replyTime = 10 * time.Second

// What replies of one namespace may take while their clients do not accept them:
// until then they hold memory that all namespaces share.
const (
	maxReplyBytes = 16 << 20
	replyBytes    = 4 << 10 // of each, beside body and properties
)

// replies counts the bytes of the replies that are on their way, by namespace.
type replies struct {
	mu   sync.Mutex
	byNS map[string]int
}

func (r *replies) take(namespace string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNS[namespace]+n > maxReplyBytes {
		return false
	}
	if r.byNS == nil {
		r.byNS = map[string]int{}
	}
	r.byNS[namespace] += n
	return true
}

func (r *replies) give(namespace string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNS[namespace] -= n; r.byNS[namespace] <= 0 {
		delete(r.byNS, namespace)
	}
}

// Reply hands a reply over to the client of the caller's namespace that has sent
// the request: one that produces there. It is stored nowhere. The error has CodeBusy
// when the clients of the namespace leave too many replies waiting.
func (b *Broker) Reply(ctx context.Context, who Caller, clientID string, m *message.Message) error {
	namespace := who.NamespaceID
	if err := b.checkSizes(m); err != nil {
		return err
	}
	b.members.mu.Lock()
	c := b.members.byID[clientRef{namespace, clientID}]
	b.members.mu.Unlock()
	if c == nil || c.Reply == nil {
		return fail(CodeNotOnline, "the client that waits for the reply is not connected to this broker: property %s", message.KeyReplyToClient)
	}
	size := replyBytes + len(m.Body) + len(m.Properties)
	if !b.replies.take(namespace, size) {
		return &Error{
			Code: CodeBusy, Text: "the clients of the namespace do not accept their replies: too many are waiting", Limit: strconv.Itoa(maxReplyBytes) + " bytes",
		}
	}
	defer b.replies.give(namespace, size)
	m.Topic = b.cfg.Cluster + "_REPLY_TOPIC" // whatever the client calls it: usage is counted by topic
	m.StoreTimestamp = b.now().UnixMilli()
	addProperty(m, message.KeyPushReplyTime, strconv.FormatInt(m.StoreTimestamp, 10))
	b.addHosts(m)
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	if err := c.Reply(ctx, m); err != nil {
		return &Error{Code: CodeNotOnline, Text: "the client that waits for the reply did not take it", Err: err}
	}
	b.meter.Replied(who, m)
	return nil
}
