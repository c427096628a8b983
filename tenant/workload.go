package tenant

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicemq/sluice/internal/errs"
)

// WorkloadIdentity lets programs that another issuer vouches for act for a
// service account: they show a token of theirs and get a short one of ours.
//
// What they may do is that of an API key whose secret nobody ever learns, so
// that brokers and the API decide about these tokens as about any others:
// switching the identity off or deleting it does the same to the key, and with
// it ends tokens and connections.
type WorkloadIdentity struct {
	TenantID         ID
	ID               ID
	Name             string
	Issuer           string
	Audience         string            // aud that tokens must be for
	Subject          string            // sub of tokens: one, or a beginning with * at its end
	Conditions       map[string]string // claims that tokens must have, as Subject
	ServiceAccountID ID
	KeyID            ID
	ControlRole      Role
	Scopes           []Scope
	MaxTTL           time.Duration // of our tokens
	Disabled         bool
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Revision         int64
}

// WorkloadUpdate is what to change of a workload identity; nil means as it is.
type WorkloadUpdate struct {
	Name       *string
	Issuer     *string
	Audience   *string
	Subject    *string
	Conditions map[string]string
	Scopes     *[]Scope
	MaxTTL     *time.Duration
	Disabled   *bool
}

// Bounds of workload identities.
const (
	MinWorkloadTTL = time.Minute
	MaxWorkloadTTL = 15 * time.Minute

	maxConditions  = 20
	maxClaimText   = 255
	prefixWorkload = "wid_"
)

// CreateWorkload makes a workload identity and the key that carries its rights,
// which counts as any key does.
func (s *Service) CreateWorkload(ctx context.Context, tenantID ID, in WorkloadIdentity) (WorkloadIdentity, error) {
	now := s.time()
	w := in
	w.TenantID, w.ID, w.CreatedAt, w.UpdatedAt, w.Revision = tenantID, NewID(prefixWorkload, now), now, now, 1
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		if err := checkWorkload(w); err != nil {
			return err
		}
		if _, err := s.store.ServiceAccount(ctx, tenantID, w.ServiceAccountID); err != nil {
			return missing(err, "service_account_id", "service account %q does not exist", w.ServiceAccountID)
		}
		k, _, err := s.createKey(ctx, APIKey{TenantID: tenantID, ID: NewKeyID(), OwnerID: w.ServiceAccountID, Name: w.Name, Scopes: w.Scopes, ControlRole: w.ControlRole,
			Disabled: w.Disabled, WorkloadID: w.ID, CreatedAt: now, UpdatedAt: now, Revision: 1, Status: Status{Phase: PhasePending}}, "")
		if err != nil {
			return err
		}
		w.KeyID = k.ID
		return taken(s.store.CreateWorkload(ctx, w), "name", "workload identity %q exists already", w.Name)
	})
	return w, err
}

// Workload returns one workload identity.
func (s *Service) Workload(ctx context.Context, tenantID, id ID) (WorkloadIdentity, error) {
	return s.store.Workload(ctx, tenantID, id)
}

// Workloads lists workload identities; name narrows to exactly that one.
func (s *Service) Workloads(ctx context.Context, tenantID ID, name string, p Page) ([]WorkloadIdentity, error) {
	return s.store.Workloads(ctx, tenantID, name, p)
}

// WorkloadByID finds a workload identity of any tenant: for authentication only.
func (s *Service) WorkloadByID(ctx context.Context, id ID) (WorkloadIdentity, error) {
	return s.store.WorkloadByID(ctx, id)
}

