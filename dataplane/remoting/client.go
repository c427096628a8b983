package remoting

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// DialFunc makes a plain connection.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// ClientOptions configure a Client. The zero value dials plain TCP and
// answers pushes with "not supported".
type ClientOptions struct {
	Config  Config
	Dial    DialFunc    // net.Dialer when nil
	TLS     *tls.Config // non-nil: speak TLS
	Handler Handler     // for requests of servers
	Logger  *slog.Logger
	Connect time.Duration // limit of one dial with handshake; 3 s when 0
}

// Client keeps one connection per address and dials again after it broke.
type Client struct {
	*shared
	opts ClientOptions
	cfg  Config
	log  *slog.Logger
	wg   sync.WaitGroup // one per connection

	mu     sync.Mutex
	closed bool
	conns  map[string]*Conn
	dials  map[string]*dial // in progress; callers share them
}

type dial struct {
	done chan struct{}
	conn *Conn
	err  error
}

// NewClient makes a client. Nothing is dialled before the first Invoke.
func NewClient(opts ClientOptions) (*Client, error) {
	cfg, err := opts.Config.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{}).DialContext
	}
	if opts.Handler == nil {
		opts.Handler = HandlerFunc(func(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
			return f.Reply(wire.RequestCodeNotSupported, fmt.Sprintf("request type %d not supported", f.Code))
		})
	}
	if opts.Connect <= 0 {
		opts.Connect = 3 * time.Second
	}
	return &Client{shared: newShared(cfg), opts: opts, cfg: cfg, log: loggerOrDiscard(opts.Logger), conns: map[string]*Conn{}, dials: map[string]*dial{}}, nil
}

// Invoke sends f to addr and waits for the answer.
func (cl *Client) Invoke(ctx context.Context, addr string, f *wire.Frame) (*wire.Frame, error) {
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return c.Invoke(ctx, f)
}

// OneWay sends f to addr without waiting for anything but the connection.
func (cl *Client) OneWay(ctx context.Context, addr string, f *wire.Frame) error {
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return err
	}
	return c.OneWay(f)
}

// Conn returns the connection to addr, dialling if there is none.
func (cl *Client) Conn(ctx context.Context, addr string) (*Conn, error) {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return nil, ErrClosed
	}
	if c := cl.conns[addr]; c != nil {
		cl.mu.Unlock()
		return c, nil
	}
	d := cl.dials[addr]
	if d == nil {
		d = &dial{done: make(chan struct{})}
		cl.dials[addr] = d
		cl.wg.Add(1)
		go func() { // ends with the connection it makes; awaited by Close
			defer cl.wg.Done()
			cl.connect(addr, d)
		}()
	}
	cl.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to %s: %w", addr, ctx.Err())
	}
}

func (cl *Client) connect(addr string, d *dial) {
	nc, err := cl.dial(addr)
	if err != nil {
		cl.mu.Lock()
		delete(cl.dials, addr)
		cl.mu.Unlock()
		d.err = fmt.Errorf("connect to %s: %w", addr, err)
		close(d.done)
		return
	}
	c := newConn(cl.cfg, cl.log, cl.shared, nc, bufio.NewReaderSize(nc, 4<<10), cl.opts.Handler)
	cl.mu.Lock()
	delete(cl.dials, addr)
	closed := cl.closed
	if !closed {
		cl.conns[addr] = c
	}
	cl.mu.Unlock()
	if closed {
		_ = c.Close()
		d.err = ErrClosed
		close(d.done)
		return
	}
	c.OnClose(func() {
		cl.mu.Lock()
		if cl.conns[addr] == c {
			delete(cl.conns, addr)
		}
		cl.mu.Unlock()
	})
	d.conn = c
	close(d.done)
	c.serve()
}

func (cl *Client) dial(addr string) (net.Conn, error) {
	// The dial outlives the caller that began it: others wait for it too.
	ctx, cancel := context.WithTimeout(context.Background(), cl.opts.Connect)
	defer cancel()
	nc, err := cl.opts.Dial(ctx, "tcp", addr)
	if err != nil || cl.opts.TLS == nil {
		return nc, err
	}
	cfg := cl.opts.TLS
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			_ = nc.Close()
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return tc, nil
}

// Close closes all connections and waits for their goroutines. It may be
// called again.
func (cl *Client) Close() error {
	cl.mu.Lock()
	cl.closed = true
	conns := make([]*Conn, 0, len(cl.conns))
	for _, c := range cl.conns {
		conns = append(conns, c)
	}
	cl.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	cl.wg.Wait()
	cl.workers.close()
	return nil
}
