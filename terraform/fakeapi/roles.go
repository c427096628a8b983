package fakeapi

import (
	"net/http"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) roleRoutes(m *http.ServeMux) {
	a.accountRoutes(m)
	m.HandleFunc("GET /v1/roles", a.listRoles)
	m.HandleFunc("POST /v1/roles", a.createRole)
	m.HandleFunc("GET /v1/roles/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.roles, "role", func(v *api.CustomRole) int64 { return v.Revision }, func(v *api.CustomRole) { answer(w, http.StatusOK, v, v.Revision) })
	})
	m.HandleFunc("PATCH /v1/roles/{id}", a.updateRole)
	m.HandleFunc("DELETE /v1/roles/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.roles, "role", func(v *api.CustomRole) int64 { return v.Revision }, func(v *api.CustomRole) { gone(w, r, a.roles, v.Id) })
	})
	m.HandleFunc("GET /v1/role-bindings", a.listBindings)
	m.HandleFunc("POST /v1/role-bindings", a.createBinding)
	m.HandleFunc("GET /v1/role-bindings/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.bindings, "role binding", func(v *api.RoleBinding) int64 { return v.Revision }, func(v *api.RoleBinding) { answer(w, http.StatusOK, v, v.Revision) })
	})
	m.HandleFunc("PATCH /v1/role-bindings/{id}", a.updateBinding)
	m.HandleFunc("DELETE /v1/role-bindings/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.bindings, "role binding", func(v *api.RoleBinding) int64 { return v.Revision }, func(v *api.RoleBinding) { gone(w, r, a.bindings, v.Id) })
	})
}

// withItem runs do on the item that the path names, under the lock.
func withItem[T any](a *API, w http.ResponseWriter, r *http.Request, in map[string]*T, what string, revision func(*T) int64, do func(*T)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := in[r.PathValue("id")]
	if v == nil {
		a.missing(w, what, r.PathValue("id"))
		return
	}
	if r.Method != http.MethodGet && a.stale(w, r, revision(v)) {
		return
	}
	do(v)
}

func gone[T any](w http.ResponseWriter, r *http.Request, in map[string]*T, id string) {
	if !dryRun(r) {
		delete(in, id)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *API) listRoles(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	created := api.NewTimestamp(a.clock)
	all := append([]api.CustomRole{{Id: "viewer", Name: "viewer", Permissions: []api.Permission{"topic:read"}, BuiltIn: true, CreatedAt: created, UpdatedAt: created, Revision: 1}},
		sorted(a.roles, func(string, *api.CustomRole) bool { return true })...)
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.CustomRoleList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createRole(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.CustomRoleCreate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	v := api.CustomRole{Id: ulidLike("rol", a.numberLocked()), Name: in.Name, Description: or(in.Description, ""), Permissions: in.Permissions, CreatedAt: now, UpdatedAt: now, Revision: 1}
	if dryRun(r) {
		answer(w, http.StatusOK, v, 1)
		return
	}
	a.roles[v.Id] = &v
	w.Header().Set("Location", "/v1/roles/"+v.Id)
	answer(w, http.StatusCreated, v, 1)
}

func (a *API) updateRole(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.CustomRoleUpdate](r)
	withItem(a, w, r, a.roles, "role", func(v *api.CustomRole) int64 { return v.Revision }, func(v *api.CustomRole) {
		changed := *v
		set(&changed.Name, in.Name)
		set(&changed.Description, in.Description)
		set(&changed.Permissions, in.Permissions)
		changed.Revision, changed.UpdatedAt = v.Revision+1, a.tickLocked()
		if !dryRun(r) {
			*v = changed
		}
		answer(w, http.StatusOK, changed, changed.Revision)
	})
}

func (a *API) listBindings(w http.ResponseWriter, r *http.Request) {
	principal := r.URL.Query().Get("principal_id")
	a.mu.Lock()
	all := sorted(a.bindings, func(_ string, b *api.RoleBinding) bool { return principal == "" || b.PrincipalId == principal })
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.RoleBindingList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createBinding(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.RoleBindingCreate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	b := api.RoleBinding{Id: ulidLike("rbd", a.numberLocked()), PrincipalId: in.PrincipalId, Role: in.Role, Scope: in.Scope, ExpiresAt: in.ExpiresAt, CreatedBy: UserID,
		CreatedAt: now, UpdatedAt: now, Revision: 1}
	if dryRun(r) {
		answer(w, http.StatusOK, b, 1)
		return
	}
	a.bindings[b.Id] = &b
	w.Header().Set("Location", "/v1/role-bindings/"+b.Id)
	answer(w, http.StatusCreated, b, 1)
}

func (a *API) updateBinding(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.RoleBindingUpdate](r)
	withItem(a, w, r, a.bindings, "role binding", func(v *api.RoleBinding) int64 { return v.Revision }, func(v *api.RoleBinding) {
		changed := *v
		changed.ExpiresAt = nil
		if end, err := in.ExpiresAt.Get(); err == nil {
			changed.ExpiresAt = &end
		}
		changed.Revision, changed.UpdatedAt = v.Revision+1, a.tickLocked()
		if !dryRun(r) {
			*v = changed
		}
		answer(w, http.StatusOK, changed, changed.Revision)
	})
}
