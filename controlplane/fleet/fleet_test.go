package fleet

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/tenant"
)

// fakeSource is a catalogue in memory: the present objects and a log of
// changes.
type fakeSource struct {
	mu      sync.Mutex
	now     catalog.Desired
	changes []catalog.Change
	ready   map[tenant.ID]int64
	failed  map[tenant.ID]string
	gone    map[tenant.ID]bool
}

func newSource() *fakeSource {
	return &fakeSource{ready: map[tenant.ID]int64{}, failed: map[tenant.ID]string{}, gone: map[tenant.ID]bool{}}
}

func (s *fakeSource) changed(kind catalog.Kind, id tenant.ID) {
	s.changes = append(s.changes, catalog.Change{Sequence: uint64(len(s.changes) + 1), Kind: kind, ID: id})
}

func (s *fakeSource) tenant(id tenant.ID, ns ...tenant.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Tenants = append(s.now.Tenants, catalog.DesiredTenant{ID: id, Revision: 1})
	s.changed(catalog.KindTenant, id)
	for _, n := range ns {
		s.now.Namespaces = append(s.now.Namespaces, catalog.DesiredNamespace{ID: n, TenantID: id, Revision: 1})
		s.changed(catalog.KindNamespace, n)
	}
}

func (s *fakeSource) key(id tenant.ID, change func(*catalog.DesiredKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.now.Keys {
		if s.now.Keys[i].ID == id {
			change(&s.now.Keys[i])
			s.changed(catalog.KindKey, id)
			return
		}
	}
	k := catalog.DesiredKey{ID: id, TenantID: "ten_a", Secret: "s", Revision: 1, Scopes: []tenant.Scope{{NamespaceID: "nsaaaaaa", Permissions: []tenant.Permission{"PUB"}}}}
	if change != nil {
		change(&k)
	}
	s.now.Keys = append(s.now.Keys, k)
	s.changed(catalog.KindKey, id)
}

func (s *fakeSource) topic(t catalog.DesiredTopic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Physical = policy.PhysicalName(t.NamespaceID, t.Name)
	for i := range s.now.Topics {
		if s.now.Topics[i].ID == t.ID {
			s.now.Topics[i] = t
			s.changed(catalog.KindTopic, t.ID)
			return
		}
	}
	s.now.Topics = append(s.now.Topics, t)
	s.changed(catalog.KindTopic, t.ID)
}

func (s *fakeSource) Desired(context.Context) (catalog.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.now
	d.Sequence = uint64(len(s.changes))
	return d, nil
}

func (s *fakeSource) DesiredFor(_ context.Context, changes []catalog.Change) (catalog.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := map[tenant.ID]bool{}
	for _, c := range changes {
		named[c.ID] = true
	}
	d := catalog.Desired{Sequence: uint64(len(s.changes))}
	for _, t := range s.now.Tenants {
		if named[t.ID] {
			d.Tenants = append(d.Tenants, t)
		}
	}
	for _, t := range s.now.Namespaces {
		if named[t.ID] {
			d.Namespaces = append(d.Namespaces, t)
		}
	}
	for _, t := range s.now.Topics {
		if named[t.ID] {
			d.Topics = append(d.Topics, t)
		}
	}
	for _, k := range s.now.Keys {
		if named[k.ID] {
			d.Keys = append(d.Keys, k)
		}
	}
	return d, nil
}

func (s *fakeSource) Sequence(context.Context) (uint64, error) { return uint64(len(s.changes)), nil }

func (s *fakeSource) Changes(_ context.Context, after uint64, limit int) ([]catalog.Change, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.changes[after:]
	return append([]catalog.Change(nil), list[:min(limit, len(list))]...), false, nil
}

func (s *fakeSource) MarkReady(_ context.Context, _ catalog.Kind, id tenant.ID, revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[id] = revision
	return nil
}

func (s *fakeSource) MarkFailed(_ context.Context, _ catalog.Kind, id tenant.ID, _ int64, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[id] = reason
	return nil
}

func (s *fakeSource) MarkDeleted(_ context.Context, _ catalog.Kind, id tenant.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = true
	return nil
}

// fakeBroker holds topics in memory and a real policy engine.
type fakeBroker struct {
	mu     sync.Mutex
	engine *policy.Engine
	down   bool
	refuse string
	topics map[string]TopicConfig
	groups map[string]GroupConfig
	whole  int // policy pushes
}

var errDown = errors.New("connection refused")

func (b *fakeBroker) Name() string { return "broker" }

func (b *fakeBroker) up() error {
	if b.down {
		return errDown
	}
	return nil
}

func (b *fakeBroker) ApplyPolicy(_ context.Context, envelope []byte) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return 0, errDown
	}
	b.whole++
	revision, err := b.engine.Apply(envelope)
	if errors.Is(err, policy.ErrStale) {
		return revision, fmt.Errorf("%w: %w", ErrStale, err)
	}
	return revision, err
}

