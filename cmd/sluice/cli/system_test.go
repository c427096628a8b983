package cli

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/internal/oidctest"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// at is a shell of somebody without a credential, at a whole system.
func at(t *testing.T, url string) *shell {
	return &shell{t: t, url: url, dir: t.TempDir(), env: map[string]string{}, now: time.Now}
}

// person is a shell of somebody who signed in with a password.
func person(t *testing.T, url string, a *testcluster.Account) *shell {
	t.Helper()
	s := at(t, url)
	s.stdin = a.Password + "\n"
	s.must("login", "--endpoint", url, "--email", a.Email, "--password-stdin")
	return s
}

// object runs a command that works and reads what it prints.
func (s *shell) object(args ...string) map[string]any {
	s.t.Helper()
	var out map[string]any
	if r := s.must(append(args, "-o", "json")...); json.Unmarshal([]byte(r.stdout), &out) != nil {
		s.t.Fatalf("sluice %s: not JSON:\n%s", strings.Join(args, " "), r.stdout)
	}
	return out
}

// id is the id of what a command makes or finds.
func (s *shell) id(args ...string) string {
	s.t.Helper()
	id, _ := s.object(args...)["id"].(string)
	if id == "" {
		s.t.Fatalf("sluice %s: no id", strings.Join(args, " "))
	}
	return id
}

// ends runs a command that must end with this code and say all of want.
func (s *shell) ends(code int, args []string, want ...string) {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code {
		s.t.Errorf("sluice %s: got exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.stdout, r.stderr)
	}
	for _, text := range want {
		if !strings.Contains(r.stdout+r.stderr, text) {
			s.t.Errorf("sluice %s: the output lacks %q:\n%s%s", strings.Join(args, " "), text, r.stdout, r.stderr)
		}
	}
}

func cmd(line string) []string { return strings.Fields(line) }

// TestSystem_access has a platform team's day: who gets in, and how, against
// the whole system.
func TestSystem_access(t *testing.T) {
	dns := testcluster.StartDNS(t)
	c := testcluster.Start(t, testcluster.With(func(cfg *standalone.Config) { cfg.SSONetworks = "loopback" }))
	s := person(t, c.URL(), c.SignUp("ada@acme.example"))
	for _, step := range []struct {
		name string
		run  func(*testing.T, *shell)
	}{
		{"service accounts and roles", accountsAndRoles}, {"keys", keys}, {"workload identities", workloads}, {"sessions", sessions}, {"tenants", tenants},
		{"single sign-on", func(t *testing.T, s *shell) { singleSignOn(t, s, dns) }}, {"forms", forms}, {"README", readme},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.t, s.stdin = t, ""
			step.run(t, s)
		})
	}
}

