package fakeapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) invitationRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/invitations", a.listInvitations)
	m.HandleFunc("POST /v1/invitations", a.createInvitation)
	m.HandleFunc("GET /v1/invitations/{id}", a.getInvitation)
	m.HandleFunc("DELETE /v1/invitations/{id}", a.deleteInvitation)
	m.HandleFunc("POST /v1/invitations/{id}/actions/resend", a.resendInvitation)
}

func (a *API) listInvitations(w http.ResponseWriter, r *http.Request) {
	state := api.InvitationState(r.URL.Query().Get("state"))
	a.mu.Lock()
	all := sorted(a.invitations, func(_ string, i *api.Invitation) bool { return state == "" || i.State == state })
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.InvitationList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createInvitation(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.InvitationCreate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	i := api.Invitation{Id: ulidLike("inv", a.numberLocked()), Email: strings.ToLower(in.Email), Role: in.Role, State: api.InvitationPending, Locale: or(in.Locale, "en"),
		InvitedBy: UserID, SentAt: now, ExpiresAt: api.NewTimestamp(now.Add(7 * 24 * time.Hour)), CreatedAt: now, UpdatedAt: now, Revision: 1}
	for _, have := range a.invitations {
		if have.Email == i.Email && have.State == api.InvitationPending {
			a.fail(w, http.StatusConflict, "already_exists", i.Email+" is invited already", nil)
			return
		}
	}
	if dryRun(r) {
		answer(w, http.StatusOK, i, i.Revision)
		return
	}
	a.invitations[i.Id] = &i
	w.Header().Set("Location", "/v1/invitations/"+i.Id)
	answer(w, http.StatusCreated, i, i.Revision)
}

// withInvitation runs do on the invitation of the path, under the lock.
func (a *API) withInvitation(w http.ResponseWriter, r *http.Request, do func(i *api.Invitation)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.invitations[r.PathValue("id")]
	if i == nil {
		a.missing(w, "invitation", r.PathValue("id"))
		return
	}
	if r.Method != http.MethodGet && a.stale(w, r, i.Revision) {
		return
	}
	do(i)
}

func (a *API) getInvitation(w http.ResponseWriter, r *http.Request) {
	a.withInvitation(w, r, func(i *api.Invitation) { answer(w, http.StatusOK, i, i.Revision) })
}

func (a *API) deleteInvitation(w http.ResponseWriter, r *http.Request) {
	a.withInvitation(w, r, func(i *api.Invitation) {
		if !dryRun(r) {
			delete(a.invitations, i.Id)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (a *API) resendInvitation(w http.ResponseWriter, r *http.Request) {
	a.withInvitation(w, r, func(i *api.Invitation) {
		i.SentAt = a.tickLocked()
		i.UpdatedAt, i.ExpiresAt, i.Revision = i.SentAt, api.NewTimestamp(i.SentAt.Add(7*24*time.Hour)), i.Revision+1
		answer(w, http.StatusOK, i, i.Revision)
	})
}
