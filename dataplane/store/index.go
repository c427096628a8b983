package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/keyindex"
	"github.com/sluicemq/sluice/dataplane/message"
)

const (
	// MaxFound is how many records one FindByKey returns at most.
	MaxFound = 64
	// maxFoundBytes stops a FindByKey that has a record already: the answer
	// must fit into a frame of 16 MiB.
	maxFoundBytes = 8 << 20
	// maxIndexPending entries are written at once.
	maxIndexPending = 1 << 16
	// finishIndexTime is what a Close gives the index to catch up.
	finishIndexTime = 5 * time.Second
)

// index is the key index and how far it has followed the commit log. It reads
// the log by itself, behind the dispatcher: nobody waits for it but those who
// look for a key.
type index struct {
	files    *keyindex.Index
	secret   []byte  // of keyedHash; nil for RocketMQ's hash
	hasher   keyHash // for whoever follows the log
	unclean  bool    // the last stop was
	repaired bool    // owned by whoever follows the log
	scan     *commitlog.Scanner
	hashes   []int32       // memory of one record, as is hasher
	wake     chan struct{} // somebody waits

	mu    sync.Mutex
	upTo  int64         // the keys of all records in front of it are known
	moved chan struct{} // closed when upTo moves; nil when nobody waits
}

// openIndex opens the index folder. One that cannot be opened is made anew: all
// that is in it can be.
func (s *Store) openIndex(unclean bool) error {
	x := &s.index
	x.unclean, x.wake, x.scan = unclean, make(chan struct{}, 1), s.clog.Scan(0, 0)
	cfg := keyindex.Config{
		Dir: s.indexDir(), Slots: s.cfg.IndexSlots, Entries: s.cfg.IndexEntries, FS: s.fs, Now: s.now, Logger: s.log,
	}
	if !s.cfg.IndexCompatible {
		secret, made, err := s.indexSecret()
		if err == nil && made {
			err = s.fs.RemoveAll(cfg.Dir)
		}
		if err != nil {
			return err
		}
		x.secret = secret
	}
	x.hasher = x.newHasher()
	var err error
	if !s.indexFits() {
		err = fmt.Errorf("%d slots and %d entries are configured, the index was made with %d and %d: %w",
			cfg.Slots, cfg.Entries, s.made.IndexSlots, s.made.IndexEntries, keyindex.ErrDamaged)
	} else if x.files, err = keyindex.Open(cfg); !errors.Is(err, keyindex.ErrDamaged) {
		return err
	}
	s.happened(IndexRemade{err})
	if err := s.fs.RemoveAll(cfg.Dir); err != nil {
		return err
	}
	x.files, err = keyindex.Open(cfg)
	return err
}

func (s *Store) indexDir() string {
	if s.cfg.IndexCompatible {
		return s.path("index")
	}
	return s.path("sluice.index")
}

func (x *index) newHasher() keyHash {
	if x.secret == nil {
		return javaHash{}
	}
	return &keyedHash{secret: x.secret}
}

// maxIndexKeys is how many keys of one message are indexed.
const maxIndexKeys = 128

// keyHashes sets hashes to those of one record. RocketMQ's index has an entry
// for every word, whatever their number and how often it comes.
func (x *index) keyHashes(f *message.Fields) {
	x.hashes = x.hashes[:0]
	if id, _ := message.FindProperty(f.Properties, message.KeyUniqueKey); len(id) > 0 {
		x.addHash(f.Topic, id, false)
	}
	words, _ := message.FindProperty(f.Properties, message.KeyKeys)
	for len(words) > 0 {
		var word []byte
		if word, words, _ = bytes.Cut(words, []byte{' '}); len(word) > 0 {
			x.addHash(f.Topic, word, false)
		}
	}
	if tags, _ := message.FindProperty(f.Properties, message.KeyTags); len(tags) > 0 {
		x.addHash(f.Topic, tags, true)
	}
}

