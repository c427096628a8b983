package fakeapi

import (
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/controlplane/api"
)

// Delays of the default retry.
var defaultDelays = []api.Duration{"10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h"}

func or[T any](v *T, standard T) T {
	if v == nil {
		return standard
	}
	return *v
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func (a *API) statusLocked(id string, revision int64) api.ResourceStatus {
	if a.phases[id] > 0 {
		a.phases[id]--
		reason := "waiting for broker-a"
		return api.ResourceStatus{Phase: api.Pending, Reason: &reason}
	}
	return api.ResourceStatus{Phase: api.Ready, ObservedRevision: &revision}
}

func (a *API) newNamespace(c api.NamespaceCreate) *api.Namespace {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	n := &api.Namespace{Id: namespaceID(a.numberLocked()), Name: c.Name, Region: or(c.Region, "local"), Description: or(c.Description, ""),
		Labels: or(c.Labels, api.Labels{}), StrictTypes: or(c.StrictTypes, false), MaxSendTps: or(c.MaxSendTps, 0), MaxRecvTps: or(c.MaxRecvTps, 0),
		DeletionProtection: or(c.DeletionProtection, false), CreatedAt: now, UpdatedAt: now, Revision: 1,
		Endpoints: api.Endpoints{Remoting: "127.0.0.1:9876", Grpc: "127.0.0.1:8081", Http: "http://127.0.0.1:8080"}}
	a.phases[n.Id] = a.pending
	n.Status = a.statusLocked(n.Id, 1)
	a.namespaces[n.Id] = n
	return n
}

func (a *API) newTopic(ns string, c api.TopicCreate) *api.Topic {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	t := &api.Topic{Id: ulidLike("top", a.numberLocked()), NamespaceId: ns, Name: c.Name, Type: or(c.Type, api.NORMAL),
		Queues: or(c.Queues, 4), Retention: or(c.Retention, "72h"), MaxMessageBytes: or(c.MaxMessageBytes, 4194304),
		MaxSendTps: or(c.MaxSendTps, 0), Perm: or(c.Perm, api.Rw), Description: or(c.Description, ""), Labels: or(c.Labels, api.Labels{}),
		DeletionProtection: or(c.DeletionProtection, false), CreatedAt: now, UpdatedAt: now, Revision: 1}
	a.phases[t.Id] = a.pending
	t.Status = a.statusLocked(t.Id, 1)
	a.topics[ns+"/"+t.Name] = t
	return t
}

func (a *API) newGroup(ns string, c api.GroupCreate) *api.Group {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.tickLocked()
	g := &api.Group{Id: ulidLike("grp", a.numberLocked()), NamespaceId: ns, Name: c.Name, Order: or(c.Order, api.Concurrent),
		ConsumeEnabled: or(c.ConsumeEnabled, true), Broadcast: or(c.Broadcast, true),
		Retry: fullRetry(or(c.Retry, api.GroupRetry{})), DeadLetter: fullDeadLetter(or(c.DeadLetter, api.GroupDeadLetter{}), c.Name),
		MaxInFlight: or(c.MaxInFlight, 10000), MaxRecvTps: or(c.MaxRecvTps, 0), Description: or(c.Description, ""),
		Labels: or(c.Labels, api.Labels{}), DeletionProtection: or(c.DeletionProtection, false), CreatedAt: now, UpdatedAt: now, Revision: 1}
	a.phases[g.Id] = a.pending
	g.Status = a.statusLocked(g.Id, 1)
	a.groups[ns+"/"+g.Name] = g
	return g
}

func fullRetry(r api.GroupRetry) api.GroupRetry {
	attempts, strategy := or(r.MaxAttempts, 16), or(r.Strategy, api.Custom)
	delays := or(r.Delays, defaultDelays)
	return api.GroupRetry{MaxAttempts: &attempts, Strategy: &strategy, Delays: &delays}
}

func fullDeadLetter(d api.GroupDeadLetter, group string) api.GroupDeadLetter {
	enabled, topic := or(d.Enabled, true), or(d.Topic, "%DLQ%"+group)
	return api.GroupDeadLetter{Enabled: &enabled, Topic: &topic}
}

func (a *API) newKey(c api.ApiKeyCreate) api.ApiKeyWithSecret {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, number := a.tickLocked(), a.numberLocked()
	k := &api.ApiKey{Id: fmt.Sprintf("slk_FAKE%016d", number), OwnerId: or(c.OwnerId, UserID), Name: c.Name, Description: or(c.Description, ""),
		Scopes: withPatterns(or(c.Scopes, nil)), ControlRole: c.ControlRole, AllowedCidrs: or(c.AllowedCidrs, []api.Cidr{}), ExpiresAt: c.ExpiresAt,
		State: api.ApiKeyStateActive, Hint: fmt.Sprintf("%04d", number), CreatedAt: now, UpdatedAt: now, Revision: 1}
	a.phases[k.Id] = a.pending
	k.Status = a.statusLocked(k.Id, 1)
	a.keys[k.Id] = k
	return k.WithSecret(fmt.Sprintf("sls_FAKE%036d", number))
}

func withPatterns(scopes []api.ApiKeyScope) []api.ApiKeyScope {
	out := []api.ApiKeyScope{}
	for _, s := range scopes {
		topics, groups := or(s.Topics, []string{"*"}), or(s.Groups, []string{"*"})
		out = append(out, api.ApiKeyScope{NamespaceId: s.NamespaceId, Permissions: s.Permissions, Topics: &topics, Groups: &groups})
	}
	return out
}

// shown is the key as the API shows it: in another order when it shuffles.
func (a *API) shown(k api.ApiKey) api.ApiKey {
	if !a.Shuffle {
		return k
	}
	k.Scopes, k.AllowedCidrs = slices.Clone(k.Scopes), slices.Clone(k.AllowedCidrs)
	slices.Reverse(k.Scopes)
	slices.Reverse(k.AllowedCidrs)
	for i := range k.Scopes {
		k.Scopes[i].Permissions = slices.Clone(k.Scopes[i].Permissions)
		slices.Reverse(k.Scopes[i].Permissions)
	}
	return k
}

// The Drop functions delete an object behind the client's back; the Change
// functions edit it there.

// DropTopic deletes a topic.
func (a *API) DropTopic(ns, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.topics, ns+"/"+name)
}

// DropGroup deletes a group.
func (a *API) DropGroup(ns, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.groups, ns+"/"+name)
}

// DropKey deletes a key.
func (a *API) DropKey(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.keys, id)
}

// DropNamespace deletes a namespace.
func (a *API) DropNamespace(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.namespaces, id)
}

// ChangeTopic edits a topic.
func (a *API) ChangeTopic(ns, name string, change func(*api.Topic)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a.topics[ns+"/"+name])
}

// Topic returns a topic.
func (a *API) Topic(ns, name string) (api.Topic, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.topics[ns+"/"+name]
	if !ok {
		return api.Topic{}, false
	}
	return *t, true
}

// Group returns a group.
func (a *API) Group(ns, name string) (api.Group, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.groups[ns+"/"+name]
	if !ok {
		return api.Group{}, false
	}
	return *g, true
}

// Key returns a key.
func (a *API) Key(id string) (api.ApiKey, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.keys[id]
	if !ok {
		return api.ApiKey{}, false
	}
	return *k, true
}

// Keys returns how many keys there are.
func (a *API) Keys() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}
