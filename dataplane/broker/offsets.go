package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

const offsetsFile = "consumerOffset.json"

// groupTopic names the progress of one group in one topic. The text form on
// disk is "topic@group"; neither name can hold an '@'.
type groupTopic struct{ group, topic string }

// offsets is the table of consumer offsets: the next message that a group
// wants of a queue.
//
// Rule for commits of clients: an offset must be 0 to the queue's max, for a
// queue that exists; a move backwards is taken, because tools reset offsets
// that way, and logged.
type offsets struct {
	mu    sync.Mutex
	table map[groupTopic]map[int32]int64
	dirty bool
	count int64 // changes, for the version on disk
}

type offsetsJSON struct {
	DataVersion store.DataVersion           `json:"dataVersion"`
	OffsetTable map[string]map[string]int64 `json:"offsetTable"`
}

// loadOffsets reads the saved table and brings offsets that are ahead of the
// log back to its end: after a power cut the log may have lost its tail, and a
// group that waits beyond the end would miss what is stored there next.
func loadOffsets(b *Broker) (*offsets, error) {
	o := &offsets{table: map[groupTopic]map[int32]int64{}}
	data, err := b.store.LoadConfig(offsetsFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	var saved offsetsJSON
	if err := wire.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("%s: %w", offsetsFile, err)
	}
	o.count = saved.DataVersion.Counter
	for name, queues := range saved.OffsetTable {
		topic, group, ok := strings.Cut(name, "@")
		if !ok {
			continue
		}
		m := make(map[int32]int64, len(queues))
		for q, offset := range queues {
			id, err := strconv.ParseInt(q, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: queue id %q of %s", offsetsFile, q, name)
			}
			if offset < 0 {
				continue // never a place; the group begins as a new one
			}
			if _, top := b.store.QueueOffsets(topic, int32(id)); offset > top {
				b.log.Warn("consumer offset was ahead of the log and is corrected", "topic", topic, "group", group, "queue", id, "offset", offset, "corrected", top)
				offset = top
				o.dirty = true
			}
			m[int32(id)] = offset
		}
		o.table[groupTopic{group, topic}] = m
	}
	return o, nil
}

// save writes the table if it changed. The copy is made under the lock, the
// file is written outside of it.
func (o *offsets) save(s Store) error {
	o.mu.Lock()
	if !o.dirty {
		o.mu.Unlock()
		return nil
	}
	o.dirty = false
	out := offsetsJSON{OffsetTable: make(map[string]map[string]int64, len(o.table))}
	out.DataVersion.Counter = o.count
	for key, queues := range o.table {
		m := make(map[string]int64, len(queues))
		for q, offset := range queues {
			m[strconv.Itoa(int(q))] = offset
		}
		out.OffsetTable[key.topic+"@"+key.group] = m
	}
	o.mu.Unlock()
	data, err := json.Marshal(out)
	if err == nil {
		err = s.SaveConfig(offsetsFile, data)
	}
	if err != nil {
		o.mu.Lock()
		o.dirty = true
		o.mu.Unlock()
		return fmt.Errorf("save %s: %w", offsetsFile, err)
	}
	return nil
}

func (o *offsets) get(group, topic string, queueID int32) (int64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	offset, ok := o.table[groupTopic{group, topic}][queueID]
	return offset, ok
}

// set stores an offset and returns the one before, -1 if there was none.
func (o *offsets) set(group, topic string, queueID int32, offset int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := groupTopic{group, topic}
	queues := o.table[key]
	if queues == nil {
		queues = map[int32]int64{}
		o.table[key] = queues
	}
	old, ok := queues[queueID]
	if !ok {
		old = -1
	}
	if old != offset {
		queues[queueID] = offset
		o.dirty = true
		o.count++
	}
	return old
}

// drop forgets what keep does not want.
func (o *offsets) drop(keep func(groupTopic) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.table {
		if !keep(key) {
			delete(o.table, key)
			o.dirty = true
			o.count++
		}
	}
}

func (o *offsets) topicsOf(group string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for key := range o.table {
		if key.group == group {
			out = append(out, key.topic)
		}
	}
	return out
}

// CommitOffset stores the next message that the group wants of a queue. After
// a reset, commits of consumers that have not heard of it yet do not count.
func (b *Broker) CommitOffset(group, topic string, queueID int32, offset int64) error {
	if _, ok := b.store.Group(group); !ok {
		return groupNotFound(group)
	}
	t, ok := b.store.Topic(topic)
	if !ok {
		return topicNotFound(topic)
	}
	if err := checkQueue(t, queueID); err != nil {
		return err
	}
	if offset < 0 {
		return fail(CodeInvalidParameter, "offset %d is negative", offset)
	}
	if _, top := b.store.QueueOffsets(topic, queueID); offset > top {
		return &Error{Code: CodeInvalidParameter, Text: "offset " + strconv.FormatInt(offset, 10) + " is beyond the end of the queue", Limit: strconv.FormatInt(top, 10)}
	}
	key := resetKey{groupTopic{group, topic}, queueID}
	if b.resets.refuse(key) {
		return nil // it is from before
	}
	if old := b.offsets.set(group, topic, queueID, offset); old > offset {
		b.log.Info("consumer offset moved back", "topic", topic, "group", group, "queue", queueID, "from", old, "to", offset)
	}
	if to, reset := b.resets.get(key); reset { // between the two
		b.offsets.set(group, topic, queueID, to)
	}
	return nil
}

// Offset returns the group's stored offset for a queue. Without one, found is
// true with the beginning of the queue when a new group starts there, unless
// exact asks for stored offsets only; and false when the client's own rule
// applies.
func (b *Broker) Offset(group, topic string, queueID int32, exact bool) (offset int64, found bool, err error) {
	if _, ok := b.store.Group(group); !ok {
		return 0, false, groupNotFound(group)
	}
	t, ok := b.store.Topic(topic)
	if !ok {
		return 0, false, topicNotFound(topic)
	}
	if err := checkQueue(t, queueID); err != nil {
		return 0, false, err
	}
	low, top := b.store.QueueOffsets(topic, queueID)
	if offset, ok := b.offsets.get(group, topic, queueID); ok {
		return min(offset, top), true, nil
	}
	if !exact && b.startsAtZero(topic, queueID, low, top) {
		return 0, true, nil
	}
	return 0, false, nil
}

// startsAtZero says whether a new group begins at offset 0: on a queue that is
// empty and was never cleaned, so that nothing that lands before the first
// pull is skipped; on a retry topic; and on a queue that is young.
func (b *Broker) startsAtZero(topic string, queueID int32, low, top int64) bool {
	if low > 0 {
		return false
	}
	if top == 0 || strings.HasPrefix(topic, RetryPrefix) {
		return true
	}
	ms, ok := b.store.StoreTimeAt(topic, queueID, 0)
	return ok && b.now().UnixMilli()-ms < b.cfg.YoungQueue.Milliseconds()
}
