package fakeapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) routes() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/auth/sign-in", a.signIn)
	m.HandleFunc("POST /v1/auth/refresh", a.refresh)
	m.HandleFunc("POST /v1/auth/sign-out", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("GET /v1/me", a.me)

	m.HandleFunc("GET /v1/namespaces", a.listNamespaces)
	m.HandleFunc("POST /v1/namespaces", a.createNamespace)
	m.HandleFunc("GET /v1/namespaces/{ns}", a.getNamespace)
	m.HandleFunc("PATCH /v1/namespaces/{ns}", a.updateNamespace)
	m.HandleFunc("DELETE /v1/namespaces/{ns}", a.deleteNamespace)

	m.HandleFunc("GET /v1/namespaces/{ns}/topics", a.listTopics)
	m.HandleFunc("POST /v1/namespaces/{ns}/topics", a.createTopic)
	m.HandleFunc("GET /v1/namespaces/{ns}/topics/{topic}", a.getTopic)
	m.HandleFunc("PATCH /v1/namespaces/{ns}/topics/{topic}", a.updateTopic)
	m.HandleFunc("DELETE /v1/namespaces/{ns}/topics/{topic}", a.deleteTopic)

	m.HandleFunc("GET /v1/namespaces/{ns}/groups", a.listGroups)
	m.HandleFunc("POST /v1/namespaces/{ns}/groups", a.createGroup)
	m.HandleFunc("GET /v1/namespaces/{ns}/groups/{group}", a.getGroup)
	m.HandleFunc("PATCH /v1/namespaces/{ns}/groups/{group}", a.updateGroup)
	m.HandleFunc("DELETE /v1/namespaces/{ns}/groups/{group}", a.deleteGroup)
	m.HandleFunc("GET /v1/namespaces/{ns}/groups/{group}/lag", a.lag)
	m.HandleFunc("POST /v1/namespaces/{ns}/groups/{group}/actions/reset-offset", a.resetOffset)
	m.HandleFunc("GET /v1/namespaces/{ns}/transactions", a.listTransactions)
	m.HandleFunc("POST /v1/namespaces/{ns}/transactions/{id}/actions/{action}", a.settleTransaction)

	m.HandleFunc("GET /v1/api-keys", a.listKeys)
	m.HandleFunc("POST /v1/api-keys", a.createKey)
	m.HandleFunc("GET /v1/api-keys/{id}", a.getKey)
	m.HandleFunc("PATCH /v1/api-keys/{id}", a.updateKey)
	m.HandleFunc("DELETE /v1/api-keys/{id}", a.deleteKey)
	m.HandleFunc("POST /v1/api-keys/{id}/actions/rotate", a.rotateKey)
	m.HandleFunc("POST /v1/api-keys/{id}/actions/revoke", a.revokeKey)

	m.HandleFunc("GET /v1/namespaces/{ns}/topics/{topic}/messages", a.listMessages)
	m.HandleFunc("POST /v1/namespaces/{ns}/topics/{topic}/messages", a.sendMessage)
	m.HandleFunc("GET /v1/namespaces/{ns}/topics/{topic}/tail", a.tail)
	m.HandleFunc("GET /v1/usage", a.usage)
	m.HandleFunc("GET /v1/costs", a.costs)
	a.memberRoutes(m)
	a.invitationRoutes(m)
	a.roleRoutes(m)
	a.aclRoutes(m)
	return m
}

func dryRun(r *http.Request) bool { return r.URL.Query().Get("dry_run") == "true" }

// stale answers 412 when the request is meant for another revision.
func (a *API) stale(w http.ResponseWriter, r *http.Request, revision int64) bool {
	want := r.Header.Get("If-Match")
	if want == "" || want == "*" || want == fmt.Sprintf(`"%d"`, revision) {
		return false
	}
	a.fail(w, http.StatusPreconditionFailed, "precondition_failed", "the object was changed since; read it again", nil)
	return true
}

