package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// The file queues.state says what each queue held when the queues were last
// synced, so that one whose files are gone afterwards is missed. Other readers
// of the folder do not know it; without it nothing is checked.
//
//	+---------------+-------------------------------------------+-----------+
//	| "SLQSTAT" 0x01| entries                                   | CRC32 u32 |
//	+---------------+-------------------------------------------+-----------+
//	entry = topic length u16 | topic | queue i32
//	      | low i64  | commit log offset of the unit there i64
//	      | next i64 | commit log offset behind the last unit i64
//
// All integers are big-endian; the CRC (IEEE) is over everything before it.
const (
	queueStateFile  = "queues.state"
	queueStateMagic = "SLQSTAT\x01"
)

var errQueueState = errors.New("queue state file is damaged or of another version")

type queueState struct {
	topic     string
	id        int32
	low       int64
	lowOffset int64
	next      int64
	end       int64
}

// queueStates describes all queues that hold something, in order.
func (s *Store) queueStates() []queueState {
	var out []queueState
	for _, q := range s.allQueues() {
		// The range first: an append in between makes the end later, which
		// only makes a recovery more careful.
		low, next := q.log.Range()
		if next == low {
			continue
		}
		st := queueState{topic: q.topic, id: q.id, low: low, lowOffset: -1, next: next, end: q.log.End()}
		if q.seen.low != low || !q.seen.known {
			// One that cannot be read, such as of a topic that is being
			// deleted, is not told of.
			if u, ok, err := q.log.At(low); err == nil && ok {
				q.seen.known, q.seen.low, q.seen.offset = true, low, u.Offset
			}
		}
		if q.seen.known && q.seen.low == low {
			st.lowOffset = q.seen.offset
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b queueState) int { return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id)) })
	return out
}

// saveQueueStates writes the file unless nothing was dispatched or expired
// since the last time. One goroutine at a time calls it.
func (s *Store) saveQueueStates() error {
	b := []byte(queueStateMagic)
	for _, st := range s.queueStates() {
		b = binary.BigEndian.AppendUint16(b, uint16(len(st.topic)))
		b = append(b, st.topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(st.id))
		for _, n := range []int64{st.low, st.lowOffset, st.next, st.end} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
	}
	sum := crc32.ChecksumIEEE(b)
	if s.stateSum.known && s.stateSum.sum == sum {
		return nil
	}
	name := s.path(queueStateFile)
	if err := vfs.WriteFile(s.fs, name+".tmp", binary.BigEndian.AppendUint32(b, sum)); err != nil {
		return err
	}
	if err := errors.Join(s.fs.Rename(name+".tmp", name), s.fs.SyncDir(s.cfg.Dir)); err != nil {
		return err
	}
	s.stateSum.known, s.stateSum.sum = true, sum
	return nil
}

// loadQueueStates returns nil when there is no file.
func (s *Store) loadQueueStates() ([]queueState, error) {
	b, err := vfs.ReadFile(s.fs, s.path(queueStateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body := len(b) - 4
	if body < len(queueStateMagic) || string(b[:len(queueStateMagic)]) != queueStateMagic || crc32.ChecksumIEEE(b[:body]) != binary.BigEndian.Uint32(b[body:]) {
		return nil, errQueueState
	}
	var out []queueState
	const numbers = 4 + 4*8
	for b = b[len(queueStateMagic):body]; len(b) > 0; {
		n := 2
		if len(b) >= 2 {
			n += int(binary.BigEndian.Uint16(b))
		}
		if len(b) < n+numbers {
			return nil, errQueueState
		}
		st := queueState{topic: string(b[2:n]), id: int32(binary.BigEndian.Uint32(b[n:]))}
		for i, p := range []*int64{&st.low, &st.lowOffset, &st.next, &st.end} {
			*p = int64(binary.BigEndian.Uint64(b[n+4+8*i:]))
		}
		out = append(out, st)
		b = b[n+numbers:]
	}
	return out, nil
}

// missing marks queues that hold less than they did although the commit log
// still has the records. end is the end of the log.
func (r *recovery) missing(states []queueState, end int64) error {
	for _, st := range states {
		if ValidName(st.topic) != nil || st.id < 0 || r.s.deleted.has([]byte(st.topic), st.end-1) {
			continue
		}
		q, err := r.s.makeQueue(st.topic, st.id)
		if err != nil {
			return err
		}
		low, next := q.log.Range()
		head := st.lowOffset >= r.logMin && low > st.low
		tail := st.end > r.logMin && st.end <= end && next < st.next
		if (head || tail) && !r.rebuild[q] {
			r.s.log.Error("consume queue has lost a part and is built anew from the commit log", "topic", q.topic, "queue", q.id,
				"had_from", st.low, "had_to", st.next, "has_from", low, "has_to", next)
			r.rebuild[q] = true
		}
	}
	return nil
}
