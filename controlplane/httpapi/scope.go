package httpapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// anywhere are operations on the whole tenant for which a right in a part of it
// is enough; their handlers see to it that nothing else is shown or touched.
var anywhere = map[string]bool{
	"listNamespaces": true,
	"listApiKeys":    true, "createApiKey": true, "getApiKey": true, "updateApiKey": true, "deleteApiKey": true, "rotateApiKey": true, "revokeApiKey": true,
}

// resourceOf tells what a request is about, from its path. With a namespace and
// no topic or group it is about some of what is in the namespace: lists show, and
// handlers that read names from the body allow, only what the caller has.
func resourceOf(c *gin.Context, op *operation) auth.Resource {
	r := auth.Resource{NamespaceID: c.Param("ns"), Topic: c.Param("topic"), Group: c.Param("group")}
	if group, ok := catalog.GroupOf(r.Topic); ok {
		r.Topic, r.Group = "", group
	}
	r.Any = r.Topic == "" && r.Group == "" && (r.NamespaceID != "" || anywhere[op.id])
	return r
}

// mayTopic answers whether the caller has the operation's permission for a topic
// that the path does not name.
func (c *call) mayTopic(namespaceID tenant.ID, name string) error {
	return auth.MayOn(c.principal, c.op.permission, auth.Resource{NamespaceID: namespaceID, Topic: name})
}

// mayGroup is mayTopic for a group.
func (c *call) mayGroup(namespaceID tenant.ID, name string) error {
	return auth.MayOn(c.principal, c.op.permission, auth.Resource{NamespaceID: namespaceID, Group: name})
}

// only reads a page of what may is nil for: it reads on past what the caller
// does not see, so that pages are full and tell nothing of it.
func only[T any](p tenant.Page, read func(tenant.Page) ([]T, error), id func(T) tenant.ID, may func(T) error) ([]T, error) {
	var out []T
	for {
		items, err := read(p)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if may(item) == nil {
				if out = append(out, item); len(out) == p.Size {
					return out, nil
				}
			}
			p.After = id(item)
		}
		if len(items) < p.Size {
			return out, nil
		}
	}
}

// ownKeysOnly reports whether the caller's permission for keys is for a part of
// the tenant: then it is for their own keys.
func (c *call) ownKeysOnly() bool { return auth.May(c.principal, c.op.permission) != nil }

// mayKey keeps a caller with a right in a part of the tenant to their own keys;
// others are as absent as made-up ones.
func (c *call) mayKey(k tenant.APIKey) error {
	if c.ownKeysOnly() && k.OwnerID != c.principal.ID {
		return errs.E(errs.NotFound, "API key %q does not exist", k.ID)
	}
	return nil
}

// ownKey is mayKey by id.
func (s *server) ownKey(ctx context.Context, c *call, id string) error {
	if !c.ownKeysOnly() {
		return nil
	}
	k, err := s.d.Tenants.Key(ctx, c.tenantID(), id)
	if err != nil {
		return err
	}
	return c.mayKey(k)
}

// mayScopes answers whether the caller may give these scopes to a key of owner.
// What they do not have, their own keys do not have either; a key of somebody
// else must not get it from them.
func (c *call) mayScopes(owner tenant.ID, scopes []tenant.Scope) error {
	own := owner == c.principal.ID && c.principal.Kind == auth.KindUser
	for i, sc := range scopes {
		if !auth.SeesNamespace(c.principal, sc.NamespaceID) {
			return errs.Field(fmt.Sprintf("scopes[%d].namespace_id", i), "namespace %q does not exist", sc.NamespaceID)
		}
		if own {
			continue
		}
		for j, perm := range sc.Permissions {
			if err := auth.MayGive(c.principal, sc.NamespaceID, perm); err != nil {
				err.Field = fmt.Sprintf("scopes[%d].permissions[%d]", i, j)
				return err
			}
		}
	}
	return nil
}

// mayCopy answers whether the caller may have, or let somebody have, what a key
// of owner can do: its control role and its scopes.
func (c *call) mayCopy(owner tenant.ID, role tenant.Role, scopes []tenant.Scope) error {
	if err := auth.MayGrant(c.principal, owner, role); err != nil || owner == c.principal.ID {
		return err
	}
	for _, sc := range scopes {
		for _, perm := range sc.Permissions {
			if err := auth.MayGive(c.principal, sc.NamespaceID, perm); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayLoosen answers whether the caller may put one rule in the place of another:
// what a rule then allows, or one before it denied, they must have themselves. The
// zero Rule is none.
func (c *call) mayLoosen(namespaceID tenant.ID, was, is tenant.Rule) error {
	var loosened []tenant.Permission
	if was.Effect == tenant.EffectDeny {
		loosened = was.Operations
	}
	if is.Effect == tenant.EffectAllow {
		loosened = append(slices.Clip(loosened), is.Operations...)
	}
	for _, perm := range loosened {
		if err := auth.MayGive(c.principal, namespaceID, perm); err != nil {
			err.Field = "operations"
			return err
		}
	}
	return nil
}
