package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/fleet"
	"github.com/sluicemq/sluice/tenant"
)

// forBrokers is a key as brokers are told of it.
func (s *system) forBrokers(id string) catalog.DesiredKey {
	s.t.Helper()
	d, err := s.source.Desired(s.t.Context())
	check(s.t, err)
	for _, k := range d.Keys {
		if k.ID == id {
			return k
		}
	}
	s.t.Fatalf("no key %s for brokers", id)
	return catalog.DesiredKey{}
}

func TestAPIKey_maxAgeOfTheTenant(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		role := api.ControlRole("viewer")
		old, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "old", ControlRole: &role}))
		check(t, err)
		s.clock.add(10 * time.Minute)
		limit := func(age string) {
			value := nullable.NewNullNullable[string]()
			if age != "" {
				value = nullable.NewNullableWithValue(age)
			}
			_, err := apiclient.OK(p.sdk.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Security: &api.TenantSecurityUpdate{MaxKeyAge: value}}))
			check(t, err)
		}
		before, err := s.source.Sequence(ctx)
		check(t, err)
		limit("1h")
		changes, _, err := s.source.Changes(ctx, before, 100)
		check(t, err)
		told := map[string]bool{}
		for _, c := range changes {
			told[c.ID] = true
		}
		if !told[old.Id] || !told[p.ApiKey.Id] {
			t.Errorf("brokers hear of %v, not of all keys", told)
		}
		want := old.CreatedAt.Add(time.Hour)
		if k := s.forBrokers(old.Id); k.ExpiresAt == nil || !k.ExpiresAt.Equal(want) {
			t.Errorf("for brokers the old key ends %v, want %v", k.ExpiresAt, want)
		}
		shown, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, old.Id))
		check(t, err)
		if shown.ExpiresAt == nil || !shown.ExpiresAt.Equal(want) || shown.State != "active" {
			t.Errorf("the old key is shown as %s until %v", shown.State, shown.ExpiresAt)
		}
		for name, end := range map[string]*api.Timestamp{"none": nil, "later": ptr(api.NewTimestamp(s.clock.now().Add(time.Hour + time.Millisecond)))} {
			_, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: name, ControlRole: &role, ExpiresAt: end}))
			wantProblem(t, err, http.StatusBadRequest, "key_age")
			if text := fmt.Sprint(err); !strings.Contains(text, "expires_at") || !strings.Contains(text, "1h") {
				t.Errorf("%s: the problem names no field and limit: %s", name, text)
			}
		}
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, old.Id, nil, api.ApiKeyUpdate{ExpiresAt: nullable.NewNullNullable[api.Timestamp]()}))
		wantProblem(t, err, http.StatusBadRequest, "key_age")
		fits, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "fits", ControlRole: &role, ExpiresAt: ptr(api.NewTimestamp(s.clock.now().Add(time.Hour)))}))
		check(t, err)
		next, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, p.ApiKey.Id, nil, api.ApiKeyRotate{}))
		check(t, err)
		if next.ExpiresAt == nil || !next.ExpiresAt.Equal(s.clock.now().Add(time.Hour)) {
			t.Errorf("a rotated key ends %v", next.ExpiresAt)
		}
		s.clock.add(50 * time.Minute) // the old key is exactly an hour old
		_, err = apiclient.OK(s.api.GetTenantWithResponse(ctx, apiclient.Basic(old.Id, old.Secret)))
		wantProblem(t, err, http.StatusUnauthorized, "key_expired")
		back := func(state string) string {
			list, err := s.tenants.Keys(ctx, p.TenantId, tenant.KeyFilter{State: tenant.KeyState(state)}, tenant.Page{Size: 100})
			check(t, err)
			var ids []string
			for _, k := range list {
				ids = append(ids, k.ID)
			}
			return strings.Join(ids, " ")
		}
		if got := back("expired"); got != old.Id {
			t.Errorf("expired: %s, want %s", got, old.Id)
		}
		if got := back("active"); !strings.Contains(got, fits.Id) || strings.Contains(got, old.Id) {
			t.Errorf("active: %s", got)
		}
		_, err = s.tenants.UpdateTenant(ctx, p.TenantId, tenant.TenantUpdate{Security: tenant.SecurityUpdate{MaxKeyAge: new(time.Duration)}}, 0)
		check(t, err)
		_, err = apiclient.OK(s.api.GetTenantWithResponse(ctx, apiclient.Basic(old.Id, old.Secret)))
		check(t, err) // the limit is gone, and so is its end
	})
}

