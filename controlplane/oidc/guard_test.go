package oidc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range n[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func TestPublic(t *testing.T) {
	for a, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.100.100.200": false, "192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.1.1.1": false,
		"fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:8.8.8.8": true, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "::127.0.0.1": false,
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": false,
	} {
		if got := public(netip.MustParseAddr(a)); got != want {
			t.Errorf("public(%s) = %v, want %v", a, got, want)
		}
	}
}

// OWASP API7: what a tenant names as its provider cannot reach our own network.
func TestDiscover_OWASP_API7_neverCallsInnerAddresses(t *testing.T) {
	var hits atomic.Int32
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inner.Close()
	u, _ := url.Parse(inner.URL)
	r := names{
		"idp.example": {"127.0.0.1"}, "mixed.example": {"8.8.8.8", "127.0.0.1"}, "meta.example": {"169.254.169.254"}, "v6.example": {"::ffff:127.0.0.1"},
		"ula.example": {"fd00::1"}, "nat64.example": {"64:ff9b::7f00:1"}, "none.example": nil,
	}
	for _, issuer := range []string{
		"https://127.0.0.1:" + u.Port(), "https://[::1]:" + u.Port(), "https://[::ffff:127.0.0.1]:" + u.Port(), "https://localhost:" + u.Port(),
		"https://169.254.169.254/latest", "https://10.0.0.1", "https://idp.example:" + u.Port(), "https://mixed.example:" + u.Port(), "https://meta.example",
		"https://v6.example:" + u.Port(), "https://ula.example", "https://nat64.example", "https://none.example", "https://0.0.0.0:" + u.Port(),
		// Other spellings of 127.0.0.1 are names to us, and resolve to nothing.
		"https://2130706433:" + u.Port(), "https://0x7f.1:" + u.Port(), "https://127.1:" + u.Port(),
	} {
		c := New(Config{Resolver: r})
		_, err := c.Discover(t.Context(), issuer)
		if err == nil || !strings.Contains(err.Error(), "may not be called") {
			t.Errorf("%s: got %v", issuer, err)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), issuer, ""), "169.254") && !strings.Contains(issuer, "169.254") {
			t.Errorf("%s: the error tells the address: %v", issuer, err)
		}
	}
	for _, issuer := range []string{"http://example.com", "http://127.0.0.1:" + u.Port(), "file:///etc/passwd", "gopher://example.com", "https://user@example.com", "https:example.com"} {
		if _, err := New(Config{Resolver: r}).Discover(t.Context(), issuer); err == nil {
			t.Errorf("%s: called", issuer)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the inner server was called %d times", n)
	}
}

// flips answers with a good address first and an inner one ever after.
type flips struct {
	asked atomic.Int32
}

func (f *flips) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if f.asked.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
}

// A name whose answer changes between check and call (DNS rebinding) leads to
// the address that was checked: there is one look-up for a call.
func TestDial_OWASP_API7_pinsTheCheckedAddress(t *testing.T) {
	var host atomic.Value
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		http.NotFound(w, r)
	}))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	f := &flips{}
	tr, _ := s.Client().Transport.(*http.Transport)
	c := New(Config{Resolver: f, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, HTTP: tr})
	_, err := c.Discover(t.Context(), "https://example.com:"+u.Port()) // the name of httptest's certificate
	if err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Fatalf("got %v", err)
	}
	if f.asked.Load() != 1 || host.Load() != "example.com:"+u.Port() {
		t.Errorf("%d look-ups, Host %v", f.asked.Load(), host.Load())
	}
}

func TestCheckURL(t *testing.T) {
	c := New(Config{})
	for text, ok := range map[string]bool{
		"https://idp.example": true, "https://idp.example/realms/a": true, "https://idp.example:8443/": true,
		"http://idp.example": false, "http://localhost": false, "https://": false, "https://a@idp.example": false, "https://idp.example/#x": false,
		"idp.example": false, "": false, "https://idp.example/" + strings.Repeat("x", maxURL): false, "https://a b": false,
	} {
		if err := c.CheckURL("issuer", text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
