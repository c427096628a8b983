package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/terraform/fakeapi"
)

// server is an API that a test runs against.
type server struct {
	endpoint, keyID, keySecret string
}

func (s server) client(t *testing.T) *apiclient.SDK {
	t.Helper()
	c, err := apiclient.New(apiclient.Config{Endpoint: s.endpoint, KeyID: s.keyID, KeySecret: s.keySecret})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newFake starts the fake API and checks at the end that nobody broke the
// contract.
func newFake(t *testing.T) (*fakeapi.API, server) {
	t.Helper()
	a, err := fakeapi.New()
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(a)
	t.Cleanup(func() {
		h.Close()
		for _, v := range a.Violations() {
			t.Error(v)
		}
	})
	return a, server{endpoint: h.URL, keyID: fakeapi.KeyID, keySecret: fakeapi.Secret}
}

// binary builds the provider once, the way users get it.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-provider-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "terraform-provider-sluice"), "..").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the provider: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := binary(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// workspace is a folder with a configuration, driven by the real terraform.
type workspace struct {
	t   *testing.T
	dir string
	env []string
}

const header = `
terraform {
  required_providers {
    sluice = { source = "sluicemq/sluice" }
  }
}
`

func newWorkspace(t *testing.T, s server, env ...string) *workspace {
	t.Helper()
	if _, err := exec.LookPath(terraform()); err != nil {
		t.Fatalf("these tests drive the terraform binary: %v", err)
	}
	provider, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rc := filepath.Join(dir, "cli.tfrc")
	text := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"sluicemq/sluice\" = %q\n  }\n  direct {}\n}\n", provider)
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &workspace{t: t, dir: filepath.Join(dir, "work"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_CLI_CONFIG_FILE=" + rc, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"SLUICE_ENDPOINT=" + s.endpoint, "SLUICE_CLIENT_ID=" + s.keyID, "SLUICE_CLIENT_SECRET=" + s.keySecret,
	}}
	w.env = append(w.env, env...)
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// config replaces the configuration.
func (w *workspace) config(format string, args ...any) {
	w.t.Helper()
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(header+text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func terraform() string {
	if path := os.Getenv("TF_ACC_TERRAFORM_PATH"); path != "" {
		return path
	}
	return "terraform"
}

// run starts terraform and returns all that it printed, and its exit code.
func (w *workspace) run(args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), terraform(), append(args, "-no-color")...)
	cmd.Dir, cmd.Env = w.dir, w.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &exit):
		return out.String(), exit.ExitCode()
	default:
		w.t.Fatalf("terraform %s: %v", args[0], err)
		return "", 0
	}
}

func (w *workspace) must(args ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("terraform %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// apply applies, and checks that nothing is left to do.
func (w *workspace) apply() string {
	w.t.Helper()
	out := w.must("apply", "-auto-approve", "-input=false")
	w.planEmpty()
	return out
}

func (w *workspace) planEmpty() {
	w.t.Helper()
	if out, code := w.run("plan", "-detailed-exitcode", "-input=false"); code != 0 {
		w.t.Fatalf("the plan is not empty: exit code %d\n%s", code, out)
	}
}

// planDiffers returns a plan that has changes.
func (w *workspace) planDiffers() string {
	w.t.Helper()
	out, code := w.run("plan", "-detailed-exitcode", "-input=false")
	if code != 2 {
		w.t.Fatalf("got exit code %d, want a plan with changes\n%s", code, out)
	}
	return out
}

// fails runs a command that must fail and say all of want.
func (w *workspace) fails(args []string, want ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	if code == 0 {
		w.t.Fatalf("terraform %s succeeded, want a failure\n%s", strings.Join(args, " "), out)
	}
	wantAll(w.t, out, want...)
	return out
}

// wantAll looks for texts in what terraform prints; it wraps lines and draws
// a bar at their left, which counts as a blank here.
func wantAll(t *testing.T, out string, want ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)), " ")
	for _, text := range want {
		if !strings.Contains(flat, text) {
			t.Errorf("the output lacks %q:\n%s", text, out)
		}
	}
}

var (
	planArgs    = []string{"plan", "-input=false"}
	applyArgs   = []string{"apply", "-auto-approve", "-input=false"}
	destroyArgs = []string{"destroy", "-auto-approve", "-input=false"}
)

// values returns the attributes of a resource or data source in the state.
func (w *workspace) values(address string) map[string]any {
	w.t.Helper()
	var show struct {
		Values struct {
			Root struct {
				Resources []struct {
					Address string         `json:"address"`
					Values  map[string]any `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	cmd := exec.Command(terraform(), "show", "-json")
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("terraform show: %v", err)
	}
	if err := json.Unmarshal(out, &show); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range show.Values.Root.Resources {
		if r.Address == address {
			return r.Values
		}
	}
	w.t.Fatalf("%s is not in the state:\n%s", address, out)
	return nil
}

func (w *workspace) text(address, attribute string) string {
	w.t.Helper()
	v, _ := w.values(address)[attribute].(string)
	return v
}
