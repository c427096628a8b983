// Package meter counts what tenants use, exactly: every stored message, every
// delivery, every call, over any number of kill -9.
//
// There are two kinds of numbers. Ingress (messages and bytes in) is a fold
// over the commit log: what is stored is counted, and after any crash the fold
// goes on from its checkpoint to the recovered end, so nothing acknowledged is
// lost or counted twice. Everything else (egress, calls, integrals over time)
// has no log record and lives in a memory-mapped counter file, counted before
// the reply leaves; the mapping survives the process because the pages belong
// to the kernel.
//
// Numbers leave as reports of cumulative values per source, minute and cell.
// Values only grow within a minute, so a receiver that keeps the maximum may
// see any report lost, repeated or reordered. A minute is dropped here only
// after the receiver acknowledged it as sealed.
//
// The package does not know prices, tenants or the control plane. Counting
// methods may be called by any number of goroutines.
package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Counter numbers the values of a cell. The order is part of the file format:
// new ones are added at the end.
type Counter int

// The counters. Units are billable units of 4 KiB and 64 KiB, at least one a
// message, counted per message because sums cannot be rounded later.
const (
	MessagesIn Counter = iota
	BytesIn
	Units4In
	Units64In
	MessagesOut
	BytesOut
	Units4Out
	Units64Out
	Calls
	EmptyPolls
	ConnectionMillis
	StoredByteMillis // integral of logically retained bytes over time
	Rejected
	counterCount
)

var counterNames = [counterCount]string{
	"messages_in", "bytes_in", "units4k_in", "units64k_in", "messages_out", "bytes_out", "units4k_out", "units64k_out",
	"api_calls", "empty_polls", "connection_ms", "byte_ms_stored", "rejected",
}

// String returns the counter's name in reports.
func (c Counter) String() string { return counterNames[c] }

// Values are the counters of one cell in one minute.
type Values [counterCount]uint64

// Protocols and classes of a cell; one byte each, part of the file format.
const (
	ProtocolRemoting = 'r'
	ProtocolGRPC     = 'g'
	ProtocolHTTP     = 'h'

	ClassNormal        = 'n'
	ClassOrdered       = 'o'
	ClassDelayed       = 'd'
	ClassTransactional = 't'
)

// Cell is what a count belongs to. Names are bare; the namespace's id makes
// them unique. Fields that do not apply are empty or zero.
type Cell struct {
	NamespaceID string
	Topic       string
	Group       string
	KeyID       string
	Class       byte
	Protocol    byte
}

// Config of a Meter.
type Config struct {
	Dir       string           // folder of the counter files and the checkpoint
	Broker    string           // name in reports
	Secret    []byte           // key of the reports' HMAC
	Retention time.Duration    // how long a stored message counts as stored
	LogEnd    func() int64     // end of the readable commit log; asked from the first Tick on
	Now       func() time.Time // wall clock
	Logger    *slog.Logger
	// KeyUses, if set, returns the keys used since it was called last, for the
	// reports.
	KeyUses func() []KeyUse
}

// Meter counts for one broker.
type Meter struct {
	cfg    Config
	fold   *fold
	egress *counterFile

	mu       sync.Mutex // guards everything below
	adopted  []*deadFile
	sequence uint64
	sent     map[uint64]map[string]int64 // by sequence: sealed-through minute of each source
	uses     keyUses

	connMu sync.Mutex
	conns  map[Cell]int64 // open connections

	ticked time.Time // Run only: when integrals were last brought up to date
}

