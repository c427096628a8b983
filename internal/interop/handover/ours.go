package handover

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/storetool"
)

// The sizes of the folder: small, so that every kind of file has several.
const (
	segmentBytes = 1 << 20
	queueBytes   = 2000
	indexSlots   = 100
	indexEntries = 200
)

func toolSizes() storetool.Sizes {
	return storetool.Sizes{SegmentBytes: segmentBytes, QueueSegmentBytes: queueBytes, IndexSlots: indexSlots, IndexEntries: indexEntries}
}

const (
	plainTopic = "handover"
	halfTopic  = "RMQ_SYS_TRANS_HALF_TOPIC"
	queues     = 4
)

// longTopic has a name that only version 2 of the record can hold.
var longTopic = "%RETRY%" + strings.Repeat("g", 180)

func openOurs(folder string) (*store.Store, error) {
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes = folder, segmentBytes, queueBytes
	cfg.IndexSlots, cfg.IndexEntries, cfg.IndexCompatible = indexSlots, indexEntries, true
	cfg.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	return store.Open(cfg, store.Deps{})
}

// running is our store at work.
type running struct {
	*store.Store
	cancel context.CancelFunc
	done   chan error
}

func startOurs(ctx context.Context, folder string) (*running, error) {
	s, err := openOurs(folder)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{Store: s, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }() // awaited by close
	return r, nil
}

func (r *running) close() error {
	r.cancel()
	if err := <-r.done; err != nil {
		return err
	}
	return r.Store.Close()
}

// ours opens the folder, checks everything, appends messages of every kind and
// closes it cleanly.
func (l *ledger) ours(ctx context.Context, folder string, round int) (wrote int, err error) {
	s, err := startOurs(ctx, folder)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	if round == 0 {
		if err := makeTopics(s); err != nil {
			return 0, err
		}
	} else if _, err := l.find(ctx, s); err != nil {
		return 0, err
	}
	sent, err := l.append(ctx, s, round)
	if err != nil {
		return 0, err
	}
	_, end := s.CommitLogRange()
	for s.Dispatched() < end && ctx.Err() == nil {
		runtime.Gosched()
	}
	return sent, l.remember(s)
}

func makeTopics(s *running) error {
	for name, n := range map[string]int{plainTopic: queues, longTopic: 1, halfTopic: 1, message.ScheduleTopic: 18} {
		c := store.DefaultTopicConfig(name)
		c.ReadQueueNums, c.WriteQueueNums = n, n
		if err := s.PutTopic(c); err != nil {
			return err
		}
	}
	return s.PutGroup(store.DefaultGroupConfig(strings.TrimPrefix(longTopic, "%RETRY%"))) // whose topic that is
}

// append stores messages: plain and batched, of every kind of property, on hosts
// of both families, delayed, half, and some that roll the files.
func (l *ledger) append(ctx context.Context, s *running, round int) (int, error) {
	n := 0
	one := func(m message.Message) error {
		m.BornTimestamp = time.Now().UnixMilli()
		if !m.BornHost.IsValid() {
			m.BornHost = netip.MustParseAddrPort("10.1.2.3:40000")
		}
		n++
		_, err := s.Append(ctx, &m, store.DurabilityDefault)
		return err
	}
	key := func(i int) string { return fmt.Sprintf("k-%d-%d", round, i) }
	props := func(pairs ...string) []byte {
		p := message.AppendProperty(nil, message.KeyUniqueKey, fmt.Sprintf("%032X", round<<20|n))
		for i := 0; i+1 < len(pairs); i += 2 {
			p = message.AppendProperty(p, pairs[i], pairs[i+1])
		}
		return p
	}
	v6, v6store := netip.MustParseAddrPort("[2001:db8::1]:40000"), netip.MustParseAddrPort("[2001:db8::2]:10911")
	messages := []message.Message{
		{Topic: plainTopic, Body: []byte("plain"), Properties: props()},
		{Topic: plainTopic, Body: []byte("keys"), Properties: props("KEYS", key(1)+" "+key(2), "TAGS", "TagA")},
		{Topic: plainTopic, QueueID: 1, Flag: 7, Body: []byte("flag and tag"), Properties: props("TAGS", "标签😀")},
		{Topic: plainTopic, QueueID: 1, Body: nil, Properties: props("WAIT", "false")},
		{Topic: plainTopic, QueueID: 2, Body: []byte("no properties")},
		{Topic: plainTopic, QueueID: 2, Body: []byte("open end"), Properties: []byte("A\x01b")},
		{Topic: plainTopic, QueueID: 2, Body: []byte("long properties"), Properties: props("P", strings.Repeat("p", 32_000))},
		{Topic: plainTopic, QueueID: 3, Body: []byte("both hosts IPv6"), BornHost: v6, StoreHost: v6store, Properties: props("KEYS", key(3))},
		{Topic: plainTopic, QueueID: 3, Body: []byte("born on IPv6"), BornHost: v6, Properties: props()},
		{Topic: plainTopic, QueueID: 3, Body: []byte("compressed? no"), SysFlag: message.SysFlagMultiTags, ReconsumeTimes: 3, Properties: props("__SHARDINGKEY", "s")},
		{Topic: longTopic, Body: []byte("version 2"), Properties: props()},
		{Topic: message.ScheduleTopic, QueueID: 17, Body: []byte("in two hours"), Properties: props("DELAY", "18", "REAL_TOPIC", plainTopic, "REAL_QID", "0")},
		{Topic: halfTopic, Body: []byte("half"), Properties: props("TRAN_MSG", "true", "PGROUP", "p", "REAL_TOPIC", plainTopic, "REAL_QID", "0", "__transactionId__", "t")},
	}
	for _, m := range messages {
		if err := one(m); err != nil {
			return n, err
		}
	}
	var batch []*message.Message
	for i := range 10 {
		batch = append(batch, &message.Message{
			Topic: plainTopic, QueueID: 1, Body: fmt.Appendf(nil, "batch %d of round %d", i, round), BornTimestamp: time.Now().UnixMilli(),
			BornHost: netip.MustParseAddrPort("10.1.2.3:40000"), Properties: props("KEYS", key(100+i)),
		})
		n++
	}
	if _, err := s.AppendBatch(ctx, batch, store.DurabilityDefault); err != nil {
		return n, err
	}
	for i := range 8 { // over the end of a commit log file
		if err := one(message.Message{Topic: plainTopic, QueueID: int32(i % queues), Body: bytes.Repeat([]byte{'a' + byte(i)}, 200<<10), Properties: props()}); err != nil {
			return n, err
		}
	}
	for i := range 130 { // over the end of a queue file and of an index file
		if err := one(message.Message{Topic: plainTopic, QueueID: 0, Body: fmt.Appendf(nil, "small %d", i), Properties: props("KEYS", key(1000+i))}); err != nil {
			return n, err
		}
	}
	for _, i := range []int{1, 2, 3, 100, 1000, 1129} {
		l.keys[plainTopic+"#"+key(i)] = ""
	}
	return n, nil
}

