package auth

import (
	"context"
	"crypto"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Audiences of access tokens.
const (
	AudienceControl = "control"
	AudienceData    = "data"
)

// tokenType is the typ header of access tokens (RFC 9068).
const tokenType = "at+jwt"

// KeyState of a signing key. A key is published as next before it signs, and
// as retiring until the last token it signed has expired.
type KeyState string

// The states of a signing key.
const (
	KeyNext     KeyState = "next"
	KeyCurrent  KeyState = "current"
	KeyRetiring KeyState = "retiring"
)

type claims struct {
	Subject    tenant.ID
	TenantID   tenant.ID
	SessionID  tenant.ID // of a user
	ProviderID tenant.ID // where the session began, if at an identity provider
	KeyID      tenant.ID // of an API key
	Audience   string
	TTL        time.Duration // 0: Config.AccessTTL
}

type wireClaims struct {
	TenantID   string `json:"tenant_id"`
	SessionID  string `json:"sid,omitempty"`
	ProviderID string `json:"idp,omitempty"`
	KeyID      string `json:"key_id,omitempty"`
	jwt.RegisteredClaims
}

// keyCache holds the keys read last; they change once a month.
type keyCache struct {
	mu     sync.Mutex
	keys   []SigningKey // guarded by mu
	opened map[string]crypto.Signer
	read   time.Time
}

const keyCacheTTL = 30 * time.Second

func (s *Service) keys(ctx context.Context) ([]SigningKey, error) {
	now := s.time()
	s.signing.mu.Lock()
	keys, fresh := s.signing.keys, now.Sub(s.signing.read) < keyCacheTTL
	s.signing.mu.Unlock()
	if len(keys) > 0 && fresh {
		return keys, nil
	}
	keys, err := s.d.Store.SigningKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	if len(keys) > 0 {
		s.remember(keys, now)
	}
	return keys, nil
}

// unknownKeyEvery bounds how often unknown key ids make the keys be read anew.
const unknownKeyEvery = time.Second

// stale makes the keys be read anew, for a token that names an unknown one:
// another replica may have rotated since. False when they were read just now.
func (s *Service) stale() bool {
	s.signing.mu.Lock()
	defer s.signing.mu.Unlock()
	if s.time().Sub(s.signing.read) < unknownKeyEvery {
		return false
	}
	s.signing.read = time.Time{}
	return true
}

func (s *Service) remember(keys []SigningKey, now time.Time) {
	s.signing.mu.Lock()
	defer s.signing.mu.Unlock()
	s.signing.keys, s.signing.read, s.signing.opened = keys, now, map[string]crypto.Signer{}
}

func (s *Service) private(k SigningKey) (crypto.Signer, error) {
	s.signing.mu.Lock()
	defer s.signing.mu.Unlock()
	if p, ok := s.signing.opened[k.ID]; ok {
		return p, nil
	}
	plain, err := s.d.Keyring.Open("signing key "+k.ID, k.Sealed)
	if err != nil {
		return nil, err
	}
	p, err := privateKey(k.Algorithm, plain)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", k.ID, err)
	}
	if s.signing.opened != nil {
		s.signing.opened[k.ID] = p
	}
	return p, nil
}

// RotateKeys makes the first keys, and afterwards, when the current one is
// old enough: next becomes current, current retires, a new next is published,
// and retired ones that no token can need are forgotten. It is a claim on due
// rows: calling it often or on many replicas does no harm.
func (s *Service) RotateKeys(ctx context.Context) error {
	now := s.time()
	changed := false
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		changed = false
		if err := s.d.Store.LockChanges(ctx); err != nil {
			return err
		}
		keys, err := s.d.Store.SigningKeys(ctx)
		if err != nil {
			return err
		}
		for _, k := range keys {
			did, err := s.retire(ctx, k, now)
			if err != nil {
				return err
			}
			changed = changed || did
		}
		for _, algorithm := range s.cfg.Algorithms {
			did, err := s.rotate(ctx, algorithm, keys, now)
			if err != nil {
				return err
			}
			changed = changed || did
		}
		if !changed {
			return nil
		}
		return s.recordKeys(ctx)
	})
	if err != nil {
		return fmt.Errorf("rotate signing keys: %w", err)
	}
	if changed {
		s.signing.mu.Lock()
		s.signing.read = time.Time{}
		s.signing.mu.Unlock()
	}
	return nil
}

