package proxy

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"
)

// transactional is a client with a topic for transactions.
func transactional(e *env, key, ns string) *client {
	e.topic(ns+"%tx", "TRANSACTION")
	return e.client(key)
}

func (c *client) half(body string, change ...func(*v2.SystemProperties)) (*v2.Message, string) {
	c.e.t.Helper()
	m := msg("tx", body)
	m.SystemProperties.MessageType = v2.MessageType_TRANSACTION
	for _, f := range change {
		f(m.SystemProperties)
	}
	resp := c.send(m)
	want(c.e.t, resp.GetStatus(), v2.Code_OK)
	id := resp.GetEntries()[0].GetTransactionId()
	if id == "" || resp.GetEntries()[0].GetMessageId() != m.SystemProperties.MessageId {
		c.e.t.Fatalf("entry is %v", resp.GetEntries()[0])
	}
	return m, id
}

func (c *client) endTransaction(m *v2.Message, id string, r v2.TransactionResolution) *v2.Status {
	c.e.t.Helper()
	resp, err := c.EndTransaction(c.ctx(), &v2.EndTransactionRequest{Topic: m.Topic, MessageId: m.SystemProperties.MessageId, TransactionId: id, Resolution: r})
	if err != nil {
		c.e.t.Fatal(err)
	}
	return resp.GetStatus()
}

const (
	commit   = v2.TransactionResolution_COMMIT
	rollback = v2.TransactionResolution_ROLLBACK
	unknown  = v2.TransactionResolution_TRANSACTION_RESOLUTION_UNSPECIFIED
)

// B063: the transaction id alone ends a transaction, over a restart, from
// anywhere; one of another topic or tenant does not.
func TestTransaction_ends_B063(t *testing.T) {
	e := newEnv(t)
	c, other := transactional(e, "slk_a", nsA), transactional(e, "slk_b", nsB)
	e.topic(nsA+"%tx2", "TRANSACTION")
	kept, keptID := c.half("kept")
	dropped, droppedID := c.half("dropped")
	open, openID := c.half("open")
	c.none("tx", "g")

	elsewhere := msg("tx2", "x")
	elsewhere.SystemProperties.MessageId = kept.SystemProperties.MessageId
	want(t, c.endTransaction(elsewhere, keptID, commit), v2.Code_INVALID_TRANSACTION_ID)
	want(t, other.endTransaction(kept, keptID, commit), v2.Code_INVALID_TRANSACTION_ID)
	want(t, c.endTransaction(dropped, keptID, commit), v2.Code_INVALID_TRANSACTION_ID)
	for _, id := range []string{"", "x", strings.Repeat("F", 32), strings.Repeat("0", 32) + "0", strings.Repeat("7F", 16)} {
		want(t, c.endTransaction(kept, id, commit), v2.Code_INVALID_TRANSACTION_ID)
	}
	want(t, c.endTransaction(kept, keptID, 9), v2.Code_BAD_REQUEST)

	e.kill()
	c = e.client("slk_a")
	for range 2 { // the same again is the same
		want(t, c.endTransaction(kept, keptID, commit), v2.Code_OK)
		want(t, c.endTransaction(dropped, droppedID, rollback), v2.Code_OK)
		want(t, c.endTransaction(open, openID, unknown), v2.Code_OK)
	}
	want(t, c.endTransaction(kept, keptID, rollback), v2.Code_INVALID_TRANSACTION_ID)
	got := c.take("tx", "g", 1)
	if string(got[0].Body) != "kept" || got[0].SystemProperties.GetMessageId() != kept.SystemProperties.MessageId || got[0].SystemProperties.GetMessageType() != v2.MessageType_NORMAL {
		t.Errorf("got %v", got[0])
	}
	want(t, c.ack("tx", "g", got...).GetStatus(), v2.Code_OK)
	c.none("tx", "g")
}

func TestTransaction_check(t *testing.T) {
	e := newEnv(t)
	c, other := transactional(e, "slk_a", nsA), transactional(e, "slk_b", nsB)
	foreign := other.telemetry(producerSettings("tx"))
	if _, err := foreign.Recv(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the stream
		for {
			cmd, err := foreign.Recv()
			if err != nil {
				return
			}
			if cmd.GetSettings() == nil {
				t.Errorf("another tenant was asked: %v", cmd)
			}
		}
	}()
	m, id := c.half("asked about")
	c.half("patient", func(p *v2.SystemProperties) { p.OrphanedTransactionRecoveryDuration = durationpb.New(time.Hour) })
	ts := c.with("x-mq-client-id", "first").telemetry(producerSettings("tx"))
	if _, err := ts.Recv(); err != nil {
		t.Fatal(err)
	}
	e.clock.advance(6 * time.Second)
	for attempt := range 2 {
		cmd, err := ts.Recv()
		for err == nil && cmd.GetSettings() != nil { // repeated
			cmd, err = ts.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		q := cmd.GetRecoverOrphanedTransactionCommand()
		sum := fmt.Sprintf("%X", md5.Sum([]byte("asked about")))
		sys := q.GetMessage().GetSystemProperties()
		if q.GetTransactionId() != id || string(q.GetMessage().GetBody()) != "asked about" || q.GetMessage().GetTopic().GetName() != "tx" ||
			sys.GetMessageId() != m.SystemProperties.MessageId || sys.GetBodyDigest().GetChecksum() != sum || sys.GetMessageType() != v2.MessageType_TRANSACTION {
			t.Fatalf("check %d: %v", attempt, cmd)
		}
		if attempt == 0 { // the next one goes to another member, when the first has left
			ts.CloseSend()
			if _, err := c.with("x-mq-client-id", "first").NotifyClientTermination(c.with("x-mq-client-id", "first").ctx(), &v2.NotifyClientTerminationRequest{}); err != nil {
				t.Fatal(err)
			}
			ts = c.with("x-mq-client-id", "second").telemetry(producerSettings("tx"))
			if _, err := ts.Recv(); err != nil {
				t.Fatal(err)
			}
			e.clock.advance(30 * time.Second)
		}
	}
	want(t, c.endTransaction(m, id, commit), v2.Code_OK)
	if got := c.take("tx", "g", 1); !bytes.Equal(got[0].Body, []byte("asked about")) {
		t.Errorf("got %v", got)
	}
}
