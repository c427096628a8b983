package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Grant is a fresh access token with the refresh token to get the next.
type Grant struct {
	AccessToken   string
	ExpiresIn     time.Duration
	RefreshToken  string
	RefreshExpiry time.Time
	UserID        tenant.ID
	TenantID      tenant.ID
}

const refreshPrefix = "slr_"

func newRefresh() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(b)
}

func hashRefresh(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

var errBadSignIn = unauthenticated("credentials_invalid", "the mail address or the password is wrong")

// SignedIn is the outcome of a right password: a session, or a second factor is
// awaited.
type SignedIn struct {
	Grant   Grant
	Awaited *Awaited
}

// SignIn begins a session. A wrong address and a wrong password cost the same
// time and give the same error.
func (s *Service) SignIn(ctx context.Context, email, password string, dev Device) (SignedIn, error) {
	u, err := s.d.Store.UserByEmail(ctx, CleanEmail(email))
	if err != nil && !errs.Is(err, errs.NotFound) {
		return SignedIn{}, err
	}
	ok, err := s.hasher.verify(ctx, u.PasswordHash, password)
	if err != nil {
		return SignedIn{}, err
	}
	if !ok {
		return SignedIn{}, refusedPerson(u.ID, errBadSignIn)
	}
	var out SignedIn
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		out = SignedIn{}
		u, err := s.unchanged(ctx, u, errBadSignIn)
		if err != nil {
			return err
		}
		if out.Awaited, err = s.challenge(ctx, u, dev.Site, challengeData{}); err != nil || out.Awaited != nil {
			return err
		}
		out.Grant, err = s.enter(ctx, u, dev)
		return err
	})
	return out, refusedPerson(u.ID, err)
}

// unchanged reads a user whose password was checked outside of the transaction
// of ctx, and locks the row: what a new password or a first second factor ends,
// it ends before or after. changed is the error when there is another password
// by now.
func (s *Service) unchanged(ctx context.Context, checked User, changed error) (User, error) {
	u, err := s.d.Store.User(ctx, checked.ID)
	if err == nil && u.PasswordHash != checked.PasswordHash {
		err = changed
	}
	return u, err
}

// enter begins a session in the first tenant of a user who proved who they
// are, in the transaction of ctx.
func (s *Service) enter(ctx context.Context, u User, dev Device) (Grant, error) {
	u, err := s.d.Store.User(ctx, u.ID) // as it is now, and locked: closing the account waits or has been
	if err != nil {
		return Grant{}, err
	}
	if err := s.open(u); err != nil {
		return Grant{}, err
	}
	tenants, err := s.d.Store.TenantsOf(ctx, u.ID)
	if err != nil {
		return Grant{}, err
	}
	if len(tenants) == 0 {
		return Grant{}, errs.E(errs.Forbidden, "your account belongs to no tenant any more").WithReason("no_tenant")
	}
	if tenants, err = s.opened(ctx, u.ID, tenants); err != nil {
		return Grant{}, err
	}
	if err := s.d.Store.SignedIn(ctx, u.ID, s.time()); err != nil {
		return Grant{}, err
	}
	ses, g, err := s.begin(ctx, u, tenants[0], dev)
	if err != nil {
		return Grant{}, err
	}
	return g, s.acted(ctx, Act{UserID: u.ID, TargetType: "session", TargetID: ses.ID})
}

func (s *Service) newSession(u User, tenantID tenant.ID, dev Device) Session {
	now := s.time()
	return Session{ID: tenant.NewID(tenant.PrefixSession, now), UserID: u.ID, TenantID: tenantID, UserAgent: cut(dev.UserAgent, 255),
		Address: cut(dev.Address, 64), CreatedAt: now, LastUsedAt: now, AuthenticatedAt: now, ExpiresAt: now.Add(s.cfg.SessionTTL)}
}

func (s *Service) begin(ctx context.Context, u User, tenantID tenant.ID, dev Device) (Session, Grant, error) {
	return s.beginAs(ctx, u, tenantID, dev, s.time())
}

// beginAs is begin for a person who proved who they are at a time.
func (s *Service) beginAs(ctx context.Context, u User, tenantID tenant.ID, dev Device, proved time.Time) (Session, Grant, error) {
	ses := s.newSession(u, tenantID, dev)
	ses.AuthenticatedAt = proved
	if err := s.d.Store.CreateSession(ctx, ses); err != nil {
		return ses, Grant{}, err
	}
	g, err := s.grant(ctx, ses)
	return ses, g, err
}

func cut(text string, n int) string {
	r := []rune(text)
	if len(r) > n {
		return string(r[:n])
	}
	return string(r)
}

