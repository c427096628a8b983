package cli

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/terraform/fakeapi"
)

func TestGolden_members(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.must("member", "list")
	s.must("member", "get", "Grace@example.com")
	s.must("member", "set-role", fakeapi.MemberID, "viewer", "--dry-run")
	s.must("member", "set-role", "grace@example.com", "admin")
	s.run("member", "set-role", fakeapi.MemberID, "root")
	s.run("member", "get", "nobody@example.com")
	s.run("member", "leave", "--yes")
	s.stdin = "n\n"
	s.run("member", "remove", "grace@example.com")
	s.must("member", "remove", "grace@example.com", "--yes")
	s.must("member", "list", "-o", "name")
	s.golden("members")
}

func TestGolden_invitations(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.must("invitation", "create", "Ada@example.com", "--role", "developer", "--dry-run")
	s.must("invitation", "create", "Ada@example.com", "--role", "developer", "--language", "zh")
	s.run("invitation", "create", "ada@example.com")
	s.must("invitation", "list", "--state", "pending")
	s.must("invitation", "resend", "ada@example.com")
	s.must("invitation", "get", "ada@example.com")
	s.must("invitation", "delete", "ada@example.com", "--yes")
	s.run("invitation", "get", "ada@example.com")
	s.golden("invitations")
}

func TestGolden_roles(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.must("role", "create", "support", "--permission", "topic:read,message:read", "--description", "Looks at messages")
	s.run("role", "create", "bad", "--permission", "world:write")
	s.must("role", "list")
	id := strings.Fields(s.must("role", "list", "-o", "name").stdout)[1]
	s.must("role", "update", id, "--permission", "topic:read")
	s.must("role", "bind", "grace@example.com", id, "--topics", "orders*", "--expires", "8h")
	s.must("role", "bind", fakeapi.MemberID, "viewer", "--whole-tenant", "--dry-run")
	s.must("role", "bindings", "--principal", fakeapi.MemberID)
	binding := strings.TrimSpace(s.must("role", "bindings", "-o", "name").stdout)
	s.must("role", "extend", binding, "never")
	s.must("role", "unbind", binding, "--yes")
	s.must("role", "get", "support")
	s.must("role", "delete", "support", "--yes")
	s.run("role", "get", id)
	s.golden("roles")
}

func TestGolden_acls(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	key := strings.TrimSpace(s.must("key", "create", "shop", "--topics", "orders*", "-o", "name").stdout)
	s.must("acl", "create", "deny", "*", "--topics", "payments-*", "--operation", "sub", "--dry-run")
	s.must("acl", "create", "deny", "*", "--topics", "payments-*", "--operation", "sub,PUB", "--cidr", "10.0.0.0/8", "--expires", "8h", "--wait")
	s.must("acl", "create", "allow", "grace@example.com", "--groups", "billing", "--operation", "SUB", "--description", "On call")
	s.must("acl", "create", "allow", key, "--whole-namespace", "--operation", "DESCRIBE")
	s.must("acl", "list")
	s.must("acl", "list", "--principal", "grace@example.com")
	rules := strings.Fields(s.must("acl", "list", "-o", "name").stdout)
	s.must("acl", "get", rules[0])
	s.must("acl", "update", rules[0], "--operation", "SUB", "--cidr", "", "--expires", "never", "--pattern", "payments*")
	s.must("acl", "update", rules[1], "--effect", "deny", "--dry-run", "-o", "json")
	s.must("acl", "test", key, "pub", "topic", "orders", "--from", "10.1.2.3")
	for _, refused := range [][]string{{"acl", "test", key, "SUB", "topic", "payments-eu"}, {"acl", "test", key, "PUB", "topic", "other", "-o", "json"}} {
		if r := s.run(refused...); r.code != exitRefused {
			t.Errorf("%v: got exit code %d for a refusal, want %d", refused, r.code, exitRefused)
		}
	}
	s.must("acl", "access", "topic", "orders")
	s.must("acl", "access", "group", "billing", "-o", "json")
	s.must("acl", "delete", rules[1], "--yes")
	s.must("acl", "delete", rules[1], "--yes", "--if-exists")
	for _, wrong := range []struct {
		code int
		args []string
	}{
		{exitUsage, []string{"acl", "create", "deny", "*", "--operation", "PUB"}},
		{exitUsage, []string{"acl", "create", "deny", "*", "--topics", "a"}},
		{exitUsage, []string{"acl", "create", "deny", "*", "--topics", "a", "--groups", "b", "--operation", "PUB"}},
		{exitUsage, []string{"acl", "create", "permit", "*", "--topics", "a", "--operation", "PUB"}},
		{exitUsage, []string{"acl", "create", "deny", "*", "--topics", "a", "--operation", "WRITE"}},
		{exitUsage, []string{"acl", "update", rules[0]}},
		{exitNotFound, []string{"acl", "get", rules[1]}},
		{exitNotFound, []string{"acl", "test", "slk_0000000000000000000", "PUB", "topic", "orders"}},
		{exitUsage, []string{"acl", "access", "queue", "orders"}},
	} {
		if r := s.run(wrong.args...); r.code != wrong.code {
			t.Errorf("%v: got exit code %d, want %d\n%s", wrong.args, r.code, wrong.code, r.stderr)
		}
	}
	s.golden("acls")
}

func TestGolden_tenantSecurity(t *testing.T) {
	s := signedIn(t)
	s.terminal, s.env["NO_COLOR"] = true, "1"
	s.must("tenant", "security", "get")
	s.must("tenant", "security", "set", "--mfa-required", "--max-key-age", "2160h", "--dry-run")
	s.must("tenant", "security", "set", "--mfa-required", "--max-key-age", "2160h", "--yes")
	s.must("tenant", "security", "set", "--sso-required", "-o", "json", "--yes")
	s.must("tenant", "security", "set", "--mfa-required=false", "--max-key-age", "never")
	s.must("tenant", "security", "get", "-o", "name")
	s.terminal = false
	for _, args := range [][]string{{"tenant", "security", "set"}, {"tenant", "security", "set", "--max-key-age", "1h"}, {"tenant", "security", "set", "--max-key-age", "soon", "--yes"}} {
		if r := s.run(args...); r.code != exitUsage {
			t.Errorf("%v: got exit code %d, want %d\n%s", args, r.code, exitUsage, r.stderr)
		}
	}
	s.golden("tenant")
}

// What knows few words completes them.
func TestCompletion(t *testing.T) {
	s := newShell(t)
	for line, want := range map[string]string{
		"member set-role grace@example.com ":  "owner\nadmin\ndeveloper\nviewer\nbilling\nnone\n:4\n",
		"key create shop --control-role ":     "admin\ndeveloper\nviewer\nbilling\n:4\n",
		"workload-identity exchange x --for ": "control\ndata\n:4\n",
		"session list -o ":                    "table\njson\nyaml\nname\n:4\n",
		"sso create staff --auto-enrol-role ": "none\nviewer\ndeveloper\nbilling\n:4\n",
		"acl create deny x --operation ":      "PUB\nSUB\nMANAGE\nDESCRIBE\n:4\n",
	} {
		if r := s.must(append([]string{"__complete"}, strings.Split(line, " ")...)...); r.stdout != want {
			t.Errorf("%q: got %q, want %q", line, r.stdout, want)
		}
	}
}
