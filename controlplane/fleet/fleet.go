// Package fleet makes the data plane what the catalogue says it should be: it
// pushes policy to name servers and brokers, creates and deletes topics and
// groups on brokers, reports back what is done, and repairs what was changed
// by hand.
//
// It is level-triggered: a pass compares what should be with what was last
// made so, whatever the reason for the pass. A lost wake-up or a crash between
// two steps costs a second, never a difference that stays. Nothing on a broker
// that the catalogue does not know is ever deleted.
//
// One goroutine (Run) owns the model and the nodes; Wake and WaitReady may be
// called from anywhere.
package fleet

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/tenant"
)

// Config of a Fleet.
type Config struct {
	Cluster       string             // name that the nodes know themselves by
	Issuer        string             // "iss" of message-path tokens
	SigningKey    ed25519.PrivateKey // signs policy; the nodes trust its public half
	Poll          time.Duration      // how often to look for changes that woke nobody; default 1 s
	DriftInterval time.Duration      // how often to compare nodes with the catalogue; default 10 s
	CallTimeout   time.Duration      // of one call to one node; default 5 s
	Logger        *slog.Logger
	Observe       func(Event) // may be nil
}

// Event is something that operators count.
type Event struct {
	Kind     EventKind
	Node     string
	Object   string // physical name, or "policy"
	Revision uint64
	Err      error
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventPolicy     EventKind = "policy"     // a node has Revision
	EventDrift      EventKind = "drift"      // Object differed on Node and was repaired
	EventQuarantine EventKind = "quarantine" // Object on Node is unknown; left alone
	EventFailure    EventKind = "failure"    // a call to Node failed; it is tried again
)

// Fleet carries desired state to the nodes of one cluster.
type Fleet struct {
	cfg     Config
	source  catalog.Source
	nodes   []*nodeState // name servers first, so that a key works everywhere once it works at a broker
	brokers []*nodeState

	wake chan struct{}

	mu       sync.Mutex // guards seen, reported
	seen     map[seenKey]int64
	reported chan struct{} // closed and replaced at each report

	model    *model              // Run only
	policy   *policy.Snapshot    // Run only: content of revision
	revision uint64              // Run only
	open     map[seenKey]object  // Run only: objects to carry and report
	unknown  map[string]struct{} // Run only: names already reported as quarantined
}

type seenKey struct {
	kind catalog.Kind
	id   tenant.ID
}

// nodeState is a node and what it was last seen to have.
type nodeState struct {
	Node
	broker   Broker // nil for a name server
	revision uint64 // of the policy; 0 when unknown
	delta    []byte // leads from revision to the current policy; nil: send a snapshot
	refusals map[seenKey]error
	pause    time.Duration
	retryAt  time.Time
	topics   map[string]TopicConfig // nil until listed
	groups   map[string]GroupConfig
}

// New makes a Fleet; Run starts it.
func New(cfg Config, source catalog.Source, nameServers []Node, brokers []Broker) *Fleet {
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	if cfg.DriftInterval == 0 {
		cfg.DriftInterval = 10 * time.Second
	}
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = 5 * time.Second
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Event) {}
	}
	f := &Fleet{
		cfg:      cfg,
		source:   source,
		wake:     make(chan struct{}, 1),
		seen:     map[seenKey]int64{},
		reported: make(chan struct{}),
		model:    newModel(),
		policy:   &policy.Snapshot{},
		open:     map[seenKey]object{},
		unknown:  map[string]struct{}{},
	}
	for _, n := range nameServers {
		f.nodes = append(f.nodes, &nodeState{Node: n})
	}
	for _, b := range brokers {
		n := &nodeState{Node: b, broker: b}
		f.nodes = append(f.nodes, n)
		f.brokers = append(f.brokers, n)
	}
	return f
}

// Wake asks for a pass; it never blocks. The namespace is of no matter while
// one goroutine serves all.
func (f *Fleet) Wake(tenant.ID) {
	select {
	case f.wake <- struct{}{}:
	default: // one is asked for already
	}
}

// WaitReady blocks until the object was reported at revision or later, or ctx
// ends.
func (f *Fleet) WaitReady(ctx context.Context, kind catalog.Kind, id tenant.ID, revision int64) error {
	for {
		f.mu.Lock()
		have, next := f.seen[seenKey{kind, id}], f.reported
		f.mu.Unlock()
		if have >= revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// Run makes passes until ctx ends. Errors are logged and tried again; it
// returns ctx's error only.
func (f *Fleet) Run(ctx context.Context) error {
	poll := time.NewTicker(f.cfg.Poll)
	defer poll.Stop()
	drift := time.NewTicker(f.cfg.DriftInterval)
	defer drift.Stop()
	whole := true
	for {
		if err := f.pass(ctx, whole); err != nil && ctx.Err() == nil {
			f.cfg.Logger.Error("fleet pass failed; trying again", "err", err)
		} else {
			whole = false
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		case <-poll.C:
		case <-drift.C:
			f.checkDrift(ctx)
		}
	}
}

// pass reads what changed and carries it to every node that answers.
func (f *Fleet) pass(ctx context.Context, whole bool) error {
	if err := f.read(ctx, whole); err != nil {
		return err
	}
	f.syncPolicy(ctx)
	for _, n := range f.brokers {
		f.syncObjects(ctx, n)
	}
	return f.report(ctx)
}

// changesPerRead bounds one read of the outbox.
const changesPerRead = 1000

// read brings the model up to date and derives the policy from it.
func (f *Fleet) read(ctx context.Context, whole bool) error {
	touched := false
	for {
		var changes []catalog.Change
		var err error
		if !whole {
			if changes, whole, err = f.source.Changes(ctx, f.model.sequence, changesPerRead); err != nil {
				return err
			}
		}
		if whole {
			d, err := f.source.Desired(ctx)
			if err != nil {
				return err
			}
			f.model = newModel()
			f.opened(f.model.merge(d))
			whole, touched = false, true
			continue
		}
		if len(changes) == 0 {
			break
		}
		d, err := f.source.DesiredFor(ctx, changes)
		if err != nil {
			return err
		}
		f.model.drop(changes)
		last := changes[len(changes)-1].Sequence
		d.Sequence = last // later changes are read again: their objects are not in d
		f.opened(f.model.merge(d))
		touched = true
		if len(changes) < changesPerRead {
			break
		}
	}
	if touched {
		next := f.model.snapshot(f.cfg.Issuer)
		if diff(f.policy, next) != nil || f.revision == 0 {
			f.setPolicy(next)
		}
	}
	return nil
}

func (f *Fleet) opened(list []object) {
	for _, o := range list {
		f.open[seenKey{o.kind, o.id}] = o
	}
}

// report tells the source what every node has now.
func (f *Fleet) report(ctx context.Context) error {
	var errs []error
	for key, o := range f.open {
		done, refusal := f.carried(o)
		var err error
		switch {
		case refusal != nil:
			err = f.source.MarkFailed(ctx, o.kind, o.id, o.revision, refusal.Error())
		case !done:
			continue
		case o.deleted:
			if err = f.source.MarkDeleted(ctx, o.kind, o.id); err == nil {
				f.model.forget(o)
			}
		default:
			err = f.source.MarkReady(ctx, o.kind, o.id, o.revision)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		delete(f.open, key)
		f.mu.Lock()
		f.seen[key] = o.revision
		close(f.reported)
		f.reported = make(chan struct{})
		f.mu.Unlock()
	}
	return errors.Join(errs...)
}
