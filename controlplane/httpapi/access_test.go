package httpapi

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// basic is a client that signs with an API key.
func (s *system) basic(k api.ApiKeyWithSecret) *apiclient.SDK {
	s.t.Helper()
	sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, KeyID: k.Id, KeySecret: k.Secret, MaxRetries: -1})
	check(s.t, err)
	return sdk
}

// Rules hold on the HTTP API as they do at brokers: for keys, whose scopes count
// there, and for people, whose roles do.
func TestRules_holdOverHTTP(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		newKey := func(name string, scopes ...api.ApiKeyScope) *apiclient.SDK {
			in := api.ApiKeyCreate{Name: name, ControlRole: ptr(api.ControlRole("developer"))}
			if len(scopes) > 0 {
				in.Scopes = &scopes
			}
			k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, in))
			check(t, err)
			return s.basic(k)
		}
		bare := newKey("bare")
		sender := newKey("sender", api.ApiKeyScope{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}})
		send := func(sdk *apiclient.SDK) error {
			_, err := apiclient.Created(sdk.SendMessageWithResponse(ctx, p.NamespaceId, "hello", nil, api.MessageSend{Body: "x"}))
			return err
		}
		look := func(sdk *apiclient.SDK, topic string) error {
			_, err := apiclient.OK(sdk.ListMessagesWithResponse(ctx, p.NamespaceId, topic, nil))
			return err
		}
		refused := func(what string, err error) {
			t.Helper()
			if err == nil {
				t.Errorf("%s is allowed", what)
				return
			}
			wantProblem(t, err, http.StatusForbidden, "permission_denied")
		}
		check(t, send(sender))
		check(t, send(p.sdk))
		refused("sending with a role and no scope", send(bare))
		refused("reading with a scope to send", look(sender, "hello"))
		refused("reading a group's retries with a scope to send", look(sender, "%RETRY%hello-group"))

		rule := func(r api.AclCreate) string {
			t.Helper()
			out, err := apiclient.Created(p.sdk.CreateAclWithResponse(ctx, p.NamespaceId, nil, r))
			check(t, err)
			return out.Id
		}
		allow := rule(api.AclCreate{Effect: "allow", Principal: "*", Resource: "topic", Pattern: "hel*", Operations: []api.KeyPermission{"SUB"}})
		check(t, look(sender, "hello"))
		refused("a rule for keys that have no scope here", look(bare, "hello"))
		deny := rule(api.AclCreate{Effect: "deny", Principal: "*", Resource: "namespace", Pattern: "*", Operations: []api.KeyPermission{"PUB", "MANAGE"}})
		refused("sending against a rule", send(sender))
		refused("a person sending against a rule", send(p.sdk))
		_, err := apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, p.NamespaceId, "hello", nil, api.TopicUpdate{Description: ptr("x")}))
		refused("changing a topic against a rule", err)
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "more"}))
		refused("making a topic against a rule", err)
		_, err = apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, p.NamespaceId, nil, api.GroupCreate{Name: "more"}))
		refused("making a group against a rule", err)
		_, err = p.sdk.DeleteAclWithResponse(ctx, p.NamespaceId, deny, nil)
		check(t, err)
		check(t, send(sender))
		_, err = p.sdk.DeleteAclWithResponse(ctx, p.NamespaceId, allow, nil)
		check(t, err)
		refused("reading after the rule went", look(sender, "hello"))

		_, err = apiclient.Created(p.sdk.CreateAclWithResponse(ctx, p.NamespaceId, nil, api.AclCreate{Effect: "deny", Principal: "*", Resource: "namespace", Pattern: "pay*", Operations: []api.KeyPermission{"PUB"}}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")

		events, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, nil))
		check(t, err)
		denied := 0
		for _, e := range events.Items {
			if e.Decision == api.Denied {
				denied++
			}
		}
		if denied != 10 {
			t.Errorf("%d refusals in the audit log, want 10", denied)
		}
	})
}

