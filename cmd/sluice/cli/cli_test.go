package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluicemq/sluice/terraform/fakeapi"
)

func TestGolden_tables(t *testing.T) {
	s := signedIn(t)
	s.terminal = true
	s.env["NO_COLOR"] = "1"
	s.must("whoami")
	s.must("namespace", "list")
	s.must("topic", "create", "orders", "--queues", "8", "--retention", "24h", "--label", "team=checkout", "--wait")
	s.must("topic", "list")
	s.must("topic", "get", "orders")
	s.must("topic", "update", "orders", "--description", "Orders of the shop")
	s.must("group", "create", "billing", "--max-attempts", "5")
	s.must("group", "update", "billing", "--retry-strategy", "fixed", "--retry-delays", "10s")
	s.must("group", "list")
	s.must("group", "get", "billing")
	s.must("group", "lag", "hello-group")
	s.must("key", "create", "checkout", "--topics", "orders*", "--expires", "720h")
	s.must("key", "list")
	s.must("send", "orders", `{"id": 1001}`, "--key", "order-1001", "--tag", "created", "--property", "source=test")
	s.must("receive", "orders")
	s.must("usage", "--by", "topic")
	s.must("cost")
	s.must("topic", "delete", "orders", "--yes")
	s.must("topic", "delete", "orders", "--yes", "--if-exists")
	s.golden("tables")
}

func TestGolden_forms(t *testing.T) {
	s := signedIn(t)
	for _, form := range []string{"json", "yaml", "name"} {
		s.must("topic", "list", "-o", form)
		s.must("topic", "get", "hello", "-o", form)
		s.must("group", "list", "-o", form)
		s.must("namespace", "list", "-o", form)
		s.must("send", "hello", "hi", "-o", form, "--quiet")
		s.must("receive", "hello", "-o", form)
		s.must("cost", "-o", form)
	}
	s.golden("forms")
}

func TestGolden_errors(t *testing.T) {
	s := signedIn(t)
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitNotFound, []string{"topic", "get", "nothing"}},
		{exitNotFound, []string{"topic", "get", "nothing", "-o", "json"}},
		{exitRefused, []string{"topic", "create", "hello"}},
		{exitUsage, []string{"topic", "create", "many", "--queues", "65"}},
		{exitUsage, []string{"topic", "create"}},
		{exitUsage, []string{"topic", "list", "--no-such-flag"}},
		{exitUsage, []string{"topic", "lst"}},
		{exitUsage, []string{"topic", "list", "-o", "xml"}},
		{exitUsage, []string{"topic", "delete", "hello"}},
		{exitUsage, []string{"topic", "update", "hello"}},
		{exitNotFound, []string{"namespace", "get", "nowhere"}},
		{exitNotFound, []string{"topic", "list", "--namespace", "nowhere"}},
		{exitNotFound, []string{"topic", "list", "--context", "nobody"}},
		{exitUsage, []string{"key", "create", "k", "--expires", "soon"}},
	} {
		if r := s.run(c.args...); r.code != c.code {
			t.Errorf("%v: got exit code %d, want %d\n%s", c.args, r.code, c.code, r.stderr)
		}
	}
	s.env[envClientSecret] = "wrong"
	if r := s.run("topic", "list"); r.code != exitRefused {
		t.Errorf("got exit code %d for a wrong secret, want %d", r.code, exitRefused)
	}
	s.env[envToken] = "t"
	if r := s.run("topic", "list"); r.code != exitUsage {
		t.Errorf("got exit code %d for two credentials, want %d", r.code, exitUsage)
	}
	s.env = map[string]string{}
	if r := s.run("topic", "list"); r.code != exitRefused {
		t.Errorf("got exit code %d without a credential, want %d", r.code, exitRefused)
	}
	s.golden("errors")
}

