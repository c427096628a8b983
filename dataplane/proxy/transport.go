package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/sluicemq/sluice/dataplane/broker"
)

// listener hands out counted connections; those over a limit are closed at
// once.
type listener struct {
	net.Listener
	f *Front

	mu     sync.Mutex // guards the rest
	open   int
	byIP   map[netip.Addr]int
	bound  map[*inbound]struct{} // connections past their handshake
	logged map[string]time.Time  // what was said lately about whom
}

func newListener(f *Front, ln net.Listener) *listener {
	return &listener{Listener: ln, f: f, byIP: map[netip.Addr]int{}, bound: map[*inbound]struct{}{}, logged: map[string]time.Time{}}
}

// Accept returns the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: nc, ln: l, remote: addrPort(nc.RemoteAddr())}
		if l.admit(c.remote.Addr()) {
			return c, nil
		}
		_ = nc.Close()
	}
}

func (l *listener) admit(ip netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.f.cfg.MaxConnections || l.byIP[ip] >= l.f.cfg.MaxConnectionsPerIP {
		if l.sayLocked("limit " + ip.String()) {
			l.f.log.Warn("connection refused: too many", "remote", ip, "open", l.open, "open_from_address", l.byIP[ip])
		}
		return false
	}
	l.open++
	l.byIP[ip]++
	return true
}

func (l *listener) gone(ip netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byIP[ip]--; l.byIP[ip] <= 0 {
		delete(l.byIP, ip)
	}
}

func (l *listener) track(i *inbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bound[i] = struct{}{}
}

func (l *listener) untrack(i *inbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.bound, i)
}

// closeLate closes connections with a message that began to arrive before
// limit and is not whole yet.
func (l *listener) closeLate(limit time.Time) {
	l.mu.Lock()
	all := make([]*inbound, 0, len(l.bound))
	for i := range l.bound {
		all = append(all, i)
	}
	l.mu.Unlock()
	for _, i := range all {
		if i.late(limit) {
			l.say("late", "connection closed: a request did not arrive in time", i.RemoteAddr())
			_ = i.Close()
		}
	}
}

// say logs a line about an address, not too often.
func (l *listener) say(kind, text string, remote net.Addr) {
	l.mu.Lock()
	say := l.sayLocked(kind + addrPort(remote).Addr().String())
	l.mu.Unlock()
	if say {
		l.f.log.Warn(text, "remote", remote.String())
	}
}

// close closes the listener, which the server may have done already.
func (l *listener) close() error {
	if err := l.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close gRPC listener: %w", err)
	}
	return nil
}

// quiet is how long the same thing about the same address is not said again.
const quiet = 10 * time.Second

func (l *listener) sayLocked(what string) bool {
	now := l.f.now()
	if last, ok := l.logged[what]; ok && now.Sub(last) < quiet {
		return false
	}
	if len(l.logged) >= 1024 {
		clear(l.logged)
	}
	l.logged[what] = now
	return true
}

// foreign writes the one line that names what was seen on the port.
func (l *listener) foreign(c *conn, protocol, fix string) {
	l.mu.Lock()
	say := l.sayLocked(protocol + c.remote.Addr().String())
	l.mu.Unlock()
	if say {
		l.f.log.Warn("connection refused: wrong protocol on the gRPC port", "remote", c.remote.String(), "protocol", protocol, "fix", fix)
	}
}

// conn is one accepted connection. It counts itself out when it is closed.
type conn struct {
	net.Conn
	ln     *listener
	remote netip.AddrPort
	in     *inbound // set by the handshake, before the first call

	once   sync.Once
	mu     sync.Mutex
	closed bool
	used   map[broker.Caller]func() // open connections at the meter, by who used this one
}

// Close closes the connection. It may be called again.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		used := c.used
		c.used = nil
		c.mu.Unlock()
		for _, done := range used {
			done()
		}
		c.ln.gone(c.remote.Addr())
	})
	return err
}

// maxUsers bounds how many keys one connection is counted for.
const maxUsers = 16

