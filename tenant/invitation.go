package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// InvitationState tells how far an invitation is.
type InvitationState string

// The states of an invitation.
const (
	InvitationPending  InvitationState = "pending"
	InvitationAccepted InvitationState = "accepted"
	InvitationExpired  InvitationState = "expired"
)

// InvitationTTL is how long the link of an invitation works.
const InvitationTTL = 7 * 24 * time.Hour

// Invitation asks the owner of a mail address to become a member. It counts
// against the quota while Open; only the hash of its token is kept.
type Invitation struct {
	TenantID   ID
	ID         ID
	Email      string // lower case
	Role       Role
	Locale     string // of the mail: en or zh
	InvitedBy  ID     // usr_… or sa_…
	TokenHash  []byte
	Open       bool // neither accepted nor known to be expired
	SentAt     time.Time
	ExpiresAt  time.Time
	AcceptedAt *time.Time
	AcceptedBy ID
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Revision   int64
}

// State tells what the invitation is at now.
func (i *Invitation) State(now time.Time) InvitationState {
	switch {
	case i.AcceptedAt != nil:
		return InvitationAccepted
	case !now.Before(i.ExpiresAt):
		return InvitationExpired
	}
	return InvitationPending
}

// InvitationFilter narrows a list of invitations; empty fields do not.
type InvitationFilter struct {
	Email string
	State InvitationState
	Now   time.Time
}

// prefixToken begins the token of an invitation.
const prefixToken = "sli_"

// newInvitationToken makes 256 random bits: it can be looked up by its bare
// hash, since it cannot be guessed.
func newInvitationToken() (token string, hash []byte) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: it stops the process instead
	token = prefixToken + base64.RawURLEncoding.EncodeToString(b)
	return token, hashToken(token)
}

func hashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Invite makes an invitation. The token is returned here and never again. That
// the address has an account elsewhere changes nothing.
func (s *Service) Invite(ctx context.Context, tenantID ID, in Invitation) (Invitation, string, error) {
	if !in.Role.Valid() {
		return in, "", errs.Field("role", "there is no role %q", in.Role)
	}
	now := s.time()
	token, hash := newInvitationToken()
	i := Invitation{TenantID: tenantID, ID: NewID(PrefixInvitation, now), Email: strings.ToLower(strings.TrimSpace(in.Email)), Role: in.Role, Locale: in.Locale,
		InvitedBy: in.InvitedBy, TokenHash: hash, Open: true, SentAt: now, ExpiresAt: now.Add(InvitationTTL), CreatedAt: now, UpdatedAt: now, Revision: 1}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.openInvitations(ctx, tenantID)
		if err != nil {
			return err
		}
		if _, err := s.store.MemberByEmail(ctx, tenantID, i.Email); !errs.Is(err, errs.NotFound) {
			if err == nil {
				err = errs.E(errs.Conflict, "%s is a member already", i.Email).WithReason("already_member")
			}
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaInvitations); err != nil {
			return err
		}
		return taken(s.store.CreateInvitation(ctx, i), "email", "%s is invited already; send that invitation again", i.Email)
	})
	return i, token, err
}

// openInvitations locks the tenant and closes the invitations that have
// expired, so that they count no more.
func (s *Service) openInvitations(ctx context.Context, tenantID ID) (Tenant, error) {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return t, err
	}
	if err := active(t); err != nil {
		return t, err
	}
	n, err := s.store.CloseInvitations(ctx, tenantID, s.time())
	for ; err == nil && n > 0; n-- {
		err = Release(ctx, s.store, t, "", QuotaInvitations)
	}
	return t, err
}

// Invitation returns one invitation.
func (s *Service) Invitation(ctx context.Context, tenantID, id ID) (Invitation, error) {
	return s.store.Invitation(ctx, tenantID, id)
}

// Invitations lists invitations.
func (s *Service) Invitations(ctx context.Context, tenantID ID, f InvitationFilter, p Page) ([]Invitation, error) {
	f.Now, f.Email = s.time(), strings.ToLower(f.Email)
	return s.store.Invitations(ctx, tenantID, f, p)
}

