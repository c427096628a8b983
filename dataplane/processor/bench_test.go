package processor

import (
	"testing"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// BenchmarkSend sends 1 KiB messages, signed, over one connection.
func BenchmarkSend(b *testing.B) {
	e := newEnv(b)
	body := make([]byte, 1024)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := e.client.Invoke(b.Context(), e.addr, e.frame("slk_a", wire.SendMessageV2, sendExt("orders", -1, "TAGS", "a"), body))
			if err != nil || r.Code != wire.Success {
				b.Errorf("%+v, %v", r, err)
				return
			}
		}
	})
}

// BenchmarkPull pulls 32 messages of 1 KiB at a time.
func BenchmarkPull(b *testing.B) {
	e := newEnv(b)
	body := make([]byte, 1024)
	for range 32 {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "TAGS", "a"), body)
	}
	b.SetBytes(32 << 10)
	b.ReportAllocs()
	for b.Loop() {
		e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 0), nil)
	}
}
