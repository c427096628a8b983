package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// OWASP API5: each operation of the contract is in the table of who may do what,
// once, as the contract says it, and nothing else is.
func TestOperations_areThoseOfTheContract_OWASP_API5(t *testing.T) {
	ops, err := readOperations()
	check(t, err)
	known := map[string]bool{}
	for _, op := range ops {
		known[op.id] = true
		have, ok := auth.OperationOf(op.id)
		if want := (auth.Operation{ID: op.id, Permission: op.permission, StepUp: op.stepUp, Session: have.Session}); !ok || have != want {
			t.Errorf("operations of package auth: got %+v, want %+v", have, want)
		}
	}
	seen := map[string]bool{}
	for _, o := range auth.Operations() {
		if !known[o.ID] || seen[o.ID] {
			t.Errorf("%s is not in the contract, or twice in the table", o.ID)
		}
		seen[o.ID] = true
		p := o.Permission
		if p != auth.PermissionPublic && p != auth.PermissionSelf && !o.Allows(tenant.RoleOwner) {
			t.Errorf("%s needs %s, which not even an owner has", o.ID, p)
		}
		if reads := strings.HasSuffix(string(p), ":read"); !reads && p != auth.PermissionPublic && p != auth.PermissionSelf && o.Allows(tenant.RoleViewer) {
			t.Errorf("a viewer may %s", o.ID)
		}
	}
}

// Permissions in the contract are those that roles can have.
func TestOperations_permissionsAreListed(t *testing.T) {
	ops, err := readOperations()
	check(t, err)
	for _, op := range ops {
		if op.id != "createRole" {
			continue
		}
		listed := op.route.Spec.Components.Schemas["Permission"].Value.Enum
		var got []string
		for _, p := range listed {
			got = append(got, p.(string))
		}
		slices.Sort(got)
		want := strs[auth.Permission, string](auth.AllPermissions())
		if !slices.Equal(got, want) {
			t.Errorf("schema Permission has %v, an owner %v", got, want)
		}
	}
}

// What is for a person who signed in refuses the strongest key.
func TestOperations_sessionsAlone(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("admin"))}))
	check(t, err)
	for _, op := range s.srv.ops {
		o, _ := auth.OperationOf(op.id)
		if op.permission != auth.PermissionSelf {
			continue
		}
		body := ""
		if b := op.route.Operation.RequestBody; b != nil {
			text, err := json.Marshal(b.Value.Content["application/json"].Schema.Value.Example)
			check(t, err)
			body = string(text)
		}
		path := op.path
		for _, p := range op.route.Operation.Parameters {
			if example, ok := p.Value.Schema.Value.Example.(string); ok && p.Value.In == "path" {
				path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", example)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), op.route.Method, s.server.URL+path, strings.NewReader(body))
		check(t, err)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		req.SetBasicAuth(key.Id, key.Secret)
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		var problem api.Problem
		if resp.StatusCode >= 400 {
			check(t, json.NewDecoder(resp.Body).Decode(&problem))
		}
		check(t, resp.Body.Close())
		if refused := problem.Code == "session_required"; refused != o.Session {
			t.Errorf("%s by a key: %d %s %s, in the table %v", op.id, resp.StatusCode, problem.Code, problem.Detail, o.Session)
		}
	}
}
