package remoting

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// What a peer sent before it left is handled, also when it took no answers: the
// Go client commits its offsets at shutdown and closes the connection at once.
func TestServe_peerLeavesBeforeItsAnswers(t *testing.T) {
	const frames = 100
	for _, way := range []string{"plain", "tls"} {
		t.Run(way, func(t *testing.T) {
			gate := make(chan struct{})
			var handled atomic.Int64
			all := make(chan struct{})
			server, client := certificate(t)
			client.ServerName = "127.0.0.1"
			s := startServer(t, Config{MaxInFlight: 1, TLSMode: TLSPermissive, TLS: server}, func(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
				<-gate
				if handled.Add(1) == frames {
					close(all)
				}
				return f.Reply(wire.Success, "")
			}, nil)
			var c net.Conn = dialRaw(t, s)
			if way == "tls" {
				c = tls.Client(c, client)
			}
			var out []byte
			var err error
			for range frames {
				if out, err = wire.AppendFrame(out, wire.Request(1, nil)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Write(out); err != nil {
				t.Fatal(err)
			}
			gate <- struct{}{} // the first answer waits at the peer, so that closing resets
			if way == "plain" {
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			close(gate)
			select {
			case <-all:
			case <-time.After(10 * time.Second):
				t.Errorf("%d of %d requests were handled", handled.Load(), frames)
			}
		})
	}
}
