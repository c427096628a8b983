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

// Store is what Service asks of a database. Every method takes part in the
// transaction that its context carries. A missing row, or one of another
// tenant, is NotFound; a name that is taken is Conflict; an update of a row
// whose revision is not the one given is PreconditionFailed.
type Store interface {
	InTx(ctx context.Context, fn func(ctx context.Context) error) error
	AfterCommit(ctx context.Context, f func())
	// Record appends to the outbox.
	Record(ctx context.Context, c Change) error

	CreateTenant(ctx context.Context, t Tenant) error
	Tenant(ctx context.Context, tenantID ID) (Tenant, error)
	// UpdateTenant writes t where the revision is t.Revision-1; the other
	// updates do the same.
	UpdateTenant(ctx context.Context, t Tenant) error

	CreateMember(ctx context.Context, m Member) error
	Member(ctx context.Context, tenantID, userID ID) (Member, error)
	Members(ctx context.Context, tenantID ID, p Page) ([]Member, error)
	UpdateMember(ctx context.Context, m Member) error
	DeleteMember(ctx context.Context, tenantID, userID ID) error
	// OwnersBesides counts the members with the role owner that are not userID
	// and do not close their accounts.
	OwnersBesides(ctx context.Context, tenantID, userID ID) (int64, error)

	MemberByEmail(ctx context.Context, tenantID ID, email string) (Member, error)

	CreateInvitation(ctx context.Context, i Invitation) error
	Invitation(ctx context.Context, tenantID, id ID) (Invitation, error)
	Invitations(ctx context.Context, tenantID ID, f InvitationFilter, p Page) ([]Invitation, error)
	// InvitationByToken finds an invitation of any tenant.
	InvitationByToken(ctx context.Context, hash []byte) (Invitation, error)
	UpdateInvitation(ctx context.Context, i Invitation) error
	DeleteInvitation(ctx context.Context, tenantID, id ID) error
	// CloseInvitations makes those that expired before at no longer Open and
	// returns how many these were.
	CloseInvitations(ctx context.Context, tenantID ID, at time.Time) (int64, error)

	CreateRole(ctx context.Context, r CustomRole) error
	Role(ctx context.Context, tenantID, id ID) (CustomRole, error)
	Roles(ctx context.Context, tenantID ID, p Page) ([]CustomRole, error)
	UpdateRole(ctx context.Context, r CustomRole) error
	DeleteRole(ctx context.Context, tenantID, id ID) error

	CreateBinding(ctx context.Context, b Binding) error
	// Binding and BindingsOf fill in the permissions of custom roles, Bindings
	// does not.
	Binding(ctx context.Context, tenantID, id ID) (Binding, error)
	BindingsOf(ctx context.Context, tenantID, principalID ID) ([]Binding, error)
	Bindings(ctx context.Context, tenantID ID, f BindingFilter, p Page) ([]Binding, error)
	CountBindings(ctx context.Context, tenantID ID, role string) (int64, error)
	UpdateBinding(ctx context.Context, b Binding) error
	DeleteBinding(ctx context.Context, tenantID, id ID) error

	CreateServiceAccount(ctx context.Context, a ServiceAccount) error
	ServiceAccount(ctx context.Context, tenantID, id ID) (ServiceAccount, error)
	ServiceAccounts(ctx context.Context, tenantID ID, name string, p Page) ([]ServiceAccount, error)
	UpdateServiceAccount(ctx context.Context, a ServiceAccount) error
	DeleteServiceAccount(ctx context.Context, tenantID, id ID) error

	CreateNamespace(ctx context.Context, n Namespace) error
	Namespace(ctx context.Context, tenantID, id ID) (Namespace, error)
	Namespaces(ctx context.Context, tenantID ID, name string, p Page) ([]Namespace, error)
	UpdateNamespace(ctx context.Context, n Namespace) error
	// NamespaceObjects counts the topics and groups that users see in it.
	NamespaceObjects(ctx context.Context, tenantID, id ID) (topics, groups int64, err error)

	CreateKey(ctx context.Context, k APIKey) error
	Key(ctx context.Context, tenantID, id ID) (APIKey, error)
	Keys(ctx context.Context, tenantID ID, f KeyFilter, p Page) ([]APIKey, error)
	UpdateKey(ctx context.Context, k APIKey) error
	// KeyByID finds a key of any tenant, a deleted one too.
	KeyByID(ctx context.Context, id ID) (APIKey, error)
	// TouchKey writes the last use, unless a later one is known.
	TouchKey(ctx context.Context, tenantID, id ID, use KeyUse) error
	// KeysByFingerprint finds keys of all tenants by their secret.
	KeysByFingerprint(ctx context.Context, fingerprint []byte) ([]APIKey, error)
	// KeysWithoutFingerprint lists keys of all tenants from before there were
	// fingerprints.
	KeysWithoutFingerprint(ctx context.Context, after ID, limit int) ([]APIKey, error)
	SetFingerprint(ctx context.Context, tenantID, id ID, fingerprint []byte) error
	AddLeakReport(ctx context.Context, r LeakReport) error
	LeakReports(ctx context.Context, limit int) ([]LeakReport, error)
	// TakeLeakReport reports whether this call removed it.
	TakeLeakReport(ctx context.Context, id ID) (bool, error)

	CreateWorkload(ctx context.Context, w WorkloadIdentity) error
	// The reads of workload identities but WorkloadByID and WorkloadsOf fill in what their keys may.
	Workload(ctx context.Context, tenantID, id ID) (WorkloadIdentity, error)
	Workloads(ctx context.Context, tenantID ID, name string, p Page) ([]WorkloadIdentity, error)
	WorkloadsOf(ctx context.Context, tenantID, serviceAccountID ID, p Page) ([]WorkloadIdentity, error)
	WorkloadByID(ctx context.Context, id ID) (WorkloadIdentity, error)
	UpdateWorkload(ctx context.Context, w WorkloadIdentity) error
	DeleteWorkload(ctx context.Context, tenantID, id ID) error

	CreateRule(ctx context.Context, r Rule) error
	Rule(ctx context.Context, tenantID, namespaceID, id ID) (Rule, error)
	Rules(ctx context.Context, tenantID, namespaceID ID, f RuleFilter, p Page) ([]Rule, error)
	UpdateRule(ctx context.Context, r Rule) error

	// Reserve takes n of a quota if they fit under limit (or under the row's
	// own limit), in one statement. When they do not fit, ok is false and q
	// says what there is.
	Reserve(ctx context.Context, tenantID, scope ID, name string, n, limit int64, at time.Time) (q Quota, ok bool, err error)
	Release(ctx context.Context, tenantID, scope ID, name string, n int64) error
	QuotaRows(ctx context.Context, tenantID, scope ID) ([]QuotaRow, error)
}

