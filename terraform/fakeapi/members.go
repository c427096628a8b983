package fakeapi

import (
	"net/http"

	"github.com/sluicemq/sluice/controlplane/api"
)

// MemberID is the second member of the tenant, a developer.
const MemberID = "usr_01JAB3CD4EF5GH6JK7MN8PQ9RT"

func (a *API) memberRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/members", a.listMembers)
	m.HandleFunc("GET /v1/members/{id}", a.getMember)
	m.HandleFunc("PATCH /v1/members/{id}", a.updateMember)
	m.HandleFunc("DELETE /v1/members/{id}", a.removeMember)
	m.HandleFunc("POST /v1/members/actions/leave", func(w http.ResponseWriter, _ *http.Request) {
		a.fail(w, http.StatusConflict, "last_owner", "you are the last owner of the tenant; make somebody else owner first", nil)
	})
}

// firstMembers are who is there at the beginning.
func (a *API) firstMembers() {
	now := api.NewTimestamp(a.clock)
	a.members = map[string]*api.Member{
		UserID:   {Id: UserID, Email: Email, Name: "Ada", Role: api.RoleOwner, LastSignInAt: &now, CreatedAt: now, UpdatedAt: now, Revision: 1},
		MemberID: {Id: MemberID, Email: "grace@example.com", Name: "Grace", Role: api.RoleDeveloper, CreatedAt: now, UpdatedAt: now, Revision: 1},
	}
}

func (a *API) listMembers(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	all := sorted(a.members, func(string, *api.Member) bool { return true })
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.MemberList{Items: items, NextPageToken: next}, 0)
}

// withMember runs do on the member of the path, under the lock.
func (a *API) withMember(w http.ResponseWriter, r *http.Request, do func(m *api.Member)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.members[r.PathValue("id")]
	if m == nil {
		a.fail(w, http.StatusNotFound, "not_found", "the member does not exist", nil)
		return
	}
	if r.Method != http.MethodGet && a.stale(w, r, m.Revision) {
		return
	}
	do(m)
}

func (a *API) getMember(w http.ResponseWriter, r *http.Request) {
	a.withMember(w, r, func(m *api.Member) { answer(w, http.StatusOK, m, m.Revision) })
}

func (a *API) lastOwner(w http.ResponseWriter, m *api.Member) bool {
	if m.Role == api.RoleOwner {
		a.fail(w, http.StatusConflict, "last_owner", "this is the last owner of the tenant; make somebody else owner first", nil)
		return true
	}
	return false
}

func (a *API) updateMember(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.MemberUpdate](r)
	a.withMember(w, r, func(m *api.Member) {
		if in.Role != m.Role && a.lastOwner(w, m) {
			return
		}
		changed := *m
		changed.Role = in.Role
		if changed.Role != m.Role {
			changed.Revision, changed.UpdatedAt = m.Revision+1, a.tickLocked()
		}
		if !dryRun(r) {
			*m = changed
		}
		answer(w, http.StatusOK, changed, changed.Revision)
	})
}

func (a *API) removeMember(w http.ResponseWriter, r *http.Request) {
	a.withMember(w, r, func(m *api.Member) {
		if a.lastOwner(w, m) {
			return
		}
		if !dryRun(r) {
			delete(a.members, m.Id)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
