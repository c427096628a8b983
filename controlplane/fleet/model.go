package fleet

import (
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/tenant"
)

// model is what should be, as last read from the source.
type model struct {
	sequence   uint64
	tenants    map[tenant.ID]catalog.DesiredTenant
	namespaces map[tenant.ID]catalog.DesiredNamespace
	topics     map[tenant.ID]catalog.DesiredTopic
	groups     map[tenant.ID]catalog.DesiredGroup
	keys       map[tenant.ID]catalog.DesiredKey
	rules      map[tenant.ID]map[tenant.ID]catalog.DesiredRule // by namespace
	ruleOf     map[tenant.ID]tenant.ID                         // namespace of a rule
	jwks       []byte
}

func newModel() *model {
	return &model{
		tenants:    map[tenant.ID]catalog.DesiredTenant{},
		namespaces: map[tenant.ID]catalog.DesiredNamespace{},
		topics:     map[tenant.ID]catalog.DesiredTopic{},
		groups:     map[tenant.ID]catalog.DesiredGroup{},
		keys:       map[tenant.ID]catalog.DesiredKey{},
		rules:      map[tenant.ID]map[tenant.ID]catalog.DesiredRule{},
		ruleOf:     map[tenant.ID]tenant.ID{},
	}
}

// object names one row of the model at one revision.
type object struct {
	kind     catalog.Kind
	id       tenant.ID
	revision int64
	deleted  bool
}

// drop forgets the objects that changes name; merge brings back those that
// still exist.
func (m *model) drop(changes []catalog.Change) {
	for _, c := range changes {
		switch c.Kind {
		case catalog.KindTenant:
			delete(m.tenants, c.ID)
		case catalog.KindNamespace:
			delete(m.namespaces, c.ID)
		case catalog.KindTopic:
			delete(m.topics, c.ID)
		case catalog.KindGroup:
			delete(m.groups, c.ID)
		case catalog.KindKey:
			delete(m.keys, c.ID)
		case catalog.KindRule:
			ns := m.ruleOf[c.ID]
			delete(m.ruleOf, c.ID)
			if delete(m.rules[ns], c.ID); len(m.rules[ns]) == 0 {
				delete(m.rules, ns)
			}
		case catalog.KindJWKS:
		}
	}
}

// merge takes over what was read and returns the objects whose latest revision
// has not been reported back yet. Keys and tenants carry no observed revision:
// each one read counts.
func (m *model) merge(d catalog.Desired) []object {
	var open []object
	for _, t := range d.Tenants {
		m.tenants[t.ID] = t
		open = append(open, object{kind: catalog.KindTenant, id: t.ID, revision: t.Revision})
	}
	for _, n := range d.Namespaces {
		m.namespaces[n.ID] = n
		if n.Deleted || n.Observed < n.Revision {
			open = append(open, object{catalog.KindNamespace, n.ID, n.Revision, n.Deleted})
		}
	}
	for _, t := range d.Topics {
		m.topics[t.ID] = t
		if t.Deleted || t.Observed < t.Revision {
			open = append(open, object{catalog.KindTopic, t.ID, t.Revision, t.Deleted})
		}
	}
	for _, g := range d.Groups {
		m.groups[g.ID] = g
		if g.Deleted || g.Observed < g.Revision {
			open = append(open, object{catalog.KindGroup, g.ID, g.Revision, g.Deleted})
		}
	}
	for _, k := range d.Keys {
		m.keys[k.ID] = k
		open = append(open, object{kind: catalog.KindKey, id: k.ID, revision: k.Revision})
	}
	for _, r := range d.Rules {
		if m.rules[r.NamespaceID] == nil {
			m.rules[r.NamespaceID] = map[tenant.ID]catalog.DesiredRule{}
		}
		m.rules[r.NamespaceID][r.ID] = r
		m.ruleOf[r.ID] = r.NamespaceID
		if r.Deleted || r.Status.ObservedRevision < r.Revision {
			open = append(open, object{catalog.KindRule, r.ID, r.Revision, r.Deleted})
		}
	}
	if len(d.JWKS) > 0 {
		m.jwks = d.JWKS
	}
	m.sequence = max(m.sequence, d.Sequence)
	return open
}

// forget removes an object that the data plane no longer has.
func (m *model) forget(o object) {
	m.drop([]catalog.Change{{Kind: o.kind, ID: o.id}})
}

// empty reports whether a namespace has nothing left on brokers.
func (m *model) empty(namespaceID tenant.ID) bool {
	for _, t := range m.topics {
		if t.NamespaceID == namespaceID {
			return false
		}
	}
	for _, g := range m.groups {
		if g.NamespaceID == namespaceID {
			return false
		}
	}
	return true
}

func topicConfig(t catalog.DesiredTopic) TopicConfig {
	return TopicConfig{Name: t.Physical, ID: t.ID, Type: string(t.Type), Queues: t.Queues, Perm: t.Perm}
}

func groupConfig(g catalog.DesiredGroup) GroupConfig {
	return GroupConfig{
		Name: g.Physical, ID: g.ID, FIFO: g.FIFO, ConsumeEnabled: g.ConsumeEnabled, Broadcast: g.Broadcast, MaxAttempts: g.MaxAttempts,
	}
}
