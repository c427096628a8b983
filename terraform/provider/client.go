package provider

import (
	"context"
	"errors"
	"fmt"
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
	client  *apiclient.SDK
	timeout time.Duration // of one request
	now     func() time.Time
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
	return &session{client: c, timeout: s.requestTimeout, now: time.Now}, nil
}

func (s *session) me(ctx context.Context) (api.Me, error) {
	return apiclient.OK(s.client.GetMeWithResponse(ctx))
}

// wait is the wait parameter of a write: well under the request timeout.
func (s *session) wait() *string {
	return ptr(fmt.Sprintf("%ds", min(longestWait, s.timeout/2)/time.Second))
}

func asFailure(err error) (*apiclient.Error, bool) {
	var f *apiclient.Error
	return f, errors.As(err, &f)
}

// errGone stands for an object that is there and counts as gone.
var errGone = errors.New("gone")

func isNotFound(err error) bool { return apiclient.NotFound(err) || errors.Is(err, errGone) }
