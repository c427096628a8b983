package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	dataplane "github.com/sluicemq/sluice/dataplane/policy"
)

// Pauses after a node failed.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 5 * time.Second
)

// call runs one call to a node under its time limit and keeps a failing node
// from being asked in every pass. It reports whether the call succeeded.
func (f *Fleet) call(ctx context.Context, n *nodeState, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.CallTimeout)
	defer cancel()
	err := do(ctx)
	if err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrStale) {
		n.pause = 0
		return err
	}
	n.pause = min(max(2*n.pause, firstPause), longPause)
	n.retryAt = time.Now().Add(n.pause)
	f.cfg.Observe(Event{Kind: EventFailure, Node: n.Name(), Object: what, Err: err})
	f.cfg.Logger.Warn("call to a node failed", "node", n.Name(), "what", what, "retry_in", n.pause, "err", err)
	return err
}

func (n *nodeState) paused() bool { return n.pause > 0 && time.Now().Before(n.retryAt) }

// setPolicy makes next the policy of a new revision. Deltas lead from the
// policy before to it.
func (f *Fleet) setPolicy(next *dataplane.Snapshot) {
	base, old := f.revision, f.policy
	f.revision, f.policy = max(f.model.sequence, f.revision+1), next
	delta, err := dataplane.SealDelta(f.cfg.SigningKey, f.cfg.Cluster, base, f.revision, diffOrEmpty(old, next))
	if err != nil {
		f.cfg.Logger.Error("policy delta cannot be sealed", "err", err)
		return
	}
	for _, n := range f.nodes {
		if n.revision == base && base != 0 {
			n.delta = delta
		} else {
			n.delta = nil
		}
	}
}

func diffOrEmpty(old, next *dataplane.Snapshot) *dataplane.Delta {
	if d := diff(old, next); d != nil {
		return d
	}
	return &dataplane.Delta{}
}

// syncPolicy brings every node that answers to the current revision.
func (f *Fleet) syncPolicy(ctx context.Context) {
	if f.revision == 0 {
		return
	}
	for _, n := range f.nodes {
		if n.revision >= f.revision || n.paused() {
			continue
		}
		if err := f.pushPolicy(ctx, n); err == nil {
			f.cfg.Observe(Event{Kind: EventPolicy, Node: n.Name(), Object: "policy", Revision: n.revision})
		}
	}
}

func (f *Fleet) pushPolicy(ctx context.Context, n *nodeState) error {
	push := func(envelope []byte) error {
		return f.call(ctx, n, "policy", func(ctx context.Context) error {
			revision, err := n.ApplyPolicy(ctx, envelope)
			if err == nil {
				n.revision = revision
			}
			return err
		})
	}
	if n.delta != nil {
		err := push(n.delta)
		n.delta = nil
		if !errors.Is(err, ErrStale) {
			return err
		}
	}
	snapshot, err := dataplane.SealSnapshot(f.cfg.SigningKey, f.cfg.Cluster, f.revision, f.policy)
	if err != nil {
		return err
	}
	if err := push(snapshot); err != nil {
		return err
	}
	if n.revision > f.revision { // a node knows a later policy than the database: go on from there
		f.revision = n.revision + 1
		return f.pushPolicy(ctx, n)
	}
	return nil
}

// syncObjects makes the broker's topics and groups those of the model.
func (f *Fleet) syncObjects(ctx context.Context, n *nodeState) {
	if n.paused() {
		return
	}
	if n.topics == nil {
		if err := f.list(ctx, n); err != nil {
			return
		}
	}
	for _, o := range f.open {
		switch o.kind {
		case catalog.KindTopic:
			if t, ok := f.model.topics[o.id]; ok {
				n.refused(o, f.syncTopic(ctx, n, t))
			}
		case catalog.KindGroup:
			if g, ok := f.model.groups[o.id]; ok {
				n.refused(o, f.syncGroup(ctx, n, g))
			}
		case catalog.KindTenant, catalog.KindNamespace, catalog.KindKey, catalog.KindRule, catalog.KindJWKS: // carried by the policy alone
		}
		if n.paused() {
			return
		}
	}
}

// refused remembers a refusal for good until the object's next revision.
func (n *nodeState) refused(o object, err error) {
	key := seenKey{o.kind, o.id}
	delete(n.refusals, key)
	if errors.Is(err, ErrRefused) {
		if n.refusals == nil {
			n.refusals = map[seenKey]error{}
		}
		n.refusals[key] = err
	}
}

func (f *Fleet) list(ctx context.Context, n *nodeState) error {
	return f.call(ctx, n, "list", func(ctx context.Context) error {
		topics, err := n.broker.Topics(ctx)
		if err != nil {
			return err
		}
		groups, err := n.broker.Groups(ctx)
		if err != nil {
			return err
		}
		n.topics, n.groups = topics, groups
		return nil
	})
}

func (f *Fleet) syncTopic(ctx context.Context, n *nodeState, t catalog.DesiredTopic) error {
	want := topicConfig(t)
	have, exists := n.topics[t.Physical]
	switch {
	case t.Deleted && (!exists || have.ID != t.ID): // gone, or a later topic of the same name
		return nil
	case t.Deleted:
		err := f.call(ctx, n, t.Physical, func(ctx context.Context) error { return n.broker.DeleteTopic(ctx, t.Physical) })
		if err == nil {
			delete(n.topics, t.Physical)
		}
		return err
	case exists && have == want:
		return nil
	}
	if exists && have.ID != "" && have.ID != t.ID { // an earlier topic of the same name: its messages are not this one's
		if err := f.call(ctx, n, t.Physical, func(ctx context.Context) error { return n.broker.DeleteTopic(ctx, t.Physical) }); err != nil {
			return err
		}
	}
	err := f.call(ctx, n, t.Physical, func(ctx context.Context) error { return n.broker.PutTopic(ctx, want) })
	if err == nil {
		n.topics[t.Physical] = want
	}
	return err
}

