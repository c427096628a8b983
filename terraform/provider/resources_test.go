package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/terraform/fakeapi"
)

// TF-02, TF-31: what is left out shows the server's default, and what is
// taken out of the configuration goes back to it.
func TestResources_goBackToDefaults(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	full := `
resource "sluice_topic" "t" {
  namespace_id      = %[1]q
  name              = "t"
  retention         = "24h"
  max_message_bytes = 1024
  max_send_tps      = 100
  perm              = "r"
  description       = "text"
  labels            = { a = "b" }
}
resource "sluice_consumer_group" "g" {
  namespace_id    = %[1]q
  name            = "g"
  consume_enabled = false
  broadcast       = false
  retry           = { max_attempts = 3, strategy = "exponential", delays = ["1000ms", "60m"] }
  dead_letter     = { enabled = false, topic = "t" }
  max_in_flight   = 5
  max_recv_tps    = 7
  description     = "text"
  labels          = { a = "b" }
}
resource "sluice_api_key" "k" {
  name          = "k"
  description   = "text"
  scope         = [{ namespace_id = %[1]q, permissions = ["SUB", "PUB"] }]
  allowed_cidrs = ["203.0.113.0/24", "192.0.2.1"]
  expires_at    = "2027-01-31T01:00:00+01:00"
  disabled      = true
}
`
	bare := `
resource "sluice_topic" "t" {
  namespace_id = %[1]q
  name         = "t"
}
resource "sluice_consumer_group" "g" {
  namespace_id = %[1]q
  name         = "g"
}
resource "sluice_api_key" "k" {
  name  = "k"
  scope = [{ namespace_id = %[1]q, permissions = ["PUB", "SUB"] }]
}
`
	w.config(full, a.Namespace())
	w.apply()
	g, _ := a.Group(a.Namespace(), "g")
	if *g.Retry.Strategy != api.Exponential || *g.DeadLetter.Enabled {
		t.Errorf("got retry %v, dead letter %v", *g.Retry.Strategy, *g.DeadLetter.Enabled)
	}
	w.config(bare, a.Namespace())
	wantAll(t, w.planDiffers(), "0 to add, 3 to change, 0 to destroy")
	w.apply()
	topic, _ := a.Topic(a.Namespace(), "t")
	if topic.Retention != "72h" || topic.MaxMessageBytes != 4194304 || topic.Perm != api.Rw || len(topic.Labels) != 0 {
		t.Errorf("the topic is not back to defaults: %+v", topic)
	}
	g, _ = a.Group(a.Namespace(), "g")
	if *g.Retry.MaxAttempts != 16 || len(*g.Retry.Delays) != 16 || *g.DeadLetter.Topic != "%DLQ%g" || !g.ConsumeEnabled {
		t.Errorf("the group is not back to defaults: %+v", g)
	}
	k, _ := a.Key(w.text("sluice_api_key.k", "id"))
	if k.ExpiresAt != nil || k.Disabled || len(k.AllowedCidrs) != 0 {
		t.Errorf("the key is not back to defaults: %+v", k)
	}
	w.must(destroyArgs...)
}

// TF-23, TF-26: neither the order of the server nor its pages matter.
func TestResources_orderAndPages(t *testing.T) {
	a, s := newFake(t)
	a.PageSize, a.Shuffle = 1, true
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_namespace" "other" {
  name                = "other"
  deletion_protection = false
}
resource "sluice_api_key" "k" {
  scope = [
    { namespace_id = sluice_namespace.other.id, permissions = ["DESCRIBE", "SUB", "PUB"], topics = ["b*", "a*"] },
    { namespace_id = %q, permissions = ["PUB"] },
  ]
  allowed_cidrs = ["203.0.113.0/24", "192.0.2.1"]
}
data "sluice_namespace" "other" {
  name = sluice_namespace.other.name
}
`, a.Namespace())
	w.apply()
	if got := w.text("data.sluice_namespace.other", "name"); got != "other" {
		t.Errorf("got namespace %q", got)
	}
}

// TF-07, TF-30: the secret outlives refreshes and never reaches a log.
func TestKey_secret(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_api_key" "k" {
  scope = [{ namespace_id = %q, permissions = ["PUB"] }]
}
`, a.Namespace())
	log := filepath.Join(w.dir, "trace.log")
	w.env = append(w.env, "TF_LOG_PROVIDER=TRACE", "TF_LOG_PATH="+log)
	out := w.apply()
	secret := w.text("sluice_api_key.k", "secret")
	w.must("refresh")
	w.must("refresh")
	if got := w.text("sluice_api_key.k", "secret"); got != secret || secret == "" {
		t.Errorf("got secret %q after refreshes, want %q", got, secret)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{secret, fakeapi.Secret} {
		if strings.Contains(string(text), secret) || strings.Contains(out, secret) {
			t.Errorf("%s is in the log or in the output", secret)
		}
	}
}