func TestGolden_login(t *testing.T) {
	s := newShell(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.stdin, s.password = fakeapi.Email+"\n", fakeapi.Password
	s.must("login", "--endpoint", s.url)
	s.password = fakeapi.Secret
	s.must("login", "--name", "ci", "--endpoint", s.url+"/", "--key-id", fakeapi.KeyID)
	s.must("context", "list")
	s.must("context", "use", "default")
	s.must("context", "use", "-")
	s.must("context", "show")
	s.must("topic", "list", "--context", "default")
	s.must("context", "delete", "ci", "--yes")
	s.must("context", "list")
	s.run("topic", "list")
	s.must("context", "use", "default")
	s.must("whoami")
	s.password = "wrong"
	s.run("login", "--endpoint", s.url, "--email", fakeapi.Email)
	s.golden("login")
}

// Secrets are in a file of their own that only its owner reads.
func TestLogin_secretsAreApart(t *testing.T) {
	s := newShell(t)
	s.stdin = fakeapi.Secret + "\n"
	s.must("login", "--endpoint", s.url, "--key-id", fakeapi.KeyID, "--key-secret", "-")
	settings, err := os.ReadFile(filepath.Join(s.dir, "sluice", settingsFile))
	if err != nil || strings.Contains(string(settings), fakeapi.Secret) {
		t.Errorf("%v: the secret is in the settings:\n%s", err, settings)
	}
	info, err := os.Stat(filepath.Join(s.dir, "sluice", secretsFile))
	if err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("%v: secrets have mode %v, want 0600", err, info.Mode())
	}
	s.must("topic", "list")
}

// A session is renewed before its access token ends, and the new refresh
// token, which works once, is kept.
func TestSession_isRenewed(t *testing.T) {
	s := newShell(t)
	s.stdin = fakeapi.Password + "\n"
	s.must("login", "--endpoint", s.url, "--email", fakeapi.Email, "--password-stdin")
	path := filepath.Join(s.dir, "sluice", secretsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var secrets map[string]secret
	if err := yaml.Unmarshal(text, &secrets); err != nil {
		t.Fatal(err)
	}
	old := secrets["default"]
	old.AccessEnds = old.AccessEnds.AddDate(0, 0, -1)
	old.AccessToken = "over"
	out, _ := yaml.Marshal(map[string]secret{"default": old})
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("topic", "list")
	text, _ = os.ReadFile(path)
	if !strings.Contains(string(text), "refresh-2") {
		t.Errorf("the new refresh token was not kept:\n%s", text)
	}
}

// Nobody sits before a command that is silent for long.
func TestPause_saysThatItWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for d, want := range map[time.Duration]string{900 * time.Millisecond: "", 2 * time.Second: "The server does not answer, or asks to wait: trying again in 2s.\n"} {
		var stderr bytes.Buffer
		if err := (&app{IO: IO{Err: &stderr}}).pause(ctx, d); err == nil || stderr.String() != want {
			t.Errorf("a pause of %s: got %v and %q, want %q", d, err, stderr.String(), want)
		}
	}
}

// A stored secret goes to no other server than the one it is for.
func TestEndpoint_ofTheEnvironmentGetsNoStoredSecret(t *testing.T) {
	s := newShell(t)
	s.stdin = fakeapi.Secret
	s.must("login", "--endpoint", s.url, "--key-id", fakeapi.KeyID, "--key-secret", "-")
	s.env[envEndpoint] = "http://127.0.0.1:1"
	if r := s.run("topic", "list"); r.code != exitUsage || !strings.Contains(r.stderr, "is for "+s.url) {
		t.Errorf("got exit code %d\n%s", r.code, r.stderr)
	}
	// --context beats the environment.
	s.must("topic", "list", "--context", "default")
}

