package provider

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// desk is a configuration with a service account, a role and a binding.
type desk struct {
	Name, Account, Permissions, Role, Scope, More string
}

func (d desk) hcl() string {
	return fmt.Sprintf(`
resource "sluice_namespace" "shop" {
  name                = %[1]q
  deletion_protection = false
}
resource "sluice_service_account" "desk" {
  name = %[1]q
  %[2]s
}
resource "sluice_role" "support" {
  name        = %[1]q
  permissions = %[3]s
}
resource "sluice_role_binding" "desk" {
  principal_id = sluice_service_account.desk.id
  role         = %[4]s
  scope        = %[5]s
  %[6]s
}
`, d.Name, d.Account, d.Permissions, d.Role, d.Scope, d.More)
}

// TestAcceptance_roles walks service account, role and binding through their
// lives, on the whole system and on the fake.
func TestAcceptance_roles(t *testing.T) {
	t.Run("system", func(t *testing.T) { walkRoles(t, testServer(t)) })
	t.Run("fake", func(t *testing.T) {
		_, s := newFake(t)
		walkRoles(t, s)
	})
}

func walkRoles(t *testing.T, s server) {
	w, client := newWorkspace(t, s), s.client(t)
	d := desk{Name: "desk-" + strings.ToLower(rand.Text()[:8]), Permissions: `["topic:read", "message:read"]`, Role: "sluice_role.support.id",
		Account: `labels = { team = "shop" }`, More: `expires_at = "2037-01-31T01:00:00+01:00"`,
		Scope: `{ kind = "topic", namespace_id = sluice_namespace.shop.id, pattern = "orders*" }`}
	w.config("%s", d.hcl())
	w.apply()
	account, role, binding := w.text("sluice_service_account.desk", "id"), w.text("sluice_role.support", "id"), w.text("sluice_role_binding.desk", "id")

	other := newWorkspace(t, s)
	other.config("%s", d.hcl())
	for address, id := range map[string]string{"sluice_service_account.desk": account, "sluice_role.support": role, "sluice_role_binding.desk": binding} {
		other.must("import", "-input=false", address, id)
		sameValues(t, other.values(address), w.values(address), "expires_at") // another notation of the same instant
	}

	d.Permissions, d.Account, d.More = `["topic:read"]`, "disabled = true", ""
	w.config("%s", d.hcl())
	wantAll(t, w.planDiffers(), "0 to add, 3 to change, 0 to destroy")
	w.apply()
	b, err := apiclient.OK(client.GetRoleBindingWithResponse(t.Context(), binding))
	if err != nil || b.ExpiresAt != nil || b.Role != role || b.Scope.Kind != api.RoleScopeTopic {
		t.Errorf("got %+v (%v)", b, err)
	}
	v, err := apiclient.OK(client.GetServiceAccountWithResponse(t.Context(), account))
	if err != nil || !v.Disabled || len(v.Labels) != 0 {
		t.Errorf("got %+v (%v)", v, err)
	}

	if _, err := apiclient.OK(client.UpdateRoleWithResponse(t.Context(), role, nil, api.CustomRoleUpdate{Permissions: &[]api.Permission{"topic:read", "topic:write"}})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()

	for _, change := range []func(){func() { d.Role = `"viewer"` }, func() { d.Scope = `{ kind = "namespace", namespace_id = sluice_namespace.shop.id }` }} {
		change()
		w.config("%s", d.hcl())
		wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy", "forces replacement")
		w.apply()
	}
	if err := apiclient.Done(client.GetRoleBindingWithResponse(t.Context(), binding)); !isNotFound(err) {
		t.Errorf("got %v for the binding that was replaced, want not found", err)
	}

	if err := apiclient.Done(client.DeleteRoleWithResponse(t.Context(), role, nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	w.must(destroyArgs...)
}

func TestRoleBinding_refusedAtPlanTime(t *testing.T) {
	_, s := newFake(t)
	w := newWorkspace(t, s)
	for _, c := range []struct{ scope, want string }{
		{`{ kind = "tenant", namespace_id = "k7m2q9x4w001" }`, "has no namespace_id; leave it out"},
		{`{ kind = "namespace" }`, "needs namespace_id"},
		{`{ kind = "namespace", namespace_id = "k7m2q9x4w001", pattern = "a" }`, "has no pattern; leave it out"},
		{`{ kind = "topic", namespace_id = "k7m2q9x4w001" }`, "needs pattern"},
		{`{ kind = "queue" }`, "value must be one of"},
	} {
		w.config("resource \"sluice_role_binding\" \"b\" {\n  principal_id = \"sa_01JAB3CD4EF5GH6JK7MN8PQ9RS\"\n  role = \"viewer\"\n  scope = %s\n}\n", c.scope)
		w.fails(planArgs, c.want)
	}
}
