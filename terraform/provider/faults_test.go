package provider

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/terraform/fakeapi"
)

// TF-01: reads that miss a new object for a moment do no harm.
func TestTopic_readAfterCreate(t *testing.T) {
	a, s := newFake(t)
	a.Pending(2)
	var missed atomic.Int32
	a.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/topics/orders") && missed.Add(1) <= 2 {
				problem(w, http.StatusNotFound, "not_found", "there is no topic orders")
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorkspace(t, s)
	w.config(oneTopic, a.Namespace())
	w.apply()
	if n := posts(a.Requests(), "/topics"); n != 1 {
		t.Errorf("got %d creates, want 1", n)
	}
}

// TF-10: a rate limit slows an apply down and does not fail it.
func TestTopics_rateLimit(t *testing.T) {
	a, s := newFake(t)
	var mu sync.Mutex
	seen, refused := 0, 0
	a.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen++
			empty := seen > 10 && seen <= 30 // by number, not by time: a slow machine would never meet a rate
			if empty {
				refused++
			}
			mu.Unlock()
			if empty {
				w.Header().Set("Retry-After", "1")
				problem(w, http.StatusTooManyRequests, "rate_limited", "too many requests")
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_topic" "many" {
  count        = 40
  namespace_id = %q
  name         = "many-${count.index}"
}
`, a.Namespace())
	w.must("apply", "-auto-approve", "-input=false", "-parallelism=40")
	mu.Lock()
	defer mu.Unlock()
	if refused != 20 {
		t.Errorf("the rate limit was met %d times, want 20", refused)
	}
}

// TF-14: the answer to a create is lost; the second try carries the same
// Idempotency-Key and finds the object made by the first.
func TestTopic_lostAnswer(t *testing.T) {
	a, s := newFake(t)
	var lost atomic.Bool
	a.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && lost.CompareAndSwap(false, true) {
				next.ServeHTTP(nowhere{}, r)
				panic(http.ErrAbortHandler) // the connection breaks
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorkspace(t, s)
	w.config(oneTopic, a.Namespace())
	w.apply()
	keys := map[string]bool{}
	for _, r := range a.Requests() {
		if r.Method == http.MethodPost {
			keys[r.IdempotencyKey] = true
		}
	}
	if n := posts(a.Requests(), "/topics"); n != 2 || len(keys) != 1 || keys[""] {
		t.Errorf("got %d creates with %d keys, want 2 with one", n, len(keys))
	}
}

// TF-15: an object that exists already comes with the way out.
func TestCreate_alreadyExists(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_topic" "hello" {
  namespace_id = %[1]q
  name         = "hello"
}
resource "sluice_consumer_group" "hello" {
  namespace_id = %[1]q
  name         = "hello-group"
}
resource "sluice_namespace" "default" {
  name = "default"
}
`, a.Namespace())
	w.fails(applyArgs, "terraform import sluice_topic.<name of the resource block> "+a.Namespace()+"/hello",
		"terraform import sluice_consumer_group.<name of the resource block> "+a.Namespace()+"/hello-group",
		"terraform import sluice_namespace.<name of the resource block> "+a.Namespace())
}

// TF-17: a create that is not ready in time leaves a tainted object in the
// state and no orphan; the next apply converges.
func TestTopic_notReadyInTime(t *testing.T) {
	a, s := newFake(t)
	a.Pending(1 << 30)
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_topic" "orders" {
  namespace_id = %q
  name         = "orders"
  timeouts     = { create = "1500ms" }
}
`, a.Namespace())
	w.fails(applyArgs, "Created topic orders, but it is not ready", "waiting for broker-a")
	first := w.text("sluice_topic.orders", "id")
	wantAll(t, w.planDiffers(), "is tainted, so must be replaced")
	a.Pending(0)
	w.apply()
	if second := w.text("sluice_topic.orders", "id"); second == first || second == "" {
		t.Errorf("got id %q after %q, want another one", second, first)
	}
}

// TF-27: whatever a broken server answers, the user gets a message.
func TestTopic_errorReplies(t *testing.T) {
	replies := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"HTML": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("<h1>oops</h1>"))
		}, "HTTP 500"},
		"empty":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "HTTP 500"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "Could not"},
		"half JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id": "top_`))
		}, "Could not create topic orders"},
		"problem": {func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusForbidden, "quota_exceeded", "50 of 50 topics are in use")
		}, "50 of 50 topics are in use Code: quota_exceeded (HTTP 403). Request id: req_1"},
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			a, s := newFake(t)
			a.Wrap(func(next http.Handler) http.Handler { return reply.handler })
			w := newWorkspace(t, s)
			w.config(oneTopic, a.Namespace())
			w.fails(applyArgs, reply.want)
		})
	}
}

// TF-13, TF-27: a read that fails for another reason than "not found" keeps
// the object in the state.
func TestTopic_readErrorKeepsTheState(t *testing.T) {
	a, s := newFake(t)
	w := newWorkspace(t, s)
	w.config("provider \"sluice\" {\n  max_retries = 0\n}\n"+oneTopic, a.Namespace())
	w.apply()
	a.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				problem(w, http.StatusInternalServerError, "internal", "something broke")
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	w.fails(planArgs, "Could not read topic orders", "something broke")
	a.Wrap(nil)
	w.planEmpty()
}

type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":"/errors/%s","title":"t","status":%d,"code":%q,"detail":%q,"request_id":"req_1"}`, code, status, code, detail)
}

func posts(requests []fakeapi.Request, suffix string) int {
	n := 0
	for _, r := range requests {
		if r.Method == http.MethodPost && strings.HasSuffix(r.Path, suffix) {
			n++
		}
	}
	return n
}

// B182: with replies lost and servers unavailable now and then, everything
// ends clean: nothing failed, nothing twice, no orphan on the server.
func TestApply_badWeather(t *testing.T) {
	a, s := newFake(t)
	var n atomic.Int32
	a.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch i := n.Add(1); {
			case i%7 == 0:
				problem(w, http.StatusServiceUnavailable, "unavailable", "try again")
			case i%11 == 0:
				next.ServeHTTP(nowhere{}, r)
				panic(http.ErrAbortHandler) // done, but nobody hears of it
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	w := newWorkspace(t, s)
	w.config(`
resource "sluice_topic" "t" {
  count        = 15
  namespace_id = %[1]q
  name         = "t${count.index}"
}
resource "sluice_consumer_group" "g" {
  count        = 15
  namespace_id = %[1]q
  name         = "g${count.index}"
}
resource "sluice_api_key" "k" {
  count = 15
  name  = "k${count.index}"
  scope = [{ namespace_id = %[1]q, permissions = ["PUB"] }]
}
`, a.Namespace())
	wantAll(t, w.apply(), "45 added, 0 changed, 0 destroyed")
	if keys := a.Keys(); keys != 15 {
		t.Errorf("got %d keys on the server, want 15", keys)
	}
	w.must(destroyArgs...)
	if keys := a.Keys(); keys != 0 {
		t.Errorf("%d keys are left on the server", keys)
	}
}
