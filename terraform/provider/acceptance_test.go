package provider

import (
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// testServer returns the API that the acceptance tests run against, with an
// API key that has the control role admin: the one that the environment
// names, or a whole system of its own in this process.
func testServer(t *testing.T) server {
	t.Helper()
	if endpoint := os.Getenv("SLUICE_TEST_ENDPOINT"); endpoint != "" {
		return server{endpoint: endpoint, keyID: os.Getenv("SLUICE_TEST_CLIENT_ID"), keySecret: os.Getenv("SLUICE_TEST_CLIENT_SECRET")}
	}
	return tenantOf(t, testcluster.Start(t))
}

// tenantOf makes a tenant with such a key.
func tenantOf(t *testing.T, c *testcluster.Cluster) server {
	t.Helper()
	owner, err := apiclient.New(apiclient.Config{Endpoint: c.URL(), Token: c.SignUp("terraform@example.com").Token})
	if err != nil {
		t.Fatal(err)
	}
	key, err := apiclient.Created(owner.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "terraform", ControlRole: ptr(api.ControlRoleAdmin)}))
	if err != nil {
		t.Fatal(err)
	}
	return server{endpoint: c.URL(), keyID: key.Id, keySecret: key.Secret}
}

// shop is a configuration with one of each resource and data source.
type shop struct {
	Name       string
	Protected  bool
	Queues     int
	Retention  string
	Attempts   int
	Keeper     string
	Lifecycle  string
	WithLookup bool
}

func (s shop) hcl() string {
	text := fmt.Sprintf(`
resource "sluice_namespace" "shop" {
  name                = %q
  labels              = { stage = "test" }
  deletion_protection = %t
}

resource "sluice_topic" "orders" {
  namespace_id = sluice_namespace.shop.id
  name         = "orders"
  queues       = %d
  retention    = %q
  description  = "Orders of the shop"
}

resource "sluice_consumer_group" "billing" {
  namespace_id = sluice_namespace.shop.id
  name         = "billing"
  retry        = { max_attempts = %d }
}

resource "sluice_api_key" "checkout" {
  name  = %q
  scope = [{
    namespace_id = sluice_namespace.shop.id
    permissions  = ["PUB", "SUB"]
    topics       = ["orders*"]
  }]
  rotation_keepers = { generation = %q }
  %s
}
`, s.Name, s.Protected, s.Queues, s.Retention, s.Attempts, s.Name, s.Keeper, s.Lifecycle)
	if s.WithLookup {
		text += `
data "sluice_namespace" "by_name" {
  name       = sluice_namespace.shop.name
}
data "sluice_topic" "orders" {
  namespace_id = sluice_namespace.shop.id
  name         = sluice_topic.orders.name
}
data "sluice_consumer_group" "billing" {
  namespace_id = sluice_namespace.shop.id
  name         = sluice_consumer_group.billing.name
}
data "sluice_api_key" "checkout" {
  key_id = sluice_api_key.checkout.key_id
}
`
	}
	return text
}

func newShop() shop {
	return shop{Name: "shop-" + strings.ToLower(rand.Text()[:8]), Protected: true, Queues: 4, Retention: "24h", Attempts: 5, Keeper: "1"}
}

// TestAcceptance_lifecycle walks all resources through apply, empty plan,
// import, update, drift, deletion from outside, rotation and destroy: against
// the whole system, and against the fake, so that what the other tests find
// with the fake holds for the system too. It covers the reports B178 to B181,
// B185 and B186.
func TestAcceptance_lifecycle(t *testing.T) {
	t.Run("system", func(t *testing.T) { walk(t, testServer(t)) })
	t.Run("fake", func(t *testing.T) {
		_, s := newFake(t)
		walk(t, s)
	})
}

// journey is a shop on its way through its life.
type journey struct {
	*workspace
	server
	shop    shop
	ns, key string
}

func (j *journey) write() { j.config("%s", j.shop.hcl()) }

func walk(t *testing.T, s server) {
	j := &journey{workspace: newWorkspace(t, s), server: s, shop: newShop()}
	j.write()
	j.apply()
	j.ns, j.key = j.text("sluice_namespace.shop", "id"), j.text("sluice_api_key.checkout", "id")
	if secret := j.text("sluice_api_key.checkout", "secret"); !strings.HasPrefix(secret, "sls_") {
		t.Errorf("got the secret %q, want one that begins with sls_", secret)
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *journey)
	}{
		{"import leaves an empty plan", imported}, {"data sources find them", found}, {"changes in place", changedInPlace},
		{"queues do not shrink", shrunk}, {"drift is put right", drifted}, {"what was deleted outside is made again", deletedOutside},
		{"a keeper rotates the key", rotated}, {"destroy", destroyed},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			j.t = t
			step.run(t, j)
		}) {
			return
		}
	}
}