// CLI-02: standard output of a command with -o json is JSON and nothing else.
func TestJSON_parses(t *testing.T) {
	s := signedIn(t)
	for _, args := range [][]string{
		{"whoami"}, {"namespace", "list"}, {"namespace", "create", "other"}, {"namespace", "get", "default"}, {"topic", "list", "-n", "default"},
		{"topic", "create", "t", "-n", "default"}, {"topic", "create", "u", "--dry-run", "-n", "default"}, {"topic", "update", "t", "--queues", "8", "-n", "default"},
		{"topic", "delete", "t", "--yes", "--dry-run", "-n", "default"}, {"topic", "delete", "t", "--yes", "-n", "default"},
		{"group", "list", "-n", "default"}, {"group", "create", "g", "-n", "default"}, {"group", "lag", "g", "-n", "default"}, {"group", "delete", "g", "-y", "-n", "default"},
		{"key", "create", "k", "-n", "default"}, {"key", "create", "l", "--dry-run", "-n", "default"}, {"key", "list"}, {"key", "rotate", "slk_FAKE0000000000000008", "--grace-period", "15m"},
		{"key", "revoke", "slk_FAKE0000000000000008", "--yes"}, {"send", "hello", "x", "-n", "default"}, {"usage"}, {"cost"}, {"context", "list"},
	} {
		r := s.must(append(args, "-o", "json")...)
		if !json.Valid([]byte(r.stdout)) {
			t.Errorf("%v: not JSON:\n%s", args, r.stdout)
		}
	}
}

func TestList_readsAllPages(t *testing.T) {
	s := signedIn(t)
	s.api.PageSize = 1
	for _, name := range []string{"a", "b", "c"} {
		s.must("topic", "create", name)
	}
	if r := s.must("topic", "list", "-o", "name"); r.stdout != "a\nb\nc\nhello\n" {
		t.Errorf("got %q", r.stdout)
	}
}

func TestCreate_ifNotExists(t *testing.T) {
	s := signedIn(t)
	s.must("topic", "create", "hello", "--if-not-exists")
	s.must("group", "create", "hello-group", "--if-not-exists")
	s.must("namespace", "create", "default", "--if-not-exists")
}

func TestDryRun_changesNothing(t *testing.T) {
	s := signedIn(t)
	s.must("topic", "create", "orders", "--dry-run")
	if _, found := s.api.Topic(s.api.Namespace(), "orders"); found {
		t.Error("a dry run made a topic")
	}
	s.must("topic", "delete", "hello", "--dry-run")
	if _, found := s.api.Topic(s.api.Namespace(), "hello"); !found {
		t.Error("a dry run deleted a topic")
	}
	s.must("send", "hello", "x", "--dry-run")
	if r := s.must("receive", "hello", "-o", "name"); r.stdout != "" {
		t.Errorf("a dry run sent %q", r.stdout)
	}
}

// --wait that ends too early is exit code 6, and the object is still shown.
func TestWait_timesOut(t *testing.T) {
	s := signedIn(t)
	s.api.Pending(1 << 30)
	r := s.run("topic", "create", "slow", "--wait=10ms", "-o", "name")
	if r.stdout != "slow\n" {
		t.Errorf("got %q", r.stdout)
	}
	if r.code != exitTimedOut || !strings.Contains(r.stderr, "waiting for broker-a") {
		t.Errorf("got exit code %d, want %d\n%s", r.code, exitTimedOut, r.stderr)
	}
}

func TestSend_bodies(t *testing.T) {
	s := signedIn(t)
	file := filepath.Join(s.dir, "body")
	if err := os.WriteFile(file, []byte{0xff, 0x00, 'x'}, 0o600); err != nil {
		t.Fatal(err)
	}
	s.stdin = "from stdin"
	s.must("send", "hello")
	s.must("send", "hello", "--file", file)
	s.must("send", "hello", "--body", "flag")
	r := s.must("receive", "hello")
	for _, want := range []string{`"body":"from stdin"`, `"body":"/wB4","body_encoding":"base64"`, `"size_bytes":3`, `"body":"flag"`} {
		if !strings.Contains(strings.ReplaceAll(r.stdout, `", "`, `","`), want) {
			t.Errorf("%s is not in\n%s", want, r.stdout)
		}
	}
	if r := s.run("send", "hello", "x", "--body", "y"); r.code != exitUsage {
		t.Errorf("got exit code %d for two bodies", r.code)
	}
}