// retire forgets a key that no token can need, and lets one retire whose
// algorithm is not kept any more.
func (s *Service) retire(ctx context.Context, k SigningKey, now time.Time) (bool, error) {
	switch {
	case k.State == KeyRetiring && now.Sub(k.ChangedAt) > 2*s.cfg.AccessTTL:
		return true, s.d.Store.DeleteSigningKey(ctx, k.ID)
	case k.State != KeyRetiring && !slices.Contains(s.cfg.Algorithms, k.Algorithm):
		k.State, k.ChangedAt = KeyRetiring, now
		return true, s.d.Store.PutSigningKey(ctx, k)
	}
	return false, nil
}

// rotate turns the keys of one algorithm, if the current one is old enough.
func (s *Service) rotate(ctx context.Context, algorithm string, keys []SigningKey, now time.Time) (bool, error) {
	byState := map[KeyState]SigningKey{}
	for _, k := range keys {
		if k.Algorithm == algorithm {
			byState[k.State] = k
		}
	}
	current, hasCurrent := byState[KeyCurrent]
	if hasCurrent && now.Sub(current.ChangedAt) < s.cfg.KeyRotation {
		return false, nil
	}
	if hasCurrent {
		current.State, current.ChangedAt = KeyRetiring, now
		if err := s.d.Store.PutSigningKey(ctx, current); err != nil {
			return false, err
		}
	}
	next, hasNext := byState[KeyNext]
	var err error
	if !hasNext {
		if next, err = s.newSigningKey(algorithm, now); err != nil {
			return false, err
		}
	}
	next.State, next.ChangedAt = KeyCurrent, now
	if err := s.d.Store.PutSigningKey(ctx, next); err != nil {
		return false, err
	}
	ahead, err := s.newSigningKey(algorithm, now)
	if err != nil {
		return false, err
	}
	return true, s.d.Store.PutSigningKey(ctx, ahead)
}

// CheckKeys opens all signing keys: a keyring that cannot is not the one that
// the database was filled with.
func (s *Service) CheckKeys(ctx context.Context) error {
	keys, err := s.d.Store.SigningKeys(ctx)
	if err != nil {
		return fmt.Errorf("read signing keys: %w", err)
	}
	for _, k := range keys {
		if _, err := s.private(k); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) recordKeys(ctx context.Context) error {
	s.d.Store.AfterCommit(ctx, s.d.Wake)
	return s.d.Store.Record(ctx, tenant.Change{Kind: "jwks", ID: "jwks"})
}

func (s *Service) sign(ctx context.Context, c claims) (string, error) {
	keys, err := s.keys(ctx)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		if k.State != KeyCurrent || k.Algorithm != s.cfg.Algorithms[0] {
			continue
		}
		private, err := s.private(k)
		if err != nil {
			return "", err
		}
		now, ttl := s.time(), c.TTL
		if ttl == 0 {
			ttl = s.cfg.AccessTTL
		}
		t := jwt.NewWithClaims(jwt.GetSigningMethod(k.Algorithm), wireClaims{TenantID: c.TenantID, SessionID: c.SessionID, ProviderID: c.ProviderID, KeyID: c.KeyID,
			RegisteredClaims: jwt.RegisteredClaims{Issuer: s.cfg.Issuer, Subject: c.Subject, Audience: jwt.ClaimStrings{c.Audience},
				ID: tenant.NewID("jti_", now), IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
				ExpiresAt: jwt.NewNumericDate(now.Add(ttl))}})
		t.Header["kid"], t.Header["typ"] = k.ID, tokenType
		signed, err := t.SignedString(private)
		if err != nil {
			return "", fmt.Errorf("sign token: %w", err)
		}
		return signed, nil
	}
	return "", errs.E(errs.Unavailable, "no signing key yet; try again")
}

