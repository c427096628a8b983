package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/controlplane/denials"
	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/controlplane/fleet"
	"github.com/sluicemq/sluice/controlplane/mail"
	"github.com/sluicemq/sluice/controlplane/oidc"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

// clock is the time of a test; it moves only when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// system is the whole control plane but fleet and data plane.
type system struct {
	t          *testing.T
	clock      *clock
	db         *sqldb.DB
	auth       *auth.Service
	tenants    *tenant.Service
	catalog    *catalog.Service
	store      *tenantdb.Store
	source     *controldb.Source
	mailer     *mail.Mailer
	fleet      *readyFleet
	messages   *memoryMessages
	server     *httptest.Server
	api        *apiclient.SDK // without credentials
	srv        *server
	observed   func() map[string]int
	federation *federation.Service
	dns        *txtRecords
	recorder   *denials.Recorder
	logged     sync.Map // ids of requests that the audit log has an event of
	work       work
	// authAgain makes another control plane's auth.Service on the same database.
	authAgain   func(t *testing.T, revocations auth.Revocations, algorithms ...string) *auth.Service
	revocations auth.Revocations
}

// readyFleet is a data plane that takes everything at once.
type readyFleet struct {
	source catalog.Source
	mu     sync.Mutex
	woken  int // guarded by mu
}

func (f *readyFleet) Wake(tenant.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken++
}

func (f *readyFleet) WaitReady(ctx context.Context, kind catalog.Kind, id tenant.ID, revision int64) error {
	return f.source.MarkReady(ctx, kind, id, revision)
}

// memoryMessages keeps messages in memory.
type memoryMessages struct {
	mu      sync.Mutex
	now     func() time.Time
	stored  map[string][]catalog.StoredMessage // guarded by mu
	tails   []chan catalog.StoredMessage       // guarded by mu
	settled []catalog.Settlement               // guarded by mu
	resets  []catalog.OffsetReset              // guarded by mu; those that were done
}

func (m *memoryMessages) Send(_ context.Context, o catalog.Outgoing) (catalog.Sent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place := o.NamespaceID + "%" + o.Topic
	n := len(m.stored[place])
	msg := catalog.StoredMessage{MessageID: fmt.Sprintf("MSG%029d", n), Topic: o.Topic, Offset: int64(n), Body: o.Body, Tag: o.Tag, Keys: o.Keys,
		Properties: o.Properties, BornAt: m.now(), StoredAt: m.now()}
	m.stored[place] = append(m.stored[place], msg)
	for _, tail := range m.tails {
		tail <- msg
	}
	return catalog.Sent{MessageID: msg.MessageID, Offset: msg.Offset, StoredAt: msg.StoredAt}, nil
}

func (m *memoryMessages) Query(_ context.Context, q catalog.MessageQuery) (catalog.MessagePage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page catalog.MessagePage
	for _, msg := range m.stored[q.NamespaceID+"%"+q.Topic] {
		if q.MessageID != "" && msg.MessageID != q.MessageID {
			continue
		}
		if q.Cursor != "" && fmt.Sprint(msg.Offset) <= q.Cursor {
			continue
		}
		if len(page.Messages) == q.Limit {
			page.Next = fmt.Sprint(page.Messages[q.Limit-1].Offset)
			break
		}
		page.Messages = append(page.Messages, msg)
	}
	return page, nil
}

func (m *memoryMessages) Tail(ctx context.Context, r catalog.TailRequest) error {
	ch := make(chan catalog.StoredMessage, 16)
	m.mu.Lock()
	m.tails = append(m.tails, ch)
	m.mu.Unlock()
	r.Ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case msg := <-ch:
			if err := r.Each(msg); err != nil {
				return err
			}
		}
	}
}

func (m *memoryMessages) Lag(context.Context, tenant.ID, string) ([]catalog.QueueLag, error) {
	return []catalog.QueueLag{{Topic: "hello", Queue: 0, MaxOffset: 5, Committed: 2, Lag: 3}, {Topic: "hello", Queue: 1, Committed: -1}}, nil
}

