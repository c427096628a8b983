package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// TestAcceptance_access walks what decides who gets in, on the whole system:
// identity providers and their domains, workload identities, brought secrets,
// what the tenant demands, and the data sources of all of them.
func TestAcceptance_access(t *testing.T) {
	dns := testcluster.StartDNS(t)
	c := testcluster.Start(t)
	s := tenantOf(t, c)
	for _, step := range []struct {
		name string
		run  func(*testing.T, server)
	}{
		{"identity provider", walkIdentityProvider}, {"workload identity", walkWorkloadIdentity}, {"brought secret", walkBroughtSecret},
		{"unknown values", walkUnknown},
		{"invitation", func(t *testing.T, s server) { walkInvitation(t, s, filepath.Join(c.Data, "mail")) }},
		{"data sources", walkDataSources}, {"single sign-on is demanded", func(t *testing.T, s server) { walkDemand(t, s, dns) }},
		{"tenant security", walkTenantSecurity},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(t, s) })
	}
}

// importsAs imports into another workspace, which then has the same values
// and nothing to do.
func importsAs(t *testing.T, s server, w *workspace, hcl, address, id string, except ...string) {
	t.Helper()
	other := newWorkspace(t, s)
	other.config("%s", hcl)
	other.must("import", "-input=false", address, id)
	sameValues(t, other.values(address), w.values(address), except...)
	other.planEmpty()
}

// stateLacks fails when a secret is in a file of the workspace.
func stateLacks(t *testing.T, w *workspace, secret string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.dir, "terraform.tfstate*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no state: %v", err)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s holds %q (%v)", path, secret, err)
		}
	}
}

