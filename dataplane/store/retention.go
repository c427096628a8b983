package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// Deleting old data. Messages of all topics share the files of the commit log,
// so disk space comes back file by file, the oldest first and never the last:
//
//   - by age: a file unchanged for Config.Retention, at Config.DeleteHours;
//   - by size: while the log is larger than Config.RetentionBytes;
//   - under pressure: while the disk is fuller than Config.DiskCleanRatio,
//     whatever the age and the hour.
//
// What the dispatcher or a fold has not seen stays in any case, what waits for
// its time (OnRetain) stays when it is only old, and nothing else holds a file:
// readers keep the one that they read open, not its name. A topic with
// AttributeReserveTime or AttributeReserveBytes hides its messages earlier: the
// queues' first offsets move, the bytes go with their files.
const maxExpired = 10 // files that one look deletes by age, and as many under pressure

// AttributeReserveTime of a topic is how long its messages can be read, in ms;
// -1 or nothing for as long as they are there.
const AttributeReserveTime = "reserve.time"

// retain looks at the disk and deletes old data.
func (s *Store) retain() error {
	crowded := s.checkDisk()
	now := s.now()
	limit := min(s.dispatched.Load(), s.foldsFrom.Load()) // what nobody has seen yet must stay
	n := 0
	var err error
	believed := s.clock.believe(s, now)
	s.metrics.doubted.Store(!believed)
	if believed && (len(s.cfg.DeleteHours) == 0 || slices.Contains(s.cfg.DeleteHours, now.Hour())) {
		n, err = s.clog.Expire(now.Add(-s.cfg.Retention), s.limitByAge(limit), maxExpired)
	}
	for err == nil && s.cfg.RetentionBytes > 0 && s.logBytes() > s.cfg.RetentionBytes {
		var dropped bool
		if dropped, err = s.clog.DropOldest(limit, commitlog.RemovedBySize); !dropped {
			break
		}
		n++
	}
	for early := 0; err == nil && crowded && early < maxExpired; early++ {
		if n > 0 {
			// What went by age or just now may be enough.
			if crowded = s.checkDisk(); !crowded {
				break
			}
		}
		var dropped bool
		if dropped, err = s.clog.DropOldest(limit, commitlog.RemovedEarly); !dropped {
			break
		}
		n++
	}
	cut, cerr := s.topicBytes.count(s, s.byteLimits())
	err = errors.Join(err, cerr, s.expireQueues(n > 0, cut))
	if n > 0 {
		s.checkDisk()
		first, _ := s.clog.Range()
		s.happened(RetentionRan{Files: n, Bytes: int64(n) * s.cfg.SegmentBytes, First: first})
	}
	return err
}

// logBytes is the size of the commit log on the disk, but for the file that is
// made ahead of need.
func (s *Store) logBytes() int64 { return int64(len(s.clog.Bases())) * s.cfg.SegmentBytes }

// expireQueues moves the first offsets of queues over what is gone: of all of
// them when files went, else of topics with a time or a size of their own, of
// which the latter begin at a commit log offset of cut.
func (s *Store) expireQueues(all bool, cut map[string]int64) error {
	first, _ := s.clog.Range()
	reserve := s.reserveTimes()
	if !all && len(reserve)+len(cut) == 0 {
		return nil
	}
	var errs queuelog.Errors
	for _, q := range s.allQueues() {
		if q.building.Load() {
			continue
		}
		limit := max(first, cut[q.topic])
		if keep, ok := reserve[q.topic]; ok {
			until, err := s.reserved(q, keep)
			errs.Add(err)
			limit = max(limit, until)
		}
		if limit == first && !all {
			continue
		}
		changed, err := q.log.Expire(limit)
		if changed {
			s.touched.touch(q)
		}
		errs.Add(err)
	}
	if all {
		errs.Add(s.eachBatch(func(q *queuelog.Batch) error { return q.Expire(first) }))
		s.deleted.forget(first)
	}
	return errs.Join()
}

