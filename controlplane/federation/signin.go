package federation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/oidc"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// AttemptTTL is how long a sign-in may take.
const AttemptTTL = 10 * time.Minute

// Start says who wants to sign in where.
type Start struct {
	Email    string // its domain finds the provider; the address itself is asked of nobody here
	TenantID tenant.ID
	Fresh    bool   // the provider must ask the person again
	Redirect string // our address that the provider sends the browser back to
}

// Started is a sign-in on its way.
type Started struct {
	URL     string // at the provider
	Browser string // binds the attempt to the browser: only one that shows it may end it
}

// attempt is what is sealed of an Attempt.
type attempt struct {
	oidc.Attempt
	ProviderID tenant.ID `json:"provider_id"`
	Issuer     string    `json:"issuer"`
	ClientID   string    `json:"client_id"`
	Redirect   string    `json:"redirect"`
	Browser    []byte    `json:"browser"` // SHA-256
	Fresh      bool      `json:"fresh"`
}

// errNoSSO is one answer for an unknown tenant, an unknown domain, and one
// without a provider.
var errNoSSO = errs.E(errs.NotFound, "there is no single sign-on for this; sign in with your password, or ask an admin of your tenant").WithReason("sso_not_available")

// Begin begins a sign-in. Whether the address has an account changes nothing:
// nobody is looked up.
func (s *Service) Begin(ctx context.Context, in Start) (Started, error) {
	p, err := s.providerFor(ctx, in)
	if errs.Is(err, errs.NotFound) {
		return Started{}, errNoSSO
	}
	if err != nil {
		return Started{}, err
	}
	m, err := s.d.OIDC.Discover(ctx, p.Issuer)
	if err != nil {
		return Started{}, err
	}
	browser := make([]byte, 32)
	_, _ = rand.Read(browser)
	out := Started{Browser: base64.RawURLEncoding.EncodeToString(browser)}
	a := attempt{Attempt: oidc.NewAttempt(), ProviderID: p.ID, Issuer: p.Issuer, ClientID: p.ClientID, Redirect: in.Redirect, Browser: sum(out.Browser), Fresh: in.Fresh}
	if out.URL, err = m.AuthorizationURL(a.Attempt, p.ClientID, in.Redirect, in.Email, in.Fresh); err != nil {
		return Started{}, err
	}
	plain, err := json.Marshal(a)
	if err != nil {
		return Started{}, fmt.Errorf("encode attempt: %w", err)
	}
	now, hash := s.time(), sum(a.State)
	return out, s.d.Store.AddAttempt(ctx, Attempt{Hash: hash, Sealed: s.d.Sealer.Seal(purpose(hash), plain), CreatedAt: now, ExpiresAt: now.Add(AttemptTTL)})
}

func (s *Service) providerFor(ctx context.Context, in Start) (IdentityProvider, error) {
	if in.Email != "" {
		p, err := s.d.Store.ProviderOfDomain(ctx, domainOf(in.Email))
		if err == nil && !p.Enabled {
			err = errNoSSO
		}
		return p, err
	}
	list, err := s.d.Store.Providers(ctx, in.TenantID, "", tenant.Page{Size: maxProviders})
	if err != nil {
		return IdentityProvider{}, err
	}
	for _, p := range list {
		if p.Enabled {
			return p, nil
		}
	}
	return IdentityProvider{}, errNoSSO
}

func sum(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return h[:]
}

func purpose(hash []byte) string { return fmt.Sprintf("sign-in %x", hash) }

// Callback is what the browser brings back from the provider.
type Callback struct {
	State, Code string
	Error       string // the provider's, when it let nobody in
	Issuer      string // iss (RFC 9207)
	Browser     string // what Begin returned
}

var errState = errs.E(errs.Unauthenticated, "this sign-in was begun in another browser, was finished before, or took longer than %d minutes; begin again",
	int(AttemptTTL.Minutes())).WithReason("sso_state_invalid")

