package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

const (
	defaultReadMessages = 32
	defaultReadBytes    = 256 << 10
	maxReadMessages     = 4096
	maxReadBytes        = 128 << 20
	scanUnits           = 800     // units that one Read looks at, at least
	spanGap             = 4 << 10 // foreign bytes that one read may pass over
	spanBytes           = 1 << 20 // one read takes at most so much
	maxKeptRead         = 4 << 20 // larger buffers are not used again
)

// readBuffers is the reusable memory of one Read.
type readBuffers struct {
	s       *Store
	units   []queuelog.Unit // window of the queue
	wanted  []queuelog.Unit
	places  []int64 // queue offsets of wanted; none in a batch consume queue
	records [][]byte
	data    []byte
}

// size is the bytes of the records.
func (bufs *readBuffers) size() (n int64) {
	for _, rec := range bufs.records {
		n += int64(len(rec))
	}
	return n
}

// Release gives the memory of Records back; neither they nor the batch may be
// used again. A batch that is not released is left to the garbage collector.
func (b *Batch) Release() {
	bufs := b.bufs
	if bufs == nil {
		return
	}
	b.bufs, b.Records = nil, nil
	clear(bufs.records)
	if cap(bufs.data) <= maxKeptRead {
		bufs.s.reads.Put(bufs)
	}
}

// Read returns records of a queue from offset on, as many as o allows. What
// was deleted or lost is passed over. The error is ErrClosed, ErrBuilding or
// one of the file system; everything else is a status.
func (s *Store) Read(topic string, queueID int32, offset int64, o ReadOptions) (Batch, error) {
	if s.closed.Load() {
		return Batch{}, ErrClosed
	}
	q := s.findQueue(topic, queueID)
	if q == nil {
		if batch := s.findBatch(topic, queueID); batch != nil {
			return s.readBatch(batch, topic, queueID, offset, o)
		}
		return Batch{Status: ReadNoQueue}, nil
	}
	if q.building.Load() {
		return Batch{}, q.busy()
	}
	b := Batch{Next: offset}
	b.Min, b.Max = q.log.Range()
	if b.edge(offset) {
		return b, nil
	}
	o.limit()
	began := s.now()
	bufs := s.takeReadBuffers()
	b.bufs = bufs
	removed, err := s.choose(q, &b, o)
	if err == nil {
		cold, wait := s.chill(&b, &o)
		if wait > 0 {
			b.Release()
			b.Status, b.Next, b.Wait = ReadLater, offset, wait
			return b, nil
		}
		var lost bool
		lost, err = s.fetch(q, bufs)
		s.warm(q, cold, bufs)
		removed = removed || lost
	}
	if err != nil {
		b.Release()
		return Batch{}, fmt.Errorf("read %s queue %d at %d: %w", topic, queueID, offset, err)
	}
	s.metrics.read.observe(s.now().Sub(began), bufs.size())
	b.finish(removed)
	return b, nil
}

// edge tells whether there is nothing to read at an offset, and says why.
func (b *Batch) edge(offset int64) bool {
	switch {
	case b.Max == 0:
		b.Status, b.Next = ReadNoQueue, 0
	case offset == b.Max:
		b.Status = ReadNotFound
	case offset > b.Max:
		b.Status, b.Next = ReadOffsetTooBig, b.Max
	case offset < b.Min:
		b.Status, b.Next = ReadOffsetTooSmall, b.Min
	default:
		return false
	}
	return true
}

// finish takes the records that were read, or says why there are none.
func (b *Batch) finish(removed bool) {
	b.Records = b.bufs.records
	switch {
	case len(b.Records) > 0:
		return
	case removed:
		b.Status = ReadRemoved
	default:
		b.Status = ReadNoMatch
	}
	b.Release()
}

func (s *Store) takeReadBuffers() *readBuffers {
	bufs, ok := s.reads.Get().(*readBuffers)
	if !ok {
		bufs = &readBuffers{s: s}
	}
	bufs.wanted, bufs.places, bufs.records = bufs.wanted[:0], bufs.places[:0], bufs.records[:0]
	return bufs
}

// limit fills in what was left out and cuts what is too much.
func (o *ReadOptions) limit() {
	if o.MaxMessages <= 0 {
		o.MaxMessages = defaultReadMessages
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultReadBytes
	}
	o.MaxMessages, o.MaxBytes = min(o.MaxMessages, maxReadMessages), min(o.MaxBytes, maxReadBytes)
}

