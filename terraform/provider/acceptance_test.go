package provider

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// testServer returns the API that the acceptance tests run against, with an
// API key that has the control role admin: the one that the environment
// names, or a fake one of this process.
func testServer(t *testing.T) server {
	t.Helper()
	if endpoint := os.Getenv("SLUICE_TEST_ENDPOINT"); endpoint != "" {
		return server{endpoint: endpoint, keyID: os.Getenv("SLUICE_TEST_CLIENT_ID"), keySecret: os.Getenv("SLUICE_TEST_CLIENT_SECRET")}
	}
	_, s := newFake(t)
	return s
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
// import, update, drift, deletion from outside, rotation and destroy.
func TestAcceptance_lifecycle(t *testing.T) {
	s := testServer(t)
	client := s.client(t)
	w := newWorkspace(t, s)
	shop := newShop()
	w.config("%s", shop.hcl())
	w.apply()
	ns, key := w.text("sluice_namespace.shop", "id"), w.text("sluice_api_key.checkout", "id")
	if secret := w.text("sluice_api_key.checkout", "secret"); !strings.HasPrefix(secret, "sls_") {
		t.Errorf("got the secret %q, want one that begins with sls_", secret)
	}

	t.Run("import leaves an empty plan", func(t *testing.T) {
		other := newWorkspace(t, s)
		other.config("%s", shop.hcl())
		ids := map[string]string{"sluice_namespace.shop": ns, "sluice_topic.orders": ns + "/orders",
			"sluice_consumer_group.billing": ns + "/billing", "sluice_api_key.checkout": key}
		for _, address := range []string{"sluice_namespace.shop", "sluice_topic.orders", "sluice_consumer_group.billing"} {
			other.must("import", "-input=false", address, ids[address])
			sameValues(t, other.values(address), w.values(address))
		}
		other.must("import", "-input=false", "sluice_api_key.checkout", key)
		sameValues(t, other.values("sluice_api_key.checkout"), w.values("sluice_api_key.checkout"), "secret", "rotation_keepers")
		// Only the keepers, which no server knows, are taken in; nothing is replaced.
		out := other.planDiffers()
		wantAll(t, out, "0 to add, 1 to change, 0 to destroy")
		other.apply()
		if got := other.text("sluice_api_key.checkout", "id"); got != key {
			t.Errorf("import replaced key %s by %s", key, got)
		}
	})

	t.Run("data sources find them", func(t *testing.T) {
		shop.WithLookup = true
		w.config("%s", shop.hcl())
		w.apply()
		for _, pair := range [][2]string{{"data.sluice_namespace.by_name", "sluice_namespace.shop"}, {"data.sluice_topic.orders", "sluice_topic.orders"},
			{"data.sluice_consumer_group.billing", "sluice_consumer_group.billing"}, {"data.sluice_api_key.checkout", "sluice_api_key.checkout"}} {
			sameValues(t, w.values(pair[0]), w.values(pair[1]), "secret", "rotation_keepers", "grace_period", "timeouts", "state", "last_used_at")
		}
		shop.WithLookup = false
	})

	t.Run("changes in place", func(t *testing.T) {
		shop.Queues, shop.Retention, shop.Attempts = 8, "48h", 7
		w.config("%s", shop.hcl())
		wantAll(t, w.planDiffers(), "0 to add, 2 to change, 0 to destroy")
		w.apply()
		// The same length of time in another notation is no change.
		shop.Retention = "2880m"
		w.config("%s", shop.hcl())
		w.apply()
	})

	t.Run("queues do not shrink", func(t *testing.T) {
		smaller := shop
		smaller.Queues = 2
		w.config("%s", smaller.hcl())
		w.fails(planArgs, "Queues cannot shrink", "Topic orders has 8 queues")
		w.config("%s", shop.hcl())
	})

	t.Run("drift is put right", func(t *testing.T) { drift(t, w, s, ns) })

	t.Run("what was deleted outside is made again", func(t *testing.T) {
		if err := apiclient.Done(client.DeleteTopicWithResponse(context.Background(), ns, "orders", nil)); err != nil {
			t.Fatal(err)
		}
		wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
		w.apply()
	})

	t.Run("a keeper rotates the key", func(t *testing.T) {
		shop.Keeper, shop.Lifecycle = "2", "lifecycle { create_before_destroy = true }"
		w.config("%s", shop.hcl())
		wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy")
		w.apply()
		if w.text("sluice_api_key.checkout", "id") == key {
			t.Error("the key has the same id as before")
		}
		if err := apiclient.Done(client.GetApiKeyWithResponse(context.Background(), key)); err == nil {
			t.Error("the old key still exists")
		}
	})

	t.Run("destroy", func(t *testing.T) {
		w.fails(destroyArgs, "Protected from deletion")
		shop.Protected = false
		w.config("%s", shop.hcl())
		w.apply()
		w.must(destroyArgs...)
		if err := apiclient.Done(client.GetNamespaceWithResponse(context.Background(), ns)); !isNotFound(err) {
			t.Errorf("got %v for the namespace after destroy, want not found", err)
		}
	})
}

func drift(t *testing.T, w *workspace, s server, ns string) {
	client := s.client(t)
	labels := api.Labels{"by": "hand"}
	description := "changed by hand"
	if _, err := apiclient.OK(client.UpdateNamespaceWithResponse(context.Background(), ns, nil, api.NamespaceUpdate{Labels: &labels})); err != nil {
		t.Fatal(err)
	}
	if _, err := apiclient.OK(client.UpdateTopicWithResponse(context.Background(), ns, "orders", nil, api.TopicUpdate{Description: &description})); err != nil {
		t.Fatal(err)
	}
	enabled := false
	if _, err := apiclient.OK(client.UpdateGroupWithResponse(context.Background(), ns, "billing", nil, api.GroupUpdate{ConsumeEnabled: &enabled})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 3 to change, 0 to destroy")
	w.apply()
	topic, err := apiclient.OK(client.GetTopicWithResponse(context.Background(), ns, "orders"))
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