// Finish ends a sign-in: a session in the provider's tenant and in no other.
func (s *Service) Finish(ctx context.Context, in Callback, dev auth.Device) (auth.Grant, error) {
	a, err := s.take(ctx, in)
	if err != nil {
		return auth.Grant{}, err
	}
	if in.Error != "" || in.Code == "" {
		return auth.Grant{}, forbidden("sso_denied", "the identity provider let nobody in; it says why on its own page, or its administrator knows")
	}
	p, err := s.d.Store.ProviderByID(ctx, a.ProviderID)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return auth.Grant{}, err
	}
	if err != nil || !p.Enabled || p.Issuer != a.Issuer || p.ClientID != a.ClientID { // changed meanwhile
		return auth.Grant{}, errNoSSO
	}
	claims, err := s.ask(ctx, p, a, in)
	if err != nil {
		s.d.Logger.WarnContext(ctx, "sign-in at an identity provider failed", "tenant", p.TenantID, "provider", p.ID, "err", err)
		return auth.Grant{}, err
	}
	var g auth.Grant
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		userID, err := s.person(ctx, p, claims)
		if err != nil {
			return err
		}
		proved := claims.AuthTime
		if now := s.time(); proved.IsZero() || proved.After(now) {
			proved = now
		}
		g, err = s.d.Auth.BeginFederated(ctx, p.TenantID, userID, auth.Federated{ProviderID: p.ID, Subject: claims.Subject, SessionID: claims.SessionID, ProvedAt: proved}, dev)
		return err
	})
	return g, err
}

// take uses the attempt up, whatever comes of it.
func (s *Service) take(ctx context.Context, in Callback) (attempt, error) {
	var a attempt
	hash := sum(in.State)
	row, err := s.d.Store.TakeAttempt(ctx, hash)
	if errs.Is(err, errs.NotFound) {
		return a, errState
	}
	if err != nil {
		return a, err
	}
	plain, err := s.d.Sealer.Open(purpose(hash), row.Sealed)
	if err != nil { // the root key that sealed it is gone: it was rotated twice meanwhile
		return a, errState
	}
	if err := json.Unmarshal(plain, &a); err != nil {
		return a, fmt.Errorf("read attempt: %w", err)
	}
	if subtle.ConstantTimeCompare(sum(in.Browser), a.Browser) != 1 || !s.time().Before(row.ExpiresAt) {
		return a, errState
	}
	return a, nil
}

// ask exchanges the code and checks what comes of it.
func (s *Service) ask(ctx context.Context, p IdentityProvider, a attempt, in Callback) (oidc.Claims, error) {
	m, err := s.d.OIDC.Discover(ctx, p.Issuer)
	if err != nil {
		return oidc.Claims{}, err
	}
	if (in.Issuer != "" || m.NamesIssuer) && in.Issuer != p.Issuer {
		return oidc.Claims{}, errs.E(errs.Unauthenticated, "the answer is of another identity provider than the one that was asked").WithReason("identity_token_invalid")
	}
	secret := ""
	if len(p.Sealed) > 0 {
		if secret, err = s.d.Tenants.OpenSecret(ctx, p.TenantID, p.ID, p.Sealed); err != nil {
			return oidc.Claims{}, err
		}
	}
	tokens, err := s.d.OIDC.Code(ctx, m, oidc.Exchange{ClientID: p.ClientID, Secret: secret, Code: in.Code, Verifier: a.Verifier, Redirect: a.Redirect})
	if err != nil {
		return oidc.Claims{}, err
	}
	claims, err := s.d.OIDC.IDToken(ctx, p.Issuer, p.ClientID, a.Nonce, tokens.ID)
	if err != nil {
		return claims, err
	}
	if claims.Subject == "" {
		return claims, errs.E(errs.Unauthenticated, "the identity provider names no subject").WithReason("identity_token_invalid")
	}
	if a.Fresh && s.time().Sub(claims.AuthTime) > AttemptTTL {
		return claims, errs.E(errs.Unauthenticated, "the identity provider did not ask the person again (auth_time)").WithReason("identity_token_invalid")
	}
	return s.d.OIDC.UserInfo(ctx, m, tokens.Access, claims)
}

// errNotMember is one answer for an address with an account elsewhere and one
// without any.
var errNotMember = forbidden("sso_not_member", "the identity provider knows you, but you are no member of this tenant; ask an admin for an invitation")