// readme runs what the README shows of access.
func readme(t *testing.T, s *shell) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## Access, from the shell and with Terraform")
	_, part, _ = strings.Cut(part, "```sh\n")
	part, _, found := strings.Cut(part, "```")
	if !found {
		t.Fatal("the README has no commands about access")
	}
	if err := os.WriteFile(filepath.Join(s.dir, "secret.txt"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	part = strings.NewReplacer("\\\n", " ", "secret.txt", filepath.Join(s.dir, "secret.txt"), "'", "", "=10m", "=1s").Replace(part)
	for _, line := range strings.FieldsFunc(part, func(r rune) bool { return r == '\n' || r == '&' }) {
		args := append(strings.Fields(line)[1:], "--dry-run")
		switch {
		case strings.HasPrefix(line, "sluice service-account create"):
			args = args[:len(args)-1] // the lines below name it
		case strings.Contains(line, "verify-domain"), strings.Contains(line, "sso enforce"):
			continue // they need a record of that domain
		case strings.HasPrefix(line, "sluice tenant security"):
			args = append(args, "--yes")
		}
		s.must(args...)
	}
	s.must("service-account", "delete", "ci", "--yes")
}

func accountsAndRoles(t *testing.T, s *shell) {
	s.must("service-account", "create", "ci", "--label", "team=shop", "--dry-run")
	s.ends(exitNotFound, cmd("service-account get ci"), "there is no service account ci")
	id := s.id("service-account", "create", "ci", "--label", "team=shop")
	s.ends(exitRefused, cmd("service-account create ci"), "--if-not-exists")
	if got := s.id("service-account", "create", "ci", "--if-not-exists"); got != id {
		t.Errorf("got account %s, want %s", got, id)
	}
	if v := s.object("service-account", "update", "ci", "--description", "Builds", "--label", ""); v["description"] != "Builds" || len(v["labels"].(map[string]any)) != 0 {
		t.Errorf("got %v", v)
	}
	s.ends(exitUsage, cmd("service-account update ci"), "there is nothing to change")
	s.must("role", "create", "support", "--permission", "topic:read")
	s.must("role", "create", "support", "--permission", "topic:read", "--if-not-exists")
	binding := s.object("role", "bind", "ci", "support", "--topics", "orders*", "--expires", "8h")
	if binding["principal_id"] != id || !strings.HasPrefix(binding["role"].(string), "rol_") {
		t.Errorf("got %v", binding)
	}
	if again := s.object("role", "bind", "ci", "support", "--topics", "orders*", "--if-not-exists"); again["id"] != binding["id"] {
		t.Errorf("got another binding %v", again)
	}
	if other := s.object("role", "bind", "ci", "support", "--topics", "orders", "--if-not-exists"); other["id"] == binding["id"] {
		t.Error("got the binding for other topics")
	} else {
		s.must("role", "unbind", other["id"].(string), "--yes")
	}
	s.ends(exitNotFound, cmd("role bind nobody support"), "there is no service account nobody")
	s.ends(exitNotFound, cmd("role bind ci nothing"), "there is no role nothing")
	if r := s.must("role", "bindings", "--principal", "ci", "--role", "support", "-o", "name"); strings.TrimSpace(r.stdout) != binding["id"] {
		t.Errorf("got the bindings %q", r.stdout)
	}
	s.ends(exitRefused, []string{"role", "delete", "support", "--yes"}) // somebody has it
	s.ends(exitUsage, cmd("role unbind "+binding["id"].(string)), "Say --yes")
	s.must("role", "unbind", binding["id"].(string), "--yes")
	s.must("role", "unbind", binding["id"].(string), "--yes", "--if-exists")
	s.must("role", "delete", "support", "--yes")
	invited := s.id("invitation", "create", "Grace@acme.example", "--role", "none")
	s.ends(exitRefused, cmd("invitation create grace@acme.example"), "sluice invitation resend grace@acme.example", "--if-not-exists", "Request: ")
	if got := s.id("invitation", "create", "grace@acme.example", "--if-not-exists"); got != invited {
		t.Errorf("got invitation %s, want %s", got, invited)
	}
	s.must("invitation", "delete", "grace@acme.example", "--yes")
	rule := s.object("acl", "create", "deny", "ci", "--topics", "payments", "--operation", "PUB")
	if rule["principal"] != id {
		t.Errorf("got the rule %v", rule)
	}
	s.must("acl", "delete", rule["id"].(string), "--yes")
	s.must("service-account", "delete", "ci", "--yes", "--dry-run")
	if v := s.object("service-account", "delete", "ci", "--yes"); v["existed"] != true {
		t.Errorf("got %v", v)
	}
	s.ends(exitNotFound, cmd("service-account delete ci --yes"))
	s.must("service-account", "delete", "ci", "--yes", "--if-exists")
}

// scopesOf are the scopes of a key as the server has them.
func scopesOf(t *testing.T, s *shell, id string) []api.ApiKeyScope {
	t.Helper()
	var k api.ApiKey
	if err := json.Unmarshal([]byte(s.must("key", "get", id, "-o", "json").stdout), &k); err != nil {
		t.Fatal(err)
	}
	return k.Scopes
}

func keys(t *testing.T, s *shell) {
	const brought = "Wq8-vN2_kPz9.Rt3LcT8WdYx7Bm5Hs1Jf4Ga"
	id := s.id("key", "create", "shop", "--topics", "orders*", "--permission", "PUB", "--scope-cidr", "10.20.0.1/16", "--scope-expires", "720h")
	// What is not named of the scope stays: a key never gets more by an update of something else.
	s.must("key", "update", id, "--groups", "billing")
	sc := scopesOf(t, s, id)
	if len(sc) != 1 || !slices.Equal(*sc[0].Topics, []string{"orders*"}) || !slices.Equal(sc[0].Permissions, []api.KeyPermission{"PUB"}) || (*sc[0].Cidrs)[0] != "10.20.0.0/16" || sc[0].ExpiresAt == nil {
		t.Errorf("got %+v after an update of the groups", sc)
	}
	s.must("key", "update", id, "--scope-expires", "never", "--scope-cidr", "")
	if sc = scopesOf(t, s, id); sc[0].ExpiresAt != nil || sc[0].Cidrs != nil || !slices.Equal(*sc[0].Topics, []string{"orders*"}) {
		t.Errorf("got %+v after the bounds were taken away", sc)
	}
	// Another namespace is another scope; the first stays.
	other := s.id("namespace", "create", "other", "--wait")
	s.must("key", "update", id, "--permission", "SUB", "--namespace", "other")
	if sc = scopesOf(t, s, id); len(sc) != 2 || sc[1].NamespaceId != other || !slices.Equal(sc[1].Permissions, []api.KeyPermission{"SUB"}) {
		t.Errorf("got %+v with a second namespace", sc)
	}
	// All of them by file: what is shown is what is taken.
	file := filepath.Join(t.TempDir(), "key.yaml")
	text := strings.ReplaceAll(s.must("key", "get", id, "-o", "yaml").stdout, "- SUB", "- DESCRIBE")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("key", "update", id, "--scopes-file", file)
	if sc = scopesOf(t, s, id); len(sc) != 2 || sc[1].Permissions[0] != "DESCRIBE" {
		t.Errorf("got %+v by file", sc)
	}
	s.stdin = `[{"namespace_id": "` + other + `", "permissions": ["PUB"], "cidrs": ["10.0.0.0/8"]}, {"namespace_id": "` + other + `", "permissions": ["SUB"]}]`
	s.must("key", "update", id, "--scopes-file", "-")
	s.ends(exitUsage, []string{"key", "update", id, "--topics", "a", "--namespace", "other"}, "several scopes", "--scopes-file")
	for _, wrong := range []string{"{}", "- namespace: x", "{", "3"} {
		s.stdin = wrong
		s.ends(exitUsage, []string{"key", "update", id, "--scopes-file", "-"}, "--scopes-file: ")
	}
	s.ends(exitUsage, []string{"key", "update", id, "--scopes-file", file, "--topics", "a"}, "two ways")

	// A secret of one's own comes from a file or standard input and is shown nowhere.
	s.stdin = brought + "\n"
	moved := s.id("key", "create", "moved", "--no-scope", "--control-role", "viewer", "--secret-file", "-")
	if strings.Contains(s.log.String(), brought) {
		t.Error("the secret is in the output")
	}
	foreign := at(t, s.url)
	foreign.env = map[string]string{envEndpoint: s.url, envClientID: moved, envClientSecret: brought}
	foreign.must("whoami")
	foreign.ends(exitRefused, cmd("key create more --no-scope --control-role admin"))
	s.must("key", "delete", moved, "--yes")
	s.must("namespace", "delete", "other", "--yes")
}

func workloads(t *testing.T, s *shell) {
	op := oidctest.Start(t)
	client := op.Register(t, map[string]any{"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{"client_credentials"}})
	const audience = "https://sluice.example.com/work"
	account := s.id("service-account", "create", "jobs")
	create := []string{"workload-identity", "create", "deploy", "--service-account", "jobs", "--issuer", op.Issuer, "--audience", audience, "--subject", client.ID,
		"--condition", "scope=work", "--control-role", "viewer", "--topics", "orders*", "--permission", "PUB", "--max-ttl", "5m"}
	s.must(append(create, "--dry-run")...)
	id := s.id(create...)
	s.ends(exitRefused, create, "--if-not-exists")
	if got := s.id(append(create, "--if-not-exists")...); got != id {
		t.Errorf("got %s, want %s", got, id)
	}
	if v := s.object("workload-identity", "get", "deploy"); v["service_account_id"] != account || v["max_ttl"] != "5m" || len(v["scopes"].([]any)) != 1 {
		t.Errorf("got %v", v)
	}

	token := filepath.Join(t.TempDir(), "token")
	fresh := func() {
		if err := os.WriteFile(token, []byte(op.WorkloadToken(t, client, audience)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh()
	job := at(t, s.url) // without any credential
	job.env[envEndpoint] = s.url
	job.env[envToken] = strings.TrimSpace(job.must("workload-identity", "exchange", id, "--token-file", token, "-o", "name").stdout)
	if me := job.object("whoami"); me["id"] != account {
		t.Errorf("the job is %v", me)
	}
	delete(job.env, envToken)
	job.ends(exitRefused, []string{"workload-identity", "exchange", id, "--token-file", token}, "exchanged before") // once for each audience
	if v := job.object("workload-identity", "exchange", id, "--token-file", token, "--for", "data"); v["audience"] != "data" || v["expires_in"] != 300.0 {
		t.Errorf("got %v", v)
	}
	job.stdin = "not a token"
	job.ends(exitRefused, []string{"workload-identity", "exchange", id, "--token-file", "-"}, "the token is not of its issuer", "workload-identity get")
	job.ends(exitUsage, []string{"workload-identity", "exchange", id, "--token-file", "/nowhere"}, "Name a file")
	job.ends(exitUsage, []string{"workload-identity", "exchange", id})

	s.must("workload-identity", "update", "deploy", "--groups", "billing")
	if v := s.object("workload-identity", "update", "deploy", "--enabled=false", "--condition", "ref=main"); v["enabled"] != false ||
		v["conditions"].(map[string]any)["ref"] != "main" || fmt.Sprint(v["scopes"].([]any)[0].(map[string]any)["topics"]) != "[orders*]" {
		t.Errorf("got %v", v)
	}
	fresh()
	job.ends(exitRefused, []string{"workload-identity", "exchange", id, "--token-file", token})
	s.ends(exitUsage, []string{"workload-identity", "update", "deploy", "--max-ttl", "1h"}, "max_ttl")
	s.ends(exitUsage, cmd("workload-identity delete deploy"), "Say --yes")
	s.must("workload-identity", "delete", "deploy", "--yes")
	s.must("workload-identity", "delete", "deploy", "--yes", "--if-exists")
	s.ends(exitNotFound, cmd("workload-identity get deploy"))
	s.must("service-account", "delete", "jobs", "--yes")
}

func sessions(t *testing.T, s *shell) {
	second := at(t, s.url)
	second.stdin = testcluster.Password + "\n"
	second.must("login", "--endpoint", s.url, "--email", "ada@acme.example", "--password-stdin")
	var others []string
	for _, item := range s.object("session", "list")["items"].([]any) {
		if v := item.(map[string]any); v["current"] == false {
			others = append(others, v["id"].(string))
		}
	}
	if len(others) != 2 { // that of the sign-up, and the second
		t.Fatalf("got the sessions %v", others)
	}
	s.ends(exitUsage, cmd("session end"), "which session?")
	s.ends(exitUsage, []string{"session", "end", others[0]}, "Say --yes")
	s.must("session", "end", others[0], "--yes", "--dry-run")
	second.must("whoami")
	s.must("session", "end", others[0], "--yes")
	second.ends(exitRefused, cmd("whoami"), "Sign in again")
	s.ends(exitNotFound, []string{"session", "end", others[0], "--yes"})
	s.must("session", "end", others[0], "--yes", "--if-exists")
	if v := s.object("session", "end", "--others", "--yes"); v["ended"] != 1.0 {
		t.Errorf("got %v", v)
	}
	s.must("whoami")
}

func tenants(t *testing.T, s *shell) {
	first := s.object("tenant", "get")
	s.must("tenant", "create", "Labs", "--dry-run")
	founded := s.object("tenant", "create", "Labs")
	if len(s.object("tenant", "list")["items"].([]any)) != 2 {
		t.Error("the new tenant is not listed")
	}
	s.ends(exitNotFound, cmd("tenant switch Nowhere"), "there is no tenant Nowhere")
	s.must("tenant", "switch", "Labs")
	if me := s.object("whoami"); me["tenant_id"] != founded["tenant_id"] {
		t.Errorf("got %v in the new tenant", me)
	}
	// The namespace of the context is that of the new tenant.
	if r := s.must("topic", "list", "-o", "name"); strings.TrimSpace(r.stdout) != founded["topic"] {
		t.Errorf("got the topics %q", r.stdout)
	}
	s.must("tenant", "switch", "Labs") // is there already
	if v := s.object("tenant", "update", "--name", "Laboratory", "--label", "stage=test"); v["name"] != "Laboratory" {
		t.Errorf("got %v", v)
	}
	s.must("tenant", "switch", first["id"].(string))
	if got := s.object("tenant", "get"); got["id"] != first["id"] {
		t.Errorf("got the tenant %v, want %v", got, first)
	}
	key := founded["api_key"].(map[string]any)
	machine := at(t, s.url)
	machine.env = map[string]string{envEndpoint: s.url, envClientID: key["id"].(string), envClientSecret: key["secret"].(string)}
	machine.ends(exitUsage, cmd("tenant switch Labs"), "only somebody who signed in has several tenants")
}

func singleSignOn(t *testing.T, s *shell, dns *testcluster.DNS) {
	s.ends(exitUsage, cmd("sso enforce --yes"), "verified domain")
	s.ends(exitUsage, cmd("sso create staff"), "required flag", "sluice sso create --help")
	s.stdin = "client-secret-1\n"
	create := cmd("sso create staff --issuer https://login.example.com --client-id sluice --client-secret-file - --domain Acme.example.com --domain acme.example.org")
	s.must(append(create, "--dry-run")...)
	p := s.object(create...)
	if p["has_client_secret"] != true || p["owner_approved"] != true || strings.Contains(s.log.String(), "client-secret-1") {
		t.Errorf("got %v", p)
	}
	s.ends(exitRefused, cmd("sso create staff --issuer https://login.example.com --client-id sluice"), "--if-not-exists")
	s.ends(exitUsage, cmd("sso update staff --issuer http://login.example.com"), "issuer")
	s.ends(exitRefused, cmd("sso verify-domain staff acme.example.com"), "no TXT record of _sluice-challenge.acme.example.com")
	s.ends(exitUsage, cmd("sso verify-domain staff other.example.com"), "add it first")
	record := p["domains"].([]any)[0].(map[string]any)
	dns.Set(record["txt_name"].(string), record["txt_value"].(string))
	s.must("sso", "verify-domain", "staff", "acme.example.com", "--wait")
	if r := s.must("sso", "get", "staff", "-o", "table"); !strings.Contains(r.stdout, "acme.example.com, acme.example.org (not verified)") || !strings.Contains(r.stdout, "_sluice-challenge.acme.example.org TXT") {
		t.Errorf("got\n%s", r.stdout)
	}
	s.ends(exitUsage, cmd("sso enforce"), "Say --yes")
	s.must("sso", "enforce", "--yes", "--dry-run")
	if v := s.object("sso", "enforce", "--yes"); v["sso_required"] != true {
		t.Errorf("got %v", v)
	}
	s.ends(exitRefused, cmd("sso disable staff --yes"), "last identity provider")
	s.ends(exitRefused, cmd("sso delete staff --yes"), "last identity provider")
	if v := s.object("sso", "enforce", "--off"); v["sso_required"] != false {
		t.Errorf("got %v", v)
	}
	if v := s.object("sso", "update", "staff", "--no-client-secret", "--auto-enrol-role", "viewer"); v["has_client_secret"] != false || v["auto_enrol_role"] != "viewer" {
		t.Errorf("got %v", v)
	}
	if v := s.object("sso", "disable", "staff", "--yes"); v["enabled"] != false {
		t.Errorf("got %v", v)
	}
	if v := s.object("sso", "enable", "staff"); v["enabled"] != true {
		t.Errorf("got %v", v)
	}
	s.must("sso", "delete", p["id"].(string), "--yes")
	s.must("sso", "delete", p["id"].(string), "--yes", "--if-exists")
	s.ends(exitNotFound, cmd("sso get staff"))
}

// forms checks that every list and object of these commands comes in all forms.
func forms(t *testing.T, s *shell) {
	s.must("service-account", "create", "forms")
	for _, line := range []string{"session list", "tenant list", "tenant get", "tenant security get", "service-account list", "service-account get forms", "sso list",
		"workload-identity list", "member list", "role list", "role bindings", "invitation list", "key list", "acl list"} {
		for _, form := range []string{"json", "yaml", "table", "name"} {
			if r := s.must(append(cmd(line), "-o", form)...); form == "json" && !json.Valid([]byte(r.stdout)) {
				t.Errorf("%s: not JSON:\n%s", line, r.stdout)
			}
		}
	}
	s.must("service-account", "delete", "forms", "--yes")
}

// What a session may not do any more, or not yet, names the next step.
func TestSystem_refusalsNameTheNextStep(t *testing.T) {
	var past atomic.Int64 // what the clock of both is ahead
	now := func() time.Time { return time.Now().Add(time.Duration(past.Load())) }
	c := testcluster.Start(t, func(_ *standalone.Config, d *standalone.Deps) { d.Now = now })
	a := c.SignUp("ada@acme.example")
	s := person(t, c.URL(), a)
	s.now = now
	risky := cmd("sso create staff --issuer https://login.example.com --client-id sluice --dry-run")
	s.must(risky...)
	past.Store(int64(20 * time.Minute)) // the access token is over, too, and is renewed
	s.ends(exitRefused, risky, "Prove again who you are: sluice login")
	s.stdin = a.Password + "\n"
	s.must("login", "--endpoint", c.URL(), "--email", a.Email, "--password-stdin")
	s.must(risky...)

	s.must("tenant", "security", "set", "--mfa-required", "--yes")
	s.ends(exitRefused, cmd("topic list"), "add a second factor under your account")
	s.must("session", "list")
}

// Somebody with a binding to topics alone may not read the namespace, and need
// not: neither to name it nor to leave it out.
func TestSystem_bindingToTopicsAlone(t *testing.T) {
	c := testcluster.Start(t)
	ada := c.SignUp("ada@acme.example")
	s := person(t, c.URL(), ada)
	s.must("service-account", "create", "reader")
	s.must("role", "create", "looks", "--permission", "topic:read,message:read")
	s.must("role", "bind", "reader", "looks", "--topics", "hel*")
	s.must("send", "hello", "hi")
	key := s.object("key", "create", "reader", "--owner", "reader", "--no-scope", "--control-role", "viewer")
	r := at(t, c.URL())
	r.env = map[string]string{envEndpoint: c.URL(), envClientID: key["id"].(string), envClientSecret: key["secret"].(string)}
	for _, args := range [][]string{cmd("topic get hello"), cmd("topic get hello --namespace " + ada.NamespaceID), cmd("topic list")} {
		r.must(args...)
	}
	r.ends(exitRefused, cmd("namespace get "+ada.NamespaceID), "Ask an owner or admin")
	s.must("role", "bind", "reader", "viewer", "--whole-tenant")
	r.must(cmd("namespace get " + ada.NamespaceID)...)
}

// A second factor that is typed ends the sign-in; one that only a browser can
// use says what to do.
func TestSystem_secondFactors(t *testing.T) {
	c := testcluster.Start(t)
	_, port, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://localhost:" + port // a security key is for a name
	phone, key := c.SignUp("phone@acme.example"), c.SignUp("key@acme.example")

	sdk := sdkOf(t, url, phone)
	e, err := apiclient.Created(sdk.CreateMfaFactorWithResponse(t.Context(), nil, api.MfaFactorCreate{Type: "totp", Name: "Phone"}))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if _, err := apiclient.OK(sdk.ConfirmMfaFactorWithResponse(t.Context(), e.Id, nil, api.MfaConfirm{Code: totp(t, e.Secret, now.Add(-30*time.Second))})); err != nil {
		t.Fatal(err)
	}
	s := at(t, url)
	login := func(a *testcluster.Account, more ...string) []string {
		s.stdin = a.Password + "\n"
		return append([]string{"login", "--endpoint", url, "--email", a.Email, "--password-stdin"}, more...)
	}
	s.ends(exitUsage, login(phone), "Give --code")
	s.ends(exitRefused, login(phone, "--code", "000000"))
	s.must(login(phone, "--code", totp(t, e.Secret, now))...)
	s.must("whoami")

	sdk = sdkOf(t, url, key)
	begun, err := apiclient.Created(sdk.BeginWebauthnWithResponse(t.Context(), nil, api.WebauthnBegin{Name: "Blue key"}))
	if err != nil {
		t.Fatal(err)
	}
	options, err := virtualwebauthn.ParseAttestationOptions(begun.Options)
	if err != nil {
		t.Fatal(err)
	}
	answer := virtualwebauthn.CreateAttestationResponse(virtualwebauthn.RelyingParty{Name: "Sluice", ID: "localhost", Origin: url},
		virtualwebauthn.NewAuthenticator(), virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2), *options)
	done, err := apiclient.OK(sdk.ConfirmWebauthnWithResponse(t.Context(), begun.Id, nil, api.WebauthnConfirm{Credential: answer}))
	if err != nil {
		t.Fatal(err)
	}
	s.ends(exitRefused, login(key), "is a security key, which works in a browser only", "make an API key with a control role", "sluice login --key-id")
	s.terminal, s.password = true, done.RecoveryCodes[0]
	s.ends(0, login(key), "spend one of your recovery codes")
	s.terminal = false
	s.ends(0, login(key, "--code", done.RecoveryCodes[1]))
}

func sdkOf(t *testing.T, url string, a *testcluster.Account) *apiclient.SDK {
	t.Helper()
	sdk, err := apiclient.New(apiclient.Config{Endpoint: url, Token: a.Token})
	if err != nil {
		t.Fatal(err)
	}
	return sdk
}

// totp is the code that an authenticator app shows at an instant.
func totp(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha1.New, raw)
	_ = binary.Write(m, binary.BigEndian, uint64(at.Unix()/30))
	sum := m.Sum(nil)
	offset := sum[19] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[offset:offset+4])&0x7fffffff%1e6)
}

// TestSystem_resetOffsets moves a group that is offline at a real broker, and
// puts it back with what the answer says.
func TestSystem_resetOffsets(t *testing.T) {
	c := testcluster.Start(t)
	url := "http://" + c.HTTP
	a, err := testcluster.SignUp(t.Context(), url, filepath.Join(c.Data, "mail"), "ada@example.com", "Shop")
	if err != nil {
		t.Fatal(err)
	}
	s := person(t, url, a)
	for range 3 {
		s.must("send", "hello", "x", "--quiet")
	}
	reset := func(args ...string) api.OffsetResetResult {
		t.Helper()
		r := s.must(append([]string{"group", "reset-offsets", "hello-group", "--topic", "hello", "-o", "json", "--quiet"}, args...)...)
		var out api.OffsetResetResult
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || len(out.Queues) != 4 {
			t.Fatalf("%v: %s", err, r.stdout)
		}
		return out
	}
	lag := func() string {
		t.Helper()
		return strings.TrimSpace(s.must("group", "lag", "hello-group", "-o", "name").stdout)
	}
	if first := reset("--to", "earliest", "--yes"); first.Queues[0].FromOffset != "-1" || len(first.Undo) != 0 || first.Redelivered != "0" {
		t.Errorf("a group without a place: %+v", first)
	}
	// The group has all in front of it once the queues are built.
	if err := testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) { return lag() == "3", nil }); err != nil {
		t.Fatalf("lag %s, %v", lag(), err)
	}
	if preview := reset("--to", "latest", "--dry-run"); preview.Skipped != "3" || lag() != "3" {
		t.Errorf("preview: %+v, lag %s", preview, lag())
	}
	done := reset("--to", "latest", "--yes")
	if done.Skipped != "3" || lag() != "0" {
		t.Errorf("to the end: %+v, lag %s", done, lag())
	}
	again := 0
	for _, u := range done.Undo {
		r := s.object("group", "reset-offsets", "hello-group", "--topic", u.Topic, "--broker", *u.Broker, "--queue", fmt.Sprint(*u.Queue), "--offset", *u.Offset, "--yes")
		n, err := strconv.Atoi(r["redelivered"].(string))
		if err != nil {
			t.Fatal(err)
		}
		again += n
	}
	if again != 3 || lag() != "3" {
		t.Errorf("undone: %d come again, lag %s", again, lag())
	}
	if hour := reset("--to", "1h", "--yes"); hour.Redelivered != "0" || hour.Skipped != "0" || lag() != "3" {
		t.Errorf("an hour ago: %+v, lag %s", hour, lag())
	}
	group := cmd("group reset-offsets hello-group --topic hello --yes")
	s.ends(exitUsage, append(group, "--queue", "9", "--to", "latest"), "queues 0 to 3")
	s.ends(exitUsage, append(group, "--queue", "0", "--offset", "99"), "beyond the end of queue 0")
	s.ends(exitUsage, append(group, "--broker", "none", "--to", "latest"), "has queues at:")
	s.ends(exitUsage, cmd("group reset-offsets hello-group --topic none --to latest --yes"), "does not exist")
	s.must("group", "reset-offsets", "hello-group", "--topic", "%RETRY%hello-group", "--to", "latest", "--yes")
	var events struct {
		Items []struct {
			TargetID string `json:"target_id"`
		} `json:"items"`
	}
	if err := a.Do(t.Context(), "GET", "/v1/audit-events?action=resetGroupOffset", nil, &events); err != nil || len(events.Items) != 4+len(done.Undo) { // none of the refused ones
		t.Errorf("%d events, %v", len(events.Items), err)
	}
}

