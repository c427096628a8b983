package httpapi

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/sluicemq/sluice/internal/sqldb"
)

// fetch sends a request as it is: no redirects, no decompression.
func (s *system) fetch(method, path string, headers map[string]string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, nil)
	check(s.t, err)
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(s.t, err)
	return resp, string(text)
}

func TestConsole_sendsTheCopyThatTheClientTakes(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, func(d *Deps) {
		d.Console = fstest.MapFS{"index.html": {Data: []byte("page")}, "assets/a-1.js": {Data: []byte("plain")}, "assets/a-1.js.gz": {Data: []byte("zipped")}, "assets/a-1.js.br": {Data: []byte("brotli")}}
	})
	for accept, want := range map[string][2]string{"": {"plain", ""}, "gzip": {"zipped", "gzip"}, "gzip, br": {"brotli", "br"}, "br;q=0, gzip": {"zipped", "gzip"}} {
		resp, body := s.fetch("GET", "/assets/a-1.js", map[string]string{"Accept-Encoding": accept})
		if body != want[0] || resp.Header.Get("Content-Encoding") != want[1] || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %q, %v", accept, body, resp.Header)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" {
			t.Errorf("Accept-Encoding %q: Content-Type %q", accept, kind)
		}
	}
}

// A browser answers a Basic challenge to a script's call with a sign-in window
// of its own; programs need the challenge.
func TestUnauthenticated_noBasicChallengeForPages(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	for name, c := range map[string]struct {
		headers map[string]string
		basic   bool
	}{
		"curl":       {nil, true},
		"navigation": {map[string]string{"Sec-Fetch-Mode": "navigate"}, true},
		"a script":   {map[string]string{"Sec-Fetch-Mode": "cors"}, false},
		"old script": {map[string]string{"Origin": s.server.URL}, false},
		"a token":    {map[string]string{"Authorization": "Bearer x"}, false},
	} {
		resp, _ := s.fetch("GET", "/v1/me", c.headers)
		challenges := resp.Header.Values("WWW-Authenticate")
		if resp.StatusCode != http.StatusUnauthorized || slices.Contains(challenges, `Basic realm="sluice"`) != c.basic || !slices.Contains(challenges, `Bearer realm="sluice"`) {
			t.Errorf("%s: %d, %q", name, resp.StatusCode, challenges)
		}
	}
}
