package oidc

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Metadata is what a provider says of itself (OpenID Connect Discovery 1.0).
type Metadata struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	JWKS          string `json:"jwks_uri"`
	UserInfo      string `json:"userinfo_endpoint"` // may be empty
	// Methods by which the token endpoint takes the client's secret; empty means by HTTP Basic.
	Methods []string `json:"token_endpoint_auth_methods_supported"`
	// The authorization answer names its issuer (RFC 9207).
	NamesIssuer bool `json:"authorization_response_iss_parameter_supported"`
}

// provider is what is kept of one issuer. Its mutex is held while it is asked,
// so that many who want to know ask once.
type provider struct {
	mu       sync.Mutex
	metadata Metadata // guarded by mu, as all below
	found    time.Time
	keys     []key
	fetched  time.Time // when keys were read
	asked    time.Time // when a call was made last
	failure  error     // of the last call
	failedAt time.Time
}

func (c *Client) provider(issuer string) *provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[issuer]
	if p == nil {
		if len(c.providers) >= maxCached { // any will do: it costs one call to have it back
			for other := range c.providers {
				delete(c.providers, other)
				break
			}
		}
		p = &provider{}
		c.providers[issuer] = p
	}
	return p
}

// Discover reads what a provider says of itself, or what it said less than an
// hour ago. Failures are remembered for ten seconds.
func (c *Client) Discover(ctx context.Context, issuer string) (Metadata, error) {
	p := c.provider(issuer)
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.discoverLocked(ctx, p, issuer)
}

func (c *Client) discoverLocked(ctx context.Context, p *provider, issuer string) (Metadata, error) {
	now := c.now()
	if p.metadata.Issuer != "" && now.Sub(p.found) < metadataTTL {
		return p.metadata, nil
	}
	if p.failure != nil && now.Sub(p.failedAt) < retryAfter {
		return Metadata{}, p.failure
	}
	var m Metadata
	err := c.get(ctx, strings.TrimRight(issuer, "/")+"/.well-known/openid-configuration", "the metadata", &m)
	if err == nil {
		err = c.checkMetadata(m, issuer)
	}
	if err != nil {
		if ctx.Err() == nil { // the caller's impatience is no failure of the provider
			p.failure, p.failedAt = err, now
		}
		return Metadata{}, err
	}
	p.metadata, p.found, p.failure = m, now, nil
	return m, nil
}

func (c *Client) checkMetadata(m Metadata, issuer string) error {
	if m.Issuer != issuer {
		return failed("the metadata names another issuer than %s", issuer)
	}
	for name, text := range map[string]string{"authorization_endpoint": m.Authorization, "token_endpoint": m.Token, "jwks_uri": m.JWKS, "userinfo_endpoint": m.UserInfo} {
		if name == "userinfo_endpoint" && text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || text == "" {
			return failed("the metadata has no usable %s", name)
		}
		if err := c.checkURL(u); err != nil {
			return failed("the metadata has no usable %s: %w", name, err)
		}
	}
	return nil
}

// keysFor lists the keys of an issuer that a token with a kid and an
// algorithm may be signed with. The set is read again when it is old, or when
// the kid is unknown, but not more often than every ten seconds.
func (c *Client) keysFor(ctx context.Context, issuer, kid, alg string) ([]key, error) {
	p := c.provider(issuer)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := c.now()
	fits := func() []key {
		return slices.DeleteFunc(slices.Clone(p.keys), func(k key) bool { return k.alg != alg || (kid != "" && k.id != kid) })
	}
	found := fits()
	fresh := !p.fetched.IsZero() && now.Sub(p.fetched) < keysTTL
	if (len(found) > 0 && fresh) || (!p.asked.IsZero() && now.Sub(p.asked) < retryAfter) {
		if !fresh && p.failure != nil {
			return nil, p.failure
		}
		return found, nil
	}
	m, err := c.discoverLocked(ctx, p, issuer)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	p.asked = now
	if err := c.get(ctx, m.JWKS, "the key set", &set); err != nil {
		if ctx.Err() == nil {
			p.failure, p.failedAt = err, now
		}
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		p.failure, p.failedAt = failed("the key set of %s has %d keys; at most %d", issuer, len(set.Keys), maxKeys), now
		return nil, p.failure
	}
	p.keys, p.fetched, p.failure = nil, now, nil
	for _, j := range set.Keys {
		if k, ok := j.key(); ok {
			p.keys = append(p.keys, k)
		}
	}
	return fits(), nil
}
