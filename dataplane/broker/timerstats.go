package broker

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// Why a parked message was not stored in its topic, as TimerStats.Dropped says
// it.
const (
	dropCancelled = "cancelled" // it was taken back
	dropKnown     = "known"     // it had been delivered before a crash
	dropTopic     = "topic"     // its topic was deleted
	dropLost      = "lost"      // its record is gone from the commit log, or another one is in its place
	dropRefused   = "refused"   // the store will never take it
	dropIllegal   = "illegal"   // it has no time or no topic
)

// lateMs is from when on a delivery counts as late.
const lateMs = 100

// TimerStats tells of the messages that wait for a time of their own.
type TimerStats struct {
	Pending   int64     // that wait; those taken back count until their time
	NextDue   time.Time // when there is something to do; zero when nothing waits
	Delivered int64     // since the start, as what follows
	Late      int64     // of these, more than 100 ms behind their time
	Rolled    int64     // written again, since they wait longer than the window
	Retried   int64     // deliveries that failed and are tried again
	Dropped   map[string]int64
}

// TimerTopicStats tells of the messages that wait for one topic.
type TimerTopicStats struct {
	Pending int64
	NextDue time.Time // zero when nothing waits
}

// timerTally counts. Topics are told apart by their Java hash, as in the units.
type timerTally struct {
	next                             atomic.Int64 // when there is something to do, ms; 0 for never
	delivered, late, rolled, retries atomic.Int64

	mu      sync.Mutex
	pending map[int32]int64
	total   int64
	dropped map[string]int64
}

func (y *timerTally) init() {
	y.dropped = map[string]int64{dropCancelled: 0, dropKnown: 0, dropTopic: 0, dropLost: 0, dropRefused: 0, dropIllegal: 0}
	y.reset()
}

// reset forgets what waits.
func (y *timerTally) reset() {
	y.mu.Lock()
	y.pending, y.total = map[int32]int64{}, 0
	y.mu.Unlock()
}

func (y *timerTally) add(hash int32, n int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.total += n
	if y.pending[hash] += n; y.pending[hash] == 0 {
		delete(y.pending, hash)
	}
}

func (y *timerTally) drop(why string) {
	y.mu.Lock()
	y.dropped[why]++
	y.mu.Unlock()
}

func (y *timerTally) deliveredAt(wanted, now int64) {
	y.delivered.Add(1)
	if wanted > 0 && now-wanted > lateMs {
		y.late.Add(1)
	}
}

// TimerStats returns the counts of now.
func (b *Broker) TimerStats() TimerStats {
	y := &b.timers.tally
	out := TimerStats{Delivered: y.delivered.Load(), Late: y.late.Load(), Rolled: y.rolled.Load(), Retried: y.retries.Load()}
	if next := y.next.Load(); next > 0 {
		out.NextDue = time.UnixMilli(next)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	out.Pending, out.Dropped = y.total, maps.Clone(y.dropped)
	return out
}

// TimerTopics returns how much waits for each of the given topics, and until
// when. Two topics whose names have the same Java hash are counted together. It
// goes through everything that waits, about a second for ten million messages,
// while deliveries stand still for a part of it at a time.
func (b *Broker) TimerTopics(topics []string) (map[string]TimerTopicStats, error) {
	t := b.timers
	due := map[int32]int64{}
	from := int64(0)
	for ok := true; ok; {
		var err error
		if from, ok, err = t.dueTimes(from, due); err != nil {
			return nil, err
		}
	}
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	out := make(map[string]TimerTopicStats, len(topics))
	for _, topic := range topics {
		hash := message.StringHash(topic)
		if n := t.tally.pending[hash]; n > 0 {
			s := TimerTopicStats{Pending: n}
			if at := due[hash]; at > 0 {
				s.NextDue = time.UnixMilli(at)
			}
			out[topic] = s
		}
	}
	return out, nil
}

// dueTimes lowers due to the times of what waits in a part of the slots, from
// the slot at a time on, and returns where the next part begins; false at the
// end.
func (t *timers) dueTimes(from int64, due map[int32]int64) (next int64, more bool, err error) {
	const part = 10_000 // units
	t.turn.Lock()
	defer t.turn.Unlock()
	if !t.files {
		return 0, false, nil
	}
	lower := func(hash int32, at int64) {
		if was := due[hash]; was == 0 || at < was {
			due[hash] = at
		}
	}
	if from < t.read {
		for _, e := range t.slot.heap {
			if e.magic&timerlog.MagicDelete == 0 {
				lower(e.hash, e.at)
			}
		}
		from = t.read
		if t.slot.loaded && !t.slot.more {
			from += timerStep
		}
	}
	for n := 0; n < part; {
		at, ok := t.nextSlot(from)
		if !ok || at >= t.read+timerTurn*timerStep || at < from {
			return 0, false, nil
		}
		s, ok, err := t.wheel.Slot(at)
		if err != nil {
			return 0, false, err
		}
		if ok {
			err = timerlog.Chain(t.log, t.wheel, s, func(_ int64, u timerlog.Unit) error {
				n++
				if u.Magic&timerlog.MagicDelete == 0 {
					wanted := u.Wanted
					if wanted == 0 {
						wanted = u.Due() + timerStep
					}
					lower(u.TopicHash, wanted)
				}
				return nil
			})
			if err != nil {
				return 0, false, err
			}
		}
		n++
		from = at + timerStep
	}
	return from, true, nil
}
