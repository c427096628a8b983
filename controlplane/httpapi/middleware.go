package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

const (
	maxBody      = 8 << 20 // a message of 4 MiB in base64, and what is around it
	maxBodySmall = 1 << 20 // of every other request
	maxQuery     = 8 << 10
)

// begin is around every request: id, headers, panic, metric, log.
func (s *server) begin(c *gin.Context) {
	now := s.d.Now()
	ca := &call{gin: c, requestID: tenant.NewID("req_", now), addr: addressOf(c.Request), begun: time.Now(), site: siteOf(s.base(c.Request)), op: s.ops[c.Request.Method+" "+c.FullPath()]}
	c.Set(callKey, ca)
	caller := auth.Caller{Address: ca.addr.String(), RequestID: ca.requestID}
	if ca.op != nil {
		caller.Operation = ca.op.id
	}
	c.Request = c.Request.WithContext(auth.WithCaller(auth.FromNetwork(c.Request.Context(), network(ca.addr)), caller))
	h := c.Writer.Header()
	h.Set("X-Request-Id", ca.requestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	if c.Request.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if ca.op != nil {
		h.Set("Cache-Control", "no-store")
	}
	defer ca.endTurn()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // a sentinel value, never wrapped
				panic(p)
			}
			s.d.Logger.Error("panic in handler", "request_id", ca.requestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			s.fail(c, errs.E(errs.Internal, "panic"))
		}
		if c.Request.Method != http.MethodGet {
			s.recent.forget()
		}
		route := "other"
		if ca.op != nil {
			route = ca.op.path
		}
		s.d.Observe(route, c.Writer.Status(), time.Since(ca.begun))
	}()
	c.Next()
}

// admit lets a request of the contract through: known caller, rate, form,
// permission.
func (s *server) admit(c *gin.Context) {
	ca, _ := enter(c)
	if err := s.admitCall(c, ca); err != nil {
		s.refuse(c, err)
	}
}

// refuse answers with a problem and notes for the tenant what was forbidden.
func (s *server) refuse(c *gin.Context, err error) {
	if ca, _ := enter(c); ca.principal != nil && (errs.Is(err, errs.Forbidden) || errs.Is(err, errs.QuotaExceeded)) {
		s.auditDenied(c, ca, err)
		s.fail(c, err)
		return
	}
	s.fail(c, err)
	s.noteRefused(c, err)
}

// noteRefused tells, after the answer, of somebody who is known and was not let
// in. A stranger's refusal does the same work: it is told as nobody's.
func (s *server) noteRefused(c *gin.Context, err error) {
	var r *auth.RefusedError
	if !errors.As(err, &r) {
		return
	}
	ca, _ := enter(c)
	e := controldb.AuditEvent{ActorType: string(auth.KindUser), ActorID: r.UserID, SourceIP: ca.addr.String(), Action: ca.op.id, TargetType: "user", TargetID: r.UserID,
		Denied: true, Reason: reasonOf(err), RequestID: ca.requestID}
	if k := r.Key; k.ID != "" {
		e.TenantID, e.ActorType, e.ActorID, e.KeyID, e.TargetType, e.TargetID = k.TenantID, string(auth.KindOf(k.OwnerID)), k.OwnerID, k.ID, "api_key", k.ID
	}
	s.d.Refused(e)
}

func (s *server) admitCall(c *gin.Context, ca *call) error {
	if ca.op == nil {
		return errs.E(errs.Internal, "route %s %s is not in the contract", c.Request.Method, c.FullPath())
	}
	if len(c.Request.URL.RawQuery) > maxQuery {
		return errs.Field("query", "the query has %d bytes; at most %d", len(c.Request.URL.RawQuery), maxQuery)
	}
	ctx := c.Request.Context()
	if ca.op.lookup {
		var err error
		if ca.leave, err = s.lookups.enter(ctx, network(ca.addr)); err != nil {
			return err
		}
	}
	var authErr error
	if ca.op.permission != auth.PermissionPublic {
		ca.principal, authErr = s.identify(c, ca)
	} else if ca.op.id == "createToken" {
		ca.basicID, ca.basicKey, _ = c.Request.BasicAuth()
	}
	key, rate, name := "addr:"+ca.addr.String(), s.d.Config.Limits.Address, "address"
	if ca.principal != nil {
		key, rate, name = "principal:"+ca.principal.ActorID(), s.d.Config.Limits.Principal, "principal"
	}
	d := s.d.Limiter.Take(ctx, key, rate)
	rateHeaders(c, name, rate, d)
	if !d.Allowed {
		return limited(name, key[strings.IndexByte(key, ':')+1:], rate, d)
	}
	if authErr != nil {
		return authErr
	}
	if err := auth.MayOn(ca.principal, ca.op.permission, resourceOf(c, ca.op)); err != nil {
		return err
	}
	if ca.op.permission == auth.PermissionSelf {
		if err := auth.MaySelf(ca.principal, ca.op.id); err != nil {
			return err
		}
	}
	if !ca.op.withoutMFA {
		if err := s.d.Auth.Enrolled(ctx, ca.principal); err != nil {
			return err
		}
	}
	if ca.op.stepUp {
		if err := s.d.Auth.Fresh(ctx, ca.principal); err != nil {
			return err
		}
	}
	if err := readBody(c, ca); err != nil {
		return err
	}
	if err := validate(c, ca); err != nil {
		return err
	}
	return s.rulesAllow(ctx, ca)
}

