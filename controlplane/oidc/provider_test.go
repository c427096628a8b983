package oidc

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicemq/sluice/internal/oidctest"
)

// The whole way at a certified provider: discovery, its login form, code with
// PKCE, ID token, user info, with each of the algorithms.
func TestSignIn_atARealProvider(t *testing.T) {
	for name, env := range map[string]string{"address in the ID token": "", "address from userinfo": "OIDCTEST_CONFORM=true"} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.Start(t, env)
			c := New(Config{Loopback: true})
			m, err := c.Discover(t.Context(), p.Issuer)
			if err != nil {
				t.Fatal(err)
			}
			redirect := httptest.NewServer(http.NotFoundHandler())
			defer redirect.Close()
			for _, alg := range Algorithms() {
				client := p.Register(t, map[string]any{"redirect_uris": []string{redirect.URL + "/callback"}, "id_token_signed_response_alg": alg})
				a := NewAttempt()
				at, err := m.AuthorizationURL(a, client.ID, redirect.URL+"/callback", "", false)
				if err != nil {
					t.Fatal(err)
				}
				back := p.NewBrowser(t).SignIn(t, at, "ann@acme.example")
				if back.Query().Get("state") != a.State {
					t.Fatalf("sent back to %s", back)
				}
				ex := Exchange{ClientID: client.ID, Secret: client.Secret, Code: back.Query().Get("code"), Verifier: a.Verifier, Redirect: redirect.URL + "/callback"}
				tokens, err := c.Code(t.Context(), m, ex)
				if err != nil {
					t.Fatal(err)
				}
				cl, err := c.IDToken(t.Context(), p.Issuer, client.ID, a.Nonce, tokens.ID)
				if err != nil {
					t.Fatalf("%s: %v", alg, err)
				}
				if cl, err = c.UserInfo(t.Context(), m, tokens.Access, cl); err != nil || cl.Email != "ann@acme.example" || !cl.EmailVerified || cl.Subject == "" {
					t.Errorf("%s: claims %+v, %v", alg, cl, err)
				}
				if _, err := c.Code(t.Context(), m, ex); err == nil {
					t.Error("a code worked twice")
				}
				// Another verifier than the one that the sign-in began with.
				a = NewAttempt()
				at, _ = m.AuthorizationURL(a, client.ID, redirect.URL+"/callback", "", false)
				ex.Code, ex.Verifier = p.NewBrowser(t).SignIn(t, at, "ann@acme.example").Query().Get("code"), NewAttempt().Verifier
				if _, err := c.Code(t.Context(), m, ex); err == nil {
					t.Error("a code worked with another verifier")
				}
			}
		})
	}
}

func TestWorkloadToken_ofARealProvider(t *testing.T) {
	p := oidctest.Start(t)
	c := New(Config{Loopback: true})
	client := p.Register(t, map[string]any{"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{"client_credentials"}})
	raw := p.WorkloadToken(t, client, "https://sluice.example/workloads")
	cl, err := c.WorkloadToken(t.Context(), p.Issuer, "https://sluice.example/workloads", raw)
	if err != nil || cl.Subject != client.ID {
		t.Errorf("%+v, %v", cl, err)
	}
}
