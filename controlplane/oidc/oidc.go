// Package oidc is a relying party of OpenID Connect for identity providers
// that tenants name, and that may therefore be hostile: it discovers them,
// keeps their keys, exchanges codes and checks tokens.
//
// Everything that a provider can make us do is bounded: the addresses we call
// (see guard), the time and the bytes of an answer, the size and number of
// keys, how often keys are asked for, how many calls run at once. Nothing of
// what it answers is believed before it is checked. A Client keeps no secrets
// and no users, and may be used by any number of goroutines.
package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// The bounds of what a provider may do to us.
const (
	MaxAnswer = 1 << 20 // bytes of any answer
	MaxToken  = 16 << 10
	maxKeys   = 100 // in one key set
	maxCalls  = 64  // at one time, to all providers

	metadataTTL = time.Hour
	keysTTL     = 15 * time.Minute
	retryAfter  = 10 * time.Second // between calls to a provider that fails, and between looks for an unknown key
	maxCached   = 1000             // providers
)

// Config of a Client; zero values get the defaults named.
type Config struct {
	// Loopback also permits http, and addresses of this machine: for standalone and tests.
	Loopback bool
	// Networks are private ranges that providers may lie in.
	Networks []netip.Prefix
	Resolver Resolver         // the system's
	Timeout  time.Duration    // of one call, from the name to the last byte: 5s
	Now      func() time.Time // time.Now
	Logger   *slog.Logger     // none
	HTTP     *http.Transport  // only its TLS settings are taken
}

// Client talks to providers.
type Client struct {
	cfg   Config
	http  *http.Client
	calls chan struct{}

	mu        sync.Mutex
	providers map[string]*provider // by issuer; guarded by mu
}

// New makes a Client.
func New(cfg Config) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{cfg: cfg, calls: make(chan struct{}, maxCalls), providers: map[string]*provider{}}
	c.http = &http.Client{
		Transport: c.transport(),
		Timeout:   cfg.Timeout,
		// A provider says where its endpoints are. A redirect would only lead elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
	return c
}

var errRedirect = errors.New("the answer is a redirect, which is not followed")

// failed is a provider that does not do its part. The text is meant for an
// administrator of the tenant; it repeats nothing that the provider said.
func failed(format string, args ...any) error {
	return errs.E(errs.Unavailable, format, args...).WithReason("identity_provider_failed")
}

// rejected is a token that is not accepted.
func rejected(format string, args ...any) error {
	return errs.E(errs.Unauthenticated, format, args...).WithReason("identity_token_invalid")
}

// call sends a request and decodes the JSON of a 200 into out. what names the
// answer in errors.
func (c *Client) call(ctx context.Context, r *http.Request, what string, out any) error {
	if err := c.checkURL(r.URL); err != nil {
		return err
	}
	select {
	case c.calls <- struct{}{}:
		defer func() { <-c.calls }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "Sluice")
	resp, err := c.http.Do(r)
	if err != nil {
		var denied *deniedError
		if errors.As(err, &denied) {
			return failed("%s of %s: %w", what, r.URL.Hostname(), denied)
		}
		c.cfg.Logger.WarnContext(ctx, "identity provider does not answer", "what", what, "host", r.URL.Hostname(), "err", err)
		if errors.Is(err, errRedirect) {
			return failed("%s of %s: %w", what, r.URL.Hostname(), errRedirect)
		}
		return failed("%s of %s: no answer within %s", what, r.URL.Hostname(), c.cfg.Timeout)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return failed("%s of %s: the answer broke off or took longer than %s", what, r.URL.Hostname(), c.cfg.Timeout)
	case len(body) > MaxAnswer:
		return failed("%s of %s: the answer has more than %d bytes", what, r.URL.Hostname(), MaxAnswer)
	case resp.StatusCode != http.StatusOK:
		return &statusError{status: resp.StatusCode, err: failed("%s of %s: status %d", what, r.URL.Hostname(), resp.StatusCode)}
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || (kind != "application/json" && kind != "application/jwk-set+json") {
		return failed("%s of %s: the answer is no JSON (Content-Type)", what, r.URL.Hostname())
	}
	if err := json.Unmarshal(body, out); err != nil {
		return failed("%s of %s: the answer is not the JSON that it should be", what, r.URL.Hostname())
	}
	return nil
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func (c *Client) get(ctx context.Context, url, what string, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed("%s: the address is no URL: %w", what, err)
	}
	return c.call(ctx, r, what, out)
}

func (c *Client) now() time.Time { return c.cfg.Now() }