// choose collects the units of the records to return and sets b.Next.
func (s *Store) choose(q *queue, b *Batch, o ReadOptions) (removed bool, err error) {
	logMin, _ := s.clog.Range()
	bufs := b.bufs
	total := 0
	for budget := max(scanUnits, o.MaxMessages); budget > 0 && b.Next < b.Max; {
		want := budget
		if o.Match == nil {
			want = min(want, o.MaxMessages-len(bufs.wanted))
		}
		if bufs.units, err = q.log.Read(bufs.units[:0], b.Next, want); err != nil {
			if errors.Is(err, queuelog.ErrDamaged) {
				s.suspect(q, b.Next)
				err = q.busy()
			}
			return removed, err
		}
		if len(bufs.units) == 0 {
			// The file went away between Range and Read.
			lo, _ := q.log.Range()
			b.Next = max(b.Next, min(lo, b.Max))
			return true, nil
		}
		for _, u := range bufs.units {
			switch {
			case u.Blank() || u.Offset < logMin && u.Size >= message.MinRecordBytes:
				removed = true
			case u.Size < message.MinRecordBytes:
				s.suspect(q, b.Next)
				removed = true
			case o.Match != nil && !o.Match(s.tagsOf(q, u)):
			case u.Size > maxKeptRead && !s.sized(u):
				removed = true
			case len(bufs.wanted) > 0 && total+int(u.Size) > o.MaxBytes:
				return removed, nil
			default:
				bufs.wanted, bufs.places = append(bufs.wanted, u), append(bufs.places, b.Next)
				total += int(u.Size)
			}
			b.Next++
			if len(bufs.wanted) >= o.MaxMessages {
				return removed, nil
			}
		}
		budget -= len(bufs.units)
	}
	return removed, nil
}

// sized tells whether the record of a unit has the size that the unit says,
// before that much memory is taken for it.
func (s *Store) sized(u queuelog.Unit) bool {
	var head [message.BlankBytes]byte
	if s.clog.ReadAt(head[:], u.Offset) != nil {
		return false
	}
	size, _, _ := message.Head(head[:])
	return size == u.Size && int64(size) <= s.clog.SegmentEnd(u.Offset)-u.Offset
}

// fetch reads the records of bufs.wanted. Neighbours in the commit log are
// read at once. It reports whether records were missing.
func (s *Store) fetch(q *queue, bufs *readBuffers) (lost bool, err error) {
	need, at := 0, 0
	s.spans(bufs.wanted, func(span []queuelog.Unit, size int) { need += size })
	if cap(bufs.data) < need {
		bufs.data = make([]byte, need+need/8)
	}
	data := bufs.data[:need]
	s.spans(bufs.wanted, func(span []queuelog.Unit, size int) {
		buf := data[:size:size]
		data = data[size:]
		first := at
		at += len(span)
		rerr := s.clog.ReadAt(buf, span[0].Offset)
		if rerr != nil && !errors.Is(rerr, commitlog.ErrNotFound) {
			err = rerr
		}
		if rerr != nil {
			lost = true
			return
		}
		for i, u := range span {
			from := u.Offset - span[0].Offset
			rec := buf[from : from+int64(u.Size) : from+int64(u.Size)]
			f, verr := message.Verify(rec)
			if verr == nil && (f.Size != u.Size || f.PhysicalOffset != u.Offset) {
				verr = fmt.Errorf("queue entry for offset %d, size %d: %w", u.Offset, u.Size, ErrCorrupt)
			}
			if verr != nil {
				if s.metrics.holes.add(u.Offset) {
					s.happened(RecordDamaged{u.Offset, verr})
				}
				lost = true
				continue
			}
			if q != nil && string(f.Topic) != q.topic && !lightQueue(q, &f) {
				// Entries have no checksum: this one is damaged.
				s.suspect(q, bufs.places[first+i])
				lost = true
				continue
			}
			if len(bufs.places) > 0 && (f.QueueOffset != bufs.places[first+i] || f.QueueID != q.id) {
				s.mend(q, rec, &f, bufs.places[first+i])
			}
			bufs.records = append(bufs.records, rec)
		}
	})
	return lost, err
}

// lightQueue tells whether a record of another topic says that it is in this
// queue, too.
func lightQueue(q *queue, f *message.Fields) bool {
	names, _ := message.FindProperty(f.Properties, message.KeyMultiDispatch)
	for len(names) > 0 {
		name, rest, _ := bytes.Cut(names, []byte(","))
		if string(name) == q.topic {
			return true
		}
		names = rest
	}
	return false
}

// mend gives a record in the memory of a read the place that its entry has in
// the queue. Its own has no checksum, and clients commit what they find there.
// Records of light queues belong to another topic and keep theirs.
func (s *Store) mend(q *queue, rec []byte, f *message.Fields, offset int64) {
	if string(f.Topic) != q.topic {
		return
	}
	if !q.mended.Swap(true) {
		s.happened(PlaceDiffers{Topic: q.topic, Queue: q.id, Offset: offset, NamedQueue: f.QueueID, NamedOffset: f.QueueOffset, Physical: f.PhysicalOffset})
	}
	message.PutQueue(rec, q.id, offset)
}