func (f *Fleet) syncGroup(ctx context.Context, n *nodeState, g catalog.DesiredGroup) error {
	want := groupConfig(g)
	have, exists := n.groups[g.Physical]
	switch {
	case g.Deleted && (!exists || have.ID != g.ID):
		return nil
	case g.Deleted:
		err := f.call(ctx, n, g.Physical, func(ctx context.Context) error { return n.broker.DeleteGroup(ctx, g.Physical) })
		if err == nil {
			delete(n.groups, g.Physical)
		}
		return err
	case exists && have == want:
		return nil
	}
	if exists && have.ID != "" && have.ID != g.ID {
		if err := f.call(ctx, n, g.Physical, func(ctx context.Context) error { return n.broker.DeleteGroup(ctx, g.Physical) }); err != nil {
			return err
		}
	}
	err := f.call(ctx, n, g.Physical, func(ctx context.Context) error { return n.broker.PutGroup(ctx, want) })
	if err == nil {
		n.groups[g.Physical] = want
	}
	return err
}

// carried reports whether every node has what o needs, or the refusal of one.
func (f *Fleet) carried(o object) (done bool, refusal error) {
	for _, n := range f.nodes {
		if n.revision < f.revision {
			return false, nil
		}
	}
	key := seenKey{o.kind, o.id}
	for _, n := range f.brokers {
		if err := n.refusals[key]; err != nil {
			return false, err
		}
		if !f.holds(n, o) {
			return false, nil
		}
	}
	return true, nil
}

// holds reports whether the broker's topics and groups are as o wants them.
func (f *Fleet) holds(n *nodeState, o object) bool {
	switch o.kind {
	case catalog.KindTopic:
		t, ok := f.model.topics[o.id]
		have, exists := n.topics[t.Physical]
		if o.deleted || !ok {
			return !exists || have.ID != o.id
		}
		return exists && have == topicConfig(t)
	case catalog.KindGroup:
		g, ok := f.model.groups[o.id]
		have, exists := n.groups[g.Physical]
		if o.deleted || !ok {
			return !exists || have.ID != o.id
		}
		return exists && have == groupConfig(g)
	case catalog.KindNamespace:
		return !o.deleted || f.model.empty(o.id)
	case catalog.KindTenant, catalog.KindKey, catalog.KindRule, catalog.KindJWKS:
	}
	return true
}

// checkDrift compares every node with the model and repairs what differs.
func (f *Fleet) checkDrift(ctx context.Context) {
	hash, current := f.policy.Hash(), f.revision
	for _, n := range f.nodes {
		if n.paused() {
			continue
		}
		err := f.call(ctx, n, "policy status", func(ctx context.Context) error {
			revision, nodeHash, err := n.Policy(ctx)
			if err == nil && n.revision == current && (revision != current || nodeHash != hash) {
				f.drifted(n, "policy")
				n.revision, n.delta = 0, nil
				f.revision = max(current, revision) + 1 // a node ignores a revision that it has already
			}
			return err
		})
		if err == nil && n.broker != nil {
			f.checkObjects(ctx, n)
		}
	}
	f.syncPolicy(ctx)
}

func (f *Fleet) checkObjects(ctx context.Context, n *nodeState) {
	if f.list(ctx, n) != nil {
		return
	}
	known := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(f.model.topics)) {
		t := f.model.topics[id]
		known[t.Physical] = true
		if _, open := f.open[seenKey{catalog.KindTopic, id}]; !open && !t.Deleted && n.topics[t.Physical] != topicConfig(t) {
			f.drifted(n, t.Physical)
			f.logFailure(n, t.Physical, f.syncTopic(ctx, n, t))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.model.groups)) {
		g := f.model.groups[id]
		known[g.Physical] = true
		if _, open := f.open[seenKey{catalog.KindGroup, id}]; !open && !g.Deleted && n.groups[g.Physical] != groupConfig(g) {
			f.drifted(n, g.Physical)
			f.logFailure(n, g.Physical, f.syncGroup(ctx, n, g))
		}
	}
	f.quarantine(n, "topic", maps.Keys(n.topics), known)
	f.quarantine(n, "group", maps.Keys(n.groups), known)
}

func (f *Fleet) drifted(n *nodeState, name string) {
	f.cfg.Observe(Event{Kind: EventDrift, Node: n.Name(), Object: name})
	f.cfg.Logger.Warn("drift found; repairing", "node", n.Name(), "object", name)
}

func (f *Fleet) logFailure(n *nodeState, name string, err error) {
	if errors.Is(err, ErrRefused) {
		f.cfg.Logger.Error("drift cannot be repaired", "node", n.Name(), "object", name, "err", err)
	}
}

// quarantine reports names under a namespace that the catalogue does not know.
// They are never deleted: they may hold somebody's messages.
func (f *Fleet) quarantine(n *nodeState, kind string, names func(func(string) bool), known map[string]bool) {
	for name := range names {
		prefix, _, _, ok := dataplane.SplitPhysical(name)
		mark := strings.Join([]string{n.Name(), kind, name}, " ")
		if _, told := f.unknown[mark]; !ok || prefix != "" || known[name] || told {
			continue
		}
		f.unknown[mark] = struct{}{}
		f.cfg.Observe(Event{Kind: EventQuarantine, Node: n.Name(), Object: name})
		f.cfg.Logger.Warn("unknown object on a broker is left alone", "node", n.Name(), "kind", kind, "object", name)
	}
}
