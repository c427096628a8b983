package cases

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// token exchanges an API key for a JWT (OAuth 2 client credentials).
func token(t *testing.T, a *testcluster.Account, audience string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {a.KeyID}, "client_secret": {a.Secret}, "audience": {audience}}
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
	return out.AccessToken
}

// A JWT in place of a key works over both protocols, with any secret: as the
// security token of the access key "jwt", or, for clients that send no security
// token, as the access key itself.
func TestToken_inPlaceOfAKey(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("token@example.com")
	sendRemoting := func(jwt string) error {
		p, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{c.NameSrv}), producer.WithGroupName("cases"), producer.WithRetry(0),
			producer.WithInstanceName(instance()), producer.WithCredentials(primitive.Credentials{AccessKey: "jwt", SecretKey: "any", SecurityToken: jwt}))
		must(t, err)
		must(t, p.Start())
		defer func() { _ = p.Shutdown() }()
		_, err = p.SendSync(context.Background(), primitive.NewMessage("hello", []byte("by token")))
		return err
	}
	sendGRPC := func(jwt string) error {
		p, err := rmq.NewProducer(&rmq.Config{Endpoint: c.GRPC, Credentials: &credentials.SessionCredentials{AccessKey: jwt, AccessSecret: "any"}}, rmq.WithTopics("hello"))
		must(t, err)
		if err := p.Start(); err != nil {
			return err
		}
		defer func() { _ = p.GracefulStop() }()
		_, err = p.Send(context.Background(), &rmq.Message{Topic: "hello", Body: []byte("by token")})
		return err
	}
	good := token(t, a, "data")
	if good == "" {
		t.Fatal("no token")
	}
	for name, send := range map[string]func(string) error{"remoting": sendRemoting, "grpc": sendGRPC} {
		if err := send(good); err != nil {
			t.Errorf("%s with a token: %v", name, err)
		}
		if err := send(good[:len(good)-4] + "AAAA"); err == nil {
			t.Errorf("%s with a forged token passed", name)
		}
	}
}

// claims are what tests read in a token.
type claims struct {
	SigningKey string `json:"kid"` // in the header
	Issuer     string `json:"iss"`
}

func claimsOf(t *testing.T, jwt string) (c claims) {
	t.Helper()
	parts := strings.Split(jwt, ".")
	for _, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		must(t, err)
		must(t, json.Unmarshal(raw, &c))
	}
	return c
}

func revokeToken(t *testing.T, a *testcluster.Account, jwt string) error {
	t.Helper()
	resp, err := http.PostForm(a.Base+"/v1/auth/revoke", url.Values{"token": {jwt}})
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("revocation answers %s", resp.Status)
	}
	return nil
}
