package cases

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// auditEvent is an event as the API shows it, with what these tests look at.
type auditEvent struct {
	ActorType   string `json:"actor_type"`
	ActorID     string `json:"actor_id"`
	KeyID       string `json:"api_key_id"`
	SourceIP    string `json:"source_ip"`
	Action      string `json:"action"`
	TargetType  string `json:"target_type"`
	TargetID    string `json:"target_id"`
	NamespaceID string `json:"namespace_id"`
	Decision    string `json:"decision"`
	Reason      string `json:"reason"`
	Count       int64  `json:"count"`
}

// trail lists a tenant's whole audit log, newest first; its chain is intact.
func trail(t *testing.T, a *testcluster.Account) []auditEvent {
	t.Helper()
	var page struct {
		Items []auditEvent `json:"items"`
	}
	var check struct {
		Intact bool `json:"intact"`
	}
	must(t, a.Do(t.Context(), "GET", "/v1/audit-events?page_size=100", nil, &page))
	must(t, a.Do(t.Context(), "POST", "/v1/audit-events/actions/verify", map[string]any{}, &check))
	if !check.Intact {
		t.Error("the chain is broken")
	}
	return page.Items
}

// What brokers and name servers refuse to a key is in its tenant's audit log,
// over both protocols, by the official client and by hand; what they refuse to
// nobody's key is in no log, and no tenant reads of another.
func TestDenials_areInTheTenantsLog(t *testing.T) {
	for _, driver := range dbtest.Drivers() {
		t.Run(string(driver), func(t *testing.T) {
			dsn := ""
			if driver == sqldb.MySQL {
				dsn = dbtest.DSN(t, driver)
			}
			c := testcluster.Start(t, testcluster.With(func(cfg *standalone.Config) {
				if dsn != "" {
					cfg.DB = dsn
				}
			}))
			a, b := c.SignUp("denied@example.com"), c.SignUp("neighbour@example.com")
			narrow := narrowKey(t, c, a, "SUB", "hello", "hello-group")
			must(t, a.Do(t.Context(), "POST", "/v1/namespaces/"+a.NamespaceID+"/acls?wait=10s", map[string]any{
				"effect": "deny", "principal": narrow.id, "resource": "group", "pattern": "hello-group", "operations": []string{"SUB"}}, nil))
			revoked := narrowKey(t, c, a, "PUB", "hello", "*")
			must(t, a.Do(t.Context(), "POST", "/v1/api-keys/"+revoked.id+"/actions/revoke?wait=10s", nil, nil))

			routes, broker, grpc := dialLine(t, c.NameSrv), dialLine(t, c.Broker), dialRPC(t, c.GRPC)
			wrong, good := signer{id: a.KeyID, secret: "sls_wrong"}, signer{id: narrow.id, secret: narrow.secret}
			refused := func(what string, err error) {
				t.Helper()
				if err == nil {
					t.Errorf("%s: let in", what)
				}
			}
			for range 3 {
				refused("wrong secret at the broker", broker.produce(wrong, "hello", "x"))
			}
			refused("wrong secret at the name server", routes.route(wrong, "hello"))
			refused("wrong secret over gRPC", grpc.produce(wrong.signed(t.Context(), "c1"), "hello", "m1", "x"))
			refused("unknown key", broker.produce(signer{id: "slk_nobodyhasthis0000000", secret: "x"}, "hello", "x"))
			refused("no permission", broker.produce(good, "hello", "x"))
			refused("no permission over gRPC", grpc.produce(good.signed(t.Context(), "c2"), "hello", "m2", "x"))
			must(t, broker.park(good, "hello", "hello-group", time.Second))
			if f, err := broker.read(10 * time.Second); err != nil || f.Code != wire.NoPermission {
				t.Errorf("a rule that denies: %+v, %v", f, err)
			}
			refused("another tenant's namespace", broker.call(good, wire.GetMaxOffset, map[string]string{"topic": "hello", "queueId": "0", "ns": b.NamespaceID}, nil))
			refused("an operators' request", broker.call(good, wire.DeleteTopicInBroker, map[string]string{"topic": "hello"}, nil))
			refused("a revoked key, by the official client", remotingSend(t, revoked, "hello")([]byte("x"), ""))

			type want struct {
				key, action, kind, target, reason string
				namespace                         string
				count                             int64
			}
			wants := []want{
				{a.KeyID, "connect", "api_key", a.KeyID, "unauthenticated", "", 5},
				{narrow.id, "publish", "topic", "hello", "permission_denied", a.NamespaceID, 2},
				{narrow.id, "subscribe", "group", "hello-group", "permission_denied", a.NamespaceID, 1},
				{narrow.id, "connect", "namespace", b.NamespaceID, "namespace_mismatch", "", 1},
				{narrow.id, "manage", "request", fmt.Sprint(wire.DeleteTopicInBroker), "permission_denied", "", 1},
				{revoked.id, "connect", "api_key", revoked.id, "key_revoked", "", 0}, // the client tries as often as it likes
			}
			var left []want
			err := testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
				got := map[want]int64{}
				for _, e := range trail(t, a) {
					if e.Count > 0 && e.Decision == "denied" && e.SourceIP == "127.0.0.1" && e.ActorType == "user" {
						got[want{e.KeyID, e.Action, e.TargetType, e.TargetID, e.Reason, e.NamespaceID, 0}] += e.Count
					}
				}
				left = nil
				for _, w := range wants {
					n := w.count
					w.count = 0
					if got[w] == 0 || n > 0 && got[w] != n {
						w.count = got[w]
						left = append(left, w)
					}
				}
				return len(left) == 0, nil
			})
			if err != nil {
				t.Errorf("%v; not told, or not as often: %+v\nthe log: %+v", err, left, trail(t, a))
			}
			for _, e := range trail(t, b) {
				if e.Count > 0 {
					t.Errorf("the neighbour reads %+v", e)
				}
			}
		})
	}
}

// What the API refuses to a key or a person, and who signs in, is in the log a few
// seconds later, and at once when the process ends.
func TestDenials_ofTheAPI(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("people@example.com")
	seen := func(action, decision, reason string) func() (bool, error) {
		return func() (bool, error) {
			for _, e := range trail(t, a) {
				if e.Action == action && e.Decision == decision && e.Reason == reason && e.SourceIP == "127.0.0.1" {
					return true, nil
				}
			}
			return false, nil
		}
	}
	signIn := func(password string) error {
		return a.Do(t.Context(), "POST", "/v1/auth/sign-in", map[string]any{"email": a.Email, "password": password}, nil)
	}
	if signIn("not the password") == nil {
		t.Error("let in")
	}
	must(t, signIn(a.Password))
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, seen("signIn", "denied", "credentials_invalid")))
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, seen("signIn", "allowed", "")))
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, seen("verifySignUp", "allowed", "")))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+"/v1/tenant", nil)
	must(t, err)
	req.SetBasicAuth(a.KeyID, "sls_wrong")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong secret: %s", resp.Status)
	}
	c.Restart()
	if ok, err := seen("getTenant", "denied", "key_invalid")(); !ok || err != nil {
		t.Errorf("not in the log after the end of the process: %v", err)
	}
}
