// Package fakeapi is the HTTP API of Sluice in memory, for the tests of its
// clients: the Terraform provider and the command line.
//
// It is built on the types of the contract and checks every request and every
// answer against openapi.yaml, so that it cannot drift from the server by
// more than the contract leaves open. It keeps objects, defaults, idempotency
// keys, revisions and delete guards; it has no brokers, no quotas and no
// second tenant. Clock and ids are counters, so that output can be compared
// as text. An API may be used by any number of goroutines.
package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/sluicemq/sluice/controlplane/api"
)

// The credentials that the API takes.
const (
	KeyID    = "slk_FAKE0000000000000000"
	Secret   = "sls_FAKE0SECRET1FAKE0SECRET2FAKE0SECRET3FAKE"
	Token    = "fake.access.token"
	Email    = "ada@example.com"
	Password = "correct horse battery"
	TenantID = "ten_01JAB3CD4EF5GH6JK7MN8PQ9RS"
	UserID   = "usr_01JAB3CD4EF5GH6JK7MN8PQ9RS"
)

// API is one fake server. Make it with New.
type API struct {
	// PageSize and Shuffle are set before the first request. PageSize bounds the pages of all lists; 0 means as asked for.
	PageSize int
	// Shuffle turns lists inside objects round, as a server may.
	Shuffle bool

	router routers.Router
	mux    *http.ServeMux

	mu             sync.Mutex // guards all below
	clock          time.Time
	counter        int
	namespaces     map[string]*api.Namespace
	topics         map[string]*api.Topic // by namespace and name
	groups         map[string]*api.Group
	keys           map[string]*api.ApiKey
	members        map[string]*api.Member
	invitations    map[string]*api.Invitation
	roles          map[string]*api.CustomRole
	bindings       map[string]*api.RoleBinding
	acls           map[string]*api.Acl
	accounts       map[string]*api.ServiceAccount
	messages       map[string][]api.Message
	replies        map[string]reply // by idempotency key
	requests       []Request
	violations     []string
	phases         map[string]int // reads for which a new object stays pending
	pending        int            // what phases begin with
	security       api.TenantSecurity
	tenantRevision int64
	wrap           func(next http.Handler) http.Handler
}

// Request is one request that came in.
type Request struct {
	Method, Path, Query, IdempotencyKey string
}

type reply struct {
	status int
	body   []byte
}

// New returns an API with one namespace, "default", and in it the topic
// "hello" and the group "hello-group".
func New() (*API, error) {
	doc, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("route the contract: %w", err)
	}
	a := &API{
		router: router, clock: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC),
		namespaces: map[string]*api.Namespace{}, topics: map[string]*api.Topic{}, groups: map[string]*api.Group{},
		keys: map[string]*api.ApiKey{}, invitations: map[string]*api.Invitation{}, roles: map[string]*api.CustomRole{}, bindings: map[string]*api.RoleBinding{}, acls: map[string]*api.Acl{}, accounts: map[string]*api.ServiceAccount{}, tenantRevision: 1,
		messages: map[string][]api.Message{}, replies: map[string]reply{}, phases: map[string]int{},
	}
	a.mux = a.routes()
	a.firstMembers()
	n := a.newNamespace(api.NamespaceCreate{Name: "default"})
	a.newTopic(n.Id, api.TopicCreate{Name: "hello"})
	a.newGroup(n.Id, api.GroupCreate{Name: "hello-group"})
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var h http.Handler = http.HandlerFunc(a.serve)
	a.mu.Lock()
	if a.wrap != nil {
		h = a.wrap(h)
	}
	a.mu.Unlock()
	h.ServeHTTP(w, r)
}

// Wrap lets a handler of the test see every request first; it is how tests
// make the network and the server fail. nil takes it away again.
func (a *API) Wrap(wrap func(next http.Handler) http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrap = wrap
}

// Pending is how many reads find an object pending that is made from now on.
func (a *API) Pending(reads int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = reads
}

// Requests returns what came in so far.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// Violations returns what broke the contract so far: answers of this fake,
// and requests of the client under test.
func (a *API) Violations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.violations...)
}