// remember takes down all records of all queues.
func (l *ledger) remember(s *running) error {
	for name, c := range s.Topics() {
		for q := range int32(max(c.ReadQueueNums, c.WriteQueueNums)) {
			err := each(s, name, q, func(at place, rec []byte, m *message.Message) error {
				if _, theirs := l.bodies[at]; !theirs {
					l.records[at] = bytes.Clone(rec)
				}
				for word := range message.Words(m.Properties) {
					if _, ok := l.keys[name+"#"+string(word)]; ok {
						l.keys[name+"#"+string(word)] = string(m.Body)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// each visits the messages of a queue.
func each(s *running, topic string, queue int32, visit func(at place, rec []byte, m *message.Message) error) error {
	from, end := s.QueueOffsets(topic, queue)
	for at := from; at < end; {
		b, err := s.Read(topic, queue, at, store.ReadOptions{MaxMessages: 32})
		if err != nil {
			return err
		}
		if b.Status != store.ReadFound {
			return fmt.Errorf("%s queue %d offset %d: %v", topic, queue, at, b.Status)
		}
		for i, rec := range b.Records {
			m, err := message.Decode(rec)
			if err == nil && m.QueueOffset != at+int64(i) {
				err = fmt.Errorf("%s queue %d: offset %d where %d belongs", topic, queue, m.QueueOffset, at+int64(i))
			}
			if err == nil {
				err = visit(place{topic, queue, m.QueueOffset}, rec, &m)
			}
			if err != nil {
				b.Release()
				return err
			}
		}
		at = b.Next
		b.Release()
	}
	return nil
}

// find checks that everything of the ledger is in our store, by place and by
// key.
func (l *ledger) find(ctx context.Context, s *running) (int, error) {
	found := map[place]bool{}
	for _, q := range l.queues() {
		err := each(s, q.topic, q.queue, func(at place, rec []byte, m *message.Message) error {
			found[at] = true
			return l.check(at, rec, string(m.Body))
		})
		if err != nil {
			return 0, err
		}
		if _, end := s.QueueOffsets(q.topic, q.queue); end < q.offset {
			return 0, fmt.Errorf("%s queue %d ends at %d, it had %d", q.topic, q.queue, end, q.offset)
		}
	}
	n := 0
	for at := range l.records {
		if !found[at] {
			return 0, fmt.Errorf("%+v is missing", at)
		}
		n++
	}
	for at := range l.bodies {
		if !found[at] {
			return 0, fmt.Errorf("%+v, which RocketMQ acknowledged, is missing", at)
		}
		n++
	}
	for name, body := range l.keys {
		topic, key, _ := strings.Cut(name, "#")
		recs, err := s.FindByKey(ctx, store.KeyQuery{Topic: topic, Key: key, To: 1 << 60, Max: 10})
		if err != nil {
			return 0, err
		}
		if len(recs) != 1 {
			return 0, fmt.Errorf("key %s gives %d messages, want 1", key, len(recs))
		}
		if m, err := message.Decode(recs[0]); err != nil || string(m.Body) != body {
			return 0, fmt.Errorf("key %s gives %.60q, %v, want %.60q", key, m.Body, err, body)
		}
	}
	return n, nil
}

// takeBack opens the folder a last time and checks everything.
func (l *ledger) takeBack(ctx context.Context, folder string) (n int, err error) {
	s, err := startOurs(ctx, folder)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	return l.find(ctx, s)
}
