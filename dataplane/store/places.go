package store

import (
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// Place is where a record stands in the commit log.
type Place struct {
	Offset int64
	Size   int32
}

// ReadPlaces returns the records at places, which are best in the order of the
// log: neighbours are read at once. Places without a whole record of their size
// are left out. They are valid until Release. The error is ErrClosed or one of
// the file system.
func (s *Store) ReadPlaces(places []Place) (Batch, error) {
	if s.closed.Load() {
		return Batch{}, ErrClosed
	}
	bufs := s.takeReadBuffers()
	b := Batch{bufs: bufs}
	lo, hi := s.clog.Range()
	for _, p := range places {
		u := queuelog.Unit{Offset: p.Offset, Size: p.Size}
		// A place behind the end must not take its neighbours with it.
		if p.Size < message.MinRecordBytes || p.Offset < lo || p.Offset+int64(p.Size) > min(hi, s.clog.SegmentEnd(p.Offset)) || !s.sized(u) {
			continue
		}
		bufs.wanted = append(bufs.wanted, u)
	}
	if _, err := s.fetch(nil, bufs); err != nil {
		b.Release()
		return Batch{}, err
	}
	b.Records = bufs.records
	return b, nil
}

// Synced returns the commit log offset in front of which everything is on the
// disk.
func (s *Store) Synced() int64 { return s.clog.Flushed() }

// RequestSync has everything that is written synced soon, and does not wait.
func (s *Store) RequestSync() { s.clog.RequestFlush() }

// NewestStoreTime returns the store time of the newest record, ms; 0 when there
// is none.
func (s *Store) NewestStoreTime() int64 { return s.clog.WrittenTime() }

// OnRetain sets who is asked, before files are deleted by age, for the commit
// log offset from which on records are still needed. Neither the limit of size
// nor a disk that is nearly full asks. Call it before Run.
func (s *Store) OnRetain(needed func() int64) { s.needed.Store(&needed) }

// limitByAge is the offset up to which age may delete, given the limit for
// every deletion.
func (s *Store) limitByAge(limit int64) int64 {
	if needed := s.needed.Load(); needed != nil {
		return min(limit, (*needed)())
	}
	return limit
}
