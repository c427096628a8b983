package broker

import (
	"context"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
)

// replyMeter notes the replies that are counted.
type replyMeter struct {
	noMeter
	replied []string
}

func (m *replyMeter) Replied(who Caller, r *message.Message) {
	m.replied = append(m.replied, "good of "+who.NamespaceID+" in "+r.Topic)
}

// Clients that take their replies and never answer hold a bounded part of the
// memory that all namespaces share, and nobody else's replies.
func TestReply_deafClientsOfOneNamespaceAreBounded(t *testing.T) {
	e := newEnv(t)
	use := &replyMeter{}
	e.meter = use
	const body = 4 << 20
	begun := make(chan struct{}, 100)
	deaf := &Client{ID: "deaf", Reply: func(ctx context.Context, _ *message.Message) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	good := &Client{ID: "good", Reply: func(context.Context, *message.Message) error { return nil }}
	for c, group := range map[*Client]string{deaf: "aaaaaaaa%p", good: "bbbbbbbb%p"} {
		if err := e.Heartbeat(c, []string{group}, nil); err != nil {
			t.Fatal(err)
		}
	}
	reply := func(ctx context.Context, namespace, client string) error {
		return e.Reply(ctx, Caller{NamespaceID: namespace}, client, &message.Message{Topic: "r", Body: make([]byte, body)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 100)
	started := 0
	for range maxReplyBytes/body - 1 {
		go func() { done <- reply(ctx, "aaaaaaaa", "deaf") }()
		<-begun
		started++
	}
	if err := reply(ctx, "aaaaaaaa", "deaf"); CodeOf(err) != CodeBusy {
		t.Errorf("a reply over the bound: %v", err)
	}
	if err := reply(ctx, "bbbbbbbb", "good"); err != nil {
		t.Errorf("a reply of another namespace: %v", err)
	}
	if want := "good of bbbbbbbb in " + e.Config().Cluster + "_REPLY_TOPIC"; len(use.replied) != 1 || use.replied[0] != want {
		t.Errorf("counted %q, want %q", use.replied, want)
	}
	cancel()
	for range started {
		if err := <-done; CodeOf(err) != CodeNotOnline {
			t.Errorf("a reply that nobody accepted: %v", err)
		}
	}
	if len(e.replies.byNS) != 0 {
		t.Errorf("still counted: %v", e.replies.byNS)
	}
}