// usedBy counts the connection for a caller from its first call on.
func (c *conn) usedBy(who broker.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.used[who] != nil || len(c.used) >= maxUsers {
		return
	}
	if c.used == nil {
		c.used = map[broker.Caller]func(){}
	}
	c.used[who] = c.ln.f.meter.Connected(who)
}

func addrPort(a net.Addr) netip.AddrPort {
	if a == nil {
		return netip.AddrPort{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// handshaker tells TLS, plaintext HTTP/2 and everything else apart by the
// first bytes. gRPC calls it on the connection's own goroutine and bounds its
// time.
type handshaker struct {
	f   *Front
	tls *tls.Config
}

// connInfo is how a call finds its connection.
type connInfo struct {
	credentials.CommonAuthInfo
	conn *conn
}

// AuthType names the kind of information.
func (connInfo) AuthType() string { return "sluice" }

func serverTLS(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2"}
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS12
	}
	return cfg
}

const tlsRecord = 0x16

var errForeign = errors.New("not gRPC")

// ServerHandshake sniffs the connection and, for TLS, does the handshake.
func (h *handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*conn)
	if !ok {
		return nil, nil, errors.New("proxy: connection of another listener")
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return nil, nil, io.EOF // a port probe: nothing to say
	}
	info := connInfo{conn: c, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	if head[0] == tlsRecord {
		if h.f.cfg.TLSMode == TLSDisabled {
			h.f.ln.foreign(c, "TLS", "switch TLS off in the client, or on in the server")
			return nil, nil, errForeign
		}
		tc := tls.Server(&replayed{conn: c, head: head[:1]}, h.tls)
		if err := tc.Handshake(); err != nil { // bounded by the deadline that gRPC set
			h.f.log.Info("TLS handshake failed", "remote", c.remote.String(), "err", err)
			return nil, nil, fmt.Errorf("TLS handshake: %w", err)
		}
		info.SecurityLevel = credentials.PrivacyAndIntegrity
		c.in = newInbound(h.f, tc)
		return c.in, info, nil
	}
	n, _ := io.ReadFull(c, head[1:])
	seen := head[:1+n]
	if string(seen) != "PRI " {
		h.refuse(c, seen)
		return nil, nil, errForeign
	}
	if h.f.cfg.TLSMode == TLSRequired {
		h.f.ln.foreign(c, "plaintext gRPC", "switch TLS on in the client: this server requires it")
		return nil, nil, errForeign
	}
	c.in = newInbound(h.f, &replayed{conn: c, head: slices.Clone(seen)})
	return c.in, info, nil
}

// refuse names the protocol in the log and, where the peer can read it, in an
// answer.
func (h *handshaker) refuse(c *conn, seen []byte) {
	switch {
	case seen[0] <= 1:
		h.f.ln.foreign(c, "RocketMQ remoting", "give 4.x clients the name server's address")
	case isHTTP(seen):
		h.f.ln.foreign(c, "HTTP/1", "this port speaks gRPC only")
		const text = "this port speaks gRPC (RocketMQ 5.x clients)\n"
		fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	case string(seen) == "PROX" || strings.HasPrefix(string(seen), "\r\n\r\n"):
		h.f.ln.foreign(c, "PROXY protocol", "switch it off at the load balancer")
	default:
		h.f.ln.foreign(c, "unknown", "this port speaks gRPC only")
	}
}

func isHTTP(seen []byte) bool {
	if len(seen) < 4 {
		return false
	}
	return slices.Contains([]string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "TRAC"}, string(seen))
}

// replayed is a connection whose first bytes were read already.
type replayed struct {
	*conn
	head []byte
}

// Read returns the bytes that were looked at, then those of the connection.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.conn.Read(p)
}

// ClientHandshake is part of the interface; a server makes no connections.
func (h *handshaker) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("proxy: server side only")
}

// Info describes the credentials.
func (h *handshaker) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "sluice"}
}

// Clone returns the credentials themselves, which do not change.
func (h *handshaker) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is part of the interface and does nothing for a server.
func (h *handshaker) OverrideServerName(string) error { return nil }