func (b *fakeBroker) Policy(context.Context) (uint64, string, error) {
	return b.engine.Revision(), b.engine.Hash(), b.up()
}

// signed asks the policy whether a key may call.
func (b *fakeBroker) signed(key, secret string) (*policy.Principal, error) {
	ext := map[string]string{}
	policy.SignRemoting(ext, nil, key, []byte(secret))
	return b.engine.AuthenticateRemoting(policy.RemotingRequest{Fields: policy.FieldsOf(ext), Remote: netip.MustParseAddr("127.0.0.1")})
}

func (b *fakeBroker) Topics(context.Context) (map[string]TopicConfig, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.topics), b.up()
}

func (b *fakeBroker) PutTopic(_ context.Context, t TopicConfig) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.Name == b.refuse {
		return fmt.Errorf("%w: no room", ErrRefused)
	}
	if !b.down {
		b.topics[t.Name] = t
	}
	return b.up()
}

func (b *fakeBroker) DeleteTopic(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics, name)
	return b.up()
}

func (b *fakeBroker) Groups(context.Context) (map[string]GroupConfig, error) {
	return maps.Clone(b.groups), b.up()
}
func (b *fakeBroker) PutGroup(_ context.Context, g GroupConfig) error {
	b.groups[g.Name] = g
	return b.up()
}
func (b *fakeBroker) DeleteGroup(_ context.Context, name string) error {
	delete(b.groups, name)
	return b.up()
}

type bench struct {
	*Fleet
	source *fakeSource
	broker *fakeBroker
	ctx    context.Context

	mu     sync.Mutex
	events map[EventKind]int
}

func (b *bench) count(kind EventKind) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events[kind]
}

// topic returns what the broker has under a name.
func (b *fakeBroker) topic(name string) (TopicConfig, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.topics[name]
	return t, ok
}

func (b *fakeBroker) pushed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole
}

// set changes the broker behind fleet's back.
func (b *fakeBroker) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (s *fakeSource) readyAt(id tenant.ID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready[id]
}

func (s *fakeSource) failure(id tenant.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[id]
}

func (s *fakeSource) isGone(id tenant.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[id]
}

// start runs a fleet with one broker inside a synctest bubble.
func start(t *testing.T, source *fakeSource, broker *fakeBroker) *bench {
	t.Helper()
	_, signing, _ := ed25519.GenerateKey(nil)
	if broker == nil {
		broker = &fakeBroker{topics: map[string]TopicConfig{}, groups: map[string]GroupConfig{}}
	}
	engine, err := policy.Open(policy.Config{
		Dir: t.TempDir(), Cluster: "c1", SystemSecret: make([]byte, 32), Trusted: []ed25519.PublicKey{signing.Public().(ed25519.PublicKey)},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	broker.engine = engine
	b := &bench{source: source, broker: broker, events: map[EventKind]int{}}
	b.Fleet = New(Config{
		Cluster: "c1", SigningKey: signing, Logger: slog.New(slog.DiscardHandler), Observe: func(e Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events[e.Kind]++
		},
	}, source, nil, []Broker{broker})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	b.ctx = ctx
	synctest.Wait()
	return b
}

func topicA(revision int64) catalog.DesiredTopic {
	return catalog.DesiredTopic{ID: "top_1", TenantID: "ten_a", NamespaceID: "nsaaaaaa", Name: "orders", Type: "NORMAL", Queues: 4, Perm: 6, Revision: revision}
}

func TestFleet_carriesChangesAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		source.key("slk_1", nil)
		b := start(t, source, nil)
		if source.readyAt("nsaaaaaa") != 1 || source.readyAt("slk_1") != 1 {
			t.Fatal("not ready after the start")
		}
		if b.broker.engine.TenantOf("nsaaaaaa") != "ten_a" {
			t.Error("policy does not know the namespace")
		}
		waited := make(chan error, 1)
		go func() { waited <- b.WaitReady(b.ctx, catalog.KindTopic, "top_1", 1) }()
		source.topic(topicA(1))
		b.Wake("nsaaaaaa")
		synctest.Wait()
		select {
		case err := <-waited:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("WaitReady still waits")
		}
		want := TopicConfig{Name: "nsaaaaaa%orders", ID: "top_1", Type: "NORMAL", Queues: 4, Perm: 6}
		if got, _ := b.broker.topic("nsaaaaaa%orders"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for i, state := range []tenant.KeyState{tenant.KeyDisabled, tenant.KeyActive, tenant.KeyRevoked} {
			revision := int64(i + 2)
			source.key("slk_1", func(k *catalog.DesiredKey) { k.State, k.Revision = state, revision })
			b.Wake("")
			synctest.Wait()
			if source.readyAt("slk_1") != revision {
				t.Errorf("%s was not reported", state)
			}
			_, err := b.broker.signed("slk_1", "s")
			if in := err == nil; in != (state == tenant.KeyActive) {
				t.Errorf("a key that is %s: let in %v, %v", state, in, err)
			}
		}
	})
}

