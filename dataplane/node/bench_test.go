package node

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

const benchNS = "aaaaaaaa"

// benchBroker is a whole broker process in this one, on the real disk, with a
// topic "orders" of 4 queues, a group "g" and a key.
func benchBroker(b *testing.B) *Broker {
	b.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	common := Common{
		Dir: b.TempDir(), Cluster: "c1", Secret: []byte("0123456789abcdef0123456789abcdef"), Trusted: []ed25519.PublicKey{public},
		TLSMode: TLSDisabled, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return ln
	}
	br, err := NewBroker(common, BrokerConfig{Name: "b1", Store: store.DefaultConfig()}, listen(), listen())
	if err != nil {
		b.Fatal(err)
	}
	scope := policy.Scope{NamespaceID: benchNS, Permissions: []string{"PUB", "SUB"}, Topics: []string{"*"}, Groups: []string{"*"}}
	envelope, err := policy.SealSnapshot(private, "c1", 1, &policy.Snapshot{
		Namespaces: map[string]policy.Namespace{benchNS: {TenantID: "ten_a"}},
		Keys:       map[string]policy.Key{"slk_a": {Secret: "secret-a", TenantID: "ten_a", Scopes: []policy.Scope{scope}}},
	})
	if err == nil {
		_, err = br.engine.Apply(envelope)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- br.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("broker: %v", err)
		}
	})
	system := br.client.At(br.Addr().String())
	err = system.PutTopic(b.Context(), wire.TopicConfig{
		TopicName: policy.PhysicalName(benchNS, "orders"), Perm: store.PermRead | store.PermWrite, ReadQueueNums: 4, WriteQueueNums: 4,
	})
	if err == nil {
		err = system.PutGroup(b.Context(), mqclient.DefaultGroup(policy.PhysicalName(benchNS, "g")))
	}
	if err != nil {
		b.Fatal(err)
	}
	return br
}

// signed encodes a request of the key, as the Java client writes it.
func signed(b *testing.B, code, opaque int32, fields wire.Fields, body []byte) []byte {
	ext := fields.Map()
	policy.SignRemoting(ext, body, "slk_a", []byte("secret-a"))
	f := wire.Request(code, body)
	f.Opaque = opaque
	for k, v := range ext {
		f.Ext.Add(k, v)
	}
	out, err := wire.AppendFrame(nil, f)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// pipeline sends requests over conns connections with window of them in flight
// on each, over and over, until n were answered. next makes the i-th request
// of a window.
func pipeline(b *testing.B, addr string, conns, window, n int, next func(conn, i int) []byte) {
	b.Helper()
	var before, after syscall.Rusage
	var wg sync.WaitGroup
	var frames [][][]byte
	for c := range conns {
		frames = append(frames, nil)
		for i := range window {
			frames[c] = append(frames[c], next(c, i))
		}
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ReportAllocs()
	b.ResetTimer()
	for c := range conns {
		share := n / conns
		if c < n%conns {
			share++
		}
		if share == 0 {
			continue
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		free := make(chan struct{}, window)
		for range window {
			free <- struct{}{}
		}
		wg.Go(func() {
			defer conn.Close()
			r := bufio.NewReaderSize(conn, 256<<10)
			var head [8]byte
			for range share {
				if _, err := io.ReadFull(r, head[:]); err != nil {
					b.Error(err)
					return
				}
				total := int(binary.BigEndian.Uint32(head[:]))
				text, _ := r.Peek(min(total-4, 12))
				if string(text[:min(10, len(text))]) != `{"code":0,` {
					all, _ := r.Peek(min(total-4, 400))
					b.Errorf("answer %q", all)
					return
				}
				if _, err := r.Discard(total - 4); err != nil {
					b.Error(err)
					return
				}
				free <- struct{}{}
			}
		})
		wg.Go(func() {
			var buf []byte
			for sent := 0; sent < share; {
				<-free
				buf = append(buf[:0], frames[c][sent%window]...)
				sent++
			more:
				for sent < share && len(buf) < 64<<10 {
					select {
					case <-free:
						buf = append(buf, frames[c][sent%window]...)
						sent++
					default:
						break more
					}
				}
				if _, err := conn.Write(buf); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := func(r *syscall.Rusage) float64 { return float64(r.Utime.Nano() + r.Stime.Nano()) }
	b.ReportMetric((cpu(&after)-cpu(&before))/float64(n), "cpu-ns/op")
}

// BenchmarkSendPipelined sends signed messages of 1 KiB, one a request; client
// and server share the process.
func BenchmarkSendPipelined(b *testing.B) {
	br := benchBroker(b)
	body := make([]byte, 1024)
	pipeline(b, br.Addr().String(), 4, 64, b.N, func(_, i int) []byte {
		h := wire.SendHeader{
			ProducerGroup: "p", Topic: "orders", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: int32(i % 4),
			BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1,
			Properties: "UNIQ_KEY\x01FEDCBA9876543210FEDCBA9876543210\x02WAIT\x01true\x02",
		}
		return signed(b, wire.SendMessageV2, int32(i+1), h.Fields(wire.SendMessageV2), body)
	})
}

// BenchmarkSendBatches sends signed batches of 32 messages of 1 KiB; a request
// is one operation.
func BenchmarkSendBatches(b *testing.B) {
	br := benchBroker(b)
	var body []byte
	for range 32 {
		var err error
		body, err = message.AppendBatchEntry(body, message.BatchEntry{Body: make([]byte, 1024), Properties: []byte("UNIQ_KEY\x01FEDCBA9876543210FEDCBA9876543210\x02WAIT\x01true\x02")})
		if err != nil {
			b.Fatal(err)
		}
	}
	pipeline(b, br.Addr().String(), 4, 16, b.N, func(_, i int) []byte {
		h := wire.SendHeader{
			ProducerGroup: "p", Topic: "orders", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: int32(i % 4),
			BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1, Batch: true,
		}
		return signed(b, wire.SendBatchMessage, int32(i+1), h.Fields(wire.SendBatchMessage), body)
	})
}

// BenchmarkPullPipelined pulls 32 messages of 1 KiB at a time; a pull is one
// operation.
func BenchmarkPullPipelined(b *testing.B) {
	br := benchBroker(b)
	for q := range int32(4) {
		for range 256 {
			_, err := br.store.Append(b.Context(), &message.Message{
				Topic: policy.PhysicalName(benchNS, "orders"), QueueID: q, Body: make([]byte, 1024), BornHost: br.server.Addr().(*net.TCPAddr).AddrPort(),
				Properties: []byte("UNIQ_KEY\x01FEDCBA9876543210FEDCBA9876543210\x02WAIT\x01true\x02TAGS\x01a\x02CLUSTER\x01c1\x02__SLUICE\x01slk_a,r\x02"),
			}, store.DurabilityDefault)
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	_, end := br.store.CommitLogRange()
	for br.store.Dispatched() < end {
		time.Sleep(time.Millisecond)
	}
	pipeline(b, br.Addr().String(), 4, 2, b.N, func(c, i int) []byte {
		h := wire.PullHeader{
			ConsumerGroup: "g", Topic: "orders", QueueID: int32(c), QueueOffset: int64(i * 32), MaxMessages: 32,
			SysFlag: wire.PullFlagSubscription | wire.PullFlagSuspend, Subscription: "*", ExpressionType: "TAG", SuspendTimeoutMillis: 10_000,
		}
		return signed(b, wire.PullMessage, int32(i+1), h.Fields(), nil)
	})
}