func TestAPIKey_broughtSecret(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		role := api.ControlRole("viewer")
		mine := base64.StdEncoding.EncodeToString([]byte("\x91\x1e\xf3\x02\x8a\x5c\xd7\x64\x3b\xe8\x10\xc9\x7f\xa6\x2d\x54\xbb\x09\xe1\x76\xd3\x48\x9c\x25"))
		_, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: &role, Secret: ptr(strings.Repeat("Sluice-2026", 4))}))
		wantProblem(t, err, http.StatusBadRequest, "secret_weak")
		if text := fmt.Sprint(err); !strings.Contains(text, "secret") || strings.Contains(text, "Sluice-2026") {
			t.Errorf("the problem reads %s", text)
		}
		k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, &api.CreateApiKeyParams{IdempotencyKey: ptr("one")}, api.ApiKeyCreate{Name: "k", ControlRole: &role, Secret: &mine}))
		check(t, err)
		again, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, &api.CreateApiKeyParams{IdempotencyKey: ptr("one")}, api.ApiKeyCreate{Name: "k", ControlRole: &role, Secret: &mine}))
		check(t, err)
		shown, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, k.Id))
		check(t, err)
		for _, v := range []any{k, again, shown} {
			text, err := json.Marshal(v)
			check(t, err)
			if strings.Contains(string(text), mine) || strings.Contains(string(text), mine[len(mine)-4:]) {
				t.Errorf("the secret is echoed: %s", text)
			}
		}
		_, err = apiclient.OK(s.api.GetTenantWithResponse(ctx, apiclient.Basic(k.Id, mine)))
		check(t, err)
		if s.forBrokers(k.Id).Secret != mine {
			t.Error("brokers have another secret")
		}
		_, err = apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, k.Id, nil, api.ApiKeyRotate{Secret: &mine}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		next, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, k.Id, nil, api.ApiKeyRotate{}))
		check(t, err)
		if !tenant.ValidSecret(next.Secret) || next.Hint != next.Secret[len(next.Secret)-4:] {
			t.Errorf("rotated without a secret: %q, hint %q", next.Secret, next.Hint)
		}
	})
}

func TestAPIKey_scopeWithAddressesAndEnd(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		end := api.NewTimestamp(s.clock.now().Add(time.Hour))
		narrow := api.ApiKeyScope{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"MANAGE"}, Cidrs: &[]string{"10.1.2.3/8"}, ExpiresAt: &end}
		wide := api.ApiKeyScope{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}
		k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", Scopes: &[]api.ApiKeyScope{narrow, wide}}))
		check(t, err)
		got, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, k.Id))
		check(t, err)
		if len(got.Scopes) != 2 || got.Scopes[0].Cidrs == nil || (*got.Scopes[0].Cidrs)[0] != "10.0.0.0/8" || !got.Scopes[0].ExpiresAt.Equal(end.Time) || got.Scopes[1].Cidrs != nil {
			t.Errorf("scopes: %+v", got.Scopes)
		}
		for name, scopes := range map[string][]api.ApiKeyScope{
			"scopes[1].namespace_id": {wide, wide},
			"scopes[0].cidrs[0]":     {{NamespaceId: p.NamespaceId, Permissions: wide.Permissions, Cidrs: &[]string{"300.1.1.1"}}},
			"scopes[0].expires_at":   {{NamespaceId: p.NamespaceId, Permissions: wide.Permissions, ExpiresAt: ptr(api.NewTimestamp(s.clock.now()))}},
		} {
			_, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", Scopes: &scopes}))
			wantProblem(t, err, http.StatusBadRequest, "invalid")
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, c := range []struct {
			address string
			later   time.Duration
			allowed bool
		}{{"10.9.9.9", 0, true}, {"11.0.0.1", 0, false}, {"10.9.9.9", time.Hour, false}} {
			s.clock.add(c.later)
			key, state, err := s.tenants.KeyAndState(ctx, p.TenantId, k.Id)
			check(t, err)
			judge, err := fleet.Judge(p.NamespaceId, nil)
			check(t, err)
			d, err := judge(catalog.AccessQuestion{Key: key, State: state, Resource: "topic", Name: "orders", Operation: "MANAGE",
				Remote: netip.MustParseAddr(c.address), Now: s.clock.now()})
			check(t, err)
			if d.Allowed != c.allowed {
				t.Errorf("%+v: %+v", c, d)
			}
		}
	})
}

