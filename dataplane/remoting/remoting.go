// Package remoting moves frames of package wire over connections, as server
// and as client.
//
// It owns connections: telling TLS and foreign protocols apart by the first
// bytes, time limits, bounded queues in both directions, matching replies to
// requests of our own, draining. It knows no request code and no tenant.
//
// A connection has one reader goroutine, one writer goroutine and at most
// Config.MaxInFlight requests at handlers, which run on goroutines that all
// connections share; the server (or Client) that made the
// connection waits for them in Close. Methods of Server, Conn and Client may
// be called at the same time from anywhere.
package remoting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Errors that callers branch on.
var (
	ErrClosed    = errors.New("remoting connection closed")
	ErrQueueFull = errors.New("remoting write queue full: the peer reads too slowly")
)

// TLSMode says which first bytes a listener takes.
type TLSMode uint8

// TLS modes.
const (
	TLSDisabled   TLSMode = iota // plain only
	TLSPermissive                // both, told apart by the first byte
	TLSRequired                  // TLS only
)

// ParseTLSMode reads disabled, permissive or required.
func ParseTLSMode(s string) (TLSMode, error) {
	switch s {
	case "disabled":
		return TLSDisabled, nil
	case "permissive":
		return TLSPermissive, nil
	case "required":
		return TLSRequired, nil
	}
	return 0, fmt.Errorf("TLS mode %q: want disabled, permissive or required", s)
}

// Handler answers requests of one side of connections.
type Handler interface {
	// Handle runs on a goroutine of the connection. A nil reply means that
	// the handler answers later through c.Reply, or never. The frame and its
	// body belong to the handler. ctx ends when the connection closes. A
	// Handler may be a Starter, too.
	Handle(ctx context.Context, c *Conn, req *wire.Frame) *wire.Frame
}

// HandlerFunc is a Handler as a function.
type HandlerFunc func(ctx context.Context, c *Conn, req *wire.Frame) *wire.Frame

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, c *Conn, req *wire.Frame) *wire.Frame {
	return f(ctx, c, req)
}

// Config holds the limits of connections. Zero fields take the defaults of
// DefaultConfig.
type Config struct {
	TLSMode TLSMode
	TLS     *tls.Config // needed unless TLSDisabled

	MaxConns      int           // open at once; further ones are closed at accept
	MaxConnsPerIP int           // open at once from one address, likewise
	MaxFrame      int           // bytes of one frame
	MaxLarge      int           // bytes of all large bodies, arriving or being handled; then their senders wait
	MaxInFlight   int           // requests of one connection being handled; then its reader waits
	MaxQueue      int           // bytes waiting to be written to one connection
	MaxQueued     int           // bytes waiting to be written to all connections; then those with more than an equal share of it are closed
	FrameGrace    time.Duration // a frame must be whole after this time plus one second per MinRate bytes that arrived, and never pause longer
	MinRate       int           // bytes per second that a sender must reach after FrameGrace
	IdleTimeout   time.Duration // without a frame from the peer
	WriteTimeout  time.Duration // for one batch of writes, and for a reply waiting for room in the queue

	// Foreign, if set, is offered connections that open with HTTP/2 or HTTP.
	// It returns true when it has taken over conn, which replays the bytes
	// that were looked at. Otherwise the connection is logged and closed.
	Foreign func(conn net.Conn, protocol Protocol) bool
}

// DefaultConfig returns the limits used in production, TLS disabled.
func DefaultConfig() Config {
	return Config{
		MaxConns:      20000,
		MaxConnsPerIP: 5000,
		MaxFrame:      wire.MaxFrame,
		MaxLarge:      256 << 20,
		MaxInFlight:   64,
		MaxQueue:      8 << 20,
		MaxQueued:     256 << 20,
		FrameGrace:    10 * time.Second,
		MinRate:       16 << 10,
		IdleTimeout:   120 * time.Second,
		WriteTimeout:  20 * time.Second,
	}
}

func (c Config) withDefaults() (Config, error) {
	d := DefaultConfig()
	if c.TLSMode != TLSDisabled && c.TLS == nil {
		return c, errors.New("remoting: TLS configuration missing")
	}
	setDefault(&c.MaxConns, d.MaxConns)
	setDefault(&c.MaxConnsPerIP, d.MaxConnsPerIP)
	setDefault(&c.MaxFrame, d.MaxFrame)
	setDefault(&c.MaxLarge, d.MaxLarge)
	if c.MaxLarge < c.MaxFrame {
		return c, fmt.Errorf("remoting: MaxLarge is %d: no frame of %d could arrive", c.MaxLarge, c.MaxFrame)
	}
	setDefault(&c.MaxInFlight, d.MaxInFlight)
	setDefault(&c.MaxQueue, d.MaxQueue)
	setDefault(&c.MaxQueued, d.MaxQueued)
	if c.MaxQueued < c.MaxQueue {
		return c, fmt.Errorf("remoting: MaxQueued is %d: no queue of %d could fill", c.MaxQueued, c.MaxQueue)
	}
	setDefault(&c.FrameGrace, d.FrameGrace)
	setDefault(&c.MinRate, d.MinRate)
	setDefault(&c.IdleTimeout, d.IdleTimeout)
	setDefault(&c.WriteTimeout, d.WriteTimeout)
	return c, nil
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// sparingly lets one log line of a kind through each second, so that a flood of
// bad connections is not a flood of lines too.
type sparingly struct{ last [kinds]atomic.Int64 }

// The kinds of lines: one for each foreign protocol, and those below.
const (
	kindMalformed = int(protocolCount) + iota
	kindTooMany
	kindHandshake
	kindBacklog
	kinds
)

// level is the level for the next line of a kind.
func (s *sparingly) level(kind int) slog.Level {
	now := time.Now().UnixNano()
	last := s.last[kind].Load()
	if now-last < int64(time.Second) || !s.last[kind].CompareAndSwap(last, now) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// shared is what the connections of one server or client have together.
type shared struct {
	lines sparingly
	large *budget  // for frames that arrive and are handled
	out   *backlog // for frames that wait to be written

	aheads *budget // for the read buffers of those who send ahead

	workers *workers
}

func newShared(cfg Config) *shared {
	return &shared{large: newBudget(cfg.MaxLarge), aheads: newBudget(cfg.MaxLarge / aheadShare), out: newBacklog(cfg.MaxQueued), workers: newWorkers()}
}

func loggerOrDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
