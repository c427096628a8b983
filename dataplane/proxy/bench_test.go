package proxy

import (
	"strings"
	"testing"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// BenchmarkSend is one message of 1 KiB for each call, many calls at once on
// one connection.
func BenchmarkSend(b *testing.B) {
	e := newEnv(b)
	c := e.client("slk_a")
	body := strings.Repeat("x", 1024)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ctx := c.ctx()
		for pb.Next() {
			resp, err := c.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{msg("orders", body)}})
			if err != nil || resp.GetStatus().GetCode() != v2.Code_OK {
				b.Errorf("%v, %v", resp.GetStatus(), err)
			}
		}
	})
}

// BenchmarkReceiveAck receives batches of 32 and acknowledges each batch with
// one call.
func BenchmarkReceiveAck(b *testing.B) {
	e := newEnv(b)
	c := e.client("slk_a")
	body := strings.Repeat("x", 1024)
	for sent := 0; sent < b.N; sent += 100 {
		var batch []*v2.Message
		for range min(100, b.N-sent) {
			batch = append(batch, msg("orders", body))
		}
		want(b, c.send(batch...).GetStatus(), v2.Code_OK)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for got := 0; got < b.N; {
		status, messages := c.receive(poll("orders", "g"))
		if status.GetCode() != v2.Code_OK {
			b.Fatalf("after %d of %d: %v", got, b.N, status)
		}
		want(b, c.ack("orders", "g", messages...).GetStatus(), v2.Code_OK)
		got += len(messages)
	}
}
