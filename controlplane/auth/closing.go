package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// closingTime is how long an account that its person closed can be reopened.
const closingTime = 7 * 24 * time.Hour

// Closing is what comes of closing an account.
type Closing struct {
	EraseAt time.Time
	Tenants []Membership // that stop at once, and are closed with it
}

// ClosingStore is the part of Store about accounts that are closed.
type ClosingStore interface {
	// DueErasures lists users that are to be erased at a time, longest due
	// first, at most limit.
	DueErasures(ctx context.Context, at time.Time, limit int) ([]tenant.ID, error)
	// EraseUser forgets a person, who is a member nowhere: their row, factors,
	// identities, sessions, and codes for their mail address.
	EraseUser(ctx context.Context, u User) error
	// ForgetProviders forgets the identity providers of a tenant that is closed,
	// so that its domains can be claimed by another.
	ForgetProviders(ctx context.Context, tenantID tenant.ID) error
}

// Closer ends a tenant without members for good, with all that it has.
type Closer interface {
	Close(ctx context.Context, tenantID tenant.ID) error
}

// AccountEvent is what a mail about closing an account tells of.
type AccountEvent string

// What people are told about closing their account.
const (
	AccountClosing  AccountEvent = "closing"
	AccountReopened AccountEvent = "reopened"
	AccountErased   AccountEvent = "erased"
)

// CloseAccount begins to close the account of the person behind p: all their
// sessions end, their keys stop everywhere, and so do tenants that have nobody
// else. Nothing is lost until Closing.EraseAt; Reopen undoes all of it. Where
// others would be left without an owner it is refused.
func (s *Service) CloseAccount(ctx context.Context, p *Principal, want int64) (Closing, error) {
	if err := person(p); err != nil {
		return Closing{}, err
	}
	var out Closing
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		out = Closing{}
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, u.Revision); err != nil {
			return err
		}
		now := s.time()
		out.EraseAt = now.Add(closingTime)
		u.EraseAt, u.UpdatedAt, u.Revision = &out.EraseAt, now, u.Revision+1
		if err := s.d.Store.UpdateUser(ctx, u); err != nil {
			return err
		}
		if out.Tenants, err = s.stopTenants(ctx, p.TenantID, u.ID); err != nil {
			return err
		}
		if _, err := s.endSessions(ctx, u.ID, "", "account_closing"); err != nil {
			return err
		}
		s.tellAccount(ctx, u, AccountClosing)
		return nil
	})
	return out, err
}

// stopTenants stops in all tenants what belongs to a user who closes their
// account, and returns those that stop as a whole. current is the one whose
// audit trail the caller keeps.
func (s *Service) stopTenants(ctx context.Context, current, userID tenant.ID) ([]Membership, error) {
	list, err := s.membershipsByID(ctx, userID)
	if err != nil {
		return nil, err
	}
	var orphans []string
	for _, m := range list {
		err := s.d.Tenants.BeginClosing(ctx, m.TenantID, userID)
		if reasonOf(err) == "last_owner" {
			orphans = append(orphans, fmt.Sprintf("%q (%s)", m.Name, m.TenantID))
			continue
		}
		if err == nil && m.TenantID != current {
			err = s.d.Audited(ctx, m.TenantID, userID, "deleteMe")
		}
		if err != nil {
			return nil, err
		}
	}
	if len(orphans) > 0 {
		return nil, errs.E(errs.Conflict, "others belong to tenants whose only owner you are: %s; make somebody else owner there, or remove the other members, then close your account",
			strings.Join(orphans, ", ")).WithReason("last_owner")
	}
	var stopped []Membership
	after, err := s.d.Store.Memberships(ctx, userID)
	for _, m := range after {
		if m.State == tenant.StateClosing {
			stopped = append(stopped, m)
		}
	}
	return stopped, err
}

// membershipsByID lists the tenants of a user in the order in which all lock
// them.
func (s *Service) membershipsByID(ctx context.Context, userID tenant.ID) ([]Membership, error) {
	list, err := s.d.Store.Memberships(ctx, userID)
	slices.SortFunc(list, func(a, b Membership) int { return strings.Compare(a.TenantID, b.TenantID) })
	return list, err
}

