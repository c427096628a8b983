package provider

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// rule is a configuration with one access rule.
type rule struct {
	Name, Effect, Principal, Resource, Pattern, Operations, More string
}

func (r rule) hcl() string {
	return fmt.Sprintf(`
resource "sluice_namespace" "shop" {
  name                = %q
  deletion_protection = false
}
resource "sluice_api_key" "ledger" {
  name  = "ledger"
  scope = [{ namespace_id = sluice_namespace.shop.id, permissions = ["DESCRIBE"] }]
}
resource "sluice_acl" "rule" {
  namespace_id = sluice_namespace.shop.id
  effect       = %q
  principal    = %s
  resource     = %q
  pattern      = %q
  operations   = %s
  %s
}
data "sluice_acl" "rule" {
  namespace_id = sluice_namespace.shop.id
  id           = sluice_acl.rule.id
}
`, r.Name, r.Effect, r.Principal, r.Resource, r.Pattern, r.Operations, r.More)
}

// TestAcceptance_acl walks a rule through its life, on the whole system and
// on the fake.
func TestAcceptance_acl(t *testing.T) {
	t.Run("system", func(t *testing.T) { walkACL(t, testServer(t)) })
	t.Run("fake", func(t *testing.T) {
		a, s := newFake(t)
		a.Shuffle = true
		walkACL(t, s)
	})
}

func walkACL(t *testing.T, s server) {
	w, client := newWorkspace(t, s), s.client(t)
	r := rule{Name: "acl-" + strings.ToLower(rand.Text()[:8]), Effect: "allow", Principal: "sluice_api_key.ledger.id", Resource: "topic", Pattern: "payments-*",
		Operations: `["SUB", "PUB"]`, More: `cidrs = ["10.20.0.0/16", "192.0.2.1"]
  expires_at = "2037-01-31T01:00:00+01:00"`}
	w.config("%s", r.hcl())
	w.apply()
	ns, id := w.text("sluice_acl.rule", "namespace_id"), w.text("sluice_acl.rule", "id")
	// expires_at and one of cidrs are written in a notation that is not the server's.
	sameValues(t, w.values("data.sluice_acl.rule"), w.values("sluice_acl.rule"), "expires_at", "cidrs")
	read := func() api.Acl {
		t.Helper()
		v, err := apiclient.OK(client.GetAclWithResponse(t.Context(), ns, id))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := read(); v.Effect != api.Allow || len(v.Operations) != 2 || len(v.Cidrs) != 2 || v.ExpiresAt == nil || v.Principal != w.text("sluice_api_key.ledger", "id") {
		t.Errorf("got %+v", v)
	}

	other := newWorkspace(t, s)
	other.config("%s", r.hcl())
	other.must("import", "-input=false", "sluice_acl.rule", ns+"/"+id)
	sameValues(t, other.values("sluice_acl.rule"), w.values("sluice_acl.rule"), "expires_at", "cidrs")

	// Everything but whom and what kind of resource it is about changes in place.
	r.Effect, r.Pattern, r.Operations, r.More = "deny", "payments*", `["PUB"]`, `description = "Closed"`
	w.config("%s", r.hcl())
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if v := read(); v.Effect != api.Deny || v.Pattern != "payments*" || len(v.Operations) != 1 || len(v.Cidrs) != 0 || v.ExpiresAt != nil || v.Description != "Closed" {
		t.Errorf("got %+v after the change", v)
	}

	if _, err := apiclient.OK(client.UpdateAclWithResponse(t.Context(), ns, id, nil, api.AclUpdate{Effect: ptr(api.Allow)})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if v := read(); v.Effect != api.Deny {
		t.Errorf("got effect %s after the repair", v.Effect)
	}

	for _, change := range []func(){func() { r.Principal = `"*"` }, func() { r.Resource = "group" }} {
		change()
		w.config("%s", r.hcl())
		wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy", "forces replacement")
		w.apply()
	}
	if err := apiclient.Done(client.GetAclWithResponse(t.Context(), ns, id)); !isNotFound(err) {
		t.Errorf("got %v for the rule that was replaced, want not found", err)
	}

	id = w.text("sluice_acl.rule", "id")
	if err := apiclient.Done(client.DeleteAclWithResponse(t.Context(), ns, id, nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	w.must(destroyArgs...)
}

func TestACL_refusedAtPlanTime(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	for _, c := range []struct{ line, want string }{
		{`resource = "namespace"`, "Write pattern ="},
		{`resource = "queue"`, "value must be one of"},
		{`effect = "permit"`, "value must be one of"},
		{`principal = "ten_01JAB3CD4EF5GH6JK7MN8PQ9RS"`, "value must match"},
		{`pattern = "a*b"`, "value must match"},
		{`operations = []`, "at least 1"},
		{`operations = ["WRITE"]`, "value must be one of"},
		{`expires_at = "tomorrow"`, "is no time in RFC 3339"},
	} {
		values := map[string]string{"effect": `"deny"`, "principal": `"*"`, "resource": `"topic"`, "pattern": `"a*"`, "operations": `["PUB"]`}
		name, value, _ := strings.Cut(c.line, " = ")
		values[name] = value
		var text strings.Builder
		for name, value := range values {
			fmt.Fprintf(&text, "  %s = %s\n", name, value)
		}
		w.config("resource \"sluice_acl\" \"r\" {\n  namespace_id = %q\n%s}\n", a.Namespace(), text.String())
		w.fails(planArgs, c.want)
	}
}