// parse proves a token for an audience; an empty one takes both.
func (s *Service) parse(ctx context.Context, text, audience string) (wireClaims, error) {
	var c wireClaims
	options := []jwt.ParserOption{jwt.WithValidMethods([]string{AlgorithmEdDSA, AlgorithmRS256}), jwt.WithIssuer(s.cfg.Issuer),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(s.d.Now), jwt.WithLeeway(5 * time.Second)}
	if audience != "" {
		options = append(options, jwt.WithAudience(audience))
	}
	var failed error // to read the keys: not the token's fault
	_, err := jwt.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		var public crypto.PublicKey
		public, failed = s.publicKey(ctx, t)
		if failed == nil && public == nil {
			return nil, jwt.ErrTokenUnverifiable
		}
		return public, failed
	}, options...)
	switch {
	case failed != nil:
		return c, failed
	case errors.Is(err, jwt.ErrTokenExpired):
		return c, unauthenticated("token_expired", "the access token has expired; refresh it")
	case err != nil:
		return c, unauthenticated("token_invalid", "the access token is malformed, signed by an unknown key, or not for this API")
	}
	return c, nil
}

// publicKey finds the key that a token names, and only by its kid: what else a
// header brings along (jwk, jku, x5u) is never looked at. A key proves by the
// algorithm that it was made for and no other. nil: there is none.
func (s *Service) publicKey(ctx context.Context, t *jwt.Token) (crypto.PublicKey, error) {
	typ, _ := t.Header["typ"].(string)
	kid, _ := t.Header["kid"].(string)
	if _, critical := t.Header["crit"]; typ != tokenType || kid == "" || critical {
		return nil, nil
	}
	for range 2 {
		keys, err := s.keys(ctx)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(keys, func(k SigningKey) bool { return k.ID == kid }); at >= 0 {
			if keys[at].Algorithm != t.Method.Alg() {
				return nil, nil
			}
			return publicKey(keys[at].Algorithm, keys[at].Public), nil
		}
		if !s.stale() {
			return nil, nil
		}
	}
	return nil, nil
}

// Authenticate finds out who a Bearer token belongs to.
func (s *Service) Authenticate(ctx context.Context, token string, from netip.Addr) (*Principal, error) {
	c, err := s.parse(ctx, token, AudienceControl)
	if err != nil {
		return nil, err
	}
	if revoked, err := s.tokenRevoked(ctx, c.ID); err != nil {
		return nil, err
	} else if revoked {
		if c.KeyID != "" {
			return nil, RefusedKey(tenant.APIKey{ID: c.KeyID, TenantID: c.TenantID, OwnerID: c.Subject}, errTokenRevoked)
		}
		return nil, refusedPerson(c.Subject, errTokenRevoked)
	}
	if c.KeyID != "" {
		k, err := s.d.Tenants.KeyByID(ctx, c.KeyID)
		if err != nil {
			return nil, unknownKey(err)
		}
		p, err := s.keyPrincipal(ctx, k, from)
		return p, RefusedKey(k, err)
	}
	return s.sessionPrincipal(ctx, c.SessionID, c.ProviderID, c.TenantID, c.Subject)
}

// StillMay answers whether a caller that was let in before would be let in now
// and may still do what action needs: for requests that last. The token that
// it came with may have run out meanwhile; the session or the key behind it
// may not.
func (s *Service) StillMay(ctx context.Context, p *Principal, action Permission, r Resource, from netip.Addr) error {
	if p.KeyID != "" {
		k, err := s.d.Tenants.KeyByID(ctx, p.KeyID)
		if err != nil {
			return unknownKey(err)
		}
		now, err := s.keyPrincipal(ctx, k, from)
		if err != nil {
			return err
		}
		return MayOn(now, action, r)
	}
	now, err := s.sessionPrincipal(ctx, p.SessionID, p.ProviderID, p.TenantID, p.ID)
	if err != nil {
		return err
	}
	if err := s.Enrolled(ctx, now); err != nil {
		return err
	}
	return MayOn(now, action, r)
}

