package testcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Account is a tenant as it is right after sign-up.
type Account struct {
	API
	Email       string
	Password    string
	TenantID    string
	NamespaceID string
	KeyID       string
	Secret      string
}

var codePattern = regexp.MustCompile(`(?m)^Subject: .*\b(\d{6})$`)

// Password is what every Account signs in with.
const Password = "correct horse battery staple"

// SignUp makes a tenant as a person does: sign up, read the mail, enter the
// code. mails is the folder that the server writes mails to.
func SignUp(ctx context.Context, base, mails, email, tenantName string) (*Account, error) {
	a := &Account{API: API{Base: base}, Email: email, Password: Password}
	in := map[string]any{"email": email, "password": a.Password, "tenant_name": tenantName, "locale": "en"}
	if err := a.Do(ctx, "POST", "/v1/auth/sign-up", in, nil); err != nil {
		return nil, err
	}
	code, err := mailCode(ctx, mails, email)
	if err != nil {
		return nil, err
	}
	var out struct {
		AccessToken string `json:"access_token"`
		TenantID    string `json:"tenant_id"`
		NamespaceID string `json:"namespace_id"`
		APIKey      struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		} `json:"api_key"`
	}
	if err := a.Do(ctx, "POST", "/v1/auth/verify", map[string]any{"email": email, "code": code}, &out); err != nil {
		return nil, err
	}
	a.Token, a.TenantID, a.NamespaceID, a.KeyID, a.Secret = out.AccessToken, out.TenantID, out.NamespaceID, out.APIKey.ID, out.APIKey.Secret
	return a, nil
}

// mailCode waits for a mail to the address and returns the code in the newest.
func mailCode(ctx context.Context, mails, email string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		paths, err := filepath.Glob(filepath.Join(mails, "*.eml"))
		if err != nil {
			return "", err
		}
		for i := len(paths) - 1; i >= 0; i-- {
			raw, err := os.ReadFile(paths[i])
			if err != nil {
				return "", err
			}
			text := strings.ReplaceAll(string(raw), "\r\n", "\n")
			if m := codePattern.FindStringSubmatch(text); m != nil && strings.Contains(text, "To: "+email+"\n") {
				return m[1], nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no mail to %s in %s: %w", email, mails, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// CreateTopic makes a topic and waits until brokers serve it.
func (a *Account) CreateTopic(ctx context.Context, name string) error {
	return a.CreateTopicOf(ctx, name, "NORMAL")
}

// CreateTopicOf is CreateTopic for another type of messages.
func (a *Account) CreateTopicOf(ctx context.Context, name, kind string) error {
	return a.create(ctx, "topics", map[string]any{"name": name, "type": kind})
}

// CreateGroup makes a consumer group and waits until brokers serve it.
func (a *Account) CreateGroup(ctx context.Context, name string) error {
	return a.create(ctx, "groups", map[string]any{"name": name})
}

var errNotReady = errors.New("not ready in time")

func (a *Account) create(ctx context.Context, kind string, in map[string]any) error {
	var out struct {
		Status struct {
			Phase  string `json:"phase"`
			Reason string `json:"reason"`
		} `json:"status"`
	}
	if err := a.Do(ctx, "POST", "/v1/namespaces/"+a.NamespaceID+"/"+kind+"?wait=10s", in, &out); err != nil {
		return err
	}
	if out.Status.Phase != "ready" {
		return fmt.Errorf("%s %v is %s %s: %w", kind, in["name"], out.Status.Phase, out.Status.Reason, errNotReady)
	}
	return nil
}

// Totals are the counters of the tenant's usage in the running month.
type Totals struct {
	MessagesIn  int64 `json:"messages_in,string"`
	MessagesOut int64 `json:"messages_out,string"`
	BytesIn     int64 `json:"bytes_in,string"`
	APICalls    int64 `json:"api_calls,string"`
}

// Usage returns the month's totals; filter is appended to the query.
func (a *Account) Usage(ctx context.Context, filter string) (Totals, error) {
	var out struct {
		Totals Totals `json:"totals"`
	}
	err := a.Do(ctx, "GET", "/v1/usage?grain=month"+filter, nil, &out)
	return out.Totals, err
}

// Eventually asks until ok, at most for d.
func Eventually(ctx context.Context, d time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		ok, err := ask()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
