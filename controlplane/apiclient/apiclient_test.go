package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

// script answers requests in turn and keeps what was asked.
type script struct {
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	keys    []string
	bodies  []string
	auths   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.keys, s.bodies, s.auths = append(s.keys, r.Header.Get("Idempotency-Key")), append(s.bodies, string(body)), append(s.auths, r.Header.Get("Authorization"))
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	answer(w)
}

func problem(status int, code string, headers ...string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"/errors/x","title":"T","status":`+itoa(status)+`,"code":"`+code+`","detail":"D","request_id":"req_1"}`)
	}
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func account(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"sa_1","name":"n","created_at":"2026-09-01T08:00:00.000Z","updated_at":"2026-09-01T08:00:00.000Z","revision":1,"labels":{}}`)
}

func client(t *testing.T, s *script, change func(*Config)) (*SDK, *[]time.Duration) {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	var pauses []time.Duration
	cfg := Config{Endpoint: srv.URL, Token: "tok", Pause: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, &pauses
}

func TestRetry_sameKeyAndBodyUntilItWorks(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){problem(503, "unavailable", "Retry-After", "2"), problem(429, "rate_limited", "Retry-After", "3"),
		problem(409, "idempotency_in_progress", "Retry-After", "1"), account}}
	c, pauses := client(t, s, nil)
	got, err := Created(c.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: "n"}))
	if err != nil || got.Id != "sa_1" {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(s.keys) != 4 || s.keys[0] == "" {
		t.Fatalf("keys %v", s.keys)
	}
	for i := range s.keys {
		if s.keys[i] != s.keys[0] || s.bodies[i] != s.bodies[0] || !strings.Contains(s.bodies[i], `"n"`) || s.auths[i] != "Bearer tok" {
			t.Errorf("request %d: key %q body %q auth %q", i, s.keys[i], s.bodies[i], s.auths[i])
		}
	}
	if p := *pauses; len(p) != 3 || p[0] != 2*time.Second || p[1] != 3*time.Second {
		t.Errorf("pauses %v", *pauses)
	}
}

func TestRetry_notForErrorsOfTheCaller(t *testing.T) {
	for status, code := range map[int]string{400: "invalid", 401: "token_expired", 403: "quota_exceeded", 404: "not_found", 409: "already_exists", 412: "precondition_failed", 500: "internal"} {
		s := &script{answers: []func(http.ResponseWriter){problem(status, code)}}
		c, pauses := client(t, s, nil)
		_, err := Created(c.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: "n"}))
		if !Is(err, code) || Status(err) != status || len(*pauses) != 0 || NotFound(err) != (status == 404) {
			t.Errorf("%d: %v after %d retries", status, err, len(*pauses))
		}
		if !strings.Contains(err.Error(), "req_1") {
			t.Errorf("%d: no request id in %q", status, err)
		}
	}
}

func TestRetry_givesUp(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){problem(503, "unavailable")}}
	c, pauses := client(t, s, func(cfg *Config) { cfg.MaxRetries = 3 })
	if err := Done(c.DeleteTopicWithResponse(t.Context(), "nsaaaaaaaa", "t", nil)); !Is(err, "unavailable") || len(*pauses) != 3 {
		t.Errorf("%v after %d retries", err, len(*pauses))
	}
	c, pauses = client(t, s, func(cfg *Config) { cfg.Endpoint = "http://127.0.0.1:1"; cfg.MaxRetries = 2 })
	if _, err := OK(c.GetMeWithResponse(t.Context())); err == nil || len(*pauses) != 2 {
		t.Errorf("unreachable: %v after %d retries", err, len(*pauses))
	}
}

func TestAuthRoutes_areNotRepeated(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){problem(503, "unavailable")}}
	c, pauses := client(t, s, nil)
	if _, err := OK(c.SignInWithResponse(t.Context(), nil, api.SignIn{Email: "a@x.io", Password: "p"})); !Is(err, "unavailable") || len(*pauses) != 0 || s.keys[0] != "" {
		t.Errorf("%v after %d retries, key %q", err, len(*pauses), s.keys[0])
	}
}

func TestAnswerOfSomethingElse(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){func(w http.ResponseWriter) { w.WriteHeader(404); _, _ = io.WriteString(w, "<html>") }}}
	c, _ := client(t, s, nil)
	if _, err := OK(c.GetMeWithResponse(t.Context())); !Is(err, "unexpected_answer") {
		t.Errorf("got %v", err)
	}
}

func TestNew_refusesBadConfigs(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no endpoint":     {},
		"no scheme":       {Endpoint: "127.0.0.1:8080"},
		"two credentials": {Endpoint: "http://x", Token: "t", KeyID: "k", KeySecret: "s"},
		"half a key":      {Endpoint: "http://x", KeyID: "k"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestAll_stopsAtErrorsAndWhenToldTo(t *testing.T) {
	pages := 0
	page := func(token *string) ([]int, *string, error) {
		pages++
		next := "n"
		return []int{pages*2 - 1, pages * 2}, &next, nil
	}
	sum := 0
	for n, err := range All(page) {
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; n == 3 {
			break
		}
	}
	if sum != 6 || pages != 2 {
		t.Errorf("sum %d over %d pages", sum, pages)
	}
}