// ResetOffsets moves a group that is at 2 of the 5 messages of a topic's only
// queue.
func (m *memoryMessages) ResetOffsets(_ context.Context, r catalog.OffsetReset) ([]catalog.QueueReset, error) {
	q := catalog.QueueReset{Broker: "broker-a", From: 2, To: 5}
	switch {
	case r.Offset != nil:
		q.To = *r.Offset
	case r.Time.UnixMilli() == 0:
		q.To = 0
	}
	if !r.DryRun {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.resets = append(m.resets, r)
	}
	return []catalog.QueueReset{q}, nil
}

// theTransaction is the only one there is, in every namespace.
const theTransaction = "YnJva2VyLWEvMC8w"

func (m *memoryMessages) Transactions(_ context.Context, q catalog.TransactionQuery) (catalog.TransactionPage, error) {
	t := catalog.Transaction{ID: theTransaction, Topic: "hello", Group: "p", State: catalog.TransactionOpen, Checks: 2, Broker: "broker-a", StoredAt: time.Unix(1788249600, 0)}
	if q.Topic != "" && q.Topic != t.Topic || q.State == catalog.TransactionGivenUp {
		return catalog.TransactionPage{}, nil
	}
	return catalog.TransactionPage{Transactions: []catalog.Transaction{t}, Next: "0.1"}, nil
}

func (m *memoryMessages) Settle(_ context.Context, s catalog.Settlement) (string, error) {
	if s.ID != theTransaction {
		return "", errs.E(errs.NotFound, "there is no such transaction")
	}
	if !s.DryRun {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.settled = append(m.settled, s)
	}
	return "hello", nil
}

// quick is a password cost for tests.
var quick = auth.PasswordCost{MemoryKiB: 64, Passes: 1}

func newSystem(t *testing.T, driver sqldb.Driver, change ...func(*Deps)) *system {
	t.Helper()
	s := &system{t: t, clock: &clock{t: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)}}
	s.db = dbtest.Open(t, driver)
	keyring, err := tenant.NewKeyring([]byte(strings.Repeat("k", 32)))
	check(t, err)
	outbox := controldb.NewOutbox(s.db, s.clock.now)
	tenants := tenantdb.New(s.db, outbox)
	s.store = tenants
	authStore := controldb.NewAuthStore(s.db, outbox)
	s.mailer, err = mail.New(mail.Config{Target: "file:" + t.TempDir(), BaseURL: "http://console"}, s.clock.now, nil)
	check(t, err)
	redis := os.Getenv("SLUICE_TEST_REDIS")
	if redis == "" {
		t.Fatal("SLUICE_TEST_REDIS is not set; run the tests under scripts/test-services.sh")
	}
	ca, err := cache.Open(cache.Config{URL: redis, Prefix: tenant.NewID("test_", s.clock.now()) + ":"}, s.clock.now, nil)
	check(t, err)
	t.Cleanup(func() { _ = ca.Close() })
	s.fleet = &readyFleet{}
	s.tenants = tenant.New(tenant.Deps{Store: tenants, Keyring: keyring, Now: s.clock.now, Wake: s.fleet.Wake,
		Leaked: func(ctx context.Context, k tenant.APIKey, r tenant.LeakReport) error {
			return errors.Join(s.auth.WarnOfLeak(ctx, k), controldb.NewAudit(s.db).Append(ctx, controldb.LeakEvent(k, r, s.clock.now())))
		}})
	s.catalog = catalog.New(controldb.New(s.db, tenants), s.fleet, s.clock.now)
	s.auth = auth.New(auth.Config{PasswordCost: quick}, auth.Deps{Store: authStore, Tenants: s.tenants,
		Founder: &catalog.Founder{Tenants: s.tenants, Catalog: s.catalog}, Closer: &catalog.Closer{Tenants: s.tenants, Catalog: s.catalog}, Audited: s.audited, Acted: s.acted, Mailer: countedMails{s.mailer, &s.work.mails}, Hashed: s.work.hashed, Revocations: ca, Keyring: keyring, Now: s.clock.now})
	s.revocations = ca
	s.authAgain = func(_ *testing.T, revocations auth.Revocations, algorithms ...string) *auth.Service {
		return auth.New(auth.Config{PasswordCost: quick, Algorithms: algorithms, KeyRotation: rotation}, auth.Deps{Store: authStore, Tenants: s.tenants,
			Founder: &catalog.Founder{Tenants: s.tenants, Catalog: s.catalog}, Closer: &catalog.Closer{Tenants: s.tenants, Catalog: s.catalog}, Audited: s.audited, Acted: s.acted, Mailer: s.mailer, Revocations: revocations, Keyring: keyring, Now: s.clock.now})
	}
	s.source = controldb.NewSource(s.db, tenants, keyring, s.auth.JWKS)
	s.source.Now = s.clock.now
	s.fleet.source = s.source
	check(t, s.auth.RotateKeys(t.Context()))
	check(t, s.catalog.PutCluster(t.Context(), catalog.Cluster{ID: "cl_local", Name: "local", RemotingEndpoint: "127.0.0.1:9876", GRPCEndpoint: "127.0.0.1:8081"}))
	s.recorder = denials.NewRecorder(controldb.NewAudit(s.db), s.clock.now, slog.New(slog.DiscardHandler))
	s.messages = &memoryMessages{now: s.clock.now, stored: map[string][]catalog.StoredMessage{}}

	var mu sync.Mutex
	seen := map[string]int{}
	s.observed = func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]int{}
		for k, v := range seen {
			out[k] = v
		}
		return out
	}
	s.dns = &txtRecords{}
	s.federation = federation.New(federation.Deps{Store: controldb.NewFederationStore(s.db), Auth: s.auth, Tenants: s.tenants,
		OIDC: oidc.New(oidc.Config{Loopback: true, Now: s.clock.now}), Resolver: s.dns, Sealer: keyring, Now: s.clock.now})
	much := cache.Rate{PerSecond: 1e4, Burst: 1e4}
	deps := Deps{Auth: s.auth, Tenants: s.tenants, Federation: s.federation, Catalog: s.catalog, Judges: fleet.Judge, Messages: s.messages, Tx: s.db, Idempotency: controldb.NewIdempotency(s.db, s.clock.now),
		Audit: watchedAudit{controldb.NewAudit(s.db), &s.logged}, Limiter: ca, Sealer: keyring, Refused: s.refusedCaller, Mailbox: s.mailer, Now: s.clock.now,
		Console: fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>console</title>")}, "assets/app-1.js": {Data: []byte("1")}},
		Config:  Config{Limits: Limits{Address: much, Principal: much, SignInAccount: much, AuthAddress: much, AuthNetwork: much, MailAddress: much, MailNetwork: much, MailTotal: much}},
		Observe: func(route string, status int, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(route, " ", status)]++
		}}
	for _, f := range change {
		f(&deps)
	}
	srv, engine, err := build(deps)
	check(t, err)
	s.srv = srv
	s.server = httptest.NewServer(s.checked(srv.outside(engine)))
	t.Cleanup(s.server.Close)
	s.api, err = apiclient.New(apiclient.Config{Endpoint: s.server.URL, MaxRetries: -1})
	check(t, err)
	return s
}