// reserveTimes returns the topics that keep messages for a time of their own.
func (s *Store) reserveTimes() map[string]time.Duration {
	var all map[string]time.Duration
	for name, c := range s.topics.state.Load().rows {
		ms, err := strconv.ParseInt(c.Attributes[AttributeReserveTime], 10, 64)
		if err != nil || ms < 0 || ms >= s.cfg.Retention.Milliseconds() {
			continue
		}
		if all == nil {
			all = map[string]time.Duration{}
		}
		all[name] = time.Duration(ms) * time.Millisecond
	}
	return all
}

// reserved returns the commit log offset in front of which messages of a queue
// are older than keep.
func (s *Store) reserved(q *queue, keep time.Duration) (int64, error) {
	oldest := s.now().Add(-keep).UnixMilli()
	at, err := q.log.Search(func(u queuelog.Unit) (bool, error) {
		t, ok, err := s.timeNear(u)
		return ok && t >= oldest, err
	})
	if err != nil {
		return 0, fmt.Errorf("retention of %s queue %d: %w", q.topic, q.id, err)
	}
	u, ok, err := q.log.At(at)
	if err != nil || ok {
		return u.Offset, err
	}
	return q.log.End(), nil
}

// maxClockStep is how far the clock may be ahead of the newest sign of life
// before it is taken for wrong.
const maxClockStep = 30 * 24 * time.Hour

// clockWatch keeps a wrong clock from deleting what is not old. It belongs to
// whoever calls retain.
type clockWatch struct {
	seen   time.Time // the newest time that is believed
	doubt  time.Time // since when the clock is not believed; zero while it is
	behind bool      // it was told that the clock is behind
}

// believe tells whether ages may be counted from now. A clock that jumped far
// ahead is believed when it has stayed there for as long as messages are kept:
// after a stop of months that only means that they are kept a little longer.
func (c *clockWatch) believe(s *Store, now time.Time) bool {
	newest := time.UnixMilli(s.checkpoint.get().physic)
	if t := s.storedTime.Load(); t > 0 {
		newest = time.UnixMilli(t) // the checkpoint's never falls, not after a wrong clock either
	}
	if c.seen.IsZero() {
		if c.seen = newest; newest.UnixMilli() == 0 {
			c.seen = now
		}
	}
	if c.doubt.IsZero() && now.Sub(c.seen) > maxClockStep {
		c.doubt = now
		s.happened(ClockWrong{Ahead: true, Now: now, Newest: c.seen})
	}
	if c.seen.Sub(now) > maxClockStep && !c.behind {
		c.behind = true
		s.happened(ClockWrong{Now: now, Newest: c.seen})
	}
	if c.doubt.IsZero() {
		if c.seen.Before(now) {
			c.seen = now
		}
		return true
	}
	if now.Sub(c.seen) <= maxClockStep || now.Sub(c.doubt) > s.cfg.Retention {
		c.seen, c.doubt = now, time.Time{} // set back, or right
	}
	return c.doubt.IsZero()
}

// checkDisk notes how full the disk is and reports whether old data should go.
// Between the two ratios a full disk stays full.
func (s *Store) checkDisk() (crowded bool) {
	space, err := s.fs.Space(s.cfg.Dir)
	if err != nil || space.Total <= 0 {
		s.happened(DiskUnknown{err})
		return false
	}
	used := 1 - float64(space.Free)/float64(space.Total)
	enough := space.Free >= s.cfg.DiskFreeBytes
	crowded = used > s.cfg.DiskCleanRatio && !enough
	was := DiskState(s.disk.Load())
	is, limit := DiskEnough, s.cfg.DiskCleanRatio
	switch {
	case crowded && (used > s.cfg.DiskFullRatio || was == DiskFull):
		is, limit = DiskFull, s.cfg.DiskFullRatio
	case crowded:
		is = DiskCrowded
	}
	if is != was {
		s.disk.Store(uint32(is))
		s.happened(DiskChanged{From: was, To: is, Used: used, Free: space.Free, Limit: limit})
	}
	return crowded
}
