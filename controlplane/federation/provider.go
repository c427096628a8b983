package federation

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Bounds of identity providers; the contract has those of single fields.
const (
	maxProviders = 5  // of a tenant
	maxDomains   = 20 // of a provider

	prefixProvider = "idp_"
)

// ProviderInput is a new identity provider.
type ProviderInput struct {
	Name          string
	Issuer        string
	ClientID      string
	ClientSecret  string // empty: a public client
	Domains       []string
	AutoEnrolRole tenant.Role // empty: nobody is enrolled
	Enabled       bool
}

// ProviderUpdate is what to change of an identity provider; nil means as it is.
type ProviderUpdate struct {
	Name          *string
	Issuer        *string
	ClientID      *string
	ClientSecret  *string // points to "": none
	Domains       *[]string
	AutoEnrolRole *tenant.Role
	Enabled       *bool
}

// CreateProvider names an identity provider of p's tenant. Nothing is asked of
// it yet; the first sign-in does.
func (s *Service) CreateProvider(ctx context.Context, p *auth.Principal, in ProviderInput) (IdentityProvider, error) {
	now := s.time()
	out := IdentityProvider{ID: tenant.NewID(prefixProvider, now), TenantID: p.TenantID, Name: in.Name, Issuer: in.Issuer, ClientID: in.ClientID,
		AutoEnrolRole: in.AutoEnrolRole, Enabled: in.Enabled, OwnerApproved: isOwner(p), CreatedAt: now, UpdatedAt: now, Revision: 1}
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.check(&out, in.Domains); err != nil {
			return err
		}
		if _, err := s.d.Tenants.Tenant(ctx, p.TenantID); err != nil { // locks it: of two at once one sees the other
			return err
		}
		have, err := s.d.Store.Providers(ctx, p.TenantID, "", tenant.Page{Size: maxProviders})
		if err != nil {
			return err
		}
		if len(have) == maxProviders {
			e := errs.E(errs.QuotaExceeded, "a tenant has at most %d identity providers", maxProviders)
			e.Quota = &errs.Quota{Name: "identity_providers", Scope: p.TenantID, Limit: maxProviders, Used: maxProviders}
			return e
		}
		if err := s.setSecret(ctx, &out, in.ClientSecret); err != nil {
			return err
		}
		return taken(s.d.Store.CreateProvider(ctx, out), out.Name)
	})
	return out, err
}

// Provider returns one identity provider.
func (s *Service) Provider(ctx context.Context, tenantID, id tenant.ID) (IdentityProvider, error) {
	return s.d.Store.Provider(ctx, tenantID, id)
}

// Providers lists identity providers; name narrows to exactly that one.
func (s *Service) Providers(ctx context.Context, tenantID tenant.ID, name string, page tenant.Page) ([]IdentityProvider, error) {
	return s.d.Store.Providers(ctx, tenantID, name, page)
}

// UpdateProvider changes an identity provider. Sessions that began there end
// when it is switched off or is another one than before.
func (s *Service) UpdateProvider(ctx context.Context, p *auth.Principal, id tenant.ID, u ProviderUpdate, want int64) (IdentityProvider, error) {
	var out IdentityProvider
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		was, err := s.d.Store.Provider(ctx, p.TenantID, id)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, was.Revision); err != nil {
			return err
		}
		out = was
		set(&out.Name, u.Name)
		set(&out.Issuer, u.Issuer)
		set(&out.ClientID, u.ClientID)
		set(&out.AutoEnrolRole, u.AutoEnrolRole)
		set(&out.Enabled, u.Enabled)
		names := make([]string, len(was.Domains))
		for i, d := range was.Domains {
			names[i] = d.Name
		}
		set(&names, u.Domains)
		if err := s.check(&out, names); err != nil {
			return err
		}
		if u.ClientSecret != nil {
			if err := s.setSecret(ctx, &out, *u.ClientSecret); err != nil {
				return err
			}
		}
		another := out.Issuer != was.Issuer || out.ClientID != was.ClientID
		if another || u.ClientSecret != nil || isOwner(p) {
			out.OwnerApproved = isOwner(p)
		}
		out.UpdatedAt, out.Revision = s.time(), was.Revision+1
		if err := taken(s.d.Store.UpdateProvider(ctx, out), out.Name); err != nil {
			return err
		}
		if another || (was.Enabled && !out.Enabled) {
			if _, err := s.d.Auth.EndFederated(ctx, []tenant.ID{id}, "", "", "provider_changed"); err != nil {
				return err
			}
		}
		return s.keepUsable(ctx, p.TenantID, was)
	})
	return out, err
}

