package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// settings is what a session is made of.
type settings struct {
	endpoint         string
	token            string
	keyID, keySecret string
	maxRetries       int
	requestTimeout   time.Duration
	userAgent        string
}

// session is the connection to the API that all resources share. Credentials,
// retries and idempotency keys are the client's business.
type session struct {
	client *apiclient.SDK
	now    func() time.Time
}

func connect(s settings) (*session, error) {
	retries := s.maxRetries
	if retries == 0 {
		retries = -1 // to the client, zero means its default
	}
	c, err := apiclient.New(apiclient.Config{Endpoint: s.endpoint, Token: s.token, KeyID: s.keyID, KeySecret: s.keySecret,
		MaxRetries: retries, Timeout: s.requestTimeout, UserAgent: s.userAgent})
	if err != nil {
		return nil, err
	}
	return &session{client: c, now: time.Now}, nil
}

func (s *session) me(ctx context.Context) (api.Me, error) {
	return decode[api.Me](s.client.GetMe(ctx))
}

func asFailure(err error) (*apiclient.Error, bool) {
	var f *apiclient.Error
	return f, errors.As(err, &f)
}

func isNotFound(err error) bool { return apiclient.NotFound(err) }

// decode reads the answer of a call: its value, or an *apiclient.Error. What
// is no JSON of the contract, such as the page of a proxy, is an error too.
func decode[T any](resp *http.Response, err error) (T, error) {
	var out T
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, fmt.Errorf("read the answer: %w", err)
	}
	id := resp.Header.Get("X-Request-Id")
	if resp.StatusCode >= http.StatusMultipleChoices {
		f := &apiclient.Error{}
		if json.Unmarshal(body, &f.Problem) != nil || f.Code == "" {
			f.Problem = api.Problem{Status: int32(resp.StatusCode), Code: "unexpected_answer", RequestId: id,
				Detail: fmt.Sprintf("%s %s was answered with %s and no problem description.", resp.Request.Method, resp.Request.URL.Path, resp.Status)}
		}
		return out, f
	}
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("%s %s was answered with %s, but not with the JSON of the contract (request id %q): %w",
			resp.Request.Method, resp.Request.URL.Path, resp.Status, id, err)
	}
	return out, nil
}
