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
	s.must("invitation", "delete", "ada@example.com")
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
	s.must("role", "unbind", binding)
	s.must("role", "delete", id)
	s.run("role", "get", id)
	s.golden("roles")
}