// KeyFilter narrows a list of keys; empty fields do not.
type KeyFilter struct {
	Name        string
	OwnerID     ID
	NamespaceID ID
	State       KeyState
	Now         time.Time
	MaxAge      time.Duration // Service fills in both
}

// QuotaRow is the stored part of a quota.
type QuotaRow struct {
	Name      string
	Used      int64
	Limit     *int64 // overrides the plan's
	CreatedAt time.Time
}

// The kinds of Change that Service records, as package catalog names them.
const (
	kindTenant    = "tenant"
	kindNamespace = "namespace"
	kindKey       = "api_key"
	kindRule      = "acl"
)

// Deps is what a Service needs.
type Deps struct {
	Store   Store
	Keyring *Keyring
	Now     func() time.Time
	Wake    func(namespaceID ID) // after a commit that brokers must learn of; nil: nobody
	// Leaked is told, in the transaction, of a key that was revoked because its
	// secret was reported; nil: nobody.
	Leaked func(ctx context.Context, k APIKey, r LeakReport) error
}

// Service holds the rules of tenants. It may be used by any number of
// goroutines. Who may call what is package auth's business: callers ask there
// first, and always pass the tenant of the caller.
type Service struct {
	store   Store
	keyring *Keyring
	now     func() time.Time
	wake    func(ID)
	leaked  func(ctx context.Context, k APIKey, r LeakReport) error
	reports chan struct{} // rings when leaks were reported
}

// New makes a Service.
func New(d Deps) *Service {
	s := &Service{store: d.Store, keyring: d.Keyring, now: d.Now, wake: d.Wake, leaked: d.Leaked, reports: make(chan struct{}, 1)}
	if s.leaked == nil {
		s.leaked = func(context.Context, APIKey, LeakReport) error { return nil }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.wake == nil {
		s.wake = func(ID) {}
	}
	return s
}

func (s *Service) time() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// changed records a change in the outbox and wakes the fleet once it is
// committed.
func (s *Service) changed(ctx context.Context, c Change) error {
	if err := s.store.Record(ctx, c); err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	s.store.AfterCommit(ctx, func() { s.wake(c.NamespaceID) })
	return nil
}

// Tenant returns a tenant.
func (s *Service) Tenant(ctx context.Context, tenantID ID) (Tenant, error) {
	return s.store.Tenant(ctx, tenantID)
}

// TenantUpdate is what to change of a tenant; nil means as it is.
type TenantUpdate struct {
	Name     *string
	Labels   map[string]string
	Security SecurityUpdate
}

// UpdateTenant changes a tenant. want is the revision that the change is
// meant for; 0 for any.
func (s *Service) UpdateTenant(ctx context.Context, tenantID ID, u TenantUpdate, want int64) (Tenant, error) {
	var out Tenant
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, t.Revision); err != nil {
			return err
		}
		if u.Name != nil {
			if err := CheckName("name", *u.Name); err != nil {
				return err
			}
			t.Name = *u.Name
		}
		if u.Labels != nil {
			if err := CheckLabels(u.Labels); err != nil {
				return err
			}
			t.Labels = u.Labels
		}
		age := t.Security.MaxKeyAge
		if err := t.Security.apply(u.Security); err != nil {
			return err
		}
		if age != t.Security.MaxKeyAge {
			if err := s.keysAged(ctx, t.ID); err != nil {
				return err
			}
		}
		t.UpdatedAt, t.Revision = s.time(), t.Revision+1
		out = t
		return s.store.UpdateTenant(ctx, t)
	})
	return out, err
}