// The list of who can touch something has every caller that may do anything
// with it from any address, and nobody else.
func TestAccess_whoCanTouch(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		other := s.signUp("eve@example.com")
		ctx := t.Context()
		add := func(name string, cidrs *[]string, scope ...api.ApiKeyScope) string {
			k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: name, Scopes: &scope, AllowedCidrs: cidrs}))
			check(t, err)
			return k.Id
		}
		scope := func(topic string, permissions ...api.KeyPermission) api.ApiKeyScope {
			return api.ApiKeyScope{NamespaceId: p.NamespaceId, Permissions: permissions, Topics: &[]string{topic}}
		}
		_, err := p.sdk.DeleteApiKeyWithResponse(ctx, p.ApiKey.Id, nil)
		check(t, err)
		sends, reads, away := add("sends", nil, scope("pay*", "PUB")), add("reads", nil, scope("other", "SUB")), add("away", &[]string{"10.1.0.0/16"}, scope("pay*", "PUB"))
		part := scope("pay*", "PUB")
		part.Cidrs = &[]string{"198.51.100.64/26"}
		near := add("near", &[]string{"198.51.100.0/24"}, part)
		add("none", nil, scope("other", "PUB"))
		off := add("off", nil, scope("pay*", "PUB"))
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, off, nil, api.ApiKeyUpdate{Disabled: ptr(true)}))
		check(t, err)
		for _, r := range []api.AclCreate{
			{Effect: "allow", Principal: reads, Resource: "topic", Pattern: "pay*", Operations: []api.KeyPermission{"SUB"}, Cidrs: &[]string{"192.0.2.0/24"}},
			{Effect: "deny", Principal: "*", Resource: "topic", Pattern: "payments", Operations: []api.KeyPermission{"PUB"}, Cidrs: &[]string{"10.0.0.0/8"}},
			{Effect: "deny", Principal: p.userID(s), Resource: "namespace", Pattern: "*", Operations: []api.KeyPermission{"MANAGE"}},
		} {
			_, err := apiclient.Created(p.sdk.CreateAclWithResponse(ctx, p.NamespaceId, nil, r))
			check(t, err)
		}
		got := map[string]string{}
		for size := int32(1); size < 4; size++ {
			clear(got)
			params := &api.ListAccessParams{Resource: "topic", Name: "payments", PageSize: &size}
			for {
				page, err := apiclient.OK(p.sdk.ListAccessWithResponse(ctx, p.NamespaceId, params))
				check(t, err)
				for _, a := range page.Items {
					for _, op := range a.Operations {
						got[a.Id] += string(op.Operation) + ":" + string(op.DecidedBy) + " "
					}
				}
				if params.PageToken = page.NextPageToken; params.PageToken == nil {
					break
				}
			}
			want := map[string]string{sends: "PUB:scope ", near: "PUB:scope ", reads: "SUB:rule ", p.userID(s): "PUB:role SUB:role DESCRIBE:role "}
			for id, ops := range want {
				if got[id] != ops {
					t.Errorf("pages of %d: %s may %q, want %q", size, id, got[id], ops)
				}
			}
			if len(got) != len(want) {
				t.Errorf("pages of %d: %v, want %v (key %s is for addresses that a rule shuts out)", size, got, want, away)
			}
		}
		_, err = apiclient.OK(other.sdk.ListAccessWithResponse(ctx, p.NamespaceId, &api.ListAccessParams{Resource: "topic", Name: "payments"}))
		wantProblem(t, err, http.StatusNotFound, "not_found")
	})
}

