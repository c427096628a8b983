package remoting

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Server serves remoting connections of one listener.
type Server struct {
	*shared
	cfg     Config
	log     *slog.Logger
	ln      net.Listener
	handler Handler

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	opening  map[net.Conn]struct{}    // accepted, protocol not known yet
	perIP    map[netip.Addr]int       // of conns and opening
	refused  map[netip.Addr]time.Time // addresses over their limit, and when a line last said so
	stopping bool
	wg       sync.WaitGroup // one per accepted connection
	done     chan struct{}  // closed when Serve may return
}

// NewServer makes a server on ln, which it owns from now on. A nil logger
// discards.
func NewServer(cfg Config, ln net.Listener, h Handler, log *slog.Logger) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{
		shared: newShared(cfg), cfg: cfg, log: loggerOrDiscard(log), ln: ln, handler: h,
		conns: map[*Conn]struct{}{}, opening: map[net.Conn]struct{}{},
		perIP: map[netip.Addr]int{}, refused: map[netip.Addr]time.Time{}, done: make(chan struct{}),
	}, nil
}

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve accepts connections until Shutdown or Close, or until the listener
// fails for good. Errors of one accept (too many open files) are retried.
func (s *Server) Serve() error {
	delay := time.Duration(0)
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			s.mu.Lock()
			stopping := s.stopping
			s.mu.Unlock()
			if stopping {
				return nil
			}
			var ne net.Error
			if errors.Is(err, net.ErrClosed) || !errors.As(err, &ne) {
				return fmt.Errorf("accept: %w", err)
			}
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.log.Error("accept failed, trying again", "err", err, "delay", delay)
			select {
			case <-time.After(delay):
			case <-s.done:
			}
			continue
		}
		delay = 0
		if !s.admit(nc) {
			_ = nc.Close()
			continue
		}
		go func() { // ends with the connection; awaited by Shutdown and Close
			defer s.wg.Done()
			defer s.gone(nc)
			s.open(nc)
		}()
	}
}

// admit counts the connection in, unless the server stops or is full, or the
// address has its share.
func (s *Server) admit(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	if len(s.conns)+len(s.opening) >= s.cfg.MaxConns {
		s.log.Log(context.Background(), s.lines.level(kindTooMany), "connection refused: too many", "limit", s.cfg.MaxConns)
		return false
	}
	ip := addrPort(nc.RemoteAddr()).Addr()
	if s.perIP[ip] >= s.cfg.MaxConnsPerIP {
		if s.sayRefusedLocked(ip) {
			s.log.Warn("connection refused: too many from one address", "remote", ip, "limit", s.cfg.MaxConnsPerIP)
		}
		return false
	}
	s.perIP[ip]++
	s.opening[nc] = struct{}{}
	s.wg.Add(1)
	return true
}

// gone counts out a connection that admit let in.
func (s *Server) gone(nc net.Conn) {
	ip := addrPort(nc.RemoteAddr()).Addr()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perIP[ip]--; s.perIP[ip] <= 0 {
		delete(s.perIP, ip)
	}
}

// refusedPause is the least time between two lines about one address.
const refusedPause = 10 * time.Second

// sayRefusedLocked reports whether it is time for a line about ip. An address
// is forgotten with its pause, so the map holds no more than could fill their
// limit in one pause.
func (s *Server) sayRefusedLocked(ip netip.Addr) bool {
	now := time.Now()
	if now.Sub(s.refused[ip]) < refusedPause {
		return false
	}
	maps.DeleteFunc(s.refused, func(_ netip.Addr, said time.Time) bool { return now.Sub(said) >= refusedPause })
	s.refused[ip] = now
	return true
}

// open finds out the protocol and serves the connection to its end.
func (s *Server) open(nc net.Conn) {
	c := s.negotiate(nc)
	s.mu.Lock()
	delete(s.opening, nc)
	if c == nil {
		s.mu.Unlock()
		return
	}
	if s.stopping {
		s.mu.Unlock()
		_ = c.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	c.serve()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// negotiate returns the remoting connection, or nil after it has closed or
// given away nc.
func (s *Server) negotiate(nc net.Conn) *Conn {
	_ = nc.SetReadDeadline(time.Now().Add(s.cfg.FrameGrace))
	br := bufio.NewReaderSize(nc, 4<<10)
	protocol, err := sniff(br)
	if err != nil {
		_ = nc.Close()
		return nil
	}
	raw := nc
	secure := false
	if protocol == ProtocolTLS && s.cfg.TLSMode != TLSDisabled {
		tc := tls.Server(&peekedConn{nc, br}, s.cfg.TLS)
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.FrameGrace) // no caller: the server is the root of its connections
		err := tc.HandshakeContext(ctx)
		cancel()
		if err != nil {
			s.log.Log(context.Background(), s.lines.level(kindHandshake), "TLS handshake failed", "remote", raw.RemoteAddr(), "err", err)
			_ = nc.Close()
			return nil
		}
		secure = true
		nc = tc
		_ = nc.SetReadDeadline(time.Now().Add(s.cfg.FrameGrace))
		br = bufio.NewReaderSize(nc, 4<<10)
		if protocol, err = sniff(br); err != nil {
			_ = nc.Close()
			return nil
		}
	}
	if s.cfg.TLSMode == TLSRequired && !secure {
		s.log.Log(context.Background(), s.lines.level(int(protocol)), "connection refused: TLS is required", "remote", raw.RemoteAddr(), "protocol", protocol.String())
		_ = nc.Close()
		return nil
	}
	if protocol != ProtocolRemoting {
		if (protocol == ProtocolHTTP || protocol == ProtocolHTTP2) && s.cfg.Foreign != nil {
			_ = nc.SetReadDeadline(time.Time{})
			if s.cfg.Foreign(&peekedConn{nc, br}, protocol) {
				return nil
			}
		}
		s.log.Log(context.Background(), s.lines.level(int(protocol)), "connection refused: wrong protocol on the remoting port", "remote", raw.RemoteAddr(), "protocol", protocol.String())
		_ = nc.Close()
		return nil
	}
	return newConn(s.cfg, s.log, s.shared, nc, br, s.handler)
}

// Conns calls fn for each open connection, on a copy of the set.
func (s *Server) Conns(fn func(*Conn)) {
	s.mu.Lock()
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		fn(c)
	}
}

// Shutdown stops accepting and reading, lets handlers finish and answers go
// out, and closes everything. When ctx ends first the rest is cut off and
// ctx's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	s.Conns((*Conn).drain)
	finished := make(chan struct{})
	go func() { // ends when all connections ended, which Close below enforces
		s.wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		s.workers.close()
		return nil
	case <-ctx.Done():
		s.closeAll()
		<-finished
		s.workers.close()
		return ctx.Err()
	}
}

// Close cuts everything off and waits for all goroutines. It may be called
// again.
func (s *Server) Close() error {
	s.stop()
	s.closeAll()
	s.wg.Wait()
	s.workers.close()
	return nil
}

func (s *Server) stop() {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	opening := make([]net.Conn, 0, len(s.opening))
	for nc := range s.opening {
		opening = append(opening, nc)
	}
	s.mu.Unlock()
	if first {
		close(s.done)
		_ = s.ln.Close()
	}
	for _, nc := range opening {
		_ = nc.Close()
	}
}

func (s *Server) closeAll() {
	s.Conns(func(c *Conn) { _ = c.Close() })
}
