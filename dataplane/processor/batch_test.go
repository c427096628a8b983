package processor

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// The largest batch gets an answer with all its ids; one message more, and
// nothing is stored.
func TestSendBatch_idsFitIntoTheAnswer(t *testing.T) {
	e := newEnv(t)
	batch := func(n int) []byte {
		var body []byte
		for range n {
			var err error
			body, err = message.AppendBatchEntry(body, message.BatchEntry{Body: []byte("x"), Properties: message.AppendProperty(nil, message.KeyUniqueKey, strings.Repeat("u", 200))})
			if err != nil {
				t.Fatal(err)
			}
		}
		return body
	}
	end := func() string {
		return e.must("slk_a", wire.GetMaxOffset, map[string]string{"topic": "orders", "queueId": "0"}, nil).Ext.Value("offset")
	}
	r := e.must("slk_a", wire.SendBatchMessage, sendExt("orders", 0), batch(maxBatchMessages))
	if ids := strings.Split(r.Ext.Value("msgId"), ","); len(ids) != maxBatchMessages {
		t.Errorf("%d ids for %d messages", len(ids), maxBatchMessages)
	}
	before := end()
	r = e.call("slk_a", wire.SendBatchMessage, sendExt("orders", 0), batch(maxBatchMessages+1))
	if r.Code != wire.MessageIllegal || !strings.Contains(r.Remark, "limit=10000") {
		t.Errorf("one message more: %d %s", r.Code, r.Remark)
	}
	if after := end(); after != before {
		t.Errorf("a refused batch moved the queue from %s to %s", before, after)
	}
}
