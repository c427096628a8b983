package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

var quick = PasswordCost{MemoryKiB: 64, Passes: 1}

func TestPassword_verifiesAndNeverForNobody(t *testing.T) {
	h := newHasher(quick, func() {})
	ctx := t.Context()
	stored, err := h.hash(ctx, "correct horse battery")
	if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatal(stored, err)
	}
	again, err := h.hash(ctx, "correct horse battery")
	if err != nil || again == stored {
		t.Error("two hashes are the same: no salt")
	}
	for name, c := range map[string]struct {
		stored, password string
		want             bool
	}{
		"right":     {stored, "correct horse battery", true},
		"wrong":     {stored, "correct horse batterz", false},
		"empty":     {stored, "", false},
		"unknown":   {"", "correct horse battery", false},
		"of itself": {"", h.dummy, false},
	} {
		if got, err := h.verify(ctx, c.stored, c.password); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	// Another cost than today's is read from the hash.
	dear := newHasher(PasswordCost{MemoryKiB: 128, Passes: 2}, func() {})
	if ok, err := dear.verify(ctx, stored, "correct horse battery"); !ok || err != nil {
		t.Errorf("hash of another cost: %v, %v", ok, err)
	}
	for _, bad := range []string{"x", "$argon2i$v=19$m=64,t=1,p=1$AA$AA", "$argon2id$v=18$m=64,t=1,p=1$AA$AA", "$argon2id$v=19$m=64,t=0,p=1$AA$AA", "$argon2id$v=19$m=64,t=1,p=1$*$AA", "$argon2id$v=19$m=64,t=1,p=1$AA$AA"} {
		if ok, err := h.verify(ctx, bad, "p"); ok || !errors.Is(err, errHashForm) {
			t.Errorf("%s: %v, %v", bad, ok, err)
		}
	}
}

// of is somebody with a role in the whole tenant.
func of(role tenant.Role) *Principal {
	return &Principal{Role: role, rights: RightsOf(role, nil, time.Time{})}
}

// key is a key with a control role that a member with a role owns.
func key(role, owner tenant.Role) *Principal {
	p := of(role)
	p.capped, p.caps = true, RightsOf(owner, nil, time.Time{})
	return p
}

func TestMay_tableAndCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		p    *Principal
		perm Permission
		code errs.Code
	}{
		"nobody, public":        {nil, PermissionPublic, ""},
		"nobody, self":          {nil, PermissionSelf, errs.Unauthenticated},
		"nobody, topic":         {nil, "topic:read", errs.Unauthenticated},
		"viewer, self":          {of(tenant.RoleViewer), PermissionSelf, ""},
		"viewer reads":          {of(tenant.RoleViewer), "topic:read", ""},
		"viewer writes":         {of(tenant.RoleViewer), "topic:write", errs.Forbidden},
		"viewer messages":       {of(tenant.RoleViewer), "message:read", errs.Forbidden},
		"billing, topics":       {of(tenant.RoleBilling), "topic:read", errs.Forbidden},
		"unknown role":          {of("root"), "topic:read", errs.Forbidden},
		"unknown permission":    {of(tenant.RoleOwner), "world:write", errs.Forbidden},
		"key above its member":  {key(tenant.RoleAdmin, tenant.RoleViewer), "topic:write", errs.Forbidden},
		"key within its member": {key(tenant.RoleAdmin, tenant.RoleOwner), "topic:write", ""},
	} {
		if got := errs.CodeOf(May(c.p, c.perm)); got != c.code {
			t.Errorf("%s: got %q, want %q", name, got, c.code)
		}
	}
}

func TestMayGrant_neverMoreThanOneHas(t *testing.T) {
	developer := of(tenant.RoleDeveloper)
	for role, ok := range map[tenant.Role]bool{"": true, tenant.RoleViewer: true, tenant.RoleDeveloper: true, tenant.RoleAdmin: false, tenant.RoleBilling: false} {
		if err := MayGrant(developer, "sa_1", role); (err == nil) != ok {
			t.Errorf("%q: %v", role, err)
		}
	}
}
