// Package transaction keeps half messages: messages that a producer has sent
// and whose fate it decides later. It stores them out of sight, delivers or
// drops them when the producer says so, and asks a producer of the group when
// nobody says anything.
//
// On disk it is RocketMQ's form, so that either broker goes on with the
// folder of the other: a half message lies in HalfTopic with its real topic in
// properties; one that ended is named in a record of OpTopic; one that was
// asked about too often is copied to GivenUpTopic. FORMAT.md draws all of it
// and the one file of our own.
//
// We differ from RocketMQ in this: asking writes nothing into the log (it
// appends the half message again for every check); a message that was given up
// stays open for a late answer and for people, for as long as the log has it;
// a repeated commit delivers nothing twice, not even over a crash.
//
// The package knows names as they are stored. Who may end what, and how a
// producer is reached, is the caller's work. All methods may be called at the
// same time from anywhere.
package transaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// RocketMQ's names; each topic has one queue, 0.
const (
	HalfTopic    = "RMQ_SYS_TRANS_HALF_TOPIC"
	OpTopic      = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	GivenUpTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	Group        = "CID_RMQ_SYS_TRANS" // its offsets in the first two are the progress
)

// Errors that callers branch on.
var (
	// ErrUnknown means that there is no such half message, or that it is not
	// the caller's.
	ErrUnknown = errors.New("no half message of this group at this place")
	// ErrEnded means that the transaction has ended, and not as asked now.
	ErrEnded = errors.New("the transaction has already ended the other way")
	// ErrTooMany means that the namespace has as many open transactions as it
	// may have.
	ErrTooMany = errors.New("too many open transactions")
)

// Config says when producers are asked.
type Config struct {
	First   time.Duration // age at the first check, unless the message says another
	Period  time.Duration // between two checks
	Checks  int           // after so many without an answer it is given up
	MaxAge  time.Duration // a half message that is older is given up
	MaxOpen int           // open transactions of one namespace
}

// DefaultConfig has RocketMQ's times.
func DefaultConfig() Config {
	return Config{First: 6 * time.Second, Period: 30 * time.Second, Checks: 15, MaxAge: 72 * time.Hour, MaxOpen: 100_000}
}

// Validate reports everything that cannot work, joined.
func (c *Config) Validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{"first": c.First, "period": c.Period, "maxAge": c.MaxAge} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("broker.transactions.%s is %v: must be positive", name, d))
		}
	}
	for name, n := range map[string]int{"checks": c.Checks, "maxOpen": c.MaxOpen} {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("broker.transactions.%s is %d: must be positive", name, n))
		}
	}
	if c.Checks > MaxChecks {
		errs = append(errs, fmt.Errorf("broker.transactions.checks is %d: at most %d", c.Checks, MaxChecks))
	}
	return errors.Join(errs...)
}

// MaxChecks is the largest Config.Checks: the largest count that the marks file has room for.
const MaxChecks = 65_535

// Store is what is needed of package store.
type Store interface {
	Append(ctx context.Context, m *message.Message, d store.Durability) (store.Appended, error)
	Read(topic string, queueID int32, offset int64, o store.ReadOptions) (store.Batch, error)
	ReadAt(physicalOffset int64) ([]byte, error)
	FindByKey(ctx context.Context, q store.KeyQuery) ([][]byte, error)
	QueueOffsets(topic string, queueID int32) (min, max int64)
}

// Progress keeps the offsets of Group in HalfTopic and OpTopic.
type Progress interface {
	// Get returns the saved offset, 0 if there is none.
	Get(topic string) int64
	Set(topic string, offset int64)
}

// Check is a question to a producer: what became of this message?
type Check struct {
	Group, Topic   string // physical; the group is the producer's
	HalfOffset     int64  // in HalfTopic
	PhysicalOffset int64
	UniqueKey      string
	Count          int // number of this check, from 1
	// Message reads the message as its producer sent it, with the place of the
	// half message. The error is ErrUnknown when the log has it no more.
	Message func() (*message.Message, error)
}