// TestSystem_transactions finds half messages at a real broker that their
// producer left behind, and settles them.
func TestSystem_transactions(t *testing.T) {
	c := testcluster.Start(t)
	url, ctx := "http://"+c.HTTP, t.Context()
	a, err := testcluster.SignUp(ctx, url, filepath.Join(c.Data, "mail"), "ada@example.com", "Shop")
	if err != nil {
		t.Fatal(err)
	}
	s := person(t, url, a)
	client, err := mqclient.New(mqclient.Config{KeyID: a.KeyID, Secret: []byte(a.Secret)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for _, unique := range []string{"U0", "U1", "U2"} {
		properties := message.AppendProperties(nil, map[string]string{message.KeyTransactionPrepared: "true", message.KeyProducerGroup: "p", message.KeyUniqueKey: unique})
		// The key reaches the broker a moment after sign-up.
		err := testcluster.Eventually(ctx, 10*time.Second, func() (bool, error) {
			_, err := client.At(c.Broker).Send(ctx, mqclient.SendRequest{Topic: "hello", QueueID: 0, Body: []byte("half " + unique), Properties: properties, Born: time.Now()})
			return err == nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var list struct {
		Items []api.Transaction `json:"items"`
	}
	read := func() int {
		t.Helper()
		if err := json.Unmarshal([]byte(s.must("transaction", "list", "--topic", "hello", "--state", "open", "-o", "json").stdout), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if err := testcluster.Eventually(ctx, 10*time.Second, func() (bool, error) { return read() == 3, nil }); err != nil {
		t.Fatalf("list: %+v, %v", list, err)
	}
	first, second, third := list.Items[0], list.Items[1], list.Items[2]
	if first.Topic != "hello" || first.ProducerGroup != "p" || *first.MessageId != "U0" || first.SizeBytes != 7 || first.NextCheckAt == nil {
		t.Errorf("one of the list: %+v", first)
	}
	s.must("transaction", "commit", first.Id, "--dry-run")
	s.must("transaction", "commit", first.Id, "--yes")
	s.must("transaction", "commit", first.Id, "--yes")
	s.must("transaction", "rollback", second.Id, "--yes")
	s.must("transaction", "check", third.Id)
	s.ends(exitRefused, []string{"transaction", "rollback", first.Id, "--yes"}, "has already ended")
	s.ends(exitNotFound, cmd("transaction commit txn_0000000000 --yes"))
	if read() != 1 || list.Items[0].Id != third.Id {
		t.Errorf("left: %+v", list)
	}
	if out := s.must("receive", "hello", "--max", "1", "--timeout", "10s", "-o", "json").stdout; !strings.Contains(out, "half U0") || strings.Contains(out, "half U1") {
		t.Errorf("delivered: %s", out)
	}

	// What is a place in one tenant is nothing in another.
	b, err := testcluster.SignUp(ctx, url, filepath.Join(c.Data, "mail"), "bob@example.com", "Other")
	if err != nil {
		t.Fatal(err)
	}
	other := person(t, url, b)
	other.ends(exitNotFound, []string{"transaction", "commit", third.Id, "--yes"})
	if out := other.must("transaction", "list", "-o", "name").stdout; out != "" {
		t.Errorf("the other tenant sees %s", out)
	}
}