func (s *server) identify(c *gin.Context, ca *call) (*auth.Principal, error) {
	ctx := auth.WithOperation(c.Request.Context(), ca.op.id)
	header := c.GetHeader("Authorization")
	scheme, rest, _ := strings.Cut(header, " ")
	switch {
	case header == "":
		return nil, nil // May says what is missing
	case strings.EqualFold(scheme, "Bearer"):
		return s.d.Auth.Authenticate(ctx, strings.TrimSpace(rest), ca.addr)
	case strings.EqualFold(scheme, "Basic"):
		id, secret, ok := c.Request.BasicAuth()
		if !ok {
			return nil, errs.E(errs.Unauthenticated, "the Basic credentials cannot be read").WithReason("credentials_missing")
		}
		if c.Request.Method != http.MethodGet {
			return s.d.Auth.AuthenticateKey(ctx, id, secret, ca.addr)
		}
		return s.identifyReader(ctx, id, secret, ca)
	}
	return nil, errs.E(errs.Unauthenticated, "unknown authorization scheme; use Bearer or Basic").WithReason("credentials_missing")
}

// identifyReader is AuthenticateKey for a request that changes nothing; see recent.
func (s *server) identifyReader(ctx context.Context, id, secret string, ca *call) (*auth.Principal, error) {
	return know(ctx, &s.recent, fact("principal", id, secret, ca.addr.String()), func(ctx context.Context) (*auth.Principal, error) {
		return s.d.Auth.AuthenticateKey(ctx, id, secret, ca.addr)
	})
}

func rateHeaders(c *gin.Context, name string, r cache.Rate, d cache.Decision) {
	window := int(math.Ceil(float64(r.Burst) / math.Max(r.PerSecond, 1e-9)))
	h := c.Writer.Header()
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", name, r.Burst, window))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", name, d.Remaining, seconds(d.Reset)))
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

func limited(name, scope string, r cache.Rate, d cache.Decision) error {
	rate := fmt.Sprintf("%g a second", r.PerSecond)
	if r.PerSecond < 1 {
		rate = fmt.Sprintf("%g an hour", math.Round(r.PerSecond*3600))
	}
	e := errs.E(errs.RateLimited, "too many requests: %s on average, %d at once; try again in %d s", rate, r.Burst, max(1, seconds(d.RetryAfter)))
	e.RetryAfter = max(time.Second, d.RetryAfter)
	e.Quota = &errs.Quota{Name: "api_" + name, Scope: scope, Limit: int64(r.Burst), Used: int64(r.Burst)}
	return e
}

// readBody reads the whole body, bounded; validation and idempotency look at
// it, and the handler reads it again.
func readBody(c *gin.Context, ca *call) error {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return nil
	}
	limit := int64(maxBodySmall)
	if ca.op.id == "sendMessage" {
		limit = maxBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		e := errs.Field("body", "the body has more than %d bytes", limit).WithReason("body_too_large")
		e.Limit = strconv.FormatInt(limit, 10)
		return e
	case err != nil:
		return errs.Field("body", "the body could not be read").WithReason("body_unreadable")
	}
	ca.body = body
	if len(body) > 0 && strings.HasPrefix(c.ContentType(), "application/json") && !json.Valid(body) {
		return errs.Field("body", "the body is not valid JSON").WithReason("body_not_json")
	}
	if len(body) == 0 {
		c.Request.Body = http.NoBody
		c.Request.ContentLength = 0
		c.Request.Header.Del("Content-Type")
		return nil
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func (s *server) noRoute(c *gin.Context) {
	path := c.Request.URL.Path
	if strings.HasPrefix(path, "/v1/") || path == "/v1" || strings.HasPrefix(path, "/.well-known/") || strings.HasPrefix(path, "/errors/") {
		s.fail(c, errs.E(errs.NotFound, "no such route: %s %s", c.Request.Method, clip(path)).WithReason("route_not_found"))
		return
	}
	s.console(c)
}

func (s *server) noMethod(c *gin.Context) {
	s.fail(c, errs.E(errs.Invalid, "%s is not allowed here; allowed: %s", c.Request.Method, c.Writer.Header().Get("Allow")).WithReason("method_not_allowed"))
}

// clip bounds how much of a request an error repeats.
func clip(text string) string { return errs.Clip(text, 200) }

func (s *server) auditDenied(c *gin.Context, ca *call, err error) {
	e := s.event(ca)
	e.Denied, e.Reason = true, reasonOf(err)
	if err := s.d.Audit.Append(c.Request.Context(), e); err != nil {
		s.d.Logger.Error("refusal not audited", "request_id", ca.requestID, "err", err)
	}
}

func (s *server) event(ca *call) controldb.AuditEvent {
	now := s.d.Now().UTC()
	e := controldb.AuditEvent{ID: tenant.NewID("evt_", now), TenantID: ca.principal.TenantID, At: now, ActorType: string(ca.principal.Kind),
		ActorID: ca.principal.ID, KeyID: ca.principal.KeyID, SourceIP: ca.addr.String(), Action: ca.op.id, TargetType: ca.target.kind,
		TargetID: ca.target.id, NamespaceID: ca.target.namespaceID, RequestID: ca.requestID}
	if e.TargetType == "" {
		e.TargetType = ca.op.tag
	}
	return e
}