// Namespace is the id of the first namespace.
func (a *API) Namespace() string { return namespaceID(1) }

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Idempotency-Key")})
	id := fmt.Sprintf("req_%026d", len(a.requests))
	a.mu.Unlock()
	w.Header().Set("X-Request-Id", id)

	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.fail(w, http.StatusBadRequest, "invalid", "the body ended early", nil)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	input, ok := a.checkRequest(w, r)
	if !ok {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.HasPrefix(r.URL.Path, "/v1/auth/") && !authorized(r) {
		a.fail(w, http.StatusUnauthorized, "unauthenticated", "the API key or token is not valid; sign in again or make a new key", nil)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/tail") {
		a.mux.ServeHTTP(w, r)
		return
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("X-Request-Id", id)
	a.once(recorder, r)
	a.checkAnswer(input, recorder)
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// once answers a request that was answered before with the same answer.
func (a *API) once(recorder *httptest.ResponseRecorder, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		a.mux.ServeHTTP(recorder, r)
		return
	}
	a.mu.Lock()
	earlier, found := a.replies[key]
	a.mu.Unlock()
	if found {
		recorder.Header().Set("Content-Type", "application/json")
		recorder.Header().Set("ETag", `"1"`)
		recorder.Header().Set("Location", r.URL.Path)
		recorder.WriteHeader(earlier.status)
		_, _ = recorder.Write(earlier.body)
		return
	}
	a.mux.ServeHTTP(recorder, r)
	if recorder.Code < 300 {
		a.mu.Lock()
		a.replies[key] = reply{recorder.Code, bytes.Clone(recorder.Body.Bytes())}
		a.mu.Unlock()
	}
}

func authorized(r *http.Request) bool {
	if r.Header.Get("Authorization") == "Bearer "+Token {
		return true
	}
	id, secret, ok := r.BasicAuth()
	return ok && id == KeyID && secret == Secret
}

func (a *API) checkRequest(w http.ResponseWriter, r *http.Request) (*openapi3filter.RequestValidationInput, bool) {
	route, params, err := a.router.FindRoute(r)
	if err != nil {
		a.fail(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no route %s %s", r.Method, r.URL.Path), nil)
		return nil, false
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: false}}
	if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
		a.fail(w, http.StatusBadRequest, "invalid", shortReason(err), nil)
		return nil, false
	}
	return input, true
}

func shortReason(err error) string {
	var request *openapi3filter.RequestError
	if errors.As(err, &request) && request.Parameter != nil {
		return fmt.Sprintf("%s is not valid: %s", request.Parameter.Name, request.Reason)
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

func (a *API) checkAnswer(input *openapi3filter.RequestValidationInput, recorder *httptest.ResponseRecorder) {
	err := openapi3filter.ValidateResponse(input.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: recorder.Code, Header: recorder.Header(),
		Body: io.NopCloser(bytes.NewReader(recorder.Body.Bytes())), Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		a.mu.Lock()
		a.violations = append(a.violations, fmt.Sprintf("answer to %s %s: %v", input.Request.Method, input.Request.URL.Path, err))
		a.mu.Unlock()
	}
}

// fail writes a problem.
func (a *API) fail(w http.ResponseWriter, status int, code, detail string, field *string) {
	problem := api.Problem{Type: "http://127.0.0.1:8080/errors/" + code, Title: strings.ReplaceAll(code, "_", " "),
		Status: int32(status), Code: code, Detail: detail, Field: field, RequestId: w.Header().Get("X-Request-Id")}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem)
}

func (a *API) missing(w http.ResponseWriter, what, name string) {
	a.fail(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s %q", what, name), nil)
}

func answer(w http.ResponseWriter, status int, value any, revision int64) {
	w.Header().Set("Content-Type", "application/json")
	if revision > 0 {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, revision))
		w.Header().Set("Location", "/v1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func read[T any](r *http.Request) (T, error) {
	var v T
	err := json.NewDecoder(r.Body).Decode(&v)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return v, err
}

// tickLocked returns the next instant of the fake clock.
func (a *API) tickLocked() api.Timestamp {
	a.clock = a.clock.Add(time.Second)
	return api.NewTimestamp(a.clock)
}

func (a *API) numberLocked() int {
	a.counter++
	return a.counter
}

func namespaceID(n int) string { return fmt.Sprintf("k7m2q9x4w%03d", n) }

func ulidLike(prefix string, n int) string {
	return fmt.Sprintf("%s_01JAB3CD4EF5GH6JK7MN8P%04d", prefix, n)
}
