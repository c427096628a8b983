package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// touching says what an operation that needs a permission does with the topic
// or group that its path names, in the words of brokers. A role is enough to
// manage and describe; messages of an API key need a scope or a rule besides.
var touching = map[auth.Permission]tenant.Permission{
	"topic:read": tenant.PermissionDescribe, "topic:write": tenant.PermissionManage,
	"group:read": tenant.PermissionDescribe, "group:write": tenant.PermissionManage,
	"message:read": tenant.PermissionSub, "message:write": tenant.PermissionPub,
}

// rulesAllow holds a request for one topic or group against the rules of the
// namespace, as brokers do; see tenant.Rule.
func (s *server) rulesAllow(ctx context.Context, c *call) error {
	op, ok := touching[c.op.permission]
	if !ok {
		return nil
	}
	switch r := resourceOf(c.gin, c.op); {
	case r.Topic != "":
		return s.rulesAllowOne(ctx, c, tenant.ResourceTopic, r.Topic, op)
	case r.Group != "":
		return s.rulesAllowOne(ctx, c, tenant.ResourceGroup, r.Group, op)
	}
	return nil
}

func (s *server) rulesAllowOne(ctx context.Context, c *call, kind tenant.ResourceKind, name string, op tenant.Permission) error {
	if c.principal.KeyID == "" || c.gin.Request.Method != http.MethodGet {
		return s.decide(ctx, c, kind, name, op)
	}
	f := fact("rules", c.tenantID(), c.gin.Param("ns"), string(kind), name, string(op), c.principal.ID, c.principal.KeyID, c.addr.String())
	_, err := know(ctx, &s.recent, f, func(ctx context.Context) (bool, error) {
		err := s.decide(ctx, c, kind, name, op)
		return err == nil, err
	})
	return err
}

// decide is rulesAllowOne without a memory.
func (s *server) decide(ctx context.Context, c *call, kind tenant.ResourceKind, name string, op tenant.Permission) error {
	q := catalog.AccessQuestion{UserID: c.principal.ID, Role: true, Resource: kind, Name: name, Operation: op, Remote: c.addr, Now: s.d.Now()}
	who := []tenant.ID{c.principal.ID}
	if id := c.principal.KeyID; id != "" {
		var err error
		if q.Key, q.State, err = s.keyAtBrokers(ctx, c.tenantID(), id); err != nil {
			return err
		}
		q.Role = op == tenant.PermissionManage || op == tenant.PermissionDescribe
		who = append(who, id)
	}
	judge, err := s.judge(ctx, c.tenantID(), c.gin.Param("ns"), tenant.RulesAbout(who, kind, name))
	if err != nil {
		return err
	}
	d, err := judge(q)
	if err != nil || d.Allowed {
		return err
	}
	return errs.E(errs.Forbidden, "%s", d.Reason).WithReason("permission_denied")
}

// keyAtBrokers is a key as brokers know it.
func (s *server) keyAtBrokers(ctx context.Context, tenantID, id tenant.ID) (tenant.APIKey, tenant.KeyState, error) {
	k, state, err := s.d.Tenants.KeyAndState(ctx, tenantID, id)
	if err != nil {
		return k, state, err
	}
	return s.d.Auth.AtBrokers(ctx, k, state)
}

// judge decides by the rules of a namespace that the filter leaves.
func (s *server) judge(ctx context.Context, tenantID, namespaceID tenant.ID, f tenant.RuleFilter) (catalog.Judge, error) {
	rules, err := s.d.Tenants.AllRules(ctx, tenantID, namespaceID, f)
	if err != nil {
		return nil, err
	}
	return s.d.Judges(namespaceID, rules)
}

// accessor is somebody of whom ListAccess asks what they may do.
type accessor struct {
	out      api.Accessor
	ask      catalog.AccessQuestion
	networks []netip.Prefix               // that the key and its scopes are for; none: all
	role     func(tenant.Permission) bool // whether a role allows an operation
}