func imported(t *testing.T, j *journey) {
	other := newWorkspace(t, j.server)
	other.config("%s", j.shop.hcl())
	ids := map[string]string{"sluice_namespace.shop": j.ns, "sluice_topic.orders": j.ns + "/orders", "sluice_consumer_group.billing": j.ns + "/billing"}
	for address, id := range ids {
		other.must("import", "-input=false", address, id)
		sameValues(t, other.values(address), j.values(address))
	}
	other.must("import", "-input=false", "sluice_api_key.checkout", j.key)
	sameValues(t, other.values("sluice_api_key.checkout"), j.values("sluice_api_key.checkout"), "secret", "rotation_keepers")
	// Only the keepers, which no server knows, are taken in; nothing is replaced.
	wantAll(t, other.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	other.apply()
	if got := other.text("sluice_api_key.checkout", "id"); got != j.key {
		t.Errorf("import replaced key %s by %s", j.key, got)
	}
}

func found(t *testing.T, j *journey) {
	j.shop.WithLookup = true
	j.write()
	j.apply()
	for data, managed := range map[string]string{"data.sluice_namespace.by_name": "sluice_namespace.shop", "data.sluice_topic.orders": "sluice_topic.orders",
		"data.sluice_consumer_group.billing": "sluice_consumer_group.billing", "data.sluice_api_key.checkout": "sluice_api_key.checkout"} {
		sameValues(t, j.values(data), j.values(managed), "state", "last_used_at")
	}
	j.shop.WithLookup = false
}

func changedInPlace(t *testing.T, j *journey) {
	j.shop.Queues, j.shop.Retention, j.shop.Attempts = 8, "48h", 7
	j.write()
	wantAll(t, j.planDiffers(), "0 to add, 2 to change, 0 to destroy")
	j.apply()
	// The same length of time in another notation is no change to the server.
	j.shop.Retention = "2880m"
	j.write()
	j.apply()
}

func shrunk(_ *testing.T, j *journey) {
	before := j.shop.Queues
	j.shop.Queues = 2
	j.write()
	j.fails(planArgs, "Queues cannot shrink", "Topic orders has 8 queues")
	j.shop.Queues = before
	j.write()
}

func deletedOutside(t *testing.T, j *journey) {
	if err := apiclient.Done(j.client(t).DeleteTopicWithResponse(t.Context(), j.ns, "orders", nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, j.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	j.apply()
}

func rotated(t *testing.T, j *journey) {
	j.shop.Keeper, j.shop.Lifecycle = "2", "lifecycle { create_before_destroy = true }"
	j.write()
	wantAll(t, j.planDiffers(), "1 to add, 0 to change, 1 to destroy")
	j.apply()
	if j.text("sluice_api_key.checkout", "id") == j.key {
		t.Error("the key has the same id as before")
	}
	if err := apiclient.Done(j.client(t).GetApiKeyWithResponse(t.Context(), j.key)); err == nil {
		t.Error("the old key still exists")
	}
}

func destroyed(t *testing.T, j *journey) {
	j.fails(destroyArgs, "Protected from deletion")
	j.shop.Protected = false
	j.write()
	j.apply()
	j.must(destroyArgs...)
	if err := apiclient.Done(j.client(t).GetNamespaceWithResponse(t.Context(), j.ns)); !isNotFound(err) {
		t.Errorf("got %v for the namespace after destroy, want not found", err)
	}
}

func drifted(t *testing.T, j *journey) {
	client := j.client(t)
	labels := api.Labels{"by": "hand"}
	description := "changed by hand"
	if _, err := apiclient.OK(client.UpdateNamespaceWithResponse(t.Context(), j.ns, nil, api.NamespaceUpdate{Labels: &labels})); err != nil {
		t.Fatal(err)
	}
	if _, err := apiclient.OK(client.UpdateTopicWithResponse(t.Context(), j.ns, "orders", nil, api.TopicUpdate{Description: &description})); err != nil {
		t.Fatal(err)
	}
	enabled := false
	if _, err := apiclient.OK(client.UpdateGroupWithResponse(t.Context(), j.ns, "billing", nil, api.GroupUpdate{ConsumeEnabled: &enabled})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, j.planDiffers(), "0 to add, 3 to change, 0 to destroy")
	j.apply()
	topic, err := apiclient.OK(client.GetTopicWithResponse(t.Context(), j.ns, "orders"))
	if err != nil || topic.Description != "Orders of the shop" {
		t.Errorf("got description %q (%v) after the repair", topic.Description, err)
	}
}

// sameValues compares what two states know of one object.
func sameValues(t *testing.T, got, want map[string]any, except ...string) {
	t.Helper()
	skip := map[string]bool{}
	for _, name := range except {
		skip[name] = true
	}
	for name, v := range got {
		if !skip[name] && !reflect.DeepEqual(v, want[name]) {
			t.Errorf("%s: got %v, want %v", name, v, want[name])
		}
	}
}
