package testcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// API is a bare caller of the HTTP API, for tests and programs of the
// repository that want to see what is on the wire. Applications use
// controlplane/apiclient.
type API struct {
	Base  string // "http://127.0.0.1:8080"
	Token string // access token; empty: none
}

// Status is an answer that is not 2xx.
type Status struct {
	Code    int
	Problem struct {
		Code      string `json:"code"`
		Detail    string `json:"detail"`
		Field     string `json:"field"`
		RequestID string `json:"request_id"`
	}
	Body string
}

// Error says what the server said.
func (s *Status) Error() string { return fmt.Sprintf("status %d: %.500s", s.Code, s.Body) }

// Do sends in as JSON (nil: no body) and decodes the answer into out (nil: not
// wanted). Every call carries an Idempotency-Key of its own.
func (a *API) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.Base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		key := make([]byte, 16)
		rand.Read(key)
		req.Header.Set("Idempotency-Key", hex.EncodeToString(key))
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		s := &Status{Code: resp.StatusCode, Body: string(raw)}
		_ = json.Unmarshal(raw, &s.Problem) // a body that is no problem is shown as it is
		return fmt.Errorf("%s %s: %w", method, path, s)
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s %s: decode %.200s: %w", method, path, raw, err)
	}
	return nil
}
