package cases

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"github.com/sluicemq/sluice/internal/oidctest"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// A program that holds no secret of ours sends with a token that it got for one
// of its own issuer, over both protocols and through the official SDKs; once the
// workload identity is gone, both are refused, the producer that is connected too.
func TestWorkload_sendsUntilTheIdentityIsDeleted(t *testing.T) {
	op := oidctest.Start(t)
	client := op.Register(t, map[string]any{"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{"client_credentials"}})
	c, err := testcluster.StartProcess(t.Context(), testcluster.Binary(t), filepath.Join(t.TempDir(), "data"), "SLUICE_SSO_NETWORKS=loopback")
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	a, err := testcluster.SignUp(t.Context(), c.URL(), c.Mails(), "work@example.com", "Work")
	must(t, err)
	var account, id struct{ ID string }
	must(t, a.Do(t.Context(), "POST", "/v1/service-accounts", map[string]any{"name": "ci"}, &account))
	must(t, a.Do(t.Context(), "POST", "/v1/workload-identities", map[string]any{
		"name": "deploy", "issuer": op.Issuer, "audience": "https://sluice.example.com", "subject": client.ID, "service_account_id": account.ID,
		"scopes": []any{map[string]any{"namespace_id": a.NamespaceID, "permissions": []string{"PUB", "DESCRIBE"}}},
	}, &id))

	exchange := func() string {
		form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {id.ID}, "audience": {"data"},
			"subject_token": {op.WorkloadToken(t, client, "https://sluice.example.com")}, "subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Base+"/v1/auth/token", strings.NewReader(form.Encode()))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		var out struct {
			AccessToken string `json:"access_token"`
		}
		must(t, json.NewDecoder(resp.Body).Decode(&out))
		if out.AccessToken == "" {
			t.Fatalf("no token: status %d", resp.StatusCode)
		}
		return out.AccessToken
	}
	jwt := exchange()
	remoting, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{c.NameSrv}), producer.WithGroupName("cases"), producer.WithRetry(0),
		producer.WithInstanceName(instance()), producer.WithCredentials(primitive.Credentials{AccessKey: "jwt", SecretKey: "any", SecurityToken: jwt}))
	must(t, err)
	must(t, remoting.Start())
	t.Cleanup(func() { _ = remoting.Shutdown() })
	grpc, err := rmq.NewProducer(&rmq.Config{Endpoint: c.GRPC, Credentials: &credentials.SessionCredentials{AccessKey: jwt, AccessSecret: "any"}}, rmq.WithTopics("hello"))
	must(t, err)
	// The key of a new identity reaches brokers within a second or so.
	must(t, testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) { return grpc.Start() == nil, nil }))
	t.Cleanup(func() { _ = grpc.GracefulStop() })
	sends := map[string]func() error{
		"remoting": func() error {
			_, err := remoting.SendSync(context.Background(), primitive.NewMessage("hello", []byte("by a workload")))
			return err
		},
		"grpc": func() error {
			_, err := grpc.Send(context.Background(), &rmq.Message{Topic: "hello", Body: []byte("by a workload")})
			return err
		},
	}
	for name, send := range sends {
		if err := send(); err != nil {
			t.Errorf("%s with the token: %v", name, err)
		}
	}
	must(t, a.Do(t.Context(), "DELETE", "/v1/workload-identities/"+id.ID, nil, nil))
	for name, send := range sends {
		if err := testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) { return send() != nil, nil }); err != nil {
			t.Errorf("%s goes on after the identity is gone: %v", name, err)
		}
	}
}