// A key of somebody who lost the right says so in the tester, the list and over
// HTTP, as brokers do.
func TestAccess_followsTheOwnersRights(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("ada@example.com")
		colleague, id := s.colleague(owner, "bob@example.com", tenant.RoleDeveloper)
		ctx := t.Context()
		k, err := apiclient.Created(colleague.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("developer")),
			Scopes: &[]api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}}))
		check(t, err)
		look := func() (tester bool, listed []string) {
			t.Helper()
			d, err := apiclient.OK(owner.sdk.TestAclWithResponse(ctx, owner.NamespaceId, api.AclTest{Principal: k.Id, Operation: "PUB", Resource: "topic", Name: "hello"}))
			check(t, err)
			page, err := apiclient.OK(owner.sdk.ListAccessWithResponse(ctx, owner.NamespaceId, &api.ListAccessParams{Resource: "topic", Name: "hello"}))
			check(t, err)
			for _, a := range page.Items {
				if a.OwnerId == id {
					listed = append(listed, a.Id)
				}
			}
			return d.Allowed, listed
		}
		if allowed, listed := look(); !allowed || len(listed) != 2 {
			t.Errorf("a developer: tester %v, listed %v", allowed, listed)
		}
		_, err = apiclient.OK(owner.sdk.UpdateMemberWithResponse(ctx, id, nil, api.MemberUpdate{Role: "billing"}))
		check(t, err)
		if allowed, listed := look(); allowed || len(listed) != 0 {
			t.Errorf("after the role went: tester %v, listed %v", allowed, listed)
		}
		_, err = apiclient.Created(s.basic(k).SendMessageWithResponse(ctx, owner.NamespaceId, "hello", nil, api.MessageSend{Body: "x"}))
		wantProblem(t, err, http.StatusForbidden, "permission_denied")
		_, err = apiclient.Created(owner.sdk.CreateRoleBindingWithResponse(ctx, nil, api.RoleBindingCreate{PrincipalId: id, Role: "developer",
			Scope: api.RoleScope{Kind: "topic", NamespaceId: &owner.NamespaceId, Pattern: ptr("hel*")}}))
		check(t, err)
		if allowed, listed := look(); !allowed || len(listed) != 2 {
			t.Errorf("with a binding for the topic: tester %v, listed %v", allowed, listed)
		}
	})
}

func (p person) userID(s *system) string {
	me, err := apiclient.OK(p.sdk.GetMeWithResponse(s.t.Context()))
	check(s.t, err)
	return me.Id
}

func TestEdges_standForAllAddresses(t *testing.T) {
	list := []string{"10.0.0.0/8", "10.1.0.0/16", "255.255.255.255/32", "2001:db8::/32", "::/0", "192.0.2.9/32", "0.0.0.0/0"}
	var networks []netip.Prefix
	for _, n := range list {
		networks = append(networks, netip.MustParsePrefix(n))
	}
	side := func(a netip.Addr) (in string) {
		for _, n := range networks {
			in += map[bool]string{true: "1", false: "0"}[n.Contains(a)]
		}
		return in
	}
	have := map[string]bool{}
	for _, a := range edges(networks) {
		have[side(a)] = true
	}
	for _, a := range []string{"0.0.0.1", "9.255.255.255", "10.0.0.9", "10.1.2.3", "10.2.0.0", "11.0.0.0", "192.0.2.8", "192.0.2.9", "192.0.2.10", "255.255.255.254", "255.255.255.255", "::1", "2001:db8::7", "2001:db9::", "ffff::"} {
		if !have[side(netip.MustParseAddr(a))] {
			t.Errorf("no edge stands for %s", a)
		}
	}
}

// A tail that is open when a rule takes the right to read away ends.
func TestTail_endsWithARule(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	s.tailUntil(p, "hello", "permission_denied", func() error {
		_, err := apiclient.Created(p.sdk.CreateAclWithResponse(t.Context(), p.NamespaceId, nil, api.AclCreate{Effect: "deny", Principal: "*", Resource: "topic", Pattern: "hello", Operations: []api.KeyPermission{"SUB"}}))
		return err
	}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+p.AccessToken) })
}
