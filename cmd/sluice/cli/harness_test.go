package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/terraform/fakeapi"
)

var update = flag.Bool("update", false, "write the golden files; read the difference before you commit it")

// shell runs commands as a person or a script would.
type shell struct {
	t    *testing.T
	api  *fakeapi.API
	url  string
	http *http.Client
	dir  string
	env  map[string]string
	// terminal says whether a person sits there.
	terminal bool
	stdin    string
	password string
	now      func() time.Time
	log      bytes.Buffer
}

func newShell(t *testing.T) *shell {
	t.Helper()
	a, err := fakeapi.New()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a)
	t.Cleanup(func() {
		server.Close()
		for _, v := range a.Violations() {
			t.Error(v)
		}
	})
	address := server.Listener.Addr().String()
	s := &shell{t: t, api: a, url: "http://sluice.test", dir: t.TempDir(), env: map[string]string{}, now: func() time.Time { return time.Date(2026, 9, 1, 9, 0, 0, 0, time.UTC) }}
	s.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address) // whatever the name: output must not depend on a port
	}}}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// signedIn is a shell with a key in the environment.
func signedIn(t *testing.T) *shell {
	s := newShell(t)
	s.env = map[string]string{envEndpoint: s.url, envClientID: fakeapi.KeyID, envClientSecret: fakeapi.Secret}
	return s
}

type result struct {
	stdout, stderr string
	code           int
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	io := IO{
		In: strings.NewReader(s.stdin), Out: &stdout, Err: &stderr, InTerminal: s.terminal, OutTerminal: s.terminal,
		ReadPassword: func() (string, error) { return s.password, nil },
		Getenv:       func(name string) string { return s.env[name] },
		HTTP:         s.http,
		ConfigDir:    filepath.Join(s.dir, "sluice"),
		Now:          s.now,
	}
	root := &cobra.Command{Use: "sluice", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(io)...)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	code := Report(io, root.ExecuteContext(ctx))
	r := result{strings.ReplaceAll(stdout.String(), s.dir, "HOME"), strings.ReplaceAll(stderr.String(), s.dir, "HOME"), code}
	fmt.Fprintf(&s.log, "$ sluice %s\n%s", strings.Join(quoted(args), " "), r.stdout)
	if r.stderr != "" {
		fmt.Fprintf(&s.log, "[stderr]\n%s", r.stderr)
	}
	fmt.Fprintf(&s.log, "[exit %d]\n\n", r.code)
	return r
}

func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if strings.ContainsAny(a, " \"{}*") || a == "" {
			a = "'" + a + "'"
		}
		out[i] = a
	}
	return out
}

// must runs a command that works.
func (s *shell) must(args ...string) result {
	s.t.Helper()
	r := s.run(args...)
	if r.code != 0 {
		s.t.Fatalf("sluice %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// golden compares all that was run since the last call with a file.
func (s *shell) golden(name string) {
	s.t.Helper()
	got := s.log.String()
	s.log.Reset()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != string(want) {
		s.t.Errorf("%s differs; -update writes it\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}