func (s *system) audited(ctx context.Context, tenantID, userID tenant.ID, action string) error {
	return controldb.NewAudit(s.db).Append(ctx, controldb.AccountEvent(auth.CallerOf(ctx), tenantID, userID, action, s.clock.now()))
}

// watchedAudit notes which requests have an event.
type watchedAudit struct {
	Audit
	logged *sync.Map
}

func (w watchedAudit) Append(ctx context.Context, e controldb.AuditEvent) error {
	w.logged.Store(e.RequestID, true)
	return w.Audit.Append(ctx, e)
}

func (s *system) refusedCaller(e controldb.AuditEvent) {
	s.logged.Store(e.RequestID, true)
	s.recorder.Refused(e)
}

func (s *system) acted(ctx context.Context, a auth.Act) error {
	s.logged.Store(auth.CallerOf(ctx).RequestID, true)
	return controldb.NewAudit(s.db).Note(ctx, controldb.ActEvent(auth.CallerOf(ctx), a, s.clock.now()))
}

// checked holds every answer against the contract.
func (s *system) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tail") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		s.conforms(r, rec)
		s.inTheLog(r, rec)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, rec.Body)
	})
}

func (s *system) conforms(r *http.Request, rec *httptest.ResponseRecorder) {
	op := s.operationOf(r)
	if op == nil {
		return
	}
	body := rec.Body.Bytes()
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: op.route},
		Status:                 rec.Code, Header: rec.Header(), Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(r.Context(), input); err != nil && rec.Code != http.StatusNoContent {
		s.t.Errorf("%s %s answered %d against the contract: %v\n%s", r.Method, r.URL.Path, rec.Code, err, body)
	}
}