// DeleteProvider forgets an identity provider; sessions that began there end.
func (s *Service) DeleteProvider(ctx context.Context, tenantID, id tenant.ID, want int64) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		was, err := s.d.Store.Provider(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, was.Revision); err != nil {
			return err
		}
		if err := s.d.Store.DeleteProvider(ctx, tenantID, id); err != nil {
			return err
		}
		if _, err := s.d.Auth.EndFederated(ctx, []tenant.ID{id}, "", "", "provider_deleted"); err != nil {
			return err
		}
		return s.keepUsable(ctx, tenantID, was)
	})
}

// keepUsable refuses a change that takes the last provider from a tenant whose
// people may sign in no other way.
func (s *Service) keepUsable(ctx context.Context, tenantID tenant.ID, was IdentityProvider) error {
	t, err := s.d.Tenants.Tenant(ctx, tenantID)
	if err != nil || !t.Security.SSORequired || !was.usable() {
		return err
	}
	ok, err := s.anyUsable(ctx, tenantID)
	if err == nil && !ok {
		err = conflict("sso_in_force", "the tenant demands single sign-on, and this is its last identity provider with a verified domain: set security.sso_required to false first")
	}
	return err
}

func (s *Service) anyUsable(ctx context.Context, tenantID tenant.ID) (bool, error) {
	list, err := s.d.Store.Providers(ctx, tenantID, "", tenant.Page{Size: maxProviders})
	return slices.ContainsFunc(list, IdentityProvider.usable), err
}

// Enforce is called in the transaction that makes a tenant demand single
// sign-on: there must be a way in, and sessions that began with a password
// end, but those of owners.
func (s *Service) Enforce(ctx context.Context, tenantID tenant.ID) error {
	ok, err := s.anyUsable(ctx, tenantID)
	if err != nil {
		return err
	}
	if !ok {
		return errs.Field("security.sso_required", "single sign-on can be demanded once an enabled identity provider has a verified domain; see /v1/identity-providers").WithReason("sso_not_ready")
	}
	return s.d.Auth.EndPasswordSessions(ctx, tenantID)
}

func isOwner(p *auth.Principal) bool {
	return p.Kind == auth.KindUser && p.KeyID == "" && p.Role == tenant.RoleOwner
}

func taken(err error, name string) error {
	if !errs.Is(err, errs.Conflict) {
		return err
	}
	e := errs.E(errs.Conflict, "identity provider %q exists already", name).WithReason("already_exists")
	e.Field = "name"
	return e
}

func (s *Service) setSecret(ctx context.Context, p *IdentityProvider, secret string) error {
	p.Sealed = nil
	if secret == "" {
		return nil
	}
	var err error
	p.Sealed, err = s.d.Tenants.SealSecret(ctx, p.TenantID, p.ID, secret)
	return err
}