func (s *Service) sessionPrincipal(ctx context.Context, sessionID, providerID, tenantID, userID tenant.ID) (*Principal, error) {
	live, err := s.live(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	if !live {
		return nil, errBadRefresh
	}
	m, err := s.d.Tenants.Member(ctx, tenantID, userID)
	if err != nil {
		return nil, gone(err)
	}
	if m.Closing {
		return nil, errBadRefresh
	}
	t, err := s.d.Tenants.Tenant(ctx, tenantID)
	if err != nil {
		return nil, gone(err)
	}
	// Asked each time, so that a demand holds at once, for sessions of all kinds.
	if providerID == "" && t.Security.SSORequired && m.Role != tenant.RoleOwner {
		return nil, errSSORequired
	}
	bindings, err := s.d.Tenants.BindingsOf(ctx, tenantID, userID)
	if err != nil {
		return nil, err
	}
	return &Principal{Kind: KindUser, ID: m.UserID, TenantID: m.TenantID, Role: m.Role, SessionID: sessionID, ProviderID: providerID, Name: m.Name,
		needsMFA: t.Security.MFARequired && providerID == "", rights: RightsOf(m.Role, bindings, s.time())}, nil
}

var errBadKey = unauthenticated("key_invalid", "the API key id or its secret is wrong")

func unknownKey(err error) error {
	if errs.Is(err, errs.NotFound) {
		return errBadKey
	}
	return err
}

// checkKey finds the key of an id and compares the secret.
func (s *Service) checkKey(ctx context.Context, id, secret string) (tenant.APIKey, error) {
	k, err := s.d.Tenants.KeyByID(ctx, id)
	if err != nil {
		return k, unknownKey(err)
	}
	want, err := s.d.Tenants.KeySecret(ctx, k)
	if err != nil {
		return k, err
	}
	if subtle.ConstantTimeCompare([]byte(want), []byte(secret)) != 1 {
		return k, RefusedKey(k, errBadKey)
	}
	return k, nil
}

// AuthenticateKey finds out who an API key belongs to. The key needs a
// control role.
func (s *Service) AuthenticateKey(ctx context.Context, id, secret string, from netip.Addr) (*Principal, error) {
	k, err := s.checkKey(ctx, id, secret)
	if err != nil {
		return nil, err
	}
	p, err := s.keyPrincipal(ctx, k, from)
	return p, RefusedKey(k, err)
}

func (s *Service) keyPrincipal(ctx context.Context, k tenant.APIKey, from netip.Addr) (*Principal, error) {
	o, err := s.usable(ctx, k, from)
	if err != nil {
		return nil, err
	}
	if k.ControlRole == "" {
		return nil, errs.E(errs.Forbidden, "API key %s has no control_role: it can send and receive but not use this API", k.ID).WithReason("key_without_role")
	}
	p := &Principal{Kind: o.kind, ID: k.OwnerID, TenantID: k.TenantID, Role: k.ControlRole, KeyID: k.ID, Name: o.name, rights: RightsOf(k.ControlRole, nil, s.time())}
	if p.capped = o.kind == KindUser || o.bound; !p.capped {
		return p, nil
	}
	bindings, err := s.d.Tenants.BindingsOf(ctx, k.TenantID, k.OwnerID)
	p.caps = RightsOf(o.role, bindings, s.time())
	return p, err
}

// keyOwner is who a key belongs to.
type keyOwner struct {
	kind  Kind
	name  string
	role  tenant.Role // of a member
	bound bool        // of a service account
}

// usable checks everything about a key but its secret: state, owner, tenant,
// address.
func (s *Service) usable(ctx context.Context, k tenant.APIKey, from netip.Addr) (o keyOwner, err error) {
	switch k.State(s.time()) {
	case tenant.KeyRevoked:
		return o, unauthenticated("key_revoked", "API key %s was revoked", k.ID)
	case tenant.KeyExpired:
		return o, unauthenticated("key_expired", "API key %s has expired", k.ID)
	case tenant.KeyDisabled:
		return o, unauthenticated("key_disabled", "API key %s is disabled", k.ID)
	case tenant.KeyActive:
	}
	if !k.AllowsAddress(from) {
		return o, errs.E(errs.Forbidden, "API key %s may not be used from address %s", k.ID, from).WithReason("address_not_allowed")
	}
	if len(k.OwnerID) > 3 && k.OwnerID[:3] == tenant.PrefixServiceAccount {
		a, err := s.d.Tenants.ServiceAccount(ctx, k.TenantID, k.OwnerID)
		if err != nil {
			return o, unknownKey(err)
		}
		if a.Disabled {
			return o, unauthenticated("key_disabled", "the service account of API key %s is disabled", k.ID)
		}
		o = keyOwner{kind: KindServiceAccount, name: a.Name, bound: a.Bound}
	} else {
		m, err := s.d.Tenants.Member(ctx, k.TenantID, k.OwnerID)
		if err != nil {
			return o, unknownKey(err)
		}
		if m.Closing {
			return o, unauthenticated("key_disabled", "the owner of API key %s has closed their account", k.ID)
		}
		o = keyOwner{kind: KindUser, name: m.Name, role: m.Role}
	}
	operation, _ := ctx.Value(operationKey{}).(string)
	if err := s.d.Tenants.KeyUsed(ctx, k, tenant.KeyUse{Address: from.Unmap().String(), Operation: operation}); err != nil {
		s.d.Logger.Warn("last use of key not noted", "key", k.ID, "err", err)
	}
	return o, nil
}

// KeyToken is a short JWT for an API key.
type KeyToken struct {
	AccessToken string
	ExpiresIn   time.Duration
	Audience    string
}

// Exchange gives a short JWT for an API key: audience control needs a key
// with a control role, data one with a scope.
func (s *Service) Exchange(ctx context.Context, id, secret, audience string, from netip.Addr) (KeyToken, error) {
	k, err := s.checkKey(ctx, id, secret)
	if err != nil {
		return KeyToken{}, err
	}
	if audience == "" {
		audience = AudienceControl
	}
	return s.tokenOf(ctx, k, audience, s.cfg.AccessTTL, from)
}

// TokenOfKey gives a short JWT for a key whose owner proved by other means who
// they are. It lives ttl, or as long as others if that is shorter.
func (s *Service) TokenOfKey(ctx context.Context, id tenant.ID, audience string, ttl time.Duration, from netip.Addr) (KeyToken, error) {
	k, err := s.d.Tenants.KeyByID(ctx, id)
	if err != nil {
		return KeyToken{}, unknownKey(err)
	}
	return s.tokenOf(ctx, k, audience, min(ttl, s.cfg.AccessTTL), from)
}

// TokenOfOwnKey gives a person who is signed in a short JWT for the message path
// for a key of theirs. NotFound for a key of somebody else.
func (s *Service) TokenOfOwnKey(ctx context.Context, p *Principal, id tenant.ID, from netip.Addr) (KeyToken, error) {
	if err := person(p); err != nil {
		return KeyToken{}, err
	}
	k, err := s.d.Tenants.KeyByID(ctx, id)
	if err == nil && (k.TenantID != p.TenantID || k.OwnerID != p.ID) {
		err = errs.E(errs.NotFound, "you have no API key %s", id)
	}
	if err != nil {
		return KeyToken{}, err
	}
	return s.tokenOf(ctx, k, AudienceData, s.cfg.AccessTTL, from)
}

func (s *Service) tokenOf(ctx context.Context, k tenant.APIKey, audience string, ttl time.Duration, from netip.Addr) (KeyToken, error) {
	var err error
	if audience == AudienceControl {
		_, err = s.keyPrincipal(ctx, k, from)
	} else if _, err = s.usable(ctx, k, from); err == nil && len(k.Scopes) == 0 {
		err = errs.E(errs.Forbidden, "API key %s has no scope: it cannot send or receive", k.ID).WithReason("key_without_scope")
	}
	if err != nil {
		return KeyToken{}, RefusedKey(k, err)
	}
	token, err := s.sign(ctx, claims{Subject: k.OwnerID, TenantID: k.TenantID, KeyID: k.ID, Audience: audience, TTL: ttl})
	return KeyToken{AccessToken: token, ExpiresIn: ttl, Audience: audience}, err
}
