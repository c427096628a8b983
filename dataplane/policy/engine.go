package policy

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config says whose policy an Engine takes and where it keeps it.
type Config struct {
	Dir          string              // folder for policy.bin; made when absent
	Cluster      string              // policy for another cluster is refused
	SystemSecret []byte              // secret of SystemKeyID; also seals policy.bin. At least 16 bytes
	Trusted      []ed25519.PublicKey // who may sign policy; at least one
	Now          func() time.Time
	Logger       *slog.Logger
}

func (c *Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("policy.dir: missing"))
	}
	if c.Cluster == "" {
		errs = append(errs, errors.New("policy.cluster: missing"))
	}
	if len(c.SystemSecret) < 16 {
		errs = append(errs, fmt.Errorf("policy.system_secret: %d bytes, at least 16 needed", len(c.SystemSecret)))
	}
	if len(c.Trusted) == 0 {
		errs = append(errs, errors.New("policy.trusted: no public key to verify policy with"))
	}
	if c.Now == nil || c.Logger == nil {
		errs = append(errs, errors.New("policy: Now and Logger are required"))
	}
	return errors.Join(errs...)
}

// Engine holds the current policy of one process.
type Engine struct {
	cfg    Config
	file   *file
	system *Principal
	nobody *Principal // stands for unknown keys: no signature satisfies it

	current atomic.Pointer[compiled]

	mu       sync.Mutex // serialises Apply; guards onChange
	onChange []func()

	useMu sync.Mutex
	used  []*lastUse // guarded by useMu: those with a use to tell

	denials *denials
}

// Open loads the last good policy from disk. Without one, every request but
// the system's is refused until the first Apply.
func Open(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, cfg.SystemSecret, nil, "sluice policy file", 32)
	if err != nil {
		return nil, fmt.Errorf("derive policy file key: %w", err)
	}
	e := &Engine{cfg: cfg, denials: newDenials(cfg.Now)}
	if e.file, err = newFile(cfg.Dir, key); err != nil {
		return nil, err
	}
	e.nobody = &Principal{engine: e, secret: cfg.SystemSecret, macs: &sync.Pool{}}
	e.system = &Principal{engine: e, id: SystemKeyID, secret: cfg.SystemSecret, macs: &sync.Pool{}, system: true}
	state, err := e.file.load()
	if err != nil {
		cfg.Logger.Error("policy on disk cannot be read in whole; waiting for a new one", "in_force", state != nil, "err", err)
	}
	if e.denials.waiting, err = loadDenials(cfg.Dir, cfg.SystemSecret); err != nil {
		cfg.Logger.Error("what an earlier process denied is not told", "err", err)
	}
	if state == nil {
		state = &savedState{Snapshot: &Snapshot{}}
	}
	e.current.Store(compile(e, state.Revision, state.Snapshot, nil))
	return e, nil
}

// Apply verifies an envelope made by SealSnapshot or SealDelta, keeps it on
// disk, and makes it the policy of every request that begins afterwards. It
// returns the revision in force, also when the envelope was an older one.
// Errors: ErrUntrusted, ErrStale, and decoding or disk failures; the policy in
// force is then unchanged.
func (e *Engine) Apply(raw []byte) (uint64, error) {
	env, err := openEnvelope(e.cfg.Trusted, e.cfg.Cluster, raw)
	if err != nil {
		return e.Revision(), err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.current.Load()
	if env.Revision <= old.revision {
		return old.revision, nil // a repeat or a latecomer: what is in force is newer
	}
	next, err := e.keep(old, env)
	if err != nil {
		return old.revision, err
	}
	e.current.Store(compile(e, env.Revision, next, old))
	for _, f := range e.onChange {
		f()
	}
	return env.Revision, nil
}

// keep returns the snapshot that an envelope leads to, once it is on disk.
func (e *Engine) keep(old *compiled, env *envelope) (*Snapshot, error) {
	switch env.Kind {
	case kindSnapshot:
		var s Snapshot
		if err := json.Unmarshal(env.Payload, &s); err != nil {
			return nil, fmt.Errorf("decode policy snapshot: %w", err)
		}
		return &s, e.file.save(env.Revision, env.Payload)
	case kindDelta:
		if env.Base != old.revision {
			return nil, fmt.Errorf("%w: base %d, current %d", ErrStale, env.Base, old.revision)
		}
		var d Delta
		if err := json.Unmarshal(env.Payload, &d); err != nil {
			return nil, fmt.Errorf("decode policy delta: %w", err)
		}
		next := old.snapshot.apply(&d)
		return next, e.file.append(env, next)
	}
	return nil, fmt.Errorf("policy envelope of unknown kind %q", env.Kind)
}

// Close waits until nothing is written any more, and keeps what was denied for the
// next start. Nobody may call Apply afterwards; what is in force still answers.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.file.close(), e.keepDenials())
}

// Revision returns the revision in force; 0 before the first policy.
func (e *Engine) Revision() uint64 { return e.current.Load().revision }

// Hash identifies the content in force, for comparing processes.
func (e *Engine) Hash() string { return e.current.Load().hash() }

// OnChange registers f to be called after each applied revision, one call at a
// time, under Apply. f must not block and must not call Apply.
func (e *Engine) OnChange(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onChange = append(e.onChange, f)
}

// TenantOf returns the tenant of a namespace, "" for an unknown one.
func (e *Engine) TenantOf(namespaceID string) string {
	return e.current.Load().snapshot.Namespaces[namespaceID].TenantID
}

// System returns the principal of Sluice itself, for calls that begin inside
// the process.
func (e *Engine) System() *Principal { return e.system }
