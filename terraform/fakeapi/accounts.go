package fakeapi

import (
	"net/http"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) accountRoutes(m *http.ServeMux) {
	revision := func(v *api.ServiceAccount) int64 { return v.Revision }
	m.HandleFunc("POST /v1/service-accounts", a.createAccount)
	m.HandleFunc("GET /v1/service-accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.accounts, "service account", revision, func(v *api.ServiceAccount) { answer(w, http.StatusOK, v, v.Revision) })
	})
	m.HandleFunc("PATCH /v1/service-accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		in, _ := read[api.ServiceAccountUpdate](r)
		withItem(a, w, r, a.accounts, "service account", revision, func(v *api.ServiceAccount) {
			changed := *v
			set(&changed.Name, in.Name)
			set(&changed.Description, in.Description)
			set(&changed.Disabled, in.Disabled)
			set(&changed.Labels, in.Labels)
			changed.Revision, changed.UpdatedAt = v.Revision+1, a.tickLocked()
			if !dryRun(r) {
				*v = changed
			}
			answer(w, http.StatusOK, changed, changed.Revision)
		})
	})
	m.HandleFunc("DELETE /v1/service-accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		withItem(a, w, r, a.accounts, "service account", revision, func(v *api.ServiceAccount) { gone(w, r, a.accounts, v.Id) })
	})
}

func (a *API) createAccount(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.ServiceAccountCreate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	v := api.ServiceAccount{Id: ulidLike("sa", a.numberLocked()), Name: in.Name, Description: or(in.Description, ""), Disabled: or(in.Disabled, false),
		Labels: or(in.Labels, api.Labels{}), CreatedAt: now, UpdatedAt: now, Revision: 1}
	if dryRun(r) {
		answer(w, http.StatusOK, v, 1)
		return
	}
	a.accounts[v.Id] = &v
	answer(w, http.StatusCreated, v, 1)
}
