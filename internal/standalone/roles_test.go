package standalone

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deps() Deps { return Deps{Now: time.Now, Logger: slog.New(slog.DiscardHandler)} }

// process is one role with a folder of its own.
type process struct {
	*Server
	cfg  *Config
	stop func() error
}

func startRole(t *testing.T, role Role, change func(*Config)) *process {
	t.Helper()
	cfg := Default()
	cfg.Data = filepath.Join(t.TempDir(), string(role))
	cfg.HTTP, cfg.Admin, cfg.NameSrv, cfg.Broker, cfg.GRPC = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	change(cfg)
	s, err := New(t.Context(), role, cfg, deps())
	if err != nil {
		t.Fatalf("%s: %v", role, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	p := &process{Server: s, cfg: cfg}
	p.stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("%s ended with %v", role, err)
		}
	})
	return p
}

// awaitReady asks /readyz until it says yes.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		resp, err := http.Get("http://" + p.Addresses().Admin + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready: %v", p.cfg.Data, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Name server, broker and control plane as processes of their own find each
// other by addresses and key files; the data plane goes on without the control
// plane, and a policy pushed before still holds after its restart.
func TestRoles_inProcessesOfTheirOwn(t *testing.T) {
	shared := t.TempDir()
	keysIn := func(c *Config) {
		c.ClusterKey, c.PolicyKey, c.PolicyPublicKey = filepath.Join(shared, "cluster.key"), filepath.Join(shared, "policy.key"), filepath.Join(shared, "policy.pub")
	}
	seed := Default()
	seed.Data = shared
	if err := seed.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := openKeys(seed, true, true); err != nil {
		t.Fatal(err)
	}
	withoutPrivate := func(c *Config, name string) {
		c.ClusterKey, c.PolicyPublicKey = filepath.Join(shared, name, "cluster.key"), filepath.Join(shared, name, "policy.pub")
		copyFile(t, filepath.Join(shared, "cluster.key"), c.ClusterKey)
		copyFile(t, filepath.Join(shared, "policy.pub"), c.PolicyPublicKey)
	}
	names := startRole(t, RoleNameServer, func(c *Config) { withoutPrivate(c, "names") })
	broker := startRole(t, RoleBroker, func(c *Config) {
		withoutPrivate(c, "broker")
		c.NameServers = names.Addresses().NameSrv
	})
	control := startRole(t, RoleControlPlane, func(c *Config) {
		keysIn(c)
		c.NameServers, c.Brokers, c.GRPCEndpoint = names.Addresses().NameSrv, broker.Addresses().Broker, broker.Addresses().GRPC
	})
	for _, p := range []*process{names, broker, control} {
		p.awaitReady(t)
	}
	revision := broker.broker.PolicyRevision()
	if err := control.stop(); err != nil {
		t.Fatal(err)
	}
	broker.awaitReady(t)
	if got := broker.broker.PolicyRevision(); got != revision {
		t.Errorf("policy %d after the control plane left, want %d", got, revision)
	}
}

func TestAdmin_tokenGuardsAllButHealth(t *testing.T) {
	p := startRole(t, RoleAll, func(*Config) {})
	p.awaitReady(t)
	token, err := os.ReadFile(filepath.Join(p.cfg.Data, "operator.token"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, bearer string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addresses().Admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 401}, {"/metrics", "guess", 401}, {"/debug/pprof/", "", 401},
		{"/metrics", strings.TrimSpace(string(token)), 200}, {"/debug/pprof/goroutine", strings.TrimSpace(string(token)), 200},
	} {
		if got := get(c.path, c.token); got != c.want {
			t.Errorf("%s with token %.5q: %d, want %d", c.path, c.token, got, c.want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addresses().Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sluice_policy_revision", "sluice_fleet_drift_total", "sluice_broker_append_seconds", "sluice_usage_complete_through_seconds"} {
		if !strings.Contains(string(body), "\n"+name) {
			t.Errorf("metric %s is missing", name)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