// UpdateWorkload changes a workload identity. Brokers hear of another scope, and
// of one that is switched off, as of a change of any key.
func (s *Service) UpdateWorkload(ctx context.Context, tenantID, id ID, u WorkloadUpdate, want int64) (WorkloadIdentity, error) {
	var out WorkloadIdentity
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		w, err := s.store.Workload(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, w.Revision); err != nil {
			return err
		}
		set(&w.Name, u.Name)
		set(&w.Issuer, u.Issuer)
		set(&w.Audience, u.Audience)
		set(&w.Subject, u.Subject)
		set(&w.Scopes, u.Scopes)
		set(&w.MaxTTL, u.MaxTTL)
		set(&w.Disabled, u.Disabled)
		if u.Conditions != nil {
			w.Conditions = u.Conditions
		}
		if err := checkWorkload(w); err != nil {
			return err
		}
		w.UpdatedAt, w.Revision = s.time(), w.Revision+1
		if err := taken(s.store.UpdateWorkload(ctx, w), "name", "workload identity %q exists already", w.Name); err != nil {
			return err
		}
		out = w
		return s.followWorkload(ctx, w, u)
	})
	return out, err
}

func (s *Service) followWorkload(ctx context.Context, w WorkloadIdentity, u WorkloadUpdate) error {
	if u.Name == nil && u.Scopes == nil && u.Disabled == nil {
		return nil
	}
	k, err := s.store.Key(ctx, w.TenantID, w.KeyID)
	if err != nil {
		return err
	}
	k.Name, k.Scopes, k.Disabled = w.Name, w.Scopes, w.Disabled
	if len(k.Scopes) == 0 && k.ControlRole == "" {
		return errs.Field("scopes", "a workload identity needs at least one scope or a control_role")
	}
	if err := s.checkKey(ctx, k); err != nil {
		return err
	}
	return s.touchKey(ctx, k)
}

// DeleteWorkload forgets a workload identity; its tokens end.
func (s *Service) DeleteWorkload(ctx context.Context, tenantID, id ID, want int64) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		w, err := s.store.Workload(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, w.Revision); err != nil {
			return err
		}
		k, err := s.store.Key(ctx, tenantID, w.KeyID)
		if err == nil {
			err = s.deleteKey(ctx, t, k)
		}
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		return s.store.DeleteWorkload(ctx, tenantID, id)
	})
}

// managed refuses to change a key that a workload identity manages.
func managed(k APIKey) error {
	if k.WorkloadID == "" {
		return nil
	}
	return errs.E(errs.Conflict, "key %s carries the rights of workload identity %s; change or delete that", k.ID, k.WorkloadID).WithReason("key_managed")
}

var claimName = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,100}$`)

func checkWorkload(w WorkloadIdentity) error {
	if err := CheckName("name", w.Name); err != nil {
		return err
	}
	if w.MaxTTL < MinWorkloadTTL || w.MaxTTL > MaxWorkloadTTL {
		e := errs.Field("max_ttl", "max_ttl must be %s to %s", MinWorkloadTTL, MaxWorkloadTTL)
		e.Limit = MinWorkloadTTL.String() + " to " + MaxWorkloadTTL.String()
		return e
	}
	if err := claimText("audience", w.Audience); err != nil {
		return err
	}
	if err := claimPattern("subject", w.Subject); err != nil {
		return err
	}
	if len(w.Conditions) > maxConditions {
		e := errs.Field("conditions", "at most %d conditions", maxConditions)
		e.Limit = fmt.Sprint(maxConditions)
		return e
	}
	for name, pattern := range w.Conditions {
		if !claimName.MatchString(name) {
			return errs.Field("conditions", "%q is no name of a claim", errs.Clip(name, 100))
		}
		if err := claimPattern("conditions."+name, pattern); err != nil {
			return err
		}
	}
	return nil
}

func claimText(field, text string) error {
	if text == "" || len(text) > maxClaimText || !utf8.ValidString(text) || strings.ContainsFunc(text, control) {
		e := errs.Field(field, "%s must have 1 to %d bytes and no control characters", field, maxClaimText)
		e.Limit = fmt.Sprint(maxClaimText)
		return e
	}
	return nil
}

// claimPattern refuses what fits everybody: an issuer such as a public build
// service vouches for programs of all its customers.
func claimPattern(field, pattern string) error {
	if err := claimText(field, pattern); err != nil {
		return err
	}
	if rest := strings.TrimSuffix(pattern, "*"); rest == "" || strings.Contains(rest, "*") {
		return errs.Field(field, "%s: give a value, or a beginning of one with * at its end; * alone would let everybody in for whom the issuer vouches", field)
	}
	return nil
}