func walkIdentityProvider(t *testing.T, s server) {
	w, client := newWorkspace(t, s), s.client(t)
	const address = "sluice_identity_provider.staff"
	config := func(issuer, more string) string {
		return fmt.Sprintf("resource \"sluice_identity_provider\" \"staff\" {\n  name = \"staff\"\n  issuer = %q\n  client_id = \"console\"\n  %s\n}\n", issuer, more)
	}
	first := config("https://login.example.com", "client_secret_wo = \"first-secret\"\n  client_secret_version = 1\n  domains = [\"Staff.Example.com\", \"b.example.com\"]")
	w.config("%s", first)
	w.apply()
	stateLacks(t, w, "first-secret")
	id := w.text(address, "id")
	read := func() api.IdentityProvider {
		t.Helper()
		p, err := apiclient.OK(client.GetIdentityProviderWithResponse(t.Context(), id))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(); !p.HasClientSecret || len(p.Domains) != 2 || p.AutoEnrolRole != "none" || !p.Enabled {
		t.Errorf("got %+v", p)
	}
	records, _ := w.values(address)["domain_records"].(map[string]any)
	if record, _ := records["staff.example.com"].(map[string]any); record["txt_name"] != "_sluice-challenge.staff.example.com" {
		t.Errorf("got the records %v", records)
	}
	without := config("https://login.example.com", "domains = [\"staff.example.com\", \"B.example.com\"]")
	importsAs(t, s, w, without, address, id, "client_secret_version", "domains")

	// Changes in place; the records of domains that stay are the same.
	w.config("%s", config("https://login.example.com", "client_secret_wo = \"second\"\n  client_secret_version = 2\n  domains = [\"staff.example.com\"]\n  auto_enrol_role = \"viewer\"\n  enabled = false"))
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if p := read(); p.AutoEnrolRole != "viewer" || p.Enabled || len(p.Domains) != 1 || p.Domains[0].TxtValue != records["staff.example.com"].(map[string]any)["txt_value"] {
		t.Errorf("got %+v after the change", p)
	}
	// A version alone is sent, and seen by nobody but the server.
	before := read().Revision
	w.config("%s", config("https://login.example.com", "client_secret_wo = \"third\"\n  client_secret_version = 3"))
	w.apply()
	if p := read(); p.Revision == before || !p.HasClientSecret || p.AutoEnrolRole != "none" || !p.Enabled || len(p.Domains) != 0 {
		t.Errorf("got %+v after another version", p)
	}

	// Drift: another name, and a secret that was taken away.
	update := func(u api.IdentityProviderUpdate) {
		t.Helper()
		if _, err := apiclient.OK(client.UpdateIdentityProviderWithResponse(t.Context(), id, nil, u)); err != nil {
			t.Fatal(err)
		}
		wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
		w.apply()
	}
	update(api.IdentityProviderUpdate{Name: ptr("by hand")})
	u := api.IdentityProviderUpdate{}
	u.ClientSecret.SetNull()
	update(u)
	if p := read(); p.Name != "staff" || !p.HasClientSecret {
		t.Errorf("got %+v after the repair", p)
	}
	w.config("%s", config("https://login.example.com", "client_secret = \"kept-in-state\""))
	w.apply()
	w.config("%s", config("https://login.example.com", ""))
	w.apply()
	if read().HasClientSecret {
		t.Error("a secret is left after it was taken out of the configuration")
	}

	for _, c := range []struct {
		args []string
		hcl  string
		want []string
	}{
		{planArgs, config("https://login.example.com", `auto_enrol_role = "admin"`), []string{"value must be one of", "auto_enrol_role ="}},
		{planArgs, config("https://login.example.com", `client_secret_wo = "x"`), []string{"client_secret_version", "must be specified"}},
		{planArgs, config("https://login.example.com", `domains = ["no domain"]`), []string{"value must match", "domains ="}},
		{applyArgs, config("http://login.example.com", ""), []string{"Could not change identity provider staff", "issuer"}},
		{applyArgs, config("https://login.example.com", `domains = ["a.example.com", "A.example.com"]`), []string{"is named twice", "domains ="}},
	} {
		w.config("%s", c.hcl)
		w.fails(c.args, c.want...)
	}

	w.config("%s", config("https://login.example.com", ""))
	if err := apiclient.Done(client.DeleteIdentityProviderWithResponse(t.Context(), id, nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	w.must(destroyArgs...)
}

func walkWorkloadIdentity(t *testing.T, s server) {
	w, client := newWorkspace(t, s), s.client(t)
	const address = "sluice_workload_identity.deploy"
	config := func(subject, role, more string) string {
		return fmt.Sprintf(`
resource "sluice_service_account" "ci" {
  name = "ci"
}
resource "sluice_namespace" "work" {
  name                = "work"
  deletion_protection = false
}
resource "sluice_workload_identity" "deploy" {
  name               = "deploy"
  issuer             = "https://token.actions.example.com"
  audience           = "https://sluice.example.com"
  subject            = %q
  service_account_id = sluice_service_account.ci.id
  control_role       = %q
  %s
}
`, subject, role, more)
	}
	scope := `scope = [
    { namespace_id = sluice_namespace.work.id, permissions = ["PUB"], topics = ["orders*"], cidrs = ["10.0.0.1/8"] },
    { namespace_id = sluice_namespace.work.id, permissions = ["DESCRIBE"], expires_at = "2037-01-31T01:00:00+01:00" },
  ]`
	hcl := config("repo:acme/checkout:*", "developer", "max_ttl = \"300s\"\n  conditions = { ref = \"refs/heads/main\" }\n  "+scope)
	w.config("%s", hcl)
	w.apply()
	id := w.text(address, "id")
	read := func() api.WorkloadIdentity {
		t.Helper()
		v, err := apiclient.OK(client.GetWorkloadIdentityWithResponse(t.Context(), id))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := read(); v.MaxTtl != "5m" || len(v.Scopes) != 2 || v.Conditions["ref"] != "refs/heads/main" || v.KeyId != w.text(address, "key_id") {
		t.Errorf("got %+v", v)
	}
	other := newWorkspace(t, s)
	other.config("%s", hcl)
	for from, id := range map[string]string{"sluice_service_account.ci": w.text("sluice_service_account.ci", "id"),
		"sluice_namespace.work": w.text("sluice_namespace.work", "id"), address: id} {
		other.must("import", "-input=false", from, id)
	}
	sameValues(t, other.values(address), w.values(address), "scope", "max_ttl") // written as the server does
	other.planEmpty()

	w.config("%s", config("repo:acme/*", "developer", "enabled = false\n  "+scope))
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if v := read(); v.Subject != "repo:acme/*" || v.Enabled || len(v.Conditions) != 0 || v.MaxTtl != "15m" || v.KeyId != w.text(address, "key_id") {
		t.Errorf("got %+v after the change", v)
	}
	if _, err := apiclient.OK(client.UpdateWorkloadIdentityWithResponse(t.Context(), id, nil, api.WorkloadIdentityUpdate{Scopes: &[]api.ApiKeyScope{}})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	w.config("%s", config("repo:acme/*", "viewer", ""))
	wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy", "forces replacement")
	w.apply()
	id = w.text(address, "id")
	for _, c := range []struct {
		args []string
		hcl  string
		want []string
	}{
		{planArgs, strings.Replace(config("repo", "viewer", ""), "control_role       = \"viewer\"", "", 1), []string{"Nothing that it may do", "sluice_workload_identity"}},
		{planArgs, config("repo", "owner", ""), []string{"value must be one of", "control_role"}},
		{planArgs, config("repo", "viewer", `max_ttl = "1h"`), []string{"value must match", "max_ttl ="}},
		{applyArgs, config("repo", "viewer", `max_ttl = "16m"`), []string{"Could not change workload identity deploy", "max_ttl ="}},
		{applyArgs, config("*", "viewer", ""), []string{"Could not change workload identity deploy", "subject"}},
		{applyArgs, config("repo", "viewer", `scope = [{ namespace_id = sluice_namespace.work.id, permissions = ["PUB"], cidrs = ["10.0.0.0/40"] }]`),
			[]string{"is neither an address nor a network", "scope ="}},
	} {
		w.config("%s", c.hcl)
		w.fails(c.args, c.want...)
	}
	w.config("%s", config("repo:acme/*", "viewer", ""))
	if err := apiclient.Done(client.DeleteWorkloadIdentityWithResponse(t.Context(), id, nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	w.must(destroyArgs...)
}

const (
	firstSecret  = "Wq8-vN2_kPz9.Rt3LcT8WdYx7Bm5Hs1Jf4Ga"
	secondSecret = "Zr4_mK7-pXw2.Ty9QdV3BnHc6Fs8Lg1Je5Ua"
)

func walkBroughtSecret(t *testing.T, s server) {
	w := newWorkspace(t, s)
	config := func(secret string, version int) {
		w.config(`
resource "sluice_api_key" "moved" {
  name           = "moved"
  control_role   = "viewer"
  secret_wo      = %q
  secret_version = %d
  lifecycle { create_before_destroy = true }
}
`, secret, version)
	}
	config(firstSecret, 1)
	w.apply()
	first := w.text("sluice_api_key.moved", "id")
	signsIn(t, s, first, firstSecret)
	stateLacks(t, w, firstSecret)
	config(secondSecret, 1) // another value alone is seen by nobody
	w.planEmpty()
	config(secondSecret, 2)
	wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy")
	w.apply()
	id := w.text("sluice_api_key.moved", "id")
	signsIn(t, s, id, secondSecret)
	stateLacks(t, w, secondSecret)

	other := newWorkspace(t, s)
	other.config("resource \"sluice_api_key\" \"moved\" {\n  name = \"moved\"\n  control_role = \"viewer\"\n  secret_wo = %q\n  secret_version = 2\n}\n", secondSecret)
	other.must("import", "-input=false", "sluice_api_key.moved", id)
	wantAll(t, other.planDiffers(), "0 to add, 1 to change, 0 to destroy") // the version, which no server knows
	other.apply()
	signsIn(t, s, id, secondSecret)

	config("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 3)
	w.fails(applyArgs, "Could not create API key moved", "secret")
	w.config("resource \"sluice_api_key\" \"moved\" {\n  control_role = \"viewer\"\n  secret_wo = %q\n}\n", firstSecret)
	w.fails(planArgs, "secret_version")
	w.config("resource \"sluice_api_key\" \"moved\" {\n  scope = []\n}\n")
	w.fails(planArgs, "Nothing that it may do", "scope = []")
	config(secondSecret, 2)
	w.must(destroyArgs...)
}

func signsIn(t *testing.T, s server, id, secret string) {
	t.Helper()
	c, err := apiclient.New(apiclient.Config{Endpoint: s.endpoint, KeyID: id, KeySecret: secret, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := apiclient.OK(c.GetMeWithResponse(t.Context())); err != nil {
		t.Errorf("key %s: %v", id, err)
	}
}

// TF-20: every attribute may be known only after apply.
func walkUnknown(t *testing.T, s server) {
	w := newWorkspace(t, s)
	w.config(`
resource "terraform_data" "later" {
  input = {
    name = "later", issuer = "https://login.example.com", list = ["later.example.com"], map = { ref = "main" }, flag = true, cidrs = ["10.0.0.1/8"],
    age = "8760h", end = "2037-01-31T00:00:00Z", secret = %q, number = 1, role = "viewer", ttl = "300s"
  }
}
locals {
  later = terraform_data.later.output
}
resource "sluice_identity_provider" "p" {
  name                  = local.later.name
  issuer                = local.later.issuer
  client_id             = local.later.name
  client_secret_wo      = local.later.secret
  client_secret_version = local.later.number
  domains               = local.later.list
  auto_enrol_role       = local.later.role
  enabled               = local.later.flag
}
resource "sluice_service_account" "a" {
  name = local.later.name
}
resource "sluice_namespace" "n" {
  name                = local.later.name
  deletion_protection = false
}
resource "sluice_workload_identity" "w" {
  name               = local.later.name
  issuer             = local.later.issuer
  audience           = local.later.issuer
  subject            = local.later.name
  conditions         = local.later.map
  service_account_id = sluice_service_account.a.id
  control_role       = local.later.role
  max_ttl            = local.later.ttl
  enabled            = local.later.flag
  scope              = [{ namespace_id = sluice_namespace.n.id, permissions = ["PUB"], cidrs = local.later.cidrs, expires_at = local.later.end }]
}
resource "sluice_api_key" "k" {
  name           = local.later.name
  control_role   = local.later.role
  allowed_cidrs  = local.later.cidrs
  expires_at     = local.later.end
  secret_wo      = local.later.secret
  secret_version = local.later.number
}
resource "sluice_tenant_security" "s" {
  mfa_required = local.later.flag
  max_key_age  = local.later.age
  depends_on   = [sluice_workload_identity.w, sluice_api_key.k]
}
`, firstSecret)
	w.planDiffers()
	w.must(applyArgs...)
	w.must(destroyArgs...)
}

func walkDataSources(t *testing.T, s server) {
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_namespace" "shop" {
  name                = "data"
  deletion_protection = false
}
resource "sluice_topic" "orders" {
  namespace_id = sluice_namespace.shop.id
  name         = "orders"
}
resource "sluice_consumer_group" "billing" {
  namespace_id = sluice_namespace.shop.id
  name         = "billing"
}
resource "sluice_service_account" "desk" {
  name = "desk"
}
resource "sluice_role" "support" {
  name        = "support"
  permissions = ["topic:read"]
}
resource "sluice_role_binding" "desk" {
  principal_id = sluice_service_account.desk.id
  role         = sluice_role.support.id
  scope        = { kind = "tenant" }
}
resource "sluice_acl" "deny" {
  namespace_id = sluice_namespace.shop.id
  effect       = "deny"
  principal    = sluice_service_account.desk.id
  resource     = "topic"
  pattern      = "orders"
  operations   = ["PUB"]
}
resource "sluice_identity_provider" "staff" {
  name      = "data"
  issuer    = "https://login.example.com"
  client_id = "console"
}
resource "sluice_workload_identity" "deploy" {
  name               = "deploy"
  issuer             = "https://token.example.com"
  audience           = "https://sluice.example.com"
  subject            = "repo"
  service_account_id = sluice_service_account.desk.id
  control_role       = "viewer"
}
data "sluice_role" "support"              { name = sluice_role.support.name }
data "sluice_role" "viewer"               { id = "viewer" }
data "sluice_service_account" "desk"      { name = sluice_service_account.desk.name }
data "sluice_identity_provider" "staff"   { name = sluice_identity_provider.staff.name }
data "sluice_workload_identity" "deploy"  { name = sluice_workload_identity.deploy.name }
data "sluice_member" "owner"              { email = "Terraform@Example.com" }
data "sluice_member" "by_id"              { id = data.sluice_member.owner.id }
data "sluice_tenant" "own"                {}
data "sluice_namespaces" "all"            { depends_on = [sluice_namespace.shop] }
data "sluice_topics" "of"                 { namespace_id = sluice_topic.orders.namespace_id }
data "sluice_consumer_groups" "of"        { namespace_id = sluice_consumer_group.billing.namespace_id }
data "sluice_api_keys" "of"               { owner_id = sluice_workload_identity.deploy.service_account_id }
data "sluice_acls" "of" {
  namespace_id = sluice_acl.deny.namespace_id
  principal    = sluice_acl.deny.principal
}
data "sluice_roles" "all"                 { depends_on = [sluice_role.support] }
data "sluice_role_bindings" "of"          { principal_id = sluice_role_binding.desk.principal_id }
data "sluice_service_accounts" "all"      { depends_on = [sluice_service_account.desk] }
data "sluice_members" "all"               {}
data "sluice_identity_providers" "all"    { depends_on = [sluice_identity_provider.staff] }
data "sluice_workload_identities" "all"   { depends_on = [sluice_workload_identity.deploy] }
`)
	w.apply()
	for data, managed := range map[string]string{"data.sluice_role.support": "sluice_role.support", "data.sluice_service_account.desk": "sluice_service_account.desk",
		"data.sluice_identity_provider.staff": "sluice_identity_provider.staff", "data.sluice_workload_identity.deploy": "sluice_workload_identity.deploy"} {
		sameValues(t, w.values(data), w.values(managed), "built_in")
	}
	if got := w.values("data.sluice_role.viewer"); got["built_in"] != true {
		t.Errorf("got the role %v", got)
	}
	if got := w.text("data.sluice_member.by_id", "role"); got != "owner" {
		t.Errorf("got the role %q of the owner", got)
	}
	if got := w.values("data.sluice_tenant.own"); got["mfa_required"] != false || got["status"] != "active" {
		t.Errorf("got the tenant %v", got)
	}
	for address, want := range map[string]string{"namespaces.all": "sluice_namespace.shop", "topics.of": "sluice_topic.orders", "consumer_groups.of": "sluice_consumer_group.billing",
		"acls.of": "sluice_acl.deny", "roles.all": "sluice_role.support", "role_bindings.of": "sluice_role_binding.desk", "service_accounts.all": "sluice_service_account.desk",
		"identity_providers.all": "sluice_identity_provider.staff", "workload_identities.all": "sluice_workload_identity.deploy"} {
		kind, _, _ := strings.Cut(address, ".")
		list, _ := w.values("data.sluice_" + address)[kind].([]any)
		found := false
		for _, item := range list {
			if m, ok := item.(map[string]any); ok && m["id"] == w.text(want, "id") {
				found = true
				sameValues(t, m, w.values(want), "built_in")
			}
		}
		if !found {
			t.Errorf("%s lacks %s: %v", address, want, list)
		}
	}
	if list, _ := w.values("data.sluice_api_keys.of")["api_keys"].([]any); len(list) != 1 {
		t.Errorf("got the keys %v, want that of the workload identity", list)
	}
	if list, _ := w.values("data.sluice_members.all")["members"].([]any); len(list) != 1 {
		t.Errorf("got the members %v", list)
	}
	// TF-15: what exists already says how to take it in.
	again := newWorkspace(t, s)
	again.config(`
resource "sluice_service_account" "desk" { name = "desk" }
resource "sluice_role" "support" {
  name        = "support"
  permissions = ["topic:read"]
}
resource "sluice_identity_provider" "staff" {
  name      = "data"
  issuer    = "https://login.example.com"
  client_id = "console"
}
resource "sluice_workload_identity" "deploy" {
  name               = "deploy"
  issuer             = "https://token.example.com"
  audience           = "https://sluice.example.com"
  subject            = "repo"
  service_account_id = %q
  control_role       = "viewer"
}
`, w.text("sluice_service_account.desk", "id"))
	again.fails(applyArgs, "terraform import sluice_service_account.<name of the resource block> "+w.text("sluice_service_account.desk", "id"),
		"terraform import sluice_role.<name of the resource block> "+w.text("sluice_role.support", "id"),
		"terraform import sluice_identity_provider.<name of the resource block> "+w.text("sluice_identity_provider.staff", "id"),
		"terraform import sluice_workload_identity.<name of the resource block> "+w.text("sluice_workload_identity.deploy", "id"))
	before := newWorkspace(t, s)
	before.config(`
data "sluice_role" "none" {
  name = "nobody"
}
data "sluice_member" "none" {
  email = "nobody@example.com"
}
data "sluice_service_account" "which" {}
`)
	before.fails(planArgs, `There is no role with the name "nobody"`, `There is no member with the email "nobody@example.com"`, "Set either id or name")
	w.must(destroyArgs...)
}

// The whole way to single sign-on in one configuration: provider, record,
// proof, demand.
func walkDemand(t *testing.T, s server, dns *testcluster.DNS) {
	w := newWorkspace(t, s)
	config := func(more string) {
		w.config(`
resource "sluice_identity_provider" "staff" {
  name      = "acme"
  issuer    = "https://login.example.com"
  client_id = "console"
  domains   = ["Acme.example.com"]
}
%s`, more)
	}
	config(`resource "sluice_tenant_security" "acme" {
  sso_required = true
}
`)
	w.fails(applyArgs, "Could not change what the tenant demands", "enabled identity provider has a verified domain", "sso_required = true")
	config(`resource "sluice_identity_domain_verification" "acme" {
  identity_provider_id = sluice_identity_provider.staff.id
  domain               = "acme.example.com"
  timeouts             = { create = "1s" }
}
`)
	w.fails(applyArgs, "Could not prove domain acme.example.com within 1s, which the timeouts attribute can raise", "no TXT record of _sluice-challenge.acme.example.com")
	records, _ := w.values("sluice_identity_provider.staff")["domain_records"].(map[string]any)
	record, _ := records["acme.example.com"].(map[string]any)
	dns.Set(fmt.Sprint(record["txt_name"]), fmt.Sprint(record["txt_value"]))
	whole := `resource "sluice_identity_domain_verification" "acme" {
  identity_provider_id = sluice_identity_provider.staff.id
  domain               = "acme.example.com"
}
resource "sluice_tenant_security" "acme" {
  sso_required = true
  depends_on   = [sluice_identity_domain_verification.acme]
}
`
	config(whole)
	w.apply()
	other := newWorkspace(t, s)
	other.config("resource \"sluice_identity_domain_verification\" \"acme\" {\n  identity_provider_id = %q\n  domain = \"acme.example.com\"\n}\n", w.text("sluice_identity_provider.staff", "id"))
	other.must("import", "-input=false", "sluice_identity_domain_verification.acme", w.text("sluice_identity_domain_verification.acme", "id"))
	other.planEmpty()

	config(strings.Replace(whole, `"acme.example.com"`, `"other.example.com"`, 1))
	w.fails(applyArgs, "is none of the provider's domains", "domain ")
	config(whole)
	w.apply()
	w.must(destroyArgs...) // the demand goes first, or the provider could not
	if tenant, err := apiclient.OK(s.client(t).GetTenantWithResponse(t.Context())); err != nil || tenant.Security.SsoRequired {
		t.Errorf("got %+v (%v) after destroy", tenant.Security, err)
	}
}

func walkTenantSecurity(t *testing.T, s server) {
	w, client := newWorkspace(t, s), s.client(t)
	const address = "sluice_tenant_security.own"
	key := `
resource "sluice_api_key" "old" {
  name         = "old"
  control_role = "viewer"
}
`
	w.config("%s", key)
	w.apply()
	config := func(demands, more string) string {
		return key + "resource \"sluice_tenant_security\" \"own\" {\n  " + demands + "\n}\n" + more
	}
	w.config("%s", config("mfa_required = true\n  max_key_age = \"720h\"", ""))
	w.apply() // the plan is empty: the key that the tenant now ends is as it was asked for
	read := func() api.TenantSecurity {
		t.Helper()
		v, err := apiclient.OK(client.GetTenantWithResponse(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return v.Security
	}
	if v := read(); !v.MfaRequired || v.MaxKeyAge == nil || *v.MaxKeyAge != "720h" {
		t.Errorf("got %+v", v)
	}
	importsAs(t, s, w, "resource \"sluice_tenant_security\" \"own\" {\n  mfa_required = true\n  max_key_age = \"43200m\"\n}\n", address, w.text(address, "id"))
	other := newWorkspace(t, s)
	other.config("resource \"sluice_tenant_security\" \"own\" {}\n")
	other.fails([]string{"import", "-input=false", address, "ten_01JAB3CD4EF5GH6JK7MN8PQ9RS"}, "the credential is for tenant "+w.text(address, "id"))

	// A key that is changed while the tenant ends it, and a new one.
	w.config("%s", config("mfa_required = true\n  max_key_age = \"720h\"", "")+`
resource "sluice_api_key" "late" {
  name         = "late"
  control_role = "viewer"
}
`)
	w.fails(applyArgs, "Could not create API key late", "this tenant lets API keys live 720h at most")
	key = strings.Replace(key, "viewer\"", "viewer\"\n  description  = \"changed\"", 1)
	w.config("%s", config("mfa_required = true\n  max_key_age = \"720h\"", ""))
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()

	if _, err := apiclient.OK(client.UpdateTenantWithResponse(t.Context(), nil, api.TenantUpdate{Security: &api.TenantSecurityUpdate{MfaRequired: ptr(false)}})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	w.config("%s", config("max_key_age = \"1m\"", ""))
	w.fails(applyArgs, "max_key_age must be 1h to 87600h", "max_key_age =")
	w.config("%s", config("mfa_required = true", ""))
	w.apply()
	if v := read(); v.MaxKeyAge != nil || !v.MfaRequired {
		t.Errorf("got %+v without an age", v)
	}
	w.config("%s", key)
	w.apply()
	if v := read(); v.MfaRequired || v.SsoRequired || v.MaxKeyAge != nil {
		t.Errorf("got %+v after destroy", v)
	}
	w.must(destroyArgs...)
}
