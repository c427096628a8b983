package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/internal/errs"
)

// statuses is the one place where codes become HTTP statuses.
var statuses = map[errs.Code]int{
	errs.Internal:           http.StatusInternalServerError,
	errs.Invalid:            http.StatusBadRequest,
	errs.Unauthenticated:    http.StatusUnauthorized,
	errs.Forbidden:          http.StatusForbidden,
	errs.NotFound:           http.StatusNotFound,
	errs.Conflict:           http.StatusConflict,
	errs.PreconditionFailed: http.StatusPreconditionFailed,
	errs.Unprocessable:      http.StatusUnprocessableEntity,
	errs.QuotaExceeded:      http.StatusForbidden,
	errs.RateLimited:        http.StatusTooManyRequests,
	errs.Unavailable:        http.StatusServiceUnavailable,
}

// reasonStatuses are reasons with a status of their own.
var reasonStatuses = map[string]int{
	"body_too_large":     http.StatusRequestEntityTooLarge,
	"method_not_allowed": http.StatusMethodNotAllowed,
}

func reasonOf(err error) string {
	var e *errs.Error
	if !errors.As(err, &e) {
		return string(errs.Internal)
	}
	if e.Reason != "" {
		return e.Reason
	}
	return string(e.Code)
}

// statusClientClosed is what is noted when the client went away.
const statusClientClosed = 499

// fail answers with a problem. Errors without a code are for the log; the
// user gets the request id.
func (s *server) fail(c *gin.Context, err error) {
	c.Abort()
	ca, _ := c.MustGet(callKey).(*call)
	if c.Writer.Written() {
		return
	}
	if gone := c.Request.Context().Err() != nil; gone && (errors.Is(err, context.Canceled) || errs.CodeOf(err) == errs.Internal) {
		// What broke off because of that has errors of all kinds.
		s.d.Logger.Info("the client went away", "request_id", ca.requestID, "method", c.Request.Method, "route", c.FullPath(), "err", err)
		c.Status(statusClientClosed)
		return
	}
	if errors.Is(err, context.DeadlineExceeded) && errs.CodeOf(err) == errs.Internal {
		err = errs.E(errs.Unavailable, "the data plane or the database did not answer in time; try again: %w", err)
	}
	if errs.CodeOf(err) == errs.Internal {
		s.d.Logger.Error("request failed", "request_id", ca.requestID, "method", c.Request.Method, "route", c.FullPath(), "err", err)
	}
	p := s.problem(c, ca, err)
	h := c.Writer.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	if p.RetryAfter != nil {
		h.Set("Retry-After", strconv.Itoa(int(*p.RetryAfter)))
	}
	if p.Status == http.StatusUnauthorized {
		h.Add("WWW-Authenticate", `Bearer realm="sluice"`)
		if !fromPage(c.Request) {
			h.Add("WWW-Authenticate", `Basic realm="sluice"`)
		}
	}
	var answer any = p
	if ca.op != nil && ca.op.oauth && p.Status == http.StatusBadRequest { // RFC 6749 has a form of its own
		h.Set("Content-Type", "application/json")
		answer = api.OAuthError{Error: "invalid_request", ErrorDescription: &p.Detail}
	}
	body, merr := json.Marshal(answer)
	if merr != nil {
		s.d.Logger.Error("problem not encoded", "request_id", ca.requestID, "err", merr)
	}
	c.Writer.WriteHeader(int(p.Status))
	_, _ = c.Writer.Write(body) // the client may be gone
}

func (s *server) problem(c *gin.Context, ca *call, err error) api.Problem {
	p := problemOf(s.base(c.Request), err)
	p.RequestId = ca.requestID
	return p
}

// problemOf describes an error; base is the URL of the server that has the
// pages of codes.
func problemOf(base string, err error) api.Problem {
	code := errs.CodeOf(err)
	reason := reasonOf(err)
	p := api.Problem{Type: base + "/errors/" + reason, Title: meaningOf(reason, code).EN.Title, Status: int32(statuses[code]), //nolint:gosec // statuses are small
		Code: reason, Detail: "Something broke on our side. Try again; if it stays, give the request id to support."}
	if status, ok := reasonStatuses[reason]; ok {
		p.Status = int32(status) //nolint:gosec // statuses are small
	}
	var e *errs.Error
	if code == errs.Internal || !errors.As(err, &e) {
		return p
	}
	p.Detail, p.Field = e.Message, some(e.Field)
	if e.Field != "" {
		p.Errors = &[]api.FieldError{{Field: e.Field, Code: reason, Detail: e.Message}}
	}
	var inv *invalid
	if errors.As(err, &inv) {
		p.Errors = &inv.fields
	}
	if q := e.Quota; q != nil {
		p.Quota = &api.ProblemQuota{Name: q.Name, Limit: q.Limit, Used: q.Used, Scope: q.Scope}
	}
	if e.RetryAfter > 0 || code == errs.RateLimited || code == errs.Unavailable {
		p.RetryAfter = some(int32(max(1, seconds(e.RetryAfter)))) //nolint:gosec // bounded by the limits
	}
	return p
}

// unwritten is an answer that could not be written: the client went away, or
// the answer is made while it is written and could not be.
func (s *server) unwritten(c *gin.Context, err error) {
	switch {
	case c.Writer.Written():
	case c.Request.Context().Err() != nil:
		c.Status(statusClientClosed)
	default:
		s.fail(c, err)
	}
}

// base is the URL of this server without a slash at the end.
func (s *server) base(r *http.Request) string {
	if s.d.Config.PublicURL != "" {
		return strings.TrimRight(s.d.Config.PublicURL, "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// fromPage reports whether a script of a page made the request, as the console does. Browsers answer a Basic challenge
// to such a call with a sign-in window of their own and hold the answer back until the user closes it.
func fromPage(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Header.Get("Origin") != "" || (mode != "" && mode != "navigate") || strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
}