// Open adopts what dead processes left in cfg.Dir and starts a new counter
// file. The caller runs Run and, after it ended, calls Close.
func Open(cfg Config) (*Meter, error) {
	if cfg.Dir == "" || cfg.Broker == "" || len(cfg.Secret) == 0 || cfg.LogEnd == nil || cfg.Now == nil || cfg.Logger == nil {
		return nil, errors.New("meter: Dir, Broker, Secret, LogEnd, Now and Logger are required")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make meter folder: %w", err)
	}
	f, err := openFold(cfg)
	if err != nil {
		return nil, err
	}
	m := &Meter{cfg: cfg, fold: f, sent: map[uint64]map[string]int64{}, conns: map[Cell]int64{}}
	paths, err := filepath.Glob(filepath.Join(cfg.Dir, "*"+counterSuffix))
	if err != nil {
		return nil, fmt.Errorf("list counter files: %w", err)
	}
	for _, path := range paths {
		dead, err := adopt(path)
		if err != nil {
			cfg.Logger.Error("counter file cannot be adopted; it is left in place", "path", path, "err", err)
			continue
		}
		m.adopted = append(m.adopted, dead)
	}
	if m.egress, err = createCounterFile(cfg.Dir, minuteOf(cfg.Now())); err != nil {
		return nil, err
	}
	return m, nil
}

// minuteOf numbers minutes since 1970.
func minuteOf(t time.Time) int64 { return t.UnixMilli() / int64(time.Minute/time.Millisecond) }

// Run brings integrals up to date, seals minutes and saves the checkpoint,
// until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	m.ticked = m.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			m.Tick()
			return ctx.Err()
		case <-tick.C:
			m.Tick()
		}
	}
}

// Tick does what Run does every second. It is exported for tests that own the
// clock; it must not be called while Run runs.
func (m *Meter) Tick() {
	now := m.cfg.Now()
	if elapsed := now.Sub(m.ticked); !m.ticked.IsZero() && elapsed > 0 && elapsed < time.Minute {
		m.integrate(uint64(elapsed.Milliseconds()))
	}
	m.ticked = now
	m.egress.rotate(minuteOf(now))
	if err := m.egress.sync(); err != nil {
		m.cfg.Logger.Error("counter file cannot be synced", "err", err)
	}
	if err := m.fold.seal(minuteOf(now), m.cfg.LogEnd()); err != nil {
		m.cfg.Logger.Error("meter checkpoint cannot be saved", "err", err)
	}
}

// integrate adds elapsed milliseconds to the integrals over time.
func (m *Meter) integrate(ms uint64) {
	m.connMu.Lock()
	for cell, open := range m.conns {
		m.add(cell, ConnectionMillis, uint64(open)*ms)
	}
	m.connMu.Unlock()
	for _, t := range m.fold.retained() {
		m.add(Cell{NamespaceID: t.namespaceID, Topic: t.topic}, StoredByteMillis, t.bytes*ms)
	}
}

// add counts one value; a failure to get room for a new cell is logged, since
// the caller's reply must not fail for it.
func (m *Meter) add(cell Cell, c Counter, n uint64) {
	var v Values
	v[c] = n
	m.Add(cell, &v)
}

// Add counts v for cell in the current minute, before it returns.
func (m *Meter) Add(cell Cell, v *Values) {
	if err := m.egress.add(cell, v); err != nil {
		m.cfg.Logger.Error("usage could not be counted", "namespace", cell.NamespaceID, "err", err)
	}
}

// Connected counts an open connection until the returned function is called.
func (m *Meter) Connected(cell Cell) (closed func()) {
	change := func(n int64) {
		m.connMu.Lock()
		defer m.connMu.Unlock()
		if m.conns[cell] += n; m.conns[cell] == 0 {
			delete(m.conns, cell)
		}
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

// FoldFrom is the commit-log offset from which Fold must be called.
func (m *Meter) FoldFrom() int64 { return m.fold.from() }

// Fold counts one stored record; the store calls it once for each record in
// log order, after every restart from FoldFrom on, or from the log's end if
// that lies before. rec is not kept.
func (m *Meter) Fold(offset int64, rec []byte) { m.fold.apply(offset, rec) }

// Close saves the fold's checkpoint and unmaps the counter file, which the next
// Open adopts.
func (m *Meter) Close() error {
	return errors.Join(m.fold.save(), m.egress.close())
}
