package arch

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluicemq/sluice/"

// ours says which packages of ours each package may import. "x/..." is x and
// everything below it. Widen a row only with a reason in the commit.
var ours = map[string][]string{
	// What imports nothing of ours.
	"internal/errs":           nil,
	"internal/arch":           nil,
	"internal/auditchain":     nil,
	"internal/tally":          nil,
	"internal/keyfile":        nil,
	"internal/oidctest":       nil,
	"dataplane/vfs":           nil,
	"dataplane/message":       nil,
	"dataplane/wire":          nil,
	"controlplane/api":        nil,
	"migrations":              nil,
	"console":                 nil,
	"controlplane/mail":       {"internal/errs"},
	"controlplane/cache":      {"internal/errs"},
	"internal/sqldb":          {"internal/errs"},
	"internal/sqldb/dbtest":   {"internal/sqldb", "migrations"},
	"dataplane/policy":        {"internal/tally"},
	"dataplane/remoting":      {"dataplane/wire"},
	"dataplane/commitlog":     {"dataplane/message", "dataplane/vfs"},
	"dataplane/queuelog":      {"dataplane/message", "dataplane/vfs"},
	"dataplane/keyindex":      {"dataplane/vfs"},
	"dataplane/replica":       {"dataplane/vfs"},
	"dataplane/store":         {"dataplane/commitlog", "dataplane/keyindex", "dataplane/message", "dataplane/queuelog", "dataplane/replica", "dataplane/vfs"},
	"dataplane/timerlog":      {"dataplane/vfs"},
	"dataplane/storetool":     {"dataplane/keyindex", "dataplane/message", "dataplane/queuelog", "dataplane/replica", "dataplane/store", "dataplane/timerlog", "dataplane/vfs"},
	"dataplane/meter":         {"dataplane/message", "dataplane/policy"},
	"dataplane/filter":        {"dataplane/message"},
	"dataplane/transaction":   {"dataplane/message", "dataplane/store", "dataplane/vfs"},
	"dataplane/broker":        {"dataplane/filter", "dataplane/message", "dataplane/meter", "dataplane/store", "dataplane/timerlog", "dataplane/transaction", "dataplane/vfs", "dataplane/wire"}, // wire: its reader of RocketMQ's JSON
	"dataplane/mqclient":      {"dataplane/message", "dataplane/policy", "dataplane/remoting", "dataplane/store", "dataplane/wire"},
	"dataplane/namesrv":       {"dataplane/policy", "dataplane/remoting", "dataplane/wire"},
	"dataplane/processor":     {"dataplane/broker", "dataplane/message", "dataplane/meter", "dataplane/policy", "dataplane/remoting", "dataplane/store", "dataplane/transaction", "dataplane/wire"},
	"dataplane/proxy":         {"dataplane/broker", "dataplane/message", "dataplane/meter", "dataplane/policy", "dataplane/store", "dataplane/transaction"},
	"dataplane/node":          {"dataplane/..."},
	"tenant":                  {"internal/errs", "internal/keyfile"},
	"tenant/tenantdb":         {"tenant", "internal/errs", "internal/sqldb"},
	"billing":                 {"internal/errs"},
	"billing/billingdb":       {"billing", "internal/errs", "internal/sqldb"},
	"billing/collect":         {"billing", "billing/billingdb", "dataplane/meter"},
	"controlplane/oidc":       {"internal/errs"},
	"controlplane/auth":       {"controlplane/auth/breached", "controlplane/catalog", "internal/errs", "tenant"},
	"controlplane/catalog":    {"internal/errs", "tenant"},
	"controlplane/controldb":  {"controlplane/auth", "controlplane/catalog", "controlplane/federation", "internal/auditchain", "internal/errs", "internal/sqldb", "tenant", "tenant/tenantdb"},
	"controlplane/federation": {"controlplane/auth", "controlplane/oidc", "internal/errs", "tenant"},
	"controlplane/fleet":      {"controlplane/catalog", "dataplane/mqclient", "dataplane/policy", "dataplane/wire", "internal/errs", "tenant"},
	"controlplane/messages":   {"controlplane/catalog", "dataplane/message", "dataplane/mqclient", "dataplane/policy", "dataplane/wire", "internal/errs", "tenant"},
	"controlplane/denials":    {"controlplane/controldb", "dataplane/policy", "internal/tally", "tenant"},
	"controlplane/jobs":       {"internal/errs"},
	"controlplane/apiclient":  {"controlplane/api"},
	"controlplane/httpapi":    {"console", "controlplane/api", "controlplane/auth", "controlplane/cache", "controlplane/catalog", "controlplane/controldb", "controlplane/federation", "controlplane/mail", "internal/auditchain", "internal/errs", "tenant"}, // controldb: its records of audit and idempotency, no rows
	"controlplane":            {"controlplane/...", "billing/...", "tenant/...", "internal/errs", "internal/sqldb", "migrations", "dataplane/mqclient"},
	"internal/standalone":     {"controlplane", "dataplane/node", "dataplane/store", "dataplane/transaction", "internal/keyfile"},
	"internal/testcluster":    {"dataplane/mqclient", "dataplane/policy", "dataplane/wire", "internal/standalone", "controlplane/api", "controlplane/apiclient"}, // a data plane without a control plane gets policy and topics from it
	"cmd/sluice/cli":          {"controlplane/api", "controlplane/apiclient", "internal/auditchain"},
	"cmd/sluice":              {"cmd/sluice/cli", "console", "controlplane", "dataplane/storetool", "internal/sqldb", "internal/standalone"},
	"terraform":               {"terraform/provider"},
	"terraform/provider":      {"controlplane/api", "controlplane/apiclient"},

	"controlplane/auth/breached": nil,
}