func TestFleet_changeThatWokeNobodyIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		b := start(t, source, nil)
		source.topic(topicA(1))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if _, ok := b.broker.topic("nsaaaaaa%orders"); !ok {
			t.Error("the poll did not find it")
		}
	})
}

func TestFleet_brokerDownThenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		b := start(t, source, nil)
		b.broker.set(func() { b.broker.down = true })
		source.topic(topicA(1))
		b.Wake("")
		ctx, cancel := context.WithTimeout(b.ctx, 3*time.Second)
		defer cancel()
		if err := b.WaitReady(ctx, catalog.KindTopic, "top_1", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitReady with the broker down: %v", err)
		}
		b.broker.set(func() { b.broker.down = false })
		if err := b.WaitReady(b.ctx, catalog.KindTopic, "top_1", 1); err != nil {
			t.Errorf("after the broker came back: %v", err)
		}
		if b.count(EventFailure) == 0 || b.count(EventFailure) > 8 {
			t.Errorf("%d failing calls in 3 s, want a few", b.count(EventFailure))
		}
	})
}

func TestFleet_refusalMarksFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		b := start(t, source, nil)
		b.broker.set(func() { b.broker.refuse = "nsaaaaaa%orders" })
		source.topic(topicA(1))
		b.Wake("")
		synctest.Wait()
		if source.failure("top_1") == "" {
			t.Error("not marked failed")
		}
		b.broker.set(func() { b.broker.refuse = "" })
		source.topic(topicA(2))
		b.Wake("")
		synctest.Wait()
		if source.readyAt("top_1") != 2 {
			t.Error("the next revision did not become ready")
		}
	})
}

func TestFleet_repairsDriftAndLeavesTheUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		source.topic(topicA(1))
		b := start(t, source, nil)
		b.broker.set(func() {
			changed := b.broker.topics["nsaaaaaa%orders"]
			changed.Perm = 0
			b.broker.topics["nsaaaaaa%orders"] = changed
			b.broker.topics["nsaaaaaa%byhand"] = TopicConfig{Name: "nsaaaaaa%byhand"}
		})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got, _ := b.broker.topic("nsaaaaaa%orders"); got.Perm != 6 {
			t.Errorf("perm %d after the drift check", got.Perm)
		}
		if _, ok := b.broker.topic("nsaaaaaa%byhand"); !ok {
			t.Error("an unknown topic was deleted")
		}
		if b.count(EventDrift) != 1 || b.count(EventQuarantine) != 1 {
			t.Errorf("%d drift, %d quarantine", b.count(EventDrift), b.count(EventQuarantine))
		}
		b.broker.set(func() { delete(b.broker.topics, "nsaaaaaa%orders") })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, ok := b.broker.topic("nsaaaaaa%orders"); !ok {
			t.Error("a deleted topic did not come back")
		}
	})
}

func TestFleet_policyDriftIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		b := start(t, source, nil)
		forged, err := policy.SealSnapshot(b.cfg.SigningKey, "c1", 1000, &policy.Snapshot{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.broker.engine.Apply(forged); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if b.broker.engine.TenantOf("nsaaaaaa") != "ten_a" {
			t.Error("policy was not repaired")
		}
		source.key("slk_9", nil) // and goes on growing from there
		b.Wake("")
		synctest.Wait()
		if source.readyAt("slk_9") != 1 {
			t.Error("later changes do not arrive")
		}
	})
}

func TestFleet_deletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		source.topic(topicA(1))
		b := start(t, source, nil)
		old := topicA(2)
		old.Deleted = true
		source.topic(old)
		again := topicA(1)
		again.ID = "top_2"
		source.topic(again)
		b.Wake("")
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !source.isGone("top_1") || source.readyAt("top_2") != 1 {
			t.Error("the old topic is not gone or the new one not ready")
		}
		if got, _ := b.broker.topic("nsaaaaaa%orders"); got.ID != "top_2" {
			t.Errorf("the broker has %q under the name", got.ID)
		}
	})
}

func TestFleet_restartPushesNothingThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.tenant("ten_a", "nsaaaaaa")
		for i := range 20 {
			source.key(fmt.Sprintf("slk_%d", i), nil)
		}
		b := start(t, source, nil)
		pushes := b.broker.pushed()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if more := b.broker.pushed() - pushes; more != 0 {
			t.Errorf("%d policy pushes without a change", more)
		}
	})
}