// A tail goes on where it was when the connection breaks, shows each message
// once, and ends when it has enough.
func TestReceive_goesOnAfterALostConnection(t *testing.T) {
	s := signedIn(t)
	for _, body := range []string{"1", "2", "3", "4"} {
		s.must("send", "hello", body, "-q")
	}
	r := s.must("receive", "hello", "--max", "4", "--timeout", "15s", "-o", "json")
	if got := strings.Count(r.stdout, "message_id"); got != 4 {
		t.Errorf("got %d messages:\n%s", got, r.stdout)
	}
	// The fake ends a tail with a problem when there is nothing more.
	r = s.run("receive", "hello", "--follow", "-o", "name")
	if r.code != exitFailed || !strings.Contains(r.stderr, "2 messages were left out") || !strings.Contains(r.stderr, "the server is going down") {
		t.Errorf("got exit code %d\n%s", r.code, r.stderr)
	}
}

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		amount string
		digits int
		want   string
	}{
		{"80", 2, "0.80"}, {"0", 2, "0.00"}, {"123456", 2, "1234.56"}, {"-5", 2, "-0.05"}, {"400000", 6, "0.40"}, {"1", 6, "0.000001"},
		{"100", 0, "100"}, {"99999999999999999999999", 2, "999999999999999999999.99"}, {"x", 2, "x"},
	} {
		if got := money(c.amount, c.digits); got != c.want {
			t.Errorf("%s with %d digits: got %s, want %s", c.amount, c.digits, got, c.want)
		}
	}
}

// What comes out of a message must not drive the reader's terminal.
func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31mb\x07\tc\u009b1m"); strings.ContainsAny(got, "\x1b\x07\u009b") || !strings.Contains(got, "\tc") {
		t.Errorf("got %q", got)
	}
}

func TestGolden_resetOffsets(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	reset := []string{"group", "reset-offsets", "hello-group", "--topic", "hello"}
	s.must(append(reset, "--to", "earliest", "--dry-run")...)
	s.must(append(reset, "--to", "2026-01-02T03:04:05Z", "--dry-run", "-o", "json")...)
	s.stdin = "n\n"
	s.run(append(reset, "--to", "latest")...)
	s.stdin = "y\n"
	s.must(append(reset, "--to", "latest")...)
	s.must(append(reset, "--to", "2h", "--yes", "--quiet")...)
	s.must(append(reset, "--queue", "0", "--offset", "5", "--yes")...)
	s.terminal = false
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitUsage, append(reset, "--to", "latest")},
		{exitUsage, append(reset, "--yes")},
		{exitUsage, append(reset, "--to", "soon", "--yes")},
		{exitUsage, append(reset, "--offset", "5", "--yes")},
		{exitUsage, append(reset, "--to", "latest", "--queue", "0", "--offset", "5")},
		{exitNotFound, []string{"group", "reset", "nothing", "--topic", "hello", "--to", "latest", "--yes"}},
	} {
		if r := s.run(c.args...); r.code != c.code {
			t.Errorf("%v: got exit code %d, want %d\n%s", c.args, r.code, c.code, r.stderr)
		}
	}
	s.golden("reset")
}

func TestGolden_transactions(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.must("transaction", "list")
	s.must("transaction", "list", "--topic", "hello", "--state", "given_up", "-o", "json")
	s.must("transaction", "list", "--topic", "orders", "-o", "name")
	s.stdin = "n\n"
	s.run("transaction", "commit", "txn_YnJva2VyLWEvMC8w")
	s.must("transaction", "commit", "txn_YnJva2VyLWEvMC8w", "--yes")
	s.must("transaction", "rollback", "txn_YnJva2VyLWEvMC8w", "--dry-run")
	s.must("transaction", "check", "txn_YnJva2VyLWEvMS85", "-o", "json")
	if r := s.run("transaction", "check", "txn_0000000000"); r.code != exitNotFound {
		t.Errorf("exit code %d for what is not there", r.code)
	}
	s.golden("transactions")
}
