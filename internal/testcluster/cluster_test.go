package testcluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/internal/standalone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCluster_firstMessageAndCleanEnd(t *testing.T) {
	c := Start(t)
	a := c.SignUp("you@example.com")
	ctx := context.Background()
	var sent struct {
		MessageID string `json:"message_id"`
	}
	if err := a.Do(ctx, "POST", "/v1/namespaces/"+a.NamespaceID+"/topics/hello/messages", map[string]any{"body": "hello"}, &sent); err != nil {
		t.Fatal(err)
	}
	var found struct {
		Items []struct {
			Body string `json:"body"`
		} `json:"items"`
	}
	path := "/v1/namespaces/" + a.NamespaceID + "/topics/hello/messages?message_id=" + sent.MessageID
	if err := Eventually(ctx, 5*time.Second, func() (bool, error) {
		err := a.Do(ctx, "GET", path, nil, &found)
		return err == nil && len(found.Items) == 1, err
	}); err != nil || found.Items[0].Body != "hello" {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := Eventually(ctx, 10*time.Second, func() (bool, error) {
		u, err := a.Usage(ctx, "")
		return u.MessagesIn == 1, err
	}); err != nil {
		t.Errorf("the message is not in the usage: %v", err)
	}
	var s *Status
	if err := a.Do(ctx, "POST", "/v1/auth/refresh", map[string]any{}, nil); !errors.As(err, &s) || s.Code != 401 {
		t.Errorf("refresh without a cookie: %v", err)
	}
}

func TestCluster_secondProcessOnOneFolder(t *testing.T) {
	c := Start(t)
	cfg := standalone.Default()
	cfg.Data, cfg.HTTP, cfg.Admin, cfg.NameSrv, cfg.Broker, cfg.GRPC = c.Data, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	_, err := standalone.New(t.Context(), standalone.RoleAll, cfg, standalone.Deps{Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), c.Data) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second process: %v", err)
	}
}
