// Package oidctest runs a real OpenID provider for tests: oidc-provider of
// npm, which is certified, on Node. People sign in through its own form.
package oidctest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Provider is one that runs.
type Provider struct {
	Issuer string
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Start starts a provider that ends with the test. env is added to its
// environment: OIDCTEST_CONFORM=true leaves mail addresses out of ID tokens.
func Start(t testing.TB, env ...string) *Provider {
	t.Helper()
	dir := folder()
	install(t, dir)
	cmd := exec.Command("node", "provider.mjs")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	p := &Provider{log: &lockedBuffer{}}
	cmd.Stderr = p.log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("the OpenID provider does not start; Node 20 is needed: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the OpenID provider says:\n%s", p.log.b.String())
		}
	})
	var ready struct{ Issuer string }
	lines := bufio.NewScanner(out)
	for ready.Issuer == "" {
		if !lines.Scan() {
			t.Fatalf("the OpenID provider ended before it listened: %s", p.log.b.String())
		}
		_ = json.Unmarshal(lines.Bytes(), &ready) // other lines are no JSON
	}
	p.Issuer = ready.Issuer
	return p
}

func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// install runs npm once, also when several test programs want it at one time.
func install(t testing.TB, dir string) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, "package-lock.json"), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(dir, "node_modules", ".package-lock.json")
	want, err := os.Stat(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.Stat(done); err == nil && !have.ModTime().Before(want.ModTime()) {
		return
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in %s: %v\n%s", dir, err, out)
	}
}

// Client is one registered at the provider.
type Client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

// Register registers a client with metadata of OpenID Connect Dynamic Client
// Registration 1.0.
func (p *Provider) Register(t testing.TB, metadata map[string]any) Client {
	t.Helper()
	body, err := json.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	var c Client
	p.post(t, "/reg", "application/json", string(body), http.StatusCreated, &c)
	return c
}

// WorkloadToken gets a JWT for a client that may use client_credentials; its
// subject is the client's id.
func (p *Provider) WorkloadToken(t testing.TB, c Client, audience string) string {
	t.Helper()
	var answer struct {
		Token string `json:"access_token"`
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ID}, "client_secret": {c.Secret}, "resource": {audience}, "scope": {"work"}}
	p.post(t, "/token", "application/x-www-form-urlencoded", form.Encode(), http.StatusOK, &answer)
	return answer.Token
}

func (p *Provider) post(t testing.TB, path, kind, body string, want int, out any) {
	t.Helper()
	resp, err := http.Post(p.Issuer+path, kind, strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		t.Fatalf("%s: status %d, want %d: %s", path, resp.StatusCode, want, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v in %s", path, err, text)
	}
}

// Browser is one person's browser at the provider: it keeps cookies and sends
// forms.
type Browser struct{ http *http.Client }

// NewBrowser makes one without cookies. It stops before it leaves the
// provider.
func (p *Provider) NewBrowser(t testing.TB) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{http: &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), p.Issuer+"/") {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

var action = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// SignIn opens a URL of the provider, fills in its login form, then presses
// the button of its consent form, and returns the URL that it sends the
// browser to in the end.
func (b *Browser) SignIn(t testing.TB, at, login string) *url.URL {
	t.Helper()
	resp, err := b.http.Get(at) //nolint:noctx // a test
	for step := 0; ; step++ {
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode >= 300 && resp.StatusCode < 400 {
			to, err := resp.Location()
			if err != nil {
				t.Fatal(err)
			}
			return to
		}
		m := action.FindSubmatch(page)
		if resp.StatusCode != http.StatusOK || m == nil || step > 4 {
			t.Fatalf("%s: status %d, no form: %s", resp.Request.URL, resp.StatusCode, page)
		}
		form := url.Values{"prompt": {"consent"}}
		if bytes.Contains(page, []byte(`name="login"`)) {
			form = url.Values{"prompt": {"login"}, "login": {login}, "password": {"any"}}
		}
		resp, err = b.http.PostForm(string(m[1]), form) //nolint:noctx // a test
	}
}

// SignOut ends the person's session at the provider, which then tells the
// clients that asked for it. It returns when it has told them.
func (b *Browser) SignOut(t testing.TB, p *Provider) {
	t.Helper()
	resp, err := b.http.Get(p.Issuer + "/session/end") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	m := action.FindSubmatch(page)
	secret := regexp.MustCompile(`name="xsrf" value="([^"]+)"`).FindSubmatch(page)
	if m == nil || secret == nil {
		t.Fatalf("no logout form: %s", page)
	}
	resp, err = b.http.PostForm(string(m[1]), url.Values{"xsrf": {string(secret[1])}, "logout": {"yes"}}) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
