package cases

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

type rule struct {
	ID     string `json:"id"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
	Revision int64 `json:"revision"`
}

type decision struct {
	Allowed   bool   `json:"allowed"`
	DecidedBy string `json:"decided_by"`
	RuleID    string `json:"rule_id"`
	Reason    string `json:"reason"`
}

// A rule of an access control list is felt by the official SDKs of both
// protocols as soon as the API says that it is ready; the tester says what
// brokers then do, and names the rule.
func TestACL_rulesReachSDKs(t *testing.T) {
	c := testcluster.Start(t)
	a, b := c.SignUp("acl@example.com"), c.SignUp("other-acl@example.com")
	ctx := t.Context()
	base := "/v1/namespaces/" + a.NamespaceID + "/acls"
	k := key{c.Addresses, a.KeyID, a.Secret}
	sends := map[string]func([]byte, string) error{"remoting": remotingSend(t, k, "hello"), "grpc": grpcSend(t, k, "hello")}
	try := func(allowed bool, when string) {
		t.Helper()
		for name, send := range sends {
			if err := send([]byte("x"), ""); allowed != (err == nil) {
				t.Errorf("%s, %s: %v", when, name, err)
			}
		}
	}
	ask := func(allowed bool, by string) decision {
		t.Helper()
		var d decision
		must(t, a.Do(ctx, "POST", base+"/actions/test", map[string]any{"principal": a.KeyID, "operation": "PUB", "resource": "topic", "name": "hello", "source_ip": "127.0.0.1"}, &d))
		if d.Allowed != allowed || d.DecidedBy != by || d.Reason == "" {
			t.Errorf("decision %+v, want %v by %s", d, allowed, by)
		}
		return d
	}
	try(true, "without rules")
	ask(true, "scope")

	var deny rule
	must(t, a.Do(ctx, "POST", base+"?wait=10s", map[string]any{
		"effect": "deny", "principal": "*", "resource": "topic", "pattern": "hel*", "operations": []string{"PUB"},
	}, &deny))
	if deny.Status.Phase != "ready" {
		t.Errorf("phase %q after a wait", deny.Status.Phase)
	}
	try(false, "with a rule that denies")
	if d := ask(false, "rule"); d.RuleID != deny.ID || !strings.Contains(d.Reason, deny.ID) {
		t.Errorf("decision %+v does not name %s", d, deny.ID)
	}
	if err := sends["grpc"]([]byte("x"), ""); err == nil || !strings.Contains(err.Error(), deny.ID) {
		t.Errorf("the refusal does not name the rule: %v", err)
	}

	// Another tenant neither sees nor changes it.
	for _, call := range []struct{ method, path string }{
		{"GET", base}, {"GET", base + "/" + deny.ID}, {"DELETE", base + "/" + deny.ID},
		{"GET", "/v1/namespaces/" + b.NamespaceID + "/acls/" + deny.ID}, {"DELETE", "/v1/namespaces/" + b.NamespaceID + "/acls/" + deny.ID},
	} {
		var s *testcluster.Status
		if err := b.Do(ctx, call.method, call.path, nil, nil); !errors.As(err, &s) || s.Code != 404 {
			t.Errorf("%s %s by another tenant: %v", call.method, call.path, err)
		}
	}
	var s *testcluster.Status
	err := a.Do(ctx, "POST", base, map[string]any{"effect": "allow", "principal": b.KeyID, "resource": "topic", "pattern": "*", "operations": []string{"PUB"}}, nil)
	if !errors.As(err, &s) || s.Code != 400 && s.Code != 422 {
		t.Errorf("a rule for another tenant's key: %v", err)
	}

	must(t, a.Do(ctx, "DELETE", base+"/"+deny.ID+"?wait=10s", nil, nil))
	try(true, "without the rule again")
	ask(true, "scope")
	if err := a.Do(ctx, "GET", base+"/"+deny.ID, nil, nil); err == nil {
		t.Error("a rule that was taken away is there")
	}

	// A rule that allows gives what no scope does, until its time is over.
	var idle struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	must(t, a.Do(ctx, "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "narrow", "scopes": []map[string]any{
		{"namespace_id": a.NamespaceID, "permissions": []string{"DESCRIBE"}},
	}}, &idle))
	narrow := remotingSend(t, key{c.Addresses, idle.ID, idle.Secret}, "hello")
	if err := narrow([]byte("x"), ""); err == nil {
		t.Error("a key without PUB sends")
	}
	end := time.Now().Add(4 * time.Second)
	must(t, a.Do(ctx, "POST", base+"?wait=10s", map[string]any{
		"effect": "allow", "principal": idle.ID, "resource": "topic", "pattern": "hello", "operations": []string{"PUB"}, "cidrs": []string{"127.0.0.0/8"},
		"expires_at": end.UTC().Format("2006-01-02T15:04:05.000Z"),
	}, nil))
	if err := narrow([]byte("x"), ""); err != nil && time.Now().Before(end) {
		t.Errorf("with a rule that allows: %v", err)
	}
	must(t, testcluster.Eventually(context.Background(), 20*time.Second, func() (bool, error) {
		err := narrow([]byte("x"), "")
		return err != nil && time.Now().After(end.Add(-time.Second)), nil
	}))
}
