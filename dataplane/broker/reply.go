package broker

import (
	"context"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

// replyTime is how long a client may take to accept a reply.
const replyTime = 10 * time.Second

// Reply hands a reply over to the client of a namespace that has sent the
// request: one that produces there. It is stored nowhere.
func (b *Broker) Reply(ctx context.Context, namespace, clientID string, m *message.Message) error {
	if err := b.checkSizes(m); err != nil {
		return err
	}
	b.members.mu.Lock()
	c := b.members.byID[clientRef{namespace, clientID}]
	b.members.mu.Unlock()
	if c == nil || c.Reply == nil {
		return fail(CodeNotOnline, "the client that waits for the reply is not connected to this broker: property %s", message.KeyReplyToClient)
	}
	m.StoreTimestamp = b.now().UnixMilli()
	addProperty(m, message.KeyPushReplyTime, strconv.FormatInt(m.StoreTimestamp, 10))
	b.addHosts(m)
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	if err := c.Reply(ctx, m); err != nil {
		return &Error{Code: CodeNotOnline, Text: "the client that waits for the reply did not take it", Err: err}
	}
	return nil
}
