package fakeapi

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) aclRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/namespaces/{ns}/acls", a.listACLs)
	m.HandleFunc("POST /v1/namespaces/{ns}/acls", a.createACL)
	m.HandleFunc("GET /v1/namespaces/{ns}/acls/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.withACL(w, r, func(v *api.Acl) {
			v.Status = a.statusLocked(v.Id, v.Revision)
			answer(w, http.StatusOK, a.turned(*v), v.Revision)
		})
	})
	m.HandleFunc("PATCH /v1/namespaces/{ns}/acls/{id}", a.updateACL)
	m.HandleFunc("DELETE /v1/namespaces/{ns}/acls/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.withACL(w, r, func(v *api.Acl) { gone(w, r, a.acls, v.Id) })
	})
	m.HandleFunc("POST /v1/namespaces/{ns}/acls/actions/test", a.testACL)
	m.HandleFunc("GET /v1/namespaces/{ns}/access", a.listAccess)
	m.HandleFunc("GET /v1/tenant", a.getTenant)
	m.HandleFunc("PATCH /v1/tenant", a.updateTenant)
}

// withACL runs do on the rule of the path, if it is one of the path's namespace.
func (a *API) withACL(w http.ResponseWriter, r *http.Request, do func(*api.Acl)) {
	withItem(a, w, r, a.acls, "rule", func(v *api.Acl) int64 { return v.Revision }, func(v *api.Acl) {
		if v.NamespaceId != r.PathValue("ns") {
			a.missing(w, "rule", r.PathValue("id"))
			return
		}
		do(v)
	})
}

// turned is the rule as the API shows it: in another order when it shuffles.
func (a *API) turned(v api.Acl) api.Acl {
	if a.Shuffle {
		v.Operations, v.Cidrs = slices.Clone(v.Operations), slices.Clone(v.Cidrs)
		slices.Reverse(v.Operations)
		slices.Reverse(v.Cidrs)
	}
	return v
}

func (a *API) listACLs(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	q := r.URL.Query()
	a.mu.Lock()
	all := sorted(a.acls, func(_ string, v *api.Acl) bool {
		return v.NamespaceId == r.PathValue("ns") && (q.Get("principal") == "" || q.Get("principal") == v.Principal) &&
			(q.Get("resource") == "" || q.Get("resource") == string(v.Resource))
	})
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.AclList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createACL(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.AclCreate](r)
	if !a.hasNamespace(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	v := api.Acl{Id: ulidLike("acl", a.numberLocked()), NamespaceId: r.PathValue("ns"), Effect: in.Effect, Principal: in.Principal, Resource: in.Resource,
		Pattern: in.Pattern, Operations: in.Operations, Cidrs: networks(or(in.Cidrs, nil)), ExpiresAt: in.ExpiresAt, Description: or(in.Description, ""),
		CreatedAt: now, UpdatedAt: now, Revision: 1}
	if !a.fits(w, v) {
		return
	}
	if dryRun(r) {
		v.Status = api.ResourceStatus{Phase: api.Pending}
		answer(w, http.StatusOK, v, 1)
		return
	}
	a.phases[v.Id] = a.pending
	v.Status = a.statusLocked(v.Id, 1)
	a.acls[v.Id] = &v
	answer(w, http.StatusCreated, a.turned(v), 1)
}

// networks writes addresses as networks of one, as the server does.
func networks(in []api.Cidr) []api.Cidr {
	out := make([]api.Cidr, len(in))
	for i, text := range in {
		out[i] = text
		if ip, err := netip.ParseAddr(text); err == nil {
			out[i] = netip.PrefixFrom(ip, ip.BitLen()).String()
		}
	}
	return out
}

// fits refuses the one pair of fields that the schema lets pass.
func (a *API) fits(w http.ResponseWriter, v api.Acl) bool {
	if v.Resource != api.AclResourceNamespace || v.Pattern == "*" {
		return true
	}
	a.fail(w, http.StatusBadRequest, "invalid", "pattern must be * for a rule about the namespace", new("pattern"))
	return false
}

func (a *API) updateACL(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.AclUpdate](r)
	a.withACL(w, r, func(v *api.Acl) {
		changed := *v
		set(&changed.Effect, in.Effect)
		set(&changed.Pattern, in.Pattern)
		set(&changed.Operations, in.Operations)
		if in.Cidrs != nil {
			changed.Cidrs = networks(*in.Cidrs)
		}
		set(&changed.Description, in.Description)
		if in.ExpiresAt.IsNull() {
			changed.ExpiresAt = nil
		} else if end, err := in.ExpiresAt.Get(); err == nil {
			changed.ExpiresAt = &end
		}
		if !a.fits(w, changed) {
			return
		}
		changed.Revision, changed.UpdatedAt = v.Revision+1, a.tickLocked()
		if !dryRun(r) {
			*v = changed
		}
		answer(w, http.StatusOK, a.turned(changed), changed.Revision)
	})
}

