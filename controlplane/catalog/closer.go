package catalog

import (
	"context"

	"github.com/sluicemq/sluice/tenant"
)

// Closer takes down everything that a tenant has.
type Closer struct {
	Tenants *tenant.Service
	Catalog *Service
}

// Close ends a tenant without members for good, all or nothing: topics, groups
// and namespaces go the way of every deletion, protected or not, so that brokers
// drop them.
func (c *Closer) Close(ctx context.Context, tenantID tenant.ID) error {
	return c.Catalog.store.InTx(ctx, func(ctx context.Context) error {
		for {
			// Each one that is deleted leaves the list.
			list, err := c.Tenants.Namespaces(ctx, tenantID, "", tenant.Page{Size: 100})
			if err != nil {
				return err
			}
			for _, n := range list {
				if err := c.Catalog.clear(ctx, tenantID, n.ID); err != nil {
					return err
				}
				if err := c.Tenants.CloseNamespace(ctx, tenantID, n.ID); err != nil {
					return err
				}
			}
			if len(list) == 0 {
				return c.Tenants.Close(ctx, tenantID)
			}
		}
	})
}

// clear deletes all topics and groups of a namespace, protected ones too.
func (s *Service) clear(ctx context.Context, tenantID, namespaceID tenant.ID) error {
	page := tenant.Page{Size: 1000}
	for {
		topics, err := s.store.Topics(ctx, tenantID, namespaceID, TopicFilter{}, page)
		if err != nil {
			return err
		}
		for _, t := range topics {
			if t.DeletionProtection {
				t.DeletionProtection, t.UpdatedAt, t.Revision = false, s.time(), t.Revision+1
				if err := s.store.UpdateTopic(ctx, t); err != nil {
					return err
				}
			}
			if _, err := s.DeleteTopic(ctx, tenantID, namespaceID, t.Name, 0); err != nil {
				return err
			}
		}
		groups, err := s.store.Groups(ctx, tenantID, namespaceID, "", page)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if g.DeletionProtection {
				g.DeletionProtection, g.UpdatedAt, g.Revision = false, s.time(), g.Revision+1
				if err := s.store.UpdateGroup(ctx, g); err != nil {
					return err
				}
			}
			if _, err := s.DeleteGroup(ctx, tenantID, namespaceID, g.Name, 0); err != nil {
				return err
			}
		}
		if len(topics)+len(groups) == 0 {
			return nil
		}
	}
}