// Found makes a tenant with its first member as owner. The caller runs it in
// a transaction together with making the user.
func (s *Service) Found(ctx context.Context, name string, ownerID ID) (Tenant, error) {
	if err := CheckName("tenant_name", name); err != nil {
		return Tenant{}, err
	}
	now := s.time()
	t := Tenant{ID: NewID(PrefixTenant, now), Name: name, State: StateActive, Plan: PlanFree, Labels: map[string]string{},
		CreatedAt: now, UpdatedAt: now, Revision: 1}
	t.DataKey = s.keyring.NewDataKey(t.ID)
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		if err := s.store.CreateTenant(ctx, t); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaMembers); err != nil {
			return err
		}
		m := Member{TenantID: t.ID, UserID: ownerID, Role: RoleOwner, CreatedAt: now, UpdatedAt: now, Revision: 1}
		if err := s.store.CreateMember(ctx, m); err != nil {
			return err
		}
		return s.changed(ctx, Change{TenantID: t.ID, Kind: kindTenant, ID: t.ID, Revision: t.Revision})
	})
	return t, err
}

// MayChange refuses when the tenant is suspended.
func (s *Service) MayChange(ctx context.Context, tenantID ID) error {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return err
	}
	return active(t)
}

// Suspend stops a tenant: it can look but not change, send or receive. Resume
// undoes it. Both are for operators and billing.
func (s *Service) Suspend(ctx context.Context, tenantID ID) error {
	return s.setState(ctx, tenantID, StateSuspended)
}

// Resume undoes Suspend.
func (s *Service) Resume(ctx context.Context, tenantID ID) error {
	return s.setState(ctx, tenantID, StateActive)
}

func (s *Service) setState(ctx context.Context, tenantID ID, state State) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil || t.State == state {
			return err
		}
		if t.State == StateClosed {
			return errs.E(errs.Conflict, "tenant %s is closed for good", t.ID).WithReason("tenant_closed")
		}
		t.State, t.UpdatedAt, t.Revision = state, s.time(), t.Revision+1
		if err := s.store.UpdateTenant(ctx, t); err != nil {
			return err
		}
		return s.changed(ctx, Change{TenantID: t.ID, Kind: kindTenant, ID: t.ID, Revision: t.Revision})
	})
}

// active refuses changes in a tenant that is suspended, closing or closed.
func active(t Tenant) error {
	if t.State == StateClosed {
		return errs.E(errs.Forbidden, "tenant %s is closed", t.ID).WithReason("tenant_closed")
	}
	if t.State != StateActive {
		return errs.E(errs.Forbidden, "tenant %s is suspended; it can look but not change", t.ID).WithReason("tenant_suspended")
	}
	return nil
}

// CheckRevision compares the revision that a change is meant for with the
// one there is; want 0 fits any.
func CheckRevision(want, have int64) error {
	if want != 0 && want != have {
		e := errs.E(errs.PreconditionFailed, "the object is at revision %d, the change was meant for %d; read it again", have, want)
		e.Field = "header.If-Match"
		return e
	}
	return nil
}

const maxName, maxDescription, maxLabels, maxLabelValue = 100, 500, 32, 128

// CheckName checks a name for people.
func CheckName(field, name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName {
		e := errs.Field(field, "%s has %d characters; it must have 1 to %d", field, n, maxName)
		e.Limit = fmt.Sprint(maxName)
		return e
	}
	if strings.TrimSpace(name) != name || strings.ContainsFunc(name, control) || !utf8.ValidString(name) {
		return errs.Field(field, "%s has control characters or blanks at its ends", field)
	}
	return nil
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

// CheckDescription checks a free text of one line.
func CheckDescription(text string) error {
	if n := utf8.RuneCountInString(text); n > maxDescription {
		e := errs.Field("description", "description has %d characters; at most %d", n, maxDescription)
		e.Limit = fmt.Sprint(maxDescription)
		return e
	}
	if strings.ContainsFunc(text, control) || !utf8.ValidString(text) {
		return errs.Field("description", "description has control characters")
	}
	return nil
}

var labelKey = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// CheckLabels checks a map of labels.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		e := errs.Field("labels", "%d labels; at most %d", len(labels), maxLabels)
		e.Limit = fmt.Sprint(maxLabels)
		return e
	}
	for k, v := range labels {
		if !labelKey.MatchString(k) {
			return errs.Field("labels."+k, "label key %q: begin with a small letter, then at most 62 of a-z 0-9 _ . -", k)
		}
		if utf8.RuneCountInString(v) > maxLabelValue || strings.ContainsFunc(v, control) || !utf8.ValidString(v) {
			return errs.Field("labels."+k, "label value: at most %d characters, no control characters", maxLabelValue)
		}
	}
	return nil
}
