package provider

import (
	"testing"

	"github.com/sluicemq/sluice/terraform/fakeapi"
)

const oneTopic = `
resource "sluice_topic" "orders" {
  namespace_id = %q
  name         = "orders"
}
`

func TestCredentials_twoAreAnErrorThatNamesBoth(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s, "SLUICE_TOKEN="+fakeapi.Token)
	w.config(oneTopic, a.Namespace())
	w.fails(planArgs, "Two credentials", "token (from the environment variable SLUICE_TOKEN)",
		"client_id with client_secret (from the environment variable SLUICE_CLIENT_ID)")
}

func TestCredentials_missing(t *testing.T) {
	a, _ := newFake(t)
	w := newWorkspace(t, server{})
	w.config(oneTopic, a.Namespace())
	w.fails(planArgs, "Missing endpoint", "Missing credential", "SLUICE_CLIENT_ID, SLUICE_CLIENT_SECRET")
}

func TestCredentials_halfAKey(t *testing.T) {
	a, s := newFake(t)
	s.keySecret = ""
	w := newWorkspace(t, s)
	w.config(oneTopic, a.Namespace())
	w.fails(planArgs, "Missing client_secret")
}

func TestCredentials_tokenFromTheBlock(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, server{endpoint: s.endpoint})
	w.config(`
provider "sluice" {
  token     = %q
  tenant_id = %q
}
`+oneTopic, fakeapi.Token, fakeapi.TenantID, a.Namespace())
	w.apply()
}

func TestCredentials_ofAnotherTenant(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
provider "sluice" {
  tenant_id = "ten_01JAB3CD4EF5GH6JK7MN8PQ9RT"
}
`+oneTopic, a.Namespace())
	w.fails(planArgs, "Credential of another tenant", fakeapi.TenantID)
}

func TestCredentials_wrongSecret(t *testing.T) {
	a, s := newFake(t)
	s.keySecret += "x"
	w := newWorkspace(t, s)
	w.config(oneTopic, a.Namespace())
	w.fails(applyArgs, "Could not create topic orders", "Code: unauthenticated (HTTP 401). Request id: req_")
}

// TF-25: variables with common names mean nothing to the provider.
func TestCredentials_onlySluiceVariablesAreRead(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s, "ENDPOINT=http://127.0.0.1:1", "TOKEN=x", "CLIENT_ID=x", "CLIENT_SECRET=x", "API_KEY=x")
	w.config(oneTopic, a.Namespace())
	w.apply()
}

// TF-20: the provider block and every attribute may be known only later.
func TestPlan_takesUnknownValues(t *testing.T) {
	_, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
resource "terraform_data" "later" {
  input = { endpoint = %q, name = "orders", number = 6, text = "48h", flag = true, list = ["10s"] }
}
provider "sluice" {
  endpoint = terraform_data.later.output.endpoint
}
resource "sluice_namespace" "n" {
  name                = terraform_data.later.output.name
  description         = terraform_data.later.output.text
  labels              = { a = terraform_data.later.output.name }
  strict_types        = terraform_data.later.output.flag
  max_send_tps        = terraform_data.later.output.number
  deletion_protection = terraform_data.later.output.flag
}
resource "sluice_topic" "t" {
  namespace_id = sluice_namespace.n.id
  name         = terraform_data.later.output.name
  queues       = terraform_data.later.output.number
  retention    = terraform_data.later.output.text
}
resource "sluice_consumer_group" "g" {
  namespace_id = sluice_namespace.n.id
  name         = terraform_data.later.output.name
  retry        = { max_attempts = terraform_data.later.output.number, strategy = "fixed", delays = terraform_data.later.output.list }
  dead_letter  = { enabled = terraform_data.later.output.flag }
}
resource "sluice_api_key" "k" {
  name             = terraform_data.later.output.name
  scope            = [{ namespace_id = sluice_namespace.n.id, permissions = ["PUB"], topics = [terraform_data.later.output.name] }]
  rotation_keepers = { a = terraform_data.later.output.name }
}
`, s.endpoint)
	w.planDiffers()
	w.apply()
}
