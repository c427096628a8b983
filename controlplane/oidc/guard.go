package oidc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// The guard: a tenant names the addresses that we call, so a name may lead
// into our own network. A name is resolved once, every address it has must be
// public, and the connection goes to an address that was checked: a second
// answer of DNS changes nothing.

// Resolver finds the addresses of a name; net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// reserved are ranges beyond those that netip.Addr knows that are no place
// for a provider.
var reserved = func() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		// These carry an IPv4 address inside, which may be any.
		"64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "::/96",
		"100::/64", "2001:db8::/32", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

// public reports whether an address is one of the internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (c *Client) permitted(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return public(a) || (c.cfg.Loopback && a.IsLoopback()) || slices.ContainsFunc(c.cfg.Networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// deniedError does not tell which address a name has: names of an inner
// network must not be explored through us.
type deniedError struct{ host string }

func (e *deniedError) Error() string {
	return fmt.Sprintf("%s has an address that may not be called: it must be public", e.host)
}

// CheckURL refuses an address of a provider that could not be called.
func (c *Client) CheckURL(field, text string) error {
	u, err := url.Parse(text)
	if err == nil {
		err = c.checkURL(u)
	}
	if err != nil || len(text) > MaxIssuer || u.RawQuery != "" {
		e := errs.Field(field, "%s: give an https URL without user, query or fragment, of at most %d characters", field, MaxIssuer)
		e.Limit = strconv.Itoa(MaxIssuer)
		return e
	}
	return nil
}

const (
	// MaxIssuer bounds the URL of an issuer.
	MaxIssuer = 300
	maxURL    = 500 // of an endpoint
)

func (c *Client) checkURL(u *url.URL) error {
	if u.Host == "" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" || len(u.String()) > maxURL {
		return failed("an endpoint of the identity provider is not the plain URL it should be")
	}
	if u.Scheme == "https" || (u.Scheme == "http" && c.cfg.Loopback && loopbackName(u.Hostname())) {
		return nil
	}
	return failed("an endpoint of the identity provider is not https")
}

func loopbackName(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && a.IsLoopback())
}

func (c *Client) transport() *http.Transport {
	t := &http.Transport{
		Proxy:                  nil, // a proxy of the environment would resolve the name again
		DialContext:            c.dial,
		DisableKeepAlives:      true, // calls are rare; no connection outlives its check
		TLSHandshakeTimeout:    c.cfg.Timeout,
		ResponseHeaderTimeout:  c.cfg.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	if c.cfg.HTTP != nil && c.cfg.HTTP.TLSClientConfig != nil {
		t.TLSClientConfig = c.cfg.HTTP.TLSClientConfig.Clone()
	}
	return t
}

// dial connects to a checked address of the name.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if a, perr := netip.ParseAddr(host); perr == nil {
		addrs = []netip.Addr{a}
	} else {
		var r Resolver = net.DefaultResolver
		if c.cfg.Resolver != nil {
			r = c.cfg.Resolver
		}
		if addrs, err = r.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, fmt.Errorf("look up %s: %w", host, err)
		}
	}
	// One bad address spoils the name: whoever mixes them means harm.
	if len(addrs) == 0 || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !c.permitted(a) }) {
		return nil, &deniedError{host: host}
	}
	d := net.Dialer{Timeout: c.cfg.Timeout, KeepAlive: -1 * time.Second}
	var last error
	for _, a := range addrs[:min(len(addrs), 4)] {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}
