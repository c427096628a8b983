package proxy

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
)

func zipped(t *testing.T, plain string) string {
	t.Helper()
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	if _, err := w.Write([]byte(plain)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return out.String()
}

// compressed stores what a 4.x producer compressed, in queue 0 of orders.
func (e *env) compressed(ns, body string, props []byte) {
	e.t.Helper()
	_, err := e.core.Send(e.t.Context(), broker.Caller{KeyID: "slk_a", NamespaceID: ns, Protocol: broker.ProtocolRemoting}, &message.Message{
		Topic: ns + "%orders", QueueID: 0, SysFlag: message.SysFlagCompressed, BornTimestamp: 1, BornHost: netip.MustParseAddrPort("10.0.0.1:5"), Body: []byte(body), Properties: props,
	}, -1)
	if err != nil {
		e.t.Fatal(err)
	}
}

// pull reads the n messages of orders, which are in one queue.
func (c *client) pull(n int32) []*v2.Message {
	c.e.t.Helper()
	ps, err := c.PullMessage(c.ctx(), &v2.PullMessageRequest{
		Group: named("g"), MessageQueue: &v2.MessageQueue{Topic: named("orders"), Id: c.e.queueWith(nsA+"%orders", int64(n))}, BatchSize: n, LongPollingTimeout: durationpb.New(time.Second),
	})
	if err != nil {
		c.e.t.Fatal(err)
	}
	var out []*v2.Message
	for {
		resp, err := ps.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			c.e.t.Fatal(err)
		}
		if m := resp.GetMessage(); m != nil {
			out = append(out, m)
		}
	}
}

// usersOf returns how many bodies of a namespace have room or wait for it.
func (u *unpacking) usersOf(ns string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.of[ns]; s != nil {
		return s.users
	}
	return 0
}

// A body is unpacked to what clients may send, not to more.
func TestUnpack_limit(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxBodyBytes = 100_000 })
	c := e.client("slk_a")
	fits, more := strings.Repeat("x", 100_000), zipped(t, strings.Repeat("x", 100_001))
	e.compressed(nsA, zipped(t, fits), nil)
	e.compressed(nsA, more, nil)
	for name, messages := range map[string][]*v2.Message{"pull": c.pull(2), "receive": c.take("orders", "g", 2)} {
		if len(messages) != 2 {
			t.Fatalf("%s: %d messages", name, len(messages))
		}
		for _, m := range messages {
			switch m.GetSystemProperties().GetBodyEncoding() {
			case v2.Encoding_IDENTITY:
				if string(m.GetBody()) != fits {
					t.Errorf("%s: a body of %d bytes, want %d", name, len(m.GetBody()), len(fits))
				}
			case v2.Encoding_GZIP:
				if string(m.GetBody()) != more {
					t.Errorf("%s: a body of %d bytes came with the label, want the %d that are stored", name, len(m.GetBody()), len(more))
				}
			}
		}
	}
	if n := e.front.unpacking.usersOf(nsA); n != 0 {
		t.Errorf("%d bodies still have room", n)
	}
}

// Room for one body is enough for a batch: each is unpacked when it is sent.
func TestUnpack_oneAfterTheOther(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxBodyBytes, c.MaxUnpacked = 100_000, 1 })
	c := e.client("slk_a")
	for i := range 10 {
		e.compressed(nsA, zipped(t, fmt.Sprint(i)+strings.Repeat("x", 99_000)), nil)
	}
	if n := len(c.pull(10)); n != 10 {
		t.Errorf("pulled %d messages", n)
	}
	c.take("orders", "g", 10)
}

// Without room compressed bodies wait; plain ones and other namespaces do not.
// What waits when its call ends is given back.
func TestUnpack_waitsForRoom(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxBodyBytes, c.MaxUnpacked = 100_000, 400_000 })
	a, b := e.client("slk_a"), e.client("slk_b")
	room, err := e.front.unpacking.take(t.Context(), nsA, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	a.mustSend("orders", "plain")
	a.take("orders", "g", 1)
	e.compressed(nsB, zipped(t, "of another namespace"), nil)
	b.take("orders", "g", 1)
	e.compressed(nsA, zipped(t, "compressed"), nil)
	ctx, cancel := context.WithTimeout(a.ctx(), time.Second)
	defer cancel()
	req := poll("orders", "g")
	req.LongPollingTimeout = durationpb.New(500 * time.Millisecond)
	if status, messages, err := a.tryReceive(ctx, req); err == nil || status.GetCode() != v2.Code_OK || len(messages) > 0 {
		t.Fatalf("without room %d messages came with %v, %v", len(messages), status, err)
	}
	for e.front.unpacking.usersOf(nsA) > 1 { // the call still waits
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the call that ended still waits for room")
		}
	}
	room.giveBack()
	if m := a.take("orders", "g", 1)[0]; string(m.GetBody()) != "compressed" || m.GetSystemProperties().GetDeliveryAttempt() != 1 {
		t.Errorf("got %q at attempt %d", m.GetBody(), m.GetSystemProperties().GetDeliveryAttempt())
	}
}

// A client that does not read its messages is cut off, so that its room and
// its messages are there for others.
func TestUnpack_unreadIsCut(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxBodyBytes, c.MaxUnpacked, c.UnreadTime = 1<<20, 1, 200*time.Millisecond })
	for range 3 {
		e.compressed(nsA, zipped(t, strings.Repeat("x", 1<<20)), nil)
	}
	slow, other := e.client("slk_a"), e.client("slk_a")
	rs, err := slow.ReceiveMessage(slow.ctx(), poll("orders", "g"))
	if err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(e.logs.String(), "does not read") {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the client was not cut off")
		}
	}
	for err == nil {
		_, err = rs.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Error("all messages came")
	}
	for _, m := range other.take("orders", "g", 2) {
		if m.GetSystemProperties().GetDeliveryAttempt() != 1 {
			t.Errorf("a message that was never sent came at attempt %d", m.GetSystemProperties().GetDeliveryAttempt())
		}
	}
}
