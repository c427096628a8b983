package catalog

import (
	"context"

	"github.com/sluicemq/sluice/tenant"
)

// What a new tenant starts with.
const (
	FirstNamespace = "Default"
	FirstTopic     = "hello"
	FirstGroup     = "hello-group"
	FirstKey       = "First key"
)

// Beginning is what Begin made.
type Beginning struct {
	TenantID    tenant.ID
	NamespaceID tenant.ID
	Topic       string
	Group       string
	KeyID       tenant.ID
	Secret      string
}

// Founder makes everything that a new tenant starts with.
type Founder struct {
	Tenants *tenant.Service
	Catalog *Service
}

// Begin makes a tenant with its owner, a namespace, a topic, a group and an
// API key that may send and receive in the namespace, all or nothing.
func (f *Founder) Begin(ctx context.Context, tenantName string, owner tenant.ID) (Beginning, error) {
	var out Beginning
	err := f.Catalog.store.InTx(ctx, func(ctx context.Context) error {
		t, err := f.Tenants.Found(ctx, tenantName, owner)
		if err != nil {
			return err
		}
		cluster, err := f.Catalog.Place(ctx, "")
		if err != nil {
			return err
		}
		ns, err := f.Tenants.CreateNamespace(ctx, t.ID, tenant.Namespace{Name: FirstNamespace, ClusterID: cluster.ID})
		if err != nil {
			return err
		}
		topic, err := f.Catalog.CreateTopic(ctx, t.ID, ns.ID, Topic{Name: FirstTopic})
		if err != nil {
			return err
		}
		group, err := f.Catalog.CreateGroup(ctx, t.ID, ns.ID, Group{Name: FirstGroup, ConsumeEnabled: true, Broadcast: true, DeadLetter: DeadLetter{Enabled: true}})
		if err != nil {
			return err
		}
		key, secret, err := f.Tenants.CreateKey(ctx, t.ID, tenant.KeyCreate{OwnerID: owner, Name: FirstKey,
			Scopes: []tenant.Scope{{NamespaceID: ns.ID, Permissions: []tenant.Permission{tenant.PermissionPub, tenant.PermissionSub}}}})
		if err != nil {
			return err
		}
		out = Beginning{TenantID: t.ID, NamespaceID: ns.ID, Topic: topic.Name, Group: group.Name, KeyID: key.ID, Secret: secret}
		return nil
	})
	return out, err
}