func (x *index) addHash(topic, key []byte, tag bool) {
	h := x.hasher.hash(topic, key, tag)
	if x.secret != nil && (slices.Contains(x.hashes, h) || len(x.hashes) >= maxIndexKeys && !tag) {
		return
	}
	x.hashes = append(x.hashes, h)
}

func (x *index) close() error {
	if x.files == nil {
		return nil
	}
	return x.files.Close()
}

func (x *index) syncedTime() int64 {
	return x.files.SyncedTime()
}

// indexLoop follows the commit log every QueueFlush, and at once when somebody
// waits. It ends with ctx.
func (s *Store) indexLoop(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.QueueFlush)
	defer tick.Stop()
	for {
		if err := s.indexTo(ctx, s.visible()); err != nil && ctx.Err() == nil {
			// The log is still there: the next round goes on where this one stopped.
			s.happened(IndexFailed{err})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.index.wake:
		case <-tick.C:
		}
	}
}

// indexTo brings the keys of all records in front of the commit log offset to
// into the files, and deletes files that are of no use any more.
func (s *Store) indexTo(ctx context.Context, to int64) error {
	x := &s.index
	if !x.repaired {
		if err := x.files.Repair(!x.unclean, s.checkpoint.get().index, s.clog.Written()); err != nil {
			return err
		}
		if err := s.mendIndex(ctx); err != nil {
			return err
		}
		x.repaired = true
		x.mu.Lock()
		x.upTo = x.files.Resume()
		x.mu.Unlock()
	}
	first, _ := s.clog.Range()
	from := max(x.upTo, first)
	if from >= to {
		x.advance(from) // to where the log begins, when nothing is in it
		return nil
	}
	x.scan.Reset(from, to)
	reached := from
	err := s.scan(ctx, x.scan, func(off int64, f *message.Fields, _ []byte) error {
		if f.SysFlag&message.SysFlagTransaction != message.SysFlagRollback {
			x.keyHashes(f)
			if err := x.files.Put(off, f.StoreTimestamp, x.hashes); err != nil {
				return err
			}
		}
		reached = off + int64(f.Size)
		if x.files.Pending() > maxIndexPending {
			return x.files.Flush()
		}
		return nil
	})
	if err == nil {
		err = x.files.Flush()
	}
	if err == nil {
		err = x.files.Expire(first)
	}
	if err != nil {
		to = reached // entries that could not be written stay in memory
	}
	x.advance(to)
	return err
}

// advance lets those go on who wait for the keys in front of a commit log offset.
func (x *index) advance(to int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if to > x.upTo {
		x.upTo = to
		if x.moved != nil {
			close(x.moved)
			x.moved = nil
		}
	}
}

// mendIndex makes the index anew when a file of it is missing: the first
// record with keys, and the one behind the last of each file, must be in the
// next file. What is behind the newest file follows anyway.
func (s *Store) mendIndex(ctx context.Context) error {
	x := &s.index
	from, _ := s.clog.Range()
	skip := int64(-1)
	for _, span := range x.files.Spans() {
		if span.Last < from {
			continue // expired meanwhile
		}
		at, ok, err := s.firstKey(ctx, from, skip, min(span.First, s.clog.Written()))
		if err != nil {
			return err
		}
		if ok {
			s.happened(IndexRemade{fmt.Errorf("a file with the record at %d is missing", at)})
			return x.files.Clear()
		}
		from, skip = span.Last, span.Last
	}
	return nil
}

// firstKey finds the first record with keys from one commit log offset to
// another, but for the one at skip.
func (s *Store) firstKey(ctx context.Context, from, skip, to int64) (at int64, found bool, err error) {
	errFound := errors.New("found")
	if from >= to {
		return 0, false, nil
	}
	err = s.scan(ctx, s.clog.Scan(from, to), func(off int64, f *message.Fields, _ []byte) error {
		if off == skip || f.SysFlag&message.SysFlagTransaction == message.SysFlagRollback {
			return nil
		}
		if s.index.keyHashes(f); len(s.index.hashes) > 0 {
			at = off
			return errFound
		}
		return nil
	})
	if err == errFound {
		return at, true, nil
	}
	return 0, false, err
}