// A grace period lets the old key run out instead of cutting clients off.
func TestKey_gracePeriod(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	config := `
resource "sluice_api_key" "k" {
  scope            = [{ namespace_id = %q, permissions = ["PUB"] }]
  rotation_keepers = { n = %q }
  grace_period     = "15m"
}
`
	w.config(config, a.Namespace(), "1")
	w.apply()
	old := w.text("sluice_api_key.k", "id")
	w.config(config, a.Namespace(), "2")
	wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy")
	w.apply()
	k, ok := a.Key(old)
	if !ok || k.ExpiresAt == nil || w.text("sluice_api_key.k", "id") == old {
		t.Errorf("the old key has no grace: %t %v", ok, k.ExpiresAt)
	}
}

// A revoked key can never be used again: the next plan makes another.
func TestKey_revokedOutside(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_api_key" "k" {
  scope = [{ namespace_id = %q, permissions = ["PUB"] }]
}
`, a.Namespace())
	w.apply()
	if _, err := s.client(t).RevokeApiKey(t.Context(), w.text("sluice_api_key.k", "id"), nil); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add")
	w.apply()
}

// TF-16: the delete guard also stops a replacement.
func TestTopic_guardStopsReplacement(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	config := `
resource "sluice_topic" "t" {
  namespace_id        = %q
  name                = %q
  deletion_protection = true
}
`
	w.config(config, a.Namespace(), "t")
	w.apply()
	w.config(config, a.Namespace(), "u")
	w.fails(planArgs, "Protected from deletion", "A change of name replaces the topic")
	w.config("")
	w.fails(planArgs, "This plan destroys a topic with deletion_protection")
}

// TF-28: limits are those of the contract.
func TestValidation_isThatOfTheContract(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	for _, c := range []struct{ attributes, want string }{
		{`queues = 0`, "at least 1"}, {`queues = 65`, "at most 64"}, {`retention = "3 days"`, "is no duration"},
		{`type = "normal"`, "value must be one of"}, {`max_message_bytes = 4194305`, "at most 4194304"}, {`perm = "rwx"`, "value must be one of"},
	} {
		w.config(`
resource "sluice_topic" "t" {
  namespace_id = %q
  name         = "t"
  %s
}
`, a.Namespace(), c.attributes)
		w.fails([]string{"validate"}, c.want)
	}
	w.config(`
resource "sluice_topic" "t" {
  namespace_id = %q
  name         = "a.b"
}
`, a.Namespace())
	w.fails([]string{"validate"}, "value must match")
}

func TestDataSources_notFound(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
data "sluice_namespace" "n" {
  name = "nowhere"
}
data "sluice_topic" "t" {
  namespace_id = %q
  name         = "nothing"
}
data "sluice_api_key" "k" {
  name = "nobody"
}
`, a.Namespace())
	w.fails(planArgs, `There is no namespace with the name "nowhere"`, "Could not read topic nothing", `There is no API key with the name "nobody"`)
}

// TF-26: lists are read to their last page.
func TestLists_readAllPages(t *testing.T) {
	a, s := newFake(t)
	a.PageSize = 1
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_topic" "t" {
  count        = 3
  namespace_id = %[1]q
  name         = "t${count.index}"
}
data "sluice_topics" "all" {
  namespace_id = %[1]q
  depends_on   = [sluice_topic.t]
}
data "sluice_members" "all" {}
data "sluice_member" "second" {
  email = "grace@example.com"
}
`, a.Namespace())
	w.apply()
	if got, _ := w.values("data.sluice_topics.all")["topics"].([]any); len(got) != 4 {
		t.Errorf("got %d topics, want 4", len(got))
	}
	if got, _ := w.values("data.sluice_members.all")["members"].([]any); len(got) != 2 {
		t.Errorf("got %d members, want 2", len(got))
	}
	if got := w.text("data.sluice_member.second", "id"); got != fakeapi.MemberID {
		t.Errorf("got member %q", got)
	}
}
