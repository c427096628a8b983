package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/internal/sqldb"
)

func TestLimits_networks(t *testing.T) {
	for addr, want := range map[string][2]string{
		"192.0.2.77": {"192.0.2.77/32", "192.0.2.0/24"}, "2001:db8:1:2:3:4:5:6": {"2001:db8:1:2::/64", "2001:db8:1::/48"},
	} {
		a := netip.MustParseAddr(addr)
		if got := [2]string{source(a), network(a)}; got != want {
			t.Errorf("%s: got %v, want %v", addr, got, want)
		}
	}
	if got := network(netip.Addr{}); got != "unknown" {
		t.Errorf("no address: %q", got)
	}
}

// from sends a request from an address.
func (s *system) from(addr, path, body string) int {
	req := httptest.NewRequestWithContext(s.t.Context(), "POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(addr), 4711).String()
	rec := httptest.NewRecorder()
	s.server.Config.Handler.ServeHTTP(rec, req)
	return rec.Code
}

// TestLimits_perAccountAddressAndNetwork: each limit bites by itself, says
// which it is, and leaves everybody else alone (complaint 24).
func TestLimits_perAccountAddressAndNetwork(t *testing.T) {
	little := func(n int) cache.Rate { return cache.Rate{PerSecond: 0.0001, Burst: n} }
	signIn := func(email string) string { return `{"email":"` + email + `","password":"wrong"}` }
	for name, c := range map[string]struct {
		limit         func(*Limits)
		path          string
		body          func(i int) string
		addr          func(i int) string
		free          string // an address that is not limited
		allowed, code int
	}{
		"account from one network": {func(l *Limits) { l.SignIn = little(3) }, "/v1/auth/sign-in", func(int) string { return signIn("a@x.io") }, func(int) string { return "192.0.2.1" }, "198.51.100.1", 3, 401},
		"account from everywhere":  {func(l *Limits) { l.SignInAccount = little(3) }, "/v1/auth/sign-in", func(int) string { return signIn("a@x.io") }, func(i int) string { return "192.0." + string(rune('0'+i)) + ".1" }, "", 3, 401},
		"account in other spellings": {func(l *Limits) { l.SignInAccount = little(3) }, "/v1/auth/sign-in", func(i int) string {
			return signIn([]string{"a@x.io", "A@x.io", "\u00a0a@x.io", "\u3000a@X.io", "a@x.io\u2028"}[i])
		}, func(i int) string { return "192.0." + string(rune('0'+i)) + ".1" }, "", 3, 401},
		"address":             {func(l *Limits) { l.AuthAddress = little(3) }, "/v1/auth/sign-in", func(i int) string { return signIn(string(rune('a'+i)) + "@x.io") }, func(int) string { return "192.0.2.1" }, "192.0.2.2", 3, 401},
		"IPv6 /64":            {func(l *Limits) { l.AuthAddress = little(3) }, "/v1/auth/sign-in", func(i int) string { return signIn(string(rune('a'+i)) + "@x.io") }, func(i int) string { return "2001:db8::" + string(rune('1'+i)) }, "2001:db8:0:1::1", 3, 401},
		"network":             {func(l *Limits) { l.AuthNetwork = little(3) }, "/v1/auth/verify", func(i int) string { return `{"email":"` + string(rune('a'+i)) + `@x.io","code":"000000"}` }, func(i int) string { return "192.0.2." + string(rune('1'+i)) }, "192.0.3.1", 3, 401},
		"leaks of an address": {func(l *Limits) { l.AuthAddress = little(3) }, "/v1/api-keys/actions/report-leak", func(i int) string { return `{"text":"nothing is in here"}` }, func(int) string { return "192.0.2.1" }, "192.0.2.2", 3, 202},
		"leaks of a network":  {func(l *Limits) { l.AuthNetwork = little(3) }, "/v1/api-keys/actions/report-leak", func(i int) string { return `{"text":"nothing is in here"}` }, func(i int) string { return "192.0.2." + string(rune('1'+i)) }, "192.0.3.1", 3, 202},
		"single sign-on":      {func(l *Limits) { l.AuthAddress = little(3) }, "/v1/auth/sso/start", func(i int) string { return `{"email":"` + string(rune('a'+i)) + `@x.io"}` }, func(int) string { return "192.0.2.1" }, "192.0.2.2", 3, 404},
		"mails of an address": {func(l *Limits) { l.MailAddress = little(3) }, "/v1/auth/password-reset", func(i int) string { return `{"email":"` + string(rune('a'+i)) + `@x.io"}` }, func(int) string { return "192.0.2.1" }, "192.0.2.2", 3, 202},
		"mails of a network":  {func(l *Limits) { l.MailNetwork = little(3) }, "/v1/auth/password-reset", func(i int) string { return `{"email":"` + string(rune('a'+i)) + `@x.io"}` }, func(i int) string { return "192.0.2." + string(rune('1'+i)) }, "192.0.3.1", 3, 202},
		"all mails":           {func(l *Limits) { l.MailTotal = little(3) }, "/v1/auth/password-reset", func(i int) string { return `{"email":"` + string(rune('a'+i)) + `@x.io"}` }, func(i int) string { return "192.0." + string(rune('1'+i)) + ".1" }, "", 3, 202},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, sqldb.SQLite, func(d *Deps) { c.limit(&d.Config.Limits) })
			for i := range c.allowed + 2 {
				want := c.code
				if i >= c.allowed {
					want = http.StatusTooManyRequests
				}
				if got := s.from(c.addr(i), c.path, c.body(i)); got != want {
					t.Errorf("try %d: %d, want %d", i, got, want)
				}
			}
			if c.free != "" {
				if got := s.from(c.free, c.path, c.body(0)); got != c.code {
					t.Errorf("from %s: %d, want %d", c.free, got, c.code)
				}
			}
		})
	}
}

// What is limited is limited for known and unknown addresses alike, and a
// signed-in person is not held up by strangers of the same network.
func TestLimits_strangersDoNotHoldUpWhoIsSignedIn(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, func(d *Deps) { d.Config.Limits.AuthNetwork = cache.Rate{PerSecond: 0.0001, Burst: 2} })
	p := s.signUp("ada@example.com") // takes both
	if got := s.from("127.0.0.1", "/v1/auth/sign-in", `{"email":"ada@example.com","password":"`+password+`"}`); got != http.StatusTooManyRequests {
		t.Errorf("sign-in: %d", got)
	}
	r, err := p.sdk.GetMeWithResponse(t.Context())
	check(t, err)
	if r.StatusCode() != http.StatusOK {
		t.Errorf("signed in: %d", r.StatusCode())
	}
}