func (s *Service) grant(ctx context.Context, ses Session) (Grant, error) {
	now := s.time()
	refresh := newRefresh()
	t := RefreshToken{Hash: hashRefresh(refresh), SessionID: ses.ID, CreatedAt: now, ExpiresAt: ses.ExpiresAt}
	if err := s.d.Store.AddRefresh(ctx, t); err != nil {
		return Grant{}, err
	}
	access, err := s.sign(ctx, claims{Subject: ses.UserID, TenantID: ses.TenantID, SessionID: ses.ID, ProviderID: ses.Federated.ProviderID, Audience: AudienceControl})
	if err != nil {
		return Grant{}, err
	}
	return Grant{AccessToken: access, ExpiresIn: s.cfg.AccessTTL, RefreshToken: refresh, RefreshExpiry: ses.ExpiresAt,
		UserID: ses.UserID, TenantID: ses.TenantID}, nil
}

var errBadRefresh = unauthenticated("session_invalid", "the session has ended; sign in again")

// Refresh exchanges a refresh token for a new grant. A token works once. One
// that was used before has been copied: the whole session ends.
func (s *Service) Refresh(ctx context.Context, refresh string) (Grant, error) {
	hash := hashRefresh(refresh)
	t, err := s.d.Store.Refresh(ctx, hash)
	if errs.Is(err, errs.NotFound) {
		return Grant{}, errBadRefresh
	}
	if err != nil {
		return Grant{}, err
	}
	var g Grant
	replayed := t.UsedAt != nil
	if !replayed {
		err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
			ses, err := s.d.Store.Session(ctx, t.SessionID)
			if err != nil {
				return err
			}
			now := s.time()
			if ses.RevokedAt != nil || !now.Before(t.ExpiresAt) || !now.Before(ses.ExpiresAt) {
				return errBadRefresh
			}
			if _, err := s.d.Tenants.Member(ctx, ses.TenantID, ses.UserID); err != nil {
				return gone(err)
			}
			if ses.Federated.ProviderID == "" {
				if err := s.passwordOpens(ctx, ses.TenantID, ses.UserID); err != nil {
					return err
				}
			}
			first, err := s.d.Store.UseRefresh(ctx, hash, now)
			if err != nil {
				return err
			}
			if replayed = !first; replayed {
				return errBadRefresh
			}
			if err := s.d.Store.UseSession(ctx, ses.ID, now); err != nil {
				return err
			}
			g, err = s.grant(ctx, ses)
			return err
		})
	}
	if replayed {
		s.d.Logger.Warn("refresh token used twice: session ended", "session", t.SessionID)
		err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
			return s.endOwn(ctx, t.SessionID, "refresh_reused", "refresh_reused")
		})
		if err != nil {
			return Grant{}, err
		}
		return Grant{}, unauthenticated("refresh_reused", "this refresh token was used before; the session has been ended, sign in again")
	}
	return g, err
}

func gone(err error) error {
	if errs.Is(err, errs.NotFound) {
		return errBadRefresh
	}
	return err
}

// SignOut ends the session of a refresh token; unknown ones are ignored.
func (s *Service) SignOut(ctx context.Context, refresh string) error {
	t, err := s.d.Store.Refresh(ctx, hashRefresh(refresh))
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(ctx context.Context) error { return s.endOwn(ctx, t.SessionID, "sign_out", "") })
}

// endOwn ends the session of a refresh token, and keeps that it was, or why
// somebody was refused; one that has ended before is left as it is. In the
// transaction of ctx.
func (s *Service) endOwn(ctx context.Context, id tenant.ID, reason, refused string) error {
	ses, err := s.d.Store.Session(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return nil // of an account that was erased
	}
	if err != nil {
		return err
	}
	if err := s.endSession(ctx, id, reason); err != nil || ses.RevokedAt != nil {
		return err
	}
	return s.acted(ctx, Act{UserID: ses.UserID, TenantID: federatedTenant(ses), TargetType: "session", TargetID: id, Refused: refused})
}

// federatedTenant is the only tenant that a session of an identity provider
// concerns.
func federatedTenant(ses Session) tenant.ID {
	if ses.Federated.ProviderID == "" {
		return ""
	}
	return ses.TenantID
}

// live reports whether a session may be used; the cache is asked first.
func (s *Service) live(ctx context.Context, id tenant.ID) (bool, error) {
	if live, known := s.d.Revocations.Live(ctx, id); known {
		return live, nil
	}
	ses, err := s.d.Store.Session(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if ses.RevokedAt != nil || !s.time().Before(ses.ExpiresAt) {
		s.d.Revocations.SetRevoked(ctx, id)
		return false, nil
	}
	s.d.Revocations.SetLive(ctx, id)
	return true, nil
}
