package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// ScheduleTopic parks delayed messages: queue n holds those of level n+1, in
// the order in which they become due.
const ScheduleTopic = message.ScheduleTopic

const scheduleFile = "delayOffset.json"

// schedule delivers messages that wait in ScheduleTopic. A parked message is
// an ordinary stored record, so it survives the process; after a crash those
// delivered since the last save are delivered once more.
type schedule struct {
	b      *Broker
	levels []time.Duration
	wake   chan struct{}

	// The records that wait longer than their level is long, one of each level,
	// and since when. Only run looks at them.
	odd []oddRecord

	mu      sync.Mutex
	offsets []int64 // next record of each level
	dirty   bool
}

// oddRecord is one whose store time is in the future, since the clock was wrong.
type oddRecord struct {
	offset int64
	since  time.Time // zero for none
}

type scheduleJSON struct {
	DataVersion store.DataVersion `json:"dataVersion"`
	OffsetTable map[string]int64  `json:"offsetTable"`
}

func loadSchedule(b *Broker) (*schedule, error) {
	s := &schedule{b: b, levels: store.DefaultConfig().DelayLevels, wake: make(chan struct{}, 1)}
	s.offsets, s.odd = make([]int64, len(s.levels)), make([]oddRecord, len(s.levels))
	data, err := b.store.LoadConfig(scheduleFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var saved scheduleJSON
	if err := wire.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("%s: %w", scheduleFile, err)
	}
	for level, offset := range saved.OffsetTable {
		if n, err := strconv.Atoi(level); err == nil && n >= 1 && n <= len(s.offsets) {
			s.offsets[n-1] = offset
		}
	}
	return s, nil
}

func (s *schedule) save() error {
	s.mu.Lock()
	if !s.dirty {
		s.mu.Unlock()
		return nil
	}
	s.dirty = false
	out := scheduleJSON{OffsetTable: map[string]int64{}}
	for i, offset := range s.offsets {
		if offset > 0 {
			out.OffsetTable[strconv.Itoa(i+1)] = offset
		}
	}
	s.mu.Unlock()
	data, err := json.Marshal(out)
	if err == nil {
		err = s.b.store.SaveConfig(scheduleFile, data)
	}
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return fmt.Errorf("save %s: %w", scheduleFile, err)
	}
	return nil
}

// put parks m for a delay level; levels over the last are the last.
func (s *schedule) put(ctx context.Context, m *message.Message, level int) error {
	_, err := s.putSent(ctx, m, level)
	return err
}

func (s *schedule) putSent(ctx context.Context, m *message.Message, level int) (Sent, error) {
	parked := *m
	if err := s.park(&parked, level); err != nil {
		// No room to say where it goes afterwards: better at once than never.
		return s.b.append(ctx, m)
	}
	return s.b.append(ctx, &parked)
}

// park turns m into a message of ScheduleTopic.
func (s *schedule) park(m *message.Message, level int) *Error {
	level = min(max(level, 1), len(s.levels))
	props := message.AppendPropertiesWithout(make([]byte, 0, len(m.Properties)+len(m.Topic)+64), m.Properties,
		message.KeyDelay, message.KeyRealTopic, message.KeyRealQueueID, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs,
		message.KeyTimerOutMs, message.KeyTimerDeleteKey)
	props = message.AppendProperty(props, message.KeyDelay, strconv.Itoa(level))
	return parkIn(m, props, ScheduleTopic, int32(level-1))
}

func (s *schedule) arrived(a store.Arrival) {
	if a.Topic != ScheduleTopic {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// retryDeliver is the pause after a delivery that failed.
const retryDeliver = time.Second

// noneWaits is how long to wait when nothing does: until an arrival.
const noneWaits = time.Hour

// run delivers what is due, then waits for the next due time or arrival.
func (s *schedule) run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-s.wake:
		}
		wait := noneWaits
		for i := range s.levels {
			w, err := s.deliver(ctx, i)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				s.b.log.Error("delayed message was not delivered; trying again", "level", i+1, "err", err)
				w = retryDeliver
			}
			wait = min(wait, w)
		}
		if wait < noneWaits {
			wait = min(wait, maxIdle) // the clock may be set
		}
		t.Reset(wait)
	}
}

// deliver sends the due messages of one level on and returns how long until
// its next one.
func (s *schedule) deliver(ctx context.Context, i int) (time.Duration, error) {
	for {
		s.mu.Lock()
		offset := s.offsets[i]
		s.mu.Unlock()
		batch, err := s.b.store.Read(ScheduleTopic, int32(i), offset, store.ReadOptions{})
		if err != nil {
			return 0, err
		}
		switch batch.Status {
		case store.ReadFound:
		case store.ReadNotFound, store.ReadNoQueue:
			batch.Release()
			return noneWaits, nil
		default:
			batch.Release()
			if err := s.correct(i, offset, batch); err != nil {
				return 0, err
			}
			continue
		}
		wait, err := s.deliverBatch(ctx, i, batch)
		batch.Release()
		if err != nil || wait > 0 {
			return wait, err
		}
	}
}

func (s *schedule) deliverBatch(ctx context.Context, i int, batch store.Batch) (time.Duration, error) {
	for _, rec := range batch.Records {
		m, err := message.Decode(rec)
		if err != nil {
			return 0, err
		}
		if wait := s.wait(i, &m); wait > 0 {
			return wait, nil
		}
		at := m.QueueOffset
		topic, ok := message.GetProperty(m.Properties, message.KeyRealTopic)
		if ok {
			queue, _ := message.GetProperty(m.Properties, message.KeyRealQueueID)
			n, _ := strconv.ParseInt(queue, 10, 32)
			m.Topic, m.QueueID = topic, int32(max(n, 0))
			m.Properties = charged(topic, m.Properties)
			if _, err := s.b.append(ctx, &m); err != nil {
				return 0, err
			}
		}
		s.moved(i, at+1)
	}
	return 0, nil
}

// wait is how long until a message of a level is due. Its store time may be in
// the future: then the clock was set back since, and it is due when it has
// waited its level from the moment that this was seen.
func (s *schedule) wait(i int, m *message.Message) time.Duration {
	now := s.b.now()
	wait := time.UnixMilli(m.StoreTimestamp).Add(s.levels[i]).Sub(now)
	if wait <= s.levels[i] {
		return wait
	}
	if o := &s.odd[i]; o.since.IsZero() || o.offset != m.QueueOffset || now.Before(o.since) {
		*o = oddRecord{m.QueueOffset, now}
	}
	return s.odd[i].since.Add(s.levels[i]).Sub(now)
}

// correct moves the place of a level whose queue has nothing there: to the
// begin of the queue when it was in front of that. From behind the end it goes
// back to what cannot have been delivered when the newest record was stored, so
// that what waits is not lost.
func (s *schedule) correct(i int, offset int64, batch store.Batch) error {
	next := batch.Next
	if batch.Status == store.ReadOffsetTooBig {
		since := s.b.store.NewestStoreTime() - s.levels[i].Milliseconds()
		var err error
		if next, err = s.b.store.OffsetByTime(ScheduleTopic, int32(i), since, store.BoundaryLower); err != nil {
			return err
		}
	}
	if batch.Status == store.ReadOffsetTooBig || batch.Status == store.ReadOffsetTooSmall {
		s.b.log.Warn("place of a delay level is outside of its queue and was corrected", "level", i+1, "offset", offset, "next", next)
	}
	s.moved(i, next)
	return nil
}

func (s *schedule) moved(i int, next int64) {
	s.mu.Lock()
	s.offsets[i] = next
	s.dirty = true
	s.mu.Unlock()
}
