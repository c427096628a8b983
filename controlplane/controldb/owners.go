package controldb

import (
	"context"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// keyOwner names an owner of keys: a person may be in many tenants.
type keyOwner struct{ tenantID, id tenant.ID }

// owners is what the owners of keys may: brokers hold a key to it.
type owners struct {
	roles    map[keyOwner]tenant.Role
	bindings map[keyOwner][]tenant.Binding
	bound    map[tenant.ID]bool // service accounts
	closing  map[tenant.ID]bool // people who close their account
}

// rights are what the owner of a key has; capped is false for a service account
// that was never bound.
func (o *owners) rights(k tenant.APIKey, now time.Time) (rights []auth.Right, capped bool) {
	who := keyOwner{k.TenantID, k.OwnerID}
	if strings.HasPrefix(k.OwnerID, tenant.PrefixServiceAccount) && !o.bound[k.OwnerID] {
		return nil, false
	}
	return auth.RightsOf(o.roles[who], o.bindings[who], now), true
}

// owners reads the owners of keys, in three queries for every 500 of them; with
// every, of all keys there are, in three.
func (s *Source) owners(ctx context.Context, keys []tenant.APIKey, every bool) (*owners, error) {
	o := &owners{roles: map[keyOwner]tenant.Role{}, bindings: map[keyOwner][]tenant.Binding{}, bound: map[tenant.ID]bool{}, closing: map[tenant.ID]bool{}}
	if every {
		return o, s.readOwners(ctx, o, nil)
	}
	ids := make([]tenant.ID, len(keys))
	for i, k := range keys {
		ids[i] = k.OwnerID
	}
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		if err := s.readOwners(ctx, o, ids[:n]); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return o, nil
}

// readOwners adds the owners named, or all for nil.
func (s *Source) readOwners(ctx context.Context, o *owners, ids []tenant.ID) error {
	q := s.db.Conn(ctx).Table("members").Joins("LEFT JOIN users ON users.id = members.user_id").
		Select("members.tenant_id, members.user_id, members.role, users.erase_at")
	if ids != nil {
		q = q.Where("members.user_id IN ?", ids)
	}
	var members []struct {
		TenantID, UserID, Role string
		EraseAt                *int64
	}
	if err := q.Find(&members).Error; err != nil {
		return sqldb.Error(err)
	}
	for _, m := range members {
		o.roles[keyOwner{m.TenantID, m.UserID}] = tenant.Role(m.Role)
		if m.EraseAt != nil {
			o.closing[m.UserID] = true
		}
	}
	q = s.db.Conn(ctx).Table("service_accounts").Where("bound = ?", true)
	if ids != nil {
		q = q.Where("id IN ?", ids)
	}
	var bound []tenant.ID
	if err := q.Pluck("id", &bound).Error; err != nil {
		return sqldb.Error(err)
	}
	for _, id := range bound {
		o.bound[id] = true
	}
	bindings, err := s.tenants.BindingsOfAll(ctx, ids, ids == nil)
	for _, b := range bindings {
		who := keyOwner{b.TenantID, b.PrincipalID}
		o.bindings[who] = append(o.bindings[who], b)
	}
	return err
}
