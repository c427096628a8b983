package cases

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// Everything that a tenant does is in its audit trail, refusals too; an export
// is checked without the server, and one edited row is found.
func TestAudit_exportIsVerifiedAnywhere(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("audit@example.com")
	ctx := t.Context()
	for _, name := range []string{"one", "two", "three"} {
		must(t, a.CreateTopic(ctx, name))
	}
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	must(t, a.Do(ctx, "POST", "/v1/api-keys", map[string]any{"name": "auditor", "control_role": "admin"}, &made))
	home := t.TempDir()
	sluice := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, testcluster.Binary(t), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "SLUICE_ENDPOINT=http://"+c.HTTP, "SLUICE_CLIENT_ID="+made.ID, "SLUICE_CLIENT_SECRET="+made.Secret)
		var out, problems bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problems
		err := cmd.Run()
		if err != nil {
			return out.String() + problems.String(), err
		}
		return out.String(), nil
	}
	// What a person did is filed a few seconds later, here the sign-up: nothing is
	// on its way then.
	must(t, testcluster.Eventually(ctx, time.Minute, func() (bool, error) {
		listed, err := sluice("audit", "list", "--action", "verifySignUp", "-o", "json")
		return strings.Contains(listed, `"action": "verifySignUp"`), err
	}))
	verified, err := sluice("audit", "verify", "-o", "table")
	must(t, err)
	export, err := sluice("audit", "export")
	must(t, err)
	if n := strings.Count(export, `"action":"createTopic"`); n < 3 {
		t.Errorf("%d topics in the trail:\n%s", n, export)
	}
	listed, err := sluice("audit", "list", "--action", "createTopic", "--from", "2026-01-01", "-o", "json")
	must(t, err)
	if n := strings.Count(listed, `"action": "createTopic"`); n != strings.Count(export, `"action":"createTopic"`) {
		t.Errorf("%d topics in the list:\n%s", n, listed)
	}
	_, head, ok := strings.Cut(strings.TrimSpace(verified), "head ")
	if !ok {
		t.Fatalf("verify: %s", verified)
	}
	file := filepath.Join(home, "audit.ndjson")
	check := func(content string, intact bool, want string, args ...string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(content), 0o600))
		out, err := sluice(append([]string{"audit", "verify", file, "-o", "table"}, args...)...)
		if intact != (err == nil) || !strings.Contains(out, want) {
			t.Errorf("verify: %v\n%s, want %q", err, out, want)
		}
	}
	check(export, true, head)
	check(export, true, head, "--known", head)
	check(strings.Replace(export, `"action":"createTopic"`, `"action":"deleteTopic"`, 1), false, "its content was changed")
	lines := strings.SplitAfter(strings.TrimSpace(export), "\n")
	check(strings.Join(append(lines[:2:2], lines[3:]...), ""), false, "event 3")
	check(strings.Join(lines[:len(lines)-1], ""), true, "intact")
	check(strings.Join(lines[:len(lines)-1], ""), false, "newest events are missing", "--known", head)
	check("no JSON", false, "line 1")
}

// The shipped example has one row that was edited.
func TestAudit_shippedExample(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), testcluster.Binary(t), "audit", "verify", "testdata/audit-edited.ndjson")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "event 4: its content was changed") {
		t.Errorf("%v\n%s", err, out)
	}
}