// check checks p and gives it the domains of these names; those that it has
// stay as they are.
func (s *Service) check(p *IdentityProvider, names []string) error {
	if err := tenant.CheckName("name", p.Name); err != nil {
		return err
	}
	if err := s.d.OIDC.CheckURL("issuer", p.Issuer); err != nil {
		return err
	}
	switch p.AutoEnrolRole {
	case "", tenant.RoleViewer, tenant.RoleDeveloper, tenant.RoleBilling:
	default:
		return errs.Field("auto_enrol_role", "nobody becomes %s by signing in; use none, viewer, developer or billing", p.AutoEnrolRole)
	}
	if len(names) > maxDomains {
		e := errs.Field("domains", "at most %d domains", maxDomains)
		e.Limit = fmt.Sprint(maxDomains)
		return e
	}
	have := p.Domains
	p.Domains = nil
	for i, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if !validDomain(name) {
			return errs.Field(fmt.Sprintf("domains[%d]", i), "%q is no domain such as example.com; write international ones in their xn-- form", errs.Clip(name, 100))
		}
		if slices.ContainsFunc(p.Domains, func(d Domain) bool { return d.Name == name }) {
			return errs.Field(fmt.Sprintf("domains[%d]", i), "%q is named twice", name)
		}
		d := Domain{Name: name, Challenge: newChallenge()}
		if k := slices.IndexFunc(have, func(d Domain) bool { return d.Name == name }); k >= 0 {
			d = have[k]
		}
		p.Domains = append(p.Domains, d)
	}
	slices.SortFunc(p.Domains, func(a, b Domain) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

var domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$`)

func validDomain(name string) bool { return len(name) <= 253 && domainForm.MatchString(name) }

func newChallenge() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails: it stops the process instead
	return "sluice-domain-verification=" + strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// TXTName is where the record that proves a domain is looked for.
func (d Domain) TXTName() string { return "_sluice-challenge." + d.Name }

// dnsTimeout bounds a look-up.
const dnsTimeout = 5 * time.Second

// LookForDomain looks for the TXT record of a domain and returns the domain as
// it was proven. It waits for DNS, so call it outside of any transaction.
func (s *Service) LookForDomain(ctx context.Context, tenantID, id tenant.ID, name string) (Domain, error) {
	p, err := s.d.Store.Provider(ctx, tenantID, id)
	if err != nil {
		return Domain{}, err
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	k := slices.IndexFunc(p.Domains, func(d Domain) bool { return d.Name == name })
	if k < 0 {
		return Domain{}, errs.Field("domain", "%q is none of the provider's domains; add it first", errs.Clip(name, 100))
	}
	d := p.Domains[k]
	look, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	records, err := s.d.Resolver.LookupTXT(look, d.TXTName())
	if ctx.Err() != nil {
		return Domain{}, ctx.Err()
	}
	if err != nil || !slices.Contains(records, d.Challenge) {
		return Domain{}, conflict("domain_not_verified", "no TXT record of %s is %q; after adding it, wait until DNS shows it and try again", d.TXTName(), d.Challenge)
	}
	return d, nil
}

// DomainVerified notes what LookForDomain found. A domain belongs to the
// provider that proved it, until that one gives it up.
func (s *Service) DomainVerified(ctx context.Context, tenantID, id tenant.ID, found Domain) (IdentityProvider, error) {
	var p IdentityProvider
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		var err error
		if p, err = s.d.Store.Provider(ctx, tenantID, id); err != nil {
			return err
		}
		k := slices.IndexFunc(p.Domains, func(d Domain) bool { return d.Name == found.Name && d.Challenge == found.Challenge })
		if k < 0 {
			return errs.Field("domain", "%q was taken from the provider meanwhile", found.Name)
		}
		if p.Domains[k].VerifiedAt != nil {
			return nil
		}
		now := s.time()
		p.Domains[k].VerifiedAt, p.UpdatedAt, p.Revision = &now, now, p.Revision+1
		err = s.d.Store.UpdateProvider(ctx, p)
		if errs.Is(err, errs.Conflict) {
			return conflict("domain_taken", "%s is verified by another identity provider; it must give the domain up first", found.Name)
		}
		return err
	})
	return p, err
}

// Unlink forgets which subject of a provider a person is, so that another may
// be linked to them, and ends the sessions that they began there.
func (s *Service) Unlink(ctx context.Context, tenantID, id, userID tenant.ID) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.d.Store.Provider(ctx, tenantID, id); err != nil {
			return err
		}
		links, err := s.d.Store.IdentitiesOf(ctx, tenantID, id, userID)
		if err != nil {
			return err
		}
		if len(links) == 0 {
			return errs.Field("user_id", "%s is linked to no subject of this provider", userID)
		}
		for _, l := range links {
			if _, err := s.d.Auth.EndFederated(ctx, []tenant.ID{id}, l.Subject, "", "unlinked"); err != nil {
				return err
			}
		}
		_, err = s.d.Store.DeleteIdentities(ctx, tenantID, id, userID)
		return err
	})
}

// set copies *from to *to unless from is nil.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func domainOf(email string) string {
	_, domain, _ := strings.Cut(email, "@")
	return strings.ToLower(domain)
}
