package provider

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// Networks, instants and the order of scopes are compared by what they mean,
// in a scope as in the key itself: no plan is left over, and an import finds
// nothing to do.
func TestAcceptance_scopesAreComparedByWhatTheyMean(t *testing.T) {
	s := testServer(t)
	w, client := newWorkspace(t, s), s.client(t)
	name := "scopes-" + strings.ToLower(rand.Text()[:8])
	config := func(first, second, more string) string {
		return `
resource "sluice_namespace" "shop" {
  name                = "` + name + `"
  deletion_protection = false
}
resource "sluice_api_key" "k" {
  name  = "` + name + `"
  scope = [` + first + `, ` + second + `]
  ` + more + `
}
`
	}
	night := `{
    namespace_id = sluice_namespace.shop.id
    permissions  = ["SUB", "PUB"]
    cidrs        = ["192.0.2.1", "10.0.0.1/8", "2001:DB8::/32"]
    expires_at   = "2037-01-31T01:00:00+01:00"
  }`
	day := `{
    namespace_id = sluice_namespace.shop.id
    permissions  = ["DESCRIBE"]
    topics       = ["b", "a"]
    cidrs        = ["10.0.0.1/8"]
  }`
	const around = `allowed_cidrs = ["10.0.0.1/8", "192.0.2.1", "2001:DB8::/32"]
  expires_at    = "2037-02-01T01:00:00+01:00"`
	w.config("%s", config(night, day, around))
	w.apply()
	id := w.text("sluice_api_key.k", "id")

	other := newWorkspace(t, s)
	other.config("%s", config(night, day, around))
	other.must("import", "-input=false", "sluice_namespace.shop", w.text("sluice_namespace.shop", "id"))
	other.must("import", "-input=false", "sluice_api_key.k", id)
	other.planEmpty()

	// Another notation is nothing to do, another network is.
	w.config("%s", config(strings.ReplaceAll(night, "10.0.0.1/8", "10.0.0.0/8"), strings.ReplaceAll(day, "10.0.0.1/8", "10.200.0.0/8"),
		strings.ReplaceAll(around, "T01:00:00+01:00", "T00:00:00Z")))
	w.planEmpty()
	w.config("%s", config(night, strings.ReplaceAll(day, "10.0.0.1/8", "10.0.0.1/9"), around))
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()

	// The order of the configuration is kept, whatever the server's is.
	w.config("%s", config(day, night, around))
	w.apply()
	k, err := apiclient.OK(client.GetApiKeyWithResponse(t.Context(), id))
	if err != nil {
		t.Fatal(err)
	}
	k.Scopes[0], k.Scopes[1] = k.Scopes[1], k.Scopes[0]
	if _, err := apiclient.OK(client.UpdateApiKeyWithResponse(t.Context(), id, nil, api.ApiKeyUpdate{Scopes: &k.Scopes})); err != nil {
		t.Fatal(err)
	}
	w.planEmpty()
}