// fences says where a library may be imported, tests aside.
var fences = []struct {
	library string
	allowed []string
	reason  string
}{
	{"gorm.io/", []string{"internal/sqldb", "tenant/tenantdb", "billing/billingdb", "controlplane/controldb"}, "SQL stays in the *db packages"},
	{"github.com/gin-gonic/gin", []string{"controlplane/httpapi"}, "HTTP is a rim"},
	{"github.com/redis/go-redis", []string{"controlplane/cache"}, "Redis is a cache, never a store"},
	{"github.com/alicebob/miniredis", []string{"internal/standalone"}, "the embedded Redis belongs to standalone"},
	{"github.com/golang-jwt/jwt", []string{"controlplane/auth", "controlplane/oidc", "dataplane/policy"}, "tokens of ours are made in one place and checked in one, those of identity providers in one"},
	{"github.com/robfig/cron", []string{"controlplane/jobs", "dataplane/broker"}, "schedules stay together"},
	{"go.etcd.io/raft", []string{"dataplane/replica"}, "one importer turns its panics into a failed shard"},
	{"github.com/apache/rocketmq-client-go", nil, "official clients are for tests and benches"},
	{"github.com/apache/rocketmq-clients/golang/v5", []string{"dataplane/proxy"}, "only its generated protocol package, which proxy serves"},
	{"github.com/hashicorp/terraform-plugin", []string{"terraform", "terraform/provider"}, "the provider is a program of its own"},
	{"github.com/spf13/cobra", []string{"cmd/sluice", "cmd/sluice/cli"}, "flags stay in commands"},
}

// pure packages do no I/O: rules only.
var pure = map[string][]string{
	"tenant":               {"net/http", "database/sql"},
	"billing":              {"net/http", "database/sql"},
	"controlplane/catalog": {"net/http", "database/sql"},
	"controlplane/auth":    {"net/http", "database/sql"},
	"dataplane/wire":       {"net", "net/http", "os"},
	"dataplane/message":    {"net", "net/http", "os"},
}

// programs under these folders are tools of the repository, not the product:
// they may use anything.
var tools = []string{"bench", "internal/cases", "internal/chaos", "internal/demo", "internal/interop", "internal/matrix", "internal/zdeps", "terraform/fakeapi", "terraform/gendocs"}

type pkg struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports", module+"...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			pkgs = append(pkgs, p)
		}
	}
}

func isTool(path string) bool {
	return slices.ContainsFunc(tools, func(tool string) bool { return path == tool || strings.HasPrefix(path, tool+"/") })
}

func TestImports_stayInsideTheFences(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if isTool(path) {
			continue
		}
		seen[path] = true
		row, ok := ours[path]
		if !ok {
			t.Errorf("package %s has no row: add one to the table", path)
			continue
		}
		for _, imported := range p.Imports {
			if inner, isOurs := strings.CutPrefix(imported, module); isOurs && !allows(row, inner) {
				t.Errorf("%s imports %s, which its row does not allow", path, inner)
			}
			for _, f := range fences {
				if strings.HasPrefix(imported, f.library) && !slices.Contains(f.allowed, path) {
					t.Errorf("%s imports %s: %s", path, imported, f.reason)
				}
			}
			if slices.Contains(pure[path], imported) {
				t.Errorf("%s imports %s: it holds rules only", path, imported)
			}
		}
	}
	for path, row := range ours {
		if !seen[path] {
			t.Errorf("row %s names a package that does not exist", path)
		}
		for _, allowed := range row {
			name := strings.TrimSuffix(allowed, "/...")
			if !seen[name] && !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(p string) bool { return strings.HasPrefix(p, name+"/") }) {
				t.Errorf("row %s allows %s, which does not exist", path, allowed)
			}
		}
	}
	for path := range pure {
		if !seen[path] {
			t.Errorf("pure package %s does not exist", path)
		}
	}
	for _, f := range fences {
		for _, path := range f.allowed {
			if !seen[path] && path != "dataplane/replica" { // arrives with replication
				t.Errorf("fence of %s names %s, which does not exist", f.library, path)
			}
		}
	}
}

func allows(row []string, path string) bool {
	return slices.ContainsFunc(row, func(r string) bool {
		if below, wild := strings.CutSuffix(r, "/..."); wild {
			return path == below || strings.HasPrefix(path, below+"/")
		}
		return path == r
	})
}

// The planes have one arrow between them: control to data.
func TestImports_dataPlaneKnowsNoControlPlane(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !strings.HasPrefix(path, "dataplane/") {
			continue
		}
		for _, imported := range p.Imports {
			for _, plane := range []string{"controlplane", "tenant", "billing"} {
				if inner := strings.TrimPrefix(imported, module); inner == plane || strings.HasPrefix(inner, plane+"/") {
					t.Errorf("%s imports %s", path, inner)
				}
			}
		}
	}
}

// The fences themselves must be able to fail.
func TestAllows(t *testing.T) {
	row := []string{"a/b", "c/..."}
	for path, want := range map[string]bool{"a/b": true, "a": false, "a/b/c": false, "c": true, "c/d": true, "cd": false} {
		if got := allows(row, path); got != want {
			t.Errorf("allows(%q) = %v, want %v", path, got, want)
		}
	}
}