// person finds out who a subject is, links it, or enrols them; see README.md.
func (s *Service) person(ctx context.Context, p IdentityProvider, c oidc.Claims) (tenant.ID, error) {
	link, err := s.d.Store.Identity(ctx, p.ID, p.Issuer, c.Subject)
	if err == nil {
		_, err := s.member(ctx, p, link.UserID)
		return link.UserID, err
	}
	if !errs.Is(err, errs.NotFound) {
		return "", err
	}
	email := strings.ToLower(strings.TrimSpace(c.Email))
	if email == "" || !c.EmailVerified {
		return "", forbidden("sso_email_unverified", "the identity provider names no verified mail address (email, email_verified), by which you would be found the first time")
	}
	u, err := s.d.Auth.UserByEmail(ctx, email)
	switch {
	case errs.Is(err, errs.NotFound):
		if p.AutoEnrolRole == "" || !p.owns(email) {
			return "", errNotMember
		}
		if u, err = s.d.Auth.EnrolUser(ctx, email, c.Name); err != nil {
			return "", err
		}
		if err := s.d.Tenants.AddMember(ctx, p.TenantID, u.ID, p.AutoEnrolRole); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		if err := s.mayLink(ctx, p, u.ID); err != nil {
			return "", err
		}
	}
	return u.ID, s.d.Store.AddIdentity(ctx, Identity{TenantID: p.TenantID, ProviderID: p.ID, Issuer: p.Issuer, Subject: c.Subject, UserID: u.ID, CreatedAt: s.time()})
}

// member finds a person in the provider's tenant. An owner, also one who was
// linked before they became owner, does not come in by a provider that no owner
// has approved.
func (s *Service) member(ctx context.Context, p IdentityProvider, userID tenant.ID) (tenant.Member, error) {
	m, err := s.d.Tenants.Member(ctx, p.TenantID, userID)
	if err != nil {
		return m, notMember(err)
	}
	if m.Role == tenant.RoleOwner && !p.OwnerApproved {
		return m, forbidden("sso_owner_approval", "you are an owner, and an admin set this identity provider up: an owner must save it once under /v1/identity-providers before owners sign in there")
	}
	return m, nil
}

func (s *Service) mayLink(ctx context.Context, p IdentityProvider, userID tenant.ID) error {
	if _, err := s.member(ctx, p, userID); err != nil {
		return err
	}
	links, err := s.d.Store.IdentitiesOf(ctx, p.TenantID, p.ID, userID)
	if err == nil && len(links) > 0 {
		err = forbidden("sso_subject_changed", "your mail address is linked to another subject of this identity provider, perhaps of somebody who had it before you; an admin can unlink it")
	}
	return err
}

func notMember(err error) error {
	if errs.Is(err, errs.NotFound) {
		return errNotMember
	}
	return err
}

// Logout ends the sessions that a provider's logout token names, at once
// (OpenID Connect Back-Channel Logout 1.0).
func (s *Service) Logout(ctx context.Context, raw string) error {
	issuer, audience := oidc.UnverifiedIssuer(raw)
	refused := errs.E(errs.Unauthenticated, "the logout token is none of an identity provider here").WithReason("identity_token_invalid")
	if issuer == "" || len(audience) == 0 || len(audience) > 10 {
		return refused
	}
	for _, clientID := range audience {
		list, err := s.d.Store.ProvidersOf(ctx, issuer, clientID)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		c, err := s.d.OIDC.LogoutToken(ctx, issuer, clientID, raw)
		if err != nil {
			return err
		}
		ids := make([]tenant.ID, len(list))
		for i, p := range list {
			ids[i] = p.ID
		}
		return s.d.Store.InTx(ctx, func(ctx context.Context) error {
			// Kept for longer than the token can pass its check.
			fresh, err := s.d.Store.Seen(ctx, c.Digest[:], s.time().Add(time.Hour))
			if err != nil {
				return err
			}
			if !fresh { // done before; a provider may repeat what it got no answer for
				return nil
			}
			ended, err := s.d.Auth.EndFederated(ctx, ids, c.Subject, c.SessionID, "provider_logout")
			if err != nil {
				return err
			}
			s.d.Logger.InfoContext(ctx, "an identity provider ended sessions", "providers", ids, "sessions", len(ended))
			return s.d.Auth.NoteEnded(ctx, ended)
		})
	}
	return refused
}