func reasonOf(err error) string {
	var e *errs.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// open refuses a person who closes their account: they may reopen it, and
// nothing else. Once it is due to be erased it is as good as gone.
func (s *Service) open(u User) error {
	if u.EraseAt == nil {
		return nil
	}
	if !s.time().Before(*u.EraseAt) {
		return errBadSignIn
	}
	return errs.E(errs.Forbidden, "you closed this account; it is erased at %s. Until then POST /v1/auth/reopen, with your mail address and password, brings it back as it was",
		u.EraseAt.Format(time.RFC3339)).WithReason("account_closing")
}

// Reopen undoes CloseAccount and signs the person in; with a second factor
// SignInMFA does. A wrong address and a wrong password cost the same time and
// give the same error.
func (s *Service) Reopen(ctx context.Context, email, password string, dev Device) (SignedIn, error) {
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
		if out.Awaited, err = s.challenge(ctx, u, dev.Site, challengeData{Reopens: true}); err != nil || out.Awaited != nil {
			return err
		}
		out.Grant, err = s.reopen(ctx, u.ID, dev)
		return err
	})
	return out, refusedPerson(u.ID, err)
}

// reopen brings the account of a person who proved who they are back, in the
// transaction of ctx.
func (s *Service) reopen(ctx context.Context, userID tenant.ID, dev Device) (Grant, error) {
	u, err := s.d.Store.User(ctx, userID)
	if err != nil {
		return Grant{}, err
	}
	if u.EraseAt == nil {
		return Grant{}, errs.E(errs.Conflict, "this account is not closed: sign in").WithReason("account_open")
	}
	if !s.time().Before(*u.EraseAt) {
		return Grant{}, errBadSignIn
	}
	u.EraseAt, u.UpdatedAt, u.Revision = nil, s.time(), u.Revision+1
	if err := s.d.Store.UpdateUser(ctx, u); err != nil {
		return Grant{}, err
	}
	list, err := s.membershipsByID(ctx, u.ID)
	if err != nil {
		return Grant{}, err
	}
	for _, m := range list {
		if err := s.d.Tenants.EndClosing(ctx, m.TenantID, u.ID); err != nil {
			return Grant{}, err
		}
		if err := s.d.Audited(ctx, m.TenantID, u.ID, "reopenAccount"); err != nil {
			return Grant{}, err
		}
	}
	s.tellAccount(ctx, u, AccountReopened)
	return s.enter(ctx, u, dev)
}

// erasuresAtOnce bounds one run of EraseDue.
const erasuresAtOnce = 100

// EraseDue erases the people whose time to reopen is over, each in a
// transaction that claims them: any number of replicas may run it at a time.
func (s *Service) EraseDue(ctx context.Context) error {
	ids, err := s.d.Store.DueErasures(ctx, s.time(), erasuresAtOnce)
	if err != nil {
		return fmt.Errorf("find accounts to erase: %w", err)
	}
	var failed []error
	for _, id := range ids {
		if err := s.erase(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("erase account %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Service) erase(ctx context.Context, id tenant.ID) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, id) // locks the row
		if errs.Is(err, errs.NotFound) || err == nil && (u.EraseAt == nil || s.time().Before(*u.EraseAt)) {
			return nil // another replica was faster, or the person
		}
		if err != nil {
			return err
		}
		list, err := s.membershipsByID(ctx, id)
		if err != nil {
			return err
		}
		for _, m := range list {
			if err := s.eraseFrom(ctx, m.TenantID, id); err != nil {
				return fmt.Errorf("tenant %s: %w", m.TenantID, err)
			}
		}
		if err := s.d.Store.EraseUser(ctx, u); err != nil {
			return err
		}
		s.tellAccount(ctx, u, AccountErased)
		return nil
	})
}

func (s *Service) eraseFrom(ctx context.Context, tenantID, userID tenant.ID) error {
	empty, err := s.d.Tenants.EraseMember(ctx, tenantID, userID)
	if err != nil {
		return err
	}
	if err := s.d.Audited(ctx, tenantID, userID, "eraseAccount"); err != nil || !empty {
		return err
	}
	if err := s.d.Closer.Close(ctx, tenantID); err != nil {
		return err
	}
	return s.d.Store.ForgetProviders(ctx, tenantID)
}

// tellAccount mails a person after the commit.
func (s *Service) tellAccount(ctx context.Context, u User, event AccountEvent) {
	until := ""
	if u.EraseAt != nil {
		until = u.EraseAt.UTC().Format("2006-01-02 15:04 UTC")
	}
	s.d.Store.AfterCommit(ctx, func() {
		if err := s.d.Mailer.AccountChanged(context.WithoutCancel(ctx), u.Email, u.Locale, string(event), until); err != nil {
			s.d.Logger.Warn("mail about a closed account not sent", "user", u.ID, "event", event, "err", err)
		}
	})
}