// ListAccess tells who can touch a topic or a group. Ids of keys sort before
// those of people, so that one cursor walks through both.
func (s *server) ListAccess(gc context.Context, r ListAccessRequestObject) (ListAccessResponseObject, error) {
	c, ctx := enter(gc)
	kind := tenant.ResourceKind(r.Params.Resource)
	about := tenant.RulesAbout(nil, kind, r.Params.Name)
	about.Principals = nil // anybody
	rules, err := s.d.Tenants.AllRules(ctx, c.tenantID(), r.Ns, about)
	if err != nil {
		return nil, err
	}
	judge, err := s.d.Judges(r.Ns, rules)
	if err != nil {
		return nil, err
	}
	var networks []netip.Prefix
	for _, rule := range rules {
		networks = append(networks, rule.CIDRs...)
	}
	all, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]accessor, error) {
			return s.accessors(ctx, c.tenantID(), r.Ns, kind, r.Params.Name, p)
		},
		func(a accessor) string { return a.out.Id }, func(a accessor) accessor { return a })
	if err != nil {
		return nil, err
	}
	items := []api.Accessor{}
	for _, a := range all {
		a.ask.Resource, a.ask.Name = kind, r.Params.Name
		if a.out.Operations, err = operationsOf(judge, a, edges(slices.Concat(a.networks, networks))); err != nil {
			return nil, err
		}
		if len(a.out.Operations) > 0 {
			items = append(items, a.out)
		}
	}
	return ListAccess200JSONResponse{Items: items, NextPageToken: next}, nil
}

// operationsOf lists what an accessor may do from at least one of the addresses.
func operationsOf(judge catalog.Judge, a accessor, from []netip.Addr) ([]api.AccessorOperation, error) {
	var out []api.AccessorOperation
	for _, op := range []tenant.Permission{tenant.PermissionPub, tenant.PermissionSub, tenant.PermissionManage, tenant.PermissionDescribe} {
		a.ask.Operation, a.ask.Role = op, a.role(op)
		for _, a.ask.Remote = range from {
			d, err := judge(a.ask)
			if err != nil {
				return nil, err
			}
			if d.Allowed {
				out = append(out, api.AccessorOperation{Operation: api.KeyPermission(op), DecidedBy: api.AclDecider(d.DecidedBy), RuleId: some(d.RuleID)})
				break
			}
		}
	}
	return out, nil
}

// edges are addresses that stand for all: between two neighbours among them no
// network begins or ends, so that every address has the answer of one of them.
func edges(networks []netip.Prefix) []netip.Addr {
	out := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	for _, n := range networks {
		out = append(out, n.Masked().Addr())
		last := n.Masked().Addr().AsSlice()
		for bit := n.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		if end, ok := netip.AddrFromSlice(last); ok && end.Next().IsValid() {
			out = append(out, end.Next())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func (s *server) accessors(ctx context.Context, tenantID, namespaceID tenant.ID, kind tenant.ResourceKind, name string, p tenant.Page) ([]accessor, error) {
	var out []accessor
	now := s.d.Now()
	if p.After < tenant.PrefixUser {
		keys, err := s.d.Tenants.Keys(ctx, tenantID, tenant.KeyFilter{NamespaceID: namespaceID}, p)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			k, state, err := s.keyAtBrokers(ctx, tenantID, k.ID)
			if err != nil {
				return nil, err
			}
			networks := slices.Clone(k.AllowedCIDRs)
			for _, scope := range k.Scopes {
				networks = append(networks, scope.CIDRs...)
			}
			out = append(out, accessor{
				out: api.Accessor{Id: k.ID, Kind: api.AccessorAPIKey, Name: k.Name, OwnerId: k.OwnerID},
				ask: catalog.AccessQuestion{Key: k, State: state, Now: now}, networks: networks, role: func(tenant.Permission) bool { return false },
			})
		}
	}
	if len(out) == p.Size {
		return out, nil
	}
	people := tenant.Page{Size: p.Size - len(out), After: p.After}
	if p.After < tenant.PrefixUser {
		people.After = ""
	}
	members, err := s.d.Tenants.Members(ctx, tenantID, people)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		rights, err := s.d.Auth.RightsOfMember(ctx, m)
		if err != nil {
			return nil, err
		}
		at := auth.Resource{NamespaceID: namespaceID}
		if at.Topic = name; kind == tenant.ResourceGroup {
			at.Topic, at.Group = "", name
		}
		out = append(out, accessor{
			out: api.Accessor{Id: m.UserID, Kind: api.AccessorMember, Name: m.Name, OwnerId: m.UserID},
			ask: catalog.AccessQuestion{UserID: m.UserID, Now: now}, role: func(op tenant.Permission) bool { return auth.PersonMay(rights, op, at) },
		})
	}
	return out, nil
}