// Answer says what became of a question.
type Answer uint8

// The answers.
const (
	Nobody Answer = iota // no producer of the group is there that may see the message
	Asked                // one was asked
	Busy                 // those that are there have no room for more questions now
)

// Deps are what a Coordinator is given; all are required.
type Deps struct {
	Store    Store
	FS       vfs.FS
	Dir      string // of the marks file
	Progress Progress
	Now      func() time.Time
	Logger   *slog.Logger
	Host     netip.AddrPort // that records of our own name
	OwnerKey string         // property that says who was charged; copies do not keep it
	// Topic tells whether a topic exists.
	Topic func(name string) bool
	// Deliver stores a committed message in its topic. With an error it is not
	// stored; the caller of End sees it.
	Deliver func(ctx context.Context, m *message.Message) error
	// Ask puts a question to one producer of the group. It must not block.
	Ask func(Check) Answer
}

// Coordinator keeps the transactions of one broker. Make it with New; it works
// as soon as Tick has run once, which needs a running store.
type Coordinator struct {
	cfg  Config
	deps Deps
	ops  ops

	following sync.Mutex // held while HalfTopic is read; before mu

	mu      sync.Mutex // guards the rest
	loaded  bool
	next    int64         // of HalfTopic: all in front are in the table, or ended
	news    chan struct{} // closed when loaded or next changes, or may change
	waiting int           // callers of await
	ticked  int64         // ms of the clock at the last tick
	t       table
	opsDone opProgress
	marks   *marks
	counts  Counts
}

// New opens the marks file.
func New(cfg Config, deps Deps) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, deps: deps, news: make(chan struct{}), t: newTable()}
	c.ops.c = c
	var err error
	if c.marks, err = openMarks(deps.FS, deps.Dir); err != nil {
		return nil, fmt.Errorf("open transaction marks: %w", err)
	}
	return c, nil
}

// Close writes what is left and closes the marks file. It may be called again.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks.close()
}

// Half tells whether a message is sent as the first half of a transaction.
func Half(m *message.Message) bool {
	if m.SysFlag&message.SysFlagTransaction == message.SysFlagPrepared {
		return true
	}
	v, ok := message.FindProperty(m.Properties, message.KeyTransactionPrepared)
	return ok && string(v) == "true"
}

// Send stores a half message; m is complete as for its real topic and is only
// read. Errors: ErrTooMany and those of the store.
func (c *Coordinator) Send(ctx context.Context, m *message.Message) (store.Appended, error) {
	if c.open(namespaceOf(m.Topic)) >= c.cfg.MaxOpen {
		return store.Appended{}, fmt.Errorf("%w: at most %d", ErrTooMany, c.cfg.MaxOpen)
	}
	parked, err := park(m)
	if err != nil {
		return store.Appended{}, err
	}
	return c.deps.Store.Append(ctx, parked, store.DurabilityDefault)
}

// park is a half message in the form in which it waits: an ordinary record of
// HalfTopic.
func park(m *message.Message) (*message.Message, error) {
	parked := *m
	unique, _ := message.GetProperty(m.Properties, message.KeyUniqueKey)
	p := message.AppendPropertiesWithout(nil, m.Properties, message.KeyRealTopic, message.KeyRealQueueID, message.KeyTransactionID, message.KeyCheckTimes)
	if len(p)+len(m.Topic)+len(unique)+80 > message.MaxPropertiesBytes {
		return nil, fmt.Errorf("a half message needs %d bytes of its properties for its topic: %w", len(m.Topic)+len(unique)+80, store.ErrPropertiesTooLarge)
	}
	p = message.AppendProperty(p, message.KeyTransactionID, unique)
	p = message.AppendProperty(p, message.KeyRealTopic, m.Topic)
	parked.Properties = message.AppendProperty(p, message.KeyRealQueueID, itoa(int64(m.QueueID)))
	parked.Topic, parked.QueueID = HalfTopic, 0
	parked.SysFlag &^= message.SysFlagTransaction
	return &parked, nil
}