// leak reports a text and returns the answer as it came.
func (s *system) leak(text string) string {
	s.t.Helper()
	body, err := json.Marshal(api.LeakReport{Text: text})
	check(s.t, err)
	resp, err := http.Post(s.server.URL+"/v1/api-keys/actions/report-leak", "application/json", strings.NewReader(string(body)))
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	check(s.t, err)
	return fmt.Sprint(resp.StatusCode, " ", string(answer))
}

// Case B142 and OWASP API2: a leaked secret ends its key, and the report tells
// nobody whose it was.
func TestOWASP_API2_reportedLeakRevokesTheKey(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		ctx := t.Context()
		role := api.ControlRole("viewer")
		mine := base64.StdEncoding.EncodeToString([]byte("\x11\x1e\xf3\x02\x8a\x5c\xd7\x64\x3b\xe8\x10\xc9\x7f\xa6\x2d\x54\xbb\x09\xe1\x76\xd3\x48\x9c\x25"))
		brought, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "brought", ControlRole: &role, Secret: &mine}))
		check(t, err)
		waiting := func() int {
			list, err := s.store.LeakReports(ctx, 100)
			check(t, err)
			return len(list)
		}
		none := s.leak("there is nothing here")
		wrong := []byte(p.ApiKey.Secret)
		if wrong[10] != 'a' {
			wrong[10] = 'a'
		} else {
			wrong[10] = 'b'
		}
		if got := s.leak(string(wrong)); got != none || waiting() != 0 {
			t.Errorf("a wrong checksum: %s, %d look-ups", got, waiting())
		}
		unknown := s.leak("key=" + tenant.NewSecret())
		known := s.leak(`secretKey = "` + p.ApiKey.Secret + `"; other = '` + mine + `'`)
		if unknown != none || known != none || !strings.HasPrefix(none, "202 ") {
			t.Errorf("the answers tell secrets apart: %s, %s, %s", none, unknown, known)
		}
		if waiting() != 3 {
			t.Errorf("%d reports wait, want one for each secret, known or not", waiting())
		}
		check(t, s.tenants.Leaks(ctx))
		check(t, s.tenants.Leaks(ctx))
		if waiting() != 0 {
			t.Error("reports are left over")
		}
		for _, id := range []string{p.ApiKey.Id, brought.Id} {
			k, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, id))
			check(t, err)
			if k.State != "revoked" || k.RevokedReason == nil || *k.RevokedReason != api.ApiKeyLeaked {
				t.Errorf("key %s is %s, %v", id, k.State, k.RevokedReason)
			}
			if s.forBrokers(id).State != tenant.KeyRevoked {
				t.Error("brokers let the key in")
			}
		}
		if s.forBrokers(other.ApiKey.Id).State != tenant.KeyActive {
			t.Error("a key of another tenant was hit")
		}
		_, err = apiclient.OK(s.api.GetTenantWithResponse(ctx, apiclient.Basic(brought.Id, mine)))
		wantProblem(t, err, http.StatusUnauthorized, "key_revoked")
		events, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, &api.ListAuditEventsParams{Action: ptr("reportLeak")}))
		check(t, err)
		if len(events.Items) != 2 || events.Items[0].ActorType != "system" {
			t.Errorf("events: %+v", events.Items)
		}
		mails, err := s.mailer.Messages()
		check(t, err)
		told := 0
		for _, m := range mails {
			if strings.Contains(m.Subject, "revoked") {
				if m.To != p.email {
					t.Errorf("a mail went to %s", m.To)
				}
				told++
			}
		}
		if told != 2 {
			t.Errorf("%d mails, want 2", told)
		}
	})
}