// RenewInvitation makes another token for an invitation that was not accepted;
// the one before works no more.
func (s *Service) RenewInvitation(ctx context.Context, tenantID, id ID, want int64, may func(Invitation) error) (Invitation, string, error) {
	var out Invitation
	var token string
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.openInvitations(ctx, tenantID)
		if err != nil {
			return err
		}
		i, err := s.store.Invitation(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := may(i); err != nil {
			return err
		}
		if err := CheckRevision(want, i.Revision); err != nil {
			return err
		}
		if i.AcceptedAt != nil {
			return errs.E(errs.Conflict, "the invitation was accepted already").WithReason("invitation_accepted")
		}
		if !i.Open {
			if err := s.reserve(ctx, t, "", QuotaInvitations); err != nil {
				return err
			}
		}
		now := s.time()
		token, i.TokenHash = newInvitationToken()
		i.Open, i.SentAt, i.ExpiresAt, i.UpdatedAt, i.Revision = true, now, now.Add(InvitationTTL), now, i.Revision+1
		out = i
		return taken(s.store.UpdateInvitation(ctx, i), "email", "%s has another invitation; send that one again", i.Email)
	})
	return out, token, err
}

// WithdrawInvitation forgets an invitation; its link works no more.
func (s *Service) WithdrawInvitation(ctx context.Context, tenantID, id ID, want int64) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		i, err := s.store.Invitation(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, i.Revision); err != nil {
			return err
		}
		return s.forgetInvitation(ctx, t, i)
	})
}

func (s *Service) forgetInvitation(ctx context.Context, t Tenant, i Invitation) error {
	if err := s.store.DeleteInvitation(ctx, i.TenantID, i.ID); err != nil || !i.Open {
		return err
	}
	return Release(ctx, s.store, t, "", QuotaInvitations)
}

// dropInvitationsOf withdraws what somebody who lost a right has sent: they
// could let in by it whom they may not let in any more.
func (s *Service) dropInvitationsOf(ctx context.Context, t Tenant, by ID) error {
	return each(func(p Page) ([]Invitation, error) {
		return s.store.Invitations(ctx, t.ID, InvitationFilter{State: InvitationPending, Now: s.time()}, p)
	}, func(i Invitation) ID { return i.ID }, func(i Invitation) error {
		if i.InvitedBy != by {
			return nil
		}
		return s.forgetInvitation(ctx, t, i)
	})
}

// InvitationByToken finds the pending invitation of a token, of any tenant. All
// that is wrong with a token gives the same error.
func (s *Service) InvitationByToken(ctx context.Context, token string) (Invitation, Tenant, error) {
	i, err := s.store.InvitationByToken(ctx, hashToken(token))
	if err == nil && i.State(s.time()) != InvitationPending {
		err = errs.E(errs.NotFound, "invitation is over")
	}
	if errs.Is(err, errs.NotFound) {
		return i, Tenant{}, errBadInvitation
	}
	if err != nil {
		return i, Tenant{}, err
	}
	t, err := s.store.Tenant(ctx, i.TenantID)
	return i, t, err
}

var errBadInvitation = errs.E(errs.Unauthenticated, "the link is wrong, has expired, was used or was withdrawn; ask for another invitation").WithReason("invitation_invalid")

// AcceptInvitation makes a user a member, by an invitation that
// InvitationByToken returned. Of two that accept it one goes through.
func (s *Service) AcceptInvitation(ctx context.Context, i Invitation, userID ID) (Member, error) {
	now := s.time()
	m := Member{TenantID: i.TenantID, UserID: userID, Role: i.Role, Email: i.Email, CreatedAt: now, UpdatedAt: now, Revision: 1}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.openInvitations(ctx, i.TenantID)
		if err != nil {
			return err
		}
		have, err := s.store.Invitation(ctx, i.TenantID, i.ID)
		if errs.Is(err, errs.NotFound) || err == nil && (have.Revision != i.Revision || have.State(now) != InvitationPending) {
			return errBadInvitation
		}
		if err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaMembers); err != nil {
			return err
		}
		if err := taken(s.store.CreateMember(ctx, m), "email", "%s is a member already", i.Email); err != nil {
			return err
		}
		have.AcceptedAt, have.AcceptedBy, have.Open, have.UpdatedAt, have.Revision = &now, userID, false, now, have.Revision+1
		if err := s.store.UpdateInvitation(ctx, have); err != nil {
			return err
		}
		return Release(ctx, s.store, t, "", QuotaInvitations)
	})
	return m, err
}
