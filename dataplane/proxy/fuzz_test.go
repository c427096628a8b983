package proxy

import (
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"

	"github.com/sluicemq/sluice/dataplane/policy"
)

// FuzzReceiptHandle: no handle that was not given out does anything, and none
// breaks the server.
func FuzzReceiptHandle(f *testing.F) {
	e := newEnv(f)
	c := e.client("slk_a")
	c.mustSend("orders", "held")
	held := c.take("orders", "g", 1)[0].GetSystemProperties().GetReceiptHandle()
	raw, err := base64.RawURLEncoding.DecodeString(held)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(held + "A")
	f.Add("")
	f.Add("0 0 0 0 0 broker-a 0 0 0")
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 0xff
		f.Add(base64.RawURLEncoding.EncodeToString(changed))
	}
	f.Fuzz(func(t *testing.T, handle string) {
		if handle == held || !utf8.ValidString(handle) {
			return
		}
		if b, err := base64.RawURLEncoding.DecodeString(handle); err == nil && string(b) == string(raw) {
			return // the same handle in other words
		}
		ack := &v2.AckMessageRequest{Topic: named("orders"), Group: named("g"), Entries: []*v2.AckMessageEntry{{ReceiptHandle: handle}}}
		resp, err := c.AckMessage(metadata.NewOutgoingContext(t.Context(), c.headers), ack)
		if err != nil || len(resp.GetEntries()) != 1 {
			t.Fatalf("%q: %v, %v", handle, resp, err)
		}
		if code := resp.GetStatus().GetCode(); code != v2.Code_OK && code != v2.Code_INVALID_RECEIPT_HANDLE {
			t.Errorf("%q: %v", handle, resp.GetStatus())
		}
		if stats, err := e.core.GroupStats(nsA+"%g", nsA+"%orders"); err != nil || stats[0].InFlight+stats[1].InFlight != 1 {
			t.Fatalf("%q ended another delivery: %v, %v", handle, stats, err)
		}
	})
}

// FuzzAuthorization: nothing but a right signature or token lets anybody in.
func FuzzAuthorization(f *testing.F) {
	e := newEnv(f)
	const date = "20261129T120000Z"
	right := signature("secret-a", date)
	f.Add("MQv2-HMAC-SHA1 Credential=slk_a, SignedHeaders=x-mq-date-time, Signature="+right, date, "")
	f.Add("MQv2-HMAC-SHA1 Credential=slk_a/x/y,Signature="+strings.ToUpper(right), date, "")
	f.Add("MQv2-HMAC-SHA1 Credential=,Signature=", "", "")
	f.Add("Bearer eyJhbGciOiJub25lIn0.e30.", date, "token")
	f.Add("MQv2-HMAC-SHA1 Credential=jwt,Signature=00", date, "a.b.c")
	f.Fuzz(func(t *testing.T, authorization, date, token string) {
		p, err := e.engine.AuthenticateGRPC(policy.GRPCRequest{Authorization: authorization, DateTime: date, SessionToken: token, Remote: netip.MustParseAddr("127.0.0.1")})
		if err != nil {
			return
		}
		mac, _ := hex.DecodeString(signature(e.snapshot.Keys[p.KeyID()].Secret, date))
		if !strings.Contains(strings.ToLower(authorization), hex.EncodeToString(mac)) {
			t.Errorf("%q with date %q let %s in", authorization, date, p.KeyID())
		}
	})
}

// What is counted is what the streams hold, whatever both sides send.
func FuzzInbound(f *testing.F) {
	headers, message := frame(frameHeaders, 4, 1, []byte("x")), frame(frameData, 0, 1, begun(10, 10))
	f.Add(append(headers, message...), frame(frameHeaders, flagEndStream, 1, nil), uint8(3))
	f.Add(frame(frameData, flagEndStream|flagPadded, 1, []byte{200, 1}), frame(frameRST, 0, 1, make([]byte, 4)), uint8(0))
	f.Fuzz(func(t *testing.T, in, out []byte, login uint8) {
		i := newTestInbound(nil)
		i.in.skip = 0
		for step := range uint8(8) {
			if step == login {
				i.login()
			}
			n, m := len(in)/8, len(out)/8
			if step == 7 {
				n, m = len(in), len(out)
			}
			if got := i.in.scan(in[:n], i.began, i.data, nil); got != n {
				t.Fatalf("scanned %d of %d bytes", got, n)
			}
			i.out.scan(out[:m], i.answered, nil, nil)
			in, out = in[n:], out[m:]
			var held int64
			for _, a := range i.streams {
				held += a.have + a.cost
			}
			if i.bytes != held || i.f.unfinished.Load() != held {
				t.Fatalf("%d bytes are counted, %d in all; the streams hold %d", i.bytes, i.f.unfinished.Load(), held)
			}
		}
	})
}
