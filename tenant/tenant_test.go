package tenant

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

func TestIDs_haveTheirForms(t *testing.T) {
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	for text, form := range map[string]string{
		NewID(PrefixTopic, now): `^top_[0-9A-HJKMNP-TV-Z]{26}$`,
		NewNamespaceID():        `^[a-z][a-z0-9]{7,15}$`,
		NewKeyID():              `^slk_[A-Za-z0-9]{20}$`,
		NewSecret():             `^sls_[A-Za-z0-9]{46}$`,
	} {
		if !regexp.MustCompile(form).MatchString(text) {
			t.Errorf("%q does not match %s", text, form)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		id := NewNamespaceID()
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
	}
}

func TestSecret_checksumFindsChanges(t *testing.T) {
	for range 100 {
		s := NewSecret()
		if !ValidSecret(s) {
			t.Fatalf("%q is refused", s)
		}
		for i := len(PrefixSecret); i < len(s); i += 7 {
			c := byte('a')
			if s[i] == c {
				c = 'b'
			}
			if changed := s[:i] + string(c) + s[i+1:]; ValidSecret(changed) {
				t.Errorf("%q passes", changed)
			}
		}
	}
}

func FuzzValidSecret(f *testing.F) {
	f.Add(NewSecret())
	f.Add("sls_")
	f.Fuzz(func(t *testing.T, s string) {
		if ValidSecret(s) && !strings.HasPrefix(s, PrefixSecret) {
			t.Errorf("%q passes", s)
		}
	})
}

func TestMasterKey_madeOnceAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	var wg sync.WaitGroup
	keys := make(chan []byte, 8)
	for range 8 {
		wg.Go(func() {
			key, err := OpenMasterKey(path)
			if err != nil {
				t.Error(err)
			}
			keys <- key
		})
	}
	wg.Wait()
	close(keys)
	first := <-keys
	for key := range keys {
		if !bytes.Equal(key, first) {
			t.Error("two processes made two keys")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for name, text := range map[string]string{
		"empty": "", "magic": "sluice-master-key-2 " + strings.Repeat("A", 44), "short": "sluice-master-key-1 QUJD", "zeros": strings.Repeat("\x00", 64),
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMasterKey(bad); !errors.Is(err, ErrMasterKey) {
			t.Errorf("%s: got %v, want ErrMasterKey", name, err)
		}
	}
}

func TestKeyring_sealsForOnePurpose(t *testing.T) {
	k, err := NewKeyring(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	dataKey := k.NewDataKey("ten_a")
	box, err := k.Box("ten_a", dataKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Box("ten_b", dataKey); err == nil {
		t.Error("a data key opens for another tenant")
	}
	sealed := box.Seal("slk_a", "secret")
	if got, err := box.Open("slk_a", sealed); err != nil || got != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := box.Open("slk_b", sealed); err == nil {
		t.Error("a secret opens for another key")
	}
	other, err := NewKeyring(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Box("ten_a", dataKey); err == nil {
		t.Error("another master key opens the data key")
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if _, err := box.Open("slk_a", broken); err == nil {
			t.Errorf("byte %d changed: it opens", i)
		}
	}
	if _, err := box.Open("slk_a", nil); err == nil {
		t.Error("nothing opens")
	}
	if bytes.Equal(k.Derive("a"), k.Derive("b")) || !bytes.Equal(k.Derive("a"), k.Derive("a")) {
		t.Error("derived keys")
	}
}

func TestAPIKey_state(t *testing.T) {
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	past, future := now.Add(-time.Second), now.Add(time.Second)
	for name, c := range map[string]struct {
		key  APIKey
		want KeyState
	}{
		"plain":               {APIKey{}, KeyActive},
		"not yet over":        {APIKey{ExpiresAt: &future}, KeyActive},
		"over":                {APIKey{ExpiresAt: &past}, KeyExpired},
		"at the end":          {APIKey{ExpiresAt: &now}, KeyExpired},
		"disabled":            {APIKey{Disabled: true}, KeyDisabled},
		"disabled and over":   {APIKey{Disabled: true, ExpiresAt: &past}, KeyExpired},
		"revoked wins":        {APIKey{Disabled: true, ExpiresAt: &past, RevokedAt: &past}, KeyRevoked},
		"deleting is revoked": {APIKey{Status: Status{Phase: PhaseDeleting}}, KeyRevoked},
	} {
		if got := c.key.State(now); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestCIDRs(t *testing.T) {
	list, err := ParseCIDRs("f", []string{"10.1.2.3/8", "2001:db8::1", "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	k := APIKey{AllowedCIDRs: list}
	for addr, want := range map[string]bool{"10.9.9.9": true, "::ffff:10.9.9.9": true, "192.0.2.7": true, "192.0.2.8": false, "2001:db8::1": true, "2001:db8::2": false} {
		if got := k.AllowsAddress(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %v", addr, got)
		}
	}
	if k.AllowsAddress(netip.Addr{}) {
		t.Error("no address is allowed")
	}
	if _, err := ParseCIDRs("f", []string{"10.0.0.0/8", "x"}); !errs.Is(err, errs.Invalid) || err.(*errs.Error).Field != "f[1]" {
		t.Errorf("got %v", err)
	}
}

func TestScopes_refused(t *testing.T) {
	pub := []Permission{PermissionPub}
	for field, scopes := range map[string][]Scope{
		"scopes[0].namespace_id":   {{Permissions: pub}},
		"scopes[0].permissions":    {{NamespaceID: "a"}},
		"scopes[0].permissions[0]": {{NamespaceID: "a", Permissions: []Permission{"ALL"}}},
		"scopes[1].namespace_id":   {{NamespaceID: "a", Permissions: pub}, {NamespaceID: "a", Permissions: pub}},
		"scopes[0].topics[0]":      {{NamespaceID: "a", Permissions: pub, Topics: []string{"a*b"}}},
		"scopes[0].groups[1]":      {{NamespaceID: "a", Permissions: pub, Groups: []string{"a*", "b%c"}}},
		"scopes":                   make([]Scope, 51),
	} {
		var e *errs.Error
		if err := validateScopes(scopes); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if err := validateScopes([]Scope{{NamespaceID: "a", Permissions: pub, Topics: []string{"*", "x*", "x"}}}); err != nil {
		t.Error(err)
	}
	if !MatchPattern("*", "x") || !MatchPattern("ab*", "ab") || MatchPattern("ab*", "a") || MatchPattern("a", "ab") || !MatchPattern("a", "a") {
		t.Error("patterns")
	}
}
