package standalone

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/node"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfig_environmentOverFileOverDefault(t *testing.T) {
	c := Default()
	path := write(t, "http: 0.0.0.0:80\nstore:\n  segment_bytes: 1048576\n  retention: 1h\n  flush: sync\ntls: {mode: required}\n")
	if err := c.Load(path, []string{"SLUICE_STORE_RETENTION=2h", "SLUICE_STORE_SEGMENT_BYTES=2_097_152", "OTHER=x"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	if c.HTTP != "0.0.0.0:80" || c.SegmentBytes != 2<<20 || c.Retention != 2*time.Hour || c.Flush != "sync" || c.TLSMode != node.TLSRequired {
		t.Errorf("%+v", c)
	}
	if c.DB != "sqlite:var/control.db" || c.Mail != "file:var/mail" || c.GRPC != "127.0.0.1:8081" {
		t.Errorf("defaults: %+v", c)
	}
}

func TestConfig_tellsAllProblemsAtOnce(t *testing.T) {
	c := Default()
	path := write(t, "htpp: x\nlog_level: info\nstore: {segment_bytes: many, colour: red}\n")
	err := c.Load(path, []string{"SLUICE_STORE_RETENTION=long", "SLUICE_STORE_RETNTION=1h", "SLUICE_ENDPOINT=x", "SLUICE_TEST_MYSQL=x"})
	for _, part := range []string{"htpp is no setting\n", "log_level is no setting; write log: {level: …}", "store.colour is no setting", "store.segment_bytes", "SLUICE_STORE_RETENTION", "SLUICE_STORE_RETNTION is no setting"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	if strings.Contains(err.Error(), "SLUICE_ENDPOINT") || strings.Contains(err.Error(), "SLUICE_TEST") {
		t.Errorf("%v speaks of names that belong to others", err)
	}
	c.RetentionBytes, c.DeleteHours = 5, "4,25"
	c.HTTP, c.DB, c.Redis, c.Mail, c.Flush, c.TLSMode, c.LogLevel, c.TLSCert, c.Retention = "nowhere", "postgres:x", "memory", "x", "maybe", "some", "loud", "cert.pem", -1
	err = c.Finish()
	for _, part := range []string{"http:", "db:", "redis:", "mail:", "store.flush:", "tls.mode:", "log.level:", "tls.cert:", "store.retention is", "store.retention_bytes is", "store.delete_hours:"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	if err := c.Load(filepath.Join(t.TempDir(), "absent.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

func TestConfig_everySettingIsReachable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Default().Settings() {
		if seen[s.Path] || s.Usage == "" || !strings.HasPrefix(s.Env(), "SLUICE_") || strings.ToUpper(s.Env()) != s.Env() {
			t.Errorf("setting %+v", s)
		}
		seen[s.Path] = true
		if err := s.Set(s.Default()); err != nil {
			t.Errorf("%s does not take its own default: %v", s.Path, err)
		}
	}
}

func TestKeys_madeOnceAndOnlyWhereTheyBelong(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := openKeys(c, false, false); err == nil || !strings.Contains(err.Error(), "cluster.key_file") || !strings.Contains(err.Error(), "copy it") {
		t.Errorf("a broker without its files: %v", err)
	}
	first, err := openKeys(c, true, true)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openKeys(c, true, true)
	if err != nil || string(again.secret) != string(first.secret) || !again.signing.Equal(first.signing) {
		t.Errorf("second start: %v", err)
	}
	brokers, err := openKeys(c, false, false)
	if err != nil || brokers.signing != nil || !brokers.public.Equal(first.public) {
		t.Errorf("a broker: %v", err)
	}
	for _, path := range []string{c.ClusterKey, c.PolicyKey} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.WriteFile(c.ClusterKey, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openKeys(c, true, true); err == nil {
		t.Error("a damaged key was taken")
	}
}

func TestTLS_selfSignedIsKeptAndRenewed(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	now := time.Now()
	serial := func(at time.Time) string {
		t.Helper()
		cfg, err := tlsConfig(c, at)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Certificates[0].Leaf.SerialNumber.String()
	}
	first := serial(now)
	if again := serial(now.Add(24 * time.Hour)); again != first {
		t.Error("the certificate changed between two starts")
	}
	if late := serial(now.Add(certLife - certRenew + time.Hour)); late == first {
		t.Error("a certificate near its end was kept")
	}
}

func TestTLS_oneListenerSpeaksWhatItsModeAllows(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	cfg, err := tlsConfig(c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []node.TLSMode{node.TLSPermissive, node.TLSRequired, node.TLSDisabled} {
		t.Run(string(mode), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
			done := make(chan error, 1)
			go func() { done <- server.Serve(withTLS(ln, mode, cfg)) }()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // self-signed
			get := func(scheme string) bool {
				resp, err := client.Get(scheme + "://" + ln.Addr().String())
				if err != nil {
					return false
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				return err == nil && string(body) == "hello"
			}
			if got, want := get("http"), mode != node.TLSRequired; got != want {
				t.Errorf("plain: %v, want %v", got, want)
			}
			if got, want := get("https"), mode != node.TLSDisabled; got != want {
				t.Errorf("TLS: %v, want %v", got, want)
			}
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			<-done
		})
	}
}

func TestLock_secondHolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := lockData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockData(dir); !errors.Is(err, errLocked) {
		t.Errorf("second: %v", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestNew_portInUseIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := Default()
	c.Data = t.TempDir()
	c.HTTP, c.Admin, c.NameSrv, c.Broker, c.GRPC = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ln.Addr().String(), "127.0.0.1:0"
	_, err = New(t.Context(), RoleAll, c, deps())
	if err == nil || !strings.Contains(err.Error(), "broker "+ln.Addr().String()) {
		t.Errorf("got %v, want the setting and the address", err)
	}
	c.Broker = "127.0.0.1:0" // what was opened before the failure was given back
	s, err := New(t.Context(), RoleAll, c, deps())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// A server without these waits for slow senders and readers for ever.
func TestHTTP_everyRequestEnds(t *testing.T) {
	s := &Server{deps: Deps{Logger: slog.New(slog.DiscardHandler)}}
	h := s.httpServer(nil)
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 || h.MaxHeaderBytes <= 0 {
		t.Errorf("%+v", h)
	}
}

// What a folder cannot do without is missed at the start, in words: a control
// plane with another master key could not open a single secret, and one with a
// new database would know no tenant.
func TestNew_whatIsLostIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(data string) error
		want   []string
	}{
		{"nothing", func(string) error { return nil }, nil},
		{"master key", func(data string) error { return os.Remove(filepath.Join(data, "master.key")) }, []string{"master.key", "restore"}},
		{"database", func(data string) error { return os.Remove(filepath.Join(data, "control.db")) }, []string{"control.db", "restore"}},
		{"content of the database", func(data string) error { return os.Truncate(filepath.Join(data, "control.db"), 0) }, []string{"control.db", "restore"}},
		{"content of the operators' token", func(data string) error { return os.Truncate(filepath.Join(data, "operator.token"), 0) }, []string{"operator.token", "delete it"}},
		{"all but zeros of it", func(data string) error {
			return os.WriteFile(filepath.Join(data, "operator.token"), make([]byte, 65), 0o600)
		}, []string{"operator.token"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := t.TempDir()
			open := func() (*Server, error) {
				cfg := Default()
				cfg.Data, cfg.HTTP, cfg.Admin, cfg.NameSrv, cfg.Broker, cfg.GRPC = data, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
				return New(t.Context(), RoleAll, cfg, Deps{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
			}
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.close(), c.damage(data)); err != nil {
				t.Fatal(err)
			}
			s, err = open()
			if err == nil {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}
			if (err == nil) != (c.want == nil) {
				t.Fatalf("second start: %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// The embedded Redis is for this process alone.
func TestRedis_embeddedAsksForItsPassword(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	c.HTTP, c.Admin, c.NameSrv, c.Broker, c.GRPC = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := New(t.Context(), RoleAll, c, deps())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", s.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "*1\r\n$8\r\nFLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(answer, "-NOAUTH") {
		t.Errorf("a stranger is answered %q, %v", answer, err)
	}
}