// spans cuts units into runs that one read covers.
func (s *Store) spans(units []queuelog.Unit, visit func(span []queuelog.Unit, size int)) {
	for len(units) > 0 {
		n, end := 1, units[0].Offset+int64(units[0].Size)
		for n < len(units) {
			u := units[n]
			if u.Offset < end || u.Offset-end > spanGap || u.Offset+int64(u.Size)-units[0].Offset > spanBytes ||
				u.Offset/s.cfg.SegmentBytes != units[0].Offset/s.cfg.SegmentBytes {
				break
			}
			end = u.Offset + int64(u.Size)
			n++
		}
		visit(units[:n], int(end-units[0].Offset))
		units = units[n:]
	}
}

// ReadAt returns a copy of the record that starts at a commit log offset. The
// error is ErrNotFound when none does.
func (s *Store) ReadAt(physicalOffset int64) ([]byte, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	missing := func(err error) error {
		if err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, commitlog.ErrNotFound) {
			return fmt.Errorf("offset %d: %w", physicalOffset, ErrNotFound)
		}
		return err
	}
	if physicalOffset < 0 {
		return nil, missing(nil)
	}
	var head [message.BlankBytes]byte
	if err := s.clog.ReadAt(head[:], physicalOffset); err != nil {
		return nil, missing(err)
	}
	size, magic, _ := message.Head(head[:])
	if size < message.MinRecordBytes || int64(size) > s.cfg.SegmentBytes || magic != message.MagicV1 && magic != message.MagicV2 {
		return nil, missing(nil)
	}
	rec := make([]byte, size)
	if err := s.clog.ReadAt(rec, physicalOffset); err != nil {
		return nil, missing(err)
	}
	f, err := message.Verify(rec)
	if err != nil || f.PhysicalOffset != physicalOffset {
		return nil, missing(err)
	}
	return rec, nil
}

// QueueOffsets returns the first readable offset of a queue and the one behind
// its last message; 0, 0 for a queue that is not there.
func (s *Store) QueueOffsets(topic string, queueID int32) (min, max int64) {
	if q := s.findQueue(topic, queueID); q != nil {
		if q.building.Load() {
			return q.low, q.seq.Next()
		}
		return q.log.Range()
	}
	if q := s.findBatch(topic, queueID); q != nil {
		return q.Range()
	}
	return 0, 0
}

// OffsetByTime returns the queue offset for a store time in ms; 0 for a queue
// that is not there.
func (s *Store) OffsetByTime(topic string, queueID int32, ms int64, b Boundary) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	q := s.findQueue(topic, queueID)
	if q == nil {
		if batch := s.findBatch(topic, queueID); batch != nil {
			return batch.SearchTime(ms, b == BoundaryUpper)
		}
		return 0, nil
	}
	if q.building.Load() {
		return 0, q.busy()
	}
	lo, _ := q.log.Range()
	at, err := q.log.Search(func(u queuelog.Unit) (bool, error) {
		t, ok, err := s.timeNear(u)
		return ok && (t > ms || b == BoundaryLower && t == ms), err
	})
	if err != nil {
		return 0, fmt.Errorf("offset by time of %s queue %d: %w", topic, queueID, err)
	}
	if b == BoundaryUpper {
		at = max(at-1, lo)
	}
	return at, nil
}

// timeNear is storeTime; for a record that is lost, the time of the next one
// in the log, so times never fall. ok is false for what was deleted meanwhile,
// which is older than all that is left.
func (s *Store) timeNear(u queuelog.Unit) (t int64, ok bool, err error) {
	t, err = s.storeTime(u)
	if !errors.Is(err, commitlog.ErrNotFound) && !errors.Is(err, ErrCorrupt) {
		return t, err == nil, err
	}
	next, ok := s.clog.Resync(u.Offset, s.clog.Written())
	if !ok {
		return 0, false, nil
	}
	f, err := s.clog.Peek(next)
	return f.StoreTimestamp, err == nil, nil
}

func (s *Store) storeTime(u queuelog.Unit) (int64, error) {
	var head [message.TimeBytes]byte
	if err := s.clog.ReadAt(head[:], u.Offset); err != nil {
		return 0, err
	}
	return message.StoreTime(head[:], u.Offset)
}

// StoreTimeAt returns when the message at a queue offset was stored; false
// when there is none.
func (s *Store) StoreTimeAt(topic string, queueID int32, offset int64) (ms int64, ok bool) {
	if s.closed.Load() {
		return 0, false
	}
	q := s.findQueue(topic, queueID)
	if q == nil {
		return s.batchTimeAt(topic, queueID, offset)
	}
	u, ok, err := q.log.At(offset)
	if err != nil || !ok {
		return 0, false
	}
	ms, err = s.storeTime(u)
	return ms, err == nil
}