// covers tells whether a pattern, which may end in *, is for the name.
func covers(pattern, name string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, prefix)
}

// decideLocked is the rule of the contract in short: a rule that denies, one
// that allows, a scope of the key, no. Addresses and ends are left out.
func (a *API) decideLocked(ns string, k *api.ApiKey, op api.KeyPermission, object api.AclObject, name string) api.AclDecision {
	for _, effect := range []api.AclEffect{api.Deny, api.Allow} {
		for _, v := range sorted(a.acls, func(_ string, v *api.Acl) bool {
			return v.NamespaceId == ns && v.Effect == effect && slices.Contains([]string{"*", k.Id, k.OwnerId}, v.Principal) &&
				slices.Contains([]string{string(object), string(api.AclResourceNamespace)}, string(v.Resource)) && covers(v.Pattern, name) && slices.Contains(v.Operations, op)
		}) {
			verb := map[api.AclEffect]string{api.Deny: "denies", api.Allow: "allows"}[effect]
			return api.AclDecision{Allowed: effect == api.Allow, DecidedBy: api.DecidedByRule, RuleId: &v.Id,
				Reason: fmt.Sprintf("The rule %s %s %s on %s %s.", v.Id, verb, op, object, name)}
		}
	}
	for _, s := range k.Scopes {
		names := or(s.Topics, nil)
		if object == api.AclObjectGroup {
			names = or(s.Groups, nil)
		}
		if s.NamespaceId == ns && slices.Contains(s.Permissions, op) && slices.ContainsFunc(names, func(p string) bool { return covers(p, name) }) {
			return api.AclDecision{Allowed: true, DecidedBy: api.DecidedByScope, Reason: fmt.Sprintf("A scope of the key allows %s on %s %s.", op, object, name)}
		}
	}
	return api.AclDecision{DecidedBy: api.DecidedByDefault, Reason: fmt.Sprintf("Nothing allows %s on %s %s.", op, object, name)}
}

func (a *API) testACL(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.AclTest](r)
	if !a.hasNamespace(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[in.Principal]
	if k == nil {
		a.missing(w, "API key", in.Principal)
		return
	}
	answer(w, http.StatusOK, a.decideLocked(r.PathValue("ns"), k, in.Operation, in.Resource, in.Name), 0)
}

func (a *API) listAccess(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	q := r.URL.Query()
	a.mu.Lock()
	all := []api.Accessor{}
	for _, k := range sorted(a.keys, func(string, *api.ApiKey) bool { return true }) {
		c := api.Accessor{Id: k.Id, Kind: api.AccessorAPIKey, Name: k.Name, OwnerId: k.OwnerId}
		for _, op := range []api.KeyPermission{api.PUB, api.SUB, api.MANAGE, api.DESCRIBE} {
			if d := a.decideLocked(r.PathValue("ns"), &k, op, api.AclObject(q.Get("resource")), q.Get("name")); d.Allowed {
				c.Operations = append(c.Operations, api.AccessorOperation{Operation: op, DecidedBy: d.DecidedBy, RuleId: d.RuleId})
			}
		}
		if len(c.Operations) > 0 {
			all = append(all, c)
		}
	}
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.AccessorList{Items: items, NextPageToken: next}, 0)
}

func (a *API) tenantLocked() api.Tenant {
	created := api.NewTimestamp(a.clock)
	return api.Tenant{Id: TenantID, Name: "Ada's", Status: api.TenantStatusActive, PlanId: "pln_free", Labels: api.Labels{}, Security: a.security,
		CreatedAt: created, UpdatedAt: created, Revision: a.tenantRevision}
}

func (a *API) getTenant(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer(w, http.StatusOK, a.tenantLocked(), a.tenantRevision)
}

// updateTenant changes what the tenant demands; its name and labels stay.
func (a *API) updateTenant(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.TenantUpdate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stale(w, r, a.tenantRevision) {
		return
	}
	before := a.security
	if s := in.Security; s != nil {
		set(&a.security.MfaRequired, s.MfaRequired)
		set(&a.security.SsoRequired, s.SsoRequired)
		if s.MaxKeyAge.IsNull() {
			a.security.MaxKeyAge = nil
		} else if age, err := s.MaxKeyAge.Get(); err == nil {
			a.security.MaxKeyAge = &age
		}
	}
	t := a.tenantLocked()
	t.Revision++
	if dryRun(r) {
		a.security = before
	} else {
		a.tenantRevision++
	}
	answer(w, http.StatusOK, t, t.Revision)
}