// page cuts the items that the request asks for out of all, which are sorted.
func page[T any](a *API, r *http.Request, all []T) (items []T, next *api.PageToken) {
	size, start := 50, 0
	if n, err := strconv.Atoi(r.URL.Query().Get("page_size")); err == nil {
		size = n
	}
	if a.PageSize > 0 {
		size = min(size, a.PageSize)
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("page_token"), "p")); err == nil {
		start = min(n, len(all))
	}
	end := min(start+size, len(all))
	if end < len(all) {
		token := api.PageToken("p" + strconv.Itoa(end))
		next = &token
	}
	return append([]T{}, all[start:end]...), next
}

func sorted[T any](m map[string]*T, keep func(key string, v *T) bool) []T {
	var names []string
	for key, v := range m {
		if keep(key, v) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	out := make([]T, len(names))
	for i, key := range names {
		out[i] = *m[key]
	}
	return out
}

func (a *API) signIn(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.SignIn](r)
	if in.Email != Email || in.Password != Password {
		a.fail(w, http.StatusUnauthorized, "unauthenticated", "the address or the password is wrong", nil)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "sluice_refresh", Value: "refresh-1", Path: "/v1/auth", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	answer(w, http.StatusOK, api.Session{AccessToken: Token, TokenType: api.SessionTokenTypeBearer, ExpiresIn: 900, UserId: UserID, TenantId: TenantID}, 0)
}

func (a *API) refresh(w http.ResponseWriter, r *http.Request) {
	c, err := r.Cookie("sluice_refresh")
	if err != nil || !strings.HasPrefix(c.Value, "refresh-") {
		a.fail(w, http.StatusUnauthorized, "unauthenticated", "there is no session; sign in again", nil)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "sluice_refresh", Value: "refresh-2", Path: "/v1/auth", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	answer(w, http.StatusOK, api.Session{AccessToken: Token, TokenType: api.SessionTokenTypeBearer, ExpiresIn: 900, UserId: UserID, TenantId: TenantID}, 0)
}

func (a *API) me(w http.ResponseWriter, r *http.Request) {
	email, created := api.Email(Email), api.NewTimestamp(a.clock)
	me := api.Me{Id: UserID, Type: api.PrincipalTypeUser, Name: "Ada", Email: &email, TenantId: TenantID, Role: api.RoleOwner,
		Permissions: []string{"topic:read", "topic:write"}, Bindings: []api.MeRight{}, CreatedAt: created, UpdatedAt: created, Revision: 1}
	if _, _, basic := r.BasicAuth(); basic {
		id := api.ApiKeyId(KeyID)
		me.ApiKeyId = &id
	}
	answer(w, http.StatusOK, me, 1)
}

func (a *API) listNamespaces(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	name := r.URL.Query().Get("name")
	all := sorted(a.namespaces, func(_ string, n *api.Namespace) bool { return name == "" || n.Name == name })
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.NamespaceList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createNamespace(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.NamespaceCreate](r)
	a.mu.Lock()
	taken := len(sorted(a.namespaces, func(_ string, n *api.Namespace) bool { return n.Name == in.Name })) > 0
	a.mu.Unlock()
	if taken {
		a.fail(w, http.StatusConflict, "already_exists", fmt.Sprintf("namespace %q exists already", in.Name), new("name"))
		return
	}
	n := a.newNamespace(in)
	if dryRun(r) {
		a.DropNamespace(n.Id)
		answer(w, http.StatusOK, n, 0)
		return
	}
	answer(w, http.StatusCreated, n, n.Revision)
}

func (a *API) getNamespace(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.namespaces[r.PathValue("ns")]
	if !ok {
		a.missing(w, "namespace", r.PathValue("ns"))
		return
	}
	n.Status = a.statusLocked(n.Id, n.Revision)
	answer(w, http.StatusOK, n, n.Revision)
}

func (a *API) updateNamespace(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.NamespaceUpdate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.namespaces[r.PathValue("ns")]
	if !ok {
		a.missing(w, "namespace", r.PathValue("ns"))
		return
	}
	if a.stale(w, r, n.Revision) {
		return
	}
	changed := *n
	set(&changed.Name, in.Name)
	set(&changed.Description, in.Description)
	set(&changed.Labels, in.Labels)
	set(&changed.StrictTypes, in.StrictTypes)
	set(&changed.MaxSendTps, in.MaxSendTps)
	set(&changed.MaxRecvTps, in.MaxRecvTps)
	set(&changed.DeletionProtection, in.DeletionProtection)
	changed.Revision++
	if !dryRun(r) {
		changed.UpdatedAt = a.tickLocked()
		*n = changed
	}
	answer(w, http.StatusOK, changed, changed.Revision)
}

func (a *API) deleteNamespace(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.namespaces[r.PathValue("ns")]
	switch {
	case !ok:
		a.missing(w, "namespace", r.PathValue("ns"))
	case n.DeletionProtection:
		a.fail(w, http.StatusConflict, "deletion_protected", fmt.Sprintf("namespace %q has deletion_protection; turn it off first", n.Name), nil)
	default:
		if !dryRun(r) {
			delete(a.namespaces, n.Id)
			for key := range a.topics {
				if strings.HasPrefix(key, n.Id+"/") {
					delete(a.topics, key)
				}
			}
			for key := range a.groups {
				if strings.HasPrefix(key, n.Id+"/") {
					delete(a.groups, key)
				}
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// hasNamespace answers 404 when the path names a namespace that is not there.
func (a *API) hasNamespace(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	_, ok := a.namespaces[r.PathValue("ns")]
	a.mu.Unlock()
	if !ok {
		a.missing(w, "namespace", r.PathValue("ns"))
	}
	return ok
}

func (a *API) listTopics(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	a.mu.Lock()
	prefix, kind := r.PathValue("ns")+"/"+r.URL.Query().Get("prefix"), r.URL.Query().Get("type")
	all := sorted(a.topics, func(key string, t *api.Topic) bool {
		return strings.HasPrefix(key, prefix) && (kind == "" || kind == string(t.Type))
	})
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.TopicList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createTopic(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.TopicCreate](r)
	if !a.hasNamespace(w, r) {
		return
	}
	if _, taken := a.Topic(r.PathValue("ns"), in.Name); taken {
		a.fail(w, http.StatusConflict, "already_exists", fmt.Sprintf("topic %q exists already in this namespace", in.Name), nil)
		return
	}
	t := a.newTopic(r.PathValue("ns"), in)
	if dryRun(r) {
		a.DropTopic(t.NamespaceId, t.Name)
		answer(w, http.StatusOK, t, 0)
		return
	}
	answer(w, http.StatusCreated, t, t.Revision)
}

func (a *API) getTopic(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.topics[r.PathValue("ns")+"/"+r.PathValue("topic")]
	if !ok {
		a.missing(w, "topic", r.PathValue("topic"))
		return
	}
	t.Status = a.statusLocked(t.Id, t.Revision)
	answer(w, http.StatusOK, t, t.Revision)
}

func (a *API) updateTopic(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.TopicUpdate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.topics[r.PathValue("ns")+"/"+r.PathValue("topic")]
	if !ok {
		a.missing(w, "topic", r.PathValue("topic"))
		return
	}
	if a.stale(w, r, t.Revision) {
		return
	}
	if in.Queues != nil && *in.Queues < t.Queues {
		a.fail(w, http.StatusBadRequest, "invalid", fmt.Sprintf("queues is %d; the topic has %d and cannot shrink", *in.Queues, t.Queues), new("queues"))
		return
	}
	changed := *t
	set(&changed.Queues, in.Queues)
	set(&changed.Retention, in.Retention)
	set(&changed.MaxMessageBytes, in.MaxMessageBytes)
	set(&changed.MaxSendTps, in.MaxSendTps)
	set(&changed.Perm, in.Perm)
	set(&changed.Description, in.Description)
	set(&changed.Labels, in.Labels)
	set(&changed.DeletionProtection, in.DeletionProtection)
	changed.Revision++
	if !dryRun(r) {
		changed.UpdatedAt = a.tickLocked()
		*t = changed
	}
	answer(w, http.StatusOK, changed, changed.Revision)
}

func (a *API) deleteTopic(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.PathValue("ns") + "/" + r.PathValue("topic")
	t, ok := a.topics[key]
	switch {
	case !ok:
		a.missing(w, "topic", r.PathValue("topic"))
	case t.DeletionProtection:
		a.fail(w, http.StatusConflict, "deletion_protected", fmt.Sprintf("topic %q has deletion_protection; turn it off first", t.Name), nil)
	default:
		if !dryRun(r) {
			delete(a.topics, key)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