func TestReportLeak_keysFromBeforeFingerprints(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		check(t, s.store.SetFingerprint(ctx, p.TenantId, p.ApiKey.Id, nil))
		check(t, s.tenants.FillFingerprints(ctx))
		s.leak(p.ApiKey.Secret)
		check(t, s.tenants.Leaks(ctx))
		if s.forBrokers(p.ApiKey.Id).State != tenant.KeyRevoked {
			t.Error("a key from before was not found")
		}
	})
}

func TestAPIKey_lastUse(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		role := api.ControlRole("viewer")
		k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: &role}))
		check(t, err)
		if k.LastUsed != nil {
			t.Errorf("a new key was used: %+v", k.LastUsed)
		}
		_, err = apiclient.OK(s.api.GetTenantWithResponse(ctx, apiclient.Basic(k.Id, k.Secret)))
		check(t, err)
		used := func() api.ApiKeyUse {
			got, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, k.Id))
			check(t, err)
			if got.LastUsed == nil || got.LastUsedAt == nil || !got.LastUsedAt.Equal(got.LastUsed.At.Time) {
				t.Fatalf("last use: %+v", got.LastUsed)
			}
			return *got.LastUsed
		}
		if u := used(); !u.At.Equal(s.clock.now()) || or(u.Operation, "") != "getTenant" || or(u.Address, "") != "127.0.0.1" || u.Topic != nil {
			t.Errorf("over HTTP: %v %s %s", u.At, or(u.Operation, ""), or(u.Address, ""))
		}
		at := s.clock.now().Add(time.Minute)
		check(t, s.store.TouchKey(ctx, p.TenantId, k.Id, tenant.KeyUse{At: at, Address: "203.0.113.7", Operation: "PUB", Topic: "orders"}))
		check(t, s.store.TouchKey(ctx, p.TenantId, k.Id, tenant.KeyUse{At: at.Add(-time.Second), Address: "203.0.113.8", Operation: "SUB"}))
		if u := used(); !u.At.Equal(at) || or(u.Operation, "") != "PUB" || or(u.Address, "") != "203.0.113.7" || or(u.Topic, "") != "orders" {
			t.Errorf("over a message protocol: %+v", u)
		}
	})
}

// A key that was to end is not followed by one that never does.
func TestAPIKey_rotationKeepsTheLength(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		end := s.clock.now().Add(90 * 24 * time.Hour)
		k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ExpiresAt: ptr(at(end)), ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		s.clock.add(10 * time.Minute)
		next, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, k.Id, nil, api.ApiKeyRotate{}))
		check(t, err)
		if next.ExpiresAt == nil || !next.ExpiresAt.Equal(end.Add(10*time.Minute)) {
			t.Errorf("the new key ends at %v, want %v", next.ExpiresAt, end.Add(10*time.Minute))
		}
		other := end.Add(time.Hour)
		last, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, next.Id, nil, api.ApiKeyRotate{ExpiresAt: ptr(at(other))}))
		check(t, err)
		if last.ExpiresAt == nil || !last.ExpiresAt.Equal(other) {
			t.Errorf("the new key ends at %v, want what was asked for", last.ExpiresAt)
		}
		endless, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, p.ApiKey.Id, nil, api.ApiKeyRotate{}))
		check(t, err)
		if endless.ExpiresAt != nil {
			t.Errorf("a key without an end is followed by one that ends at %v", endless.ExpiresAt)
		}
	})
}
