// Package mqclient makes Sluice's own calls to brokers and name servers:
// administration, policy, usage, and reading and sending on behalf of people.
//
// It signs with the system key, so names are physical and everything is
// allowed; whoever uses it has checked the person's rights before. It is no
// client for applications: those use the official SDKs. A Client may be used
// by many goroutines.
package mqclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Error is an answer that is no success.
type Error struct {
	Code int32 // of package wire
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("code %d: %s", e.Code, e.Text) }

// CodeOf returns the response code in err's chain; ok is false when the peer
// did not answer at all.
func CodeOf(err error) (code int32, ok bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}

// Config says how to reach and sign.
type Config struct {
	KeyID    string // policy.SystemKeyID when ""
	Secret   []byte
	Remoting remoting.ClientOptions
}

// Client holds connections to any number of servers.
type Client struct {
	keyID  string
	secret []byte
	rc     *remoting.Client
}

// New makes a client; it connects at the first call.
func New(cfg Config) (*Client, error) {
	if len(cfg.Secret) == 0 {
		return nil, errors.New("mqclient: no secret to sign with")
	}
	if cfg.KeyID == "" {
		cfg.KeyID = policy.SystemKeyID
	}
	rc, err := remoting.NewClient(cfg.Remoting)
	if err != nil {
		return nil, err
	}
	return &Client{keyID: cfg.KeyID, secret: cfg.Secret, rc: rc}, nil
}

// Close closes all connections.
func (c *Client) Close() error { return c.rc.Close() }

// At is the client bound to one server's address.
func (c *Client) At(addr string) Node { return Node{c: c, addr: addr} }

// Node is one broker or name server.
type Node struct {
	c    *Client
	addr string
}

// Addr is the server's address.
func (n Node) Addr() string { return n.addr }

// Call sends one signed request and returns the answer if its code is Success
// or one of also. Any other code is an *Error.
func (n Node) Call(ctx context.Context, code int32, ext map[string]string, body []byte, also ...int32) (*wire.Frame, error) {
	if ext == nil {
		ext = map[string]string{}
	}
	policy.SignRemoting(ext, body, n.c.keyID, n.c.secret)
	f := wire.Request(code, body)
	for _, k := range slices.Sorted(maps.Keys(ext)) {
		f.Ext.Add(k, ext[k])
	}
	resp, err := n.c.rc.Invoke(ctx, n.addr, f)
	if err != nil {
		return nil, fmt.Errorf("request code %d: %w", code, err)
	}
	if resp.Code != wire.Success && !slices.Contains(also, resp.Code) {
		return nil, fmt.Errorf("request code %d to %s: %w", code, n.addr, &Error{Code: resp.Code, Text: resp.Remark})
	}
	return resp, nil
}

// callJSON is Call with the answer's body decoded into v.
func (n Node) callJSON(ctx context.Context, code int32, ext map[string]string, body []byte, v any) error {
	resp, err := n.Call(ctx, code, ext, body)
	if err != nil {
		return err
	}
	if err := wire.Unmarshal(resp.Body, v); err != nil {
		return fmt.Errorf("answer to request code %d from %s: %w", code, n.addr, err)
	}
	return nil
}
