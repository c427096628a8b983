package testcluster

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server with TXT records and nothing else, which this process
// asks instead of the system's.
type DNS struct {
	conn net.PacketConn

	mu      sync.Mutex
	records map[string]string // by name in lower case; guarded by mu
}

// StartDNS starts a DNS that ends with the test. A Cluster that is to ask it
// starts after it.
func StartDNS(t testing.TB) *DNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &DNS{conn: conn, records: map[string]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve()
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close()
		<-done
	})
	return d
}

// Set makes a TXT record.
func (d *DNS) Set(name, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[strings.ToLower(name)] = value
}

// serve answers until the connection is closed.
func (d *DNS) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buffer[:n]); err != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		d.mu.Lock()
		value, found := d.records[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
		d.mu.Unlock()
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		switch {
		case !found:
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeTXT:
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.TXTResource{TXT: []string{value}}}}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = d.conn.WriteTo(out, from)
		}
	}
}