// unlogged are operations other than GET that may succeed without an event.
var unlogged = map[string]string{
	"signUp": "nobody has an account yet", "requestPasswordReset": "nobody proved anything", "signIn": "a second factor may be awaited", "reopenAccount": "the same",
	"refreshSession": "the session goes on", "signOut": "there may be no session", "createToken": "the last use of the key says so", "revokeToken": "it may be none",
	"backchannelLogout": "it may end nothing", "reportLeak": "it is looked up later", "lookUpInvitation": "it only reads", "batchGetTopics": "the same", "testAcl": "the same",
	"verifyAuditEvents": "the same", "sendMessage": "messages are metered, not audited", "startSso": "nobody is anybody yet", "beginStepUp": "a challenge gives nothing",
}

// inTheLog holds every answer against the audit log: what changed something, and
// what was forbidden to somebody known, has an event of its request.
func (s *system) inTheLog(r *http.Request, rec *httptest.ResponseRecorder) {
	op := s.operationOf(r)
	if op == nil || rec.Header().Get("Idempotency-Replayed") != "" || r.URL.Query().Get("dry_run") == "true" {
		return
	}
	known := r.Header.Get("Authorization") != "" && op.permission != auth.PermissionPublic
	changed := rec.Code < 300 && r.Method != http.MethodGet && unlogged[op.id] == ""
	if !changed && (rec.Code != http.StatusForbidden || !known) {
		return
	}
	if _, ok := s.logged.Load(rec.Header().Get("X-Request-Id")); !ok {
		s.t.Errorf("%s %s answered %d, and the audit log has nothing of it: %.200s", r.Method, r.URL.Path, rec.Code, rec.Body.String())
	}
}

var parameter = regexp.MustCompile(`\{[^}]+\}`)

func (s *system) operationOf(r *http.Request) *operation {
	for _, op := range s.srv.ops {
		pattern := "^" + parameter.ReplaceAllString(regexp.QuoteMeta(op.path), "[^/]+") + "$"
		pattern = strings.ReplaceAll(pattern, `\{`, "{")
		pattern = strings.ReplaceAll(pattern, `\}`, "}")
		pattern = parameter.ReplaceAllString(pattern, "[^/]+")
		if op.route.Method == r.Method && regexp.MustCompile(pattern).MatchString(r.URL.EscapedPath()) {
			return op
		}
	}
	return nil
}

// person is somebody who signed up.
type person struct {
	api.Verified
	email string
	sdk   *apiclient.SDK
	web   *http.Client // with the refresh cookie
}

const password = "correct horse battery"

func (s *system) code(email string) string {
	s.t.Helper()
	list, err := s.mailer.Messages()
	check(s.t, err)
	for _, m := range list {
		if m.To == email {
			if code := regexp.MustCompile(`\b\d{6}\b`).FindString(m.Subject); code != "" {
				return code
			}
		}
	}
	s.t.Fatalf("no code was mailed to %s", email)
	return ""
}

func (s *system) signUp(email string) person {
	s.t.Helper()
	s.clock.add(time.Second) // mails are ordered by time
	_, err := apiclient.Accepted(s.api.SignUpWithResponse(s.t.Context(), nil, api.SignUp{Email: email, Password: password, TenantName: "Tenant of " + email}))
	check(s.t, err)
	jar, err := cookiejar.New(nil)
	check(s.t, err)
	web := &http.Client{Jar: jar}
	browser, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, HTTP: web, MaxRetries: -1})
	check(s.t, err)
	v, err := apiclient.OK(browser.VerifySignUpWithResponse(s.t.Context(), nil, api.Verify{Email: email, Code: s.code(email)}))
	check(s.t, err)
	sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: v.AccessToken, MaxRetries: -1})
	check(s.t, err)
	return person{Verified: v, email: email, sdk: sdk, web: web}
}

// raw sends a request by hand.
func (s *system) raw(method, path, token, body string, headers ...string) (int, api.Problem, http.Header) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute) // a tail does not end by itself
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.server.URL+path, strings.NewReader(body))
	check(s.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(s.t, err)
	var p api.Problem
	if strings.Contains(resp.Header.Get("Content-Type"), "problem") {
		check(s.t, json.Unmarshal(text, &p))
	}
	return resp.StatusCode, p, resp.Header
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }
