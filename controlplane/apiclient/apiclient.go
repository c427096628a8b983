// Package apiclient is the Go client of the HTTP API: the generated calls, and
// around them what every program needs: credentials, an Idempotency-Key on
// each POST, retries that are safe, errors with a type, and lists over all
// pages. CLI, Terraform provider and tests use it. A Client may be used by
// any number of goroutines.
package apiclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

// Config says where the server is and who calls. Token, or KeyID and
// KeySecret, or none for public routes.
type Config struct {
	Endpoint   string // http://127.0.0.1:8080
	Token      string
	KeyID      string
	KeySecret  string
	MaxRetries int           // 0: 8; negative: none
	Timeout    time.Duration // of one attempt; 0: 90s, which is longer than any wait
	UserAgent  string
	HTTP       *http.Client                                     // nil: one of its own
	Pause      func(ctx context.Context, d time.Duration) error // nil: a timer
}

// SDK is the generated client with what is around it.
type SDK struct {
	*ClientWithResponses
	do *doer
}

// New makes a client; it does not connect.
func New(cfg Config) (*SDK, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("endpoint %q: want http://host:port or https://host", cfg.Endpoint)
	}
	if cfg.Token != "" && cfg.KeyID != "" {
		return nil, errors.New("two credentials at once: give a token, or a key id and secret")
	}
	if (cfg.KeyID == "") != (cfg.KeySecret == "") {
		return nil, errors.New("half a credential: a key needs both id and secret")
	}
	switch {
	case cfg.MaxRetries == 0:
		cfg.MaxRetries = 8
	case cfg.MaxRetries < 0:
		cfg.MaxRetries = 0
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 90 * time.Second
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	d := &doer{cfg: cfg}
	c, err := NewClientWithResponses(strings.TrimRight(cfg.Endpoint, "/"), WithHTTPClient(d))
	if err != nil {
		return nil, err
	}
	return &SDK{ClientWithResponses: c, do: d}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// doer carries requests: it signs, retries and bounds them.
type doer struct{ cfg Config }

// Do implements HttpRequestDoer.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") == "" {
		if d.cfg.Token != "" {
			req.Header.Set("Authorization", "Bearer "+d.cfg.Token)
		} else if d.cfg.KeyID != "" {
			req.SetBasicAuth(d.cfg.KeyID, d.cfg.KeySecret)
		}
	}
	agent := "sluice-go"
	if d.cfg.UserAgent != "" {
		agent += " " + d.cfg.UserAgent
	}
	req.Header.Set("User-Agent", agent)
	authRoute := strings.HasPrefix(req.URL.Path, "/v1/auth/") || strings.Contains(req.URL.Path, "/v1/auth/")
	if req.Method == http.MethodPost && req.Header.Get("Idempotency-Key") == "" && !authRoute {
		req.Header.Set("Idempotency-Key", rand.Text())
	}
	stream := strings.HasSuffix(req.URL.Path, "/tail")
	for attempt := 0; ; attempt++ {
		resp, err := d.once(req, stream)
		wait, again := d.again(req, resp, err, attempt, authRoute)
		if !again {
			return resp, err
		}
		if resp != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
			_ = resp.Body.Close()
		}
		if perr := d.cfg.Pause(req.Context(), wait); perr != nil {
			if err == nil {
				err = perr
			}
			return nil, err
		}
	}
}

// once sends the request; a body is read into memory, so that the attempt's
// time ends with it. A stream is only begun.
func (d *doer) once(req *http.Request, stream bool) (*http.Response, error) {
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if !stream {
		ctx, cancel = context.WithTimeout(ctx, d.cfg.Timeout)
	}
	defer cancel()
	r := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	resp, err := d.cfg.HTTP.Do(r)
	if err != nil || stream {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// again decides whether to try once more, and when. Everything but requests
// under /v1/auth is safe to repeat: reads, PATCH and DELETE by nature, POST
// by its Idempotency-Key.
func (d *doer) again(req *http.Request, resp *http.Response, err error, attempt int, authRoute bool) (time.Duration, bool) {
	if attempt >= d.cfg.MaxRetries || req.Context().Err() != nil || (req.Body != nil && req.Body != http.NoBody && req.GetBody == nil) {
		return 0, false
	}
	wait := min(maxPause, firstPause<<attempt)
	if n, rerr := rand.Int(rand.Reader, big.NewInt(int64(wait)/2+1)); rerr == nil {
		wait = wait/2 + time.Duration(n.Int64())
	}
	if err != nil {
		return wait, !authRoute
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if authRoute {
			return 0, false
		}
	case http.StatusConflict:
		if resp.Header.Get("Retry-After") == "" { // only a request with the same key that still runs has it
			return 0, false
		}
	default:
		return 0, false
	}
	if s, perr := strconv.Atoi(resp.Header.Get("Retry-After")); perr == nil {
		wait = max(wait, time.Duration(s)*time.Second)
	}
	return wait, true
}

// Error is a problem that the server answered with.
type Error struct{ api.Problem }

// Error says what happened, to what, and which request it was.
func (e *Error) Error() string {
	text := e.Detail
	if e.Field != nil && !strings.Contains(text, *e.Field) {
		text = *e.Field + ": " + text
	}
	return fmt.Sprintf("%s (%s, request %s)", text, e.Code, e.RequestId)
}

// Is reports whether err is a problem with this code.
func Is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Status is the HTTP status of a problem; 0 for other errors.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return int(e.Problem.Status)
	}
	return 0
}

// NotFound reports whether err says that the object does not exist.
func NotFound(err error) bool { return Status(err) == http.StatusNotFound }

// answer is what all generated answers have.
type answer interface {
	GetBody() []byte
	Status() string
	StatusCode() int
}

func failure(r answer) error {
	e := &Error{}
	if err := json.Unmarshal(r.GetBody(), &e.Problem); err != nil || e.Code == "" {
		e.Problem = api.Problem{Status: int32(r.StatusCode()), Code: "unexpected_answer", Title: "Unexpected answer", //nolint:gosec // a status
			Detail: "the server answered " + r.Status() + " with something that is no problem of this API"}
	}
	return e
}

// OK is the value of an answer with status 200, or the problem as an *Error:
//
//	topic, err := apiclient.OK(c.GetTopicWithResponse(ctx, ns, name))
func OK[T any](r interface {
	answer
	GetJSON200() *T
}, err error,
) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if v := r.GetJSON200(); v != nil {
		return *v, nil
	}
	return zero, failure(r)
}

// Created is OK for status 201.
func Created[T any](r interface {
	answer
	GetJSON201() *T
}, err error,
) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if v := r.GetJSON201(); v != nil {
		return *v, nil
	}
	return zero, failure(r)
}

// Accepted is OK for status 202.
func Accepted[T any](r interface {
	answer
	GetJSON202() *T
}, err error,
) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if v := r.GetJSON202(); v != nil {
		return *v, nil
	}
	return zero, failure(r)
}

// Done is nil for any status of success.
func Done(r answer, err error) error {
	if err != nil {
		return err
	}
	if r.StatusCode() < 300 {
		return nil
	}
	return failure(r)
}

// All walks over all pages of a list. page reads one of them; a nil token
// asks for the first.
func All[T any](page func(token *string) (items []T, next *string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var token *string
		for {
			items, next, err := page(token)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			token = next
		}
	}
}

// Bearer signs one request with a token, in place of the client's credential.
func Bearer(token string) RequestEditorFn {
	return func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// Basic signs one request with an API key.
func Basic(id, secret string) RequestEditorFn {
	return func(_ context.Context, req *http.Request) error {
		req.SetBasicAuth(id, secret)
		return nil
	}
}