// finishIndex completes and syncs the index of a store that stops. What is far
// behind goes on with the next start.
func (s *Store) finishIndex() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishIndexTime)
	defer cancel()
	err := s.indexTo(ctx, s.clog.Written())
	if errors.Is(err, context.DeadlineExceeded) {
		s.happened(IndexIncomplete{UpTo: s.index.upTo, LogEnd: s.clog.Written()})
		err = nil
	}
	return errors.Join(err, s.index.files.Sync())
}

// awaitIndex blocks until all records in front of the commit log offset to are
// in the index.
func (s *Store) awaitIndex(ctx context.Context, to int64) error {
	x := &s.index
	for {
		x.mu.Lock()
		upTo := x.upTo
		if upTo >= to {
			x.mu.Unlock()
			return nil
		}
		if x.moved == nil {
			x.moved = make(chan struct{})
		}
		moved := x.moved
		x.mu.Unlock()
		poke(x.wake)
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("keys are known up to %d of %d bytes of the commit log: %w", upTo, to, ErrIndexing)
		}
	}
}

// KeyKind says what a KeyQuery compares its key with.
type KeyKind uint8

// The kinds of keys.
const (
	KeyAny    KeyKind = iota // the unique id or a word of KEYS
	KeyUnique                // UNIQ_KEY, which the client gave the message
	KeyWord                  // a word of KEYS
	KeyTag                   // the whole TAGS
)

// KeyQuery asks for the messages of a topic that have a key.
type KeyQuery struct {
	Topic, Key string
	Kind       KeyKind
	From, To   int64 // store times in ms, both included
	Before     int64 // only records in front of this commit log offset; 0 for all
	Max        int   // newest records to return, 1 to MaxFound
}

// FindByKey returns copies of the records that a query asks for, in the order
// of the commit log: the newest ones when there are more than may be returned.
// Everything that was acknowledged before the call is found; ErrIndexing when
// ctx ends before that can be said.
func (s *Store) FindByKey(ctx context.Context, q KeyQuery) ([][]byte, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if err := s.awaitIndex(ctx, s.visible()); err != nil {
		return nil, err
	}
	hash := s.index.newHasher().hash([]byte(q.Topic), []byte(q.Key), q.Kind == KeyTag)
	q.From = max(q.From, 0)
	if q.Before <= 0 {
		q.Before = math.MaxInt64
	}
	var found [][]byte
	total := 0
	err := s.index.files.Find(ctx, hash, q.From, q.To, func(off int64) (bool, error) {
		if off >= q.Before {
			return true, nil
		}
		rec, err := s.ReadAt(off)
		if errors.Is(err, ErrNotFound) {
			return true, nil // expired
		}
		if err != nil {
			return false, err
		}
		f, err := message.Parse(rec)
		if err != nil || !s.hasKey(off, &f, &q) {
			return true, nil
		}
		if total += len(rec); len(found) > 0 && total > maxFoundBytes {
			return false, nil
		}
		found = append(found, rec)
		return len(found) < min(q.Max, MaxFound), ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("find messages by key: %w", err)
	}
	slices.Reverse(found)
	return found, nil
}

// hasKey tells whether a record is what was asked for: the index knows hashes
// only.
func (s *Store) hasKey(off int64, f *message.Fields, q *KeyQuery) bool {
	if string(f.Topic) != q.Topic || f.StoreTimestamp < q.From || f.StoreTimestamp > q.To || s.deleted.has(f.Topic, off) {
		return false
	}
	is := func(property string) bool {
		v, ok := message.FindProperty(f.Properties, property)
		return ok && string(v) == q.Key
	}
	switch q.Kind {
	case KeyTag:
		return is(message.KeyTags)
	case KeyAny, KeyUnique:
		if is(message.KeyUniqueKey) {
			return true
		}
		if q.Kind == KeyUnique {
			return false
		}
	}
	for word := range message.Words(f.Properties) {
		if bytes.Equal(word, []byte(q.Key)) {
			return true
		}
	}
	return false
}
